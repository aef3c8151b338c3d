"""Changes of one partition: tables of ISR, live brokers and the leader that follows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pylog.model import NO_LEADER, BrokerId, LeaderEpoch, PartitionEpoch, TopicId
from pylog_broker.controller.partitions import ELECTION, Asked, Standing, elect, joined, next_state
from pylog_broker.metadata.records import PartitionRecord


def ids(*brokers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, brokers))


def partition(
    replicas: tuple[int, ...] = (1, 2, 3),
    isr: tuple[int, ...] = (1, 2, 3),
    leader: int = 1,
    elr: tuple[int, ...] = (),
    last_known: tuple[int, ...] = (),
) -> PartitionRecord:
    return PartitionRecord(
        TopicId("t"), 0, ids(*replicas), ids(*isr), BrokerId(leader), LeaderEpoch(5),
        PartitionEpoch(9), ids(*elr), ids(*last_known), ("a", "b", "c")[: len(replicas)],
    )  # fmt: skip


def summary(changed: PartitionRecord | None) -> tuple[object, ...] | None:
    if changed is None:
        return None
    return (
        changed.leader, changed.isr, changed.eligible_leader_replicas, changed.last_known_elr,
        changed.leader_epoch - 5, changed.partition_epoch - 9,
    )  # fmt: skip


# before; new ISR; live; min ISR -> leader, ISR, ELR, last known ELR, both epochs' rise
TABLE = {
    "the leader goes: the first live in-sync replica in replica order leads (K22)": (
        partition((1, 2, 3), (3, 1)), (3,), (2, 3), 1, (3, (3,), (), (), 1, 1)),
    "replica order decides, not the order of the ISR": (
        partition((1, 2, 3), (1, 3, 2)), (3, 2), (2, 3), 1, (2, (3, 2), (), (), 1, 1)),
    "a follower goes: same leader, same leader epoch": (
        partition(), (1, 2), (1, 2), 1, (1, (1, 2), (), (), 0, 1)),
    "below min ISR, who leaves becomes eligible": (
        partition((1, 2, 3), (1, 2)), (1,), (1,), 2, (1, (1,), (2,), (), 0, 1)),
    "at min ISR nobody is eligible": (
        partition(), (1, 2), (1, 2), 2, (1, (1, 2), (), (), 0, 1)),
    "the last one goes: offline, but eligible": (
        partition((1, 2, 3), (1,), elr=(2,)), (), (), 2, (-1, (), (2, 1), (), 1, 1)),
    "the last one goes with min ISR 1: only it is eligible": (
        partition((1, 2, 3), (1,)), (), (2, 3), 1, (-1, (), (1,), (), 1, 1)),
    "offline, an eligible replica is there: it leads alone": (
        partition((1, 2, 3), (), -1, (2, 1)), (), (2, 3), 2, (2, (2,), (1,), (), 1, 1)),
    "with min ISR 1 the elected one clears the list": (
        partition((1, 2, 3), (), -1, (2, 1)), (), (2, 3), 1, (2, (2,), (), (), 1, 1)),
    "back at min ISR: the lists are cleared": (
        partition((1, 2, 3), (2,), 2, (1,), (3,)), (2, 3), (2, 3), 2, (2, (2, 3), (), (), 0, 1)),
    "a live replica that is not eligible may not lead": (
        partition((1, 2, 3), (), -1, (1,)), (), (2, 3), 2, None),
    "min ISR above the number of replicas means all of them": (
        partition((1,), (1,)), (1,), (1,), 3, None),
    "a stopping leader without a successor stays": (
        partition((1, 2, 3), (1, 2)), (1,), (3,), 1, (1, (1,), (), (), 0, 1)),
    "nothing changes: no record": (
        partition(), (1, 2, 3), (1, 2, 3), 2, None),
}  # fmt: skip


@pytest.mark.parametrize(
    ("before", "isr", "live", "min_isr", "expected"), TABLE.values(), ids=TABLE.keys()
)
def test_election(
    before: PartitionRecord,
    isr: tuple[int, ...],
    live: tuple[int, ...],
    min_isr: int,
    expected: tuple[object, ...] | None,
) -> None:
    changed = next_state(before, isr=ids(*isr), min_isr=min_isr, live=lambda b: b in live)
    assert summary(changed) == expected


LOST_TABLE = {
    "it leaves the ISR and is not eligible, but remembered": (
        partition((1, 2, 3), (1, 2)), 2, (1,), 2, (1, (1,), (), (2,), 0, 1)),
    "it leaves the eligible ones": (
        partition((1, 2, 3), (1,), 1, (2,)), 2, (1,), 2, (1, (1,), (), (2,), 0, 1)),
    "the last one of all: offline rather than lossy": (
        partition((1, 2, 3), (1,)), 1, (2, 3), 1, (-1, (), (), (1,), 1, 1)),
    "the last in the ISR loses, an eligible one leads (B-R23)": (
        partition((1, 2, 3), (1,), 1, (2,)), 1, (2, 3), 2, (2, (2,), (), (1,), 1, 1)),
}  # fmt: skip


@pytest.mark.parametrize(
    ("before", "lost", "live", "min_isr", "expected"), LOST_TABLE.values(), ids=LOST_TABLE.keys()
)
def test_loss(
    before: PartitionRecord,
    lost: int,
    live: tuple[int, ...],
    min_isr: int,
    expected: tuple[object, ...],
) -> None:
    changed = next_state(
        before, isr=before.isr, min_isr=min_isr, live=lambda b: b in live, lost=ids(lost)
    )
    assert summary(changed) == expected


FRESH_TABLE = {
    "the last one keeps its claim with whatever is left": (
        partition((1, 2, 3), (1,)), (1,), (), (2, 3), (-1, (), (1,), (), 1, 1)),
    "so does the last eligible one": (
        partition((1, 2, 3), (), -1, (1,)), (1,), (), (2, 3), None),
    "of several that are eligible, who lost nothing is better": (
        partition((1, 2, 3), (), -1, (1, 2)), (1,), (), (3,), (-1, (), (2,), (1,), 0, 1)),
    "one with nothing left has no claim to keep": (
        partition((1, 2, 3), (1,)), (1,), (1,), (2, 3), (-1, (), (), (), 1, 1)),
    "while another is in sync it is none of the eligible": (
        partition((1, 2, 3), (1, 2), 2), (1,), (), (2, 3), (2, (2,), (), (1,), 0, 1)),
}  # fmt: skip


@pytest.mark.parametrize(
    ("before", "lost", "emptied", "live", "expected"), FRESH_TABLE.values(), ids=FRESH_TABLE.keys()
)
def test_loss_where_nothing_was_ever_committed(
    before: PartitionRecord,
    lost: tuple[int, ...],
    emptied: tuple[int, ...],
    live: tuple[int, ...],
    expected: tuple[object, ...],
) -> None:
    changed = next_state(
        replace(before, never_committed=True),
        isr=tuple(broker for broker in before.isr if broker not in lost),
        min_isr=3,
        live=lambda b: b in live,
        lost=ids(*lost),
        emptied=ids(*emptied),
    )
    assert summary(changed) == expected
    assert changed is None or changed.never_committed


def test_once_an_isr_was_enough_something_may_have_been_committed_for_ever() -> None:
    before = replace(partition((1, 2, 3), (1,)), never_committed=True)

    def changed(before: PartitionRecord, isr: tuple[int, ...], min_isr: int) -> PartitionRecord:
        after = next_state(before, isr=ids(*isr), min_isr=min_isr, live=lambda b: True, touch=True)
        assert after is not None
        return after

    assert changed(before, (1, 2), 3).never_committed
    assert not changed(before, (1, 2), 2).never_committed
    assert not changed(before, (1,), 1).never_committed  # the minimum was lowered
    assert not changed(before, (1, 2, 3), 4).never_committed
    enough = changed(before, (1, 2), 2)
    assert not changed(enough, (1,), 3).never_committed


UNCLEAN_TABLE = {
    "not while an eligible one is live": (
        partition((1, 2, 3), (), -1, (3,), (2,)), (1, 2, 3), (3, (3,), (), (2,), 1, 1)),
    "first who was eligible once": (
        partition((1, 2, 3), (), -1, (3,), (2,)), (1, 2), (2, (2,), (), (), 1, 1)),
    "then any, in replica order": (
        partition((3, 2, 1), (), -1, (3,)), (1, 2), (2, (2,), (), (), 1, 1)),
    "of those once eligible, who was so last": (
        partition((1, 2, 3), (), -1, (), (1, 2)), (1, 2, 3), (2, (2,), (), (), 1, 1)),
    "who began anew with nothing comes last, though the first replica": (
        replace(partition((1, 2, 3), (), -1, (2,)), emptied_replicas=ids(1)),
        (1, 3), (3, (3,), (), (), 1, 1)),
    "and leads when nobody else is live": (
        replace(partition((1, 2, 3), (), -1, (2,)), emptied_replicas=ids(1)),
        (1,), (1, (1,), (), (), 1, 1)),
    "never one that is not live (B-R25)": (
        partition((1, 2, 3), (), -1, (), (1,)), (), None),
}  # fmt: skip


@pytest.mark.parametrize(
    ("before", "live", "expected"), UNCLEAN_TABLE.values(), ids=UNCLEAN_TABLE.keys()
)
def test_unclean_election(
    before: PartitionRecord, live: tuple[int, ...], expected: tuple[object, ...] | None
) -> None:
    changed = next_state(before, isr=before.isr, min_isr=2, live=lambda b: b in live, unclean=True)
    assert summary(changed) == expected


# for each rule of the table: a partition, who is live, what is asked for -> the leader, and what
# becomes of the ISR and of those that may lead
DECIDED_BY = {
    "the preferred replica, in sync": (
        partition((1, 2, 3), (3, 1), 3), (1, 2, 3), Asked.PREFERRED, 1, (3, 1), ()),
    "the leader stays": (
        partition((1, 2, 3), (1, 3), 3), (1, 2, 3), Asked.UNCLEAN, 3, (1, 3), ()),
    "an in-sync replica": (
        partition((3, 1, 2), (2, 1), -1), (1, 2, 3), Asked.PREFERRED, 1, (2, 1), ()),
    "the leader stays although it stops: nobody can take over yet": (
        partition((1, 2, 3), (2,), 2, (3,)), (1, 3), Asked.UNCLEAN, 2, (2,), (3,)),
    "an eligible leader replica": (
        partition((1, 2, 3), (), -1, (3, 2)), (1, 2, 3), Asked.UNCLEAN, 2, (2,), (3,)),
    "the replica that likely lacks the least": (
        partition((1, 2, 3), (), -1, (2,), (3,)), (1, 3), Asked.UNCLEAN, 3, (3,), ()),
    "nobody: the partition is offline": (
        partition((1, 2, 3), (), -1, (2,)), (1, 3), Asked.PREFERRED, -1, (), (2,)),
}  # fmt: skip


@pytest.mark.parametrize("rule", ELECTION)
def test_each_rule_of_the_table_decides_where_those_before_it_do_not(rule: str) -> None:
    before, live, asked, leader, isr, elr = DECIDED_BY[rule]
    standing = Standing(before, before.isr, before.eligible_leader_replicas, before.last_known_elr)
    assert elect(standing, lambda b: b in live, asked) == (rule, leader)
    after = next_state(
        before, isr=before.isr, min_isr=2, live=lambda b: b in live, touch=True,
        preferred=Asked.PREFERRED in asked, unclean=Asked.UNCLEAN in asked,
    )  # fmt: skip
    assert after is not None
    assert (after.leader, after.isr, after.eligible_leader_replicas) == (leader, isr, elr)


def test_every_rule_has_its_case() -> None:
    assert [*DECIDED_BY] == [*ELECTION]


def test_a_failed_log_elects_nobody_by_any_rule() -> None:
    for rule, (before, live, asked, *_) in DECIDED_BY.items():
        broken = replace(before, failed_replicas=before.replicas)
        after = next_state(
            broken, isr=(), min_isr=2, live=lambda b, live=live: b in live, touch=True,
            preferred=Asked.PREFERRED in asked, unclean=Asked.UNCLEAN in asked,
        )  # fmt: skip
        assert after is not None
        assert (after.leader, after.isr) == (NO_LEADER, ()), rule


def test_an_emptied_replica_is_none_of_the_last_known_and_is_filled_once_in_sync() -> None:
    before = partition((1, 2, 3), (), -1, (2, 1))
    emptied = next_state(
        before, isr=(), min_isr=2, live=lambda b: False, lost=ids(1), emptied=ids(1)
    )
    assert emptied is not None
    assert summary(emptied) == (-1, (), (2,), (), 0, 1)
    assert emptied.emptied_replicas == (1,)
    led = next_state(emptied, isr=(), min_isr=2, live=lambda b: b == 2)
    assert led is not None
    assert (led.isr, led.emptied_replicas) == ((2,), (1,))
    filled = next_state(led, isr=ids(2, 1), min_isr=2, live=lambda b: True)
    assert filled is not None
    assert (filled.isr, filled.emptied_replicas) == ((2, 1), ())


def test_the_preferred_leader_comes_back_when_it_is_in_sync_and_live() -> None:
    before = partition((1, 2, 3), (2, 3, 1), 2)

    def prefer(isr: tuple[int, ...], live: tuple[int, ...]) -> tuple[object, ...] | None:
        return summary(
            next_state(before, isr=ids(*isr), min_isr=1, live=lambda b: b in live, preferred=True)
        )

    assert prefer((2, 3, 1), (1, 2, 3)) == (1, (2, 3, 1), (), (), 1, 1)
    assert prefer((2, 3, 1), (2, 3)) is None
    assert prefer((2, 3), (1, 2, 3)) == (2, (2, 3), (), (), 0, 1)


def test_members_keep_their_places_and_new_ones_come_last() -> None:
    assert joined(partition(isr=(3, 1)), ids(1, 2, 3)) == (3, 1, 2)
    assert joined(partition(isr=(3, 1, 2)), ids(1, 3)) == (3, 1)


def test_a_touch_raises_only_the_partition_epoch() -> None:
    before = partition()
    changed = next_state(before, isr=before.isr, min_isr=1, live=lambda b: True, touch=True)
    assert summary(changed) == (1, (1, 2, 3), (), (), 0, 1)


@given(
    st.sets(st.integers(1, 4), max_size=4),
    st.sets(st.integers(1, 4), max_size=4),
    st.sets(st.integers(1, 4), max_size=2),
    st.integers(1, 5),
    st.booleans(),
    st.data(),
)
@settings(max_examples=300)
def test_invariants_of_one_step(
    isr: set[int], live: set[int], lost: set[int], min_isr: int, unclean: bool, data: st.DataObject
) -> None:
    rest = sorted({1, 2, 3, 4} - isr)
    elr = data.draw(st.sets(st.sampled_from(rest), max_size=2)) if rest and len(isr) < 2 else set()
    before = partition(
        (2, 1, 4, 3), tuple(sorted(isr)), min(isr, default=NO_LEADER), tuple(sorted(elr))
    )
    stay = ids(*sorted(isr & live))
    after = next_state(
        before, isr=stay, min_isr=min_isr, live=lambda b: b in live, lost=ids(*sorted(lost)),
        unclean=unclean,
    ) or before  # fmt: skip
    assert after.leader_epoch >= before.leader_epoch
    if after is before:
        return
    assert after.partition_epoch == before.partition_epoch + 1
    assert (after.leader_epoch > before.leader_epoch) == (after.leader != before.leader)
    assert set(after.isr) <= live & set(after.replicas)
    assert not set(after.isr) & set(after.eligible_leader_replicas)
    assert not (len(after.isr) >= min(min_isr, 4) and after.eligible_leader_replicas)
    assert (after.leader == NO_LEADER) == (not after.isr)
    if after.isr:
        assert after.leader in after.isr
    if not unclean:
        assert set(after.isr) <= (isr | elr) - lost
        assert not set(after.eligible_leader_replicas) & lost
