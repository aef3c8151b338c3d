"""The follower's side of one partition: what to ask the leader, and what its answer means.

Pure. It decides; `broker/replication/partition.py` does it to the log. The request that
carries the question, and its connection, are the business of `broker/replication/fetcher.py`.

Divergence is found by leader epochs alone (KIP-101, KIP-279, KIP-595): each fetch names the epoch
of the follower's last record; a leader that has it ending elsewhere says where, the follower cuts
and asks again, until they agree. Nothing is ever cut at a high watermark, nor before the leader was
asked.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from pylog.errors import OffsetOutOfRange
from pylog.model import BrokerId, LeaderEpoch, Offset, TopicId
from pylog.records.batch import Buffer
from pylog_broker.replication.fetch_messages import EpochEnd
from pylog_broker.replication.replica_fetch_messages import (
    ReplicaPartitionData,
    ReplicaPartitionFetch,
)
from pylog_broker.storage.checkpoints.leader_epochs import UNDEFINED_EPOCH, LeaderEpochCache


class FollowerStatus(Enum):
    """The state of a follower towards its leader."""

    FETCHING = "asks its leader for what comes after its log's end"
    SET_ASIDE = "could not use the last answer; asks again at `retry_at_ms`, the others go on"


class AppendFetched(NamedTuple):
    """Append `records` (maybe none); then the leader's marks hold, as far as the log reaches."""

    records: Buffer
    high_watermark: Offset
    log_start_offset: Offset


@dataclass(frozen=True, slots=True)
class CutTo:
    """Remove everything from `offset` on: it is not in the leader's log."""

    offset: Offset


@dataclass(frozen=True, slots=True)
class StartOverAt:
    """Empty the log; it begins at `offset` now. The leader has nothing of what was here."""

    offset: Offset


@dataclass(frozen=True, slots=True)
class SetAside:
    """Leave this partition out of fetches until `retry_at_ms`."""

    retry_at_ms: int
    reason: str


FollowerAction = AppendFetched | CutTo | StartOverAt | SetAside


class LogView(NamedTuple):
    """The follower's log, as far as the decisions need it."""

    log_start_offset: Offset
    log_end_offset: Offset
    epochs: LeaderEpochCache


