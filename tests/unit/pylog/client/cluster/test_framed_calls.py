"""Unary calls over one framed connection, against a broker that does what it likes."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from pylog import errors
from pylog.client.cluster import framed_calls
from pylog.client.cluster.framed_calls import FramedCalls
from pylog.client.connection import framed_link
from pylog.rpc import calls, streams
from pylog.rpc.apis import LIST_OFFSETS, METADATA, UNARY_APIS
from pylog.rpc.v1 import log_pb2
from tests.fakes.fake_call_port import BROKER, FakeCallPort, FakePorts, Peer

TIMEOUT_S = 30.0


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may take long to connect."""
    monkeypatch.setattr(framed_calls, "LOOK_S", TIMEOUT_S)
    monkeypatch.setattr(framed_link, "CONNECT_S_MAX", TIMEOUT_S)


class World:
    """A client's calls, and the port that they go to."""

    def __init__(self, port: FakeCallPort, idle_s: float) -> None:
        self.port = port
        self.ports = FakePorts(port.port)
        self.calls = FramedCalls(BROKER, self.ports, "here:1", idle_s)

    def start(self, name: str, timeout_s: float = TIMEOUT_S) -> asyncio.Task[str | None]:
        """A call that says this; its result is what the answer says, None: it goes over gRPC."""

        async def call() -> str | None:
            request = log_pb2.MetadataRequest(topics=[name])
            answer = await self.calls.call(METADATA, request, timeout_s)
            if answer is None:
                return None
            return str(log_pb2.MetadataRequest.FromString(bytes(answer)).topics[0])

        return asyncio.ensure_future(call())

    async def connect(self) -> Peer:
        """A connection over which call 0 was answered: what follows is sent at once."""
        asked = self.start("first")
        await self.arrived(1)
        (peer,) = self.port.peers
        peer.echo(0)
        assert await asked == "first"
        return peer

    async def arrived(self, count: int) -> None:
        """So many calls have come to the broker, over all connections."""
        await self.port.until(lambda: sum(len(p.calls) for p in self.port.peers) >= count)


def run(test: Callable[[World], Awaitable[None]], *, idle_s: float = -1, **port: Any) -> None:
    """Run it to its end; nothing of it is left behind."""

    async def main() -> None:
        async with asyncio.timeout(TIMEOUT_S):
            async with FakeCallPort(**port) as fake:
                world = World(fake, idle_s)
                try:
                    await test(world)
                finally:
                    await world.calls.close()
                await fake.until(lambda: all(peer.is_gone for peer in fake.peers))
            assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def test_answers_come_in_any_order() -> None:
    async def test(world: World) -> None:
        asked = [world.start(name) for name in "abc"]
        await world.arrived(3)
        (peer,) = world.port.peers
        peer.echo(2)
        assert await asked[2] == "c"
        peer.echo(1, 0)
        assert [await call for call in asked] == ["a", "b", "c"]
        assert world.ports.told == ["opened"]

    run(test)


def test_what_the_greeting_tells_and_each_call() -> None:
    async def test(world: World) -> None:
        asked = world.start("a", 20)
        await world.arrived(1)
        (peer,) = world.port.peers
        assert (peer.said.software_name, peer.said.kind) == ("pylog", streams.CALLS)
        assert peer.said.software_version == streams.software_version()
        assert {api.key: api.version_max for api in peer.said.apis} == {
            api.key: api.version_max for api in UNARY_APIS
        }
        (call,) = peer.calls
        assert (call.key, call.version) == (METADATA.key, 0)
        assert 1 <= call.timeout_ms <= 20_000
        peer.echo(0)
        assert await asked == "a"

    run(test)


def test_more_than_the_broker_takes_wait_their_turn_with_their_own_time_outs() -> None:
    async def test(world: World) -> None:
        asked = [world.start(name) for name in "abcd"]
        late = world.start("late", 0.05)
        await world.arrived(2)
        (peer,) = world.port.peers
        with pytest.raises(errors.BrokerUnreachable, match=r"^here:1: no answer within 0.05 s$"):
            await late
        assert [call.number for call in peer.calls] == [0, 1]
        peer.echo(1)
        await world.arrived(3)
        peer.echo(0, 2)
        await world.arrived(4)
        peer.echo(3)
        assert [await call for call in asked] == ["a", "b", "c", "d"]

    run(test, calls_max=2)


