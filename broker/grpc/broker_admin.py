"""The BrokerAdmin service of each broker: what only it can tell, and settings as it knows them."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import Executor

from broker.grpc.admin_wire import bounded, described_message, question_from
from broker.grpc.guard import Context
from broker.metadata.config_view import describe
from broker.metadata.image import MetadataImage
from broker.replication.manager import ReplicaManager
from broker.storage.manager import LogManager
from pylog import errors
from pylog.model import BrokerId
from pylog.rpc.v1 import admin_pb2, admin_pb2_grpc, common_pb2


class BrokerAdminService(admin_pb2_grpc.BrokerAdminServicer):
    """Lives on the broker's loop; asks the file system in `pool`."""

    def __init__(
        self,
        broker_id: BrokerId,
        manager: ReplicaManager,
        logs: LogManager,
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
        """The broker's directory, its file system's room, and each replica's size."""
        path = self._logs.directory
        directory = admin_pb2.LogDir(path=path, total_bytes=-1, usable_bytes=-1)
        try:
            usage = await asyncio.get_running_loop().run_in_executor(
                self._pool, shutil.disk_usage, path
            )
            directory.total_bytes, directory.usable_bytes = usage.total, usage.free
        except OSError as error:
            why = f"{path}: {error.strerror or error}"
            directory.error.CopyFrom(
                common_pb2.Error(code=errors.KafkaStorageError.code, message=why)
            )
        for state in self._manager.describe():
            log = self._logs.by_id(state.topic_id, state.topic_partition.partition)
            replica = directory.replicas.add(
                topic=state.topic_partition.topic,
                partition=state.topic_partition.partition,
                size_bytes=log.size if log is not None else 0,
                offset_lag=max(0, state.high_watermark - state.log_end_offset),
                log_start_offset=state.log_start_offset,
                log_end_offset=state.log_end_offset,
            )
            if log is None or log.failure is not None:
                replica.error.code = errors.KafkaStorageError.code
                replica.error.message = state.fault or "the replica's log does not work"
        return admin_pb2.DescribeLogDirsResponse(broker_id=self._broker_id, directories=[directory])
