"""One ordered stream of requests to one broker: for produce and for fetch alike.

For the loop, but for `send_here` and what is `readable`. Requests go in the order of `send`,
answers are reported in the order of requests, and the end is reported exactly once. Their carrier
is a framed TCP connection where the broker offers one and it can be reached, else a gRPC call.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from pylog.client.cluster.cluster import Cluster
from pylog.client.cluster.framed_ports import StreamWay
from pylog.client.cluster.message_sizes import TooLarge
from pylog.client.cluster.server import Server
from pylog.client.streams.carrier import Carrier, Message, StreamType
from pylog.client.streams.framed_carrier import FramedCarrier
from pylog.client.streams.grpc_carrier import GrpcCarrier
from pylog.clock import ticks
from pylog.rpc import streams
from pylog.rpc.fetch_wire import Response, parse_response
from pylog.rpc.v1 import log_pb2

QUIET_S: Final = 1.0
"""A stream on which nothing passed for so long, and on which nothing is due, has lost nothing when
it ends. Sooner its end may be the answer to what was written without acks."""
IDLE: Final = "it was idle"

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")

PRODUCE: Final = StreamType(
    streams.PRODUCE,
    "/pylog.v1.Log/ProduceStream",
    log_pb2.ProduceResponse.FromString,
    lambda body: log_pb2.ProduceResponse.FromString(bytes(body)),
)
FETCH: Final[StreamType[Response]] = StreamType(
    streams.FETCH, "/pylog.v1.Log/FetchStream", parse_response, parse_response
)


class RequestStream(Generic[RequestT, ResponseT]):
    """`on_response(broker, message)`, `on_written(broker, told)` and `on_broken(stream, fault,
    too_large)` are called on the loop, and `on_response` on a thread that reads an answer itself;
    none after `close`. One that ends while nothing is due, or is closed because it was idle for
    `connections.max.idle.ms`, has `went_idle` when it tells of it: nothing is wrong. `pack` takes
    the next message's requests out of the queue. `lock` guards the queue and what is written; it is
    not held when the stream tells something.
    """

    def __init__(
        self,
        broker: int,
        server: Server,
        cluster: Cluster,
        kind: StreamType[ResponseT],
        *,
        pack: Callable[[deque[RequestT]], Message],
        on_response: Callable[[int, ResponseT], None],
        on_broken: Callable[[RequestStream[RequestT, ResponseT], str, TooLarge | None], None],
        on_written: Callable[[int, Any], None] | None = None,
        lock: threading.RLock | None = None,
    ) -> None:
        self.broker = broker
        self.lock = lock or threading.RLock()
        self.kind = kind
        self._server = server
        self._cluster = cluster
        self._pack = pack
        self._on_response = on_response
        self._on_written = on_written
        self._on_broken = on_broken
        self._queue: deque[RequestT] = deque()
        self._emptied: asyncio.Future[None] | None = None
        self._closed = False
        self._unanswered = 0  # messages
        self._refused: tuple[StreamWay, str] | None = None  # by a framed port; gRPC is being tried
        self._refusals = 0  # in a row
        self._draining = False  # requests wait until all before them are answered
        self._fallen = False  # gRPC answers where a framed port did not
        self._stands = False  # the last fetch will be answered again
        self._used_s = ticks()
        self._idle_timer: asyncio.TimerHandle | None = None
        self._idle_s = cluster.settings.connections_max_idle_ms / 1000
        self.went_idle = False
        server.stream_opened(self)
        way = cluster.stream_way(broker, kind.kind)
        self._carrier: Carrier
        self._carrier = FramedCarrier(self, way) if way else GrpcCarrier(self, server)
        if self._idle_s >= 0:
            self._look_for_idle_in(self._idle_s)

    def send(self, request: RequestT) -> None:
        """Write after everything sent before. The caller bounds what it has in flight."""
        with self.lock:
            self._queue.append(request)
            if self._fallen and self._wants_framed_again():
                self._switch_when_idle()
            else:
                self._carrier.wake()

    @property
    def in_flight(self) -> int:
        """Requests that are to be written, and messages that are not answered."""
        return len(self._queue) + self._unanswered

    @property
    def free_carrier(self) -> FramedCarrier | None:
        """The framed connection that takes a request at once, from any thread that has the lock,
        with nothing queued before it. Else the loop sends.
        """
        carrier = self._carrier
        if self._queue or self._draining or type(carrier) is not FramedCarrier:
            return None
        return carrier if carrier.is_free else None

    def send_here(self, carrier: FramedCarrier, request: RequestT) -> None:
        """`send` through the free carrier, on the calling thread, which has the lock. Never blocks:
        what the kernel does not take the loop writes.
        """
        self._queue.append(request)
        carrier.flush()

    @property
    def readable(self) -> FramedCarrier | None:
        """The carrier whose answers another thread may read; None when the loop must."""
        carrier = self._carrier
        if type(carrier) is not FramedCarrier or carrier.connection is None:
            return None
        return carrier

    def _wants_framed_again(self) -> bool:
        way = self._cluster.stream_way(self.broker, self.kind.kind)
        return way is not None and not self._cluster.stream_rest_s(way)

    def _switch_when_idle(self) -> None:
        """Nothing may be under way, or the order of requests would not stay what it is: until then
        they wait.
        """
        self._draining = True
        if self._unanswered:
            return
        self._draining = self._fallen = False
        self._carrier.close(abort=False)
        way = self._cluster.stream_way(self.broker, self.kind.kind)
        self._carrier = FramedCarrier(self, way) if way else GrpcCarrier(self, self._server)
        self._carrier.wake()

    def close(self, *, abort: bool = False) -> None:
        """Cut the stream; nothing is reported any more. `abort`: nor sent, if it has not gone."""
        if not self._closed:
            self._end()
            self._carrier.close(abort=abort)

    # ---- idle ----------------------------------------------------------------------------------

    @property
    def _is_due(self) -> bool:
        """Whether anything is to be written or answered."""
        return bool(self._queue or self._unanswered or self._stands or self._draining)

    @property
    def _is_quiet(self) -> bool:
        return not self._is_due and ticks() - self._used_s >= QUIET_S

    def _look_for_idle_in(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._idle_timer = loop.call_later(seconds, self._look_for_idle)

    def _look_for_idle(self) -> None:
        with self.lock:
            if self._closed:
                return
            left_s = self._used_s + self._idle_s - ticks()
            if left_s > 0 or self._is_due:
                self._look_for_idle_in(left_s if left_s > 0 else max(self._idle_s, QUIET_S))
                return
            self.went_idle = True
            self._end()
            self._carrier.close(abort=False)
        self._on_broken(self, IDLE, None)

    async def finish(self) -> None:
        """Return when the broker has seen all that was sent, and is through with the stream: for
        those that nobody answers. The caller bounds the time, and closes.
        """
        if self._queue and not self._closed:
            self._emptied = asyncio.get_running_loop().create_future()
            await self._emptied
        if not self._closed:
            await self._carrier.finish()

    # ---- for carriers --------------------------------------------------------------------------

    @property
    def has_requests(self) -> bool:
        """Whether anything is to be written now."""
        return bool(self._queue) and not self._draining

    def next_message(self) -> Message:
        """Takes the next one out of the queue, which is not empty."""
        self._used_s = ticks()
        if self._on_written is None:  # else there are no answers
            self._unanswered += 1
        return self._pack(self._queue)

    def written(self, told: Any) -> None:
        """The message has gone."""
        if self._emptied is not None and not self._queue and not self._emptied.done():
            self._emptied.set_result(None)
        if self._on_written is not None and not self._closed:
            self._on_written(self.broker, told)

    def answered(self, response: ResponseT) -> None:
        """A broker's message came."""
        with self.lock:
            self._used_s = ticks()
            if self.kind.kind == streams.FETCH:
                self._stands = getattr(response, "stands", False)
            if self._unanswered:  # a fetch that stands is answered again and again
                self._unanswered -= 1
        if self._refused is not None:
            (way, reason), self._refused = self._refused, None
            self._fallen = True
            if self._refusals > 1:
                self._cluster.stream_refused(way, reason)
        if self._draining and not self._closed:
            self._switch_when_idle()
        if not self._closed:
            self._on_response(self.broker, response)

    def rest_s(self, way: StreamWay) -> float:
        """The seconds to wait before the framed port is tried."""
        return self._cluster.stream_rest_s(way)

    def opened(self, way: StreamWay) -> None:
        """The framed port can be had."""
        self._refusals = 0
        self._cluster.stream_opened(way)

    def broke(self, way: StreamWay) -> None:
        """The framed connection, which stood, is no more."""
        if not self._is_quiet:
            self._cluster.stream_broke(way)

    def fall_back(self, way: StreamWay, reason: str) -> None:
        """The framed port cannot be had: go on over gRPC with what is in the queue. When that works
        the port is tried once more: the broker may just have come back. Refused again, it is the
        port's fault.
        """
        self._cluster.stream_broke(way)
        if not self._closed:
            self._refused = (way, reason)
            self._refusals += 1
            self._carrier = GrpcCarrier(self, self._server)
            if self._queue:
                self._carrier.wake()

    def ended(self, fault: str, too_large: TooLarge | None = None) -> None:
        """The carrier is through, and why. `too_large`: because of a message that is so again."""
        if not self._closed:
            self.went_idle = self._is_quiet
            self._end()
            self._on_broken(self, f"{self._server}: {fault}", too_large)

    def _end(self) -> None:
        self._closed = True
        self._server.stream_ended(self)
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        if self._emptied is not None and not self._emptied.done():
            self._emptied.set_result(None)
