"""One ordered stream of requests to one broker: for produce and for fetch alike.

Loop only. Writes in the order of `send`, reports answers in the order of requests, and reports
its end exactly once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import grpc
import grpc.aio
from grpc.aio import EOF  # type: ignore[attr-defined]

from pylog.client.cluster import Server
from pylog.client.wire import fault_of, refused_by_gateway

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")


class RequestStream(Generic[RequestT, ResponseT]):
    """`on_response(broker, message)`, `on_written(broker, message)` and `on_broken(stream, fault)`
    are called on the loop; none after `close`. `pack` takes the next message's requests out of
    the queue and gives the message; without it each request is one.
    """

    def __init__(
        self,
        broker: int,
        server: Server,
        open_call: Callable[[], Any],
        *,
        on_response: Callable[[int, ResponseT], None],
        on_broken: Callable[[RequestStream[RequestT, ResponseT], str], None],
        on_written: Callable[[int, Any], None] | None = None,
        pack: Callable[[deque[RequestT]], Any] | None = None,
    ) -> None:
        self.broker = broker
        self._server = server
        self._on_response = on_response
        self._on_written = on_written
        self._pack: Callable[[deque[RequestT]], Any] = pack or deque.popleft
        self._on_broken = on_broken
        self._queue: deque[RequestT] = deque()
        self._queued = asyncio.Event()
        self._closed = False
        server.waiting += 1
        self._call = open_call()
        self._writer = asyncio.ensure_future(self._write())
        self._reader = asyncio.ensure_future(self._read())

    def send(self, request: RequestT) -> None:
        """Write after everything sent before. The caller bounds what it has in flight."""
        self._queue.append(request)
        self._queued.set()

    def close(self) -> None:
        """Cut the stream; nothing is reported any more."""
        if not self._closed:
            self._reader.cancel()
            self._end()

    async def _write(self) -> None:
        try:
            while True:
                while self._queue:
                    message = self._pack(self._queue)
                    await self._call.write(message)
                    if self._on_written is not None and not self._closed:
                        self._on_written(self.broker, message)
                self._queued.clear()
                await self._queued.wait()
        except (grpc.aio.AioRpcError, grpc.aio.UsageError, asyncio.InvalidStateError):
            pass  # the reader learns the reason, and reports it

    async def _read(self) -> None:
        fault = "the broker closed the stream"
        try:
            while True:
                response = await self._call.read()
                if response is EOF:
                    code = await self._call.code()
                    if code is not grpc.StatusCode.OK:
                        details = await self._call.details()
                        fault = refused_by_gateway(details) or f"{code.name}: {details}"
                    break
                if not self._closed:
                    self._on_response(self.broker, response)
        except grpc.aio.AioRpcError as error:
            fault = fault_of(error)
        except asyncio.CancelledError:
            if self._closed:
                raise
            fault = "the stream was cancelled"
        if not self._closed:
            self._end()
            self._on_broken(self, f"{self._server}: {fault}")

    def _end(self) -> None:
        self._closed = True
        self._server.waiting -= 1
        self._writer.cancel()
        self._call.cancel()
