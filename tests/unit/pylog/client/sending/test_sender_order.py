"""The sender: what may be in flight behind what, and which batches may not be sent again."""

from __future__ import annotations

import pytest

from pylog import errors
from pylog.client.sending.producer_batch import Batch
from pylog.client.sending.send_events import (
    Ack,
    BatchDone,
    BatchFailed,
    Effect,
    RefreshMetadata,
    RequestProducerId,
    SendRequest,
)
from pylog.client.sending.send_settings import SenderSettings
from tests.fakes.sender_world import OK, T0, T1, World, begun, opened, refused, sequences

OUT_OF_ORDER = refused(errors.OutOfOrderSequenceNumber)
DEPOSED = refused(errors.NotLeaderOrFollower, base_offset=7)  # after it had appended the batch
UNKNOWN = refused(errors.UnknownProducerId)


def failures(effects: list[Effect]) -> list[tuple[Batch, str]]:
    return [(e.batch, str(e.error)) for e in effects if isinstance(e, BatchFailed)]


# ---- until the first acknowledgement -----------------------------------------------------------


def test_until_its_first_acknowledgement_a_partition_has_one_batch_in_flight() -> None:
    world = World()
    a, b, c = world.add(), world.add(), world.add()
    assert world.poll() == [SendRequest(1, 1, (a,))]
    assert world.poll(50) == []
    assert world.acks(1, 1, OK) == [
        BatchDone(a, 0, -1),
        SendRequest(1, 2, (b,)),
        SendRequest(1, 3, (c,)),
    ]


def test_other_partitions_of_the_broker_do_not_wait_for_it() -> None:
    world = World(leaders=(1, 1, 1))
    world.add(T0)
    world.poll()
    world.add(T0)
    other = world.add(T1)
    assert world.poll() == [SendRequest(1, 2, (other,))]


def test_a_batch_at_hand_waits_for_the_first_acknowledgement() -> None:
    world = World()
    first = world.add()
    world.poll()
    batch = opened(world)
    assert world.alone.take(world.now_ms, batch, 1) is None
    assert not batch.closed
    assert world.acks(1, 1, OK) == [BatchDone(first, 0, -1), SendRequest(1, 2, (batch,))]


def test_a_batch_that_lingered_waits_for_the_first_acknowledgement() -> None:
    world = World(linger_ms=5)
    first = opened(world)
    assert world.poll(5) == [SendRequest(1, 1, (first,))]
    second = opened(world)
    assert world.poll(5) == []
    assert not second.closed  # it takes more records meanwhile
    assert world.acks(1, 1, OK) == [BatchDone(first, 0, -1), SendRequest(1, 2, (second,))]


def test_a_reconnect_before_the_first_acknowledgement_sends_one_batch() -> None:
    world = World()
    first, second = world.add(), world.add()
    world.poll()
    world.sender.on_disconnected(world.now_ms, 1, "reset")
    assert world.poll(200) == [SendRequest(1, 2, (first,))]
    assert world.poll(200) == []
    assert world.acks(1, 2, OK) == [BatchDone(first, 0, -1), SendRequest(1, 3, (second,))]


def test_a_first_batch_that_is_refused_for_now_is_sent_again_before_any_other() -> None:
    for error in (errors.NotEnoughReplicas, errors.ThrottlingQuotaExceeded):
        world = World()
        first, second = world.add(), world.add()
        world.poll()
        assert world.acks(1, 1, refused(error)) == []
        assert world.poll(100) == [SendRequest(1, 2, (first,))]
        assert world.acks(1, 2, OK) == [BatchDone(first, 0, -1), SendRequest(1, 3, (second,))]


