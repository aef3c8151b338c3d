"""The end of a broker's work on its disks, and of its logs."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import pytest

from pylog.model import Offset, TopicPartition
from pylog_broker.node.disk_work import DiskWork
from pylog_broker.storage.directories.clean_marker import CLEAN_MARKER
from pylog_broker.storage.manager.log_directories import LogDirectories
from tests.fakes.logs import TOPIC, TOPIC_ID, append
from tests.fakes.managers import ROOT, open_manager
from tests.fakes.memory_files import MemoryFiles

PATIENCE_S = 60


class Directories(LogDirectories):
    """Notes in which order what is done with it."""

    def __init__(self, files: MemoryFiles, steps: list[str]) -> None:
        super().__init__([open_manager(files)])
        append(self.create(TOPIC, TOPIC_ID), b"v")
        self._steps = steps

    def checkpoint_high_watermarks(self, high_watermarks: Mapping[TopicPartition, Offset]) -> None:
        self._steps.append("marks")
        super().checkpoint_high_watermarks(high_watermarks)

    def close(self, *, clean: bool) -> None:
        with pytest.raises(Exception, match="is closed here"):
            self.create(TopicPartition("new", 0), TOPIC_ID)
        self._steps.append("close")
        super().close(clean=clean)


def run(test: Callable[[DiskWork, MemoryFiles, list[str]], Coroutine[Any, Any, None]]) -> list[str]:
    steps: list[str] = []

    async def main() -> None:
        work = DiskWork(lambda: steps.append("stuck"))
        try:
            async with asyncio.timeout(PATIENCE_S):
                await test(work, MemoryFiles(), steps)
        finally:
            work.abandon()

    asyncio.run(main())
    return steps


def test_logs_are_closed_when_what_runs_has_ended_and_what_waits_does_not_begin() -> None:
    async def test(work: DiskWork, files: MemoryFiles, steps: list[str]) -> None:
        may_end = threading.Event()

        def runs(name: str) -> None:
            assert may_end.wait(PATIENCE_S)
            steps.append(name)

        running = [work.pool.submit(runs, "disk") for _ in range(4)]
        waits = work.pool.submit(runs, "never")
        cleans = work.cleaner.submit(runs, "cleaner")
        closing = asyncio.ensure_future(
            work.close_logs(Directories(files, steps), {TOPIC: Offset(1)}, clean=True)
        )
        while not waits.cancelled():
            await asyncio.sleep(0)
        assert steps == []
        may_end.set()
        assert await closing
        assert all(future.done() for future in (*running, cleans))

    steps = run(test)
    assert sorted(steps[:5]) == ["cleaner", *["disk"] * 4]
    assert steps[5:] == ["marks", "close"]


def test_a_disk_that_does_not_answer_is_told_and_keeps_its_logs() -> None:
    async def test(work: DiskWork, files: MemoryFiles, steps: list[str]) -> None:
        may_end = threading.Event()
        work.pool.submit(may_end.wait, PATIENCE_S)
        logs = Directories(files, steps)
        assert not await work.close_logs(logs, {}, clean=True, patience_seconds=0.01)
        assert f"{ROOT}/.lock" in {path for path, _ in files.handles.values()}
        may_end.set()

    assert run(test) == ["stuck"]


def test_high_watermarks_that_cannot_be_written_leave_the_logs_to_be_closed() -> None:
    async def test(work: DiskWork, files: MemoryFiles, steps: list[str]) -> None:
        logs = Directories(files, steps)
        files.fail("append", "replication-offset-checkpoint", errno.EIO)
        assert not await work.close_logs(logs, {TOPIC: Offset(1)}, clean=True)
        assert not files.handles
        assert files.exists(f"{ROOT}/{CLEAN_MARKER}")  # nothing of the logs is in doubt

    assert run(test) == ["marks", "close"]


def test_a_stop_that_is_not_clean_says_so() -> None:
    async def test(work: DiskWork, files: MemoryFiles, steps: list[str]) -> None:
        assert not await work.close_logs(Directories(files, steps), None, clean=False)
        assert not files.exists(f"{ROOT}/{CLEAN_MARKER}")

    assert run(test) == ["close"]
