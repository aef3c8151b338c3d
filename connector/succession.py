"""The query that has written to a sink before a new one does. Pure.

A checkpoint that was deleted makes a new query, which writes again what the old one has written.
When the new query is meant to go on in the place of the old one, the old one writes no more.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from typing import Final

from pylog.client.admin.sink_types import SinkListing
from pylog_connector.errors import SinkTaken
from pylog_connector.option_names import SINK_ID, TAKEOVER
from pylog_connector.options import SinkOptions
from pylog_connector.sink_identity import SinkBatchId, is_query

KNOWN_MAX: Final = 1_000
"""Runs that a process need not look for again."""
NEVER: Final = -1


def predecessor(
    batch: SinkBatchId, options: SinkOptions, listed: Iterable[SinkListing]
) -> SinkListing | None:
    """The other query that wrote with this sink id, to the same topic where the option names one,
    last; None where there is none, or this query has written itself. With an explicit sink id, one
    that has written behind this query has gone on in its place. `listed`: sinks of that id.
    """
    others, own = [], []
    for sink in listed:
        if sink.last is None or not is_query(sink.query_id):
            continue
        topics = {each.topic for each in sink.last.receipt}
        if sink.query_id == batch.sink.query_id:
            own.append(sink.last.decided_ms)
        elif options.topic is None or not topics or options.topic in topics:
            others.append((sink.last.decided_ms, sink))
    if own and options.sink_id is None:
        return None
    later = [each for each in others if each[0] > max(own, default=NEVER)]
    return max(later, key=lambda each: each[0])[1] if later else None


def check_may_follow(before: SinkListing, options: SinkOptions) -> str:
    """Raises SinkTaken where the sink has an explicit id and no takeover is meant; otherwise a
    warning.
    """
    assert before.last is not None
    moment = datetime.datetime.fromtimestamp(before.last.decided_ms / 1000, datetime.UTC)
    wrote = (
        f"query {before.query_id} has written there last, batch {before.last.batch_id} at "
        f"{moment.isoformat(timespec='milliseconds')}"
    )
    if options.sink_id is not None and not options.takeover:
        raise SinkTaken(
            f"{SINK_ID}={options.sink_id!r}: {wrote}. A query whose checkpoint was deleted is a "
            "new one, and writes again what is there; so does an old one, when a new one has gone "
            f"on in its place. Start the query with the checkpoint of that one, give it another "
            f"{SINK_ID}, or set {TAKEOVER}=true if it is to go on in its place"
        )
    return (
        f"sink {before.sink_id!r}: a new query writes to it, and {wrote}. If the old checkpoint "
        "was deleted, what the new query reads again is written again"
    )
