"""One shard of a coordinator: one partition of an internal topic, which this broker leads. Pure.

    LOADING    the log is read and replayed, slice by slice; requests are turned away
    ACTIVE     requests and timers are decided; their records are appended at the turn's end
    RESIGNED   the broker leads no more, or an append failed: everybody who waits hears so

The shard is a `ReplicatedStateMachine` whose records go through the ordinary log. No answer leaves
before all is committed that was decided before it, those of reads included, so nobody is told what
a new leader might not know. That makes one image enough: the committed one knows its offset only.

Decisions of one turn of the loop share an append: `run` decides, `flush` gives what may leave.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import Final, Generic, NamedTuple, TypeVar

from pylog.errors import PylogError
from pylog.model import LeaderEpoch, Offset, TopicPartition
from pylog_broker.coordinator.runtime.decision import (
    DECISION_BYTES_MAX,
    RECORD_EXTRA_BYTES,
    CancelTimer,
    Codec,
    Coordinator,
    Decision,
    Producer,
    Record,
    Reply,
    RequestId,
    Send,
    SetTimer,
    TransactionEnd,
)
from pylog_broker.replicated.state_machine import (
    AppendRecords,
    Image,
    LogSlice,
    ReplicatedStateMachine,
)

APPEND_BYTES_MAX: Final = 512 * 1024
"""The most bytes of keys and values that decisions of one turn may have together in one append."""

CoordinatorT = TypeVar("CoordinatorT", bound=Coordinator)
Operation = Callable[[CoordinatorT], Decision]
EncodedRecord = tuple[bytes, bytes | None]


class DecisionTooLarge(Exception):
    """The records of one decision are more than an append may have."""


class ReadLog(NamedTuple):
    """Read a slice of the partition's log from that offset on, or from its start where that is
    later; then `on_read`.
    """

    topic_partition: TopicPartition
    epoch: LeaderEpoch
    offset: Offset


class Append(NamedTuple):
    """Append these records as one batch, as the leader of that epoch, at exactly that offset. If
    that cannot be, `on_append_failed`.
    """

    topic_partition: TopicPartition
    epoch: LeaderEpoch
    first_offset: Offset
    records: tuple[EncodedRecord, ...]
    producer: Producer | None = None
    """The producer of the transaction that the records are of."""
    end: TransactionEnd | None = None
    """In place of records: the marker to append."""


Leaving = Append | Reply | Send
ShardEffect = Leaving | SetTimer | CancelTimer


class ShardPhase(Enum):
    """The phases of a shard, which limit what it may do; it goes down this list and never up."""

    LOADING = auto()
    ACTIVE = auto()
    RESIGNED = auto()


class _Decided(Generic[CoordinatorT]):
    """The coordinator as the machine's image."""

    def __init__(self, coordinator: CoordinatorT) -> None:
        self.offset = Offset(-1)
        self.coordinator = coordinator

    def replay(self, record: Record, offset: Offset) -> None:
        self.coordinator.replay(record, offset)
        self.offset = offset


class _Committed:
    """The offset up to which the shard is committed."""

    def __init__(self) -> None:
        self.offset = Offset(-1)

    def replay(self, _record: Record, offset: Offset) -> None:
        self.offset = offset


