"""Segments in order, looked at while some of them go and others come."""

from __future__ import annotations

import errno

from pylog.model import Offset
from pylog_broker.config import TopicConfig
from pylog_broker.storage.log.environment import Environment
from pylog_broker.storage.tail_cache import TailBudget
from tests.fakes.logs import WALL_MS, append, open_log
from tests.fakes.memory_files import MemoryFiles

ONE_EACH = TopicConfig(segment_bytes=300)


def test_who_walks_through_them_misses_none_that_stays() -> None:
    log = open_log(MemoryFiles(), config=ONE_EACH)
    for _ in range(5):
        append(log, b"v" * 200)
    segments = log._segments
    walks = segments.from_offset(0), segments.newer_than(WALL_MS)
    assert [next(walk).base_offset for walk in walks] == [0, 0]
    log.advance_log_start(Offset(2))
    log.retain(high_watermark=5, wall_ms=WALL_MS, trusted_ms=WALL_MS)
    log.delete_old_segments()
    append(log, b"v" * 200)
    assert [s.base_offset for s in segments] == [2, 3, 4, 5]
    for walk in walks:
        assert [segment.base_offset for segment in walk] == [2, 3, 4, 5]


def test_how_much_there_is_from_a_segments_beginning_needs_no_index() -> None:
    files = MemoryFiles()
    log = open_log(files, config=ONE_EACH)
    for _ in range(3):
        append(log, b"v" * 200)
    size = log.size
    log.close(clean=True)
    environment = Environment(TailBudget(0), tail_bytes_max=0)
    again = open_log(files, config=ONE_EACH, environment=environment)
    files.fail("read_all", ".index", errno.EIO, times=9)
    assert again.bytes_between(0, 3) == size
