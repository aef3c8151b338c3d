"""The request manager that keeps a consumer in a share group (KIP-932). Pure.

Kafka's `ShareMembershipManager` and its heartbeats. Members read partitions together, so an
assignment is taken as it comes: nothing is revoked, and nothing is acknowledged but by the records
themselves. A member that is fenced joins again with epoch 0. Heartbeats stand, as those of the
consumer protocol: the coordinator answers when it has news, or after an interval.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Final, NamedTuple

from pylog import errors
from pylog.client.answers import Answer
from pylog.client.membership.coordinator_finder import CoordinatorFinder
from pylog.client.membership.group_identity import GroupIdentity, MembershipSettings
from pylog.client.membership.messages import LEAVE_PATIENCE_MS, STANDING_MS, TargetPartitions
from pylog.client.sharing.messages import ShareHeartbeat, ShareHeartbeatAnswer

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1


class ShareMemberState(Enum):
    """Kafka's names, as far as they mean something without revocations."""

    UNSUBSCRIBED = "it is no member and does not want to be one"
    JOINING = "it has asked to be one"
    STABLE = "it is a member"
    LEAVING = "it tells the coordinator that it goes"
    STALE = "its user is late to poll: it has left, and joins again at the next poll"
    FATAL = "the group does not take it"


_S = ShareMemberState
NEXT_STATES: Final = {
    _S.UNSUBSCRIBED: {_S.JOINING},
    _S.JOINING: {_S.JOINING, _S.STABLE, _S.STALE, _S.LEAVING, _S.FATAL},
    _S.STABLE: {_S.JOINING, _S.STALE, _S.LEAVING, _S.FATAL},
    _S.LEAVING: {_S.UNSUBSCRIBED},
    _S.STALE: {_S.JOINING, _S.LEAVING},
    _S.FATAL: {_S.LEAVING},
}
"""The states that each state may become."""

_IN_THE_GROUP: Final = (_S.JOINING, _S.STABLE)


class Beats(NamedTuple):
    """The result of a poll: heartbeats, and when to poll again without another event."""

    requests: list[ShareHeartbeat]
    deadline_ms: int | None


