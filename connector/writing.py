"""What a sink's task does: Arrow record batches in, acknowledged records out.

Runs in Spark's Python workers. Rows are checked and grouped in bulk, never one by one.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, NamedTuple

from pylog.errors import PylogError, UnknownTopicId
from pylog_connector.clients import drop_producer, producer_for
from pylog_connector.errors import ConnectorError
from pylog_connector.options import SinkOptions
from pylog_connector.refusals import failed
from pylog_connector.sink_rows import TopicRows, check_rows, rows_by_topic
from pylog_connector.warming import warm

if TYPE_CHECKING:
    import pyarrow as pa


def _load() -> None:
    """Everything that a write needs."""
    import pyarrow.compute  # noqa: F401

    import pylog.client.producer.arrow
    import pylog.client.producer.producer  # noqa: F401


class _Sent(NamedTuple):
    """Rows on their way. They are kept only where they may be told of."""

    topic: str
    part: TopicRows | None
    future: Future[Any]


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
    pending: deque[_Sent] = deque()
    topic, part = options.topic or "?", None
    first = 0
    try:
        for batch in batches:
            for part in rows_by_topic(batch, options, columns, first):
                topic = part.topic
                check_rows(part, options)
                send = _send if topic in written else _send_first
                future = send(options, topic, part.rows)
                pending.append(_Sent(topic, part if part.may_be_refused() else None, future))
                written[topic] += part.rows.num_rows
            first += batch.num_rows
            while pending and pending[0].future.done():
                topic, part, future = pending.popleft()
                future.result()
        producer_for(options).producer.flush()
        while pending:
            topic, part, future = pending.popleft()
            future.result()
    except ConnectorError:
        drop_producer(options)
        raise
    except PylogError as error:
        drop_producer(options)
        raise failed(topic, part, error, options) from error
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
