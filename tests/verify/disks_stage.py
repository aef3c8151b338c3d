"""Three brokers whose log directories are small file systems of their own, and a load over them.

Here: setting it up, waiting, judging. The faults of the disks are in `disks_fills` and
`disks_faults`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from pylog import AdminClient, NewTopic, TopicPartition
from pylog.clock import SYSTEM_CLOCK
from pylog.errors import PylogError
from pylog.local import LocalCluster
from pylog.model import PartitionDescription
from tests.verify.disks_mounts import SmallDisk
from tests.verify.disks_replicas import difference
from tests.verify.load import Verdict, VerifiableProducer, check, wrongs

BROKERS: Final = (1, 2, 3)
PARTITIONS: Final = 6
HEAL_SECONDS: Final = 60.0
CONFIG: Final = {
    "min.insync.replicas": "2",
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "3000",
    "log.initial.task.delay.ms": "500",
    "log.retention.check.interval.ms": "1000",
    "log.segment.bytes": "1048576",
    "replica.high.watermark.checkpoint.interval.ms": "200",
    "replica.lag.time.max.ms": "2000",
}
SEGMENT_BYTES: Final = 32 * 1024
"""The bytes of a segment of the verified topic: a roll every few seconds, which every fault must
meet."""


@dataclass(slots=True)
class Blow:
    """One thing done to the disks, and what came of it."""

    kind: str
    detail: str
    struck_ms: int
    notice_ms: int | None = None
    """From the fault until the brokers and the controller acted on it."""
    resumed_ms: int | None = None
    """From the moment when there was room (or nothing failed any more) to writes everywhere."""
    broken: list[str] = field(default_factory=list)
    """Promises that were not kept."""

    def __str__(self) -> str:
        times = [f"{self.kind:<32} {self.detail:<34}"]
        if self.notice_ms is not None:
            times.append(f"noticed in {self.notice_ms / 1000:.2f} s")
        if self.resumed_ms is not None:
            times.append(f"writes everywhere after {self.resumed_ms / 1000:.2f} s")
        return ", ".join(times) + "".join(f"\n    BROKEN: {each}" for each in self.broken)


class NotWithin(Exception):
    """Something did not happen in time."""


def now_ms() -> int:
    return SYSTEM_CLOCK.monotonic_ms()


def wait_until(seconds: float, condition: Callable[[], bool], what: str) -> int:
    """The time that it took, in milliseconds; NotWithin."""
    begin = now_ms()
    while not condition():
        if now_ms() - begin > seconds * 1000:
            raise NotWithin(f"not within {seconds:g} s: {what}")
        SYSTEM_CLOCK.sleep(0.02)
    return now_ms() - begin


class Stage:
    """A cluster, its disks, a topic with a load. Use as a context manager, from one thread."""

    def __init__(self, folder: Path, *, directories: int, rate: int, rng: random.Random) -> None:
        """`directories`: log directories of each broker, each a disk."""
        self.rng = rng
        self.directories = directories
        self.tally = Verdict()
        self._folder, self._rate = folder, rate
        self._names = [f"d{n}" for n in range(1, directories + 1)] if directories > 1 else [""]
        self.disks: dict[int, list[SmallDisk]] = {}
        self._stack = ExitStack()
        self._topics = 0
        self.cluster: LocalCluster
        self.admin: AdminClient
        self.load: VerifiableProducer

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for broker in BROKERS:
                self.disks[broker] = [
                    stack.enter_context(
                        SmallDisk(
                            self._folder / "images" / f"{broker}{name}",
                            self._folder / "data" / f"broker-{broker}" / name,
                        )
                    )
                    for name in self._names
                ]
            config = dict(CONFIG)
            if self.directories > 1:
                config["log.dirs"] = ",".join(self._names)
            self.cluster = LocalCluster(len(BROKERS), self._folder / "data", config)
            stack.callback(self.cluster.close)
            self.admin = stack.enter_context(AdminClient(bootstrap_servers=self.servers))
            self.begin_topic()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self.load.stop()
            for broker in BROKERS:  # nothing waits for disks any more
                self.cluster.kill(broker)
        self._stack.close()

    @property
    def servers(self) -> str:
        """For clients."""
        return self.cluster.bootstrap_servers

    # ---- the load -------------------------------------------------------------------------------

    def begin_topic(self) -> None:
        """A new verified topic, and a load on it."""
        self._topics += 1
        self.topic = f"verified-{self._topics}"
        config = {"segment.bytes": str(SEGMENT_BYTES), "file.delete.delay.ms": "0"}
        self.admin.create_topics([NewTopic(self.topic, PARTITIONS, 3, config=config)])
        self.load = VerifiableProducer(self.servers, self.topic, PARTITIONS, rate=self._rate)
        wait_until(30, lambda: self.written_since(0), "the first records")

    def end_topic(self) -> Verdict:
        """Stop its load, read all of it, and delete it; the verdict, which `tally` has too."""
        self.load.close()
        verdict = check(self.load, self.servers)
        self.tally.acknowledged += verdict.acknowledged
        self.tally.lost += verdict.lost
        self.tally.duplicated += verdict.duplicated
        self.tally.out_of_order += verdict.out_of_order
        self.tally.unknown += verdict.unknown
        self.tally.longest_gap_ms = max(self.tally.longest_gap_ms, verdict.longest_gap_ms)
        self.admin.delete_topics(self.topic)
        return verdict

    def written_since(self, moment_ms: int, partitions: Sequence[int] | None = None) -> bool:
        """Whether each partition (of these) has an acknowledgement of after that moment."""
        wanted = set(range(PARTITIONS) if partitions is None else partitions)
        for ack in reversed(self.load.acks):
            if ack.at_ms <= moment_ms or not wanted:
                break
            wanted.discard(ack.partition)
        return not wanted

    # ---- where things are -----------------------------------------------------------------------

    def partitions(self) -> tuple[PartitionDescription, ...]:
        """The verified topic's, as the gateway knows them."""
        return self.admin.describe_topics([self.topic])[self.topic].partitions

    def disk_of(self, broker: int, tp: TopicPartition) -> SmallDisk:
        """The disk that holds that broker's replica."""
        return next(d for d in self.disks[broker] if (d.at / str(tp)).is_dir())

    def on_disk(self, broker: int, disk: SmallDisk) -> set[int]:
        """The partitions of the verified topic of which it holds that broker's replica."""
        return {n for n in range(PARTITIONS) if (disk.at / f"{self.topic}-{n}").is_dir()}

    def running(self, broker: int) -> bool:
        """Whether that broker's process runs."""
        return self.cluster._nodes[broker].running

    # ---- waiting and judging --------------------------------------------------------------------

    def heal(self) -> None:
        """Wait until every partition has a leader and a full ISR, and takes writes; NotWithin."""
        state = ""

        def whole() -> bool:
            nonlocal state
            try:
                found = self.partitions()
            except PylogError as error:
                state = repr(error)
                return False
            state = str([(p.partition, p.leader, p.isr) for p in found])
            return all(p.leader is not None and len(p.isr) == len(BROKERS) for p in found)

        try:
            wait_until(HEAL_SECONDS, whole, "every replica in sync")
        except NotWithin as late:
            raise NotWithin(f"{late}: {state}") from None
        begin = now_ms()
        wait_until(HEAL_SECONDS, lambda: self.written_since(begin), "writes on every partition")

    def judge(self) -> list[str]:
        """The faults in the verified topic's present records, read by a client and compared on the
        disks. The replicas must be in sync.
        """
        verdict = check(self.load, self.servers)
        broken = wrongs(verdict)
        ends = self.admin.list_offsets(
            {TopicPartition(self.topic, n): "latest" for n in range(PARTITIONS)}
        )
        for tp, end in ends.items():
            assert end is not None
            places = {b: self.disk_of(b, tp).at / str(tp) for b in BROKERS}
            if different := difference(places, end.offset):
                broken.append(f"{tp}: {different}")
        return broken

    def crashes(self) -> list[str]:
        """Unexpected errors in the processes' logs."""
        logs = (self._folder / "data" / "logs").glob("*.log")
        found = []
        for log in sorted(logs):
            text = log.read_text(errors="replace")
            at = text.find("Traceback")
            if at >= 0:
                found.append(f"{log.name}: {text[max(0, at - 200) : at + 1500]}")
        return found
