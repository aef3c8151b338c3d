"""One address that a client talks to: its channel, its calls, and why one could not be made.

Loop only, like all of `cluster`, which keeps the servers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import grpc.aio
from google.protobuf.message import DecodeError

from pylog import errors
from pylog.client.cluster.framed_calls import FramedCalls
from pylog.client.cluster.metadata import Address
from pylog.client.cluster.wire import NOT_CONNECTED, fault_of, refusal_of, too_large_of
from pylog.client.connection.tcp import reason_of
from pylog.clock import ticks
from pylog.rpc.apis import RequestT, ResponseT, UnaryApi
from pylog.rpc.channel import MESSAGE_BYTES_MAX, aio_channel, through_gateway

WHY_NOT_CONNECTED_S: Final = 0.2
"""A refusal is instant; a server that swallows packets must not hold up the error that names it."""


class InFlight(Protocol):
    """Something with requests on their way to a server."""

    @property
    def in_flight(self) -> int:
        """Requests that are to be written, or not answered."""


class Server:
    """One address: its channel, and its requests in flight. With a `broker` the address is the
    gateway's, and the channel ends at that broker. With `framed` calls go by that where they can.
    """

    def __init__(
        self,
        address: Address,
        broker: int | None = None,
        options: Sequence[tuple[str, int | str]] = (),
    ) -> None:
        self.address = address
        self.broker = broker
        way = [] if broker is None else through_gateway(broker)
        self.message_bytes_max = MESSAGE_BYTES_MAX
        self.channel = aio_channel(
            str(address), message_bytes_max=self.message_bytes_max, options=[*options, *way]
        )
        self.framed: FramedCalls | None = None
        self._calls = 0
        self._streams: set[InFlight] = set()
        self._methods: dict[int, Any] = {}

    def __str__(self) -> str:
        where = str(self.address)
        return where if self.broker is None else f"broker {self.broker} through {where}"

    @property
    def load(self) -> int:
        """Requests in flight: calls, and what is on streams."""
        return self._calls + sum(stream.in_flight for stream in self._streams)

    @property
    def is_used(self) -> bool:
        """Whether a call or a stream needs its channel."""
        return bool(self._calls or self._streams)

    def stream_opened(self, stream: InFlight) -> None:
        """A stream goes to this server, over its channel or beside it."""
        self._streams.add(stream)

    def stream_ended(self, stream: InFlight) -> None:
        """It does not any more."""
        self._streams.discard(stream)

    def open_stream(self, method: str, parse: Callable[[bytes], Any]) -> Any:
        """A call of messages in pieces, both ways; `parse` makes answers of bytes."""
        open_call: Any = self.channel.stream_stream(method, b"".join, parse)
        return open_call()

    async def call(
        self, api: UnaryApi[RequestT, ResponseT], request: RequestT, timeout_s: float
    ) -> ResponseT:
        """The server's answer. Nothing is tried again.

        Raises BrokerUnreachable, which names the address and the fault; for a request that the
        server will never take, the server's error; for a message that is larger than a side takes,
        MessageTooLarge.
        """
        self._calls += 1
        framed, began_s = self.framed if api.is_for_brokers else None, ticks()
        try:
            timeout_s = max(timeout_s, 0.001)
            if framed is None:
                return await self._call_over_grpc(api, request, timeout_s)
            answer = await framed.call(api, request, timeout_s)
            if answer is not None:
                return self._parsed(api, answer)
            left_s = timeout_s - (ticks() - began_s)
            try:
                response = await self._call_over_grpc(api, request, left_s)
            except errors.BrokerUnreachable:
                framed.unreachable_over_grpc()
                raise
            framed.answered_over_grpc()
            return response
        finally:
            self._calls -= 1

    async def _call_over_grpc(
        self, api: UnaryApi[RequestT, ResponseT], request: RequestT, timeout_s: float
    ) -> ResponseT:
        try:
            response: ResponseT = await self._method(api)(request, timeout=max(timeout_s, 0.001))
            return response
        except grpc.aio.AioRpcError as error:
            refused = refusal_of(error)
            if refused is not None:
                raise refused from error
            too_large = too_large_of(error.code(), error.details() or "")
            if too_large is not None:
                raise too_large.error(self) from error
            fault = fault_of(error, timeout_s)
            if fault == NOT_CONNECTED:
                fault = await why_not_connected(self.address)
            raise errors.BrokerUnreachable(f"{self}: {fault}") from error

    def _parsed(self, api: UnaryApi[Any, ResponseT], answer: memoryview) -> ResponseT:
        try:
            return api.response.FromString(bytes(answer))
        except DecodeError as error:
            raise errors.BrokerUnreachable(f"{self}: its answer cannot be read: {error}") from None

    async def close(self) -> None:
        """Let go of its connections; calls that wait end."""
        if self.framed is not None:
            await self.framed.close()
        await self.channel.close(None)

    def _method(self, api: UnaryApi[Any, Any]) -> Any:
        method = self._methods.get(api.key)
        if method is None:
            method = self._methods[api.key] = self.channel.unary_unary(
                api.path, api.request.SerializeToString, api.response.FromString
            )
        return method


async def why_not_connected(address: Address) -> str:
    """The kernel's answer to one attempt to connect, for a fault whose reason gRPC lost."""
    try:
        async with asyncio.timeout(WHY_NOT_CONNECTED_S):
            _, writer = await asyncio.open_connection(address.host, address.port)
    except TimeoutError:
        return NOT_CONNECTED
    except OSError as error:
        return reason_of(error)
    writer.close()
    return NOT_CONNECTED
