"""A request stream over a gRPC call: for brokers without a framed port, and through the gateway."""

from __future__ import annotations

import asyncio

import grpc
import grpc.aio
from grpc.aio import EOF  # type: ignore[attr-defined]

from pylog.client.cluster.message_sizes import TooLarge
from pylog.client.cluster.server import Server
from pylog.client.cluster.wire import fault_of, refused_by_gateway, too_large_of
from pylog.client.streams.carrier import Carried
from pylog.plain_text import escaped


class GrpcCarrier:
    """Two tasks: one writes, one reads and learns the reason of the end."""

    def __init__(self, stream: Carried, server: Server) -> None:
        self._stream = stream
        self._message_bytes_max = server.message_bytes_max
        self._queued = asyncio.Event()
        self._closed = False
        self._finishing = False
        self._call = server.open_stream(stream.kind.method, stream.kind.parse)
        self._writer = asyncio.ensure_future(self._write())
        self._reader = asyncio.ensure_future(self._read())

    def wake(self) -> None:
        self._queued.set()

    def close(self, *, abort: bool) -> None:
        if not self._closed:
            self._reader.cancel()
            self._end()

    async def finish(self) -> None:
        self._finishing = True
        self._queued.set()
        await asyncio.wait([self._reader])

    async def _write(self) -> None:
        stream = self._stream
        try:
            while True:
                while stream.has_requests:
                    pieces, told = stream.next_message()
                    size = sum(map(len, pieces))
                    if size > self._message_bytes_max:
                        self._refuse(size)
                        return
                    await self._call.write(pieces)
                    stream.written(told)
                if self._finishing:
                    await self._call.done_writing()
                    return
                self._queued.clear()
                await self._queued.wait()
        except (grpc.aio.AioRpcError, grpc.aio.UsageError, asyncio.InvalidStateError):
            pass  # the reader learns the reason, and reports it

    async def _read(self) -> None:
        fault, too_large = "the broker closed the stream", None
        try:
            while True:
                response = await self._call.read()
                if response is EOF:
                    code = await self._call.code()
                    if code is not grpc.StatusCode.OK:
                        details = escaped(await self._call.details() or "")
                        fault = refused_by_gateway(details) or f"{code.name}: {details}"
                        too_large = too_large_of(code, details)
                    break
                if not self._closed:
                    self._stream.answered(response)
        except grpc.aio.AioRpcError as error:
            fault = fault_of(error)
            too_large = too_large_of(error.code(), error.details() or "")
        except asyncio.CancelledError:
            if self._closed:
                raise
            fault = "the stream was cancelled"
        if not self._closed:
            self._end()
            self._stream.ended(str(too_large or fault), too_large)

    def _refuse(self, size: int) -> None:
        """Nothing may go past a message that is too large. gRPC would break the stream as well, and
        not always say why.
        """
        limit = self._message_bytes_max
        too_large = TooLarge(size, limit, by_server=False, is_answer=False)
        if not self._closed:
            self._end()
            self._stream.ended(str(too_large), too_large)

    def _end(self) -> None:
        self._closed = True
        self._writer.cancel()
        self._call.cancel()
