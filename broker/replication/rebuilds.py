"""A log's producers, read again on the pool after a truncation.

A follower asks its leader for more when its log is settled again. A replica that leads before that
reads the rest with its first append, as whatever else uses the log.
"""

from __future__ import annotations

from collections.abc import Callable

from pylog.errors import KafkaStorageError
from pylog_broker.replication.effects import ColdRead
from pylog_broker.replication.partition import Partition
from pylog_broker.replication.waiting import WaitingRoom
from pylog_broker.storage.producers.rebuild_task import RebuildTask


class Rebuilds:
    """At most one of each partition. `resume` lets a follower fetch again."""

    def __init__(
        self, room: WaitingRoom, storage_failed: Callable[[Partition, Exception], None]
    ) -> None:
        self.resume: Callable[[Partition], None] = lambda partition: None
        self._room = room
        self._storage_failed = storage_failed
        self._running: dict[RebuildTask, Partition] = {}

    def are_due(self, partition: Partition) -> bool:
        """Whether the log's next use must wait for a rebuild; it is on its way then."""
        if partition.log.is_settled:
            return False
        task = partition.log.rebuild_task()
        if task is None:
            return self.is_running(partition)
        self._running[task] = partition
        self._room.outbox.append(ColdRead(task, task.run))
        return True

    def is_running(self, partition: Partition) -> bool:
        """Whether the partition waits for one."""
        return partition in self._running.values()

    def on_cold_read(self, read: ColdRead) -> None:
        """One has run: the follower goes on."""
        if not isinstance(read.token, RebuildTask):
            return
        partition = self._running.pop(read.token, None)
        if partition is None or partition.offline:
            return
        try:
            partition.log.on_rebuilt(read.token)
        except KafkaStorageError as error:
            self._storage_failed(partition, error)
        if partition.following is not None:
            self.resume(partition)
