"""Unary calls over a framed connection: each is answered once, in any order, whatever happens."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from pylog import errors
from pylog.clock import ticks
from pylog.rpc import apis, calls, streams
from pylog.rpc.v1 import log_pb2
from pylog_broker.api.context import CLIENT_ID_CHARS_MAX, SOFTWARE_CHARS_MAX, RequestContext
from pylog_broker.framed.connection import State
from pylog_broker.framed.open_calls import CALLS_MAX
from pylog_broker.protobuf.unary import Bound
from tests.fakes.stream_world import World, run

LIST, EPOCHS = apis.LIST_OFFSETS.key, apis.OFFSET_FOR_LEADER_EPOCH.key
MINUTE = 60_000


class Handlers:
    """ListOffsets answers when the test says so; OffsetForLeaderEpoch does what the test says."""

    def __init__(self) -> None:
        self.waiting: list[asyncio.Future[None]] = []
        self.contexts: list[RequestContext] = []
        self.given_up = 0
        self.at_once: Callable[[], Any] = log_pb2.OffsetForLeaderEpochResponse
        self.bound = (
            Bound(apis.LIST_OFFSETS, _same, self.list_offsets, _same),
            Bound(apis.OFFSET_FOR_LEADER_EPOCH, _same, self.epochs, _same),
        )

    async def list_offsets(self, context: RequestContext, request: Any) -> Any:
        self.contexts.append(context)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append(future)
        try:
            await future
        except asyncio.CancelledError:
            self.given_up += 1
            raise
        return log_pb2.ListOffsetsResponse(
            partitions=[log_pb2.PartitionOffset(topic=each.topic) for each in request.partitions]
        )

    async def epochs(self, _context: RequestContext, _request: Any) -> Any:
        return self.at_once()


def _same(message: Any) -> Any:
    return message


class Caller(World):
    """A connection for calls over a fake transport."""

    def __init__(self) -> None:
        self.handlers = Handlers()
        super().__init__(streams.CALLS, self.handlers.bound)

    def call(self, *numbers: int, key: int = LIST, timeout_ms: int = MINUTE, **more: Any) -> None:
        self.feed(b"".join(frame(n, key, timeout_ms, **more) for n in numbers))

    def told(self) -> list[tuple[int, Any]]:
        """(number, topics or error's class) of the answers since the last look."""
        found: list[tuple[int, Any]] = []
        for kind, body in self.answers():
            number, said = calls.read_answer(memoryview(bytes((kind,)) + body))
            if isinstance(said, errors.PylogError):
                found.append((number, type(said)))
            else:
                answer = log_pb2.ListOffsetsResponse.FromString(bytes(said))
                found.append((number, [each.topic for each in answer.partitions]))
        return found


def frame(
    number: int, key: int = LIST, timeout_ms: int = MINUTE, topic: str = "t", version: int = 0
) -> bytes:
    request = log_pb2.ListOffsetsRequest(partitions=[log_pb2.PartitionTimestamp(topic=topic)])
    said = request.SerializeToString()
    return b"".join(calls.call_frame(number, key, version, timeout_ms, said))


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def scene(play: Callable[[Caller], Awaitable[None]]) -> None:
    """Run it; nothing is left of the memory for requests."""

    async def test() -> None:
        world = Caller()
        await play(world)
        world.connection.connection_lost(None)
        await turns()
        memory = world.data.produce.memory
        assert (memory.in_flight, memory.receiving, len(asyncio.all_tasks())) == (0, 0, 1)

    run(test)


def test_calls_are_answered_in_the_order_in_which_they_are_done() -> None:
    async def play(world: Caller) -> None:
        world.call(7, 8)
        world.call(9, key=EPOCHS)
        await turns()
        assert world.told() == [(9, [])]
        assert world.data.produce.memory.in_flight == 2 * (len(frame(7)) - 4)
        world.handlers.waiting[1].set_result(None)
        await turns()
        assert world.told() == [(8, ["t"])]
        world.call(8)  # the number is free again
        await turns()
        world.handlers.waiting[2].set_result(None)
        world.handlers.waiting[0].set_result(None)
        await turns()
        assert world.told() == [(8, ["t"]), (7, ["t"])]
        assert world.counters.seconds["ListOffsets"].counts[-1] == 0
        assert sum(world.counters.seconds["ListOffsets"].counts) == 3

    scene(play)


def test_the_greeting_says_whose_calls_these_are() -> None:
    async def play(world: Caller) -> None:
        world.connection, world.transport = world.connect()
        said = streams.stream_pb2.StreamHello(
            version=1, kind=streams.CALLS, cluster_id="c", broker_id=3, client_id="i" * 999,
            software_name="n" * 999, software_version="v" * 999,
        )  # fmt: skip
        world.feed(
            b"".join(streams.framed(streams.HELLO, [streams.MAGIC, said.SerializeToString()]))
            + frame(1)
        )
        ((kind, body),) = world.answers()
        assert kind == streams.WELCOME
        welcome = streams.stream_pb2.StreamWelcome.FromString(body)
        assert (welcome.calls_max, welcome.software_name) == (CALLS_MAX, "pylog")
        assert welcome.software_version == streams.software_version()
        assert {each.key: each.version_max for each in welcome.apis} == {
            each.key: each.version_max for each in apis.UNARY_APIS
        }
        await turns()
        assert world.handlers.contexts == [
            RequestContext(
                "streams", "127.0.0.1", "127.0.0.1:5", "i" * CLIENT_ID_CHARS_MAX,
                "n" * SOFTWARE_CHARS_MAX, "v" * SOFTWARE_CHARS_MAX,
            )
        ]  # fmt: skip
        world.connection.connection_lost(None)

    scene(play)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"key": 4711}, "UNSUPPORTED_VERSION: api key 4711 is not offered by this broker"),
        ({"version": 3}, r"UNSUPPORTED_VERSION: version 3 of ListOffsets \(api key 2\) is not "),
        ({"timeout_ms": 0}, "REQUEST_TIMED_OUT: ListOffsets: its 0 ms were over when its turn"),
    ],
)
def test_a_call_that_cannot_be_made_fails_alone(more: dict[str, Any], says: str) -> None:
    async def play(world: Caller) -> None:
        world.call(5)
        world.call(6, **more)
        ((kind, body),) = world.answers()
        number, fault = calls.read_answer(memoryview(bytes((kind,)) + body))
        assert number == 6
        assert isinstance(fault, errors.PylogError)
        with pytest.raises(type(fault), match=says.partition(": ")[2]):
            raise fault
        assert fault.name == says.partition(": ")[0]
        assert sum(world.counters.errors.values()) == 1
        await turns()
        world.handlers.waiting[0].set_result(None)
        await turns()
        assert world.told() == [(5, ["t"])]

    scene(play)


