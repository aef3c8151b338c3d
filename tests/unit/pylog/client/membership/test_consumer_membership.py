"""A member of a group of the new protocol: heartbeats, one target at a time, fenced, late, out."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import pytest

from pylog import errors
from pylog.client.answers import Answer, Callback
from pylog.client.membership.consumer_membership import (
    LEAVE_PATIENCE_MS,
    NEXT_STATES,
    ConsumerMembership,
    ConsumerMemberState,
)
from pylog.client.membership.coordinator_finder import CoordinatorFinder
from pylog.client.membership.group_identity import GroupIdentity, MembershipSettings
from pylog.client.membership.messages import (
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatAnswer,
    CoordinatorFound,
    Effect,
    FindCoordinator,
    Polled,
    ReadExactly,
    StopReading,
)
from pylog.model import TopicPartition

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))
COORDINATOR = 7
JOIN = ConsumerGroupHeartbeat(7, "g", "me", 0, None, 300_000, ("t",), ())
LEAVE = ConsumerGroupHeartbeat(7, "g", "me", -1)
ALL = ConsumerGroupHeartbeat(7, "g", "me", 1, None, 300_000, ("t",), (T0,))


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

    def __init__(self, *, instance_id: str | None = None, diary: bool = True) -> None:
        settings = MembershipSettings()
        self.identity = GroupIdentity("g", instance_id, "me")
        self.finder = CoordinatorFinder(settings, self.identity, lambda: 0.5)
        self.for_user: deque[Callback] = deque()
        self.commits = 0
        self.member = ConsumerMembership(
            settings, self.identity, self.finder, self.for_user, self.commit, lambda: 0.5
        )
        self.diary = Diary()
        if diary:
            self.member.listener = self.diary
        self.find()
        self.member.subscribe(["t"])
        self.member.on_user_poll(0)

    def commit(self, now_ms: int) -> Answer[None]:
        self.commits += 1
        answer: Answer[None] = Answer()
        answer.succeed(None)
        return answer

    def find(self) -> None:
        (request,) = self.finder.poll(10**9).effects
        assert isinstance(request, FindCoordinator)
        self.finder.on_found(0, request, CoordinatorFound(COORDINATOR))

    def poll(self, now_ms: int) -> list[Effect]:
        return self.member.poll(now_ms).effects

    def sent(self, now_ms: int) -> ConsumerGroupHeartbeat:
        request = self.poll(now_ms)[-1]
        assert isinstance(request, ConsumerGroupHeartbeat)
        return request

    def beats(
        self,
        now_ms: int,
        epoch: int = 1,
        assignment: Sequence[TopicPartition] | None = None,
        code: int = 0,
    ) -> ConsumerGroupHeartbeat:
        """A heartbeat, and its answer."""
        request = self.sent(now_ms)
        target = None if assignment is None else tuple(assignment)
        answer = ConsumerGroupHeartbeatAnswer(epoch, 5_000, target, code, "why")
        self.member.on_heartbeat(now_ms, request, answer)
        return request

    def user_runs(self) -> list[tuple[str, list[TopicPartition]]]:
        """Run the callbacks that the user's next poll runs."""
        self.diary.told.clear()
        while self.for_user:
            callback = self.for_user.popleft()
            callback.answer.succeed(callback.run())
        return list(self.diary.told)

    def settle(self, *partitions: TopicPartition) -> None:
        """The member is stable with these, and its user and the coordinator know."""
        self.beats(0, 1, partitions)
        if self.member.listener is not None:
            self.poll(0)
            self.user_runs()
        assert self.beats(0, 1).owned == partitions
        assert self.member.state is ConsumerMemberState.STABLE


def test_a_member_joins_takes_its_target_and_acknowledges_it() -> None:
    world = World()
    assert world.beats(0, 1, [T1, T0]) == JOIN
    assert world.poll(1) == [ReadExactly((T0, T1))]
    assert world.user_runs() == [("assigned", [T0, T1])]
    acknowledged = world.beats(2, 1)
    assert acknowledged == ConsumerGroupHeartbeat(7, "g", "me", 1, owned=(T0, T1))
    stands = ConsumerGroupHeartbeat(7, "g", "me", 1, standing_ms=15_000)
    assert world.beats(3) == stands
    assert world.member.poll(4) == Polled([], 5_003)  # nothing stands at that coordinator
    assert world.poll(5_003) == [stands]


