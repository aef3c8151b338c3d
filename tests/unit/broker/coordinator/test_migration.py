"""A group that changes between the classic and the consumer protocol while its members work."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import pytest

from pylog.consumer_protocol import Assignment as Assigned
from pylog.consumer_protocol import (
    Subscription,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from pylog.errors import (
    FencedInstanceId,
    GroupIdNotFound,
    GroupMaxSizeReached,
    IllegalGeneration,
    InconsistentGroupProtocol,
    MemberIdRequired,
    PylogError,
    RebalanceInProgress,
    UnknownMemberId,
)
from pylog.model import TopicPartition
from pylog_broker.coordinator.groups.classic.group import ClassicGroup
from pylog_broker.coordinator.groups.classic.messages import (
    Joined,
    LeaveGroup,
    Leaving,
    Left,
    MemberProtocol,
    Synced,
)
from pylog_broker.coordinator.groups.config import GroupConfig
from pylog_broker.coordinator.groups.consumer.group import ConsumerGroup, MemberState
from pylog_broker.coordinator.groups.consumer.messages import ConsumerHeartbeatAnswer
from pylog_broker.coordinator.groups.group import Caller, GroupType
from pylog_broker.coordinator.groups.messages import CommittedOffset, OffsetFetch, OffsetsFetched
from pylog_broker.group_settings import GroupSettings
from tests.fakes.classic_clients import REBALANCE_MS, SESSION_MS, TP, Client, G
from tests.fakes.consumer_members import (
    Consumer,
    consumer_group,
    partitions,
    set_topic,
    settle_consumers,
    shard_with,
)
from tests.fakes.group_shard import GroupShard

AT_ONCE = GroupConfig(initial_rebalance_delay_ms=0)


@dataclass
class Cooperative(Client):
    """A consumer of the classic protocol that gives up only what it must; when it leads, it shares
    out topic `t` evenly.
    """

    topics: tuple[str, ...] = ("t",)
    owned: tuple[TopicPartition, ...] = ()
    is_eager: bool = False
    errors: list[PylogError] = field(default_factory=list)

    def join(self) -> Any:
        """Asks to join, and remembers the answer if it came."""
        said = Subscription(self.topics, None, () if self.is_eager else self.owned, self.generation)
        if self.is_eager:
            self.owned = ()
        metadata = encode_subscription(said)
        names = ("range",) if self.is_eager else ("cooperative-sticky", "range")
        self.protocols = tuple(MemberProtocol(name, metadata) for name in names)
        self.ask_to_join()
        if isinstance(self.answer, Joined):
            _ = self.joined
        return self.answer

    def share_out(self) -> None:
        """Sync: what it is to read, for the others, too, where it leads."""
        members = [each.member_id for each in self.joined.members]
        wanted = sorted(partitions(self.shard, "t"))
        shares = {
            member: encode_assignment(
                Assigned(tuple(TopicPartition("t", p) for _, p in wanted[n :: len(members)]))
            )
            for n, member in enumerate(members)
        }
        self.sync(shares)
        self.hear()

    def hear(self) -> None:
        """Take the partitions that it reads from now on, if its sync is answered."""
        if isinstance(self.answer, Synced):
            self.owned = decode_assignment(self.answer.assignment).partitions

    @property
    def reads(self) -> list[int]:
        return sorted(each.partition for each in self.owned)

    def step(self) -> Any:
        """A heartbeat, and what it leads to in a group of the consumer protocol."""
        answer = self.heartbeat()
        if answer is None:
            return None
        if isinstance(answer, IllegalGeneration | UnknownMemberId | FencedInstanceId):
            self.errors.append(answer)
            self.owned, self.generation = (), -1
            if not isinstance(answer, IllegalGeneration):
                self.member_id = ""
        self.rejoin()
        return answer

    def rejoin(self) -> None:
        assert isinstance(self.join(), Joined), self.answer
        before = self.owned
        self.sync()
        self.hear()
        if isinstance(self.answer, Synced) and not set(before) <= set(self.owned):
            self.rejoin()  # as cooperative members do once they have given up


def classic(count: int, config: GroupConfig = AT_ONCE) -> tuple[GroupShard, list[Cooperative]]:
    """A stable classic group of so many, over six partitions."""
    shard = shard_with(config, t=6)
    members = [Cooperative(shard, f"c{number}") for number in range(count)]
    for member in members:
        member.join()
    rebalance(members)
    assert group_type(shard) is GroupType.CLASSIC
    return shard, members


def rebalance(members: list[Cooperative]) -> None:
    """Each joins again whose join is answered already, all sync, and the first one that leads
    shares out.
    """
    waiting = [member for member in members if member.answer is None]
    for member in members:
        if member not in waiting:
            member.join()
    for member in sorted(members, key=lambda each: each.joined.leader == each.member_id):
        member.share_out()
    for member in members:
        member.hear()


def group_type(shard: GroupShard) -> GroupType:
    return shard.coordinator.groups[G].type


def same_after_a_crash(shard: GroupShard) -> None:
    """Check that a replay of the log gives the coordinator's state."""
    before = shard.coordinator.groups[G]
    shard.start()
    after = shard.coordinator.groups[G]
    assert type(after) is type(before)
    if isinstance(before, ConsumerGroup):
        assert after == before


