"""A gRPC server with pylog's limits, health and reflection."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from pylog.config import INT_MAX
from pylog.errors import BrokerNotAvailable
from pylog_broker.grpc.guard import Guard, has_gone
from pylog_broker.metrics.counters import RequestCounters
from pylog_broker.net.shares import CONNECTIONS_MAX

CONCURRENT_STREAMS_MAX: Final = 256
"""Calls of one connection that run at once; a client of pylog keeps a handful."""
CONCURRENT_CALLS_MAX: Final = 20_000
METADATA_BYTES_MAX: Final = 16 * 1024
GREETING_SECONDS_MAX: Final = 10
"""For HTTP/2's preface and settings. gRPC's own default leaves a silent connection two minutes."""


def _is_news(record: logging.LogRecord) -> bool:
    """Not so is an answer that gRPC could not write, as its client had gone just then."""
    return not has_gone(record.exc_info[1] if record.exc_info else None)


def server_options(
    message_bytes_max: int, connections_max: int, idle_ms_max: int
) -> list[tuple[str, int]]:
    """Limits of one server: sizes, connections, streams, pings. `idle_ms_max`: -1: no limit."""
    idle = [("grpc.max_connection_idle_ms", min(idle_ms_max, INT_MAX))] if idle_ms_max >= 0 else []
    return [
        *idle,
        # A connection above it is closed when it comes, before any memory goes into it. gRPC takes
        # its connections itself: there is no limit by address, and no rate.
        ("grpc.max_allowed_incoming_connections", connections_max),
        ("grpc.max_receive_message_length", message_bytes_max),
        # One batch larger than every limit must still be readable (KIP-74).
        ("grpc.max_send_message_length", -1),
        ("grpc.max_metadata_size", METADATA_BYTES_MAX),
        ("grpc.max_concurrent_streams", CONCURRENT_STREAMS_MAX),
        ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
        ("grpc.keepalive_time_ms", 20_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.server_handshake_timeout_ms", GREETING_SECONDS_MAX * 1000),
        # Two processes must never share a port unnoticed.
        ("grpc.so_reuseport", 0),
    ]


class GrpcServer:
    """Owns the server of one process."""

    def __init__(
        self,
        message_bytes_max: int,
        counters: RequestCounters | None = None,
        *,
        connections_max: int = CONNECTIONS_MAX,
        idle_ms_max: int = -1,
    ) -> None:
        """`idle_ms_max`: a connection without calls for so long is asked to go; -1: never."""
        for name in ("grpc._cython.cygrpc", "asyncio"):
            logging.getLogger(name).addFilter(_is_news)
        self._server = grpc.aio.server(
            interceptors=[Guard(counters or RequestCounters())],
            options=server_options(message_bytes_max, connections_max, idle_ms_max),
            maximum_concurrent_rpcs=CONCURRENT_CALLS_MAX,
        )
        self._health: Any = health.aio.HealthServicer()  # type: ignore[attr-defined]
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        self._names: list[str] = [health.SERVICE_NAME, reflection.SERVICE_NAME]

    def add(self, register: Callable[[Any, Any], None], servicer: object, name: str) -> None:
        """Serve `servicer` under its full service name; before `start`."""
        self.offer(partial(register, servicer), name)

    def offer(self, register: Callable[[Any], None], name: str) -> None:
        """Serve what `register` gives the server, under its full service name; before `start`."""
        register(self._server)
        self._names.append(name)

    async def start(self, target: str) -> int:
        """Listen on `host:port` or a `unix-abstract:` name; gives the port.

        Raises BrokerNotAvailable naming the address when it cannot be bound.
        """
        await self.set_serving(False)  # the health servicer begins with the opposite
        reflection.enable_server_reflection(self._names, self._server)
        try:
            port = self._server.add_insecure_port(target)
        except RuntimeError as error:
            raise BrokerNotAvailable(
                f"cannot listen on {target}: the address is in use or not of this machine ({error})"
            ) from None
        await self._server.start()
        return int(port)

    async def set_serving(self, serving: bool) -> None:
        """The answer of the health service, of the server and of each of its services."""
        status = health_pb2.HealthCheckResponse.ServingStatus
        for service in ("", *self._names[2:]):
            await self._health.set(service, status.SERVING if serving else status.NOT_SERVING)

    async def stop(self, grace_seconds: float) -> None:
        """Refuse new calls, give running ones `grace_seconds`, close."""
        await self._server.stop(grace_seconds)