def test_a_heartbeat_follows_one_that_has_stood_at_once() -> None:
    world = World()
    world.settle(T0)
    stood = world.sent(0)
    world.member.on_heartbeat(5_000, stood, ConsumerGroupHeartbeatAnswer(1, 5_000))
    assert world.sent(5_000).standing_ms == 15_000


def test_a_heartbeat_follows_one_that_brought_another_epoch_at_once() -> None:
    world = World()
    world.settle(T0)
    world.beats(5_000, 2)
    assert world.sent(5_000).epoch == 2


def test_a_member_with_something_to_say_does_not_wait_for_one_that_stands() -> None:
    world = World()
    world.settle(T0)
    stands = world.sent(5_000)
    world.member.subscribe(["t", "u"])
    said = world.sent(5_001)
    assert said.topics == ("t", "u")
    world.member.on_heartbeat(5_002, stands, ConsumerGroupHeartbeatAnswer(9, 5_000))
    assert world.identity.generation == 1
    world.member.on_heartbeat(5_003, said, ConsumerGroupHeartbeatAnswer(2, 5_000))
    assert world.identity.generation == 2


def test_what_is_acknowledged_does_not_wait_for_one_that_stands() -> None:
    world = World()
    world.settle(T0, T1)
    world.beats(5_000, 2, [T0])
    assert world.poll(5_001) == [StopReading((T1,))]
    stands = world.sent(10_000)
    assert (stands.owned, stands.standing_ms) == (None, 15_000)
    world.user_runs()
    world.poll(10_001)
    world.user_runs()
    assert world.poll(10_002) == [ALL._replace(epoch=2, owned=(T0,))]


def test_a_target_in_the_answer_of_one_that_is_not_waited_for_any_more_is_told_again() -> None:
    world = World()
    world.beats(0, 1, [])
    stands = ConsumerGroupHeartbeat(7, "g", "me", 1, standing_ms=15_000)
    assert world.poll(1) == []
    assert world.poll(5_000) == [stands]
    assert world.user_runs() == [("assigned", [])]
    [tells] = world.poll(5_001)
    assert tells == ALL._replace(owned=())
    assert isinstance(tells, ConsumerGroupHeartbeat)
    brings = ConsumerGroupHeartbeatAnswer(1, 5_000, (T1,))
    world.member.on_heartbeat(5_002, stands, brings)
    assert world.poll(5_002) == []
    world.member.on_heartbeat(5_003, tells, brings)
    assert world.poll(5_003) == [ReadExactly((T1,))]


def test_what_moves_is_given_up_before_that_is_acknowledged() -> None:
    world = World()
    world.settle(T0, T1)
    world.beats(5_000, 2, [T0])
    assert world.poll(5_001) == [StopReading((T1,))]
    assert world.commits == 1
    assert world.user_runs() == [("revoked", [T1])]
    assert world.poll(5_002) == [ReadExactly((T0,))]
    assert world.user_runs() == [("assigned", [])]
    assert world.beats(5_003, 2).owned == (T0,)
    assert world.member.state is ConsumerMemberState.STABLE


def test_targets_are_reconciled_one_after_the_other_and_only_the_newest() -> None:
    world = World()
    world.settle(T0, T1)
    world.beats(5_000, 2, [T0])
    assert world.poll(5_001) == [StopReading((T1,))]
    world.beats(10_000, 3, [T1])
    world.beats(15_000, 4, [T0, T2])
    assert world.user_runs() == [("revoked", [T1])]
    assert world.poll(15_001) == [ReadExactly((T0,))]
    assert world.user_runs() == [("assigned", [])]
    assert world.poll(15_002) == [ReadExactly((T0, T2))]
    assert world.user_runs() == [("assigned", [T2])]
    assert world.beats(15_003, 4).owned == (T0, T2)


@pytest.mark.parametrize("error", [errors.FencedMemberEpoch, errors.UnknownMemberId])
def test_a_member_that_is_fenced_has_lost_what_it_had_and_joins_anew(
    error: type[errors.PylogError],
) -> None:
    world = World()
    world.settle(T0)
    world.beats(5_000, code=error.code)
    assert world.poll(5_001) == [StopReading((T0,))]
    assert world.commits == 0
    assert world.user_runs() == [("lost", [T0])]
    assert world.poll(5_002) == [ReadExactly(()), JOIN]


