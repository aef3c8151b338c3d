"""Connections are taken as far as they may stay; on both loops, over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import errno
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from pylog.clock import SYSTEM_CLOCK
from pylog_broker.net.acceptor import REST_SECONDS, Acceptor, Gate, Place
from pylog_broker.net.quotas import Limits, Refusal
from pylog_broker.net.refusal_lines import LINE_INTERVAL_MS

SAID = b"no more\n"


class Echo(asyncio.Protocol):
    """Gives back what comes."""

    def __init__(self, place: Place) -> None:
        self.place = place

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.place.leave()


class Door:
    """A listener of three places, and what it reports."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.lines: list[str] = []
        self.gate = Gate(SYSTEM_CLOCK, self.lines.append, limits)
        self.acceptor = Acceptor(self.gate, "door", 3, Echo, last_words=lambda _: SAID)
        self.port = 0

    @property
    def open(self) -> int:
        return self.gate.quotas.by_listener["door"]

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, bytes]:
        """A connection, and what is said on it first."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(b"hello!!\n")
        with contextlib.suppress(ConnectionResetError):
            return reader, writer, await reader.readline()
        return reader, writer, b""


def run(test: Callable[[Door], Coroutine[Any, Any, None]], limits: Limits | None = None) -> None:
    async def main() -> None:
        door = Door(limits)
        door.port = await door.acceptor.start("127.0.0.1", 0)
        try:
            async with asyncio.timeout(10):
                await test(door)
        finally:
            await door.acceptor.close()
            door.gate.close()

    for factory in (asyncio.new_event_loop, uvloop.new_event_loop):
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(main())


def test_a_full_listener_says_so_and_takes_others_when_some_have_gone() -> None:
    async def test(door: Door) -> None:
        kept = [await door.connect() for _ in range(3)]
        assert [said for _, _, said in kept] == [b"hello!!\n"] * 3
        _, late, said = await door.connect()
        assert said in (SAID, b"")  # what we sent may have taken it away
        late.close()
        assert door.lines == ["refused 1 connection: door: max.connections (1); from 127.0.0.1 (1)"]
        kept[0][1].close()
        while door.open == 3:
            await asyncio.sleep(0)
        _, writer, said = await door.connect()
        assert said == b"hello!!\n"
        for _, other, _ in (*kept, (None, writer, b"")):
            other.close()
        while door.open:
            await asyncio.sleep(0)

    run(test)


def test_an_address_with_too_many_is_refused() -> None:
    async def test(door: Door) -> None:
        _, first, said = await door.connect()
        _, second, refused = await door.connect()
        assert (said, refused in (SAID, b"")) == (b"hello!!\n", True)
        assert "door: max.connections.per.ip (1)" in door.lines[0]
        first.close()
        second.close()

    run(test, Limits(overrides={"127.0.0.1": 1}))


def test_above_the_rate_connections_wait_and_none_is_refused() -> None:
    async def test(door: Door) -> None:
        began = asyncio.get_running_loop().time()
        for _ in range(15):
            _, writer, said = await door.connect()
            assert said == b"hello!!\n"
            writer.close()
            while door.open:
                await asyncio.sleep(0)
        assert asyncio.get_running_loop().time() - began > 0.4
        assert door.lines == []

    run(test, Limits(creation_rate=10))


def test_nothing_is_made_for_who_says_nothing_and_the_oldest_gives_way() -> None:
    async def test(door: Door) -> None:
        silent = [await asyncio.open_connection("127.0.0.1", door.port) for _ in range(3)]
        while door.open < 3:
            await asyncio.sleep(0)
        assert len(door.acceptor._silent) == 3
        _, writer, said = await door.connect()
        assert said == b"hello!!\n"
        assert await silent[0][0].read() == b""
        silent[1][1].write(b"at last\n")
        assert await silent[1][0].readline() == b"at last\n"
        assert len(door.acceptor._silent) == 1
        for _ in range(2):
            assert door.open == 3
            door.acceptor._look_for_silence()
        assert await silent[2][0].read() == b""
        assert door.open == 2
        assert door.gate.quotas.refused == {("door", Refusal.UNPROVEN): 2}
        for other in (writer, *(each for _, each in silent)):
            other.close()
        while door.open:
            await asyncio.sleep(0)

    run(test)


class Scarce:
    """A listening socket for which the kernel has no descriptor."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.asked = 0

    def accept(self) -> Any:
        self.asked += 1
        raise OSError(self.number, "scarce")


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_without_a_descriptor_the_listener_rests_and_lives_on(number: int) -> None:
    async def test(door: Door) -> None:
        scarce: Any = Scarce(number)
        door.acceptor._on_connections(scarce)
        assert scarce.asked == 1
        resting = door.acceptor._resting
        assert resting is not None
        loop = asyncio.get_running_loop()
        assert resting.when() - loop.time() == pytest.approx(REST_SECONDS, abs=0.5)
        assert "door: open files (1)" in door.lines[0]
        assert door.gate.quotas.refused == {("door", Refusal.FILES): 1}
        resting.cancel()
        door.acceptor._watch()  # as after that time
        _, writer, said = await door.connect()
        assert said == b"hello!!\n"
        writer.close()

    run(test)


def test_an_address_in_use_is_named() -> None:
    async def test(door: Door) -> None:
        other = Acceptor(door.gate, "other", 3, Echo)
        with pytest.raises(OSError, match=rf"127\.0\.0\.1:{door.port}: address already in use"):
            await other.start("127.0.0.1", door.port)

    run(test)


def test_many_refusals_make_one_line_and_the_rest_is_said_later() -> None:
    async def test(door: Door) -> None:
        for _ in range(200):
            door.gate.refused("door", "max.connections", "10.0.0.1")
        assert len(door.lines) == 1
        timer = door.gate._timer
        assert timer is not None
        loop = asyncio.get_running_loop()
        assert timer.when() - loop.time() == pytest.approx(LINE_INTERVAL_MS / 1000, abs=0.5)
        door.gate._lines._said_ms = None  # as after that time
        door.gate._on_time()
        assert "refused 199 connections" in door.lines[1]
        assert door.gate._timer is None

    run(test)
