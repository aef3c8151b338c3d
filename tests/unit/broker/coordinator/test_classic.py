"""The classic protocol, event by event, as Kafka's coordinator has it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pylog.errors import (
    FencedInstanceId,
    GroupMaxSizeReached,
    IllegalGeneration,
    InconsistentGroupProtocol,
    InvalidGroupId,
    InvalidRequest,
    InvalidSessionTimeout,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMemberId,
)
from pylog_broker.coordinator.groups.classic.messages import (
    LeaveGroup,
    Leaving,
    Left,
    MemberProtocol,
    Synced,
)
from pylog_broker.coordinator.groups.classic.subscriptions import topics_of
from pylog_broker.coordinator.groups.group import Caller
from pylog_broker.coordinator.groups.messages import (
    CommittedOffset,
    OffsetCommit,
    OffsetFetch,
    OffsetsFetched,
)
from tests.fakes.classic_clients import (
    AT_ONCE,
    RANGE,
    REBALANCE_MS,
    SESSION_MS,
    TP,
    Client,
    G,
    group,
    settle,
    settle_again,
    stable,
    state,
    subscription,
)
from tests.fakes.group_shard import GroupShard

# ---- joining -------------------------------------------------------------------------------------


def test_a_new_member_hears_its_id_first_and_changes_nothing_by_that() -> None:
    shard = GroupShard()
    client = Client(shard, "c")
    request = client.request()
    answer = shard.answer(lambda c, r: c.join(shard.wall_ms, r, request))

    assert answer.member_id == "c-1"
    assert isinstance(answer.error, MemberIdRequired)
    assert state(shard) == "Empty"
    assert shard.coordinator.groups[G].is_empty


def test_an_id_that_nobody_joins_with_is_forgotten() -> None:
    shard = GroupShard()
    client = Client(shard, "c")
    request = client.request()
    shard.ask(lambda c, r: c.join(shard.wall_ms, r, request))
    shard.advance(SESSION_MS)
    client.member_id = "c-1"
    client.ask_to_join()
    assert isinstance(client.answer, UnknownMemberId)


def test_the_first_rebalance_waits_for_more_members() -> None:
    shard = GroupShard()
    clients = [Client(shard, f"c{number}") for number in range(3)]
    for client in clients:
        client.ask_to_join()
        shard.advance(900)
    assert state(shard) == "PreparingRebalance"
    shard.advance(299)
    assert clients[0].answer is None
    shard.advance(1)  # 3 s after the first; others came in between, so again 3 s
    assert clients[0].answer is None
    shard.advance(3_000)
    assert {client.joined.generation for client in clients} == {1}
    assert state(shard) == "CompletingRebalance"


def test_the_first_rebalance_waits_no_longer_than_the_rebalance_time_out() -> None:
    shard = GroupShard()
    clients = []
    for number in range(20):
        clients.append(Client(shard, f"c{number}", rebalance_timeout_ms=8_000))
        clients[-1].ask_to_join()
        shard.advance(500)
        if clients[0].answer is not None:
            break
    assert shard.now_ms == 8_000


def test_the_leader_alone_hears_who_the_members_are() -> None:
    shard, clients = stable(3)
    late = Client(shard, "late")
    late.ask_to_join()
    for client in clients:
        assert isinstance(client.heartbeat(), RebalanceInProgress)
        client.ask_to_join()
    joined = [client.joined for client in (*clients, late)]
    assert {each.leader for each in joined} == {clients[0].member_id}
    assert {each.generation for each in joined} == {group(shard).generation}
    assert [len(each.members) for each in joined] == [4, 0, 0, 0]
    assert {m.metadata for m in joined[0].members} == {RANGE.metadata}


def test_a_rebalance_ends_as_soon_as_all_have_joined() -> None:
    shard, clients = stable(2)
    late = Client(shard, "late")
    late.ask_to_join()
    clients[0].ask_to_join()
    assert late.answer is None
    clients[1].ask_to_join()
    assert late.joined.generation == clients[0].joined.generation


def test_who_does_not_join_again_in_time_is_no_member_any_more() -> None:
    shard, clients = stable(2)
    late = Client(shard, "late")
    late.ask_to_join()
    clients[0].ask_to_join()
    for _ in range(REBALANCE_MS // 5_000):
        shard.advance(5_000)
        clients[1].heartbeat()  # it lives, but it does not join
    assert {*group(shard).members} == {clients[0].joined.member_id, late.joined.member_id}
    assert isinstance(clients[1].heartbeat(), UnknownMemberId)


def test_a_leader_that_does_not_come_back_is_followed_by_one_who_has() -> None:
    shard, clients = stable(2)
    late = Client(shard, "late")
    late.ask_to_join()
    clients[1].ask_to_join()
    shard.advance(REBALANCE_MS)
    assert clients[1].joined.leader == clients[1].member_id
    assert len(clients[1].joined.members) == 2


def test_a_join_that_comes_again_after_a_lost_answer_hears_the_same() -> None:
    shard, clients = stable(2)
    clients[1].ask_to_join()  # a follower with nothing new
    assert clients[1].joined.generation == group(shard).generation
    assert state(shard) == "Stable"
    late = Client(shard, "late")
    late.ask_to_join()
    for client in clients:
        client.ask_to_join()
    first = clients[1].joined
    clients[1].ask_to_join()
    assert clients[1].joined == first
    assert state(shard) == "CompletingRebalance"


def test_a_leader_that_joins_again_wants_a_rebalance() -> None:
    shard, clients = stable(2)
    clients[0].ask_to_join()
    assert clients[0].answer is None
    assert state(shard) == "PreparingRebalance"


def test_a_member_that_joins_twice_hears_of_the_first_request_too() -> None:
    shard, clients = stable(2)
    clients[0].ask_to_join()
    first = clients[0].request_id
    clients[0].ask_to_join()
    assert isinstance(shard.replies[first], RebalanceInProgress)
    assert clients[0].answer is None


def test_a_new_subscription_begins_a_rebalance() -> None:
    shard, clients = stable(2)
    clients[1].protocols = (MemberProtocol("range", subscription("t", "u")),)
    clients[1].ask_to_join()
    assert state(shard) == "PreparingRebalance"


# ---- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"group_id": ""}, InvalidGroupId),
        ({"session_timeout_ms": 5_999}, InvalidSessionTimeout),
        ({"session_timeout_ms": 1_800_001}, InvalidSessionTimeout),
        ({"protocols": ()}, InconsistentGroupProtocol),
        ({"protocol_type": ""}, InconsistentGroupProtocol),
        ({"member_id": "stranger"}, UnknownMemberId),
    ],
)
def test_a_join_that_cannot_be_is_refused_by_name(changes: Any, error: type[Exception]) -> None:
    shard = GroupShard()
    client = Client(shard, "c")
    client.ask_to_join(**changes)
    assert isinstance(client.answer, error)
    assert shard.coordinator.groups == {}


def test_a_member_of_another_protocol_type_or_without_a_common_strategy_is_refused() -> None:
    shard, _ = stable(1)
    other = Client(shard, "connect", protocol_type="connect")
    other.ask_to_join()
    assert isinstance(other.answer, InconsistentGroupProtocol)
    alone = Client(shard, "c", protocols=(MemberProtocol("sticky", subscription("t")),))
    alone.ask_to_join()
    assert isinstance(alone.answer, InconsistentGroupProtocol)
    assert state(shard) == "Stable"


def test_a_group_that_is_full_says_so() -> None:
    shard, _ = stable(2, replace(AT_ONCE, max_size=2))
    late = Client(shard, "late")
    late.ask_to_join()
    assert isinstance(late.answer, GroupMaxSizeReached)
    assert state(shard) == "Stable"


def test_members_that_say_too_much_are_refused_before_their_group_is_too_large_to_write() -> None:
    shard, [first] = stable(1)
    much = (RANGE, MemberProtocol("sticky", b"x" * 200_000))
    others = [Client(shard, f"more{number}", protocols=much) for number in range(3)]
    others[0].ask_to_join()
    others[1].ask_to_join()
    settle_again(first, *others[:2])
    others[2].ask_to_join()
    assert isinstance(others[2].answer, GroupMaxSizeReached)
    assert "'g': its members would have 6" in str(others[2].answer)
    first.protocols = (RANGE, MemberProtocol("sticky", b"x" * 200_000))
    first.ask_to_join()
    assert isinstance(first.answer, GroupMaxSizeReached)
    assert (state(shard), len(group(shard).members)) == ("Stable", 3)
    others[0].ask_to_join()  # its own metadata count once
    assert not isinstance(others[0].answer, GroupMaxSizeReached)


def test_a_leader_that_assigns_too_much_is_refused_and_its_group_goes_on() -> None:
    shard = GroupShard(AT_ONCE)
    leader = Client(shard, "a")
    leader.ask_to_join()
    assert leader.joined.leader == leader.member_id
    leader.sync({leader.member_id: b"x" * 400_000})
    assert isinstance(leader.answer, InvalidRequest)
    assert "have 400000 bytes" in str(leader.answer)
    leader.sync({leader.member_id: b"x" * 300_000})
    assert leader.answer.assignment == b"x" * 300_000


def test_a_static_member_that_starts_again_counts_once() -> None:
    shard = GroupShard(AT_ONCE)
    much = (MemberProtocol("range", subscription("t") + b"x" * 400_000),)
    first = Client(shard, "c", instance_id="one", protocols=much)
    first.ask_to_join()
    settle(first)
    again = Client(shard, "c2", instance_id="one", protocols=much, starts=1)
    again.ask_to_join()
    assert again.joined.error is None


# ---- the vote ------------------------------------------------------------------------------------


def test_the_strategy_that_most_members_like_most_wins_among_those_that_all_have() -> None:
    shard = GroupShard()
    wishes = [("range", "rr"), ("rr", "range"), ("rr", "range", "mine")]
    clients = []
    for number, names in enumerate(wishes):
        protocols = tuple(MemberProtocol(name, subscription("t")) for name in names)
        clients.append(Client(shard, f"c{number}", protocols=protocols))
        clients[-1].ask_to_join()
    shard.advance(6_000)
    assert {client.joined.protocol for client in clients} == {"rr"}


# ---- syncing -------------------------------------------------------------------------------------


def test_followers_wait_for_the_leader_and_each_hears_its_own() -> None:
    shard = GroupShard()
    leader, follower = Client(shard, "a"), Client(shard, "b")
    leader.ask_to_join()
    follower.ask_to_join()
    shard.advance(6_000)
    assert leader.joined.leader == leader.member_id
    assert follower.joined.members == ()
    follower.sync()
    assert follower.answer is None
    leader.sync({leader.member_id: b"A", follower.member_id: b"B"})
    assert leader.answer == Synced("consumer", "range", b"A")
    assert follower.answer == Synced("consumer", "range", b"B")
    assert state(shard) == "Stable"
    follower.sync()  # its answer was lost
    assert follower.answer == Synced("consumer", "range", b"B")


def test_an_assignment_is_told_when_it_is_committed() -> None:
    shard = GroupShard(AT_ONCE)
    client = Client(shard, "a")
    client.ask_to_join()
    _ = client.joined
    shard.commits = False
    client.sync({client.member_id: b"A"})
    assert client.answer is None
    shard.commit()
    assert client.answer == Synced("consumer", "range", b"A")


def test_a_member_that_joins_while_others_sync_begins_anew() -> None:
    shard, clients = stable(2)
    clients[0].ask_to_join()
    clients[1].ask_to_join()
    _ = clients[0].joined, clients[1].joined
    clients[1].sync()
    late = Client(shard, "late")
    late.ask_to_join()
    assert isinstance(clients[1].answer, RebalanceInProgress)
    clients[0].sync({})
    assert isinstance(clients[0].answer, RebalanceInProgress)


def test_a_leader_that_brings_nothing_is_dropped_and_the_others_go_on() -> None:
    shard, clients = stable(2)
    clients[0].ask_to_join()
    clients[1].ask_to_join()
    _ = clients[0].joined, clients[1].joined
    clients[1].sync()
    for _ in range(REBALANCE_MS // 5_000):
        shard.advance(5_000)
        clients[0].heartbeat()
    assert isinstance(clients[1].answer, RebalanceInProgress)
    clients[1].ask_to_join()
    assert clients[1].joined.leader == clients[1].member_id
    assert isinstance(clients[0].heartbeat(), UnknownMemberId)


def test_a_sync_of_another_generation_or_protocol_is_refused() -> None:
    _, clients = stable(1)
    clients[0].sync(generation=7)
    assert isinstance(clients[0].answer, IllegalGeneration)
    clients[0].sync(protocol="sticky")
    assert isinstance(clients[0].answer, InconsistentGroupProtocol)
    clients[0].sync(protocol_type="connect")
    assert isinstance(clients[0].answer, InconsistentGroupProtocol)
    clients[0].sync(protocol=None, protocol_type=None)  # an old client
    assert isinstance(clients[0].answer, Synced)
    clients[0].sync(member_id="stranger")
    assert isinstance(clients[0].answer, UnknownMemberId)


# ---- living and leaving --------------------------------------------------------------------------


def test_a_member_that_is_not_heard_of_is_dropped() -> None:
    shard, clients = stable(2)
    shard.advance(SESSION_MS - 1)
    assert clients[0].heartbeat() is None
    shard.advance(1)
    assert {*group(shard).members} == {clients[0].member_id}
    assert isinstance(clients[0].heartbeat(), RebalanceInProgress)


def test_a_commit_keeps_a_member_alive() -> None:
    shard, clients = stable(1)
    for _ in range(3):
        shard.advance(SESSION_MS - 1)
        clients[0].commit(1)
    assert state(shard) == "Stable"


def test_a_member_that_leaves_makes_room_at_once() -> None:
    shard, clients = stable(2)
    assert clients[1].leave() == Left(((Leaving(clients[1].member_id, None), None),))
    assert state(shard) == "PreparingRebalance"
    clients[0].ask_to_join()
    assert len(clients[0].joined.members) == 1


def test_the_last_member_leaves_an_empty_group_and_its_offsets_stay() -> None:
    shard, clients = stable(1)
    clients[0].commit(5)
    clients[0].leave()
    assert state(shard) == "Empty"
    fetched = shard.answer(lambda c, r: c.fetch_offsets(r, OffsetFetch(G, Caller())))
    assert fetched == OffsetsFetched({TP: CommittedOffset(5)})
    shard.start()
    assert state(shard) == "Empty"
    assert group(shard).generation == clients[0].generation + 1


def test_who_is_removed_while_he_waits_hears_so() -> None:
    shard, clients = stable(2)
    clients[0].ask_to_join()
    request = LeaveGroup(G, (Leaving(clients[0].member_id, None), Leaving("stranger", None)))
    left = shard.answer(lambda c, r: c.leave(shard.wall_ms, r, request))
    assert [type(error) for _, error in left.members] == [type(None), UnknownMemberId]
    assert isinstance(clients[0].answer, UnknownMemberId)


# ---- static members ------------------------------------------------------------------------------


def stable_static() -> tuple[GroupShard, list[Client]]:
    shard = GroupShard(AT_ONCE)
    clients = [Client(shard, "a", instance_id="A"), Client(shard, "b", instance_id="B")]
    clients[0].ask_to_join()
    _ = clients[0].joined
    clients[1].ask_to_join()
    settle_again(*clients)
    return shard, clients


@pytest.mark.parametrize("number", [0, 1], ids=["leader", "follower"])
def test_a_static_member_that_starts_again_disturbs_nobody(number: int) -> None:
    shard, clients = stable_static()
    old, generation = clients[number], group(shard).generation
    again = Client(shard, "again", instance_id=old.instance_id, starts=10)
    again.ask_to_join()
    assert again.joined.generation == generation
    assert again.joined.skip_assignment == (number == 0)
    assert len(again.joined.members) == (2 if number == 0 else 0)
    assert state(shard) == "Stable"
    again.sync()
    assert again.answer == Synced("consumer", "range", old.name.encode())
    assert isinstance(old.heartbeat(), FencedInstanceId)
    assert isinstance(old.commit(3), FencedInstanceId)
    shard.start()
    assert group(shard).static[old.instance_id or ""] == again.member_id


def test_a_static_member_that_reads_other_topics_when_it_starts_again_is_seen() -> None:
    shard, _ = stable_static()
    protocols = (MemberProtocol("range", subscription("t", "u")),)
    again = Client(shard, "again", instance_id="B", starts=10, protocols=protocols)
    again.ask_to_join()
    assert again.answer is None
    assert state(shard) == "PreparingRebalance"


def test_the_earlier_self_of_a_static_member_hears_so_while_it_waits() -> None:
    _, clients = stable_static()
    clients[0].ask_to_join()
    waiting = clients[0]
    again = Client(clients[0].shard, "again", instance_id="A", starts=10)
    again.ask_to_join()
    assert isinstance(waiting.answer, FencedInstanceId)


def test_a_static_member_keeps_its_place_in_a_rebalance_until_its_session_ends() -> None:
    shard, clients = stable_static()
    clients[0].session_timeout_ms = clients[1].session_timeout_ms = 60_000
    for client in clients:
        client.ask_to_join()
    settle_again(*clients)
    late = Client(shard, "late")
    late.ask_to_join()
    clients[0].ask_to_join()
    shard.advance(REBALANCE_MS)
    assert len(clients[0].joined.members) == 3


def test_an_operator_removes_a_static_member_by_its_instance() -> None:
    shard, clients = stable_static()
    request = LeaveGroup(G, (Leaving("", "B"), Leaving("", "C"), Leaving("x", "A")))
    left = shard.answer(lambda c, r: c.leave(shard.wall_ms, r, request))
    kinds = [type(error) for _, error in left.members]
    assert kinds == [type(None), UnknownMemberId, FencedInstanceId]
    assert {*group(shard).members} == {clients[0].member_id}


# ---- commits -------------------------------------------------------------------------------------


def test_a_commit_of_a_stranger_or_of_an_old_generation_is_refused() -> None:
    shard, clients = stable(1)
    old = clients[0].generation
    assert isinstance(Client(shard, "x", member_id="x").commit(1), UnknownMemberId)
    nobody = OffsetCommit(G, Caller(), {TP: CommittedOffset(1)})
    assert isinstance(shard.answer(lambda c, r: c.commit_offsets(0, r, nobody)), UnknownMemberId)
    clients[0].ask_to_join()
    settle(*clients)
    clients[0].generation = old
    assert isinstance(clients[0].commit(1), IllegalGeneration)
    assert len(shard.coordinator.offsets) == 0


def test_a_commit_while_assignments_are_awaited_waits_for_them() -> None:
    _, clients = stable(1)
    clients[0].ask_to_join()
    _ = clients[0].joined
    assert isinstance(clients[0].commit(1), RebalanceInProgress)


# ---- another coordinator -------------------------------------------------------------------------


def test_a_new_coordinator_knows_the_generation_and_nobody_rebalances() -> None:
    shard, clients = stable(3)
    before = group(shard)
    shard.start()
    after = group(shard)
    assert (after.generation, after.leader, after.protocol) == (
        before.generation, before.leader, before.protocol,
    )  # fmt: skip
    assert [client.heartbeat() for client in clients] == [None] * 3
    clients[1].sync()
    assert clients[1].answer == Synced("consumer", "range", b"c1")
    shard.advance(SESSION_MS - 1)
    assert len(group(shard).members) == 3
    shard.advance(1)
    assert group(shard).members == {}


def test_a_coordinator_that_dies_before_the_assignments_lets_all_join_again() -> None:
    shard, clients = stable(2)
    generation = group(shard).generation
    clients[0].ask_to_join()
    clients[1].ask_to_join()
    assert clients[0].joined.generation == generation + 1
    shard.start()
    assert isinstance(clients[0].heartbeat(), IllegalGeneration)
    clients[0].ask_to_join()
    clients[1].ask_to_join()
    assert clients[0].joined.generation == generation + 1


# ---- subscriptions -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metadata", "topics"),
    [
        (subscription("a", "bc"), {"a", "bc"}),
        (subscription(), set()),
        (b"", None),
        (b"\0\0\x7f\xff\xff\xff", None),
        (b"\0\0\0\0\0\1\0\x09ab", None),
        (b"\0\0\0\0\0\1\0\1\xff", None),
        (b"\xff\xff\0\0\0\0", None),
    ],
)
def test_topics_of_a_subscription(metadata: bytes, topics: set[str] | None) -> None:
    assert topics_of(metadata) == topics
