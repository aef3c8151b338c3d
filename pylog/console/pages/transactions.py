"""Transactions: the list, one of them, those that hang, and the end of one."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from pylog import errors
from pylog.client.admin.transaction_types import HangingTransaction
from pylog.config import INT_MAX, LONG_MAX
from pylog.console.asking import words_of
from pylog.console.forms import read_form
from pylog.console.hub import Hub
from pylog.console.options import ASK_SECONDS
from pylog.console.pages.topics import FILTER_CHARS_MAX, page_of
from pylog.console.rendering import page
from pylog.model import TopicPartition

HANGING_SECONDS: Final = 20.0


async def transactions(request: Request) -> Response:
    """All transactional ids; those with something open first."""
    hub: Hub = request.app.state.hub
    text = request.query_params.get("q", "")[:FILTER_CHARS_MAX]
    rows = [
        each
        for each in hub.knowledge.snapshot.transactions.value
        if text.lower() in each.transactional_id.lower()
    ]
    rows.sort(key=lambda each: (each.state != "Ongoing", each.transactional_id))
    shown, number, pages = page_of(rows, request.query_params)
    return page(
        request, "transactions.html", rows=shown, count=len(rows), q=text, number=number,
        pages=pages,
    )  # fmt: skip


async def transaction(request: Request) -> Response:
    """One transactional id as its coordinator knows it."""
    hub: Hub = request.app.state.hub
    name = request.query_params.get("id", "")
    told = await hub.ask(lambda: hub.clients.admin.describe_transactions(name, timeout=ASK_SECONDS))
    return page(request, "transaction.html", live=False, told=told[name])


async def hanging(request: Request) -> Response:
    """Transactions that nobody will end. Asks the leaders of all partitions."""
    hub: Hub = request.app.state.hub
    found: list[HangingTransaction] = []
    fault = ""
    try:
        found = await hub.ask(
            lambda: hub.clients.admin.find_hanging_transactions(timeout=HANGING_SECONDS)
        )
    except errors.PartialFailure as partly:
        found = [each for each in partly.results.values() if isinstance(each, HangingTransaction)]
        fault = words_of(partly)
    return page(request, "hanging.html", live=False, found=found, fault=fault)


async def abort(request: Request) -> Response:
    """Abort what is open, of a transactional id or in one partition."""
    hub: Hub = request.app.state.hub
    given = await read_form(request)
    if given.get("sure") != "1":
        raise errors.InvalidRequest("tick the box that says that you mean it; nothing was changed")
    admin = hub.clients.admin
    if "id" in given:
        await hub.ask(lambda: admin.abort_transaction(given["id"], timeout=ASK_SECONDS))
        return RedirectResponse("/transactions", 303)
    numbers = [given.get("partition", ""), given.get("start_offset", "")]
    if not all(each.isascii() and each.isdigit() and len(each) < 20 for each in numbers):
        raise errors.InvalidRequest("give a partition and the offset where its transaction begins")
    partition, start = map(int, numbers)
    if partition > INT_MAX or start > LONG_MAX:
        raise errors.InvalidRequest("a partition has 31 bits and an offset 63")
    tp = TopicPartition(given.get("topic", ""), partition)
    await hub.ask(lambda: admin.abort_transaction(tp, start_offset=start, timeout=ASK_SECONDS))
    return RedirectResponse("/transactions/hanging", 303)
