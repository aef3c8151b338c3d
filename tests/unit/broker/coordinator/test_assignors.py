"""The broker's assignors, on groups of any shape."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pylog.model import TopicId
from pylog_broker.coordinator.groups.consumer.assignors import (
    ASSIGNORS,
    AssignedMember,
    Assignment,
    assign_range,
    assign_uniform,
)
from pylog_broker.coordinator.groups.consumer.topics import (
    SubscribedTopic,
    TopicIdPartition,
    metadata_hash,
)

RACKS = ("a", "b", "c")
SOME = settings(max_examples=40)  # each draws a whole group


def topic(name: str, count: int, racks: tuple[frozenset[str], ...] = ()) -> SubscribedTopic:
    return SubscribedTopic(name, TopicId(name.ljust(22, "A")), count, racks)


def spans(assignment: Assignment, name: str, of: SubscribedTopic) -> list[int]:
    return sorted(p.partition for p in assignment[name] if p.topic_id == of.topic_id)


def racks_of(count: int, stride: int) -> tuple[frozenset[str], ...]:
    return tuple(frozenset(RACKS[partition // stride % 3]) for partition in range(count))


@dataclass
class Shape:
    """A group and its topics."""

    members: dict[str, AssignedMember]
    topics: list[SubscribedTopic]

    def again(self, assignment: Assignment, but: str = "") -> dict[str, AssignedMember]:
        """The members with what they have been given, without that one."""
        return {
            name: member._replace(present=assignment[name])
            for name, member in self.members.items()
            if name != but
        }


@st.composite
def shapes(draw: st.DrawFn, *, alike: bool) -> Shape:
    counts = draw(st.lists(st.integers(0, 12), min_size=1, max_size=4))
    stride = draw(st.integers(0, 3))
    topics = [
        topic(f"t{number}", count, racks_of(count, stride) if stride else ())
        for number, count in enumerate(counts)
    ]
    names = [each.name for each in topics]
    members = {
        f"m{number}": AssignedMember(
            frozenset(names if alike else draw(st.sets(st.sampled_from(names)))),
            rack_id=draw(st.sampled_from((None, *RACKS))),
            instance_id=draw(st.sampled_from((None, f"i{9 - number}"))),
        )
        for number in range(draw(st.integers(1, 7)))
    }
    return Shape(members, topics)


def check_owners(shape: Shape, assignment: Assignment) -> None:
    """Every partition that anybody subscribes to has one owner, which subscribes to it."""
    owners = [(p, name) for name, share in assignment.items() for p in share]
    assert len({p for p, _ in owners}) == len(owners)
    names = {each.topic_id: each.name for each in shape.topics}
    for partition, name in owners:
        assert names[partition.topic_id] in shape.members[name].subscribed
    subscribed = frozenset[str]().union(*(m.subscribed for m in shape.members.values()))
    wanted = {p for each in shape.topics if each.name in subscribed for p in each.partitions()}
    assert {p for p, _ in owners} == wanted
    assert assignment.keys() == shape.members.keys()


@pytest.mark.parametrize("name", ASSIGNORS)
@SOME
@given(shape=shapes(alike=False))
def test_every_partition_has_one_owner_that_subscribes_to_it(name: str, shape: Shape) -> None:
    check_owners(shape, ASSIGNORS[name](shape.members, shape.topics))


@SOME
@given(shape=shapes(alike=True))
def test_uniform_shares_differ_by_one_at_most(shape: Shape) -> None:
    loads = [len(share) for share in assign_uniform(shape.members, shape.topics).values()]
    assert max(loads) - min(loads) <= 1


@SOME
@given(shape=shapes(alike=False))
def test_no_single_move_makes_uniform_shares_more_even(shape: Shape) -> None:
    shares = assign_uniform(shape.members, shape.topics)
    names = {each.topic_id: each.name for each in shape.topics}
    for giver, share in shares.items():
        for partition in share:
            for receiver, member in shape.members.items():
                if names[partition.topic_id] in member.subscribed:
                    assert len(share) - len(shares[receiver]) <= 1, (giver, receiver)


@SOME
@given(shape=shapes(alike=False))
def test_uniform_leaves_alone_what_it_has_assigned(shape: Shape) -> None:
    first = assign_uniform(shape.members, shape.topics)
    assert assign_uniform(shape.again(first), shape.topics) == first


@SOME
@given(shape=shapes(alike=True), number=st.integers(0, 6))
def test_uniform_moves_only_what_a_leaving_member_had(shape: Shape, number: int) -> None:
    first = assign_uniform(shape.members, shape.topics)
    leaving = [*shape.members][number % len(shape.members)]
    second = assign_uniform(shape.again(first, leaving), shape.topics)
    for name, share in second.items():
        assert first[name] <= share


@SOME
@given(shape=shapes(alike=True))
def test_uniform_moves_to_a_new_member_only_its_share(shape: Shape) -> None:
    first = assign_uniform(shape.members, shape.topics)
    subscribed = next(iter(shape.members.values())).subscribed
    members = {**shape.again(first), "new": AssignedMember(subscribed)}
    second = assign_uniform(members, shape.topics)
    for name, share in first.items():
        assert second[name] <= share


@SOME
@given(shape=shapes(alike=False))
def test_range_spans_are_contiguous_and_go_by_the_members_order(shape: Shape) -> None:
    assignment = assign_range(shape.members, shape.topics)
    for each in shape.topics:
        found = [span for name in shape.members if (span := spans(assignment, name, each))]
        for span in found:
            assert span == [*range(span[0], span[-1] + 1)]
        sizes = [
            len(spans(assignment, name, each))
            for name, member in shape.members.items()
            if each.name in member.subscribed
        ]
        assert not sizes or max(sizes) - min(sizes) <= 1


def test_uniform_does_not_take_from_a_member_what_it_must_give_back() -> None:
    topics = [topic("t", 12), topic("u", 1), topic("v", 11)]
    members = {name: AssignedMember(frozenset("tuv")) for name in "abcd"}
    first = assign_uniform(members, topics)
    again = {name: member._replace(present=first[name]) for name, member in members.items()}
    second = assign_uniform({**again, "e": AssignedMember(frozenset("tuv"))}, topics)
    assert [second[name] - first[name] for name in members] == [frozenset()] * 4
    assert sorted(map(len, second.values())) == [4, 5, 5, 5, 5]


def test_uniform_fills_a_rack_no_further_than_takes_nothing_from_others() -> None:
    near = (frozenset[str](),) * 3 + (frozenset("a"),) * 6
    wanted = topic("t", 9, near)
    racks = {"m0": None, "m1": "a", "m2": None, "m3": "a", "m4": "a"}
    members = {name: AssignedMember(frozenset("t"), rack_id=rack) for name, rack in racks.items()}
    first = assign_uniform(members, [wanted])
    del members["m1"]
    again = {name: member._replace(present=first[name]) for name, member in members.items()}
    second = assign_uniform(again, [wanted])
    assert all(first[name] <= second[name] for name in again)


def test_range_assigns_topics_of_one_size_alike() -> None:
    topics = [topic("t", 5), topic("u", 5)]
    members = {
        "a": AssignedMember(frozenset("tu")),
        "b": AssignedMember(frozenset("tu"), instance_id="first"),
    }
    assignment = assign_range(members, topics)
    for each in topics:
        assert spans(assignment, "b", each) == [0, 1, 2]
        assert spans(assignment, "a", each) == [3, 4]


def test_uniform_reads_in_its_own_rack_where_shares_stay_even() -> None:
    here, there = frozenset("a"), frozenset("b")
    wanted = topic("t", 4, (here, here, there, there))
    members = {
        "m": AssignedMember(frozenset("t"), rack_id="b"),
        "n": AssignedMember(frozenset("t"), rack_id="a"),
    }
    assignment = assign_uniform(members, [wanted])
    assert spans(assignment, "m", wanted) == [2, 3]
    assert spans(assignment, "n", wanted) == [0, 1]


def test_uniform_spreads_topics_over_a_member_that_comes() -> None:
    topics = [topic("t", 6), topic("u", 6)]
    subscribed = frozenset("tu")
    first = assign_uniform({"a": AssignedMember(subscribed)}, topics)
    members = {"a": AssignedMember(subscribed, first["a"]), "b": AssignedMember(subscribed)}
    second = assign_uniform(members, topics)
    assert [len(spans(second, name, each)) for name in "ab" for each in topics] == [3] * 4


def test_a_topic_of_the_same_name_is_not_the_topic_that_was_assigned() -> None:
    old = TopicIdPartition(TopicId("B" * 22), 0)
    members = {"a": AssignedMember(frozenset("t"), frozenset({old}))}
    assert assign_uniform(members, [topic("t", 1)]) == {"a": frozenset(topic("t", 1).partitions())}


def test_a_metadata_hash_changes_with_each_of_its_parts() -> None:
    one = topic("t", 2, (frozenset("a"), frozenset("b")))
    others = [
        one._replace(partition_count=3),
        one._replace(topic_id=TopicId("B" * 22)),
        one._replace(racks=(frozenset("b"), frozenset("a"))),
        one._replace(name="u"),
    ]
    hashes = [metadata_hash([each]) for each in (one, *others)]
    assert len({0, metadata_hash([one, topic("u", 1)]), *hashes}) == len(hashes) + 2
    assert metadata_hash([]) == 0
    assert metadata_hash([one, topic("u", 1)]) == metadata_hash([topic("u", 1), one])
