"""Followers' fetches as a leader's replica manager gets them."""

from __future__ import annotations

from pylog.model import BrokerEpoch, BrokerId, LeaderEpoch, Offset
from pylog_broker.replication.replica_fetch_messages import ReplicaFetch, ReplicaPartitionFetch
from tests.fakes.broker_group import TOPIC_ID, BrokerGroup


def fetch_of(
    group: BrokerGroup, follower: int, offset: int, *, last_epoch: int = 0, **more: int
) -> ReplicaFetch:
    """A fetch as broker `follower` would send it for partition 0."""
    broker = BrokerId(follower)
    return ReplicaFetch(
        broker,
        BrokerEpoch(more.get("broker_epoch", group.image.brokers[broker].broker_epoch)),
        more.get("max_wait_ms", 500),
        more.get("min_bytes", 1),
        1 << 20,
        (
            ReplicaPartitionFetch(
                TOPIC_ID,
                0,
                LeaderEpoch(more.get("leader_epoch", group.record().leader_epoch)),
                Offset(offset),
                LeaderEpoch(last_epoch),
                Offset(0),
                1 << 20,
                Offset(more.get("high_watermark", -1)),
            ),
        ),
    )
