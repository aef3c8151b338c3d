"""The records of a topic: a page of them, one of them, its bytes, and those that come now."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from pylog import errors
from pylog.config import INT_MAX, LONG_MAX
from pylog.console import values
from pylog.console.asking import words_of
from pylog.console.hub import Hub
from pylog.console.pages.topics import description_of
from pylog.console.reading import read, read_one
from pylog.console.rendering import fragment, page
from pylog.console.tailing import follow
from pylog.console.values import PAGE_BYTES, PREVIEW_BYTES, Shown, show
from pylog.console.wanted import Wanted, WantedError, parse
from pylog.model import TimestampType, TopicPartition
from pylog.records.record import Record

HEADERS_SHOWN = 50


@dataclass(frozen=True, slots=True)
class RecordRow:
    """A record as a page shows it."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    appended: bool
    key: Shown
    value: Shown
    headers: tuple[tuple[str, Shown], ...]
    headers_left: int
    leader_epoch: int | None


def row_of(record: Record, bytes_max: int, schema: Any, *, pretty: bool) -> RecordRow:
    """The row that shows a record; it does not keep the record's bytes."""
    headers = record.headers
    return RecordRow(
        record.topic,
        record.partition,
        record.offset,
        record.timestamp_ms,
        record.timestamp_type is TimestampType.LOG_APPEND_TIME,
        show(record.key, min(bytes_max, 8 * PREVIEW_BYTES), pretty=False),
        show(record.value, bytes_max, pretty=pretty, schema=schema),
        tuple(
            (values.plain(name[:PREVIEW_BYTES]), show(value, PREVIEW_BYTES, pretty=False))
            for name, value in headers[:HEADERS_SHOWN]
        ),
        max(len(headers) - HEADERS_SHOWN, 0),
        record.leader_epoch,
    )


async def messages(request: Request) -> Response:
    """A window of a topic, or what a search finds in it."""
    hub: Hub = request.app.state.hub
    found_topic = description_of(hub.knowledge.snapshot, request.path_params["topic"])
    name = found_topic.name
    fault, found, rows, wanted = "", None, [], Wanted(name)
    status = 200
    try:
        wanted = asked = parse(name, request.query_params)
        schema = hub.schemas.get(name)

        def keep(record: Record) -> RecordRow:
            return row_of(record, PREVIEW_BYTES, schema, pretty=False)

        found = await hub.read(lambda: read(hub.clients.open_consumer, asked, keep))
        rows = found.kept[::-1] if wanted.start == "newest" else found.kept
    except WantedError as error:
        fault, status = str(error), 400
    except errors.PylogError as error:
        fault, status = words_of(error), 503 if error.retriable else 400
    return page(
        request, "messages.html", status=status, topic=found_topic, tab="messages", live=False,
        wanted=wanted, rows=rows, found=found, fault=fault, given=request.query_params,
        onward=None if found is None or found.at_end else wanted.onward(found.positions).query(),
    )  # fmt: skip


def _place(request: Request) -> tuple[TopicPartition, int]:
    """The partition and offset of an address; InvalidRequest."""
    partition, offset = request.path_params["partition"], request.path_params["offset"]
    if partition > INT_MAX or offset > LONG_MAX:
        raise errors.InvalidRequest("a partition has 31 bits and an offset 63")
    return TopicPartition(request.path_params["topic"], partition), offset


async def _record(request: Request) -> Record:
    hub: Hub = request.app.state.hub
    tp, offset = _place(request)
    description_of(hub.knowledge.snapshot, tp.topic)
    found = await hub.read(lambda: read_one(hub.clients.open_consumer, tp, offset))
    if found is None:
        raise errors.OffsetOutOfRange(
            f"{tp}: there is no record at offset {offset}; it was compacted away, or it is the "
            "mark of a transaction's end"
        )
    return found


async def message(request: Request) -> Response:
    """One record with all that can be shown of it."""
    hub: Hub = request.app.state.hub
    record = await _record(request)
    schema = hub.schemas.get(record.topic)
    return page(
        request, "message.html", live=False, tab="messages",
        topic=description_of(hub.knowledge.snapshot, record.topic),
        row=row_of(record, PAGE_BYTES, schema, pretty=True),
    )  # fmt: skip


async def download(request: Request) -> Response:
    """The bytes of a key or value, as a file that no browser opens by itself."""
    part = request.path_params["part"]
    if part not in ("key", "value"):
        raise errors.InvalidRequest(f"{part[:20]!r} cannot be downloaded: give key or value")
    record = await _record(request)
    data = record.key if part == "key" else record.value
    if data is None:
        raise errors.InvalidRequest(f"the record has no {part}: it is null")
    name = f"{record.topic}-{record.partition}-{record.offset}.{part}"
    return Response(
        data,
        media_type="application/octet-stream",
        headers={
            "content-disposition": f'attachment; filename="{quote(name, safe=".-_")}"',
            "content-security-policy": "default-src 'none'; sandbox",
        },
    )


async def tail(request: Request) -> Response:
    """The page on which new records appear."""
    hub: Hub = request.app.state.hub
    found = description_of(hub.knowledge.snapshot, request.path_params["topic"])
    fault, wanted = "", Wanted(found.name)
    try:
        wanted = parse(found.name, request.query_params)
    except WantedError as error:
        fault = str(error)
    return page(
        request, "tail.html", status=400 if fault else 200, topic=found, tab="tail", live=False,
        wanted=wanted, fault=fault, given=request.query_params,
    )  # fmt: skip


async def tail_events(request: Request) -> Response:
    """New records as server-sent events, rows of HTML in JSON."""
    hub: Hub = request.app.state.hub
    found = description_of(hub.knowledge.snapshot, request.path_params["topic"])
    wanted = parse(found.name, request.query_params)
    schema = hub.schemas.get(found.name)

    def keep(record: Record) -> RecordRow:
        return row_of(record, PREVIEW_BYTES, schema, pretty=False)

    async def news() -> AsyncIterator[str]:
        try:
            with hub.tails.one():
                async for each in follow(hub.clients.open_async_consumer, wanted, keep):
                    if hub.stopping.is_set():
                        return
                    hub.touch()
                    html = [fragment("record_row.html", row=row) for row in each.kept]
                    yield event("records", {"rows": html, "passed": each.passed})
        except errors.PylogError as error:
            yield event("fault", {"text": words_of(error)})

    return StreamingResponse(news(), media_type="text/event-stream")


def event(kind: str, data: dict[str, Any]) -> str:
    """One server-sent event; JSON has no line break that could forge another one."""
    return f"event: {kind}\ndata: {json.dumps(data)}\n\n"