def settle(shard: GroupShard, *members: Cooperative | Consumer, steps: int = 12) -> None:
    """All go on until each partition has one reader and the group is stable."""
    for _ in range(steps):
        for member in members:
            if isinstance(member, Consumer):
                assert isinstance(member.beat(), ConsumerHeartbeatAnswer), member.answers[-1]
            else:
                member.step()
        if shard.coordinator.groups[G].state_name == "Stable" and all_read(*members) == [*range(6)]:
            return
    raise AssertionError((shard.coordinator.groups[G], [member.reads for member in members]))


def all_read(*members: Cooperative | Consumer) -> list[int]:
    return sorted(each for member in members for each in member.reads)


# ---- to the consumer protocol --------------------------------------------------------------------


def test_the_first_member_of_the_consumer_protocol_takes_a_classic_group_over() -> None:
    shard, members = classic(2)
    before = [member.owned for member in members]
    late = Consumer(shard, "m")
    assert late.beat() == ConsumerHeartbeatAnswer("m", 3, 5_000, frozenset())
    group = consumer_group(shard)
    assert [group.members[member.member_id].member_epoch for member in members] == [2, 2]
    assert [member.owned for member in members] == before
    assert isinstance(members[0].heartbeat(), RebalanceInProgress)
    same_after_a_crash(shard)


def test_both_kinds_of_members_share_the_partitions_and_go_on() -> None:
    shard, members = classic(2)
    late = Consumer(shard, "m")
    late.beat()
    settle(shard, *members, late)
    assert sorted(len(each.reads) for each in (*members, late)) == [2, 2, 2]
    assert [member.errors for member in members] == [[], []]
    assert [member.step() for member in members] == [None, None]
    assert late.beat().assigned is None
    same_after_a_crash(shard)
    assert [member.step() for member in members] == [None, None]


def test_an_eager_member_gives_up_all_when_it_joins_again_and_has_its_share_then() -> None:
    shard = shard_with(AT_ONCE, t=6)
    eager = Cooperative(shard, "c", is_eager=True)
    eager.join()
    eager.share_out()
    late = Consumer(shard, "m")
    late.beat()
    settle(shard, eager, late)
    assert [len(eager.reads), len(late.reads)] == [3, 3]


def test_what_a_cooperative_member_gives_up_is_nobody_elses_until_it_has_joined_again() -> None:
    """The group changes while the answer to its sync, which takes partitions from it, is on its
    way: it reads them still, and its leader has given them to nobody yet.
    """
    shard, [member, other] = classic(2)
    assert member.reads == [0, 2, 4]
    for each in (member, other):
        each.join()
    keeps = encode_assignment(Assigned(other.owned))
    gives_up = encode_assignment(Assigned(member.owned[:1]))
    leader = member if member.joined.leader == member.member_id else other
    leader.sync({member.member_id: gives_up, other.member_id: keeps})
    late = Consumer(shard, "m")
    assert late.beat() == ConsumerHeartbeatAnswer("m", 4, 5_000, frozenset())
    group = consumer_group(shard)
    has = group.members[member.member_id]
    assert has.state is MemberState.UNREVOKED_PARTITIONS
    assert sorted(p for _, p in has.assigned) == [0]
    assert sorted(p for _, p in has.revoking) == [2, 4]
    same_after_a_crash(shard)
    for _ in range(3):
        late.beat()
        other.step()
        assert not set(member.reads) & {*late.reads, *other.reads}
    settle(shard, member, other, late)


