"""A member of a classic group: it joins, rebalances, is fenced, is late, leaves."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import pytest

from pylog import errors
from pylog.client.answers import Answer, Callback
from pylog.client.membership.assignors import (
    Assignor,
    CooperativeStickyAssignor,
    Member,
    Plan,
    RangeAssignor,
)
from pylog.client.membership.classic_membership import ClassicMembership
from pylog.client.membership.coordinator_finder import CoordinatorFinder
from pylog.client.membership.group_identity import GroupIdentity, MembershipSettings
from pylog.client.membership.member_state import NEXT_STATES, MemberState
from pylog.client.membership.messages import (
    Acknowledged,
    CoordinatorFound,
    Effect,
    FindCoordinator,
    Heartbeat,
    Joined,
    JoinGroup,
    LeaveGroup,
    Polled,
    ReadExactly,
    StopReading,
    Synced,
    SyncGroup,
    WatchGroupTopics,
)
from pylog.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_shared_out,
    encode_subscription,
)
from pylog.model import TopicPartition

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))
COORDINATOR = 7

R = TypeVar("R")


class Diary:
    """The user's listener, which writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, list[TopicPartition]]] = []

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.told.append(("revoked", list(partitions)))

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.told.append(("assigned", list(partitions)))

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self.told.append(("lost", list(partitions)))


class World:
    """A member, its user, and the coordinator that answers it."""

    def __init__(
        self,
        *assignors: Assignor,
        instance_id: str | None = None,
        diary: bool = True,
        commits: bool = True,
    ) -> None:
        settings = MembershipSettings()
        self.identity = GroupIdentity("g", instance_id)
        self.finder = CoordinatorFinder(settings, self.identity, lambda: 0.5)
        self.for_user: deque[Callback] = deque()
        self.commits: list[Answer[None]] = []
        self.has_synced = False
        self.commits_at_once = commits
        self.member = ClassicMembership(
            settings,
            self.identity,
            self.finder,
            assignors or (RangeAssignor(),),
            self.for_user,
            self.commit,
            lambda: 0.5,
        )
        self.diary = Diary()
        if diary:
            self.member.listener = self.diary
        self.find()
        self.member.on_metadata({"t": 3})
        self.member.subscribe(["t"])
        self.member.on_user_poll(0)

    def commit(self, now_ms: int) -> Answer[None]:
        answer: Answer[None] = Answer()
        self.commits.append(answer)
        if self.commits_at_once:
            answer.succeed(None)
        return answer

    def find(self) -> None:
        (request,) = self.finder.poll(10**9).effects
        assert isinstance(request, FindCoordinator)
        self.finder.on_found(0, request, CoordinatorFound(COORDINATOR))

    def poll(self, now_ms: int) -> list[Effect]:
        """But for the first heartbeat behind a sync, which is answered at once."""
        effects = self.member.poll(now_ms).effects
        for effect in effects if self.has_synced else ():
            if isinstance(effect, Heartbeat):
                self.has_synced = False
                self.member.on_heartbeat(now_ms, effect, Acknowledged())
                return [each for each in effects if each is not effect]
        return effects

    def only(self, kind: type[R], now_ms: int) -> R:
        (effect,) = self.poll(now_ms)
        assert isinstance(effect, kind)
        return effect

    def last(self, kind: type[R], now_ms: int) -> R:
        effect = self.poll(now_ms)[-1]
        assert isinstance(effect, kind)
        return effect

    def user_runs(self) -> list[tuple[str, list[TopicPartition]]]:
        """Run the callbacks that the user's next poll runs."""
        self.diary.told.clear()
        while self.for_user:
            callback = self.for_user.popleft()
            try:
                callback.answer.succeed(callback.run())
            except ZeroDivisionError as error:
                callback.answer.fail(error)
        return list(self.diary.told)

    # ---- whole steps ----------------------------------------------------------------------------

    def join(self, now_ms: int, generation: int, *, leader: str = "other") -> JoinGroup:
        """A follower joins; its sync is the next effect."""
        request = self.last(JoinGroup, now_ms)
        name = request.protocols[0][0]
        self.member.on_joined(now_ms, request, Joined(generation, "me", leader, name))
        return request

    def sync(self, now_ms: int, *partitions: TopicPartition) -> None:
        request = self.last(SyncGroup, now_ms)
        data = encode_assignment(Assignment(partitions))
        self.member.on_synced(now_ms, request, Synced(data))
        self.has_synced = True

    def settle(self, now_ms: int, generation: int, *partitions: TopicPartition) -> None:
        """The member is stable with these, and its user knows."""
        self.join(now_ms, generation)
        self.sync(now_ms, *partitions)
        self.poll(now_ms)
        self.user_runs()
        self.poll(now_ms)
        assert self.member.owned == partitions
        assert self.member.state is MemberState.STABLE

    def heartbeat(self, now_ms: int, code: int = 0) -> None:
        request = self.last(Heartbeat, now_ms)
        self.member.on_heartbeat(now_ms, request, Acknowledged(code))