class Shard(Generic[CoordinatorT]):
    """Invariant: a request in `waiting` gets one reply, and one that is not there none."""

    def __init__(
        self,
        topic_partition: TopicPartition,
        epoch: LeaderEpoch,
        coordinator: CoordinatorT,
        codec: Codec,
    ) -> None:
        self.topic_partition = topic_partition
        self.epoch = epoch
        self.coordinator = coordinator
        self.phase = ShardPhase.LOADING
        self.waiting: set[RequestId] = set()
        """Requests whose answer has not left."""
        self._codec = codec
        self._machine = ReplicatedStateMachine[Image[Record], Record, Reply | Send](
            _Committed(), _Decided(coordinator)
        )
        self._replies: list[Reply | Send] = []  # decided in this turn
        self._encoded: list[EncodedRecord] = []  # likewise
        self._encoded_bytes = 0
        self._high_watermark = Offset(0)

    # ---- loading ---------------------------------------------------------------------------------

    def next_read(self) -> ReadLog:
        """The next read of the log."""
        assert self.phase is ShardPhase.LOADING, self.phase
        return ReadLog(self.topic_partition, self.epoch, self._machine.next_offset)

    def load(self, read: LogSlice[Record], end_offset: Offset) -> bool:
        """Take in a slice of a log that ends at `end_offset`; whether that was the last one."""
        assert self.phase is ShardPhase.LOADING, self.phase
        self._machine.load(read)
        self._commit()
        if self._machine.next_offset < end_offset:
            return False
        self._machine.lead(self.epoch, end_offset)
        self.phase = ShardPhase.ACTIVE
        return True

    # ---- deciding --------------------------------------------------------------------------------

    def run(
        self, operation: Operation[CoordinatorT], request_id: RequestId | None = None
    ) -> list[ShardEffect]:
        """Decide, for a request if there is one, which a PylogError answers. Timers leave at once,
        all else by `flush`.

        Any other exception leaves the coordinator in nobody knows which state: the shard must
        resign.
        """
        assert self.phase is ShardPhase.ACTIVE, self.phase
        if request_id is not None:
            self.waiting.add(request_id)
        try:
            decision = operation(self.coordinator)
        except PylogError as error:
            if request_id is None:
                raise
            self._replies.append(Reply(request_id, error))
            return []
        out: list[ShardEffect] = []
        is_apart = decision.producer is not None or _end_of(decision.records) is not None
        if is_apart:
            out += self.flush()
        if decision.is_atomic:
            out += self._write(decision.records, decision.producer)
        else:
            for record in decision.records:
                out += self._write([record])
        for effect in decision.effects:
            if isinstance(effect, (Reply, Send)):
                self._replies.append(effect)
            else:
                out.append(effect)
        if is_apart:
            out += self.flush(decision.producer, _end_of(decision.records))
        return out

    def _write(self, records: list[Record], producer: Producer | None = None) -> list[Leaving]:
        encoded = [
            (b"", None) if isinstance(record.key, TransactionEnd) else self._codec.encode(record)
            for record in records
        ]
        size = sum(len(key) + len(value or b"") + RECORD_EXTRA_BYTES for key, value in encoded)
        if size > DECISION_BYTES_MAX:
            raise DecisionTooLarge(
                f"{self.topic_partition}: {size} bytes in {len(records)} records"
            )
        over = self._encoded and self._encoded_bytes + size > APPEND_BYTES_MAX
        out = self.flush() if over else []
        for record in records:
            if producer is not None:
                record = record._replace(producer_id=producer.producer_id)
            self._machine.write(record)
        self._encoded += encoded
        self._encoded_bytes += size
        return out

    def flush(
        self, producer: Producer | None = None, end: TransactionEnd | None = None
    ) -> list[Leaving]:
        """The effects that the decisions since the last call release: an append, and replies that
        rest on nothing uncommitted. `producer`, `end`: of the append.
        """
        out: list[Leaving] = []
        if not self._replies and not self._encoded:
            return out
        for effect in self._machine.seal(self._replies):
            if isinstance(effect, AppendRecords):
                first = effect.first_offset
                records = tuple(self._encoded)
                append = Append(self.topic_partition, self.epoch, first, records, producer, end)
                assert len(append.records) == len(effect.records)
                out.append(append)
            else:
                out += self._leaves(effect)
        self._replies.clear()
        self._encoded.clear()
        self._encoded_bytes = 0
        return out

    def give_up(self, request_id: RequestId, error: PylogError) -> list[Reply]:
        """The request's time is up: it hears `error` now. The change that it asked for may happen
        yet."""
        return self._answer(Reply(request_id, error))

    def _answer(self, reply: Reply) -> list[Reply]:
        if reply.request_id not in self.waiting:
            return []
        self.waiting.discard(reply.request_id)
        return [reply]

    def _leaves(self, effect: Reply | Send) -> list[Leaving]:
        return [effect] if isinstance(effect, Send) else [*self._answer(effect)]

    # ---- commits ---------------------------------------------------------------------------------

    def on_high_watermark(self, offset: Offset) -> list[Leaving]:
        """The effects that leave now that everything below `offset` is committed. It may come
        early, while the records below it are still being loaded.
        """
        self._high_watermark = max(self._high_watermark, offset)
        return [*self.flush(), *self._commit()]

    def _commit(self) -> list[Leaving]:
        last = Offset(min(self._high_watermark, self._machine.next_offset) - 1)
        return [effect for reply in self._machine.commit(last) for effect in self._leaves(reply)]

    # ---- the end ---------------------------------------------------------------------------------

    def resign(self, error: PylogError) -> list[Reply]:
        """The shard is over; every request that waits hears `error`."""
        self.phase = ShardPhase.RESIGNED
        self._machine.resign(lambda _reply: None)
        self._replies.clear()
        self._encoded.clear()
        waiting, self.waiting = sorted(self.waiting), set()
        return [Reply(request_id, error) for request_id in waiting]


def _end_of(records: list[Record]) -> TransactionEnd | None:
    """The marker that these records are."""
    if len(records) == 1 and isinstance(records[0].key, TransactionEnd):
        return records[0].key
    return None
