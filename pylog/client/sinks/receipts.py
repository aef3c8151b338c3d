"""`write_receipts`: where the records lie that a batch of a streaming query has written."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pylog import errors
from pylog.client.admin.admin import AdminClient
from pylog.client.admin.sink_types import OverwrittenTopic, SinkListing, WrittenRange
from pylog.client.arguments import shown

SERVERS: Final = "PYLOG_BOOTSTRAP_SERVERS"


@dataclass(frozen=True, slots=True)
class WriteReceipt:
    """The offsets of the records that one batch has written to a sink. `ranges`: of each partition
    from the first to the last; records of other writers may lie between them. `overwritten`: topics
    whose older records the batch has replaced.
    """

    query_id: str
    sink_id: str
    batch_id: int
    row_count: int
    decided_ms: int
    ranges: tuple[WrittenRange, ...]
    overwritten: tuple[OverwrittenTopic, ...] = ()


def write_receipts(
    query_or_progress: Any,
    *,
    bootstrap_servers: str | Iterable[str] | None = None,
    timeout: float | None = None,
) -> list[WriteReceipt]:
    """The receipt of the last batch that counts, of each sink of the query, in the order of sink
    ids. Of a progress it is that of the progress's batch; none where the batch had no rows, or does
    not count yet.

    `query_or_progress` is a StreamingQuery, one of its progresses, or the query's id.
    `bootstrap_servers`: where the sinks are; else what the environment has as
    PYLOG_BOOTSTRAP_SERVERS.

    Raises InvalidRequest for a batch before the last one, whose receipt is not kept any more;
    PartialFailure where some brokers cannot tell.
    """
    servers = bootstrap_servers or os.environ.get(SERVERS)
    if not servers:
        raise errors.InvalidRequest(f"give bootstrap_servers, or set {SERVERS} in the environment")
    query_id, batch_id = _asked(query_or_progress)
    with AdminClient(bootstrap_servers=servers) as admin:
        listed = admin.list_sinks(query_id, receipts=True, timeout=timeout)
    found = []
    for sink in listed:
        receipt = _of(sink)
        if receipt is None or (batch_id is not None and receipt.batch_id < batch_id):
            continue
        if batch_id is not None and receipt.batch_id > batch_id:
            raise errors.InvalidRequest(
                f"batch {batch_id} of query {query_id}: sink {sink.sink_id!r} keeps the receipt of "
                f"its last batch alone, which is {receipt.batch_id}"
            )
        found.append(receipt)
    return found


def _of(sink: SinkListing) -> WriteReceipt | None:
    last = sink.last
    if last is None:
        return None
    return WriteReceipt(
        sink.query_id,
        sink.sink_id,
        last.batch_id,
        last.row_count,
        last.decided_ms,
        last.receipt,
        last.overwritten,
    )


def _asked(given: Any) -> tuple[str, int | None]:
    """The id of the query, and the batch where one is named."""
    if isinstance(given, str) and given:
        return given, None
    named = given if isinstance(given, Mapping) else _Attributes(given)
    query_id, batch_id = named.get("id"), named.get("batchId")
    if query_id and (batch_id is None or isinstance(batch_id, int)):
        return str(query_id), batch_id
    raise errors.InvalidRequest(
        f"query_or_progress={shown(given)}: give a StreamingQuery, one of its progresses, or the "
        "id of a query"
    )


class _Attributes:
    """A StreamingQuery, and what Spark's listeners are given, have the names as attributes."""

    def __init__(self, given: object) -> None:
        self._given = given

    def get(self, name: str) -> Any:
        """None where it has no such attribute."""
        return getattr(self._given, name, None)
