"""Clocks that jump under load: `python -m tests.verify.clock_jumps [--jumps N] [--seed S]`.

Three brokers and a controller run under libfaketime (Debian's package `faketime`), each with a wall
clock of its own; the monotonic clocks go on as they are, as when an administrator or NTP sets a
clock. One clock at a time is set, by a second, an hour or ten days, forward or back, or to and fro.
Meanwhile a producer and members of two groups are at work, and each jump falls into an open
transaction.

A jump must elect nobody, take no member from its group, abort no transaction, delete no segment
before its time by a clock that was right, and forget neither the positions of groups nor the
transactional ids that are idle. At the end nothing is lost, doubled or out of order.

Records may lie as far in the future as they like: by a clock that is ten days slow they do, and
`message.timestamp.after.max.ms` has a broker refuse them, as in Kafka.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pylog import Consumer, LocalCluster, NewTopic, Producer, TopicPartition
from pylog.clock import SYSTEM_CLOCK
from pylog.errors import PylogError
from tests.fakes.waiting import eventually
from tests.verify.load import Verdict
from tests.verify.loaded_topic import BROKERS, PARTITIONS, TOPIC, LoadedTopic, replica_of

ROOT: Final = Path(__file__).resolve().parents[2]
LIBRARY: Final = "faketime/libfaketimeMT.so.1"
CONTROLLER: Final = 0
"""Stands for the controller where others are brokers' ids."""
RATE: Final = 300
HOLD_S: Final = 2.5
"""A clock stands so long before the jump is judged: retention and expiry have looked by then."""
HOUR_S: Final = 3_600
DAY_S: Final = 24 * HOUR_S
OFFSET_S_MAX: Final = 15 * DAY_S
STROBE: Final = 0
"""Stands for an hour forward and back, again and again."""
JUMPS_S: Final = (1, -1, HOUR_S, -HOUR_S, 10 * DAY_S, -10 * DAY_S, STROBE)
STROBES: Final = 2
STROBE_S: Final = 1.2
"""libfaketime reads its file every second."""
TRANSFERS: Final = "transfers"
IDLE: Final = tuple(f"idle-{n}" for n in range(6))
"""Idle groups and transactional ids: enough for each broker to coordinate some."""
RETENTION_MS: Final = 30 * 60_000
_CONFIG: Final = {
    "min.insync.replicas": "2",
    "log.initial.task.delay.ms": "0",
    "log.retention.check.interval.ms": "500",
    "log.message.timestamp.after.max.ms": str((1 << 63) - 1),
    "offsets.topic.num.partitions": "6",
    "offsets.retention.check.interval.ms": "500",
    "transaction.state.log.num.partitions": "6",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "500",
}
_TOPIC_CONFIG: Final = {
    "retention.ms": str(RETENTION_MS),
    "segment.bytes": str(32 * 1024),
    "file.delete.delay.ms": "0",
}


def library() -> str | None:
    """The path of libfaketime; None where it is not installed."""
    places = (Path("/usr/lib"), Path("/usr/lib64"), Path("/usr/local/lib"))
    found = [path for place in places for path in (place / LIBRARY, *place.glob(f"*/{LIBRARY}"))]
    return next((str(path) for path in found if path.exists()), None)


class WallClock:
    """The wall clock of one process: so many seconds from the true one."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.offset_s = 0
        self.set(0)

    def set(self, offset_s: int) -> None:
        """From now on."""
        self.offset_s = offset_s
        written = self.file.with_suffix(".new")
        written.write_text(f"{offset_s:+d}\n")
        written.rename(self.file)


class FakedCluster(LocalCluster):
    """A cluster whose processes have wall clocks of their own."""

    def __init__(self, folder: Path, faketime: str) -> None:
        self._clocks_folder = folder / "clocks"
        self._clocks_folder.mkdir(parents=True)
        self._faketime = faketime
        self._clock_of: dict[Any, WallClock] = {}
        super().__init__(len(BROKERS), folder, _CONFIG)

    def clock(self, whose: int) -> WallClock:
        """Of a broker, or the controller's."""
        return self._clock_of[self._head if whose == CONTROLLER else self._nodes[whose]]

    def _spawn_head(self) -> Any:
        return self._faked(super()._spawn_head)

    def _spawn_node(self, broker: int, ports: tuple[int, int, int]) -> Any:
        return self._faked(lambda: super(FakedCluster, self)._spawn_node(broker, ports))

    def _faked(self, spawn: Callable[[], Any]) -> Any:
        clock = WallClock(self._clocks_folder / str(len(self._clock_of)))
        variables = {
            "LD_PRELOAD": self._faketime,
            "FAKETIME_TIMESTAMP_FILE": str(clock.file),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
            "PYTHONPATH": os.pathsep.join(
                [str(ROOT / "tests" / "fakes" / "faked_time"), os.environ.get("PYTHONPATH", "")]
            ),
        }
        with _variables(variables):
            process = spawn()
        self._clock_of[process] = clock
        return process


