"""The sender's requests on their way to each broker, and the brokers that it lets be. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from pylog.client.sending.producer_batch import Batch
from pylog.client.sending.send_faults import STUCK_AFTER_MS

GROW_AFTER_BYTES: Final = 2 << 20
"""The bytes that must have gone to a broker without a pause, or wait to go, before batches may grow
beyond `batch.size`: a burst, or a slow stream, keeps to it.
"""
PAUSE_MS: Final = 20
"""A broker that has had nothing to do for so long was paused. A shorter one is only faster than the
sending thread.
"""
BUSY_REQUESTS: Final = 2
"""With so many requests in flight a broker has work until the next one can come: a batch that still
grows had better wait for an answer, because fewer and larger ones cost everybody less.
"""


class InFlight(NamedTuple):
    """A request that was not answered yet."""

    sent_ms: int
    batches: tuple[Batch, ...]


@dataclass(slots=True)
class Pipe:
    """One broker. `full`: it has all the requests it may have, and gets no more before half of them
    are answered; else each answer would be followed by one small request (TCP's silly window),
    while several at once share a message.
    """

    in_flight: dict[int, InFlight] = field(default_factory=dict)
    full: bool = False
    retry_at_ms: int = 0
    faults: int = 0
    spell_bytes: int = 0  # sent since the last pause
    idle_ms: int = -1  # since when it has had nothing to do; -1: it has
    stalled_ms: int = -1  # since when something waits for it that it cannot take; -1: nothing

    @property
    def oldest_ms(self) -> int:
        """The time at which the oldest unanswered request was sent; one must exist."""
        return next(iter(self.in_flight.values())).sent_ms

    @property
    def batches(self) -> list[Batch]:
        """All that is in flight."""
        return [batch for request in self.in_flight.values() for batch in request.batches]

    def paused(self, now_ms: int) -> bool:
        """Whether it has had nothing to do for so long that a new stream begins."""
        return 0 <= self.idle_ms <= now_ms - PAUSE_MS

    @property
    def is_busy(self) -> bool:
        """Whether it has enough to do until another answer can have come back."""
        return len(self.in_flight) >= BUSY_REQUESTS

    def may_take(self, now_ms: int) -> bool:
        """Whether it may get another request now."""
        return not self.full and self.retry_at_ms <= now_ms

    def stall(self, now_ms: int) -> None:
        """Something waits for it."""
        if self.stalled_ms < 0:
            self.stalled_ms = now_ms


class Pipes:
    """All brokers that were ever sent to, while they live."""

    def __init__(self, max_in_flight: int) -> None:
        self._max_in_flight = max_in_flight
        self._pipes: dict[int, Pipe] = {}

    def of(self, broker: int) -> Pipe:
        """The broker's pipe."""
        pipe = self._pipes.get(broker)
        if pipe is None:
            pipe = self._pipes[broker] = Pipe()
        return pipe

    def deadlines(self, now_ms: int, request_timeout_ms: int) -> Iterator[int]:
        """The times at which a broker may be tried again, or an answer is overdue."""
        for pipe in self._pipes.values():
            if pipe.retry_at_ms > now_ms:
                yield pipe.retry_at_ms
            if pipe.in_flight:
                sent = pipe.oldest_ms
                stuck = sent + STUCK_AFTER_MS
                yield min(
                    stuck if stuck > now_ms else now_ms + STUCK_AFTER_MS, sent + request_timeout_ms
                )

    def stuck(self, now_ms: int) -> list[tuple[int, int, list[Batch]]]:
        """(broker, how long it has not answered, the batches it has) where that is too long."""
        return [
            (broker, now_ms - pipe.oldest_ms, pipe.batches)
            for broker, pipe in self._pipes.items()
            if pipe.in_flight and now_ms - pipe.oldest_ms >= STUCK_AFTER_MS
        ]

    @property
    def requests(self) -> int:
        """Unanswered requests, over all brokers."""
        return sum(len(pipe.in_flight) for pipe in self._pipes.values())

    def track(self, broker: int, correlation: int, request: InFlight, size: int) -> None:
        """A request of `size` bytes goes out."""
        pipe = self.of(broker)
        if pipe.paused(request.sent_ms):
            pipe.spell_bytes = 0
        pipe.idle_ms = -1
        pipe.in_flight[correlation] = request
        pipe.spell_bytes += size
        pipe.stalled_ms = -1
        if len(pipe.in_flight) >= self._max_in_flight:
            pipe.full = True

    def untrack(self, broker: int, correlation: int) -> InFlight | None:
        """A request was answered, or needs no answer; None if it was given up before."""
        pipe = self.of(broker)
        request = pipe.in_flight.pop(correlation, None)
        if len(pipe.in_flight) <= self._max_in_flight // 2:
            pipe.full = False
        return request

    def forget(self, broker: int, correlation: int) -> None:
        """A request that was about to go out does not, if it was tracked at all."""
        pipe = self.of(broker)
        pipe.in_flight.pop(correlation, None)
        pipe.full = False  # or it would not have been about to

    def cut(self, broker: int) -> list[Batch]:
        """Nothing that is in flight will be answered; the batches that it was."""
        pipe = self.of(broker)
        batches = pipe.batches
        pipe.in_flight = {}
        pipe.full = False
        return batches

    def rest(self, now_ms: int) -> None:
        """Everything that can go has gone: note the brokers that have nothing to do."""
        for pipe in self._pipes.values():
            if not pipe.in_flight and pipe.idle_ms < 0:
                pipe.idle_ms = now_ms

    def may_grow(self, broker: int, unresolved_bytes: int, now_ms: int) -> bool:
        """Whether the broker gets a steady stream, or will: a fast thread fills `buffer.memory`
        before much of it has gone.
        """
        pipe = self._pipes.get(broker)
        if pipe is None:
            return False
        spell_bytes = 0 if pipe.paused(now_ms) else pipe.spell_bytes
        return max(spell_bytes, unresolved_bytes) >= GROW_AFTER_BYTES

    def keep(self, live: Iterable[int]) -> None:
        """Others are gone: what they were spared for is no longer known."""
        alive = set(live)
        for broker, pipe in self._pipes.items():
            if broker not in alive:
                pipe.retry_at_ms = 0
                pipe.faults = 0
                pipe.stalled_ms = -1

    def stalled(self, now_ms: int, longer_than_ms: int) -> set[int]:
        """Brokers for which something has waited that long."""
        return {
            broker
            for broker, pipe in self._pipes.items()
            if 0 <= pipe.stalled_ms < now_ms - longer_than_ms
        }
