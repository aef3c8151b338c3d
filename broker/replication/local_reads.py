"""Reads of partitions led here by processes on the same machine, which get the files themselves.

A reader asks for a range of offsets and is given the segment files that hold it, with the bytes
that are below the high watermark (below the last stable offset when read committed). It reads them
without asking again, so the leader must tell it when that is over: `LocalReadEnded`. What was read
before that is what the leader would have answered.

- Batches below the high watermark do not change, and stay where they are in an open file.
  Compaction writes new files; the old ones show the log as it was when the read was opened, as does
  an answer to a fetch that was given then. Aborted transactions are told as of the same moment.
- A leader truncates nothing. It stops leading first, or leads in a new epoch after an unclean
  election; both end the read before a file is touched.
- When the log's start passes the start of the read, by retention or because records were deleted,
  the read ends: the reader asks again from where it is, and learns what is gone.

Files that readers hold stay on the disk when their segments are deleted. Their number is bounded,
and so is the time of a read. A read counts until its holder has closed it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Final

from pylog.errors import (
    KafkaStorageError,
    OffsetNotAvailable,
    PylogError,
    ResourceNotFound,
    ThrottlingQuotaExceeded,
    UnknownTopicId,
)
from pylog.model import LeaderEpoch
from pylog_broker.metadata.messages import Failure
from pylog_broker.replication.effects import LocalReadEnded, LocalReadsOpened
from pylog_broker.replication.hosted import HostedPartitions
from pylog_broker.replication.look_ups import LookUps
from pylog_broker.replication.partition import Partition
from pylog_broker.replication.range_messages import LocalAborted, LocalReadAnswer, LocalReadQuery
from pylog_broker.replication.waiting import WaitingRoom

if TYPE_CHECKING:
    from pylog_broker.storage.log.log import Log

FILES_MAX: Final = 16
"""The most files of one read. A reader of a longer range asks again."""
ABORTED_MAX: Final = 10_000
"""The most aborted transactions that one answer tells. Fetches tell them bit by bit."""


@dataclass(slots=True)
class OpenRead:
    """A read that its holder has not closed. `ended`: why it is over; empty while it is not."""

    partition: Partition
    log: Log
    leader_epoch: LeaderEpoch
    generation: int
    start: int
    files: int
    deadline_ms: int
    ended: str = ""


class LocalReads:
    """The local reads of one broker. Invariant: `descriptors` is the sum of `files` over `reads`
    and at most the setting.
    """

    def __init__(
        self,
        hosted: HostedPartitions,
        room: WaitingRoom,
        storage_failed: Callable[[Partition, Exception], None],
    ) -> None:
        self.reads: dict[int, OpenRead] = {}
        self.descriptors = 0
        self._hosted = hosted
        self._room = room
        self._storage_failed = storage_failed
        self._ids = count(1)
        self.look_ups: LookUps[LocalReadQuery, LocalReadAnswer] = LookUps(
            hosted, room, self._answer, LocalReadAnswer, LocalReadsOpened
        )

    def _answer(self, partition: Partition, query: LocalReadQuery, nowait: bool) -> LocalReadAnswer:
        """The files of a range, as a read that is open from now on. With `nowait` it may raise
        PagesCold.
        """
        name = partition.topic_partition
        failure = self._refusal(partition, query)
        if failure is not None:
            return LocalReadAnswer(name, failure)
        log = partition.log
        upper = partition.last_stable_offset if query.read_committed else partition.high_watermark
        try:
            found = log.local_range(
                query.start,
                query.end,
                upper_bound=upper,
                files_max=min(FILES_MAX, self._left),
                nowait=nowait,
            )
            aborted = self._aborted(log, query, found.end_offset)
        except PylogError as error:
            if isinstance(error, KafkaStorageError):
                self._storage_failed(partition, error)
            return LocalReadAnswer(name, Failure(error.code, str(error)))
        if not found.files:
            return LocalReadAnswer(
                name,
                Failure(
                    OffsetNotAvailable.code,
                    f"{name} has nothing from offset {query.start} on that can be read from its "
                    f"files: it is committed up to {upper}",
                ),
            )
        read_id = next(self._ids)
        self.reads[read_id] = OpenRead(
            partition,
            log,
            partition.leader_epoch,
            log.generation,
            query.start,
            len(found.files),
            self._room.now_ms + self._room.settings.local_read_max_ms,
        )
        self.descriptors += len(found.files)
        return LocalReadAnswer(name, None, read_id, found.end_offset, found.files, aborted)

    @property
    def _left(self) -> int:
        return self._room.settings.local_read_max_descriptors - self.descriptors

    def _refusal(self, partition: Partition, query: LocalReadQuery) -> Failure | None:
        name, most = partition.topic_partition, self._room.settings.local_read_max_descriptors
        if not most:
            return Failure(
                ResourceNotFound.code,
                "this broker gives no files to readers: its local.read.max.descriptors is 0",
            )
        if query.topic_id and query.topic_id != partition.topic_id:
            return Failure(UnknownTopicId.code, f"{name} has not the topic id {query.topic_id}")
        fault = partition.leader_fault(query.current_leader_epoch)
        if fault is None and self._left <= 0:
            fault = Failure(
                ThrottlingQuotaExceeded.code,
                f"readers on this machine hold {self.descriptors} files of this broker, and "
                f"local.read.max.descriptors is {most}: read over the network, or raise it",
            )
        return fault

    def _aborted(self, log: Log, query: LocalReadQuery, end: int) -> tuple[LocalAborted, ...]:
        if not query.read_committed or end <= query.start:
            return ()
        found = log.aborted_transactions(query.start, end)
        if len(found) > ABORTED_MAX:
            raise ThrottlingQuotaExceeded(
                f"{len(found)} transactions were aborted between offsets {query.start} and {end}, "
                f"and one local read may skip {ABORTED_MAX}: read over the network, or read "
                "shorter ranges"
            )
        return tuple(
            LocalAborted(each.producer_id, each.first_offset, each.last_offset) for each in found
        )

    # ---- what ends a read -----------------------------------------------------------------------

    def check(self) -> None:
        """Have holders told of reads that are over by now."""
        for read_id, read in self.reads.items():
            if not read.ended:
                read.ended = self._cause(read)
                if read.ended:
                    self._room.outbox.append(LocalReadEnded(read_id, read.ended))

    def _cause(self, read: OpenRead) -> str:
        partition, log = read.partition, read.log
        number = partition.topic_partition.partition
        if self._hosted.by_id.get((partition.topic_id, number)) is not partition:
            return "deleted"
        if partition.offline or log.failure is not None:
            return "storage"
        if partition.leading is None or partition.leader_epoch != read.leader_epoch:
            return "leader_change"
        if partition.log is not log or log.generation != read.generation:
            return "truncated"
        if log.log_start_offset > read.start:
            return "log_start"
        return "expired" if self._room.now_ms >= read.deadline_ms else ""

    def close(self, read_id: int) -> None:
        """Its holder has no file of it any more, or never got one."""
        read = self.reads.pop(read_id, None)
        if read is not None:
            self.descriptors -= read.files
