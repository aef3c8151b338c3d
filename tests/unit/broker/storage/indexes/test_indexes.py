"""Kafka's index bytes and rules, and look-ups against a linear search."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylog_broker.config import TopicConfig
from pylog_broker.storage.errors import IndexOffsetOverflow, InvalidOffset
from pylog_broker.storage.indexes.offset_index import OffsetIndex
from pylog_broker.storage.indexes.time_index import TimeIndex
from pylog_broker.storage.segments.segment import Segment
from tests.fakes.logs import DIRECTORY, WALL_MS, append, open_log
from tests.fakes.memory_files import MemoryFiles


def test_offset_entries_are_eight_bytes_big_endian() -> None:
    index = OffsetIndex(1000)
    assert index.encode() == b""
    index.append(1005, 4096)
    index.append(1009, 8192)
    assert index.encode() == struct.pack(">iiii", 5, 4096, 9, 8192)
    assert index.encode(1) == struct.pack(">ii", 9, 8192)
    assert index.encode(2) == b""
    assert index.entries() == [(1005, 4096), (1009, 8192)]


def test_offset_entries_must_grow_and_fit() -> None:
    index = OffsetIndex(0)
    index.append(10, 0)
    with pytest.raises(InvalidOffset, match=r"10 does not follow 10.*1 entries"):
        index.append(10, 5)
    with pytest.raises(IndexOffsetOverflow):
        index.append(2**31, 5)
    with pytest.raises(IndexOffsetOverflow):
        OffsetIndex(5).append(4, 0)
    for position in (-1, 2**31):
        with pytest.raises(InvalidOffset, match="position"):
            index.append(11, position)
    index.append(2**31 - 1, 2**31 - 1)
    assert len(index) == 2


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(1, 5000)), max_size=40),
    st.integers(-5, 2200),
)
def test_offset_lookup_equals_a_linear_search(steps: list[tuple[int, int]], target: int) -> None:
    index = OffsetIndex(100)
    offset, position = 99, 0
    entries = []
    for offset_step, position_step in steps:
        offset += offset_step
        position += position_step
        index.append(offset, position)
        entries.append((offset, position))
    expected = max((place for last, place in entries if last <= target), default=0)
    assert index.lookup(target) == expected


def test_time_entries_are_twelve_bytes_and_strictly_larger() -> None:
    index = TimeIndex(100)
    assert not index.maybe_append(-1, 100)
    assert index.maybe_append(5, 101)
    assert not index.maybe_append(5, 102)
    assert not index.maybe_append(4, 103)
    assert index.maybe_append(9, 104)
    assert index.encode() == struct.pack(">qiqi", 5, 1, 9, 4)
    assert index.encode(1) == struct.pack(">qi", 9, 4)
    assert index.entries() == [(5, 101), (9, 104)]
    assert [index.lookup(time) for time in (0, 4, 5, 8, 9, 10)] == [100, 100, 101, 101, 104, 104]
    assert index.truncate_to_offset(104) == 1
    with pytest.raises(IndexOffsetOverflow):
        index.maybe_append(99, 100 + 2**31)


def segment_of(files: MemoryFiles, interval: int) -> Segment:
    files.mkdir(DIRECTORY)
    segment = Segment(
        files, DIRECTORY, 0, index_interval_bytes=interval, created_ms=WALL_MS, jitter_ms=0
    )
    segment.create()
    return segment


def test_every_fifth_batch_of_1024_bytes_has_an_entry() -> None:
    files = MemoryFiles()
    segment = segment_of(files, 4096)
    for number in range(1024):
        segment.append([bytes(1024)], [(1024, number, number, 1000 + number)])
    entries = segment.offsets.entries()
    assert len(entries) == 204
    assert entries[0] == (5, 5 * 1024)  # the first batch never has one
    assert entries[-1] == (1020, 1020 * 1024)
    assert segment.times.entries()[0] == (1005, 5)
    segment.indexes.write_new_entries()
    assert len(files.read_all(segment.index_path)) == 204 * 8
    assert len(files.read_all(segment.time_index_path)) == 204 * 12
    assert segment.index_files_match()


def test_the_largest_timestamp_is_kept_and_sealed() -> None:
    files = MemoryFiles()
    segment = segment_of(files, 4096)
    for number, timestamp in enumerate((5, 9, 7)):
        segment.append([b"x" * 100], [(100, number, number, timestamp)])
    assert (segment.max_timestamp, segment.offset_of_max_timestamp) == (9, 1)
    segment.seal()
    assert segment.times.entries() == [(9, 1)]
    assert files.read_all(segment.time_index_path) == struct.pack(">qi", 9, 1)


def test_every_indexed_offset_leads_to_its_batch() -> None:
    files = MemoryFiles()
    log = open_log(files, config=TopicConfig(index_interval_bytes=300))
    for number in range(200):
        append(log, *[b"v" * (number % 60)] * (1 + number % 3))
    segment = log.segments[0]
    assert len(segment.offsets) > 20
    for last_offset, position in segment.offsets.entries():
        place = segment.place_before(last_offset)
        assert place is not None
        assert place[0] == position
