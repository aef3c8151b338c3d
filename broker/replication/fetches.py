"""Fetches of consumers: long polls below the high watermark of partitions led here.

A request is answered at once when any partition has an error or enough bytes are there. Otherwise
it waits; each move of a high watermark looks at that partition alone, and the whole request is
read when it is answered. Bytes that are not in memory are brought there on another thread
(`ColdRead`), and then everything is checked and read afresh.

A fetch may stand (`Standing`): answered with little, and with nothing more to read, it waits again
from where the answer ended, so that its reader need not ask again for each record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Final

from pylog.errors import InvalidRequest, KafkaStorageError, PylogError, UnknownServerError
from pylog.model import BrokerId, LeaderEpoch, Offset
from pylog.records.batch import Buffer, last_header
from pylog_broker.metadata.messages import Failure
from pylog_broker.replication.effects import ColdRead, Effect, FetchDone, FetchStands
from pylog_broker.replication.fetch_messages import (
    EpochEnd,
    Fetch,
    PartitionData,
    PartitionFetch,
    Standing,
)
from pylog_broker.replication.hosted import HostedPartitions, Missing
from pylog_broker.replication.partition import Partition
from pylog_broker.replication.waiting import WaitingOperation, WaitingRoom
from pylog_broker.storage.errors import DamagedBatch
from pylog_broker.storage.segments.segment_reader import PagesCold

PARTITION_BYTES_MIN: Final = 1
STANDING_BYTES_MAX: Final = 1 << 20
"""The most bytes of batches that a reader has not asked for again, and may not have taken."""
STANDING_BURST: Final = 8
STANDING_PER_MS: Final = 2
"""A fetch that is answered more often than that ends: until its reader asks again more comes, and
goes in one answer.
"""
_MAX_BYTES: Final = attrgetter("max_bytes")


class Warmup:
    """The call that brings pages into memory on a pool thread; it touches only files."""

    __slots__ = ("_cold", "request")

    def __init__(self, request: object, cold: Iterable[PagesCold]) -> None:
        self.request = request
        self._cold = tuple(cold)

    def __call__(self) -> None:
        for pages in self._cold:
            pages.warm()


class DelayedFetch(WaitingOperation):
    """A consumer's fetch that waits for bytes."""

    __slots__ = ("_available", "_fetches", "_room", "_total", "request", "wanted")

    def __init__(
        self,
        token: object,
        request: Fetch,
        wanted: dict[Partition, PartitionFetch],
        fetches: Fetches,
        room: WaitingRoom,
    ) -> None:
        super().__init__(token)
        self.request = request
        self.wanted = wanted
        self._fetches = fetches
        self._room = room
        self._available: dict[Partition, int] = {}
        self._total = 0

    def is_satisfied(self, key: Partition | None) -> bool:
        for partition in self.wanted if key is None else (key,):
            item = self.wanted[partition]
            if (
                partition.leading is None or partition.leader_epoch != item.current_leader_epoch
            ) and self._fetches.role_fault(partition, item, self.request) is not None:
                return True
            offset = item.fetch_offset
            upper = self._fetches.upper_bound(partition, self.request)
            if upper > offset:
                try:
                    available = min(partition.log.bytes_between(offset, upper), item.max_bytes)
                except KafkaStorageError:
                    return True  # the answer tells
                self._total += available - self._available.get(partition, 0)
                self._available[partition] = available
        return self._total >= self.request.min_bytes

    def on_complete(self, expired: bool) -> None:
        self._room.finished(self)
        self._fetches.answer(self.request, self.token)

    def on_fault(self, error: Exception) -> Effect:
        fault = Failure(UnknownServerError.code, f"the broker failed over the fetch: {error!r}")
        failed = (PartitionData(item.topic_partition, fault) for item in self.request.partitions)
        return FetchDone(self.token, tuple(failed))


