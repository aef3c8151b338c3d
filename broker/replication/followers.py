"""The following half of a broker: its fetches from all leaders, and what their answers do."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from pylog.errors import (
    CorruptMessage,
    FetchSessionIdNotFound,
    InvalidFetchSessionEpoch,
    KafkaStorageError,
    PylogError,
)
from pylog.model import BrokerEpoch, BrokerId
from pylog_broker.replication.effects import SendReplicaFetch
from pylog_broker.replication.fetcher import LeaderFetcher
from pylog_broker.replication.follower import FollowerAction, FollowerStatus, SetAside
from pylog_broker.replication.hosted import HostedPartitions
from pylog_broker.replication.log_starts import LogStarts
from pylog_broker.replication.partition import Partition
from pylog_broker.replication.rebuilds import Rebuilds
from pylog_broker.replication.replica_fetch_messages import (
    ReplicaFetch,
    ReplicaFetched,
    ReplicaPartitionData,
)
from pylog_broker.replication.syncs import Syncs
from pylog_broker.replication.waiting import WaitingRoom

logger = logging.getLogger(__name__)

NO_ROOM_WAIT_MS: Final = 2_000
"""The wait of a replica that gave up the lead, its disk being full, before it follows.

If it asked at once it would seem caught up, join the ISR again, and hold up every commit until it
is thrown out for lagging. By then the new leader has had writes that it lacks, and it stays out."""

TELL_STUCK_EVERY_MS: Final = 600_000
"""That a replica cannot be copied changes only when an operator does something."""

_SESSION_LOST: Final = frozenset({FetchSessionIdNotFound.code, InvalidFetchSessionEpoch.code})


class Followers:
    """Every partition that follows, by leader."""

    def __init__(
        self,
        hosted: HostedPartitions,
        room: WaitingRoom,
        storage_failed: Callable[[Partition, Exception], None],
        syncs: Syncs,
        starts: LogStarts,
        rebuilds: Rebuilds,
    ) -> None:
        syncs.resume = starts.resume = rebuilds.resume = self._resume
        self._syncs = syncs
        self._starts = starts
        self._rebuilds = rebuilds
        self._hosted = hosted
        self._room = room
        self._storage_failed = storage_failed
        self._fetchers: dict[BrokerId, LeaderFetcher] = {}
        self._fetcher_of: dict[Partition, LeaderFetcher] = {}
        self._last_request_id = 0
        self._tell_stuck_at_ms: dict[Partition, int] = {}

    def follow(self, partition: Partition) -> None:
        """Fetch it from the leader that its follower state names."""
        self.unfollow(partition)
        following = partition.following
        if following is None:
            return
        fetcher = self._fetchers.get(following.leader)
        if fetcher is None:
            settings = self._room.settings
            fetcher = self._fetchers[following.leader] = LeaderFetcher(
                following.leader,
                settings.replica_fetch_backoff_ms,
                settings.replica_fetch_backoff_max_ms,
                settings.request_partitions_max,
            )
        self._fetcher_of[partition] = fetcher
        if partition.no_room:
            partition.no_room = False
            now_ms = self._room.now_ms
            aside = following.set_aside(now_ms, "no room on the disk", NO_ROOM_WAIT_MS)
            fetcher.set_aside(partition, aside.retry_at_ms)
        elif not self._waits_for_disk(partition):
            self._add(fetcher, partition)

    def _add(self, fetcher: LeaderFetcher, partition: Partition) -> None:
        """Fetch it from the next request on, once its files say what the fetch will tell.

        A log that starts over ends further on in memory than in its files as long as these could
        not be made. The leader would take the replica into the ISR for that end, and a crash would
        take it back.
        """
        if self._holds_back(fetcher, partition):
            return
        if not partition.log.is_settled:
            if self._rebuilds.are_due(partition):
                return  # `_resume` will add it
            try:
                partition.log.settle()
            except (OSError, KafkaStorageError) as error:
                self._storage_failed(partition, error)
                following = partition.following
                if following is not None:  # the log works, and refuses for now
                    aside = following.set_aside(self._room.now_ms, str(error))
                    fetcher.set_aside(partition, aside.retry_at_ms)
                return
        fetcher.add(partition)

    def _holds_back(self, fetcher: LeaderFetcher, partition: Partition) -> bool:
        """Leave out one that is out of sync, for as long as its rate is used up (KIP-73)."""
        now_ms, throttle = self._room.now_ms, self._hosted.throttles.follower
        wait_ms = throttle.wait_ms(now_ms)
        if not wait_ms or not partition.is_throttled_follower:
            return False
        fetcher.set_aside(partition, now_ms + wait_ms)
        return True

    def isr_changed(self, partition: Partition) -> None:
        """Go on at once with a replica that was left out for its rate and is in sync by now: the
        commits of its leader wait for it.
        """
        fetcher, following = self._fetcher_of.get(partition), partition.following
        if fetcher is None or following is None or partition not in fetcher.aside:
            return
        if following.status is FollowerStatus.FETCHING and not partition.is_throttled_follower:
            self._add(fetcher, partition)

    def _hold_back_all(self) -> None:
        for partition, fetcher in list(self._fetcher_of.items()):
            if partition in fetcher.active:
                self._holds_back(fetcher, partition)

    def unfollow(self, partition: Partition) -> None:
        """Fetch it no more."""
        fetcher = self._fetcher_of.pop(partition, None)
        if fetcher is not None:
            fetcher.remove(partition)
        self._tell_stuck_at_ms.pop(partition, None)

    def leader_restarted(self, leader: BrokerId) -> None:
        """A new incarnation of `leader` registered: its old failures say nothing any more."""
        fetcher = self._fetchers.get(leader)
        if fetcher is not None:
            fetcher.forgive()

    def name_all_again(self) -> None:
        """Let the next fetch from each leader name everything. Call it now and then: whatever one
        side should have missed of what the other knows then comes right.
        """
        for fetcher in self._fetchers.values():
            fetcher.name_all_again()

    def send(self, broker_epoch: BrokerEpoch) -> None:
        """Send every fetch that may go out now."""
        now_ms = self._room.now_ms
        for leader, fetcher in self._fetchers.items():
            # Asked in each step of the broker, and nearly always so.
            if fetcher.in_flight and not (fetcher.fresh or fetcher.aside):
                continue
            if fetcher.aside:
                for partition in fetcher.due(now_ms):
                    assert partition.following is not None
                    partition.following.take_back()
                    self._add(fetcher, partition)
            if fetcher.may_send(now_ms):
                self._send(leader, fetcher, broker_epoch)
            if fetcher.aside or not fetcher.in_flight:
                at = fetcher.next_deadline
                if at is not None:
                    self._room.due(at)

    def _send(self, leader: BrokerId, fetcher: LeaderFetcher, broker_epoch: BrokerEpoch) -> None:
        settings = self._room.settings
        self._last_request_id += 1
        request_id = self._last_request_id
        questions, session_id, session_epoch, forgotten = fetcher.next_fetch(request_id)
        wait_ms = 0 if fetcher.has_more_to_name else settings.replica_fetch_wait_max_ms
        request = ReplicaFetch(
            self._hosted.me,
            broker_epoch,
            wait_ms,
            settings.replica_fetch_min_bytes,
            settings.replica_fetch_response_max_bytes,
            questions,
            session_id,
            session_epoch,
            forgotten,
        )
        self._room.outbox.append(SendReplicaFetch(leader, request_id, request))

    def on_fetched(
        self, wall_ms: int, leader: BrokerId, request_id: int, fetched: ReplicaFetched | None
    ) -> None:
        """Take an answer in, each partition by itself."""
        fetcher = self._fetchers.get(leader)
        if fetcher is None or not fetcher.answered(request_id):
            return
        if fetched is None:
            fetcher.on_failure(self._room.now_ms)
            return
        if fetched.failure is not None:
            if fetched.failure.code in _SESSION_LOST:
                fetcher.on_session_lost()
            else:
                fetcher.on_failure(self._room.now_ms)
            return
        fetcher.on_success(fetched.session_id)
        for data in fetched.partitions:
            partition = self._hosted.by_id.get((data.topic_id, data.partition))
            if partition is not None and self._fetcher_of.get(partition) is fetcher:
                self._on_data(wall_ms, fetcher, partition, request_id, data)
        if self._hosted.throttles.follower.wait_ms(self._room.now_ms):
            self._hold_back_all()

    def _on_data(
        self,
        wall_ms: int,
        fetcher: LeaderFetcher,
        partition: Partition,
        request_id: int,
        data: ReplicaPartitionData,
    ) -> None:
        following = partition.following
        assert following is not None
        refused = data.failure is not None or data.diverging is not None
        fetcher.answered_for(partition, refused=refused)
        action = following.on_answer(self._room.now_ms, request_id, data, partition.view())
        if action is None:
            return
        if isinstance(action, SetAside):
            fetcher.set_aside(partition, action.retry_at_ms)
            if data.failure is not None and data.failure.code == CorruptMessage.code:
                self._tell_stuck(partition, data.failure.message)
            return
        fault = self._do(wall_ms, partition, action)
        if fault is None:
            following.on_progress()
            if data.records and partition.is_throttled_follower:
                self._hosted.throttles.follower.passed(self._room.now_ms, len(data.records))
            # The next fetch would say that the records are safe here, or gone.
            due = self._syncs.are_due(partition)
            if not partition.log.bounds.start_is_written:
                due = self._starts.are_due(partition)
            if self._rebuilds.are_due(partition) or due:
                fetcher.remove(partition)
        elif partition.following is following:
            # One bad partition, or one batch broken on the way: asked for again later, while the
            # others go on (KIP-461).
            aside = following.set_aside(self._room.now_ms, fault)
            fetcher.set_aside(partition, aside.retry_at_ms)

    def _tell_stuck(self, partition: Partition, why: str) -> None:
        """It can be copied no further, and its leader has nobody to give way to."""
        now_ms = self._room.now_ms
        if now_ms >= self._tell_stuck_at_ms.get(partition, 0):
            self._tell_stuck_at_ms[partition] = now_ms + TELL_STUCK_EVERY_MS
            logger.warning(
                "%s stays out of sync here, at offset %d: its leader %d says: %s",
                partition.topic_partition, partition.log.log_end_offset, partition.leader, why,
            )  # fmt: skip

    def _waits_for_disk(self, partition: Partition) -> bool:
        return (
            self._syncs.is_running(partition)
            or self._starts.is_waiting(partition)
            or self._rebuilds.is_running(partition)
        )

    def _resume(self, partition: Partition) -> None:
        fetcher = self._fetcher_of.get(partition)
        if fetcher is None or partition in fetcher.active or partition in fetcher.aside:
            return
        if self._waits_for_disk(partition):
            return
        self._add(fetcher, partition)

    def _do(self, wall_ms: int, partition: Partition, action: FollowerAction) -> str | None:
        """The error of carrying it out, None when there was none."""
        committed = partition.high_watermark
        try:
            partition.follow(wall_ms, action)
            if partition.high_watermark > committed and len(self._room.fetches):
                self._room.fetches.check(partition)  # consumers that read this follower
        except (OSError, KafkaStorageError) as error:
            self._storage_failed(partition, error)
            return str(error)
        except PylogError as error:
            return f"{type(error).__name__}: {error}"
        return None

    @property
    def next_deadline(self) -> int | None:
        """The time of the next call of `send` without an event; None: no fetch waits for a time."""
        earliest: int | None = None
        for fetcher in self._fetchers.values():
            at = fetcher.next_deadline
            if at is not None and (earliest is None or at < earliest):
                earliest = at
        return earliest
