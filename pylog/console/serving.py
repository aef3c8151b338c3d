"""Runs a console in this process until it shall stop: the socket, the server, the poller."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

import uvicorn

from pylog import errors
from pylog.console.app import build_app
from pylog.console.connection import BrowserConnection
from pylog.console.hub import Hub, clients_of
from pylog.console.options import CONNECTIONS_MAX, ConsoleOptions, Listen
from pylog.console.polling import Knowledge, Poller

if TYPE_CHECKING:
    from starlette.applications import Starlette

STOP_SECONDS = 2


def bind(listen: Listen, what: str) -> socket.socket:
    """A socket that listens; BrokerNotAvailable says why there is none."""
    try:
        family, _, _, _, address = socket.getaddrinfo(
            listen.host, listen.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        made = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise errors.BrokerNotAvailable(
            f"{what}={listen.host!r}: {error.strerror}; give an address of this machine"
        ) from None
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen(CONNECTIONS_MAX)
    except OSError as error:
        made.close()
        raise errors.BrokerNotAvailable(
            f"{what}={listen.host}:{listen.port}: {error.strerror}; choose another port, or 0 "
            "for a free one"
        ) from None
    return made


def address_of(listener: socket.socket) -> str:
    """The address for browsers, as `http://host:port`."""
    host, port = listener.getsockname()[:2]
    if host in ("0.0.0.0", "::"):
        host = socket.gethostname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class _Server(uvicorn.Server):
    """Ends what would not end by itself before it waits for it."""

    def __init__(self, config: uvicorn.Config, hub: Hub) -> None:
        super().__init__(config)
        self._hub = hub

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._hub.stopping.set()
        await super().shutdown(sockets)


def _config(app: Starlette) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        loop="none",
        http=BrowserConnection,
        ws="none",
        lifespan="on",
        log_config=None,
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=CONNECTIONS_MAX,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=STOP_SECONDS,
        h11_max_incomplete_event_size=64 << 10,
    )


def _import_readers() -> None:
    import_module("pylog.client.consumer.collecting")
    import_module("pylog.records.kernels")


async def serve(
    options: ConsoleOptions,
    listener: socket.socket,
    stop: asyncio.Event,
    on_ready: Callable[[str], None],
) -> None:
    """Serve until `stop`. `on_ready` is given the address once pages can be had."""
    knowledge = Knowledge()
    hub = Hub(options, clients_of(options), knowledge)
    poller = Poller(hub.clients.admin, knowledge)
    hub.touch = poller.touch
    server = _Server(_config(build_app(hub)), hub)
    serving = asyncio.ensure_future(server._serve([listener]))  # without its signal handlers
    poller.start()
    # The decoders of records take a second to be imported: not of the first reader's time.
    warming = asyncio.ensure_future(asyncio.to_thread(_import_readers))
    try:
        while not server.started and not serving.done():
            await asyncio.sleep(0.01)
        if server.started:
            on_ready(address_of(listener))
        stopped = asyncio.ensure_future(stop.wait())
        await asyncio.wait({stopped, serving}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        server.should_exit = True
        await serving
    finally:
        poller.stop()
        await asyncio.gather(warming, asyncio.to_thread(hub.clients.admin.close))
        listener.close()
