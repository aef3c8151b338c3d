"""The BrokerAdmin service of each broker: what only it can tell, and settings as it knows them."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import Executor

from pylog import errors
from pylog.model import BrokerId
from pylog.rpc.v1 import admin_pb2, admin_pb2_grpc, common_pb2
from pylog_broker.grpc.admin_wire import bounded, described_message, question_from
from pylog_broker.grpc.guard import Context
from pylog_broker.metadata.config_view import describe
from pylog_broker.metadata.image import MetadataImage
from pylog_broker.replication.manager import ReplicaManager
from pylog_broker.replication.messages import PartitionState
from pylog_broker.storage.manager.log_directories import LogDirectories


class BrokerAdminService(admin_pb2_grpc.BrokerAdminServicer):
    """Lives on the broker's loop; asks the file systems in `pool`."""

    def __init__(
        self,
        broker_id: BrokerId,
        manager: ReplicaManager,
        logs: LogDirectories,
        pool: Executor,
        *,
        image: Callable[[], MetadataImage],
        static_config: Mapping[str, str],
    ) -> None:
        self._broker_id = broker_id
        self._manager = manager
        self._logs = logs
        self._pool = pool
        self._image = image
        self._static_config = static_config

    async def DescribeConfigs(
        self, request: admin_pb2.DescribeConfigsRequest, context: Context
    ) -> admin_pb2.DescribeConfigsResponse:
        """As the controller's, out of the metadata that this broker has replayed."""
        bounded(len(request.resources), "resources")
        return admin_pb2.DescribeConfigsResponse(
            resources=[
                described_message(describe(self._image(), self._static_config, question))
                for question in map(question_from, request.resources)
            ]
        )

    async def DescribeLogDirs(
        self, request: admin_pb2.DescribeLogDirsRequest, context: Context
    ) -> admin_pb2.DescribeLogDirsResponse:
        """The broker's log directories, their file systems' room, and each replica's size.

        A directory that is offline has an error, and the replicas that the metadata have in it.
        """
        logs = self._logs
        live = [_live(manager.directory, manager.meta.directory_id) for manager in logs.live]
        loop = asyncio.get_running_loop()
        await asyncio.gather(
            *(loop.run_in_executor(self._pool, _look_for_room, directory) for directory in live)
        )
        gone = [
            admin_pb2.LogDir(
                path=each.path,
                directory_id=each.directory_id,
                total_bytes=-1,
                usable_bytes=-1,
                error=_storage_error(f"{each.path} is offline: {each.reason}"),
            )
            for each in logs.offline
        ]
        by_path = {directory.path: directory for directory in live}
        by_id = {directory.directory_id: directory for directory in gone}
        for state in self._manager.describe():
            self._add(state, by_path, by_id)
        return admin_pb2.DescribeLogDirsResponse(
            broker_id=self._broker_id, directories=[*live, *gone]
        )

    def _add(
        self,
        state: PartitionState,
        by_path: dict[str, admin_pb2.LogDir],
        offline: dict[str, admin_pb2.LogDir],
    ) -> None:
        partition = state.topic_partition.partition
        log = self._logs.by_id(state.topic_id, partition, state.directory_id)
        path = log.directory.rpartition("/")[0] if log is not None else ""
        # A replica without a log is where the metadata have it, or nowhere yet.
        first = next(iter(by_path.values()), None)
        directory = by_path.get(path) or offline.get(state.directory_id) or first
        if directory is None:
            return
        replica = directory.replicas.add(
            topic=state.topic_partition.topic,
            partition=partition,
            size_bytes=log.size if log is not None else 0,
            offset_lag=max(0, state.high_watermark - state.log_end_offset),
            log_start_offset=state.log_start_offset,
            log_end_offset=state.log_end_offset,
        )
        if log is None or log.failure is not None:
            why = state.fault or "the replica's log does not work"
            replica.error.CopyFrom(_storage_error(why))


def _live(path: str, directory_id: str) -> admin_pb2.LogDir:
    return admin_pb2.LogDir(path=path, directory_id=directory_id, total_bytes=-1, usable_bytes=-1)


def _look_for_room(directory: admin_pb2.LogDir) -> None:
    """On a pool thread: a disk may take its time."""
    try:
        usage = shutil.disk_usage(directory.path)
        directory.total_bytes, directory.usable_bytes = usage.total, usage.free
    except OSError as error:
        why = f"{directory.path}: {error.strerror or error}"
        directory.error.CopyFrom(_storage_error(why))


def _storage_error(why: str) -> common_pb2.Error:
    return common_pb2.Error(code=errors.KafkaStorageError.code, message=why)
