"""One replica on this broker: its log, its role, its epochs and its high watermark.

A partition does to its log what `isr.py` and `follower.py` decide. It knows no requests, no other
partitions and no waiting; whoever calls it wakes whom it concerns. Errors of the log come out as
exceptions (`OSError`, `PylogError`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final

from pylog.errors import (
    FencedLeaderEpoch,
    KafkaStorageError,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    UnknownLeaderEpoch,
)
from pylog.model import (
    NO_LEADER,
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    Offset,
    PartitionEpoch,
    TopicId,
    TopicPartition,
)
from pylog_broker.config import TopicConfig
from pylog_broker.metadata.messages import Failure
from pylog_broker.metadata.records import PartitionRecord
from pylog_broker.replication.fetch_messages import EpochEnd
from pylog_broker.replication.follower import (
    AppendFetched,
    CutTo,
    FollowerAction,
    FollowerState,
    LogView,
    StartOverAt,
)
from pylog_broker.replication.isr import LeaderState
from pylog_broker.replication.partition_state import PartitionState
from pylog_broker.replication.replica_fetch_messages import ReplicaPartitionFetch
from pylog_broker.replication.settings import ReplicationSettings
from pylog_broker.storage.checkpoints.leader_epochs import UNDEFINED_EPOCH
from pylog_broker.storage.errors import DiskFull
from pylog_broker.throttled_replicas import is_throttled

if TYPE_CHECKING:
    from pylog_broker.storage.log.log import Log

ANY_EPOCH: Final = LeaderEpoch(-1)
"""As a request's leader epoch: do not check."""


