"""The syncs that `flush.messages` asks for, beside the loop: which run, and what waits for them.

As in Kafka an append is not acknowledged before the sync that it is due; other partitions go on
meanwhile. These wait for a partition's own disk:

- acks, of 1 and of all (`produces.py`), and the leader's part in the high watermark (`isr.py`);
- a follower's next fetch, which would tell its leader that the records are safe here.

One sync of a partition runs at a time and covers all that was appended before it began; when more
is due at its end, the next one begins. A failed one takes the replica offline; one that could not
be made for now (no file could be opened, say) is made again a little later, and is waited for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pylog.errors import KafkaStorageError
from pylog.model import Offset
from pylog_broker.replication.effects import SyncLog
from pylog_broker.replication.isr import IsrEffect
from pylog_broker.replication.partition import Partition
from pylog_broker.replication.waiting import WaitingRoom
from pylog_broker.storage.errors import PassingStorageError

RETRY_MS: Final = 100
"""After a sync that could not be made for now."""


class Syncs:
    """At most one sync of each partition. `resume` lets a follower fetch again."""

    def __init__(
        self,
        room: WaitingRoom,
        lead: Callable[[Partition, tuple[IsrEffect, ...]], None],
        storage_failed: Callable[[Partition, Exception], None],
    ) -> None:
        self.resume: Callable[[Partition], None] = lambda partition: None
        self._room = room
        self._lead = lead
        self._storage_failed = storage_failed
        self._running: dict[Partition, SyncLog] = {}
        self._put_off: dict[Partition, int] = {}
        """The running syncs that are to be made again, and when, in milliseconds."""

    def are_due(self, partition: Partition) -> bool:
        """Whether the end of the log must wait for a sync; it is on its way then."""
        log = partition.log
        if log.may_acknowledge(Offset(log.bounds.end)):
            return False
        if partition not in self._running:
            sync = SyncLog(partition.topic_partition, log.sync_task())
            self._running[partition] = sync
            self._room.outbox.append(sync)
        return True

    def hold_back(self, partition: Partition) -> None:
        """A leader whose own log is due a sync counts what is synced, until it is over. For a new
        leadership, which may begin over a sync that the last role has asked for, and for a lower
        `flush.messages`. KafkaStorageError.
        """
        leading = partition.leading
        if leading is not None and self.are_due(partition):
            leading.await_sync(partition.log.synced_offset)

    def is_running(self, partition: Partition) -> bool:
        """Whether the partition waits for its disk."""
        return partition in self._running

    def on_synced(self, sync: SyncLog) -> None:
        """A sync has run: go on with what waited for it."""
        found = [partition for partition, known in self._running.items() if known is sync]
        if not found:
            return
        partition = found[0]
        try:
            if not partition.offline:
                partition.log.on_flushed(sync.task)
        except PassingStorageError:
            self._put_off[partition] = self._room.now_ms + RETRY_MS
            self._room.due(self._put_off[partition])
            return
        except KafkaStorageError as error:
            del self._running[partition]
            self._storage_failed(partition, error)
            return
        self._go_on(partition)

    @property
    def next_deadline(self) -> int | None:
        """The time of the next call of `go_on`; None: no sync was put off."""
        return min(self._put_off.values(), default=None)

    def go_on(self) -> None:
        """Make the syncs again whose time has come."""
        now_ms = self._room.now_ms
        for partition in [each for each, at in self._put_off.items() if at <= now_ms]:
            del self._put_off[partition]
            self._go_on(partition)

    def _go_on(self, partition: Partition) -> None:
        """A sync is over: the next one, or what waited for it."""
        del self._running[partition]
        leads, follows = partition.leading is not None, partition.following is not None
        if partition.offline:
            return
        try:
            due = (leads or follows) and self.are_due(partition)
        except KafkaStorageError as error:
            self._storage_failed(partition, error)
            return
        leading = partition.leading
        if leading is not None:
            # Not the end of the task: one that ran beside another sync is not believed.
            synced_end = partition.log.synced_offset if due else None
            self._lead(partition, tuple(leading.on_synced(self._room.now_ms, synced_end)))
            self._room.produces.check(partition)
        elif follows and not due:
            self.resume(partition)