def subscription_of(request: JoinGroup) -> Subscription:
    return decode_subscription(request.protocols[0][1])


BEAT = Heartbeat(COORDINATOR, "g", 1, "me", None, 15_000)

# ---- joining -------------------------------------------------------------------------------------


def test_a_member_joins_syncs_and_reads_what_it_is_given() -> None:
    world = World()
    request = world.only(JoinGroup, 0)
    data = encode_subscription(Subscription(("t",)))
    assert request == JoinGroup(
        7, "g", "", None, 45_000, 300_000, (("range", data),), "the subscription has changed"
    )
    world.member.on_joined(1, request, Joined(code=79, member_id="me"))
    again = world.only(JoinGroup, 1)
    assert again == request._replace(member_id="me", reason="")
    world.member.on_joined(2, again, Joined(1, "me", "other", "range"))
    sync = world.only(SyncGroup, 2)
    assert sync == SyncGroup(7, "g", 1, "me", None, "range")
    world.member.on_synced(3, sync, Synced(encode_assignment(Assignment((T1, T0)))))
    assert world.poll(3) == [ReadExactly((T0, T1)), BEAT]
    assert world.user_runs() == [("assigned", [T0, T1])]
    assert world.member.poll(4) == Polled([], 45_002)
    assert world.commits == []


def test_nobody_joins_without_a_subscription_or_a_coordinator() -> None:
    world = World()
    world.finder.forget(COORDINATOR)
    assert world.poll(0) == []
    world.find()
    world.only(JoinGroup, 1)
    bare = World()
    bare.member.subscribe([])
    assert bare.poll(0) == []


def test_the_leader_shares_out_what_all_want() -> None:
    world = World()
    world.member.on_metadata({"t": 3, "u": 1})
    request = world.only(JoinGroup, 0)
    members = tuple(
        (name, None, encode_subscription(Subscription(topics)))
        for name, topics in (("me", ("t",)), ("other", ("t", "u")))
    )
    world.member.on_joined(1, request, Joined(1, "me", "me", "range", members))
    mine, others = Assignment((T0, T1)), Assignment((T2, TopicPartition("u", 0)))
    assert world.poll(1) == [
        WatchGroupTopics(("t", "u")),
        SyncGroup(
            7,
            "g",
            1,
            "me",
            None,
            "range",
            (("me", encode_assignment(mine)), ("other", encode_assignment(others))),
        ),
    ]


def test_a_leader_that_came_back_leaves_the_assignments_as_they_are() -> None:
    world = World(instance_id="i")
    request = world.only(JoinGroup, 0)
    members = (("me", "i", encode_subscription(Subscription(("t",)))),)
    answer = Joined(4, "me", "me", "range", members, skip_assignment=True)
    world.member.on_joined(1, request, answer)
    assert world.poll(1) == [
        WatchGroupTopics(("t",)),
        SyncGroup(7, "g", 4, "me", "i", "range"),
    ]


def came_back(counts: dict[str, int], user_data: bytes | None) -> World:
    """A static leader that has started again, and what its earlier self has left to it."""
    world = World(instance_id="i", diary=False)
    world.member.on_metadata(counts)
    request = world.only(JoinGroup, 0)
    members = (("me", "i", encode_subscription(Subscription(("t", "u")))),)
    world.member.on_joined(
        1, request, Joined(4, "me", "me", "range", members, skip_assignment=True)
    )
    data = encode_assignment(Assignment((T0,), user_data))
    world.member.on_synced(1, world.last(SyncGroup, 1), Synced(data))
    world.has_synced = True
    return world


