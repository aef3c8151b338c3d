"""The answers of a `FakeCluster` about transactions: one dumb coordinator of all transactional ids.

It decides at once, and writes markers into the logs in memory in the same moment; so nothing of a
transaction is ever half done here. Time-outs and expiry are left out.
"""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pylog import errors
from pylog.model import TopicPartition
from pylog.records.batch import read_header
from pylog.records.builder import ControlType, encode_control_batch
from pylog.rpc.v1 import log_pb2, transaction_pb2, transaction_pb2_grpc
from tests.fakes.fake_groups import GroupWorld
from tests.fakes.fake_topics import FakeTopic

Offsets = dict[tuple[str, TopicPartition], int]


@dataclass
class FakeTransactionalId:
    """One id: its producer, the open transaction, and the last decision."""

    producer_id: int
    epoch: int = 0
    began: dict[TopicPartition, int] = field(default_factory=dict)
    """The partitions of the open transaction, and their first offsets."""
    offsets: Offsets = field(default_factory=dict)
    decision: tuple[int, bool] | None = None
    """The epoch of the decided transaction, and whether it was committed."""

    @property
    def is_open(self) -> bool:
        return bool(self.began or self.offsets)

    @property
    def state(self) -> str:
        if self.is_open:
            return "Ongoing"
        if self.decision is None:
            return "Empty"
        return "CompleteCommit" if self.decision[1] else "CompleteAbort"


