"""The metrics server: what it answers, and what bad clients and a busy loop do to it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

from pylog.clock import SYSTEM_CLOCK
from pylog.errors import BrokerNotAvailable, InvalidConfig
from pylog_broker.metrics import http
from pylog_broker.metrics.http import Health, MetricsServer
from pylog_broker.metrics.listen import metrics_port


class FakeSource:
    """A source whose answers a test sets."""

    def __init__(self) -> None:
        self.scrapes = 0
        self.asked = 0
        self.fails = False
        self.well = True
        self.release: asyncio.Event | None = None

    async def page(self) -> str:
        self.scrapes += 1
        if self.release is not None:
            await self.release.wait()
        if self.fails:
            raise KeyError("a figure that is not there")
        return "pylog_x 1\n"

    async def live(self) -> Health:
        self.asked += 1
        if self.release is not None:
            await self.release.wait()
        return Health(True, "alive")

    async def ready(self) -> Health:
        return Health(self.well, "as asked")

    async def targets(self) -> str | None:
        return "[]" if self.well else None


def exchange(port: int, request: bytes) -> bytes:
    """The server's answer to these bytes, until it closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        client.sendall(request)
        said = b""
        while data := client.recv(65536):
            said += data
        return said


def get(port: int, path: str) -> tuple[int, str]:
    head, _, body = exchange(port, f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()).partition(
        b"\r\n\r\n"
    )
    return int(head.split(b" ")[1]), body.decode()


def with_server(check: Callable[[int, FakeSource], Any]) -> None:
    """Run `check` on another thread while the server and its source's loop run here."""

    async def main() -> None:
        source = FakeSource()
        server = MetricsServer(source, lambda: "process_y 2\n")
        port = server.start("127.0.0.1", 0)
        try:
            await asyncio.get_running_loop().run_in_executor(None, check, port, source)
        finally:
            server.stop()
        assert "pylog-metrics" not in {thread.name for thread in threading.enumerate()}

    asyncio.run(main())


def test_pages_and_health() -> None:
    def check(port: int, source: FakeSource) -> None:
        assert get(port, "/metrics") == (200, "pylog_x 1\nprocess_y 2\n")
        assert get(port, "/metrics?name[]=x")[0] == 200
        assert get(port, "/healthz") == (200, "alive\n")
        assert get(port, "/readyz") == (200, "as asked\n")
        assert get(port, "/targets") == (200, "[]")
        source.well = False
        assert get(port, "/targets")[0] == 404
        assert get(port, "/readyz") == (503, "as asked\n")
        assert get(port, "/")[0] == 404
        head = exchange(port, b"HEAD /metrics HTTP/1.1\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 ")
        assert head.endswith(b"\r\n\r\n")

    with_server(check)


def test_a_scrape_that_fails_is_an_answer_and_a_line(caplog: pytest.LogCaptureFixture) -> None:
    def check(port: int, source: FakeSource) -> None:
        source.fails = True
        assert get(port, "/metrics")[0] == 500
        source.fails = False
        assert get(port, "/metrics")[0] == 200

    with_server(check)
    assert "a scrape failed" in caplog.text


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"POST /metrics HTTP/1.1\r\n\r\n", 405),
        (b"GET /metrics\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 5_000, 431),
    ],
)
def test_bad_requests_are_refused(request_: bytes, status: int) -> None:
    def check(port: int, source: FakeSource) -> None:
        try:
            said = exchange(port, request_)
        except ConnectionResetError:  # it closed while we still had something to say
            said = b"HTTP/1.1 431 "
        assert said.startswith(b"HTTP/1.1 %d " % status)
        assert source.scrapes == 0

    with_server(check)


def test_slow_clients_hold_up_nobody_and_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "REQUEST_SECONDS_MAX", 0.3)

    def check(port: int, source: FakeSource) -> None:
        slow = [socket.create_connection(("127.0.0.1", port)) for _ in range(10)]
        for client in slow:
            client.sendall(b"GET /metr")
        assert get(port, "/healthz")[0] == 200
        for client in slow:
            client.settimeout(10)
            assert client.recv(100).startswith(b"HTTP/1.1 408 ")
            client.close()

    with_server(check)


