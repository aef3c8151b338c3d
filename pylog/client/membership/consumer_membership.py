"""The request manager that keeps a consumer in a group of the new protocol (KIP-848). Pure.

Kafka's `ConsumerMembershipManager` and its heartbeats. The coordinator shares out, and the answer
to a heartbeat may bring a target. The member reconciles one target at a time: it gives up what is
not in it, takes what is new, and acknowledges by telling what it has. A target that comes meanwhile
is kept, and only the newest. A member that is fenced has lost what it had, and joins with epoch 0.
Topics have names here; a target's topic ids are resolved before it comes. Heartbeats stand: the
coordinator answers when it has news, or after an interval.

The coordinator names a target once. A member that may not have heard an answer tells all of itself,
as in Kafka, and hears all that it should have.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from enum import Enum
from functools import partial
from typing import Final

from pylog import errors
from pylog.client.answers import Answer, Callback
from pylog.client.membership.coordinator_finder import CoordinatorFinder
from pylog.client.membership.group_identity import GroupIdentity, MembershipSettings
from pylog.client.membership.member_state import RebalanceListener
from pylog.client.membership.messages import (
    LEAVE_PATIENCE_MS,
    STANDING_MS,
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatAnswer,
    Effect,
    Polled,
    ReadExactly,
    StopReading,
)
from pylog.model import TopicPartition

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2
"""A static member that will come back: its partitions wait for it until its session ends."""


class ConsumerMemberState(Enum):
    """Kafka's names (`MemberState` of the consumer's internals), as far as they differ here."""

    UNSUBSCRIBED = "it is no member and does not want to be one"
    JOINING = "it has asked to be one"
    RECONCILING = "it goes from what it has to its target"
    ACKNOWLEDGING = "it has what its target says, and has not told yet"
    STABLE = "it has what its target says, and the coordinator knows"
    LEAVING = "it gives up all it has, and leaves"
    FENCED = "it has lost what it had, which its user is told"
    STALE = "its user is late to poll: it has left, and joins again at the next poll"
    FATAL = "the group does not take it"


_S = ConsumerMemberState
NEXT_STATES: Final = {
    _S.UNSUBSCRIBED: {_S.JOINING},
    _S.JOINING: {_S.RECONCILING, _S.STABLE, _S.FENCED, _S.STALE, _S.LEAVING, _S.FATAL},
    _S.RECONCILING: {_S.ACKNOWLEDGING, _S.FENCED, _S.STALE, _S.LEAVING, _S.FATAL},
    _S.ACKNOWLEDGING: {_S.STABLE, _S.RECONCILING, _S.FENCED, _S.STALE, _S.LEAVING, _S.FATAL},
    _S.STABLE: {_S.RECONCILING, _S.FENCED, _S.STALE, _S.LEAVING, _S.FATAL},
    _S.LEAVING: {_S.UNSUBSCRIBED},
    _S.FENCED: {_S.JOINING, _S.STALE, _S.LEAVING, _S.FATAL},
    _S.STALE: {_S.JOINING, _S.LEAVING},
    _S.FATAL: {_S.LEAVING},
}
"""The states that each state may become."""

_IN_THE_GROUP: Final = (_S.JOINING, _S.RECONCILING, _S.ACKNOWLEDGING, _S.STABLE)

_Then = Callable[[], None]
_Partitions = tuple[TopicPartition, ...]


class ConsumerMembership:
    """Owned by the consumer's lock.

    Invariants: `owned` is what the user was given and has not given up; one heartbeat is in flight;
    `identity.generation` is the member's epoch, and what is committed bears it.
    """

    def __init__(
        self,
        settings: MembershipSettings,
        identity: GroupIdentity,
        finder: CoordinatorFinder,
        for_user: deque[Callback],
        commit: Callable[[int], Answer[None]],
        jitter: Callable[[], float],
    ) -> None:
        """`identity.member_id` is the consumer's own, made before it joins (KIP-1082); `commit`:
        commit what the user has had, if that is done by itself at all.
        """
        self.state = _S.UNSUBSCRIBED
        self.owned: _Partitions = ()
        self.listener: RebalanceListener | None = None
        self._settings = settings
        self._identity = identity
        self._finder = finder
        self._for_user = for_user
        self._commit = commit
        self._jitter = jitter
        self._topics: tuple[str, ...] = ()
        self._regex = ""
        self._has_told_regex = False  # the coordinator may have one that is no more
        self._target: _Partitions | None = None  # the newest that is not reconciled yet
        self._gone: set[TopicPartition] = set()  # of topics that were deleted
        self._effects: list[Effect] = []
        self._awaited: Answer[None] | None = None
        self._then: _Then = _nothing
        self._awaits_code = False
        self._in_flight: ConsumerGroupHeartbeat | None = None
        self._tell_all = True  # the next heartbeat names all: not all of it is known there, or here
        self._interval_ms = 0
        self._beat_at_ms = 0
        self._sent_at_ms = 0
        self._failures = 0
        self._last_poll_ms: int | None = None
        self._is_late = False
        self._left: Answer[None] | None = None
        self._may_be_known = False  # a coordinator may have heard of this member
        self._is_telling = False  # it has given all up, and the coordinator is to know
        self._leave_by_ms: int | None = None
        self._leaves_for_good = False
        self._error: errors.PylogError | None = None

    # ---- the user -----------------------------------------------------------------------------

    def subscribe(self, topics: Iterable[str], regex: str = "") -> None:
        """Read these, and all whose whole name matches the expression, which the coordinator finds;
        what is given up is the coordinator's to say.
        """
        wanted = tuple(sorted(set(topics)))
        if (wanted, regex) == (self._topics, self._regex):
            return
        self._topics, self._regex = wanted, regex
        self._tell_all = True
        self._beat_at_ms = 0
        self._identity.takes_part = self._subscribes

    @property
    def _subscribes(self) -> bool:
        return bool(self._topics or self._regex)

    def on_user_poll(self, now_ms: int) -> bool:
        """The user is there, and takes what comes; whether the member was out without it."""
        was_late, self._is_late = self._is_late, False
        self._last_poll_ms = now_ms
        return was_late

    @property
    def topics(self) -> tuple[str, ...]:
        """The member's subscription."""
        return self._topics

    @property
    def awaits_user_code(self) -> bool:
        """Whether the user's listener is about to be called."""
        return self._awaited is not None and self._awaits_code

    def on_target(self, assignment: Iterable[TopicPartition]) -> None:
        """The names of a target's topics became known after its answer had come."""
        if self.state in _IN_THE_GROUP:
            self._take_target(assignment)

    def on_gone(self, partitions: Iterable[TopicPartition]) -> None:
        """The topics of these, of which the member has some, were deleted. Those that have the
        names now are other topics, which the coordinator may give to others: the member has lost
        these until a target names them again, and reads them no more from now on.
        """
        news = set(partitions) - self._gone
        self._gone |= news
        lost = tuple(tp for tp in self.owned if tp in news)
        if lost and self._awaited is not None:  # they are given up later
            self._effects.append(StopReading(lost))

    def leave(self, *, for_good: bool = False) -> Answer[None]:
        """Give all up and leave; answered when the member is out. A static member is expected back,
        but `for_good`.
        """
        if self._left is not None:
            return self._left
        self._leaves_for_good = for_good
        left: Answer[None] = Answer()
        self._topics, self._regex = (), ""
        if self.state is _S.UNSUBSCRIBED:
            left.succeed(None)
            return left
        self._left = left
        return left

    def take_error(self) -> errors.PylogError | None:
        """The error that keeps the member out, each time."""
        return self._error

    # ---- time ---------------------------------------------------------------------------------

    def poll(self, now_ms: int) -> Polled:
        """Everything that can be decided now."""
        self._look_at_the_poll_interval(now_ms)
        self._advance(now_ms)
        self._beat(now_ms)
        if self._leave_in_time(now_ms):
            self._advance(now_ms)
            self._beat(now_ms)
        effects, self._effects = self._effects, []
        return Polled(effects, self._deadline_ms(now_ms))

    def _deadline_ms(self, now_ms: int) -> int | None:
        due: list[int] = []
        if self.state in _IN_THE_GROUP:
            if self._in_flight is None and self._beat_at_ms > now_ms:
                due.append(self._beat_at_ms)
            if self._last_poll_ms is not None:
                due.append(self._last_poll_ms + self._settings.max_poll_interval_ms)
        if self._is_telling and self._leave_by_ms is not None:
            due.append(self._leave_by_ms)
            if self._beat_at_ms > now_ms:
                due.append(self._beat_at_ms)
        return min(due, default=None)

    def _look_at_the_poll_interval(self, now_ms: int) -> None:
        if self.state not in _IN_THE_GROUP or self._last_poll_ms is None:
            return
        if now_ms - self._last_poll_ms >= self._settings.max_poll_interval_ms:
            self._is_late = True
            self._tell_of_leaving()
            self._lose(_S.STALE)

    def _advance(self, now_ms: int) -> None:
        """Take the steps for which nobody is waited for."""
        while True:
            if self._awaited is not None:
                if not self._awaited.done:
                    return
                self._awaited, then = None, self._then
                then()
            elif self._left is not None and self.state is not _S.LEAVING:
                self._become(_S.LEAVING)
                self._give_up(now_ms, self.owned, is_lost=False, then=self._leave_now)
            elif self.state in (_S.FENCED, _S.STALE, _S.FATAL) and self.owned:
                self._give_up(now_ms, self.owned, is_lost=True, then=_nothing)
            elif self._may_join:
                self._join()
            elif self._gone and self.state in _IN_THE_GROUP:
                self._lose_gone(now_ms)
            elif self._target is not None and self.state in _IN_THE_GROUP:
                self._reconcile(now_ms)
            else:
                return

    @property
    def _may_join(self) -> bool:
        match self.state:
            case _S.UNSUBSCRIBED:
                return self._subscribes
            case _S.STALE:
                return not self._is_late
            case _:
                return self.state is _S.FENCED

    def _join(self) -> None:
        self._become(_S.JOINING)
        self._identity.join_again()
        self._identity.generation = JOIN_EPOCH
        self._tell_all = True
        self._target = None
        if not self._failures:
            self._beat_at_ms = 0

    def _become(self, state: ConsumerMemberState) -> None:
        assert state in NEXT_STATES[self.state], (
            f"member {self._identity.member_id!r} of {self._identity.group_id!r}: "
            f"{self.state.name} cannot become {state.name}"
        )
        self.state = state

    # ---- reconciling --------------------------------------------------------------------------

    def _reconcile(self, now_ms: int) -> None:
        """Go from what the member has to its target."""
        assert self._target is not None
        target, self._target = self._target, None
        if self.state is not _S.RECONCILING:
            self._become(_S.RECONCILING)
        before, now = set(self.owned), set(target)
        given_up = tuple(tp for tp in self.owned if tp not in now)
        added = [tp for tp in target if tp not in before]

        def take() -> None:
            if self.state is not _S.RECONCILING:  # the member was put out meanwhile
                return
            if added:
                self.owned = target
                self._effects.append(ReadExactly(target))
            if self.listener is None:
                acknowledge()
            else:
                self._call(partial(self.listener.on_partitions_assigned, added), acknowledge)

        def acknowledge() -> None:
            if self.state is _S.RECONCILING:
                self._become(_S.ACKNOWLEDGING)

        self._give_up(now_ms, given_up, is_lost=False, then=take)

    def _lose_gone(self, now_ms: int) -> None:
        """Read what is gone no more, and tell the coordinator all: its answer names what it gives
        now.
        """
        gone = tuple(tp for tp in self.owned if tp in self._gone)
        self._gone.clear()
        if not gone:
            return

        def acknowledge() -> None:
            if self.state is _S.RECONCILING:
                self._become(_S.ACKNOWLEDGING)
                self._tell_all = True

        if self.state in (_S.STABLE, _S.ACKNOWLEDGING):
            self._become(_S.RECONCILING)
        self._give_up(now_ms, gone, is_lost=True, then=acknowledge)

    def _give_up(self, now_ms: int, partitions: _Partitions, *, is_lost: bool, then: _Then) -> None:
        """Commit what the user has had of these, tell, read them no more, and go on."""

        def tell() -> None:
            listener = self.listener
            if listener is None:
                forget()
                return
            told = listener.on_partitions_lost if is_lost else listener.on_partitions_revoked
            self._call(partial(told, list(partitions)), forget)

        def forget() -> None:
            gone = set(partitions)
            self.owned = tuple(tp for tp in self.owned if tp not in gone)
            self._effects.append(ReadExactly(self.owned))
            then()

        if not partitions:
            then()
            return
        self._effects.append(StopReading(partitions))
        if is_lost:
            tell()
        else:
            self._await(self._commit(now_ms), tell)

    def _call(self, run: Callable[[], None], then: _Then) -> None:
        """Errors of the code go to the user; the member goes on."""
        callback = Callback(run)
        self._for_user.append(callback)
        self._await(callback.answer, then)
        self._awaits_code = True

    def _await(self, answer: Answer[None], then: _Then) -> None:
        assert self._awaited is None
        self._awaits_code = False
        self._awaited, self._then = answer, then

    # ---- heartbeats ---------------------------------------------------------------------------

    def _beat(self, now_ms: int) -> None:
        coordinator = self._finder.coordinator
        if self.state not in _IN_THE_GROUP or coordinator is None:
            return
        acknowledges = self.state is _S.ACKNOWLEDGING
        waits = self._in_flight
        if waits is not None and not (waits.standing_ms and (acknowledges or self._tell_all)):
            return  # one that stands is answered when another one comes
        if now_ms < self._beat_at_ms and (not acknowledges or self._failures):
            return
        self._sent_at_ms = now_ms
        self._beat_at_ms = now_ms + self._interval_ms
        identity = self._identity
        # Of one that stands the answer counts no more, and it may have brought a target.
        tells_all = self._tell_all or waits is not None
        self._tell_all = False
        regex = self._regex if tells_all and (self._regex or self._has_told_regex) else None
        self._has_told_regex = self._has_told_regex or bool(regex)
        self._in_flight = ConsumerGroupHeartbeat(
            coordinator,
            identity.group_id,
            identity.member_id,
            identity.generation,
            identity.instance_id,
            self._settings.max_poll_interval_ms if tells_all else None,
            self._topics if tells_all else None,
            self.owned if acknowledges or tells_all else None,
            0 if acknowledges or tells_all else max(self._interval_ms, STANDING_MS),
            regex,
        )
        self._may_be_known = True
        self._effects.append(self._in_flight)

    def on_heartbeat(
        self,
        now_ms: int,
        request: ConsumerGroupHeartbeat,
        answer: ConsumerGroupHeartbeatAnswer,
    ) -> None:
        """The coordinator has answered."""
        if request is not self._in_flight:
            return
        self._in_flight = None
        if request.epoch < 0:
            self._finder.forget_if_ousted(request.coordinator, answer.code)
            if answer.code and errors.from_code(answer.code).retriable:
                self._leave_again(now_ms)
            else:
                self._has_left()
        elif answer.code:
            self._finder.forget_if_ousted(request.coordinator, answer.code)
            self._on_refused(now_ms, answer.code, answer.message)
        else:
            self._failures = 0
            self._identity.generation = answer.epoch
            self._interval_ms = answer.interval_ms
            is_target = answer.assignment is not None and self._take_target(answer.assignment)
            if not self._tell_all:
                # A target is acknowledged by itself. Else one that stands follows at once, but
                # not one that a coordinator has answered which lets none stand.
                follows = not is_target and (
                    not request.standing_ms or answer.epoch != request.epoch
                )
                self._beat_at_ms = now_ms if follows else self._sent_at_ms + answer.interval_ms
            is_acknowledged = self.state is _S.ACKNOWLEDGING and request.owned == self.owned
            if is_acknowledged or self.state is _S.JOINING:
                self._become(_S.STABLE)

    def _take_target(self, assignment: Iterable[TopicPartition]) -> bool:
        """Reconcile it next; whether there is anything to do, which there is not where a target is
        told again that the member has got to.
        """
        target = tuple(sorted(assignment))
        has_it = target == self.owned and self._gone.isdisjoint(target)
        is_told_again = has_it and self.state in (_S.ACKNOWLEDGING, _S.STABLE)
        self._target = None if is_told_again else target
        return not is_told_again

    def on_failed(self, now_ms: int, request: ConsumerGroupHeartbeat) -> None:
        """The coordinator has not answered: the connection broke, or its time is up."""
        self._finder.forget(request.coordinator)
        if request is self._in_flight:
            self._in_flight = None
            if request.epoch < 0:
                self._leave_again(now_ms)
            else:
                self._back_off(now_ms)

    def on_commit_fault(self, now_ms: int, generation: int, code: int) -> None:
        """A commit was refused with this code."""
        is_out = code in (errors.UnknownMemberId.code, errors.FencedMemberEpoch.code)
        if is_out and generation == self._identity.generation and self.state in _IN_THE_GROUP:
            self._lose(_S.FENCED)

    def _on_refused(self, now_ms: int, code: int, message: str) -> None:
        error = errors.from_code(code, f"group {self._identity.group_id!r}: {message}")
        # A group that all have left goes after a while. For one that joins the name is another's.
        is_gone = code == errors.GroupIdNotFound.code and self.state is not _S.JOINING
        if self.state is _S.LEAVING:  # it gives all up anyway, and need not tell where it is out
            if is_gone or not error.retriable:
                self._identity.forget_generation()
        elif is_gone or code in (errors.UnknownMemberId.code, errors.FencedMemberEpoch.code):
            if self.state is _S.JOINING:
                self._back_off(now_ms)
            self._lose(_S.FENCED)
        elif error.retriable:
            self._back_off(now_ms)
        else:
            self._error = error
            self._lose(_S.FATAL)

    def _back_off(self, now_ms: int) -> None:
        self._tell_all = True  # nobody knows whether the coordinator has heard
        self._failures += 1
        self._beat_at_ms = now_ms + self._settings.backoff_ms(self._failures, self._jitter())

    def _lose(self, state: ConsumerMemberState) -> None:
        """The member's partitions may be another one's by now."""
        self._become(state)
        self._identity.forget_generation()
        self._target = None
        self._gone.clear()
        if self._in_flight is not None and self._in_flight.epoch >= 0:
            self._in_flight = None

    # ---- leaving ------------------------------------------------------------------------------

    def _leave_now(self) -> None:
        if self._identity.generation < JOIN_EPOCH or not self._may_be_known:
            self._has_left()
        else:
            self._is_telling = True
            self._beat_at_ms = 0

    def _leave_in_time(self, now_ms: int) -> bool:
        """Tell the coordinator when there is one, again where it could not hear, and for so long as
        that is worth it. Whether the member has given up telling.
        """
        waits = self._in_flight
        if not self._is_telling or (waits is not None and waits.epoch < 0):
            return False
        if self._leave_by_ms is None:
            self._leave_by_ms = now_ms + LEAVE_PATIENCE_MS
        if now_ms >= self._leave_by_ms:
            self._has_left()
            return True
        if now_ms >= self._beat_at_ms:
            self._tell_of_leaving()
        return False

    def _tell_of_leaving(self) -> bool:
        """Whether the coordinator is told."""
        identity, coordinator = self._identity, self._finder.coordinator
        if coordinator is None or identity.generation < JOIN_EPOCH:
            return False
        is_expected_back = identity.instance_id is not None and not self._leaves_for_good
        epoch = STATIC_LEAVE_EPOCH if is_expected_back else LEAVE_EPOCH
        self._in_flight = ConsumerGroupHeartbeat(
            coordinator, identity.group_id, identity.member_id, epoch, identity.instance_id
        )
        self._effects.append(self._in_flight)
        return True

    def _leave_again(self, now_ms: int) -> None:
        if self.state is _S.LEAVING:
            self._back_off(now_ms)

    def _has_left(self) -> None:
        if self.state is not _S.LEAVING:
            return
        self._become(_S.UNSUBSCRIBED)
        self._is_telling, self._leave_by_ms, self._failures = False, None, 0
        self._may_be_known = False
        self._identity.forget_generation()
        self._identity.takes_part = self._subscribes
        self._error = None
        assert self._left is not None
        self._left.succeed(None)
        self._left, self._leaves_for_good = None, False


def _nothing() -> None:
    """There is no next step."""
