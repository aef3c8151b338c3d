"""Waits for a number of records in partitions led here: one request in place of many look-ups.

A reader sends it that begins work when enough has come, such as a query with
`minOffsetsPerTrigger`. The answer tells where each partition ends by then, also when the wait was
over first.
"""

from __future__ import annotations

from pylog.errors import UnknownServerError
from pylog.model import Offset
from pylog_broker.metadata.messages import Failure
from pylog_broker.replication.effects import Effect, RecordsArrived
from pylog_broker.replication.hosted import HostedPartitions, Missing
from pylog_broker.replication.partition import Partition
from pylog_broker.replication.range_messages import RecordWait, WaitedPartition, WaitEnd
from pylog_broker.replication.waiting import WaitingOperation, WaitingRoom


class DelayedCount(WaitingOperation):
    """A request that waits for records."""

    __slots__ = ("_available", "_room", "_total", "request", "wanted")

    def __init__(
        self,
        token: object,
        request: RecordWait,
        wanted: dict[Partition, WaitedPartition],
        room: WaitingRoom,
    ) -> None:
        super().__init__(token)
        self.request = request
        self.wanted = wanted
        self._room = room
        self._available: dict[Partition, int] = {}
        self._total = 0

    def is_satisfied(self, key: Partition | None) -> bool:
        for partition in self.wanted if key is None else (key,):
            item = self.wanted[partition]
            if partition.leader_fault(item.current_leader_epoch) is not None:
                return True  # the answer tells
            available = max(0, _end(partition, self.request) - item.offset)
            self._total += available - self._available.get(partition, 0)
            self._available[partition] = available
        return self._total >= self.request.min_records

    def on_complete(self, expired: bool) -> None:
        self._room.finished(self)
        self._room.outbox.append(self.answer())

    def on_fault(self, error: Exception) -> Effect:
        fault = Failure(UnknownServerError.code, f"the broker failed over the wait: {error!r}")
        return RecordsArrived(
            self.token,
            tuple(WaitEnd(item.topic_partition, fault) for item in self.request.partitions),
        )

    def answer(self) -> RecordsArrived:
        """The answer with the end of each partition as it is now."""
        ends = []
        for partition, item in self.wanted.items():
            fault = partition.leader_fault(item.current_leader_epoch)
            end = _end(partition, self.request) if fault is None else Offset(-1)
            ends.append(WaitEnd(item.topic_partition, fault, end))
        return RecordsArrived(self.token, tuple(ends))


class RecordWaits:
    """The waits for records of one broker."""

    def __init__(self, hosted: HostedPartitions, room: WaitingRoom) -> None:
        self._hosted = hosted
        self._room = room

    def wait(self, request: RecordWait, token: object) -> None:
        """Answer with RecordsArrived, now or later: at once where a partition is not led here."""
        wanted: dict[Partition, WaitedPartition] = {}
        missing: list[WaitEnd] = []
        for item in request.partitions:
            partition = self._hosted.find(item.topic_partition)
            if isinstance(partition, Missing):
                missing.append(WaitEnd(item.topic_partition, partition.failure))
            else:
                wanted[partition] = item
        operation = DelayedCount(token, request, wanted, self._room)
        done = missing or not wanted or request.max_wait_ms <= 0
        if done or operation.is_satisfied(None):
            answer = operation.answer()
            self._room.outbox.append(RecordsArrived(token, (*answer.ends, *missing)))
            return
        full = self._room.full()
        if full is not None:
            refused = (WaitEnd(item.topic_partition, full) for item in request.partitions)
            self._room.outbox.append(RecordsArrived(token, tuple(refused)))
            return
        deadline = self._room.now_ms + request.max_wait_ms
        # Beside fetches: the same events wake them.
        self._room.wait(self._room.fetches, operation, tuple(wanted), deadline)


def _end(partition: Partition, request: RecordWait) -> Offset:
    if request.read_committed:
        return partition.last_stable_offset
    return partition.high_watermark