class TransactionalIds:
    """All of a cluster. `faults`: codes for the next requests, by the request's name; 0 for none.
    `lost`: so many requests, by name, are carried out and answered with a fault.
    """

    def __init__(
        self, topics: Mapping[str, FakeTopic], coordinator_of: Callable[[str], int] = lambda _: 1
    ) -> None:
        self._topics = topics
        self.coordinator_of = coordinator_of
        self.lock = threading.RLock()
        self.ids: dict[str, FakeTransactionalId] = {}
        self.committed: Offsets = {}
        """The offsets that groups have committed in transactions."""
        self.hanging: dict[tuple[TopicPartition, int], int] = {}
        """Transactions that no coordinator knows: the first offset by partition and producer id."""
        self.faults: dict[str, deque[int]] = {}
        self.lost: dict[str, int] = {}
        self.asked: list[str] = []
        """The names of the requests that came, in order."""

    def fault(self, name: str) -> int:
        self.asked.append(name)
        faults = self.faults.get(name)
        return faults.popleft() if faults else 0

    def is_lost(self, name: str) -> bool:
        left = self.lost.get(name, 0)
        self.lost[name] = max(left - 1, 0)
        return left > 0

    # ---- what producers ask -------------------------------------------------------------------

    def begin(self, name: str, *, keep: bool = False) -> FakeTransactionalId:
        """A new instance: the ones before are fenced, their transaction is aborted."""
        with self.lock:
            known = self.ids.get(name)
            if known is None:
                self.ids[name] = known = FakeTransactionalId(1_000 + len(self.ids))
                return known
            if known.is_open and not keep:
                self._decide(known, committed=False)
                known.decision = None
            known.epoch += 1
            return known

    def check(self, name: str, producer_id: int, epoch: int) -> int:
        """The code for a request of that producer within its transaction."""
        known = self.ids.get(name)
        if known is None or known.producer_id != producer_id:
            return errors.InvalidProducerIdMapping.code
        return 0 if known.epoch == epoch else errors.ProducerFenced.code

    def enter(self, name: str, item: log_pb2.PartitionBatch) -> int:
        """A batch: its partition becomes one of the transaction's. The code."""
        header = read_header(item.batch)
        assert header.is_transactional
        with self.lock:
            code = self.check(name, header.producer_id, header.producer_epoch)
            if code:
                return code
            tp = TopicPartition(item.topic, item.partition)
            partition = self._topics[tp.topic].partitions[tp.partition]
            self.ids[name].began.setdefault(tp, partition.end)
            self._hold_back(tp)
            return 0

    def hold(
        self,
        name: str,
        producer_id: int,
        epoch: int,
        group: str,
        offsets: Mapping[TopicPartition, int],
    ) -> int:
        """Offsets become some of the transaction's. The code."""
        with self.lock:
            code = self.check(name, producer_id, epoch)
            if not code:
                self.ids[name].offsets.update({(group, tp): o for tp, o in offsets.items()})
            return code

    def end(
        self, name: str, producer_id: int, epoch: int, *, committed: bool
    ) -> tuple[int, FakeTransactionalId]:
        """The code, and what the next transaction goes on with. A decision that is asked for again
        is told again.
        """
        with self.lock:
            known = self.ids.get(name) or FakeTransactionalId(-1, -1)
            if known.decision == (epoch, committed) and known.epoch == epoch + 1:
                return 0, known
            code = self.check(name, producer_id, epoch)
            if not code:
                self._decide(known, committed=committed)
            return code, known

    def advance(self, ms: int) -> None:
        """Time passes, which changes nothing here."""

    def time_out(self, name: str) -> None:
        """The coordinator aborts, because the transaction was open for too long."""
        with self.lock:
            self._decide(self.ids[name], committed=False)

    # ---- what administrators ask --------------------------------------------------------------

    def leader_of(self, tp: TopicPartition) -> int:
        return self._topics[tp.topic].partitions[tp.partition].leader

    def open_in(self, tp: TopicPartition) -> list[tuple[int, int, int]]:
        """Producer id, epoch and first offset of each transaction that is open in the partition."""
        with self.lock:
            known = [one for one in self.ids.values() if tp in one.began]
            found = [(one.producer_id, one.epoch, one.began[tp]) for one in known]
            return found + [(p, 0, o) for (at, p), o in self.hanging.items() if at == tp]

    def end_hanging(self, tp: TopicPartition, producer_id: int) -> int:
        """The code."""
        with self.lock:
            gone = self.hanging.pop((tp, producer_id), None)
            return errors.InvalidTxnState.code if gone is None else 0

    def _decide(self, known: FakeTransactionalId, *, committed: bool) -> None:
        kind = ControlType.COMMIT if committed else ControlType.ABORT
        partitions, known.began = known.began, {}
        for tp, first in partitions.items():
            partition = self._topics[tp.topic].partitions[tp.partition]
            if not committed:
                partition.aborted.append((known.producer_id, first))
            partition.append(
                encode_control_batch(
                    kind,
                    producer_id=known.producer_id,
                    producer_epoch=known.epoch,
                    coordinator_epoch=0,
                    timestamp_ms=0,
                )
            )
            self._hold_back(tp)
        if committed:
            self.committed.update(known.offsets)
        known.offsets = {}
        known.decision = known.epoch, committed
        known.epoch += 1

    def _hold_back(self, tp: TopicPartition) -> None:
        """Readers of committed records read up to the first open transaction."""
        firsts = [known.began[tp] for known in self.ids.values() if tp in known.began]
        self._topics[tp.topic].partitions[tp.partition].stable = min(firsts, default=None)

    def init(
        self, broker: int, request: log_pb2.InitProducerIdRequest
    ) -> log_pb2.InitProducerIdResponse:
        """The answer to InitProducerId."""
        response = log_pb2.InitProducerIdResponse(ongoing_txn_producer_epoch=-1)
        code = self.fault("InitProducerId")
        if not code and broker != self.coordinator_of(request.transactional_id):
            code = errors.NotCoordinator.code
        if code:
            response.error.code = code
            return response
        name = request.transactional_id
        before = self.ids.get(name)
        ongoing = before.epoch if before is not None and before.is_open else -1
        known = self.begin(name, keep=request.keep_prepared_txn)
        response.producer_id, response.producer_epoch = known.producer_id, known.epoch
        if request.keep_prepared_txn and ongoing >= 0:
            response.ongoing_txn_producer_id = known.producer_id
            response.ongoing_txn_producer_epoch = ongoing
        return response