def test_a_static_leader_tells_itself_what_it_has_shared_out() -> None:
    world = World(instance_id="i")
    members = (("me", "i", encode_subscription(Subscription(("t",)))),)
    world.member.on_joined(1, world.only(JoinGroup, 0), Joined(4, "me", "me", "range", members))
    ((_, data),) = world.last(SyncGroup, 1).assignments
    assert decode_assignment(data) == ((T0, T1, T2), encode_shared_out({"t": 3}))


def leads_a_move(world: World) -> SyncGroup:
    """The member leads a group of two, and another one has all partitions as yet."""
    members = tuple(
        (name, None, encode_subscription(Subscription(("t",), None, owned, generation)))
        for name, owned, generation in (("me", (), -1), ("other", (T0, T1, T2), 3))
    )
    request = world.only(JoinGroup, 0)
    world.member.on_joined(1, request, Joined(4, "me", "me", "cooperative-sticky", members))
    return world.last(SyncGroup, 1)


def test_a_static_leader_tells_itself_nothing_of_topics_whose_partitions_move() -> None:
    world = World(CooperativeStickyAssignor(), instance_id="i")
    told = dict(leads_a_move(world).assignments)
    assert decode_assignment(told["me"]) == ((), encode_shared_out({}))
    owner, user_data = decode_assignment(told["other"])
    assert (len(owner), user_data) == (2, None)


def test_a_leader_that_came_back_into_a_move_shares_out_anew() -> None:
    world = came_back({"t": 3, "u": 1}, encode_shared_out({"u": 1}))
    assert world.last(JoinGroup, 2).reason == "the group's topics have changed"


@pytest.mark.parametrize("instance_id", [None, "i"])
def test_a_leader_waits_a_session_for_partitions_that_move(instance_id: str | None) -> None:
    world = World(CooperativeStickyAssignor(), instance_id=instance_id, diary=False)
    request = leads_a_move(world)
    world.member.on_synced(10, request, Synced(encode_assignment(Assignment(()))))
    end = 10 + MembershipSettings().session_timeout_ms
    world.has_synced = True
    world.poll(10)
    world.member.on_user_poll(end - 1)
    polled = world.member.poll(end - 1)
    assert not any(isinstance(effect, JoinGroup) for effect in polled.effects)
    assert polled.deadline_ms is not None
    assert polled.deadline_ms <= end
    again = world.last(JoinGroup, end)
    assert again.reason == "partitions that move have not been given up"
    # and when nothing moves any more, it waits for nothing
    members = (("me", None, encode_subscription(Subscription(("t",)))),)
    world.member.on_joined(end, again, Joined(5, "me", "me", "cooperative-sticky", members))
    share = encode_assignment(Assignment((T0, T1, T2)))
    world.member.on_synced(end, world.last(SyncGroup, end), Synced(share))
    world.has_synced = True
    assert world.member._moved_by_ms is None


def test_partitions_that_are_gone_are_not_waited_for() -> None:
    world = World(CooperativeStickyAssignor(), diary=False)
    world.member.on_metadata({"t": 1})
    owned = (T2, TopicPartition("gone", 0))
    members = (("me", None, encode_subscription(Subscription(("t",), None, owned, 3))),)
    request = world.only(JoinGroup, 0)
    world.member.on_joined(1, request, Joined(4, "me", "me", "cooperative-sticky", members))
    share = encode_assignment(Assignment((T0,)))
    world.member.on_synced(1, world.last(SyncGroup, 1), Synced(share))
    assert world.member._moved_by_ms is None


def test_a_leader_that_came_back_shares_out_what_has_grown_meanwhile() -> None:
    world = came_back({"t": 4, "u": 1}, encode_shared_out({"t": 3, "u": 1}))
    assert world.last(JoinGroup, 2).reason == "the group's topics have changed"


def test_a_leader_that_came_back_and_hears_later_that_a_topic_has_grown() -> None:
    world = came_back({}, encode_shared_out({"t": 3, "u": 1}))
    assert [type(each) for each in world.poll(1)] == [ReadExactly]
    world.member.on_metadata({"t": 3})
    world.member.on_metadata({"t": 3, "u": 1})
    assert world.poll(2) == []
    world.member.on_metadata({"t": 3, "u": 2})
    assert world.last(JoinGroup, 3).reason == "the group's topics have changed"


