"""From fetched chunks to what a poll returns: records or columns, of all partitions in turn.

On the user's thread, outside the lock but for moments: decoding is the bulk of a consumer's work,
and pylog's loop receives the next chunks meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from operator import length_hint
from typing import Any, Final

from pylog.client.consumer.consumer_loop import ConsumerLoop
from pylog.client.consumer.consumer_records import ConsumerRecords
from pylog.client.consumer.consumer_settings import UserCode
from pylog.client.consumer.decoding import Decoder
from pylog.client.fetching.fetch_state import Partition
from pylog.client.fetching.positions import Positions
from pylog.model import TopicPartition
from pylog.records.record import Record

ARROW_BYTES_ENOUGH: Final = 512 * 1024
"""`poll_arrow` stops collecting here. A batch that is larger already is returned by itself: putting
columns together copies them."""

Parts = list[tuple[TopicPartition, list[Record]]]


class Collector:
    """The records of one consumer that were fetched and not returned."""

    def __init__(
        self,
        loop: ConsumerLoop,
        positions: Positions,
        code: UserCode,
        *,
        max_poll_records: int,
        check_crcs: bool,
    ) -> None:
        self._loop = loop
        self._positions = positions
        self._lock = loop.lock
        self._code = code
        self._max_poll_records = max_poll_records
        self._check_crcs = check_crcs
        self._turn = 0
        self._pending: tuple[list[Record], Iterator[Record]] = ([], iter(()))
        self._pending_next: dict[TopicPartition, int] = {}
        self._returned: dict[TopicPartition, int] = {}

    # ---- what is there ------------------------------------------------------------------------

    def has_news(self) -> bool:
        """Whether collecting would find something, or a fault. The lock is held."""
        return any(
            not p.paused and (p.buffer or p.decoding is not None or p.error is not None)
            for p in self._positions.partitions.values()
        )

    def records(self) -> Parts:
        """Up to `max_poll_records` records."""
        if self._code.cluster is not None:
            self._code.cluster.tell(self._loop.cluster.metadata.cluster_id)
        left = self._max_poll_records
        parts: Parts = []
        self._returned = {}
        for partition in self._in_turn():
            before = partition.position
            while left > 0:
                decoder = self._decoder(partition)
                if decoder is None:
                    break
                records = decoder.take(left)
                self._advance(partition, decoder)
                if records:
                    if before is not None:
                        self._returned[partition.topic_partition] = before
                    parts.append((partition.topic_partition, records))
                    left -= len(records)
                if partition.error is not None:
                    break
            if left <= 0:
                break
        self._loop.metrics.consumed(self._max_poll_records - left)
        return parts

    def columns(self, include_headers: bool) -> list[Any]:
        """Record batches of one fetched chunk or, while chunks are small, of several."""
        batches: list[Any] = []
        rows = size = 0
        self._returned = {}
        for partition in self._in_turn():
            before = partition.position
            while size < ARROW_BYTES_ENOUGH:
                decoder = self._decoder(partition)
                if decoder is None:
                    break
                size += decoder.size
                batch = decoder.take_columns(include_headers)
                self._advance(partition, decoder)
                if batch.num_rows:
                    if before is not None:
                        self._returned[partition.topic_partition] = before
                    batches.append(batch)
                    rows += batch.num_rows
                if partition.error is not None:
                    break
        self._loop.metrics.consumed(rows)
        return batches

    def _in_turn(self) -> list[Partition]:
        """The partitions that may be read, another one first each time."""
        with self._lock:
            readable = [p for p in self._positions.partitions.values() if not p.paused]
        if not readable:
            return []
        self._turn += 1
        first = self._turn % len(readable)
        return readable[first:] + readable[:first]

    def _decoder(self, partition: Partition) -> Decoder | None:
        """The chunk that is being read, the next one when that is done; None when none is here."""
        decoder: Decoder | None = partition.decoding
        if decoder is not None:
            return decoder
        with self._lock:
            if not partition.buffer:
                return None
            assert partition.position is not None
            chunk = self._positions.take(partition)
            has_room = partition.left_out
            partition.decoding = decoder = Decoder(
                chunk,
                partition.topic_partition,
                partition.position,
                key=self._code.deserialize_key,
                value=self._code.deserialize_value,
                check_crcs=self._check_crcs,
            )
        if has_room:
            self._loop.poke()
        return decoder

    def _advance(self, partition: Partition, decoder: Decoder) -> None:
        with self._lock:
            if partition.decoding is not decoder:
                return  # the loop moved the position meanwhile: the log was cut, or made anew
            if decoder.error is not None:
                # The records before it are returned; the next poll raises, and a seek passes it.
                self._positions.seek(partition, decoder.position)
                partition.fail(decoder.error)
                return
            partition.position = decoder.position
            if decoder.done:
                partition.decoding = None

    # ---- records handed to an iteration, but not yielded --------------------------------------

    def iterate(self, parts: Parts) -> Iterator[Record]:
        """The records of `parts`, remembered until they are taken."""
        records = self.intercepted(parts)
        chunk = list(records)
        self._pending = (chunk, iter(chunk))
        self._pending_next = records.next_offsets
        return self._pending[1]

    def pending(self) -> Iterator[Record]:
        """Records that an iteration has not yielded yet; it may be taken up where it was left."""
        return self._pending[1]

    def take_pending(self) -> ConsumerRecords:
        """The records that an iteration left, now in the caller's hands."""
        _, records = self._pending
        self._pending = ([], iter(()))
        return grouped([(home(record), [record]) for record in records], self._pending_next)

    def unyielded(self) -> dict[TopicPartition, int]:
        """The first offset, by partition, of what an unfinished iteration still holds."""
        chunk, records = self._pending
        left = length_hint(records)
        first: dict[TopicPartition, int] = {}
        for record in chunk[len(chunk) - left :] if left else ():
            first.setdefault(home(record), record.offset)
        return first

    def in_hand(self) -> dict[TopicPartition, int]:
        """The same, with the record that the iteration has yielded last: a record is done with when
        the next one is taken.
        """
        first = self.unyielded()
        chunk, records = self._pending
        yielded = len(chunk) - length_hint(records)
        if yielded:
            first[home(chunk[yielded - 1])] = chunk[yielded - 1].offset
        return first

    def returned_last(self) -> dict[TopicPartition, int]:
        """The first offset, by partition, of the records that the last poll returned or that an
        iteration has in hand."""
        return {**self._returned, **self.in_hand()}

    def rewind_pending(self) -> None:
        """Give records of an unfinished iteration back, to be read again."""
        if not length_hint(self._pending[1]):
            return
        with self._lock:
            for tp, offset in self.unyielded().items():
                partition = self._positions.partitions.get(tp)
                if partition is not None:
                    self._positions.seek(partition, offset)
        self.take_pending()  # from a loop that still runs, too

    def drop_unassigned(self) -> None:
        """The user reads other partitions now."""
        self.drop_pending(self.unyielded().keys() - self._positions.partitions.keys())

    def drop_pending(self, partitions: Iterable[TopicPartition]) -> None:
        """The user moves elsewhere in these partitions."""
        if not length_hint(self._pending[1]):
            return
        gone = set(partitions)
        kept = [record for record in self._pending[1] if home(record) not in gone]
        self._pending = (kept, iter(kept))

    # ---- interceptors -------------------------------------------------------------------------

    def intercepted(self, parts: Parts) -> ConsumerRecords:
        """The parts as one, as the user's interceptors leave them. The partitions go on at the
        consumer's positions even where interceptors drop records.
        """
        with self._lock:
            known = self._positions.partitions  # the group may have taken one away meanwhile
            positions = {tp: known[tp].position for tp, _ in parts if tp in known}
        next_offsets = {tp: at for tp, at in positions.items() if at is not None}
        records = grouped(parts, next_offsets)
        if records and self._code.interceptors:
            kept = self._code.interceptors.on_consume(records)
            return ConsumerRecords({tp: kept.records(tp) for tp in kept.partitions}, next_offsets)
        return records


def home(record: Record) -> TopicPartition:
    """The partition that a record is from."""
    return TopicPartition(record.topic, record.partition)


def grouped(parts: Parts, next_offsets: Mapping[TopicPartition, int]) -> ConsumerRecords:
    """By partition, in order."""
    by_partition: dict[TopicPartition, list[Record]] = {}
    for tp, records in parts:
        if tp in by_partition:
            by_partition[tp].extend(records)
        else:
            by_partition[tp] = records
    return ConsumerRecords(by_partition, next_offsets)
