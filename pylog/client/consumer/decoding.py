"""From a fetched chunk to records, batch by batch, for the thread that polls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

from pylog import errors
from pylog.client.fetching.fetch_state import Chunk
from pylog.model import TopicPartition
from pylog.records.batch import crc_matches, iter_headers
from pylog.records.reader import iter_chunks
from pylog.records.record import Record, RecordChunk

if TYPE_CHECKING:
    import pyarrow as pa

Deserialize = Callable[[str, bytes | None], Any]


class Decoder:
    """One chunk on its way to the user. `position` follows what was taken; `error` is set when
    the record at `position` cannot be read, after everything before it was given out.
    """

    __slots__ = (
        "_batch",
        "_check_crcs",
        "_chunk",
        "_chunks",
        "_index",
        "_key",
        "_raw",
        "_readable",
        "_records",
        "_topic_partition",
        "_value",
        "done",
        "error",
        "position",
    )

    def __init__(
        self,
        chunk: Chunk,
        topic_partition: TopicPartition,
        position: int,
        *,
        key: Deserialize | None,
        value: Deserialize | None,
        check_crcs: bool,
    ) -> None:
        self.position = position
        self.done = False
        self.error: errors.PylogError | None = None
        self._chunk = chunk
        self._check_crcs = check_crcs
        self._topic_partition = topic_partition
        self._key = key
        self._value = value
        self._chunks: Iterator[RecordChunk] = iter_chunks(
            chunk.batches,
            topic_partition.topic,
            topic_partition.partition,
            from_offset=position,
            check_crcs=check_crcs,
        )
        self._batch: RecordChunk | None = None
        self._records: Iterator[Record] = iter(())
        self._index = 0
        self._readable = 0
        self._raw: tuple[list[Any], list[Any] | None] = ([], None)  # before deserializing

    @property
    def size(self) -> int:
        """The chunk's bytes."""
        return len(self._chunk.batches)

    def take_columns(self, include_headers: bool) -> pa.RecordBatch:
        """All records that are left, up to one that cannot be read. Deserializers do not apply."""
        from pylog.records.columnar import decode_readable

        columns, error, error_offset = decode_readable(
            self._chunk.batches,
            *self._topic_partition,
            from_offset=self.position,
            include_headers=include_headers,
            check_crcs=self._check_crcs,
        )
        if error is not None:
            self.error = self._with_way_on(error)
            self.position = max(self.position, error_offset)
        else:
            self._finish()
        return columns

    def _finish(self) -> None:
        self.position = self._chunk.next_offset
        self.done = True

    def take(self, count: int) -> list[Record]:
        """Up to `count` records of the next batch that has any; none when done or at an error."""
        while self._batch is None or self._index >= self._readable:
            if self.error is not None or not self._open_next():
                return []
        batch = self._batch
        records = list(islice(self._records, min(count, self._readable - self._index)))
        self._index += len(records)
        if self._index < len(batch):
            self.position = batch.offset_at(self._index)
        else:
            self.position = batch.next_offset
        return records

    def _open_next(self) -> bool:
        if self._batch is not None and self._readable < len(self._batch):
            batch, index = self._batch, self._readable
            self.position = batch.offset_at(index)
            self.error = self._fault(batch, index)
            return False
        try:
            self._batch = next(self._chunks, None)
        except errors.PylogError as error:
            self._batch = None
            self.error = self._with_way_on(error)
            return False
        if self._batch is None:
            self._finish()
            return False
        self._index = 0
        self._readable = self._deserialize(self._batch)
        self._records = self._batch.records()
        return True

    def _with_way_on(self, error: errors.PylogError) -> errors.PylogError:
        """A broken batch's error with where to go on: at the next batch here that is whole."""
        if not isinstance(error, errors.CorruptMessage):
            return error
        batches, way_on, broken = self._chunk.batches, self._chunk.next_offset, False
        with suppress(errors.CorruptMessage):
            for position, header in iter_headers(batches):
                if header.last_offset < self.position:
                    continue
                whole = crc_matches(batches, position, header)
                if broken and whole:
                    way_on = header.base_offset
                    break
                broken = broken or not whole
        told = errors.CorruptMessage(f"{error}; seek() to {way_on} to go on", next_offset=way_on)
        told.__cause__ = error
        return told

    def _deserialize(self, batch: RecordChunk) -> int:
        """Apply the deserializers in place; how many records could be read before a failure."""
        readable = len(batch)
        topic = self._topic_partition.topic
        self._raw = (batch.values, batch.keys if self._key is not None else None)
        if self._value is not None:
            batch.values, readable = _all(self._value, topic, batch.values, readable)
        if self._key is not None:
            batch.keys, readable = _all(self._key, topic, batch.keys, readable)
        return readable

    def _fault(self, batch: RecordChunk, index: int) -> errors.PylogError:
        values, keys = self._raw
        raw = Record.of(
            *self._topic_partition,
            batch.offset_at(index),
            batch.timestamps[index],
            batch.timestamp_type,
            batch.keys[index] if keys is None else keys[index],
            values[index],
            batch.headers[index],
            batch.leader_epoch,
        )
        where = f"{self._topic_partition} at offset {raw.offset}"
        for what, deserialize, data in (
            ("value", self._value, raw.value),
            ("key", self._key, raw.key),
        ):
            if deserialize is None:
                continue
            try:
                deserialize(self._topic_partition.topic, data)
            except Exception as error:  # noqa: BLE001  the user's code: told by the error
                fault = errors.SerializationFailed(
                    f"{where}: the deserializer failed on the {what}: {error!r}; "
                    f"seek() past it to go on",
                    raw,
                )
                fault.__cause__ = error
                return fault
        return errors.SerializationFailed(f"{where}: the deserializer failed", raw)


def _all(
    deserialize: Deserialize, topic: str, column: list[Any], count: int
) -> tuple[list[Any], int]:
    done: list[Any] = []
    try:
        for data in column:
            done.append(deserialize(topic, data))  # noqa: PERF401  what was done before is kept
    except Exception:  # noqa: BLE001  the user's code: raised again, with its place, when reached
        return done + column[len(done) :], min(count, len(done))
    return done, count
