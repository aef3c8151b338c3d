"""A framed stream's connection: what comes in, and all that goes out."""

from __future__ import annotations

import asyncio
import random
from typing import Any, cast

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pylog import errors
from pylog.rpc import streams
from pylog.rpc.produce_wire import Request, encode_message
from pylog.rpc.v1 import log_pb2
from pylog_broker.api.produce import PRODUCE_PIPELINE_MAX
from pylog_broker.framed.connection import State
from pylog_broker.framed.server import LISTENER, PROGRESS_BYTES_MIN, StreamServer
from pylog_broker.replication.fetch_messages import PartitionData, Standing
from tests.fakes.stream_world import (
    FRAME_MAX,
    PACKED,
    PLAIN,
    T0,
    World,
    fetch,
    produce,
    run,
)

# ---- greeting -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "it looks like HTTP"),
        (b"\x16\x03\x01\x02\x00\x01", "it looks like TLS"),
        (b"\x00\x00\x00\x0b\x00\x12\x00\x03\x00\x00\x00\x01\x00\x01x", "it looks like a Kafka"),
        (b"\x00\x00\x20\x00", "announces 8192 bytes; the limit here is 4096"),
        (b"\x00\x00\x00\x00", "is no greeting"),
        (produce(1), "is no greeting"),
        (b"\x00\x00\x00\x07\x01PYLG\xff\xff", "cannot be read"),
        (b"\x00\x00\x00\x05\x01PYLG", "version 0 of framed streams"),
        (streams.hello(streams.PRODUCE, "c", 4, ""), "this is broker 3 of cluster c, and not bro"),
        (streams.hello(streams.FETCH, "other", 3, ""), "not broker 3 of cluster other"),
        (streams.hello(cast(Any, 7), "c", 3, ""), "kind 7 are not offered"),
    ],
)
def test_a_stranger_is_refused_with_one_line(sent: bytes, says: str) -> None:
    world = World()
    world.feed(sent, step=5)
    world.feed(b"more of it")
    fault = world.refusal()
    assert says in str(fault)
    assert world.lines == [f"stream listener: closed 127.0.0.1:5: {fault}"]


def test_a_stranger_gives_way_to_who_comes_and_a_client_stays() -> None:
    """A crowd that says nothing keeps nobody out; one that has greeted is told why."""

    async def test() -> None:
        world = World()
        server = StreamServer(
            world.data, world.apis, broker_id=3, cluster_id="c", broker_epoch=lambda: 17,
            frame_bytes_max=FRAME_MAX, report=world.lines.append, gate=world.gate,
            connections_max=3,
        )  # fmt: skip
        port = await server.start("127.0.0.1", 0)
        world.connection.connection_lost(None)
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        clients = []
        for _ in range(3):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(streams.hello(streams.FETCH, "c", 3, ""))
            head = await reader.readexactly(4)
            body = await reader.readexactly(int.from_bytes(head, "big"))
            assert streams.read_welcome(memoryview(body)).broker_id == 3
            clients.append((reader, writer))
        for reader, _ in silent:
            assert await reader.read() == b""
        reader, _ = late = await asyncio.open_connection("127.0.0.1", port)
        said = memoryview(await reader.read())[4:]
        with pytest.raises(errors.ThrottlingQuotaExceeded, match=r"\(max\.connections\)"):
            streams.read_welcome(said)
        assert world.gate.quotas.by_listener[LISTENER] == 3
        for _, writer in (*silent, *clients, late):
            writer.close()
        while server.connections:
            await asyncio.sleep(0)
        assert world.gate.quotas.by_listener[LISTENER] == 0
        await server.close()
        world.gate.close()

    run(test)


def test_who_does_not_finish_is_let_go() -> None:
    async def test() -> None:
        world = World(streams.FETCH)
        world.feed(fetch(1)[:10])
        for _ in range(2):
            world.server._on_time()
        assert "the rest of a frame did not come within 15 s" in str(world.refusal())
        await world.server.close()

    run(test)


