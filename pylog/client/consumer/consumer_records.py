"""`ConsumerRecords`: the records that one poll returns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Generic

from pylog.model import TopicPartition
from pylog.records.record import K, Record, V

if TYPE_CHECKING:
    import pyarrow as pa


class ConsumerRecords(Generic[K, V]):
    """Records by partition, in order within each. Iterates over all; falsy when there is none."""

    __slots__ = ("_by_partition", "_next_offsets")

    def __init__(
        self,
        by_partition: Mapping[TopicPartition, list[Record[K, V]]],
        next_offsets: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        """`next_offsets`: where the partitions go on, if not right behind their last records."""
        self._by_partition = {tp: records for tp, records in by_partition.items() if records}
        self._next_offsets = next_offsets or {}

    def __iter__(self) -> Iterator[Record[K, V]]:
        return chain.from_iterable(self._by_partition.values())

    def __len__(self) -> int:
        return sum(map(len, self._by_partition.values()))

    @property
    def partitions(self) -> list[TopicPartition]:
        """The partitions that have records here."""
        return list(self._by_partition)

    @property
    def next_offsets(self) -> dict[TopicPartition, int]:
        """The consumer's position in each partition that has records here (KIP-1094): behind the
        last record and behind the offsets that follow it and hold no record for the user:
        transaction markers, aborted records, compacted ones.
        """
        return {
            tp: self._next_offsets.get(tp, records[-1].offset + 1)
            for tp, records in self._by_partition.items()
        }

    def records(self, topic_partition: TopicPartition | tuple[str, int]) -> list[Record[K, V]]:
        """The records of one partition."""
        return self._by_partition.get(TopicPartition(*topic_partition), [])

    def to_arrow(self, *, include_headers: bool = False) -> pa.RecordBatch:
        """The records as columns, with the connector's schema.

        Keys and values must be bytes, that is, not deserialized to something else. For speed use
        `Consumer.poll_arrow`, which never makes records.
        """
        import pyarrow as pa

        from pylog.records.columnar import record_schema

        schema = record_schema(include_headers)
        records = list(self)
        columns = {
            "key": [r.key for r in records],
            "value": [r.value for r in records],
            "topic": [r.topic for r in records],
            "partition": [r.partition for r in records],
            "offset": [r.offset for r in records],
            "timestamp": [r.timestamp_ms * 1000 for r in records],
            "timestampType": [int(r.timestamp_type) for r in records],
        }
        arrays = [pa.array(columns[f.name], f.type) for f in schema if f.name in columns]
        if include_headers:
            headers = [
                [{"key": name, "value": value} for name, value in r.headers] or None
                for r in records
            ]
            arrays.append(pa.array(headers, schema.field("headers").type))
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _repr_html_(self) -> str:
        """For notebooks."""
        from pylog.html_tables import html_table

        columns = ("topic", "partition", "offset", "time in ms", "key", "value")
        rows = ((r.topic, r.partition, r.offset, r.timestamp_ms, r.key, r.value) for r in self)
        return html_table(f"{len(self)} records", columns, rows, len(self))

    def __repr__(self) -> str:
        counts = ", ".join(f"{tp}: {len(rs)}" for tp, rs in self._by_partition.items())
        return f"<ConsumerRecords {counts or 'none'}>"
