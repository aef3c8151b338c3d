"""The socket at which files are handed over, with real sockets and files; on both loops."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import uvloop

from pylog_broker.net import file_door
from pylog_broker.net.file_door import (
    GIVEN,
    OVER,
    PATH_BYTES_MAX,
    REPORT,
    STRANGERS_MAX,
    FileDoor,
    GivenBack,
)


class World:
    """A door in its loop, two files, and what was given back."""

    def __init__(self, folder: Path, **settings: object) -> None:
        self.back: list[GivenBack] = []
        self.paths = [str(folder / name) for name in ("one", "two")]
        for path in self.paths:
            Path(path).write_text(f"the bytes of {path}")
        self._pool = ThreadPoolExecutor(1)
        self.door = FileDoor(self._pool, self.back.append, **settings)  # type: ignore[arg-type]

    async def come(self, token: bytes) -> tuple[socket.socket, bytes, list[int]]:
        """A connection that has shown a token, and what came for it."""
        connection = await self.connect()
        await asyncio.get_running_loop().sock_sendall(connection, token)
        word, files = await self.hear(connection)
        return connection, word, files

    async def connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        connection.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connection, self.door.path)
        return connection

    async def hear(self, connection: socket.socket) -> tuple[bytes, list[int]]:
        while True:
            try:
                word, files, _, _ = socket.recv_fds(connection, 1, 16)
            except BlockingIOError:
                await asyncio.sleep(0)
            else:
                return word, files

    async def until(self, done: Callable[[], bool]) -> None:
        while not done():
            await asyncio.sleep(0)

    def close(self) -> None:
        self.door.close()
        self._pool.shutdown()


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def run(
    test: Callable[[World], Coroutine[Any, Any, None]],
    folder: Path,
    *,
    opens: bool = True,
    **settings: object,
) -> None:
    async def main() -> None:
        world = World(folder, **settings)
        try:
            async with asyncio.timeout(10):
                if opens:
                    await world.door.open()
                await test(world)
        finally:
            world.close()

    for factory in (asyncio.new_event_loop, uvloop.new_event_loop):
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(main())


def test_files_are_handed_over_once_and_given_back(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        token = world.door.offer(7, world.paths)
        connection, word, files = await world.come(token)
        assert (word, len(files)) == (GIVEN, 2)
        assert [os.pread(file, 99, 0).decode() for file in files] == [
            f"the bytes of {path}" for path in world.paths
        ]
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.write(files[0], b"x")  # they read and do not write
        again, word, _ = await world.come(token)
        assert word == b""
        world.door.over(7)
        assert await world.hear(connection) == (OVER, [])
        assert world.back == []
        connection.sendall(REPORT.pack(1_234, 1))
        connection.close()
        await world.until(lambda: bool(world.back))
        assert world.back == [GivenBack(7, claimed=True, bytes_read=1_234, damaged=True)]
        again.close()
        for file in files:
            os.close(file)

    run(test, tmp_path)


def test_a_holder_that_is_killed_gives_back(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        connection, _, files = await world.come(world.door.offer(7, world.paths[:1]))
        os.close(files[0])
        connection.close()
        await world.until(lambda: bool(world.back))
        assert world.back == [GivenBack(7, claimed=True)]

    run(test, tmp_path)


def test_a_wrong_token_gets_nothing(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        world.door.offer(7, world.paths)
        connection, word, files = await world.come(b"x" * 32)
        assert (word, files) == (b"", [])
        connection.close()
        for _ in range(3):  # half a token, and more than is to be said
            connection = await world.connect()
            connection.sendall(b"x" * 31)
            connection.close()
        connection, _, files = await world.come(world.door.offer(8, world.paths[:1]))
        os.close(files[0])
        connection.sendall(b"y" * 99)
        await world.until(lambda: bool(world.back))
        assert [given.key for given in world.back] == [8]
        connection.close()

    run(test, tmp_path)


def test_nobody_comes_in_time(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        before = open_files()
        token = world.door.offer(7, world.paths)
        await world.until(lambda: bool(world.back))
        assert world.back == [GivenBack(7, claimed=False)]
        assert open_files() == before
        connection, word, _ = await world.come(token)
        assert word == b""
        connection.close()
        silent = await world.connect()
        assert await world.hear(silent) == (b"", [])  # a connection that shows no token is ended
        silent.close()
        world.close()

    run(test, tmp_path, claim_seconds=0.02)


def test_an_offer_that_is_over_or_withdrawn_before_somebody_came(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        token = world.door.offer(7, world.paths)
        world.door.over(7)
        assert world.back == [GivenBack(7, claimed=False)]
        other = world.door.offer(8, world.paths)
        world.door.withdraw(8)
        world.door.withdraw(8)
        world.door.over(8)
        assert len(world.back) == 1
        for each in (token, other):
            connection, word, _ = await world.come(each)
            assert word == b""
            connection.close()

    run(test, tmp_path)


def test_other_users_are_refused(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        token = world.door.offer(7, world.paths)
        connection = await world.connect()
        assert await world.hear(connection) == (b"", [])
        assert world.door.foreigners == 1
        assert token in world.door._by_token  # it waits for the right one
        connection.close()
        world.close()
        assert world.back == []

    run(test, tmp_path, user_id=os.geteuid() + 1)


def test_the_folder_is_the_users_alone_and_goes(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        await asyncio.gather(world.door.open(), world.door.open())
        folder = Path(world.door.path).parent
        assert folder.stat().st_mode & 0o777 == 0o700
        world.close()
        assert not folder.exists()
        with pytest.raises(OSError, match="it is closed"):
            await world.door.open()

    run(test, tmp_path)


def test_many_strangers_take_no_more_than_their_share(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        strangers = [await world.connect() for _ in range(STRANGERS_MAX + 5)]
        await world.until(lambda: len(world.door._connections) == STRANGERS_MAX)
        for stranger in strangers:
            stranger.close()
        await world.until(lambda: not world.door._connections)
        connection, word, files = await world.come(world.door.offer(7, world.paths))
        assert word == GIVEN
        connection.close()
        for file in files:
            os.close(file)

    run(test, tmp_path)


def test_a_file_that_cannot_be_opened(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        before = open_files()
        with pytest.raises(FileNotFoundError):
            world.door.offer(7, [*world.paths, str(tmp_path / "none")])
        (tmp_path / "link").unlink(missing_ok=True)
        (tmp_path / "link").symlink_to(world.paths[0])
        with pytest.raises(OSError, match="symbolic links"):
            world.door.offer(7, [str(tmp_path / "link")])
        assert open_files() == before
        assert world.door._offers == {}

    run(test, tmp_path)


def test_no_descriptor_to_spare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(world: World) -> None:
        def full(path: str, flags: int) -> int:
            raise OSError(errno.EMFILE, "Too many open files")

        with monkeypatch.context() as patched:
            patched.setattr(file_door.os, "open", full)
            with pytest.raises(OSError, match="Too many open files"):
                world.door.offer(7, world.paths)

    run(test, tmp_path)


def test_a_path_that_is_too_long_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(world: World) -> None:
        long = tmp_path / ("x" * PATH_BYTES_MAX)
        long.mkdir(exist_ok=True)
        monkeypatch.setattr("tempfile.tempdir", str(long))
        with pytest.raises(OSError, match="let TMPDIR name a shorter folder"):
            await world.door.open()
        assert list(long.iterdir()) == []

    run(test, tmp_path, opens=False)


def test_closing_ends_what_is_open(tmp_path: Path) -> None:
    async def test(world: World) -> None:
        connection, _, files = await world.come(world.door.offer(7, world.paths[:1]))
        world.door.offer(8, world.paths)
        world.door.close()
        assert await world.hear(connection) == (b"", [])
        assert world.back == [GivenBack(7, claimed=True)]
        assert world.door._offers == {}
        os.close(files[0])
        connection.close()

    run(test, tmp_path)
