"""The HTTP server for Prometheus and for health checks: `/metrics`, `/healthz`, `/readyz`, and on
the driver `/targets`.

It lives on a thread with a small loop of its own and owns nothing but its connections: a slow or
bad client costs one of a few places, for a bounded time, and never the process's own loop. The
pages come from that loop, which is asked and given a time to answer; `/healthz` is there to report
a loop that does not.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from pylog.clock import SYSTEM_CLOCK, ticks
from pylog.errors import BrokerNotAvailable
from pylog_broker.metrics.exposition import CONTENT_TYPE
from pylog_broker.net.acceptor import Acceptor, Gate, Place
from pylog_broker.net.quotas import Refusal

_log = logging.getLogger("pylog.metrics")

CONNECTIONS_MAX: Final = 32
REQUEST_BYTES_MAX: Final = 8192
REQUEST_SECONDS_MAX: Final = 5.0
ANSWER_SECONDS_MAX: Final = 20.0
LOOP_SECONDS_MAX: Final = 3.0
"""The time that the process's loop may take for a health check."""
SCRAPE_SECONDS_MAX: Final = 10.0
SCRAPE_PAUSE_SECONDS: Final = 0.05
"""Between two scrapes, however many ask: scraping in a circle shall not cost a core."""
STOP_SECONDS_MAX: Final = 2.0

_PLAIN: Final = "text/plain; charset=utf-8"
_REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Health:
    """Whether all is well, in a line."""

    well: bool
    why: str


class Source(Protocol):
    """The source of pages. All coroutines run on the process's own loop."""

    async def page(self) -> str:
        """All metrics of this process, in the text format."""

    async def live(self) -> Health:
        """Whether the process should go on, or be replaced."""

    async def ready(self) -> Health:
        """Whether it serves."""

    async def targets(self) -> str | None:
        """The other addresses to scrape, as Prometheus' HTTP service discovery reads them; None:
        this process does not list them."""


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    body: str
    content_type: str = _PLAIN

    def encode(self, *, with_body: bool) -> bytes:
        body = self.body.encode()
        head = (
            f"HTTP/1.1 {self.status} {_REASONS[self.status]}\r\n"
            f"Content-Type: {self.content_type}\r\nContent-Length: {len(body)}\r\n"
            "Cache-Control: no-store\r\nConnection: close\r\n\r\n"
        )
        return head.encode() + (body if with_body else b"")


def _not_here() -> _Answer:
    return _Answer(404, "there are /metrics, /healthz and /readyz; on the driver /targets\n")


