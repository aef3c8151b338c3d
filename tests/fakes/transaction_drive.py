"""A producer that works through transactions over a network that loses what it likes: whatever is
refused, lost or late, readers are to see the transactions whose commit returned, whole and in their
order, and no other ones.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from pylog import errors
from pylog.client.sending.producer_batch import Batch
from pylog.client.sending.send_events import (
    Ack,
    BatchDone,
    BatchFailed,
    Effect,
    SendRequest,
)
from pylog.client.sending.transaction_events import (
    CommitOffsets,
    CoordinatorFound,
    EndTransaction,
    FindCoordinator,
    InitProducer,
    OffsetsKept,
    Operation,
    OperationDone,
    ProducerBegun,
    TransactionAnswer,
    TransactionEnded,
    TransactionRequest,
)
from pylog.model import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from pylog.records.builder import encode_batch
from pylog.records.reader import iter_records
from pylog.records.transactions import without_aborted
from pylog.rpc.v1 import log_pb2
from tests.fakes.fake_topics import FakePartition, FakeTopic
from tests.fakes.fake_transactions import TransactionalIds
from tests.fakes.sender_world import T0, T1, T2
from tests.fakes.transaction_world import TXN, TransactionWorld

POSITION = TopicPartition("input", 0)
BUSY = (errors.NotEnoughReplicas.code, errors.ConcurrentTransactions.code)
PASSING = (errors.NotCoordinator.code, errors.CoordinatorLoadInProgress.code)


@dataclass
class Drive:
    """A producer that works through transactions, and a network that loses what it likes."""

    rng: random.Random
    world: TransactionWorld = field(default_factory=TransactionWorld)
    partitions: list[FakePartition] = field(init=False)
    wires: deque[Effect] = field(default_factory=deque)
    late: list[Effect] = field(default_factory=list)
    """Given up by the producer, and still on their way."""
    values: dict[Batch, bytes] = field(default_factory=dict)
    encoded: dict[Batch, bytes] = field(default_factory=dict)
    operation: Operation | None = None
    failure: errors.PylogError | None = None
    writes: list[tuple[TopicPartition, bytes]] = field(default_factory=list)
    """The writes of the open transaction."""
    expected: dict[TopicPartition, list[bytes]] = field(default_factory=dict)
    position: int = 0
    position_of_open: int = 0
    commits: int = 0
    aborts: int = 0

    def __post_init__(self) -> None:
        self.partitions = [FakePartition(1) for _ in range(3)]
        self.ids = self.coordinator()
        self.expected = {tp: [] for tp in (T0, T1, T2)}

    def coordinator(self) -> Any:
        """A dumb one; others have the same methods."""
        return TransactionalIds({"t": FakeTopic("id", self.partitions)})

    # ---- what the sender wants ----------------------------------------------------------------

    def perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case SendRequest():
                    for batch in effect.batches:
                        self._encode(batch)
                    self.wires.append(effect)
                case OperationDone(operation, error):
                    assert operation is self.operation
                    self.failure = error
                case BatchDone() | BatchFailed():
                    pass
                case _ if isinstance(effect, TransactionRequest):
                    self.wires.append(effect)

    def _encode(self, batch: Batch) -> None:
        if batch not in self.encoded:
            self.encoded[batch] = encode_batch(
                [self.values[batch]],
                producer_id=batch.producer_id,
                producer_epoch=batch.producer_epoch,
                base_sequence=batch.base_sequence,
                transactional=True,
            )

    # ---- the network and the brokers ----------------------------------------------------------

    def step(self) -> None:
        """One message arrives, or is lost; or time passes."""
        if self.late and self.rng.random() < 0.1:
            self._arrive_late(self.late.pop(self.rng.randrange(len(self.late))))
        if not self.wires or self.rng.random() < 0.1:
            after_ms = self.rng.choice((0, 20, 100, 1_000))
            self.ids.advance(after_ms)
            self.perform(self.world.poll(after_ms))
            return
        effect = self.wires.popleft()
        lost = self.rng.random()
        if isinstance(effect, SendRequest):
            self._produce(effect, lost)
            return
        assert isinstance(effect, TransactionRequest)
        if lost < 0.1:  # on its way, or not for ever
            self.late.append(effect)
            self.perform(self.world.no_answer(effect))
            return
        answer = self._coordinate(effect)
        if lost < 0.2:  # on its way back
            self.perform(self.world.no_answer(effect))
        else:
            self.perform(self.world.answer(effect, answer))

    def _produce(self, request: SendRequest, lost: float) -> None:
        if lost < 0.05:
            self.late.append(request)
            self._break_stream(request.broker)
            return
        acks = self._store(request)
        if lost < 0.1:
            self._break_stream(request.broker)
        else:
            self.perform(self.world.acks(request.broker, request.correlation, *acks))

    def _store(self, request: SendRequest) -> list[Ack]:
        acks = []
        for batch in request.batches:
            tp = batch.topic_partition
            code = self.rng.choice(BUSY) if self.rng.random() < 0.1 else 0
            if self.rng.random() < 0.02:
                code = errors.InvalidRecord.code  # for good
            data = self.encoded[batch]
            item = log_pb2.PartitionBatch(topic="t", partition=tp.partition, batch=data)
            code = code or self.ids.enter(TXN, item)
            offset = -1
            if not code:
                code, offset = self.partitions[tp.partition].append(data)
            acks.append(Ack(code, base_offset=offset))
        return acks

    def _arrive_late(self, effect: Effect) -> None:
        if isinstance(effect, SendRequest):
            self._store(effect)
        elif isinstance(effect, TransactionRequest) and not isinstance(effect, InitProducer):
            self._coordinate(effect)  # an InitProducer would fence the producer, and rightly so

    def _break_stream(self, broker: int) -> None:
        self.late += [
            one for one in self.wires if isinstance(one, SendRequest) and one.broker == broker
        ]
        self.wires = deque(
            one for one in self.wires if not isinstance(one, SendRequest) or one.broker != broker
        )
        self.perform(self.world.sender.on_disconnected(self.world.now_ms, broker, "by the test"))

    def _coordinate(self, request: TransactionRequest) -> TransactionAnswer:
        if self.rng.random() < 0.1 and not isinstance(request, FindCoordinator):
            code = self.rng.choice(PASSING)
            if isinstance(request, InitProducer):
                return ProducerBegun(code=code)
            return OffsetsKept(code=code) if isinstance(request, CommitOffsets) else (
                TransactionEnded(code=code)
            )  # fmt: skip
        match request:
            case FindCoordinator():
                return CoordinatorFound(2)
            case InitProducer():
                known = self.ids.begin(TXN)
                return ProducerBegun(known.producer_id, known.epoch)
            case CommitOffsets():
                offsets = {tp: committed.offset for tp, committed in request.offsets}
                return OffsetsKept(
                    code=self.ids.hold(
                        TXN, request.producer_id, request.producer_epoch, "g", offsets
                    )
                )
            case EndTransaction():
                code, known = self.ids.end(
                    TXN, request.producer_id, request.producer_epoch, committed=request.committed
                )
                return TransactionEnded(known.producer_id, known.epoch, code)

    # ---- the user -----------------------------------------------------------------------------

    def wait_for(self, operation: Operation) -> errors.PylogError | None:
        self.operation, self.failure = operation, None
        for _ in range(10_000):
            if operation.done:
                self.world.transactions.collected(operation)
                return self.failure
            self.step()
        raise AssertionError(f"{operation.call} hangs: {self.world.transactions.last_fault}")

    def transaction(self, number: int) -> None:
        transactions = self.world.transactions
        transactions.begin()
        self.writes = []
        for index in range(self.rng.randrange(8)):
            tp = self.rng.choice((T0, T1, T2))
            value = b"%d.%d" % (number, index)
            try:
                transactions.check_open()
            except errors.PylogError:
                break
            self.values[self.world.add(tp)] = value
            self.writes.append((tp, value))
            for _ in range(self.rng.randrange(4)):
                self.step()
        if not self._offsets() or self.rng.random() < 0.3:
            self._abort()
        else:
            self._commit()

    def _offsets(self) -> bool:
        transactions = self.world.transactions
        self.position_of_open = self.position
        if self.rng.random() < 0.5 or not transactions.is_open:
            return True
        wanted = {POSITION: OffsetAndMetadata(self.position + 1)}
        try:
            operation = transactions.send_offsets(ConsumerGroupMetadata("g"), wanted)
        except errors.PylogError:
            return False
        if self.wait_for(operation) is not None:
            return False
        self.position_of_open += 1
        return True

    def _abort(self) -> None:
        assert self.wait_for(self.world.transactions.abort()) is None
        self.aborts += 1

    def _commit(self) -> None:
        try:
            operation = self.world.transactions.commit()
        except errors.AbortableError:
            self._abort()
            return
        failure = self.wait_for(operation)
        if failure is not None:
            assert failure.abortable
            self._abort()
            return
        self.commits += 1
        self.position = self.position_of_open
        for tp, value in self.writes:
            self.expected[tp].append(value)

    def committed(self, tp: TopicPartition) -> list[bytes | None]:
        partition = self.partitions[tp.partition]
        assert partition.stable is None
        data = without_aborted(partition.read(0, 1 << 30), partition.aborted)
        return [record.value for record in iter_records(data, "t", 0)]
