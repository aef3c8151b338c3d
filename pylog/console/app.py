"""The console as an ASGI application: routes, news of changes, and errors as pages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from pylog import errors
from pylog.client.background import logger
from pylog.console.guard import Guard
from pylog.console.hub import Hub
from pylog.console.pages import (
    brokers,
    groups,
    messages,
    overview,
    producing,
    topics,
    transactions,
)
from pylog.console.pages.messages import event
from pylog.console.rendering import FOLDER, compile_all, page
from pylog.console.wanted import WantedError

NEWS_SECONDS: Final = 1.0
"""At least, between two pieces of news for one page."""
SILENCE_SECONDS: Final = 15.0
MISSING: Final = (
    errors.UnknownTopicOrPartition,
    errors.GroupIdNotFound,
    errors.TransactionalIdNotFound,
    errors.BrokerIdNotRegistered,
    errors.OffsetOutOfRange,
)

Endpoint = Callable[[Request], Awaitable[Response]]


def _get(path: str, endpoint: Endpoint) -> Route:
    return Route(path, endpoint, methods=["GET"])


def _post(path: str, endpoint: Endpoint) -> Route:
    return Route(path, endpoint, methods=["POST"])


ROUTES: Final = [
    _get("/", overview.overview),
    _get("/changes", overview.changes),
    _get("/spark", overview.spark),
    _get("/topics", topics.topics),
    _get("/topics/{topic}", topics.topic),
    _get("/topics/{topic}/settings", topics.settings),
    _get("/topics/{topic}/groups", topics.readers),
    _get("/topics/{topic}/messages", messages.messages),
    _get("/topics/{topic}/messages/{partition:int}/{offset:int}", messages.message),
    _get("/topics/{topic}/messages/{partition:int}/{offset:int}/{part}", messages.download),
    _get("/topics/{topic}/tail", messages.tail),
    _get("/topics/{topic}/tail/events", messages.tail_events),
    _get("/topics/{topic}/produce", producing.produce_form),
    _post("/topics/{topic}/produce", producing.produce),
    _get("/groups", groups.groups),
    _get("/group", groups.group),
    _get("/group/reset", groups.reset_form),
    _post("/group/reset", groups.reset),
    _get("/brokers", brokers.brokers),
    _post("/brokers/elect", brokers.elect),
    _get("/brokers/{id:int}", brokers.broker),
    _get("/transactions", transactions.transactions),
    _get("/transactions/hanging", transactions.hanging),
    _get("/transaction", transactions.transaction),
    _post("/transaction/abort", transactions.abort),
]


async def _health(_request: Request) -> Response:
    return PlainTextResponse("ok\n")


async def _events(request: Request) -> Response:
    """Tells a page whenever something became known, so that it asks for itself again."""
    hub: Hub = request.app.state.hub

    async def news() -> AsyncIterator[str]:
        if hub.viewers.are_taken:  # another one came at the same time
            return
        with hub.viewers.one():
            yield f"retry: 2000\n{event('version', {'version': hub.knowledge.snapshot.version})}"
            while not hub.stopping.is_set():
                if not await hub.changed(SILENCE_SECONDS):
                    yield ": nothing new\n\n"
                    continue
                hub.touch()
                yield event("version", {"version": hub.knowledge.snapshot.version})
                await hub.rest(NEWS_SECONDS)

    if hub.viewers.are_taken:
        return PlainTextResponse("pylog console: too many open pages\n", 503)
    return StreamingResponse(news(), media_type="text/event-stream")


async def _on_error(request: Request, error: Exception) -> Response:
    """Any error as a page with words."""
    if isinstance(error, WantedError):
        status, name, text = 400, "INVALID_REQUEST", str(error)
    elif isinstance(error, HTTPException):
        status, name = error.status_code, error.detail
        text = "There is no such page." if status == 404 else error.detail
    elif isinstance(error, errors.PylogError):
        name, text = error.name, str(error)
        status = 503 if error.retriable else 400
        if isinstance(error, MISSING):
            status = 404
        elif isinstance(error, errors.ClusterAuthorizationFailed):
            status = 403
    else:
        logger.error("a page of the console failed", exc_info=error)
        status, name = 500, type(error).__name__
        text = "This is a defect of the console; its log says where."
    return page(request, "error.html", status=status, live=False, name=name, text=text[:2_000])


def build_app(hub: Hub) -> Starlette:
    """The application over what `hub` knows."""

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        compile_all()
        hub.listen()
        yield
        hub.close()

    app = Starlette(
        routes=[
            *ROUTES,
            _get("/events", _events),
            _get("/health", _health),
            Mount("/static", StaticFiles(directory=FOLDER / "static")),
        ],
        middleware=[
            Middleware(Guard, names=hub.options.host_names, on_request=lambda: hub.touch())
        ],
        exception_handlers={
            errors.PylogError: _on_error,
            WantedError: _on_error,
            HTTPException: _on_error,
            Exception: _on_error,
        },
        lifespan=lifespan,
    )
    app.state.hub = hub
    return app
