"""A plain twin of the records of one partition at its leader: who has which, and why not any more.

It is shown what the leader has after each step, and holds that every change has a reason: a record
is acquired while nobody has it, and leaves its member by the member's word, by the end of its lock,
or with its session; what is delivered no more was accepted, rejected, or delivered as often as may
be, or is hidden from the group by its transaction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from pylog_broker.share.record_states import Acknowledgement, RecordState
from pylog_broker.share.share_partition import NOBODY, AcknowledgementBatch, SharePartition
from tests.sim.violation import Violation

AVAILABLE, ACQUIRED, ARCHIVING = (
    RecordState.AVAILABLE,
    RecordState.ACQUIRED,
    RecordState.ARCHIVING,
)
ACCEPTED, REJECTED, GAP = "accepted", "rejected", "not in the log"
SPENT, GONE = "archived at the limit", "gone from the log"
PASSED_OVER, LETTER = "passed over", "in the dead-letter topic"
_GIVEN_UP = (REJECTED, SPENT)
_ENDS = {
    Acknowledgement.ACCEPT: ACCEPTED,
    Acknowledgement.REJECT: REJECTED,
    Acknowledgement.GAP: GAP,
}


class Held(NamedTuple):
    """A record at the leader. `until_ms`: while somebody has acquired it."""

    state: RecordState = AVAILABLE
    count: int = 0
    member: str = NOBODY
    until_ms: int = 0


UNTOUCHED = Held()


@dataclass(frozen=True, slots=True)
class Step:
    """Time passes, records are acquired, or the log has changed."""


@dataclass(frozen=True, slots=True)
class Given(Step):
    """All that the member has is given back."""

    member: str
    delivered: bool


@dataclass(frozen=True, slots=True)
class Acknowledged(Step):
    """The member says what becomes of these."""

    member: str
    batches: tuple[AcknowledgementBatch, ...]

    def of(self, offset: int) -> Acknowledgement | None:
        """Its word about a record."""
        for first, last, types in self.batches:
            if first <= offset <= last:
                return Acknowledgement(types[0] if len(types) == 1 else types[offset - first])
        return None


class Observer(Protocol):
    """Hears of what happens to single records."""

    def acquired(self, offset: int, held: Held) -> None:
        """A member has it from now on."""

    def renewed(self, offset: int, held: Held) -> None:
        """It has it for longer."""

    def finished(self, offset: int, before: Held, why: str) -> None:
        """It is delivered no more."""

    def is_gone(self, offset: int) -> bool:
        """Whether the log has no such record, or need not have it any more."""

    def is_letter(self, offset: int) -> bool:
        """Whether it is in the group's dead-letter topic."""

    def hidden(self, offset: int) -> str:
        """The status in its transaction that hides the record from the group; empty: none does."""


