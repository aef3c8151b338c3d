"""A member of a share group: it joins, stands, is fenced, is late, and leaves."""

from __future__ import annotations

from pylog import errors
from pylog.client.membership.coordinator_finder import CoordinatorFinder
from pylog.client.membership.group_identity import GroupIdentity, MembershipSettings
from pylog.client.membership.messages import CoordinatorFound, FindCoordinator
from pylog.client.sharing.messages import ShareHeartbeat, ShareHeartbeatAnswer
from pylog.client.sharing.share_membership import (
    LEAVE_PATIENCE_MS,
    NEXT_STATES,
    ShareMembership,
    ShareMemberState,
)

JOIN = ShareHeartbeat(7, "g", "me", 0, ("t",), 0)
STANDS = ShareHeartbeat(7, "g", "me", 1, None, 15_000)
LEAVE = ShareHeartbeat(7, "g", "me", -1)
TARGET = (("id", "t", (0, 1)),)


class World:
    """A member and the coordinator that answers it."""

    def __init__(self) -> None:
        settings = MembershipSettings()
        self.identity = GroupIdentity("g", None, "me")
        self.finder = CoordinatorFinder(settings, self.identity, lambda: 0.5)
        self.find()
        self.member = ShareMembership(settings, self.identity, self.finder, lambda: 0.5)
        self.member.subscribe(["t"])

    def find(self) -> None:
        (request,) = self.finder.poll(10**9).effects
        assert isinstance(request, FindCoordinator)
        self.finder.on_found(0, request, CoordinatorFound(7))

    def poll(self, now_ms: int) -> list[ShareHeartbeat]:
        return self.member.poll(now_ms).requests

    def answer(self, now_ms: int, request: ShareHeartbeat, **answer: object) -> None:
        self.member.on_heartbeat(now_ms, request, ShareHeartbeatAnswer(**answer))  # type: ignore[arg-type]

    def join(self) -> ShareHeartbeat:
        """It is a member; its heartbeat that stands."""
        self.member.on_user_poll(0)
        (join,) = self.poll(0)
        self.answer(0, join, epoch=1, target=TARGET)
        (stands,) = self.poll(0)
        return stands


def test_every_state_has_its_moves() -> None:
    assert set(NEXT_STATES) == set(ShareMemberState)


def test_a_member_joins_with_its_first_poll_and_takes_what_it_is_given() -> None:
    world = World()
    assert world.poll(0) == []
    assert world.member.on_user_poll(5)
    assert world.poll(5) == [JOIN]
    assert world.poll(6) == []
    (join,) = [world.member._in_flight]
    assert join is not None
    world.answer(7, join, epoch=1, target=TARGET)
    assert world.member.target == TARGET
    assert world.member.state is ShareMemberState.STABLE
    assert world.poll(7) == [STANDS]


def test_a_heartbeat_that_is_answered_without_news_follows_in_its_interval() -> None:
    world = World()
    stands = world.join()
    world.answer(100, stands, epoch=1)
    decided = world.member.poll(100)
    assert (decided.requests, decided.deadline_ms) == ([], 5_000)
    assert world.poll(5_000) == [STANDS]


def test_news_are_followed_at_once() -> None:
    world = World()
    stands = world.join()
    world.answer(100, stands, epoch=2, target=(("id", "t", (0,)),))
    assert world.member.target == (("id", "t", (0,)),)
    assert world.poll(100) == [STANDS._replace(epoch=2)]


def test_other_topics_are_told_though_a_heartbeat_stands() -> None:
    world = World()
    world.join()
    world.member.subscribe(["u", "t"])
    assert world.poll(50) == [STANDS._replace(topics=("t", "u"))]


def test_a_fenced_member_joins_again() -> None:
    world = World()
    stands = world.join()
    world.answer(100, stands, code=errors.FencedMemberEpoch.code)
    assert world.member.target == ()
    assert world.poll(100) == [JOIN]


def test_a_coordinator_that_moves_is_looked_for_and_told_all() -> None:
    world = World()
    stands = world.join()
    world.answer(100, stands, code=errors.NotCoordinator.code)
    assert world.finder.coordinator is None
    world.find()
    assert world.poll(200) == [STANDS._replace(topics=("t",))]
    assert world.member.target == TARGET


def test_an_answer_that_is_late_is_passed_over() -> None:
    world = World()
    stands = world.join()
    world.member.on_failed(100, stands)
    world.answer(110, stands, epoch=9, target=())
    assert (world.identity.generation, world.member.target) == (1, TARGET)


def test_a_member_whose_user_is_late_leaves_until_the_next_poll() -> None:
    world = World()
    world.join()
    assert world.poll(300_000) == [LEAVE]
    assert (world.member.state, world.member.target) == (ShareMemberState.STALE, ())
    assert world.poll(300_001) == []
    assert world.member.on_user_poll(300_002)
    assert world.poll(300_002) == [JOIN]


def test_a_group_that_refuses_for_good_is_told_until_the_member_leaves() -> None:
    world = World()
    world.member.on_user_poll(0)
    (join,) = world.poll(0)
    world.answer(1, join, code=errors.GroupMaxSizeReached.code, message="full")
    error = world.member.take_error()
    assert isinstance(error, errors.GroupMaxSizeReached)
    assert world.member.leave().done
    assert world.member.take_error() is None


def test_leaving_is_told_again_where_it_could_not_be_heard() -> None:
    world = World()
    world.join()
    left = world.member.leave()
    assert world.member.target == ()
    (leave,) = world.poll(1_000)
    assert leave == LEAVE
    world.answer(1_001, leave, code=errors.NotCoordinator.code)
    world.find()
    assert world.poll(1_050) == []
    (leave,) = world.poll(1_101)
    world.answer(1_110, leave, epoch=-1)
    assert left.done
    assert world.member.state is ShareMemberState.UNSUBSCRIBED


def test_leaving_is_given_up_in_time() -> None:
    world = World()
    world.join()
    left = world.member.leave()
    world.poll(1_000)
    decided = world.member.poll(1_000 + LEAVE_PATIENCE_MS)
    assert (left.done, decided.requests, decided.deadline_ms) == (True, [], None)


def test_a_member_that_has_not_joined_leaves_at_once() -> None:
    world = World()
    world.member.on_user_poll(0)
    assert world.member.leave().done
    assert world.poll(0) == []
