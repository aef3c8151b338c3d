"""The positions that a commit group is told, and when."""

from __future__ import annotations

import pytest

from pylog.model import TopicPartition
from pylog_connector.group_progress import (
    PARTITIONS_MAX,
    REPEAT_MS_UNKNOWN,
    GroupProgress,
    flat,
    in_words,
    repeat_ms,
)
from pylog_connector.offsets import PartitionPosition

T0, T1 = TopicPartition("a", 0), TopicPartition("a", 1)


def at(offset: int, epoch: int = 0) -> PartitionPosition:
    return PartitionPosition(offset, epoch)


@pytest.mark.parametrize(
    ("retention_ms", "every_ms"),
    [(None, 15_000), (60_000, 15_000), (1_000, 5_000), (7 * 86_400_000, 600_000)],
)
def test_idle_positions_come_again_well_before_they_expire(
    retention_ms: int | None, every_ms: int
) -> None:
    assert repeat_ms(retention_ms) == every_ms


def test_only_what_moved_is_told() -> None:
    progress = GroupProgress()
    assert (progress.due(0), progress.wait_ms(0), progress.is_told) == ({}, None, True)
    assert progress.finished({T0: at(5), T1: at(0)})
    assert progress.due(0) == {T0: at(5), T1: at(0)}
    assert (progress.wait_ms(0), progress.is_told) == (0, False)
    progress.committed(progress.due(0), 10)
    assert (progress.due(10), progress.is_told) == ({}, True)
    assert not progress.finished({T0: at(5), T1: at(0)})
    assert progress.finished({T0: at(6), T1: at(0, 3)})  # another leader alone is not told
    assert progress.due(20) == {T0: at(6)}
    progress.committed({T0: at(6)}, 20)
    assert progress.wait_ms(20) == REPEAT_MS_UNKNOWN - 10


def test_idle_positions_are_told_again() -> None:
    progress = GroupProgress()
    progress.finished({T0: at(5), T1: at(7)})
    progress.committed({T0: at(5), T1: at(7)}, 0)
    progress.repeat_ms = 100
    progress.finished({T0: at(6), T1: at(7)})
    progress.committed({T0: at(6)}, 50)
    assert (progress.due(99), progress.wait_ms(99)) == ({}, 1)
    assert progress.due(100) == {T1: at(7)}
    progress.committed({T1: at(7)}, 100)
    assert (progress.due(149), progress.due(150)) == ({}, {T0: at(6)})


def test_a_commit_that_was_overtaken_leaves_the_newer_position_to_tell() -> None:
    progress = GroupProgress()
    progress.finished({T0: at(5)})
    out = progress.due(0)
    progress.finished({T0: at(9)})
    progress.committed(out, 1)
    assert (progress.due(1), progress.is_told) == ({T0: at(9)}, False)


def test_partitions_that_are_read_no_longer_are_left() -> None:
    progress = GroupProgress()
    progress.finished({T0: at(5), T1: at(5)})
    out = progress.due(0)
    progress.finished({T1: at(5)})
    progress.committed(out, 0)
    assert (progress.due(10**9), progress.is_told) == ({T1: at(5)}, True)


def test_failures_wait_longer_each_time() -> None:
    progress = GroupProgress()
    progress.finished({T0: at(5)})
    waits = []
    now_ms = 0
    for _ in range(9):
        progress.failed(now_ms)
        wait_ms = progress.wait_ms(now_ms)
        assert wait_ms is not None
        assert progress.due(now_ms + wait_ms - 1) == {}
        now_ms += wait_ms
        assert progress.due(now_ms) == {T0: at(5)}
        waits.append(wait_ms)
    assert waits == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000, 60_000]
    progress.committed({T0: at(5)}, now_ms)
    progress.finished({T0: at(6)})
    progress.failed(now_ms)
    assert progress.wait_ms(now_ms) == 1_000


def test_many_partitions_go_in_parts() -> None:
    progress = GroupProgress()
    many = {TopicPartition("a", n): at(n) for n in range(2 * PARTITIONS_MAX + 1)}
    progress.finished(many)
    told: dict[TopicPartition, PartitionPosition] = {}
    sizes = []
    while due := progress.due(0):
        sizes.append(len(due))
        progress.committed(due, 0)
        told.update(due)
    assert (sizes, told) == ([PARTITIONS_MAX, PARTITIONS_MAX, 1], many)


def test_shapes() -> None:
    assert flat({"a": {0: at(1), 1: at(2)}, "b": {}}) == {T0: at(1), T1: at(2)}
    assert in_words([T0, T1]) == "a-0, a-1"
    assert in_words([T0] * 5) == "a-0, a-0, a-0 and 2 more"
