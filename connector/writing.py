"""What a sink's task does: Arrow record batches in, acknowledged records out.

Runs in Spark's Python workers. Rows are checked and grouped in bulk, never one by one.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from socket import gethostname
from typing import TYPE_CHECKING, Any, Final

from connector.clients import drop_producer, producer_for
from connector.errors import ConnectorError, SinkRow, UnknownTopic, WriteFailed
from connector.options import SinkOptions
from connector.warming import warm
from pylog.client.settings import PRODUCER_SETTINGS
from pylog.errors import MessageTooLarge, PylogError, UnknownTopicId, UnknownTopicOrPartition
from pylog.model import NO_TIMESTAMP, topic_name_fault

if TYPE_CHECKING:
    import pyarrow as pa


_RECORD_OVERHEAD: Final = 64
"""Of a record beyond key and value in a batch of its own, headers apart."""


def _load() -> None:
    """Everything that a write needs."""
    import pyarrow.compute  # noqa: F401

    import pylog.client.producer.arrow
    import pylog.client.producer.producer  # noqa: F401


def write_batches(
    batches: Iterable[pa.RecordBatch], options: SinkOptions, columns: Sequence[str]
) -> Counter[str]:
    """Write all rows and wait until every in-sync replica has them; records by topic.

    Raises SinkRow for a row that cannot be written, UnknownTopic, and WriteFailed when a record was
    not acknowledged: some of the others may have been, and are written again when Spark runs the
    task again.
    """
    warm(_load)
    written: Counter[str] = Counter()
    pending: deque[tuple[str, Future[Any]]] = deque()
    topic = options.topic or "?"
    try:
        for batch in batches:
            for topic, rows in rows_by_topic(batch, options, columns):
                check_rows(rows, topic, options)
                send = _send if topic in written else _send_first
                pending.append((topic, send(options, topic, rows)))
                written[topic] += rows.num_rows
            while pending and pending[0][1].done():
                topic, future = pending.popleft()
                future.result()
        producer_for(options).producer.flush()
        while pending:
            topic, future = pending.popleft()
            future.result()
    except ConnectorError:
        drop_producer(options)
        raise
    except PylogError as error:
        drop_producer(options)
        raise _failed(topic, error) from error
    return written


def _send(options: SinkOptions, topic: str, rows: pa.RecordBatch) -> Future[Any]:
    return producer_for(options).producer.send_arrow(topic, rows)


def _send_first(options: SinkOptions, topic: str, rows: pa.RecordBatch) -> Future[Any]:
    """The task's first rows of a topic. The producer may know it from an earlier task, from before
    it was deleted and made anew: then they go once more, to the new one.
    """
    kept = producer_for(options)
    if kept.begin(topic):
        return _send(options, topic, rows)
    sent = _send(options, topic, rows)
    kept.producer.flush()
    if not isinstance(sent.exception(), UnknownTopicId):
        return sent
    drop_producer(options)
    return _send_first(options, topic, rows)


def _failed(topic: str, error: PylogError) -> ConnectorError:
    if isinstance(error, UnknownTopicOrPartition):
        remedy = (
            "correct the column partition (a frame read from a topic carries it: drop it), "
            "or add partitions"
            if "no partition" in str(error)
            else "create it, or correct topic"
        )
        return UnknownTopic(f"cannot write to topic {topic}: {error}; {remedy}")
    if isinstance(error, MessageTooLarge):
        return SinkRow(
            f"topic {topic}: {error}; with this format the setting is pylog.max.request.size"
        )
    return WriteFailed(
        f"topic {topic}: {error.name}: {error} (tried from host {gethostname()}); Spark "
        "runs the task again, which writes its records once more"
    )


def rows_by_topic(
    batch: pa.RecordBatch, options: SinkOptions, columns: Sequence[str]
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of each topic, with the producer's columns, in their order."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not batch.num_rows:
        return
    names = [name for name in columns if name != "topic"]
    rows = pa.RecordBatch.from_arrays([_column(batch, name) for name in names], names=names)
    if options.topic is not None:
        yield options.topic, rows
        return
    topics = batch.column(batch.schema.get_field_index("topic"))
    if topics.null_count:
        index = pc.index(pc.is_null(topics), True).as_py()
        raise SinkRow(
            f"the column topic is null in {_row(rows, index)}; give each row a topic, or set the "
            "option topic"
        )
    encoded = topics.dictionary_encode()
    for number, name in enumerate(encoded.dictionary.to_pylist()):
        fault = topic_name_fault(name)
        if fault is not None:
            index = pc.index(encoded.indices, number).as_py()
            raise SinkRow(f"the column topic of {_row(rows, index)}: {fault}")
        if len(encoded.dictionary) == 1:
            yield name, rows
        else:
            yield name, rows.filter(pc.equal(encoded.indices, number))


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
        # Without a time zone Spark's value is taken as UTC.
        utc = column.cast(pa.timestamp("us")).cast(pa.timestamp("us", tz="UTC"))
        # The source shows a record without a timestamp, -1 in Kafka's format, as 1 ms before 1970.
        none = pc.equal(utc, pa.scalar(NO_TIMESTAMP * 1000, utc.type))
        return pc.if_else(none, pa.scalar(None, utc.type), utc)
    return column


def check_rows(rows: pa.RecordBatch, topic: str, options: SinkOptions) -> None:
    """SinkRow for the first row that no broker would take; the message tells its key."""
    import pyarrow.compute as pc

    names = rows.schema.names
    if "partition" in names:
        low = pc.min(rows.column("partition")).as_py()
        if low is not None and low < 0:
            index = pc.index(rows.column("partition"), low).as_py()
            raise SinkRow(
                f"topic {topic}: the column partition is {low} in {_row(rows, index)}; it must be "
                "0 or more, or null to place the row by its key"
            )
    if "timestamp" in names:
        first = pc.min(rows.column("timestamp")).as_py()
        if first is not None and first.timestamp() < 0:
            index = pc.index(rows.column("timestamp"), pc.min(rows.column("timestamp"))).as_py()
            raise SinkRow(
                f"topic {topic}: the column timestamp is before 1970 in {_row(rows, index)}"
            )
    if "headers" in names:
        _check_headers(rows, topic)
    limit = options.client.get("max.request.size", PRODUCER_SETTINGS["max_request_size"].default)
    sizes = pc.fill_null(pc.binary_length(rows.column("value")), 0)
    if "key" in names:
        sizes = pc.add(sizes, pc.fill_null(pc.binary_length(rows.column("key")), 0))
    largest = pc.max(sizes)
    if largest.as_py() + _RECORD_OVERHEAD > limit:
        index = pc.index(sizes, largest).as_py()
        raise SinkRow(
            f"topic {topic}: {largest.as_py()} bytes of key and value in {_row(rows, index)}; "
            f"pylog.max.request.size allows {limit}: raise it, and the topic's max.message.bytes "
            "with it"
        )


def _check_headers(rows: pa.RecordBatch, topic: str) -> None:
    import pyarrow.compute as pc

    headers = rows.column("headers")
    pairs = headers.flatten()
    if not len(pairs):
        return
    bad = pc.is_null(pc.struct_field(pairs, "key"))
    if not pc.any(bad).as_py():
        return
    parents = pc.list_parent_indices(headers)
    index = parents[pc.index(bad, True).as_py()].as_py()
    raise SinkRow(
        f"topic {topic}: a header's key is null in {_row(rows, index)}; a header needs a key, "
        "only its value may be null"
    )


def _row(rows: pa.RecordBatch, index: int) -> str:
    """A row, told by its key where it has one."""
    if "key" not in rows.schema.names:
        return "a row (there is no column key to tell it by)"
    key = rows.column("key")[index].as_py()
    if key is None:
        return "the row with key null"
    shown = repr(key if len(key) <= 60 else key[:57] + b"...")
    return f"the row with key {shown}"
