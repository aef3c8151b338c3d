"""A source's part in the progress that a sink commits (`pylog.progress.group`): how far the source
has come with a batch is committed to its group in a transaction of the sink's, and counts when the
batch does.

The driver knows the end of a batch, and Spark tells tasks which query, run and batch they belong
to: so one task of each batch takes the positions along, and commits them before it gives a row to
anybody. When the batch is decided, they are there.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark import TaskContext

from pylog import errors
from pylog.client.sinks.sink_types import SinkAttempt
from pylog.model import OffsetAndMetadata, TopicPartition
from pylog_connector.clients import drop_progress_producer, progress_producer_for, reader_for
from pylog_connector.errors import (
    BatchAlreadyWritten,
    CommitGroupInUse,
    ConnectorError,
    ProgressFailed,
    SinkIdentity,
    SinkSuperseded,
)
from pylog_connector.option_names import (
    PREPARED_TIMEOUT,
    PROGRESS_GROUP,
    SINK_ID,
    TAKEOVER,
    in_options,
)
from pylog_connector.options import SourceOptions
from pylog_connector.progress import Progress
from pylog_connector.sink_identity import SinkBatchId, batch_of_sink

if TYPE_CHECKING:
    from pylog.client.admin.admin import AdminClient

logger = logging.getLogger("pylog.connector")


def commit_progress(progress: Progress, options: SourceOptions) -> None:
    """Commit the positions to the source's group with the batch of this task. A batch that counts
    already has its positions.

    Raises SinkIdentity, SinkSuperseded, BatchAlreadyWritten, CommitGroupInUse, ProgressFailed.
    """
    context = TaskContext.get()
    sink_id = str(options.sink_id)
    batch = None if context is None else batch_of_sink(context.getLocalProperty, sink_id)
    if context is None or batch is None:
        raise SinkIdentity(
            f"{PROGRESS_GROUP}={options.progress_group!r}: the task does not see which query and "
            "batch it belongs to; leave the option out"
        )
    commit_with(batch, context.partitionId(), context.taskAttemptId(), progress, options)


def commit_with(
    batch: SinkBatchId, task: int, attempt: int, progress: Progress, options: SourceOptions
) -> None:
    """The same for an attempt of a task."""
    if not progress_producer_for(options).producer.is_between_attempts:  # given up in the middle
        drop_progress_producer(options)
    group = str(options.progress_group)
    begun = SinkAttempt(
        batch.sink, batch.run_id, batch.batch_id, task, attempt, group, progress.digest
    )
    metadata = f"Spark query {batch.sink.query_id}, batch {batch.batch_id}"
    positions = {tp: at._replace(metadata=metadata) for tp, at in progress.positions}
    try:
        if not options.fail_on_data_loss:
            positions = _of_what_exists(positions, options)
        producer = progress_producer_for(options).producer
        if producer.begin_attempt(begun) is None:
            producer.send_positions(group, positions)
            producer.prepare_attempt(options.prepared_timeout_ms)
    except BaseException as error:
        drop_progress_producer(options)
        if isinstance(error, errors.PylogError):
            raise _told(error, batch, options) from error
        raise


def _of_what_exists(
    positions: Mapping[TopicPartition, OffsetAndMetadata], options: SourceOptions
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Without partitions that were deleted since the batch was planned: no group has offsets
    there, and the tasks tell of the loss.
    """
    found = reader_for(options).topics(sorted({tp.topic for tp in positions}))
    counts = {name: len(topic.partitions) for name, topic in found.items()}
    return {tp: at for tp, at in positions.items() if tp.partition < counts.get(tp.topic, 0)}


def _told(error: errors.PylogError, batch: SinkBatchId, options: SourceOptions) -> ConnectorError:
    why = in_options(str(error), options.bootstrap_option)
    option = f"{PROGRESS_GROUP}={options.progress_group!r}"
    where = f"{option}: {batch.sink}, batch {batch.batch_id}"
    if isinstance(error, errors.SinkRunSuperseded):
        return SinkSuperseded(
            f"{where}: {why}. If two queries run from one checkpoint, give each its own; this run "
            "reads nothing more"
        )
    if isinstance(error, errors.SinkBatchDecided):
        return BatchAlreadyWritten(
            f"{where}: {why}. A checkpoint that was put back needs a new {SINK_ID}"
        )
    if isinstance(error, errors.CommitFailed) or isinstance(error.__cause__, errors.CommitFailed):
        return CommitGroupInUse(
            f"{option}: the group has live members by now, and they alone commit: stop them, or "
            "give the query a group of its own; then start it again"
        )
    return ProgressFailed(
        f"{where}: {error.name}: {why}. Nothing of the batch counts; start the query again when "
        "that is mended"
    )


# ---- a new query, in the driver ------------------------------------------------------------------


def take_over(admin: AdminClient, options: SourceOptions) -> None:
    """End batches that earlier queries with the same sink and group have left open, so that the
    group's positions are final. A query that still runs fails with that.
    """
    for sink in admin.list_sinks():
        if sink.sink_id == options.sink_id and options.progress_group in sink.progress_groups:
            count = admin.abort_sink(sink.query_id, sink.sink_id)
            logger.warning(
                "%s=true: %d open attempts of sink %r of query %s were aborted",
                TAKEOVER,
                count,
                sink.sink_id,
                sink.query_id,
            )


def left_open(options: SourceOptions) -> str:
    """The advice where positions cannot be read, for the end of an error's text."""
    return (
        f". Where an earlier query was killed in a batch, its positions are open until they are "
        f"aborted ({PREPARED_TIMEOUT}): {TAKEOVER}=true at the source aborts them at once, and so "
        f"does `pylog sinks abort` of sink {options.sink_id!r}"
    )