@contextmanager
def _variables(given: dict[str, str]) -> Iterator[None]:
    """For processes that are started meanwhile."""
    before = dict(os.environ)
    os.environ.update(given)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


class Member:
    """A member that is alone in its group, on a thread of its own; its times are those by default,
    so that no busy machine puts it out.
    """

    def __init__(self, bootstrap: str, protocol: str) -> None:
        self.group = f"members-{protocol}"
        self.assignments = 0
        self._ends = threading.Event()
        self._consumer = Consumer(
            bootstrap_servers=bootstrap, group_id=self.group, group_protocol=protocol
        )
        self._consumer.subscribe(TOPIC, listener=self)
        self._thread = threading.Thread(target=self._run, name=self.group)
        self._thread.start()

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """It was given partitions, for the first time or again."""
        self.assignments += 1

    def _run(self) -> None:
        with self._consumer as consumer:
            while not self._ends.is_set():
                consumer.poll(0.1)

    def close(self) -> None:
        """It leaves its group."""
        self._ends.set()
        self._thread.join()


@dataclass
class Findings:
    """The figures of a run."""

    jumps: int = 0
    elections: int = 0
    expired: int = 0
    deleted: int = 0
    wrong: list[str] = field(default_factory=list)
    verdict: Verdict = field(default_factory=Verdict)


class Trial:
    """The cluster, those who work with it, and its clocks."""

    def __init__(self, cluster: FakedCluster, loaded: LoadedTopic, stack: ExitStack) -> None:
        self._cluster, self._loaded = cluster, loaded
        self.findings = Findings()
        loaded.admin.create_topics(NewTopic(TRANSFERS, 1, len(BROKERS)))
        for name in IDLE:
            loaded.admin.alter_group_offsets(name, {TopicPartition(TOPIC, 0): 1})
            with Producer(bootstrap_servers=loaded.servers, transactional_id=name) as producer:
                producer.init_transactions()
        self._producer = stack.enter_context(
            Producer(bootstrap_servers=loaded.servers, transactional_id="transfers")
        )
        self._producer.init_transactions()
        self._members = [Member(loaded.servers, kind) for kind in ("consumer", "classic")]
        for member in self._members:
            stack.callback(member.close)
        eventually(60, lambda: all(m.assignments for m in self._members), "members with partitions")
        loaded.heal()
        # A jump tells nothing as long as there is nothing that it could delete.
        eventually(60, lambda: all(s > 1 for s in self._segments().values()), "full segments")
        self._leads, self._lives = loaded.leads(), self._epochs()
        self._generations = [member.assignments for member in self._members]

    def jump(self, whose: int, by_s: int) -> None:
        """Set a clock, and look what that does."""
        name = "the controller" if whose == CONTROLLER else f"broker {whose}"
        clock = self._cluster.clock(whose)
        to_s = clock.offset_s + by_s
        before = self._firsts()
        self._producer.begin_transaction()
        self._producer.send(TRANSFERS, b"taken").result(30)
        if by_s == STROBE:
            for _ in range(STROBES):
                clock.set(clock.offset_s + HOUR_S)
                SYSTEM_CLOCK.sleep(STROBE_S)
                clock.set(clock.offset_s - HOUR_S)
                SYSTEM_CLOCK.sleep(STROBE_S)
            what = f"{name}: an hour to and fro {STROBES} times"
        else:
            clock.set(0 if abs(to_s) > OFFSET_S_MAX else to_s)
            what = f"{name}: by {by_s:+d} s, now {clock.offset_s:+d} s"
        self.findings.jumps += 1
        jumped_ms = SYSTEM_CLOCK.monotonic_ms()
        eventually(30, lambda: self._loaded.written_since(jumped_ms), f"{what}: acknowledgements")
        SYSTEM_CLOCK.sleep(HOLD_S)
        wrong = self._transfer() + self._changes(before)
        print("\n    BROKEN: ".join([what, *wrong]), flush=True)
        self.findings.wrong += [f"{what}: {each}" for each in wrong]

    def _transfer(self) -> list[str]:
        """End the transaction that was open."""
        try:
            self._producer.send(TRANSFERS, b"given").result(30)
            self._producer.commit_transaction()
        except PylogError as error:
            self.findings.expired += 1
            return [f"the transaction that was open failed: {error!r}"]
        return []

    def _changes(self, before: dict[Path, str]) -> list[str]:
        """The promises that the jumps broke."""
        admin, findings, wrong = self._loaded.admin, self.findings, list[str]()
        leads, lives = self._loaded.leads(), self._epochs()
        moved = {tp: lead for tp, lead in leads.items() if self._leads.get(tp, lead) != lead}
        if moved or lives != self._lives:
            findings.elections += max(1, len(moved))
            wrong.append(f"elections: {moved}, epochs {self._lives} and then {lives}")
        self._leads, self._lives = leads, lives
        firsts = self._firsts()
        gone = [
            f"{replica}: {first}" for replica, first in before.items() if firsts[replica] != first
        ]
        findings.deleted += len(gone)
        wrong += [f"deleted before its time: {each}" for each in gone]
        generations = [member.assignments for member in self._members]
        lost = [
            f"the member of {member.group} was assigned partitions again"
            for member, first, now in zip(
                self._members, self._generations, generations, strict=True
            )
            if first != now
        ]
        self._generations = generations
        lost += [
            f"the positions of the group {name} are forgotten"
            for name in IDLE
            if not admin.list_group_offsets(name)
        ]
        known = {each.transactional_id for each in admin.list_transactions()}
        lost += [f"the transactional id {name} is forgotten" for name in IDLE if name not in known]
        findings.expired += len(lost)
        return wrong + lost

    def _epochs(self) -> tuple[int, dict[int, int]]:
        """Those of the controller and of the brokers."""
        cluster = self._loaded.admin.describe_cluster()
        return cluster.controller_epoch, {b.id: b.epoch for b in cluster.brokers if not b.fenced}

    def _replicas(self) -> list[Path]:
        partitions = [TopicPartition(TOPIC, n) for n in range(PARTITIONS)]
        replica = replica_of(self._cluster.data_dir)
        return [replica(broker, tp) for broker in BROKERS for tp in partitions]

    def _firsts(self) -> dict[Path, str]:
        """The first segment of each replica."""
        return {replica: min(f.name for f in replica.glob("*.log")) for replica in self._replicas()}

    def _segments(self) -> dict[Path, int]:
        return {replica: len(list(replica.glob("*.log"))) for replica in self._replicas()}


