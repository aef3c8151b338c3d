"""Write `kafka/`: broker directories that a real Apache Kafka 4.1.1 wrote, checked in.

    .venv/bin/python -m tests.golden.make_kafka_logs SCRATCH

Needs a JDK of 17 or later, and Kafka's jars as `tools/kafka_jars.py` finds them. Starts a KRaft
broker on loopback in the folder SCRATCH, which must not exist, lets Kafka's Java client write what
`MakeKafkaLogs.java` says, and copies

    clean/      the broker's directory after an orderly stop
    unclean/    one partition after a kill -9, its last batch cut short afterwards
    recovered/  the same partition after that broker has started again and stopped in order
    uncleaned/  the compacted partition before the cleaner had been over it, a restart earlier
    dumps/      what Kafka's own dump tool says of each file of these, for the tests to compare with

Internal topics and what has no records in it are left out. The bytes differ from run to run (times,
ids); run it again only to add cases.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from pylog.clock import SYSTEM_CLOCK
from tools.kafka_jars import libs

FOLDER: Final = Path(__file__).parent / "kafka"
SOURCE: Final = Path(__file__).parent / "MakeKafkaLogs.java"
CLUSTER_ID: Final = "cGdsb2dHb2xkZW5Mb2dzLg"
START_S: Final = 60
UNCLEAN: Final = "unclean-0"
COMPACTED: Final = "compacted-0"
CUT_BYTES: Final = 10

CONFIG: Final = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
controller.listener.names=CONTROLLER
log.dirs={data}
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.ms=-1
log.retention.check.interval.ms=500
log.cleaner.backoff.ms=100
log.cleaner.threads=1
log.cleaner.enable={cleaner}
log.segment.delete.delay.ms=0
log.initial.task.delay.ms=100
log.flush.offset.checkpoint.interval.ms=500
log.flush.start.offset.checkpoint.interval.ms=500
replica.high.watermark.checkpoint.interval.ms=500
"""


