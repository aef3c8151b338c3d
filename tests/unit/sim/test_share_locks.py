"""The twin of a leader's records: each change needs a reason, and each lock ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from pylog.model import Offset
from pylog_broker.share.log_batches import LogBatch
from pylog_broker.share.record_states import RecordState, StateBatch
from pylog_broker.share.settings import ShareSettings
from pylog_broker.share.share_partition import AcknowledgementBatch, SharePartition, Wanted
from tests.sim.share_locks import Acknowledged, Given, Held, Locks, Step, held_by
from tests.sim.violation import Violation

SETTINGS = ShareSettings(record_lock_duration_ms=100, delivery_count_limit=2)
ACCEPT, RELEASE, REJECT, RENEW = b"\x01", b"\x02", b"\x03", b"\x04"


class Heard:
    """Remembers what it is told; records before `gone_before` are gone, `aborted` ones hidden, and
    `letters` in the dead-letter topic.
    """

    def __init__(self) -> None:
        self.told: list[tuple[str, int, object]] = []
        self.gone_before = 0
        self.aborted: set[int] = set()
        self.letters: set[int] = set()

    def acquired(self, offset: int, held: Held) -> None:
        self.told.append(("acquired", offset, held.member))

    def renewed(self, offset: int, held: Held) -> None:
        self.told.append(("renewed", offset, held.until_ms))

    def finished(self, offset: int, before: Held, why: str) -> None:
        self.told.append(("finished", offset, why))

    def is_gone(self, offset: int) -> bool:
        return offset < self.gone_before

    def is_letter(self, offset: int) -> bool:
        return offset in self.letters

    def hidden(self, offset: int) -> str:
        return "aborted" if offset in self.aborted else ""


class World:
    """A partition, and its twin."""

    def __init__(
        self, batches: Sequence[StateBatch] = (), settings: ShareSettings = SETTINGS
    ) -> None:
        self.state = SharePartition(Offset(0), batches, settings)
        self.heard = Heard()
        self.locks = Locks("p", 0, dict(held_by(self.state)), Counter())

    def acquire(self, now_ms: int, member: str, first: int, last: int) -> None:
        self.state.acquire(now_ms, member, Offset(first), [LogBatch(first, last)], Wanted(9, 9))
        self.look(now_ms)

    def acknowledge(self, now_ms: int, member: str, first: int, last: int, types: bytes) -> None:
        batches = (AcknowledgementBatch(first, last, types),)
        self.state.acknowledge(now_ms, member, batches, may_renew=True)
        self.look(now_ms, Acknowledged(member, batches))

    def look(self, now_ms: int, step: Step | None = None) -> None:
        self.locks.look(now_ms, self.state, step or Step(), self.heard)

    def written(self) -> None:
        self.state.on_written(self.state.take_write().number)


def test_each_change_is_heard_with_its_reason() -> None:
    world = World()
    world.acquire(0, "a", 0, 3)
    world.acknowledge(10, "a", 0, 3, ACCEPT + RELEASE + REJECT + RENEW)
    world.written()
    world.acquire(20, "b", 1, 1)
    world.state.release("b", delivered=True)
    world.look(30, Given("b", delivered=True))
    assert world.heard.told == [
        ("acquired", 0, "a"),
        ("acquired", 1, "a"),
        ("acquired", 2, "a"),
        ("acquired", 3, "a"),
        ("finished", 0, "accepted"),
        ("finished", 2, "rejected"),
        ("renewed", 3, 110),
        ("acquired", 1, "b"),
        ("finished", 1, "archived at the limit"),
    ]


def test_locks_are_given_back_when_their_time_is_over_and_not_before() -> None:
    world = World()
    world.acquire(0, "a", 0, 0)
    assert (world.locks.new_deadline(), world.locks.new_deadline()) == (100, None)
    assert (world.locks.overdue(99), world.locks.overdue(100)) == ([], [0])
    world.state.on_time(100)
    with pytest.raises(Violation, match="nobody has given it back"):
        world.look(99)
    world.look(100)
    assert world.locks.overdue(1_000) == []


def test_what_the_log_has_no_more_may_go() -> None:
    world = World()
    world.acquire(0, "a", 0, 1)
    world.state.on_log_start(Offset(1))
    with pytest.raises(Violation, match="why"):
        world.look(10)
    world.heard.gone_before = 1
    world.look(10)
    assert world.heard.told[-1] == ("finished", 0, "gone from the log")


def test_records_of_an_aborted_transaction_may_be_passed_over_and_no_others() -> None:
    world = World()
    batches = [LogBatch(0, 1, is_for_members=False), LogBatch(2, 2)]
    world.state.acquire(0, "a", Offset(0), batches, Wanted(9, 9))
    with pytest.raises(Violation, match="why"):
        world.look(0)
    world.heard.aborted = {0, 1}
    world.look(0)
    assert world.heard.told == [
        ("finished", 0, "passed over, aborted"),
        ("finished", 1, "passed over, aborted"),
        ("acquired", 2, "a"),
    ]


def test_a_record_is_done_when_its_dead_letter_is_there() -> None:
    world = World(settings=replace(SETTINGS, dead_letter_topic="dlq.t"))
    world.acquire(0, "a", 0, 0)
    world.acknowledge(10, "a", 0, 0, REJECT)
    world.written()
    world.state.take_dead_letters(9)
    world.state.on_dead_letters_done()
    with pytest.raises(Violation, match="why"):
        world.look(20)
    world.heard.letters = {0}
    world.look(20)
    assert world.heard.told[1:] == [
        ("finished", 0, "rejected"),
        ("finished", 0, "in the dead-letter topic"),
    ]


def test_a_record_that_is_given_up_goes_to_the_dead_letter_topic() -> None:
    world = World(settings=replace(SETTINGS, dead_letter_topic="dlq.t"))
    world.acquire(0, "a", 0, 1)
    world.state.settings = SETTINGS
    batches = (AcknowledgementBatch(1, 1, REJECT),)
    world.state.acknowledge(10, "a", batches, may_renew=False)
    world.state.settings = replace(SETTINGS, dead_letter_topic="dlq.t")
    with pytest.raises(Violation, match="no dead letter"):
        world.look(10, Acknowledged("a", batches))


def test_a_leader_begins_with_the_state_that_it_has_read() -> None:
    world = World([StateBatch(0, 1, RecordState.AVAILABLE, 1)])
    assert world.locks.records == {0: Held(count=1), 1: Held(count=1)}
    world.acquire(0, "a", 0, 1)
    assert [world.locks.records[offset].count for offset in (0, 1)] == [2, 2]


def _accepted_by_another(world: World) -> None:
    batches = (AcknowledgementBatch(0, 0, ACCEPT),)
    world.state.acknowledge(10, "a", batches, may_renew=False)
    world.look(10, Acknowledged("b", batches))


def _accepted_late(world: World) -> None:
    world.acknowledge(100, "a", 0, 0, ACCEPT)


def _taken_over(world: World) -> None:
    world.state._runs[0].member = "b"
    world.look(10)


def _start_moved(world: World) -> None:
    world.state._start = world.state._next = 1
    world.state._runs.clear()
    world.look(10)


def _start_back(world: World) -> None:
    world.acknowledge(10, "a", 0, 0, ACCEPT)
    world.state._start = world.state._next = 0
    world.look(20)


def _count_lost(world: World) -> None:
    world.state.release("a", delivered=False)
    world.look(10, Given("a", delivered=True))


def _renewed_by_nobody(world: World) -> None:
    world.state._runs[0].until_ms = 500
    world.look(10)


def _gap_of_a_record(world: World) -> None:
    world.acknowledge(10, "a", 0, 0, b"\x00")


@pytest.mark.parametrize(
    "fault",
    [
        _accepted_by_another,
        _accepted_late,
        _taken_over,
        _start_moved,
        _start_back,
        _count_lost,
        _renewed_by_nobody,
        _gap_of_a_record,
    ],
)
def test_a_change_without_a_reason_is_none(fault: Callable[[World], None]) -> None:
    world = World()
    world.acquire(0, "a", 0, 0)
    with pytest.raises(Violation):
        fault(world)
