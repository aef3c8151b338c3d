"""A controller that runs: its metadata log is open, its decisions are written, brokers call it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from pylog.clock import SYSTEM_CLOCK
from pylog.machine import boot_id
from pylog.model import BrokerId
from pylog.rpc.v1 import cluster_pb2_grpc
from pylog_broker.controller.controller import Controller
from pylog_broker.controller.metadata_log import MetadataLog
from pylog_broker.controller.settings import ControllerSettings
from pylog_broker.controller_server.shell import ControllerShell
from pylog_broker.grpc.cluster_service import ClusterService
from pylog_broker.grpc.server import GrpcServer
from pylog_broker.ids import random_id
from pylog_broker.logs import IDENTITY
from pylog_broker.storage.errors import DirectoryLocked
from pylog_broker.storage.files import OsFiles

SERVICE: Final = "pylog.v1.Cluster"

LOCK_SECONDS_MAX: Final = 10.0
"""The predecessor may still be writing its last records."""


class ControllerServer:
    """Owns the controller, its shell and the Cluster service, on the running loop. `open` makes one
    that acts; `offer` lets brokers reach it.
    """

    def __init__(self, shell: ControllerShell, log: MetadataLog, secret: bytes) -> None:
        self.shell = shell
        self.controller: Final = shell.controller
        self._log = log
        self._service = ClusterService(
            shell.controller, shell.ask, shell.perform, SYSTEM_CLOCK, secret
        )
        shell.service = self._service

    @classmethod
    async def open(
        cls,
        directory: str,
        settings: ControllerSettings,
        secret: bytes,
        *,
        on_published: Callable[[], None],
    ) -> ControllerServer:
        """Recover the metadata log and become the active controller. `on_published` is called after
        each change of the committed metadata. Raises errors.PylogError and OSError when it cannot.
        """
        log = await _open_log(directory)
        controller = Controller(log.machine, settings, random_id, next_offset=log.end_offset)
        shell = ControllerShell(controller, log, SYSTEM_CLOCK, on_published=on_published)
        server = cls(shell, log, secret)
        try:
            await server._become_active()
        except BaseException:
            await server.stop()
            raise
        return server

    async def _become_active(self) -> None:
        shell, controller = self.shell, self.controller
        shell.perform(controller.start(SYSTEM_CLOCK.monotonic_ms(), SYSTEM_CLOCK.wall_ms()))
        while controller.image.controller_epoch != controller.controller_epoch:
            await shell.next_change()
        self._log.remember_cluster(controller.image.cluster_id)
        IDENTITY.cluster = controller.image.cluster_id
        IDENTITY.controller_epoch = int(controller.controller_epoch)

    def offer(self, server: GrpcServer) -> None:
        """Have the server offer the Cluster service; before the server starts."""
        server.add(cluster_pb2_grpc.add_ClusterServicer_to_server, self._service, SERVICE)

    # ---- while it runs --------------------------------------------------------------------------

    @property
    def cluster_id(self) -> str:
        """The cluster's id."""
        return self.controller.image.cluster_id

    @property
    def failed(self) -> asyncio.Future[str]:
        """Done when the metadata log cannot be written any more, with the reason: all is over."""
        return self.shell.failed

    async def all_registered(self, count: int) -> None:
        """Return when `count` brokers are live; set a time-out around it."""
        while len(self.controller.running_brokers()) < count:
            await self.shell.next_change()

    def task_ended(self, incarnation_id: str) -> None:
        """The task that ran this incarnation is over: its partitions get other leaders at once."""
        now_ms = SYSTEM_CLOCK.monotonic_ms()
        self.shell.perform(self.controller.task_ended(now_ms, incarnation_id))

    def live_brokers(self) -> Sequence[BrokerId]:
        """The brokers that are registered and unfenced, and whose sessions are open."""
        return self.controller.running_brokers()

    # ---- the end --------------------------------------------------------------------------------

    async def stop_cluster(self, timeout_seconds: float) -> bool:
        """Tell all brokers to stop in order; True when all sessions have ended in time."""
        shell, service = self.shell, self._service
        shell.perform(self.controller.stop_cluster(SYSTEM_CLOCK.monotonic_ms()))
        deadline_ms = SYSTEM_CLOCK.monotonic_ms() + timeout_seconds * 1000
        while service.open_sessions and SYSTEM_CLOCK.monotonic_ms() < deadline_ms:
            await asyncio.sleep(0.02)
        shell.perform(self.controller.cluster_stopped(SYSTEM_CLOCK.monotonic_ms()))
        return not service.open_sessions

    async def stop(self) -> None:
        """Decide nothing any more, and close the metadata log."""
        await self.shell.stop()


async def _open_log(directory: str) -> MetadataLog:
    deadline_ms = SYSTEM_CLOCK.monotonic_ms() + LOCK_SECONDS_MAX * 1000
    while True:
        try:
            return MetadataLog.open(
                OsFiles(), directory, boot_id=boot_id(), wall_ms=SYSTEM_CLOCK.wall_ms()
            )
        except DirectoryLocked:
            if SYSTEM_CLOCK.monotonic_ms() >= deadline_ms:
                raise
        await asyncio.sleep(0.1)