def test_members_that_wait_in_the_classic_group_are_told_to_join_again() -> None:
    shard, members = classic(3)
    members[0].join()  # it leads, so all join again
    waits, syncs = members[0].request_id, members[1]
    assert waits not in shard.replies
    Consumer(shard, "m").beat()
    assert isinstance(shard.replies[waits], RebalanceInProgress)
    assert isinstance(syncs.heartbeat(), RebalanceInProgress)


@pytest.mark.parametrize("policy", ["downgrade", "disabled"])
def test_the_policy_may_keep_a_classic_group_classic(policy: str) -> None:
    config = GroupConfig(initial_rebalance_delay_ms=0, consumer_migration_policy=policy)
    shard, members = classic(1, config)
    answer = Consumer(shard, "m").beat()
    assert isinstance(answer, GroupIdNotFound)
    assert "group.consumer.migration.policy" in str(answer)
    assert members[0].heartbeat() is None
    assert group_type(shard) is GroupType.CLASSIC


def test_a_group_that_is_too_large_or_not_understood_stays_classic() -> None:
    config = GroupConfig(initial_rebalance_delay_ms=0, consumer_max_size=1)
    shard, _ = classic(2, config)
    assert "group.consumer.max.size" in str(Consumer(shard, "m").beat())
    shard = shard_with(AT_ONCE, t=6)
    client = Client(shard, "c", protocols=(MemberProtocol("range", b"\0"),))
    client.ask_to_join()
    answer = Consumer(shard, "m").beat()
    assert isinstance(answer, GroupIdNotFound)
    assert "cannot be understood" in str(answer)
    assert group_type(shard) is GroupType.CLASSIC


def test_a_static_member_that_starts_again_with_the_other_protocol_keeps_what_it_had() -> None:
    shard = shard_with(AT_ONCE, t=6)
    old = Cooperative(shard, "c", instance_id="i")
    old.join()
    old.share_out()
    new = Consumer(shard, "m", instance_id="i")
    settle_consumers(new)
    assert new.reads == [*range(6)]
    assert isinstance(old.heartbeat(), FencedInstanceId)
    back = Cooperative(shard, "d", instance_id="i")
    back.rejoin()
    assert back.reads == [*range(6)]
    assert isinstance(new.beat(), FencedInstanceId)
    same_after_a_crash(shard)


# ---- what classic members ask of a group of the consumer protocol --------------------------------


def test_a_classic_member_joins_a_group_of_consumers_with_an_id_of_its_own() -> None:
    shard = shard_with(AT_ONCE, t=6)
    first = Consumer(shard, "m")
    settle_consumers(first)
    client = Cooperative(shard, "c")
    client.rejoin()
    asked = [each for each in shard.replies.values() if isinstance(each, Joined) and each.error]
    assert [type(each.error) for each in asked] == [MemberIdRequired]
    settle(shard, client, first)
    assert [len(client.reads), len(first.reads)] == [3, 3]


