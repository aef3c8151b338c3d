"""A partition of a topic as a share group reads it: which record is in which state. Pure.

    start offset    all before it is done: acknowledged or archived
    next offset     nobody has had a record from it on

Between both every offset lies in a run: records next to each other to which the same has happened.
Events of single records split runs, and runs that become alike are merged again, so that the work
is by the run, and a partition whose members acknowledge in order has a handful of them.

State that must outlive the leader goes to the share coordinator: `take_write` gives the changes
since the last write, one write at a time, and `on_written` says that they are stored. A record that
was released is not delivered again before that, so no delivery is forgotten. A write that fails has
the shell load the partition anew, as it has decided on top of it.

Where the group has a dead-letter topic (KIP-1191), a record that is rejected or was delivered too
often is not archived at once: it is archiving, and that is durable, before `take_dead_letters`
gives it, and archived when `on_dead_letters_done` says that it is there. A leader that comes
meanwhile finds it archiving, and gives it once more.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Final, NamedTuple

from pylog.errors import InvalidRecordState, InvalidRequest
from pylog.model import Offset
from pylog_broker.share.log_batches import LogBatch
from pylog_broker.share.record_states import (
    MOVES,
    Acknowledgement,
    IllegalMove,
    RecordState,
    StateBatch,
)
from pylog_broker.share.settings import ShareSettings

NOBODY: Final = ""
DELIVERY_COUNT_MAX: Final = 2**15 - 1
"""Kafka's records have 16 bits for it."""

_FIRST: Final = attrgetter("first")
_FIRST_OFFSET: Final = attrgetter("first_offset")


class AcknowledgementBatch(NamedTuple):
    """The acknowledgements of acquired records, `last_offset` included. `types`: one byte for all
    of them, or one for each, by the numbers of `Acknowledgement`.
    """

    first_offset: int
    last_offset: int
    types: bytes


class AcquiredRecords(NamedTuple):
    """Records next to each other that a member has acquired. `delivery_count`: 1 the first time."""

    first_offset: int
    last_offset: int
    delivery_count: int


class Wanted(NamedTuple):
    """The number of records that a member asks for. `record_limit`: never more (KIP-1206); else
    whole batches of the log, so that the last one may take it beyond. `batch_size`: of one range at
    most.
    """

    max_records: int
    batch_size: int
    record_limit: bool = False


class StateWrite(NamedTuple):
    """The state to write at the share coordinator. `delivery_complete_count`: records from the
    start offset on that are done.
    """

    number: int
    start_offset: Offset
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]


class DeadLetters(NamedTuple):
    """Records next to each other that go to the dead-letter topic. `is_rejected`: a member said
    that no delivery would do; else they were delivered too often.
    """

    first_offset: int
    last_offset: int
    delivery_count: int
    is_rejected: bool


@dataclass(slots=True)
class _Run:
    """`member` and `until_ms`: while it is acquired. `write`: the write with which its state is
    durable; 0: nothing has to be written. `is_rejected`: while it is archiving.
    """

    first: int
    last: int
    state: RecordState = RecordState.AVAILABLE
    delivery_count: int = 0
    member: str = NOBODY
    until_ms: int = 0
    write: int = 0
    is_rejected: bool = False

    def move(self, state: RecordState) -> None:
        if state not in MOVES[self.state]:
            raise IllegalMove(f"{self} to {state.name}")
        self.state = state
        self.member = NOBODY
        self.until_ms = 0
        self.is_rejected = False

    @property
    def count(self) -> int:
        return self.last - self.first + 1

    @property
    def may_be_acquired(self) -> bool:
        return self.state is RecordState.AVAILABLE and not self.write

    @property
    def is_untouched(self) -> bool:
        """Whether it is as if nobody had ever had it."""
        return self.may_be_acquired and not self.delivery_count

    def is_like(self, other: _Run) -> bool:
        return (
            self.state is other.state
            and self.delivery_count == other.delivery_count
            and self.write == other.write
            and self.until_ms == other.until_ms
            and self.member == other.member
            and self.is_rejected == other.is_rejected
        )


