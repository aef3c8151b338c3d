"""The request manager that knows the group's coordinator. Pure.

Kafka's `CoordinatorRequestManager`: it asks while nobody is known, and forgets the coordinator when
another manager learns that it is none any more. A fault that does not pass by itself stops it until
the user has got the error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pylog import errors
from pylog.client.membership.group_identity import GroupIdentity, MembershipSettings
from pylog.client.membership.messages import CoordinatorFound, FindCoordinator, Polled

_OUSTED: Final = (errors.NotCoordinator.code, errors.CoordinatorNotAvailable.code)


class CoordinatorFinder:
    """Owned by the consumer's lock, and polled behind the managers that talk to the coordinator."""

    def __init__(
        self, settings: MembershipSettings, identity: GroupIdentity, jitter: Callable[[], float]
    ) -> None:
        self._settings = settings
        self._identity = identity
        self._jitter = jitter
        self._coordinator: int | None = None
        self._in_flight: FindCoordinator | None = None
        self._failures = 0
        self._retry_at_ms = 0
        self._error: errors.PylogError | None = None

    @property
    def coordinator(self) -> int | None:
        """The broker that coordinates the group, as far as is known."""
        return self._coordinator

    def take_error(self) -> errors.PylogError | None:
        """The error that kept the coordinator from being found, once; then it is looked for
        again."""
        error, self._error = self._error, None
        return error

    def forget(self, coordinator: int) -> None:
        """It cannot be reached, or is the coordinator no more. News of an older one are none."""
        if coordinator == self._coordinator:
            self._coordinator = None

    def forget_if_ousted(self, coordinator: int, code: int) -> None:
        """The coordinator answered with this code."""
        if code in _OUSTED:
            self.forget(coordinator)

    def poll(self, now_ms: int) -> Polled:
        """A question, while nobody is known."""
        if self._coordinator is not None or self._in_flight is not None or self._error is not None:
            return Polled([], None)
        if now_ms < self._retry_at_ms:
            return Polled([], self._retry_at_ms)
        self._in_flight = FindCoordinator(self._identity.group_id)
        return Polled([self._in_flight], None)

    def on_found(self, now_ms: int, request: FindCoordinator, answer: CoordinatorFound) -> None:
        """A broker has answered."""
        if request is not self._in_flight:
            return
        self._in_flight = None
        if answer.code == 0:
            self._coordinator, self._failures, self._retry_at_ms = answer.broker, 0, 0
            return
        self._later(now_ms)
        group = self._identity.group_id
        error = errors.from_code(answer.code, f"group {group!r}: {answer.message}")
        if not error.retriable:
            self._error = error

    def on_failed(self, now_ms: int, request: FindCoordinator) -> None:
        """No broker has answered."""
        if request is self._in_flight:
            self._in_flight = None
            self._later(now_ms)

    def _later(self, now_ms: int) -> None:
        self._failures += 1
        self._retry_at_ms = now_ms + self._settings.backoff_ms(self._failures, self._jitter())
