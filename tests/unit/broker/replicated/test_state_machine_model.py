"""The machine against a dumb twin: a list of all records, replayed from the start each time."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pylog.model import LeaderEpoch, Offset
from pylog_broker.replicated.state_machine import AppendRecords, LogSlice, ReplicatedStateMachine


@dataclass(slots=True)
class Told:
    """An image that forgets nothing."""

    offset: Offset = Offset(-1)
    records: list[tuple[int, int]] = field(default_factory=list)

    def replay(self, record: int, offset: Offset) -> None:
        self.records.append((offset, record))
        self.offset = offset


class Lives(RuleBasedStateMachine):
    """One log, on which one machine after the other leads. An effect is the number of records that
    were decided when it was given; it must leave when these are committed, and not before.
    """

    @initialize()
    def begin(self) -> None:
        self.log: list[list[tuple[int, int]]] = []  # appends: (offset, record)
        self.end = 0
        self.high_watermark = 0
        self.epoch = 0
        self.number = 0
        self.load(7)

    # ---- the twin

    def below(self, end: int) -> list[tuple[int, int]]:
        """The records of the appends that lie wholly below `end`."""
        return [pair for append in self.log if append[-1][0] < end for pair in append]

    def is_settled(self) -> bool:
        return self.below(self.end) == self.below(self.high_watermark)

    # ---- what happens

    def load(self, slice_size: int) -> None:
        self.machine = ReplicatedStateMachine[Told, int, int](Told(), Told())
        self.waiting: list[int] = []
        self.out: list[int] = []
        self.open: list[tuple[int, int]] = []
        appends = [
            AppendRecords(Offset(append[0][0]), tuple(record for _, record in append))
            for append in self.log
        ]
        while appends:
            part, appends = appends[:slice_size], appends[slice_size:]
            self.machine.load(LogSlice(tuple(part), Offset(part[-1].last_offset + 1)))
            known = min(self.high_watermark, self.machine.next_offset)
            assert self.machine.commit(Offset(known - 1)) == []
        self.epoch += 1
        self.machine.lead(LeaderEpoch(self.epoch), Offset(self.end))
        assert self.machine.commit(Offset(self.high_watermark - 1)) == []

    @rule(count=st.integers(1, 3))
    def write(self, count: int) -> None:
        for _ in range(count):
            self.number += 1
            self.open.append((self.end + len(self.open), self.number))
            self.machine.write(self.number)

    @rule(effects=st.integers(0, 2))
    def seal(self, effects: int) -> None:
        expected: list[object] = []
        if self.open:
            first = Offset(self.open[0][0])
            expected.append(AppendRecords(first, tuple(record for _, record in self.open)))
            self.log.append(self.open)
            self.end = self.open[-1][0] + 1
            self.open = []
        given = [len(self.below(self.end))] * effects
        if self.is_settled():
            expected += given
        else:
            self.waiting += given
        assert self.machine.seal(given) == expected

    @precondition(lambda self: not self.open)
    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        self.high_watermark = data.draw(st.integers(self.high_watermark, self.end))
        ready = len(self.below(self.high_watermark))
        expected = [effect for effect in self.waiting if effect <= ready]
        self.waiting = self.waiting[len(expected) :]
        assert self.machine.commit(Offset(self.high_watermark - 1)) == expected

    @precondition(lambda self: not self.open)
    @rule(slice_size=st.integers(1, 3), lost=st.booleans(), control=st.integers(0, 2))
    def another_leads(self, slice_size: int, lost: bool, control: int) -> None:
        assert self.machine.resign(lambda effect: -effect) == [-effect for effect in self.waiting]
        if lost:  # what was not committed
            self.log = [append for append in self.log if append[-1][0] < self.high_watermark]
            self.end = max(self.high_watermark, self.log[-1][-1][0] + 1 if self.log else 0)
        self.end += control
        self.load(slice_size)

    @invariant()
    def the_images_are_replays(self) -> None:
        assert self.machine.committed.records == self.below(self.high_watermark)
        assert self.machine.decided.records == self.below(self.end) + self.open
        assert self.machine.next_offset == self.end + len(self.open)


TestLives = Lives.TestCase
TestLives.settings = settings(max_examples=40, stateful_step_count=30)
