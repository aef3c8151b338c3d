from __future__ import annotations

import pytest

from pylog.client.cluster.metadata import (
    Address,
    BrokerInfo,
    ClusterMetadata,
    ClusterSnapshot,
    PartitionInfo,
    TopicInfo,
)
from pylog.client.fetching.leaderless import Leaderless, why_leaderless
from pylog.model import TopicPartition

TP = TopicPartition("t", 0)


def metadata_of(*partitions: PartitionInfo) -> ClusterMetadata:
    metadata = ClusterMetadata()
    brokers = tuple(BrokerInfo(b, Address("h", b)) for b in (1, 2))
    topic = TopicInfo("t", "id", False, partitions)
    metadata.update(ClusterSnapshot("c", 1, brokers, None, (topic,)))
    return metadata


@pytest.mark.parametrize(
    ("info", "why"),
    [
        (PartitionInfo(3, 0), "its leader, broker 3, is not among the live brokers"),
        (
            PartitionInfo(-1, 0, (1, 3), (), (3,), (1, 3)),
            "its replicas are on brokers [1, 3]; brokers [3] are not live; the replicas on brokers "
            "[1] are offline: see their logs; only those on brokers [3] have all records and may "
            "lead",
        ),
        (
            PartitionInfo(-1, 0, (1,), (), (), (1,)),
            "its replicas are on brokers [1]; the replicas on brokers [1] are offline: see their "
            "logs; none is known to have all records and may lead",
        ),
    ],
)
def test_the_reason_is_what_metadata_say(info: PartitionInfo, why: str) -> None:
    assert why_leaderless(metadata_of(info), TP) == why


def test_what_is_not_known_is_said_to_be() -> None:
    metadata = metadata_of(PartitionInfo(1, 0))
    assert why_leaderless(metadata, TopicPartition("u", 0)) == (
        "the cluster has not told of its topic"
    )
    assert why_leaderless(metadata, TopicPartition("t", 1)) == "its topic has 1 partitions"


def test_what_is_not_read_any_more_is_not_told() -> None:
    leaderless = Leaderless(1_000)
    metadata = metadata_of(PartitionInfo(-1, 0))
    assert leaderless.look(0, [TP], metadata) == []
    leaderless.forget_all_but([])
    assert leaderless.look(5_000, [], metadata) == []
