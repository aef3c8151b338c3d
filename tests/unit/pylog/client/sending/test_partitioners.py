from __future__ import annotations

import random
from collections import Counter

import pytest

from pylog.client.sending.partitioners import RoundRobin, StickyPartition, TopicPartitions, chances


def test_round_robin_deals_evenly_over_what_has_a_leader() -> None:
    partitioner = RoundRobin()
    partitions = TopicPartitions(6, [0, 2, 5])
    dealt = [partitioner.partition("t", b"key", None, partitions) for _ in range(7)]
    assert dealt == [0, 2, 5, 0, 2, 5, 0]
    assert partitioner.partition("other", None, None, partitions) == 0
    nobody_leads = TopicPartitions(3, [])
    assert [RoundRobin().partition("t", None, None, nobody_leads) for _ in range(2)] == [0, 0]
    alone = RoundRobin()
    assert [alone.partition("t", None, None, nobody_leads) for _ in range(4)] == [0, 1, 2, 0]


def test_chances_fall_with_the_load() -> None:
    assert chances([0, 0, 0]) == [1, 2, 3]
    assert chances([0, 3, 1]) == [4, 5, 8]  # KIP-794: 4 + 1 + 3


def test_equal_loads_take_turns() -> None:
    sticky = StickyPartition(True, lambda _n: 0)
    sticky.start([1, 4, 6])
    seen = []
    for _ in range(7):
        seen.append(sticky.current)
        sticky.advance(lambda: [1, 4, 6], lambda _p: 2)
    assert seen == [1, 4, 6, 1, 4, 6, 1]


@pytest.mark.parametrize("adaptive", [True, False])
def test_a_loaded_partition_is_drawn_less_often(adaptive: bool) -> None:
    rng = random.Random(7)
    sticky = StickyPartition(adaptive, rng.randrange)
    loads = {0: 0, 1: 9, 2: 0, 3: 4}
    sticky.start(list(loads))
    drawn: Counter[int] = Counter()
    for _ in range(26_000):
        sticky.advance(lambda: list(loads), loads.__getitem__)
        drawn[sticky.current] += 1
    if not adaptive:
        assert set(drawn.values()) == {6_500}
        return
    for partition, weight in ((0, 10), (1, 1), (2, 10), (3, 6)):
        assert drawn[partition] == pytest.approx(26_000 * weight / 27, rel=0.1)


def test_loads_are_looked_at_every_few_draws_and_when_the_partitions_change() -> None:
    looks = []
    sticky = StickyPartition(True, lambda _n: 0)
    sticky.start(range(64))

    def waiting(partition: int) -> int:
        looks.append(partition)
        return 0

    for _ in range(5):
        sticky.advance(lambda: range(64), waiting)
    assert len(looks) == 64
    sticky.forget_loads()
    sticky.advance(lambda: range(64), waiting)
    assert len(looks) == 128
