"""The first page, what changed lately, and the queries of Spark."""

from __future__ import annotations

from collections import Counter

from starlette.requests import Request
from starlette.responses import Response

from pylog.console.charts import chart
from pylog.console.hub import Hub
from pylog.console.polling import TOTAL
from pylog.console.rendering import page
from pylog.console.snapshot import GroupLook, topic_rows

ROWS: int = 10
SPARK_PREFIXES = ("spark-kafka-source-", "spark-kafka-relation-", "spark-executor-spark-kafka-")
"""Groups that Spark's own Kafka connector names."""


async def overview(request: Request) -> Response:
    """The cluster at a glance."""
    hub: Hub = request.app.state.hub
    snapshot = hub.knowledge.snapshot
    rows = topic_rows(snapshot)
    busiest = sorted(rows, key=lambda row: (-(row.rate or 0), row.name))
    behind = sorted(
        snapshot.groups.value.values(), key=lambda look: (-(look.lag or 0), look.listing.group_id)
    )
    points = hub.knowledge.topic_rates.of(TOTAL)
    return page(
        request,
        "overview.html",
        rate=sum(snapshot.rates.values()) if snapshot.rates else None,
        byte_rate=sum(snapshot.byte_rates.values()) if snapshot.byte_rates else None,
        chart=chart("Records a second, all topics", points),
        topics=[row for row in busiest if not row.internal][:ROWS],
        groups=behind[:ROWS],
        topic_count=sum(not row.internal for row in rows),
        partition_count=sum(row.partitions for row in rows),
        leaderless=sum(row.leaderless for row in rows),
        under_replicated=sum(row.under_replicated for row in rows),
        bytes=sum(row.bytes or 0 for row in rows) if snapshot.disks.at_ms else None,
    )


async def changes(request: Request) -> Response:
    """Elections, ISR changes and faults since the console was started."""
    hub: Hub = request.app.state.hub
    return page(request, "changes.html", events=list(hub.knowledge.changes))


def _client_ids(look: GroupLook) -> list[str]:
    members = () if look.description is None else look.description.members
    return sorted({member.client_id for member in members})


def _query_of(look: GroupLook) -> str | None:
    """The reason why the group counts as one of Spark; None where nothing says so."""
    if look.spark_query is not None:
        return look.spark_query
    if look.listing.group_id.startswith(SPARK_PREFIXES):
        return "named by Spark's Kafka connector"
    clients = [client for client in _client_ids(look) if client.lower().startswith("spark")]
    return f"client {clients[0]}" if clients else None


async def spark(request: Request) -> Response:
    """The queries of Spark that can be told from groups, and the sinks that queries write to."""
    hub: Hub = request.app.state.hub
    snapshot = hub.knowledge.snapshot
    readers = [
        (look, said)
        for look in snapshot.groups.value.values()
        if (said := _query_of(look)) is not None
    ]
    sinks: dict[tuple[str, str], Counter[str]] = {}
    for each in snapshot.transactions.value:
        if each.query_id is not None and each.sink_id is not None:
            sinks.setdefault((each.query_id, each.sink_id), Counter())[each.state] += 1
    return page(request, "spark.html", readers=readers, sinks=sorted(sinks.items()))
