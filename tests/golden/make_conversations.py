"""Write `conversations/<release>/`: what a client and a broker of this release say to each other.

    .venv/bin/python -m tests.golden.make_conversations

A folder that is there stays: a later broker must answer what an earlier client says, and a later
client must understand what an earlier broker answers. A change of what is said gives `RELEASE` a
new name and runs this once. Each file is one conversation, a frame a line, `>` from the client and
`<` from the broker, in hexadecimal:

    produce.txt        over a framed stream: acknowledged, several requests in a message, refused
    fetch.txt          the same: found, found by a fetch that stands, out of range
    calls.txt          unary calls: metadata, offsets, epochs, a producer id, one that is not there
    registration.txt   a broker and its controller: claim and registration, request and answer
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, Final, cast

from google.protobuf.message import Message

from pylog.model import BrokerId, ProducerId
from pylog.records.builder import encode_batch
from pylog.rpc import apis, calls, streams
from pylog.rpc.produce_wire import Item, Request, encode_message
from pylog.rpc.v1 import log_pb2
from pylog_broker.api.answer_memory import AnswerMemory
from pylog_broker.api.api import Api, DataApi
from pylog_broker.api.batch_checks import BatchChecks
from pylog_broker.api.calls import Calls
from pylog_broker.api.leased_reads import LeasedReadsHandler
from pylog_broker.api.metadata import MetadataHandler
from pylog_broker.api.offsets import (
    DeleteRecordsHandler,
    ListOffsetsHandler,
    OffsetForLeaderEpochHandler,
)
from pylog_broker.api.producer_id_quota import ProducerIdQuota
from pylog_broker.api.producer_ids import InitProducerIdHandler
from pylog_broker.api.ranges import RangesHandler
from pylog_broker.api.record_waits import RecordWaitHandler
from pylog_broker.api.request_memory import RequestMemory
from pylog_broker.api.transactions.range_transactions import RangeTransactionsHandler
from pylog_broker.config import BrokerConfig
from pylog_broker.framed.connection import StreamConnection
from pylog_broker.framed.server import LISTENER, StreamServer
from pylog_broker.metadata import codec
from pylog_broker.metadata.messages import BrokerDirectory, ClaimBroker
from pylog_broker.metadata.records import Endpoint
from pylog_broker.metrics.counters import RequestCounters
from pylog_broker.net.acceptor import Gate, Place
from pylog_broker.protobuf.log_apis import log_apis
from pylog_broker.protobuf.unary import UnaryApis
from pylog_broker.replication.effects import Effect, FetchStands
from tests.fakes.broker_group import WALL_MS, BrokerGroup
from tests.fakes.controller_shell import ControllerShell
from tests.fakes.stream_world import FakeTransport

FOLDER: Final = Path(__file__).parent / "conversations"
RELEASE: Final = "0.1.0"
CLUSTER: Final = "ccccccccccccccccccccwA"
ONE: Final = BrokerId(1)

Line = tuple[str, bytes]
"""The side that sends, `>` or `<`, and the frame."""


class StandingClock:
    """Time stands still."""

    def monotonic_ms(self) -> int:
        return 1_000

    def wall_ms(self) -> int:
        return WALL_MS

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("nobody waits in a golden conversation")


class Broker:
    """Broker 1 of a cluster with the topic `t` of two partitions, of which the first has two
    records: real handlers over a real replica manager, and a framed port over fake transports.
    """

    def __init__(self, root: Path) -> None:
        self._group = BrokerGroup(root, 1)
        self._group.create_topic([1], partitions=2)
        self._group.produce(1, batch=encode_batch([b"one", b"two"], timestamps=[7, 9]))
        self._group.run()
        self._image = self._group.images[ONE]
        self._image.cluster_id = CLUSTER
        clock: Any = StandingClock()
        counters = RequestCounters()
        manager = self._group.managers[ONE]
        checks = BatchChecks(ThreadPoolExecutor(1), 1 << 20, lambda _: None)
        data = DataApi.over(
            manager, self._perform, clock, checks=checks,
            memory=RequestMemory(1 << 20), answers=AnswerMemory(1 << 20), counters=counters,
            topic_name=self._image.topic_name,
        )  # fmt: skip
        api = Api(
            data,
            MetadataHandler(lambda: self._image, lambda: Endpoint("gateway", 9092)),
            ListOffsetsHandler(manager, self._perform, clock),
            DeleteRecordsHandler(manager, self._perform, clock),
            OffsetForLeaderEpochHandler(manager, lambda: self._image),
            InitProducerIdHandler(_an_id, ProducerIdQuota(BrokerConfig), clock, cast(Any, None)),
            # Groups and transactions have golden records of their own.
            cast(Any, None),
            cast(Any, None),
            RangesHandler(manager, self._perform, clock),
            RecordWaitHandler(manager, self._perform, clock),
            RangeTransactionsHandler(manager, self._perform, clock),
            LeasedReadsHandler(manager, clock),
            # What it offers is on one machine: there is nothing to keep of it.
            cast(Any, SimpleNamespace(handle=None)),
        )
        self._gate = Gate(clock, print)
        self._gate.quotas.add_listener(LISTENER, 100)
        self._server = StreamServer(
            data, UnaryApis(Calls(counters), log_apis(api)), broker_id=1, cluster_id=CLUSTER,
            broker_epoch=lambda: 17, frame_bytes_max=1 << 20, report=print,
        )  # fmt: skip

    def _perform(self, effects: Sequence[Effect]) -> None:
        group = self._group
        group._post(ONE, effects)
        group.run()
        for token, stood in [*group.standing.items()]:
            del group.standing[token]
            for effect in stood:
                assert isinstance(effect, FetchStands)
                cast(Any, token).stands(effect[1])
        for token, done in [*group.answers.items()]:
            if callable(token):
                del group.answers[token]
                cast(Callable[[object], None], token)(cast(Any, done)[1])

    async def says(self, frames: Sequence[bytes]) -> list[bytes]:
        """The broker's frames in answer to a client's, over a connection of their own."""
        assert self._gate.quotas.opened(LISTENER, "127.0.0.1", 9) is None
        connection = StreamConnection(self._server, Place(self._gate, LISTENER, "127.0.0.1"))
        transport = FakeTransport()
        connection.connection_made(cast(asyncio.BaseTransport, transport))
        answers = []
        for frame in frames:
            rest = frame
            while rest:
                buffer = connection.get_buffer(-1)
                part, rest = rest[: len(buffer)], rest[len(buffer) :]
                buffer[: len(part)] = part
                connection.buffer_updated(len(part))
            for _ in range(20):
                await asyncio.sleep(0)
            answers += cut(transport.sent)
            transport.sent = b""
        connection.connection_lost(None)
        return answers


async def _an_id() -> ProducerId:
    return ProducerId(4_000)


def cut(sent: bytes) -> list[bytes]:
    """The frames, each with its head."""
    frames = []
    while sent:
        size = 4 + int.from_bytes(sent[:4], "big")
        frames.append(sent[:size])
        sent = sent[size:]
    return frames


# ---- what a client of this release says ----------------------------------------------------------


def message(request: Any) -> bytes:
    """A frame of a stream."""
    pieces = [request.SerializeToString()] if isinstance(request, Message) else request
    return b"".join(streams.framed(streams.MESSAGE, pieces))


def hello(kind: Any) -> bytes:
    """A client's greeting."""
    return streams.hello(kind, CLUSTER, 1, "a client")


