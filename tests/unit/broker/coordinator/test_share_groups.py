"""Membership of share groups, heartbeat by heartbeat, as Kafka's coordinator has it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylog.errors import (
    FencedMemberEpoch,
    GroupIdNotFound,
    GroupMaxSizeReached,
    InconsistentGroupProtocol,
    InvalidRequest,
    NonEmptyGroup,
    PylogError,
    UnknownMemberId,
)
from pylog.model import TopicId
from pylog_broker.coordinator.groups.config import GroupConfig
from pylog_broker.coordinator.groups.consumer.topics import (
    Partitions,
    SubscribedTopic,
    TopicIdPartition,
)
from pylog_broker.coordinator.groups.group import Caller, GroupType
from pylog_broker.coordinator.groups.messages import (
    CommittedOffset,
    DeleteGroups,
    GroupsDeleted,
    ListedGroup,
    OffsetCommit,
    OffsetFetch,
)
from pylog_broker.coordinator.groups.share.assignor import SharingMember, assign_simple
from pylog_broker.coordinator.groups.share.messages import (
    DescribedShareGroup,
    DescribedShareMember,
    ShareHeartbeat,
    ShareHeartbeatAnswer,
)
from pylog_broker.group_settings import GroupSettings
from tests.fakes.classic_clients import TP, Client, G, stable
from tests.fakes.consumer_members import Consumer, delete_topic, partitions, set_topic, shard_with
from tests.fakes.group_shard import GroupShard
from tests.fakes.share_members import Sharer, settle_sharers, share_group

SESSION_MS = GroupSettings().share_session_timeout_ms
INTERVAL_MS = GroupSettings().share_heartbeat_interval_ms


def sharers(count: int, **topics: int) -> tuple[GroupShard, list[Sharer]]:
    """A settled group of so many."""
    shard = shard_with(**(topics or {"t": 6}))
    members = [Sharer(shard, f"m{number}", (*shard.topics,)) for number in range(count)]
    settle_sharers(*members)
    return shard, members


# ---- the assignor --------------------------------------------------------------------------------


def topic(name: str, count: int) -> SubscribedTopic:
    return SubscribedTopic(name, TopicId(name.ljust(22, "A")), count)


def all_of(*topics: SubscribedTopic) -> Partitions:
    return frozenset(each for found in topics for each in found.partitions())


@given(st.integers(1, 12), st.integers(1, 20), st.data())
def test_all_partitions_have_as_many_readers_and_members_about_as_many_partitions(
    members: int, count: int, data: st.DataObject
) -> None:
    t = topic("t", count)
    everything = sorted(all_of(t))
    had = {
        f"m{n}": SharingMember(
            frozenset({"t"}), frozenset(data.draw(st.sets(st.sampled_from(everything))))
        )
        for n in range(members)
    }
    assigned = assign_simple(had, [t], all_of(t))
    sharing = -(-members // count)
    readers = Counter(each for share in assigned.values() for each in share)
    assert readers == dict.fromkeys(everything, sharing)
    loads = [len(share) for share in assigned.values()]
    assert min(loads) >= 1
    assert max(loads) - min(loads) <= 1
    again = {n: SharingMember(frozenset({"t"}), assigned[n]) for n in had}
    assert assign_simple(again, [t], all_of(t)) == assigned  # who is even keeps what it has


def test_members_keep_what_they_had_as_far_as_shares_stay_even() -> None:
    t = topic("t", 6)
    had = {
        name: SharingMember(frozenset({"t"}), frozenset(list(t.partitions())[slice(*span)]))
        for name, span in {"a": (0, 3), "b": (3, 6), "c": (0, 0)}.items()
    }
    assigned = assign_simple(had, [t], all_of(t))
    assert all(len(assigned[name] & had[name].present) == 2 for name in "ab")
    assert len(assigned["c"]) == 2


def test_topics_with_other_subscribers_are_shared_among_those() -> None:
    t, u = topic("t", 2), topic("u", 2)
    members = {
        "both": SharingMember(frozenset({"t", "u"})),
        "one": SharingMember(frozenset({"t"})),
        "none": SharingMember(frozenset({"missing"})),
    }
    assigned = assign_simple(members, [u, t], all_of(t, u))
    assert {name: len(share) for name, share in assigned.items()} == {
        "both": 3, "one": 1, "none": 0,
    }  # fmt: skip
    assert all_of(u) <= assigned["both"]


def test_partitions_without_state_are_assigned_to_nobody() -> None:
    t = topic("t", 2)
    only = frozenset({TopicIdPartition(t.topic_id, 1)})
    assert assign_simple({"m": SharingMember(frozenset({"t"}))}, [t], only) == {"m": only}


# ---- joining -------------------------------------------------------------------------------------


def test_a_member_reads_partitions_once_their_state_is_initialized() -> None:
    shard = shard_with(t=3)
    member = Sharer(shard, "m", initializes=False)
    wanted = frozenset(partitions(shard, "t"))
    assert member.beat() == ShareHeartbeatAnswer("m", 1, INTERVAL_MS, frozenset(), wanted)
    assert member.beat() == ShareHeartbeatAnswer("m", 1, INTERVAL_MS)  # nobody is told twice
    member.initialized(wanted)
    assert member.beat() == ShareHeartbeatAnswer("m", 2, INTERVAL_MS, wanted)
    assert member.beat() == ShareHeartbeatAnswer("m", 2, INTERVAL_MS)


def test_what_could_not_be_initialized_is_named_again_also_by_the_next_coordinator() -> None:
    shard = shard_with(t=2)
    member = Sharer(shard, "m", initializes=False)
    wanted = member.beat().to_initialize
    shard.answer(lambda c, r: c.share.state_not_initialized(r, G, wanted))
    assert member.beat().to_initialize == wanted
    shard.start()
    assert member.beat().to_initialize == wanted


def test_a_member_without_an_id_hears_the_one_that_it_was_given() -> None:
    member = Sharer(shard_with(t=1), "")
    assert member.beat(new_member_id="made").member_id == "made"
    assert member.beat().member_epoch == 2


def test_more_members_than_partitions_read_them_together() -> None:
    _, members = sharers(5, t=2)
    assert Counter(each for member in members for each in member.reads) == {0: 3, 1: 3}
    assert all(member.reads for member in members)


def test_the_others_read_on_what_a_member_leaves() -> None:
    shard, (first, second, third) = sharers(3, t=6)
    assert [len(each.reads) for each in (first, second, third)] == [2, 2, 2]
    assert third.leave() == ShareHeartbeatAnswer("m2", -1)
    settle_sharers(first, second)
    assert sorted(first.reads + second.reads) == [*range(6)]
    second.leave()
    assert sorted(share_group(shard).members) == ["m0"]


def test_a_silent_member_is_none_any_more_after_its_session_time_out() -> None:
    shard, (first, second) = sharers(2)
    shard.advance(SESSION_MS - 1)
    first.beat()
    shard.advance(1)
    assert [*share_group(shard).members] == ["m0"]
    assert isinstance(second.beat(), UnknownMemberId)
    first.beat()
    assert first.reads == [*range(6)]


def test_the_next_coordinator_knows_all_and_gives_members_a_session_time_out() -> None:
    shard, members = sharers(3)
    before = share_group(shard)
    shard.advance(SESSION_MS - 1)
    shard.start()
    assert share_group(shard) == before
    shard.advance(SESSION_MS - 1)
    assert all(member.beat().assigned is None for member in members)
    shard.start()
    shard.advance(SESSION_MS)
    assert share_group(shard).state_name == "Empty"


def test_a_lost_answer_is_given_again_and_an_older_epoch_is_fenced() -> None:
    _, (first, second) = sharers(2)
    second.leave()
    old = first.epoch
    lost = first.send(first.request())
    assert lost.member_epoch == old + 1
    assert first.beat() == lost
    again = first.send(first.request(member_epoch=old - 1))
    assert isinstance(again, FencedMemberEpoch)
    assert isinstance(first.send(first.request(member_epoch=old + 9)), FencedMemberEpoch)


def test_a_topic_that_grows_comes_or_goes_changes_what_members_read() -> None:
    shard, (member,) = sharers(1, t=2)
    set_topic(shard, "t", 4)
    settle_sharers(member)
    assert member.reads == [0, 1, 2, 3]
    delete_topic(shard, "t")
    settle_sharers(member)
    assert member.reads == []
    set_topic(shard, "t", 1, generation="B")
    settle_sharers(member)
    assert member.reads == [0]


def test_a_member_that_changes_its_subscription_reads_the_other_topic() -> None:
    shard = shard_with(t=1, u=1)
    member = Sharer(shard, "m")
    settle_sharers(member)
    member.beat(subscribed_names=("u",))
    settle_sharers(member)
    assert member.assigned == partitions(shard, "u")


def test_a_group_is_full_at_its_size() -> None:
    shard = shard_with(GroupConfig(share_max_size=1), t=1)
    first = Sharer(shard, "m0")
    first.beat()
    assert isinstance(Sharer(shard, "m1").beat(), GroupMaxSizeReached)
    first.epoch = 0
    assert isinstance(first.beat(), ShareHeartbeatAnswer)  # a member may always come back


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"group_id": ""}, "group_id is empty"),
        ({"rack_id": ""}, "rack_id is empty"),
        ({"member_epoch": -2}, "member_epoch=-2 means nothing"),
        ({"member_id": ""}, "member_id is empty"),
        ({"subscribed_names": ()}, "subscribed_names is missing"),
    ],
)
def test_a_request_that_means_nothing_is_refused_by_name(
    changes: dict[str, Any], said: str
) -> None:
    shard = shard_with(t=1)
    member = Sharer(shard, "m")
    answer = member.send(member.request(**changes))
    assert isinstance(answer, InvalidRequest)
    assert said in str(answer)
    assert shard.log == []


# ---- groups as such ------------------------------------------------------------------------------


def test_a_group_is_listed_and_described_with_its_type() -> None:
    shard, (member,) = sharers(1, t=1)
    listed = shard.answer(lambda c, r: c.list_groups(r))
    assert listed == [ListedGroup(G, GroupType.SHARE, "share", "Stable")]
    assert shard.answer(lambda c, r: c.describe_share(r, G)) == DescribedShareGroup(
        G,
        "Stable",
        2,
        2,
        "simple",
        (DescribedShareMember("m0", None, 2, "client", "host", ("t",), member.assigned),),
    )
    member.leave()
    assert shard.answer(lambda c, r: c.list_groups(r))[0].state == "Empty"


def deleted(shard: GroupShard) -> PylogError | None:
    answer = shard.answer(lambda c, r: c.delete_groups(r, DeleteGroups((G,))))
    assert isinstance(answer, GroupsDeleted)
    return answer.groups[G]


def test_a_group_without_members_is_deleted_after_its_state_and_not_by_time() -> None:
    shard, (member,) = sharers(1, t=2)
    assert isinstance(deleted(shard), NonEmptyGroup)
    refused = shard.answer(lambda c, r: c.share.state_to_delete(r, G))
    assert isinstance(refused, NonEmptyGroup)
    member.leave()
    shard.advance(GroupConfig().offsets_retention_ms * 2)
    state = shard.answer(lambda c, r: c.share.state_to_delete(r, G))
    assert state == partitions(shard, "t")
    assert deleted(shard) is None
    assert isinstance(deleted(shard), GroupIdNotFound)
    shard.start()
    assert shard.coordinator.groups == {}
    assert member.beat().to_initialize == partitions(shard, "t")  # a group of that name is new


def test_a_share_groups_id_is_refused_by_the_apis_of_other_types() -> None:
    shard, _ = sharers(1)
    assert isinstance(Consumer(shard, "c").beat(), GroupIdNotFound)
    client = Client(shard, "c")
    client.ask_to_join()
    assert isinstance(client.answer, InconsistentGroupProtocol)
    commit = OffsetCommit(G, Caller(), {TP: CommittedOffset(1)})
    refused: list[Any] = [
        shard.answer(lambda c, r: c.commit_offsets(0, r, commit)),
        shard.answer(lambda c, r: c.fetch_offsets(r, OffsetFetch(G, Caller()))),
        shard.answer(lambda c, r: c.describe_classic(r, G)),
        shard.answer(lambda c, r: c.describe_consumer(r, G)),
    ]
    assert all(isinstance(each, GroupIdNotFound) for each in refused), refused


def test_ids_of_other_types_are_refused_by_the_apis_of_share_groups() -> None:
    consumers = shard_with(t=1)
    Consumer(consumers, "c").beat()
    classic, _ = stable(1)
    joins = ShareHeartbeat(G, "m", 0, subscribed_names=("t",))
    for shard in (consumers, classic):
        for epoch in (0, 3, -1):
            request = joins._replace(member_epoch=epoch)
            answer = shard.answer(lambda c, r, q=request: c.share_heartbeat(r, q))
            assert isinstance(answer, GroupIdNotFound), answer
        assert isinstance(shard.answer(lambda c, r: c.describe_share(r, G)), GroupIdNotFound)
