"""Tells the controller which replicas and directories have failed here, until it has taken note.

Without that a leader with a broken log would stay leader: its broker is well and keeps its session.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from itertools import islice
from typing import Final

from pylog import errors
from pylog.model import TopicId
from pylog_broker.metadata.messages import Failure, FailuresNoted, ReplicaKey
from pylog_broker.node.link import Backoff

_log = logging.getLogger("pylog.node")

RETRY_SECONDS_FIRST: Final = 0.05
RETRY_SECONDS_LAST: Final = 2.0
REPLICAS_PER_REPORT: Final = 1_000

Send = Callable[[tuple[ReplicaKey, ...], tuple[str, ...], str], Awaitable[FailuresNoted | Failure]]
"""Replicas, ids of log directories, and why."""


class FailureReports:
    """Replicas that failed in this life and are not known to the controller, and the task that
    sends them. Lives on the broker's loop.

    A failure lasts as long as this process, so a report may come late or twice, but never wrongly.
    """

    def __init__(self, send: Send) -> None:
        """`send` raises errors.PylogError when the controller cannot be asked."""
        self._send = send
        self._waiting: dict[ReplicaKey, str] = {}
        self._log_dirs: dict[str, str] = {}
        self._task: asyncio.Task[None] | None = None
        self._stopped = False

    @property
    def waiting(self) -> tuple[ReplicaKey, ...]:
        """The failures that the controller has not taken note of."""
        return tuple(self._waiting)

    def add(self, topic_id: TopicId, partition: int, reason: str) -> None:
        """Report this replica."""
        self._waiting[topic_id, partition] = reason
        self._go_on()

    def add_directory(self, directory_id: str, reason: str) -> None:
        """Report this log directory, with all that the metadata have in it."""
        self._log_dirs[directory_id] = reason
        self._go_on()

    def _go_on(self) -> None:
        if (self._waiting or self._log_dirs) and self._task is None and not self._stopped:
            self._task = asyncio.get_running_loop().create_task(self._report())
            self._task.add_done_callback(self._on_done)

    def stop(self) -> None:
        """Report no more. The next life names what still does not work when it registers."""
        self._stopped = True
        if self._task is not None:
            self._task.cancel()

    async def _report(self) -> None:
        backoff = Backoff(RETRY_SECONDS_FIRST, RETRY_SECONDS_LAST)
        reported = ""
        while self._waiting or self._log_dirs:
            replicas = tuple(islice(self._waiting, REPLICAS_PER_REPORT))
            log_dirs = tuple(self._log_dirs)
            reason = self._log_dirs[log_dirs[0]] if log_dirs else self._waiting[replicas[0]]
            try:
                answer = await self._send(replicas, log_dirs, reason)
            except errors.PylogError as error:
                answer = Failure(error.code, str(error))
            if isinstance(answer, FailuresNoted):
                for replica in replicas:
                    del self._waiting[replica]
                for directory in log_dirs:
                    del self._log_dirs[directory]
                backoff.reset()
                continue
            # A refusal, too, ends some day: with a registration, or with this process.
            if answer.message != reported:
                reported = answer.message
                _log.warning("failed replicas cannot be reported yet: %s", answer.message)
            await backoff.wait()

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._task = None
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("the report of failed replicas failed", exc_info=error)
        else:
            self._go_on()  # for what was added just now