def produce_frames() -> list[bytes]:
    """One request; two in a message; one for a partition that is not there."""

    def request(correlation: int, partition: int, value: bytes, acks: int = -1) -> Request:
        batch = encode_batch([value], timestamps=[11])
        return Request(correlation, acks, 1_000, [Item("t", "", partition, batch)])

    return [
        hello(streams.PRODUCE),
        message(encode_message([request(1, 0, b"three")], "a client")),
        message(encode_message([request(2, 1, b"four", 1), request(3, 0, b"five")], "a client")),
        message(encode_message([request(4, 9, b"nobody's")], "a client")),
    ]


def fetch_frames() -> list[bytes]:
    """From the beginning; the same as a fetch that stands; beyond the end."""

    def request(correlation: int, offset: int, standing: int = 0) -> log_pb2.FetchRequest:
        asked = log_pb2.FetchRequest(
            correlation=correlation, min_bytes=1, max_bytes=1 << 20, client_id="a client",
            standing_answers=standing, standing_bytes=standing * 1_000,
            max_wait_ms=500 if standing else 0,
        )  # fmt: skip
        asked.partitions.add(
            topic="t", partition=0, fetch_offset=offset, max_bytes=1 << 20,
            current_leader_epoch=0, last_fetched_epoch=0 if standing else -1,
        )  # fmt: skip
        return asked

    return [
        hello(streams.FETCH),
        message(request(1, 0)),
        message(request(2, 1, standing=9)),
        message(request(3, 99)),
    ]