class ShareMembership:
    """Owned by the consumer's lock.

    Invariants: one heartbeat is in flight; `identity.generation` is the member's epoch; `target` is
    empty out of the group.
    """

    def __init__(
        self,
        settings: MembershipSettings,
        identity: GroupIdentity,
        finder: CoordinatorFinder,
        jitter: Callable[[], float],
    ) -> None:
        """`identity.member_id` is the consumer's own, made before it joins (KIP-1082)."""
        self.state = _S.UNSUBSCRIBED
        self.target: TargetPartitions = ()
        """The partitions that the member reads, by the coordinator's last word."""
        self._settings = settings
        self._identity = identity
        self._finder = finder
        self._jitter = jitter
        self._topics: tuple[str, ...] = ()
        self._in_flight: ShareHeartbeat | None = None
        self._requests: list[ShareHeartbeat] = []
        self._tell_topics = True
        self._interval_ms = 0
        self._beat_at_ms = 0
        self._sent_at_ms = 0
        self._failures = 0
        self._last_poll_ms: int | None = None
        self._left: Answer[None] | None = None
        self._leave_by_ms: int | None = None
        self._error: errors.PylogError | None = None

    # ---- the user -----------------------------------------------------------------------------

    def subscribe(self, topics: Iterable[str]) -> None:
        """Read these."""
        wanted = tuple(sorted(set(topics)))
        if wanted == self._topics:
            return
        self._topics = wanted
        self._tell_topics = True
        self._beat_at_ms = 0
        self._identity.takes_part = bool(wanted)

    def on_user_poll(self, now_ms: int) -> bool:
        """The user is there; whether the member is out and joins because of it."""
        self._last_poll_ms = now_ms
        if self.state is _S.STALE or (self.state is _S.UNSUBSCRIBED and self._topics):
            self._join()
            return True
        return False

    def leave(self) -> Answer[None]:
        """Be no member any more; answered when the coordinator knows, or cannot be told."""
        if self._left is not None:
            return self._left
        left: Answer[None] = Answer()
        self._topics = ()
        was_in = self._identity.generation > JOIN_EPOCH or self._in_flight is not None
        if self.state is _S.UNSUBSCRIBED:
            self._identity.takes_part = False
            left.succeed(None)
            return left
        self._become(_S.LEAVING)
        self.target = ()
        self._left = left
        self._beat_at_ms = 0
        if not was_in:
            self._has_left()
        return left

    def take_error(self) -> errors.PylogError | None:
        """The error that keeps the member out, each time."""
        return self._error

    # ---- time ---------------------------------------------------------------------------------

    def poll(self, now_ms: int) -> Beats:
        """Everything that can be decided now."""
        self._look_at_the_poll_interval(now_ms)
        if self.state is _S.LEAVING:
            self._tell_of_leaving(now_ms)
        elif self.state in _IN_THE_GROUP:
            self._beat(now_ms)
        requests, self._requests = self._requests, []
        return Beats(requests, self._deadline_ms(now_ms))

    def _deadline_ms(self, now_ms: int) -> int | None:
        due: list[int] = []
        if self._in_flight is None and self._beat_at_ms > now_ms:
            due.append(self._beat_at_ms)
        if self.state in _IN_THE_GROUP and self._last_poll_ms is not None:
            due.append(self._last_poll_ms + self._settings.max_poll_interval_ms)
        if self.state is _S.LEAVING and self._leave_by_ms is not None:
            due.append(self._leave_by_ms)
        return min(due, default=None)

    def _look_at_the_poll_interval(self, now_ms: int) -> None:
        if self.state not in _IN_THE_GROUP or self._last_poll_ms is None:
            return
        if now_ms - self._last_poll_ms >= self._settings.max_poll_interval_ms:
            self._send_leaving()
            self._lose(_S.STALE)

    def _beat(self, now_ms: int) -> None:
        coordinator, waits = self._finder.coordinator, self._in_flight
        if coordinator is None or now_ms < self._beat_at_ms:
            return
        if waits is not None and not (waits.standing_ms and self._tell_topics):
            return  # one that stands is answered when another one comes
        identity = self._identity
        joins = identity.generation == JOIN_EPOCH
        tells, self._tell_topics = self._tell_topics, False
        self._sent_at_ms = now_ms
        self._beat_at_ms = now_ms + self._interval_ms
        self._send(
            ShareHeartbeat(
                coordinator,
                identity.group_id,
                identity.member_id,
                identity.generation,
                self._topics if tells else None,
                0 if joins else max(self._interval_ms, STANDING_MS),
            )
        )

    def _send(self, request: ShareHeartbeat) -> None:
        self._in_flight = request
        self._requests.append(request)

    # ---- answers ------------------------------------------------------------------------------

    def on_heartbeat(
        self, now_ms: int, request: ShareHeartbeat, answer: ShareHeartbeatAnswer
    ) -> None:
        """The coordinator has answered."""
        if request is not self._in_flight:
            return
        self._in_flight = None
        self._finder.forget_if_ousted(request.coordinator, answer.code)
        if request.epoch == LEAVE_EPOCH:
            if answer.code and errors.from_code(answer.code).retriable:
                self._back_off(now_ms)
            elif self.state is _S.LEAVING:
                self._has_left()
        elif self.state not in _IN_THE_GROUP:
            return
        elif answer.code:
            self._on_refused(now_ms, answer.code, answer.message)
        else:
            self._failures = 0
            self._interval_ms = answer.interval_ms
            is_news = answer.epoch != request.epoch or answer.target is not None
            self._identity.generation = answer.epoch
            if answer.target is not None:
                self.target = answer.target
            if self.state is _S.JOINING:
                self._become(_S.STABLE)
            if not self._tell_topics:
                self._beat_at_ms = now_ms if is_news else self._sent_at_ms + answer.interval_ms

    def on_failed(self, now_ms: int, request: ShareHeartbeat) -> None:
        """The coordinator has not answered: the connection broke, or its time is up."""
        self._finder.forget(request.coordinator)
        if request is self._in_flight:
            self._in_flight = None
            self._back_off(now_ms)

    def _on_refused(self, now_ms: int, code: int, message: str) -> None:
        error = errors.from_code(code, f"group {self._identity.group_id!r}: {message}")
        if code in (errors.UnknownMemberId.code, errors.FencedMemberEpoch.code):
            was_joining = self.state is _S.JOINING
            self._join()
            if was_joining:
                self._back_off(now_ms)
        elif error.retriable:
            self._back_off(now_ms)
        else:
            self._error = error
            self._lose(_S.FATAL)

    def _back_off(self, now_ms: int) -> None:
        self._tell_topics = True  # nobody knows whether the coordinator has heard
        self._failures += 1
        self._beat_at_ms = now_ms + self._settings.backoff_ms(self._failures, self._jitter())

    # ---- in and out ---------------------------------------------------------------------------

    def _join(self) -> None:
        self._become(_S.JOINING)
        self._identity.generation = JOIN_EPOCH
        self._identity.takes_part = True
        self.target = ()
        self._tell_topics = True
        self._in_flight = None
        self._beat_at_ms = 0

    def _lose(self, state: ShareMemberState) -> None:
        self._become(state)
        self._identity.forget_generation()
        self.target = ()
        if self._in_flight is not None and self._in_flight.epoch != LEAVE_EPOCH:
            self._in_flight = None

    def _become(self, state: ShareMemberState) -> None:
        assert state in NEXT_STATES[self.state], (
            f"member {self._identity.member_id!r} of {self._identity.group_id!r}: "
            f"{self.state.name} cannot become {state.name}"
        )
        self.state = state

    def _tell_of_leaving(self, now_ms: int) -> None:
        """Tell the coordinator when there is one, again where it could not hear, and for so long as
        that is worth it.
        """
        waits = self._in_flight
        if self._leave_by_ms is None:
            self._leave_by_ms = now_ms + LEAVE_PATIENCE_MS
        if now_ms >= self._leave_by_ms:
            self._has_left()
        elif now_ms >= self._beat_at_ms and (waits is None or waits.epoch != LEAVE_EPOCH):
            self._send_leaving()

    def _send_leaving(self) -> None:
        coordinator, identity = self._finder.coordinator, self._identity
        if coordinator is None:
            return
        self._send(ShareHeartbeat(coordinator, identity.group_id, identity.member_id, LEAVE_EPOCH))

    def _has_left(self) -> None:
        self._become(_S.UNSUBSCRIBED)
        self._leave_by_ms, self._failures, self._in_flight = None, 0, None
        self._identity.forget_generation()
        self._identity.takes_part = bool(self._topics)
        self._error = None
        assert self._left is not None
        self._left.succeed(None)
        self._left = None
