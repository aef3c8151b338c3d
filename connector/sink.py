"""Spark's writers: checks when they are made, `pylog_connector.writing` in the tasks.

Delivery is at least once: a task that fails is run again by Spark and writes its records again, and
so does a batch that a streaming query replays. Within one attempt nothing is written twice (the
producer is idempotent) and order per partition is kept. Nothing is decided in `commit`: when it is
called, every record is on all in-sync replicas.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from pylog_connector.errors import SaveMode, WriteFailed
from pylog_connector.options import SinkOptions
from pylog_connector.plainly import plainly
from pylog_connector.writing import write_batches

if TYPE_CHECKING:
    import pyarrow as pa


_ROOT_EXECUTION: Final = "spark.sql.execution.root.id"


@dataclass
class Written(WriterCommitMessage):
    """What one task wrote: records by topic, all acknowledged."""

    records: Mapping[str, int] = field(default_factory=dict)


class BatchWriter(DataSourceArrowWriter):
    """Appends a DataFrame."""

    def __init__(self, options: SinkOptions, columns: Sequence[str]) -> None:
        self._options = options
        self._columns = tuple(columns)

    @plainly
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write one task's rows; see `write_batches` for what it raises. SaveMode where they are
        to fill a table of Spark's catalogue.
        """
        check_is_no_table(TaskContext.get())
        return Written(dict(write_batches(iterator, self._options, self._columns)))

    @plainly
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Every task reported; WriteFailed otherwise, which would be a fault of Spark."""
        _check_reported(messages)


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
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        """Write one task's rows; see `write_batches` for what it raises."""
        return Written(dict(write_batches(iterator, self._options, self._columns)))

    @plainly
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Every task reported; WriteFailed otherwise, which would be a fault of Spark."""
        _check_reported(messages)


def _check_reported(messages: Sequence[WriterCommitMessage | None]) -> None:
    missing = sum(message is None for message in messages)
    if missing:
        raise WriteFailed(
            f"{missing} of {len(messages)} tasks did not report what they wrote; the batch is not "
            "complete"
        )
