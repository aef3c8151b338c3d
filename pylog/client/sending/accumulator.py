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

from pylog.client.sending.partitioners import StickyPartition
from pylog.client.sending.producer_batch import BATCH_OVERHEAD, Batch, BatchState
from pylog.model import TopicPartition
from pylog.records.murmur2 import partition_for_key

NOBODY: Final = 0
SEVERAL: Final = -1
OWN_AFTER_BATCHES: Final = 64
"""So many batches in a row opened by one thread make it a topic's owner (again)."""
_RESOLVED: Final = BatchState.RESOLVED
_KEYS_REMEMBERED_MAX: Final = 8_192
_ROOM_BYTES: Final = 256 * 1024
"""Threads that wait for room are woken for this much: to wake one for each batch costs more than
its records.
"""


@dataclass(slots=True)
class TopicBuffer:
    """One topic's open batches by partition, and the partition that keyless records stick to.

    Invariant: `current` is the sticky partition's open batch, None when it has none.
    """

    name: str
    partitions: int
    sticky: StickyPartition
    open: dict[int, Batch] = field(default_factory=dict)
    current: Batch | None = None
    grows: bool = True
    """Whether batches may become larger than `batch.size`: until a broker refused one as too
    large.
    """
    owner: int = NOBODY
    """The thread that may add to open batches without the lock (see `Batch`), as long as no other
    one sends to the topic.
    """
    placed: dict[bytes, int] = field(default_factory=dict)
    """The partitions of recent keys, because murmur2 costs microseconds."""
    _opener: int = NOBODY
    _openings: int = 0

    def partition_of(self, key: bytes) -> int:
        """The partition of `key`."""
        partition = self.placed.get(key)
        if partition is None:
            if len(self.placed) >= _KEYS_REMEMBERED_MAX:
                self.placed.clear()
            partition = self.placed[key] = partition_for_key(key, self.partitions)
        return partition

    def opened_by(self, thread: int) -> None:
        """Count a batch that `thread` opened, where several threads send: one that alone opens
        batch after batch becomes the owner."""
        if self.owner != SEVERAL:
            return
        self._openings = self._openings + 1 if thread == self._opener else 0
        self._opener = thread
        if self._openings >= OWN_AFTER_BATCHES:
            self.owner = thread
            self._openings = 0

    def grow(self, partitions: int) -> None:
        """The topic has more partitions now: keys are placed anew."""
        if partitions != self.partitions:
            self.partitions = partitions
            self.placed.clear()
            self.sticky.forget_loads()


@dataclass(frozen=True, slots=True)
class AccumulatorSettings:
    """The producer's settings that the accumulator needs."""

    batch_size: int = 16_384
    batch_max_size: int = 16_384
    linger_ms: int = 0
    buffer_memory: int = 33_554_432
    adaptive: bool = True