def test_who_does_not_greet_is_let_go() -> None:
    async def test() -> None:
        world = World()
        silent = world.connection
        world.server.newcomers.look()
        world.connection, world.transport = world.connect()
        world.feed(streams.hello(streams.FETCH, "c", 3, "")[:10])
        late = world.connection, world.transport
        world.connection, world.transport = world.connect()
        world.feed(streams.hello(streams.FETCH, "c", 3, ""))
        greeted = world.connection
        world.connection, world.transport = late
        assert silent.state is State.GREETING
        world.server.newcomers.look()
        assert (silent.state, world.connection.state) == (State.CLOSED, State.GREETING)
        assert any("its greeting did not come" in line for line in world.lines)
        world.server.newcomers.look()
        assert "its greeting did not come within 5 s" in str(world.refusal())
        assert greeted.state is State.FETCH
        await world.server.close()

    run(test)


def test_a_large_frame_over_a_slow_line_may_take_its_time() -> None:
    async def test() -> None:
        world = World(streams.PRODUCE)
        message = produce(1, batch=bytes(4 * PROGRESS_BYTES_MIN))
        for at in range(0, 3 * PROGRESS_BYTES_MIN, PROGRESS_BYTES_MIN):
            world.feed(message[at : at + PROGRESS_BYTES_MIN])
            world.server._on_time()
            assert world.connection.state is State.PRODUCE
        world.server._on_time()
        assert "the rest of a frame did not come within 15 s" in str(world.refusal())
        await world.server.close()

    run(test)


def test_idle_streams_and_those_that_wait_stay() -> None:
    async def test() -> None:
        world = World(streams.FETCH)
        for _ in range(3):
            world.server._on_time()
        world.feed(fetch(1))
        world.feed(fetch(2)[:10])  # it is not asked for while the first one waits
        for _ in range(3):
            world.server._on_time()
        assert world.connection.state is State.FETCH
        await world.server.close()

    run(test)


def test_streams_without_work_are_closed_and_those_for_which_something_is_due_stay() -> None:
    async def test() -> None:
        world = World(streams.PRODUCE)
        idle = world.connection, world.transport
        worlds = {}
        for name, kind, sent in (
            ("waits for acks", streams.PRODUCE, produce(1)),
            ("is inside a frame", streams.PRODUCE, produce(1)[:10]),
            ("waits", streams.FETCH, fetch(1)),
            ("stands", streams.FETCH, fetch(1, standing=64)),
        ):
            world.connection, world.transport = world.connect()
            world.feed(streams.hello(kind, "c", 3, "me"))
            world.answers()
            world.feed(sent)
            worlds[name] = world.connection
        standing(world, 1)
        server = world.server
        server.idle.seconds_max = 0
        world.connection, world.transport = world.connect()
        world.feed(streams.hello(streams.FETCH, "c", 3, ""))
        busy = world.connection
        for _ in range(2):
            busy.received += 1
            server.idle.look()
        assert (idle[0].state, idle[1].closing) == (State.CLOSED, True)
        assert {name: c.state.name for name, c in worlds.items() if c.state is State.CLOSED} == {}
        await server.close()

    run(test)


def test_it_is_told_which_connection_has_ended() -> None:
    async def test() -> None:
        world = World(streams.CALLS)
        place = world.connection.context.place
        assert place == "streams/127.0.0.1:5"
        assert world.closed == []
        world.connection.connection_lost(None)
        assert world.closed == [place]
        await world.server.close()

    run(test)


# ---- produce ------------------------------------------------------------------------------------


def test_answers_keep_the_order_of_requests() -> None:
    world = World(streams.PRODUCE)
    world.feed(produce(1) + produce(2) + produce(3))
    assert [p.batches[0].batch for p, _ in world.manager.produced] == [PLAIN] * 3
    world.ack(1)
    assert world.correlations() == []
    world.ack(0)
    assert world.correlations() == [1, 2]
    world.ack(2)
    assert world.correlations() == [3]
    assert world.data.produce.in_flight_bytes == 0


def test_an_answer_that_is_there_goes_at_once() -> None:
    world = World(streams.PRODUCE)
    world.manager.at_once = True
    world.feed(produce(1) + produce(2))
    assert world.correlations() == [1, 2]