def test_a_classic_member_is_refused_as_kafka_refuses_it() -> None:
    shard, (client,) = classic(1)
    member = Consumer(shard, "m")
    member.beat()
    settle(shard, client, member)

    def answer(method: str, **changes: Any) -> Any:
        before = {name: getattr(client, name) for name in changes}
        for name, value in changes.items():
            setattr(client, name, value)
        try:
            if method == "heartbeat":
                return client.heartbeat()
            client.sync()
            return client.answer
        finally:
            for name, value in before.items():
                setattr(client, name, value)

    for method in ("heartbeat", "sync"):
        assert isinstance(answer(method, generation=99), IllegalGeneration)
        assert isinstance(answer(method, member_id="nobody"), UnknownMemberId)
        assert isinstance(answer(method, instance_id="nobody"), UnknownMemberId)
        assert isinstance(answer(method, member_id="m", generation=member.epoch), UnknownMemberId)
    assert isinstance(answer("sync", protocol="range"), InconsistentGroupProtocol)
    assert isinstance(answer("sync", protocol_type="connect"), InconsistentGroupProtocol)
    for protocol_type, name in (("connect", "range"), ("consumer", "mine")):
        other = Client(
            shard,
            "o",
            protocol_type=protocol_type,
            protocols=(MemberProtocol(name, encode_subscription(Subscription(("t",)))),),
        )
        other.ask_to_join()
        assert isinstance(other.answer, InconsistentGroupProtocol)


def test_positions_are_kept_by_members_of_the_present_epoch_only() -> None:
    shard, (client,) = classic(1)
    assert client.commit(3).partitions == {TP: None}
    member = Consumer(shard, "m")
    member.beat()
    settle(shard, client, member)
    assert client.commit(5).partitions == {TP: None}
    client.generation -= 1
    assert isinstance(client.commit(6), IllegalGeneration)
    asked = OffsetFetch(G, Caller(), (TP,))
    fetched = shard.answer(lambda c, r: c.fetch_offsets(r, asked))
    assert fetched == OffsetsFetched({TP: CommittedOffset(5)})


def test_a_group_of_consumers_has_no_more_members_than_allowed() -> None:
    config = GroupConfig(initial_rebalance_delay_ms=0, consumer_max_size=1)
    shard = shard_with(config, t=6)
    settle_consumers(Consumer(shard, "m"))
    client = Cooperative(shard, "c")
    client.join()
    assert isinstance(client.answer, GroupMaxSizeReached)


def test_a_classic_member_hears_with_its_heartbeat_that_a_topic_has_grown() -> None:
    shard, (client,) = classic(1)
    member = Consumer(shard, "m")
    member.beat()
    settle(shard, client, member)
    set_topic(shard, "t", 8)
    assert isinstance(client.heartbeat(), RebalanceInProgress)
    client.rejoin()
    member.beat()
    client.step()
    assert all_read(client, member) == [*range(8)]


def test_a_classic_member_that_is_silent_or_does_not_join_again_is_dropped() -> None:
    shard, (client,) = classic(1)
    member = Consumer(shard, "m")
    member.beat()
    settle(shard, client, member)
    shard.advance(SESSION_MS)  # its own session, which is shorter than that of consumers
    assert client.member_id not in consumer_group(shard).members

    shard, (client,) = classic(1)
    member = Consumer(shard, "m")
    member.beat()
    told_ms = shard.now_ms
    assert isinstance(client.heartbeat(), RebalanceInProgress)
    while shard.now_ms - told_ms < REBALANCE_MS - 1_000:
        shard.advance(1_000)
        assert isinstance(client.heartbeat(), RebalanceInProgress)
    shard.advance(1_000)
    assert client.member_id not in consumer_group(shard).members


def test_a_dropped_member_that_has_not_heard_of_it_does_not_join_with_what_it_owned() -> None:
    """With the epoch of a new member it could commit for partitions that others read by now."""
    shard, (member,) = classic(1)
    other = Consumer(shard, "new")
    settle(shard, member, other)
    owned = member.owned
    assert owned
    shard.advance(SESSION_MS)
    assert member.member_id not in consumer_group(shard).members
    assert isinstance(member.join(), UnknownMemberId)
    assert member.owned == owned  # it does not know until then
    member.owned = ()
    assert isinstance(member.join(), Joined)


