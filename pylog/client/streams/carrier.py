"""The contract between an ordered stream and its carrier: each knows of the other this much."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from pylog.client.cluster.framed_ports import StreamWay
from pylog.client.cluster.message_sizes import TooLarge
from pylog.rpc.framing import Chunks
from pylog.rpc.v1 import stream_pb2

ResponseT = TypeVar("ResponseT")
ReadT = TypeVar("ReadT")

Message = tuple[Chunks, Any]
"""A message's bytes in pieces, and what `Carried.written` is told of it."""


@dataclass(frozen=True, slots=True)
class StreamType(Generic[ResponseT]):
    """One of the two kinds of streams: its kind on the framed port, its method in gRPC, and the
    parsers of its answers."""

    kind: stream_pb2.StreamKind
    method: str
    parse: Callable[[bytes], ResponseT]
    parse_view: Callable[[memoryview], ResponseT]

    def read_by(self, read: Callable[[bytes | memoryview], ReadT]) -> StreamType[ReadT]:
        """The same stream, its answers read in another way."""
        return StreamType(self.kind, self.method, read, read)


class Carrier(Protocol):
    """Takes messages out of its stream's queue as fast as they can go."""

    def wake(self) -> None:
        """There is something in the queue."""

    def close(self, *, abort: bool) -> None:
        """End; nothing more is told to the stream. `abort`: what was not sent yet is dropped."""

    async def finish(self) -> None:
        """Say that nothing more comes, and wait until the broker has seen all of it."""


class Carried(Protocol):
    """The stream, as its carrier sees it."""

    kind: StreamType[Any]
    lock: threading.RLock

    @property
    def has_requests(self) -> bool:
        """Whether anything is to be written now."""

    def next_message(self) -> Message:
        """Takes the next one out of the queue, which is not empty."""

    def written(self, told: Any) -> None:
        """The message has gone."""

    def answered(self, response: Any) -> None:
        """A broker's message came."""

    def rest_s(self, way: StreamWay) -> float:
        """The seconds to wait before the framed port is tried."""

    def opened(self, way: StreamWay) -> None:
        """The framed port can be had."""

    def fall_back(self, way: StreamWay, reason: str) -> None:
        """The framed port cannot be had: go on over gRPC."""

    def broke(self, way: StreamWay) -> None:
        """The framed connection, which stood, is no more."""

    def ended(self, fault: str, too_large: TooLarge | None = None) -> None:
        """The carrier is through, and why. `too_large`: because of a message that is so again."""