class Broker:
    """One Kafka broker in `scratch`, started and ended as often as the script wants."""

    def __init__(self, scratch: Path, classpath: str, *, source: Path = SOURCE) -> None:
        """`source`: the Java program that writes the records."""
        self.data = scratch / "data"
        self._classpath = classpath
        self._source = source
        self._scratch = scratch
        self.port, self._controller = _free_ports(2)
        self._config = scratch / "server.properties"
        self._configure()
        self._java(
            "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(self._config)
        )  # fmt: skip

    def _configure(self, *, cleaner: bool = True) -> None:
        text = CONFIG.format(
            port=self.port,
            controller=self._controller,
            data=self.data,
            cleaner=str(cleaner).lower(),
        )
        self._config.write_text(text, encoding="utf-8")

    @contextlib.contextmanager
    def running(
        self, *, end: signal.Signals = signal.SIGTERM, cleaner: bool = True
    ) -> Iterator[None]:
        """The broker takes requests inside, and ends by that signal."""
        self._configure(cleaner=cleaner)
        command = ["java", "-Xmx512m", "-cp", self._classpath, "kafka.Kafka", str(self._config)]
        with (self._scratch / "broker.log").open("ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            self._await_port(process)
            yield
        finally:
            process.send_signal(end)
            process.wait(START_S)

    def write(self, part: str) -> None:
        """Have the Java program write one part of the records."""
        self._java(str(self._source), f"127.0.0.1:{self.port}", part)

    def dump(self, *arguments: str) -> str:
        """The output of Kafka's dump tool."""
        return self._java("kafka.tools.DumpLogSegments", *arguments)

    def _java(self, *arguments: str) -> str:
        command = ["java", "-cp", self._classpath, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        if done.returncode:
            sys.exit(f"{' '.join(arguments)}: {done.stdout[-3000:]} {done.stderr[-3000:]}")
        return done.stdout

    def _await_port(self, process: subprocess.Popen[bytes]) -> None:
        def listens() -> bool:
            if process.poll() is not None:
                sys.exit(f"the broker ended with {process.returncode}; see {self._scratch}")
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return True
            return False

        await_true(listens, "the broker's port")


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def await_true(condition: Callable[[], bool], what: str) -> None:
    """Until the condition holds; ends the script when that takes too long."""
    deadline = SYSTEM_CLOCK.monotonic_ms() + START_S * 1000
    while not condition():
        if SYSTEM_CLOCK.monotonic_ms() > deadline:
            sys.exit(f"{what}: not within {START_S} s")
        SYSTEM_CLOCK.sleep(0.2)


def _cleaned(broker: Broker) -> bool:
    """Whether the cleaner has been over all of `compacted-0` but its active segment."""
    checkpoint = broker.data / "cleaner-offset-checkpoint"
    active = max(int(path.stem) for path in (broker.data / "compacted-0").glob("*.log"))
    wanted = f"compacted 0 {active}"
    leftovers = list((broker.data / "compacted-0").glob("*.deleted"))
    return checkpoint.exists() and wanted in checkpoint.read_text() and not leftovers


def _started(broker: Broker, topic: str, offset: int) -> bool:
    checkpoint = broker.data / "log-start-offset-checkpoint"
    first = min(int(path.stem) for path in (broker.data / f"{topic}-0").glob("*.log"))
    return first > 0 and checkpoint.exists() and f"{topic} 0 {offset}" in checkpoint.read_text()


def _copy(source: Path, target: Path, *, only: str | None = None) -> None:
    """The directory without locks, internal topics and empty files of no meaning."""
    target.mkdir(parents=True)
    for path in sorted(source.iterdir()):
        if path.is_file() and path.name != ".lock" and not path.name.startswith("bootstrap"):
            shutil.copyfile(path, target / path.name)
        elif path.is_dir() and not path.name.startswith("__") and only in (None, path.name):
            shutil.copytree(path, target / path.name)


def _digest(payload: re.Match[str]) -> str:
    digest = hashlib.sha256(payload[0].encode()).hexdigest()[:16]
    return f"<{len(payload[0])} bytes, sha256 {digest}>"


def _dump_all(broker: Broker, folder: Path, target: Path) -> None:
    target.mkdir(parents=True)
    for partition in sorted(path for path in folder.iterdir() if path.is_dir()):
        files = sorted(
            str(path)
            for path in partition.iterdir()
            if path.suffix in (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
        )
        printed = broker.dump("--files", ",".join(files), "--deep-iteration", "--print-data-log")
        printed = printed.replace(f"{partition}/", "")
        printed = printed.replace(" headerKeys: []", "")
        printed = re.sub(r"(?<=payload: ).{81,}", _digest, printed)
        (target / f"{partition.name}.txt").write_text(printed, encoding="utf-8")


def main(scratch: Path) -> None:
    """See the head of this file."""
    scratch.mkdir(parents=True)
    broker = Broker(scratch, f"{libs()}/*")
    with broker.running(cleaner=False):
        broker.write("first")
    uncleaned = scratch / "uncleaned"
    _copy(broker.data, uncleaned, only=COMPACTED)
    with broker.running():
        broker.write("second")
        await_true(lambda: _cleaned(broker), "the cleaner")
        await_true(lambda: _started(broker, "deleted", 160), "the log start checkpoint")
    shutil.rmtree(FOLDER, ignore_errors=True)
    _copy(uncleaned, FOLDER / "uncleaned", only=COMPACTED)
    _copy(broker.data, FOLDER / "clean")
    shutil.rmtree(FOLDER / "clean" / UNCLEAN)
    with broker.running(end=signal.SIGKILL):
        broker.write("third")
    last = max((broker.data / UNCLEAN).glob("*.log"))
    with last.open("r+b") as file:
        file.truncate(last.stat().st_size - CUT_BYTES)
    _copy(broker.data, FOLDER / "unclean", only=UNCLEAN)
    with broker.running():
        pass
    _copy(broker.data, FOLDER / "recovered", only=UNCLEAN)
    for name in ("clean", "recovered"):
        _dump_all(broker, FOLDER / name, FOLDER / "dumps" / name)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
