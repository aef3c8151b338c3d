"""The sender: batches that are lost, and what may follow them under which producer id."""

from __future__ import annotations

import itertools

import pytest

from pylog import errors
from pylog.client.cluster.metadata import (
    ClusterSnapshot,
    TopicInfo,
)
from pylog.client.sending.producer_batch import Batch
from pylog.client.sending.send_events import (
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
from pylog.client.sending.send_settings import SenderSettings
from tests.fakes.sender_world import OK, T0, T1, World, begun, refused, sequences


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


def requests(effects: list[Effect]) -> list[SendRequest]:
    return [effect for effect in effects if isinstance(effect, SendRequest)]


def test_a_batch_whose_time_is_up_tells_the_fault_of_its_own_partition() -> None:
    world = World(leaders=(1, 2, 1), settings=SenderSettings(delivery_timeout_ms=1_500))
    world.add(T0)
    world.add(T1)
    for sent in requests(world.poll()):
        full = Ack(errors.KafkaStorageError.code, f"no room on disk {sent.broker}")
        world.acks(sent.broker, sent.correlation, full)
    told = [str(e.error) for e in world.poll(1_500) if isinstance(e, BatchFailed)]
    assert [text.partition("last fault: ")[2] for text in told] == [
        "KAFKA_STORAGE_ERROR: t-0: no room on disk 1",
        "KAFKA_STORAGE_ERROR: t-1: no room on disk 2",
    ]


def test_a_fault_that_has_passed_is_not_told() -> None:
    world = World(settings=SenderSettings(delivery_timeout_ms=1_500))
    world.add(T0)
    (sent,) = requests(world.poll())
    world.acks(1, sent.correlation, refused(errors.KafkaStorageError))
    (again,) = requests(world.poll(1_000))
    assert again.batches == sent.batches
    world.acks(1, again.correlation, OK)
    world.add(T0)
    world.poll()
    (failed,) = [e for e in world.poll(1_500) if isinstance(e, BatchFailed)]
    assert "last fault" not in str(failed.error)


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


def test_an_unknown_batch_is_never_sent_under_another_producer_id() -> None:
    world = begun()
    first, second = world.add(), world.add()
    world.poll()
    world.sender.on_disconnected(world.now_ms, 1, "reset")  # both unknown
    assert sequences(world.poll(100)) == [(1, [1])]
    effects = world.acks(1, 6, refused(errors.OutOfOrderSequenceNumber))
    assert [e.batch for e in effects if isinstance(e, BatchFailed)] == [first, second]
    assert (first.producer_id, second.producer_id) == (7, 7)
    assert RequestProducerId() in effects


def test_a_later_success_proves_that_the_lost_batch_was_stored() -> None:
    world = begun(SenderSettings(delivery_timeout_ms=10_000))
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
    effects = world.acks(1, 5, Ack(0, base_offset=1))
    assert effects == [BatchDone(second, 1, -1), SendRequest(1, 6, (third,))]
    assert (third.producer_id, third.base_sequence) == (7, 3)


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
    assert RequestProducerId() in effects
    queued = world.add()
    assert world.poll(1_000) == []
    assert sequences(world.sender.on_producer_id(world.now_ms, 8, 0)) == [(1, [0])]
    assert queued.producer_id == 8


@pytest.mark.parametrize("takes_any", [False, True])
@pytest.mark.parametrize("seed", range(80))
def test_any_schedule_stores_each_acknowledged_batch_once_and_in_order(
    seed: int, takes_any: bool
) -> None:
    """A dumb broker with sequences, and every fault in a random order. `takes_any`: as a first one
    of a producer that it knows nothing of, or nothing any more; as Kafka's do.
    """
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
        expected = recent[-1][0] + recent[-1][1] if recent else sequence if takes_any else 0
        if sequence != expected:
            assert batch not in log, "stored, and forgotten by the broker"
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
        elif action < 0.79:
            # Not while a batch is in doubt: such a broker would take it again, wherever it stands.
            if not wire and not any(b.maybe_stored for b in world.accumulator.incomplete):
                producers.clear()
        elif action < 0.87 and wire:
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