@pytest.mark.parametrize(
    "user_data", [None, b"", b"of Java", encode_shared_out({"t": 9})[:-1], b"pylog\x01\x00"]
)
def test_a_leader_that_does_not_know_what_was_shared_out_goes_on(user_data: bytes | None) -> None:
    world = came_back({"t": 4, "u": 1}, user_data)
    assert [type(each) for each in world.poll(1)] == [ReadExactly]
    world.member.on_metadata({"t": 5, "u": 1})
    world.last(JoinGroup, 2)


@pytest.mark.parametrize(
    ("protocol", "data", "said"),
    [
        ("mine", encode_subscription(Subscription(("t",))), "chose the assignor 'mine'"),
        ("range", b"\x00", "subscription of a member cannot be read"),
    ],
)
def test_a_leader_that_cannot_share_out_says_so(protocol: str, data: bytes, said: str) -> None:
    world = World()
    members = (("me", None, data),)
    answer = Joined(1, "me", "me", protocol, members)
    world.member.on_joined(1, world.only(JoinGroup, 0), answer)
    assert not [effect for effect in world.poll(1) if not isinstance(effect, WatchGroupTopics)]
    error = world.member.take_error()
    assert isinstance(error, errors.InconsistentGroupProtocol)
    assert said in str(error)
    world.only(JoinGroup, 1)


class Own:
    """A user's assignor."""

    name = "own"
    cooperative = False

    def user_data(self, owned: Sequence[TopicPartition], generation: int) -> bytes | None:
        return None

    def assign(self, partition_counts: Mapping[str, int], members: Sequence[Member]) -> Plan:
        assert partition_counts == {"t": 3}
        return {members[0].member_id: [T0]}


class Broken(Own):
    def assign(self, partition_counts: Mapping[str, int], members: Sequence[Member]) -> Plan:
        raise ZeroDivisionError


def leads(world: World, now_ms: int) -> None:
    members = (("me", None, encode_subscription(Subscription(("t",)))),)
    request = world.only(JoinGroup, now_ms)
    world.member.on_joined(now_ms, request, Joined(1, "me", "me", "own", members))


def test_a_users_assignor_runs_on_the_users_thread() -> None:
    world = World(Own())
    leads(world, 0)
    assert world.poll(1) == [WatchGroupTopics(("t",))]
    assert world.poll(3_000) == [BEAT._replace(standing_ms=0)]  # the coordinator hears meanwhile
    world.user_runs()
    share = encode_assignment(Assignment((T0,)))
    assert world.poll(3_001) == [SyncGroup(7, "g", 1, "me", None, "own", (("me", share),))]


def test_a_users_assignor_that_fails_is_asked_again_later() -> None:
    world = World(Broken())
    leads(world, 0)
    world.poll(1)
    world.user_runs()
    assert world.member.poll(2).deadline_ms == 102
    world.only(JoinGroup, 102)


@pytest.mark.parametrize("code", [14, 7])
def test_a_coordinator_that_is_not_ready_is_asked_again_later(code: int) -> None:
    world = World()
    world.member.on_joined(0, world.only(JoinGroup, 0), Joined(code=code))
    assert world.member.poll(0) == Polled([], 100)
    world.member.on_joined(100, world.only(JoinGroup, 100), Joined(code=code))
    assert world.member.poll(100) == Polled([], 300)
    world.only(JoinGroup, 300)


@pytest.mark.parametrize("code", [15, 16])
def test_a_coordinator_that_is_none_any_more_is_looked_for(code: int) -> None:
    world = World()
    world.member.on_joined(0, world.only(JoinGroup, 0), Joined(code=code))
    assert world.finder.coordinator is None
    assert world.poll(100) == []
    world.find()
    world.only(JoinGroup, 100)


@pytest.mark.parametrize(
    "error", [errors.InconsistentGroupProtocol, errors.InvalidSessionTimeout, errors.InvalidGroupId]
)
def test_a_refusal_for_good_is_the_users(error: type[errors.PylogError]) -> None:
    world = World()
    world.member.on_joined(0, world.only(JoinGroup, 0), Joined(code=error.code, message="why"))
    assert world.poll(10_000) == []
    told = world.member.take_error()
    assert type(told) is error
    assert str(told) == "group 'g': why"
    assert world.member.take_error() is None
    world.only(JoinGroup, 10_000)


