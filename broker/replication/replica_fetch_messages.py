"""Fetches of followers and questions about leader epochs (Kafka's Fetch and OffsetForLeaderEpoch),
and the answers of leaders. Plain values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from pylog.model import BrokerEpoch, BrokerId, LeaderEpoch, Offset, TopicId
from pylog.records.batch import Buffer
from pylog_broker.metadata.messages import Failure
from pylog_broker.replication.fetch_messages import EpochEnd


class ReplicaPartitionFetch(NamedTuple):
    """The question of a follower about one partition; `fetch_offset` is its log end.

    `high_watermark` is the one that the follower has (KIP-1166): the leader need not repeat it, and
    need not guess whether an earlier answer arrived. -1: the follower does not say.
    """

    topic_id: TopicId
    partition: int
    current_leader_epoch: LeaderEpoch
    fetch_offset: Offset
    last_fetched_epoch: LeaderEpoch
    log_start_offset: Offset
    max_bytes: int
    high_watermark: Offset = Offset(-1)


class ReplicaFetch(NamedTuple):
    """One fetch of a follower from one leader broker, over all partitions that they share.

    `replica_epoch` is the follower's broker epoch: a late fetch of an earlier life is refused
    (KIP-903). In a session (KIP-227) the first fetch, of epoch 0, names all partitions; later ones
    only those whose question changed, and those (`forgotten`) that are not asked for any more.
    Epoch -1: all are named, and no session is wanted.
    """

    replica_id: BrokerId
    replica_epoch: BrokerEpoch
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    partitions: tuple[ReplicaPartitionFetch, ...]
    session_id: int = 0
    session_epoch: int = -1
    forgotten: tuple[tuple[TopicId, int], ...] = ()


class ReplicaPartitionData(NamedTuple):
    """The leader's answer for one partition.

    With `diverging` there are no records: truncate first.
    """

    topic_id: TopicId
    partition: int
    failure: Failure | None = None
    high_watermark: Offset = Offset(-1)
    last_stable_offset: Offset = Offset(-1)
    log_start_offset: Offset = Offset(-1)
    diverging: EpochEnd | None = None
    records: Buffer = b""
    current_leader: BrokerId = BrokerId(-1)
    current_leader_epoch: LeaderEpoch = LeaderEpoch(-1)


class ReplicaFetched(NamedTuple):
    """The answer to a ReplicaFetch; partitions with nothing new may be left out.

    `session_id`: of the session that the fetch belongs to, 0 without one.
    """

    failure: Failure | None = None
    partitions: tuple[ReplicaPartitionData, ...] = ()
    session_id: int = 0


@dataclass(frozen=True, slots=True)
class ReplicaEpochQuery:
    """A follower's question for the end of `leader_epoch` in the leader's log."""

    topic_id: TopicId
    partition: int
    current_leader_epoch: LeaderEpoch
    leader_epoch: LeaderEpoch


@dataclass(frozen=True, slots=True)
class EpochEndQuery:
    """OffsetForLeaderEpoch of a follower."""

    replica_id: BrokerId
    queries: tuple[ReplicaEpochQuery, ...]


@dataclass(frozen=True, slots=True)
class ReplicaEpochEnd:
    """The answer for one partition;

    epoch and offset are -1 when the leader knows no epoch that old.
    """

    topic_id: TopicId
    partition: int
    failure: Failure | None = None
    leader_epoch: LeaderEpoch = LeaderEpoch(-1)
    end_offset: Offset = Offset(-1)


@dataclass(frozen=True, slots=True)
class EpochEnds:
    """The answer to an EpochEndQuery."""

    ends: tuple[ReplicaEpochEnd, ...]
