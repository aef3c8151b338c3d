"""Transactions at a leader: what opens one, and what ends it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pylog.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    OffsetNotAvailable,
    TransactionAbortable,
)
from pylog.model import BrokerId, Offset, ProducerEpoch, ProducerId, TopicId, TopicPartition
from pylog.records.builder import encode_batch
from pylog_broker.metadata.messages import Failure
from pylog_broker.replication.effects import ProduceDone
from pylog_broker.replication.offset_messages import DeleteRecords, OffsetQuery
from pylog_broker.replication.produce_messages import (
    PartitionAck,
    PartitionBatch,
    Produce,
    ProducerState,
    WriteMarker,
)
from pylog_broker.replication.transactions import Transactions, Unverified
from tests.fakes.broker_group import T0, TOPIC_ID, WALL_MS, BrokerGroup

ONE = BrokerId(1)
P = ProducerId(7)


class Leader:
    """Broker 1 of three, which leads partition 0."""

    def __init__(self, tmp_path: Path) -> None:
        self.group = BrokerGroup(tmp_path)
        self.group.create_topic(min_isr=2)
        self.group.run()
        self.manager = self.group.managers[ONE]

    @property
    def transactions(self) -> Transactions:
        return self.manager.transactions

    def produce(self, request: Produce) -> PartitionAck:
        effects = self.manager.produce(self.group.now_ms, WALL_MS, request, "token")
        self.group._post(ONE, [e for e in effects if not isinstance(e, ProduceDone)])
        done = [effect for effect in effects if isinstance(effect, ProduceDone)]
        return done[0].acks[0]

    def send(self, request: Produce, unverified: list[Unverified]) -> PartitionAck:
        """The answer to an append, once its coordinator has agreed."""
        (item,) = request.batches
        for each in unverified:
            item = item._replace(guard=each.guard)
        ack = self.produce(request._replace(batches=(item,)))
        self.transactions.release(unverified)
        return ack

    def mark(self, epoch: int, *, commits: bool = True, version: int = 2) -> Any:
        marker = WriteMarker(T0, P, ProducerEpoch(epoch), commits, 3, version)
        batch = self.transactions.batch_of(WALL_MS, marker)
        if isinstance(batch, PartitionBatch):
            return self.produce(Produce(1, 0, (batch,), internal=True)).failure
        return batch

    @property
    def log(self) -> Any:
        (partition,) = [p for p in self.manager.partitions() if p.topic_partition == T0]
        return partition.log


@pytest.fixture
def leader(tmp_path: Path) -> Leader:
    return Leader(tmp_path)


def batch(sequence: int = 0, epoch: int = 0, *, transactional: bool = True) -> Produce:
    data = encode_batch(
        [b"v"], producer_id=P, producer_epoch=epoch, base_sequence=sequence,
        transactional=transactional, timestamps=WALL_MS,
    )  # fmt: skip
    return Produce(1, 0, (PartitionBatch(T0, None, data),), transactional_id="t")


def test_the_first_batch_alone_is_asked_about(leader: Leader) -> None:
    first = batch()
    (asked,) = leader.transactions.unverified(first)
    assert asked[:4] == (0, T0, P, 0)
    assert leader.send(first, [asked]).failure is None
    assert leader.transactions.unverified(batch(1)) == []
    assert leader.produce(batch(1)).failure is None
    assert leader.log.last_stable_offset(Offset(2)) == 0
    assert leader.transactions._guards == {}


def test_a_batch_that_nobody_asked_about_opens_nothing(leader: Leader) -> None:
    failure = leader.produce(batch()).failure
    assert failure is not None
    assert failure.code == InvalidTxnState.code
    assert leader.transactions.unverified(batch(transactional=False)) == []


def test_what_the_coordinator_refuses_is_not_appended(leader: Leader) -> None:
    first = batch()
    asked = leader.transactions.unverified(first)
    asked[0].guard.refusal = Failure(TransactionAbortable.code, "so it says")
    assert leader.send(first, asked).failure == Failure(TransactionAbortable.code, "so it says")
    assert leader.log.log_end_offset == 0


@pytest.mark.parametrize("version", [1, 2])
def test_a_marker_between_the_answer_and_the_append(leader: Leader, version: int) -> None:
    """Under version 1 the marker has the batch's own epoch, and only the guard knows (KIP-890)."""
    first = batch()
    asked = leader.transactions.unverified(first)
    assert leader.mark(version - 1, version=version) is None
    failure = leader.send(first, asked).failure
    assert failure is not None
    assert failure.code == InvalidTxnState.code
    assert leader.log.last_stable_offset(Offset(1)) == 1
    again = leader.transactions.unverified(first)
    late = leader.send(first, again).failure
    if version == 2:
        assert late is not None
        assert late.code == InvalidProducerEpoch.code


def test_a_coordinators_batch_may_ask_while_the_transaction_before_is_open(leader: Leader) -> None:
    """Its producer's coordinator answers behind the marker of that."""
    first = batch()
    leader.send(first, leader.transactions.unverified(first))
    asked = leader.transactions.guarded(T0, P, ProducerEpoch(1))
    assert leader.mark(1) is None
    assert leader.transactions.still_holds(asked.guard, T0)
    leader.transactions.release([asked])


