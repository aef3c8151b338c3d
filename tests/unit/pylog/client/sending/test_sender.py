"""The sender: which batches go in which requests, retries, and order."""

from __future__ import annotations

from pylog import errors
from pylog.client.sending.lanes import SEQUENCE_MAX, next_sequence
from pylog.client.sending.send_events import (
    Ack,
    BatchDone,
    BatchFailed,
    Disconnect,
    RefreshMetadata,
    RequestProducerId,
    SendRequest,
)
from pylog.client.sending.send_settings import SenderSettings
from tests.fakes.sender_world import OK, T0, T1, T2, World, begun, refused, sequences


def test_ready_batches_of_a_broker_share_one_request_with_one_batch_per_partition() -> None:
    world = begun()
    a, b, c, d = world.add(T0), world.add(T1), world.add(T2), world.add(T0)
    assert world.poll() == [
        SendRequest(1, 4, (a, c)),
        SendRequest(2, 5, (b,)),
        SendRequest(1, 6, (d,)),
    ]
    assert world.acks(1, 4, OK, OK) == [BatchDone(a, 0, -1), BatchDone(c, 0, -1)]


def test_sequences_count_records_and_belong_to_the_partition() -> None:
    world = begun()
    batches = [world.add(T0, 3), world.add(T0, 2), world.add(T1, 5), world.add(T0)]
    world.poll()
    assert [(b.producer_id, b.base_sequence) for b in batches] == [(7, 1), (7, 4), (7, 1), (7, 6)]


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
    world = begun()
    batches = [world.add() for _ in range(7)]
    assert len(world.poll()) == 5
    assert world.poll() == []
    # The next ones go together, when half of those are answered.
    assert world.acks(1, 4, OK) == [BatchDone(batches[0], 0, -1)]
    assert world.acks(1, 5, OK) == [BatchDone(batches[1], 0, -1)]
    assert world.acks(1, 6, OK) == [
        BatchDone(batches[2], 0, -1),
        SendRequest(1, 9, (batches[5],)),
        SendRequest(1, 10, (batches[6],)),
    ]


def test_below_the_limit_a_request_waits_for_no_answer() -> None:
    world = begun()
    for number in range(4, 8):
        batch = world.add()
        assert world.poll() == [SendRequest(1, number, (batch,))]
    world.acks(1, 4, OK)
    batch = world.add()
    assert world.poll() == [SendRequest(1, 8, (batch,))]


def test_with_one_request_allowed_each_answer_makes_room_for_the_next() -> None:
    world = World(settings=SenderSettings(max_in_flight=1))
    batches = [world.add() for _ in range(2)]
    assert world.poll() == [SendRequest(1, 1, (batches[0],))]
    assert world.acks(1, 1, OK) == [BatchDone(batches[0], 0, -1), SendRequest(1, 2, (batches[1],))]


def test_answers_of_one_message_are_taken_in_before_anything_is_sent() -> None:
    world = begun()
    batches = [world.add() for _ in range(7)]
    world.poll()
    assert world.sender.dispatcher.would_wait(batches[0].topic_partition)
    effects = world.sender.on_acks(world.now_ms, 1, [(n, [OK]) for n in (4, 5, 6, 7)])
    assert effects == [
        *(BatchDone(batch, 0, -1) for batch in batches[:4]),
        SendRequest(1, 9, (batches[5],)),
        SendRequest(1, 10, (batches[6],)),
    ]
    assert not world.sender.dispatcher.would_wait(batches[0].topic_partition)


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
    world = begun()
    first, second, third = world.add(), world.add(), world.add()
    world.poll()
    world.acks(1, 4, refused(errors.NotEnoughReplicas))
    # The broker refuses what follows the gap.
    assert world.acks(1, 5, refused(errors.OutOfOrderSequenceNumber)) == []
    assert world.acks(1, 6, refused(errors.OutOfOrderSequenceNumber)) == []
    fourth = world.add()
    assert world.poll(100) == [SendRequest(1, 7, (first,))]
    assert world.acks(1, 7, OK) == [BatchDone(first, 0, -1), SendRequest(1, 8, (second,))]
    # The last one in retry is on its way: new ones may follow it.
    assert world.acks(1, 8, OK) == [
        BatchDone(second, 0, -1),
        SendRequest(1, 9, (third,)),
        SendRequest(1, 10, (fourth,)),
    ]
    assert [b.base_sequence for b in (first, second, third, fourth)] == [1, 2, 3, 4]


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


def test_without_acknowledgements_a_closed_stream_has_leaders_looked_for() -> None:
    world = World(settings=SenderSettings(acks=0, idempotent=False), producer_id=None)
    for tp in (T0, T1):
        world.add(tp)
    world.poll()
    world.sender.on_written(world.now_ms, 1, 1)
    # Broker 1 closes its stream: it was deposed, and nothing else tells of it.
    assert world.sender.on_disconnected(world.now_ms, 1, "NOT_LEADER") == [RefreshMetadata(("t",))]
    first, second = world.add(), world.add()
    assert world.poll() == []
    world.lead(3, 2, 1, epoch=1)
    assert world.sender.on_metadata(world.now_ms) == [
        SendRequest(3, 3, (first,)),
        BatchDone(first, -1, -1),
        SendRequest(3, 4, (second,)),
        BatchDone(second, -1, -1),
    ]
    assert world.sender.on_disconnected(world.now_ms, 2, "reset") == [RefreshMetadata(("t",))]


def test_without_acknowledgements_a_broker_is_spared_less_again_after_a_while() -> None:
    world = World(settings=SenderSettings(acks=0, idempotent=False), producer_id=None)
    for correlation in (1, 2, 3):
        world.add()
        world.poll(1_000)
        world.sender.on_written(world.now_ms, 1, correlation)
        world.sender.on_disconnected(world.now_ms, 1, "reset")
    assert world.sender.pipes.of(1).retry_at_ms == world.now_ms + 400
    world.add()
    world.poll(1_400)
    world.sender.on_written(world.now_ms, 1, 4)
    world.sender.on_disconnected(world.now_ms, 1, "reset")
    assert world.sender.pipes.of(1).retry_at_ms == world.now_ms + 100


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


def test_an_answer_with_nothing_else_to_send_leaves_its_broker_at_rest() -> None:
    world = World()
    batch = world.add()
    world.poll()
    world.now_ms += 3
    assert world.acks(1, 1, OK) == [BatchDone(batch, 0, -1)]
    assert world.sender.pipes.of(1).idle_ms == world.now_ms
