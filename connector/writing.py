"""The work of a sink's task: Arrow record batches in, acknowledged records out.

Runs in Spark's Python workers. Rows are checked and grouped in bulk, never one by one.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
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


class Way(NamedTuple):
    """The calls by which rows are written. `send` gives None for rows that need not go; `flush`
    returns when all are acknowledged or failed; `drop` is called after a failure, and `failed`
    tells it.
    """

    send: Callable[[TopicRows], Future[Any] | None]
    flush: Callable[[], None]
    drop: Callable[[], None]
    failed: Callable[[str, TopicRows | None, PylogError, SinkOptions], ConnectorError] = failed


def write_batches(
    batches: Iterable[pa.RecordBatch], options: SinkOptions, columns: Sequence[str]
) -> Counter[str]:
    """Write all rows and wait until every in-sync replica has them; records by topic.

    Raises as `write_by`. Some of the records may have been stored when it fails, and are written
    again when Spark runs the task again.
    """
    warm(_load)
    begun: set[str] = set()

    def send(part: TopicRows) -> Future[Any]:
        if part.topic in begun:
            return _send(options, part)
        begun.add(part.topic)
        return _send_first(options, part)

    way = Way(send, lambda: producer_for(options).producer.flush(), lambda: drop_producer(options))
    return write_by(way, batches, options, columns)


def write_by(
    way: Way, batches: Iterable[pa.RecordBatch], options: SinkOptions, columns: Sequence[str]
) -> Counter[str]:
    """Send all rows and wait until every in-sync replica has them; records by topic.

    Raises SinkRow for a row that cannot be written, UnknownTopic, and WriteFailed when a record was
    not acknowledged.
    """
    written: Counter[str] = Counter()
    pending: deque[_Sent] = deque()
    topic, part = options.topic or "?", None
    first = 0
    try:
        for batch in batches:
            for part in rows_by_topic(batch, options, columns, first):
                topic = part.topic
                check_rows(part, options)
                future = way.send(part)
                if future is not None:
                    pending.append(_Sent(topic, part if part.may_be_refused() else None, future))
                written[topic] += part.rows.num_rows
            first += batch.num_rows
            while pending and pending[0].future.done():
                topic, part, future = pending.popleft()
                future.result()
        way.flush()
        while pending:
            topic, part, future = pending.popleft()
            future.result()
    except ConnectorError:
        way.drop()
        raise
    except PylogError as error:
        way.drop()
        raise way.failed(topic, part, error, options) from error
    return written


def _send(options: SinkOptions, part: TopicRows) -> Future[Any]:
    return producer_for(options).producer.send_arrow(part.topic, part.rows)


def _send_first(options: SinkOptions, part: TopicRows) -> Future[Any]:
    """The task's first rows of a topic. The producer may know it from an earlier task, from before
    it was deleted and made anew: then they go once more, to the new one.
    """
    kept = producer_for(options)
    if kept.begin(part.topic):
        return _send(options, part)
    sent = _send(options, part)
    kept.producer.flush()
    if not isinstance(sent.exception(), UnknownTopicId):
        return sent
    drop_producer(options)
    return _send_first(options, part)
