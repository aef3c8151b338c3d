"""A broker's answers to administrators: what only it can tell, and settings as it knows them."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import NamedTuple

from pylog import errors
from pylog.model import BrokerId, Offset, TopicPartition
from pylog_broker.api.context import RequestContext
from pylog_broker.api.limits import check_items
from pylog_broker.metadata.admin import ConfigsQuestion, DescribedConfig
from pylog_broker.metadata.config_view import describe
from pylog_broker.metadata.image import MetadataImage
from pylog_broker.metadata.messages import Failure
from pylog_broker.replication.manager import ReplicaManager
from pylog_broker.replication.partition_state import PartitionState
from pylog_broker.storage.manager.log_directories import LogDirectories


class ReplicaView(NamedTuple):
    """A replica in a log directory. `failure`: it does not work."""

    topic_partition: TopicPartition
    size_bytes: int
    offset_lag: int
    log_start_offset: Offset
    log_end_offset: Offset
    failure: Failure | None


@dataclass(slots=True)
class LogDirView:
    """A log directory. Bytes are of its file system, -1: not known. `failure`: it is offline, or
    its file system does not answer.
    """

    path: str
    directory_id: str
    total_bytes: int = -1
    usable_bytes: int = -1
    failure: Failure | None = None
    replicas: list[ReplicaView] = field(default_factory=list)


class LogDirsDescribed(NamedTuple):
    """A broker's log directories: those that work, then the others."""

    broker_id: BrokerId
    directories: Sequence[LogDirView]


class DescribeConfigsHandler:
    """As the controller's, out of the metadata that this broker has replayed: for the time in which
    the controller cannot be reached. Lives on the broker's loop.
    """

    def __init__(
        self, image: Callable[[], MetadataImage], static_config: Mapping[str, str]
    ) -> None:
        self._image = image
        self._static_config = static_config

    async def handle(
        self, _context: RequestContext, questions: Sequence[ConfigsQuestion]
    ) -> list[DescribedConfig]:
        """The settings that hold for each resource, and why. Raises InvalidRequest for too many."""
        check_items(len(questions), "resources")
        image = self._image()
        return [describe(image, self._static_config, question) for question in questions]


class DescribeLogDirsHandler:
    """Lives on the broker's loop; asks the file systems in `pool`."""

    def __init__(
        self, broker_id: BrokerId, manager: ReplicaManager, logs: LogDirectories, pool: Executor
    ) -> None:
        self._broker_id = broker_id
        self._manager = manager
        self._logs = logs
        self._pool = pool

    async def handle(self, _context: RequestContext, _request: None) -> LogDirsDescribed:
        """The broker's log directories, their file systems' room, and each replica's size.

        A directory that is offline has a failure, and the replicas that the metadata have in it.
        """
        logs = self._logs
        live = [LogDirView(each.directory, each.meta.directory_id) for each in logs.live]
        loop = asyncio.get_running_loop()
        await asyncio.gather(
            *(loop.run_in_executor(self._pool, _look_for_room, directory) for directory in live)
        )
        gone = [
            LogDirView(
                each.path,
                each.directory_id,
                failure=_storage_failure(f"{each.path} is offline: {each.reason}"),
            )
            for each in logs.offline
        ]
        by_path = {directory.path: directory for directory in live}
        by_id = {directory.directory_id: directory for directory in gone}
        for state in self._manager.describe():
            self._add(state, by_path, by_id)
        return LogDirsDescribed(self._broker_id, [*live, *gone])

    def _add(
        self,
        state: PartitionState,
        by_path: dict[str, LogDirView],
        offline: dict[str, LogDirView],
    ) -> None:
        partition = state.topic_partition.partition
        log = self._logs.by_id(state.topic_id, partition, state.directory_id)
        path = log.directory.rpartition("/")[0] if log is not None else ""
        # A replica without a log is where the metadata have it, or nowhere yet.
        first = next(iter(by_path.values()), None)
        directory = by_path.get(path) or offline.get(state.directory_id) or first
        if directory is None:
            return
        why = state.fault or "the replica's log does not work"
        works = log is not None and log.failure is None
        directory.replicas.append(
            ReplicaView(
                state.topic_partition,
                log.size if log is not None else 0,
                max(0, state.high_watermark - state.log_end_offset),
                state.log_start_offset,
                state.log_end_offset,
                None if works else _storage_failure(why),
            )
        )


def _look_for_room(directory: LogDirView) -> None:
    """On a pool thread: a disk may take its time."""
    try:
        usage = shutil.disk_usage(directory.path)
        directory.total_bytes, directory.usable_bytes = usage.total, usage.free
    except OSError as error:
        directory.failure = _storage_failure(f"{directory.path}: {error.strerror or error}")


def _storage_failure(why: str) -> Failure:
    return Failure(errors.KafkaStorageError.code, why)
