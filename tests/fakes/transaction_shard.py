"""One shard of the transaction coordinator over a log in memory: everything is committed at once,
or when the test says so. Time is virtual, records pass through their bytes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from pylog.model import LeaderEpoch, Offset, ProducerEpoch, ProducerId, TopicPartition
from pylog_broker.coordinator.expiry import BY_WALL_CLOCK
from pylog_broker.coordinator.runtime.decision import Decision, Reply, RequestId
from pylog_broker.coordinator.runtime.runtime import (
    CoordinatorRuntime,
    Defect,
    RuntimeEffect,
    Sent,
    ShardLoaded,
)
from pylog_broker.coordinator.runtime.shard import Append, ReadLog
from pylog_broker.coordinator.transactions.codec import TransactionCodec
from pylog_broker.coordinator.transactions.config import TransactionConfig
from pylog_broker.coordinator.transactions.coordinator import (
    TransactionCoordinator,
    TransactionCounts,
)
from pylog_broker.coordinator.transactions.messages import (
    AddPartitions,
    EndTransaction,
    InitProducer,
    NeedsProducerId,
    SendMarkers,
)
from pylog_broker.coordinator.transactions.transaction import (
    NO_IDENTITY,
    Identity,
    Transaction,
)
from pylog_broker.replicated.state_machine import AppendRecords, LogSlice

TOPIC = "__transaction_state"
WALL_MS = 1_700_000_000_000
T = "t"
TIMEOUT_MS = 60_000
A, B, C = (TopicPartition("events", number) for number in range(3))


def identity(producer_id: int, epoch: int) -> Identity:
    return Identity(ProducerId(producer_id), ProducerEpoch(epoch))


class TransactionShard:
    """Requests are numbered from 1; `replies` has the answers that came, `sent` the markers that
    are wanted.
    """

    def __init__(
        self,
        config: TransactionConfig | None = None,
        counts: TransactionCounts | None = None,
    ) -> None:
        self.config = config or TransactionConfig()
        self._counts = counts
        self.expiry = BY_WALL_CLOCK
        """Of the next coordinator."""
        self.log: list[tuple[bytes, bytes | None]] = []
        self.replies: dict[RequestId, Any] = {}
        self.sent: list[SendMarkers] = []
        self.now_ms = 0
        self.commits = True
        """Whether what is appended is committed at once."""
        self.next_producer_id = 1000
        self._codec = TransactionCodec()
        self._asked = 0
        self._effects: deque[RuntimeEffect] = deque()
        self._is_performing = False
        self.epoch = LeaderEpoch(0)
        self.start()

    # ---- the broker ------------------------------------------------------------------------------

    def start(self) -> None:
        """Another broker leads, which knows the log only. Callers that waited are never
        answered.
        """
        self.epoch = LeaderEpoch(self.epoch + 1)
        self._runtime = CoordinatorRuntime[TransactionCoordinator](
            TOPIC,
            lambda partition: TransactionCoordinator(self.config, self._counts, self.expiry),
            self._codec,
            now_ms=self.now_ms,
        )
        self._perform(self._runtime.on_leadership_began(self.now_ms, 0, self.epoch))
        self._perform(self._runtime.flush())
        self.commit()

    @property
    def coordinator(self) -> TransactionCoordinator:
        """The coordinator of the shard."""
        return self._runtime.coordinators()[0]

    @property
    def wall_ms(self) -> int:
        """Its wall clock."""
        return WALL_MS + self.now_ms

    def commit(self) -> None:
        """All that was appended is committed."""
        self._perform(self._runtime.on_high_watermark(0, Offset(len(self.log))))

    def advance(self, ms: int) -> None:
        """Time passes, timer by timer."""
        end_ms = self.now_ms + ms
        while (due := self._runtime.next_deadline_ms) is not None and due <= end_ms:
            self.now_ms = max(self.now_ms, due)
            self._perform(self._runtime.on_time(self.now_ms, self.wall_ms))
            self._perform(self._runtime.flush())
        self.now_ms = end_ms

    # ---- clients ---------------------------------------------------------------------------------

    def ask(self, operation: Callable[[TransactionCoordinator, RequestId], Decision]) -> RequestId:
        """Sends a request; its number."""
        self._asked += 1
        number = self._asked
        self._perform(
            self._runtime.run(self.now_ms, 0, number, lambda shard: operation(shard, number))
        )
        self._perform(self._runtime.flush())
        return number

    def answer(self, operation: Callable[[TransactionCoordinator, RequestId], Decision]) -> Any:
        """Sends a request that is answered at once; the answer."""
        self.advance(0)
        return self.replies[self.ask(operation)]

    def init(
        self,
        expected: Identity = NO_IDENTITY,
        *,
        transactional_id: str = T,
        timeout_ms: int = TIMEOUT_MS,
        two_phase: bool = False,
        keeps_prepared: bool = False,
    ) -> RequestId:
        """InitProducerId, as a broker passes it on: with a fresh id where one is needed."""
        request = InitProducer(transactional_id, timeout_ms, expected, two_phase, keeps_prepared)
        return self._with_id(lambda c, r, f: c.init_producer(self.wall_ms, r, request, f))

    def begin(self, expected: Identity = NO_IDENTITY, **options: Any) -> Any:
        """The answer to an InitProducerId that is answered at once."""
        return self.replies[self.init(expected, **options)]

    def add(
        self, owner: Identity, *partitions: TopicPartition, version: int = 2, verify: bool = False
    ) -> RequestId:
        request = AddPartitions(T, owner, partitions, version, verify)
        return self.ask(lambda c, r: c.add_partitions(self.wall_ms, r, request))

    def added(self, owner: Identity, *partitions: TopicPartition, **options: Any) -> Any:
        """The answer to an AddPartitionsToTxn that is answered at once."""
        return self.replies[self.add(owner, *partitions, **options)]

    def end(self, owner: Identity, *, commits: bool = True, version: int = 2) -> RequestId:
        request = EndTransaction(T, owner, commits, version)
        return self._with_id(lambda c, r, f: c.end(self.wall_ms, r, request, f))

    def ended(self, owner: Identity, **options: Any) -> Any:
        """The answer to an EndTxn that is answered at once."""
        return self.replies[self.end(owner, **options)]

    def write_markers(self) -> list[SendMarkers]:
        """All markers that were sent are written; which those were."""
        sent, self.sent = self.sent, []
        for markers in sent:
            self.tell_written(markers, *markers.partitions)
        self.advance(0)
        return sent

    def tell_written(self, markers: SendMarkers, *partitions: TopicPartition) -> None:
        """These partitions have their marker."""
        name, identity = markers.transactional_id, markers.identity
        self._perform(
            self._runtime.tell(
                self.now_ms,
                lambda c: c.on_markers_written(self.wall_ms, name, identity, partitions),
            )
        )
        self._perform(self._runtime.flush())

    def transaction(self, transactional_id: str = T) -> Transaction:
        return self.coordinator.transactions[transactional_id]

    def state(self) -> str:
        return self.transaction().state.shown

    def _with_id(
        self,
        operation: Callable[[TransactionCoordinator, RequestId, ProducerId | None], Decision],
    ) -> RequestId:
        self.advance(0)
        number = self.ask(lambda c, r: operation(c, r, None))
        if isinstance(self.replies.get(number), NeedsProducerId):
            fresh = ProducerId(self.next_producer_id)
            self.next_producer_id += 1
            number = self.ask(lambda c, r: operation(c, r, fresh))
        return number

    # ---- effects ---------------------------------------------------------------------------------

    def _perform(self, effects: list[RuntimeEffect]) -> None:
        """In order, as they come: what one of them brings about comes behind the others."""
        self._effects.extend(effects)
        if self._is_performing:
            return
        self._is_performing = True
        try:
            while self._effects:
                self._perform_one(self._effects.popleft())
        finally:
            self._is_performing = False

    def _perform_one(self, effect: RuntimeEffect) -> None:
        match effect:
            case Append(_, _, first_offset, records):
                assert first_offset == len(self.log)
                self.log.extend(records)
                if self.commits:
                    self.commit()
            case Reply(request_id, response):
                assert request_id not in self.replies, "answered twice"
                self.replies[request_id] = response
            case Sent(_, epoch, message):
                assert epoch == self.epoch
                assert isinstance(message, SendMarkers)
                self.sent.append(message)
            case ReadLog(_, epoch, offset):
                self._perform(self._read(epoch, offset))
            case Defect(_, error):
                raise error
            case _:
                assert isinstance(effect, ShardLoaded), effect

    def _read(self, epoch: LeaderEpoch, offset: Offset) -> list[RuntimeEffect]:
        records = []
        for key, value in self.log[offset:]:
            record = self._codec.decode(key, value)
            assert record is not None
            records.append(record)
        appends = (AppendRecords(offset, tuple(records)),) if records else ()
        end = Offset(len(self.log))
        read = LogSlice(appends, end)
        return self._runtime.on_read(self.now_ms, self.wall_ms, 0, epoch, read, end)
