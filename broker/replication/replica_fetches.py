"""Fetches of followers: what their positions prove, and long polls up to the log's end.

First everything that a fetch proves is taken in, for all partitions; then data is read, so that
the answer carries the high watermark that the fetch itself brought about. A fetch with nothing
to answer is parked. An append answers it at once; a high watermark or log start that moved without
data does so after `high_watermark_linger_ms`. Only partitions with news are in an answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from broker.metadata.messages import Failure
from broker.replication.fetches import Warmup
from broker.replication.hosted import HostedPartitions, Missing
from broker.replication.isr import IsrEffect
from broker.replication.messages import (
    ColdRead,
    Effect,
    EpochEnd,
    ReplicaFetch,
    ReplicaFetchDone,
    ReplicaFetched,
    ReplicaPartitionData,
    ReplicaPartitionFetch,
)
from broker.replication.partition import Partition
from broker.replication.waiting import WaitingOperation, WaitingRoom
from broker.storage.segment_reader import PagesCold
from pylog.errors import (
    BrokerIdNotRegistered,
    InvalidRequest,
    KafkaStorageError,
    NotLeaderOrFollower,
    PylogError,
    StaleBrokerEpoch,
    UnknownServerError,
)
from pylog.model import BrokerId, Offset, TopicId

# What one partition of a parked fetch has to tell.
NO_NEWS: Final = 0
MARKS: Final = 1  # high watermark or log start: not urgent
URGENT: Final = 2  # data, an error, a divergence

News = dict[tuple[TopicId, int], ReplicaPartitionData]


class DelayedReplicaFetch(WaitingOperation):
    """A follower's fetch that waits for news of any of its partitions."""

    __slots__ = ("_deadline_ms", "_fetches", "_room", "_touched", "_wanted", "request")

    def __init__(
        self,
        token: object,
        request: ReplicaFetch,
        wanted: dict[Partition, ReplicaPartitionFetch],
        touched: dict[Partition, None],
        deadline_ms: int,
        fetches: ReplicaFetches,
        room: WaitingRoom,
    ) -> None:
        super().__init__(token)
        self.request = request
        self._touched = touched
        self._deadline_ms = deadline_ms
        self._wanted = wanted
        self._fetches = fetches
        self._room = room

    def is_satisfied(self, key: Partition | None) -> bool:
        assert key is not None
        news = self._fetches.news_of(key, self._wanted[key])
        if news:
            self._touched[key] = None
        if news < URGENT:
            return False
        min_bytes = self.request.min_bytes
        return min_bytes <= 1 or self._fetches.enough(self._touched_items(), min_bytes)

    def mark(self, partition: Partition) -> bool:
        item = self._wanted[partition]
        if item.high_watermark == partition.high_watermark and (
            item.log_start_offset >= partition.log.log_start_offset
        ):
            return False
        self._touched[partition] = None
        return True

    def _touched_items(self) -> list[ReplicaPartitionFetch]:
        return [self._wanted[partition] for partition in self._touched]

    def on_complete(self, expired: bool) -> None:
        self._room.finished(self)
        self._fetches.unparked(self)
        items = self._touched_items()
        if expired and self._room.now_ms >= self._deadline_ms:
            # A follower that does not say which high watermark it has is told now and then.
            silent = (item for item in self._wanted.values() if item.high_watermark < 0)
            items = list(dict.fromkeys((*items, *silent)))
        self._fetches.answer(self.request, items, {}, self.token)

    def on_fault(self, error: Exception) -> Effect:
        fault = Failure(UnknownServerError.code, f"the broker failed over the fetch: {error!r}")
        return ReplicaFetchDone(self.token, ReplicaFetched(fault))