def test_under_a_fresh_producer_id_the_first_acknowledgement_is_awaited_again() -> None:
    world = begun()
    a, b, c = world.add(), world.add(), world.add()
    world.poll()
    for correlation in (4, 5, 6):
        effects = world.acks(1, correlation, UNKNOWN)
    assert effects == [RequestProducerId()]
    assert world.sender.on_producer_id(world.now_ms, 8, 0) == [SendRequest(1, 7, (a,))]
    assert world.acks(1, 7, OK) == [BatchDone(a, 0, -1), SendRequest(1, 8, (b,))]
    assert world.acks(1, 8, OK) == [BatchDone(b, 0, -1), SendRequest(1, 9, (c,))]
    assert [(x.producer_id, x.base_sequence) for x in (a, b, c)] == [(8, 0), (8, 1), (8, 2)]


def test_in_a_topic_made_anew_the_first_acknowledgement_is_awaited_again() -> None:
    world = begun()
    world.lead(1, 2, 1, topic_id="new")
    first = world.add()
    world.add()
    assert world.poll() == [RequestProducerId()]
    assert world.sender.on_producer_id(world.now_ms, 8, 0) == [SendRequest(1, 4, (first,))]


def test_metadata_that_turn_back_to_the_topic_before_give_no_batch_anothers_place() -> None:
    """A broker that lags tells of the topic that was deleted, and a fresher one of the new topic
    once more: its log must not take the next batch for the one that it has under that sequence.
    """
    world = begun()
    used = []
    for topic_id, producer_id in (("new", 8), ("id", 9), ("new", 10)):
        world.lead(1, 2, 1, topic_id=topic_id)
        effects = world.sender.on_metadata(world.now_ms)
        batch = world.add()
        effects += world.poll(1_000)
        assert RequestProducerId() in effects
        world.sender.on_producer_id(world.now_ms, producer_id, 0)
        used.append((batch.producer_id, batch.base_sequence))
    assert used == [(8, 0), (9, 0), (10, 0)]


def test_without_idempotence_nothing_waits() -> None:
    world = World(settings=SenderSettings(acks=1, idempotent=False), producer_id=None)
    a, b = world.add(), world.add()
    assert world.poll() == [SendRequest(1, 1, (a,)), SendRequest(1, 2, (b,))]


# ---- a batch that is sent again must be among the last five of its producer ----------------------


def test_nothing_new_goes_to_a_leader_while_the_one_before_has_not_answered_for_all() -> None:
    world = begun()
    first, second = world.add(), world.add()
    world.poll()
    new = world.add()
    moved = refused(errors.NotLeaderOrFollower, leader=3, leader_epoch=1)
    assert world.acks(1, 4, moved)[1:] == [SendRequest(3, 6, (first,))]
    assert world.acks(3, 6, OK) == [BatchDone(first, 0, -1)]
    world.acks(1, 5, moved)
    assert world.poll(100) == [SendRequest(3, 7, (second,)), SendRequest(3, 8, (new,))]


@pytest.mark.parametrize(
    "error", [errors.NotEnoughReplicasAfterAppend, errors.RequestTimedOut, errors.KafkaStorageError]
)
def test_at_most_four_batches_follow_one_that_may_be_sent_again(
    error: type[errors.PylogError],
) -> None:
    world = begun()
    oldest, *behind = (world.add() for _ in range(4))
    world.poll()
    world.acks(1, 4, refused(error))  # it is stored, perhaps
    assert world.poll(100) == [SendRequest(1, 8, (oldest,))]
    new = world.add()
    assert [world.acks(1, number, OK) for number in (5, 6, 7)] == [
        [BatchDone(batch, 0, -1)] for batch in behind
    ]
    world.sender.on_disconnected(world.now_ms, 1, "reset")
    assert world.poll(200) == [SendRequest(1, 9, (oldest,))]
    assert world.acks(1, 9, OK) == [BatchDone(oldest, 0, -1), SendRequest(1, 10, (new,))]


# ---- batches that may not be sent again ----------------------------------------------------------


