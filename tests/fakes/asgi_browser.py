"""A browser without a screen, for an ASGI application in this process: it asks and is answered."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlencode

HOST = "127.0.0.1:9096"
SECONDS_MAX = 20.0

Asgi = Callable[..., Any]


@dataclass
class Answer:
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def text(self) -> str:
        return self.body.decode()


class AsgiBrowser:
    """Asks like a browser that is on one of the application's own pages."""

    def __init__(self, build: Callable[[], Asgi]) -> None:
        self.loop = asyncio.new_event_loop()
        self._told: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue()
        self._started = asyncio.Event()

        async def start() -> asyncio.Task[None]:
            self._app = build()
            self._told.put_nowait({"type": "lifespan.startup"})
            living = asyncio.ensure_future(self._live())
            await self._started.wait()
            return living

        self._living = self.loop.run_until_complete(start())

    async def _live(self) -> None:
        async def send(message: Mapping[str, Any]) -> None:
            self._started.set()

        await self._app({"type": "lifespan", "state": {}}, self._told.get, send)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._told.put_nowait({"type": "lifespan.shutdown"})
        self.loop.run_until_complete(self._living)
        self.loop.close()

    def get(self, target: str, **headers: str) -> Answer:
        return self.ask("GET", target, headers)

    def post(self, target: str, form: Mapping[str, str], **headers: str) -> Answer:
        given = {"origin": f"http://{HOST}", **headers}
        return self.ask("POST", target, given, urlencode(form).encode())

    def ask(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        enough: Callable[[bytes], bool] = lambda _: False,
    ) -> Answer:
        """`enough`: when what has come is enough of a stream, and the browser goes away."""
        asked = self._ask(method, target, headers or {}, body, enough)
        return self.loop.run_until_complete(asyncio.wait_for(asked, SECONDS_MAX))

    async def _ask(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes,
        enough: Callable[[bytes], bool],
    ) -> Answer:
        path, _, query = target.partition("?")
        given = {"host": HOST, **{name.replace("_", "-"): value for name, value in headers.items()}}
        if body:
            given = {"content-length": str(len(body)), **given}
        scope = {
            "type": "http",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in given.items() if value],
            "server": ("127.0.0.1", 9096),
            "client": ("127.0.0.1", 50_000),
            "http_version": "1.1",
        }
        answer, gone = Answer(), asyncio.Event()
        sent = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Mapping[str, Any]:
            if sent:
                return sent.pop()
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Mapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                answer.status = message["status"]
                answer.headers = {n.decode(): v.decode() for n, v in message["headers"]}
            else:
                answer.body += message.get("body", b"")
                if enough(answer.body):
                    gone.set()

        with contextlib.suppress(asyncio.CancelledError):
            await self._app(scope, receive, send)
        return answer
