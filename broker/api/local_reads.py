"""OpenLocalRead: a reader on the same machine gets the files of a range.

The answer names a socket and a token; the descriptors wait there (`net/file_door.py`).
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pylog import errors
from pylog.clock import Clock
from pylog_broker.api.context import RequestContext
from pylog_broker.api.offsets import Perform
from pylog_broker.metadata.messages import Failure
from pylog_broker.metrics.counters import LocalReadCounts
from pylog_broker.net.file_door import FileDoor, GivenBack
from pylog_broker.replication.range_messages import LocalReadAnswer, LocalReadQuery

if TYPE_CHECKING:
    from pylog_broker.replication.manager import ReplicaManager

CHECK_SECONDS: Final = 0.25
"""So often the broker looks whether reads are over by time, or because a log's start moved. A
change of leaders is told at once."""


@dataclass(frozen=True, slots=True)
class LocalReadOffer:
    """The files of an answer, which wait at a socket for the holder of the token; with a failure
    none do.
    """

    answer: LocalReadAnswer
    socket_path: str = ""
    token: bytes = b""

    @property
    def failure(self) -> Failure | None:
        """The refusal."""
        return self.answer.failure


class LocalReadHandler:
    """Lives on the broker's loop. `machine_id`: this machine's; empty: it is not known, and all
    are refused.
    """

    def __init__(
        self,
        manager: ReplicaManager,
        perform: Perform,
        clock: Clock,
        door: Callable[[Callable[[GivenBack], None]], FileDoor],
        machine_id: str,
    ) -> None:
        """`door`: makes it, when the first reader comes; it takes who hears of what is given
        back.
        """
        self.counts = LocalReadCounts()
        self._manager = manager
        self._perform = perform
        self._clock = clock
        self._make_door = door
        self._door: FileDoor | None = None
        self._machine_id = machine_id
        self._topics: dict[int, str] = {}  # of reads that are open
        self._timer: asyncio.TimerHandle | None = None

    async def handle(self, _context: RequestContext, query: LocalReadQuery) -> LocalReadOffer:
        """The offer, or why there is none: the reader then reads over the network. Raises
        InvalidRequest for a range that is none.
        """
        if not 0 <= query.start < query.end:
            raise errors.InvalidRequest(
                f"start_offset is {query.start} and end_offset {query.end}; it must be "
                "0 <= start_offset < end_offset"
            )
        offer = await self._offer(query)
        if offer.failure is None:
            self.counts.opened += 1
        else:
            self.counts.fell_back(errors.from_code(offer.failure.code).name.lower())
        return offer

    async def _offer(self, query: LocalReadQuery) -> LocalReadOffer:
        if not self._machine_id or query.machine_id != self._machine_id:
            return _refusal(
                query,
                errors.ResourceNotFound.code,
                "the reader and this broker are on two machines",
            )
        if self._door is None:
            self._door = self._make_door(self._given_back)
        door = self._door
        try:
            await door.open()
        except OSError as error:
            return _refusal(
                query,
                errors.ResourceNotFound.code,
                f"this broker could not make its socket for local reads: {error}",
            )
        manager = self._manager
        future: asyncio.Future[LocalReadOffer] = asyncio.get_running_loop().create_future()

        def opened(answers: Sequence[LocalReadAnswer]) -> None:
            """Called before anything else happens to the logs."""
            if not future.done():
                future.set_result(self._opened(door, query, answers[0]))
            elif answers[0].failure is None:
                manager.close_local_read(answers[0].read_id)

        now_ms = self._clock.monotonic_ms()
        self._perform(manager.open_local_read(now_ms, query, opened))
        try:
            return await future
        finally:
            if future.cancelled():
                manager.cancel(opened)

    def _opened(
        self, door: FileDoor, query: LocalReadQuery, answer: LocalReadAnswer
    ) -> LocalReadOffer:
        if answer.failure is not None:
            return LocalReadOffer(answer)
        try:
            token = door.offer(answer.read_id, [each.path for each in answer.files])
        except OSError as error:
            self._manager.close_local_read(answer.read_id)
            if error.errno in (errno.EMFILE, errno.ENFILE):
                return _refusal(
                    query,
                    errors.ThrottlingQuotaExceeded.code,
                    f"this broker has no file to spare for a local read: {error}; raise its limit "
                    "of open files (ulimit -n)",
                )
            return _refusal(
                query, errors.KafkaStorageError.code, f"a segment could not be opened: {error}"
            )
        self._topics[answer.read_id] = query.topic_partition.topic
        if self._timer is None:
            self._look_later()
        return LocalReadOffer(answer, door.path, token)

    # ---- while they last ------------------------------------------------------------------------

    def on_ended(self, read_id: int, cause: str) -> None:
        """The manager says that a read is over: its holder hears of it."""
        self.counts.fell_back(cause)
        if self._door is not None:
            self._door.over(read_id)

    def _given_back(self, given: GivenBack) -> None:
        self._manager.close_local_read(given.key)
        topic = self._topics.pop(given.key, "")
        if given.bytes_read:
            self.counts.bytes_read.add(topic, given.bytes_read)
        if not given.claimed:
            self.counts.fell_back("unclaimed")
        elif given.damaged:
            self.counts.fell_back("damaged")

    def _look_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(CHECK_SECONDS, self._look) if self._topics else None

    def _look(self) -> None:
        self._perform(self._manager.check_local_reads(self._clock.monotonic_ms()))
        self._look_later()

    @property
    def foreigners(self) -> int:
        """Processes of other users that came to the socket."""
        return 0 if self._door is None else self._door.foreigners

    def close(self) -> None:
        """The broker stops: holders hear of it by the end of their connections."""
        if self._timer is not None:
            self._timer.cancel()
        if self._door is not None:
            self._door.close()


def _refusal(query: LocalReadQuery, code: int, message: str) -> LocalReadOffer:
    name = query.topic_partition
    return LocalReadOffer(LocalReadAnswer(name, Failure(code, f"{name}: {message}")))