def test_a_classic_member_that_joins_and_does_not_sync_is_dropped() -> None:
    shard, (client,) = classic(1)
    Consumer(shard, "m").beat()
    client.join()
    for _ in range(REBALANCE_MS // 1_000):
        shard.advance(1_000)
        client.heartbeat()
    assert client.member_id not in consumer_group(shard).members


def test_an_operator_removes_members_of_either_protocol() -> None:
    shard, (client,) = classic(1)
    members = [Consumer(shard, "m0"), Consumer(shard, "m1", instance_id="i")]
    for member in members:
        member.beat()
    settle(shard, client, *members)
    leaving = (Leaving("m0", None), Leaving("", "i"), Leaving("m0", None), Leaving("x", "i"))
    request = LeaveGroup(G, (*leaving, Leaving("", "none")))
    answer = shard.answer(lambda c, r: c.leave(shard.wall_ms, r, request))
    assert isinstance(answer, Left)
    assert [error and type(error) for _, error in answer.members] == [
        None, None, UnknownMemberId, FencedInstanceId, UnknownMemberId,
    ]  # fmt: skip
    assert isinstance(members[0].beat(), GroupIdNotFound)


# ---- back to the classic protocol ----------------------------------------------------------------


def test_the_group_is_a_classic_one_again_when_the_last_consumer_leaves() -> None:
    shard, members = classic(2)
    late = Consumer(shard, "m")
    late.beat()
    settle(shard, *members, late)
    epoch = consumer_group(shard).group_epoch
    held = [member.owned for member in members]
    late.leave()
    group = shard.coordinator.groups[G]
    assert isinstance(group, ClassicGroup)
    assert group.generation == epoch
    assert [decode_assignment(group.members[each.member_id].assignment).partitions
            for each in members] == held  # fmt: skip
    shard.advance(0)
    assert set(group.members) == {member.member_id for member in members}
    assert group.state_name == "PreparingRebalance"
    assert [type(member.heartbeat()) for member in members] == [RebalanceInProgress] * 2
    rebalance_after_downgrade(members)
    assert all_read(*members) == [*range(6)]
    same_after_a_crash(shard)


def rebalance_after_downgrade(members: list[Cooperative]) -> None:
    for member in members:
        member.join()
    leader = next(each for each in members if each.answer.leader == each.answer.member_id)
    for member in (*(each for each in members if each is not leader), leader):
        member.share_out()
    for member in members:
        member.hear()


def test_a_crash_right_after_the_change_loses_no_partition() -> None:
    shard, members = classic(2)
    late = Consumer(shard, "m")
    late.beat()
    settle(shard, *members, late)
    late.leave()
    for _ in range(2):
        shard.start()
        assert [member.heartbeat() for member in members] == [None, None]
    shard.advance(0)
    assert [type(member.heartbeat()) for member in members] == [RebalanceInProgress] * 2
    rebalance_after_downgrade(members)
    assert all_read(*members) == [*range(6)]
    same_after_a_crash(shard)
    shard.advance(0)
    assert [member.heartbeat() for member in members] == [None, None]


def test_after_a_crash_the_members_know_who_leads_though_the_one_that_was_dropped_is_back() -> None:
    shard, (silent,) = classic(1)
    consumer = Consumer(shard, "m", instance_id="i")
    consumer.beat()
    settle(shard, silent, consumer)
    static = Cooperative(shard, "s", instance_id="i")
    static.rejoin()  # in the place of the consumer
    settle(shard, silent, static)
    shard.advance(SESSION_MS // 2)
    assert static.heartbeat() is None
    shard.advance(SESSION_MS // 2)
    assert group_type(shard) is GroupType.CLASSIC
    shard.start()
    shard.advance(0)
    assert isinstance(silent.heartbeat(), UnknownMemberId)
    assert isinstance(static.heartbeat(), RebalanceInProgress)
    silent.member_id = ""
    silent.join()
    rebalance_after_downgrade([static, silent])
    assert all_read(static, silent) == [*range(6)]


def test_a_consumer_whose_session_ends_gives_the_group_back_too() -> None:
    shard, (client,) = classic(1)
    late = Consumer(shard, "m")
    late.beat()
    settle(shard, client, late)
    for _ in range(9):
        shard.advance(GroupSettings().consumer_session_timeout_ms // 9)
        client.heartbeat()
    assert group_type(shard) is GroupType.CLASSIC
    rebalance_after_downgrade([client])
    assert client.reads == [*range(6)]


@pytest.mark.parametrize("policy", ["upgrade", "bidirectional"])
def test_a_group_stays_one_of_the_consumer_protocol_where_it_must(policy: str) -> None:
    config = GroupConfig(
        initial_rebalance_delay_ms=0,
        consumer_migration_policy=policy,
        max_size=2 if policy == "upgrade" else 1,
    )
    shard = shard_with(config, t=6)
    late = Consumer(shard, "m")
    late.beat()
    members = [Cooperative(shard, f"c{number}") for number in range(2)]
    for member in members:
        member.rejoin()
    settle(shard, *members, late)
    late.leave()
    assert group_type(shard) is GroupType.CONSUMER
    settle(shard, *members)


def test_a_classic_member_joins_an_empty_group_of_consumers_and_it_keeps_its_positions() -> None:
    shard = shard_with(AT_ONCE, t=6)
    member = Consumer(shard, "m")
    settle_consumers(member)
    member.commit(7)
    member.leave()
    stale = Cooperative(shard, "s", member_id="stale")
    assert isinstance(stale.join(), UnknownMemberId)
    refused = Client(shard, "r", protocols=())
    refused.ask_to_join()
    assert isinstance(refused.answer, InconsistentGroupProtocol)
    assert group_type(shard) is GroupType.CONSUMER
    client = Cooperative(shard, "c")
    client.join()
    asked = OffsetFetch(G, Caller(), (TP,))
    fetched = shard.answer(lambda c, r: c.fetch_offsets(r, asked))
    assert fetched == OffsetsFetched({TP: CommittedOffset(7)})
    client.share_out()
    assert client.reads == [*range(6)]
    same_after_a_crash(shard)
    assert group_type(shard) is GroupType.CLASSIC


def test_a_crash_between_the_types_keeps_the_positions() -> None:
    shard = shard_with(AT_ONCE, t=6)
    member = Consumer(shard, "m")
    settle_consumers(member)
    member.commit(7)
    member.leave()
    Cooperative(shard, "c").join()  # the consumer group has ended, and no generation is written
    shard.start()
    assert group_type(shard) is GroupType.CLASSIC
    shard.advance(2 * GroupConfig().offsets_retention_ms)
    assert shard.coordinator.groups == {}


# ---- at random -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(60))
def test_members_of_both_protocols_come_and_go(seed: int) -> None:
    chance = random.Random(seed)
    shard, members = classic(2)
    there: list[Cooperative | Consumer] = [*members]
    made = 0
    for _ in range(chance.randint(5, 40)):
        group = shard.coordinator.groups.get(G)
        # The classic protocol's own rebalances have their own test: here such a group has members
        # that are there already.
        joins = not there or (chance.random() < 0.3 and len(there) < 5)
        if joins and (chance.random() < 0.6 or not isinstance(group, ConsumerGroup)):
            made += 1
            there.append(Consumer(shard, f"m{made}"))
            assert isinstance(there[-1].beat(), ConsumerHeartbeatAnswer)
        elif joins:
            made += 1
            client = Cooperative(shard, f"n{made}", is_eager=chance.random() < 0.3)
            if isinstance(group, ConsumerGroup) and not group.is_empty:
                client.rejoin()
                there.append(client)
        elif chance.random() < 0.15:
            leaving = chance.choice(there)
            there.remove(leaving)
            leaving.leave()
            shard.advance(0)
        elif chance.random() < 0.1:
            shard.start()
        else:
            mover = chance.choice(there)
            if isinstance(mover, Consumer):
                assert isinstance(mover.beat(), ConsumerHeartbeatAnswer)
            elif isinstance(group, ConsumerGroup):
                mover.step()
        group = shard.coordinator.groups.get(G)
        if isinstance(group, ClassicGroup) and there:
            clients = [each for each in there if isinstance(each, Cooperative)]
            assert len(clients) == len(there), "a consumer in a classic group"
            if group.state_name == "PreparingRebalance":
                rebalance_after_downgrade(clients)
        reads = all_read(*there)
        assert len(reads) == len(set(reads)), f"a partition with two readers, seed {seed}"
    group = shard.coordinator.groups.get(G)
    if isinstance(group, ConsumerGroup) and there:
        settle(shard, *there, steps=20)
        assert {member.state for member in group.members.values()} == {MemberState.STABLE}
        same_after_a_crash(shard)