@dataclass(slots=True, kw_only=True)
class FollowerState:
    """One broker following one leader of one partition in one leader epoch.

    Invariant: an answer is used only if it answers the newest question (or a later request of the
    same session, which asks it again), and the question still is what we would ask: same epoch,
    same log end.
    """

    topic_id: TopicId
    partition: int
    leader: BrokerId
    leader_epoch: LeaderEpoch
    fetch_max_bytes: int
    backoff_ms: int
    backoff_max_ms: int
    status: FollowerStatus = field(default=FollowerStatus.FETCHING, init=False)
    retry_at_ms: int = field(default=0, init=False)
    # failures in a row, and what the last one was
    failures: int = field(default=0, init=False)
    fault: str = field(default="", init=False)
    # the newest question, and the id of the request that named it last (see `sent_in`)
    asked: ReplicaPartitionFetch | None = field(default=None, init=False)
    asked_in: int = field(default=0, init=False)

    def question(
        self,
        log_end_offset: Offset,
        last_epoch: LeaderEpoch,
        log_start_offset: Offset,
        high_watermark: Offset,
    ) -> ReplicaPartitionFetch:
        """The next question.

        Always read off the log, so it cannot be forgotten over an empty answer (KAFKA-15510); the
        same object as long as nothing changed.
        """
        asked = self.asked
        if (
            asked is None
            or asked.fetch_offset != log_end_offset
            or asked.high_watermark != high_watermark
            or asked.last_fetched_epoch != last_epoch
            or asked.log_start_offset != log_start_offset
        ):
            asked = self.asked = ReplicaPartitionFetch(
                self.topic_id,
                self.partition,
                self.leader_epoch,
                log_end_offset,
                last_epoch,
                log_start_offset,
                self.fetch_max_bytes,
                high_watermark,
            )
        return asked

    def sent_in(self, request_id: int) -> None:
        """The newest question goes out in this request; answers to earlier ones are out of date."""
        self.asked_in = request_id

    def on_answer(
        self, now_ms: int, request_id: int, data: ReplicaPartitionData, log: LogView
    ) -> FollowerAction | None:
        """The action that the leader's answer asks for; None: it is out of date, ignore it."""
        asked = self.asked
        if asked is None or request_id < self.asked_in:
            return None
        if asked.fetch_offset != log.log_end_offset:
            return None
        if data.failure is not None:
            if data.failure.code == OffsetOutOfRange.code:
                return self._out_of_range(now_ms, data, log)
            return self.set_aside(now_ms, f"error {data.failure.code}: {data.failure.message}")
        if data.diverging is not None:
            return self._diverging(now_ms, data.diverging, data.log_start_offset, log)
        return AppendFetched(data.records, data.high_watermark, data.log_start_offset)

    def set_aside(self, now_ms: int, reason: str, wait_ms: int | None = None) -> SetAside:
        """Leave the partition out for `wait_ms`, or else for a while, longer each time."""
        wait = min(self.backoff_ms << min(self.failures, 16), self.backoff_max_ms)
        if wait_ms is not None:
            wait = wait_ms
        self.failures += 1
        self.fault = reason
        self.status = FollowerStatus.SET_ASIDE
        self.retry_at_ms = now_ms + wait
        return SetAside(self.retry_at_ms, reason)

    def take_back(self) -> None:
        """Its time has come: ask again. It counts as well again after a good answer."""
        self.status = FollowerStatus.FETCHING

    def on_progress(self) -> None:
        """An answer could be used."""
        if self.failures:
            self.failures = 0
            self.fault = ""

    def offset_to_cut_at_start(self, high_watermark: Offset, log_end_offset: Offset) -> Offset:
        """The offset to truncate to before the first fetch: the end of the log, so nothing goes.

        Only the leader's epochs tell where the logs diverge. Truncation to the high watermark would
        lose acknowledged records when this broker then becomes leader (KIP-101).
        """
        return log_end_offset

    def _diverging(
        self, now_ms: int, leader_end: EpochEnd, leader_start: Offset, log: LogView
    ) -> FollowerAction:
        cut = self._truncation_offset(leader_end, log)
        if log.log_start_offset < leader_start and cut <= leader_start:
            # Nothing of it is in the leader's log. Records below that may differ from what was
            # committed there: the leader's epochs begin with its log, wherever they once began.
            return StartOverAt(leader_start)
        if cut < log.log_start_offset:
            return StartOverAt(cut)
        latest = log.epochs.latest_entry
        if cut < log.log_end_offset or (latest is not None and latest.start_offset >= cut):
            return CutTo(cut)
        return self.set_aside(
            now_ms,
            f"the leader says epoch {leader_end.epoch} ends at {leader_end.end_offset}, but "
            f"nothing here (end {log.log_end_offset}, epoch {log.epochs.latest}) contradicts it",
        )

    def _truncation_offset(self, leader_end: EpochEnd, log: LogView) -> Offset:
        """The end of what we may share with the leader (KIP-279)."""
        own = log.epochs.end_offset_for(leader_end.epoch, log.log_end_offset)
        if own.epoch == UNDEFINED_EPOCH:
            return min(leader_end.end_offset, log.log_end_offset)
        if own.epoch == leader_end.epoch:
            return min(own.end_offset, leader_end.end_offset)
        # We do not have the epoch that the leader named. Our records of later ones are not the
        # leader's; whether it shares our next older one, the next fetch will tell.
        return own.end_offset

    def _out_of_range(
        self, now_ms: int, data: ReplicaPartitionData, log: LogView
    ) -> FollowerAction:
        start = data.log_start_offset
        # Emptying a log is for one that the leader's has left behind, or that is empty anyway. Any
        # other out-of-range is a fault of somebody, and not a reason to lose a replica.
        if start > log.log_end_offset or (
            start >= 0 and log.log_start_offset == log.log_end_offset
        ):
            return StartOverAt(start)
        return self.set_aside(
            now_ms,
            f"the leader says that offset {log.log_end_offset} is out of range, but its log "
            f"starts at {start}",
        )
