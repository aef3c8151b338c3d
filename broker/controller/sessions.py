"""The brokers that the controller hears from. Nothing here is durable, and nothing is decided here.

Three signs that a broker is gone, in the order of their speed: Spark reports the end of its task;
its last session stream breaks and none follows within the grace; its lease runs out. After a
start, every broker of the metadata begins with a full lease: it may be alive and about to call.

All times are *observed* time. A controller that was stopped for a minute has not observed that
nobody called in that minute: messages wait in its sockets. So between two looks at the clock at
most `STEP_MS_MAX` count, and the shell is asked to look at least that often.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pylog.model import BrokerEpoch, BrokerId, Offset

STEP_MS_MAX: Final = 250
"""Below the grace for a broken stream, so that one long pause never spends a grace whole."""

ENDED_MAX: Final = 10_000
"""The most ended incarnations that are remembered, the oldest forgotten first: enough for any
message of theirs that may still be under way.
"""


class ObservedTime:
    """Milliseconds that this controller has been awake for, as far as it can know."""

    def __init__(self) -> None:
        self.ms = 0
        self._last: int | None = None

    def advance(self, now_ms: int) -> int:
        """The observed time now."""
        if self._last is not None:
            # A clock that goes back adds nothing: it may only ever delay a decision.
            self.ms += min(max(0, now_ms - self._last), STEP_MS_MAX)
        self._last = now_ms
        return self.ms

    def wake_up_ms(self, observed_deadline: int) -> int:
        """The time on the shell's clock to look again for something due at `observed_deadline`."""
        assert self._last is not None
        return self._last + min(max(0, observed_deadline - self.ms), STEP_MS_MAX)


@dataclass(slots=True)
class Session:
    """One incarnation of a broker, as heard from.

    `lost`: its grace or lease has run out, and nothing came since. `heard`: it spoke to this
    controller at all; one that only stands in the metadata did not. Several streams may be open
    for a moment when the broker reconnects before the old connection is seen to break.
    """

    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    incarnation_id: str
    last_seen: int
    heard: bool
    streams: int = 0
    broken_at: int | None = None
    lost: bool = False
    metadata_offset: Offset = Offset(-1)
    want_unfence: bool = False

    @property
    def alive(self) -> bool:
        """Whether the incarnation has to be taken for running."""
        return self.heard and not self.lost

    @property
    def running(self) -> bool:
        """`alive`, and not in the grace after its last stream broke."""
        return self.alive and self.broken_at is None

    def seen(self, observed: int) -> None:
        """A sign of life."""
        self.last_seen = observed
        self.heard = True
        if self.lost and self.streams > 0:
            self.lost = False

    def opened(self, observed: int) -> None:
        """A stream opened."""
        self.streams += 1
        self.broken_at = None
        self.lost = False
        self.seen(observed)

    def broken(self, observed: int) -> None:
        """A stream broke; with the last one the grace begins."""
        if self.streams > 0:
            self.streams -= 1
            if self.streams == 0:
                self.broken_at = observed


class Sessions:
    """At most one session per broker id: that of its newest registration."""

    def __init__(self, *, grace_ms: int, timeout_ms: int) -> None:
        self._grace_ms = grace_ms
        self._timeout_ms = timeout_ms
        self._sessions: dict[BrokerId, Session] = {}
        self._ended: dict[str, None] = {}

    def __iter__(self) -> Iterator[Session]:
        return iter([self._sessions[broker] for broker in sorted(self._sessions)])

    def get(self, broker: BrokerId, epoch: BrokerEpoch | None = None) -> Session | None:
        """The broker's session; with `epoch`, only if it is of that registration."""
        session = self._sessions.get(broker)
        if session is None or (epoch is not None and session.broker_epoch != epoch):
            return None
        return session

    def add(self, session: Session) -> None:
        """Takes the place of the broker's earlier session."""
        self._sessions[session.broker_id] = session

    def remove(self, broker: BrokerId) -> None:
        """The broker is unregistered."""
        self._sessions.pop(broker, None)

    def is_alive(self, broker: BrokerId) -> bool:
        """Whether an incarnation of this broker has to be taken for running."""
        session = self._sessions.get(broker)
        return session is not None and session.alive

    def is_running(self, broker: BrokerId) -> bool:
        """`is_alive`, and not in the grace after its last stream broke."""
        session = self._sessions.get(broker)
        return session is not None and session.running

    def end(self, incarnation_id: str) -> None:
        """This incarnation is over, whatever it may still say."""
        self._ended[incarnation_id] = None
        if len(self._ended) > ENDED_MAX:
            del self._ended[next(iter(self._ended))]

    def has_ended(self, incarnation_id: str) -> bool:
        """Whether `end` was called for it."""
        return incarnation_id in self._ended

    def expired(self, observed: int) -> list[tuple[Session, str]]:
        """Sessions whose grace or lease has just run out, now marked as lost, each with why."""
        found = []
        for session in self:
            if session.lost or observed < self._end(session):
                continue
            session.lost = True
            if session.broken_at is not None:
                why = f"its session stream broke and did not return within {self._grace_ms} ms"
            else:
                why = f"nothing was heard from it for {self._timeout_ms} ms"
            found.append((session, why))
        return found

    def deadline(self) -> int | None:
        """The observed time of the next expiry."""
        return min((self._end(s) for s in self._sessions.values() if not s.lost), default=None)

    def _end(self, session: Session) -> int:
        lease = session.last_seen + self._timeout_ms
        if session.broken_at is None:
            return lease
        return min(lease, session.broken_at + self._grace_ms)
