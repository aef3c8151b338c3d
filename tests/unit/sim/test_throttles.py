"""The simulator's account of throttled copies: the bytes that may pass at a rate, and for how long
it counts them.
"""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pylog.model import BrokerId, Offset, TopicId, TopicPartition
from pylog_broker.metadata.image import MetadataImage
from pylog_broker.metadata.records import ConfigRecord, ConfigResourceType, TopicRecord
from pylog_broker.replication.replica_fetch_messages import ReplicaFetched, ReplicaPartitionData
from tests.sim.broker_process import BrokerProcess
from tests.sim.throttles import Throttles
from tests.sim.violation import Violation

NAMED = "follower.replication.throttled.replicas"
RATE = "follower.replication.throttled.rate"
LEADER = BrokerId(2)


class Follower:
    """Broker 1, which copies partition 0 of a topic at a rate of 200 and is not in sync."""

    def __init__(self) -> None:
        partition = SimpleNamespace(
            topic_id=TopicId("id"), topic_partition=TopicPartition("t", 0), isr=(LEADER,)
        )
        core = SimpleNamespace(
            partitions=lambda: [partition],
            _replica_fetches=SimpleNamespace(_sessions=SimpleNamespace(by_follower={})),
            _followers=SimpleNamespace(_fetchers={}),
        )
        self._process = SimpleNamespace(
            cluster=SimpleNamespace(sometimes=Counter()),
            name="b1",
            broker_id=BrokerId(1),
            core=core,
            now_ms=lambda: 0,
        )
        self._throttles = Throttles(cast(BrokerProcess, self._process))
        self.rate_is(200)

    def rate_is(self, rate: int) -> None:
        """The broker takes a step with this rate."""
        topic, cluster = ConfigResourceType.TOPIC, ConfigResourceType.CLUSTER
        records: list[Any] = [
            TopicRecord("t", TopicId("id")),
            ConfigRecord(topic, "t", NAMED, "*"),
            ConfigRecord(cluster, "", RATE, str(rate)),
        ]
        self._process.image = MetadataImage.from_records(records, Offset(3))
        self._throttles.look()

    def copies(self) -> None:
        """A hundred bytes come."""
        data = ReplicaPartitionData(TopicId("id"), 0, records=bytes(100))
        self._throttles.heard(LEADER, ReplicaFetched(None, (data,)))


def test_more_bytes_than_the_rate_allows_are_told() -> None:
    """A second's worth may pass at once, and two answers were on their way."""
    follower = Follower()
    for _ in range(4):
        follower.copies()
    with pytest.raises(Violation, match="300 bytes"):
        follower.copies()


def test_bytes_before_another_rate_count_no_more_though_the_old_one_is_back() -> None:
    follower = Follower()
    for _ in range(4):
        follower.copies()
    follower.rate_is(1_000)
    follower.rate_is(200)
    for _ in range(4):
        follower.copies()
