"""From a fetched chunk to records, batch by batch, for the thread that polls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from pylog import errors
from pylog.client.fetcher import Chunk
from pylog.model import TopicPartition
from pylog.records.batch import Buffer
from pylog.records.reader import iter_chunks
from pylog.records.record import Record, RecordChunk

Deserialize = Callable[[str, bytes | None], Any]


class Decoder:
    """One chunk on its way to the user. `position` follows what was taken; `error` is set when
    the record at `position` cannot be read, after everything before it was given out.
    """

    __slots__ = (
        "_batch",
        "_chunk",
        "_chunks",
        "_index",
        "_key",
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

    @property
    def batches(self) -> Buffer:
        """The chunk's bytes."""
        return self._chunk.batches

    def finish(self) -> None:
        """All was read by other means."""
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
            self.error = error
            return False
        if self._batch is None:
            self.finish()
            return False
        self._index = 0
        self._readable = self._deserialize(self._batch)
        self._records = self._batch.records()
        return True

    def _deserialize(self, batch: RecordChunk) -> int:
        """Apply the deserializers in place; how many records could be read before a failure."""
        readable = len(batch)
        topic = self._topic_partition.topic
        if self._value is not None:
            batch.values, readable = _all(self._value, topic, batch.values, readable)
        if self._key is not None:
            batch.keys, readable = _all(self._key, topic, batch.keys, readable)
        return readable

    def _fault(self, batch: RecordChunk, index: int) -> errors.PylogError:
        where = f"{self._topic_partition} at offset {batch.offset_at(index)}"
        # Undeserialized entries are still the bytes that came.
        for what, deserialize, data in (
            ("value", self._value, batch.values[index]),
            ("key", self._key, batch.keys[index]),
        ):
            if deserialize is None or not (data is None or isinstance(data, bytes)):
                continue
            try:
                deserialize(self._topic_partition.topic, data)
            except Exception as error:  # noqa: BLE001  the user's code: told by the error
                fault = errors.SerializationFailed(
                    f"{where}: the deserializer failed on the {what}: {error!r}; "
                    f"seek() past it to go on"
                )
                fault.__cause__ = error
                return fault
        return errors.SerializationFailed(f"{where}: the deserializer failed")


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