@pytest.mark.parametrize("count", [1_000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_many_at_once(count: int) -> None:
    async def test(world: World) -> None:
        most = waiting = 0

        def answer_later(peer: Any, call: calls.Call) -> None:
            nonlocal most, waiting
            waiting += 1
            most = max(most, waiting)

            def answer() -> None:
                nonlocal waiting
                waiting -= 1
                peer.answer(call.number, bytes(call.request))

            asyncio.get_running_loop().call_soon(answer)

        world.port.on_call = answer_later
        asked = [world.start(str(number)) for number in range(count)]
        assert await asyncio.gather(*asked) == [str(number) for number in range(count)]
        assert most <= 100
        assert len(world.port.peers) == 1

    run(test)


# ---- callers that go ----------------------------------------------------------------------------


def test_a_cancelled_caller_leaves_the_connection_as_it_is() -> None:
    async def test(world: World) -> None:
        gone, waits = world.start("gone"), world.start("waits")
        await world.arrived(1)
        (peer,) = world.port.peers
        gone.cancel()
        await asyncio.wait([gone])
        assert [call.number for call in peer.calls] == [0]  # it still counts at the broker
        peer.echo(0)
        await world.arrived(2)
        peer.echo(1)
        assert await waits == "waits"
        assert len(world.port.peers) == 1
        assert world.ports.told == ["opened"]

    run(test, calls_max=1)


def test_a_time_out_while_others_are_answered_leaves_the_connection_as_it_is() -> None:
    async def test(world: World) -> None:
        peer = await world.connect()
        late = world.start("late", 0.5)
        other = world.start("other")
        await world.arrived(3)
        peer.echo(2)
        assert await other == "other"
        with pytest.raises(errors.BrokerUnreachable, match="no answer within"):
            await late
        peer.echo(1)  # nobody hears it
        again = world.start("again")
        await world.arrived(4)
        peer.echo(3)
        assert await again == "again"
        assert len(world.port.peers) == 1

    run(test)


@pytest.mark.parametrize("half", [b"", b"\0\0\1\0\6\0\0\0\1half"])
def test_a_connection_that_fell_silent_gets_no_more_calls(half: bytes) -> None:
    async def test(world: World) -> None:
        silent = await world.connect()
        patient, late = world.start("patient"), world.start("late", 0.05)
        await world.arrived(3)
        silent.send(half)
        with pytest.raises(errors.BrokerUnreachable, match=r"^here:1: no answer within 0.05 s$"):
            await late
        again = world.start("again")
        await world.arrived(4)
        world.port.peers[1].echo(0)
        assert await again == "again"
        assert world.ports.told == ["opened", "broke", "opened"]
        if half:
            patient.cancel()
        else:  # it was only slow
            silent.echo(1)
            assert await patient == "patient"
        await world.port.until(lambda: silent.is_gone)

    run(test)


@pytest.mark.parametrize("given_up", ["sent", "waiting"])
def test_silence_is_noticed_also_by_who_gives_up(
    given_up: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(framed_calls, "SILENCE_S", 0)

    async def test(world: World) -> None:
        sent = world.start("sent")
        await world.arrived(1)
        waiting = world.start("waiting")  # the broker takes one
        await asyncio.sleep(0)
        if given_up == "sent":
            sent.cancel()
        else:
            waiting.cancel()
        again = world.start("again")
        await world.arrived(2)
        world.port.on_call = lambda peer, call: peer.echo(call.number)
        world.port.peers[1].echo(0)
        assert await again == "again"
        world.port.peers[0].echo(0)
        assert await (waiting if given_up == "sent" else sent)
        await world.port.until(lambda: world.port.peers[0].is_gone)

    run(test, calls_max=1)


def test_a_close_ends_every_call_by_name() -> None:
    async def test(world: World) -> None:
        asked = [world.start(name) for name in "abc"]
        await world.arrived(2)
        await world.calls.close()
        for call in asked:
            with pytest.raises(errors.ClientClosed):
                await call
        with pytest.raises(errors.ClientClosed):
            await world.start("d")

    run(test, calls_max=2)


def test_a_close_of_one_broker_alone_is_no_end_of_the_client() -> None:
    async def test(world: World) -> None:
        asked = [world.start(name) for name in "ab"]
        await world.arrived(1)
        await world.calls.close("another broker is there by now")
        for call in asked:
            with pytest.raises(errors.BrokerUnreachable, match=r"^here:1: another broker is there"):
                await call

    run(test, calls_max=1)


def test_a_close_while_connecting_ends_every_call_by_name() -> None:
    async def test(world: World) -> None:
        world.port.greeting = b""
        asked = world.start("a")
        await world.port.until(lambda: bool(world.port.peers))
        await world.calls.close()
        with pytest.raises(errors.ClientClosed):
            await asked

    run(test)


# ---- brokers that say what they must not --------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            [calls.answer_frame(0, [b""]), calls.answer_frame(0, [b""])],
            "call 0, which was not made",
        ),
        ([calls.answer_frame(7, [b""])], "an answer to call 7"),
        ([calls.failure_frame(7, errors.InvalidRequest())], "an answer to call 7"),
        ([b"\x80\0\0\0"], "announces -2147483648 bytes"),
        ([b"\x7f\xff\xff\xff\6"], "announces 2147483647 bytes; the limit here is 268435456"),
        ([b"\0\0\0\0"], "a frame of a kind that no broker sends"),
        ([b"\0\0\0\2\6\0"], "a frame of a kind that no broker sends"),
        ([b"\0\0\0\2\3\0"], "a frame of a kind that no broker sends"),
        ([streams.fault_frame(errors.BrokerNotAvailable("it stops"))], "NOT_AVAILABLE: it stops"),
    ],
)
def test_what_no_broker_says_ends_the_connection_and_its_calls_by_name(
    said: list[Any], words: str
) -> None:
    async def test(world: World) -> None:
        first, open_call = world.start("first"), world.start("open")
        await world.arrived(2)
        world.port.peers[0].send(*said)
        with pytest.raises(errors.BrokerUnreachable, match=f"^here:1: .*{words}"):
            await open_call
        await asyncio.wait([first])
        assert first.exception() is not None or first.result() is not None
        assert world.ports.told == ["opened", "broke"]
        again = world.start("again")
        await world.arrived(3)
        world.port.peers[1].echo(0)
        assert await again == "again"

    run(test)


