"""Topics: the list, and one topic's partitions, settings and readers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from pylog import errors
from pylog.client.admin.admin_types import ConfigResource
from pylog.console.charts import chart
from pylog.console.hub import Hub
from pylog.console.options import ASK_SECONDS
from pylog.console.rendering import page
from pylog.console.snapshot import Snapshot, TopicRow, topic_rows
from pylog.model import TopicDescription, TopicPartition

T = TypeVar("T")
PAGE_ROWS: Final = 50
FILTER_CHARS_MAX: Final = 250
SORTS: Final[Mapping[str, Callable[[TopicRow], Any]]] = {
    "name": lambda row: row.name,
    "partitions": lambda row: (-row.partitions, row.name),
    "replicas": lambda row: (-row.replication, row.name),
    "rate": lambda row: (-(row.rate or 0), row.name),
    "size": lambda row: (-(row.bytes or 0), row.name),
    "faults": lambda row: (-row.leaderless, -row.under_replicated, row.name),
}


def page_of(rows: Sequence[T], query: Mapping[str, str]) -> tuple[Sequence[T], int, int]:
    """The rows of the page that is asked for, its number from 1, and how many pages there are."""
    pages = max((len(rows) + PAGE_ROWS - 1) // PAGE_ROWS, 1)
    text = query.get("page", "")
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 1
    number = min(max(number, 1), pages)
    return rows[(number - 1) * PAGE_ROWS : number * PAGE_ROWS], number, pages


async def topics(request: Request) -> Response:
    """A page of the list, filtered and sorted here: browsers get fifty rows of any number."""
    hub: Hub = request.app.state.hub
    query = request.query_params
    sort = query.get("sort", "name")
    sort = sort if sort in SORTS else "name"
    text = query.get("q", "")[:FILTER_CHARS_MAX]
    internal = query.get("internal") == "1"
    rows = [
        row
        for row in topic_rows(hub.knowledge.snapshot)
        if (internal or not row.internal) and text.lower() in row.name.lower()
    ]
    rows.sort(key=SORTS[sort])
    shown, number, pages = page_of(rows, query)
    return page(
        request, "topics.html", rows=shown, count=len(rows), q=text, sort=sort, internal=internal,
        number=number, pages=pages, sorts=list(SORTS),
    )  # fmt: skip


def description_of(snapshot: Snapshot, name: str) -> TopicDescription:
    """The topic as the poller last saw it; UnknownTopicOrPartition."""
    found = snapshot.topics.value.get(name)
    if found is None:
        raise errors.UnknownTopicOrPartition(
            f"there is no topic {name[:250]!r}"
            if snapshot.topics.at_ms is not None
            else f"topic {name[:250]!r} is not known yet: the cluster has not answered"
        )
    return found


def sizes_of(snapshot: Snapshot, topic: str) -> dict[int, dict[int, int]]:
    """Bytes by partition and broker."""
    sizes: dict[int, dict[int, int]] = {}
    for broker, directories in snapshot.disks.value.items():
        for directory in directories:
            for tp, replica in directory.replicas.items():
                if tp.topic == topic:
                    sizes.setdefault(tp.partition, {})[broker] = replica.size
    return sizes


async def topic(request: Request) -> Response:
    """One topic's partitions: leaders, replicas, ISR, ends and sizes."""
    hub: Hub = request.app.state.hub
    snapshot = hub.knowledge.snapshot
    name = request.path_params["topic"]
    found = description_of(snapshot, name)
    shown, number, pages = page_of(found.partitions, request.query_params)
    return page(
        request,
        "topic.html",
        topic=found,
        tab="partitions",
        rows=shown,
        number=number,
        pages=pages,
        ends={
            each.partition: snapshot.ends.value.get(TopicPartition(name, each.partition))
            for each in shown
        },
        sizes=sizes_of(snapshot, name),
        rate=snapshot.rates.get(name),
        byte_rate=snapshot.byte_rates.get(name),
        chart=chart("Records a second", hub.knowledge.topic_rates.of(name)),
    )


async def settings(request: Request) -> Response:
    """A topic's settings with where each value comes from."""
    hub: Hub = request.app.state.hub
    found = description_of(hub.knowledge.snapshot, request.path_params["topic"])
    resource = ConfigResource("topic", found.name)
    told = await hub.ask(
        lambda: hub.clients.admin.describe_configs([resource], timeout=ASK_SECONDS)
    )
    return page(
        request, "topic_settings.html", topic=found, tab="settings", live=False,
        entries=sorted(told[resource].values(), key=lambda each: (each.is_default, each.name)),
    )  # fmt: skip


async def readers(request: Request) -> Response:
    """The groups that read a topic, with how far each is behind in it."""
    hub: Hub = request.app.state.hub
    snapshot = hub.knowledge.snapshot
    found = description_of(snapshot, request.path_params["topic"])
    rows = []
    for look in snapshot.groups.value.values():
        lags = {tp: lag for tp, lag in (look.lags or {}).items() if tp.topic == found.name}
        if lags:
            known = [each.lag for each in lags.values() if each.lag is not None]
            rows.append((look, len(lags), sum(known) if known else None))
    return page(request, "topic_readers.html", topic=found, tab="groups", rows=rows)
