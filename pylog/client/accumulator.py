"""Records on their way out: one queue of batches per partition, and the memory they may take.

Covers which batch a record joins and when a batch is due; what may be sent where is the sender's
decision. Pure: the producer's lock protects it (users' threads add, the loop drains), and the
unit of bookkeeping is the batch: adding a record to an open batch touches nothing else.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pylog.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, TopicPartition
from pylog.records.murmur2 import partition_for_key

HeaderList = Sequence[tuple[str, bytes | None]]

RECORD_OVERHEAD: Final = 21
"""What a record takes besides key, value and headers, at most: length, attributes, timestamp
delta, offset delta, two lengths and the number of headers, all but one as varints (Kafka's
MAX_RECORD_OVERHEAD).
"""
BATCH_OVERHEAD: Final = 61
"""Bytes of a batch's header."""

_KEYS_REMEMBERED_MAX: Final = 8_192
_ROOM_BYTES: Final = 256 * 1024
"""Threads that wait for room are woken for this much: to wake one for each batch costs more than
its records.
"""


class Batch:
    """The records that will be, or were, sent together. Its bytes never change once sent.

    `delivery` belongs to the shell (who waits for the batch); the sender owns all that stands
    below it.
    """

    __slots__ = (
        "attempts",
        "base_sequence",
        "count",
        "created_ms",
        "delivery",
        "encoded",
        "headers",
        "in_flight",
        "keys",
        "leader_epoch",
        "maybe_stored",
        "producer_epoch",
        "producer_id",
        "refused",
        "reserved",
        "resolved",
        "size",
        "stamped_id",
        "timestamps",
        "topic_partition",
        "values",
    )

    def __init__(self, topic_partition: TopicPartition, created_ms: int, delivery: Any) -> None:
        self.topic_partition = topic_partition
        self.created_ms = created_ms
        self.values: list[bytes | None] = []
        self.keys: list[bytes | None] | None = None
        self.headers: list[HeaderList | None] | None = None
        self.timestamps: list[int] = []
        self.count = 0
        self.size = BATCH_OVERHEAD
        self.reserved = 0
        self.delivery = delivery
        self.encoded: bytes | None = None
        self.stamped_id: int = NO_PRODUCER_ID  # the producer id in `encoded`
        self.producer_id: int = NO_PRODUCER_ID
        self.producer_epoch: int = NO_PRODUCER_EPOCH
        self.base_sequence: int = NO_SEQUENCE
        self.attempts = 0
        self.in_flight = False
        self.leader_epoch = -1
        self.maybe_stored = False
        self.refused = False
        self.resolved = False

    def add(
        self,
        value: bytes | None,
        key: bytes | None,
        headers: HeaderList | None,
        timestamp_ms: int,
        size: int,
    ) -> int:
        """The index of the added record in the batch. `size` is an upper bound of its bytes."""
        index = self.count
        self.values.append(value)
        self.timestamps.append(timestamp_ms)
        if key is not None:
            if self.keys is None:
                self.keys = [None] * index
            self.keys.append(key)
        elif self.keys is not None:
            self.keys.append(None)
        if headers:
            if self.headers is None:
                self.headers = [None] * index
            self.headers.append(headers)
        elif self.headers is not None:
            self.headers.append(None)
        self.size += size
        self.count = index + 1
        return index

    def forget_records(self) -> None:
        """Let the memory of an encoded or resolved batch go; timestamps stay for the metadata."""
        self.values = []
        self.keys = None
        self.headers = None


@dataclass(slots=True)
class TopicBuffer:
    """One topic's open batches by partition, and the partition that keyless records stick to."""

    name: str
    partitions: int
    open: dict[int, Batch] = field(default_factory=dict)
    sticky: int = 0
    _placed: dict[bytes, int] = field(default_factory=dict)

    def partition_of(self, key: bytes) -> int:
        """Where `key` belongs; recent keys are remembered, because murmur2 costs microseconds."""
        partition = self._placed.get(key)
        if partition is None:
            if len(self._placed) >= _KEYS_REMEMBERED_MAX:
                self._placed.clear()
            partition = self._placed[key] = partition_for_key(key, self.partitions)
        return partition

    def grow(self, partitions: int) -> None:
        """The topic has more partitions now: keys are placed anew."""
        if partitions != self.partitions:
            self.partitions = partitions
            self._placed.clear()