def test_nobody_wants_acks_and_nobody_gets_any() -> None:
    world = World(streams.PRODUCE)
    world.manager.at_once = True
    world.feed(produce(1, acks=0) + produce(2) + produce(3, acks=0))
    assert world.correlations() == [2]
    assert len(world.manager.produced) == 3


def test_a_batch_that_is_refused_without_acks_ends_the_stream() -> None:
    world = World(streams.PRODUCE)
    world.feed(produce(1, acks=0) + produce(2, acks=0) + produce(3, acks=0))
    world.ack(0)
    assert world.transport.sent == b""
    world.refuse(1, errors.NotLeaderOrFollower("broker 3 does not lead t-0"))
    world.refuse(2, errors.NotLeaderOrFollower("broker 3 does not lead t-0"))
    fault = world.refusal()
    assert isinstance(fault, errors.NotLeaderOrFollower)
    assert str(fault) == (
        "broker 3 does not lead t-0; the batch is lost, as it was sent with acks=0, and so is what "
        "was on its way behind it"
    )
    assert world.lines == [f"stream listener: closed 127.0.0.1:5: {fault}"]
    assert world.counters.errors == {("Produce", fault.code): 2}
    assert world.data.produce.in_flight_bytes == 0


def test_nothing_is_taken_behind_a_batch_that_is_refused_without_acks() -> None:
    world = World(streams.PRODUCE)
    world.manager.at_once = True
    world.manager.refuses = errors.NotEnoughReplicas("too few")
    world.feed(produce(1, acks=0) + produce(2, acks=0))
    assert len(world.manager.produced) == 1
    assert isinstance(world.refusal(), errors.NotEnoughReplicas)


def test_a_batch_refused_without_acks_after_it_was_in_the_pool_ends_the_stream() -> None:
    async def test() -> None:
        world = World(streams.PRODUCE)
        world.manager.at_once = True
        world.manager.refuses = errors.NotLeaderOrFollower("another leads")
        world.feed(produce(1, PACKED, acks=0) + produce(2, acks=0))
        checking = world.connection._checking
        assert checking is not None
        await checking
        await asyncio.sleep(0)
        assert len(world.manager.produced) == 1
        assert isinstance(world.refusal(), errors.NotLeaderOrFollower)

    run(test)


def test_too_much_in_flight_ends_a_stream_without_acks() -> None:
    world = World(streams.PRODUCE)
    large = bytes(FRAME_MAX - 200)
    world.feed(produce(1, large) + produce(2, large, acks=0))
    fault = world.refusal()
    assert isinstance(fault, errors.ThrottlingQuotaExceeded)
    assert "queued.max.request.bytes" in str(fault)
    assert world.counters.errors == {("Produce", fault.code): 1}


def test_a_batch_refused_with_acks_does_not_end_the_stream() -> None:
    world = World(streams.PRODUCE)
    world.feed(produce(1) + produce(2))
    world.refuse(0, errors.NotLeaderOrFollower("another leads"))
    world.ack(1)
    assert world.correlations() == [1, 2]
    assert world.lines == []


def test_a_stream_of_unanswered_messages_is_not_read_on() -> None:
    world = World(streams.PRODUCE)
    world.feed(b"".join(produce(n) for n in range(PRODUCE_PIPELINE_MAX + 3)))
    assert len(world.manager.produced) == PRODUCE_PIPELINE_MAX
    assert not world.transport.reading
    for index in range(4):
        world.ack(index)
    assert len(world.manager.produced) == PRODUCE_PIPELINE_MAX + 3
    assert world.transport.reading


def test_a_batch_in_the_pool_holds_back_those_behind_it() -> None:
    async def test() -> None:
        world = World(streams.PRODUCE)
        world.manager.at_once = True
        world.feed(produce(1, PACKED) + produce(2))
        assert world.manager.produced == []
        assert not world.transport.reading
        checking = world.connection._checking
        assert checking is not None
        await checking
        await asyncio.sleep(0)
        assert world.correlations() == [1, 2]
        assert world.manager.produced[0][0].batches[0].checked is not None
        assert world.transport.reading

    run(test)


