"""DeleteRecords: the leader's log start moves up, and the caller waits for the followers' to.

It waits for the ISR to have `min.insync.replicas` members, too, as an acks=all write would. While
it is smaller, an eligible replica that is away may lead next (KIP-966), or does so already: it has
not heard of the deletion, and the records would be back.
"""

from __future__ import annotations

from collections.abc import Callable

from pylog.errors import (
    InvalidRequest,
    KafkaStorageError,
    OffsetOutOfRange,
    PylogError,
    RequestTimedOut,
    UnknownServerError,
)
from pylog.model import Offset, TopicPartition
from pylog_broker.metadata.messages import Failure
from pylog_broker.replication.effects import DeleteRecordsDone, Effect
from pylog_broker.replication.hosted import HostedPartitions, Missing
from pylog_broker.replication.log_starts import LogStarts
from pylog_broker.replication.offset_messages import DeleteRecords, LowWatermark
from pylog_broker.replication.partition import Partition
from pylog_broker.replication.waiting import WaitingOperation, WaitingRoom

TO_HIGH_WATERMARK = Offset(-1)


class DelayedDeletion(WaitingOperation):
    """A DeleteRecords; each of its partitions is settled once."""

    __slots__ = ("_hosted", "_open", "_results", "_room", "_starts")

    def __init__(
        self,
        token: object,
        results: list[LowWatermark],
        open_results: dict[Partition, tuple[int, Offset]],
        hosted: HostedPartitions,
        room: WaitingRoom,
        starts: LogStarts,
    ) -> None:
        """`open_results`: partition -> (index in `results`, low watermark to be reached)."""
        super().__init__(token)
        self._results = results
        self._open = open_results
        self._hosted = hosted
        self._room = room
        self._starts = starts

    def is_satisfied(self, key: Partition | None) -> bool:
        for partition in list(self._open) if key is None else (key,):
            if partition not in self._open:
                continue
            index, offset = self._open[partition]
            fault = partition.leader_fault()
            low = Offset(-1)
            if fault is None:
                low = partition.low_watermark(self._hosted.eligible)
                if self._starts.are_due(partition) or low < offset or partition.is_under_min_isr:
                    continue
            del self._open[partition]
            self._results[index] = LowWatermark(partition.topic_partition, fault, low)
        return not self._open

    def on_complete(self, expired: bool) -> None:
        for partition, (index, offset) in self._open.items():
            low = partition.low_watermark(self._hosted.eligible)
            why = f"a live replica still begins at {low}"
            if self._starts.is_waiting(partition):
                why = "its new start could not be written to the disk yet"
            elif low >= offset:
                why = "fewer than min.insync.replicas are in sync, and another one may lead next"
            fault = Failure(
                RequestTimedOut.code,
                f"records of {partition.topic_partition} below {offset} are deleted at the leader, "
                f"but {why}",
            )
            self._results[index] = LowWatermark(partition.topic_partition, fault)
        self._room.finished(self)
        self._room.outbox.append(DeleteRecordsDone(self.token, tuple(self._results)))

    def on_fault(self, error: Exception) -> Effect:
        fault = Failure(UnknownServerError.code, f"the broker failed over the deletion: {error!r}")
        failed = (LowWatermark(result.topic_partition, fault) for result in self._results)
        return DeleteRecordsDone(self.token, tuple(failed))


class Deletions:
    """The DeleteRecords path of one broker."""

    def __init__(
        self,
        hosted: HostedPartitions,
        room: WaitingRoom,
        storage_failed: Callable[[Partition, Exception], None],
        starts: LogStarts,
    ) -> None:
        self._hosted = hosted
        self._room = room
        self._starts = starts
        self._storage_failed = storage_failed

    def delete(self, request: DeleteRecords, token: object) -> None:
        """Move log starts, then answer or wait."""
        results: list[LowWatermark] = []
        open_results: dict[Partition, tuple[int, Offset]] = {}
        fault = self._request_fault(request)
        for name, wanted in request.offsets:
            if fault is not None:
                results.append(LowWatermark(name, fault))
                continue
            partition = self._hosted.find(name)
            if isinstance(partition, Missing):
                results.append(LowWatermark(name, partition.failure))
                continue
            offset = partition.high_watermark if wanted == TO_HIGH_WATERMARK else wanted
            failure = self._delete_below(partition, offset)
            if failure is None:
                open_results[partition] = (len(results), offset)
            results.append(LowWatermark(name, failure))
        for partition in open_results:
            self._room.mark_followers(partition)
        operation = DelayedDeletion(
            token, results, open_results, self._hosted, self._room, self._starts
        )
        wait_ms = min(max(request.timeout_ms, 0), self._room.settings.request_wait_max_ms)
        self._room.complete_or_wait(
            self._room.deletions, operation, tuple(open_results), self._room.now_ms + wait_ms
        )

    def _request_fault(self, request: DeleteRecords) -> Failure | None:
        names: set[TopicPartition] = {name for name, _ in request.offsets}
        if len(names) < len(request.offsets):
            return Failure(InvalidRequest.code, "a partition stands in the request more than once")
        return self._room.full()

    def _delete_below(self, partition: Partition, offset: Offset) -> Failure | None:
        fault = partition.leader_fault()
        if fault is not None:
            return fault
        if not 0 <= offset <= partition.high_watermark:
            return Failure(
                OffsetOutOfRange.code,
                f"records of {partition.topic_partition} can be deleted up to its high watermark "
                f"{partition.high_watermark} (or -1), not up to {offset}",
            )
        try:
            partition.log.move_log_start(offset)
        except PylogError as error:
            if isinstance(error, KafkaStorageError):
                self._storage_failed(partition, error)
            return Failure(error.code, str(error))
        return None