class Accumulator:
    """Invariants: a partition's queue is in order of creation and only its last batch may be open;
    `used` is the sum of what unresolved batches reserve.
    """

    def __init__(
        self,
        *,
        batch_size: int,
        linger_ms: int,
        buffer_memory: int,
        make_delivery: Callable[[], Any],
        available: Callable[[str], list[int]],
        first_sticky: Callable[[int], int],
    ) -> None:
        """`available` names a topic's partitions that have a leader; `first_sticky(n)` picks the
        first of n partitions for keyless records (at random, so that producers spread).
        """
        self.batch_size = batch_size
        self.linger_ms = linger_ms
        self.buffer_memory = buffer_memory
        self.used = 0
        self.topics: dict[str, TopicBuffer] = {}
        self.incomplete: dict[Batch, None] = {}
        """Unresolved batches, oldest first."""
        self._make_delivery = make_delivery
        self._available = available
        self._first_sticky = first_sticky
        self._queues: dict[TopicPartition, deque[Batch]] = {}
        self._due: dict[TopicPartition, None] = {}
        self._lingering: deque[Batch] = deque()

    # ---- adding -------------------------------------------------------------------------------

    def topic(self, name: str, partitions: int) -> TopicBuffer:
        """The topic's buffer, made or grown to what metadata says."""
        buffer = self.topics.get(name)
        if buffer is None:
            buffer = self.topics[name] = TopicBuffer(name, partitions)
            buffer.sticky = self._first_sticky(partitions)
            self._restick(buffer, buffer.sticky)
        else:
            buffer.grow(partitions)
        return buffer

    def has_room(self, size: int) -> bool:
        """Whether a new batch for a record of `size` bytes fits into buffer.memory."""
        return self.used + self._reservation(size) <= self.buffer_memory

    @property
    def room_is_worth_waking(self) -> bool:
        """Whether those who wait for room should look now; if not, a batch on its way will make
        more.
        """
        room = self.buffer_memory - self.used
        return room >= min(_ROOM_BYTES, self.buffer_memory // 4) or self.only_open

    def open_batch(self, now_ms: int, buffer: TopicBuffer, partition: int, size: int) -> bool:
        """Start a batch for a record of `size` bytes, closing the partition's present one.

        True when the sender should be woken: a batch became due, or the first one lingers.
        Call `has_room` first.
        """
        wake = self.close_batch(buffer, partition)
        batch = self._start(now_ms, TopicPartition(buffer.name, partition), size)
        buffer.open[partition] = batch
        if self.linger_ms == 0 or batch.size + size >= self.batch_size:
            self._due[batch.topic_partition] = None
            return True
        wake = wake or not self._lingering
        self._lingering.append(batch)
        return wake

    def close_batch(self, buffer: TopicBuffer, partition: int) -> bool:
        """No more records into the partition's open batch, and it is due; False if there is none.

        Keyless records move on to the next partition, so that they spread by whole batches.
        """
        batch = buffer.open.pop(partition, None)
        if buffer.sticky == partition:
            self._restick(buffer, partition + 1)
        if batch is None:
            return False
        self._due[batch.topic_partition] = None
        return True

    def add_encoded(
        self,
        now_ms: int,
        topic_partition: TopicPartition,
        encoded: bytes,
        count: int,
        first_timestamp_ms: int,
    ) -> Batch:
        """Queue a batch of `count` records that are encoded already; it is due at once."""
        buffer = self.topics[topic_partition.topic]
        self.close_batch(buffer, topic_partition.partition)
        batch = self._start(now_ms, topic_partition, len(encoded))
        batch.encoded = encoded
        batch.timestamps = [first_timestamp_ms]
        batch.count = count
        batch.size = len(encoded)
        self._due[topic_partition] = None
        return batch

    def _start(self, now_ms: int, topic_partition: TopicPartition, size: int) -> Batch:
        batch = Batch(topic_partition, now_ms, self._make_delivery())
        batch.reserved = self._reservation(size)
        self.used += batch.reserved
        self.incomplete[batch] = None
        queue = self._queues.get(topic_partition)
        if queue is None:
            queue = self._queues[topic_partition] = deque()
        queue.append(batch)
        return batch

    def _reservation(self, size: int) -> int:
        # As Kafka's buffer pool: a whole batch at once, so that records need no accounting.
        return max(self.batch_size, BATCH_OVERHEAD + size)

    def _restick(self, buffer: TopicBuffer, wanted: int) -> None:
        available = self._available(buffer.name) or range(buffer.partitions)
        buffer.sticky = next((p for p in available if p >= wanted), next(iter(available), 0))

    # ---- draining -----------------------------------------------------------------------------

    def mark_lingered(self, now_ms: int) -> None:
        """Batches that waited for `linger.ms` become due."""
        lingering = self._lingering
        while lingering and (
            lingering[0].resolved or lingering[0].created_ms + self.linger_ms <= now_ms
        ):
            batch = lingering.popleft()
            queue = self._queues.get(batch.topic_partition)
            if queue and not batch.resolved and queue[0].created_ms <= batch.created_ms:
                self._due[batch.topic_partition] = None

    def mark_all_due(self) -> None:
        """A flush: whatever waits is due now, and takes no more records."""
        for buffer in self.topics.values():
            for partition in list(buffer.open):
                self.close_batch(buffer, partition)
        self._lingering.clear()

    @property
    def only_open(self) -> bool:
        """Whether no batch is on its way, nor full: all still take records."""
        return len(self.incomplete) <= sum(len(buffer.open) for buffer in self.topics.values())

    @property
    def next_linger_ms(self) -> int | None:
        """When the oldest lingering batch becomes due."""
        return self._lingering[0].created_ms + self.linger_ms if self._lingering else None

    def due(self) -> list[TopicPartition]:
        """Partitions that have something to send, the longest waiting first."""
        return list(self._due)

    def peek(self, topic_partition: TopicPartition) -> Batch | None:
        """The next batch of a due partition, without taking it."""
        queue = self._queues.get(topic_partition)
        return queue[0] if queue and topic_partition in self._due else None

    def take(self, topic_partition: TopicPartition, now_ms: int) -> Batch:
        """Remove the next batch of a due partition, closed for more records."""
        queue = self._queues[topic_partition]
        batch = queue.popleft()
        buffer = self.topics[topic_partition.topic]
        if buffer.open.get(topic_partition.partition) is batch:
            self.close_batch(buffer, topic_partition.partition)
        del self._due[topic_partition]
        if queue and (
            buffer.open.get(topic_partition.partition) is not queue[0]
            or queue[0].created_ms + self.linger_ms <= now_ms
        ):
            self._due[topic_partition] = None  # at the end: other partitions come first
        return batch

    def drop(self, batch: Batch) -> None:
        """Take a batch that failed before it was sent out of its queue."""
        queue = self._queues.get(batch.topic_partition)
        if queue is None or batch not in queue:
            return
        queue.remove(batch)
        buffer = self.topics[batch.topic_partition.topic]
        if buffer.open.get(batch.topic_partition.partition) is batch:
            self.close_batch(buffer, batch.topic_partition.partition)
        if not queue:
            self._due.pop(batch.topic_partition, None)

    def queued(self) -> Iterator[Batch]:
        """Every batch that was not taken yet."""
        for queue in self._queues.values():
            yield from queue

    def resolve(self, batch: Batch) -> None:
        """The batch is done, one way or the other: its memory is free again."""
        assert not batch.resolved
        batch.resolved = True
        self.used -= batch.reserved
        del self.incomplete[batch]
