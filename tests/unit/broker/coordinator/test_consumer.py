"""The consumer protocol (KIP-848), heartbeat by heartbeat, as Kafka's coordinator has it."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from pylog.errors import (
    FencedInstanceId,
    FencedMemberEpoch,
    GroupIdNotFound,
    GroupMaxSizeReached,
    InvalidRequest,
    NonEmptyGroup,
    PylogError,
    StaleMemberEpoch,
    UnknownMemberId,
    UnreleasedInstanceId,
    UnsupportedAssignor,
)
from pylog_broker.coordinator.groups.classic.protocol import PendingTimer, SessionTimer
from pylog_broker.coordinator.groups.config import GroupConfig
from pylog_broker.coordinator.groups.consumer.group import ConsumerGroup, MemberState
from pylog_broker.coordinator.groups.consumer.messages import (
    ConsumerHeartbeatAnswer,
    DescribedConsumer,
    DescribedConsumerGroup,
)
from pylog_broker.coordinator.groups.consumer.protocol import (
    COLLECT_MS_MAX,
    COLLECT_MS_PER_MEMBER,
    COLLECTING_FROM,
    ConsumerSessionTimer,
    RevocationTimer,
)
from pylog_broker.coordinator.groups.consumer.topics import Partitions, TopicIdPartition
from pylog_broker.coordinator.groups.group import Caller, GroupType
from pylog_broker.coordinator.groups.messages import (
    CommittedOffset,
    DeleteGroups,
    GroupsDeleted,
    ListedGroup,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    OffsetsCommitted,
    OffsetsFetched,
)
from pylog_broker.group_settings import GroupSettings
from tests.fakes.classic_clients import TP, G, stable
from tests.fakes.consumer_members import (
    REBALANCE_MS,
    Consumer,
    consumer_group,
    delete_topic,
    partitions,
    set_topic,
    settle_consumers,
    shard_with,
)
from tests.fakes.group_shard import GroupShard

SESSION_MS = GroupSettings().consumer_session_timeout_ms
INTERVAL_MS = GroupSettings().consumer_heartbeat_interval_ms


def consumers(count: int, **topics: int) -> tuple[GroupShard, list[Consumer]]:
    """A stable group of so many."""
    shard = shard_with(**(topics or {"t": 6}))
    members = [Consumer(shard, f"m{number}", (*shard.topics,)) for number in range(count)]
    settle_consumers(*members)
    return shard, members


def state(shard: GroupShard) -> str:
    return consumer_group(shard).state_name


# ---- joining -------------------------------------------------------------------------------------


def test_a_first_member_has_all_partitions_with_the_answer_to_its_join() -> None:
    shard = shard_with(t=3)
    consumer = Consumer(shard, "m")
    wanted = frozenset(partitions(shard, "t"))
    assert consumer.beat() == ConsumerHeartbeatAnswer("m", 1, INTERVAL_MS, wanted)
    assert state(shard) == "Stable"
    assert consumer.beat() == ConsumerHeartbeatAnswer("m", 1, INTERVAL_MS, None)


def test_a_member_without_an_id_hears_the_one_that_it_was_given() -> None:
    shard = shard_with(t=1)
    consumer = Consumer(shard, "")
    assert consumer.beat(new_member_id="made").member_id == "made"
    assert consumer.beat().member_epoch == 1


def test_a_second_member_gets_each_partition_when_the_first_has_given_it_up() -> None:
    shard, (first,) = consumers(1, t=4)
    second = Consumer(shard, "m1")
    assert second.beat() == ConsumerHeartbeatAnswer("m1", 2, INTERVAL_MS, frozenset())
    assert state(shard) == "Reconciling"
    told = first.send(first.request())
    assert (told.member_epoch, len(told.assigned)) == (1, 2)  # it is at its epoch until it has
    assert second.beat().assigned is None
    assert first.beat(owned=first.owned).member_epoch == 1  # it says that it reads all yet
    first.hear(told)
    assert second.beat().assigned is None
    assert first.beat().member_epoch == 2
    assert second.beat().assigned == partitions(shard, "t") - first.owned
    assert state(shard) == "Stable"


def test_members_that_need_not_give_up_are_not_disturbed_by_one_that_must() -> None:
    shard, members = consumers(3, t=6)
    late = Consumer(shard, "late")
    late.beat()
    before = [member.owned for member in members]
    for member in members[1:]:
        member.beat()
    changed = [member for member, had in zip(members, before, strict=True) if member.owned != had]
    assert len(changed) <= 1
    assert settle_consumers(*members, late) <= 3
    assert sorted(len(member.owned) for member in (*members, late)) == [1, 1, 2, 2]


def test_an_answer_is_given_when_what_it_says_is_committed() -> None:
    shard = shard_with(t=1)
    shard.commits = False
    consumer = Consumer(shard, "m")
    number = shard.ask(lambda c, r: c.consumer_heartbeat(r, consumer.request()))
    assert number not in shard.replies
    shard.commit()
    assert shard.replies[number].member_epoch == 1


def test_the_range_assignor_is_used_when_most_members_ask_for_it() -> None:
    shard = shard_with(t=3, u=3)
    first = Consumer(shard, "a", ("t", "u"), assignor="range")
    second = Consumer(shard, "b", ("t", "u"), assignor="range")
    third = Consumer(shard, "c", ("t",), assignor="uniform")
    settle_consumers(first, second)
    assert len(first.owned) == 4  # the first two of each
    assert consumer_group(shard).described().assignor == "range"
    first.leave()
    second.leave()
    settle_consumers(third)
    assert consumer_group(shard).described().assignor == "uniform"


# ---- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"group_id": ""}, "group_id"),
        ({"member_id": ""}, "member_id"),
        ({"member_epoch": -3}, "member_epoch"),
        ({"instance_id": ""}, "instance_id"),
        ({"rack_id": ""}, "rack_id"),
        ({"rebalance_timeout_ms": -1}, "rebalance_timeout_ms"),
        ({"rebalance_timeout_ms": -2}, "rebalance_timeout_ms"),
        ({"subscribed_names": None}, "subscribed_names"),
        ({"subscribed_names": ()}, "subscribed_names"),
        ({"owned": None}, "owned"),
        ({"owned": frozenset({TopicIdPartition("x", 0)})}, "owned"),  # type: ignore[arg-type]
        ({"member_epoch": 1, "member_id": ""}, "member_id"),
        ({"member_epoch": -1, "member_id": ""}, "member_id"),
        ({"member_epoch": -2}, "instance_id"),
    ],
)
def test_a_request_without_what_it_needs_is_refused_by_the_name_of_that(
    changes: Any, name: str
) -> None:
    shard = shard_with(t=1)
    answer = Consumer(shard, "m").beat(**changes)
    assert isinstance(answer, InvalidRequest)
    assert name in str(answer)
    assert shard.coordinator.groups == {}
    assert shard.log == []


def test_an_assignor_that_the_broker_does_not_have_is_refused_with_those_that_it_has() -> None:
    answer = Consumer(shard_with(t=1), "m").beat(server_assignor="mine")
    assert isinstance(answer, UnsupportedAssignor)
    assert "uniform, range" in str(answer)


def test_a_heartbeat_of_a_group_that_is_not_there_makes_none() -> None:
    shard = shard_with(t=1)
    for epoch in (5, -1):
        assert isinstance(Consumer(shard, "m", epoch=epoch).beat(), GroupIdNotFound)
    assert shard.coordinator.groups == {}


def test_a_stranger_and_a_wrong_epoch_are_refused() -> None:
    shard, (member,) = consumers(1)
    assert isinstance(Consumer(shard, "x", epoch=1).beat(), UnknownMemberId)
    assert isinstance(Consumer(shard, "x", epoch=-1).beat(), UnknownMemberId)
    assert isinstance(member.send(member.request(member_epoch=7)), FencedMemberEpoch)
    assert isinstance(member.send(member.request(instance_id="i")), UnknownMemberId)


def test_a_group_that_is_full_says_so_to_those_who_are_not_in_it() -> None:
    shard = shard_with(replace(GroupConfig(), consumer_max_size=1), t=1)
    member = Consumer(shard, "m")
    settle_consumers(member)
    assert isinstance(Consumer(shard, "n").beat(), GroupMaxSizeReached)
    assert member.beat().member_epoch == 1


# ---- lost answers --------------------------------------------------------------------------------


def test_a_member_whose_answer_was_lost_goes_on_from_its_epoch_before() -> None:
    _, (first, second) = consumers(2, t=4)
    second.leave()
    lost = first.send(first.request())
    assert lost.member_epoch == first.epoch + 1
    assert first.beat() == lost
    assert len(first.owned) == 4


def test_an_epoch_before_is_refused_of_a_member_that_reads_what_it_was_not_given() -> None:
    shard, (first, second) = consumers(2, t=4)
    theirs = second.owned
    second.leave()
    third = Consumer(shard, "m2")
    third.beat()
    old = first.request()
    first.beat()
    assert consumer_group(shard).members["m0"].previous_epoch == old.member_epoch
    assert isinstance(first.send(old._replace(owned=theirs)), FencedMemberEpoch)
    assert isinstance(first.send(old._replace(owned=None)), FencedMemberEpoch)
    assert first.send(old).member_epoch == first.epoch


def test_a_full_request_is_answered_with_all_that_the_member_has() -> None:
    shard, (member,) = consumers(1, t=2)
    answer = member.beat(rebalance_timeout_ms=REBALANCE_MS, subscribed_names=("t",))
    assert answer.assigned == partitions(shard, "t")
    assert consumer_group(shard).group_epoch == 1


def test_a_member_that_joins_again_keeps_its_partitions_until_it_says_what_it_reads() -> None:
    shard, (first,) = consumers(1, t=2)
    held = first.owned
    copy = replace(first, epoch=0, owned=frozenset())
    assert copy.send(copy.request()).assigned == held
    second = Consumer(shard, "m1")
    second.beat()
    told = copy.send(copy.request())
    assert len(told.assigned) == 1
    assert second.beat().assigned is None  # the earlier self may read it still
    first.beat(rebalance_timeout_ms=REBALANCE_MS, subscribed_names=("t",))
    first.beat()
    assert second.beat().assigned == held - first.owned


# ---- going, and time -----------------------------------------------------------------------------


def test_a_member_that_leaves_gives_its_partitions_to_the_others_at_once() -> None:
    shard, (first, second) = consumers(2, t=4)
    assert second.leave() == ConsumerHeartbeatAnswer("m1", -1)
    assert state(shard) == "Assigning"
    first.beat()
    assert first.owned == partitions(shard, "t")
    assert state(shard) == "Stable"


def test_a_group_whose_members_have_left_is_empty_and_its_epoch_goes_on() -> None:
    shard, (member,) = consumers(1)
    member.leave()
    assert state(shard) == "Empty"
    shard.start()
    assert (state(shard), consumer_group(shard).group_epoch) == ("Empty", 2)
    assert member.beat().member_epoch == 3


def test_a_silent_member_is_dropped_after_its_session_and_refused_when_it_comes_back() -> None:
    shard, (first, second) = consumers(2, t=4)
    shard.advance(SESSION_MS - 1)
    first.beat()
    shard.advance(1)
    assert {*consumer_group(shard).members} == {"m0"}
    first.beat()
    assert first.owned == partitions(shard, "t")
    assert isinstance(second.beat(), UnknownMemberId)
    assert isinstance(second.commit(1), UnknownMemberId)


def test_a_member_that_does_not_give_up_in_its_rebalance_time_is_dropped() -> None:
    shard, (first,) = consumers(1, t=2)
    second = Consumer(shard, "m1")
    second.beat()
    first.send(first.request())
    for _ in range(3):
        shard.advance(REBALANCE_MS // 3 - 1)
        assert first.send(first.request()).member_epoch == 1
        second.beat()
    shard.advance(3)
    assert isinstance(first.send(first.request()), UnknownMemberId)
    second.beat()
    assert second.owned == partitions(shard, "t")


def test_a_member_that_has_given_up_is_not_dropped_for_it_later() -> None:
    shard, (first,) = consumers(1, t=2)
    second = Consumer(shard, "m1")
    for _ in range(3):
        second.beat()
        first.beat()
    for _ in range(4):
        shard.advance(REBALANCE_MS // 2)
        assert [type(each.beat()) for each in (first, second)] == [ConsumerHeartbeatAnswer] * 2


# ---- static members ------------------------------------------------------------------------------


def static_pair() -> tuple[GroupShard, Consumer, Consumer]:
    shard = shard_with(t=4)
    first = Consumer(shard, "a1", instance_id="A")
    second = Consumer(shard, "b1", instance_id="B")
    settle_consumers(first, second)
    return shard, first, second


def test_a_static_member_that_comes_back_has_what_it_had_and_disturbs_nobody() -> None:
    shard, first, second = static_pair()
    held, epoch = first.owned, consumer_group(shard).group_epoch
    assert first.leave(-2) == ConsumerHeartbeatAnswer("a1", -2)
    second.beat()
    assert len(second.owned) == 2
    again = Consumer(shard, "a2", instance_id="A")
    assert again.beat() == ConsumerHeartbeatAnswer("a2", epoch, INTERVAL_MS, held)
    assert consumer_group(shard).group_epoch == epoch
    assert state(shard) == "Stable"
    assert isinstance(replace(first, epoch=epoch).beat(), FencedInstanceId)
    shard.advance(SESSION_MS - 1)
    assert {*consumer_group(shard).members} == {"a2", "b1"}


def test_a_static_member_that_comes_back_with_its_old_id_has_what_it_had() -> None:
    _, first, _ = static_pair()
    held = first.owned
    first.leave(-2)
    assert isinstance(replace(first, epoch=2).beat(), FencedMemberEpoch)
    assert first.beat().assigned == held


def test_a_static_member_that_does_not_come_back_is_dropped_after_its_session() -> None:
    shard, first, second = static_pair()
    first.leave(-2)
    shard.advance(SESSION_MS - 1)
    second.beat()
    shard.advance(1)
    second.beat()
    assert second.owned == partitions(shard, "t")


def test_an_instance_that_is_used_is_refused_until_it_is_released() -> None:
    shard, first, _ = static_pair()
    again = Consumer(shard, "a2", instance_id="A")
    assert isinstance(again.beat(), UnreleasedInstanceId)
    first.leave(-1)
    assert again.beat().member_id == "a2"


# ---- topics --------------------------------------------------------------------------------------


def test_partitions_that_a_topic_gains_are_assigned_with_the_next_heartbeat() -> None:
    shard, members = consumers(2, t=2)
    set_topic(shard, "t", 4)
    settle_consumers(*members)
    assert {p for member in members for p in member.owned} == partitions(shard, "t")
    epoch = consumer_group(shard).group_epoch
    set_topic(shard, "t", 4)  # as it was
    settle_consumers(*members)
    assert consumer_group(shard).group_epoch == epoch


def test_a_topic_may_come_after_those_who_subscribe_to_it() -> None:
    shard = shard_with()
    member = Consumer(shard, "m")
    assert member.beat().assigned == frozenset()
    set_topic(shard, "t", 2)
    assert member.beat().assigned == partitions(shard, "t")


def test_a_topic_that_is_made_anew_is_given_up_and_assigned_again() -> None:
    shard, (member,) = consumers(1, t=2)
    delete_topic(shard, "t")
    assert member.beat().assigned == frozenset()
    set_topic(shard, "t", 1, generation="B")
    settle_consumers(member)
    assert member.owned == partitions(shard, "t")


def test_a_topic_that_has_grown_while_no_coordinator_was_there_is_noticed() -> None:
    shard, (member,) = consumers(1, t=2)
    member.beat()
    shard.topics["t"] = shard.topics["t"]._replace(partition_count=3)
    member.beat()
    assert len(member.owned) == 2  # nobody has told
    shard.start()
    member.beat()
    assert len(member.owned) == 3


def test_a_changed_subscription_is_followed() -> None:
    shard, (first, second) = consumers(2, t=2, u=2)
    first.beat(subscribed_names=("u",))
    settle_consumers(first, second)
    assert not first.owned & partitions(shard, "t")
    assert partitions(shard, "t") <= second.owned


# ---- commits -------------------------------------------------------------------------------------


def test_offsets_are_committed_and_asked_for_at_the_members_epoch_only() -> None:
    shard, (member,) = consumers(1, t=1)
    assert member.commit(5) == OffsetsCommitted({TP: None})
    asked = OffsetFetch(G, Caller("m0", None, 1), (TP,))
    fetched = shard.answer(lambda c, r: c.fetch_offsets(r, asked))
    assert fetched == OffsetsFetched({TP: CommittedOffset(5)})
    stale = asked._replace(caller=Caller("m0", None, 9))
    assert isinstance(shard.answer(lambda c, r: c.fetch_offsets(r, stale)), StaleMemberEpoch)
    stranger = asked._replace(caller=Caller("x", None, 1))
    assert isinstance(shard.answer(lambda c, r: c.fetch_offsets(r, stranger)), UnknownMemberId)
    anybody = asked._replace(caller=Caller())
    assert shard.answer(lambda c, r: c.fetch_offsets(r, anybody)) == fetched
    member.epoch = 9
    assert isinstance(member.commit(6), StaleMemberEpoch)
    nobody = OffsetCommit(G, Caller(), {TP: CommittedOffset(1)})
    assert isinstance(shard.answer(lambda c, r: c.commit_offsets(0, r, nobody)), UnknownMemberId)


def test_an_operator_commits_for_an_empty_group_only() -> None:
    shard, (member,) = consumers(1, t=1)
    member.leave()
    nobody = OffsetCommit(G, Caller(), {TP: CommittedOffset(1)})
    answer = shard.answer(lambda c, r: c.commit_offsets(0, r, nobody))
    assert answer == OffsetsCommitted({TP: None})


def test_positions_of_topics_that_members_read_are_not_deleted() -> None:
    shard, (member,) = consumers(1, t=1)
    member.commit(5)
    request = OffsetDelete(G, (TP,))
    refused = shard.answer(lambda c, r: c.delete_offsets(r, request))
    assert "stop its members" in str(refused.partitions[TP])
    member.leave()
    assert shard.answer(lambda c, r: c.delete_offsets(r, request)).partitions == {TP: None}


# ---- groups as such ------------------------------------------------------------------------------


def test_a_group_is_listed_described_and_deleted_when_it_is_empty() -> None:
    shard, (member,) = consumers(1, t=1)
    member.commit(3)
    listed = shard.answer(lambda c, r: c.list_groups(r))
    assert listed == [ListedGroup(G, GroupType.CONSUMER, "consumer", "Stable")]
    described = shard.answer(lambda c, r: c.describe_consumer(r, G))
    all_of_t = frozenset(partitions(shard, "t"))
    consumer = DescribedConsumer(
        "m0", None, None, 1, "client", "host", ("t",), None, all_of_t, all_of_t
    )
    assert described == DescribedConsumerGroup(G, "Stable", 1, 1, "uniform", (consumer,))
    assert isinstance(shard.answer(lambda c, r: c.describe_classic(r, G)), GroupIdNotFound)
    request = DeleteGroups((G,))
    refused = shard.answer(lambda c, r: c.delete_groups(r, request))
    assert isinstance(refused.groups[G], NonEmptyGroup)
    member.leave()
    assert shard.answer(lambda c, r: c.delete_groups(r, request)) == GroupsDeleted({G: None})
    assert shard.coordinator.groups == {}
    shard.start()
    assert shard.coordinator.groups == {}
    assert len(shard.coordinator.offsets) == 0


def test_an_empty_group_without_positions_goes_by_itself() -> None:
    shard, (member,) = consumers(1)
    member.leave()
    shard.advance(GroupConfig().offsets_retention_check_interval_ms)
    assert shard.coordinator.groups == {}


def test_an_empty_classic_group_becomes_one_of_this_protocol_and_keeps_its_positions() -> None:
    shard, clients = stable(1)
    clients[0].commit(7)
    clients[0].leave()
    set_topic(shard, "t", 1)
    member = Consumer(shard, "m")
    settle_consumers(member)
    asked = OffsetFetch(G, Caller("m", None, 1), (TP,))
    for _ in range(2):
        fetched = shard.answer(lambda c, r: c.fetch_offsets(r, asked))
        assert fetched == OffsetsFetched({TP: CommittedOffset(7)})
        shard.start()


def test_timers_of_one_member_are_not_taken_for_each_other() -> None:
    of_consumer = {RevocationTimer(G, "m"), ConsumerSessionTimer(G, "m")}
    of_classic = {SessionTimer(G, "m"), PendingTimer(G, "m")}
    assert len(of_consumer | of_classic) == 4


# ---- another coordinator -------------------------------------------------------------------------


def test_a_new_coordinator_goes_on_in_the_middle_and_nobody_joins_again() -> None:
    shard, (first,) = consumers(1, t=4)
    second = Consumer(shard, "m1")
    second.beat()
    first.beat()
    before = consumer_group(shard)
    assert before.members["m0"].state is MemberState.UNREVOKED_PARTITIONS
    shard.start()
    assert consumer_group(shard) == before
    assert consumer_group(shard) is not before
    settle_consumers(first, second)
    assert consumer_group(shard).group_epoch == before.group_epoch


def test_a_new_coordinator_gives_members_a_session_and_a_rebalance_time_to_be_heard_of() -> None:
    shard, (first,) = consumers(1, t=4)
    second = Consumer(shard, "m1")
    second.beat()
    first.send(first.request())
    shard.start()
    shard.advance(REBALANCE_MS)
    assert {*consumer_group(shard).members} == {"m1"}
    shard.advance(SESSION_MS - REBALANCE_MS)
    assert state(shard) == "Empty"


def test_a_log_read_while_it_is_compacted_ends_with_the_same_owners() -> None:
    """The reader has seen an owner's old record, and compaction has taken the one with which it
    gave the partition up, as a later one of it follows.
    """
    shard, (first,) = consumers(1, t=2)
    second = Consumer(shard, "m1")
    settle_consumers(second, first)
    first.leave()
    settle_consumers(second)
    first.beat()
    settle_consumers(second, first)
    expected = consumer_group(shard)
    whole = shard.log
    for read in range(len(whole)):
        # The first part as it was written, and of the rest each key's last record.
        last = {key: number for number, (key, _) in enumerate(whole)}
        shard.log = whole[:read] + [
            record
            for number, record in enumerate(whole)
            if number >= read and last[record[0]] == number
        ]
        shard.start()
        assert consumer_group(shard) == expected, read
        shard.log = whole


# ---- any conversation ----------------------------------------------------------------------------


@dataclass
class Slow:
    """A member that gives up and answers when the schedule lets it, and may miss answers."""

    consumer: Consumer
    told: Partitions | None = None
    """The partitions that it was told to read, and has not taken up; it still reads the rest of
    `owned`."""

    def beat(self, rng: random.Random, *, may_lose: bool) -> None:
        answer = self.consumer.send(self.consumer.request())
        if may_lose and rng.random() < 0.15:
            # The client sends all there is after an error.
            again = self.consumer.request(
                rebalance_timeout_ms=REBALANCE_MS, subscribed_names=self.consumer.subscribed
            )
            answer = self.consumer.send(again)
        if isinstance(answer, PylogError):
            assert isinstance(answer, UnknownMemberId | FencedMemberEpoch | GroupIdNotFound), answer
            self.consumer.epoch, self.consumer.owned, self.told = 0, frozenset(), None
            return
        self.consumer.epoch = answer.member_epoch
        if answer.assigned is not None:
            self.told = answer.assigned
            # New ones are read at once; those to give up are read until `obey`.
            self.consumer.owned |= answer.assigned

    def obey(self) -> None:
        if self.told is not None:
            self.consumer.owned, self.told = self.told, None


@dataclass
class World:
    """Members of one group, and a coordinator that restarts."""

    rng: random.Random
    shard: GroupShard = field(default_factory=lambda: shard_with(t=5, u=3))
    members: list[Slow] = field(default_factory=list)
    made: int = 0
    away: list[str] = field(default_factory=list)
    """Static members that will be back, by their instance ids."""

    def step(self) -> None:
        match self.rng.randrange(12):
            case 0 if len(self.members) < 6:
                self.made += 1
                topics = self.rng.choice([("t",), ("t", "u"), ("u",)])
                assignor = self.rng.choice([None, "uniform", "range"])
                name = f"m{self.made}"
                instance_id = f"i{self.made}" if self.rng.random() < 0.4 else None
                if self.away and self.rng.random() < 0.7:
                    instance_id = self.away.pop()
                member = Consumer(self.shard, name, topics, instance_id, assignor)
                self.members.append(Slow(member))
            case 1 if self.members:
                gone = self.members.pop(self.rng.randrange(len(self.members)))
                if gone.consumer.epoch > 0 and gone.consumer.instance_id is not None:
                    gone.consumer.leave(-2)
                    self.away.append(gone.consumer.instance_id)
                elif self.rng.random() < 0.5 and gone.consumer.epoch > 0:
                    gone.consumer.leave()
            case 2:
                before = self.groups()
                self.shard.start()
                assert self.groups() == before
            case 3 if self.rng.random() < 0.3:
                name = self.rng.choice(["t", "u"])
                set_topic(self.shard, name, self.shard.topics[name].partition_count + 1)
            case 4:
                self.shard.advance(self.rng.choice([1_000, 20_000]))
            case 5 | 6 if self.members:
                self.rng.choice(self.members).obey()
            case _ if self.members:
                self.rng.choice(self.members).beat(self.rng, may_lose=True)

    def groups(self) -> dict[str, Any]:
        return dict(self.shard.coordinator.groups)

    def check(self) -> None:
        """A member that the group knows at its epoch may read what it does, and nobody else."""
        group = self.shard.coordinator.groups.get(G)
        if not isinstance(group, ConsumerGroup):
            return
        held = {p: m.member_id for m in group.members.values() for p in m.held}
        assert held == group.owners
        readers: dict[TopicIdPartition, str] = {}
        for member in self.members:
            name = member.consumer.member_id
            if name in group.members and member.consumer.epoch > 0:
                for partition in member.consumer.owned:
                    assert readers.setdefault(partition, name) == name
                    assert group.owners[partition] == name

    def end(self) -> None:
        """No more faults: every group settles."""
        for _ in range(12):
            for member in self.members:
                member.obey()
                member.beat(self.rng, may_lose=False)
            self.check()
        group = self.shard.coordinator.groups.get(G)
        if not self.members:
            return
        self.shard.advance(SESSION_MS - 1)
        for _ in range(12):
            for member in self.members:
                member.obey()
                member.beat(self.rng, may_lose=False)
            self.shard.advance(1)
            self.check()
        group = consumer_group(self.shard)
        assert group.state_name == "Stable"
        assert {*group.members} == {m.consumer.member_id for m in self.members}
        wanted = {p for name in ("t", "u") if group.subscribes_to(name)
                  for p in partitions(self.shard, name)}  # fmt: skip
        assert {p for m in self.members for p in m.consumer.owned} == wanted


@pytest.mark.parametrize("seed", range(60))
def test_any_conversation_has_one_owner_of_a_partition_and_settles(seed: int) -> None:
    world = World(random.Random(seed))
    for _ in range(150):
        world.step()
        world.check()
    world.end()


def test_members_that_fall_silent_are_counted() -> None:
    shard, (first, second) = consumers(2)
    shard.advance(SESSION_MS // 2)
    first.beat()
    shard.advance(SESSION_MS // 2)
    assert shard.lost == {GroupType.CONSUMER: 1}
    second.leave()
    first.leave()
    assert shard.lost == {GroupType.CONSUMER: 1}


# ---- large groups --------------------------------------------------------------------------------


def test_joins_of_a_large_group_are_collected_for_one_target() -> None:
    shard, members = consumers(COLLECTING_FROM, t=64)
    shard.advance(COLLECT_MS_MAX)
    first = Consumer(shard, "late0")
    assert first.beat().member_epoch == consumer_group(shard).assignment_epoch
    before = consumer_group(shard).assignment_epoch
    others = [Consumer(shard, f"late{number}") for number in range(1, 10)]
    for other in others:
        assert other.beat() == ConsumerHeartbeatAnswer(
            other.member_id, before, INTERVAL_MS, frozenset()
        )
    assert consumer_group(shard).assignment_epoch == before
    assert state(shard) == "Assigning"
    shard.advance((COLLECTING_FROM + 1) * COLLECT_MS_PER_MEMBER)
    members[0].beat()
    assert consumer_group(shard).assignment_epoch == before + len(others)
    settle_consumers(*members, first, *others)
    assert {len(member.owned) for member in (*members, first, *others)} == {2, 3}


def test_a_member_of_a_large_group_that_reads_something_else_has_a_new_target_at_once() -> None:
    shard, members = consumers(COLLECTING_FROM, t=64, u=1)
    shard.advance(COLLECT_MS_MAX)
    Consumer(shard, "late").beat()
    before = consumer_group(shard).assignment_epoch
    members[0].beat(subscribed_names=("u",))
    assert consumer_group(shard).assignment_epoch == before + 1


def test_a_departure_is_collected_too_and_what_it_leaves_is_read() -> None:
    shard, members = consumers(COLLECTING_FROM, t=COLLECTING_FROM)
    shard.advance(COLLECT_MS_MAX)
    late = Consumer(shard, "late")
    late.beat()
    gone = members.pop()
    gone.leave()
    settle_consumers(*members, late)
    owned = [partition for member in (*members, late) for partition in member.owned]
    assert sorted(owned) == sorted(partitions(shard, "t"))


def test_a_groups_own_settings_reach_its_members_with_the_next_heartbeat() -> None:
    settings = {"g": GroupSettings()}

    class Changing:
        def of(self, group_id: str) -> GroupSettings:
            return settings.get(group_id, GroupSettings())

    shard = shard_with(GroupConfig(settings=Changing()), t=1)
    member = Consumer(shard, "m")
    assert member.beat().heartbeat_interval_ms == INTERVAL_MS
    settings["g"] = GroupSettings(
        consumer_heartbeat_interval_ms=9_000, consumer_session_timeout_ms=50_000
    )
    assert member.beat().heartbeat_interval_ms == 9_000
    shard.advance(49_999)
    assert member.beat().heartbeat_interval_ms == 9_000
    shard.advance(50_000)
    assert state(shard) == "Empty"
