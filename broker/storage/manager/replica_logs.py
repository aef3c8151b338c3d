"""The logs of one log directory by name and by topic id: opened, made, taken away.

Other parts know of a log, and must forget it with its name or before another one gets it: health,
checkpoints and cleaner. Not here: what a start finds (`manager`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from pylog.errors import InconsistentTopicId, KafkaStorageError
from pylog.model import TopicId, TopicPartition
from pylog_broker.config import TopicConfig
from pylog_broker.storage.cleaner.cleaner import LogCleaner
from pylog_broker.storage.directories.partition_directories import rename_away, write_topic_id
from pylog_broker.storage.errors import CorruptSegment
from pylog_broker.storage.files import NO_ROOM, Files, refused
from pylog_broker.storage.log.log import Environment, Log
from pylog_broker.storage.manager.health import LogHealth
from pylog_broker.storage.manager.log_checkpoints import LogCheckpoints
from pylog_broker.storage.recovery.recovery import LastStop

logger = logging.getLogger(__name__)


class ReplicaLogs:
    """Invariant: one log for a topic's name and partition, and for its id and partition."""

    def __init__(
        self,
        files: Files,
        directory: str,
        by_name: dict[TopicPartition, Log],
        by_id: dict[tuple[TopicId, int], Log],
        health: LogHealth,
        checkpoints: LogCheckpoints,
        cleaner: LogCleaner,
        environment: Environment,
    ) -> None:
        """Changes `by_name` and `by_id`, which others look at."""
        self._files = files
        self._directory = directory
        self._by_name = by_name
        self._by_id = by_id
        self._health = health
        self._checkpoints = checkpoints
        self._cleaner = cleaner
        self._environment = environment

    def open(
        self,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        config: TopicConfig,
        *,
        last_stop: LastStop,
        log_start_offset: int | None,
        wall_ms: int,
    ) -> Log:
        """The log in the directory of that name; errors as of `Log.open`."""
        path = f"{self._directory}/{topic_partition}"
        twin = self._by_id.get((topic_id, topic_partition.partition))
        if twin is not None:
            raise CorruptSegment(
                f"{path} and {twin.directory} both hold partition "
                f"{topic_partition.partition} of topic id {topic_id}; move one away"
            )
        log = Log.open(
            self._files,
            path,
            topic_partition,
            topic_id,
            config,
            wall_ms=wall_ms,
            last_stop=last_stop,
            log_start_offset=log_start_offset,
            environment=self._environment,
        )
        self._by_name[topic_partition] = log
        self._by_id[topic_id, topic_partition.partition] = log
        return log

    def create(
        self, topic_partition: TopicPartition, topic_id: TopicId, config: TopicConfig, wall_ms: int
    ) -> Log:
        """As `LogManager.create`; the name is a legal one."""
        if topic_partition in self._health.failed:
            raise self._health.failed[topic_partition]
        log = self._by_name.get(topic_partition)
        if log is None:
            return self._make(topic_partition, topic_id, config, wall_ms)
        if log.topic_id != topic_id:
            raise InconsistentTopicId(
                f"{log.directory} belongs to topic id {log.topic_id}, not {topic_id}"
            )
        return log

    def _make(
        self, topic_partition: TopicPartition, topic_id: TopicId, config: TopicConfig, wall_ms: int
    ) -> Log:
        path = f"{self._directory}/{topic_partition}"
        try:
            self._checkpoints.forget(topic_partition)
            self._health.forget(topic_partition)
            self._cleaner.forget(topic_partition)
            self._health.save()
            self._files.mkdir(path)
            write_topic_id(self._files, path, topic_id)
            self._files.fsync_dir(self._directory)
            log = self.open(
                topic_partition,
                topic_id,
                config,
                last_stop=LastStop.clean(),
                log_start_offset=0,
                wall_ms=wall_ms,
            )
        except OSError as error:
            if error.errno in NO_ROOM:
                self._environment.no_room()
            what = f"the log of {topic_partition} cannot be made"
            raise refused(error, what, self._directory) from error
        return log

    def forget(self, topic_partition: TopicPartition) -> None:
        """As `LogManager.forget`."""
        if topic_partition in self._by_name or topic_partition in self._health.failed:
            return
        try:
            self._checkpoints.forget(topic_partition)
        except OSError as error:
            if error.errno in NO_ROOM:
                self._environment.no_room()
            what = (
                f"{self._directory} still tells of an earlier log of {topic_partition}, and that "
                "cannot be changed"
            )
            raise refused(error, what, self._directory) from error

    def set_aside(self, log: Log, why: str) -> None:
        """As `LogManager.set_aside`."""
        key = log.topic_partition
        del self._by_name[key], self._by_id[log.topic_id, key.partition]
        log.close(clean=False)
        self._health.set_aside(key, KafkaStorageError(why))

    def delete_all(
        self, topic_partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, str | KafkaStorageError]:
        """As `LogManager.delete_all`."""
        found: dict[TopicPartition, str | KafkaStorageError] = {}
        for key in topic_partitions:
            log = self._by_name.pop(key, None)
            if log is None and key not in self._health.failed:
                continue
            self._health.forget(key)
            if log is not None:
                del self._by_id[log.topic_id, key.partition]
                log.close(clean=False)
            self._checkpoints.deleted(key)
            self._cleaner.forget(key)
            try:
                found[key] = rename_away(
                    self._files, self._directory, key, log.topic_id if log else ""
                )
            except OSError as fault:
                why = refused(fault, f"{key} cannot be deleted", self._directory)
                found[key] = self._health.failed[key] = why
        try:
            if found:
                self._files.fsync_dir(self._directory)
        except OSError as fault:
            # The names may come back with a loss of power; the metadata will tell that they go.
            logger.warning("deletions in %s may not be durable: %s", self._directory, fault)
        return found
