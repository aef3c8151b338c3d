from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest

from pylog import errors
from pylog.client.accumulator import Accumulator, AccumulatorSettings
from pylog.client.lanes import SEQUENCE_MAX, next_sequence
from pylog.client.metadata import (
    Address,
    BrokerInfo,
    ClusterMetadata,
    ClusterSnapshot,
    PartitionInfo,
    TopicInfo,
)
from pylog.client.producer_batch import Batch
from pylog.client.send_events import (
    Ack,
    BatchDone,
    BatchFailed,
    BatchSplit,
    Disconnect,
    Effect,
    RefreshMetadata,
    RequestProducerId,
    SendRequest,
)
from pylog.client.send_settings import SenderSettings
from pylog.client.sender import Sender
from pylog.model import TopicPartition

T0, T1, T2 = (TopicPartition("t", p) for p in range(3))
OK = Ack(0, base_offset=0)


def refused(error: type[errors.PylogError], **more: int) -> Ack:
    return Ack(error.code, "by the test", **more)


def halves(batch: Batch, _size: int) -> list[Batch]:
    """A split of a batch that is never encoded."""
    parts = []
    for records in (batch.values[: batch.count // 2], batch.values[batch.count // 2 :]):
        part = Batch(batch.topic_partition, batch.created_ms, batch.delivery, 1_000)
        for value in records:
            part.add(value, None, None, 0, 10)
        part.close()
        parts.append(part)
    return parts


class World:
    """A sender with its accumulator and metadata, and a clock that the test turns."""

    def __init__(
        self,
        *,
        leaders: Sequence[int] = (1, 2, 1),
        settings: SenderSettings | None = None,
        producer_id: int | None = 7,
        linger_ms: int = 0,
        batch_max_size: int = 1_000,
    ) -> None:
        self.now_ms = 1_000
        self.metadata = ClusterMetadata()
        self.lead(*leaders)
        numbers = itertools.count()
        self.accumulator = Accumulator(
            AccumulatorSettings(1_000, batch_max_size, linger_ms, 16 << 20),
            make_delivery=lambda: next(numbers),
            available=self.metadata.available,
            draw=lambda _n: 0,
        )
        self.accumulator.topic("t", 3)
        self.sender = Sender(
            settings or SenderSettings(), self.accumulator, self.metadata, lambda: 0.5, halves
        )
        if producer_id is not None:
            assert self.poll() == ([RequestProducerId()] if self.idempotent else [])
            if self.idempotent:
                assert self.sender.on_producer_id(self.now_ms, producer_id, 0) == []

    @property
    def idempotent(self) -> bool:
        return self.sender.settings.idempotent

    def lead(self, *leaders: int, epoch: int = 0, topic_id: str = "id") -> None:
        brokers = (1, 2, 3)
        self.metadata.update(
            ClusterSnapshot(
                "c",
                1,
                tuple(BrokerInfo(b, Address("h", b)) for b in brokers),
                None,
                (TopicInfo("t", topic_id, False, tuple(PartitionInfo(n, epoch) for n in leaders)),),
            )
        )

    def add(self, tp: TopicPartition = T0, count: int = 1) -> Batch:
        """A closed batch of `count` records."""
        buffer = self.accumulator.topics["t"]
        self.accumulator.open_batch(self.now_ms, buffer, tp.partition, 10)
        batch = buffer.open[tp.partition]
        for _ in range(count):
            batch.add(b"v", None, None, self.now_ms, 10)
        self.accumulator.close_batch(buffer, tp.partition)
        return batch

    def poll(self, after_ms: int = 0) -> list[Effect]:
        self.now_ms += after_ms
        return self.sender.poll(self.now_ms)

    def acks(self, broker: int, correlation: int, *acks: Ack) -> list[Effect]:
        return self.sender.on_acks(self.now_ms, broker, [(correlation, acks)])


def sequences(effects: Sequence[Effect]) -> list[tuple[int, list[int]]]:
    return [
        (e.broker, [b.base_sequence for b in e.batches])
        for e in effects
        if isinstance(e, SendRequest)
    ]


def test_ready_batches_of_a_broker_share_one_request_with_one_batch_per_partition() -> None:
    world = World()
    a, b, c, d = world.add(T0), world.add(T1), world.add(T2), world.add(T0)
    assert world.poll() == [
        SendRequest(1, 1, (a, c)),
        SendRequest(2, 2, (b,)),
        SendRequest(1, 3, (d,)),
    ]
    assert world.acks(1, 1, OK, OK) == [BatchDone(a, 0, -1), BatchDone(c, 0, -1)]


def test_sequences_count_records_and_belong_to_the_partition() -> None:
    world = World()
    batches = [world.add(T0, 3), world.add(T0, 2), world.add(T1, 5), world.add(T0)]
    world.poll()
    assert [(b.producer_id, b.base_sequence) for b in batches] == [(7, 0), (7, 3), (7, 0), (7, 5)]


def test_sequences_wrap_after_the_largest() -> None:
    assert next_sequence(SEQUENCE_MAX - 2, 2) == SEQUENCE_MAX
    assert next_sequence(SEQUENCE_MAX - 2, 3) == 0
    assert next_sequence(SEQUENCE_MAX, 5) == 4


def test_nothing_is_sent_before_there_is_a_producer_id() -> None:
    world = World(producer_id=None)
    batch = world.add()
    assert world.poll() == [RequestProducerId()]
    assert world.poll() == []  # asked already
    assert world.sender.on_producer_id_failed(world.now_ms, errors.CoordinatorNotAvailable()) == []
    assert world.poll(50) == []
    assert world.poll(50) == [RequestProducerId()]
    effects = world.sender.on_producer_id(world.now_ms, 9, 0)
    assert effects == [SendRequest(1, 1, (batch,))]
    assert batch.producer_id == 9


def test_at_most_five_requests_are_in_flight_to_a_broker() -> None:
    world = World()
    batches = [world.add() for _ in range(7)]
    assert len(world.poll()) == 5
    assert world.poll() == []
    # The next ones go together, when half of those are answered.
    assert world.acks(1, 1, OK) == [BatchDone(batches[0], 0, -1)]
    assert world.acks(1, 2, OK) == [BatchDone(batches[1], 0, -1)]
    assert world.acks(1, 3, OK) == [
        BatchDone(batches[2], 0, -1),
        SendRequest(1, 6, (batches[5],)),
        SendRequest(1, 7, (batches[6],)),
    ]


def test_below_the_limit_a_request_waits_for_no_answer() -> None:
    world = World()
    for number in range(1, 5):
        batch = world.add()
        assert world.poll() == [SendRequest(1, number, (batch,))]
    world.acks(1, 1, OK)
    batch = world.add()
    assert world.poll() == [SendRequest(1, 5, (batch,))]


def test_with_one_request_allowed_each_answer_makes_room_for_the_next() -> None:
    world = World(settings=SenderSettings(max_in_flight=1))
    batches = [world.add() for _ in range(2)]
    assert world.poll() == [SendRequest(1, 1, (batches[0],))]
    assert world.acks(1, 1, OK) == [BatchDone(batches[0], 0, -1), SendRequest(1, 2, (batches[1],))]


def test_answers_of_one_message_are_taken_in_before_anything_is_sent() -> None:
    world = World()
    batches = [world.add() for _ in range(7)]
    world.poll()
    assert world.sender.would_wait(batches[0].topic_partition)
    effects = world.sender.on_acks(world.now_ms, 1, [(n, [OK]) for n in (1, 2, 3, 4)])
    assert effects == [
        *(BatchDone(batch, 0, -1) for batch in batches[:4]),
        SendRequest(1, 6, (batches[5],)),
        SendRequest(1, 7, (batches[6],)),
    ]
    assert not world.sender.would_wait(batches[0].topic_partition)


def test_an_unknown_leader_asks_for_metadata_and_the_batch_waits() -> None:
    world = World(leaders=(-1, 2, 1))
    batch = world.add()
    assert world.poll() == [RefreshMetadata(("t",))]
    assert world.poll() == []  # not again at once
    assert world.poll(100) == [RefreshMetadata(("t",))]
    world.lead(3, 2, 1, epoch=1)
    assert world.sender.on_metadata(world.now_ms) == [SendRequest(3, 1, (batch,))]


def test_a_refused_batch_is_retried_after_a_backoff_with_the_same_sequence() -> None:
    world = World()
    batch = world.add()
    world.poll()
    assert world.acks(1, 1, refused(errors.NotEnoughReplicas)) == []
    assert world.sender.next_deadline_ms(world.now_ms) == world.now_ms + 100
    assert world.poll(99) == []
    assert world.poll(1) == [SendRequest(1, 2, (batch,))]
    assert batch.base_sequence == 0
    assert world.acks(1, 2, refused(errors.NotEnoughReplicas)) == []
    assert world.poll(199) == []
    assert world.poll(1) == [SendRequest(1, 3, (batch,))]


def test_no_later_batch_overtakes_one_that_is_retried() -> None:
    world = World()
    first, second, third = world.add(), world.add(), world.add()
    world.poll()
    world.acks(1, 1, refused(errors.NotEnoughReplicas))
    # The broker refuses what follows the gap.
    assert world.acks(1, 2, refused(errors.OutOfOrderSequenceNumber)) == []
    assert world.acks(1, 3, refused(errors.OutOfOrderSequenceNumber)) == []
    fourth = world.add()
    assert world.poll(100) == [SendRequest(1, 4, (first,))]
    assert world.acks(1, 4, OK) == [BatchDone(first, 0, -1), SendRequest(1, 5, (second,))]
    # The last one in retry is on its way: new ones may follow it.
    assert world.acks(1, 5, OK) == [
        BatchDone(second, 0, -1),
        SendRequest(1, 6, (third,)),
        SendRequest(1, 7, (fourth,)),
    ]
    assert [b.base_sequence for b in (first, second, third, fourth)] == [0, 1, 2, 3]


def test_new_batches_wait_while_earlier_ones_are_in_flight_to_the_old_leader() -> None:
    world = World()
    old = world.add()
    world.poll()
    world.lead(3, 2, 1, epoch=1)
    world.sender.on_metadata(world.now_ms)
    new = world.add()
    assert world.poll() == []
    effects = world.acks(1, 1, OK)
    assert effects == [BatchDone(old, 0, -1), SendRequest(3, 2, (new,))]


def test_a_named_new_leader_is_tried_at_once() -> None:
    world = World()
    batch = world.add()
    world.poll()
    effects = world.acks(1, 1, refused(errors.NotLeaderOrFollower, leader=3, leader_epoch=1))
    assert effects == [RefreshMetadata(("t",)), SendRequest(3, 2, (batch,))]


def test_a_broken_stream_leaves_the_outcome_unknown_and_the_batch_is_sent_again() -> None:
    world = World()
    batch = world.add()
    world.poll()
    assert world.sender.on_disconnected(world.now_ms, 1, "reset") == [RefreshMetadata(("t",))]
    assert batch.maybe_stored
    assert world.poll(100) == [SendRequest(1, 2, (batch,))]
    assert batch.base_sequence == 0
    # It had been stored: the broker recognises it.
    assert world.acks(1, 2, Ack(errors.DuplicateSequenceNumber.code, base_offset=4)) == [
        BatchDone(batch, 4, -1)
    ]


def test_a_broker_that_refuses_connections_is_not_tried_for_every_partition() -> None:
    world = World()
    world.add(T0)
    world.poll()
    world.sender.on_disconnected(world.now_ms, 1, "refused")
    world.add(T2)
    assert world.poll() == []
    assert sequences(world.poll(100)) == [(1, [0, 0])]


def test_after_its_delivery_timeout_a_batch_that_was_never_sent_is_not_stored() -> None:
    world = World(leaders=(-1, 2, 1))
    batch = world.add()
    world.poll()
    assert world.sender.next_deadline_ms(world.now_ms) == world.now_ms + 100
    (failed,) = [e for e in world.poll(120_000) if isinstance(e, BatchFailed)]
    assert failed.batch is batch
    assert isinstance(failed.error, errors.DeliveryTimedOut)
    assert "never sent" in str(failed.error)
    assert "no live leader" in str(failed.error)
    assert world.accumulator.used == 0
    # No sequence was spent: the next one begins at 0.
    world.lead(1, 2, 1, epoch=1)
    follower = world.add()
    assert sequences(world.sender.on_metadata(world.now_ms)) == [(1, [0])]
    assert follower.base_sequence == 0


def test_nothing_new_follows_a_lost_batch_under_its_producer_id() -> None:
    world = World()
    first = world.add()
    world.poll()
    world.sender.on_disconnected(world.now_ms, 1, "reset")
    (failed, asked) = world.poll(120_000)
    assert isinstance(failed, BatchFailed)
    assert failed.batch is first
    assert "may or may not be stored" in str(failed.error)
    assert asked == RequestProducerId()
    # The second does not take the sequence that the lost one may have used.
    second = world.add()
    assert world.poll() == []
    assert sequences(world.sender.on_producer_id(world.now_ms, 8, 0)) == [(1, [0])]
    assert second.producer_id == 8


def test_an_unknown_batch_behind_a_refused_one_fails() -> None:
    world = World()
    first, second = world.add(), world.add()
    world.poll()
    world.acks(1, 1, refused(errors.NotEnoughReplicas))
    world.acks(1, 2, refused(errors.NotLeaderOrFollower))  # perhaps stored
    assert sequences(world.poll(100)) == [(1, [0])]
    effects = world.acks(1, 3, refused(errors.OutOfOrderSequenceNumber))
    assert [e.batch for e in effects if isinstance(e, BatchFailed)] == [second]
    assert RequestProducerId() in effects
    assert sequences(world.sender.on_producer_id(world.now_ms, 8, 0)) == [(1, [0])]
    assert first.producer_id == 8


def test_an_unknown_batch_is_never_sent_under_another_producer_id() -> None:
    world = World()
    first, second = world.add(), world.add()
    world.poll()
    world.sender.on_disconnected(world.now_ms, 1, "reset")  # both unknown
    world.poll(100)
    effects = world.acks(1, 3, refused(errors.OutOfOrderSequenceNumber))
    assert [e.batch for e in effects if isinstance(e, BatchFailed)] == [first]
    # The next in line goes out as it is, and is refused as well.
    assert sequences(effects + world.poll(2_000)) == [(1, [1])]
    effects = world.acks(1, 4, refused(errors.OutOfOrderSequenceNumber))
    assert [e.batch for e in effects if isinstance(e, BatchFailed)] == [second]
    assert second.producer_id == 7
    assert RequestProducerId() in effects


def test_a_later_success_proves_that_the_lost_batch_was_stored() -> None:
    world = World(settings=SenderSettings(delivery_timeout_ms=10_000))
    first = world.add()
    world.poll()
    world.poll(5_000)
    second = world.add()
    world.poll()
    assert second.in_flight
    effects = world.poll(5_000)
    assert [e.batch for e in effects if isinstance(e, BatchFailed)] == [first]
    third = world.add()
    assert world.poll() == []  # whether the first was stored is open
    effects = world.acks(1, 2, Ack(0, base_offset=1))
    assert effects == [BatchDone(second, 1, -1), SendRequest(1, 3, (third,))]
    assert (third.producer_id, third.base_sequence) == (7, 2)


def test_a_late_success_of_a_lost_batch_closes_its_gap() -> None:
    world = World(settings=SenderSettings(delivery_timeout_ms=10_000))
    world.add()
    world.poll()
    effects = world.poll(10_000)
    assert [type(e) for e in effects if not isinstance(e, RefreshMetadata)] == [
        BatchFailed,
        RequestProducerId,
    ]
    assert world.acks(1, 1, OK) == []
    follower = world.add()
    assert sequences(world.poll()) == [(1, [1])]
    assert follower.producer_id == 7


def test_what_is_certainly_not_stored_moves_to_a_fresh_producer_id() -> None:
    world = World()
    done, lost, waiting = world.add(), world.add(), world.add()
    world.poll()
    world.acks(1, 1, OK)
    # The broker forgot what it acknowledged (an unclean election): the next in line is refused.
    assert world.acks(1, 2, refused(errors.OutOfOrderSequenceNumber)) == []
    assert world.acks(1, 3, refused(errors.OutOfOrderSequenceNumber)) == [RequestProducerId()]
    effects = world.sender.on_producer_id(world.now_ms, 8, 0)
    assert effects == [SendRequest(1, 4, (lost,))]
    assert done.producer_id == 7
    assert [(b.producer_id, b.base_sequence) for b in (lost, waiting)] == [(8, 0), (8, 1)]
    assert world.acks(1, 4, OK) == [BatchDone(lost, 0, -1), SendRequest(1, 5, (waiting,))]


def test_other_partitions_keep_their_producer_id() -> None:
    world = World()
    world.add(T0)
    world.add(T1)
    world.poll()
    world.acks(2, 2, OK)
    world.acks(1, 1, refused(errors.OutOfOrderSequenceNumber))
    world.sender.on_producer_id(world.now_ms, 8, 0)
    other = world.add(T1)
    world.poll()
    assert (other.producer_id, other.base_sequence) == (7, 1)


def test_a_final_refusal_fails_the_batch_and_its_sequence_is_used_again() -> None:
    world = World()
    large = world.add()
    world.poll()
    (failed,) = world.acks(1, 1, refused(errors.MessageTooLarge))
    assert isinstance(failed, BatchFailed)
    assert failed.batch is large
    assert isinstance(failed.error, errors.MessageTooLarge)
    assert "t-0" in str(failed.error)
    world.add()
    assert sequences(world.poll()) == [(1, [0])]


def test_a_batch_too_large_is_taken_apart_under_its_own_sequences() -> None:
    world = World()
    large, behind = world.add(T0, 5), world.add(T0, 2)
    world.poll()
    first, second = world.acks(1, 1, refused(errors.MessageTooLarge)), behind
    split, sent = first
    assert isinstance(split, BatchSplit)
    assert split.batch is large
    assert [part.count for part in split.parts] == [2, 3]
    # The batch behind is in flight, and refused for its sequence; then one at a time, in order.
    assert sent == RefreshMetadata(("t",)) or sequences([sent]) == [(1, [0])]
    assert second.base_sequence == 5
    assert [part.base_sequence for part in split.parts] == [0, 2]
    assert world.acks(1, 2, refused(errors.OutOfOrderSequenceNumber)) == []
    assert sequences(world.acks(1, 3, OK)) == [(1, [2])]
    assert sequences(world.acks(1, 4, OK)) == [(1, [5])]
    assert world.acks(1, 5, OK) == [BatchDone(behind, 0, -1)]
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
        return world.sender.may_grow(world.now_ms, tp)

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
    assert world.sender.may_grow(world.now_ms, T0)


def test_a_batch_that_still_grows_waits_while_its_broker_is_busy() -> None:
    world = World(batch_max_size=4_000, linger_ms=60_000)
    buffer = world.accumulator.topics["t"]
    for _ in range(2):
        world.add()
    assert sequences(world.poll()) == [(1, [0]), (1, [1])]
    world.accumulator.open_batch(world.now_ms, buffer, 0, 10)
    growing = buffer.open[0]
    growing.add(b"v", None, None, 0, 10)
    assert world.accumulator.extend_batch(buffer, growing)
    assert world.poll() == []
    assert sequences(world.acks(1, 1, OK)) == [(1, [2])]
    assert growing.closed


def test_a_batch_that_can_grow_no_more_does_not_wait() -> None:
    world = World(batch_max_size=4_000, linger_ms=60_000)
    buffer = world.accumulator.topics["t"]
    for _ in range(2):
        world.add()
    world.poll()
    world.accumulator.open_batch(world.now_ms, buffer, 0, 10)
    buffer.open[0].add(b"v", None, None, 0, 10)
    assert world.accumulator.extend_batch(buffer, buffer.open[0])
    world.accumulator.close_batch(buffer, 0)
    assert sequences(world.poll()) == [(1, [2])]


def test_brokers_that_take_nothing_are_known_by_how_long() -> None:
    world = World(settings=SenderSettings(max_in_flight=1))
    world.add()
    world.poll()
    world.add()
    world.poll()
    assert world.sender.pipes.stalled(world.now_ms + 50, 50) == set()
    assert world.sender.pipes.stalled(world.now_ms + 51, 50) == {1}
    world.acks(1, 1, OK)
    assert world.sender.pipes.stalled(world.now_ms + 51, 50) == set()


def test_the_guilty_record_is_named() -> None:
    world = World()
    world.add(T0, 3)
    world.poll()
    (failed,) = world.acks(1, 1, refused(errors.InvalidRecord, record_index=2))
    assert isinstance(failed, BatchFailed)
    assert failed.record_index == 2


def test_batches_behind_a_final_refusal_follow_under_a_fresh_id() -> None:
    world = World()
    bad, good = world.add(), world.add()
    world.poll()
    effects = world.acks(1, 1, refused(errors.InvalidRecord))
    assert [e.batch for e in effects if isinstance(e, BatchFailed)] == [bad]
    assert world.acks(1, 2, refused(errors.OutOfOrderSequenceNumber)) == [RequestProducerId()]
    assert sequences(world.sender.on_producer_id(world.now_ms, 8, 0)) == [(1, [0])]
    assert good.producer_id == 8


def test_a_topic_that_vanishes_for_a_moment_keeps_its_sequences() -> None:
    world = World()
    world.add()
    world.poll()
    world.acks(1, 1, OK)
    snapshot = ClusterSnapshot(
        "c", 1, (), None, (TopicInfo("t", error=errors.UnknownTopicOrPartition()),)
    )
    world.metadata.update(snapshot)
    world.sender.on_metadata(world.now_ms)
    world.add()
    assert sequences(world.poll()) == [(1, [1])]


def test_records_for_a_deleted_topic_do_not_go_to_its_successor() -> None:
    world = World()
    sent, queued = world.add(), None
    world.poll()
    world.sender.on_disconnected(world.now_ms, 1, "reset")
    world.lead(1, 2, 1, topic_id="other")
    effects = world.sender.on_metadata(world.now_ms)
    assert [(e.batch, type(e.error)) for e in effects if isinstance(e, BatchFailed)] == [
        (sent, errors.UnknownTopicId)
    ]
    queued = world.add()
    assert sequences(world.poll(1_000)) == [(1, [0])]
    assert queued.producer_id == 7


def test_a_silent_broker_makes_the_sender_look_for_another_leader() -> None:
    world = World()
    batch = world.add()
    world.poll()
    assert world.sender.next_deadline_ms(world.now_ms) == world.now_ms + 1_000
    assert world.poll(1_000) == [RefreshMetadata(("t",))]
    world.lead(3, 2, 1, epoch=1)
    # The stream to the frozen broker is cut, and the batch goes to the new leader.
    assert world.sender.on_metadata(world.now_ms) == [Disconnect(1), RefreshMetadata(("t",))]
    assert batch.maybe_stored
    assert world.poll(100) == [SendRequest(3, 2, (batch,))]
    assert world.acks(1, 1, OK) == []  # the frozen broker's late answer means nothing


def test_a_request_that_is_overdue_cuts_the_stream() -> None:
    world = World()
    batch = world.add()
    world.poll()
    effects = world.poll(30_000)
    assert effects == [Disconnect(1), RefreshMetadata(("t",))]
    assert world.poll(200) == [SendRequest(1, 2, (batch,))]


def test_without_acknowledgements_a_batch_is_done_when_it_is_sent() -> None:
    world = World(settings=SenderSettings(acks=0, idempotent=False), producer_id=None)
    batches = [world.add() for _ in range(7)]
    effects = world.poll()
    assert effects[:2] == [SendRequest(1, 1, (batches[0],)), BatchDone(batches[0], -1, -1)]
    assert len(effects) == 10  # five requests: the stream's queue is bounded all the same
    assert world.sender.on_written(world.now_ms, 1, 1) == []
    assert world.sender.on_written(world.now_ms, 1, 2) == []
    assert world.sender.on_written(world.now_ms, 1, 3) == [
        SendRequest(1, 6, (batches[5],)),
        BatchDone(batches[5], -1, -1),
        SendRequest(1, 7, (batches[6],)),
        BatchDone(batches[6], -1, -1),
    ]
    assert world.accumulator.used == 0


def test_without_idempotence_batches_carry_no_sequence() -> None:
    world = World(settings=SenderSettings(acks=1, idempotent=False), producer_id=None)
    batch = world.add()
    assert world.poll() == [SendRequest(1, 1, (batch,))]
    assert (batch.producer_id, batch.base_sequence) == (-1, -1)
    (failed,) = world.acks(1, 1, refused(errors.MessageTooLarge))
    assert isinstance(failed, BatchFailed)
    world.add()
    assert sequences(world.poll()) == [(1, [-1])]


def test_retries_are_counted() -> None:
    world = World(settings=SenderSettings(retries=1))
    world.add()
    world.poll()
    assert world.acks(1, 1, refused(errors.NotEnoughReplicas)) == []
    world.poll(100)
    (failed,) = world.acks(1, 2, refused(errors.NotEnoughReplicas))
    assert isinstance(failed, BatchFailed)


def test_closing_fails_what_is_left() -> None:
    world = World()
    sent, waiting = world.add(), world.add(T1)
    world.poll()
    world.lead(1, -1, 1, epoch=1)
    unsent = world.add(T1)
    effects = world.sender.fail_all(errors.ClientClosed("closed"))
    assert [e.batch for e in effects if isinstance(e, BatchFailed)] == [sent, waiting, unsent]
    assert world.accumulator.used == 0


@pytest.mark.parametrize("seed", range(80))
def test_any_schedule_stores_each_acknowledged_batch_once_and_in_order(seed: int) -> None:
    """A dumb broker with sequences, and every fault in a random order."""
    import random

    rng = random.Random(seed)
    world = World(settings=SenderSettings(delivery_timeout_ms=20_000))
    log: list[Batch] = []
    producers: dict[int, list[tuple[int, int]]] = {}
    wire: list[tuple[SendRequest, list[tuple[int, int]]]] = []
    done: list[Batch] = []
    failed: list[Batch] = []
    added: list[Batch] = []
    ids = itertools.count(100)

    def store(batch: Batch, stamp: tuple[int, int]) -> Ack:
        producer_id, sequence = stamp
        recent = producers.setdefault(producer_id, [])
        if (sequence, batch.count) in recent[-5:]:
            return OK
        expected = recent[-1][0] + recent[-1][1] if recent else 0
        if sequence != expected:
            return refused(errors.OutOfOrderSequenceNumber)
        recent.append((sequence, batch.count))
        log.append(batch)
        return OK

    def perform(effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, SendRequest):
                stamps = [(b.producer_id, b.base_sequence) for b in effect.batches]
                wire.append((effect, stamps))
            elif isinstance(effect, BatchDone):
                done.append(effect.batch)
            elif isinstance(effect, BatchFailed):
                failed.append(effect.batch)
            elif isinstance(effect, BatchSplit):
                place = added.index(effect.batch)
                added[place : place + 1] = effect.parts
            elif isinstance(effect, RequestProducerId):
                perform(world.sender.on_producer_id(world.now_ms, next(ids), 0))
            elif isinstance(effect, Disconnect):
                wire.clear()

    for _ in range(300):
        action = rng.random()
        if action < 0.35 and len(added) < 40:
            added.append(world.add(T0, rng.randint(1, 3)))
            perform(world.poll())
        elif action < 0.75 and wire:
            request, stamps = wire.pop(0)
            (batch,) = request.batches
            kind = rng.random()
            if kind < 0.08 and batch.count > 1 and not batch.maybe_stored:
                ack = refused(errors.MessageTooLarge)
            elif kind < 0.15:
                ack = refused(errors.NotEnoughReplicas)
            elif kind < 0.25:
                store(batch, stamps[0])
                ack = refused(errors.NotEnoughReplicasAfterAppend)
            else:
                ack = store(batch, stamps[0])
            perform(world.acks(request.broker, request.correlation, ack))
        elif action < 0.85 and wire:
            for request, stamps in wire[: rng.randint(0, len(wire))]:
                store(request.batches[0], stamps[0])
            wire.clear()
            perform(world.sender.on_disconnected(world.now_ms, 1, "reset"))
        else:
            perform(world.poll(rng.choice((1, 50, 200, 1_500, 7_000))))

    def quiet(rounds: int) -> None:
        for _ in range(rounds):
            while wire:
                request, stamps = wire.pop(0)
                ack = store(request.batches[0], stamps[0])
                perform(world.acks(request.broker, request.correlation, ack))
            perform(world.poll(200))

    # Once the faults end, whatever is left is settled long before its time is up.
    quiet(25)
    assert len(done) + len(failed) == len(added), "stuck"
    added.append(world.add(T0))
    quiet(10)
    assert added[-1] in done
    assert sorted(map(id, done + failed)) == sorted(map(id, added))
    assert len(set(map(id, log))) == len(log), "stored twice"
    assert set(map(id, done)) <= set(map(id, log)), "acknowledged, not stored"
    order = {id(batch): place for place, batch in enumerate(added)}
    places = [order[id(batch)] for batch in log]
    assert places == sorted(places), "out of order"
    assert world.accumulator.used == 0