class Partition:
    """A replica. At most one of `leading` and `following` is set; neither while nobody leads.

    Invariants: log start <= `high_watermark` <= log end; `leader_epoch` and `partition_epoch` never
    decrease; everything below `high_watermark` was committed by some leader; an offline replica
    neither leads nor follows.
    """

    __slots__ = (
        "_log",
        "awaited_markers",
        "config",
        "directory_id",
        "following",
        "high_watermark",
        "is_reassigning",
        "is_watched",
        "isr",
        "leader",
        "leader_epoch",
        "leading",
        "log",
        "me",
        "no_room",
        "offline",
        "partition_epoch",
        "replicas",
        "topic_id",
        "topic_partition",
    )

    log: Log
    """Only to be asked for while the replica is not offline."""

    def __init__(
        self,
        me: BrokerId,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        config: TopicConfig,
        log: Log | None,
        high_watermark: Offset,
        *,
        is_watched: bool = False,
    ) -> None:
        """`is_watched`: a listener is told of its leadership and its high watermark."""
        self.me = me
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.config = config
        self._log = log
        self.high_watermark = high_watermark
        self.is_watched = is_watched
        self.leader = NO_LEADER
        self.leader_epoch = LeaderEpoch(-1)
        self.partition_epoch = PartitionEpoch(-1)
        self.replicas: tuple[BrokerId, ...] = ()
        self.isr: tuple[BrokerId, ...] = ()
        self.is_reassigning = False
        self.directory_id = ""  # of the log directory in which the metadata have this replica
        self.leading: LeaderState | None = None
        self.following: FollowerState | None = None
        self.awaited_markers = 0  # of overwrites for which the log begins anew already
        self.no_room = False  # it asked to give up the lead, because its disk is full
        self.offline = "" if log is not None else "its log could not be opened"
        if log is not None:
            self.log = log
            # A checkpoint may be older than a truncation, or newer than what survived a crash.
            self.clamp_high_watermark()

    @property
    def has_log(self) -> bool:
        """Whether there is a log at all (also an offline replica may have one)."""
        return self._log is not None

    def __repr__(self) -> str:
        role = "leader" if self.leading else "follower" if self.following else "idle"
        return f"<{self.topic_partition} {role} epoch {self.leader_epoch}>"

    def clamp_high_watermark(self) -> None:
        """Bring the high watermark back between the log's start and end."""
        log = self.log
        self.high_watermark = max(
            log.log_start_offset, min(self.high_watermark, log.log_end_offset)
        )

    # ---- roles ---------------------------------------------------------------------------------

    def become_leader(
        self,
        now_ms: int,
        record: PartitionRecord,
        eligible: Mapping[BrokerId, BrokerEpoch],
        settings: ReplicationSettings,
        state_type: type[LeaderState],
    ) -> None:
        """Lead from now on, in the record's epoch."""
        self.take(record)
        log = self.log
        if record.leader_epoch != log.epochs.latest:
            log.assign_epoch(record.leader_epoch, log.log_end_offset)
        began = log.epochs.latest_entry
        assert began is not None
        assert began.epoch == record.leader_epoch, f"{began} in the log, {record} in the metadata"
        self.following = None
        self.leading = state_type(
            me=self.me,
            replicas=record.replicas,
            isr=record.isr,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
            epoch_start_offset=began.start_offset,
            log_end_offset=log.log_end_offset,
            high_watermark=self.high_watermark,
            min_isr=self.config.min_insync_replicas,
            lag_time_max_ms=settings.replica_lag_time_max_ms,
            backoff_ms=settings.alter_partition_backoff_ms,
            eligible=eligible,
            now_ms=now_ms,
            failed=record.failed_replicas,
            adding=record.adding_replicas,
        )

    def become_follower(
        self,
        record: PartitionRecord,
        settings: ReplicationSettings,
        state_type: type[FollowerState],
    ) -> None:
        """Follow the record's leader from now on; nobody, if it names none."""
        self.take(record)
        self.leading = None
        self.following = None
        if record.leader == NO_LEADER:
            return
        state = self.following = state_type(
            topic_id=self.topic_id,
            partition=self.topic_partition.partition,
            leader=record.leader,
            leader_epoch=record.leader_epoch,
            fetch_max_bytes=settings.replica_fetch_max_bytes,
            backoff_ms=settings.replica_fetch_backoff_ms,
            backoff_max_ms=settings.replica_fetch_backoff_max_ms,
        )
        end = self.log.log_end_offset
        cut = state.offset_to_cut_at_start(self.high_watermark, end)
        if cut < end:
            self._cut(cut)

    def retire(self, record: PartitionRecord | None, reason: str = "") -> None:
        """Neither lead nor follow any more; with a reason the replica is offline."""
        if record is not None:
            self.take(record)
        self.leading = None
        self.following = None
        self.offline = reason or self.offline

    def note_isr(self, isr: tuple[BrokerId, ...], partition_epoch: PartitionEpoch) -> None:
        """The committed ISR changed within the leader epoch."""
        self.isr = isr
        self.partition_epoch = partition_epoch

    def take(self, record: PartitionRecord) -> None:
        """Note the record's epochs, leader, replicas and ISR; the role stays."""
        assert record.leader_epoch >= self.leader_epoch, (record, self)
        assert record.partition_epoch >= self.partition_epoch, (record, self)
        self.leader = record.leader
        self.leader_epoch = record.leader_epoch
        self.partition_epoch = record.partition_epoch
        self.replicas = record.replicas
        self.isr = record.isr
        self.is_reassigning = record.is_reassigning
        self.directory_id = record.directory_of(self.me)

    @property
    def is_throttled_follower(self) -> bool:
        """Whether this replica is out of sync and keeps to the rate for those (KIP-73)."""
        entries = self.config.follower_replication_throttled_replicas
        number = self.topic_partition.partition
        return bool(entries) and self.me not in self.isr and is_throttled(entries, number, self.me)

    def is_throttled_leader_of(self, follower: BrokerId) -> bool:
        """Whether that follower is out of sync and copies from here at the rate for those."""
        entries = self.config.leader_replication_throttled_replicas
        number = self.topic_partition.partition
        return bool(entries) and follower not in self.isr and is_throttled(entries, number, self.me)

    # ---- the follower's log ----------------------------------------------------------------------

    def question(self) -> ReplicaPartitionFetch:
        """The next question of this follower to its leader; the same object while nothing
        changed.
        """
        following, log = self.following, self.log
        assert following is not None
        bounds = log.bounds
        # not a start that a crash would take back: the leader counts on it
        start = Offset(bounds.written_start)
        return following.question(Offset(bounds.end), log.epochs.latest, start, self.high_watermark)

    def view(self) -> LogView:
        """The log as `FollowerState` looks at it."""
        log = self.log
        bounds = log.bounds
        return LogView(Offset(bounds.start), Offset(bounds.end), log.epochs)

    def follow(self, wall_ms: int, action: FollowerAction) -> bool:
        """Do what the follower's state decided. True when records were appended or cut.

        CorruptMessage and other PylogErrors: the fetched bytes are refused, the log is unchanged.
        """
        match action:
            case AppendFetched():
                if action.records:
                    try:
                        self.log.append_as_follower(action.records, wall_ms=wall_ms)
                    except DiskFull:
                        self._follow_start(action.log_start_offset)  # what goes makes room
                        raise
                self._follow_marks(action.high_watermark, action.log_start_offset)
                return bool(action.records)
            case CutTo():
                self._cut(action.offset)
                return True
            case StartOverAt():
                try:
                    self.log.truncate_fully_and_start_at(action.offset)
                finally:  # it may begin there though its files are not made yet (KAFKA-9491)
                    self.clamp_high_watermark()
                self.high_watermark = action.offset
                return True
        return False

    def _cut(self, offset: Offset) -> None:
        try:
            self.log.truncate_to(offset)
        finally:  # it may end there though its files are not cut yet
            self.clamp_high_watermark()

    def _follow_marks(self, leader_high_watermark: Offset, leader_start: Offset) -> None:
        # Only after the records, and no further than they reach (KAFKA-14704). It never moves
        # back: what was committed once stays committed, though a new leader may not know it yet.
        bounds = self.log.bounds
        committed = min(leader_high_watermark, Offset(bounds.end))
        if committed > self.high_watermark:
            self.high_watermark = committed
        if leader_start > bounds.start:
            self._follow_start(leader_start)

    def _follow_start(self, leader_start: Offset) -> None:
        start = min(leader_start, self.high_watermark)
        if start > self.log.log_start_offset:
            self.log.move_log_start(start)

    # ---- checks of requests ----------------------------------------------------------------------

    def leader_fault(self, current_leader_epoch: LeaderEpoch = ANY_EPOCH) -> Failure | None:
        """The refusal of a request for the leader, in this epoch; None if it can be served here."""
        if self.offline:
            return Failure(
                KafkaStorageError.code, f"{self.topic_partition} is offline here: {self.offline}"
            )
        fault = self.epoch_fault(current_leader_epoch)
        if fault is None and self.leading is None:
            leader = f"broker {self.leader}" if self.leader != NO_LEADER else "nobody"
            return Failure(
                NotLeaderOrFollower.code,
                f"broker {self.me} does not lead {self.topic_partition}; "
                f"in epoch {self.leader_epoch} {leader} does",
            )
        return fault

    def follower_fault(self, current_leader_epoch: LeaderEpoch) -> Failure | None:
        """The refusal of a consumer that cannot read this follower (KIP-392). The consumer must
        know the leader's epoch: the leader of that epoch has sent it here.
        """
        if self.following is None or current_leader_epoch < 0:
            return self.leader_fault(current_leader_epoch)
        fault = self.epoch_fault(current_leader_epoch)
        if fault is None and self.me not in self.isr:
            return Failure(
                NotLeaderOrFollower.code,
                f"{self.topic_partition} is not in sync on broker {self.me}: its readers would "
                "wait for what others have",
            )
        return fault

    def epoch_fault(self, current_leader_epoch: LeaderEpoch) -> Failure | None:
        """FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH, if the request is from another epoch."""
        if current_leader_epoch == self.leader_epoch or current_leader_epoch < 0:
            return None
        if current_leader_epoch < self.leader_epoch:
            return Failure(
                FencedLeaderEpoch.code,
                f"leader epoch {current_leader_epoch} of {self.topic_partition} is over, "
                f"the current one is {self.leader_epoch}",
            )
        return Failure(
            UnknownLeaderEpoch.code,
            f"leader epoch {current_leader_epoch} of {self.topic_partition} is not known here yet, "
            f"broker {self.me} is at {self.leader_epoch}",
        )

    def out_of_range(self, offset: Offset) -> Failure:
        """OFFSET_OUT_OF_RANGE with the range."""
        log = self.log
        return Failure(
            OffsetOutOfRange.code,
            f"offset {offset} of {self.topic_partition} is outside "
            f"[{log.log_start_offset}, {log.log_end_offset}]",
        )

    def position_fault(
        self, fetch_offset: Offset, last_fetched_epoch: LeaderEpoch
    ) -> Failure | EpochEnd | None:
        """The fault of a reader that cannot go on at `fetch_offset`: out of range, or diverged.

        Below the log start is out of range even when the epochs diverge too (KAFKA-12996).
        """
        log = self.log
        bounds = log.bounds
        end_offset = Offset(bounds.end)
        if fetch_offset < bounds.start:
            return self.out_of_range(fetch_offset)
        epochs = log.epochs
        if last_fetched_epoch >= 0 and not (
            last_fetched_epoch == epochs.latest and fetch_offset <= end_offset
        ):
            end = epochs.end_offset_for(last_fetched_epoch, end_offset)
            if end.epoch == UNDEFINED_EPOCH:
                return Failure(
                    UnknownLeaderEpoch.code,
                    f"epoch {last_fetched_epoch} is newer than any record of "
                    f"{self.topic_partition} at its leader {self.me}",
                )
            if end.epoch < last_fetched_epoch or end.end_offset < fetch_offset:
                return EpochEnd(end.epoch, end.end_offset)
        return self.out_of_range(fetch_offset) if fetch_offset > end_offset else None

    def follower_position_fault(self, fetch_offset: Offset) -> Failure | None:
        """The same for a reader of this follower. Records beyond its high watermark may yet be
        truncated here, so only the leader can tell that logs diverge.
        """
        bounds = self.log.bounds
        if bounds.start <= fetch_offset <= bounds.end:
            return None
        return self.out_of_range(fetch_offset)

    # ---- marks -----------------------------------------------------------------------------------

    @property
    def last_stable_offset(self) -> Offset:
        """Up to here a reader of committed transactions may go."""
        return self._log.last_stable_offset(self.high_watermark) if self._log else Offset(-1)

    @property
    def is_under_min_isr(self) -> bool:
        """Whether fewer than `min.insync.replicas` are in the committed ISR; of a leader."""
        return self.leading is not None and self.leading.is_under_min_isr

    def low_watermark(self, live: Collection[BrokerId]) -> Offset:
        """The lowest log start over this leader and its live followers."""
        lowest = self.log.log_start_offset
        leading = self.leading
        assert leading is not None
        for broker, progress in leading.followers.items():
            if broker in live and progress.log_start_offset < lowest:
                lowest = progress.log_start_offset
        return lowest

    def describe(self) -> PartitionState:
        """A snapshot for tests, metrics and describe."""
        log = self._log
        leading = self.leading
        return PartitionState(
            topic_partition=self.topic_partition,
            topic_id=self.topic_id,
            leader=self.leader,
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
            replicas=self.replicas,
            isr=self.isr,
            log_start_offset=log.log_start_offset if log else Offset(-1),
            high_watermark=self.high_watermark,
            log_end_offset=log.log_end_offset if log else Offset(-1),
            follower_ends=tuple(
                (broker, progress.end_offset) for broker, progress in leading.followers.items()
            )
            if leading
            else (),
            directory_id=self.directory_id,
            fault=self.offline or (self.following.fault if self.following else ""),
        )
