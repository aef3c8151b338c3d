"""The producer's transactions over the real coordinator: both cores, and a network between them
that loses what it likes. Coordinators move, transactions time out, markers come late.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

from pylog import errors
from pylog.model import ProducerEpoch, ProducerId, TopicPartition
from pylog.records.batch import read_header
from pylog.records.builder import ControlType, encode_control_batch
from pylog.rpc.v1 import log_pb2
from pylog_broker.coordinator.transactions.messages import SendMarkers
from pylog_broker.coordinator.transactions.transaction import Identity
from tests.fakes.fake_topics import FakePartition
from tests.fakes.transaction_drive import POSITION, Drive
from tests.fakes.transaction_shard import TransactionShard
from tests.fakes.transaction_world import TXN

OFFSETS = TopicPartition("__consumer_offsets", 0)


class Known(NamedTuple):
    """The identity that the producer goes on with."""

    producer_id: int
    epoch: int


class Coordinated:
    """The coordinator of `pylog_broker`, and leaders that ask it of the first batch only."""

    def __init__(
        self, partitions: list[FakePartition], rng: random.Random, timeout_ms: int, *, moves: bool
    ) -> None:
        self._timeout_ms = timeout_ms
        self._moves = moves
        self.committed: dict[tuple[str, TopicPartition], int] = {}
        self.moves = 0
        self._shard = TransactionShard()
        self._partitions = partitions
        self._rng = rng
        self._producers: dict[TopicPartition, Known] = {}
        self._firsts: dict[TopicPartition, int] = {}
        """The open transaction of each partition, and where it begins."""
        self._held: dict[tuple[str, TopicPartition], int] = {}

    # ---- time, and what happens by itself -----------------------------------------------------

    def advance(self, ms: int) -> None:
        self._shard.advance(ms)
        if self._moves and self._rng.random() < 0.02:
            self.moves += 1
            self._shard.start()
        if self._rng.random() < 0.5:
            self.write_markers()

    def write_markers(self) -> None:
        for marker in self._shard.write_markers():
            for tp in marker.partitions:
                self._write(marker, tp)

    def _write(self, marker: SendMarkers, tp: TopicPartition) -> None:
        at = self._producers.get(tp)
        if at is None or at.epoch >= marker.identity.epoch or tp not in self._firsts:
            return  # it has it
        first = self._firsts.pop(tp)
        self._producers[tp] = Known(*marker.identity)
        if tp == OFFSETS:
            held, self._held = self._held, {}
            if marker.commits:
                self.committed.update(held)
            return
        partition = self._partitions[tp.partition]
        if not marker.commits:
            partition.aborted.append((marker.identity.producer_id, first))
        partition.append(
            encode_control_batch(
                ControlType.COMMIT if marker.commits else ControlType.ABORT,
                producer_id=marker.identity.producer_id,
                producer_epoch=marker.identity.epoch,
                coordinator_epoch=0,
                timestamp_ms=0,
            )
        )

    # ---- what producers ask -------------------------------------------------------------------

    def _answer(self, number: int) -> Any:
        """The answer, for which markers may have to be written first."""
        while number not in self._shard.replies:
            self.write_markers()
            self._shard.advance(1_000)
        return self._shard.replies[number]

    def begin(self, name: str) -> Known:
        assert name == TXN
        begun = self._answer(self._shard.init(timeout_ms=self._timeout_ms))
        return Known(*begun.identity)

    def enter(self, name: str, item: log_pb2.PartitionBatch) -> int:
        header = read_header(item.batch)
        return self._enter(
            TopicPartition("t", item.partition), Known(header.producer_id, header.producer_epoch)
        )

    def hold(
        self,
        name: str,
        producer_id: int,
        epoch: int,
        group: str,
        offsets: Mapping[TopicPartition, int],
    ) -> int:
        code = self._enter(OFFSETS, Known(producer_id, epoch))
        if not code:
            self._held.update({(group, tp): offset for tp, offset in offsets.items()})
        return code

    def _enter(self, tp: TopicPartition, producer: Known) -> int:
        at = self._producers.get(tp)
        if at is not None and producer.epoch < at.epoch:
            return errors.InvalidProducerEpoch.code
        if at == producer and tp in self._firsts:
            return 0
        if tp in self._firsts:
            return errors.ConcurrentTransactions.code  # the marker of the one before is missing
        answer = self._answer(self._shard.add(_identity(producer), tp))
        if isinstance(answer, errors.PylogError):
            return answer.code
        self._producers[tp] = producer
        self._firsts[tp] = 0 if tp == OFFSETS else self._partitions[tp.partition].end
        return 0

    def end(self, name: str, producer_id: int, epoch: int, *, committed: bool) -> tuple[int, Known]:
        asked = _identity(Known(producer_id, epoch))
        answer = self._answer(self._shard.end(asked, commits=committed))
        if isinstance(answer, errors.PylogError):
            return answer.code, Known(-1, -1)
        return 0, Known(*answer.identity)


def _identity(known: Known) -> Identity:
    return Identity(ProducerId(known.producer_id), ProducerEpoch(known.epoch))


class OverMovingCoordinator(Drive):
    """One producer whose coordinator is the real one, at one broker after the other."""

    def coordinator(self) -> Coordinated:
        return Coordinated(self.partitions, self.rng, 20_000, moves=True)


class OverImpatientCoordinator(Drive):
    """Many of its transactions are open for too long."""

    def coordinator(self) -> Coordinated:
        return Coordinated(self.partitions, self.rng, 2_000, moves=False)


@pytest.mark.parametrize("kind", [OverMovingCoordinator, OverImpatientCoordinator])
@pytest.mark.parametrize("seed", range(20))
def test_committed_transactions_are_whole_and_no_other_is_seen(
    kind: type[Drive], seed: int
) -> None:
    drive = kind(random.Random(seed))
    assert drive.wait_for(drive.world.transactions.init()) is None
    for number in range(25):
        drive.transaction(number)
    drive.ids.write_markers()
    assert drive.commits > 0
    assert drive.aborts > 0
    assert {tp: drive.committed(tp) for tp in drive.expected} == drive.expected
    assert drive.ids.committed.get(("g", POSITION), 0) == drive.position
