"""The assignments: Kafka's assignors by example, and the rules for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylog.client.membership.assignors import (
    OWN_ASSIGNORS,
    Assignor,
    CooperativeStickyAssignor,
    Member,
    Plan,
    RangeAssignor,
    RoundRobinAssignor,
    StickyAssignor,
)
from pylog.consumer_protocol import Subscription
from pylog.model import TopicPartition

STICKY: list[Assignor] = [StickyAssignor(), CooperativeStickyAssignor()]


def by_name(assignor: Assignor) -> str:
    return assignor.name


def members_of(count: int, topics: Sequence[str]) -> list[Member]:
    return [Member(f"m{number}", Subscription(tuple(topics))) for number in range(count)]


def numbers(plan: Plan) -> dict[str, list[int]]:
    return {member_id: [tp.partition for tp in share] for member_id, share in plan.items()}


def sizes(plan: Plan) -> list[int]:
    return [len(share) for share in plan.values()]


def joined_again(
    assignor: Assignor, members: Sequence[Member], plan: Plan, generation: int
) -> list[Member]:
    """The members as they join the next time: the cooperative ones name what they hold."""
    return [
        m._replace(
            subscription=m.subscription._replace(
                user_data=assignor.user_data(plan.get(m.member_id, []), generation),
                owned=tuple(plan.get(m.member_id, ())) if assignor.cooperative else (),
                generation=generation,
            )
        )
        for m in members
    ]


def settled(
    assignor: Assignor,
    counts: Mapping[str, int],
    members: Sequence[Member],
    plan: Plan,
    rebalances: int = 2,
) -> Plan:
    """The group's final plan: a cooperative one rebalances until nothing is to be given up."""
    for generation in range(1, rebalances + 2):
        after = assignor.assign(counts, joined_again(assignor, members, plan, generation))
        if not assignor.cooperative or after == plan:
            return after
        plan = after
    raise AssertionError("one more rebalance still moves something")


# ---- range ---------------------------------------------------------------------------------------


def test_range_gives_neighbours_and_the_first_ones_more() -> None:
    plan = RangeAssignor().assign({"t": 7}, members_of(3, ["t"]))
    assert numbers(plan) == {"m0": [0, 1, 2], "m1": [3, 4], "m2": [5, 6]}


def test_range_takes_each_topic_by_itself_so_that_the_skew_adds_up() -> None:
    counts = {f"t{number}": 3 for number in range(10)}
    assert sizes(RangeAssignor().assign(counts, members_of(2, list(counts)))) == [20, 10]


def test_range_leaves_members_without_where_there_are_more_of_them() -> None:
    plan = RangeAssignor().assign({"t": 2}, members_of(3, ["t"]))
    assert numbers(plan) == {"m0": [0], "m1": [1], "m2": []}


def test_static_members_come_first_and_by_their_instance() -> None:
    want = Subscription(("t",))
    members = [Member("a", want), Member("z", want, "i1"), Member("y", want, "i2")]
    assert numbers(RangeAssignor().assign({"t": 3}, members)) == {"z": [0], "y": [1], "a": [2]}


# ---- round robin ---------------------------------------------------------------------------------


def test_round_robin_deals_out_all_topics_together() -> None:
    counts = {f"t{number}": 3 for number in range(10)}
    assert sizes(RoundRobinAssignor().assign(counts, members_of(2, list(counts)))) == [15, 15]


def test_round_robin_passes_over_members_that_do_not_want_a_topic() -> None:
    # The example of Kafka's own documentation of the assignor.
    counts = {"t0": 1, "t1": 2, "t2": 3}
    wants = {"c0": ("t0",), "c1": ("t0", "t1"), "c2": ("t0", "t1", "t2")}
    members = [Member(member_id, Subscription(topics)) for member_id, topics in wants.items()]
    plan = RoundRobinAssignor().assign(counts, members)
    assert {member_id: [str(tp) for tp in share] for member_id, share in plan.items()} == {
        "c0": ["t0-0"],
        "c1": ["t1-0"],
        "c2": ["t1-1", "t2-0", "t2-1", "t2-2"],
    }


