"""Log starts that have moved, until a restart would find them: what is being written, and what
waits for it.

A start that moves is a fact in memory at once. Everything that moved in a step, or while a write
ran, goes into one write of the directory's checkpoint, on the pool. These wait for it:

- the answer to DeleteRecords (`deletions.py`): a restart must not bring the records back;
- a follower's next fetch, which would tell its leader that the records are gone here;
- the files below the start, which retention removes later (`storage.manager.upkeep`).

A write that could not be made for now is made again a little later; any other failure takes the
logs offline whose starts it was about.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pylog.errors import KafkaStorageError
from pylog_broker.replication.effects import WriteLogStarts
from pylog_broker.replication.hosted import HostedPartitions
from pylog_broker.replication.partition import Partition
from pylog_broker.replication.waiting import WaitingRoom
from pylog_broker.storage.errors import PassingStorageError
from pylog_broker.storage.manager.log_directories import LogDirectories

RETRY_MS: Final = 100
"""After a write that could not be made for now."""


class LogStarts:
    """At most one write for each log directory. `resume` lets a follower fetch again."""

    def __init__(
        self,
        hosted: HostedPartitions,
        room: WaitingRoom,
        logs: LogDirectories,
        storage_failed: Callable[[Partition, Exception], None],
    ) -> None:
        self.resume: Callable[[Partition], None] = lambda partition: None
        self._hosted = hosted
        self._room = room
        self._logs = logs
        self._storage_failed = storage_failed
        self._waiting: dict[Partition, None] = {}  # in order: a seed of the simulator is one run
        self.wanted = False
        """Whether `send` may have something to do: asked at the end of each step."""
        self._retry_at_ms: int | None = None

    def are_due(self, partition: Partition) -> bool:
        """Whether something must wait for the start of this log to be written; it is on its way
        then.
        """
        if partition.log.start_is_written:
            return False
        self._waiting[partition] = None
        self.wanted = True
        return True

    def is_waiting(self, partition: Partition) -> bool:
        """Whether the partition's start is not written yet."""
        return partition in self._waiting

    def moved(self) -> None:
        """Retention has moved starts; nobody here waits for them."""
        self.wanted = True

    def send(self) -> None:
        """At the end of a step: write what has moved in it."""
        if self._retry_at_ms is not None:
            return
        self.wanted = False
        for manager, task in self._logs.log_starts_tasks():
            self._room.outbox.append(WriteLogStarts(manager, task))

    def on_written(self, written: WriteLogStarts) -> None:
        """A step of a write has run."""
        try:
            if written.manager.on_log_starts_written(written.task):
                self._room.outbox.append(written)
                return
        except PassingStorageError:
            self._retry_at_ms = self._room.now_ms + RETRY_MS
            self._room.due(self._retry_at_ms)
        except KafkaStorageError:
            pass  # the logs that it was about say so themselves
        self.wanted = True  # for what moved meanwhile
        for partition in list(self._waiting):
            self._settle(partition)

    def _settle(self, partition: Partition) -> None:
        key = (partition.topic_id, partition.topic_partition.partition)
        if partition.offline or self._hosted.by_id.get(key) is not partition:
            self._waiting.pop(partition, None)
        elif partition.log.failure is not None:
            self._waiting.pop(partition, None)
            self._storage_failed(partition, partition.log.failure)
        elif partition.log.start_is_written:
            self._waiting.pop(partition, None)
            self._room.log_start_moved(partition)
            self.resume(partition)

    @property
    def next_deadline(self) -> int | None:
        """The time of the next call of `go_on`; None: no failed write waits for it."""
        return self._retry_at_ms

    def go_on(self) -> None:
        """Try again what could not be written, when its time has come."""
        if self._retry_at_ms is not None and self._retry_at_ms <= self._room.now_ms:
            self._retry_at_ms = None
            self.wanted = True
