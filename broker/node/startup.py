"""The start of a broker: an id from the controller, its directory, warm kernels."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from concurrent.futures import Executor
from typing import Final

from pylog import errors
from pylog.clock import Clock
from pylog.machine import boot_id
from pylog_broker.config import BrokerConfig
from pylog_broker.ids import random_id
from pylog_broker.log_dirs import directories_of
from pylog_broker.metadata.messages import BrokerClaim, BrokerDirectory, ClaimBroker, Failure
from pylog_broker.node.limits import open_segments_max
from pylog_broker.node.link import ControllerLink
from pylog_broker.node.offers import check_own, find_directories, refuse_left_out
from pylog_broker.node.settings import ANY_BROKER, NEW_BROKER
from pylog_broker.process.host import open_files_max
from pylog_broker.process.places import look_at, mount_id_of, refuse_nested
from pylog_broker.storage.directories.directory import MetaProperties
from pylog_broker.storage.errors import DirectoryLocked, StartPutOff, StorageStartError
from pylog_broker.storage.files import Files
from pylog_broker.storage.manager.log_directories import LogDirectories
from pylog_broker.storage.manager.opening import Opening

_log = logging.getLogger("pylog.node")

LOCK_SECONDS_MAX: Final = 10.0
"""The predecessor may still be flushing when its successor starts."""
CLAIM_SECONDS_FIRST: Final = 0.02
CLAIM_SECONDS_LAST: Final = 1.0

INCURABLE: Final = (
    StorageStartError,
    errors.InvalidConfig,
    errors.InconsistentClusterId,
    errors.ClusterAuthorizationFailed,
)
"""Faults that no further attempt with the same settings can cure."""


class Stopped(Exception):
    """The stop was asked for before the broker served."""


class Startup:
    """The steps, in order: `check_directories`, `claim`, `open_logs`. The last two end early with
    `Stopped`.
    """

    def __init__(
        self,
        link: ControllerLink,
        files: Files,
        clock: Clock,
        pool: Executor,
        stop: asyncio.Event,
        *,
        root: str,
        config: BrokerConfig,
        only_broker: int,
    ) -> None:
        self._link = link
        self._files = files
        self._clock = clock
        self._pool = pool
        self._stop = stop
        self._root = root
        self._config = config
        self._only_broker = only_broker

    async def _or_stop(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), seconds)
        if self._stop.is_set():
            raise Stopped

    def check_directories(self) -> None:
        """StorageStartError for a directory that this broker would get and cannot use;
        InvalidConfig for one that `log.dirs` leaves out.

        Else the claim would find out, but only after the controller has waited for a broker whose
        directory it is: a broker that was told its id has that one only, and a new one shares its
        root with brokers that have theirs. On Spark's hosts other roots may hold what is missing.
        """
        entries = self._config.log_dirs
        refuse_left_out(self._files, self._root, entries)
        if self._only_broker != ANY_BROKER:
            only = None if self._only_broker == NEW_BROKER else self._only_broker
            check_own(self._files, self._root, entries, only)

    async def claim(self, incarnation_id: str, host_id: str, slot: int) -> BrokerClaim:
        """Ask until the controller grants a broker id; PylogError when it never will."""
        wait, reported = CLAIM_SECONDS_FIRST, ""
        while True:
            try:
                request = ClaimBroker(incarnation_id, host_id, self._directories(), slot)
                answer = await self._link.claim(request, CLAIM_SECONDS_LAST)
            except errors.PylogError as error:
                if not error.retriable:
                    raise
                if str(error) != reported:
                    reported = str(error)
                    _log.warning("no broker id yet: %s", error)
                await self._or_stop(wait)
                wait = min(wait * 1.5, CLAIM_SECONDS_LAST)
                continue
            if isinstance(answer, Failure):
                raise errors.from_code(answer.code, answer.message)
            if answer.retry_after_ms <= 0:
                return answer
            await self._or_stop(answer.retry_after_ms / 1000)

    def _directories(self) -> tuple[BrokerDirectory, ...]:
        found = find_directories(self._files, self._root, self._config.log_dirs)
        return tuple(d for d in found if self._only_broker in (ANY_BROKER, d.broker_id))

    async def open_logs(self, claim: BrokerClaim) -> LogDirectories:
        """Lock the directories and recover each in a thread of its own, while the kernels warm in
        another.

        Raises DirectoryLocked when a lock did not come free, StartPutOff when the process stayed
        short of something, StorageStartError and InvalidConfig.
        """
        loop = asyncio.get_running_loop()
        warming = loop.run_in_executor(self._pool, _warm)
        begin_ms = self._clock.monotonic_ms()
        while True:
            try:
                opening = await loop.run_in_executor(self._pool, self._prepare, claim)
                steps = [loop.run_in_executor(self._pool, step) for step in opening.steps]
                await asyncio.gather(*steps)
                logs = opening.finish()
                break
            except (DirectoryLocked, StartPutOff):
                if self._clock.monotonic_ms() - begin_ms >= LOCK_SECONDS_MAX * 1000:
                    raise
            await self._or_stop(0.05)
        opened_ms = self._clock.monotonic_ms() - begin_ms
        _log.info(
            "broker %d: %d logs opened in %d ms, kernels warm in %d ms",
            claim.broker_id,
            len(logs.logs),
            opened_ms,
            await warming,
        )
        return logs

    def _prepare(self, claim: BrokerClaim) -> Opening:
        entries = self._config.log_dirs
        paths = directories_of(self._root, claim.broker_id, entries)
        refuse_nested(paths)
        for doubt in look_at(self._root, paths, entries):
            _log.warning("%s", doubt)
        return Opening(
            self._files,
            paths,
            MetaProperties(claim.cluster_id, claim.broker_id, "", boot_id()),
            new_directory_id=random_id,
            wall_ms=self._clock.wall_ms(),
            config=self._config,
            mount_of=mount_id_of,
            open_segments_max=open_segments_max(open_files_max()),
        )


def _warm() -> int:
    """Milliseconds to load the kernels that check batches."""
    from pylog.records import kernels

    return kernels.warm(columns=False)
