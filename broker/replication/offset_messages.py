"""Look-ups of offsets, deletions of records up to an offset, and the answers. Plain values."""

from __future__ import annotations

from dataclasses import dataclass

from pylog.model import LeaderEpoch, Offset, TopicId, TopicPartition
from pylog_broker.metadata.messages import Failure


@dataclass(frozen=True, slots=True)
class OffsetQuery:
    """An offset by time:

    -1 latest (high watermark, or last stable offset when read committed), -2 earliest, -3 the
    largest timestamp. With `from_offset`, which is pylog's own, "latest" comes with the time of the
    first record at that offset or behind it: how old is what a reader that is there has not read.
    """

    topic_partition: TopicPartition
    timestamp_ms: int
    current_leader_epoch: LeaderEpoch = LeaderEpoch(-1)
    read_committed: bool = False
    from_offset: int | None = None


@dataclass(frozen=True, slots=True)
class OffsetAnswer:
    """Offset -1 without a failure: no record is that late."""

    topic_partition: TopicPartition
    failure: Failure | None = None
    topic_id: TopicId | None = None
    offset: Offset = Offset(-1)
    timestamp_ms: int = -1
    leader_epoch: LeaderEpoch = LeaderEpoch(-1)


@dataclass(frozen=True, slots=True)
class DeleteRecords:
    """New log start offsets; -1 means the high watermark."""

    offsets: tuple[tuple[TopicPartition, Offset], ...]
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class LowWatermark:
    """The lowest log start offset over the live replicas, once it has reached the asked one."""

    topic_partition: TopicPartition
    failure: Failure | None = None
    low_watermark: Offset = Offset(-1)