def test_a_join_whose_connection_breaks_is_tried_elsewhere() -> None:
    world = World()
    request = world.only(JoinGroup, 0)
    world.member.on_failed(0, request)
    assert world.finder.coordinator is None
    world.find()
    again = world.only(JoinGroup, 100)
    world.member.on_joined(101, request, Joined(9, "me", "other", "range"))  # far too late
    assert world.poll(101) == []
    world.member.on_joined(102, again, Joined(1, "me", "other", "range"))
    assert world.only(SyncGroup, 102).generation == 1


@pytest.mark.parametrize(
    ("code", "member_id", "at_ms"), [(27, "me", 1), (22, "me", 101), (25, "", 101), (16, "me", 101)]
)
def test_a_sync_that_is_refused_leads_to_another_join(
    code: int, member_id: str, at_ms: int
) -> None:
    world = World()
    world.join(0, 1)
    world.member.on_synced(1, world.only(SyncGroup, 1), Synced(code=code))
    if world.finder.coordinator is None:
        world.find()
    assert world.only(JoinGroup, at_ms).member_id == member_id


def test_an_assignment_that_cannot_be_read_is_told() -> None:
    world = World()
    world.join(0, 1)
    world.member.on_synced(1, world.only(SyncGroup, 1), Synced(b"\x00"))
    assert isinstance(world.member.take_error(), errors.InconsistentGroupProtocol)
    world.only(JoinGroup, 1)


# ---- rebalances ----------------------------------------------------------------------------------


def test_an_eager_member_commits_and_gives_all_up_before_it_joins_again() -> None:
    world = World(commits=False)
    world.settle(0, 1, T0, T1)
    world.heartbeat(3_000, errors.RebalanceInProgress.code)
    assert world.poll(3_001) == [StopReading((T0, T1))]
    assert world.user_runs() == []  # not before the commit is done
    world.commits[0].succeed(None)
    assert world.poll(3_002) == []
    assert world.user_runs() == [("revoked", [T0, T1])]
    effects = world.poll(3_003)
    assert effects[:-1] == [ReadExactly(())]
    request = effects[-1]
    assert isinstance(request, JoinGroup)
    assert request.member_id == "me"
    assert request.reason == "the group is rebalancing"
    assert subscription_of(request) == Subscription(("t",), generation=1)


def test_the_coordinator_hears_of_a_member_whose_user_takes_time_to_give_up() -> None:
    world = World()
    world.settle(0, 1, T0)
    world.heartbeat(3_000, errors.RebalanceInProgress.code)
    assert world.poll(3_001) == [StopReading((T0,))]
    world.heartbeat(6_000, errors.RebalanceInProgress.code)
    assert world.poll(6_001) == []
    assert world.user_runs() == [("revoked", [T0])]
    assert [type(effect) for effect in world.poll(6_002)] == [ReadExactly, JoinGroup]


def test_a_cooperative_member_keeps_reading_what_stays() -> None:
    world = World(CooperativeStickyAssignor())
    world.settle(0, 1, T0, T1)
    world.heartbeat(3_000, errors.RebalanceInProgress.code)
    request = world.join(3_001, 2)
    assert subscription_of(request).owned == (T0, T1)
    world.sync(3_002, T0)
    assert world.poll(3_003) == [StopReading((T1,))]
    assert len(world.commits) == 1
    assert world.user_runs() == [("revoked", [T1])]
    assert world.poll(3_004) == [ReadExactly((T0,)), ReadExactly((T0,))]
    assert world.user_runs() == [("assigned", [])]
    again = world.only(JoinGroup, 3_005)
    assert again.reason == "the partitions that move have been given up"
    assert subscription_of(again).owned == (T0,)
    assert subscription_of(again).generation == 2
    world.member.on_joined(3_006, again, Joined(3, "me", "other", "cooperative-sticky"))
    world.sync(3_006, T0, T2)
    assert world.poll(3_007) == [ReadExactly((T0, T2))]
    assert world.user_runs() == [("assigned", [T2])]


def test_a_cooperative_member_gives_topics_up_that_it_does_not_want_any_more() -> None:
    world = World(CooperativeStickyAssignor())
    world.settle(0, 1, T0)
    world.member.subscribe(["u"])
    assert world.poll(1) == [StopReading((T0,))]
    assert world.user_runs() == [("revoked", [T0])]
    assert [type(effect) for effect in world.poll(2)] == [ReadExactly, JoinGroup]


