"""Internal partitions led here, as their coordinators read and write them.

A coordinator decides on top of what it wrote, committed or not, so it reads its log to the end, and
a batch of it is appended exactly where it expects it or not at all. It waits for nothing here: that
more is committed it hears as a `HighWatermarkMoved`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pylog.errors import KafkaStorageError, OffsetOutOfRange, PylogError
from pylog.model import LeaderEpoch, Offset, TopicPartition
from pylog_broker.metadata.messages import Failure
from pylog_broker.replication.effects import ColdRead, InternalAppended, InternalRead
from pylog_broker.replication.fetches import Warmup
from pylog_broker.replication.hosted import HostedPartitions, Missing
from pylog_broker.replication.internal_messages import AppendInternal, InternalData, ReadInternal
from pylog_broker.replication.partition import Partition
from pylog_broker.replication.produce_messages import PartitionBatch
from pylog_broker.replication.produces import Produces, too_few
from pylog_broker.replication.waiting import WaitingRoom
from pylog_broker.storage.errors import DamagedBatch
from pylog_broker.storage.segments.segment_reader import PagesCold

COLD_READS_MAX: Final = 4
"""The most cold reads of one slice. Where memory is so short that pages leave it as fast as they
come, the read waits for the disk after so many."""


class InternalLogs:
    """The reads and appends of coordinators on partitions that this broker leads."""

    def __init__(
        self,
        hosted: HostedPartitions,
        room: WaitingRoom,
        produces: Produces,
        storage_failed: Callable[[Partition, Exception], None],
        damaged: Callable[[Partition, DamagedBatch], Failure],
    ) -> None:
        self._hosted = hosted
        self._room = room
        self._produces = produces
        self._storage_failed = storage_failed
        self._damaged = damaged
        # token -> the read whose pages are fetched, and for the how-many-th time
        self._cold: dict[object, tuple[ReadInternal, int]] = {}

    # ---- reading ---------------------------------------------------------------------------------

    def read(self, request: ReadInternal, token: object) -> None:
        """Answer, or ask for cold pages first."""
        self._read(request, token, 0)

    def on_cold_read(self, read: ColdRead) -> None:
        """The pages were read."""
        found = self._cold.pop(read.token, None)
        if found is not None:
            self._read(found[0], read.token, found[1])

    def _read(self, request: ReadInternal, token: object, reads: int) -> None:
        partition = self._led(request.topic_partition, request.leader_epoch)
        try:
            if isinstance(partition, Failure):
                data = InternalData(partition)
            else:
                data = self._data(partition, request, nowait=reads < COLD_READS_MAX)
        except PagesCold as pages:
            self._cold[token] = request, reads + 1
            self._room.outbox.append(ColdRead(token, Warmup(request, (pages,))))
            return
        self._room.outbox.append(InternalRead(token, data))

    def _data(self, partition: Partition, request: ReadInternal, *, nowait: bool) -> InternalData:
        log = partition.log
        end = log.log_end_offset
        offset = max(request.offset, log.log_start_offset)
        if offset > end:
            why = f"{partition.topic_partition} ends at {end}, before {offset}"
            return InternalData(Failure(OffsetOutOfRange.code, why))
        try:
            found = log.read(
                offset, request.max_bytes, upper_bound=end, min_one=True, nowait=nowait
            )
        except DamagedBatch as error:
            failure = self._damaged(partition, error)
            if failure.code != error.code:  # another replica has it, and is to lead
                return InternalData(failure)
            return InternalData(None, b"", Offset(error.next_offset), end, lost=Offset(offset))
        except PylogError as error:
            if isinstance(error, KafkaStorageError):
                self._storage_failed(partition, error)
            return InternalData(Failure(error.code, str(error)))
        except OSError as error:
            self._storage_failed(partition, error)
            return InternalData(Failure(KafkaStorageError.code, str(error)))
        # Records that were compacted away up to the end leave nothing to read.
        next_offset = found.next_offset if len(found.records) else end
        return InternalData(None, found.records, Offset(next_offset), end)

    # ---- writing ---------------------------------------------------------------------------------

    def refusal(self, topic_partition: TopicPartition) -> Failure | None:
        """The refusal of a batch for the partition, while too few of its replicas are in sync."""
        partition = self._hosted.by_name.get(topic_partition)
        return None if partition is None else too_few(partition)

    def append(self, wall_ms: int, request: AppendInternal, token: object) -> None:
        """Append it there, and answer."""
        failure = self._append(wall_ms, request)
        self._room.outbox.append(InternalAppended(token, failure))

    def _append(self, wall_ms: int, request: AppendInternal) -> Failure | None:
        name = request.topic_partition
        partition = self._led(name, request.leader_epoch)
        if isinstance(partition, Failure):
            return partition
        end = partition.log.log_end_offset
        if end != request.first_offset:
            why = f"{name} ends at {end}, not at {request.first_offset} as its coordinator expects"
            return Failure(OffsetOutOfRange.code, why)
        batch = PartitionBatch(name, partition.topic_id, request.batch)
        return self._produces.append_internal(wall_ms, partition, batch)

    def _led(self, name: TopicPartition, epoch: LeaderEpoch) -> Partition | Failure:
        partition = self._hosted.find(name, None)
        if isinstance(partition, Missing):
            return partition.failure
        return partition.leader_fault(epoch) or partition
