"""A task's part in a batch that counts once: it writes into a transaction of its own, which is left
to the batch's decision. Runs in Spark's Python workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from pylog.client.sinks.sink_types import SinkAttempt, SinkDecision, SinkKey
from pylog.errors import (
    BootstrapFailed,
    InvalidTxnState,
    PylogError,
    SinkBatchDecided,
    SinkRunSuperseded,
    ThrottlingQuotaExceeded,
)
from pylog_connector.clients import drop_staging_producer, staging_producer_for
from pylog_connector.errors import ConnectorError
from pylog_connector.options import SinkOptions
from pylog_connector.refusals import failed
from pylog_connector.sink_identity import SinkBatchId, is_query
from pylog_connector.sink_rows import TopicRows
from pylog_connector.staged import CHECKSUMS, Staged, TaskReport, of_sink
from pylog_connector.succession import KNOWN_MAX, check_may_follow, predecessor
from pylog_connector.warming import warm
from pylog_connector.writing import Way, write_by

if TYPE_CHECKING:
    import pyarrow as pa

    from pylog.client.sinks.staging_producer import StagingProducer

_OF_SINK = (InvalidTxnState, SinkBatchDecided, SinkRunSuperseded, ThrottlingQuotaExceeded)


def _load() -> None:
    """Everything that a write needs."""
    import pyarrow.compute  # noqa: F401

    import pylog.client.producer.arrow
    import pylog.client.sinks.staging_producer
    import pylog.records.row_checksum  # noqa: F401


def stage_batches(
    batches: Iterable[pa.RecordBatch],
    options: SinkOptions,
    columns: Sequence[str],
    batch: SinkBatchId,
    task: int,
    attempt: int,
) -> TaskReport:
    """Write all rows, and wait until every in-sync replica has them and the sink's coordinator
    keeps them for the decision. A task without rows opens nothing, but for the first one where the
    progress of sources is committed with each batch; one of a batch that counts already looks at
    its rows and writes none.

    Raises as `write_by`, SinkSuperseded, SinkTaken and BatchAlreadyWritten.
    """
    warm(_load)
    staging = _Task(options, batch, task, attempt)
    try:
        write_by(staging.way(), batches, options, columns)
        if options.progress_groups and task == 0:
            staging.begin_surely()
        return staging.report()
    except BaseException:
        staging.drop()  # nobody else aborts it at once, and it holds back readers
        raise


def stage_nothing(options: SinkOptions, batch: SinkBatchId, task: int) -> TaskReport:
    """An attempt without rows, as the decision about a batch that overwrites topics has at least
    one. `task` is a number that no task has.

    Raises SinkSuperseded, BatchAlreadyWritten, WriteFailed.
    """
    staging = _Task(options, batch, task, 0)
    try:
        staging.begin()
        return staging.report()
    except PylogError as error:
        staging.drop()
        raise of_sink(error, batch, options) from error
    except BaseException:
        staging.drop()
        raise


class _Task:
    """One attempt. It begins with its first row."""

    def __init__(self, options: SinkOptions, batch: SinkBatchId, task: int, attempt: int) -> None:
        self._options = options
        self._batch = batch
        self._attempt = SinkAttempt(batch.sink, batch.run_id, batch.batch_id, task, attempt)
        self._has_begun = False
        self._decided: SinkDecision | None = None
        self._topics: set[str] = set()
        self._rows = 0
        self._checksum = 0
        self._warning = ""

    def way(self) -> Way:
        """The calls by which `write_by` writes the task's rows."""
        return Way(self._send, self._flush, self.drop, self._failed)

    def begin(self) -> None:
        """Get a transaction, or hear that the batch counts already."""
        kept = staging_producer_for(self._options)
        if not kept.producer.is_between_attempts:  # a task was given up in the middle
            self.drop()
            kept = staging_producer_for(self._options)
        self._warning = _look_for_predecessor(kept.producer, self._options, self._batch)
        self._decided = kept.producer.begin_attempt(self._attempt)
        self._has_begun = True

    def begin_surely(self) -> None:
        """The same, unless the task has rows: the batch is to be decided. Raises as `of_sink`."""
        if self._has_begun:
            return
        try:
            self.begin()
        except ConnectorError:
            raise
        except PylogError as error:
            raise of_sink(error, self._batch, self._options) from error

    def _send(self, part: TopicRows) -> Future[Any] | None:
        from pylog.records.row_checksum import rows_checksum

        if not self._has_begun:
            self.begin()
        kept = staging_producer_for(self._options)
        self._rows += part.rows.num_rows
        self._checksum += rows_checksum(part.topic, part.rows)
        if self._decided is not None:
            return None
        kept.producer.check_attempt()
        if part.topic not in self._topics:
            self._topics.add(part.topic)
            kept.begin(part.topic, surely=True)
        return kept.producer.send_arrow(part.topic, part.rows)

    def _flush(self) -> None:
        if self._has_begun and self._decided is None:
            staging_producer_for(self._options).producer.flush()

    def drop(self) -> None:
        drop_staging_producer(self._options)

    def _failed(
        self, topic: str, part: TopicRows | None, error: PylogError, options: SinkOptions
    ) -> ConnectorError:
        if isinstance(error, _OF_SINK):
            return of_sink(error, self._batch, options)
        return failed(topic, part, error, options)

    def report(self) -> TaskReport:
        """All rows are acknowledged: have the attempt kept."""
        batch, rows, checksum = self._batch, self._rows, self._checksum % CHECKSUMS
        if not self._has_begun or self._decided is not None:
            return TaskReport(batch, rows, checksum, decided=self._decided)
        producer = staging_producer_for(self._options).producer
        try:
            prepared = producer.prepare_attempt(self._options.prepared_timeout_ms)
        except PylogError as error:
            raise of_sink(error, batch, self._options) from error
        return TaskReport(batch, rows, checksum, Staged(*prepared), warning=self._warning)


_known_runs: set[tuple[SinkKey, str]] = set()
"""The sinks to which this process has seen that this run of their query may write."""


def _look_for_predecessor(
    producer: StagingProducer, options: SinkOptions, batch: SinkBatchId
) -> str:
    """A warning, or none. Raises SinkTaken, BootstrapFailed where no server answers, and where an
    explicit id was given, why brokers cannot tell.
    """
    sink, run = batch.sink, (batch.sink, batch.run_id)
    if not is_query(sink.query_id) or run in _known_runs:
        return ""
    try:
        before = predecessor(batch, options, producer.sinks_named(sink.sink_id))
    except BootstrapFailed:
        raise  # the attempt would ask the same servers, for as long again
    except PylogError:
        if options.sink_id is not None:
            raise
        return ""
    warning = ""
    if before is not None:
        warning = check_may_follow(before, options)
        if options.takeover and before.open_attempts:
            producer.abort_sink(before.query_id, before.sink_id)
    if len(_known_runs) >= KNOWN_MAX:
        _known_runs.clear()
    _known_runs.add(run)
    return warning
