"""Shards of a coordinator: what leaves when, and that everybody who asks is answered once."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylog.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    GroupIdNotFound,
    NotCoordinator,
    PylogError,
    UnknownServerError,
)
from pylog.model import LeaderEpoch, Offset, TopicPartition
from pylog_broker.coordinator.runtime import shard as shards
from pylog_broker.coordinator.runtime.decision import (
    CancelTimer,
    Decision,
    Record,
    Reply,
    SetTimer,
)
from pylog_broker.coordinator.runtime.runtime import (
    RELOAD_AFTER_MS,
    CoordinatorRuntime,
    Defect,
    RuntimeEffect,
    ShardFailed,
    ShardLoaded,
    partition_for,
)
from pylog_broker.coordinator.runtime.shard import Append, Operation, ReadLog
from pylog_broker.replicated.state_machine import AppendRecords, LogSlice

TOPIC = "__counts"
P3 = TopicPartition(TOPIC, 3)
EPOCH = LeaderEpoch(7)
EMPTY: LogSlice[Record] = LogSlice((), Offset(0))


@dataclass
class Counts:
    """A number for each key; a timer takes its key away."""

    numbers: dict[str, int] = field(default_factory=dict)

    def replay(self, record: Record, offset: Offset) -> None:
        if record.value is None:
            self.numbers.pop(record.key, None)
        else:
            self.numbers[record.key] = record.value

    def on_loaded(self, now_ms: int, wall_ms: int) -> Decision:
        return Decision(effects=[SetTimer(key, 1_000) for key in self.numbers])

    def on_timer(self, now_ms: int, wall_ms: int, key: Hashable) -> Decision:
        return Decision([Record(key, None)])


class Text:
    """Keys and numbers as text."""

    def encode(self, record: Record) -> tuple[bytes, bytes | None]:
        value = None if record.value is None else str(record.value).encode()
        return record.key.encode(), value

    def decode(self, key: bytes, value: bytes | None) -> Record | None:
        return Record(key.decode(), None if value is None else int(value))


def put(key: str, number: int, request_id: int) -> Operation[Counts]:
    """Answers the number that was there before."""

    def operation(counts: Counts) -> Decision:
        before = counts.numbers.get(key)
        return Decision([Record(key, number)], [Reply(request_id, before), SetTimer(key, 1_000)])

    return operation


def get(key: str, request_id: int) -> Operation[Counts]:
    def operation(counts: Counts) -> Decision:
        if key not in counts.numbers:
            raise GroupIdNotFound(key)
        return Decision(effects=[Reply(request_id, counts.numbers[key])])

    return operation


def runtime() -> CoordinatorRuntime[Counts]:
    return CoordinatorRuntime(TOPIC, lambda partition: Counts(), Text(), now_ms=0)


def active(*records: Record, high_watermark: int | None = None) -> CoordinatorRuntime[Counts]:
    """A runtime whose shard 3 has loaded these records, all of them committed."""
    made = runtime()
    made.on_leadership_began(0, 3, EPOCH)
    end = Offset(len(records))
    appends = (AppendRecords(Offset(0), records),) if records else ()
    made.on_high_watermark(3, end if high_watermark is None else Offset(high_watermark))
    made.on_read(0, 0, 3, EPOCH, LogSlice(appends, end), end)
    made.flush()
    return made


def same(ours: list[RuntimeEffect], wanted: list[RuntimeEffect]) -> bool:
    """Errors are the same when they are of one kind."""

    def key(effect: RuntimeEffect) -> object:
        return tuple(type(each) if isinstance(each, Exception) else each for each in effect)

    return [(type(e), key(e)) for e in ours] == [(type(e), key(e)) for e in wanted]


# ---- loading -------------------------------------------------------------------------------------


def test_a_partition_that_is_led_is_read_slice_by_slice_and_requests_wait_outside() -> None:
    made = runtime()
    assert made.on_leadership_began(5, 3, EPOCH) == [ReadLog(P3, EPOCH, Offset(0))]
    loading = made.run(6, 3, 1, get("a", 1))
    assert same(loading, [Reply(1, CoordinatorLoadInProgress())])

    first = LogSlice((AppendRecords(Offset(2), (Record("a", 1),)),), Offset(4))
    assert made.on_read(7, 0, 3, EPOCH, first, Offset(6)) == [ReadLog(P3, EPOCH, Offset(4))]
    second = LogSlice((AppendRecords(Offset(5), (Record("b", 2),)),), Offset(6))
    assert made.on_read(8, 0, 3, EPOCH, second, Offset(6)) == [ShardLoaded(P3, EPOCH, 5)]
    assert made.coordinators()[3].numbers == {"a": 1, "b": 2}


def test_what_was_loaded_and_is_not_committed_holds_answers_back() -> None:
    made = active(Record("a", 1), Record("b", 2), high_watermark=1)
    assert made.run(1, 3, 1, get("a", 1)) == []
    assert made.flush() == []
    assert made.on_high_watermark(3, Offset(2)) == [Reply(1, 1)]


def test_a_slice_of_an_earlier_epoch_or_of_a_partition_that_has_moved_is_not_heard() -> None:
    made = runtime()
    made.on_leadership_began(0, 3, EPOCH)
    assert made.on_leadership_began(1, 3, LeaderEpoch(8)) == [
        ReadLog(P3, LeaderEpoch(8), Offset(0))
    ]
    assert made.on_read(2, 0, 3, EPOCH, EMPTY, Offset(0)) == []
    assert made.on_leadership_ended(3) == []
    assert made.on_read(2, 0, 3, LeaderEpoch(8), EMPTY, Offset(0)) == []
    assert same(made.run(3, 3, 1, get("a", 1)), [Reply(1, NotCoordinator())])


def test_a_log_that_cannot_be_read_is_read_again_after_a_rest() -> None:
    made = runtime()
    made.on_leadership_began(0, 3, EPOCH)
    fault = PylogError("no descriptor")
    assert made.on_read_failed(10, 3, EPOCH, fault) == [ShardFailed(P3, EPOCH, fault)]
    assert made.on_time(10 + RELOAD_AFTER_MS - 1, 0) == []
    assert made.on_time(10 + RELOAD_AFTER_MS, 0) == [ReadLog(P3, EPOCH, Offset(0))]
    assert [type(e) for e in made.on_read(300, 0, 3, EPOCH, EMPTY, Offset(0))] == [ShardLoaded]


# ---- deciding ------------------------------------------------------------------------------------


def test_decisions_of_one_turn_share_an_append_and_answers_wait_for_its_commit() -> None:
    made = active()
    assert made.run(1, 3, 1, put("a", 1, 1)) == []
    assert made.run(1, 3, 2, put("a", 2, 2)) == []
    assert made.run(1, 3, 3, get("a", 3)) == []
    assert made.must_flush
    assert made.flush() == [Append(P3, EPOCH, Offset(0), ((b"a", b"1"), (b"a", b"2")))]
    assert not made.must_flush
    assert made.on_high_watermark(3, Offset(1)) == []  # not all of the append
    assert made.on_high_watermark(3, Offset(2)) == [Reply(1, None), Reply(2, 1), Reply(3, 2)]


def test_a_read_is_answered_at_once_where_everything_is_committed() -> None:
    made = active(Record("a", 4))
    assert made.run(1, 3, 1, get("a", 1)) == []
    assert made.flush() == [Reply(1, 4)]


def test_a_refusal_waits_for_what_it_rests_on() -> None:
    made = active(Record("a", 4))
    made.run(1, 3, 1, lambda _: Decision([Record("a", None)], [Reply(1, "gone")]))
    made.run(1, 3, 2, get("a", 2))
    assert [type(e) for e in made.flush()] == [Append]
    assert same(
        made.on_high_watermark(3, Offset(2)), [Reply(1, "gone"), Reply(2, GroupIdNotFound())]
    )


def test_a_turn_that_decides_much_makes_several_appends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "APPEND_BYTES_MAX", 4)
    made = active()
    assert made.run(1, 3, 1, put("aa", 11, 1)) == []
    assert made.run(1, 3, 2, put("b", 2, 2)) == [Append(P3, EPOCH, Offset(0), ((b"aa", b"11"),))]
    assert made.flush() == [Append(P3, EPOCH, Offset(1), ((b"b", b"2"),))]


def test_a_high_watermark_in_the_middle_of_a_turn_ends_it() -> None:
    made = active()
    made.run(1, 3, 1, put("a", 1, 1))
    made.flush()
    made.run(1, 3, 2, put("b", 2, 2))
    assert made.on_high_watermark(3, Offset(1)) == [
        Append(P3, EPOCH, Offset(1), ((b"b", b"2"),)),
        Reply(1, None),
    ]
    assert not made.must_flush


# ---- faults --------------------------------------------------------------------------------------


def test_after_a_failed_append_all_who_wait_hear_so_and_the_log_decides_what_is_true() -> None:
    made = active(Record("a", 4))
    made.run(1, 3, 1, put("a", 5, 1))
    made.flush()
    made.run(1, 3, 2, get("a", 2))
    fault = PylogError("disk full")
    out = made.on_append_failed(2, 3, EPOCH, fault)
    assert same(
        out,
        [
            ShardFailed(P3, EPOCH, fault),
            Reply(1, CoordinatorNotAvailable()),
            Reply(2, CoordinatorNotAvailable()),
        ],
    )
    assert same(made.run(3, 3, 3, get("a", 3)), [Reply(3, CoordinatorLoadInProgress())])
    assert made.on_append_failed(3, 3, EPOCH, fault) == []  # of one that came behind it
    assert made.flush() == []
    assert made.on_time(2 + RELOAD_AFTER_MS, 0) == [ReadLog(P3, EPOCH, Offset(0))]


def test_a_shard_that_begins_again_knows_what_is_committed() -> None:
    made = active(Record("a", 4))
    made.on_append_failed(2, 3, EPOCH, PylogError("disk full"))
    made.on_high_watermark(3, Offset(2))  # while it rests
    made.on_time(2 + RELOAD_AFTER_MS, 0)
    found = (AppendRecords(Offset(0), (Record("a", 4), Record("a", 5))),)
    made.on_read(300, 0, 3, EPOCH, LogSlice(found, Offset(2)), Offset(2))
    made.run(300, 3, 3, get("a", 3))
    assert made.flush() == [Reply(3, 5)]


def test_a_shard_that_has_moved_tells_all_who_wait() -> None:
    made = active()
    made.run(1, 3, 1, put("a", 1, 1), timeout_ms=50)
    made.flush()
    assert same(made.on_leadership_ended(3), [Reply(1, NotCoordinator())])
    assert made.on_time(5_000, 0) == []
    assert made.on_high_watermark(3, Offset(1)) == []


def test_a_fault_of_a_decision_is_a_defect_and_the_shard_begins_again() -> None:
    made = active()

    def broken(counts: Counts) -> Decision:
        counts.numbers["half"] = 1
        raise KeyError("x")

    made.run(1, 3, 1, put("a", 1, 1))
    out = made.run(1, 3, 2, broken)
    assert same(
        out,
        [
            Defect(P3, KeyError()),
            Reply(2, UnknownServerError()),
            Reply(1, CoordinatorNotAvailable()),
        ],
    )
    assert made.flush() == []


def test_a_record_that_cannot_be_replayed_ends_the_loading_and_nothing_else() -> None:
    class Picky(Counts):
        def replay(self, record: Record, offset: Offset) -> None:
            raise KeyError(record.key)

    made = CoordinatorRuntime[Counts](TOPIC, lambda partition: Picky(), Text(), now_ms=0)
    made.on_leadership_began(0, 3, EPOCH)
    read = LogSlice((AppendRecords(Offset(0), (Record("a", 1),)),), Offset(1))
    assert same(made.on_read(10, 0, 3, EPOCH, read, Offset(1)), [Defect(P3, KeyError())])
    assert made.on_time(10 + RELOAD_AFTER_MS, 0) == [ReadLog(P3, EPOCH, Offset(0))]


def test_a_decision_too_large_to_write_is_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "DECISION_BYTES_MAX", 10)
    out = active().run(1, 3, 1, put("a" * 20, 1, 1))
    assert same(out, [Defect(P3, shards.DecisionTooLarge()), Reply(1, UnknownServerError())])


# ---- time ----------------------------------------------------------------------------------------


def test_a_request_that_is_not_answered_in_time_hears_so_once() -> None:
    made = active()
    made.run(1, 3, 1, put("a", 1, 1), timeout_ms=50)
    made.flush()
    assert same(made.on_time(51, 0), [Reply(1, CoordinatorNotAvailable())])
    assert made.on_high_watermark(3, Offset(1)) == []


def test_a_request_that_is_answered_does_not_time_out() -> None:
    made = active()
    made.run(1, 3, 1, put("a", 1, 1), timeout_ms=50)
    made.flush()
    assert made.on_high_watermark(3, Offset(1)) == [Reply(1, None)]
    assert made.on_time(51, 0) == []


def test_timers_are_set_anew_and_cancelled_and_go_with_their_shard() -> None:
    made = active(Record("a", 4))  # set when it was loaded
    made.run(500, 3, 1, put("a", 5, 1))
    made.flush()
    made.on_high_watermark(3, Offset(2))
    assert made.on_time(1_000, 0) == []
    made.run(1_100, 3, 2, lambda _: Decision(effects=[SetTimer("b", 100), Reply(2, 0)]))
    made.run(1_150, 3, 3, lambda _: Decision(effects=[CancelTimer("b"), Reply(3, 0)]))
    made.flush()
    assert made.on_time(1_499, 0) == []
    assert made.on_time(1_500, 0) == []
    assert made.flush() == [Append(P3, EPOCH, Offset(2), ((b"a", None),))]
    assert made.coordinators()[3].numbers == {}


def test_what_all_shards_are_told_is_decided_by_those_that_are_loaded() -> None:
    made = active(Record("a", 4))
    made.on_leadership_began(1, 5, EPOCH)
    assert made.tell(2, lambda counts: Decision([Record("x", len(counts.numbers))])) == []
    assert made.flush() == [Append(P3, EPOCH, Offset(1), ((b"x", b"1"),))]


# ---- against a dumb twin -------------------------------------------------------------------------

Step = tuple[str, int]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(("put", "get", "flush", "commit", "fail", "move", "late")),
            st.integers(0, 3),
        ),
        max_size=60,
    )
)
def test_every_request_is_answered_once_and_never_before_its_commit(steps: list[Step]) -> None:
    """A log that is all the truth: a reply about a number must find it committed there."""
    made, log, committed, answers = active(), [], 0, {}
    asked, now, epoch = 0, 0, EPOCH

    def take(effects: list[RuntimeEffect]) -> None:
        nonlocal now
        for effect in effects:
            match effect:
                case Append(_, _, first, records):
                    assert first == len(log)
                    log.extend(records)
                case Reply(request_id, response):
                    assert request_id not in answers
                    answers[request_id] = response
                    if isinstance(response, int):
                        assert (b"k", str(response).encode()) in log[:committed]
                case ReadLog(_, at, offset):
                    records = tuple(Record("k", int(value or b"0")) for _, value in log[offset:])
                    appends = (AppendRecords(offset, records),) if records else ()
                    end = Offset(len(log))
                    take(made.on_read(now, 0, 3, at, LogSlice(appends, end), end))
                case _:
                    assert isinstance(effect, (ShardLoaded, ShardFailed))

    for what, number in steps:
        now += 1
        match what:
            case "put":
                asked += 1
                take(made.run(now, 3, asked, _put_answering_itself(asked)))
            case "get":
                asked += 1
                take(made.run(now, 3, asked, _get_or_nothing(asked)))
            case "flush":
                take(made.flush())
            case "commit":
                committed = min(len(log), committed + number)
                take(made.on_high_watermark(3, Offset(committed)))
            case "fail":
                take(made.flush())
                del log[max(committed, len(log) - number) :]  # or it is there all the same
                take(made.on_append_failed(now, 3, epoch, PylogError("x")))
            case "move":
                take(made.on_leadership_ended(3))
                epoch = LeaderEpoch(epoch + 1)
                take(made.on_leadership_began(now, 3, epoch))
                take(made.on_high_watermark(3, Offset(committed)))
            case "late":
                now += RELOAD_AFTER_MS
                take(made.on_time(now, 0))
                take(made.on_high_watermark(3, Offset(committed)))
    take(made.flush())
    committed = len(log)
    take(made.on_high_watermark(3, Offset(committed)))
    assert answers.keys() == set(range(1, asked + 1))


def _put_answering_itself(request_id: int) -> Callable[[Counts], Decision]:
    return lambda _: Decision([Record("k", request_id)], [Reply(request_id, request_id)])


def _get_or_nothing(request_id: int) -> Callable[[Counts], Decision]:
    return lambda counts: Decision(effects=[Reply(request_id, counts.numbers.get("k"))])


# ---- where a group belongs -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "partition"),
    [("group1", 40), ("my-group", 12), ("test", 48), ("polygenelubricants", 0), ("", 0)],
)
def test_a_key_belongs_to_the_partition_that_kafka_gives_it(key: str, partition: int) -> None:
    assert partition_for(key, 50) == partition
