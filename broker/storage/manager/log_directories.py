"""A broker's log directories taken together (JBOD; KIP-112, KIP-858): each is a `LogManager` of its
own, with its lock, its checkpoints, its marker and its cleaner.

The metadata names the directory that a replica belongs to: the controller decides it when it places
the replica. So a replica whose directory is offline is known to be there, and is not made anew.

A broker with one directory has all of this, too, and none of its rules: ids are not looked at, and
a disk error is one replica's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pylog.errors import KafkaStorageError
from pylog.model import Offset, TopicId, TopicPartition
from pylog_broker.config import BrokerConfig, TopicConfig
from pylog_broker.storage.checkpoints.checkpoint_writer import LogStartsTask
from pylog_broker.storage.cleaner.cleaner import DEDUPE_BYTES_MIN
from pylog_broker.storage.directories.directory import MetaProperties
from pylog_broker.storage.errors import PassingStorageError, StartPutOff
from pylog_broker.storage.log.log import Log
from pylog_broker.storage.manager.health import ReplicaKey
from pylog_broker.storage.manager.manager import LogManager
from pylog_broker.storage.producers.producer_budget import ProducerBudget

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OfflineDirectory:
    """A directory that does not work in this life. `directory_id` empty: not known."""

    path: str
    directory_id: str
    reason: str


def config_of_each(config: BrokerConfig, count: int) -> BrokerConfig:
    """The settings of each of `count` directories: their cleaners share memory for keys and
    threads, of which each has at least one.
    """
    if count == 1:
        return config
    return replace(
        config,
        log_cleaner_dedupe_buffer_size=max(
            DEDUPE_BYTES_MIN, config.log_cleaner_dedupe_buffer_size // count
        ),
        log_cleaner_threads=max(1, config.log_cleaner_threads // count),
    )


class LogDirectories:
    """Owned by the broker's loop, as its managers are. At least one directory was opened."""

    def __init__(
        self,
        opened: Sequence[LogManager],
        missing: Sequence[OfflineDirectory] = (),
        *,
        config: BrokerConfig | None = None,
    ) -> None:
        assert opened
        self.opened = tuple(opened)
        """Those that worked at the start, in the order of the setting."""
        self.missing = tuple(missing)
        """Those that did not."""
        self.leases = opened[0].leases
        """The ranges of logs that readers hold, in all directories."""
        for manager in opened[1:]:
            manager.leases = self.leases
        self._config = config or opened[0].config
        self._by_directory = {manager.meta.directory_id: manager for manager in opened}
        self._failed: dict[str, OfflineDirectory] = {}
        self._untold: list[OfflineDirectory] = []
        self._retired = False
        self.remember: Callable[[], None] = lambda: None
        """Called when a directory has failed: those that are left note it, durably. StartPutOff
        when that is to be tried again.
        """
        self._is_remembered = True

    # ---- directories ----------------------------------------------------------------------------

    @property
    def is_one(self) -> bool:
        """Whether there is only one, so that there is nothing to choose."""
        return len(self.opened) + len(self.missing) == 1

    @property
    def live(self) -> tuple[LogManager, ...]:
        """The directories that work."""
        return tuple(manager for manager in self.opened if not manager.is_offline)

    @property
    def offline(self) -> tuple[OfflineDirectory, ...]:
        """The directories that do not, since the start or since they failed."""
        return (*self.missing, *self._failed.values())

    @property
    def meta(self) -> MetaProperties:
        """The identity of the first directory: cluster, broker and boot are those of all."""
        return self.opened[0].meta

    @property
    def config(self) -> BrokerConfig:
        """The broker's settings as they are now."""
        return self._config

    def fail(self, manager: LogManager, error: Exception) -> None:
        """A directory does not work: it is offline until the broker starts again.

        KafkaStorageError when it was the last one.
        """
        if manager.is_offline or self._retired:
            return
        reason = f"the log directory {manager.directory} is offline: {error}"
        logger.error("%s; it stays so until the broker starts again", reason)
        manager.fail(KafkaStorageError(reason))
        failed = OfflineDirectory(manager.directory, manager.meta.directory_id, str(error))
        self._failed[manager.directory] = failed
        self._untold.append(failed)
        if not self.live:
            raise KafkaStorageError(
                f"every log directory has failed, the last one was {manager.directory}: {error}"
            )
        self._remember_failed()

    def _remember_failed(self) -> None:
        self._is_remembered = False
        try:
            self.remember()
        except StartPutOff as error:
            logger.warning("%s", error)
        else:
            self._is_remembered = True

    def take_failed_directories(self) -> list[OfflineDirectory]:
        """The directories that failed since the last call; the controller must hear of them."""
        taken, self._untold = self._untold, []
        return taken

    def on_each(self, work: Callable[[LogManager], None]) -> None:
        """Do something in each live directory; one that fails at it is offline.

        KafkaStorageError (or OSError, with only one) when none is left.
        """
        for manager in self.live:
            self.guard(manager, lambda manager=manager: work(manager))  # type: ignore[misc]

    def guard(self, manager: LogManager, work: Callable[[], None]) -> None:
        """Do something with a directory's own files; when that fails, the directory has."""
        try:
            work()
        except (OSError, KafkaStorageError) as error:
            if self.is_one:
                raise
            self.fail(manager, error)

    def all_opened(self) -> None:
        """This start is over."""
        for manager in self.opened:
            manager.all_opened()

    def trusted_ms(self, kept_ms: int) -> int | None:
        """The time by which what is kept for so long may go, by the most cautious directory; None:
        it may not, by any clock.
        """
        times = [manager.trusted_ms(kept_ms) for manager in self.live]
        known = [time_ms for time_ms in times if time_ms is not None]
        return min(known) if known and len(known) == len(times) else None

    # ---- logs -----------------------------------------------------------------------------------

    @property
    def producer_budget(self) -> ProducerBudget:
        """The number of producer ids that all logs together may know, and do."""
        return self.opened[0].producer_budget

    @property
    def logs(self) -> list[Log]:
        """Every log that could be opened, by directory, then topic and partition."""
        return [log for manager in self.opened for log in manager.logs]

    @property
    def failed(self) -> Mapping[TopicPartition, KafkaStorageError]:
        """Replicas that could not be opened, and why."""
        if self.is_one:
            return self.opened[0].failed
        return {name: why for manager in self.opened for name, why in manager.failed.items()}

    @property
    def log_intact(self) -> bool:
        """Whether that is so of each live directory (`LogManager.log_intact`)."""
        return all(manager.log_intact for manager in self.live)

    @property
    def failed_replicas(self) -> tuple[ReplicaKey, ...]:
        """Replicas of all directories that could not be opened, or have failed since."""
        return tuple(sorted({key for each in self.opened for key in each.failed_replicas}))

    @property
    def lost_replicas(self) -> tuple[ReplicaKey, ...]:
        """Replicas of all directories that can be used but may lack records that were here."""
        return tuple(sorted({key for each in self.opened for key in each.lost_replicas}))

    def take_new_failures(self) -> list[Log]:
        """The logs that went offline since the last call. With several directories, one log that
        met an error of its disk takes all of its directory with it.

        KafkaStorageError when that was the last one.
        """
        if not self._is_remembered:
            self._remember_failed()
        found: list[Log] = []
        for manager in self.opened:
            failures = manager.take_new_failures()
            if not self.is_one:
                for log in failures:
                    if log.failed_disk and log.failure is not None:
                        self.fail(manager, log.failure)
                failures += manager.take_new_failures()
            found += failures
        return found

    def on_failure(self, notify: Callable[[], None]) -> None:
        """Have `notify` called when a log fails, on the thread on which it does."""
        for manager in self.opened:
            manager.on_failure(notify)

    def get(self, topic_partition: TopicPartition) -> Log | None:
        """A log of that name."""
        found = (manager.get(topic_partition) for manager in self.opened)
        return next((log for log in found if log is not None), None)

    def by_id(self, topic_id: TopicId, partition: int, directory_id: str = "") -> Log | None:
        """The log of that topic id, of a replica that the metadata has in that directory; None when
        that one is offline, or cannot open the log.

        Other logs with its id are set aside: a copy, or one that was left behind.
        """
        holders = [m for m in self.opened if m.by_id(topic_id, partition) is not None]
        if self.is_one or not holders:
            return holders[0].by_id(topic_id, partition) if holders else None
        if directory_id and any(gone.directory_id == directory_id for gone in self.missing):
            holder = None
        else:
            copy = holders[0].by_id(topic_id, partition)
            assigned = self._by_directory.get(directory_id)
            # If the assigned one cannot be opened, a copy is no better: nobody knows its age.
            is_there = assigned and copy and assigned.holds(copy.topic_partition, topic_id)
            holder = assigned if is_there else holders[0]
        for other in holders:
            log = other.by_id(topic_id, partition)
            if other is not holder and log is not None:
                path = holder.directory if holder else f"the offline directory {directory_id}"
                other.set_aside(
                    log,
                    f"{log.directory} holds the same replica as {path}, where the metadata have "
                    "it: it is not used; remove one of them",
                )
        return holder.by_id(topic_id, partition) if holder else None

    def directory_of(self, log: Log) -> LogManager | None:
        """The directory in which an open log is."""
        key = (log.topic_id, log.topic_partition.partition)
        return next((each for each in self.opened if each.by_id(*key) is log), None)

    def create(
        self,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        config: TopicConfig | None = None,
        *,
        directory_id: str = "",
    ) -> Log:
        """The log of that partition in that directory, made when it is not there.

        A directory that is none of ours (any more) stands for the live one with the fewest logs.
        Raises KafkaStorageError for one that is offline, and what `LogManager.create` raises.
        """
        manager = self._place(topic_partition, directory_id)
        for other in self.live:
            if other is not manager:
                self._forget(other, topic_partition)
        return manager.create(topic_partition, topic_id, config)

    def _forget(self, manager: LogManager, topic_partition: TopicPartition) -> None:
        """A start would take what it says for what is left of a log that was moved."""
        try:
            manager.forget(topic_partition)
        except PassingStorageError:
            raise
        except KafkaStorageError as error:
            self.fail(manager, error)

    def _place(self, topic_partition: TopicPartition, directory_id: str) -> LogManager:
        if self.is_one:
            return self.opened[0]
        assigned = self._by_directory.get(directory_id)
        if assigned is not None and not assigned.is_offline:
            return assigned
        for gone in self.offline:
            # One whose id nobody knows may be the one: better offline than empty.
            if not gone.directory_id or gone.directory_id == directory_id:
                raise KafkaStorageError(
                    f"{topic_partition} is in the log directory {gone.path}, which is offline: "
                    f"{gone.reason}"
                )
        return min(self.live, key=lambda manager: len(manager.logs))

    def delete_all(
        self, doomed: Iterable[tuple[TopicPartition, TopicId | None]]
    ) -> list[tuple[TopicPartition, str | KafkaStorageError]]:
        """`LogManager.delete_all` for logs of these names and topic ids (None: of any).

        A log in a directory that is offline is deleted when that is back.
        """
        wanted = list(doomed)
        found: list[tuple[TopicPartition, str | KafkaStorageError]] = []
        for manager in self.live:
            names = [name for name, topic_id in wanted if manager.holds(name, topic_id)]
            found += manager.delete_all(names).items()
        return found

    def remove_directory(self, path: str) -> None:
        """Remove a directory that `delete_all` returned, with all in it. On any thread."""
        self.opened[0].remove_directory(path)

    # ---- all of them ----------------------------------------------------------------------------

    def reconfigure(self, config: BrokerConfig) -> None:
        """The broker's settings have changed."""
        self._config = config
        for manager in self.opened:
            manager.reconfigure(config_of_each(config, len(self.opened) + len(self.missing)))

    def log_starts_tasks(self) -> list[tuple[LogManager, LogStartsTask]]:
        """`LogManager.log_starts_task` of each directory that has one."""
        tasks = ((manager, manager.log_starts_task()) for manager in self.live)
        return [(manager, task) for manager, task in tasks if task is not None]

    def load_high_watermarks(self) -> dict[TopicPartition, Offset]:
        """The high watermark of each log; of two for one name, the smaller."""
        marks: dict[TopicPartition, Offset] = {}
        for manager in self.opened:
            for name, offset in manager.load_high_watermarks().items():
                marks[name] = min(offset, marks.get(name, offset))
        return marks

    def checkpoint_high_watermarks(self, high_watermarks: Mapping[TopicPartition, Offset]) -> None:
        """Write them now; errors as told by `on_each`."""
        self.on_each(lambda manager: manager.checkpoint_high_watermarks(high_watermarks))

    def registered(self) -> None:
        """The controller knows how intact these logs are; errors as told by `on_each`."""
        self.on_each(lambda manager: manager.registered())

    def retire(self) -> None:
        """Refuse every call but `close` from now on (`LogManager.retire`)."""
        self._retired = True
        for manager in self.opened:
            manager.retire()

    def close(self, *, clean: bool) -> None:
        """Give all directories up, each as `LogManager.close` does; the first error. On any thread
        once `retire` was called.
        """
        self.retire()
        errors: list[Exception] = []
        for manager in self.opened:
            try:
                manager.close(clean=clean)
            except (OSError, KafkaStorageError) as error:
                errors.append(error)
        if errors:
            raise errors[0]