def test_a_lost_connection_appends_nothing_that_is_still_being_checked() -> None:
    async def test() -> None:
        world = World(streams.PRODUCE)
        world.feed(produce(1, PACKED))
        checking = world.connection._checking
        assert checking is not None
        world.connection.connection_lost(None)
        with pytest.raises(asyncio.CancelledError):
            await checking
        assert world.manager.produced == []
        assert world.data.produce.in_flight_bytes == 0
        assert world.server.connections == set()

    run(test)


def test_what_is_acknowledged_after_the_end_goes_nowhere() -> None:
    world = World(streams.PRODUCE)
    world.feed(produce(1))
    world.connection.connection_lost(None)
    world.ack(0)
    assert world.transport.sent == b""
    assert world.data.produce.in_flight_bytes == 0


def test_too_much_in_flight_is_throttled_by_name() -> None:
    world = World(streams.PRODUCE)
    large = bytes(FRAME_MAX - 200)
    world.feed(produce(1, large))
    world.feed(produce(2, large))
    world.ack(0)
    (_, _), (_, body) = world.answers()
    (ack,) = log_pb2.ProduceResponse.FromString(body).acks
    assert ack.error.code == errors.ThrottlingQuotaExceeded.code
    assert "queued.max.request.bytes" in ack.error.message
    assert (ack.base_offset, ack.current_leader, ack.record_index) == (-1, -1, -1)


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        (b"\x00\x00\x00\x00", "a frame of kind none, where a ProduceRequest belongs"),
        (b"\x00\x00\x00\x01\x09", "a frame of kind 9, where a ProduceRequest belongs"),
        (streams.hello(streams.PRODUCE, "c", 3, ""), "a frame of kind 1"),
        (b"\x00\x00\x00\x03\x03\xff\xff", "the bytes are not a ProduceRequest"),
        (b"\x7f\xff\xff\xff", "the limit here is 1048576"),
        (
            b"".join(
                streams.framed(
                    streams.MESSAGE,
                    encode_message([Request(n, -1, 1, ()) for n in range(66)], ""),
                )
            ),
            "65 following requests in one message",
        ),
    ],
)
def test_nonsense_ends_the_stream_by_name(sent: bytes, says: str) -> None:
    world = World(streams.PRODUCE)
    world.feed(sent)
    fault = world.refusal()
    assert says in str(fault)
    assert world.counters.errors == {("Produce", fault.code): 1}


def test_a_failure_of_our_own_ends_one_stream(caplog: pytest.LogCaptureFixture) -> None:
    world = World(streams.PRODUCE)
    cast(Any, world.manager).produce_all = None
    world.feed(produce(1))
    assert isinstance(world.refusal(), errors.UnknownServerError)
    assert "failed unexpectedly" in caplog.text


# ---- fetch --------------------------------------------------------------------------------------


def test_one_fetch_at_a_time() -> None:
    world = World(streams.FETCH)
    world.feed(fetch(1) + fetch(2))
    assert len(world.manager.fetched) == 1
    assert not world.transport.reading
    world.manager.fetched[0][1]([PartitionData(T0, records=b"r" * 20_000)])
    assert len(world.manager.fetched) == 2
    assert world.correlations() == [1]
    assert world.transport.reading  # nothing waits behind the second
    world.feed(fetch(3))
    assert len(world.manager.fetched) == 2
    assert not world.transport.reading
    world.manager.fetched[1][1]([])
    assert world.correlations() == [2]
    assert len(world.manager.fetched) == 3
    assert world.transport.reading


def standing(world: World, index: int, size: int = 3) -> None:
    """Answer the fetch that came at that place, which goes on."""
    token: Any = world.manager.fetched[index][1]
    token.stands([PartitionData(T0, records=b"r" * size)])


