"""Placement: even, over racks or hosts, without one neighbour that takes over everything."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest

from pylog.model import BrokerEpoch, BrokerId
from pylog_broker.controller.placement import Spot, place, ring
from pylog_broker.metadata.records import Endpoint, RegisterBrokerRecord, usual_listeners


def spots(*domains: str) -> list[Spot]:
    return [Spot(BrokerId(number), domain) for number, domain in enumerate(domains, 1)]


def broker(number: int, host: str, rack: str | None = None) -> RegisterBrokerRecord:
    endpoint = Endpoint(host, 1)
    return RegisterBrokerRecord(
        BrokerId(number),
        BrokerEpoch(1),
        "i",
        host,
        rack,
        usual_listeners(endpoint, endpoint),
        "d",
        "b",
    )


@pytest.mark.parametrize("start", [0, 1, 7])
def test_thirty_partitions_on_five_brokers_are_spread_evenly(start: int) -> None:
    # F-R61
    placed = place(spots("a", "b", "c", "d", "e"), 30, 3, start)
    assert all(len(set(replicas)) == 3 for replicas in placed)
    assert sorted(Counter(b for r in placed for b in r).values()) == [18] * 5
    assert sorted(Counter(r[0] for r in placed).values()) == [6] * 5


def test_every_partition_covers_all_racks() -> None:
    # F-R62
    around = spots(*"abcabcabc")
    racks = {spot.broker_id: spot.domain for spot in around}
    placed = place(around, 90, 3, 0)
    assert all({racks[b] for b in replicas} == {"a", "b", "c"} for replicas in placed)
    assert sorted(Counter(b for r in placed for b in r).values()) == [30] * 9


def test_partitions_of_a_lost_broker_go_to_several_others() -> None:
    placed = place(spots("a", "b", "c", "d", "e"), 40, 3, 0)
    assert set(Counter(r[1] for r in placed if r[0] == 1)) == {2, 3, 4, 5}


@pytest.mark.parametrize(("domains", "factor"), list(product(["aab", "aaab", "abcc"], [1, 2, 3])))
def test_unequal_domains_still_get_different_brokers(domains: str, factor: int) -> None:
    around = spots(*domains)
    names = {spot.broker_id: spot.domain for spot in around}
    for replicas in place(around, 20, factor, 3):
        assert len(set(replicas)) == factor
        assert len({names[b] for b in replicas}) == min(factor, len(set(domains)))


@pytest.mark.parametrize("domains", ["aaabb", "aaaabb", "aaabbb", "aaabbc", "aaaaabbb", "aabbcd"])
@pytest.mark.parametrize("factor", [2, 3, 4, 5])
def test_replicas_beyond_the_number_of_racks_are_spread_over_them_too(
    domains: str, factor: int
) -> None:
    """No rack has two more replicas of a partition than one that has a broker to spare."""
    around = spots(*domains)
    names = {spot.broker_id: spot.domain for spot in around}
    size = Counter(domains)
    for replicas in place(around, 60, factor, 0):
        held = Counter(names[b] for b in replicas)
        spare = [held[name] for name in size if held[name] < size[name]]
        assert max(held.values()) <= min(spare, default=factor) + 1, replicas


def test_the_ring_alternates_hosts_when_not_all_brokers_name_a_rack() -> None:
    registered = [broker(1, "x", "r"), broker(2, "x"), broker(3, "y"), broker(4, "y")]
    assert [spot.broker_id for spot in ring(registered)] == [1, 3, 2, 4]
    assert [spot.domain for spot in ring(registered)] == ["x", "y", "x", "y"]


def test_the_ring_alternates_racks_when_all_name_one() -> None:
    registered = [broker(1, "x", "r"), broker(2, "y", "r"), broker(3, "z", "s")]
    assert [spot.domain for spot in ring(registered)] == ["r", "s", "r"]
