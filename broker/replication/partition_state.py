"""The state of a partition, as tests, metrics and descriptions show it. A plain value."""

from __future__ import annotations

from dataclasses import dataclass

from pylog.model import BrokerId, LeaderEpoch, Offset, PartitionEpoch, TopicId, TopicPartition


@dataclass(frozen=True, slots=True)
class PartitionState:
    """A partition as its leader or follower must know it; used by tests, metrics and describe."""

    topic_partition: TopicPartition
    topic_id: TopicId
    leader: BrokerId
    leader_epoch: LeaderEpoch
    partition_epoch: PartitionEpoch
    replicas: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]
    log_start_offset: Offset
    high_watermark: Offset
    log_end_offset: Offset
    # at the leader: each follower's end as its fetches told it, -1 when it has not fetched yet
    follower_ends: tuple[tuple[BrokerId, Offset], ...] = ()
    directory_id: str = ""
    # why the replica does not work or lags: offline, or its last fetch failed
    fault: str = ""