class SharePartition:
    """Invariants: runs cover the offsets from `start_offset` to before `next_offset`, without a
    gap; the first one is not done, the last one not untouched.
    """

    def __init__(
        self,
        start_offset: Offset,
        batches: Iterable[StateBatch],
        settings: ShareSettings,
        *,
        is_new: bool = False,
    ) -> None:
        """As the share coordinator knows it; `is_new`: it does not know where the group begins."""
        self.settings = settings
        """As the group has them at the moment."""
        self._start = self._next = int(start_offset)
        self._runs: list[_Run] = []
        self._written_start = self._start
        self._last_write = 0
        self._in_flight = 0
        self._is_dirty = is_new  # something has changed since the last write was taken
        self._lock_ends_ms: int | None = None  # the earliest one, or one that is over
        self._has_dead_letters = False  # durable ones
        self._leaving: list[tuple[int, int]] | None = None  # first and last, on their way
        for batch in sorted(batches, key=_FIRST_OFFSET):
            first = max(batch.first_offset, self._next)
            if first <= batch.last_offset:
                self._reach(first - 1)
                count = batch.delivery_count
                run = _Run(first, batch.last_offset, batch.state, count)
                # The reason for ARCHIVING is not stored, nor is it in Kafka: the count tells it.
                archives = batch.state is RecordState.ARCHIVING
                run.is_rejected = archives and count < settings.delivery_count_limit
                self._runs.append(run)
                self._next = batch.last_offset + 1
        self._settle()
        self._written_start = self._start

    # ---- as it is --------------------------------------------------------------------------------

    @property
    def start_offset(self) -> Offset:
        """All before it is done."""
        return Offset(self._start)

    @property
    def next_offset(self) -> Offset:
        """Nobody has had a record from it on."""
        return Offset(self._next)

    def states(self) -> Iterator[StateBatch]:
        """The states of all records from `start_offset` to before `next_offset`."""
        for run in self._runs:
            yield StateBatch(run.first, run.last, run.state, run.delivery_count)

    def fetch_offset(self) -> Offset | None:
        """The first record that may be acquired; None: there is none, as so many are under way as
        may be.
        """
        for run in self._runs:
            if run.may_be_acquired:
                return Offset(run.first)
        return Offset(self._next) if self._room() > 0 else None

    def _room(self) -> int:
        """The number of further records that may be in flight."""
        return self._start + self.settings.partition_max_record_locks - self._next

    # ---- runs ------------------------------------------------------------------------------------

    def _boundary(self, offset: int) -> int:
        """The index of the run that begins at the offset, where one is made to; of the end of all
        runs for one that is beyond.
        """
        index = bisect_right(self._runs, offset, key=_FIRST) - 1
        if index < 0:
            return 0
        run = self._runs[index]
        if run.first == offset:
            return index
        if run.last >= offset:
            rest = _Run(
                offset,
                run.last,
                run.state,
                run.delivery_count,
                run.member,
                run.until_ms,
                run.write,
                run.is_rejected,
            )
            run.last = offset - 1
            self._runs.insert(index + 1, rest)
        return index + 1

    def _between(self, first: int, last: int) -> list[_Run]:
        """Runs that cover exactly these offsets, as far as there are runs."""
        begin = self._boundary(first)
        return self._runs[begin : self._boundary(last + 1)]

    def _reach(self, last: int) -> None:
        """Have runs up to that offset."""
        if last >= self._next:
            self._runs.append(_Run(self._next, last))
            self._next = last + 1

    def _settle(self) -> None:
        """Runs that are alike are one; the done ones at the start go, and so do untouched ones at
        the end.
        """
        runs: list[_Run] = []
        self._has_dead_letters = False
        for run in self._runs:
            if run.state is RecordState.ARCHIVING and not run.write:
                self._has_dead_letters = True
            if not runs and run.state.is_final:
                self._start = run.last + 1
            elif runs and runs[-1].is_like(run):
                runs[-1].last = run.last
            else:
                runs.append(run)
        while runs and runs[-1].is_untouched:
            self._next = runs.pop().first
        self._runs = runs
        if not runs:
            self._next = max(self._next, self._start)
            self._start = self._next
        assert not runs or (runs[0].first, runs[-1].last + 1) == (self._start, self._next)

    def _changed(self, run: _Run) -> None:
        run.write = self._last_write + 1
        self._is_dirty = True

    # ---- acquiring -------------------------------------------------------------------------------

    def acquire(
        self,
        now_ms: int,
        member: str,
        from_offset: Offset,
        batches: Iterable[LogBatch],
        wanted: Wanted,
    ) -> list[AcquiredRecords]:
        """The records that the member gets of these batches, which the log has from that offset on.
        Records that may be acquired and are not in the log are archived, and so are those that
        members must not see.
        """
        found: list[_Run] = []
        cursor, left = max(int(from_offset), self._start), wanted.max_records
        until_ms = now_ms + self.settings.record_lock_duration_ms
        for batch in batches:
            if left <= 0 or cursor > self._next:
                break
            self._archive(cursor, batch.first_offset - 1)
            cursor = max(cursor, batch.first_offset)
            if batch.is_for_members:
                most = left if wanted.record_limit else batch.last_offset - cursor + 1
                got = self._take(member, until_ms, cursor, batch.last_offset, most)
                left -= sum(run.count for run in got)
                found += got
            else:
                self._archive(cursor, batch.last_offset)
            cursor = max(cursor, batch.last_offset + 1)
        if found:
            self._lock_ends(until_ms)
        acquired = _ranges(found, wanted.batch_size)
        self._settle()
        return acquired

    def _archive(self, first: int, last: int) -> None:
        """The log has none of these, or none that members may see."""
        if first > last:
            return
        self._reach(last)
        for run in self._between(first, last):
            if run.may_be_acquired:
                run.move(RecordState.ARCHIVED)
                self._changed(run)

    def _take(self, member: str, until_ms: int, first: int, last: int, most: int) -> list[_Run]:
        self._reach(min(last, self._next + self._room() - 1))
        found: list[_Run] = []
        for run in self._between(first, last):
            if most <= 0:
                break
            if not run.may_be_acquired:
                continue
            if run.delivery_count >= self.settings.delivery_count_limit:  # which was higher before
                self._give_up(run)
                continue
            if run.count > most:
                self._boundary(run.first + most)  # makes the run shorter
            most -= run.count
            run.move(RecordState.ACQUIRED)
            run.member, run.until_ms = member, until_ms
            run.delivery_count = min(run.delivery_count + 1, DELIVERY_COUNT_MAX)
            found.append(run)
        return found

    # ---- acknowledging ---------------------------------------------------------------------------

    def acknowledge(
        self, now_ms: int, member: str, batches: Sequence[AcknowledgementBatch], *, may_renew: bool
    ) -> int:
        """Do with the member's records as it says, all or nothing; gives the number of the write
        that it is durable with, 0 where nothing is to be written. Those before the start offset are
        passed over: whatever became of them, it was before, but it may not be durable yet. Their
        locks cannot be renewed.

        Raises InvalidRequest for batches that make no sense, and InvalidRecordState where the
        member has not acquired a record, or not any more.
        """
        spans = [*_spans(batches, may_renew=may_renew)]
        if not self.settings.may_renew and any(
            what is Acknowledgement.RENEW for _, _, what in spans
        ):
            raise InvalidRecordState(
                "the group's locks cannot be renewed: share.renew.acknowledge.enable is false"
            )
        for first, last, what in spans:
            renews = what is Acknowledgement.RENEW
            self._check_acquired(member, first if renews else max(first, self._start), last)
        passes_over = any(first < self._start for first, _, _ in spans)
        changes = False
        for first, last, what in spans:
            for run in self._between(max(first, self._start), last):
                if what is Acknowledgement.RENEW:
                    run.until_ms = now_ms + self.settings.record_lock_duration_ms
                    self._lock_ends(run.until_ms)
                else:
                    self._end(run, what)
                    changes = True
        self._settle()
        if changes or (passes_over and self._start != self._written_start):
            return self._last_write + 1
        return self._in_flight if passes_over else 0

    def _check_acquired(self, member: str, first: int, last: int) -> None:
        expected = first
        index = bisect_right(self._runs, expected, key=_FIRST) - 1
        while expected <= last:
            run = self._runs[index] if 0 <= index < len(self._runs) else None
            if run is None or run.state is not RecordState.ACQUIRED or run.member != member:
                raise InvalidRecordState(
                    f"offset {expected} is not acquired by member {member!r}, or not any more"
                )
            expected = run.last + 1
            index += 1

    def _end(self, run: _Run, what: Acknowledgement) -> None:
        match what:
            case Acknowledgement.ACCEPT:
                run.move(RecordState.ACKNOWLEDGED)
            case Acknowledgement.RELEASE:
                self._give_back(run)
                return
            case Acknowledgement.REJECT:
                self._give_up(run, is_rejected=True)
                return
            case _:
                run.move(RecordState.ARCHIVED)
        self._changed(run)

    def _give_back(self, run: _Run) -> None:
        """After a delivery: the record may be delivered again, if not too often."""
        if run.delivery_count >= self.settings.delivery_count_limit:
            self._give_up(run)
            return
        run.move(RecordState.AVAILABLE)
        self._changed(run)

    def _give_up(self, run: _Run, *, is_rejected: bool = False) -> None:
        """The record is delivered no more."""
        if self.settings.dead_letter_topic:
            run.move(RecordState.ARCHIVING)
            run.is_rejected = is_rejected
        else:
            run.move(RecordState.ARCHIVED)
        self._changed(run)

    def release(self, member: str, *, delivered: bool) -> None:
        """All that the member has is given back: at once. Not `delivered`: its program has not seen
        the records, so the delivery does not count.
        """
        for run in self._runs:
            if run.state is not RecordState.ACQUIRED or run.member != member:
                continue
            if delivered:
                self._give_back(run)
            else:
                # That is what the share coordinator knows already.
                run.move(RecordState.AVAILABLE)
                run.delivery_count -= 1
        self._settle()

    # ---- dead letters ----------------------------------------------------------------------------

    @property
    def may_give_dead_letters(self) -> bool:
        """Whether `take_dead_letters` has something to give."""
        return self._has_dead_letters and self._leaving is None

    @property
    def has_dead_letters(self) -> bool:
        """Whether there are some that are not done, durable or not."""
        return any(run.state is RecordState.ARCHIVING for run in self._runs)

    def take_dead_letters(self, records_max: int) -> list[DeadLetters]:
        """Records for the dead-letter topic, in order and no more than that. Then
        `on_dead_letters_done`; till then there are no others.
        """
        assert self.may_give_dead_letters
        found: list[DeadLetters] = []
        left = records_max
        for run in self._runs:
            if left <= 0:
                break
            if run.state is RecordState.ARCHIVING and not run.write:
                last = min(run.last, run.first + left - 1)
                found.append(DeadLetters(run.first, last, run.delivery_count, run.is_rejected))
                left -= last - run.first + 1
        self._leaving = [(each.first_offset, each.last_offset) for each in found]
        return found

    def on_dead_letters_done(self) -> None:
        """Those that were taken are in the dead-letter topic, or can never be there."""
        assert self._leaving is not None
        for first, last in self._leaving:
            if last < self._start:
                continue
            for run in self._between(max(first, self._start), last):
                run.move(RecordState.ARCHIVED)
                self._changed(run)
        self._leaving = None
        self._settle()

    # ---- time ------------------------------------------------------------------------------------

    def _lock_ends(self, until_ms: int) -> None:
        if self._lock_ends_ms is None or until_ms < self._lock_ends_ms:
            self._lock_ends_ms = until_ms

    @property
    def next_deadline_ms(self) -> int | None:
        """The time at which `on_time` may have something to do."""
        return self._lock_ends_ms

    def on_time(self, now_ms: int) -> int:
        """The records whose lock is over are given back; how many those are."""
        if self._lock_ends_ms is None or now_ms < self._lock_ends_ms:
            return 0
        expired = 0
        self._lock_ends_ms = None
        for run in self._runs:
            if run.state is not RecordState.ACQUIRED:
                continue
            if run.until_ms <= now_ms:
                expired += run.count
                self._give_back(run)
            else:
                self._lock_ends(run.until_ms)
        self._settle()
        return expired

    # ---- the log ---------------------------------------------------------------------------------

    def on_log_start(self, offset: Offset) -> None:
        """The log has nothing before that offset."""
        if offset <= self._start:
            return
        if offset >= self._next:
            self._runs.clear()
            self._start = self._next = int(offset)
        else:
            del self._runs[: self._boundary(offset)]
            self._start = int(offset)
        self._settle()

    def on_log_end(self, offset: Offset) -> None:
        """The log ends there, and once was longer: the records beyond are lost, and others come."""
        if offset >= self._next:
            return
        del self._runs[self._boundary(offset) :]
        if self._leaving is not None:
            cut = int(offset) - 1
            self._leaving = [
                (first, min(last, cut)) for first, last in self._leaving if first <= cut
            ]
        self._next = max(int(offset), self._start)
        if offset < self._start:
            self._start = self._next = int(offset)
        self._settle()

    # ---- durable state ---------------------------------------------------------------------------

    @property
    def must_write(self) -> bool:
        """Whether `take_write` has something to give."""
        if self._in_flight:
            return False
        return self._is_dirty or self._start != self._written_start

    def write_again(self) -> None:
        """Have the state written also when nothing has changed."""
        self._is_dirty = True

    def take_write(self) -> StateWrite:
        """The changes since the last write. Then `on_written`, or the partition is loaded anew."""
        assert self.must_write
        number = self._last_write = self._in_flight = self._last_write + 1
        self._written_start, self._is_dirty = self._start, False
        batches = [
            StateBatch(run.first, run.last, run.state, run.delivery_count)
            for run in self._runs
            if run.write == number
        ]
        return StateWrite(
            number, self.start_offset, self.delivery_complete_count, tuple(_joined(batches))
        )

    @property
    def delivery_complete_count(self) -> int:
        """Records from the start offset on that are done."""
        return sum(run.count for run in self._runs if run.state.is_final)

    def on_written(self, number: int) -> None:
        """That write is durable."""
        assert number == self._in_flight
        self._in_flight = 0
        for run in self._runs:
            if run.write <= number:
                run.write = 0
        self._settle()