# ---- sticky --------------------------------------------------------------------------------------


@pytest.mark.parametrize("assignor", STICKY, ids=by_name)
def test_only_orphans_move_when_a_member_is_gone(assignor: Assignor) -> None:
    members = members_of(3, ["t"])
    before = assignor.assign({"t": 9}, members)
    after = settled(assignor, {"t": 9}, members[1:], before)
    assert sorted(sizes(after)) == [4, 5]
    for member in members[1:]:
        assert set(before[member.member_id]) <= set(after[member.member_id])


@pytest.mark.parametrize("assignor", STICKY, ids=by_name)
def test_a_new_member_gets_its_part_and_nothing_else_moves(assignor: Assignor) -> None:
    members = members_of(3, ["t"])
    before = assignor.assign({"t": 8}, members[:2])
    after = settled(assignor, {"t": 8}, members, before)
    assert sorted(sizes(after)) == [2, 3, 3]
    assert set(after["m0"]) < set(before["m0"])
    assert set(after["m1"]) < set(before["m1"])


def test_a_member_of_an_older_generation_has_lost_what_a_newer_one_got() -> None:
    t0, t1 = TopicPartition("t", 0), TopicPartition("t", 1)
    zombie = Member("a", Subscription(("t",), owned=(t0, t1), generation=4))
    owner = Member("b", Subscription(("t",), owned=(t0,), generation=5))
    assert CooperativeStickyAssignor().assign({"t": 2}, [zombie, owner]) == {"a": [t1], "b": []}
    plan = StickyAssignor().assign({"t": 2}, [zombie, owner])
    assert plan == {"a": [t1], "b": [t0]}


def test_what_two_claim_in_one_generation_is_neithers() -> None:
    t0 = TopicPartition("t", 0)
    members = [Member(name, Subscription(("t",), None, (t0,), 5)) for name in ("a", "b")]
    assert StickyAssignor().assign({"t": 1}, members) == {"a": [t0], "b": []}
    assert CooperativeStickyAssignor().assign({"t": 1}, members) == {"a": [], "b": []}


def test_what_sticky_members_tell_are_kafkas_bytes() -> None:
    owned = [TopicPartition("t", 2), TopicPartition("t", 0)]
    sticky = bytes.fromhex("00000001 000174 00000002 00000002 00000000 00000005")
    assert StickyAssignor().user_data(owned, 5) == sticky
    assert CooperativeStickyAssignor().user_data(owned, 5) == bytes.fromhex("00000005")


@pytest.mark.parametrize("data", [b"", b"xyz", b"\xff" * 12, b"\x00\x00\x00\x01\x7f\xff\xff\xff"])
def test_user_data_of_another_assignor_tell_nothing(data: bytes) -> None:
    members = [Member("a", Subscription(("t",), data)), Member("b", Subscription(("t",)))]
    assert sizes(StickyAssignor().assign({"t": 4}, members)) == [2, 2]


# ---- all of them ---------------------------------------------------------------------------------

TOPICS = st.dictionaries(st.sampled_from("abcd"), st.integers(1, 9), min_size=1)
WISHES = st.lists(st.sets(st.sampled_from("abcdx"), min_size=1), min_size=1, max_size=6)


def members_wishing(wishes: Sequence[set[str]]) -> list[Member]:
    return [
        Member(f"m{number}", Subscription(tuple(sorted(topics))))
        for number, topics in enumerate(wishes)
    ]


def check_owners(counts: Mapping[str, int], members: Sequence[Member], plan: Plan) -> None:
    """Each partition that somebody wants has one owner, which wants it; there are no other ones."""
    topics = {member.member_id: member.subscription.topics for member in members}
    dealt = [tp for share in plan.values() for tp in share]
    wanted = {topic for wish in topics.values() for topic in wish if topic in counts}
    assert sorted(dealt) == sorted(
        TopicPartition(topic, number) for topic in wanted for number in range(counts[topic])
    )
    assert all(tp.topic in topics[owner] for owner, share in plan.items() for tp in share)
    assert plan.keys() == topics.keys()


