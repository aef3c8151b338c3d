"""HTTP/1.1 connections of browsers: a request has to be there in a while.

Uvicorn bounds the time between requests, not the time of one: a client that opens all connections
and sends a byte now and then would keep everybody else out (slowloris).
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_SECONDS: Final = 20.0
"""The time from a connection's beginning, or from a later request's first byte, in which the whole
request has to come: its head and its form, which is bounded."""


class BrowserConnection(H11Protocol):
    """Closed when a request takes longer than REQUEST_SECONDS to come."""

    _due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """The first request begins."""
        super().connection_made(transport)
        self._begin()

    def data_received(self, data: bytes) -> None:
        """A part of a request, or more than one."""
        if self._due is None and self.conn.their_state is h11.IDLE:
            self._begin()
        super().data_received(data)
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._end()

    def connection_lost(self, exc: Exception | None) -> None:
        """The browser, or the time, ended it."""
        self._end()
        super().connection_lost(exc)

    def _begin(self) -> None:
        self._due = self.loop.call_later(REQUEST_SECONDS, self._give_up)

    def _end(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None

    def _give_up(self) -> None:
        self._due = None
        transport: Any = self.transport
        transport.abort()
