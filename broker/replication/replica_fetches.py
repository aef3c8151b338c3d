"""Fetches of followers: what their positions prove, and long polls up to the log's end.

First everything that a fetch proves is taken in, for all partitions; then data is read, so that
the answer carries the high watermark that the fetch itself brought about. A fetch with nothing
to answer is parked. An append answers it at once; a high watermark or log start that moved without
data does so after `high_watermark_linger_ms`. Only partitions with news are in an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from pylog.errors import (
    BrokerIdNotRegistered,
    InvalidRequest,
    KafkaStorageError,
    NotLeaderOrFollower,
    PylogError,
    StaleBrokerEpoch,
    UnknownServerError,
)
from pylog.model import BrokerEpoch, Offset
from pylog.records.batch import Buffer
from pylog_broker.metadata.messages import Failure
from pylog_broker.replication.effects import ColdRead, OperationFailed, ReplicaFetchDone
from pylog_broker.replication.fetch_messages import EpochEnd
from pylog_broker.replication.fetches import Warmup
from pylog_broker.replication.hosted import HostedPartitions, Missing
from pylog_broker.replication.isr import IsrEffect
from pylog_broker.replication.partition import Partition
from pylog_broker.replication.replica_fetch_messages import (
    ReplicaFetch,
    ReplicaFetched,
    ReplicaPartitionData,
    ReplicaPartitionFetch,
)
from pylog_broker.replication.sessions import FetchSession, FetchSessions, ParkedFetch
from pylog_broker.replication.waiting import WaitingRoom
from pylog_broker.storage.errors import DamagedBatch
from pylog_broker.storage.segments.segment_reader import PagesCold

# The news that one partition of a delayed fetch has.
NO_NEWS: Final = 0
MARKS: Final = 1  # high watermark or log start: not urgent
URGENT: Final = 2  # data, an error, a divergence


@dataclass(slots=True)
class _Answer:
    """An answer in the making; `found` is known before anything is read."""

    token: object
    min_bytes: int
    max_bytes: int
    found: list[ReplicaPartitionData] = field(default_factory=list)


class ReplicaFetches:
    """The leader's side of replication, for all partitions and followers of one broker."""

    def __init__(
        self,
        hosted: HostedPartitions,
        room: WaitingRoom,
        lead: Callable[[Partition, tuple[IsrEffect, ...]], None],
        storage_failed: Callable[[Partition, Exception], None],
        damaged: Callable[[Partition, DamagedBatch], Failure],
    ) -> None:
        self._hosted = hosted
        self._room = room
        self._lead = lead
        self._storage_failed = storage_failed
        self._damaged = damaged
        self._sessions = room.replica_fetches = FetchSessions(self._wake_all, self._expire)
        self._cold: dict[object, tuple[FetchSession, _Answer]] = {}
        # what one follower is told, while others are answered over the same happening
        self._told_before: dict[tuple[object, ...], ReplicaPartitionData] | None = None

    def registered(self, broker_epoch: BrokerEpoch) -> None:
        """This broker has a new epoch."""
        self._sessions.number_from(broker_epoch)

    def replica_fetch(self, request: ReplicaFetch, token: object) -> None:
        """Take in what the fetch proves, then answer or park it."""
        fault = self._replica_epoch_fault(request)
        if fault is None and len(request.partitions) > 1:
            fault = self._size_fault(request)
        if fault is None:
            # A follower that asks again does not wait for its last answer any more: it has more
            # partitions to ask for, or a new connection.
            before = self._sessions.by_follower.get(request.replica_id)
            if before is not None and before.parked is not None:
                self._unpark(before)
            session = self._sessions.begin(request)
            if isinstance(session, FetchSession):
                self._take_all_in(session, request, token)
                return
            fault = session
        self._room.outbox.append(ReplicaFetchDone(token, ReplicaFetched(fault)))

    def _take_all_in(self, session: FetchSession, request: ReplicaFetch, token: object) -> None:
        answer = _Answer(token, request.min_bytes, request.max_bytes)
        for topic_id, number in request.forgotten:
            partition = self._hosted.find_by_id(topic_id, number)
            if not isinstance(partition, Missing):
                self._forget(session, partition)
        session.clock.last_ms = self._room.now_ms
        moved: list[tuple[Partition, tuple[IsrEffect, ...]]] = []
        outside = session.outside_items() if session.outside else ()
        by_id = self._hosted.by_id
        for item in request.partitions:
            found: Partition | Missing | None = by_id.get((item.topic_id, item.partition))
            if found is None:
                found = self._hosted.find_by_id(item.topic_id, item.partition)
            if isinstance(found, Missing):
                answer.found.append(self._missing(item, found))
                continue
            data = self._take_in(found, item, session, moved)
            if data is None:
                self._sessions.ask(session, found, item)
            else:
                self._forget(session, found)
                answer.found.append(data)
        for partition, item in outside:
            if session.wanted.get(partition) is item and (
                self._take_in(partition, item, session, moved) is not None
            ):
                session.touched[partition] = None
        for partition, effects in moved:
            self._lead(partition, effects)
        self._answer_or_park(session, request, answer)

    def _answer_or_park(
        self, session: FetchSession, request: ReplicaFetch, answer: _Answer
    ) -> None:
        most_urgent = URGENT if answer.found else self._look(session)
        if most_urgent == URGENT and (
            answer.found or request.min_bytes <= 1 or self._enough(session, request.min_bytes)
        ):
            self._answer(session, answer)
            return
        settings = self._room.settings
        wait_ms = min(max(request.max_wait_ms, 0), settings.request_wait_max_ms)
        ends_ms = self._room.now_ms + wait_ms
        throttle_ms = self._hosted.throttles.leader.wait_ms(self._room.now_ms)
        if throttle_ms and any(self._holds_back(session, each) for each in session.touched):
            wait_ms = min(wait_ms, throttle_ms)
        if most_urgent == MARKS:
            wait_ms = min(wait_ms, settings.high_watermark_linger_ms)
        if wait_ms <= 0 or not session.wanted or self._room.full() is not None:
            self._answer(session, answer)
            return
        deadline_ms = self._room.now_ms + wait_ms
        session.parked = ParkedFetch(
            answer.token, request.min_bytes, request.max_bytes, deadline_ms, ends_ms
        )
        self._room.due(deadline_ms)

    # ---- parked fetches -------------------------------------------------------------------------

    def _wake_all(self, sessions: Iterable[FetchSession]) -> None:
        """Something touched these: followers mostly stand at the same offset, and get the same."""
        self._told_before = {}
        for session in sessions:
            self._wake(session)
        self._told_before = None

    def _wake(self, session: FetchSession) -> None:
        """Something touched the session: answer its parked fetch if it can be."""
        parked = session.parked
        assert parked is not None
        try:
            news = self._look(session)
            enough = news == URGENT and (
                parked.min_bytes <= 1 or self._enough(session, parked.min_bytes)
            )
        except Exception as error:  # noqa: BLE001 - see _fail
            self._fail(session, parked, error)
        else:
            if enough:
                self._unpark(session)

    def _expire(self, session: FetchSession) -> None:
        parked = session.parked
        assert parked is not None
        if self._room.now_ms >= parked.ends_ms:
            # A follower that does not say which high watermark it has is told now and then.
            silent = (p for p, item in session.wanted.items() if item.high_watermark < 0)
            session.touched.update(dict.fromkeys(silent))
        self._unpark(session)

    def _unpark(self, session: FetchSession) -> None:
        parked, session.parked = session.parked, None
        assert parked is not None
        try:
            self._answer(session, _Answer(parked.token, parked.min_bytes, parked.max_bytes))
        except Exception as error:  # noqa: BLE001 - see _fail
            self._fail(session, parked, error)

    def _fail(self, session: FetchSession, parked: ParkedFetch, error: Exception) -> None:
        # One follower's fetch must not take down the step it happened in (KAFKA-17240).
        self._sessions.close(session)
        fault = Failure(UnknownServerError.code, f"the broker failed over the fetch: {error!r}")
        self._room.outbox.append(ReplicaFetchDone(parked.token, ReplicaFetched(fault)))
        self._room.outbox.append(OperationFailed("fetch of a follower", error))

    def isr_changed(self, partition: Partition) -> None:
        """The committed ISR of a partition led here changed."""
        self._sessions.isr_changed(partition)

    def _forget(self, session: FetchSession, partition: Partition) -> None:
        self._sessions.forget(session, partition)
        leading = partition.leading
        progress = None if leading is None else leading.followers.get(session.follower)
        if progress is not None and progress.clock is session.clock:
            progress.clock = None  # later fetches say nothing of this partition

    def cancel(self, token: object) -> None:
        """Forget a request whose pages are being read."""
        self._cold.pop(token, None)

    # ---- what a fetch proves ---------------------------------------------------------------------

    def _size_fault(self, request: ReplicaFetch) -> Failure | None:
        limit = self._room.settings.request_partitions_max
        if len(request.partitions) > limit:
            return Failure(
                InvalidRequest.code,
                f"the fetch names {len(request.partitions)} partitions, the limit is {limit}",
            )
        return None

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
        session: FetchSession,
        moved: list[tuple[Partition, tuple[IsrEffect, ...]]],
    ) -> ReplicaPartitionData | None:
        """Take up the proof in a fetch; the answer, if it is a failure or a divergence."""
        leading = partition.leading
        if leading is None or partition.leader_epoch != item.current_leader_epoch:
            # also where it is offline: then it leads nothing
            failure = partition.leader_fault(item.current_leader_epoch)
            if failure is not None or leading is None:
                assert failure is not None
                return self._failed(partition, item, failure)
        follower = session.follower
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
                session.follower_epoch,
                item.fetch_offset
                if fault is None
                else min(item.fetch_offset, partition.log.log_end_offset),
                item.log_start_offset,
                session.clock,
            )
            if effects:
                moved.append((partition, tuple(effects)))
            if len(self._room.deletions) and self._room.deletions.has_waiting(partition):
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
        bounds = partition.log.bounds
        if bounds.end > item.fetch_offset or item.fetch_offset < bounds.start:
            return URGENT
        if 0 <= item.high_watermark < partition.high_watermark:
            return MARKS
        return MARKS if item.log_start_offset < bounds.start else NO_NEWS

    def _look(self, session: FetchSession) -> int:
        """The most urgent news of the session; partitions without any leave `touched`."""
        most_urgent = NO_NEWS
        wanted = session.wanted
        throttled = self._hosted.throttles.leader.is_limited
        for partition in list(session.touched):
            news = self.news_of(partition, wanted[partition])
            if throttled and news and self._holds_back(session, partition):
                continue  # it stays touched, for when the rate allows more
            if not news:
                del session.touched[partition]
            elif news > most_urgent:
                most_urgent = news
        return most_urgent

    def _holds_back(self, session: FetchSession, partition: Partition) -> bool:
        """Whether the follower, out of sync, gets nothing of this log now for the rate (KIP-73).
        Only data wait: the follower hears of errors and of diverged epochs all the same.
        """
        item = session.wanted[partition]
        return (
            partition.is_throttled_leader_of(session.follower)
            and partition.leading is not None
            and partition.leader_epoch == item.current_leader_epoch
            and not partition.offline
            and item.fetch_offset < partition.log.bounds.end
            and partition.position_fault(item.fetch_offset, item.last_fetched_epoch) is None
            and self._hosted.throttles.leader.wait_ms(self._room.now_ms) > 0
        )

    def _enough(self, session: FetchSession, min_bytes: int) -> bool:
        """Whether there are `min_bytes`, more than 1, to give, or something that cannot wait."""
        total = 0
        for partition in session.touched:
            item = session.wanted[partition]
            if partition.leader_fault(item.current_leader_epoch):
                return True
            log = partition.log
            if item.fetch_offset < log.log_start_offset:
                return True
            try:
                total += log.bytes_between(item.fetch_offset, log.log_end_offset)
            except KafkaStorageError:
                return True
        return total >= min_bytes

    def _answer(self, session: FetchSession, answer: _Answer, *, nowait: bool = True) -> None:
        """Read what was touched and answer; or ask for cold pages first."""
        max_bytes = max(answer.max_bytes, 1)
        room = max_bytes
        cold: list[PagesCold] = []
        read: list[ReplicaPartitionData] = []
        throttle = self._hosted.throttles.leader
        account = throttle.account
        for partition in list(session.touched):
            if throttle.is_limited and self._holds_back(session, partition):
                continue
            item = session.wanted[partition]
            try:
                data = self._tell(partition, item, room, room == max_bytes, nowait)
            except PagesCold as pages:
                cold.append(pages)
                continue
            if data.failure is not None:
                # Out of the session, so this must be told even if the rest waits for the disk.
                self._forget(session, partition)
                answer.found.append(data)
                continue
            read.append(data)
            if data.records:
                if throttle.is_limited and partition.is_throttled_leader_of(session.follower):
                    throttle.passed(self._room.now_ms, len(data.records))
                room -= len(data.records)
                del session.touched[partition]
                session.touched[partition] = None
        if cold:
            throttle.back_to(account)  # all of it is read again
            self._cold[answer.token] = (session, answer)
            self._room.outbox.append(ColdRead(answer.token, Warmup(answer, cold)))
            return
        fetched = ReplicaFetched(None, (*answer.found, *read), session.session_id)
        self._room.outbox.append(ReplicaFetchDone(answer.token, fetched))

    def on_cold_read(self, read: ColdRead) -> None:
        """The pages were read: check and read everything again, now without asking."""
        waiting = self._cold.pop(read.token, None)
        if waiting is not None:
            self._answer(*waiting, nowait=False)

    def _tell(
        self,
        partition: Partition,
        item: ReplicaPartitionFetch,
        room: int,
        first: bool,
        nowait: bool,
    ) -> ReplicaPartitionData:
        """The news of the partition; the same object for the same question over one happening."""
        shared = self._told_before
        if shared is None:
            return self._read(partition, item, room, first, nowait)
        _, _, leader_epoch, offset, last_epoch, _, max_bytes, _ = item
        key = (partition, leader_epoch, offset, last_epoch, max_bytes, room, first)
        data = shared.get(key)
        if data is None:
            data = shared[key] = self._read(partition, item, room, first, nowait)
        return data

    def _read(
        self,
        partition: Partition,
        item: ReplicaPartitionFetch,
        room: int,
        first: bool,
        nowait: bool,
    ) -> ReplicaPartitionData:
        fault: Failure | EpochEnd | None = None
        if partition.leading is None or partition.leader_epoch != item.current_leader_epoch:
            fault = partition.leader_fault(item.current_leader_epoch)
        if fault is None:
            fault = partition.position_fault(item.fetch_offset, item.last_fetched_epoch)
        if isinstance(fault, Failure):
            return self._failed(partition, item, fault)
        if fault is not None:
            return self._diverging(partition, item, fault)
        log = partition.log
        offset, end = item.fetch_offset, log.bounds.end
        records: Buffer = b""
        if end > offset and (room > 0 or first):
            limit = min(max(item.max_bytes, 1), room)
            try:
                found = log.read(offset, limit, upper_bound=end, min_one=first, nowait=nowait)
                records = bytes(found.records)  # no copy of what is in memory
            except KafkaStorageError as error:
                self._storage_failed(partition, error)
                return self._failed(partition, item, Failure(error.code, str(error)))
            except DamagedBatch as error:
                return self._failed(partition, item, self._damaged(partition, error))
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
            log.last_stable_offset(partition.high_watermark),
            Offset(log.bounds.start),
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
            log_start_offset=Offset(partition.log.bounds.start),
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