class Fetches:
    """The fetch path of one broker."""

    def __init__(
        self,
        hosted: HostedPartitions,
        room: WaitingRoom,
        storage_failed: Callable[[Partition, Exception], None],
        damaged: Callable[[Partition, DamagedBatch], Failure],
    ) -> None:
        self._hosted = hosted
        self._room = room
        self._storage_failed = storage_failed
        self._damaged = damaged
        self._cold: dict[object, Fetch] = {}  # token -> request whose pages are being read

    def fetch(self, request: Fetch, token: object) -> None:
        """Answer, or wait."""
        fault = self._request_fault(request)
        if fault is not None:
            self._refuse(request, token, fault)
            return
        request = self._clamped(request)
        if request.standing is not None:
            request = self._standing_from_now(request, request.standing)
        wanted: dict[Partition, PartitionFetch] = {}
        find = self._hosted.find
        for item in request.partitions:
            partition = find(item.topic_partition, item.topic_id)
            if (
                isinstance(partition, Missing)
                or self._fault(partition, item, request) is not None
                or (request.rack and self._preferred(partition, item, request.rack) is not None)
            ):
                self.answer(request, token)
                return
            wanted[partition] = item
        operation = DelayedFetch(token, request, wanted, self, self._room)
        if not wanted or request.max_wait_ms <= 0 or operation.is_satisfied(None):
            self.answer(request, token)
            return
        full = self._room.full()
        if full is not None:
            self._refuse(request, token, full)
            return
        self._wait(operation)

    def _wait(self, operation: DelayedFetch) -> None:
        deadline = self._room.now_ms + operation.request.max_wait_ms
        self._room.wait(self._room.fetches, operation, tuple(operation.wanted), deadline)

    def on_cold_read(self, read: ColdRead) -> None:
        """The pages were read: check and read everything again, now without asking."""
        request = self._cold.pop(read.token, None)
        if request is not None:
            self.answer(request, read.token, nowait=False)

    def cancel(self, token: object) -> None:
        """Forget a request whose pages are being read."""
        self._cold.pop(token, None)

    def upper_bound(self, partition: Partition, request: Fetch) -> Offset:
        """The offset before which a consumer reads: the last stable offset when read committed,
        else the high watermark.
        """
        if request.read_committed:
            return partition.last_stable_offset
        return partition.high_watermark

    def answer(self, request: Fetch, token: object, *, nowait: bool = True) -> None:
        """Read what is there and answer; or ask for cold pages first."""
        room = request.max_bytes
        cold: list[PagesCold] = []
        found: list[PartitionData] = []
        read: dict[Partition, PartitionFetch] = {}
        for item in request.partitions:
            partition = self._hosted.find(item.topic_partition, item.topic_id)
            if isinstance(partition, Missing):
                found.append(
                    PartitionData(
                        item.topic_partition,
                        partition.failure,
                        current_leader=partition.leader,
                        current_leader_epoch=partition.leader_epoch,
                    )
                )
                continue
            try:
                data = self._read(
                    partition, item, request, room, first=room == request.max_bytes, nowait=nowait
                )
            except PagesCold as pages:
                cold.append(pages)
                continue
            room -= len(data.records)
            found.append(data)
            read[partition] = item
        if cold:
            self._cold[token] = request
            self._room.outbox.append(ColdRead(token, Warmup(request, cold)))
            return
        following = self._following(request, token, found, read) if request.standing else None
        if following is None:
            self._room.outbox.append(FetchDone(token, tuple(found)))
        else:
            self._room.outbox.append(FetchStands(token, tuple(found)))
            self._wait(following)

    def _following(
        self,
        request: Fetch,
        token: object,
        found: list[PartitionData],
        read: dict[Partition, PartitionFetch],
    ) -> DelayedFetch | None:
        """The fetch that waits behind an answer of a standing one; None when the fetch ends with
        it.
        """
        before = request.standing
        assert before is not None
        answers, left, given, since_ms = before
        left -= sum(len(data.records) for data in found)
        given += 1
        allowed = STANDING_BURST + STANDING_PER_MS * (self._room.now_ms - since_ms)
        if answers <= 1 or left <= 0 or given > allowed or len(read) < len(request.partitions):
            return None
        wanted: dict[Partition, PartitionFetch] = {}
        for data, (partition, item) in zip(found, read.items(), strict=True):
            # A consumer that sends no epoch would not learn that the log was truncated meanwhile.
            if data.failure is not None or data.diverging or item.current_leader_epoch < 0:
                return None
            if data.preferred_replica >= 0:
                return None
            wanted[partition] = _behind(item, data.records)
        following = Fetch(
            request.max_wait_ms,
            request.min_bytes,
            request.max_bytes,
            tuple(wanted.values()),
            request.read_committed,
            Standing(answers - 1, left, given, since_ms),
            request.rack,
        )
        operation = DelayedFetch(token, following, wanted, self, self._room)
        if operation.is_satisfied(None) or self._room.full() is not None:
            return None
        return operation

    def _read(
        self,
        partition: Partition,
        item: PartitionFetch,
        request: Fetch,
        room: int,
        *,
        first: bool,
        nowait: bool,
    ) -> PartitionData:
        fault = self._fault(partition, item, request)
        if isinstance(fault, Failure):
            return self._failed(partition, item, fault)
        log = partition.log
        preferred = self._preferred(partition, item, request.rack) if request.rack else None
        records: Buffer = b""
        aborted: tuple[tuple[int, int], ...] = ()
        upper = self.upper_bound(partition, request)
        reads = fault is None and preferred is None
        if reads and upper > item.fetch_offset and (room > 0 or first):
            try:
                found = log.read(
                    item.fetch_offset,
                    min(item.max_bytes, room),
                    upper_bound=upper,
                    # The first batch is given whole, or a large one could never be read (KIP-74).
                    min_one=first,
                    nowait=nowait,
                )
                records = found.records
                if request.read_committed and found.next_offset > item.fetch_offset:
                    aborted = tuple(
                        (entry.producer_id, entry.first_offset)
                        for entry in log.aborted_transactions(item.fetch_offset, found.next_offset)
                    )
            except KafkaStorageError as error:
                self._storage_failed(partition, error)
                return self._failed(partition, item, Failure(error.code, str(error)))
            except DamagedBatch as error:
                if partition.leading is None:  # a follower: its leader may have the batch
                    return self._failed(partition, item, Failure(error.code, str(error)))
                failure = self._damaged(partition, error)
                lost_to = error.next_offset if failure.code == error.code else -1
                return self._failed(partition, item, failure, lost_to)
            except PylogError as error:
                return self._failed(partition, item, Failure(error.code, str(error)))
            except OSError as error:
                self._storage_failed(partition, error)
                failure = Failure(KafkaStorageError.code, str(error))
                return self._failed(partition, item, failure)
        return PartitionData(
            item.topic_partition,
            None,
            partition.high_watermark,
            log.last_stable_offset(partition.high_watermark),
            Offset(log.bounds.start),
            records,
            aborted,
            fault,
            preferred_replica=BrokerId(-1) if preferred is None else preferred,
        )

    def _fault(
        self, partition: Partition, item: PartitionFetch, request: Fetch
    ) -> Failure | EpochEnd | None:
        if partition.leading is None or partition.leader_epoch != item.current_leader_epoch:
            failure = self.role_fault(partition, item, request)
            if failure is not None:
                return failure
            if partition.leading is None:
                return partition.follower_position_fault(item.fetch_offset)
        return partition.position_fault(item.fetch_offset, item.last_fetched_epoch)

    def role_fault(
        self, partition: Partition, item: PartitionFetch, request: Fetch
    ) -> Failure | None:
        """The refusal to read the replica here in this epoch; None for a leader, and for a follower
        that is read by a consumer with a rack.
        """
        if request.rack and self._room.settings.rack_aware_reads:
            return partition.follower_fault(item.current_leader_epoch)
        return partition.leader_fault(item.current_leader_epoch)

    def _preferred(self, partition: Partition, item: PartitionFetch, rack: str) -> BrokerId | None:
        """A follower in the consumer's rack that has what it asks for; None: the leader is to be
        read. As Kafka's RackAwareReplicaSelector: in sync, and of several the one that has most.
        """
        leading, hosted = partition.leading, self._hosted
        if leading is None or not self._room.settings.rack_aware_reads:
            return None
        brokers = hosted.image.brokers
        own = brokers.get(hosted.me)
        if own is not None and own.rack == rack:
            return None
        best: BrokerId | None = None
        best_end = item.fetch_offset - 1
        for broker in sorted(leading.isr):
            progress, registration = leading.followers.get(broker), brokers.get(broker)
            if (
                progress is not None
                and registration is not None
                and registration.rack == rack
                and broker in hosted.eligible
                and 0 <= progress.log_start_offset <= item.fetch_offset
                and progress.end_offset > best_end
            ):
                best, best_end = broker, progress.end_offset
        return best

    def _failed(
        self,
        partition: Partition,
        item: PartitionFetch,
        failure: Failure,
        damaged_end: int = -1,
    ) -> PartitionData:
        has_log = partition.has_log
        return PartitionData(
            item.topic_partition,
            failure,
            high_watermark=partition.high_watermark,
            last_stable_offset=partition.last_stable_offset,
            log_start_offset=partition.log.log_start_offset if has_log else Offset(-1),
            current_leader=partition.leader,
            current_leader_epoch=partition.leader_epoch,
            damaged_end=Offset(damaged_end),
        )

    def _refuse(self, request: Fetch, token: object, fault: Failure) -> None:
        failed = (PartitionData(item.topic_partition, fault) for item in request.partitions)
        self._room.outbox.append(FetchDone(token, tuple(failed)))

    def _request_fault(self, request: Fetch) -> Failure | None:
        items = request.partitions
        if len(items) == 1:
            return None
        limit = self._room.settings.request_partitions_max
        if len(items) > limit:
            return Failure(
                InvalidRequest.code,
                f"the request names {len(items)} partitions, the limit is {limit}",
            )
        if len({item.topic_partition for item in items}) < len(items):
            return Failure(InvalidRequest.code, "a partition stands in the request more than once")
        return None

    def _standing_from_now(self, request: Fetch, standing: Standing) -> Fetch:
        if request.max_wait_ms <= 0:
            return request._replace(standing=None)
        left = min(standing.bytes, STANDING_BYTES_MAX)
        return request._replace(standing=Standing(standing.answers, left, 0, self._room.now_ms))

    def _clamped(self, request: Fetch) -> Fetch:
        """Sizes and waits brought into sensible ranges (bad input 31): never an error."""
        settings = self._room.settings
        max_bytes = min(max(request.max_bytes, 1), settings.fetch_max_bytes)
        min_bytes = min(max(request.min_bytes, 0), max_bytes)
        max_wait_ms = min(max(request.max_wait_ms, 0), settings.request_wait_max_ms)
        items = request.partitions
        if min(map(_MAX_BYTES, items), default=PARTITION_BYTES_MIN) < PARTITION_BYTES_MIN:
            items = tuple(
                item
                if item.max_bytes >= PARTITION_BYTES_MIN
                else PartitionFetch(
                    item.topic_partition,
                    item.topic_id,
                    item.fetch_offset,
                    PARTITION_BYTES_MIN,
                    item.current_leader_epoch,
                    item.last_fetched_epoch,
                )
                for item in items
            )
        if (max_bytes, min_bytes, max_wait_ms) == (
            request.max_bytes,
            request.min_bytes,
            request.max_wait_ms,
        ) and items is request.partitions:
            return request
        standing = request.standing
        return Fetch(max_wait_ms, min_bytes, max_bytes, items, request.read_committed, standing)


def _behind(item: PartitionFetch, records: Buffer) -> PartitionFetch:
    """The question that follows the answer with these records."""
    last = last_header(records) if len(records) else None
    if last is None:
        return item
    return PartitionFetch(
        item.topic_partition,
        item.topic_id,
        Offset(last.next_offset),
        item.max_bytes,
        item.current_leader_epoch,
        LeaderEpoch(last.partition_leader_epoch),
    )
