"""The sender: batches that are too large, and batches that may grow."""

from __future__ import annotations

from pylog import errors
from pylog.client.cluster.message_sizes import TooLarge
from pylog.client.sending.send_events import (
    BatchDone,
    BatchFailed,
    BatchSplit,
    RefreshMetadata,
    RequestProducerId,
    SendRequest,
)
from pylog.model import TopicPartition
from tests.fakes.sender_world import OK, T0, T1, World, begun, refused, sequences


def test_a_batch_too_large_is_taken_apart_under_its_own_sequences() -> None:
    world = begun()
    large, behind = world.add(T0, 5), world.add(T0, 2)
    world.poll()
    first, second = world.acks(1, 4, refused(errors.MessageTooLarge)), behind
    split, sent = first
    assert isinstance(split, BatchSplit)
    assert split.batch is large
    assert [part.count for part in split.parts] == [2, 3]
    # The batch behind is in flight, and refused for its sequence; then one at a time, in order.
    assert sent == RefreshMetadata(("t",)) or sequences([sent]) == [(1, [1])]
    assert second.base_sequence == 6
    assert [part.base_sequence for part in split.parts] == [1, 3]
    assert world.acks(1, 5, refused(errors.OutOfOrderSequenceNumber)) == []
    assert sequences(world.acks(1, 6, OK)) == [(1, [3])]
    assert sequences(world.acks(1, 7, OK)) == [(1, [6])]
    assert world.acks(1, 8, OK) == [BatchDone(behind, 0, -1)]
    assert world.accumulator.used == 0
    assert not world.accumulator.incomplete
    assert not world.accumulator.topics["t"].grows


def test_parts_that_are_too_large_are_taken_apart_until_single_records_are_left() -> None:
    world = World()
    world.add(T0, 3)
    world.poll()
    outcomes = []
    for correlation in range(1, 20):
        if not world.accumulator.incomplete:
            break
        effects = world.acks(1, correlation, refused(errors.MessageTooLarge))
        outcomes += [type(e).__name__ for e in effects if not isinstance(e, SendRequest)]
        world.poll(200)
    assert outcomes.count("BatchFailed") == 3  # each record by itself is too large
    assert world.accumulator.used == 0


def test_a_full_batch_may_grow_in_a_steady_stream() -> None:
    world = World(batch_max_size=4_000)

    def may_grow(tp: TopicPartition = T0) -> bool:
        return world.sender.dispatcher.may_grow(world.now_ms, tp)

    assert not may_grow()
    large = 600_000
    for correlation in (1, 2, 3, 4):
        world.accumulator.add_encoded(world.now_ms, T0, b"x" * large, 1, 0)
        world.poll()
        world.acks(1, correlation, OK)
        assert may_grow() == (correlation * large >= 2 << 20)
        world.now_ms += 19  # a broker that is faster than its producer
    assert not may_grow(T1)  # another broker's
    assert may_grow()
    world.now_ms += 1
    assert not may_grow()  # it was paused: the next burst begins anew
    world.add()
    world.poll()
    assert not may_grow()


def test_a_full_batch_may_grow_when_much_waits() -> None:
    world = World(batch_max_size=4_000)
    for _ in range(4):
        world.accumulator.add_encoded(world.now_ms, T0, b"x" * 600_000, 1, 0)
    world.poll()
    assert world.sender.dispatcher.may_grow(world.now_ms, T0)


def test_a_batch_that_still_grows_waits_while_its_broker_is_busy() -> None:
    world = begun(batch_max_size=4_000, linger_ms=60_000)
    buffer = world.accumulator.topics["t"]
    for _ in range(2):
        world.add()
    assert sequences(world.poll()) == [(1, [1]), (1, [2])]
    world.accumulator.open_batch(world.now_ms, buffer, 0, 10)
    growing = buffer.open[0]
    growing.add(b"v", None, None, 0, 10)
    assert world.accumulator.extend_batch(buffer, growing)
    assert world.poll() == []
    assert sequences(world.acks(1, 4, OK)) == [(1, [3])]
    assert growing.closed


def test_a_batch_that_can_grow_no_more_does_not_wait() -> None:
    world = begun(batch_max_size=4_000, linger_ms=60_000)
    buffer = world.accumulator.topics["t"]
    for _ in range(2):
        world.add()
    world.poll()
    world.accumulator.open_batch(world.now_ms, buffer, 0, 10)
    buffer.open[0].add(b"v", None, None, 0, 10)
    assert world.accumulator.extend_batch(buffer, buffer.open[0])
    world.accumulator.close_batch(buffer, 0)
    assert sequences(world.poll()) == [(1, [3])]


# ---- messages that are larger than a side takes ------------------------------------------------


def encoded(world: World, tp: TopicPartition, size: int, count: int = 1) -> None:
    world.accumulator.add_encoded(world.now_ms, tp, b"x" * size, count, 0)


def test_a_record_larger_than_a_message_fails_and_what_is_behind_it_is_surely_not_stored() -> None:
    world = begun()
    for size in (100, 90_000, 100):
        encoded(world, T0, size)
    assert sequences(world.poll()) == [(1, [1]), (1, [2]), (1, [3])]
    before, large, behind = world.accumulator.incomplete
    too_large = TooLarge(90_050, 80_000, by_server=True, is_answer=False)
    failed, sent = world.sender.on_disconnected(world.now_ms, 1, "h:1: too large", too_large)[:2]
    assert isinstance(failed, BatchFailed)
    assert failed.batch is large
    assert isinstance(failed.error, errors.MessageTooLarge)
    assert str(failed.error) == "t-0: h:1: too large"
    assert sent == RefreshMetadata(("t",))
    assert (before.maybe_stored, behind.maybe_stored) == (True, False)
    # The one before goes again under its sequence; the one behind, which the broker then misses
    # one before, moves to a fresh producer id.
    assert sequences(world.poll(200)) == [(1, [1])]
    assert sequences(world.acks(1, 7, OK)) == [(1, [3])]
    assert RequestProducerId() in world.acks(1, 8, refused(errors.OutOfOrderSequenceNumber))
    assert sequences(world.sender.on_producer_id(world.now_ms, 8, 0)) == [(1, [0])]
    assert world.acks(1, 9, OK) == [BatchDone(behind, 0, -1)]


def test_batches_too_large_together_are_all_sent_again_fewer_at_once() -> None:
    world = World(leaders=(1, 1, 1))
    for tp in (T0, T1):
        encoded(world, tp, 50_000)
    assert sequences(world.poll()) == [(1, [0, 0])]
    too_large = TooLarge(100_050, 80_000, by_server=True, is_answer=False)
    effects = world.sender.on_disconnected(world.now_ms, 1, "h:1: too large", too_large)
    assert effects == [RefreshMetadata(("t",))]
    assert sequences(world.poll(200)) == [(1, [0]), (1, [0])]
