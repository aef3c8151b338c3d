"""The logs of a directory that do not work or may lack records, and the reports about them that are
still due.

The file behind it is `Damage`; the errors come from the LogManager, which owns this.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from pylog.errors import KafkaStorageError
from pylog.model import Offset, TopicId, TopicPartition
from pylog_broker.storage.directories.damage import NEVER, Damage
from pylog_broker.storage.errors import CorruptSegment
from pylog_broker.storage.files import PASSES, Files, SyncFailed
from pylog_broker.storage.log.environment import NamedLog
from pylog_broker.storage.log.log import Log

ReplicaKey = tuple[TopicId, int]

logger = logging.getLogger(__name__)


class LogHealth:
    """Sees the manager's logs as they come and go. `failed` holds the replicas that could not be
    opened (or deleted), and why.
    """

    def __init__(
        self,
        files: Files,
        directory: str,
        logs: Mapping[TopicPartition, Log],
        by_id: Mapping[ReplicaKey, Log],
    ) -> None:
        self.failed: dict[TopicPartition, KafkaStorageError] = {}
        self._directory = directory
        self._logs = logs
        self._by_id = by_id
        self._damage = Damage(files, directory)
        self._failed_ids: dict[TopicPartition, TopicId] = {}
        self._new_failures: list[Log] = []
        self.notify: Callable[[], None] = lambda: None
        """Called when a log fails, on the thread on which it does."""
        self.disk_failed = False
        """The directory is given up: nothing more is written, and no log is told one by one."""
        self.failure_is_noted = False
        """It says itself, durably, how far each log must reach to be whole."""

    @property
    def is_unknown(self) -> bool:
        """Nobody remembers which logs were damaged: it may be any."""
        return self._damage.is_unreadable

    def is_suspect(self, topic_partition: TopicPartition) -> bool:
        """Whether every CRC of that log must be checked when it is opened."""
        return topic_partition in self._damage

    def failed_replicas(self) -> tuple[ReplicaKey, ...]:
        """Those that could not be opened, or have failed since, as far as their id is known."""
        found = {(topic_id, key.partition) for key, topic_id in self._failed_ids.items()}
        found |= {_key(log) for log in self._logs.values() if log.failure is not None}
        return tuple(sorted(found))

    def lost_replicas(self) -> tuple[ReplicaKey, ...]:
        """Those that work but may lack records that were here."""
        suspects = (log for key, log in self._logs.items() if key in self._damage)
        return tuple(sorted(_key(log) for log in suspects if log.failure is None))

    def take_new_failures(self) -> list[Log]:
        """The logs that went offline since the last call."""
        taken, self._new_failures = self._new_failures, []
        return taken

    # ---- what happens to logs ------------------------------------------------------------------

    def opened(self, log: Log) -> None:
        """Judge whether it holds all that it ever had."""
        needed_end = self._damage.needed_end(log.topic_partition)
        if log.recovery.lost_durable:
            self._damage.note(log.topic_partition, NEVER)
        elif needed_end is not None and log.log_end_offset >= needed_end:
            if not log.damage:
                logger.info("%s is whole again up to %d", log.topic_partition, needed_end)
            # A hole is lost here and nowhere else: its leader knows, and gives way.
            self._damage.settle(log.topic_partition)

    def not_opened(
        self,
        topic_partition: TopicPartition,
        error: KafkaStorageError,
        topic_id: TopicId | None,
        recovery_point: Offset,
        *,
        intact: bool,
    ) -> bool:
        """The replica is offline. False: nobody can be told which one, for want of its id. `intact`
        False: the directory may lack what was not synced.
        """
        logger.error("%s is offline: %s", topic_partition, error)
        self.failed[topic_partition] = error
        if topic_id is None:
            return False
        twin = self._by_id.get((topic_id, topic_partition.partition))
        if twin is not None:
            self._damage.note(twin.topic_partition, NEVER)  # which of the two is the right one?
            return True
        self._failed_ids[topic_partition] = topic_id
        # Damage needs somebody to change the files, and who knows what will be there then. Pages
        # that a refused sync dropped do not come back. A disk that cannot be read leaves files as
        # they are; but not those that it could not write before the machine lost its memory.
        is_damage = isinstance(error, CorruptSegment) or isinstance(error.__cause__, SyncFailed)
        self._damage.note(topic_partition, NEVER if is_damage or not intact else recovery_point)
        return True

    def went_offline(self, failed: NamedLog) -> None:
        """A log that was open failed."""
        if not self.disk_failed:
            logger.error("%s", failed.failure)
        log = self._logs.get(failed.topic_partition)
        if log is None or log is not failed:
            return  # it is just being opened: its opener hears of the error
        self._new_failures.append(log)
        needed_end = log.log_end_offset if log.failed_reading else NEVER
        self._damage.note(log.topic_partition, needed_end)
        self.save_if_possible()
        if not self.disk_failed:
            self.notify()

    def disk_has_failed(self, error: KafkaStorageError) -> None:
        """Every log is offline, and nothing more is written but what was damaged, if that works."""
        self.disk_failed = True
        for log in self._logs.values():
            log.take_offline(error)
        try:
            self._damage.save()
        except OSError as fault:
            logger.warning("the damaged logs of %s could not be noted: %s", self._directory, fault)
        else:
            self.failure_is_noted = True

    def set_aside(self, topic_partition: TopicPartition, error: KafkaStorageError) -> None:
        """The files of that name are not the replica that counts: nobody needs to be told."""
        logger.error("%s", error)
        self.failed[topic_partition] = error

    def topic_id_of_failed(self, topic_partition: TopicPartition) -> TopicId | None:
        """The id of a replica in `failed`, as far as it is known."""
        return self._failed_ids.get(topic_partition)

    def forget(self, topic_partition: TopicPartition) -> None:
        """The log is gone; once `save` returns, the next one of that name is nobody's successor."""
        self.failed.pop(topic_partition, None)
        self._failed_ids.pop(topic_partition, None)
        self._damage.settle(topic_partition)

    # ---- what is remembered --------------------------------------------------------------------

    def loaded(self) -> bool:
        """All logs were tried. False: the damage could not be noted just now; the next look at
        the same files and checkpoints finds it again. OSError when the disk refuses.
        """
        for key in self._damage.names():
            if key not in self._logs and key not in self.failed:
                self._damage.settle(key)
        return self._saved()

    def told(self) -> None:
        """The controller knows of all this; logs that work count as whole from here on. Without
        room to say so they are told once more. OSError when the disk refuses.
        """
        for key, log in self._logs.items():
            if log.failure is None:
                self._damage.settle(key)
        self._saved()

    def _saved(self) -> bool:
        try:
            self._damage.save()
        except OSError as error:
            if error.errno not in PASSES:
                raise
            logger.warning("the damaged logs of %s are not noted now: %s", self._directory, error)
            return False
        return True

    def save(self) -> None:
        """Make the last news durable. OSError."""
        self._damage.save()

    def save_if_possible(self) -> None:
        """The same when the disk may be failing: tried again later. A replica that cannot be noted
        will show when the directory is opened.
        """
        if self.disk_failed:
            return
        try:
            self._damage.save()
        except OSError as error:
            logger.error("the damaged logs of %s could not be noted: %s", self._directory, error)


def _key(log: Log) -> ReplicaKey:
    return (log.topic_id, log.topic_partition.partition)
