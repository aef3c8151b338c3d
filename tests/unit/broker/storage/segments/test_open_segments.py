"""Readers of old records keep so many files open, in all logs together."""

from __future__ import annotations

from pylog_broker.config import TopicConfig
from pylog_broker.node.limits import open_segments_max
from pylog_broker.storage.log.environment import Environment
from pylog_broker.storage.log.log import Log
from pylog_broker.storage.segments.open_segments import OpenSegments
from pylog_broker.storage.tail_cache import TailBudget
from tests.fakes.logs import append, open_log, values_of
from tests.fakes.memory_files import MemoryFiles


def filled(files: MemoryFiles, readers: OpenSegments, number: int) -> Log:
    log = open_log(
        files,
        directory=f"/data/t-{number}",
        config=TopicConfig(segment_bytes=200),
        environment=Environment(TailBudget(0), 0, readers),
    )
    for value in range(12):
        append(log, b"%d" % value * 150)
    return log


def open_full_segments(logs: list[Log]) -> int:
    return sum(segment.is_open for log in logs for segment in log.segments[:-1])


def test_no_more_segments_stay_open_than_the_process_can_bear() -> None:
    files, readers = MemoryFiles(), OpenSegments(10)
    logs = [filled(files, readers, number) for number in range(4)]
    assert 8 <= open_full_segments(logs) <= 10
    for _ in range(2):
        for log in logs:
            assert len(values_of(log)) == 12
            assert open_full_segments(logs) <= 10
    active = 3 * len(logs)
    assert len(files.handles) <= active + 10
    for log in logs:
        log.close(clean=True)
    assert not files.handles
    assert not readers._segments


def test_a_log_alone_keeps_its_own_few() -> None:
    files = MemoryFiles()
    log = filled(files, OpenSegments(), 0)
    assert open_full_segments([log]) == 8


def test_readers_leave_logs_what_they_write_to() -> None:
    assert open_segments_max(1024) == 256
