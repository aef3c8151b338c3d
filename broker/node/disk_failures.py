"""Logs and log directories that fail while the broker serves: the broker's parts are told.

Here: that the replica manager stops to use them and the controller is told of directories. Not
here: which error takes what (`pylog_broker.storage`), and how a report reaches the controller
(`failures`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from pylog.errors import KafkaStorageError
from pylog_broker.node.engine import Engine
from pylog_broker.node.failures import FailureReports
from pylog_broker.storage.log.log import Log
from pylog_broker.storage.manager.log_directories import LogDirectories


class DiskFailures:
    """Lives on the broker's loop."""

    def __init__(
        self,
        logs: LogDirectories,
        engine: Engine,
        reports: FailureReports,
        on_fault: Callable[[str], None],
    ) -> None:
        """`on_fault`: every log directory has failed, and why the last one did."""
        self._logs = logs
        self._engine = engine
        self._reports = reports
        self._on_fault = on_fault
        self._loop = asyncio.get_running_loop()
        self._stopped = False
        logs.on_failure(self._on_log_failed)

    def _on_log_failed(self) -> None:
        """On any thread."""
        self._loop.call_soon_threadsafe(self.take)

    def stop(self) -> None:
        """Failures from now on come while the logs are closed, and show at the next start."""
        self._stopped = True

    def registered(self) -> None:
        """The controller knows how intact the logs are: note that in the directories. OSError when
        the only one refuses.
        """
        if self._stopped:
            return
        try:
            self._logs.registered()
        except KafkaStorageError as error:
            self._on_fault(str(error))
        self.take()

    def take(self) -> None:
        """Failed logs are used no more, and the controller hears of them."""
        if self._stopped:
            return
        failed: list[Log] = []
        try:
            failed = self._logs.take_new_failures()
        except KafkaStorageError as error:
            self._on_fault(str(error))
        for directory in self._logs.take_failed_directories():
            self._reports.add_directory(directory.directory_id, directory.reason)
        if failed:
            manager = self._engine.manager
            self._engine.tell(lambda now_ms: manager.on_logs_failed(now_ms, failed))
