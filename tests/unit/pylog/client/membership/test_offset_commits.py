"""Commits keep their order, are tried again where somebody waits, and name what went wrong."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylog import errors
from pylog.client.answers import Callback
from pylog.client.membership.coordinator_finder import CoordinatorFinder
from pylog.client.membership.group_identity import GroupIdentity, MembershipSettings
from pylog.client.membership.messages import (
    CoordinatorFound,
    FindCoordinator,
    OffsetCommit,
    OffsetFetch,
    OffsetsFetched,
    PartitionCommitted,
    PartitionOffset,
    Polled,
)
from pylog.client.membership.offset_commits import OffsetCommits, Offsets
from pylog.model import OffsetAndMetadata, TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
COORDINATOR = 7


def at(offset: int) -> OffsetAndMetadata:
    return OffsetAndMetadata(offset)


class World:
    """The commits of a member, its user, and the coordinator that answers."""

    def __init__(self, *, auto_commit: bool = True, is_member: bool = True) -> None:
        self.settings = MembershipSettings(auto_commit=auto_commit)
        self.identity = GroupIdentity("g")
        if is_member:
            self.identity = GroupIdentity("g", None, "me", 3, takes_part=True)
        self.finder = CoordinatorFinder(self.settings, self.identity, lambda: 0.5)
        self.for_user: deque[Callback] = deque()
        self.consumed: dict[TopicPartition, OffsetAndMetadata] = {T0: at(5)}
        self.member_faults: list[tuple[int, int, int]] = []
        self.told: list[tuple[Offsets, str]] = []
        self.topic_ids: dict[str, str] = {}
        self.commits = OffsetCommits(
            self.settings,
            self.identity,
            self.finder,
            self.for_user,
            lambda: self.consumed,
            lambda tp: self.topic_ids.get(tp.topic, ""),
            lambda tp, topic_id: topic_id not in ("", self.topic_ids.get(tp.topic, topic_id)),
            lambda *fault: self.member_faults.append(fault),
            lambda: 0.5,
        )
        self.find()

    def find(self) -> None:
        (request,) = self.finder.poll(10**9).effects
        assert isinstance(request, FindCoordinator)
        self.finder.on_found(0, request, CoordinatorFound(COORDINATOR))

    def tell(self, offsets: Offsets, error: errors.PylogError | None) -> None:
        self.told.append((offsets, error.name if error else ""))

    def user_polls(self) -> list[tuple[Offsets, str]]:
        self.told.clear()
        while self.for_user:
            callback = self.for_user.popleft()
            callback.answer.succeed(callback.run())
        return list(self.told)

    def sent(self, now_ms: int) -> OffsetCommit:
        (request,) = self.commits.poll(now_ms).effects
        assert isinstance(request, OffsetCommit)
        return request

    def asked(self, now_ms: int) -> OffsetFetch:
        (request,) = self.commits.poll(now_ms).effects
        assert isinstance(request, OffsetFetch)
        return request

    def answered(
        self, now_ms: int, request: OffsetCommit, codes: dict[TopicPartition, int] | None = None
    ) -> None:
        codes = codes or {}
        answers = [PartitionCommitted(tp, codes.get(tp, 0), "why") for tp, _ in request.offsets]
        self.commits.on_committed(now_ms, request, answers)


# ---- one commit ----------------------------------------------------------------------------------


def test_a_commit_bears_who_the_member_is() -> None:
    world = World()
    answer = world.commits.commit(0, {T1: at(9), T0: at(4)}, 1_000)
    request = OffsetCommit(7, "g", 3, "me", None, ((T0, at(4)), (T1, at(9))), ("", ""))
    polled = world.commits.poll(0)
    assert polled == Polled([request], 1_000)
    assert not answer.done
    (sent,) = polled.effects
    assert isinstance(sent, OffsetCommit)
    world.answered(1, sent)
    assert answer.result() is None
    assert world.commits.poll(2) == Polled([], None)


def test_a_commit_without_offsets_is_of_what_the_user_has_had() -> None:
    world = World()
    world.commits.commit(0, None, 1_000)
    world.consumed = {T0: at(99)}  # what it has later is not meant
    assert world.sent(0).offsets == ((T0, at(5)),)


def test_nothing_to_commit_is_committed_at_once() -> None:
    world = World()
    assert world.commits.commit(0, {}, 1_000).done
    assert world.commits.poll(0) == Polled([], None)


def test_a_consumer_that_assigns_by_itself_commits_without_being_a_member() -> None:
    world = World(is_member=False)
    world.commits.commit(0, None, 1_000)
    request = world.sent(0)
    assert (request.generation, request.member_id) == (-1, "")


def test_a_member_that_is_put_out_cannot_pass_for_one_that_is_none() -> None:
    world = World()
    world.identity.forget()
    answer = world.commits.commit(0, None, 1_000)
    assert world.commits.poll(0).effects == []
    with pytest.raises(errors.CommitFailed):
        answer.result()


def test_nothing_of_before_a_loss_is_committed_after_it() -> None:
    world = World()
    before = world.commits.commit(0, None, 60_000)
    world.commits.on_commit_failed(1, world.sent(0), errors.RequestTimedOut("no answer"))
    world.identity.forget_generation()
    between = world.commits.commit(2, None, 60_000)  # the user does not know yet
    world.identity.join_again()
    world.identity.generation = 9
    world.find()
    after = world.commits.commit(3, {T1: at(4)}, 60_000)
    assert world.sent(1_000).offsets == ((T1, at(4)),)
    for lost in (before, between):
        with pytest.raises(errors.CommitFailed, match="may be others'"):
            lost.result()
    assert not after.done


def test_a_commit_outlives_a_new_epoch_of_the_same_member() -> None:
    world = World()
    world.commits.commit(0, None, 60_000)
    world.commits.on_commit_failed(1, world.sent(0), errors.RequestTimedOut("no answer"))
    world.identity.generation = 4
    world.find()
    assert world.sent(1_000).generation == 4


def test_a_commit_before_the_first_join_waits_for_it() -> None:
    world = World()
    world.identity.generation = -1
    world.commits.commit(0, None, 60_000)
    world.identity.join_again()
    world.identity.generation = 1
    assert world.sent(1).generation == 1


@pytest.mark.parametrize(
    "error", [errors.IllegalGeneration, errors.UnknownMemberId, errors.FencedMemberEpoch]
)
def test_a_group_that_went_on_without_the_member_is_named(error: type[errors.PylogError]) -> None:
    world = World()
    answer = world.commits.commit(0, None, 1_000)
    world.answered(1, world.sent(0), {T0: error.code})
    with pytest.raises(errors.CommitFailed, match=r"group 'g' .* max\.poll\.interval\.ms"):
        answer.result()
    assert world.member_faults == [(1, 3, error.code)]


@pytest.mark.parametrize(
    "error",
    [
        errors.RebalanceInProgress,
        errors.FencedInstanceId,
        errors.OffsetMetadataTooLarge,
        errors.GroupAuthorizationFailed,
        errors.UnknownTopicOrPartition,
    ],
)
def test_what_does_not_pass_is_told_by_its_name(error: type[errors.PylogError]) -> None:
    world = World()
    answer = world.commits.commit(0, None, 1_000)
    world.answered(1, world.sent(0), {T0: error.code})
    with pytest.raises(error, match="t-0: why"):
        answer.result()


# ---- again ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [7, 14])
def test_somebody_who_waits_is_not_told_of_what_passes(code: int) -> None:
    world = World()
    answer = world.commits.commit(0, {T0: at(5), T1: at(6)}, 1_000)
    world.answered(0, world.sent(0), {T1: code})
    assert world.commits.poll(0) == Polled([], 100)
    request = world.sent(100)
    assert request.offsets == ((T1, at(6)),)  # the other one is committed
    world.answered(101, request)
    assert answer.result() is None


def test_whoever_waited_too_long_hears_what_came_last() -> None:
    world = World()
    answer = world.commits.commit(0, {T0: at(5)}, 1_000)
    world.answered(0, world.sent(0), {T0: errors.CoordinatorLoadInProgress.code})
    world.commits.poll(1_000)
    with pytest.raises(errors.RequestTimedOut, match="last fault: COORDINATOR_LOAD_IN_PROGRESS"):
        answer.result()


@pytest.mark.parametrize("code", [15, 16])
def test_another_coordinator_gets_the_commit(code: int) -> None:
    world = World()
    world.commits.commit(0, None, 1_000)
    world.answered(0, world.sent(0), {T0: code})
    assert world.finder.coordinator is None
    assert world.commits.poll(100) == Polled([], 1_000)
    world.find()
    world.commits.on_commit_failed(150, world.sent(100), errors.NetworkException())
    assert world.finder.coordinator is None
    world.find()
    assert world.commits.poll(150).deadline_ms == 350
    world.sent(350)


def test_nobody_waits_longer_than_it_said() -> None:
    world = World()
    answer = world.commits.commit(0, None, 1_000)
    request = world.sent(0)
    assert world.commits.poll(1_000) == Polled([], None)
    with pytest.raises(errors.RequestTimedOut, match="t-0 was not committed within the time"):
        answer.result()
    world.answered(1_001, request, {T0: 14})
    assert world.commits.poll(5_000) == Polled([], None)


def test_a_coordinator_that_cannot_be_found_does_not_hold_commits_for_ever() -> None:
    world = World()
    world.finder.forget(COORDINATOR)
    world.commits.commit_async(0, None, world.tell)
    assert world.commits.poll(0) == Polled([], 60_000)
    world.commits.poll(60_000)
    assert world.user_polls() == [({T0: at(5)}, "REQUEST_TIMED_OUT")]


# ---- order ---------------------------------------------------------------------------------------


def test_what_comes_while_a_commit_is_in_flight_goes_together() -> None:
    world = World()
    world.commits.commit_async(0, {T0: at(1)}, world.tell)
    first = world.sent(0)
    world.commits.commit_async(0, {T0: at(2), T1: at(8)}, world.tell)
    world.commits.commit_async(0, {T0: at(3)}, world.tell)
    assert world.commits.poll(1).effects == []
    world.answered(1, first)
    second = world.sent(1)
    assert second.offsets == ((T0, at(3)), (T1, at(8)))
    world.answered(2, second, {T1: 12})
    assert world.user_polls() == [
        ({T0: at(1)}, ""),
        ({T0: at(2), T1: at(8)}, "OFFSET_METADATA_TOO_LARGE"),
        ({T0: at(3)}, ""),
    ]


def test_an_asynchronous_commit_is_tried_once() -> None:
    world = World()
    world.commits.commit_async(0, None, world.tell)
    world.answered(0, world.sent(0), {T0: 14})
    assert world.user_polls() == [({T0: at(5)}, "COORDINATOR_LOAD_IN_PROGRESS")]
    assert world.commits.poll(1_000) == Polled([], None)


def test_a_commit_that_is_tried_again_does_not_undo_a_later_one() -> None:
    world = World()
    world.commits.commit(0, {T0: at(5), T1: at(1)}, 9_000)
    world.commits.commit_async(0, {T0: at(9)}, None)
    world.answered(0, world.sent(0), {T1: 14})
    world.commits.commit_async(1, {T1: at(7)}, None)
    assert world.sent(100).offsets == ((T1, at(7)),)


def test_a_synchronous_commit_is_done_after_those_before_it() -> None:
    world = World()
    world.commits.commit_async(0, {T0: at(1)}, world.tell)
    empty = world.commits.commit(0, {}, 1_000)
    assert not empty.done
    world.answered(1, world.sent(0))
    assert empty.done


OUTCOMES = st.sampled_from(["ok", "lost", "refused", "one refused", "done but not told"])
CALLS = st.lists(st.tuples(st.booleans(), st.sets(st.sampled_from([T0, T1]), min_size=1)))


@given(st.lists(st.tuples(CALLS, OUTCOMES), max_size=12))
def test_a_committed_offset_never_goes_back(
    turns: list[tuple[list[tuple[bool, set[TopicPartition]]], str]],
) -> None:
    world, now_ms, offset = World(), 0, 0
    stored = {T0: 0, T1: 0}
    for calls, outcome in turns:
        for waits, partitions in calls:
            offset += 1
            offsets = {tp: at(offset) for tp in partitions}
            if waits:
                world.commits.commit(now_ms, offsets, 5_000)
            else:
                world.commits.commit_async(now_ms, offsets, None)
        now_ms += 1_500
        if world.finder.coordinator is None:
            world.find()
        for request in world.commits.poll(now_ms).effects:
            assert isinstance(request, OffsetCommit)
            refused = {"refused": (T0, T1), "one refused": (T0,)}.get(outcome, ())
            for tp, wanted in request.offsets:
                if outcome != "lost" and tp not in refused:
                    assert wanted.offset >= stored[tp]
                    stored[tp] = wanted.offset
            if outcome in ("lost", "done but not told"):
                world.commits.on_commit_failed(now_ms, request, errors.NetworkException())
            else:
                world.answered(now_ms, request, dict.fromkeys(refused, 14))


# ---- automatic -----------------------------------------------------------------------------------


def test_what_the_user_has_had_is_committed_now_and_then_when_it_polls() -> None:
    world = World()
    world.commits.on_user_poll(0)
    assert world.commits.poll(5_000) == Polled([], None)  # nobody knows how far the user is
    world.commits.on_user_poll(4_999)
    assert world.commits.poll(4_999).effects == []
    world.commits.on_user_poll(5_000)
    world.answered(5_001, world.sent(5_000))
    world.commits.on_user_poll(9_999)
    assert world.commits.poll(9_999).effects == []
    world.consumed = {T0: at(8)}
    world.commits.on_user_poll(10_000)
    assert world.sent(10_000).offsets == ((T0, at(8)),)
    assert world.user_polls() == []


def test_an_automatic_commit_that_fails_is_tried_soon_with_what_is_true_then() -> None:
    world = World()
    world.commits.on_user_poll(0)
    world.commits.on_user_poll(5_000)
    world.answered(5_000, world.sent(5_000), {T0: 14})
    world.consumed = {T0: at(8)}
    world.commits.on_user_poll(5_100)
    assert world.sent(5_100).offsets == ((T0, at(8)),)


def test_an_automatic_commit_does_not_pile_up() -> None:
    world = World()
    world.finder.forget(COORDINATOR)
    world.commits.on_user_poll(0)
    world.commits.on_user_poll(5_000)
    world.commits.on_user_poll(10_000)
    world.find()
    world.answered(10_001, world.sent(10_001))
    assert world.commits.poll(10_002) == Polled([], None)


def test_partitions_that_are_given_up_are_committed_first() -> None:
    world = World()
    answer = world.commits.commit_consumed(0)
    world.answered(1, world.sent(0))
    assert answer.done
    world.consumed = {}
    assert world.commits.commit_consumed(2).done


def test_a_user_that_commits_itself_is_left_alone() -> None:
    world = World(auto_commit=False)
    world.commits.on_user_poll(0)
    world.commits.on_user_poll(5_000)
    assert world.commits.commit_consumed(5_000).done
    assert world.commits.poll(5_000) == Polled([], None)


# ---- what is committed ---------------------------------------------------------------------------


def test_what_is_committed_is_told_and_nothing_is_none() -> None:
    world = World()
    answer = world.commits.committed(0, [T0, T1], 1_000)
    request = world.asked(0)
    assert request == OffsetFetch(7, "g", (T0, T1))
    assert world.commits.poll(1) == Polled([], 1_000)
    told = PartitionOffset(T0, at(5), topic_id="A")
    world.commits.on_fetched(1, request, OffsetsFetched((told,)))
    assert answer.result() == {T0: told, T1: PartitionOffset(T1)}
    assert world.commits.committed(2, [], 1_000).result() == {}


@pytest.mark.parametrize("code", [14, 16, 88])
def test_a_question_is_asked_again_until_its_time_is_up(code: int) -> None:
    world = World()
    answer = world.commits.committed(0, [T0], 1_000)
    world.commits.on_fetched(0, world.asked(0), OffsetsFetched(code=code))
    if world.finder.coordinator is None:
        world.find()
    assert world.commits.poll(0) == Polled([], 100)
    world.commits.on_fetch_failed(100, world.asked(100))
    assert world.finder.coordinator is None
    assert world.commits.poll(1_000) == Polled([], None)
    with pytest.raises(errors.RequestTimedOut, match="t-0 could not be asked for"):
        answer.result()


def test_a_partition_that_may_not_be_asked_for_is_named() -> None:
    world = World()
    answer = world.commits.committed(0, [T0, T1], 1_000)
    partitions = (PartitionOffset(T0, at(5)), PartitionOffset(T1, None, 29, "no DESCRIBE"))
    world.commits.on_fetched(0, world.asked(0), OffsetsFetched(partitions))
    with pytest.raises(errors.TopicAuthorizationFailed, match="t-1: no DESCRIBE"):
        answer.result()


# ---- topics that are made anew -------------------------------------------------------------------


def test_a_commit_bears_the_ids_of_the_topics_that_it_is_meant_for() -> None:
    world = World()
    world.topic_ids = {"t": "old"}
    world.commits.commit(0, {T0: at(4)}, 1_000)
    world.topic_ids = {}  # nothing is known of it any more
    request = world.sent(0)
    assert (request.offsets, request.topic_ids) == (((T0, at(4)),), ("old",))


def test_what_was_read_of_a_topic_is_not_committed_in_one_that_is_made_anew() -> None:
    """The first try is not answered; meanwhile another topic has the name."""
    world = World()
    world.topic_ids = {"t": "old"}
    answer = world.commits.commit(0, {T0: at(24)}, 10_000)
    request = world.sent(0)
    world.commits.on_commit_failed(1, request, errors.BrokerUnreachable())
    world.find()
    world.topic_ids = {"t": "new"}
    assert world.commits.poll(5_000) == Polled([], None)
    with pytest.raises(errors.UnknownTopicId, match="nothing is committed in the new one"):
        answer.result()
    world.commits.commit(6_000, {T0: at(1)}, 1_000)
    request = world.sent(6_000)
    assert (request.offsets, request.topic_ids) == (((T0, at(1)),), ("new",))


def test_other_topics_of_such_a_commit_are_committed() -> None:
    world = World()
    other = TopicPartition("u", 0)
    world.topic_ids = {"t": "old", "u": "same"}
    both = world.commits.commit(0, {T0: at(24), other: at(3)}, 10_000)
    later = world.commits.commit(0, {other: at(4)}, 10_000)
    world.topic_ids["t"] = "new"
    request = world.sent(0)
    assert (request.offsets, request.topic_ids) == (((other, at(4)),), ("same",))
    world.answered(1, request)
    assert later.result() is None
    with pytest.raises(errors.UnknownTopicId, match="t-0"):
        both.result()


def test_a_thread_takes_the_one_commit_that_waits() -> None:
    world = World()
    answer = world.commits.commit(0, {T0: at(4)}, 1_000)
    assert world.commits.take(0, 8) is None  # another broker coordinates the group
    taken = world.commits.take(0, 7)
    assert taken is not None
    assert taken == OffsetCommit(7, "g", 3, "me", None, ((T0, at(4)),), ("",))
    assert world.commits.in_flight is taken
    world.commits.commit(0, {T0: at(5)}, 1_000)
    assert world.commits.take(0, 7) is None  # one before it is not answered
    world.answered(1, taken)
    assert answer.done
    world.commits.commit(1, {T0: at(6)}, 1_000)
    assert world.commits.take(1, 7) is None  # two go together
    assert world.sent(1).offsets == ((T0, at(6)),)
