"""The threads that work on a broker's logs, and the end of that work.

Threads open files for themselves; the logs belong to the loop. At a stop they change hands once, in
`DiskWork.close_logs`: first what the threads do ends, then the loop lets go of the logs, then one
thread closes them. Not here: that nobody asks for more work by then (`Engine.stop`, `Upkeep`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from pylog import errors
from pylog.model import Offset, TopicPartition
from pylog_broker.config import CLEANER_THREADS_MAX
from pylog_broker.storage.manager.log_directories import LogDirectories

_log = logging.getLogger("pylog.node")

POOL_THREADS: Final = 4
PATIENCE_SECONDS: Final = 30.0
"""For syncs, checkpoints, removals, cold reads and steps of the cleaner that run when a broker
stops. A disk that takes longer does not answer at all.
"""


class DiskWork:
    """Owns the threads. Lives on the broker's loop."""

    def __init__(self, on_stuck: Callable[[], None]) -> None:
        """`on_stuck`: a thread does not come back. It holds the locks of the log directories, which
        only the end of this process gives back.
        """
        self.pool = ThreadPoolExecutor(POOL_THREADS, thread_name_prefix="pylog-disk")
        """Syncs, cold reads, checkpoints, removals."""
        self.cleaner = ThreadPoolExecutor(CLEANER_THREADS_MAX, thread_name_prefix="pylog-clean")
        """Passes of the cleaner, which may take long."""
        self._closing = ThreadPoolExecutor(2, thread_name_prefix="pylog-closing")
        self._on_stuck = on_stuck

    async def close_logs(
        self,
        logs: LogDirectories,
        high_watermarks: Mapping[TopicPartition, Offset] | None,
        *,
        clean: bool,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> bool:
        """End the work, then close the logs; whether all went well. `high_watermarks` None: they
        are not known.

        Logs that a thread still works on after that time are left as a kill leaves them.
        """
        if not await self._has_ended(patience_seconds):
            _log.error(
                "work on the disk has not ended %d s after the broker was asked to stop: its logs "
                "are not closed, and the next start reads them as after a kill; look at the disk",
                patience_seconds,
            )
            self._on_stuck()
            return False
        went_well = True
        try:
            if high_watermarks is not None:
                logs.checkpoint_high_watermarks(high_watermarks)
        except (errors.PylogError, OSError) as error:
            _log.error("the high watermarks could not be written: %s", error)
            went_well = False
        logs.retire()
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._closing, partial(logs.close, clean=clean))
        except (errors.PylogError, OSError) as error:
            _log.error("the logs could not be closed cleanly: %s", error)
            went_well = False
        return went_well and clean

    async def _has_ended(self, seconds: float) -> bool:
        """Begin nothing more, also of what was asked for, and wait for what runs."""
        loop = asyncio.get_running_loop()
        endings = [
            loop.run_in_executor(
                self._closing, partial(pool.shutdown, wait=True, cancel_futures=True)
            )
            for pool in (self.pool, self.cleaner)
        ]
        _, left = await asyncio.wait(endings, timeout=seconds)
        return not left

    def abandon(self) -> None:
        """Wait for nobody."""
        for pool in (self.pool, self.cleaner, self._closing):
            pool.shutdown(wait=False, cancel_futures=True)