def test_who_has_not_asked_gives_way_to_who_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "CONNECTIONS_MAX", 3)

    def check(port: int, source: FakeSource) -> None:
        crowd = [socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(10)]
        for client in crowd:
            with contextlib.suppress(OSError):
                client.sendall(b"G")
        assert get(port, "/healthz") == (200, "alive\n")
        for client in crowd:
            client.close()

    with_server(check)


def test_there_are_only_so_many_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "CONNECTIONS_MAX", 3)
    monkeypatch.setattr(http, "LOOP_SECONDS_MAX", 30)

    def check(port: int, source: FakeSource) -> None:
        held = source.release = asyncio.Event()
        taken = [socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(3)]
        for client in taken:
            client.sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
        deadline = SYSTEM_CLOCK.monotonic_ms() + 5_000
        while source.asked < 3:
            assert SYSTEM_CLOCK.monotonic_ms() < deadline
            SYSTEM_CLOCK.sleep(0.01)
        assert exchange_quietly(port) == b""
        source.release = None
        held._loop.call_soon_threadsafe(held.set)  # type: ignore[attr-defined]
        for client in taken:
            assert client.recv(100).startswith(b"HTTP/1.1 200 ")
            client.close()
        while not (answer := exchange_quietly(port)):
            assert SYSTEM_CLOCK.monotonic_ms() < deadline
        assert answer.startswith(b"HTTP/1.1 200 ")

    with_server(check)


def exchange_quietly(port: int) -> bytes:
    try:
        return exchange(port, b"GET /healthz HTTP/1.1\r\n\r\n")
    except ConnectionError:
        return b""


def test_many_who_ask_at_once_share_a_scrape() -> None:
    def check(port: int, source: FakeSource) -> None:
        loop_event = asyncio.Event()
        source.release = loop_event
        answers: list[int] = []
        asking = [
            threading.Thread(target=lambda: answers.append(get(port, "/metrics")[0]))
            for _ in range(8)
        ]
        for thread in asking:
            thread.start()
        deadline = SYSTEM_CLOCK.monotonic_ms() + 5_000
        while not source.scrapes and SYSTEM_CLOCK.monotonic_ms() < deadline:
            SYSTEM_CLOCK.sleep(0.01)
        SYSTEM_CLOCK.sleep(0.2)  # the others come while the first one is being answered
        source.release = None
        loop_event._loop.call_soon_threadsafe(loop_event.set)  # type: ignore[attr-defined]
        for thread in asking:
            thread.join(10)
        assert answers == [200] * 8
        assert source.scrapes <= 2

    with_server(check)


def test_a_loop_that_hangs_is_not_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "LOOP_SECONDS_MAX", 0.1)
    monkeypatch.setattr(http, "SCRAPE_SECONDS_MAX", 0.1)

    async def main() -> None:
        server = MetricsServer(FakeSource(), lambda: "")
        port = server.start("127.0.0.1", 0)
        answers: list[tuple[int, str]] = []
        asking = threading.Thread(
            target=lambda: answers.extend([get(port, "/healthz"), get(port, "/metrics")])
        )
        asking.start()
        asking.join(10)  # this loop does nothing else meanwhile
        server.stop()
        assert answers[0] == (503, "the process's loop has not answered for 0.1 s\n")
        assert answers[1][0] == 503

    asyncio.run(main())


def test_an_address_in_use_is_named() -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            server = MetricsServer(FakeSource(), lambda: "")
            with pytest.raises(BrokerNotAvailable, match=f"127.0.0.1:{port}"):
                server.start("127.0.0.1", port)
            server.stop()

    asyncio.run(main())


def test_broker_n_has_port_plus_n() -> None:
    assert metrics_port(9_500, 0) == 9_500
    assert metrics_port(9_500, 3) == 9_503
    assert metrics_port(0, 3) == 0
    with pytest.raises(InvalidConfig, match="broker 40 would serve metrics on 65540"):
        metrics_port(65_500, 40)
