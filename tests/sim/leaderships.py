"""The partitions that the coordinators of a simulated broker would believe to lead, by its reports.

Here every partition is told of, and after each step of the core the belief must be what holds: a
broker that was told to lead, and not that this is over, leads, in that epoch and up to that high
watermark; and a broker that leads was told so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from pylog.model import BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from pylog_broker.replication.effects import (
    Effect,
    HighWatermarkMoved,
    LeadershipBegan,
    LeadershipEnded,
)
from pylog_broker.replication.partition import Partition
from pylog_broker.storage.log.log import Log
from tests.sim.violation import Violation

_Key = tuple[TopicId, int]


def logs_to_check(
    effects: Iterable[Effect], partitions: Iterable[Partition]
) -> dict[TopicPartition, Log]:
    """The logs that count after a step: those that work, and those that failed only after the step
    had told of a commit. A commit has been answered, and stays one.
    """
    moved = {
        (each.topic_id, each.topic_partition)
        for each in effects
        if isinstance(each, HighWatermarkMoved)
    }
    return {
        partition.topic_partition: partition.log
        for partition in partitions
        if (partition.topic_id, partition.topic_partition) in moved
        or not (partition.offline or partition.log.failure is not None)
    }


@dataclass(slots=True)
class LedByEpoch:
    """The leaders of the whole cluster: in one leader epoch one broker leads a partition."""

    brokers: dict[tuple[TopicId, int, LeaderEpoch], BrokerId] = field(default_factory=dict)

    def began(self, broker: BrokerId, told: LeadershipBegan) -> None:
        """A broker was told to lead."""
        key = (told.topic_id, told.topic_partition.partition, told.leader_epoch)
        other = self.brokers.setdefault(key, broker)
        if other != broker:
            raise Violation("I1", f"{broker} is told to lead as {other} was: {told}")


class Leaderships:
    """The belief of one life of a broker."""

    def __init__(self, broker: BrokerId, cluster: LedByEpoch, sometimes: Counter[str]) -> None:
        self._broker = broker
        self._cluster = cluster
        self._sometimes = sometimes
        self._led: dict[_Key, tuple[LeaderEpoch, Offset]] = {}

    def hear(self, effects: Iterable[Effect], partitions: Iterable[Partition]) -> None:
        """A step of the core is over: take in what it told, and compare."""
        for effect in effects:
            match effect:
                case LeadershipBegan():
                    self._began(effect)
                case LeadershipEnded(name, epoch, topic_id):
                    self._sometimes["leadership ended"] += 1
                    led = self._led.pop((topic_id, name.partition), None)
                    if led is None or led[0] != epoch:
                        raise Violation("I1", f"{self._broker} did not lead: {effect}, {led}")
                case HighWatermarkMoved():
                    self._moved(effect)
        self._compare(partitions)

    def _began(self, told: LeadershipBegan) -> None:
        self._sometimes["leadership began"] += 1
        key = (told.topic_id, told.topic_partition.partition)
        if key in self._led:
            raise Violation("I1", f"{self._broker} leads already: {told}, {self._led[key]}")
        self._cluster.began(self._broker, told)
        self._led[key] = (told.leader_epoch, told.high_watermark)

    def _moved(self, told: HighWatermarkMoved) -> None:
        key = (told.topic_id, told.topic_partition.partition)
        led = self._led.get(key)
        if led is None or led[0] != told.leader_epoch or led[1] >= told.offset:
            raise Violation("I1", f"{self._broker}: {told} of {led}")
        self._led[key] = (told.leader_epoch, told.offset)

    def _compare(self, partitions: Iterable[Partition]) -> None:
        leads = {
            (p.topic_id, p.topic_partition.partition): (p.leading.leader_epoch, p.high_watermark)
            for p in partitions
            if p.leading is not None
        }
        if leads != self._led:
            raise Violation("I1", f"{self._broker} leads {leads}, and was told {self._led}")