def test_bytes_that_are_no_message_are_refused_by_the_name_of_the_api() -> None:
    async def play(world: Caller) -> None:
        world.feed(b"".join(calls.call_frame(1, LIST, 0, MINUTE, b"\xff\xff\xff")))
        ((_, body),) = world.answers()
        assert b"the bytes are no ListOffsets request" in body
        assert world.connection.state is State.CALLS

    scene(play)


def test_what_a_handler_raises_is_told_and_the_connection_lives_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def play(world: Caller) -> None:
        def fails() -> Any:
            raise errors.NotLeaderOrFollower("another leads")

        def breaks() -> Any:
            raise KeyError("a secret of the broker")

        def gives_up() -> Any:
            raise asyncio.CancelledError

        for fault in (fails, breaks, lambda: "no message", gives_up):
            world.handlers.at_once = fault
            world.call(1, key=EPOCHS)
            await turns()
        sent = world.transport.sent
        assert b"another leads" in sent
        assert b"secret" not in sent
        assert world.told() == [
            (1, errors.NotLeaderOrFollower),
            (1, errors.UnknownServerError),
            (1, errors.UnknownServerError),
            (1, errors.RequestTimedOut),
        ]
        assert [line.getMessage() for line in caplog.records] == [
            "OffsetForLeaderEpoch failed unexpectedly"
        ] * 2
        assert world.connection.state is State.CALLS

    with caplog.at_level(logging.ERROR):
        scene(play)


def test_a_call_whose_time_is_up_is_answered_and_its_work_ends() -> None:
    async def play(world: Caller) -> None:
        world.call(1, timeout_ms=5)
        world.call(2)
        while not world.transport.sent:
            await asyncio.sleep(0)
        assert world.told() == [(1, errors.RequestTimedOut)]
        await turns()
        assert world.handlers.given_up == 1
        code = errors.RequestTimedOut.code
        assert world.counters.errors == {("ListOffsets", code): 1}
        world.call(1)  # nobody mixes it up with the first one
        await turns()
        world.handlers.waiting[2].set_result(None)
        await turns()
        assert world.told() == [(1, ["t"])]

    scene(play)


