"""Opens reads of files that brokers on this machine hand over, and gives the files back.

Nothing here is needed for a read: where it fails, for whatever reason, the caller reads over the
network from where it is. A broker that refused is not asked again for a while. Loop only.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pylog import errors
from pylog.client.cluster.server import Server
from pylog.client.cluster.wire import error_of
from pylog.clock import Clock
from pylog.machine import boot_id
from pylog.model import TopicPartition
from pylog.rpc import apis
from pylog.rpc.v1 import log_pb2

if TYPE_CHECKING:
    from pylog.client.ranges.local_files import LocalRead

HAND_OVER_SECONDS: Final = 2.0
"""For the connection to a socket of this machine, and for what comes over it."""
LASTING_MS: Final = 60_000
"""The time for which a broker is not asked again that runs elsewhere or gives no files."""
PASSING_MS: Final = 1_000
"""The same of one that cannot give these files now."""
FILES_MAX: Final = 16
GIVEN: Final = b"\x01"
"""The broker's word that the descriptors come with."""
LINES_MAX: Final = 100
"""Different reasons of which a line is logged."""
_AGAIN_SECONDS: Final = 0.02
_CREDENTIALS: Final = struct.Struct("3i")

logger = logging.getLogger("pylog.client")


@dataclass(frozen=True, slots=True)
class LocalRange:
    """The range that is to be read, and its leader's epoch."""

    at: TopicPartition
    topic_id: str
    leader_epoch: int
    start: int
    end: int
    isolation: log_pb2.IsolationLevel


class LocalReads:
    """The local reads of one client. `bytes_read` and `fallbacks`, by cause, are to look at."""

    def __init__(self, clock: Clock, request_timeout_ms: int) -> None:
        self.bytes_read = 0
        self.fallbacks: dict[str, int] = {}
        self._clock = clock
        self._timeout_s = request_timeout_ms / 1000
        self._machine_id = boot_id()
        self._not_before_ms: dict[int, int] = {}  # by broker
        self._told: set[str] = set()

    async def open(self, broker: int, server: Server, wanted: LocalRange) -> LocalRead | None:
        """Files that hold the beginning of the range; None: it is to be read over the network."""
        now_ms = self._clock.monotonic_ms()
        if not self._machine_id or now_ms < self._not_before_ms.get(broker, now_ms):
            return None
        try:
            return await self._open(server, wanted)
        except errors.PylogError as error:
            lasting = not isinstance(error, errors.RetriableError | errors.OffsetOutOfRange)
            level = logging.INFO if isinstance(error, errors.ResourceNotFound) else logging.WARNING
            why = f"{error.name}: {error}"
            self._refused(broker, error.name, why, lasting=lasting, level=level)
        except (OSError, TimeoutError) as error:
            # In another container, perhaps: it shares the machine and not the files.
            why = f"the broker's socket cannot be used: {error or 'no answer in time'}"
            self._refused(broker, "SOCKET", why, lasting=True)
        return None

    async def _open(self, server: Server, wanted: LocalRange) -> LocalRead:
        answer = await server.call(
            apis.OPEN_LOCAL_READ,
            log_pb2.OpenLocalReadRequest(
                topic=wanted.at.topic,
                topic_id=wanted.topic_id,
                partition=wanted.at.partition,
                current_leader_epoch=wanted.leader_epoch,
                start_offset=wanted.start,
                end_offset=wanted.end,
                isolation_level=wanted.isolation,
                machine_id=self._machine_id,
            ),
            self._timeout_s,
        )
        error = error_of(answer.error, str(wanted.at))
        if error is not None:
            raise error
        if not 0 < len(answer.files) <= FILES_MAX or answer.end_offset <= wanted.start:
            raise errors.UnknownServerError(
                f"{len(answer.files)} files up to offset {answer.end_offset} were offered for a "
                f"read from {wanted.start}"
            )
        async with asyncio.timeout(HAND_OVER_SECONDS):
            connection, descriptors = await _fetch_files(
                answer.socket_path, answer.token, len(answer.files)
            )
        # Here: planners, who ask for bounds only, start sooner without it.
        from pylog.client.ranges.local_files import Aborted, LocalRead, OpenFile

        read = LocalRead(
            connection,
            [
                OpenFile(descriptor, each.begin, each.end)
                for descriptor, each in zip(descriptors, answer.files, strict=True)
            ],
            wanted.start,
            min(answer.end_offset, wanted.end),
            [Aborted(a.producer_id, a.first_offset, a.last_offset) for a in answer.aborted],
        )
        asyncio.get_running_loop().add_reader(connection, self._on_word, read)
        return read

    def _refused(
        self, broker: int, cause: str, why: str, *, lasting: bool, level: int = logging.WARNING
    ) -> None:
        wait_ms = LASTING_MS if lasting else PASSING_MS
        self._not_before_ms[broker] = self._clock.monotonic_ms() + wait_ms
        self.fell_back(cause, f"broker {broker} gives no files, {why}", level)

    def fell_back(self, cause: str, why: str, level: int = logging.WARNING) -> None:
        """Count it, and tell of each cause once."""
        self.fallbacks[cause] = self.fallbacks.get(cause, 0) + 1
        if cause not in self._told and len(self._told) < LINES_MAX:
            self._told.add(cause)
            logger.log(level, "local read: %s; it goes on over the network", why)

    # ---- while it lasts -------------------------------------------------------------------------

    def _on_word(self, read: LocalRead) -> None:
        """The broker says that it is over, or is gone: its files go, though nobody may read now."""
        asyncio.get_running_loop().remove_reader(read.connection)
        self._stop(read)

    def _stop(self, read: LocalRead) -> None:
        if not read.stop():  # in a moment: its reader is just at it, and looks itself
            asyncio.get_running_loop().call_later(_AGAIN_SECONDS, self._stop, read)

    def release(self, read: LocalRead) -> None:
        """Give everything back that is left of it, and tell the broker what was read."""
        if read.connection.fileno() < 0:
            return
        loop = asyncio.get_running_loop()
        loop.remove_reader(read.connection)
        if not read.stop():
            loop.call_later(_AGAIN_SECONDS, self.release, read)
            return
        self.bytes_read += read.bytes_read
        with contextlib.suppress(OSError):
            read.connection.send(read.report())
        read.connection.close()


async def _fetch_files(path: str, token: bytes, count: int) -> tuple[socket.socket, list[int]]:
    """A connection to the broker's socket, and the descriptors that came over it. OSError."""
    loop = asyncio.get_running_loop()
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    descriptors: list[int] = []
    try:
        await loop.sock_connect(connection, path)
        data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        user = _CREDENTIALS.unpack(data)[1]
        if user != os.geteuid():
            raise OSError(f"it belongs to user {user}, this process to {os.geteuid()}")
        await loop.sock_sendall(connection, token)
        await _readable(connection)
        word, descriptors, flags, _ = socket.recv_fds(
            connection, len(GIVEN), count, socket.MSG_CMSG_CLOEXEC
        )
        if word != GIVEN:
            raise OSError("the broker closed the connection: it has nothing for this token")
        if flags & socket.MSG_CTRUNC or len(descriptors) != count:
            raise OSError(
                f"{len(descriptors)} of {count} files came; this process may be at its limit of "
                "open files (ulimit -n)"
            )
    except BaseException:
        for descriptor in descriptors:
            os.close(descriptor)
        connection.close()
        raise
    return connection, descriptors


async def _readable(connection: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    def on_word() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(connection, on_word)
    try:
        await ready
    finally:
        loop.remove_reader(connection)
