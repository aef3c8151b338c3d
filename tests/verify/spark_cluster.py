"""A pylog cluster under a real spark-submit, and the ways to hurt it.

Processes are found by walking down from the spark-submit that was started here, never by name
alone.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from pylog.clock import SYSTEM_CLOCK

ROOT = Path(__file__).resolve().parents[2]
READY = re.compile(r"^pylog ready: cluster=(\S+) brokers=(\d+) bootstrap=(\S+)")


def process_table() -> dict[int, tuple[int, str]]:
    """Parent and command line of every process that still runs."""
    table = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            # Other processes run beside us: names and arguments need not be UTF-8.
            stat = (entry / "stat").read_text(errors="replace")
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue
        state, parent = stat.rpartition(")")[2].split()[:2]
        if state != "Z":
            table[int(entry.name)] = (int(parent), command)
    return table


def descendants(root: int) -> Iterator[tuple[int, int, str]]:
    """(pid, parent, command) of everything below `root`."""
    table = process_table()
    children: dict[int, list[int]] = {}
    for pid, (parent, _) in table.items():
        children.setdefault(parent, []).append(pid)
    waiting = [root]
    while waiting:
        parent = waiting.pop()
        for pid in children.get(parent, []):
            yield pid, parent, table[pid][1]
            waiting.append(pid)


def alive(pid: int) -> bool:
    """Whether the process runs (a zombie does not)."""
    return pid in process_table()


def default_sigint() -> None:
    """For a child process: Ctrl-C as in a terminal."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class SparkCluster:
    """`spark-submit broker_app.py` with a data directory of its own."""

    def __init__(
        self,
        data_dir: Path,
        *,
        port: int,
        conf: dict[str, str] | None = None,
        properties: str = "local.conf",
        secret: str = "",
    ) -> None:
        """`secret`: of Spark's own RPC, in a copy of the properties that nobody else can read."""
        self.data_dir, self.port = data_dir, port
        self._properties = ROOT / "spark-conf" / properties
        if secret:
            shipped = self._properties.read_text()
            self._properties = data_dir.with_suffix(".conf")
            self._properties.touch(0o600)
            self._properties.write_text(f"{shipped}\nspark.authenticate.secret {secret}\n")
        self._log = data_dir.parent / f"{data_dir.name}-spark.log"
        self.bootstrap = f"127.0.0.1:{port}"
        self._conf = conf or {}
        self._process: subprocess.Popen[str] | None = None
        self._ready = threading.Event()
        self.output: list[str] = []
        self.cluster_id = ""

    @property
    def process(self) -> subprocess.Popen[str]:
        assert self._process is not None
        return self._process

    @property
    def running(self) -> bool:
        """Whether spark-submit was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def start(self, *, timeout: float = 90, wait: bool = True) -> None:
        """Submit, and wait for the line that says ready."""
        settings = {
            "spark.pylog.data.dir": str(self.data_dir),
            "spark.pylog.listen": self.bootstrap,
            **self._conf,
        }
        command = [str(Path(sys.executable).parent / "spark-submit")]
        command += ["--properties-file", str(self._properties)]
        for key, value in settings.items():
            command += ["--conf", f"{key}={value}"]
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
        environment["PYSPARK_DRIVER_PYTHON"] = sys.executable
        self._ready.clear()
        log = self._log.open("a")
        self._process = subprocess.Popen(
            [*command, str(ROOT / "broker_app.py")],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
            # Tests may run in a script's background, where SIGINT is ignored and inherited so.
            preexec_fn=default_sigint,
        )
        log.close()
        threading.Thread(target=self._read, args=(self._process,), daemon=True).start()
        deadline = SYSTEM_CLOCK.monotonic_ms() + timeout * 1000
        while wait and not self._ready.wait(0.2):
            ended = self._process.poll() is not None
            assert not ended, f"spark-submit ended: {self._log_tail()}"
            in_time = SYSTEM_CLOCK.monotonic_ms() < deadline
            assert in_time, f"not ready within {timeout} s: {self._log_tail()}"

    def log(self) -> str:
        """The text on standard error so far, of all processes that were started."""
        return self._log.read_text(errors="replace")

    def _log_tail(self) -> str:
        return self.log()[-3000:]

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                self.output.append(line)
                match = READY.match(line)
                if match:
                    self.cluster_id = match[1]
                    self._ready.set()

    # ---- who is who ----------------------------------------------------------------------------

    @property
    def jvm(self) -> int:
        """The driver's JVM, which is what spark-submit becomes."""
        return self.process.pid

    def python_driver(self) -> int:
        """The Python half of the driver."""
        return next(
            pid
            for pid, parent, command in descendants(self.jvm)
            if parent == self.jvm and "broker_app.py" in command
        )

    def executors(self) -> list[int]:
        """The executors' JVMs."""
        return sorted(
            pid
            for pid, _, command in descendants(self.jvm)
            if "CoarseGrainedExecutorBackend" in command
        )

    def daemons(self) -> list[int]:
        """The pyspark daemons, one per executor."""
        executors = set(self.executors())
        return sorted(
            pid
            for pid, parent, command in descendants(self.jvm)
            if parent in executors and "pyspark.daemon" in command
        )

    def workers(self) -> list[int]:
        """The Python workers: the brokers themselves."""
        daemons = set(self.daemons())
        return sorted(pid for pid, parent, _ in descendants(self.jvm) if parent in daemons)

    def worker_of(self, broker_id: int) -> int:
        """The worker that holds broker `broker_id`'s directory lock."""
        lock = (self.data_dir / f"broker-{broker_id}" / ".lock").stat().st_ino
        for line in Path("/proc/locks").read_text().splitlines():
            fields = line.split()
            if "->" not in fields and fields[1] == "FLOCK" and fields[5].endswith(f":{lock}"):
                return int(fields[4])
        raise LookupError(f"nobody holds the lock of broker {broker_id}")

    def parent_of(self, pid: int) -> int:
        """The process that started `pid`."""
        return process_table()[pid][0]

    # ---- what can happen to them -----------------------------------------------------------------

    def terminate(self, timeout: float = 30) -> int:
        """Orderly stop; the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.wait_gone(timeout)

    def wait_gone(self, timeout: float = 30) -> int:
        """Wait until spark-submit has ended; its exit status."""
        return self.process.wait(timeout)

    def close(self) -> None:
        """End whatever is left of it."""
        if self._process is None:
            return
        left = [pid for pid, _, _ in descendants(self.jvm)]
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        deadline = SYSTEM_CLOCK.monotonic_ms() + 10_000
        while any(alive(pid) for pid in left) and SYSTEM_CLOCK.monotonic_ms() < deadline:
            SYSTEM_CLOCK.sleep(0.1)
        for pid in left:
            if alive(pid):
                os.kill(pid, signal.SIGKILL)