def call_frames() -> list[bytes]:
    """A call of each API of the log, and one of an API that is not there."""
    asked: list[tuple[int, Message]] = [
        (apis.METADATA.key, log_pb2.MetadataRequest(all_topics=True)),
        (apis.METADATA.key, log_pb2.MetadataRequest(topics=["t", "not-there"])),
        (apis.INIT_PRODUCER_ID.key, log_pb2.InitProducerIdRequest()),
        (apis.LIST_OFFSETS.key, log_pb2.ListOffsetsRequest()),
        (apis.OFFSET_FOR_LEADER_EPOCH.key, log_pb2.OffsetForLeaderEpochRequest()),
        (32_000, log_pb2.MetadataRequest()),
    ]
    listed = cast(log_pb2.ListOffsetsRequest, asked[3][1])
    for timestamp in (-1, -2, -3, 8):
        listed.partitions.add(topic="t", partition=0, timestamp_ms=timestamp)
    ended = cast(log_pb2.OffsetForLeaderEpochRequest, asked[4][1])
    ended.partitions.add(topic="t", partition=0, current_leader_epoch=0, leader_epoch=0)
    return [
        hello(streams.CALLS),
        *(
            b"".join(calls.call_frame(number, key, 0, 30_000, request.SerializeToString()))
            for number, (key, request) in enumerate(asked)
        ),
    ]


STREAMS: Final = {"produce": produce_frames, "fetch": fetch_frames, "calls": call_frames}


# ---- what brokers and their controller say -------------------------------------------------------

REGISTRATION: Final[list[tuple[str, Callable[[Any], Any], Callable[[Any], Message]]]] = [
    ("claim_broker", codec.decode_claim, codec.encode_claimed),
    ("register_broker", codec.decode_registration, codec.encode_registered),
]
"""The controller's method, and the codecs of its question and its answer, by turns."""


def registration_lines() -> list[Line]:
    """A claim and a registration, as messages, with the controller's answers."""
    shell = ControllerShell()
    cluster = shell.controller.decided.cluster_id
    directory = BrokerDirectory(ONE, "directory-1", cluster, "boot-1", True)
    asked: list[Message] = [
        codec.encode_claim(ClaimBroker("incarnation-1-1", "host-1", (directory,))),
        codec.encode_registration(shell.registration(1)),
    ]
    lines: list[Line] = []
    for request, answer in zip(asked, answered(shell, asked), strict=True):
        lines += [(">", request.SerializeToString()), ("<", answer.SerializeToString())]
    return lines


def answered(shell: ControllerShell, asked: Sequence[Message]) -> list[Message]:
    """A controller's answers to what a broker asks at its start."""
    return [
        encode(shell.call(method, decode(request)))
        for request, (method, decode, encode) in zip(asked, REGISTRATION, strict=True)
    ]


# ---- files ---------------------------------------------------------------------------------------


def read(path: Path) -> list[Line]:
    """The frames of a file."""
    lines = path.read_text(encoding="ascii").splitlines()
    return [(line[0], bytes.fromhex(line[2:])) for line in lines]


def write(path: Path, lines: Sequence[Line]) -> None:
    """Write them."""
    text = "".join(f"{side} {frame.hex()}\n" for side, frame in lines)
    path.write_text(text, encoding="ascii")


async def conversation(frames: Sequence[bytes]) -> list[Line]:
    """The frames, and the answers that a new broker of today gives to them."""
    with TemporaryDirectory() as root:
        broker = Broker(Path(root))
        answers = await broker.says(frames)
    return [*((">", frame) for frame in frames), *(("<", frame) for frame in answers)]


def main() -> None:
    """All of them, of this release."""
    folder = FOLDER / RELEASE
    folder.mkdir(parents=True)
    for name, frames in STREAMS.items():
        write(folder / f"{name}.txt", asyncio.run(conversation(frames())))
    write(folder / "registration.txt", registration_lines())


if __name__ == "__main__":
    main()