class Accumulator:
    """Invariants: a partition's queue is in order of creation and only its last batch may be open;
    `used` is the sum of what unresolved batches reserve.
    """

    def __init__(
        self,
        settings: AccumulatorSettings,
        *,
        make_delivery: Callable[[], Any],
        available: Callable[[str], Sequence[int]],
        draw: Callable[[int], int],
    ) -> None:
        """`available` names a topic's partitions that keyless records may go to, in order;
        `draw(n)` gives numbers from 0 to n - 1, at random, so that producers spread.
        """
        self.settings = settings
        self.batch_size = settings.batch_size
        self.linger_ms = settings.linger_ms
        self.buffer_memory = settings.buffer_memory
        self.used = 0
        self.topics: dict[str, TopicBuffer] = {}
        self.incomplete: dict[Batch, None] = {}
        """Unresolved batches, oldest first."""
        self._make_delivery = make_delivery
        self._available = available
        self._draw = draw
        self._queues: dict[TopicPartition, deque[Batch]] = {}
        self._due: dict[TopicPartition, None] = {}
        self._lingering: deque[Batch] = deque()

    # ---- adding -------------------------------------------------------------------------------

    def topic(self, name: str, partitions: int) -> TopicBuffer:
        """The topic's buffer, made or grown to what metadata says."""
        buffer = self.topics.get(name)
        if buffer is None:
            sticky = StickyPartition(self.settings.adaptive, self._draw)
            buffer = self.topics[name] = TopicBuffer(name, partitions, sticky)
            sticky.start(self._choice(buffer))
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

    def claim(self, buffer: TopicBuffer, thread: int) -> None:
        """`thread` is about to add to the topic, with the lock. If another one may be adding
        without, its batches take no more.
        """
        if buffer.owner in (thread, SEVERAL):
            return
        if buffer.owner == NOBODY:
            buffer.owner = thread
            return
        buffer.owner = SEVERAL
        buffer.opened_by(thread)
        for partition in list(buffer.open):
            self.close_batch(buffer, partition)

    def open_batch(self, now_ms: int, buffer: TopicBuffer, partition: int, size: int) -> bool:
        """Start a batch for a record of `size` bytes, closing the partition's present one.

        True when the sender should be woken: a batch became due, or the first one lingers.
        Call `has_room` first.
        """
        wake = self.close_batch(buffer, partition)
        tp = TopicPartition(buffer.name, partition)
        batch = self._start(now_ms, tp, self._reservation(size))
        buffer.open[partition] = batch
        if partition == buffer.sticky.current:
            buffer.current = batch
        if self.linger_ms == 0 or size >= batch.room:
            self._due[tp] = None
            return True
        wake = wake or not self._lingering
        self._lingering.append(batch)
        return wake

    def extend_batch(self, buffer: TopicBuffer, batch: Batch) -> bool:
        """Let a full open batch take as much again as it holds, up to `batch.max.size`; it is due
        from now on. False when it may not: close it.
        """
        more = min(batch.limit, self.settings.batch_max_size - batch.limit)
        if more <= 0 or not buffer.grows or self.used + more > self.buffer_memory:
            return False
        batch.extend(more)
        batch.reserved += more
        self.used += more
        self._due[batch.topic_partition] = None
        return True

    def close_batch(self, buffer: TopicBuffer, partition: int) -> bool:
        """No more records into the partition's open batch, and it is due; False if there is none.

        Keyless records go on to another partition once `batch.size` bytes went to this one.
        """
        batch = buffer.open.pop(partition, None)
        if batch is None:
            return False
        batch.close()
        self._due[batch.topic_partition] = None
        if partition == buffer.sticky.current:
            buffer.current = None
            buffer.sticky.produced += batch.size
            if buffer.sticky.produced >= self.batch_size:
                self.advance_sticky(buffer)
        return True

    def advance_sticky(self, buffer: TopicBuffer) -> None:
        """Have keyless records go to another partition."""
        buffer.sticky.advance(lambda: self._choice(buffer), lambda p: self._waiting(buffer, p))
        buffer.current = buffer.open.get(buffer.sticky.current)

    def leaders_changed(self) -> None:
        """Keyless records leave partitions that they may not go to any more."""
        for buffer in self.topics.values():
            buffer.sticky.forget_loads()
            if buffer.sticky.current not in self._choice(buffer):
                self.advance_sticky(buffer)

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
        batch.close_encoded(encoded, count, first_timestamp_ms)
        self._due[topic_partition] = None
        return batch

    def _start(self, now_ms: int, topic_partition: TopicPartition, reserved: int) -> Batch:
        batch = Batch(topic_partition, now_ms, self._make_delivery(), reserved)
        batch.reserved = reserved
        self.used += reserved
        self.incomplete[batch] = None
        queue = self._queues.get(topic_partition)
        if queue is None:
            queue = self._queues[topic_partition] = deque()
        queue.append(batch)
        return batch

    def _reservation(self, size: int) -> int:
        # As Kafka's buffer pool: a whole batch at once, so that records need no accounting.
        return max(self.batch_size, BATCH_OVERHEAD + size)

    def _choice(self, buffer: TopicBuffer) -> Sequence[int]:
        return self._available(buffer.name) or range(buffer.partitions)

    def _waiting(self, buffer: TopicBuffer, partition: int) -> int:
        return len(self._queues.get(TopicPartition(buffer.name, partition), ()))

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
        """The time at which the oldest lingering batch becomes due; None where none lingers."""
        return self._lingering[0].created_ms + self.linger_ms if self._lingering else None

    @property
    def has_due(self) -> bool:
        """Whether any partition has something to send."""
        return bool(self._due)

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
            or self._need_not_linger(queue[0], now_ms)
        ):
            self._due[topic_partition] = None  # at the end: other partitions come first
        return batch

    def _need_not_linger(self, batch: Batch, now_ms: int) -> bool:
        """Whether an open batch is due. The first three say what `open_batch` and `extend_batch`
        did, whatever the time: it may have been looked at before the batch was begun.
        """
        return (
            not self.linger_ms
            or batch.room <= 0
            or batch.grew
            or batch.created_ms + self.linger_ms <= now_ms
        )

    def is_only(self, batch: Batch) -> bool:
        """Whether this batch, and nothing else, is due, and nothing waits in its partition."""
        tp = batch.topic_partition
        return len(self._due) == 1 and tp in self._due and len(self._queues[tp]) == 1

    def put_back(self, batch: Batch) -> None:
        """Undo a `take` of the partition's only batch, however far it came: the batch is due, and
        takes no more records.
        """
        tp = batch.topic_partition
        buffer = self.topics[tp.topic]
        if buffer.current is batch:
            buffer.current = None
        if buffer.open.get(tp.partition) is batch:
            del buffer.open[tp.partition]
        batch.close()
        if batch not in self._queues[tp]:
            self._queues[tp].appendleft(batch)
        self._due[tp] = None

    def mend(self) -> None:
        """A thread was interrupted while it added (Ctrl-C), at whatever step. A batch that it only
        began is gone, one that it began to close is closed, and whatever waits is due.
        """
        for batch in [batch for batch in self.incomplete if not batch.attempts]:
            batch.trim()
            tp = batch.topic_partition
            buffer = self.topics[tp.topic]
            is_open = buffer.open.get(tp.partition) is batch
            if not batch.values and batch.encoded is None:
                if is_open:
                    del buffer.open[tp.partition]
                batch.close()
                self.drop(batch)
                self.resolve(batch)
            elif not is_open:
                batch.close()
        for buffer in self.topics.values():
            buffer.current = buffer.open.get(buffer.sticky.current)
        self._due.update({tp: None for tp, queue in self._queues.items() if queue})
        self.used = sum(batch.reserved for batch in self.incomplete)

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

    # ---- settled ------------------------------------------------------------------------------

    def resolve(self, batch: Batch) -> None:
        """The batch is done, one way or the other: its memory is free again."""
        batch.become(_RESOLVED)
        self.used -= batch.reserved
        del self.incomplete[batch]

    def replace(self, batch: Batch, parts: Sequence[Batch]) -> None:
        """`parts` take the place of `batch`, whose memory is theirs; they are as old as it is."""
        batch.become(_RESOLVED)
        parts[0].reserved = batch.reserved
        self.incomplete = dict.fromkeys(
            one for old in self.incomplete for one in (parts if old is batch else (old,))
        )