def check_balance(members: Sequence[Member], plan: Plan) -> None:
    """Nobody has two more than a member that could take one of them."""
    for giver, share in plan.items():
        for taker in members:
            if len(share) >= len(plan[taker.member_id]) + 2:
                assert not {tp.topic for tp in share} & set(taker.subscription.topics), giver


@given(TOPICS, WISHES, st.sampled_from(sorted(OWN_ASSIGNORS)))
def test_each_partition_has_one_owner(
    counts: dict[str, int], wishes: list[set[str]], name: str
) -> None:
    members = members_wishing(wishes)
    check_owners(counts, members, OWN_ASSIGNORS[name]().assign(counts, members))


@given(TOPICS, WISHES, WISHES, st.sampled_from(STICKY))
def test_a_sticky_group_becomes_even_again_whoever_comes_and_goes(
    counts: dict[str, int], before: list[set[str]], after: list[set[str]], assignor: Assignor
) -> None:
    plan = assignor.assign(counts, members_wishing(before))
    members = members_wishing(after)
    # If members want different topics, a partition that was given up can have a better place then.
    now = settled(assignor, counts, members, plan, rebalances=4)
    check_owners(counts, members, now)
    check_balance(members, now)


@given(TOPICS, WISHES, st.sampled_from(STICKY))
def test_nothing_moves_in_a_group_that_stays_as_it_is(
    counts: dict[str, int], wishes: list[set[str]], assignor: Assignor
) -> None:
    members = members_wishing(wishes)
    plan = assignor.assign(counts, members)
    assert assignor.assign(counts, joined_again(assignor, members, plan, 1)) == plan


@given(st.integers(1, 30), st.integers(1, 7), st.integers(1, 7), st.sampled_from(STICKY))
def test_no_more_moves_than_balance_asks_for(
    count: int, before: int, after: int, assignor: Assignor
) -> None:
    old = assignor.assign({"t": count}, members_of(before, ["t"]))
    new = settled(assignor, {"t": count}, members_of(after, ["t"]), old)
    for member_id in old.keys() & new.keys():
        kept = len(set(old[member_id]) & set(new[member_id]))
        assert kept == min(len(old[member_id]), len(new[member_id]))


@given(TOPICS, WISHES, WISHES)
def test_a_partition_that_moves_is_nobodys_until_it_is_given_up(
    counts: dict[str, int], before: list[set[str]], after: list[set[str]]
) -> None:
    assignor = CooperativeStickyAssignor()
    plan = assignor.assign(counts, members_wishing(before))
    members = joined_again(assignor, members_wishing(after), plan, 1)
    step = assignor.assign(counts, members)
    held = {tp: m.member_id for m in members for tp in m.subscription.owned}
    assert all(held.get(tp, owner) == owner for owner, share in step.items() for tp in share)


@pytest.mark.parametrize("name", sorted(OWN_ASSIGNORS))
def test_the_order_in_which_members_are_told_does_not_matter(name: str) -> None:
    assignor, members = OWN_ASSIGNORS[name](), members_of(5, ["a", "b"])
    there = assignor.assign({"a": 7, "b": 4}, members)
    assert assignor.assign({"b": 4, "a": 7}, members[::-1]) == there


def test_a_users_own_assignor_is_one() -> None:
    class Everything:
        name = "everything-to-one"
        cooperative = False

        def user_data(self, owned: Sequence[TopicPartition], generation: int) -> bytes | None:
            return None

        def assign(self, partition_counts: Mapping[str, int], members: Sequence[Member]) -> Plan:
            first, *others = sorted(member.member_id for member in members)
            every = [TopicPartition(t, n) for t, c in partition_counts.items() for n in range(c)]
            return {first: every, **{other: [] for other in others}}

    own: Assignor = Everything()
    assert sizes(own.assign({"t": 5}, members_of(3, ["t"]))) == [5, 0, 0]
