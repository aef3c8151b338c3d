"""Fetches of consumers, and the answers of replicas. Plain values.

`produce_messages` says why most are NamedTuples.
"""

from __future__ import annotations

from typing import NamedTuple

from pylog.model import BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from pylog.records.batch import Buffer
from pylog_broker.metadata.messages import Failure


class PartitionFetch(NamedTuple):
    """The question of a consumer about one partition. -1 epochs are not checked."""

    topic_partition: TopicPartition
    topic_id: TopicId | None
    fetch_offset: Offset
    max_bytes: int
    current_leader_epoch: LeaderEpoch = LeaderEpoch(-1)
    last_fetched_epoch: LeaderEpoch = LeaderEpoch(-1)


class Standing(NamedTuple):
    """The rest of a fetch that may be answered again: answers, and bytes of batches. `given`
    answers have gone since `since_ms`.
    """

    answers: int
    bytes: int
    given: int = 0
    since_ms: int = 0


class Fetch(NamedTuple):
    """A consumer's long poll:

    answered when `min_bytes` are there, after `max_wait_ms`, or at once on any error; once, or
    while it is `standing` again from where the answer ended.
    """

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    partitions: tuple[PartitionFetch, ...]
    read_committed: bool = False
    standing: Standing | None = None
    # where the consumer stands, which then may read followers; empty: it reads leaders only
    rack: str = ""


class EpochEnd(NamedTuple):
    """The largest known epoch at or below an asked one, and the offset where it ends
    (exclusive).
    """

    epoch: LeaderEpoch
    end_offset: Offset


class PartitionData(NamedTuple):
    """The answer about one partition.

    `records` holds whole batches, the first may begin before the asked offset.
    """

    topic_partition: TopicPartition
    failure: Failure | None = None
    high_watermark: Offset = Offset(-1)
    last_stable_offset: Offset = Offset(-1)
    log_start_offset: Offset = Offset(-1)
    records: Buffer = b""
    aborted: tuple[tuple[int, int], ...] = ()  # (producer id, first offset), if read committed
    diverging: EpochEnd | None = None
    current_leader: BrokerId = BrokerId(-1)
    current_leader_epoch: LeaderEpoch = LeaderEpoch(-1)
    damaged_end: Offset = Offset(-1)  # where a reader may go on behind what has rotted
    # a follower in the consumer's rack, to be read instead of this leader (KIP-392)
    preferred_replica: BrokerId = BrokerId(-1)
