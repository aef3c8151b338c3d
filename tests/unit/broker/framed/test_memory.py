"""A broker's memory for all framed streams together: requests that come in, and answers."""

from __future__ import annotations

import asyncio
from typing import Any

from pylog import errors
from pylog.rpc import streams
from pylog.rpc.framing import LARGE_BYTES_FIRST
from pylog.rpc.v1 import log_pb2
from pylog_broker.api.memory_watch import MemoryWatch
from pylog_broker.api.request_memory import LOOKS_WITHOUT_PROGRESS_MAX
from pylog_broker.framed.connection import BUFFER_BYTES, State
from pylog_broker.replication.fetch_messages import PartitionData
from tests.fakes.stream_world import FRAME_MAX, T0, World, fetch, produce, run

LARGE = bytes(FRAME_MAX // 2)


def another(world: World, kind: Any = streams.PRODUCE) -> tuple[Any, Any]:
    """One more connection, which becomes the world's own; gives the one before."""
    before = world.connection, world.transport
    world.connection, world.transport = world.connect()
    world.feed(streams.hello(kind, "c", 3, "me"))
    assert len(world.answers()) == 1
    return before


def test_who_announces_much_and_sends_little_gets_little_memory() -> None:
    world = World(streams.PRODUCE)
    for _ in range(12):
        world.feed((FRAME_MAX - 1).to_bytes(4, "big") + b"\0")
        another(world)
    assert world.data.produce.memory.used <= 12 * (LARGE_BYTES_FIRST + 1)
    assert not world.data.produce.memory.is_full


def test_a_large_request_is_read_on_when_answers_make_room() -> None:
    world = World(streams.PRODUCE)
    world.feed(produce(1, LARGE))
    world.feed(produce(2, LARGE[:-2000]))
    memory = world.data.produce.memory
    assert memory.used == memory.in_flight < FRAME_MAX
    left = world.feed_as_read(produce(3, LARGE))
    assert len(left) > len(LARGE) // 2
    assert not world.transport.reading
    assert (memory.waiting, len(world.manager.produced)) == (1, 2)
    world.ack(0)
    assert world.transport.reading
    assert world.feed_as_read(left) == b""
    world.ack(1)
    world.ack(2)
    assert world.correlations() == [1, 2, 3]
    assert (memory.used, memory.waiting) == (0, 0)


def test_small_requests_are_not_read_either_when_the_memory_is_used_up() -> None:
    world = World(streams.PRODUCE)
    world.data.produce.memory.handed_over(FRAME_MAX)
    world.feed(produce(1))
    assert not world.transport.reading
    world.data.produce.memory.answered(FRAME_MAX)
    assert world.transport.reading
    world.feed(produce(2))
    assert world.transport.reading


def test_fetches_are_read_when_the_memory_for_requests_is_used_up() -> None:
    world = World(streams.FETCH)
    world.data.produce.memory.handed_over(FRAME_MAX)
    world.feed(fetch(1))
    assert len(world.manager.fetched) == 1
    assert world.transport.reading


def test_half_requests_everywhere_do_not_stop_everybody() -> None:
    """One goes on above the limit; those that stand still are closed, and the rest are served."""

    async def test() -> None:
        world = World(streams.PRODUCE)
        world.manager.at_once = True
        memory = world.data.produce.memory
        watch = MemoryWatch(memory, world.data.fetch.answers)
        message = produce(1, bytes(FRAME_MAX - 200))
        stuck = []
        while not memory.is_full:
            world.feed(message[: LARGE_BYTES_FIRST * 3])
            stuck.append(another(world))
        for connection, _ in stuck:
            connection.could_go_on()
        world.feed(message, step=LARGE_BYTES_FIRST)  # it goes ahead
        assert world.correlations() == [1]
        for _ in range(LOOKS_WITHOUT_PROGRESS_MAX):
            world.feed(produce(2))  # others wait
            assert not world.transport.reading
            watch.look_at_requests()
        watch.stop()
        closed = [connection.state is State.CLOSED for connection, _ in stuck]
        assert all(closed)
        assert "queued.max.request.bytes" in world.lines[0]
        assert errors.ThrottlingQuotaExceeded.code in {
            code for request, code in world.counters.errors if request == "Produce"
        }
        for connection, _ in stuck:
            connection.connection_lost(None)
        assert (memory.used, memory.waiting) == (0, 0)
        assert world.transport.reading

    run(test)


def test_a_lost_connection_gives_its_memory_back() -> None:
    world = World(streams.PRODUCE)
    world.feed(produce(1, LARGE)[: 2 * BUFFER_BYTES])
    assert world.data.produce.memory.receiving > 0
    world.connection.connection_lost(None)
    assert world.data.produce.memory.used == 0


# ---- answers ------------------------------------------------------------------------------------


def answer(world: World, index: int, size: int) -> None:
    world.manager.fetched[index][1]([PartitionData(T0, records=bytes(size))])


def not_taken(world: World) -> None:
    """The kernel takes nothing of what was written."""
    world.connection.pause_writing()


def test_no_fetch_begins_while_too_much_is_not_taken() -> None:
    world = World(streams.FETCH)
    world.feed(fetch(1))
    answer(world, 0, FRAME_MAX)
    not_taken(world)
    lazy, lazy_transport = another(world, streams.FETCH)
    world.feed(fetch(2))
    assert len(world.manager.fetched) == 1
    assert not world.transport.reading
    lazy_transport.sent = b""
    lazy.resume_writing()
    assert len(world.manager.fetched) == 2
    assert world.transport.reading


def test_an_answer_that_does_not_fit_is_looked_for_again() -> None:
    world = World(streams.FETCH)
    world.feed(fetch(1))
    lazy = another(world, streams.FETCH)
    world.feed(fetch(2))
    lazy[0].pause_writing()
    world.data.fetch.answers.hold(lazy[0], FRAME_MAX // 2)
    answer(world, 1, FRAME_MAX)
    assert world.answers() == []
    assert not world.transport.reading
    assert len(world.manager.fetched) == 2
    lazy[0].resume_writing()
    assert world.transport.reading
    answer(world, 2, FRAME_MAX)
    ((_, body),) = world.answers()
    assert log_pb2.FetchResponse.FromString(body).correlation == 2


def test_the_last_answer_of_what_stands_tells_nothing_where_it_does_not_fit() -> None:
    """Its records go on from where the answers before ended: they cannot be asked for again."""
    world = World(streams.FETCH)
    world.feed(fetch(1, standing=64))
    token: Any = world.manager.fetched[0][1]
    token.stands([PartitionData(T0, records=b"r")])
    world.data.fetch.answers.hold(world.connect()[0], FRAME_MAX)
    answer(world, 0, FRAME_MAX)
    (_, (_, body)) = world.answers()
    said = log_pb2.FetchResponse.FromString(body)
    assert (said.stands, list(said.partitions)) == (False, [])


def test_who_takes_nothing_while_others_wait_is_dropped_by_name() -> None:
    async def test() -> None:
        world = World(streams.FETCH)
        watch = MemoryWatch(world.data.produce.memory, world.data.fetch.answers)
        world.feed(fetch(1))
        answer(world, 0, FRAME_MAX)
        not_taken(world)
        lazy, lazy_transport = another(world, streams.FETCH)
        world.feed(fetch(2))
        watch.look_at_answers()
        assert world.lines == []
        watch.look_at_answers()
        watch.stop()
        assert lazy_transport.aborted
        assert lazy.state is State.CLOSED
        assert "queued.max.response.bytes" in world.lines[0]
        lazy.connection_lost(None)
        assert len(world.manager.fetched) == 2

    run(test)


def test_the_memory_is_counted_on_any_loop() -> None:
    """Over a real socket: half a request that nobody finishes, and one that is whole."""

    async def test() -> None:
        world = World()
        world.manager.at_once = True
        port = await world.server.start("127.0.0.1", 0)
        writers = []
        for message in (produce(1, LARGE)[:200_000], produce(1, LARGE)):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(streams.hello(streams.PRODUCE, "c", 3, ""))
            await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
            writer.write(message)
            writers.append(writer)
        while world.data.produce.memory.receiving < 200_000 or not world.manager.produced:
            await asyncio.sleep(0)
        held = [c for c in world.server.connections if c._held]
        assert [c.could_go_on() for c in held] == [True]
        assert [c.could_go_on() for c in held] == [False]
        for writer in writers:
            writer.close()
        while world.data.produce.memory.used:
            await asyncio.sleep(0)
        await world.server.close()

    run(test)
