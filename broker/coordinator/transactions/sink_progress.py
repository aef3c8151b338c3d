"""The positions of sources that count with a batch of a sink. Pure.

A task that reads for a query commits to a group how far its source has come with the batch, in a
transaction of the sink's pool, before it gives a row to anybody. So when the batch is decided, that
attempt is known for each source that has read something, and counts with the rows. What became of
it stands in the record of its transactional id: positions that were aborted are missed, by this
coordinator and by the next one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from pylog.errors import InvalidRequest, InvalidTxnState
from pylog_broker.coordinator.transactions.refusals import Unproven
from pylog_broker.coordinator.transactions.sink_messages import SinkKey
from pylog_broker.coordinator.transactions.sink_state import Attempt, SinkState, number_of

OPTION: Final = "pylog.progress.group"


def check_begins(key: SinkKey, sink: SinkState, attempt: Attempt) -> None:
    """Whether an attempt may commit its positions: Spark goes on to a batch when the one before it
    is finished.

    Raises InvalidRequest where another source commits other positions to the same group; and, as
    Unproven, where the batch before was not decided here, so that something else than this sink has
    written it.
    """
    for known in _attempts(sink):
        if sink.last_batch < known.batch_id < attempt.batch_id:
            raise Unproven(_decided_elsewhere(key, known))
        is_same = (known.run_number, known.batch_id) == (attempt.run_number, attempt.batch_id)
        if is_same and known.group == attempt.group and known.digest != attempt.digest:
            raise InvalidRequest(
                f"batch {attempt.batch_id} of query {key.query_id}: two sources commit to group "
                f"{attempt.group!r}, and have come to different positions; give each source "
                f"{OPTION} with a group of its own, and the sink all of them"
            )


def _decided_elsewhere(key: SinkKey, known: Attempt) -> InvalidRequest:
    return InvalidRequest(
        f"batch {known.batch_id} of query {key.query_id} is finished, and sink {key.sink_id!r} has "
        f"not decided about it: what the query reads is committed to group {known.group!r} with "
        f"what it writes there. Write with the format pylog, with {OPTION}={known.group} and "
        f"sinkId={key.sink_id}, each batch, also one without rows. Then give source and sink "
        f"another sinkId, or forget this one (pylog sinks forget {key.query_id} {key.sink_id})"
    )


def counted(
    key: SinkKey, sink: SinkState, run_number: int, batch_id: int, groups: tuple[str, ...]
) -> Iterable[str]:
    """The transactional ids of the attempts whose positions count with the batch: one for each
    group. `groups`: of which the sink was told.

    Raises InvalidRequest where the sink was not told of a group, or never heard of any source; and
    InvalidTxnState where positions for the batch were aborted.
    """
    held: dict[str, list[str]] = {}
    for transactional_id, task in sink.tasks.items():
        if _is_of(task.attempt, run_number, batch_id):
            ids = held.setdefault(task.attempt.group, [])
            if task.is_prepared:
                ids.append(transactional_id)
    for attempt in sink.unheld.values():
        if _is_of(attempt, run_number, batch_id):
            held.setdefault(attempt.group, [])
    if groups and not held and sink.decision is None:
        raise InvalidRequest(
            f"sink {key.sink_id!r} is told of {OPTION}={','.join(groups)}, and no source has "
            f"committed anything with batch {batch_id} of query {key.query_id}: give each source "
            f"its {OPTION}, and sinkId={key.sink_id}"
        )
    for group, ids in held.items():
        if group not in groups:
            raise InvalidRequest(
                f"a source of query {key.query_id} commits to group {group!r} with batch "
                f"{batch_id}, and sink {key.sink_id!r} is not told of that: give the sink "
                f"{OPTION}={','.join((*groups, group))}"
            )
        if not ids:
            raise InvalidTxnState(
                f"the positions that a source was to commit to group {group!r} with batch "
                f"{batch_id} were aborted"
            )
    return [min(ids, key=number_of) for ids in held.values()]


def _attempts(sink: SinkState) -> Iterator[Attempt]:
    """Those with a group, open or not."""
    for task in sink.tasks.values():
        if task.attempt.group:
            yield task.attempt
    yield from sink.unheld.values()


def _is_of(attempt: Attempt, run_number: int, batch_id: int) -> bool:
    found = (attempt.run_number, attempt.batch_id)
    return bool(attempt.group) and found == (run_number, batch_id)
