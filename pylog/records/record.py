"""`Record`, which a consumer hands out, and the chunk of decoded records behind it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import repeat
from typing import TYPE_CHECKING, Any, Generic

from pylog.model import TimestampType
from pylog.records.headers import Header
from pylog.records.record_columns import RecordColumns

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    K = TypeVar("K", default=Any)
    V = TypeVar("V", default=Any)
else:  # defaults are of Python 3.13
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")


class Record(Generic[K, V]):
    """One record of a log; `Record[K, V]` to a type checker, by the types of key and value.

    `value` is there at once; the rest is read from the batch's columns when asked for, because most
    programs use little of it. A kept record keeps its batch's bytes in memory.
    """

    __slots__ = ("_chunk", "_index", "value")

    def __init__(self, chunk: RecordChunk, index: int, value: V) -> None:
        self._chunk = chunk
        self._index = index
        self.value = value

    @classmethod
    def of(
        cls,
        topic: str,
        partition: int,
        offset: int,
        timestamp_ms: int = -1,
        timestamp_type: TimestampType = TimestampType.CREATE_TIME,
        key: Any = None,
        value: Any = None,
        headers: Sequence[Header] = (),
        leader_epoch: int | None = None,
        delivery_count: int | None = None,
    ) -> Record:
        """A record from its parts, with no batch behind it."""
        chunk = RecordChunk(topic, partition, timestamp_type, leader_epoch, [value])
        chunk.offsets, chunk.timestamps = [offset], [timestamp_ms]
        chunk.keys, chunk.headers = [key], [list(headers)]
        if delivery_count is not None:
            chunk.delivery_counts = [delivery_count]
        return cls(chunk, 0, value)

    @property
    def topic(self) -> str:
        return self._chunk.topic

    @property
    def partition(self) -> int:
        return self._chunk.partition

    @property
    def offset(self) -> int:
        return self._chunk.offsets[self._index]

    @property
    def timestamp_ms(self) -> int:
        """Milliseconds since the epoch; -1 when the producer set none."""
        return self._chunk.timestamps[self._index]

    @property
    def timestamp_type(self) -> TimestampType:
        return self._chunk.timestamp_type

    @property
    def key(self) -> K:
        key: K = self._chunk.keys[self._index]
        return key

    @property
    def headers(self) -> list[Header]:
        """(name, value) pairs in the producer's order; names may repeat, a value may be None."""
        return self._chunk.headers[self._index]

    @property
    def leader_epoch(self) -> int | None:
        """Epoch of the leader that wrote the batch, None when the log does not say."""
        return self._chunk.leader_epoch

    @property
    def delivery_count(self) -> int | None:
        """The number of times that a share group has delivered the record, this time included; None
        elsewhere."""
        counts = self._chunk.delivery_counts
        return None if counts is None else counts[self._index]

    def _parts(self) -> tuple[Any, ...]:
        return (
            self.topic,
            self.partition,
            self.offset,
            self.timestamp_ms,
            self.timestamp_type,
            self.key,
            self.value,
            self.headers,
            self.leader_epoch,
        )

    def __eq__(self, other: object) -> bool:
        return self._parts() == other._parts() if isinstance(other, Record) else NotImplemented

    def __hash__(self) -> int:
        return hash((self.topic, self.partition, self.offset))

    def __reduce__(self) -> tuple[Any, ...]:
        return Record.of, (*self._parts(), self.delivery_count)

    def __repr__(self) -> str:
        return (
            f"Record(topic={self.topic!r}, partition={self.partition}, offset={self.offset}, "
            f"timestamp_ms={self.timestamp_ms}, key={self.key!r}, value={self.value!r}, "
            f"headers={self.headers!r})"
        )


class RecordChunk:
    """The records of one batch or several, from some offset on, as columns. `next_offset` follows
    the last batch.

    `values` is a list already; the other columns become lists at their first use. All may be
    replaced by lists of the same length, which is how a consumer applies deserializers.
    """

    def __init__(
        self,
        topic: str,
        partition: int,
        timestamp_type: TimestampType,
        leader_epoch: int | None,
        values: list[Any],
        next_offset: int = -1,
        source: RecordColumns | None = None,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.timestamp_type = timestamp_type
        self.leader_epoch = leader_epoch
        self.values = self._first_values = values
        self.next_offset = next_offset
        self.delivery_counts: list[int] | None = None
        """The delivery count of each record, where a share group has delivered them; else None."""
        self._source = source

    def __len__(self) -> int:
        return len(self.values)

    def offset_at(self, index: int) -> int:
        """One record's offset, without a list of all."""
        return self._source.offset_at(index) if self._source is not None else self.offsets[index]

    def records(self) -> Iterator[Record]:
        """The records."""
        make = getattr(self._source, "new_records", None)
        if make is not None:
            made: list[Record] = make(self, cyclic=self.values is not self._first_values)
            return iter(made)
        return map(Record, repeat(self), range(len(self.values)), self.values)

    @cached_property
    def offsets(self) -> list[int]:
        assert self._source is not None
        return self._source.offsets()

    @cached_property
    def timestamps(self) -> list[int]:
        assert self._source is not None
        return self._source.timestamps()

    @cached_property
    def keys(self) -> list[Any]:
        assert self._source is not None
        return self._source.keys()

    @cached_property
    def headers(self) -> list[list[Header]]:
        assert self._source is not None
        return self._source.headers()
