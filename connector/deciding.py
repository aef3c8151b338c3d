"""The driver's part in a batch that counts once: it asks for one decision about the reports of all
tasks, or for none.

Spark begins a process for it after each batch of a streaming query. That process must begin
quickly: it loads gRPC only where brokers cannot be reached otherwise.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from pylog import errors
from pylog.client.sinks.sink_decider import BrokersAway, SinkDecider
from pylog.client.sinks.sink_types import CoordinatorPorts, SinkBatch, SinkDecision
from pylog_connector.clients import staging_producer_for
from pylog_connector.errors import ConnectorError, WriteFailed
from pylog_connector.options import SinkOptions
from pylog_connector.sink_identity import SinkBatchId
from pylog_connector.staged import (
    TaskReport,
    complete,
    conflict,
    difference,
    of_sink,
    staged_in,
    to_decide,
    told_of_difference,
)

logger = logging.getLogger("pylog.connector")

CLIENT_ID: Final = "pylog-sink"
DECIDE_MS: Final = 60_000
"""The time for which a coordinator is asked, without `max.block.ms`."""
ABORT_MS_MAX: Final = 10_000
"""An abort only spares readers the wait until the attempts end by themselves."""

T = TypeVar("T")


def decide(reports: Sequence[TaskReport | None], options: SinkOptions) -> SinkDecision | None:
    """Have the batch count. None: no task had a row, and there is nothing to decide.

    Raises WriteFailed, SinkSuperseded, BatchAlreadyWritten, IdempotencyConflict, and UnknownTopic
    for one that is to be overwritten; nothing of the batch counts then, unless it says so.
    """
    told = complete(reports)
    if not told:
        return None
    batch = told[0].batch
    if options.overwrites and not any(report.staged or report.decided for report in told):
        told = _with_an_attempt(told, options)
    staged = staged_in(told)
    known = next((report.decided for report in told if report.decided is not None), None)
    if known is not None:
        if staged:
            raise WriteFailed(
                f"{batch.sink}: batch {batch.batch_id} was decided while its tasks wrote; start "
                "the query again"
            )
        _compare(told, known, options)
        return known
    if not staged and not batch.is_keyed:
        return None
    where = staged[0].coordinator if staged else None
    decide_it = _overwrite if options.overwrites and staged else _decided
    wanted = to_decide(told)._replace(progress_groups=options.progress_groups)
    try:
        decided, is_new = decide_it(where, wanted, options)
    except ConnectorError:
        raise
    except errors.PylogError as error:
        raise of_sink(error, batch, options) from error
    if is_new:
        for warning in sorted({report.warning for report in told} - {""}):
            logger.warning("%s", warning)
    else:
        _compare(told, decided, options)
    return decided


def abort(
    reports: Sequence[TaskReport | None], options: SinkOptions, job: SinkBatchId | None = None
) -> None:
    """Have nothing of the batch count, as far as that is not decided. The batch is that of the
    `job`, if there is one and no task reports a stored attempt; of a query nothing is known then,
    and its attempts end by themselves.

    The run ends with it, as Spark cancels the other tasks late: one of them may still be about to
    begin. In `foreachBatch` it goes on, where the user may write the batch again.
    """
    staged = staged_in(reports)
    told = [report for report in reports if report is not None and report.staged is not None]
    batch = told[0].batch if told else job
    if batch is None:
        return
    ends_run = job is None or batch.run_id == job.run_id
    limit_ms = min(_timeout_ms(options), ABORT_MS_MAX)
    try:
        _ask(
            staged[0].coordinator if staged else None,
            options,
            limit_ms,
            lambda decider: decider.abort(
                batch.sink, batch.run_id, batch.batch_id, ends_run=ends_run
            ),
            lambda: staging_producer_for(options).producer.abort_batch(
                batch.sink, batch.run_id, batch.batch_id, ends_run=ends_run
            ),
        )
    except errors.PylogError as error:
        logger.warning(
            "%s: batch %d is not aborted yet, and will be by its time-out: %s",
            batch.sink,
            batch.batch_id,
            error,
        )


def _compare(told: Sequence[TaskReport], decided: SinkDecision, options: SinkOptions) -> None:
    how = difference(told, decided)
    if how is None:
        return
    if told[0].batch.is_keyed:
        raise conflict(options, how)
    logger.warning("%s", told_of_difference(told[0].batch, how))


def _with_an_attempt(told: list[TaskReport], options: SinkOptions) -> list[TaskReport]:
    """No task had a row: topics that are named otherwise lose what they have all the same."""
    from pylog_connector.staging import stage_nothing

    if options.topic is None:
        return told
    return [*told, stage_nothing(options, told[0].batch, len(told))]


def _overwrite(
    where: CoordinatorPorts | None, wanted: SinkBatch, options: SinkOptions
) -> tuple[SinkDecision, bool]:
    """The decision, when it has been carried out; or a little earlier, with a warning."""
    from pylog_connector.overwriting import destinations, overwriting

    with overwriting(options) as overwrites:
        topics = overwrites.topics(destinations(options, wanted.receipt), wanted.receipt)
        decided, is_new = _decided(where, wanted._replace(overwritten=tuple(topics)), options)
        overwrites.wait(decided.overwritten, _timeout_ms(options))
    return decided, is_new


def _decided(
    where: CoordinatorPorts | None, wanted: SinkBatch, options: SinkOptions
) -> tuple[SinkDecision, bool]:
    return _ask(
        where,
        options,
        _timeout_ms(options),
        lambda decider: decider.decide(wanted),
        lambda: staging_producer_for(options).producer.decide(wanted),
    )


def _ask(
    where: CoordinatorPorts | None,
    options: SinkOptions,
    timeout_ms: int,
    by_frames: Callable[[SinkDecider], T],
    by_client: Callable[[], T],
) -> T:
    if where is not None and where.ports:
        client_id = str(options.client.get("client.id") or CLIENT_ID)
        try:
            return by_frames(SinkDecider(where, client_id, timeout_ms))
        except BrokersAway:
            pass  # the bootstrap servers know where they are now
        except errors.UnsupportedVersion:
            pass  # over frames
    return by_client()


def _timeout_ms(options: SinkOptions) -> int:
    return int(options.client.get("max.block.ms", DECIDE_MS))