class FakeTransactions(transaction_pb2_grpc.TransactionServicer):
    """One broker's side of it."""

    def __init__(self, ids: TransactionalIds, groups: GroupWorld, broker: int) -> None:
        self._ids = ids
        self._groups = groups
        self._broker = broker

    def EndTxn(
        self, request: transaction_pb2.EndTxnRequest, _context: Any
    ) -> transaction_pb2.EndTxnResponse:
        ids = self._ids
        response = transaction_pb2.EndTxnResponse()
        code = ids.fault("EndTxn")
        if not code and self._broker != ids.coordinator_of(request.transactional_id):
            code = errors.NotCoordinator.code
        if not code:
            code, known = ids.end(
                request.transactional_id,
                request.producer_id,
                request.producer_epoch,
                committed=request.committed,
            )
            response.producer_id, response.producer_epoch = known.producer_id, known.epoch
        if not code and ids.is_lost("EndTxn"):
            code = errors.RequestTimedOut.code
        response.error.code = code
        return response

    def ListTransactions(
        self, request: transaction_pb2.ListTransactionsRequest, _context: Any
    ) -> transaction_pb2.ListTransactionsResponse:
        """Without ages."""
        response = transaction_pb2.ListTransactionsResponse()
        ids = self._ids
        response.error.code = ids.fault("ListTransactions")
        for name, known in ids.ids.items():
            if (
                ids.coordinator_of(name) == self._broker
                and known.producer_id in (request.producer_ids or [known.producer_id])
                and known.state in (request.states or [known.state])
                and re.fullmatch(request.transactional_id_pattern or ".*", name)
            ):
                response.transactions.add(
                    transactional_id=name, producer_id=known.producer_id, state=known.state
                )
        return response

    def DescribeTransactions(
        self, request: transaction_pb2.DescribeTransactionsRequest, _context: Any
    ) -> transaction_pb2.DescribeTransactionsResponse:
        response = transaction_pb2.DescribeTransactionsResponse()
        ids = self._ids
        for name in request.transactional_ids:
            told = response.transactions.add(transactional_id=name, start_time_ms=-1)
            told.error.code = ids.fault("DescribeTransactions")
            if ids.coordinator_of(name) != self._broker:
                told.error.code = errors.NotCoordinator.code
            elif name not in ids.ids:
                told.error.code = errors.TransactionalIdNotFound.code
            if told.error.code:
                continue
            known = ids.ids[name]
            told.state, told.timeout_ms = known.state, 60_000
            told.producer_id, told.producer_epoch = known.producer_id, known.epoch
            if known.is_open:
                told.start_time_ms = 1_000
            for tp in known.began:
                told.partitions.add(topic=tp.topic, partition=tp.partition)
        return response

    def DescribeProducers(
        self, request: transaction_pb2.DescribeProducersRequest, _context: Any
    ) -> transaction_pb2.DescribeProducersResponse:
        """The open transactions of partitions that this broker leads."""
        response = transaction_pb2.DescribeProducersResponse()
        for asked in request.partitions:
            told = response.partitions.add(topic=asked.topic, partition=asked.partition)
            tp = TopicPartition(asked.topic, asked.partition)
            if self._ids.leader_of(tp) != self._broker:
                told.error.code = errors.NotLeaderOrFollower.code
                continue
            for producer_id, epoch, first in self._ids.open_in(tp):
                told.producers.add(
                    producer_id=producer_id,
                    producer_epoch=epoch,
                    last_sequence=0,
                    last_timestamp_ms=1_000,
                    coordinator_epoch=-1,
                    current_txn_start_offset=first,
                )
        return response

    def WriteTxnMarkers(
        self, request: transaction_pb2.WriteTxnMarkersRequest, _context: Any
    ) -> transaction_pb2.WriteTxnMarkersResponse:
        response = transaction_pb2.WriteTxnMarkersResponse()
        for marker in request.markers:
            told = response.markers.add(producer_id=marker.producer_id)
            for asked in marker.partitions:
                tp = TopicPartition(asked.topic, asked.partition)
                result = told.partitions.add(topic=asked.topic, partition=asked.partition)
                result.error.code = self._ids.end_hanging(tp, marker.producer_id)
        return response

    def TxnOffsetCommit(
        self, request: transaction_pb2.TxnOffsetCommitRequest, _context: Any
    ) -> transaction_pb2.TxnOffsetCommitResponse:
        ids = self._ids
        response = transaction_pb2.TxnOffsetCommitResponse()
        code = ids.fault("TxnOffsetCommit")
        if not code and self._groups.broker_of(request.group_id) != self._broker:
            code = errors.NotCoordinator.code
        if not code:
            code = ids.hold(
                request.transactional_id,
                request.producer_id,
                request.producer_epoch,
                request.group_id,
                {TopicPartition(o.topic, o.partition): o.offset for o in request.offsets},
            )
        for offset in request.offsets:
            told = response.partitions.add(topic=offset.topic, partition=offset.partition)
            told.error.code = code
        return response
