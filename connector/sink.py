"""Spark's writers: checks when they are made, `staging` in the tasks, `deciding` at the end.

Each batch counts once, as a whole: tasks write into transactions, and `commit` has one decision
made about all of them, which stands whatever happens afterwards. A batch that a streaming query
replays after that is not written again.

With `pylog.exactly.once=false` delivery is at least once: a task that fails is run again by Spark
and writes its records again, and so does a batch that is replayed. Nothing is decided in `commit`
then: when it is called, every record is on all in-sync replicas.

Spark calls `write` in the tasks, with a copy of the writer, and `commit` or `abort` in a process of
their own: of a batch write with another copy, of a streaming one with a writer made anew, which
knows nothing but what the tasks report.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from pylog_connector import deciding
from pylog_connector.errors import OptionNotApplicable, SaveMode, SinkIdentity, WriteFailed
from pylog_connector.option_names import EXACTLY_ONCE, PROGRESS_GROUP
from pylog_connector.options import SinkOptions
from pylog_connector.plainly import plainly
from pylog_connector.sink_identity import (
    SinkBatchId,
    batch_of_job,
    batch_of_query,
    check_is_of_no_batch,
    is_query,
)
from pylog_connector.staged import TaskReport
from pylog_connector.staging import stage_batches
from pylog_connector.writing import write_batches

if TYPE_CHECKING:
    import pyarrow as pa


_ROOT_EXECUTION: Final = "spark.sql.execution.root.id"


Messages = list[WriterCommitMessage | None]


@dataclass
class Written(WriterCommitMessage):
    """The message of a task that wrote at least once: records by topic, all acknowledged."""

    records: Mapping[str, int] = field(default_factory=dict)


@dataclass
class Reported(WriterCommitMessage):
    """The message of a task of a batch that counts once."""

    report: TaskReport


class BatchWriter(DataSourceArrowWriter):
    """Appends a DataFrame, or replaces what its topics have."""

    def __init__(self, options: SinkOptions, columns: Sequence[str]) -> None:
        self._options = options
        self._columns = tuple(columns)
        self._job = uuid.uuid4().hex
        """The id of this write: tasks have a copy of the writer."""

    @plainly
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written | Reported:
        """Write one task's rows; see `stage_batches` and `write_batches` for what it raises.
        SaveMode where they are to fill a table of Spark's catalogue, SinkIdentity where they are of
        a batch of a query that cannot be told.
        """
        context = TaskContext.get()
        check_is_no_table(context)
        if not self._options.exactly_once:
            return Written(dict(write_batches(iterator, self._options, self._columns)))
        batch = batch_of_job(self._job, self._options)
        if context is not None and not batch.is_keyed:
            check_is_of_no_batch(context.getLocalProperty)
            batch = batch_of_query(context.getLocalProperty, self._options) or batch
        if self._options.progress_groups and not is_query(batch.sink.query_id):
            raise OptionNotApplicable(
                f"{PROGRESS_GROUP}={','.join(self._options.progress_groups)!r}: this write belongs "
                "to no batch of a streaming query, with which progress is committed; leave the "
                "option out"
            )
        return _stage(iterator, self._options, self._columns, batch, context)

    @plainly
    def commit(self, messages: Messages) -> None:
        """Have all of it count; see `deciding.decide` for what it raises."""
        _commit(messages, self._options)

    @plainly
    def abort(self, messages: Messages) -> None:
        """Have none of it count."""
        _abort(messages, self._options, batch_of_job(self._job, self._options))


def check_is_no_table(context: TaskContext | None) -> None:
    """SaveMode in a task of `saveAsTable` or CREATE TABLE AS SELECT: Spark would list a table that
    cannot be read. The writer gets the same as from `save()`, but the write is part of another
    command, which made the table and takes it away again when the write fails. In `foreachBatch`
    it is part of the stream's.
    """
    if context is None or context.getLocalProperty("streaming.sql.batchId") is not None:
        return
    own, root = map(context.getLocalProperty, ("spark.sql.execution.id", _ROOT_EXECUTION))
    if own is not None and root is not None and own != root:
        raise SaveMode(
            "the write is part of another command, such as saveAsTable or CREATE TABLE AS SELECT; "
            "a topic is no table of a catalogue: write with save(), and read with "
            "CREATE TEMPORARY VIEW ... USING pylog"
        )


class StreamWriter(DataSourceStreamArrowWriter):
    """Appends each micro-batch."""

    def __init__(self, options: SinkOptions, columns: Sequence[str]) -> None:
        self._options = options
        self._columns = tuple(columns)

    @plainly
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written | Reported:
        """Write one task's rows; see `stage_batches` and `write_batches` for what it raises."""
        if not self._options.exactly_once:
            return Written(dict(write_batches(iterator, self._options, self._columns)))
        context = TaskContext.get()
        batch = None
        if context is not None:
            batch = batch_of_query(context.getLocalProperty, self._options)
        if batch is None:
            raise SinkIdentity(
                "the task does not see which query and batch it belongs to, so that the batch "
                f"cannot be written exactly once; set {EXACTLY_ONCE}=false"
            )
        return _stage(iterator, self._options, self._columns, batch, context)

    @plainly
    def commit(self, messages: Messages, batchId: int) -> None:
        """Have the batch count; see `deciding.decide` for what it raises."""
        _commit(messages, self._options)

    @plainly
    def abort(self, messages: Messages, batchId: int) -> None:
        """Have none of it count."""
        _abort(messages, self._options)


def _stage(
    iterator: Iterator[pa.RecordBatch],
    options: SinkOptions,
    columns: Sequence[str],
    batch: SinkBatchId,
    context: TaskContext | None,
) -> Reported:
    task, attempt = 0, 0
    if context is not None:
        task, attempt = context.partitionId(), context.taskAttemptId()
    return Reported(stage_batches(iterator, options, columns, batch, task, attempt))


def _commit(messages: Messages, options: SinkOptions) -> None:
    if options.exactly_once:
        deciding.decide(_reports(messages), options)
        return
    missing = sum(message is None for message in messages)
    if missing:
        raise WriteFailed(
            f"{missing} of {len(messages)} tasks did not report what they wrote; the batch is not "
            "complete"
        )


def _abort(messages: Messages, options: SinkOptions, job: SinkBatchId | None = None) -> None:
    if options.exactly_once:
        deciding.abort(_reports(messages), options, job)


def _reports(messages: Messages) -> list[TaskReport | None]:
    return [each.report if isinstance(each, Reported) else None for each in messages]
