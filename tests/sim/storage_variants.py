"""Known bugs of storage, put in on purpose: of retention, cleaner, checkpoints, syncs and disks.

The rows cited (B-..) are those of the reference of known bugs, each once in a real system.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from pylog.config import LONG_MAX
from pylog.errors import KafkaStorageError
from pylog.model import (
    LeaderEpoch,
    Offset,
    TopicId,
    TopicPartition,
)
from pylog_broker.controller import topic_growth
from pylog_broker.controller.brokers import Brokers
from pylog_broker.controller.returning import Loss, Returning, Whereabouts
from pylog_broker.metadata.image import BrokerRegistration
from pylog_broker.metadata.messages import ReplicaKey, ReplicasFailed
from pylog_broker.replication.effects import ReplicaFailed
from pylog_broker.replication.isr import LeaderState
from pylog_broker.replication.partition import Partition
from pylog_broker.storage.checkpoints.checkpoint_writer import (
    LogStartsTask,
    OffsetCheckpoint,
    StagedCheckpoint,
)
from pylog_broker.storage.cleaner.choice import Cleanable
from pylog_broker.storage.cleaner.clean_plan import CleanPlan
from pylog_broker.storage.cleaner.cleaner import LogCleaner
from pylog_broker.storage.log import guard, log_state
from pylog_broker.storage.log.durability import Durability
from pylog_broker.storage.log.guard import FaultGuard
from pylog_broker.storage.log.log import Log, LogRead
from pylog_broker.storage.manager.log_checkpoints import LogCheckpoints
from pylog_broker.storage.manager.log_directories import LogDirectories
from pylog_broker.storage.recovery import trust
from pylog_broker.storage.segments.flush_task import FlushTask
from pylog_broker.storage.segments.retention import RetentionClock
from tests.sim.broker_calls import BrokerCalls
from tests.sim.swarm import Swarm, Upkeep
from tests.sim.variant import Variant
from tests.sim.variant_parts import FOR_EVER, many_topics, much_forgotten, not_at_all

# ---- a log whose first segment was lost begins at the second one ---------------------------------


def _begins_where_it_begins(*_found: object) -> bool:
    return False


# ---- what forgets, forgets too much --------------------------------------------------------------

_production_doomed = log_state.doomed_segments


_production_candidates = LogCleaner.candidates


_production_plan = LogCleaner._plan


_production_write_partition = topic_growth.write_partition


_production_read = Log.read


_production_position_fault = Partition.position_fault


def _doomed_beyond(segments: Any, config: Any, **known: Any) -> Any:
    return _production_doomed(segments, config, **{**known, "high_watermark": FOR_EVER})


def _any_clock(self: RetentionClock, _retention_ms: int) -> int | None:
    return None if self._last is None else self._last.wall_ms


def _clean_beyond(
    self: LogCleaner, wall_ms: int, marks: Mapping[TopicPartition, Offset]
) -> list[Cleanable]:
    ends = {name: self._logs[name].log_end_offset for name in marks if name in self._logs}
    return _production_candidates(self, wall_ms, ends)


def _no_delete_retention(self: LogCleaner, *args: Any) -> CleanPlan:
    return replace(_production_plan(self, *args), delete_retention_ms=0)


def _taken_for_written(self: LogStartsTask) -> bool:
    self.is_written = True
    return False


def _read_on_disk(self: Log, offset: int, max_bytes: int, **how: Any) -> LogRead:
    if self.segments[0].base_offset <= offset < self.log_start_offset:
        return self._reader.read(offset, max_bytes, **how)
    return _production_read(self, offset, max_bytes, **how)


def _on_disk(self: Partition, offset: Offset, epoch: LeaderEpoch) -> Any:
    if self.log.segments[0].base_offset <= offset < self.log.log_start_offset:
        return None
    return _production_position_fault(self, offset, epoch)


def _any_isr_will_do(_self: Partition) -> bool:
    return False


def _deletions_among_deaths(swarm: Swarm) -> Swarm:
    """The leader that answers is alone, and is replaced by one that was away meanwhile."""
    return replace(
        swarm,
        brokers=3,
        replication_factor=3,
        min_insync=2,
        log_dirs=1,
        upkeep=Upkeep("delete", -1, -1, 0, 40, 0.0, 700.0, ()),
        faults=("delete_records", "delete_records", "kill", "kill"),
        fault_interval_ms=150.0,
        away_ms=2_000,
        replica_lag_ms=300,
        disk_wait_ms=1.0,
    )


def _new_logs_without_power(swarm: Swarm) -> Swarm:
    """Logs of several segments, none of which was ever synced."""
    upkeep = Upkeep("delete", -1, -1, 0, 40, 0.0, 700.0, ())
    return replace(
        swarm,
        brokers=3,
        replication_factor=3,
        min_insync=2,
        partitions=1,
        log_dirs=1,
        upkeep=upkeep,
        segment_bytes=1_024,
        faults=("recreate", "power", "power", "recreate"),
        fault_interval_ms=100.0,
        away_ms=200,
        write_back_ms=60_000.0,
        flush_ms=60_000,
        flush_messages=LONG_MAX,
        disk_wait_ms=100.0,
        produce_interval_ms=10.0,
        session_timeout_ms=1_000,
    )


def _one_too_low(ledger: Any, topic_id: Any, number: int, *what: Any) -> None:
    _production_write_partition(ledger, topic_id, number - 1, *what)


# ---- several log directories ---------------------------------------------------------------------

_production_directories_failed = Brokers._directories_failed


_production_where = Returning.where


def _replicas_stay(
    self: Brokers, registration: BrokerRegistration, request: ReplicasFailed
) -> list[ReplicaKey]:
    _production_directories_failed(self, registration, request)
    return []


def _not_by_one(_self: BrokerCalls, _effect: ReplicaFailed) -> None:
    return None


def _whole_in_its_place(self: Returning, replica: ReplicaKey, assigned: str) -> Whereabouts:
    found = _production_where(self, replica, assigned)
    if found.directory_id == assigned and found.loss is Loss.TAIL:
        return replace(found, loss=Loss.NONE)
    return found


def _whole_elsewhere(self: Returning, replica: ReplicaKey, assigned: str) -> Whereabouts:
    found = _production_where(self, replica, assigned)
    if found.directory_id != assigned and found.loss is Loss.TAIL:
        return replace(found, loss=Loss.NONE)
    return found


def _any_copy(
    self: LogDirectories, topic_id: TopicId, partition: int, _directory_id: str = ""
) -> Log | None:
    found = (manager.by_id(topic_id, partition) for manager in reversed(self.opened))
    return next((log for log in found if log is not None), None)


def _with_disks(*faults: str) -> Callable[[Swarm], Swarm]:
    def leaning(swarm: Swarm) -> Swarm:
        return replace(
            swarm,
            brokers=3,
            replication_factor=3,
            min_insync=2,
            log_dirs=2,
            faults=(*faults, *faults, "kill"),
            fault_interval_ms=400.0,
            away_ms=500,
        )

    return leaning


def _failing_disks(swarm: Swarm) -> Swarm:
    """An access fails now and then, and what was not synced is lost soon."""
    return replace(
        swarm,
        brokers=3,
        replication_factor=3,
        min_insync=2,
        faults=("sync_fails", "disk_fails", "power", "stop"),
        fault_interval_ms=300.0,
        away_ms=500,
        flush_ms=1,
        flush_messages=1,
    )


def _many_deletions(swarm: Swarm) -> Swarm:
    """Keys of a compacted topic, which is cleaned again and again, are deleted."""
    upkeep = Upkeep("compact", -1, -1, 6_000, 10, 0.3, 100.0, ())
    return replace(swarm, upkeep=upkeep, segment_bytes=1_024, produce_interval_ms=20.0)


def _syncs_what_it_can(self: FlushTask) -> None:
    self._history.begin(self)
    for path in self._paths:
        with suppress(OSError):
            self._sync(path)
    self._history.end(self)


def _forgiven(_self: FaultGuard, error: KafkaStorageError, **_how: object) -> KafkaStorageError:
    return error


# ---- syncs, checkpoints, closes, errors of the moment -------------------------------------------


def _said_to_be_durable(self: Durability, end: int, **_how: object) -> None:
    self._synced = self.point = max(self.point, end)


def _with_power(swarm: Swarm) -> Swarm:
    """Have unsynced data lost again and again, while syncs take their time and logs are
    truncated."""
    return replace(
        swarm,
        brokers=3,
        replication_factor=3,
        min_insync=2,
        partitions=1,
        upkeep=None,
        log_dirs=1,
        faults=("power", "one_way", "power", "isolate", "stop"),
        fault_interval_ms=300.0,
        away_ms=900,
        replica_lag_ms=300,
        write_back_ms=60_000.0,
        flush_ms=1,
        flush_messages=LONG_MAX,
        disk_wait_ms=40.0,
        weak_producers=2,
        clients=replace(swarm.clients, weak_acks=1, life_ms=1e9),
        produce_interval_ms=20.0,
        session_timeout_ms=1_000,
    )


_production_settle = Durability.settle


_production_place = OffsetCheckpoint.place


def _in_any_order(
    self: OffsetCheckpoint, staged: StagedCheckpoint | None, *, directory_synced: bool
) -> None:
    self._staged = staged
    _production_place(self, staged, directory_synced=directory_synced)


def _of_any_generation(self: Durability, task: FlushTask, generation: int) -> None:
    synced, made_for = self._synced, task.generation
    task.generation = generation
    _production_settle(self, task, generation)
    if made_for != generation:
        self._synced = synced


def _cut_under_syncs(swarm: Swarm) -> Swarm:
    """Leaders that lose their followers write long tails, and are followers themselves later."""
    return replace(
        _with_power(swarm),
        segment_bytes=1_024,
        faults=("sync_outlives_cut",),
        fault_interval_ms=1_000.0,
        flush_ms=200,
        disk_wait_ms=3.0,
    )


def _newer_than_checkpoints(swarm: Swarm) -> Swarm:
    """Topics of one name after the other, and records that are deleted, while a checkpoint waits
    for the disk.
    """
    return replace(
        much_forgotten(swarm),
        faults=("checkpoint_outlived",),
        fault_interval_ms=1_000.0,
        away_ms=300,
        disk_wait_ms=3.0,
    )


def _never_synced(swarm: Swarm) -> Swarm:
    """Segments of many pages; losses of power, each of a broker that was up for a while."""
    return replace(
        _with_power(swarm),
        segment_bytes=4_000,
        faults=("power",),
        fault_interval_ms=400.0,
        away_ms=200,
        disk_wait_ms=1.0,
    )


def _with_moments(swarm: Swarm) -> Swarm:
    return replace(swarm, faults=("short_of_files", "one_short_moment", "kill"))


STORAGE_VARIANTS: dict[str, Variant] = {
    "beginning_lost": Variant(
        "I15: recovery lets a log begin later when a loss of power took its first segment",
        ((trust, "lost_its_beginning", _begins_where_it_begins),),
        leaning=_new_logs_without_power,
        caught_by=47,
    ),
    "retention_beyond_high_watermark": Variant(
        "B-S16: retention deletes segments that are not committed",
        ((log_state, "doomed_segments", _doomed_beyond),),
        caught_by=11,
    ),
    "clock_believed": Variant(
        "B-S18: a clock that jumped days ahead makes every record too old",
        ((RetentionClock, "time_for", _any_clock),),
        caught_by=26,
    ),
    "cleaned_beyond_high_watermark": Variant(
        "B-S25: compaction lets a record go for a newer one that is not committed",
        ((LogCleaner, "candidates", _clean_beyond),),
        caught_by=3,
    ),
    "tombstones_at_once": Variant(
        "B-S24: compaction removes deletions before readers can have seen them",
        ((LogCleaner, "_plan", _no_delete_retention),),
        leaning=_many_deletions,
        caught_by=3,
    ),
    "log_start_in_memory": Variant(
        "B-S17: a log start that moved is not written down, and deleted records come back",
        (
            (LogCheckpoints, "write_log_starts", not_at_all),
            (LogStartsTask, "settle", _taken_for_written),
        ),
        caught_by=3,
    ),
    "deleted_is_served": Variant(
        "Records below the log start are given to readers",
        ((Log, "read", _read_on_disk), (Partition, "position_fault", _on_disk)),
        caught_by=11,
    ),
    "deleted_under_min_isr": Variant(
        "DeleteRecords is answered by a leader that may be replaced without its ISR",
        ((Partition, "is_under_min_isr", property(_any_isr_will_do)),),
        caught_by=0,
        leaning=_deletions_among_deaths,
    ),
    "old_marks_under_new_name": Variant(
        "B-R32: a re-created topic takes up the checkpoints of the old one",
        ((LogCheckpoints, "forget", not_at_all), (LogCheckpoints, "deleted", not_at_all)),
        leaning=many_topics,
        caught_by=11,
    ),
    "min_isr_not_raised": Variant(
        "B-R14: a leader does not hear that min.insync.replicas has changed",
        ((LeaderState, "on_min_isr_changed", not_at_all),),
        caught_by=11,
    ),
    "grown_over_the_last": Variant(
        "Growing a topic begins with the partition that was the last",
        ((topic_growth, "write_partition", _one_too_low),),
        caught_by=11,
    ),
    "failed_directory_kept_in_isr": Variant(
        "The replicas of a log directory that has failed stay in their ISRs",
        (
            (Brokers, "_directories_failed", _replicas_stay),
            (BrokerCalls, "report_failed", _not_by_one),
        ),
        leaning=_with_disks("directory_fails"),
    ),
    "returned_directory_whole": Variant(
        "A log directory that comes back after a loss of power counts as whole",
        ((Returning, "where", _whole_in_its_place),),
        leaning=_with_disks("directory_missing", "power"),
    ),
    "moved_replica_whole": Variant(
        "An old copy of a replica in another log directory counts as whole",
        ((Returning, "where", _whole_elsewhere),),
        leaning=_with_disks("replica_copied", "replica_restored"),
    ),
    "replica_taken_twice": Variant(
        "A replica is taken from whichever log directory has a copy of it",
        ((LogDirectories, "by_id", _any_copy),),
        leaning=_with_disks("replica_copied"),
    ),
    "failed_disk_believed": Variant(
        "B-S13: a log goes on after an error of its disk, and its next sync is believed",
        ((FaultGuard, "fail", _forgiven), (FlushTask, "run", _syncs_what_it_can)),
        leaning=_failing_disks,
        caught_by=8,
    ),
    "sync_of_cut_log": Variant(
        "A sync that began before a log was cut makes what was written since count as synced",
        ((Durability, "settle", _of_any_generation),),
        leaning=_cut_under_syncs,
    ),
    "older_checkpoint_placed": Variant(
        "A checkpoint that was staged before a newer one was written takes its place",
        ((OffsetCheckpoint, "place", _in_any_order),),
        leaning=_newer_than_checkpoints,
        caught_by=0,
    ),
    "sync_not_done": Variant(
        "Syncs of the pool are believed that never took place",
        ((FlushTask, "run", not_at_all),),
        leaning=_never_synced,
        caught_by=2,
    ),
    "closed_without_a_sync": Variant(
        "A clean stop does not sync what it says to be synced",
        ((Durability, "flush", _said_to_be_durable),),
        leaning=_with_power,
    ),
    "moment_is_fatal": Variant(
        "B-S13: a process that is short of descriptors for a moment gives healthy logs up",
        ((guard, "OF_THE_MOMENT", frozenset()),),
        leaning=_with_moments,
        caught_by=3,
    ),
    "mark_above_a_cut": Variant(
        "After a crash a high watermark counts that was above a cut, for what came in its place",
        ((LogCheckpoints, "ends_at", not_at_all),),
        caught_by=912748,
    ),
}