def test_a_fetch_that_stands_is_answered_again_and_again() -> None:
    world = World(streams.FETCH)
    world.feed(fetch(1, standing=64))
    ((asked, _),) = world.manager.fetched
    assert asked.standing == Standing(64, 1000)
    standing(world, 0)
    standing(world, 0)
    world.manager.fetched[0][1]([])
    bodies = [log_pb2.FetchResponse.FromString(body) for _, body in world.answers()]
    assert [(body.correlation, body.stands) for body in bodies] == [
        (1, True),
        (1, True),
        (1, False),
    ]
    assert sum(world.counters.seconds["Fetch"].counts) == 3
    world.feed(fetch(2))
    assert len(world.manager.fetched) == 2
    assert not world.manager.cancelled


def test_the_next_request_ends_what_stands_but_not_what_was_never_answered() -> None:
    world = World(streams.FETCH)
    world.feed(fetch(1, standing=64) + fetch(2, standing=64))
    assert len(world.manager.fetched) == 1
    standing(world, 0)
    first, second = (token for _, token in world.manager.fetched)
    assert world.manager.cancelled == [first]
    standing(world, 1)
    world.feed(fetch(3))
    assert world.manager.cancelled == [first, second]
    standing(world, 1)  # was on its way when the third came
    world.manager.fetched[2][1]([])
    assert world.correlations() == [1, 2, 3]


def test_a_client_that_hangs_up_ends_what_stands() -> None:
    world = World(streams.FETCH)
    world.feed(fetch(1, standing=64))
    standing(world, 0)
    world.connection.connection_lost(None)
    assert world.manager.cancelled == [world.manager.fetched[0][1]]
    standing(world, 0)


def test_half_a_request_behind_what_stands_counts_as_begun() -> None:
    world = World(streams.FETCH)
    world.feed(fetch(1, standing=64))
    world.feed(fetch(2)[:5])
    assert not world.connection.is_inside_frame  # its client waits for an answer
    standing(world, 0)
    assert world.connection.is_inside_frame


def test_who_does_not_take_his_answers_gets_no_more() -> None:
    world = World(streams.FETCH)
    world.manager.at_once = True
    world.feed(fetch(1))
    world.connection.pause_writing()
    world.feed(fetch(2) + fetch(3))
    assert len(world.manager.fetched) == 1
    assert world.data.fetch.answers.unsent == len(world.transport.sent) > 0
    world.connection.resume_writing()
    assert world.correlations() == [1, 2, 3]


def test_a_client_that_hangs_up_frees_its_place() -> None:
    world = World(streams.FETCH)
    world.feed(fetch(1))
    world.connection.connection_lost(None)
    ((_, token),) = world.manager.fetched
    assert world.manager.cancelled == [token]


def test_a_fetch_of_too_much_is_refused() -> None:
    world = World(streams.FETCH)
    request = log_pb2.FetchRequest()
    for number in range(20_001):
        request.partitions.add(partition=number)
    world.feed(b"".join(streams.framed(streams.MESSAGE, [request.SerializeToString()])))
    assert "20001 partitions in one request" in str(world.refusal())


# ---- any bytes ----------------------------------------------------------------------------------


@settings(max_examples=150)
@example(streams.PRODUCE, [2, 0], 1, 9)  # a batch is in the pool when the connection is refused
@given(
    st.sampled_from((streams.PRODUCE, streams.FETCH)),
    st.lists(st.one_of(st.binary(max_size=40), st.integers(0, 3)), max_size=6),
    st.integers(1, 200),
    st.integers(0, 2**32),
)
def test_no_bytes_break_the_server(kind: Any, parts: list[Any], step: int, seed: int) -> None:
    """Whole messages, cut ones and noise: the connection serves, or ends with one error."""
    rng = random.Random(seed)
    good = [produce(1), fetch(2), produce(3)[: rng.randrange(60)], produce(4, acks=0)]
    sent = b"".join(part if isinstance(part, bytes) else good[part] for part in parts)

    async def test() -> None:
        world = World(kind)
        world.manager.at_once = True
        world.feed(sent, step)
        while world.connection._checking is not None:  # a cut batch may look like a compressed one
            await asyncio.sleep(0)
        kinds = [kind for kind, _ in world.answers()]
        assert kinds.count(streams.ERROR) == int(world.transport.closing) == len(world.lines)
        assert streams.ERROR not in kinds[:-1]
        assert world.data.produce.in_flight_bytes == 0

    run(test)
