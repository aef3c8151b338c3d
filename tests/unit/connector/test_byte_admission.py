from __future__ import annotations

import random
from itertools import accumulate

import pytest

from pylog.model import RangePiece, RangeSplit, TopicPartition
from pylog_connector.byte_admission import ByteLimit


class Logs:
    """Partitions as the sizes of their batches, of one offset each, and how far each was read."""

    def __init__(self, *batches: list[int]) -> None:
        self.batches = {TopicPartition("t", p): sizes for p, sizes in enumerate(batches)}
        self.begins = dict.fromkeys(self.batches, 0)

    def lags(self) -> dict[TopicPartition, int]:
        return {at: sum(sizes[self.begins[at] :]) for at, sizes in self.batches.items()}

    def split(self, at: TopicPartition, piece_bytes: int) -> RangeSplit:
        begin = self.begins[at]
        left = self.batches[at][begin:]
        count = max(1, sum(1 for size in accumulate(left) if size <= piece_bytes))
        following = RangePiece(begin + count + 1, left[count]) if left[count:] else None
        return RangeSplit(sum(left), (RangePiece(begin + count, sum(left[:count])),), following)

    def trigger(self, limit: ByteLimit) -> dict[int, int]:
        """One micro-batch; the bytes that each partition got."""
        asked = limit.ask(self.lags())
        if asked:
            ends = limit.admit(asked, {at: self.split(at, size) for at, size in asked.items()})
        else:
            ends = {at: len(sizes) for at, sizes in self.batches.items()}
        got = {
            at.partition: sum(self.batches[at][self.begins[at] : end]) for at, end in ends.items()
        }
        self.begins |= ends
        return {partition: size for partition, size in got.items() if size}


@pytest.mark.parametrize(
    ("batches", "limit", "got"),
    [
        ([[10] * 5, [10] * 3], 80, {0: 50, 1: 30}),
        ([[10] * 5, [10] * 3], 79, {0: 50, 1: 20}),  # whole batches
        ([[10] * 60, [10] * 20], 40, {0: 30, 1: 10}),  # shares by lag
        ([[10] * 60, [10] * 20], 50, {0: 40, 1: 10}),  # and what they leave
        ([[100], [100]], 30, {0: 100}),  # larger than the limit: alone
        ([[100, 5], [20] * 9], 100, {1: 80}),
        ([[], [7]], 1, {1: 7}),
    ],
)
def test_what_one_micro_batch_reads(
    batches: list[list[int]], limit: int, got: dict[int, int]
) -> None:
    assert Logs(*batches).trigger(ByteLimit(limit)) == got


def test_a_large_batch_waits_once_beside_a_large_lag() -> None:
    logs, limit = Logs([10] * 10_000, [95]), ByteLimit(100)
    assert logs.trigger(limit) == {0: 100}
    assert limit.waiting == {TopicPartition("t", 1): 95}
    assert logs.trigger(limit) == {1: 95}
    assert limit.waiting == {TopicPartition("t", 0): 10}


def test_a_batch_larger_than_the_limit_has_its_turn_alone() -> None:
    logs, limit = Logs([10] * 100, [500, 10]), ByteLimit(100)
    got = [logs.trigger(limit) for _ in range(3)]
    assert got == [{0: 70}, {1: 500}, {0: 90, 1: 10}]


@pytest.mark.parametrize("seed", range(60))
def test_no_micro_batch_exceeds_the_limit_and_no_partition_starves(seed: int) -> None:
    rng = random.Random(seed)
    most = rng.choice([5, 50, 500])
    logs = Logs(*[[rng.randint(1, most) for _ in range(rng.randrange(40))] for _ in range(9)])
    limit = ByteLimit(rng.choice([1, 20, 300, 3_000]))
    hungry = dict.fromkeys(logs.batches, 0)
    for turn in range(2_000):
        lags = logs.lags()
        if not any(lags.values()):
            break
        got = logs.trigger(limit)
        assert got, "a micro-batch without progress"
        if sum(got.values()) > limit.limit:
            assert len(got) == 1
            (partition,) = got
            at = TopicPartition("t", partition)
            assert logs.batches[at][logs.begins[at] - 1] == got[partition], "more than one batch"
        for at, lag in lags.items():
            hungry[at] = hungry[at] + 1 if lag and at.partition not in got else 0
            assert hungry[at] <= 2 * len(hungry), "a partition starves"
        if turn < 100:  # the others go on being written to
            at = rng.choice(list(logs.batches))
            logs.batches[at] += [rng.randint(1, most) for _ in range(rng.randrange(10))]
    assert not any(logs.lags().values())
