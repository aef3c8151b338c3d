"""The id under which brokers know an idempotent producer: whether there is one, or one was asked
for. Pure.
"""

from __future__ import annotations

from pylog.client.sending.send_events import Effect, RequestProducerId
from pylog.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID


class ProducerId:
    """At most one request for an id is under way."""

    def __init__(self) -> None:
        self.number: int = NO_PRODUCER_ID
        self.epoch: int = NO_PRODUCER_EPOCH
        self.retry_at_ms = 0
        self.attempts = 0
        self._requested = False

    def have(self, now_ms: int, effects: list[Effect]) -> bool:
        """Whether there is one; if not, have it asked for unless it is too early."""
        if self.number != NO_PRODUCER_ID:
            return True
        if not self._requested and now_ms >= self.retry_at_ms:
            self._requested = True
            effects.append(RequestProducerId())
        return False

    def came(self, number: int, epoch: int) -> None:
        """A fresh one."""
        self.number, self.epoch = number, epoch
        self._requested = False
        self.attempts = 0

    def used_up(self, number: int) -> None:
        """A lane leaves this id, whose sequences it may not use again; others keep it while it
        works.
        """
        if number == self.number:
            self.number = NO_PRODUCER_ID

    def failed(self) -> None:
        """No broker could give one."""
        self._requested = False
        self.attempts += 1