def with_calls_that_wait(play: Callable[[Caller], Awaitable[None]]) -> None:
    """Run it with calls of ListOffsets that may wait for others, of which many have come."""

    async def first(world: Caller) -> None:
        bound = Bound(
            apis.LIST_OFFSETS, _same, world.handlers.list_offsets, _same, may_wait=lambda _: True
        )
        world.apis.by_key = {**world.apis.by_key, LIST: bound}
        gathering = world.server.gathering
        gathering._are_many, gathering._span_ends = True, ticks() + 60
        await play(world)
        assert gathering._waiting == []

    scene(first)


def test_a_call_that_may_wait_begins_with_the_next_one_that_does_not() -> None:
    async def play(world: Caller) -> None:
        world.call(1, 2)
        await turns()
        assert world.handlers.waiting == []
        world.call(3, key=EPOCHS)
        await turns()
        assert len(world.handlers.waiting) == 2
        for each in world.handlers.waiting:
            each.set_result(None)
        await turns()
        assert [number for number, _ in world.told()] == [3, 1, 2]

    with_calls_that_wait(play)


def test_a_call_whose_time_is_up_while_it_waits_for_others_does_not_begin() -> None:
    async def play(world: Caller) -> None:
        world.call(1, timeout_ms=1)
        while not world.transport.sent:
            await asyncio.sleep(0)
        assert world.told() == [(1, errors.RequestTimedOut)]
        world.call(2, key=EPOCHS)
        await turns()
        assert world.handlers.waiting == []
        assert world.told() == [(2, [])]

    with_calls_that_wait(play)


def test_a_broker_that_stops_answers_the_calls_that_wait_for_others() -> None:
    async def play(world: Caller) -> None:
        world.call(1)
        await world.server.close()
        assert world.told() == [(1, errors.NetworkException)]
        assert world.handlers.waiting == []

    with_calls_that_wait(play)


def test_the_end_of_a_connection_ends_the_calls_that_wait_for_others() -> None:
    async def play(world: Caller) -> None:
        world.call(1)
        world.connection.connection_lost(None)
        world.server.gathering.begin_all()
        await turns()
        assert world.handlers.waiting == []

    with_calls_that_wait(play)


def test_work_that_cannot_be_cancelled_keeps_no_answer_back() -> None:
    async def play(world: Caller) -> None:
        ends = asyncio.Event()

        async def stubborn(_context: RequestContext, _request: Any) -> Any:
            while not ends.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await ends.wait()
            return log_pb2.ListOffsetsResponse()

        bound = Bound(apis.LIST_OFFSETS, _same, stubborn, _same)
        world.apis.by_key = {LIST: bound}
        world.call(1, timeout_ms=5)
        while not world.transport.sent:
            await asyncio.sleep(0)
        assert world.told() == [(1, errors.RequestTimedOut)]
        ends.set()
        await turns()
        assert world.told() == []

    scene(play)


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        (frame(1) + frame(1), "call 1 is not answered yet, and another one has its number"),
        (b"\0\0\0\x05\x05abcd", "a call of at least 13 bytes and kind 5 belongs"),
        (b"\0\0\0\0", "of kind none"),
        (b"\0\0\0\x0e\x03" + bytes(13), "of kind 3"),
        ((1 << 24).to_bytes(4, "big"), "the limit here is 1048576"),
    ],
)
def test_what_cannot_be_answered_ends_the_connection_and_all_its_calls(
    sent: bytes, says: str
) -> None:
    async def play(world: Caller) -> None:
        world.call(77)
        await turns()
        world.feed(sent)
        assert says in str(world.refusal())
        await turns()
        assert world.handlers.given_up == 1
        assert len(world.handlers.waiting) == 1  # what came behind is not begun
        assert says in world.lines[-1]

    scene(play)


def test_a_call_before_the_greeting_is_refused() -> None:
    def test() -> None:
        world = World(None, Handlers().bound)
        world.feed(frame(1))
        assert "the first frame is no greeting" in str(world.refusal())

    run(test)


def test_no_more_is_read_than_may_be_open() -> None:
    async def play(world: Caller) -> None:
        left = world.feed_as_read(b"".join(map(frame, range(10_000))))
        await turns()
        assert len(world.handlers.waiting) == CALLS_MAX
        assert len(left) > 9_000 * len(frame(1))
        answered = 0
        while left or answered < 10_000:
            for future in world.handlers.waiting[answered:]:
                future.set_result(None)
            await turns()
            answered += len(world.told())
            left = world.feed_as_read(left)
            await turns()
            assert len(world.handlers.waiting) - answered <= CALLS_MAX
        assert answered == 10_000

    scene(play)


