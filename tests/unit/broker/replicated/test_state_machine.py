"""The replicated state machine: nothing leaves before what it rests on is committed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from pylog.model import LeaderEpoch, Offset
from pylog_broker.replicated.state_machine import (
    AppendRecords,
    LogSlice,
    Phase,
    ReplicatedStateMachine,
)


@dataclass(frozen=True, slots=True)
class Put:
    key: str
    value: int


@dataclass(slots=True)
class Values:
    """The simplest image: the newest value of each key."""

    offset: Offset = Offset(-1)
    values: dict[str, int] = field(default_factory=dict)

    def replay(self, record: Put, offset: Offset) -> None:
        assert offset > self.offset
        self.values[record.key] = record.value
        self.offset = offset


@dataclass(frozen=True, slots=True)
class Answer:
    to: str
    text: str


@dataclass(frozen=True, slots=True)
class Wake:
    """An effect that answers nobody."""

    whom: str


Effect = Answer | Wake
Machine = ReplicatedStateMachine[Values, Put, Effect]

EPOCH = LeaderEpoch(3)
A1, B2, C3 = Put("a", 1), Put("b", 2), Put("c", 3)


def following() -> Machine:
    return ReplicatedStateMachine(Values(), Values())


def leading() -> Machine:
    machine = following()
    machine.lead(EPOCH, Offset(0))
    return machine


def append(first_offset: int, *records: Put) -> AppendRecords[Put]:
    return AppendRecords(Offset(first_offset), records)


def read(next_offset: int, *appends: AppendRecords[Put]) -> LogSlice[Put]:
    return LogSlice(appends, Offset(next_offset))


def not_coordinator(effect: Effect) -> Effect | None:
    return Answer(effect.to, "not the coordinator") if isinstance(effect, Answer) else None


# ---- decisions ----------------------------------------------------------------------------------


def test_with_nothing_uncommitted_effects_leave_at_once() -> None:
    assert leading().seal([Answer("x", "1")]) == [Answer("x", "1")]


def test_what_is_written_is_decided_at_once_and_committed_later() -> None:
    machine = leading()
    machine.write(A1)
    assert (machine.decided.values, machine.committed.values) == ({"a": 1}, {})
    assert machine.seal([Answer("x", "done")]) == [append(0, A1)]
    assert machine.committed.values == {}
    assert machine.commit(Offset(0)) == [Answer("x", "done")]
    assert machine.committed == machine.decided == Values(Offset(0), {"a": 1})


def test_the_decisions_of_one_turn_share_an_append() -> None:
    machine = leading()
    machine.write(A1)
    machine.write(B2)
    machine.write(C3)
    assert machine.seal([Answer("x", "1"), Answer("y", "2")]) == [append(0, A1, B2, C3)]
    assert machine.next_offset == 3
    assert machine.commit(Offset(2)) == [Answer("x", "1"), Answer("y", "2")]


def test_effects_wait_for_what_was_decided_before_them_in_their_order() -> None:
    machine = leading()
    machine.write(A1)
    assert machine.seal([Answer("x", "1")]) == [append(0, A1)]
    machine.write(B2)
    assert machine.seal([Wake("y")]) == [append(1, B2)]
    assert machine.seal([Answer("z", "refused")]) == []  # it may rest on what is not committed
    assert machine.commit(Offset(0)) == [Answer("x", "1")]
    assert machine.commit(Offset(1)) == [Wake("y"), Answer("z", "refused")]
    assert machine.commit(Offset(1)) == []
    assert machine.seal([Wake("now")]) == [Wake("now")]


def test_an_append_commits_whole_or_not() -> None:
    machine = leading()
    machine.write(A1)
    machine.write(B2)
    machine.seal([Wake("x")])
    assert machine.uncommitted(Offset(0)) == []
    assert machine.commit(Offset(0)) == []
    assert machine.committed == Values()
    assert machine.uncommitted(Offset(1)) == [append(0, A1, B2)]
    assert machine.commit(Offset(1)) == [Wake("x")]


def test_a_commit_beyond_the_log_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="never appended"):
        leading().commit(Offset(0))


# ---- loading ------------------------------------------------------------------------------------


def test_slices_of_the_log_give_the_image_that_wrote_it() -> None:
    machine = following()
    assert machine.next_offset == 0
    machine.load(read(2, append(0, A1, B2)))
    machine.load(read(2))  # nothing new
    machine.load(read(3, append(2, C3)))
    assert machine.decided == Values(Offset(2), {"a": 1, "b": 2, "c": 3})
    assert machine.committed == Values()
    assert machine.commit(Offset(1)) == []
    assert machine.committed == Values(Offset(1), {"a": 1, "b": 2})
    machine.lead(EPOCH, Offset(3))
    assert (machine.phase, machine.epoch) == (Phase.LEADING, EPOCH)
    # Records that the predecessor left uncommitted hold everything back, reads of them too.
    assert machine.seal([Answer("x", "c is 3")]) == []
    assert machine.commit(Offset(2)) == [Answer("x", "c is 3")]


def test_control_records_and_compaction_leave_gaps_among_the_offsets() -> None:
    machine = following()
    machine.load(read(3, append(0, A1), append(2, B2)))  # offset 1 was compacted away
    machine.load(read(5))  # two control records
    machine.lead(EPOCH, Offset(6))  # and one of the new leader
    assert (machine.decided.offset, machine.next_offset) == (2, 6)
    assert machine.commit(Offset(5)) == []
    machine.write(C3)
    assert machine.seal([Wake("x")]) == [append(6, C3)]
    assert machine.commit(Offset(6)) == [Wake("x")]
    assert machine.committed == Values(Offset(6), {"a": 1, "b": 2, "c": 3})


def test_a_snapshot_is_where_loading_begins() -> None:
    machine: Machine = ReplicatedStateMachine(
        Values(Offset(6), {"a": 0}), Values(Offset(6), {"a": 0})
    )
    assert machine.next_offset == 7
    machine.load(read(8, append(7, A1)))
    machine.commit(Offset(7))
    assert machine.committed == Values(Offset(7), {"a": 1})


@pytest.mark.parametrize(
    ("late", "what"),
    [
        (read(2, append(0, A1)), "slices come in order"),
        (read(2, append(1, B2, C3)), "ends behind its records"),
    ],
)
def test_slices_out_of_order_are_a_bug(late: LogSlice[Put], what: str) -> None:
    machine = following()
    machine.load(read(1, append(0, A1)))
    with pytest.raises(AssertionError, match=what):
        machine.load(late)


def test_a_log_that_ends_before_what_was_loaded_is_a_bug() -> None:
    machine = following()
    machine.load(read(1, append(0, A1)))
    with pytest.raises(AssertionError, match="the log ends before"):
        machine.lead(EPOCH, Offset(0))


# ---- the end ------------------------------------------------------------------------------------


def test_who_waits_for_a_machine_that_resigns_hears_why_and_nothing_else_leaves() -> None:
    machine = leading()
    machine.write(A1)
    machine.seal([Answer("x", "1")])
    machine.commit(Offset(0))
    machine.write(B2)
    machine.seal([Answer("y", "2"), Wake("y")])
    machine.write(C3)  # a decision that was not finished
    assert machine.resign(not_coordinator) == [Answer("y", "not the coordinator")]
    assert machine.phase is Phase.RESIGNED
    assert machine.committed == Values(Offset(0), {"a": 1})


def test_what_failed_to_append_is_gone_after_a_reload() -> None:
    log = [append(0, A1)]
    machine = following()
    machine.load(read(1, *log))
    machine.commit(Offset(0))
    machine.lead(EPOCH, Offset(1))
    machine.write(B2)
    machine.seal([Answer("x", "b is 2")])
    assert machine.resign(not_coordinator) == [Answer("x", "not the coordinator")]

    again: Machine = following()
    again.load(read(1, *log))
    again.commit(Offset(0))
    again.lead(LeaderEpoch(4), Offset(1))
    assert again.decided == Values(Offset(0), {"a": 1})
    again.write(C3)
    assert again.seal([]) == [append(1, C3)]


def test_unloading_what_never_led_answers_nobody() -> None:
    machine = following()
    machine.load(read(1, append(0, A1)))
    assert machine.resign(not_coordinator) == []


CALLS: dict[str, Callable[[Machine], object]] = {
    "load": lambda machine: machine.load(read(0)),
    "lead": lambda machine: machine.lead(EPOCH, Offset(0)),
    "write": lambda machine: machine.write(A1),
    "seal": lambda machine: machine.seal([]),
    "commit": lambda machine: machine.commit(Offset(-1)),
    "resign": lambda machine: machine.resign(not_coordinator),
}
ALLOWED = {
    Phase.FOLLOWING: {"load", "lead", "commit", "resign"},
    Phase.LEADING: {"write", "seal", "commit", "resign"},
    Phase.RESIGNED: set[str](),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("phase", Phase)
def test_what_each_phase_allows(phase: Phase, call: str) -> None:
    machine = following()
    if phase is not Phase.FOLLOWING:
        machine.lead(EPOCH, Offset(0))
    if phase is Phase.RESIGNED:
        machine.resign(not_coordinator)
    assert machine.phase is phase
    if call in ALLOWED[phase]:
        CALLS[call](machine)
    else:
        with pytest.raises(AssertionError, match=phase.name):
            CALLS[call](machine)
