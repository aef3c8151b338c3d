"""Fetches that are awaited one by one, each over a stream of its own to one broker.

For readers of ranges: an answer is what they wait for, and streams are kept for the next range.
Loop only.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Final

from pylog import errors
from pylog.client.cluster.cluster import Cluster
from pylog.client.cluster.message_sizes import TooLarge
from pylog.client.cluster.server import Server
from pylog.client.streams.carrier import Message
from pylog.client.streams.stream import FETCH, RequestStream
from pylog.rpc.fetch_wire import Partition, Response
from pylog.rpc.v1 import log_pb2

IDLE_MAX: Final = 4
"""Streams to one broker that are kept while nobody reads."""

_Stream = RequestStream[log_pb2.FetchRequest, Response]


def pack_fetch(queue: deque[log_pb2.FetchRequest]) -> Message:
    """Each request is a message."""
    return [queue.popleft().SerializeToString()], None


class _Line:
    """One stream, and the one answer that it owes."""

    def __init__(self, broker: int, server: Server, cluster: Cluster) -> None:
        self.broken = False
        self.server = server
        self.answer: asyncio.Future[Response] | None = None
        self.stream: _Stream = RequestStream(
            broker,
            server,
            cluster,
            FETCH,
            pack=pack_fetch,
            on_response=self._on_response,
            on_broken=self._on_broken,
        )

    def _on_response(self, _broker: int, answer: Response) -> None:
        if self.answer is not None and not self.answer.done():
            self.answer.set_result(answer)

    def _on_broken(self, _stream: Any, fault: str, too_large: TooLarge | None) -> None:
        self.broken = True
        if self.answer is not None and not self.answer.done():
            kind = errors.BrokerUnreachable if too_large is None else errors.MessageTooLarge
            self.answer.set_exception(kind(fault))


class FetchLines:
    """The streams of one client."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._idle: dict[int, list[_Line]] = {}
        self._closed = False

    async def ask(
        self, broker: int, server: Server, request: log_pb2.FetchRequest, timeout_s: float
    ) -> list[Partition]:
        """The answer's partitions; BrokerUnreachable, or MessageTooLarge, names the address and
        the fault.
        """
        line = self._take(broker, server)
        answer: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        line.answer = answer
        line.stream.send(request)
        try:
            async with asyncio.timeout(max(timeout_s, 0.001)):
                partitions = (await answer).partitions
        except TimeoutError:
            raise errors.BrokerUnreachable(
                f"{server}: no answer within {timeout_s:.3g} s"
            ) from None
        finally:
            if answer.done() and not answer.cancelled() and answer.exception() is None:
                self._give_back(broker, line)
            else:
                line.stream.close(abort=True)
        return partitions

    def _take(self, broker: int, server: Server) -> _Line:
        idle = self._idle.get(broker, [])
        while idle:
            line = idle.pop()
            if not line.broken and line.server is server:
                return line
            line.stream.close()
        return _Line(broker, server, self._cluster)

    def _give_back(self, broker: int, line: _Line) -> None:
        line.answer = None
        idle = self._idle.setdefault(broker, [])
        if self._closed or line.broken or len(idle) >= IDLE_MAX:
            line.stream.close()
        else:
            idle.append(line)

    def close(self) -> None:
        """End the streams that nobody reads from."""
        self._closed = True
        for idle in self._idle.values():
            for line in idle:
                line.stream.close()
        self._idle.clear()
