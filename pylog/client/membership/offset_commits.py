"""The request manager that commits positions and asks for them. Pure.

Kafka's `CommitRequestManager`. One commit is in flight at a time, and what comes meanwhile goes
together in the next one, the later offset of a partition taking the place of the earlier: so a
committed offset never goes back, and many small commits cost few requests. A commit that somebody
waits for is tried again until its time is up; one that nobody waits for is not, as in Kafka.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from pylog import errors
from pylog.client.answers import Answer, Callback
from pylog.client.membership.coordinator_finder import CoordinatorFinder
from pylog.client.membership.group_identity import GroupIdentity, MembershipSettings
from pylog.client.membership.messages import (
    Effect,
    OffsetCommit,
    OffsetFetch,
    OffsetsFetched,
    PartitionCommitted,
    PartitionOffset,
    Polled,
)
from pylog.consumer_protocol import NO_GENERATION
from pylog.model import OffsetAndMetadata, TopicPartition

Offsets = Mapping[TopicPartition, OffsetAndMetadata]
OnCommitted = Callable[[Offsets, errors.PylogError | None], object]
"""The user's callback of an asynchronous commit: its offsets, and the error if it failed."""

_OF_ANOTHER_GENERATION: Final = (
    errors.IllegalGeneration.code,
    errors.UnknownMemberId.code,
    errors.FencedMemberEpoch.code,
)


@dataclass(slots=True, eq=False)
class _Commit:
    """The offsets that one call wants to be committed.

    `left` is what is still to be sent of it: after a fault as it was sent, so that the offset of a
    later commit is not undone. `topic_ids` are of the topics that the offsets are meant for: one
    that is made anew under its name must not take them.
    """

    offsets: Offsets
    topic_ids: Mapping[TopicPartition, str]
    deadline_ms: int
    life: int
    is_repeated: bool = True
    left: Offsets = field(init=False)
    last_fault: errors.PylogError | None = None
    gone: errors.PylogError | None = None
    """For offsets that were not sent, as their topics are no more."""
    answer: Answer[None] = field(default_factory=Answer)
    on_committed: OnCommitted | None = None
    is_automatic: bool = False

    def __post_init__(self) -> None:
        self.left = self.offsets


@dataclass(slots=True, eq=False)
class _Question:
    """The question of one call."""

    partitions: tuple[TopicPartition, ...]
    deadline_ms: int
    answer: Answer[dict[TopicPartition, PartitionOffset]] = field(default_factory=Answer)
    in_flight: OffsetFetch | None = None
    retry_at_ms: int = 0
    failures: int = 0


