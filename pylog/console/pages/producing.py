"""Writes a record, where that is allowed."""

from __future__ import annotations

import json

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from pylog import errors
from pylog.config import INT_MAX
from pylog.console.asking import words_of
from pylog.console.forms import read_form
from pylog.console.hub import Hub
from pylog.console.options import ASK_SECONDS, FORM_BYTES_MAX
from pylog.console.pages.topics import description_of
from pylog.console.rendering import page
from pylog.model import RecordMetadata

FORMATS = ("text", "JSON", "hex", "null")


def bytes_of(text: str, form: str, what: str) -> bytes | None:
    """The bytes of a key or value that a user typed; InvalidRequest where the text is not of that
    form."""
    if form == "null":
        return None
    if form == "hex":
        try:
            return bytes.fromhex(text)
        except ValueError:
            raise errors.InvalidRequest(f"{what}: hexadecimal is pairs of 0-9 and a-f") from None
    if form == "JSON":
        try:
            json.loads(text)
        except (ValueError, RecursionError) as error:
            raise errors.InvalidRequest(f"{what} is no JSON: {error}") from None
    elif form != "text":
        raise errors.InvalidRequest(f"{what}: {form[:20]!r} is not one of {', '.join(FORMATS)}")
    return text.replace("\r\n", "\n").encode()  # browsers send line breaks so


def headers_of(text: str) -> list[tuple[str, bytes]]:
    """Headers of lines `name=value`; InvalidRequest names the line that is none."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        name, equals, value = line.partition("=")
        if not equals or not name:
            raise errors.InvalidRequest(f"headers, line {number}: write name=value")
        found.append((name, value.encode()))
    return found


async def produce_form(request: Request) -> Response:
    """An empty form."""
    return _form(request, {}, "")


async def produce(request: Request) -> Response:
    """Write the record; then the page that shows it."""
    hub: Hub = request.app.state.hub
    name = request.path_params["topic"]
    description_of(hub.knowledge.snapshot, name)
    given = await read_form(request)
    try:
        stored = await hub.ask(lambda: _send(hub, name, given))
    except errors.PylogError as error:
        return _form(request, given, words_of(error))
    if stored.offset < 0:
        return RedirectResponse(f"/topics/{name}/messages", 303)
    return RedirectResponse(f"/topics/{name}/messages/{stored.partition}/{stored.offset}", 303)


def _form(request: Request, given: dict[str, str], fault: str) -> Response:
    hub: Hub = request.app.state.hub
    found = description_of(hub.knowledge.snapshot, request.path_params["topic"])
    return page(
        request, "produce.html", status=400 if fault else 200, topic=found, tab="produce",
        live=False, given=given, fault=fault, formats=FORMATS,
    )  # fmt: skip


def _send(hub: Hub, topic: str, given: dict[str, str]) -> RecordMetadata:
    value = bytes_of(given.get("value", ""), given.get("value_form", "text"), "value")
    key_text = given.get("key", "")
    form = given.get("key_form", "null")
    key = None if form == "text" and not key_text else bytes_of(key_text, form, "key")
    headers = headers_of(given.get("headers", ""))
    number = given.get("partition", "").strip()
    if number and not (number.isascii() and number.isdigit() and int(number[:11]) <= INT_MAX):
        raise errors.InvalidRequest(f"partition {number[:20]!r} is no number")
    partition = int(number) if number else None
    limit_ms = int(ASK_SECONDS * 1000)
    with hub.clients.open_producer(
        client_id="pylog-console", delivery_timeout_ms=limit_ms, request_timeout_ms=limit_ms // 2,
        max_request_size=FORM_BYTES_MAX,
        max_block_ms=limit_ms // 2,
    ) as producer:  # fmt: skip
        sent = producer.send(topic, value, key, headers=headers, partition=partition)
        producer.flush()
        return sent.result(0)