def test_one_assignor_that_is_not_cooperative_makes_the_member_eager() -> None:
    world = World(RangeAssignor(), CooperativeStickyAssignor(), diary=False)
    world.settle(0, 1, T0)
    world.heartbeat(3_000, errors.RebalanceInProgress.code)
    request = world.poll(3_001)
    assert request[:2] == [StopReading((T0,)), ReadExactly(())]
    assert isinstance(request[2], JoinGroup)
    assert [name for name, _ in request[2].protocols] == ["range", "cooperative-sticky"]


def test_what_the_users_code_raises_does_not_keep_the_member_out() -> None:
    class Angry(Diary):
        def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
            raise ZeroDivisionError

    world = World()
    world.settle(0, 1, T0)
    world.member.listener = Angry()
    world.heartbeat(3_000, errors.RebalanceInProgress.code)
    world.poll(3_001)
    world.user_runs()
    assert [type(effect) for effect in world.poll(3_002)] == [ReadExactly, JoinGroup]


def test_a_leader_whose_topics_change_has_the_group_rebalance() -> None:
    world = World(diary=False)
    request = world.only(JoinGroup, 0)
    members = (("me", None, encode_subscription(Subscription(("t", "u")))),)
    world.member.on_joined(1, request, Joined(1, "me", "me", "range", members))
    world.sync(1, T0, T1, T2)
    world.poll(1)
    world.member.on_metadata({"t": 3, "v": 2})
    assert world.poll(2) == []
    world.member.on_metadata({"t": 3, "u": 1})
    assert world.last(JoinGroup, 3).reason == "the group's topics have changed"


def test_a_member_that_does_not_lead_leaves_that_to_the_leader() -> None:
    world = World()
    world.settle(0, 1, T0)
    world.member.on_metadata({"t": 9})
    assert world.poll(1) == []


# ---- heartbeats ----------------------------------------------------------------------------------


def test_heartbeats_go_by_their_interval() -> None:
    world = World()
    world.settle(0, 1, T0)
    assert world.member.poll(2_999) == Polled([], 3_000)
    request = world.only(Heartbeat, 3_000)
    assert request == BEAT
    assert world.member.poll(3_001) == Polled([], 45_000)  # then the session is in doubt
    world.member.on_heartbeat(3_002, request, Acknowledged())
    assert world.member.poll(3_002) == Polled([], 6_000)
    assert world.poll(6_000) == [BEAT]


def test_a_coordinator_that_is_silent_for_a_session_is_looked_for_anew() -> None:
    world = World()
    world.settle(0, 1, T0)
    world.only(Heartbeat, 3_000)
    assert world.poll(44_999) == []
    assert world.finder.coordinator == COORDINATOR
    assert world.poll(45_000) == []
    assert world.finder.coordinator is None
    world.find()
    assert world.poll(45_001) == [BEAT]
    assert world.member.owned == (T0,)


def test_a_heartbeat_without_an_answer_is_sent_again_and_nothing_is_given_up() -> None:
    world = World()
    world.settle(0, 1, T0)
    world.member.on_failed(3_000, world.only(Heartbeat, 3_000))
    assert world.finder.coordinator is None
    world.find()
    assert world.member.poll(3_000) == Polled([], 3_100)
    world.heartbeat(3_100, errors.NotCoordinator.code)
    world.find()
    world.heartbeat(3_200, errors.CoordinatorLoadInProgress.code)
    world.heartbeat(3_300)
    assert world.member.owned == (T0,)


@pytest.mark.parametrize("cooperative", [False, True])
@pytest.mark.parametrize(("code", "member_id"), [(22, "me"), (25, "")])
def test_a_member_that_was_put_out_has_lost_what_it_had_and_joins_again(
    code: int, member_id: str, cooperative: bool
) -> None:
    world = World(CooperativeStickyAssignor() if cooperative else RangeAssignor())
    world.settle(0, 1, T0)
    world.heartbeat(3_000, code)
    assert world.identity == GroupIdentity("g", None, member_id, -1, takes_part=True, life=1)
    assert world.poll(3_001) == [StopReading((T0,))]
    assert world.commits == []
    assert world.user_runs() == [("lost", [T0])]
    effects = world.poll(3_002)
    assert effects[0] == ReadExactly(())
    (request,) = effects[1:]
    assert isinstance(request, JoinGroup)
    assert request.member_id == member_id
    assert subscription_of(request).owned == ()