def test_failures_are_told_as_over_grpc() -> None:
    async def test(world: World) -> None:
        wrong, passing, large = world.start("a"), world.start("b"), world.start("c")
        await world.arrived(3)
        (peer,) = world.port.peers
        peer.fail(0, errors.InvalidRequest("a topic's name is missing"))
        peer.fail(1, errors.ThrottlingQuotaExceeded("too many"))
        peer.fail(2, errors.MessageTooLarge("an answer of 9 bytes"))
        with pytest.raises(errors.InvalidRequest, match=r"^a topic's name is missing$"):
            await wrong
        with pytest.raises(errors.BrokerUnreachable, match=r"^here:1: THROTT.*: too many$"):
            await passing
        with pytest.raises(errors.MessageTooLarge, match=r"^here:1: an answer of 9 bytes$"):
            await large
        assert world.ports.told == ["opened"]

    run(test)


def test_an_api_that_the_broker_has_over_grpc_alone() -> None:
    async def test(world: World) -> None:
        asked = world.start("a")
        await world.arrived(1)
        world.port.peers[0].fail(0, errors.UnsupportedVersion("api key 3 is not offered"))
        assert await asked is None
        assert await world.start("b") is None  # at once
        other = LIST_OFFSETS, log_pb2.ListOffsetsRequest(), TIMEOUT_S
        offsets = asyncio.ensure_future(world.calls.call(*other))
        await world.arrived(2)
        world.port.peers[0].echo(1)
        assert await offsets == b""
        assert world.ports.told == ["opened"]

    run(test)


def test_a_request_over_the_brokers_limit_never_leaves() -> None:
    async def test(world: World) -> None:
        with pytest.raises(
            errors.MessageTooLarge, match=r"^here:1: a request of .* than the 1000 "
        ):
            await world.start("a" * 1_000)
        asked = world.start("a")
        await world.arrived(1)
        world.port.peers[0].echo(0)
        assert await asked == "a"

    run(test, frame_bytes_max=1_000)


# ---- connections that break, or cannot be made --------------------------------------------------


def test_a_broken_connection_fails_its_calls_and_the_next_one_connects_again() -> None:
    async def test(world: World) -> None:
        asked = world.start("a")
        await world.arrived(1)
        world.ports.rest_s = 0.05
        world.port.peers[0].hang_up()
        with pytest.raises(errors.BrokerUnreachable, match=r"^here:1: (the broker closed|conn)"):
            await asked
        again = world.start("b")
        await world.arrived(2)
        world.port.peers[1].echo(0)
        assert await again == "b"
        assert world.ports.told == ["opened", "broke", "opened"]
        assert world.ports.rest_s == 0

    run(test)


def test_calls_that_were_not_sent_outlive_a_broken_connection() -> None:
    async def test(world: World) -> None:
        sent, waits = world.start("sent"), world.start("waits")
        await world.arrived(1)
        world.port.peers[0].hang_up()
        with pytest.raises(errors.BrokerUnreachable):
            await sent
        await world.arrived(2)
        world.port.peers[1].echo(0)
        assert await waits == "waits"

    run(test, calls_max=1)