def test_a_member_whose_group_is_gone_has_lost_what_it_had_and_joins_anew() -> None:
    world = World()
    world.settle(T0)
    world.beats(5_000, code=errors.GroupIdNotFound.code)
    assert world.poll(5_001) == [StopReading((T0,))]
    assert world.user_runs() == [("lost", [T0])]
    assert world.poll(5_002) == [ReadExactly(()), JOIN]
    assert world.member.take_error() is None


def test_partitions_of_a_topic_that_was_deleted_are_lost_and_all_is_told() -> None:
    world = World()
    world.settle(T0, T1)
    assert world.sent(1).standing_ms
    world.member.on_gone([T0, T2])
    assert world.poll(2) == [StopReading((T0,))]
    assert world.commits == 0
    assert world.user_runs() == [("lost", [T0])]
    forgets, told = world.poll(3)
    assert forgets == ReadExactly((T1,))
    assert told == ConsumerGroupHeartbeat(7, "g", "me", 1, None, 300_000, ("t",), (T1,))
    assert isinstance(told, ConsumerGroupHeartbeat)
    answer = ConsumerGroupHeartbeatAnswer(1, 5_000, (T0, T1))
    world.member.on_heartbeat(4, told, answer)
    assert world.poll(5) == [ReadExactly((T0, T1))]
    assert world.user_runs() == [("assigned", [T0])]
    assert world.beats(6).owned == (T0, T1)
    assert world.member.state is ConsumerMemberState.STABLE


def test_what_is_gone_is_read_no_more_though_the_member_is_giving_up_something_else() -> None:
    world = World()
    world.settle(T0, T1, T2)
    world.beats(5_000, 1, [T0, T1])
    assert world.poll(5_001) == [StopReading((T2,))]
    world.member.on_gone([T0])
    assert world.poll(5_002) == [StopReading((T0,))]
    world.member.on_gone([T0])
    assert world.poll(5_003) == []
    assert world.user_runs() == [("revoked", [T2])]
    assert world.poll(5_004) == [ReadExactly((T0, T1))]
    assert world.user_runs() == [("assigned", [])]
    assert world.poll(5_005) == [StopReading((T0,))]
    assert world.user_runs() == [("lost", [T0])]
    assert world.poll(5_006) == [ReadExactly((T1,)), ALL._replace(owned=(T1,))]


def test_what_a_target_names_anew_is_lost_and_taken() -> None:
    world = World(diary=False)
    world.settle(T0, T1)
    stands = world.sent(1)
    world.member.on_gone([T0, T1])
    world.member.on_heartbeat(2, stands, ConsumerGroupHeartbeatAnswer(2, 5_000, (T1,)))
    assert world.poll(3) == [
        StopReading((T0, T1)),
        ReadExactly(()),
        ReadExactly((T1,)),
        ConsumerGroupHeartbeat(7, "g", "me", 2, None, 300_000, ("t",), (T1,)),
    ]


def test_what_is_gone_is_taken_anew_where_a_target_names_all_of_it() -> None:
    world = World(diary=False)
    world.settle(T0)
    stands = world.sent(1)
    world.member.on_gone([T0])
    world.member.on_heartbeat(2, stands, ConsumerGroupHeartbeatAnswer(2, 5_000, (T0,)))
    assert world.poll(3) == [
        StopReading((T0,)),
        ReadExactly(()),
        ReadExactly((T0,)),
        ALL._replace(epoch=2),
    ]


def test_what_is_gone_is_of_no_account_to_a_member_that_has_nothing() -> None:
    world = World()
    world.member.on_gone([T0])
    assert world.beats(0, 1, [T0]) == JOIN
    assert world.poll(1) == [ReadExactly((T0,))]


@pytest.mark.parametrize("error", [errors.UnknownMemberId, errors.GroupIdNotFound])
def test_a_member_that_is_put_out_while_it_leaves_is_out_when_it_has_given_all_up(
    error: type[errors.PylogError],
) -> None:
    world = World()
    world.settle(T0)
    stands = world.sent(1)
    left = world.member.leave()
    assert world.poll(2) == [StopReading((T0,))]
    world.member.on_heartbeat(3, stands, ConsumerGroupHeartbeatAnswer(code=error.code))
    assert world.poll(4) == []
    assert world.user_runs() == [("revoked", [T0])]
    assert world.poll(5) == [ReadExactly(())]
    assert left.done
    assert world.member.state is ConsumerMemberState.UNSUBSCRIBED
    assert world.member.take_error() is None