@dataclass
class Locks:
    """The records of one partition, of one group, while one leader has them."""

    name: str
    start: int
    records: dict[int, Held]
    sometimes: Counter[str]
    deadlines: set[int] = field(default_factory=set)
    """The times at which locks end, or ended."""

    def look(self, now_ms: int, state: SharePartition, step: Step, heard: Observer) -> None:
        """The leader has made a step."""
        start, records = int(state.start_offset), dict(held_by(state))
        if start < self.start:
            raise Violation("S", f"{self.name}: its start goes back from {self.start} to {start}")
        for offset in sorted({*self.records, *records, *range(self.start, start)}):
            before = self.records.get(offset, UNTOUCHED)
            if offset < start:
                self._passed(now_ms, offset, before, state, step, heard)
            else:
                after = records.get(offset, UNTOUCHED)
                if after != before:
                    self._moved(now_ms, offset, before, after, state, step, heard)
        self.start, self.records = start, records

    def _moved(
        self,
        now_ms: int,
        offset: int,
        before: Held,
        after: Held,
        state: SharePartition,
        step: Step,
        heard: Observer,
    ) -> None:
        limit = state.settings.delivery_count_limit
        what = f"{self.name}: {offset} was {before}, is {after} at {now_ms} by {step}"
        match before.state, after.state:
            case RecordState.AVAILABLE, RecordState.ACQUIRED:
                if after.count != before.count + 1 or after.count > limit:
                    raise Violation("S", f"{what}; the limit is {limit}")
                self.sometimes["shares: record acquired"] += 1
                self.sometimes["shares: record acquired again"] += after.count > 1
                self.sometimes["shares: delivery at the limit"] += after.count == limit
                heard.acquired(offset, after)
            case RecordState.ACQUIRED, RecordState.ACQUIRED:
                if self._word(now_ms, offset, before, step) is not Acknowledgement.RENEW:
                    raise Violation("S", f"{what}: somebody else has it yet")
                self.sometimes["shares: lock renewed"] += 1
                heard.renewed(offset, after)
            case RecordState.ACQUIRED, RecordState.AVAILABLE:
                undelivered = isinstance(step, Given) and not step.delivered
                if not self._is_given_back(now_ms, offset, before, step):
                    raise Violation("S", f"{what}: nobody has given it back")
                if after.count != before.count - undelivered or after.count >= limit:
                    raise Violation("S", f"{what}; the limit is {limit}")
            case (
                (RecordState.AVAILABLE | RecordState.ACQUIRED | RecordState.ARCHIVING),
                (RecordState.ACKNOWLEDGED | RecordState.ARCHIVED),
            ):
                accepts = after.state is RecordState.ACKNOWLEDGED
                why = self._end(now_ms, offset, before, state, step, heard)
                if accepts != (why == ACCEPTED) or after.count != before.count:
                    raise Violation("S", f"{what}, though it is {why}")
            case RecordState.ACQUIRED, RecordState.ARCHIVING:
                why = self._reason(now_ms, offset, before, limit, step, heard)
                has_topic = bool(state.settings.dead_letter_topic)
                if why not in _GIVEN_UP or after.count != before.count or not has_topic:
                    raise Violation("S", f"{what}, though it is {why}")
                self.sometimes[f"shares: record {why}, to be a dead letter"] += 1
                heard.finished(offset, before, why)
            case _:
                raise Violation("S", f"{what}, which is no move")

    def _passed(
        self,
        now_ms: int,
        offset: int,
        before: Held,
        state: SharePartition,
        step: Step,
        heard: Observer,
    ) -> None:
        if before.state.is_final:
            return
        self._end(now_ms, offset, before, state, step, heard)

    def _end(
        self,
        now_ms: int,
        offset: int,
        before: Held,
        state: SharePartition,
        step: Step,
        heard: Observer,
    ) -> str:
        """Gives the reason why a record is done; it must have one. If the group has a dead-letter
        topic, no record that is given up is done before it is there.
        """
        limit = state.settings.delivery_count_limit
        why = self._reason(now_ms, offset, before, limit, step, heard)
        if why in _GIVEN_UP and state.settings.dead_letter_topic:
            raise Violation("S", f"{self.name}: {offset}, {before}, is {why}, and no dead letter")
        self.sometimes[f"shares: record {why}"] += 1
        heard.finished(offset, before, why)
        return why

    def _reason(
        self, now_ms: int, offset: int, before: Held, limit: int, step: Step, heard: Observer
    ) -> str:
        """The reason why a record is delivered no more; it must have one."""
        word = self._word(now_ms, offset, before, step)
        is_spent = before.count >= limit
        if before.state is ARCHIVING and heard.is_letter(offset):
            why = LETTER
        elif word in _ENDS and (word is not Acknowledgement.GAP or heard.is_gone(offset)):
            why = _ENDS[word]
        elif is_spent and self._is_given_back(now_ms, offset, before, step):
            why = SPENT
        elif hidden := heard.hidden(offset):
            why = f"{PASSED_OVER}, {hidden}"
        elif heard.is_gone(offset):
            why = GONE
        else:
            raise Violation(
                "S", f"{self.name}: {offset}, {before}, is done at {now_ms} by {step}: why?"
            )
        return why

    def _word(self, now_ms: int, offset: int, before: Held, step: Step) -> Acknowledgement | None:
        """The word of the member that has the record, while its lock lasts."""
        if not isinstance(step, Acknowledged) or now_ms >= before.until_ms:
            return None
        return step.of(offset) if step.member == before.member else None

    def _is_given_back(self, now_ms: int, offset: int, before: Held, step: Step) -> bool:
        if before.state is not ACQUIRED:
            return False
        if self._word(now_ms, offset, before, step) is Acknowledgement.RELEASE:
            self.sometimes["shares: record released"] += 1
        elif isinstance(step, Given) and step.member == before.member:
            delivered = "seen" if step.delivered else "unseen"
            self.sometimes[f"shares: record given back with its session, {delivered}"] += 1
        elif now_ms >= before.until_ms:
            self.sometimes["shares: lock expired"] += 1
        else:
            return False
        return True

    def new_deadline(self) -> int | None:
        """The latest time at which a lock ends, if it was not told before."""
        found = {held.until_ms for held in self.records.values() if held.state is ACQUIRED}
        news = found - self.deadlines
        self.deadlines |= news
        return max(news, default=None)

    def overdue(self, now_ms: int) -> list[int]:
        """The records whose locks are over, and which their members have yet."""
        return [
            offset
            for offset, held in self.records.items()
            if held.state is ACQUIRED and held.until_ms <= now_ms
        ]


def held_by(state: SharePartition) -> Iterator[tuple[int, Held]]:
    """The records of the partition one by one, as far as something has happened to them."""
    for run in state._runs:
        held = Held(run.state, run.delivery_count, run.member, run.until_ms)
        if held != UNTOUCHED:
            for offset in range(run.first, run.last + 1):
                yield offset, held