def test_what_is_lost_while_the_user_gives_it_up_is_told_after_that() -> None:
    world = World()
    world.settle(0, 1, T0)
    world.heartbeat(3_000, errors.RebalanceInProgress.code)
    world.poll(3_001)
    world.heartbeat(6_000, errors.UnknownMemberId.code)
    assert world.poll(6_001) == []
    assert world.user_runs() == [("revoked", [T0])]
    assert world.poll(6_002) == [StopReading((T0,))]
    assert world.user_runs() == [("lost", [T0])]
    assert [type(effect) for effect in world.poll(6_003)] == [ReadExactly, JoinGroup]


def test_a_member_whose_instance_is_taken_stays_out() -> None:
    world = World(instance_id="i")
    world.settle(0, 1, T0)
    world.heartbeat(3_000, errors.FencedInstanceId.code)
    assert world.poll(3_001) == [StopReading((T0,))]
    assert world.user_runs() == [("lost", [T0])]
    assert world.member.poll(60_000) == Polled([ReadExactly(())], None)
    for _ in range(2):
        error = world.member.take_error()
        assert isinstance(error, errors.FencedInstanceId)
        assert "group 'g' as 'i'" in str(error)
    assert world.poll(60_001) == []
    assert world.member.leave().done


def test_a_commit_that_was_refused_tells_the_member_what_a_heartbeat_would() -> None:
    world = World()
    world.settle(0, 1, T0)
    world.member.on_commit_fault(5, 0, errors.UnknownMemberId.code)  # of an older generation
    assert world.poll(5) == []
    world.member.on_commit_fault(6, 1, errors.UnknownMemberId.code)
    assert world.poll(6) == [StopReading((T0,))]
    assert world.user_runs() == [("lost", [T0])]


# ---- late, and leaving ---------------------------------------------------------------------------


def test_a_member_whose_user_does_not_poll_leaves() -> None:
    world = World()
    world.settle(0, 1, T0)
    for now_ms in range(3_000, 300_000, 3_000):
        world.heartbeat(now_ms)
    effects = world.poll(300_000)
    reason = "nobody has polled for max.poll.interval.ms=300000"
    assert effects == [LeaveGroup(7, "g", "me", reason), StopReading((T0,))]
    assert isinstance(effects[0], LeaveGroup)
    world.member.on_left(300_001, effects[0], Acknowledged())
    assert world.member.poll(400_000) == Polled([], None)
    world.member.on_user_poll(400_001)
    assert world.user_runs() == [("lost", [T0])]
    assert [type(effect) for effect in world.poll(400_002)] == [ReadExactly, JoinGroup]


def test_a_static_member_that_is_late_says_nothing() -> None:
    world = World(instance_id="i", diary=False)
    world.settle(0, 1, T0)
    assert world.poll(300_000) == [StopReading((T0,)), ReadExactly(())]
    assert world.poll(300_001) == []
    world.member.on_user_poll(300_002)
    world.only(JoinGroup, 300_003)


def test_a_member_that_leaves_commits_gives_up_and_says_so() -> None:
    world = World()
    world.settle(0, 1, T0)
    left = world.member.leave()
    assert world.poll(10) == [StopReading((T0,))]
    assert len(world.commits) == 1
    assert world.user_runs() == [("revoked", [T0])]
    request = LeaveGroup(7, "g", "me", "the consumer leaves its group")
    effects = world.poll(11)
    assert effects == [ReadExactly(()), request]
    assert not left.done
    assert isinstance(effects[1], LeaveGroup)
    world.member.on_left(12, effects[1], Acknowledged())
    assert left.done
    assert world.member.state is MemberState.UNJOINED
    assert world.member.poll(10_000) == Polled([], None)
    world.member.subscribe(["t"])
    assert world.only(JoinGroup, 10_001).member_id == ""


def test_a_member_that_is_out_leaves_at_once() -> None:
    world = World()
    world.settle(0, 1, T0)
    beat = world.only(Heartbeat, 3_000)
    left = world.member.leave()
    world.poll(3_010)
    world.user_runs()
    world.member.on_left(3_012, world.last(LeaveGroup, 3_011), Acknowledged())
    assert left.done
    world.member.on_heartbeat(3_013, beat, Acknowledged(errors.UnknownMemberId.code))
    again = world.member.leave()  # as the user closes it, nobody polls it any more
    assert again.done
    world.member.subscribe(["t"])
    world.only(JoinGroup, 3_014)
    assert not world.member.leave().done  # the join may have come through