def test_a_member_that_may_not_join_a_group_by_that_name_stays_out() -> None:
    world = World()
    world.beats(0, code=errors.GroupIdNotFound.code)
    assert world.poll(10_000) == []
    assert isinstance(world.member.take_error(), errors.GroupIdNotFound)


def test_a_member_that_is_fenced_as_it_joins_waits_before_it_joins_again() -> None:
    world = World()
    assert world.beats(0, code=errors.FencedMemberEpoch.code) == JOIN
    assert world.poll(1) == []
    assert world.poll(100) == [JOIN]


def test_a_member_that_is_fenced_while_it_gives_up_takes_nothing() -> None:
    world = World()
    world.settle(T0, T1)
    world.beats(5_000, 2, [T0, T2])
    world.poll(5_001)
    world.member.on_commit_fault(5_002, 2, errors.FencedMemberEpoch.code)
    assert world.user_runs() == [("revoked", [T1])]
    assert world.poll(5_003) == [ReadExactly((T0,)), StopReading((T0,))]
    assert world.user_runs() == [("lost", [T0])]


@pytest.mark.parametrize("code", [14, 15, 16])
def test_a_coordinator_that_cannot_answer_is_told_all_again(code: int) -> None:
    world = World()
    world.settle(T0)
    world.beats(5_000, code=code)
    if world.finder.coordinator is None:
        world.find()
    again = world.sent(5_100)
    assert again == ALL
    world.member.on_failed(5_101, again)
    assert world.finder.coordinator is None
    assert world.member.owned == (T0,)


def test_a_target_whose_answer_was_lost_is_told_again() -> None:
    world = World()
    world.settle()
    world.member.on_failed(6_000, world.sent(5_000))
    world.find()
    assert world.beats(6_100, 1, [T1]) == ALL._replace(owned=())
    assert world.poll(6_100) == [ReadExactly((T1,))]
    assert world.user_runs() == [("assigned", [T1])]
    assert world.beats(6_101).owned == (T1,)


def test_what_a_member_has_already_is_no_news_to_it() -> None:
    world = World()
    world.settle(T0)
    world.member.on_failed(6_000, world.sent(5_000))
    world.find()
    assert world.beats(6_100, 1, [T0]) == ALL
    assert world.poll(6_100) == [ConsumerGroupHeartbeat(7, "g", "me", 1, standing_ms=15_000)]
    assert world.user_runs() == []
    assert world.member.state is ConsumerMemberState.STABLE


def test_a_subscription_that_changes_is_told_at_once() -> None:
    world = World()
    world.settle(T0)
    world.member.subscribe(["t", "u"])
    assert world.sent(1).topics == ("t", "u")


@pytest.mark.parametrize("code", [82, 111, 128, 30])
def test_a_group_that_does_not_take_the_member_says_why(code: int) -> None:
    world = World(instance_id="i")
    world.settle(T0)
    world.beats(5_000, code=code)
    assert world.poll(5_001) == [StopReading((T0,))]
    assert world.user_runs() == [("lost", [T0])]
    assert world.member.poll(60_000) == Polled([ReadExactly(())], None)
    error = world.member.take_error()
    assert error is not None
    assert (error.code, str(error)) == (code, "group 'g': why")


def test_a_member_whose_user_does_not_poll_leaves() -> None:
    world = World()
    world.settle(T0)
    world.sent(5_000)
    effects = world.poll(300_000)
    assert effects == [LEAVE, StopReading((T0,))]
    assert world.member.poll(400_000) == Polled([], None)
    world.member.on_user_poll(400_001)
    assert world.user_runs() == [("lost", [T0])]
    assert world.poll(400_002) == [ReadExactly(())]  # it is still on its way out
    assert isinstance(effects[0], ConsumerGroupHeartbeat)
    world.member.on_heartbeat(400_003, effects[0], ConsumerGroupHeartbeatAnswer(-1))
    assert world.poll(400_003) == [JOIN]