def _joined(batches: Iterable[StateBatch]) -> Iterator[StateBatch]:
    present: StateBatch | None = None
    for batch in batches:
        if present is not None and (
            batch.first_offset == present.last_offset + 1 and batch[2:] == present[2:]
        ):
            present = present._replace(last_offset=batch.last_offset)
        else:
            if present is not None:
                yield present
            present = batch
    if present is not None:
        yield present


def _ranges(runs: Iterable[_Run], batch_size: int) -> list[AcquiredRecords]:
    """The ranges of records next to each other that were delivered as often, no more than
    `batch_size` each.
    """
    found: list[AcquiredRecords] = []
    for run in runs:
        first = run.first
        if found and found[-1].last_offset == first - 1:
            last = found[-1]
            room = batch_size - (last.last_offset - last.first_offset + 1)
            if last.delivery_count == run.delivery_count and room > 0:
                end = min(run.last, last.last_offset + room)
                found[-1] = last._replace(last_offset=end)
                first = end + 1
        while first <= run.last:
            end = min(run.last, first + batch_size - 1)
            found.append(AcquiredRecords(first, end, run.delivery_count))
            first = end + 1
    return found


def _spans(
    batches: Sequence[AcknowledgementBatch], *, may_renew: bool
) -> Iterator[tuple[int, int, Acknowledgement]]:
    """Offsets next to each other with the same type. Raises InvalidRequest."""
    after = 0
    for first, last, types in batches:
        count = last - first + 1
        if first < after or count < 1:
            raise InvalidRequest(
                f"acknowledgements of offsets {first} to {last}: batches come in order, without a "
                "record in two of them, and a batch has at least one"
            )
        if len(types) not in (1, count):
            raise InvalidRequest(
                f"acknowledgements of offsets {first} to {last}: {len(types)} types; one for all, "
                f"or {count}"
            )
        after = last + 1
        if len(types) == 1:
            yield first, last, _type_of(types[0], may_renew=may_renew)
            continue
        begin = first
        for number, same in groupby(types):
            end = begin + sum(1 for _ in same) - 1
            yield begin, end, _type_of(number, may_renew=may_renew)
            begin = end + 1


def _type_of(number: int, *, may_renew: bool) -> Acknowledgement:
    try:
        what = Acknowledgement(number)
    except ValueError:
        raise InvalidRequest(
            f"acknowledgement type {number}: 0 is a gap, 1 accept, 2 release, 3 reject, 4 renew"
        ) from None
    if what is Acknowledgement.RENEW and not may_renew:
        raise InvalidRequest(
            "acknowledgement type 4, renew, in a request that does not say that it renews "
            "(is_renew_ack)"
        )
    return what
