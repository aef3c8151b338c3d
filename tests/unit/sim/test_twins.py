"""The answers about a log that the simulator takes for right."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from pylog.model import BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from pylog_broker.replication.fetch_messages import EpochEnd, PartitionData, PartitionFetch
from pylog_broker.replication.offset_messages import OffsetAnswer, OffsetQuery
from pylog_broker.replication.replica_fetch_messages import ReplicaEpochEnd
from tests.sim.contents import Contents, Original
from tests.sim.ghost import Batch, PartitionGhost
from tests.sim.twins import (
    check_divergence,
    check_epoch_end,
    check_offset,
    check_out_of_range,
)
from tests.sim.violation import Violation

KEY = (TopicId("t"), 0)
T0 = TopicPartition("t", 0)
ONE = BrokerId(1)


def ghost_of_three() -> PartitionGhost:
    """Batches at 0 to 1, 2 and 3, of the epochs 0, 2 and 2; the last is not committed."""
    contents = Contents()
    ghost = PartitionGhost(KEY, contents)
    for base, last, epoch, times in ((0, 1, 0, (10, 30)), (2, 2, 2, (20,)), (3, 3, 2, (40,))):
        contents.sent(base, Original(KEY, (None,) * len(times), (b"v",) * len(times), times))
        ghost.grow(ONE, [Batch(base, last, epoch, base, -1, -1, -1)])
    ghost.shadow(ONE).high_watermark = 3
    return ghost


@pytest.mark.parametrize(
    ("asked", "offset", "time", "right"),
    [
        (-1, 3, -1, True),
        (-1, 4, -1, False),
        (-2, 0, -1, True),
        (-3, 1, 30, True),
        (-3, 3, 40, False),
        (15, 1, 30, True),
        (15, 2, 20, False),
        (35, -1, -1, True),
        (35, 3, 40, False),
    ],
)
def test_offsets(asked: int, offset: int, time: int, right: bool) -> None:
    told = OffsetAnswer(T0, None, KEY[0], Offset(offset), time)
    with nullcontext() if right else pytest.raises(Violation):
        check_offset(ghost_of_three(), ONE, OffsetQuery(T0, asked), told)


def test_the_end_does_not_go_back_at_the_newest_leader() -> None:
    ghost = ghost_of_three()
    ghost.newest_epoch = ghost.shadow(ONE).leads = 2
    ghost.listed_end = 4
    with pytest.raises(Violation, match="4 was told before"):
        check_offset(ghost, ONE, OffsetQuery(T0, -1), OffsetAnswer(T0, None, KEY[0], Offset(3)))


@pytest.mark.parametrize(
    ("offset", "leads", "right"),
    [(0, 2, True), (1, 2, False), (3, 2, False), (4, 2, True), (3, 1, True)],
)
def test_what_is_committed_is_in_range_unless_it_was_deleted(
    offset: int, leads: int, right: bool
) -> None:
    ghost = ghost_of_three()
    ghost.newest_epoch, ghost.shadow(ONE).leads = 2, leads
    ghost.deleted_to, ghost.committed_end = 1, 3
    with nullcontext() if right else pytest.raises(Violation, match=f"no offset {offset}"):
        check_out_of_range(ghost, ONE, offset)


@pytest.mark.parametrize(
    ("leads", "start", "last_epoch", "right"),
    [(2, 0, 2, False), (2, 3, 2, True), (1, 0, 2, True), (2, 0, 0, True)],
)
def test_what_is_committed_diverges_from_no_leader_that_is_one(
    leads: int, start: int, last_epoch: int, right: bool
) -> None:
    """From a deposed one it may, which does not know what is committed since."""
    ghost = ghost_of_three()
    ghost.committed = ghost.shadow(ONE).batches[:3]
    ghost._bases, ghost.committed_end = [0, 2, 3], 4
    ghost.newest_epoch, ghost.shadow(ONE).leads = 2, leads
    asked = PartitionFetch(T0, KEY[0], Offset(3), 100, last_fetched_epoch=LeaderEpoch(last_epoch))
    told = PartitionData(
        T0, log_start_offset=Offset(start), diverging=EpochEnd(LeaderEpoch(0), Offset(2))
    )
    with nullcontext() if right else pytest.raises(Violation, match="E: broker 1 tells"):
        check_divergence(ghost, ONE, asked, told)


@pytest.mark.parametrize(
    ("epoch", "told", "end", "right"),
    [
        (0, 0, 2, True),
        (1, 0, 2, True),
        (1, 2, 2, False),
        (0, 0, 3, False),
        (2, 2, 4, True),
        (2, 2, 3, False),
    ],
)
def test_epochs(epoch: int, told: int, end: int, right: bool) -> None:
    answer = ReplicaEpochEnd(*KEY, None, LeaderEpoch(told), Offset(end))
    with nullcontext() if right else pytest.raises(Violation):
        check_epoch_end(ghost_of_three(), ONE, epoch, answer)