class MetricsServer:
    """Serves one process's `source`. Start and stop it on the process's loop."""

    def __init__(self, source: Source, process_metrics: Callable[[], str]) -> None:
        """`process_metrics`: what can be told of the process without asking its loop."""
        self._source = source
        self._process_metrics = process_metrics
        self._main = asyncio.get_running_loop()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._silent: dict[asyncio.StreamWriter, Place] = {}
        """Connections whose request is not there, the oldest first."""
        self._scrape: asyncio.Future[_Answer] | None = None
        self._scraped = 0.0
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, host: str, port: int) -> int:
        """Listen; gives the port. BrokerNotAvailable names the address that cannot be bound."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            listener = socket.create_server((host, port), family=family)
        except OSError as error:
            raise BrokerNotAvailable(
                f"metrics cannot listen on {host}:{port}: {error.strerror or error}; set "
                "metrics.listen (spark.pylog.metrics.listen) to a free address"
            ) from None
        self._loop = asyncio.SelectorEventLoop()
        self._thread = threading.Thread(
            target=self._run, args=(listener,), name="pylog-metrics", daemon=True
        )
        self._thread.start()
        return int(listener.getsockname()[1])

    def stop(self) -> None:
        """End the thread and drop its connections."""
        if self._loop is None or self._thread is None:
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(STOP_SECONDS_MAX)

    def _run(self, listener: socket.socket) -> None:
        loop = self._loop
        assert loop is not None
        asyncio.set_event_loop(loop)
        acceptor = loop.run_until_complete(self._accept(listener))
        try:
            loop.run_forever()
        finally:
            loop.run_until_complete(acceptor.close())
            for task in list(self._tasks):
                task.cancel()
            loop.run_until_complete(asyncio.gather(*self._tasks, return_exceptions=True))
            loop.close()

    # ---- connections -----------------------------------------------------------------------------

    async def _accept(self, listener: socket.socket) -> Acceptor:
        gate = Gate(SYSTEM_CLOCK, _log.warning)
        acceptor = Acceptor(
            gate, "metrics", CONNECTIONS_MAX, self._protocol, make_room=self._make_room
        )
        acceptor.start_on(listener)
        return acceptor

    def _protocol(self, place: Place) -> asyncio.StreamReaderProtocol:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._handle(reader, writer, place)

        reader = asyncio.StreamReader(REQUEST_BYTES_MAX, self._loop)
        return asyncio.StreamReaderProtocol(reader, handle, self._loop)

    def _make_room(self) -> bool:
        """A connection that has not asked yet gives way to the one that comes."""
        for writer, place in self._silent.items():
            del self._silent[writer]
            place.leave(Refusal.UNPROVEN)
            writer.transport.abort()
            return True
        return False

    async def _handle(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, place: Place
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._silent[writer] = place
        try:
            async with asyncio.timeout(ANSWER_SECONDS_MAX + SCRAPE_SECONDS_MAX):
                writer.write(await self._answer(reader, writer))
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            pass  # it hung up, or took nothing
        finally:
            place.leave()
            self._silent.pop(writer, None)
            self._tasks.discard(task)
            writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        try:
            async with asyncio.timeout(REQUEST_SECONDS_MAX):
                head = await reader.readuntil(b"\r\n\r\n")
            self._silent.pop(writer, None)
        except asyncio.LimitOverrunError:
            return _Answer(431, "the request is too long\n").encode(with_body=True)
        except TimeoutError:
            return _Answer(408, "no request came\n").encode(with_body=True)
        words = head.split(b"\r\n", 1)[0].split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return _Answer(400, "this is an HTTP/1.1 server\n").encode(with_body=True)
        if words[0] not in (b"GET", b"HEAD"):
            return _Answer(405, "only GET\n").encode(with_body=True)
        path = words[1].partition(b"?")[0]
        answer = await self._look_up(path)
        return answer.encode(with_body=words[0] == b"GET")

    async def _look_up(self, path: bytes) -> _Answer:
        match path:
            case b"/metrics":
                return await self._metrics()
            case b"/healthz":
                return await self._health(self._source.live)
            case b"/readyz":
                return await self._health(self._source.ready)
            case b"/targets":
                return await self._targets()
        return _not_here()

    # ---- what is asked of the process's loop -----------------------------------------------------

    async def _ask(self, question: Callable[[], Awaitable[T]], seconds: float) -> T:
        """TimeoutError when the loop does not answer in time."""

        async def work() -> T:
            return await question()

        asked = work()
        try:
            future = asyncio.run_coroutine_threadsafe(asked, self._main)
        except RuntimeError:  # it is closed
            asked.close()
            raise TimeoutError from None
        async with asyncio.timeout(seconds):
            return await asyncio.wrap_future(future)

    async def _health(self, question: Callable[[], Awaitable[Health]]) -> _Answer:
        try:
            health = await self._ask(question, LOOP_SECONDS_MAX)
        except TimeoutError:
            why = f"the process's loop has not answered for {LOOP_SECONDS_MAX:g} s"
            return _Answer(503, f"{why}\n")
        return _Answer(200 if health.well else 503, f"{health.why}\n")

    async def _targets(self) -> _Answer:
        try:
            targets = await self._ask(self._source.targets, LOOP_SECONDS_MAX)
        except TimeoutError:
            return _Answer(503, "the process's loop is too busy\n")
        return _not_here() if targets is None else _Answer(200, targets, "application/json")

    async def _metrics(self) -> _Answer:
        """One scrape at a time, for all who ask meanwhile."""
        if self._scrape is None or self._scrape.done():
            self._scrape = asyncio.ensure_future(self._collect())
        return await asyncio.shield(self._scrape)

    async def _collect(self) -> _Answer:
        await asyncio.sleep(max(0.0, self._scraped + SCRAPE_PAUSE_SECONDS - ticks()))
        try:
            page = await self._ask(self._source.page, SCRAPE_SECONDS_MAX)
            return _Answer(200, page + self._process_metrics(), CONTENT_TYPE)
        except TimeoutError:
            return _Answer(503, "the process's loop is too busy to be scraped\n")
        except Exception:  # noqa: BLE001  whatever is wrong with a figure, the process goes on
            _log.exception("a scrape failed")
            return _Answer(500, "the scrape failed; the log says why\n")
        finally:
            self._scraped = ticks()