def run(jumps: Sequence[tuple[int, int]], faketime: str) -> Findings:
    """Whose clock is set, and by how much: one after another."""
    with (
        tempfile.TemporaryDirectory(prefix="pylog-clocks-") as folder,
        FakedCluster(Path(folder), faketime) as cluster,
        LoadedTopic(cluster.bootstrap_servers, rate=RATE, config=_TOPIC_CONFIG) as loaded,
    ):
        with ExitStack() as workers:
            trial = Trial(cluster, loaded, workers)
            for whose, by_s in jumps:
                trial.jump(whose, by_s)
        findings, data = trial.findings, cluster.data_dir
        findings.verdict, wrong = loaded.end(
            cluster.close, replica_of(data), data.glob("logs/*.log")
        )
        findings.wrong += wrong
        said = [data / "logs" / f"broker-{broker}.log" for broker in BROKERS]
        seen = sum(log.read_text().count("the clock was set") for log in said)
        if not seen and any(whose != CONTROLLER and abs(by) >= HOUR_S for whose, by in jumps):
            findings.wrong.append("no broker saw its clock jump: is libfaketime at work?")
    return findings


def plan(count: int, rng: random.Random) -> list[tuple[int, int]]:
    """So many jumps, of which the first four are always the same but for the broker."""
    broker = rng.choice(BROKERS)
    first = [
        (broker, 10 * DAY_S),
        (CONTROLLER, 10 * DAY_S),
        (broker, -10 * DAY_S),
        (CONTROLLER, STROBE),
    ]
    more = [
        (rng.choice((CONTROLLER, *BROKERS)), rng.choice(JUMPS_S)) for _ in range(count - len(first))
    ]
    return first[:count] + more


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jumps", type=int, default=4)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    options = parser.parse_args()
    if (faketime := library()) is None:
        print("skipped: libfaketime is not installed (Debian's package faketime)")
        return 0
    print(f"seed {options.seed}", flush=True)
    findings = run(plan(options.jumps, random.Random(options.seed)), faketime)
    print(
        f"{findings.jumps} jumps: {findings.verdict}; elections {findings.elections}, expired "
        f"{findings.expired}, segments deleted early {findings.deleted}"
    )
    print("\n".join(findings.wrong) if findings.wrong else "all promises hold")
    return bool(findings.wrong)


if __name__ == "__main__":
    sys.exit(main())
