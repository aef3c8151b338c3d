"""A task's rows on their way to the sink: by topic, in the producer's types, checked in bulk, and
told one by one where something is wrong.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from pylog.client.settings import PRODUCER_SETTINGS
from pylog.model import NO_TIMESTAMP, topic_name_fault
from pylog_connector.errors import SinkRow
from pylog_connector.options import SinkOptions

if TYPE_CHECKING:
    import pyarrow as pa

_RECORD_OVERHEAD: Final = 64
"""The bytes of a record beyond key and value in a batch of its own, headers apart."""


class TopicRows(NamedTuple):
    """The rows of one topic out of one Arrow batch of a task, with the producer's columns."""

    topic: str
    rows: pa.RecordBatch
    first: int
    """The number of the batch's first row among the task's."""
    mask: pa.Array | None = None
    """True for each of the Arrow batch's rows that is one of them; None: all are."""

    def told(self, index: int) -> str:
        """A row, by its number in the task and its key, to end a sentence with."""
        import pyarrow.compute as pc

        place = index if self.mask is None else pc.indices_nonzero(self.mask)[index].as_py()
        told = f"row {self.first + place} of the task (from 0)"
        if "key" not in self.rows.schema.names:
            return told
        key = self.rows.column("key")[index].as_py()
        if key is None:
            return f"{told}, with key null"
        return f"{told}, with key {key if len(key) <= 60 else key[:57] + b'...'!r}"

    def may_be_refused(self) -> bool:
        """Whether a broker may refuse one of the rows for what is in it."""
        names = self.rows.schema.names
        return "timestamp" in names or ("key" in names and self.rows.column("key").null_count > 0)


def rows_by_topic(
    batch: pa.RecordBatch, options: SinkOptions, columns: Sequence[str], first: int = 0
) -> Iterator[TopicRows]:
    """The rows of each topic, in their order; `first` is the number of the batch's first row."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not batch.num_rows:
        return
    names = [name for name in columns if name != "topic"]
    rows = pa.RecordBatch.from_arrays([_column(batch, name) for name in names], names=names)
    if options.topic is not None:
        yield TopicRows(options.topic, rows, first)
        return
    topics = batch.column(batch.schema.get_field_index("topic"))
    if topics.null_count:
        index = pc.index(pc.is_null(topics), True).as_py()
        raise SinkRow(
            f"the column topic is null in {TopicRows('', rows, first).told(index)}; give each row "
            "a topic, or set the option topic"
        )
    encoded = topics.dictionary_encode()
    for number, name in enumerate(encoded.dictionary.to_pylist()):
        fault = topic_name_fault(name)
        if fault is not None:
            index = pc.index(encoded.indices, number).as_py()
            told = TopicRows("", rows, first).told(index)
            raise SinkRow(f"the column topic of {told}: {fault}")
        if len(encoded.dictionary) == 1:
            yield TopicRows(name, rows, first)
        else:
            mask = pc.equal(encoded.indices, number)
            yield TopicRows(name, rows.filter(mask), first, mask)


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    """A column in the type that the producer takes."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = batch.column(batch.schema.get_field_index(name))
    if name in ("key", "value"):
        return column.cast(pa.binary())
    if name == "partition":
        return column.cast(pa.int32())
    if name == "timestamp":
        utc = column.cast(pa.timestamp("us", tz="UTC"))
        # The source shows a record without a timestamp, -1 in Kafka's format, as 1 ms before 1970.
        none = pc.equal(utc, pa.scalar(NO_TIMESTAMP * 1000, utc.type))
        return pc.if_else(none, pa.scalar(None, utc.type), utc)
    return column


def moment(time_ms: int) -> str:
    """A time for an error's text."""
    try:
        told = datetime.datetime.fromtimestamp(time_ms / 1000, datetime.UTC)
    except (OverflowError, ValueError, OSError):  # a year that Python's calendar has not
        return f"{time_ms} ms since 1970"
    return told.isoformat(timespec="milliseconds")


def check_rows(part: TopicRows, options: SinkOptions) -> None:
    """SinkRow for the first row that no broker would take; the message tells which it is."""
    import pyarrow.compute as pc

    topic, rows = part.topic, part.rows
    names = rows.schema.names
    if "partition" in names:
        low = pc.min(rows.column("partition")).as_py()
        if low is not None and low < 0:
            index = pc.index(rows.column("partition"), low).as_py()
            raise SinkRow(
                f"topic {topic}: the column partition is {low} in {part.told(index)}; it must be "
                "0 or more, or null to place the row by its key"
            )
    if "timestamp" in names:
        first = pc.min(rows.column("timestamp"))
        if first.is_valid and first.value < 0:
            index = pc.index(rows.column("timestamp"), first).as_py()
            raise SinkRow(
                f"topic {topic}: the column timestamp is {moment(first.value // 1000)}, before "
                f"1970, in {part.told(index)}; it must be later, or null for the time of writing"
            )
    if "headers" in names:
        _check_headers(part)
    limit = options.client.get("max.request.size", PRODUCER_SETTINGS["max_request_size"].default)
    sizes = pc.fill_null(pc.binary_length(rows.column("value")), 0)
    if "key" in names:
        sizes = pc.add(sizes, pc.fill_null(pc.binary_length(rows.column("key")), 0))
    largest = pc.max(sizes)
    if largest.as_py() + _RECORD_OVERHEAD > limit:
        index = pc.index(sizes, largest).as_py()
        raise SinkRow(
            f"topic {topic}: {largest.as_py()} bytes of key and value in {part.told(index)}; "
            f"pylog.max.request.size allows {limit}: raise it, and the topic's max.message.bytes "
            "with it"
        )


def _check_headers(part: TopicRows) -> None:
    import pyarrow.compute as pc

    headers = part.rows.column("headers")
    pairs = headers.flatten()
    if not len(pairs):
        return
    bad = pc.is_null(pc.struct_field(pairs, "key"))
    if not pc.any(bad).as_py():
        return
    parents = pc.list_parent_indices(headers)
    index = parents[pc.index(bad, True).as_py()].as_py()
    raise SinkRow(
        f"topic {part.topic}: a header's key is null in {part.told(index)}; a header needs a key, "
        "only its value may be null"
    )