def test_a_marker_leaves_the_next_transaction_its_right(leader: Leader) -> None:
    """The batch waits for the coordinator, which waits for this very marker."""
    first = batch()
    leader.send(first, leader.transactions.unverified(first))
    following = batch(epoch=1)
    asked = leader.transactions.unverified(following)
    assert leader.mark(1) is None
    assert leader.send(following, asked).failure is None
    assert leader.log.producers.has_open(P, 1)


def test_another_leader_epoch_takes_the_right(leader: Leader) -> None:
    first = batch()
    asked = leader.transactions.unverified(first)
    asked[0].guard.leader_epoch = type(asked[0].guard.leader_epoch)(5)
    failure = leader.send(first, asked).failure
    assert failure is not None
    assert failure.code == InvalidTxnState.code


def test_a_late_marker_does_not_end_the_next_transaction(leader: Leader) -> None:
    first = batch()
    leader.send(first, leader.transactions.unverified(first))
    assert leader.mark(1) is None
    following = batch(epoch=1)
    leader.send(following, leader.transactions.unverified(following))
    end = leader.log.log_end_offset
    assert leader.mark(1) is None
    assert leader.log.log_end_offset == end
    assert leader.log.producers.has_open(P, 1)
    assert leader.mark(2, commits=False) is None
    assert not leader.log.producers.has_open(P, 1)


def test_producers_are_described(leader: Leader) -> None:
    first = batch()
    leader.send(first, leader.transactions.unverified(first))
    described = ProducerState(P, ProducerEpoch(0), 0, WALL_MS, -1, 0)
    assert leader.transactions.producers(T0) == [described]
    leader.mark(1)
    described = ProducerState(P, ProducerEpoch(1), -1, WALL_MS, 3, -1)
    assert leader.transactions.producers(T0) == [described]
    assert isinstance(leader.transactions.producers(TopicPartition("none", 0)), Failure)


def test_what_is_no_part_of_a_clients_transaction(leader: Leader) -> None:
    (item,) = batch().batches
    internal = item._replace(topic_partition=TopicPartition("__transaction_state", 0))
    garbage = item._replace(batch=b"x")
    elsewhere = item._replace(topic_partition=TopicPartition("none", 0))
    request = batch()._replace(batches=(internal, garbage, elsewhere))
    assert leader.transactions.unverified(request) == []


# ---- overwrites ---------------------------------------------------------------------------------


def overwrites(offset: int, topic_id: TopicId = TOPIC_ID) -> WriteMarker:
    return WriteMarker(T0, P, ProducerEpoch(1), True, 3, 2, topic_id, Offset(offset))


def test_where_the_log_begins_with_the_marker_of_an_overwrite(leader: Leader) -> None:
    for _ in range(3):
        leader.group.produce(1, b"v")
    leader.group.run()
    asked = leader.transactions.new_start
    assert asked(overwrites(2)) == 2
    assert asked(overwrites(9)) == 3, "an unclean election has cut the log"
    assert asked(overwrites(0)) is None
    assert asked(overwrites(2)._replace(new_start=None)) is None
    assert asked(overwrites(2, TopicId("b" * 21 + "Q"))) is None, "the topic was made anew"
    elsewhere = leader.group.managers[BrokerId(2)].transactions.new_start(overwrites(2))
    assert isinstance(elsewhere, Failure)
    assert elsewhere.code == NotLeaderOrFollower.code
    token = leader.group.send(1, DeleteRecords(((T0, Offset(2)),), 1_000))
    leader.group.advance(20)
    assert token in leader.group.answers
    assert asked(overwrites(2)) is None
    assert asked(overwrites(1)) is None


def test_nothing_is_deleted_for_a_marker_that_cannot_be_appended(leader: Leader) -> None:
    leader.group.produce(1, b"v")
    leader.group.run()
    leader.group.produce(1, b"v")  # the followers do not have it yet
    waits = leader.transactions.new_start(overwrites(2))
    assert isinstance(waits, Failure)
    assert waits.code == OffsetNotAvailable.code
    assert "committed up to 1 only" in waits.message
    leader.group.run()
    leader.group.set_isr(1)
    leader.group.tell(ONE)
    refused = leader.transactions.new_start(overwrites(2))
    assert isinstance(refused, Failure)
    assert refused.code == NotEnoughReplicas.code


def test_a_partition_that_is_being_overwritten_does_not_look_empty(leader: Leader) -> None:
    leader.group.produce(1, b"v")
    leader.group.run()

    def offset(timestamp_ms: int, *, committed: bool) -> int:
        query = OffsetQuery(T0, timestamp_ms, read_committed=committed)
        answer = leader.group.offset_of(1, query)
        return answer.failure.code if answer.failure else answer.offset

    with leader.transactions.overwriting(T0), leader.transactions.overwriting(T0):
        for timestamp_ms in (-1, -2, WALL_MS):
            assert offset(timestamp_ms, committed=True) == OffsetNotAvailable.code
        assert offset(-2, committed=False) == OffsetNotAvailable.code
        assert offset(-1, committed=False) == 1
    assert [offset(-2, committed=True), offset(-1, committed=True)] == [0, 1]
    with leader.transactions.overwriting(TopicPartition("gone", 0)):
        pass
