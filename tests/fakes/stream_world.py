"""A `StreamServer` with one connection, over a transport without a socket and a manager without
logs: what the tests of framed streams share.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

from pylog import errors
from pylog.clock import SYSTEM_CLOCK
from pylog.model import Offset, TopicPartition
from pylog.records.builder import encode_batch
from pylog.rpc import streams
from pylog.rpc.framing import FrameCutter
from pylog.rpc.produce_wire import Item, Request, encode_message
from pylog.rpc.v1 import log_pb2
from pylog_broker.api.answer_memory import AnswerMemory
from pylog_broker.api.api import DataApi
from pylog_broker.api.batch_checks import BatchChecks
from pylog_broker.api.calls import Calls
from pylog_broker.api.request_memory import RequestMemory
from pylog_broker.framed.connection import State, StreamConnection
from pylog_broker.framed.open_calls import CALLS_MAX
from pylog_broker.framed.server import LISTENER, StreamServer
from pylog_broker.metadata.messages import Failure
from pylog_broker.metrics.counters import RequestCounters
from pylog_broker.net.acceptor import Gate, Place
from pylog_broker.protobuf.unary import AnyBound, UnaryApis
from pylog_broker.replication.effects import Effect, FetchDone, ProduceDone
from pylog_broker.replication.fetch_messages import Fetch, PartitionData
from pylog_broker.replication.manager import ReplicaManager
from pylog_broker.replication.produce_messages import PartitionAck, Produce

T0 = TopicPartition("t", 0)
PLAIN = encode_batch([b"value"])
PACKED = encode_batch([b"v" * 100] * 1000, compression="gzip", timestamps=7)
FRAME_MAX = 1 << 20


class FakeTransport:
    """Remembers what was written; the test says when the kernel takes it."""

    def __init__(self) -> None:
        self.sent = b""
        self.closing = self.aborted = False
        self.reading = True

    def get_extra_info(self, name: str) -> Any:
        return ("127.0.0.1", 5) if name == "peername" else None

    def write(self, data: bytes) -> None:
        self.sent += data

    def writelines(self, pieces: Sequence[bytes]) -> None:
        self.sent += b"".join(pieces)

    def get_write_buffer_size(self) -> int:
        return len(self.sent)

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading
        self.reading = True

    def set_write_buffer_limits(self, high: int) -> None:
        self.limit = high

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    def abort(self) -> None:
        self.closing = self.aborted = True


class HeldManager:
    """Takes requests; the test answers them."""

    def __init__(self) -> None:
        self.produced: list[tuple[Produce, Callable[[Sequence[PartitionAck]], None]]] = []
        self.fetched: list[tuple[Fetch, Callable[[Sequence[PartitionData]], None]]] = []
        self.cancelled: list[object] = []
        self.at_once = False
        self.refuses: errors.PylogError | None = None
        """The error that refuses batches, at once."""

    def produce_all(self, _now: int, _wall: int, requests: Sequence[Any]) -> list[Effect]:
        self.produced += requests
        if not self.at_once:
            return []
        error = self.refuses
        failure = Failure(error.code, str(error)) if error is not None else None
        return [
            ProduceDone(
                token, tuple(PartitionAck(i.topic_partition, failure) for i in produce.batches)
            )
            for produce, token in requests
        ]

    def fetch(self, _now: int, request: Fetch, token: Any) -> list[Effect]:
        self.fetched.append((request, token))
        return [FetchDone(token, (PartitionData(T0),))] if self.at_once else []

    def cancel(self, token: object) -> None:
        self.cancelled.append(token)


class World:
    """A server with one connection over a fake transport."""

    def __init__(self, kind: Any = None, bound: Iterable[AnyBound] = ()) -> None:
        self.manager = HeldManager()
        self.lines: list[str] = []
        self.closed: list[str] = []
        self.pool = ThreadPoolExecutor(1)
        self.counters = RequestCounters()
        self.data = DataApi.over(
            cast(ReplicaManager, self.manager), self._perform, SYSTEM_CLOCK,
            checks=BatchChecks(self.pool, 1 << 20, lambda _: None),
            memory=RequestMemory(1 << 20), answers=AnswerMemory(1 << 20), counters=self.counters,
            topic_name=lambda _: None,
        )  # fmt: skip
        self.apis = UnaryApis(Calls(self.counters), bound)
        self.server = StreamServer(
            self.data, self.apis, broker_id=3, cluster_id="c", broker_epoch=lambda: 17,
            frame_bytes_max=FRAME_MAX, report=self.lines.append, on_closed=self.closed.append,
        )  # fmt: skip
        self.gate = Gate(SYSTEM_CLOCK, self.lines.append)
        self.gate.quotas.add_listener(LISTENER, 1_000)
        self.connection, self.transport = self.connect()
        if kind is not None:
            self.feed(streams.hello(kind, "c", 3, "me"))
            calls_max = CALLS_MAX if kind == streams.CALLS else 0
            welcome = streams.welcome(3, 17, FRAME_MAX, calls_max=calls_max)
            assert self.answers() == [(streams.WELCOME, bytes(memoryview(welcome)[5:]))]

    def _perform(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            assert isinstance(effect, ProduceDone | FetchDone)
            answer = effect.acks if isinstance(effect, ProduceDone) else effect.partitions
            cast(Callable[[object], None], effect.token)(answer)

    def connect(self) -> tuple[StreamConnection, FakeTransport]:
        quotas = self.gate.quotas
        assert quotas.opened(LISTENER, "127.0.0.1", 9) is None
        place = Place(self.gate, LISTENER, "127.0.0.1")
        connection, transport = StreamConnection(self.server, place), FakeTransport()
        connection.connection_made(cast(asyncio.BaseTransport, transport))
        return connection, transport

    def feed(self, data: bytes, step: int = 1 << 30) -> None:
        """The bytes, in parts of at most `step`, as long as the connection reads."""
        position = 0
        while position < len(data) and not self.transport.closing:
            buffer = self.connection.get_buffer(-1)
            part = data[position : position + min(step, len(buffer))]
            buffer[: len(part)] = part
            position += len(part)
            self.connection.buffer_updated(len(part))

    def feed_as_read(self, data: bytes) -> bytes:
        """The bytes as far as the connection reads; what is left of them."""
        while data and self.transport.reading:
            part = min(len(data), 10_000, len(self.connection.get_buffer(-1)))
            self.feed(data[:part])
            data = data[part:]
        return data

    def answers(self) -> list[tuple[int, bytes]]:
        """(kind, body) of the frames sent since the last look."""
        sent, self.transport.sent = self.transport.sent, b""
        cutter, frames = FrameCutter(1 << 30), []
        while sent:
            buffer = cutter.free_buffer()
            part, sent = sent[: len(buffer)], sent[len(buffer) :]
            buffer[: len(part)] = part
            frames += [(body[0], bytes(body[1:])) for body in cutter.received(len(part))]
        return frames

    def correlations(self) -> list[int]:
        """The correlations of the answers since the last look."""
        frames = self.answers()
        assert {kind for kind, _ in frames} <= {streams.MESSAGE}
        kind: Any = log_pb2.ProduceResponse
        if self.connection.state is State.FETCH:
            kind = log_pb2.FetchResponse
        return [kind.FromString(body).correlation for _, body in frames]

    def refusal(self) -> errors.PylogError:
        """The error that ended the connection."""
        ((kind, body),) = self.answers()
        assert kind == streams.ERROR
        assert self.transport.closing
        assert self.connection.state is State.CLOSED
        return streams.read_fault(memoryview(bytes((kind,)) + body))

    def ack(self, index: int) -> None:
        """Answer the produce request that came at that place."""
        produce, done = self.manager.produced[index]
        done([PartitionAck(i.topic_partition, base_offset=Offset(9)) for i in produce.batches])

    def refuse(self, index: int, error: errors.PylogError) -> None:
        """Refuse the batches of the produce request that came at that place."""
        produce, done = self.manager.produced[index]
        failure = Failure(error.code, str(error))
        done([PartitionAck(i.topic_partition, failure) for i in produce.batches])


def produce(correlation: int, batch: bytes = PLAIN, acks: int = -1) -> bytes:
    request = Request(correlation, acks, 1000, [Item("t", "", 0, batch)])
    return b"".join(streams.framed(streams.MESSAGE, encode_message([request], "")))


def fetch(correlation: int, *, standing: int = 0) -> bytes:
    request = log_pb2.FetchRequest(correlation=correlation, max_wait_ms=500, min_bytes=1)
    request.standing_answers, request.standing_bytes = standing, 1000
    request.partitions.add(topic="t", partition=0, max_bytes=1000)
    return b"".join(streams.framed(streams.MESSAGE, [request.SerializeToString()]))


def run(test: Callable[[], Any]) -> None:
    async def main() -> None:
        async with asyncio.timeout(10):
            done = test()
            if done is not None:
                await done

    asyncio.run(main())
