"""ShareFetch and ShareAcknowledge, and their answers. Plain values."""

from __future__ import annotations

from typing import NamedTuple

from pylog.model import BrokerId, LeaderEpoch, TopicId
from pylog.records.batch import Buffer
from pylog_broker.metadata.messages import Failure
from pylog_broker.share.share_partition import AcknowledgementBatch, AcquiredRecords, Wanted


class SharePartitionFetch(NamedTuple):
    """A partition that a member reads, and what becomes of records of it that it has."""

    topic_id: TopicId
    partition: int
    acknowledgements: tuple[AcknowledgementBatch, ...] = ()


class ShareFetch(NamedTuple):
    """A member's long poll. `is_renew_ack`: acknowledgements may renew, and nothing is acquired."""

    group_id: str
    member_id: str
    session_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    wanted: Wanted
    is_renew_ack: bool = False
    partitions: tuple[SharePartitionFetch, ...] = ()
    forgotten: tuple[tuple[TopicId, int], ...] = ()


class ShareAcknowledge(NamedTuple):
    """Acknowledgements alone."""

    group_id: str
    member_id: str
    session_epoch: int
    is_renew_ack: bool = False
    partitions: tuple[SharePartitionFetch, ...] = ()


class SharePartitionData(NamedTuple):
    """A partition's part of the answer to a fetch. `failure`: of the fetch; `acknowledge_failure`:
    of the acknowledgements.
    """

    topic_id: TopicId
    partition: int
    failure: Failure | None = None
    acknowledge_failure: Failure | None = None
    current_leader: BrokerId = BrokerId(-1)
    current_leader_epoch: LeaderEpoch = LeaderEpoch(-1)
    records: Buffer = b""
    acquired: tuple[AcquiredRecords, ...] = ()


class ShareFetched(NamedTuple):
    """`lock_ms`: for so long records are acquired."""

    lock_ms: int
    partitions: tuple[SharePartitionData, ...] = ()


class SharePartitionAck(NamedTuple):
    """The outcome of a partition's acknowledgements."""

    topic_id: TopicId
    partition: int
    failure: Failure | None = None
    current_leader: BrokerId = BrokerId(-1)
    current_leader_epoch: LeaderEpoch = LeaderEpoch(-1)


class ShareAcknowledged(NamedTuple):
    """`lock_ms`: for so long records are acquired."""

    lock_ms: int
    partitions: tuple[SharePartitionAck, ...] = ()
