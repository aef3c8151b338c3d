"""Read leases of a plan, asked of the brokers that have its partitions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pylog.client.ranges.lease_holder import HeldRange, Leased
from pylog.client.ranges.range_reader import RangeReader
from pylog.client.settings import CONSUMER_SETTINGS
from pylog.rpc.v1 import log_pb2
from tests.fakes.fake_cluster import FakeCluster
from tests.fakes.waiting import eventually

HOUR_MS = 3_600_000


@pytest.fixture
def cluster(short_grace: None) -> Iterator[FakeCluster]:
    with FakeCluster(brokers=2) as cluster:
        yield cluster


@pytest.fixture
def reader(cluster: FakeCluster) -> Iterator[RangeReader]:
    reader = RangeReader(
        CONSUMER_SETTINGS.parse(
            {"bootstrap_servers": cluster.bootstrap_servers, "retry_backoff_ms": 5}
        )
    )
    yield reader
    reader.close()


def asked(cluster: FakeCluster) -> list[tuple[int, bool, list[object], list[object]]]:
    """Of each request, in the order of brokers: who got it, whether it renews, what is led there
    and what is followed.
    """

    def ranges(topics: object) -> list[object]:
        return [
            (each.topic, *each_range)
            for each in topics  # type: ignore[attr-defined]
            for each_range in zip(
                each.partitions, each.start_offsets, each.end_offsets, strict=True
            )
        ]

    with cluster.changed:
        requests, cluster.lease_requests[:] = list(cluster.lease_requests), []
    assert {request.holder for _, request in requests} <= {"h"}
    return sorted(
        (broker, request.renew, ranges(request.topics), ranges(request.followed))
        for broker, request in requests
    )


def held(partition: int, start: int, end: int) -> HeldRange:
    return HeldRange("a", "", partition, start, end)


def test_each_broker_is_asked_once_for_what_it_leads_and_follows(
    cluster: FakeCluster, reader: RangeReader
) -> None:
    topic = cluster.create_topic("a", partitions=3)
    topic.partitions[0].followers = [2]
    ranges = [held(0, 5, 9), held(1, 0, 3), held(2, 1, 2)]
    assert reader.lease_holder("h").take(ranges, 1_000) == Leased(300_000)
    assert asked(cluster) == [
        (1, False, [("a", 0, 5, 9), ("a", 2, 1, 2)], []),
        (2, False, [("a", 1, 0, 3)], [("a", 0, 5, 9)]),
    ]


def test_the_next_plan_takes_the_place_of_the_one_before_at_every_broker(
    cluster: FakeCluster, reader: RangeReader
) -> None:
    cluster.create_topic("a", partitions=2)
    holder = reader.lease_holder("h")
    holder.take([held(0, 0, 5), held(1, 0, 5)], 1_000)
    asked(cluster)
    holder.take([held(0, 5, 9)], 1_000)
    assert asked(cluster) == [(1, False, [("a", 0, 5, 9)], []), (2, False, [], [])]
    holder.take([held(0, 9, 11)], 1_000)
    assert asked(cluster) == [(1, False, [("a", 0, 9, 11)], [])]
    holder.let_go(1_000)
    assert asked(cluster) == [(1, False, [], [])]


def test_leases_are_renewed_until_they_are_closed(
    cluster: FakeCluster, reader: RangeReader
) -> None:
    cluster.create_topic("a", partitions=2)
    cluster.lease_timeout_ms = 60
    holder, told = reader.lease_holder("h"), []
    ranges = [held(0, 0, 5)]
    leased = holder.take(ranges, 1_000)
    asked(cluster)
    holder.keep(ranges, leased.timeout_ms, told.append)
    renewal = (1, True, [("a", 0, 0, 5)], [])
    for _ in range(2):
        eventually(10, lambda: bool(cluster.lease_requests), "a renewal")
        assert renewal in asked(cluster)
    holder.close()
    assert told == []


def test_a_new_leader_gets_the_lease(cluster: FakeCluster, reader: RangeReader) -> None:
    topic = cluster.create_topic("a", partitions=1)
    cluster.lease_timeout_ms = 90
    holder = reader.lease_holder("h")
    holder.take([held(0, 0, 5)], 1_000)
    cluster.move_leader("a", 0, 2)
    assert topic.partitions[0].leader == 2
    holder.keep([held(0, 0, 5)], 90, lambda reason: None)

    def came() -> bool:
        return (2, True, [("a", 0, 0, 5)], []) in asked(cluster)

    eventually(10, came, "the new leader hears of the lease")
    holder.close()


def test_a_leader_that_moved_meanwhile_is_asked_by_the_first_renewal(
    cluster: FakeCluster, reader: RangeReader
) -> None:
    cluster.create_topic("a", partitions=1)
    reader.topics(["a"])
    cluster.move_leader("a", 0, 2)
    holder = reader.lease_holder("h")
    leased = holder.take([held(0, 0, 5)], 1_000)
    assert (leased.timeout_ms, leased.refused, len(leased.failed)) == (300_000, (), 1)
    holder.keep([held(0, 0, 5)], HOUR_MS, lambda reason: None)

    def came() -> bool:
        return (2, True, [("a", 0, 0, 5)], []) in asked(cluster)

    eventually(10, came, "the new leader hears of the lease")
    holder.close()


def test_refusals_are_told_once_and_together(cluster: FakeCluster, reader: RangeReader) -> None:
    cluster.create_topic("a", partitions=4)
    cluster.lease_timeout_ms = 0
    holder, told = reader.lease_holder("h"), []
    ranges = [held(number, 0, 5) for number in range(4)]
    refused = "POLICY_VIOLATION: a-0: no leases are given (and so for 3 more)"
    leased = holder.take(ranges, 1_000)
    assert leased == Leased(0, (leased.refused[0],))
    assert leased.refused[0] == refused
    holder.keep(ranges, 30, told.append)
    eventually(10, lambda: len(cluster.lease_requests) >= 8, "some renewals")
    holder.close()
    assert told == [refused]


def test_an_older_broker_is_a_failure(short_grace: None) -> None:
    with FakeCluster(framed=False) as cluster:
        cluster.create_topic("a", partitions=1)
        cluster.lease_timeout_ms = -1
        address = {"bootstrap_servers": cluster.bootstrap_servers}
        reader = RangeReader(CONSUMER_SETTINGS.parse(address))
        leased = reader.lease_holder("h").take([held(0, 0, 5)], 1_000)
        reader.close()
    assert (leased.timeout_ms, leased.refused) == (0, ())
    assert "an older one" in leased.failed[0]


def test_a_broker_that_does_not_answer_is_a_failure(
    cluster: FakeCluster, reader: RangeReader
) -> None:
    cluster.create_topic("a", partitions=2)
    cluster.stop_broker(2, silently=True)
    leased = reader.lease_holder("h").take([held(0, 0, 5), held(1, 0, 5)], 1_000)
    assert leased.timeout_ms == 300_000
    assert len(leased.failed) == 1


def test_a_task_renews_for_all_others_but_not_at_once(
    cluster: FakeCluster, reader: RangeReader
) -> None:
    """The driver has taken the lease a moment ago; or nobody knows when."""
    cluster.create_topic("a", partitions=2)
    holder = reader.lease_holder("h")
    holder.keep([held(0, 0, 5)], HOUR_MS, lambda reason: None, everywhere=True, age_ms=0)
    holder.close()
    assert asked(cluster) == []
    stranger = reader.lease_holder("h2")
    stranger.keep([held(0, 0, 5)], HOUR_MS, lambda reason: None, everywhere=True)
    eventually(10, lambda: len(cluster.lease_requests) == 2, "both brokers hear")
    stranger.close()
    requests = dict(cluster.lease_requests)
    assert requests[1].topics[0].partitions == [0]
    assert requests[2] == log_pb2.LeaseReadsRequest(holder="h2", renew=True)


def test_a_reader_that_is_closed_renews_nothing(cluster: FakeCluster) -> None:
    cluster.create_topic("a", partitions=1)
    reader = RangeReader(CONSUMER_SETTINGS.parse({"bootstrap_servers": cluster.bootstrap_servers}))
    holder = reader.lease_holder("h")
    holder.take([held(0, 0, 5)], 1_000)
    holder.keep([held(0, 0, 5)], 30, lambda reason: None)
    keeping = holder._keeping
    assert keeping is not None
    reader.close()
    eventually(10, keeping.done, "the renewals end")