def test_a_batch_does_not_move_behind_one_that_was_accepted_before_it() -> None:
    # A leader that had lost the producer took the second batch as its first: brokers that take any
    # first sequence do.
    world = begun()
    first, second = world.add(), world.add()
    world.poll()
    third = world.add()
    world.acks(1, 4, refused(errors.NotEnoughReplicas))
    (done, failed, *rest) = world.acks(1, 5, Ack(0, base_offset=9))
    assert done == BatchDone(second, 9, -1)
    assert failures([failed]) == [
        (
            first,
            "t-0: the leader had lost what it knew of this producer and took a later batch first; "
            "the records are not stored: sent again they would stand behind those of that batch",
        )
    ]
    assert isinstance(failed, BatchFailed)
    assert isinstance(failed.error, errors.OutOfOrderSequenceNumber)
    # Later batches stand behind the accepted one under the same producer id.
    assert rest == [SendRequest(1, 6, (third,))]
    assert (third.producer_id, third.base_sequence) == (7, 3)


def test_all_that_was_sent_behind_a_batch_that_may_not_move_fails_with_it() -> None:
    world = begun()
    a, b, c, d = (world.add() for _ in range(4))
    world.poll()
    world.acks(1, 4, refused(errors.ThrottlingQuotaExceeded))
    assert world.acks(1, 5, OK) == [BatchDone(b, 0, -1)]
    world.acks(1, 6, refused(errors.NotEnoughReplicas))
    queued = world.add()
    assert world.poll(100) == []  # the answer for d is still to come
    effects = world.acks(1, 7, OUT_OF_ORDER)
    behind = "t-0: a batch before this one failed for its order; the records are not stored"
    assert [batch for batch, _ in failures(effects)] == [a, c, d]
    assert [text for _, text in failures(effects)[1:]] == [behind, behind]
    assert effects[3:] == [RequestProducerId()]
    # Batches that were not sent yet go on under a fresh id.
    assert world.sender.on_producer_id(world.now_ms, 8, 0) == [SendRequest(1, 8, (queued,))]


def test_a_batch_that_may_be_stored_is_looked_for_when_one_behind_it_was_accepted() -> None:
    world = begun()
    first, second = world.add(), world.add()
    world.poll()
    world.acks(1, 4, refused(errors.NotEnoughReplicasAfterAppend, base_offset=1))
    assert world.acks(1, 5, OK) == [BatchDone(second, 0, -1)]
    third = world.add()
    assert world.poll(100) == [SendRequest(1, 6, (first,))]  # nothing new behind it
    assert world.acks(1, 6, OK) == [BatchDone(first, 0, -1), SendRequest(1, 7, (third,))]
    assert (third.producer_id, third.base_sequence) == (7, 3)


def test_the_answers_of_what_is_in_flight_are_awaited_before_anything_moves() -> None:
    world = begun()
    first, second = world.add(), world.add()
    world.poll()
    assert world.acks(1, 4, OUT_OF_ORDER) == []
    (done, failed) = world.acks(1, 5, OK)
    assert done == BatchDone(second, 0, -1)
    assert [batch for batch, _ in failures([failed])] == [first]


@pytest.mark.parametrize("answer", [OK, OUT_OF_ORDER, refused(errors.NotEnoughReplicas)])
def test_a_batch_overtaken_while_it_is_in_flight_holds_nothing_up(answer: Ack) -> None:
    world = begun()
    first, second = world.add(), world.add()
    world.poll()
    moved = refused(errors.NotLeaderOrFollower, leader=3, leader_epoch=1)
    assert world.acks(1, 4, moved)[1:] == [SendRequest(3, 6, (first,))]
    assert world.acks(1, 5, OK) == [BatchDone(second, 0, -1)]
    third = world.add()
    assert world.poll() == []
    effects = world.acks(3, 6, answer)
    if answer is OK:
        assert effects[0] == BatchDone(first, 0, -1)
    else:
        assert [batch for batch, _ in failures(effects)] == [first]
    effects += world.poll(100)
    if RequestProducerId() in effects:
        effects += world.sender.on_producer_id(world.now_ms, 8, 0)
    assert [e for e in effects if isinstance(e, SendRequest)] == [SendRequest(3, 7, (third,))]