class ReplicaFetches:
    """The leader's side of replication, for all partitions and followers of one broker."""

    def __init__(
        self,
        hosted: HostedPartitions,
        room: WaitingRoom,
        lead: Callable[[Partition, tuple[IsrEffect, ...]], None],
        storage_failed: Callable[[Partition, Exception], None],
    ) -> None:
        self._hosted = hosted
        self._room = room
        self._lead = lead
        self._storage_failed = storage_failed
        self._parked: dict[BrokerId, DelayedReplicaFetch] = {}
        self._cold: dict[object, tuple[ReplicaFetch, list[ReplicaPartitionFetch], News]] = {}

    def replica_fetch(self, request: ReplicaFetch, token: object) -> None:
        """Take in what the fetch proves, then answer or park it."""
        fault = self._request_fault(request)
        if fault is not None:
            self._room.outbox.append(ReplicaFetchDone(token, ReplicaFetched(fault)))
            return
        # A follower that asks again does not wait for its last answer any more: it has more
        # partitions to ask for, or a new connection.
        parked = self._parked.get(request.replica_id)
        if parked is not None:
            self._room.replica_fetches.complete(parked)
        wanted: dict[Partition, ReplicaPartitionFetch] = {}
        failed: News = {}
        moved: list[tuple[Partition, tuple[IsrEffect, ...]]] = []
        for item in request.partitions:
            partition = self._hosted.find_by_id(item.topic_id, item.partition)
            data = (
                self._missing(item, partition)
                if isinstance(partition, Missing)
                else self._take_in(partition, item, request, moved)
            )
            if data is not None:
                failed[item.topic_id, item.partition] = data
            elif isinstance(partition, Partition):
                wanted[partition] = item
        for partition, effects in moved:
            self._lead(partition, effects)
        self._answer_or_park(request, wanted, failed, token)

    def _answer_or_park(
        self,
        request: ReplicaFetch,
        wanted: dict[Partition, ReplicaPartitionFetch],
        failed: News,
        token: object,
    ) -> None:
        touched: dict[Partition, None] = {}
        most_urgent = URGENT if failed else NO_NEWS
        for partition, item in wanted.items():
            news = self.news_of(partition, item)
            if news:
                touched[partition] = None
                most_urgent = max(most_urgent, news)
        settings = self._room.settings
        wait_ms = min(max(request.max_wait_ms, 0), settings.request_wait_max_ms)
        items = [wanted[partition] for partition in touched]
        if most_urgent == URGENT and (
            failed or request.min_bytes <= 1 or self.enough(items, request.min_bytes)
        ):
            wait_ms = 0
        elif most_urgent == MARKS:
            wait_ms = min(wait_ms, settings.high_watermark_linger_ms)
        if wait_ms <= 0 or not wanted or self._room.full() is not None:
            self.answer(request, items, failed, token)
            return
        deadline = self._room.now_ms + wait_ms
        operation = DelayedReplicaFetch(token, request, wanted, touched, deadline, self, self._room)
        self._parked[request.replica_id] = operation
        self._room.wait(self._room.replica_fetches, operation, tuple(wanted), deadline)

    def unparked(self, operation: DelayedReplicaFetch) -> None:
        """It waits no more."""
        follower = operation.request.replica_id
        if self._parked.get(follower) is operation:
            del self._parked[follower]

    def cancel(self, token: object) -> None:
        """Forget a request whose pages are being read, or that was withdrawn from waiting."""
        self._cold.pop(token, None)
        for operation in list(self._parked.values()):
            if operation.done:
                self.unparked(operation)

    # ---- what a fetch proves ---------------------------------------------------------------------

    def _request_fault(self, request: ReplicaFetch) -> Failure | None:
        limit = self._room.settings.request_partitions_max
        if len(request.partitions) > limit:
            return Failure(
                InvalidRequest.code,
                f"the fetch names {len(request.partitions)} partitions, the limit is {limit}",
            )
        return self._replica_epoch_fault(request)

    def _replica_epoch_fault(self, request: ReplicaFetch) -> Failure | None:
        """A fetch of an earlier life of the follower proves nothing about this one (KIP-903)."""
        follower = request.replica_id
        known = self._hosted.registered.get(follower)
        if known == request.replica_epoch:
            return None
        if known is not None and request.replica_epoch < known:
            return Failure(
                StaleBrokerEpoch.code,
                f"a fetch of broker {follower} with epoch {request.replica_epoch}, "
                f"which has registered again with {known}",
            )
        return Failure(
            BrokerIdNotRegistered.code,
            f"broker {follower} with epoch {request.replica_epoch} is not known here yet; retry",
        )

    def _take_in(
        self,
        partition: Partition,
        item: ReplicaPartitionFetch,
        request: ReplicaFetch,
        moved: list[tuple[Partition, tuple[IsrEffect, ...]]],
    ) -> ReplicaPartitionData | None:
        failure = partition.leader_fault(item.current_leader_epoch)
        leading = partition.leading
        if failure is not None or leading is None:
            assert failure is not None
            return self._failed(partition, item, failure)
        follower = request.replica_id
        if follower not in leading.followers:
            return self._failed(
                partition,
                item,
                Failure(
                    NotLeaderOrFollower.code,
                    f"broker {follower} is not among the replicas {list(partition.replicas)} "
                    f"of {partition.topic_partition}",
                ),
            )
        fault = partition.position_fault(item.fetch_offset, item.last_fetched_epoch)
        if self._accepts_follower_end(fault):
            effects = leading.on_follower_fetch(
                self._room.now_ms,
                follower,
                request.replica_epoch,
                min(item.fetch_offset, partition.log.log_end_offset),
                item.log_start_offset,
            )
            if effects:
                moved.append((partition, tuple(effects)))
            if self._room.deletions.has_waiting(partition):
                self._room.log_start_moved(partition)
        if isinstance(fault, Failure):
            return self._failed(partition, item, fault)
        return None if fault is None else self._diverging(partition, item, fault)

    def _accepts_follower_end(self, fault: Failure | EpochEnd | None) -> bool:
        """Whether the fetch offset is an end that counts: not when it diverges (KAFKA-13141)."""
        return fault is None

    # ---- news and answers ------------------------------------------------------------------------

    def news_of(self, partition: Partition, item: ReplicaPartitionFetch) -> int:
        """Whether there is something to tell about a partition: NO_NEWS, MARKS or URGENT."""
        if (
            partition.leading is None
            or partition.leader_epoch != item.current_leader_epoch
            or partition.offline
        ):
            return URGENT
        log = partition.log
        if log.log_end_offset > item.fetch_offset or item.fetch_offset < log.log_start_offset:
            return URGENT
        if 0 <= item.high_watermark < partition.high_watermark:
            return MARKS
        return MARKS if item.log_start_offset < log.log_start_offset else NO_NEWS

    def enough(self, items: list[ReplicaPartitionFetch], min_bytes: int) -> bool:
        """Whether these partitions have `min_bytes` to give, or something that cannot wait."""
        total = 0
        for item in items:
            partition = self._hosted.find_by_id(item.topic_id, item.partition)
            if isinstance(partition, Missing) or partition.leader_fault(item.current_leader_epoch):
                return True
            log = partition.log
            if item.fetch_offset < log.log_start_offset:
                return True
            total += log.bytes_between(item.fetch_offset, log.log_end_offset)
        return total >= min_bytes

    def answer(
        self,
        request: ReplicaFetch,
        items: list[ReplicaPartitionFetch],
        found: News,
        token: object,
        *,
        nowait: bool = True,
    ) -> None:
        """Read these partitions and answer; or ask for cold pages first."""
        max_bytes = max(request.max_bytes, 1)
        room = max_bytes
        cold: list[PagesCold] = []
        answers: list[ReplicaPartitionData] = list(found.values())
        for item in items:
            partition = self._hosted.find_by_id(item.topic_id, item.partition)
            if isinstance(partition, Missing):
                answers.append(self._missing(item, partition))
                continue
            try:
                data = self._read(partition, item, room, first=room == max_bytes, nowait=nowait)
            except PagesCold as pages:
                cold.append(pages)
                continue
            room -= len(data.records)
            answers.append(data)
        if cold:
            self._cold[token] = (request, items, found)
            self._room.outbox.append(ColdRead(token, Warmup(request, cold)))
            return
        self._room.outbox.append(ReplicaFetchDone(token, ReplicaFetched(None, tuple(answers))))

    def on_cold_read(self, read: ColdRead) -> None:
        """The pages were read: check and read everything again, now without asking."""
        waiting = self._cold.pop(read.token, None)
        if waiting is not None:
            request, items, found = waiting
            self.answer(request, items, found, read.token, nowait=False)

    def _read(
        self,
        partition: Partition,
        item: ReplicaPartitionFetch,
        room: int,
        *,
        first: bool,
        nowait: bool,
    ) -> ReplicaPartitionData:
        fault: Failure | EpochEnd | None = partition.leader_fault(item.current_leader_epoch)
        if fault is None:
            fault = partition.position_fault(item.fetch_offset, item.last_fetched_epoch)
        if isinstance(fault, Failure):
            return self._failed(partition, item, fault)
        if fault is not None:
            return self._diverging(partition, item, fault)
        log = partition.log
        records = b""
        if log.log_end_offset > item.fetch_offset and (room > 0 or first):
            try:
                records = log.read(
                    item.fetch_offset,
                    min(max(item.max_bytes, 1), room),
                    upper_bound=log.log_end_offset,
                    min_one=first,
                    nowait=nowait,
                ).records
            except KafkaStorageError as error:
                self._storage_failed(partition, error)
                return self._failed(partition, item, Failure(error.code, str(error)))
            except PylogError as error:
                return self._failed(partition, item, Failure(error.code, str(error)))
            except OSError as error:
                self._storage_failed(partition, error)
                return self._failed(partition, item, Failure(KafkaStorageError.code, str(error)))
        return ReplicaPartitionData(
            item.topic_id,
            item.partition,
            None,
            partition.high_watermark,
            partition.last_stable_offset,
            log.log_start_offset,
            None,
            records,
            partition.leader,
            partition.leader_epoch,
        )

    def _diverging(
        self, partition: Partition, item: ReplicaPartitionFetch, end: EpochEnd
    ) -> ReplicaPartitionData:
        return ReplicaPartitionData(
            item.topic_id,
            item.partition,
            diverging=end,
            current_leader=partition.leader,
            current_leader_epoch=partition.leader_epoch,
        )

    def _failed(
        self, partition: Partition, item: ReplicaPartitionFetch, failure: Failure
    ) -> ReplicaPartitionData:
        return ReplicaPartitionData(
            item.topic_id,
            item.partition,
            failure,
            log_start_offset=partition.log.log_start_offset if partition.has_log else Offset(-1),
            current_leader=partition.leader,
            current_leader_epoch=partition.leader_epoch,
        )

    def _missing(self, item: ReplicaPartitionFetch, missing: Missing) -> ReplicaPartitionData:
        return ReplicaPartitionData(
            item.topic_id,
            item.partition,
            missing.failure,
            current_leader=missing.leader,
            current_leader_epoch=missing.leader_epoch,
        )
