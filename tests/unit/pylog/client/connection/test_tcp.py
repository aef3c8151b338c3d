"""The client's own socket on pylog's loop: whatever becomes of the peer, somebody hears of it."""

from __future__ import annotations

import asyncio
import errno
import socket
import struct
from collections.abc import Iterator

import pytest

from pylog.client.background import LoopThread, shared_loop
from pylog.client.connection.tcp import TcpConnection, connected, reason_of

TIMEOUT_S = 30.0


@pytest.fixture
def peer() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


async def _connection(
    listener: socket.socket,
) -> tuple[TcpConnection, socket.socket, asyncio.Event]:
    loop = asyncio.get_running_loop()
    raw = await connected(loop, *listener.getsockname())
    other, _ = listener.accept()
    told = asyncio.Event()
    connection = TcpConnection(raw, loop, on_readable=told.set, on_room=lambda: None)
    return connection, other, told


def _read_to_the_end(
    thread: LoopThread, listener: socket.socket, *, lent: bool, reset: bool
) -> int:
    """The number of bytes that were read, one at each call, until there were no more."""

    async def read() -> int:
        loop = asyncio.get_running_loop()
        raw = await connected(loop, *listener.getsockname())
        other, _ = listener.accept()
        ended = loop.create_future()
        count = 0

        def on_readable() -> None:
            nonlocal count
            try:
                got = connection.receive_into(memoryview(bytearray(1)))
            except OSError:
                got = 0
            if got > 0:
                count += 1
            elif got == 0 and not ended.done():
                ended.set_result(None)

        connection = TcpConnection(raw, loop, on_readable=on_readable, on_room=lambda: None)
        try:
            if lent:
                connection.lend()
            connection.write([b"never read"])
            other.sendall(b"abc")
            if reset:
                other.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            other.close()  # also a reset, behind an end: something was not read
            connection.write([b"into the void"])
            if lent:
                connection.take_back()
            async with asyncio.timeout(TIMEOUT_S):
                await ended
            return count
        finally:
            connection.close()

    return asyncio.run_coroutine_threadsafe(read(), thread.loop).result(2 * TIMEOUT_S)


@pytest.mark.parametrize("lent", [False, True])
@pytest.mark.parametrize("reset", [False, True])
def test_a_broken_connection_is_told(peer: socket.socket, lent: bool, reset: bool) -> None:
    assert _read_to_the_end(shared_loop(), peer, lent=lent, reset=reset) in (0, 3)


def test_while_it_is_lent_the_loop_is_told_nothing(peer: socket.socket) -> None:
    async def lent() -> tuple[bool, bool]:
        connection, other, told = await _connection(peer)
        try:
            connection.lend()
            other.sendall(b"x")
            for _ in range(100):
                await asyncio.sleep(0)
            before = told.is_set()
            connection.take_back()
            async with asyncio.timeout(TIMEOUT_S):
                await told.wait()
            return before, told.is_set()
        finally:
            connection.close()
            other.close()

    thread = shared_loop()
    assert asyncio.run_coroutine_threadsafe(lent(), thread.loop).result(60) == (False, True)


def test_room_is_told_until_all_has_gone(peer: socket.socket) -> None:
    data = bytes(range(256)) * 40_000

    async def write() -> bytes:
        loop = asyncio.get_running_loop()
        raw = await connected(loop, *peer.getsockname())
        other, _ = peer.accept()
        other.setblocking(False)
        gone = asyncio.Event()

        def on_room() -> None:
            connection.write_more()
            if not connection.is_full:
                connection.stop_watching_for_room()
                gone.set()

        connection = TcpConnection(raw, loop, on_readable=lambda: None, on_room=on_room)
        try:
            connection.write([data[:1_000_000], data[1_000_000:]])
            assert connection.is_full
            received = bytearray()
            async with asyncio.timeout(TIMEOUT_S):
                while len(received) < len(data):
                    received += await loop.sock_recv(other, 1 << 20)
                await gone.wait()
            return bytes(received)
        finally:
            connection.close()
            other.close()

    got = asyncio.run_coroutine_threadsafe(write(), shared_loop().loop).result(60)
    assert got == data


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed"), "connection refused"),
        (OSError("Multiple exceptions: one, two"), "multiple exceptions: one, two"),
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "name or service not kn"),
    ],
)
def test_reasons_in_words(fault: OSError, words: str) -> None:
    assert reason_of(fault).startswith(words)