def test_a_client_that_takes_no_answers_gets_no_more_made() -> None:
    async def play(world: Caller) -> None:
        world.connection.pause_writing()
        world.call(*range(10), key=EPOCHS)
        await turns()
        assert world.told() == []
        world.connection.resume_writing()
        await turns()
        assert [number for number, _ in world.told()] == [*range(10)]
        made = []

        def large() -> Any:
            made.append(1)
            world.connection.pause_writing()  # as a transport whose buffer is full
            return log_pb2.OffsetForLeaderEpochResponse()

        world.handlers.at_once = large
        world.call(*range(10), key=EPOCHS)
        await turns()
        assert len(made) == 1
        for _ in range(9):
            world.connection.resume_writing()
            await turns()
        assert len(made) == 10

    scene(play)


def test_no_call_begins_while_others_have_not_taken_too_much() -> None:
    async def play(world: Caller) -> None:
        other, _ = world.connect()
        answers = world.data.fetch.answers
        answers.hold(other, answers.bytes_max)
        world.call(1, key=EPOCHS)
        await turns()
        assert world.told() == []
        answers.hold(other, 0)
        await turns()
        assert world.told() == [(1, [])]
        other.connection_lost(None)

    scene(play)


def test_the_end_of_the_connection_ends_its_calls() -> None:
    async def play(world: Caller) -> None:
        world.call(1, 2)
        await turns()
        world.feed(frame(3)[:9])
        world.connection.connection_lost(None)
        await turns()
        assert world.handlers.given_up == 2
        assert world.data.produce.memory.in_flight == 0

    async def test() -> None:
        world = Caller()
        await play(world)

    run(test)


def test_half_a_call_and_then_silence_is_let_go() -> None:
    async def play(world: Caller) -> None:
        world.call(1)
        await turns()
        world.feed(frame(2)[:9])
        for _ in range(2):
            world.server._on_time()
        assert "the rest of a frame did not come" in str(world.refusal())
        await turns()
        assert world.handlers.given_up == 1
        await world.server.close()

    scene(play)


def test_a_connection_with_open_calls_is_not_idle() -> None:
    async def play(world: Caller) -> None:
        world.answers()
        assert world.connection.is_idle
        world.call(1)
        assert not world.connection.is_idle
        await turns()
        world.handlers.waiting[0].set_result(None)
        await turns()
        world.answers()
        assert world.connection.is_idle

    scene(play)


def test_a_connection_that_is_closing_takes_no_calls() -> None:
    async def play(world: Caller) -> None:
        world.connection.close()
        world.transport.closing = False  # what the kernel had read comes all the same
        world.call(1)
        await turns()
        assert world.handlers.waiting == []

    scene(play)


def test_a_broker_that_stops_answers_what_is_open() -> None:
    async def play(world: Caller) -> None:
        world.call(1, 2)
        await turns()
        await world.server.close()
        assert world.told() == [(1, errors.NetworkException), (2, errors.NetworkException)]
        assert world.transport.closing
        await turns()
        assert world.handlers.given_up == 2

    scene(play)


def test_frames_that_wait_for_their_turn_use_their_time() -> None:
    async def play(world: Caller) -> None:
        world.server.calls_max = 1
        world.call(1)
        world.call(2, timeout_ms=2)
        until = ticks() + 0.003
        while ticks() < until:
            await asyncio.sleep(0)
        world.handlers.waiting[0].set_result(None)
        await turns()
        assert world.told() == [(1, ["t"]), (2, errors.RequestTimedOut)]

    scene(play)


def test_calls_count_against_the_memory_for_requests() -> None:
    async def play(world: Caller) -> None:
        memory = world.data.produce.memory
        memory.bytes_max = 20_000
        world.call(1, topic="t" * 12_000)
        await turns()
        assert world.transport.reading
        world.call(2, topic="t" * 12_000)
        await turns()
        assert memory.in_flight > memory.bytes_max
        assert not world.transport.reading
        world.handlers.waiting[0].set_result(None)
        world.handlers.waiting[1].set_result(None)
        await turns()
        assert world.transport.reading
        assert [number for number, _ in world.told()] == [1, 2]

    scene(play)