class OffsetCommits:
    """Owned by the consumer's lock.

    Invariant: `_waiting` are in the order of the calls; those `_on_their_way` came before them.
    """

    def __init__(
        self,
        settings: MembershipSettings,
        identity: GroupIdentity,
        finder: CoordinatorFinder,
        for_user: deque[Callback],
        consumed: Callable[[], Offsets],
        topic_id: Callable[[TopicPartition], str],
        is_gone: Callable[[TopicPartition, str], bool],
        on_member_fault: Callable[[int, int, int], None],
        jitter: Callable[[], float],
    ) -> None:
        """`consumed`: the positions behind what the user has had. `topic_id`: of the topic that the
        consumer reads a partition of; empty: not known. `is_gone`: whether it has another one by
        now. `on_member_fault` gets the time, and the generation and the code of a commit that was
        refused.
        """
        self._settings = settings
        self._identity = identity
        self._finder = finder
        self._for_user = for_user
        self._consumed = consumed
        self._topic_id = topic_id
        self._is_gone = is_gone
        self._on_member_fault = on_member_fault
        self._jitter = jitter
        self._waiting: list[_Commit] = []
        self._on_their_way: list[_Commit] = []
        self._in_flight: OffsetCommit | None = None
        self._failures = 0
        self._retry_at_ms = 0
        self._questions: list[_Question] = []
        self._next_automatic_ms: int | None = None
        self._is_automatic = settings.auto_commit

    # ---- the user -----------------------------------------------------------------------------

    def commit(
        self, now_ms: int, offsets: Offsets | None, timeout_ms: int, *, is_lost: bool = False
    ) -> Answer[None]:
        """Commit these, or what the user has had; answered when that is done. `is_lost`: whether
        partitions of it were lost, so that it fails.

        The answer's errors: CommitFailed, RebalanceInProgress, FencedInstanceId, RequestTimedOut,
        and what the broker has against an offset.
        """
        commit = self._commit(self._wanted(offsets), now_ms + timeout_ms)
        return self._add(commit, is_lost=is_lost).answer

    def commit_async(
        self,
        now_ms: int,
        offsets: Offsets | None,
        on_committed: OnCommitted | None,
        *,
        is_lost: bool = False,
    ) -> None:
        """Commit these, or what the user has had; tried once, and the user's callback gets the
        outcome. It waits for a coordinator no longer than `default.api.timeout.ms`.
        """
        deadline_ms = now_ms + self._settings.default_api_timeout_ms
        wanted = self._wanted(offsets)
        commit = self._commit(wanted, deadline_ms, is_repeated=False, on_committed=on_committed)
        self._add(commit, is_lost=is_lost)

    @property
    def has_work(self) -> bool:
        """Whether something is to be sent."""
        return bool(self._waiting or self._questions)

    def commit_consumed(self, now_ms: int, timeout_ms: int | None = None) -> Answer[None]:
        """Commit what the user has had, before partitions are given up and at the end; at once
        where the user commits, or there is nothing to commit.
        """
        offsets = dict(self._consumed()) if self._is_automatic else {}
        if timeout_ms is None:
            timeout_ms = self._settings.default_api_timeout_ms
        deadline_ms = now_ms + timeout_ms
        return self._add(self._commit(offsets, deadline_ms, is_automatic=True)).answer

    def stop_automatic(self) -> None:
        """Commit nothing by itself any more."""
        self._is_automatic = False

    def on_user_poll(self, now_ms: int) -> bool:
        """The user comes for more, so it is done with what it had: commit that now and then;
        whether there is something to commit now.

        Between two polls nothing is committed, as nobody knows how far the user is.
        """
        if not self._is_automatic:
            return False
        if self._next_automatic_ms is None:
            self._next_automatic_ms = now_ms + self._settings.auto_commit_interval_ms
        if now_ms < self._next_automatic_ms or any(
            one.is_automatic for one in (*self._on_their_way, *self._waiting)
        ):
            return False
        self._next_automatic_ms = now_ms + self._settings.auto_commit_interval_ms
        deadline_ms = now_ms + self._settings.default_api_timeout_ms
        offsets = self._wanted(None)
        self._add(self._commit(offsets, deadline_ms, is_repeated=False, is_automatic=True))
        return True

    def committed(
        self, now_ms: int, partitions: Iterable[TopicPartition], timeout_ms: int
    ) -> Answer[dict[TopicPartition, PartitionOffset]]:
        """The committed offset of each."""
        question = _Question(tuple(partitions), now_ms + timeout_ms)
        if question.partitions:
            self._questions.append(question)
        else:
            question.answer.succeed({})
        return question.answer

    def _wanted(self, offsets: Offsets | None) -> Offsets:
        return dict(self._consumed() if offsets is None else offsets)

    def _commit(self, offsets: Offsets, deadline_ms: int, **more: Any) -> _Commit:
        ids = {tp: self._topic_id(tp) for tp in offsets}
        return _Commit(offsets, ids, deadline_ms, self._identity.life, **more)

    def _add(self, commit: _Commit, *, is_lost: bool = False) -> _Commit:
        if is_lost:
            self._end(commit, errors.IllegalGeneration())
        elif commit.offsets or self._on_their_way or self._waiting:
            self._waiting.append(commit)  # without offsets, it is answered after those before it
        else:
            self._end(commit, None)
        return commit

    # ---- time ---------------------------------------------------------------------------------

    def poll(self, now_ms: int) -> Polled:
        """A commit, when the one before it is answered; and the questions."""
        self._give_up_late_ones(now_ms)
        effects: list[Effect] = []
        coordinator = self._finder.coordinator
        if coordinator is not None:
            if self._in_flight is None and self._waiting and now_ms >= self._retry_at_ms:
                effects += self._send(coordinator)
            for question in self._questions:
                if question.in_flight is None and now_ms >= question.retry_at_ms:
                    question.in_flight = OffsetFetch(
                        coordinator, self._identity.group_id, question.partitions
                    )
                    effects.append(question.in_flight)
        return Polled(effects, self._deadline_ms(now_ms))

    def take(self, now_ms: int, coordinator: int) -> OffsetCommit | None:
        """The request of the one commit that waits, where nothing stands before it: for a thread
        that sends it to that coordinator itself. None: `poll` tells when it goes.
        """
        alone = len(self._waiting) == 1 and self._in_flight is None
        if not alone or now_ms < self._retry_at_ms or self._finder.coordinator != coordinator:
            return None
        self._send(coordinator)
        return self._in_flight

    @property
    def in_flight(self) -> OffsetCommit | None:
        """The commit that is not answered."""
        return self._in_flight

    def _deadline_ms(self, now_ms: int) -> int | None:
        commits = (*self._on_their_way, *self._waiting)
        due = [commit.deadline_ms for commit in commits if not commit.answer.done]
        due += [question.deadline_ms for question in self._questions]
        due += [q.retry_at_ms for q in self._questions if q.retry_at_ms > now_ms]
        if self._waiting and self._retry_at_ms > now_ms:
            due.append(self._retry_at_ms)
        return min(due, default=None)

    def _send(self, coordinator: int) -> list[Effect]:
        of_before = [one for one in self._waiting if one.life != self._identity.life]
        if of_before:  # the partitions are others' by now
            self._waiting = [one for one in self._waiting if one not in of_before]
            self._end_all(dict.fromkeys(of_before, errors.IllegalGeneration()))
        merged: dict[TopicPartition, OffsetAndMetadata] = {}
        topic_ids: dict[TopicPartition, str] = {}
        for commit in self._waiting:
            self._leave_out_gone(commit)
            merged.update(commit.left)
            topic_ids.update((tp, commit.topic_ids[tp]) for tp in commit.left)
        self._on_their_way, self._waiting = self._waiting, []
        if not merged:
            self._end_all(dict.fromkeys(self._on_their_way))
            return []
        identity = self._identity
        if identity.takes_part and identity.generation == NO_GENERATION:
            # The coordinator would take it for that of a consumer which is no member.
            self._end_all(dict.fromkeys(self._on_their_way, errors.IllegalGeneration()))
            return []
        self._in_flight = OffsetCommit(
            coordinator,
            identity.group_id,
            identity.generation,
            identity.member_id,
            identity.instance_id,
            tuple(sorted(merged.items())),
            tuple(topic_ids[tp] for tp in sorted(merged)),
        )
        return [self._in_flight]

    def _leave_out_gone(self, commit: _Commit) -> None:
        """Offsets in topics that others have the names of by now are nobody's."""
        gone = [tp for tp in commit.left if self._is_gone(tp, commit.topic_ids[tp])]
        if gone:
            commit.left = {tp: at for tp, at in commit.left.items() if tp not in gone}
            commit.gone = errors.UnknownTopicId(
                f"{', '.join(map(str, sorted(gone)))}: the topic was deleted and created anew, and "
                "the offset was one of the old topic: nothing is committed in the new one"
            )

    def _give_up_late_ones(self, now_ms: int) -> None:
        """Nobody waits longer than it said; what is in flight may still be done."""
        for commit in (*self._on_their_way, *self._waiting):
            if now_ms >= commit.deadline_ms and not commit.answer.done:
                late = _timed_out("was not committed", commit.offsets, commit.last_fault)
                self._end(commit, late)
        self._waiting = [commit for commit in self._waiting if not commit.answer.done]
        for question in self._questions:
            if now_ms >= question.deadline_ms:
                late = _timed_out("could not be asked for", question.partitions)
                question.answer.fail(late)
        self._questions = [one for one in self._questions if not one.answer.done]

    # ---- answers to commits -------------------------------------------------------------------

    def on_committed(
        self, now_ms: int, request: OffsetCommit, answers: Iterable[PartitionCommitted]
    ) -> None:
        """The coordinator says what became of each partition."""
        if request is not self._in_flight:
            return
        faults = {
            answer.topic_partition: errors.from_code(
                answer.code, f"{answer.topic_partition}: {answer.message}"
            )
            for answer in answers
            if answer.code
        }
        for code in sorted({error.code for error in faults.values()}):
            self._finder.forget_if_ousted(request.coordinator, code)
            self._on_member_fault(now_ms, request.generation, code)
        self._settle(now_ms, request, faults)

    def on_commit_failed(
        self, now_ms: int, request: OffsetCommit, error: errors.PylogError
    ) -> None:
        """The coordinator has not answered: whether it committed is not known."""
        if request is self._in_flight:
            self._finder.forget(request.coordinator)
            self._settle(now_ms, request, {tp: error for tp, _ in request.offsets})

    def _settle(
        self,
        now_ms: int,
        request: OffsetCommit,
        faults: Mapping[TopicPartition, errors.PylogError],
    ) -> None:
        """Answer what is done; what may be tried again goes before what came later."""
        self._in_flight = None
        sent = dict(request.offsets)
        ended: dict[_Commit, errors.PylogError | None] = {}
        again: list[_Commit] = []
        for commit in self._on_their_way:
            if commit.answer.done:  # its time was up
                continue
            of_this = [faults[tp] for tp in commit.left if tp in faults]
            lasting = next((error for error in of_this if _is_lasting(error)), None)
            if lasting is None and of_this and commit.is_repeated:
                commit.left = {tp: sent[tp] for tp in commit.left if tp in faults}
                commit.last_fault = of_this[0]
                again.append(commit)
            else:
                ended[commit] = lasting or next(iter(of_this), None)
        if any(error.retriable for error in faults.values()):
            self._failures += 1
            wait_ms = self._settings.backoff_ms(self._failures, self._jitter())
            self._retry_at_ms = now_ms + wait_ms
            self._try_automatic_sooner(ended)
        else:
            self._failures = self._retry_at_ms = 0
        self._on_their_way, self._waiting = [], again + self._waiting
        self._end_all(ended)

    def _try_automatic_sooner(self, ended: Mapping[_Commit, errors.PylogError | None]) -> None:
        for commit, error in ended.items():
            if commit.is_automatic and error is not None and error.retriable:
                self._next_automatic_ms = self._retry_at_ms

    def _end_all(self, ended: Mapping[_Commit, errors.PylogError | None]) -> None:
        self._on_their_way = [one for one in self._on_their_way if one not in ended]
        for commit, error in ended.items():
            self._end(commit, error)

    def _end(self, commit: _Commit, error: errors.PylogError | None) -> None:
        error = error or commit.gone
        if error is not None and error.code in _OF_ANOTHER_GENERATION:
            error = errors.CommitFailed(
                f"group {self._identity.group_id!r} has gone on without this member, whose "
                f"partitions may be others' by now ({error.name}): poll more often, raise "
                f"max.poll.interval.ms, or take fewer records with max.poll.records"
            )
        if error is None:
            commit.answer.succeed(None)
        else:
            commit.answer.fail(error)
        if commit.on_committed is not None:
            told = partial(commit.on_committed, commit.offsets, error)
            self._for_user.append(Callback(told, is_awaited=False))

    # ---- answers to questions -----------------------------------------------------------------

    def on_fetched(self, now_ms: int, request: OffsetFetch, answer: OffsetsFetched) -> None:
        """The coordinator says what is committed."""
        question = self._asked_by(request)
        if question is None:
            return
        question.in_flight = None
        faults = [(answer.code, answer.message)] if answer.code else []
        faults += [
            (one.code, f"{one.topic_partition}: {one.message}")
            for one in answer.partitions
            if one.code
        ]
        if not faults:
            self._questions.remove(question)
            told = {one.topic_partition: one for one in answer.partitions}
            question.answer.succeed(
                {tp: told.get(tp, PartitionOffset(tp)) for tp in question.partitions}
            )
            return
        found = [errors.from_code(code, message) for code, message in faults]
        for error in found:
            self._finder.forget_if_ousted(request.coordinator, error.code)
        lasting = next((error for error in found if not error.retriable), None)
        if lasting is None:
            self._ask_later(now_ms, question)
        else:
            self._questions.remove(question)
            question.answer.fail(lasting)

    def on_fetch_failed(self, now_ms: int, request: OffsetFetch) -> None:
        """The coordinator has not answered."""
        self._finder.forget(request.coordinator)
        question = self._asked_by(request)
        if question is not None:
            question.in_flight = None
            self._ask_later(now_ms, question)

    def _asked_by(self, request: OffsetFetch) -> _Question | None:
        return next((one for one in self._questions if one.in_flight is request), None)

    def _ask_later(self, now_ms: int, question: _Question) -> None:
        question.failures += 1
        wait_ms = self._settings.backoff_ms(question.failures, self._jitter())
        question.retry_at_ms = now_ms + wait_ms


def _is_lasting(error: errors.PylogError) -> bool:
    """Whether it ends a commit. A topic that the broker does not know was read a moment ago, or its
    name is wrong.
    """
    return not error.retriable or isinstance(error, errors.UnknownTopicOrPartition)


def _timed_out(
    what: str, partitions: Iterable[TopicPartition], last: errors.PylogError | None = None
) -> errors.RequestTimedOut:
    named = ", ".join(map(str, sorted(partitions)))
    why = f"; last fault: {last.name}: {last}" if last is not None else ""
    return errors.RequestTimedOut(f"{named} {what} within the time that was given{why}")
