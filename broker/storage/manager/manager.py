"""All logs of one broker directory: opening, creating, deleting, checkpoints, the clean stop.

The process's loop owns it. A state that it cannot cure by itself raises a `StorageStartError`; one
damaged log does not stop the others: it stands in `failed` and its replica is offline.

The controller must hear of these logs, so that it counts on nothing that is not there:
`failed_replicas` cannot be used now; `lost_replicas` can, but may lack records; and when
`log_intact` is False any log may. Only a loss of power without a clean stop, and damage that cannot
be given a name, is everybody's: on the same boot a kill keeps what was written, and each log is
read at the start and speaks for itself. So one rotten log says nothing about the others.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Self

from pylog.errors import InvalidTopic, KafkaStorageError
from pylog.model import BrokerId, Offset, TopicId, TopicPartition, topic_name_fault
from pylog_broker.config import BrokerConfig, TopicConfig
from pylog_broker.storage.checkpoints.checkpoint_writer import CheckpointTask, LogStartsTask
from pylog_broker.storage.cleaner.cleaner import LogCleaner
from pylog_broker.storage.directories.claimed_directory import (
    ClaimedDirectory,
    locked_while_opening,
)
from pylog_broker.storage.directories.clean_marker import ClosedLog, closed_log, write_clean_marker
from pylog_broker.storage.directories.clock_checkpoint import ClockCheckpoint
from pylog_broker.storage.directories.directory import MetaProperties, write_meta
from pylog_broker.storage.directories.identity import Identity
from pylog_broker.storage.directories.partition_directories import (
    find_partitions,
    read_topic_id,
    remove_tree,
)
from pylog_broker.storage.files import Files, is_of_the_moment
from pylog_broker.storage.log.log import Environment, Log
from pylog_broker.storage.manager.health import LogHealth, ReplicaKey
from pylog_broker.storage.manager.log_checkpoints import LogCheckpoints
from pylog_broker.storage.manager.replica_logs import ReplicaLogs
from pylog_broker.storage.manager.upkeep import LogUpkeep, RemovalTask
from pylog_broker.storage.producers.producer_budget import ProducerBudget
from pylog_broker.storage.producers.snapshot_task import SnapshotTask
from pylog_broker.storage.read_leases import ReadLeases
from pylog_broker.storage.segments.flush_task import FlushTask
from pylog_broker.storage.segments.open_segments import OpenSegments
from pylog_broker.storage.tail_cache import TailBudget

logger = logging.getLogger(__name__)


class LogManager:
    """Invariant: the directory's lock is held until `close`."""

    def __init__(
        self,
        files: Files,
        directory: str,
        lock: int,
        identity: Identity,
        config: BrokerConfig,
        jitter: Callable[[int], int],
        wall_ms: int,
        tail_budget: TailBudget | None,
        readers: OpenSegments | None,
        producer_budget: ProducerBudget | None,
    ) -> None:
        """Not for callers: use `open`."""
        self.directory = directory
        self._identity = identity
        self._files = files
        self._lock = lock
        self._config = config
        self._wall_ms = wall_ms
        self._retired = False
        self._logs: dict[TopicPartition, Log] = {}
        self._by_id: dict[tuple[TopicId, int], Log] = {}
        self._health = LogHealth(files, directory, self._logs, self._by_id)
        self.failed = self._health.failed
        """Replicas that could not be opened, and why. Their files are left alone."""
        checkpoints = LogCheckpoints(files, directory, self._logs, self.failed)
        self._checkpoints = checkpoints
        clock_file = ClockCheckpoint(files, directory, self.meta.boot_id)
        self.producer_budget = producer_budget or ProducerBudget()
        """The limit on producer ids that logs know; shared with the directories beside this one."""
        self.producer_budget.configure(config)
        self._upkeep = LogUpkeep(
            files, self._logs, checkpoints, config, clock_file, directory, self.producer_budget
        )
        self.cleaner = LogCleaner(
            files,
            directory,
            self._logs,
            config,
            random_bytes=os.urandom,
            save_recovery_points=checkpoints.write_recovery_points,
            trusted_ms=self._upkeep.trusted_ms,
            remove_later=self._upkeep.remove_later,
        )
        """Compacts the logs whose topics ask for it."""
        self.tail_budget = tail_budget or TailBudget(config.log_tail_cache_max_bytes)
        """The memory for newest batches; shared with the directories beside this one."""
        self.disk_errors: Counter[str] = Counter()
        """Errors that logs met, by kind."""
        environment = Environment(
            self.tail_budget,
            tail_bytes_max=config.log_tail_cache_partition_max_bytes,
            readers=readers,
            decompressed_bytes_max=config.message_decompressed_max_bytes,
            jitter=jitter,
            log_start_moved=lambda offset: checkpoints.write_log_starts(),
            recovery_point_lowered=lambda offset: checkpoints.write_recovery_points(),
            ends_at=checkpoints.ends_at,
            truncated=self.cleaner.truncated,
            failed=self._health.went_offline,
            no_room=self._upkeep.ran_out_of_room,
            producer_budget=self.producer_budget,
            disk_errors=self.disk_errors,
            counted=self._upkeep.counted,
        )
        self._replicas = ReplicaLogs(
            files, directory, self._logs, self._by_id, self._health, checkpoints, self.cleaner,
            environment,
        )  # fmt: skip

    @property
    def counted(self) -> Counter[str]:
        """Counts of events of logs, beside errors, by the keys in `log.environment`."""
        return self._upkeep.counted

    # ---- open -----------------------------------------------------------------------------------

    @classmethod
    def open(
        cls,
        files: Files,
        directory: str,
        *,
        cluster_id: str,
        broker_id: BrokerId,
        boot_id: str,
        new_directory_id: str,
        wall_ms: int,
        config: BrokerConfig | None = None,
        topic_config: Callable[[str], TopicConfig] | None = None,
        jitter: Callable[[int], int] = lambda limit: 0,
        tail_budget: TailBudget | None = None,
        readers: OpenSegments | None = None,
        producer_budget: ProducerBudget | None = None,
        mount_id: str = "",
        was_offline: bool = False,
        starts_left_behind: Mapping[TopicPartition, Offset] | None = None,
    ) -> Self:
        """Lock the directory and open every log in it; `new_directory_id` is taken if it is new.

        `topic_config(topic)` gives a topic's settings where they are known already; they can be set
        later by `Log.config`. `tail_budget`, `producer_budget`, `readers`: the memory for newest
        batches, the number of producers, and of full segments that are kept open, where directories
        share them. `mount_id`: as in `MetaProperties`; `was_offline`: its disk had failed, or was
        not there, when it was heard of last. `starts_left_behind`: log starts of replicas that were
        moved here, as far as they are known; then `all_opened` is to be called. Raises
        DirectoryLocked (try again), StorageStartError, and KafkaStorageError or OSError, also as
        the cause of a StorageStartError, for an error of the moment (try again, too).
        """
        config = config or BrokerConfig()
        with locked_while_opening(files, directory) as lock:
            claimant = MetaProperties(
                cluster_id, broker_id, new_directory_id, boot_id, mount_id=mount_id
            )
            own = ClaimedDirectory.claim(files, directory, claimant, was_offline=was_offline)
            identity = Identity(files, directory, own.meta, is_written=own.is_written)
            manager = cls(
                files, directory, lock, identity, config, jitter, wall_ms, tail_budget, readers,
                producer_budget,
            )  # fmt: skip
            manager.leases = ReadLeases()
            if starts_left_behind is not None:
                manager._checkpoints.expect_moves(starts_left_behind)
            try:
                manager._load(own, topic_config)
            except BaseException:
                for log in manager._logs.values():
                    log.close(clean=False)
                raise
        return manager

    def _load(
        self, claimed: ClaimedDirectory, topic_config: Callable[[str], TopicConfig] | None
    ) -> None:
        recovery_points = self._checkpoints.found_recovery_points
        found = find_partitions(self._files, self.directory)
        for path in found.deleted:
            self.remove_directory(path)
        for topic_partition in found.links:
            self._set_failed(
                topic_partition,
                KafkaStorageError(
                    f"{self._path(str(topic_partition))} is a symbolic link; partitions must be "
                    "directories of their own"
                ),
            )
        for topic_partition in found.partitions:
            path = self._path(str(topic_partition))
            recovery_point = recovery_points.get(topic_partition, Offset(0))
            last_stop = claimed.last_stop(
                self._files,
                str(topic_partition),
                recovery_point,
                is_suspect=self._health.is_suspect(topic_partition),
                is_cleaned=self.cleaner.has_cleaned(topic_partition),
            )
            config = topic_config(topic_partition.topic) if topic_config else self._config.topic
            topic_id = None
            try:
                topic_id = read_topic_id(self._files, path)
                if topic_id is None:
                    logger.warning("%s was never finished: removed", path)
                    self.remove_directory(path)
                    continue
                log = self._replicas.open(
                    topic_partition,
                    topic_id,
                    config,
                    last_stop=last_stop,
                    log_start_offset=self._checkpoints.log_start_of(topic_partition),
                    wall_ms=self._wall_ms,
                )
                self._health.opened(log)
            except KafkaStorageError as error:
                if is_of_the_moment(error):
                    raise  # the log is as good as it was: the whole start is to be tried again
                self._set_failed(topic_partition, error, topic_id, recovery_point)
        if self._health.is_unknown:
            self._identity.set_intact(False)
        self._checkpoints.loaded(write=self._health.loaded())
        self._upkeep.loaded(self._wall_ms)
        self.cleaner.loaded()

    def _set_failed(
        self,
        topic_partition: TopicPartition,
        error: KafkaStorageError,
        topic_id: TopicId | None = None,
        recovery_point: Offset = Offset(0),
    ) -> None:
        named = self._health.not_opened(
            topic_partition, error, topic_id, recovery_point, intact=self.meta.intact
        )
        if not named:
            self._identity.set_intact(False)

    def all_opened(self) -> None:
        """So have been the directories beside this one: what it says of moved logs may go."""
        self._checkpoints.moves_are_over()

    # ---- logs -----------------------------------------------------------------------------------

    @property
    def logs(self) -> list[Log]:
        """Every log that could be opened, ordered by topic and partition."""
        return [self._logs[key] for key in sorted(self._logs)]

    @property
    def meta(self) -> MetaProperties:
        """The owner of the directory, and its state."""
        return self._identity.meta

    @property
    def log_intact(self) -> bool:
        """Whether every record that this broker has ever acknowledged to hold is still here, except
        in replicas that are named as failed or lost.
        """
        return self.meta.intact

    @property
    def failed_replicas(self) -> tuple[ReplicaKey, ...]:
        """Replicas that could not be opened, or have failed since, as far as their id is known."""
        return self._health.failed_replicas()

    @property
    def lost_replicas(self) -> tuple[ReplicaKey, ...]:
        """Replicas that can be used but may lack records that were here."""
        return self._health.lost_replicas()

    @property
    def is_offline(self) -> bool:
        """Whether the whole directory was given up by `fail`."""
        return self._health.disk_failed

    @property
    def is_doubtful(self) -> bool:
        """Whether its next life must not count on what the machine's memory held, and the directory
        cannot say so: it was given up, or has no room.
        """
        failed = self._health.disk_failed and not self._health.failure_is_noted
        return failed or self._identity.hides_doubt

    def fail(self, error: KafkaStorageError) -> None:
        """The disk does not work: every log is offline, and nothing more is written."""
        if not self.is_offline and not self._retired:
            self._health.disk_has_failed(error)

    def on_failure(self, notify: Callable[[], None]) -> None:
        """Have `notify` called when a log fails, on the thread on which it does."""
        self._health.notify = notify

    def take_new_failures(self) -> list[Log]:
        """The logs that went offline since the last call."""
        return self._health.take_new_failures()

    def get(self, topic_partition: TopicPartition) -> Log | None:
        """The log of that name."""
        return self._logs.get(topic_partition)

    def by_id(self, topic_id: TopicId, partition: int) -> Log | None:
        """The log of that topic id."""
        return self._by_id.get((topic_id, partition))

    def holds(self, topic_partition: TopicPartition, topic_id: TopicId | None) -> bool:
        """Whether files of that name are here, and not known to be of another topic's id."""
        log = self._logs.get(topic_partition)
        if log is None and topic_partition not in self.failed:
            return False
        known = log.topic_id if log else self._health.topic_id_of_failed(topic_partition)
        return topic_id is None or known is None or known == topic_id

    def set_aside(self, log: Log, why: str) -> None:
        """Close a log whose replica is elsewhere; its files stay as they are."""
        self._check_open()
        self._replicas.set_aside(log, why)

    def create(
        self,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        config: TopicConfig | None = None,
        *,
        wall_ms: int | None = None,
    ) -> Log:
        """The log of that partition, made when it is not there.

        Raises InvalidTopic, InconsistentTopicId when the name belongs to another topic's log,
        DiskFull, and KafkaStorageError for a replica in `failed`.
        """
        self._check_open()
        fault = topic_name_fault(topic_partition.topic)
        if fault is not None or topic_partition.partition < 0:
            raise InvalidTopic(fault or f"partition {topic_partition.partition} is negative")
        if wall_ms is not None:
            self._wall_ms = max(wall_ms, self._wall_ms)
        return self._replicas.create(
            topic_partition, topic_id, config or self._config.topic, self._wall_ms
        )

    def forget(self, topic_partition: TopicPartition) -> None:
        """Say nothing more, durably, of a log of that name, which is to be made elsewhere.

        DiskFull, and KafkaStorageError when the disk fails.
        """
        self._check_open()
        self._replicas.forget(topic_partition)

    def delete(self, topic_partition: TopicPartition) -> str | None:
        """`delete_all` of one log: its directory, or None when there is no such log.

        KafkaStorageError when the disk refuses.
        """
        found = self.delete_all([topic_partition]).get(topic_partition)
        if isinstance(found, KafkaStorageError):
            raise found
        return found

    def delete_all(
        self, topic_partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, str | KafkaStorageError]:
        """Take logs away; of each the directory that `remove_directory` may remove later, or why
        that failed. Names without a log are left out.

        The names are free for new logs at once. The checkpoints lose them with the next periodic
        write, or before a log of such a name is made, whatever comes first.
        """
        self._check_open()
        return self._replicas.delete_all(topic_partitions)

    def remove_directory(self, path: str) -> None:
        """Remove a directory that `delete` returned, with all in it. On any thread.

        A link is removed itself; what it points to stays.
        """
        remove_tree(self._files, path)

    # ---- upkeep ---------------------------------------------------------------------------------

    def maintain(
        self,
        now_ms: int,
        wall_ms: int,
        high_watermarks: Mapping[TopicPartition, Offset] = MappingProxyType({}),
    ) -> None:
        """The work that time asks for: rolls, retention, files that may go. Every few seconds.

        A log that fails at it is offline from then on and says so at its next use.
        """
        self._check_open()
        self._wall_ms = max(wall_ms, self._wall_ms)
        self._health.save_if_possible()
        if not self.is_offline:
            self._identity.catch_up()
        self._upkeep.maintain(now_ms, wall_ms, high_watermarks)

    @property
    def short_of_room(self) -> bool:
        """Since the `maintain` before the last one something was refused for want of room: what may
        go should go at once.
        """
        return self._upkeep.short_of_room

    def trusted_ms(self, kept_ms: int) -> int | None:
        """The time by which what is kept for so long may go; None: it may not, by any clock."""
        return self._upkeep.trusted_ms(kept_ms)

    def removal_task(self, now_ms: int) -> RemovalTask | None:
        """Files that may go now, to be removed on a pool thread."""
        return self._upkeep.removal_task(now_ms)

    @property
    def leases(self) -> ReadLeases:
        """The ranges of logs that readers hold."""
        return self._upkeep.leases

    @leases.setter
    def leases(self, leases: ReadLeases) -> None:
        """Share those of the directories beside this one."""
        self._upkeep.leases = self.cleaner.leases = leases

    def reconfigure(self, config: BrokerConfig) -> None:
        """The broker's settings have changed; those of topics are set on the logs themselves."""
        self._config = config
        self._upkeep.config = self.cleaner.config = config
        self.producer_budget.configure(config)

    @property
    def config(self) -> BrokerConfig:
        """The broker's settings as they are now."""
        return self._config

    def flush_tasks(self) -> list[tuple[Log, FlushTask]]:
        """Syncs of full segments and of what `flush.ms` asks for, to be run on a pool thread; then
        `log.on_flushed(task)` here.
        """
        self._check_open()
        return self._upkeep.flush_tasks(self._wall_ms)

    def snapshot_tasks(self) -> list[tuple[Log, SnapshotTask]]:
        """Snapshots of the producers of logs that know many, to be written on a pool thread; then
        `log.on_snapshot(task)` here.
        """
        return self._upkeep.snapshot_tasks()

    def checkpoint_recovery_points(self) -> None:
        """Write what is synced of each log. A full disk leaves the last ones, which are lower."""
        self._check_open()
        self._checkpoints.checkpoint(self._checkpoints.write_recovery_points)

    def checkpoint_high_watermarks(self, high_watermarks: Mapping[TopicPartition, Offset]) -> None:
        """Write the high watermarks, and keep the last known ones of logs that are not told.

        A full disk leaves the last ones; KafkaStorageError when the disk fails.
        """
        self._check_open()
        checkpoints = self._checkpoints
        checkpoints.checkpoint(lambda: checkpoints.write_high_watermarks(high_watermarks))

    def checkpoint_task(self, high_watermarks: Mapping[TopicPartition, Offset]) -> CheckpointTask:
        """All periodic checkpoints as they are now, to be written on a pool thread; then
        `on_checkpointed` here.
        """
        self._check_open()
        return self._checkpoints.task(high_watermarks)

    def on_checkpointed(self, task: CheckpointTask) -> None:
        """A checkpoint task has run; errors as above."""
        self._check_open()
        self._checkpoints.settle(task)

    def log_starts_task(self) -> LogStartsTask | None:
        """The starts of all logs, when one of them has moved, to be written on a pool thread; then
        `on_log_starts_written` here. None when there is nothing to write, and while a task runs.
        """
        self._check_open()
        return self._upkeep.log_starts_task()

    def on_log_starts_written(self, task: LogStartsTask) -> bool:
        """A step of such a task has run; whether another one is to follow.

        PassingStorageError when it may work later; after any other error of the disk the logs
        whose starts it was about are offline.
        """
        self._check_open()
        return self._upkeep.on_log_starts_written(task)

    def load_high_watermarks(self) -> dict[TopicPartition, Offset]:
        """The high watermark of each log, brought between its start and its end."""
        return self._checkpoints.high_watermarks()

    def registered(self) -> None:
        """The controller knows how intact these logs are; from here on they count as whole, but
        for those that still do not work.
        """
        self._check_open()
        if not self.is_offline:
            self._identity.set_intact(True)
            self._health.told()

    def retire(self) -> None:
        """Refuse every call that would use a log or write here, but `close`. From then on the logs
        belong to the thread that closes them, which may be another one.
        """
        self._retired = True
        self._health.notify = lambda: None
        for log in self._logs.values():
            log.retire()

    def _check_open(self) -> None:
        if self._retired:
            raise KafkaStorageError(f"{self.directory} is closed here")

    def close(self, *, clean: bool) -> None:
        """Give the directory up, on any thread once `retire` was called. `clean`: sync everything
        first, and say so in the marker.

        Without it, this is what a kill leaves behind. OSError and KafkaStorageError when that
        cannot be said; the lock is given back all the same.
        """
        self.retire()
        closed: dict[str, ClosedLog] = {}
        clean = clean and not self.is_offline
        try:
            for log in self.logs:
                try:
                    log.close(clean=clean)
                    clean = clean and log.failure is None
                    if clean:
                        # Epochs that a full disk did not take are in the batches: a start must
                        # read them.
                        known = () if log.epochs.changed else log.segments
                        name = str(log.topic_partition)
                        closed[name] = closed_log(self._files, log.directory, known)
                except (OSError, KafkaStorageError) as error:
                    logger.error("%s could not be closed cleanly: %s", log.topic_partition, error)
                    clean = False
            if clean:
                self._checkpoints.write_recovery_points()
                self._checkpoints.write_log_starts()
                write_meta(self._files, self.directory, replace(self.meta, clean=True))
                write_clean_marker(self._files, self.directory, closed)
        finally:
            self._files.close(self._lock)

    def _path(self, name: str) -> str:
        return f"{self.directory}/{name}"
