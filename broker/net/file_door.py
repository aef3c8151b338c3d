"""A Unix socket at which processes of this machine and user are handed open files.

The name of the socket and a token are told over another, ordinary connection; whoever shows the
token here gets the descriptors, once (SCM_RIGHTS). They read and cannot write. The connection then
stays open for as long as the holder has the files: this side says on it that their time is over,
and its end tells this side that the files were given back, also when the holder was killed.

    holder  32 bytes: the token
    door    1 byte, GIVEN, with the descriptors
    door    1 byte, OVER, at most once: the holder is to close them
    holder  9 bytes, maybe: what it has read (`REPORT`), then the end

Everything is bounded: connections that have shown no token, the time for that, and what is offered
by the caller. Foreign users are refused by what the kernel says of them (SO_PEERCRED), besides the
folder's mode. Lives on one loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import socket
import struct
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Final

from pylog.temporary_folder import TemporaryFolder

SOCKET_NAME: Final = "files.sock"
PATH_BYTES_MAX: Final = 107
"""Linux takes no longer path of a socket."""
TOKEN_BYTES: Final = 32
GIVEN: Final = b"\x01"
OVER: Final = b"\x00"
REPORT: Final = struct.Struct(">QB")
"""The bytes that the holder read, and 1 when it met bytes that are no whole batches, else 0."""

CLAIM_SECONDS: Final = 5.0
"""The time in which offered files must be fetched, and a connection must show its token."""
STRANGERS_MAX: Final = 64
"""The most connections that have shown no token yet."""
FILES_MAX: Final = 253
"""The most descriptors that the kernel passes at once."""

_CREDENTIALS: Final = struct.Struct("3i")
_BACKLOG: Final = 128

_log = logging.getLogger("pylog.net")


@dataclass(frozen=True, slots=True)
class GivenBack:
    """The holder has the files of `key` no more. `claimed`: somebody had fetched them."""

    key: int
    claimed: bool
    bytes_read: int = 0
    damaged: bool = False


@dataclass(slots=True)
class _Offer:
    key: int
    token: bytes
    files: list[int]
    timer: asyncio.TimerHandle
    holder: _Connection | None = None


class FileDoor:
    """Made without a socket; `open` makes it when somebody asks for files first."""

    def __init__(
        self,
        pool: Executor,
        given_back: Callable[[GivenBack], None],
        *,
        user_id: int | None = None,
        claim_seconds: float = CLAIM_SECONDS,
    ) -> None:
        """`given_back` hears of each offer once. `user_id`: of those who may come; None: this
        process's user.
        """
        self._pool = pool
        self._given_back = given_back
        self._user_id = os.geteuid() if user_id is None else user_id
        self._claim_seconds = claim_seconds
        self._loop = asyncio.get_running_loop()
        self._opening: asyncio.Task[None] | None = None
        self._folder: TemporaryFolder | None = None
        self._listener: socket.socket | None = None
        self._offers: dict[int, _Offer] = {}
        self._by_token: dict[bytes, _Offer] = {}
        self._connections: set[_Connection] = set()
        self._closed = False
        self.path = ""
        """The socket's, once it is open."""
        self.foreigners = 0
        """Connections of other users, which were refused."""

    async def open(self) -> None:
        """Have the socket there. OSError."""
        if self._listener is not None:
            return
        if self._closed:
            raise OSError("it is closed")
        if self._opening is None or self._opening.done():
            self._opening = self._loop.create_task(self._open())
        await asyncio.shield(self._opening)

    async def _open(self) -> None:
        # It also removes what killed processes left behind, which may take its time.
        folder = await self._loop.run_in_executor(self._pool, TemporaryFolder)
        path = str(folder.path / SOCKET_NAME)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            if self._closed:
                raise OSError("it is closed")
            if len(os.fsencode(path)) > PATH_BYTES_MAX:
                raise OSError(
                    f"{path} is longer than the {PATH_BYTES_MAX} bytes that a socket's path may "
                    "have; let TMPDIR name a shorter folder"
                )
            listener.bind(path)
            listener.listen(_BACKLOG)
        except OSError:
            listener.close()
            folder.remove()
            raise
        self._folder, self._listener, self.path = folder, listener, path
        self._loop.add_reader(listener, self._accept)

    def close(self) -> None:
        """Take the socket away and end every connection; files that were offered are closed."""
        self._closed = True
        if self._listener is not None:
            self._loop.remove_reader(self._listener)
            self._listener.close()
            self._listener = None
        for connection in list(self._connections):
            connection.drop()
        for key in list(self._offers):
            self.withdraw(key)
        if self._folder is not None:
            self._folder.remove()
            self._folder = None

    # ---- offers ---------------------------------------------------------------------------------

    def offer(self, key: int, paths: Sequence[str]) -> bytes:
        """Open the files, to read only, and keep them for the one who shows the token. OSError."""
        assert 0 < len(paths) <= FILES_MAX
        files: list[int] = []
        try:
            files.extend(
                os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW) for path in paths
            )
        except OSError:
            _close_all(files)
            raise
        token = secrets.token_bytes(TOKEN_BYTES)
        timer = self._loop.call_later(self._claim_seconds, self._unclaimed, key)
        self._offers[key] = self._by_token[token] = _Offer(key, token, files, timer)
        return token

    def withdraw(self, key: int) -> None:
        """A process that comes for these files now is late. One that has them keeps them."""
        offer = self._offers.get(key)
        if offer is not None and offer.holder is None:
            self._forget(offer)

    def over(self, key: int) -> None:
        """Tell the holder that the time of these files is over."""
        offer = self._offers.get(key)
        if offer is None:
            return
        if offer.holder is None:
            self._end(offer, claimed=False)
        else:
            offer.holder.say(OVER)

    def _unclaimed(self, key: int) -> None:
        offer = self._offers.get(key)
        if offer is not None and offer.holder is None:
            self._end(offer, claimed=False)

    def _end(
        self, offer: _Offer, *, claimed: bool, bytes_read: int = 0, damaged: bool = False
    ) -> None:
        self._forget(offer)
        self._given_back(GivenBack(offer.key, claimed, bytes_read, damaged))

    def _forget(self, offer: _Offer) -> None:
        offer.timer.cancel()
        del self._offers[offer.key]
        self._by_token.pop(offer.token, None)
        _close_all(offer.files)
        offer.files = []

    # ---- connections ----------------------------------------------------------------------------

    def _accept(self) -> None:
        assert self._listener is not None
        while True:
            try:
                sock, _ = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:  # no file to spare, or the other side has gone already
                _log.warning("a local reader could not be let in: %s", error)
                return
            sock.setblocking(False)
            strangers = sum(1 for each in self._connections if each.offer is None)
            if _user_of(sock) != self._user_id:
                self.foreigners += 1
                _log.warning("a process of user %d came for files and was refused", _user_of(sock))
                sock.close()
            elif strangers >= STRANGERS_MAX:
                sock.close()
            else:
                self._connections.add(_Connection(self, self._loop, sock, self._claim_seconds))

    def claim(self, connection: _Connection, token: bytes) -> bool:
        """Hand the files of this token over; False when there are none."""
        offer = self._by_token.pop(token, None)
        if offer is None:
            return False
        try:
            sent = socket.send_fds(connection.sock, [GIVEN], offer.files)
        except OSError:
            sent = 0
        if not sent:
            self._end(offer, claimed=False)
            return False
        offer.timer.cancel()
        offer.holder = connection
        connection.offer = offer
        _close_all(offer.files)
        offer.files = []
        return True

    def ended(self, connection: _Connection) -> None:
        """The connection is closed."""
        self._connections.discard(connection)
        offer = connection.offer
        if offer is not None and offer.key in self._offers:
            report = bytes(connection.said[: REPORT.size])
            bytes_read, flag = REPORT.unpack(report) if len(report) == REPORT.size else (0, 0)
            self._end(offer, claimed=True, bytes_read=bytes_read, damaged=bool(flag))