def test_a_connection_that_its_broker_closes_while_nothing_is_due_is_no_fault() -> None:
    async def test(world: World) -> None:
        asked = world.start("a")
        await world.arrived(1)
        world.port.peers[0].echo(0)
        assert await asked == "a"
        world.port.peers[0].hang_up()
        while world.calls._current is not None:
            await asyncio.sleep(0)
        again = world.start("b")
        await world.arrived(2)
        world.port.peers[1].echo(0)
        assert await again == "b"
        assert world.ports.told == ["opened", "opened"]

    run(test)


def test_an_idle_connection_is_closed_and_the_next_call_makes_another() -> None:
    async def test(world: World) -> None:
        world.port.on_call = lambda peer, call: peer.echo(call.number)
        for number in range(3):
            assert await world.start("a") == "a"
            await world.port.until(lambda n=number: world.port.peers[n].is_gone)  # type: ignore[misc]
        assert world.ports.told == ["opened"] * 3

    run(test, idle_s=0.01)


@pytest.mark.parametrize(
    "greeting",
    [
        streams.fault_frame(errors.UnsupportedVersion("streams of kind 3 are not offered")),
        streams.welcome(BROKER, 17, 1_000),
    ],
)
def test_a_broker_of_before_there_were_such_calls_gets_them_over_grpc(greeting: bytes) -> None:
    async def test(world: World) -> None:
        world.port.greeting = greeting
        assert await world.start("a") is None
        world.calls.answered_over_grpc()
        assert await world.start("b") is None
        world.calls.answered_over_grpc()
        assert len(world.port.peers) == 1
        assert world.ports.told == []  # its port is as good as before, for streams
        world.port.greeting = streams.welcome(BROKER, 18, 1_000, calls_max=1)
        world.ports.epoch = 18  # it was restarted, with a newer release
        asked = world.start("c")
        await world.arrived(1)
        world.port.peers[1].echo(0)
        assert await asked == "c"

    run(test)


def test_a_port_that_closes_before_it_greets_is_the_ports_fault_the_second_time() -> None:
    async def test(world: World) -> None:
        world.port.hangs_up = True
        assert await world.start("a") is None
        world.calls.answered_over_grpc()
        world.ports.rest_s = 1.0
        assert await world.start("rests") is None
        assert await world.start("b") is None
        assert world.ports.told == ["broke", "broke"]
        world.calls.answered_over_grpc()
        assert world.ports.told[2:] == ["refused: the broker closed the stream"]
        world.ports.is_let_be = True
        assert await world.start("c") is None
        assert len(world.port.peers) == 2

    run(test)


def test_a_broker_that_is_not_there_at_all_is_no_fault_of_its_port() -> None:
    async def test(world: World) -> None:
        world.port.hangs_up = True
        for _ in range(3):
            assert await world.start("a") is None
            world.calls.unreachable_over_grpc()
        assert await world.start("b") is None
        world.calls.answered_over_grpc()  # it came back in between
        assert world.ports.told == ["broke"] * 4

    run(test)


def test_a_port_where_nobody_listens() -> None:
    async def test(world: World) -> None:
        with socket.socket() as bound:
            bound.bind(("127.0.0.1", 0))
            world.ports.port = bound.getsockname()[1]
            assert await world.start("a") is None
        assert world.ports.told == ["broke"]

    run(test)


def test_a_port_that_says_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framed_calls, "LOOK_S", 0.001)

    async def test(world: World) -> None:
        greeting, world.port.greeting = world.port.greeting, b""
        assert await world.start("a") is None
        assert await world.start("b") is None  # at once
        await world.port.until(lambda: len(world.port.peers) == 1)
        world.port.peers[0].send(greeting)  # it was only slow
        while not world.ports.told:
            await asyncio.sleep(0)
        asked = world.start("c")
        await world.arrived(1)
        world.port.peers[0].echo(0)
        assert await asked == "c"

    run(test)


def test_a_port_that_never_says_anything_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framed_link, "CONNECT_S_MAX", 0.02)

    async def test(world: World) -> None:
        world.port.greeting = b""
        for _ in range(2):
            assert await world.start("a") is None
            world.calls.answered_over_grpc()
        assert world.ports.told == ["broke", "broke", "refused: no answer within 0.02 s"]

    run(test)


def test_the_port_of_another_broker_is_not_used() -> None:
    async def test(world: World) -> None:
        world.port.greeting = streams.welcome(BROKER + 1, 17, 1_000, calls_max=1)
        assert await world.start("a") is None
        assert world.ports.told == ["broke"]

    run(test)