@pytest.mark.parametrize(
    ("instance_id", "for_good", "epoch"),
    [(None, False, -1), (None, True, -1), ("i", False, -2), ("i", True, -1)],
)
def test_a_member_that_leaves_commits_gives_up_and_says_so(
    instance_id: str | None, for_good: bool, epoch: int
) -> None:
    world = World(instance_id=instance_id)
    world.settle(T0)
    left = world.member.leave(for_good=for_good)
    assert world.poll(1) == [StopReading((T0,))]
    assert world.commits == 1
    assert world.user_runs() == [("revoked", [T0])]
    effects = world.poll(2)
    assert effects == [ReadExactly(()), LEAVE._replace(epoch=epoch, instance_id=instance_id)]
    assert not left.done
    assert isinstance(effects[1], ConsumerGroupHeartbeat)
    world.member.on_heartbeat(3, effects[1], ConsumerGroupHeartbeatAnswer(epoch))
    assert left.done
    assert world.member.poll(9_000) == Polled([], None)


def test_a_member_that_no_coordinator_has_heard_of_has_nobody_to_tell() -> None:
    world = World(diary=False)
    world.finder.forget(COORDINATOR)
    world.poll(0)
    left = world.member.leave()
    assert [effect for effect in world.poll(1) if isinstance(effect, ConsumerGroupHeartbeat)] == []
    assert left.done
    joining = World(diary=False)
    assert joining.sent(0) == JOIN
    left = joining.member.leave()  # it may be a member by now
    joining.poll(1)
    assert not left.done


def test_a_member_leaves_without_a_coordinator_and_without_an_answer() -> None:
    unknown = World(diary=False)
    unknown.settle(T0)
    unknown.finder.forget(COORDINATOR)
    left = unknown.member.leave()
    assert unknown.member.poll(1).deadline_ms == 1 + LEAVE_PATIENCE_MS
    assert not left.done
    unknown.poll(1 + LEAVE_PATIENCE_MS)
    assert left.done
    silent = World(diary=False)
    silent.settle(T0)
    left = silent.member.leave()
    silent.member.on_failed(2, silent.sent(1))
    silent.poll(2 + LEAVE_PATIENCE_MS)
    assert left.done


@pytest.mark.parametrize("is_answered", [True, False])
def test_a_member_that_leaves_tells_the_next_coordinator(is_answered: bool) -> None:
    world = World(instance_id="i", diary=False)
    world.settle(T0)
    left = world.member.leave()
    request = world.sent(1)
    assert isinstance(request, ConsumerGroupHeartbeat)
    if is_answered:
        refused = ConsumerGroupHeartbeatAnswer(-2, code=errors.NotCoordinator.code)
        world.member.on_heartbeat(2, request, refused)
    else:
        world.member.on_failed(2, request)
    assert world.poll(2) == []
    assert world.finder.coordinator is None
    [question] = world.finder.poll(2).effects
    assert isinstance(question, FindCoordinator)
    world.finder.on_found(3, question, CoordinatorFound(8))
    [again] = world.poll(1_000)
    assert again == request._replace(coordinator=8)
    assert not left.done
    assert isinstance(again, ConsumerGroupHeartbeat)
    gone = ConsumerGroupHeartbeatAnswer(-1, code=errors.UnknownMemberId.code)
    world.member.on_heartbeat(1_001, again, gone)
    assert left.done
    assert world.member.poll(9_000) == Polled([], None)


def test_each_state_has_its_moves() -> None:
    assert NEXT_STATES.keys() == set(ConsumerMemberState)
    with pytest.raises(AssertionError, match="UNSUBSCRIBED cannot become STABLE"):
        World().member._become(ConsumerMemberState.STABLE)


# ---- patterns ------------------------------------------------------------------------------------


def test_a_pattern_is_told_with_the_topics_and_taken_back_when_it_is_none_any_more() -> None:
    world = World()
    world.member.subscribe((), "t.*")
    request = world.sent(0)
    assert request == JOIN._replace(topics=(), regex="t.*")
    world.member.on_heartbeat(0, request, ConsumerGroupHeartbeatAnswer(1, 5_000, ()))
    world.member.subscribe(["t"])
    changed = next(each for each in world.poll(1) if isinstance(each, ConsumerGroupHeartbeat))
    assert (changed.topics, changed.regex) == (("t",), "")
    assert world.identity.takes_part


def test_a_member_with_a_pattern_alone_joins_again_when_it_was_fenced() -> None:
    world = World(diary=False)
    world.member.subscribe((), "t.*")
    world.beats(0, 1, [])
    world.beats(1)
    refused = world.sent(20_000)
    answer = ConsumerGroupHeartbeatAnswer(code=errors.FencedMemberEpoch.code)
    world.member.on_heartbeat(20_000, refused, answer)
    assert world.sent(20_000).regex == "t.*"