class _Connection:
    """One of them, until its other end has gone."""

    def __init__(
        self,
        door: FileDoor,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        claim_seconds: float,
    ) -> None:
        self.sock = sock
        self.offer: _Offer | None = None
        self.said = bytearray()
        self._door = door
        self._loop = loop
        self._timer = loop.call_later(claim_seconds, self.drop)
        loop.add_reader(sock, self._read)

    def _read(self) -> None:
        wanted = (TOKEN_BYTES if self.offer is None else REPORT.size) - len(self.said)
        try:
            data = self.sock.recv(max(wanted, 1))
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data or not wanted:  # the end, or more than is to be said
            self.drop()
            return
        self.said += data
        if self.offer is None and len(self.said) == TOKEN_BYTES:
            token = bytes(self.said)
            self.said.clear()
            self._timer.cancel()
            if not self._door.claim(self, token):
                self.drop()

    def say(self, word: bytes) -> None:
        """One byte to the holder, for which there is always room."""
        with contextlib.suppress(OSError):  # it has gone, which is heard soon
            self.sock.send(word)

    def drop(self) -> None:
        """End it."""
        if self.sock.fileno() < 0:
            return
        self._timer.cancel()
        self._loop.remove_reader(self.sock)
        self.sock.close()
        self._door.ended(self)


def _user_of(sock: socket.socket) -> int:
    data = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(data)[1])


def _close_all(files: Sequence[int]) -> None:
    for file in files:
        os.close(file)
