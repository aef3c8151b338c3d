"""The replicated state machine: what has been decided, what of it is committed, and what waits.

Pure: no clock, log, lock or thread. Its owner (the controller; a coordinator for one partition of
an internal topic) looks at `decided`, says what it decides as records, and what others are to hear
of that as effects. Two images replay the records: `decided` when they are written, so that the next
decision sees them while the disk is still busy; `committed` when the log says so, and only that one
is shown to anybody.

    FOLLOWING  load(slice), commit(offset)                     what somebody else wrote
    LEADING    write(record) ..., seal(effects), commit(offset)
    RESIGNED   nothing                                         a new machine begins from the log

Why deciding on uncommitted records is safe. They leave the machine in one order, and a commit
always covers everything before it, so a decision never commits without those it rests on. Nobody
learns of a decision before its commit: every effect other than the append itself is held back
until all that was decided before it is committed, refusals included (a "topic already exists" may
rest on an uncommitted topic). If an append fails, or another leader is elected, nothing is taken
back record by record: the machine resigns, whoever waits hears so, and a new one is loaded. Apache
Kafka's coordinators and its controller keep every state they may have to go back to; two images
cost as much memory as two states, and a replay costs nothing more than itself.

Not here: what records mean (the image), who leads under which epoch, where the log lies, and which
failure goes with which effect. Several decisions of one turn share an append when `seal` is called
once behind them; the records of one decision are never taken apart.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Generic, Protocol, TypeVar

from pylog.model import NO_EPOCH, LeaderEpoch, Offset

RecordT = TypeVar("RecordT")
EffectT = TypeVar("EffectT")
ReplayedT = TypeVar("ReplayedT", contravariant=True)


class Image(Protocol[ReplayedT]):
    """State that changes only by replay: the same records give the same state, wherever."""

    offset: Offset
    """The offset of the newest record that is in it, -1 when there is none."""

    def replay(self, record: ReplayedT, offset: Offset) -> None:
        """Takes in the record that lies at `offset` of the log."""


ImageT = TypeVar("ImageT", bound=Image[Any])


@dataclass(frozen=True, slots=True)
class AppendRecords(Generic[RecordT]):
    """Append to the log in one piece (all or none), under the epoch of the machine, at exactly this
    offset; call `commit` with the last offset, or a later one, when it is committed.

    If that fails the machine must resign: it has already decided on top of these records.
    """

    first_offset: Offset
    records: tuple[RecordT, ...] = field(repr=False)

    @property
    def last_offset(self) -> Offset:
        """The offset of the last record."""
        return Offset(self.first_offset + len(self.records) - 1)


@dataclass(frozen=True, slots=True)
class LogSlice(Generic[RecordT]):
    """A piece of the log: its appends, oldest first, and where the next slice begins.

    An offset that belongs to no append is the log's own (a control record), or was compacted away;
    an append with such a gap comes as several. The reader bounds a slice, by bytes, and so the time
    for which its replay holds a loop.
    """

    appends: tuple[AppendRecords[RecordT], ...]
    next_offset: Offset


class Phase(Enum):
    """The states of a machine; it goes down this list and never up."""

    FOLLOWING = "it replays what the log holds"
    LEADING = "it decides, and it alone writes"
    RESIGNED = "it is over"


class ReplicatedStateMachine(Generic[ImageT, RecordT, EffectT]):
    """Invariants: `committed.offset <= decided.offset < next_offset`; held effects are in the order
    in which they were decided; the uncommitted records are whole appends, in the order of the log.
    """

    def __init__(self, committed: ImageT, decided: ImageT) -> None:
        """Two images that say the same and share nothing, both the machine's from now on: empty
        ones, or what a snapshot says.
        """
        assert committed.offset == decided.offset, (committed.offset, decided.offset)
        self.committed: Final = committed
        """The committed image: all that anybody may know. Read only."""
        self.decided: Final = decided
        """The decided image, written or not, on which decisions rest. Read only."""
        self.phase = Phase.FOLLOWING
        self.epoch: LeaderEpoch = NO_EPOCH
        """The leader epoch under which it leads."""
        self.next_offset = Offset(committed.offset + 1)
        """The offset at which the next slice begins; of a leader, that of the next record to be
        written."""
        self._open: list[RecordT] = []  # written since the last append
        self._uncommitted: deque[AppendRecords[RecordT]] = deque()
        self._held: deque[tuple[Offset, EffectT]] = deque()

    # ---- what somebody else wrote ----------------------------------------------------------------

    def load(self, read: LogSlice[RecordT]) -> None:
        """Replays the slice that begins at `next_offset`. It is not yet committed."""
        assert self.phase is Phase.FOLLOWING, self.phase
        for append in read.appends:
            assert append.first_offset >= self.next_offset, "slices come in order"
            for offset, record in enumerate(append.records, append.first_offset):
                self.decided.replay(record, Offset(offset))
            self.next_offset = Offset(append.last_offset + 1)
            self._uncommitted.append(append)
        assert read.next_offset >= self.next_offset, "a slice ends behind its records"
        self.next_offset = read.next_offset

    def lead(self, epoch: LeaderEpoch, next_offset: Offset) -> None:
        """Decides from now on. Everything below `next_offset`, the end of the log, is loaded, or is
        the log's own. The part of it that is not committed holds back all effects until it is.
        """
        assert self.phase is Phase.FOLLOWING, self.phase
        assert next_offset >= self.next_offset, "the log ends before what was loaded from it"
        self.phase = Phase.LEADING
        self.epoch = epoch
        self.next_offset = next_offset

    # ---- decisions -------------------------------------------------------------------------------

    def write(self, record: RecordT) -> None:
        """Decides `record`: it is in `decided` at once, and in the next append."""
        assert self.phase is Phase.LEADING, self.phase
        self.decided.replay(record, self.next_offset)
        self.next_offset = Offset(self.next_offset + 1)
        self._open.append(record)

    def seal(self, effects: list[EffectT]) -> list[AppendRecords[RecordT] | EffectT]:
        """The effects that may leave now: the append of everything written, then those of `effects`
        that rest on nothing uncommitted; the others are held.
        """
        assert self.phase is Phase.LEADING, self.phase
        out: list[AppendRecords[RecordT] | EffectT] = []
        if self._open:
            first = Offset(self.next_offset - len(self._open))
            append = AppendRecords(first, tuple(self._open))
            self._open.clear()
            self._uncommitted.append(append)
            out.append(append)
        if self._uncommitted:
            self._held.extend((self.decided.offset, effect) for effect in effects)
        else:
            assert not self._held
            out.extend(effects)
        return out

    # ---- commits ---------------------------------------------------------------------------------

    def uncommitted(self, up_to: Offset) -> list[AppendRecords[RecordT]]:
        """The appends that a commit up to that offset covers, oldest first."""
        found: list[AppendRecords[RecordT]] = []
        for append in self._uncommitted:
            if append.last_offset > up_to:
                break
            found.append(append)
        return found

    def commit(self, offset: Offset) -> list[EffectT]:
        """The effects that leave because everything up to `offset` is committed. A repeat changes
        nothing, and an append that reaches beyond is not committed.
        """
        assert self.phase is not Phase.RESIGNED, self.phase
        assert not self._open
        assert offset < self.next_offset, "committed what was never appended"
        while self._uncommitted and self._uncommitted[0].last_offset <= offset:
            append = self._uncommitted.popleft()
            for at, record in enumerate(append.records, append.first_offset):
                self.committed.replay(record, Offset(at))
        released: list[EffectT] = []
        while self._held and self._held[0][0] <= self.committed.offset:
            released.append(self._held.popleft()[1])
        return released

    # ---- the end ---------------------------------------------------------------------------------

    def resign(self, failed: Callable[[EffectT], EffectT | None]) -> list[EffectT]:
        """The machine is over: it leads no more, an append failed, or its partition is unloaded.

        Decisions that are not committed are dropped here; the log may hold them all the same, and
        the next leader then loads them. `failed` turns a held effect into what its receiver hears
        instead, None: nothing. `committed` may still be read, and be given to a new machine.
        """
        assert self.phase is not Phase.RESIGNED, self.phase
        self.phase = Phase.RESIGNED
        answers = [failed(effect) for _, effect in self._held]
        self._open.clear()
        self._uncommitted.clear()
        self._held.clear()
        return [answer for answer in answers if answer is not None]
