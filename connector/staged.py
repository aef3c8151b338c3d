"""The tasks' reports of a batch that counts once, and the decision they ask for together. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from pylog import errors
from pylog.client.sinks.sink_types import (
    CoordinatorPorts,
    SinkBatch,
    SinkDecision,
    SinkMember,
    SinkRange,
    merged,
)
from pylog_connector.errors import (
    BatchAlreadyWritten,
    ConnectorError,
    IdempotencyConflict,
    InvalidOption,
    SinkSuperseded,
    WriteFailed,
)
from pylog_connector.option_names import IDEMPOTENCY_KEY, SINK_ID, in_options
from pylog_connector.options import SinkOptions
from pylog_connector.sink_identity import SinkBatchId

CHECKSUMS: Final = 1 << 64


class Staged(NamedTuple):
    """A stored attempt; it counts when its batch is decided."""

    member: SinkMember
    ranges: tuple[SinkRange, ...]
    coordinator: CoordinatorPorts


class TaskReport(NamedTuple):
    """One task of a batch: with `staged` it has written, with `decided` its batch counted already,
    with neither it had no rows. `warning`: for the driver to tell.
    """

    batch: SinkBatchId
    rows: int = 0
    checksum: int = 0
    staged: Staged | None = None
    decided: SinkDecision | None = None
    warning: str = ""


def staged_in(reports: Sequence[TaskReport | None]) -> list[Staged]:
    """The stored attempts, which can be decided about, or aborted."""
    return [one.staged for one in reports if one is not None and one.staged is not None]


def complete(reports: Sequence[TaskReport | None]) -> list[TaskReport]:
    """All reports. WriteFailed where tasks have not reported, or write different batches: both
    would be faults of Spark.
    """
    missing = sum(report is None for report in reports)
    if missing:
        raise WriteFailed(
            f"{missing} of {len(reports)} tasks did not report what they wrote; the batch is not "
            "complete"
        )
    told = [report for report in reports if report is not None]
    if len({report.batch for report in told}) > 1:
        raise WriteFailed("the tasks of one write report different batches")
    return told


def to_decide(reports: Sequence[TaskReport]) -> SinkBatch:
    """The decision to ask for; there is a report."""
    staged = staged_in(reports)
    batch, rows, checksum = reports[0].batch, *totals(reports)
    return SinkBatch(
        batch.sink,
        batch.run_id,
        batch.batch_id,
        tuple(one.member for one in staged),
        rows,
        checksum,
        merged([each for one in staged for each in one.ranges]),
        keep_ms=batch.keep_ms,
    )


def totals(reports: Sequence[TaskReport]) -> tuple[int, int]:
    """Rows and checksum of all."""
    rows = sum(report.rows for report in reports)
    return rows, sum(report.checksum for report in reports) % CHECKSUMS


def difference(reports: Sequence[TaskReport], decided: SinkDecision) -> str | None:
    """The difference between the reports' rows and those that count already, for a text; None:
    there is none.
    """
    rows, checksum = totals(reports)
    if (rows, checksum) == (decided.row_count, decided.checksum):
        return None
    if rows != decided.row_count:
        return f"it has {rows} rows, and {decided.row_count} were written"
    return f"its {rows} rows have other keys or values than those that were written"


def conflict(options: SinkOptions, how: str) -> IdempotencyConflict:
    """Another write with the same key."""
    return IdempotencyConflict(
        f"{IDEMPOTENCY_KEY}={options.idempotency_key!r}: a write to the same destination with this "
        f"key has written other rows: {how}. Give this write another key, or leave the option out"
    )


def told_of_difference(batch: SinkBatchId, how: str) -> str:
    """A warning: the sink keeps what it has."""
    return (
        f"{batch.sink}: batch {batch.batch_id} was written by an earlier run, and is not what it "
        f"was then: {how}. The sink keeps what it has. A plan that is not deterministic makes such "
        "batches; so does a checkpoint that was copied or put back"
    )


def of_sink(error: errors.PylogError, batch: SinkBatchId, options: SinkOptions) -> ConnectorError:
    """The error of the sink's coordinator as the connector's, with what to do."""
    why = in_options(str(error), options.bootstrap_option)
    where = f"{batch.sink}, batch {batch.batch_id}"
    if isinstance(error, errors.SinkRunSuperseded):
        if batch.is_keyed:
            return IdempotencyConflict(
                f"{IDEMPOTENCY_KEY}={options.idempotency_key!r}: another write with this key began "
                f"meanwhile, and decides ({why}). Run this one again: it then writes nothing"
            )
        return SinkSuperseded(
            f"{where}: {why}. If two queries run from one checkpoint, give each its own; this run "
            "writes nothing more"
        )
    if isinstance(error, errors.SinkBatchDecided):
        return BatchAlreadyWritten(
            f"{where}: {why}. Two writes of one batch to one destination, as in foreachBatch, need "
            f"the option {SINK_ID} each; a checkpoint that was put back needs a new {SINK_ID}, and "
            "then writes again what it has written before"
        )
    if isinstance(error, errors.ThrottlingQuotaExceeded | errors.InvalidRequest):
        return InvalidOption(f"{where}: {why}")
    if isinstance(error, errors.InvalidTxnState):
        return WriteFailed(
            f"{where}: what a task had written was aborted before the batch was decided: {why}. "
            "Nothing of the batch counts; start the query, or the write, again"
        )
    return WriteFailed(
        f"{where}: {error.name}: {why}; start the query again: it goes on with this batch, which "
        "is written once whether it was decided or not"
    )
