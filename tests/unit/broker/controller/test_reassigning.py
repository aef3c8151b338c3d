"""Reassignment of one partition: tables of begin, change, cancel and end, and random worlds."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pylog.model import NO_LEADER, BrokerId, LeaderEpoch, PartitionEpoch, TopicId
from pylog_broker.controller.partitions import is_enough, next_state
from pylog_broker.controller.reassigning import (
    NobodyIsLeft,
    completed,
    replaced,
    retargeted,
    reverted,
)
from pylog_broker.metadata.records import PartitionRecord


def ids(*brokers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, brokers))


def directory(broker: int) -> str:
    return f"new-{broker}"


def partition(
    replicas: tuple[int, ...],
    isr: tuple[int, ...],
    leader: int,
    *,
    adding: tuple[int, ...] = (),
    removing: tuple[int, ...] = (),
    elr: tuple[int, ...] = (),
    last_known: tuple[int, ...] = (),
    failed: tuple[int, ...] = (),
    emptied: tuple[int, ...] = (),
) -> PartitionRecord:
    return PartitionRecord(
        TopicId("t"), 0, ids(*replicas), ids(*isr), BrokerId(leader), LeaderEpoch(5),
        PartitionEpoch(9), ids(*elr), ids(*last_known), tuple(f"d-{b}" for b in replicas),
        ids(*adding), ids(*removing), ids(*failed), ids(*emptied),
    )  # fmt: skip


def everybody(_broker: BrokerId) -> bool:
    return True


def moves(record: PartitionRecord) -> tuple[object, ...]:
    return record.replicas, record.adding_replicas, record.removing_replicas


def test_a_move_begins_with_the_target_and_those_that_leave() -> None:
    before = partition((1, 2, 3), (1, 2, 3), 1)
    wanted = retargeted(before, ids(4, 3, 5), directory)
    changed = replaced(before, wanted, min_isr=2, live=everybody)
    assert changed == PartitionRecord(
        TopicId("t"), 0, ids(4, 3, 5, 1, 2), ids(1, 2, 3), BrokerId(1), LeaderEpoch(5),
        PartitionEpoch(10), (), (), ("new-4", "d-3", "new-5", "d-1", "d-2"),
        adding_replicas=ids(4, 5), removing_replicas=ids(1, 2), emptied_replicas=ids(4, 5),
    )  # fmt: skip


def test_another_order_is_a_change_of_the_preferred_leader_alone() -> None:
    before = partition((1, 2, 3), (1, 2, 3), 1)
    changed = replaced(
        before, retargeted(before, ids(3, 2, 1), directory), min_isr=2, live=everybody
    )
    assert changed is not None
    assert moves(changed) == (ids(3, 2, 1), (), ())
    assert changed.directories == ("d-3", "d-2", "d-1")
    assert (changed.leader, changed.leader_epoch, changed.partition_epoch) == (1, 5, 10)


def test_the_replicas_of_now_as_target_change_nothing() -> None:
    before = partition((1, 2), (1, 2), 1)
    wanted = retargeted(before, ids(1, 2), directory)
    assert replaced(before, wanted, min_isr=1, live=everybody) is None


# the partition, min ISR, who lives -> replicas, ISR, leader, ELR, rise of the leader epoch; None
ENDS = {
    "not all that are added are in sync": (
        partition((3, 4, 1, 2), (1, 2, 3), 1, adding=(3, 4), removing=(1, 2)), 1, (1, 2, 3, 4),
        None),
    "all are: the others leave, and the leader with them": (
        partition((3, 4, 1, 2), (1, 2, 3, 4), 1, adding=(3, 4), removing=(1, 2)), 1, (1, 2, 3, 4),
        ((3, 4), (3, 4), 3, (), 1)),
    "a leader that stays": (
        partition((1, 4, 2), (1, 2, 4), 1, adding=(4,), removing=(2,)), 2, (1, 2, 4),
        ((1, 4), (1, 4), 1, (), 1)),
    "more replicas, nobody leaves": (
        partition((1, 2, 3), (1, 2, 3), 1, adding=(2, 3)), 2, (1, 2, 3),
        ((1, 2, 3), (1, 2, 3), 1, (), 1)),
    "fewer replicas: at once, when one that stays is in sync": (
        partition((3, 1, 2), (1, 3), 1, removing=(1, 2)), 1, (1, 2, 3),
        ((3,), (3,), 3, (), 1)),
    "fewer replicas, and none that stays is in sync": (
        partition((3, 1, 2), (1, 2), 1, removing=(1, 2)), 1, (1, 2, 3), None),
    "the only one that would stay in sync is not live": (
        partition((3, 1), (3,), 3, removing=(1,)), 1, (1,), None),
    "the ISR would be too small without those that leave": (
        partition((1, 4, 2, 3), (2, 3, 4), 2, adding=(4,), removing=(2, 3)), 2, (2, 3, 4), None),
    "it is too small already": (
        partition((1, 2, 3), (1,), 1, removing=(3,), elr=(3,)), 2, (1,), None),
    "an offline partition": (
        partition((3, 1), (), NO_LEADER, adding=(3,), removing=(1,), elr=(1,)), 1, (3,), None),
}  # fmt: skip


@pytest.mark.parametrize(("before", "min_isr", "live", "expected"), ENDS.values(), ids=ENDS.keys())
def test_the_end_of_a_move(
    before: PartitionRecord,
    min_isr: int,
    live: tuple[int, ...],
    expected: tuple[object, ...] | None,
) -> None:
    ended = completed(before, min_isr=min_isr, live=lambda broker: broker in live)
    if ended is None:
        assert expected is None
        return
    assert not ended.is_reassigning
    assert ended.partition_epoch == 10
    assert len(ended.directories) == len(ended.replicas)
    assert (
        ended.replicas, ended.isr, ended.leader, ended.eligible_leader_replicas,
        ended.leader_epoch - 5,
    ) == expected  # fmt: skip


def test_what_is_known_of_those_that_leave_goes_with_them() -> None:
    before = partition(
        (4, 1, 2, 3), (1, 4), 1, adding=(4,), removing=(2, 3), last_known=(2,), failed=(2,),
        emptied=(3,),
    )  # fmt: skip
    ended = completed(before, min_isr=1, live=everybody)
    assert ended is not None
    assert (ended.last_known_elr, ended.failed_replicas, ended.emptied_replicas) == ((), (), ())
    assert ended.directories == ("d-4", "d-1")


def test_a_cancelled_move_goes_back() -> None:
    before = partition((3, 4, 1, 2), (1, 2, 3), 3, adding=(3, 4), removing=(1, 2), emptied=(4,))
    back = replaced(before, reverted(before), min_isr=1, live=everybody)
    assert back is not None
    assert moves(back) == (ids(1, 2), (), ())
    assert (back.isr, back.leader, back.leader_epoch) == (ids(1, 2), 1, 6)
    assert (back.directories, back.emptied_replicas) == (("d-1", "d-2"), ())


def test_a_move_is_not_cancelled_over_the_only_one_that_holds_everything() -> None:
    before = partition((3, 4, 1, 2), (3,), 3, adding=(3, 4), removing=(1, 2))
    with pytest.raises(NobodyIsLeft):
        replaced(before, reverted(before), min_isr=1, live=everybody)
    lossy = replaced(before, reverted(before), min_isr=1, live=everybody, unclean=True)
    assert lossy is not None
    assert lossy.leader == 1
    # one of the old ones is eligible: it will lead when it is back
    eligible = partition((3, 4, 1, 2), (3,), 3, adding=(3, 4), removing=(1, 2), elr=(2,))
    back = replaced(eligible, reverted(eligible), min_isr=2, live=lambda broker: broker != 2)
    assert back is not None
    assert (back.leader, back.isr, back.eligible_leader_replicas) == (NO_LEADER, (), (2,))


def test_a_new_target_takes_the_place_of_the_old_one() -> None:
    before = partition((3, 4, 1, 2), (1, 2, 3), 1, adding=(3, 4), removing=(1, 2))
    changed = replaced(before, retargeted(before, ids(4, 2), directory), min_isr=1, live=everybody)
    assert changed is not None
    assert moves(changed) == (ids(4, 2, 1), ids(4), ids(1))
    assert (changed.isr, changed.leader_epoch) == (ids(1, 2), 6)
    assert changed.directories == ("d-4", "d-2", "d-1")
    # the replicas of before, by name and in their order
    back = retargeted(before, ids(1, 2), directory)
    assert moves(back) == (ids(1, 2), (), ())


def test_replicas_that_are_added_do_not_count_for_min_insync_replicas() -> None:
    before = partition((1,), (1,), 1)
    changed = replaced(
        before, retargeted(before, ids(1, 2, 3), directory), min_isr=2, live=everybody
    )
    assert changed is not None
    assert is_enough(changed.isr, changed.original_replicas, 2)
    assert changed.eligible_leader_replicas == ()


class World:
    """One partition, its brokers, and which of them hold everything that is committed.

    A dumb account: an ISR that is large enough commits, and then its members alone hold all. While
    it is too small nothing is committed, so a replica that left keeps what is enough.
    """

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.min_isr = self.rng.randint(1, 3)
        self.live = set(range(1, 7))
        count = self.rng.randint(1, 3)
        self.record = partition(tuple(range(1, count + 1)), tuple(range(1, count + 1)), 1)
        self.holding = set(range(1, count + 1))
        self.target: tuple[BrokerId, ...] | None = None

    def take(self, changed: PartitionRecord | None) -> None:
        if changed is None:
            return
        before, self.record = self.record, changed
        assert changed.partition_epoch == before.partition_epoch + 1
        if not set(before.replicas) <= set(changed.replicas):
            assert changed.leader_epoch > before.leader_epoch
        self.holding &= set(changed.replicas)
        if changed.leader != NO_LEADER:
            assert changed.leader in self.holding | set(before.isr), (before, changed)
            assert changed.leader in changed.isr
        if before.isr:
            assert changed.isr or changed.eligible_leader_replicas
        assert set(changed.isr) | set(changed.eligible_leader_replicas) <= set(changed.replicas)
        self.holding |= set(changed.isr)
        if is_enough(changed.isr, changed.original_replicas, self.min_isr):
            self.holding = set(changed.isr)
        assert set(changed.eligible_leader_replicas) <= self.holding

    def change(self, isr: tuple[BrokerId, ...]) -> None:
        self.take(next_state(self.record, isr=isr, min_isr=self.min_isr, live=self.is_live))
        while self.record.is_reassigning:
            ended = completed(self.record, min_isr=self.min_isr, live=self.is_live)
            if ended is None:
                return
            assert set(ended.replicas) == set(self.record.target_replicas)
            self.take(ended)

    def is_live(self, broker: BrokerId) -> bool:
        return broker in self.live

    def move(self) -> None:
        target = tuple(self.rng.sample(sorted(self.live), min(len(self.live), 3)))
        wanted = retargeted(self.record, ids(*target), directory)
        if self.rng.random() < 0.3 and self.record.is_reassigning:
            wanted, target = reverted(self.record), self.record.original_replicas
        try:
            self.take(replaced(self.record, wanted, min_isr=self.min_isr, live=self.is_live))
        except NobodyIsLeft:
            return
        self.target = ids(*target)
        self.change(self.record.isr)

    def step(self) -> None:
        record, rng = self.record, self.rng
        event = rng.choice(["join", "join", "leave", "die", "live", "live", "move"])
        if event == "move" and self.live:
            self.move()
        elif event == "die" and self.live:
            gone = rng.choice(sorted(self.live))
            self.live.discard(gone)
            self.change(tuple(b for b in record.isr if b != gone))
        elif event == "live":
            self.live.add(rng.randint(1, 6))
            self.change(record.isr)
        elif record.leader != NO_LEADER:
            others = [b for b in record.replicas if b not in record.isr and b in self.live]
            if event == "join" and others:
                self.change((*record.isr, rng.choice(others)))
            elif event == "leave" and len(record.isr) > 1:
                gone = rng.choice([b for b in record.isr if b != record.leader])
                self.change(tuple(b for b in record.isr if b != gone))

    def settle(self) -> None:
        """All brokers live, and all replicas catch up."""
        self.live = set(range(1, 7))
        self.change(self.record.isr)
        for _ in range(2):
            for broker in self.record.replicas:
                if broker in self.record.replicas and broker not in self.record.isr:
                    self.change((*self.record.isr, broker))


@given(st.integers(0, 2**32))
@settings(max_examples=300)
def test_nothing_is_lost_and_every_move_ends(seed: int) -> None:
    world = World(seed)
    for _ in range(60):
        world.step()
    world.settle()
    assert world.record.leader != NO_LEADER
    assert not world.record.is_reassigning
    if world.target is not None:
        assert set(world.record.replicas) == set(world.target)