def test_a_static_member_does_not_say_that_it_leaves() -> None:
    world = World(instance_id="i", diary=False)
    world.settle(0, 1, T0)
    left = world.member.leave()
    assert world.poll(10) == [StopReading((T0,)), ReadExactly(())]
    assert left.done


def test_a_static_member_that_leaves_for_good_says_so() -> None:
    world = World(instance_id="i", diary=False)
    world.settle(0, 1, T0)
    left = world.member.leave(for_good=True)
    request = world.last(LeaveGroup, 10)
    assert (request.member_id, left.done) == ("me", False)
    world.member.on_left(11, request, Acknowledged())
    assert left.done


def test_a_member_that_leaves_looks_for_its_coordinator_for_three_seconds() -> None:
    world = World(diary=False)
    world.settle(0, 1, T0)
    world.finder.forget(COORDINATOR)
    left = world.member.leave()
    assert world.member.poll(10) == Polled([StopReading((T0,)), ReadExactly(())], 3_010)
    assert world.member.poll(3_009) == Polled([], 3_010)
    assert not left.done
    assert world.member.poll(3_010) == Polled([], None)
    assert left.done


def test_a_coordinator_that_could_not_hear_is_told_again_that_a_member_leaves() -> None:
    world = World(diary=False)
    world.settle(0, 1, T0)
    left = world.member.leave()
    first = world.last(LeaveGroup, 10)
    world.member.on_failed(20, first)
    assert world.member.poll(20) == Polled([], 120)
    assert world.member.poll(119) == Polled([], 120)
    assert world.member.poll(120) == Polled([], 3_010)
    world.find()
    second = world.only(LeaveGroup, 121)
    assert world.member.poll(122) == Polled([], 300_000)
    world.member.on_left(123, second, Acknowledged(errors.NotCoordinator.code))
    world.member.on_left(124, first, Acknowledged())  # of the one that was given up
    assert world.finder.coordinator is None
    world.find()
    assert world.poll(300) == []
    world.member.on_left(331, world.only(LeaveGroup, 330), Acknowledged())
    assert left.done
    assert world.member.poll(331) == Polled([], None)


@pytest.mark.parametrize("fault", [errors.UnknownMemberId, errors.GroupAuthorizationFailed])
def test_a_member_that_the_coordinator_does_not_know_has_left(fault: type[Any]) -> None:
    world = World(diary=False)
    world.settle(0, 1, T0)
    left = world.member.leave()
    world.member.on_left(11, world.last(LeaveGroup, 10), Acknowledged(fault.code))
    assert left.done


def test_a_member_that_leaves_while_it_joins_says_so_at_once() -> None:
    world = World()
    world.settle(0, 1)
    world.heartbeat(3_000, errors.RebalanceInProgress.code)
    world.only(JoinGroup, 3_001)
    world.member.leave()
    world.only(LeaveGroup, 3_002)


def test_a_commit_that_is_refused_while_a_member_leaves_does_not_keep_it() -> None:
    world = World(commits=False)
    world.settle(0, 1, T0)
    left = world.member.leave()
    assert world.poll(10) == [StopReading((T0,))]
    world.member.on_commit_fault(11, 1, errors.UnknownMemberId.code)
    world.commits[0].fail(errors.UnknownMemberId())
    assert world.poll(12) == [StopReading((T0,))]
    assert world.user_runs() == [("lost", [T0])]
    assert world.poll(13) == [ReadExactly(())]
    assert left.done


# ---- the table -----------------------------------------------------------------------------------


def test_each_state_has_its_moves_and_only_a_fenced_member_has_none() -> None:
    assert NEXT_STATES.keys() == set(MemberState)
    assert [state for state, following in NEXT_STATES.items() if not following] == [
        MemberState.FENCED
    ]


def test_a_move_that_is_not_in_the_table_tells_the_member() -> None:
    world: Any = World()
    with pytest.raises(AssertionError, match="member '' of 'g': UNJOINED cannot become STABLE"):
        world.member._become(MemberState.STABLE)