def test_nothing_moves_past_a_batch_that_may_be_stored() -> None:
    world = begun()
    first, second = world.add(), world.add()
    world.poll()
    world.acks(1, 4, refused(errors.NotEnoughReplicas))
    world.acks(1, 5, DEPOSED)
    assert sequences(world.poll(100)) == [(1, [1])]
    effects = world.acks(1, 6, OUT_OF_ORDER)
    assert [batch for batch, _ in failures(effects)] == [first, second]
    assert "not stored" in failures(effects)[0][1]
    assert "may or may not be stored" in failures(effects)[1][1]
    assert effects[2:] == [RequestProducerId()]


def test_a_batch_that_may_be_stored_fails_with_all_behind_it() -> None:
    for answer, name in (
        (OUT_OF_ORDER, "OUT_OF_ORDER_SEQUENCE_NUMBER"),
        (UNKNOWN, "UNKNOWN_PRODUCER_ID"),
    ):
        world = begun()
        first, second = world.add(), world.add()
        world.poll()
        world.acks(1, 4, DEPOSED)
        world.acks(1, 5, OUT_OF_ORDER)
        assert sequences(world.poll(100)) == [(1, [1])]
        effects = world.acks(1, 6, answer)
        assert [batch for batch, _ in failures(effects)] == [first, second]
        texts = [text for _, text in failures(effects)]
        assert texts[0] == (
            "t-0: the leader misses what came before this batch, or knows nothing of its producer "
            f"any more; the records may or may not be stored; last fault: {name}: t-0: by the test"
        )
        assert texts[1].endswith("the records are not stored")
        assert (first.producer_id, second.producer_id) == (7, 7)
        assert effects[2:] == [RequestProducerId()]


def test_what_a_broker_turned_away_because_another_leads_may_move() -> None:
    world = begun()
    first, second = world.add(), world.add()
    world.poll()
    moved = refused(errors.NotLeaderOrFollower, leader=3, leader_epoch=1)
    assert world.acks(1, 4, moved)[1:] == [SendRequest(3, 6, (first,))]
    world.acks(1, 5, moved)
    # The new leader knows nothing of this producer any more.
    assert world.acks(3, 6, UNKNOWN) == [RequestProducerId()]
    world.now_ms += 100  # the second one's backoff
    assert world.sender.on_producer_id(world.now_ms, 8, 0) == [SendRequest(3, 7, (first,))]
    assert world.acks(3, 7, OK) == [BatchDone(first, 0, -1), SendRequest(3, 8, (second,))]


def test_behind_a_batch_refused_for_what_it_is_all_others_go_on() -> None:
    world = begun()
    bad, good, better = (world.add() for _ in range(3))
    world.poll()
    assert [batch for batch, _ in failures(world.acks(1, 4, refused(errors.InvalidRecord)))] == [
        bad
    ]
    world.acks(1, 5, OUT_OF_ORDER)
    assert world.acks(1, 6, OUT_OF_ORDER) == [RequestProducerId()]
    assert world.sender.on_producer_id(world.now_ms, 8, 0) == [SendRequest(1, 7, (good,))]
    assert world.acks(1, 7, OK) == [BatchDone(good, 0, -1), SendRequest(1, 8, (better,))]


def test_a_late_answer_for_a_batch_that_was_given_up_overtakes_nothing() -> None:
    world = begun(SenderSettings(delivery_timeout_ms=10_000))
    lost = world.add()
    world.poll()
    world.now_ms += 5_000
    behind = world.add()
    world.poll()
    assert [batch for batch, _ in failures(world.poll(5_000))] == [lost]
    world.acks(1, 5, refused(errors.NotEnoughReplicas))
    assert not behind.overtaken
    assert world.acks(1, 4, OK) == []
    assert not behind.overtaken
    assert [e for e in world.poll(200) if not isinstance(e, RefreshMetadata)] == [
        SendRequest(1, 6, (behind,))
    ]
    assert world.acks(1, 6, OK) == [BatchDone(behind, 0, -1)]
