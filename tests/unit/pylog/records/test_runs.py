"""All batches of a fetch at once, against the pure decoder one by one."""

from __future__ import annotations

import gc
import itertools
import random
import sys
import weakref
from typing import Any

import numpy as np
import pytest

from pylog.errors import CorruptMessage, InvalidRecord
from pylog.records import scan_kernels
from pylog.records.batch import (
    BatchHeader,
    iter_headers,
    last_header,
    pack_header,
    seal,
    with_log_append_time,
    with_offset_and_epoch,
)
from pylog.records.builder import ControlType, encode_batch, encode_control_batch
from pylog.records.native import runs
from pylog.records.native.raw_memory import buffer_address
from pylog.records.native.runs import read_runs
from pylog.records.record import Record, RecordChunk
from pylog.records.record_columns import RowColumns
from pylog.records.sections import open_section
from tests.fakes.guarded import GuardedMemory

LIMIT = 1 << 24
GUARDED = GuardedMemory(4096)
COMPRESSIONS = ("none", "none", "none", "gzip", "snappy", "lz4", "zstd")


def some_batches(rng: random.Random) -> bytes:
    parts, offset = [], rng.choice((0, 10_000))
    for _ in range(rng.randint(0, 12)):
        epoch = rng.choice((-1, 3, 3, 3, 4))
        if rng.random() < 0.1:
            parts.append(
                encode_control_batch(
                    ControlType.COMMIT,
                    producer_id=1,
                    producer_epoch=0,
                    coordinator_epoch=0,
                    timestamp_ms=1,
                    base_offset=offset,
                )
            )
            offset += 1
            continue
        count = rng.choice((1, 2, 40))
        batch = encode_batch(
            [rng.choice((None, b"", b"v" * rng.randint(1, 300))) for _ in range(count)],
            keys=[rng.choice((None, b"", b"key")) for _ in range(count)],
            headers=[rng.choice(((), [("h", b"1"), ("h", None)])) for _ in range(count)],
            timestamps=[rng.randint(0, 10_000) for _ in range(count)],
            compression=rng.choice(COMPRESSIONS),
        )
        if rng.random() < 0.3:
            batch = with_log_append_time(batch, 77_000)
        parts.append(b"".join(with_offset_and_epoch(batch, offset, epoch)))
        offset += count + rng.choice((0, 0, 5))
    return b"".join(parts)


def twin(data: bytes, from_offset: int) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    for position, header in iter_headers(data):
        if header.is_control or header.last_offset < from_offset:
            continue
        section = open_section(data, position, header, max_bytes=LIMIT)
        columns = RowColumns.decode(section, header, from_offset)
        rows += zip(
            columns.offsets(),
            columns.timestamps(),
            columns.keys(),
            columns.values(),
            columns.headers(),
            [(header.timestamp_type, header.partition_leader_epoch)] * len(columns.values()),
            strict=True,
        )
    return rows


def read(data: Any, from_offset: int = 0) -> list[RecordChunk]:
    return list(
        read_runs(
            data, "t", 3, from_offset=from_offset, check_crcs=True, max_decompressed_bytes=LIMIT
        )
    )


@pytest.mark.parametrize("seed", range(40))
def test_all_at_once_equals_one_by_one(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(runs, "CHUNK_RECORDS", rng.choice((7, 512)))
    data = some_batches(rng)
    last = last_header(data)
    end = last.next_offset if last else 0
    from_offset = rng.choice((0, end // 2, end, end + 9))
    chunks = read(memoryview(data) if seed % 2 else data, from_offset)
    rows: list[tuple[Any, ...]] = []
    for chunk, following in itertools.zip_longest(chunks, chunks[1:]):
        assert [chunk.offset_at(i) for i in range(len(chunk))] == chunk.offsets
        assert chunk.offsets[-1] < chunk.next_offset <= end
        assert following is None or chunk.next_offset <= following.offsets[0]
        epoch = -1 if chunk.leader_epoch is None else chunk.leader_epoch
        kinds = [(chunk.timestamp_type, epoch)] * len(chunk)
        columns = (chunk.offsets, chunk.timestamps, chunk.keys, chunk.values, chunk.headers, kinds)
        rows += zip(*columns, strict=True)
    assert rows == twin(data, from_offset)


def test_what_stands_before_a_bad_batch_is_given_first() -> None:
    good = encode_batch([b"v"] * 5, leader_epoch=1)
    second = pack_header(
        attributes=0, record_count=3, base_timestamp=0, max_timestamp=0, base_offset=5
    )
    fetched: list[int] = []
    reading = read_runs(
        good + seal(second, b"\x10" * 50),
        "t",
        3,
        from_offset=2,
        check_crcs=True,
        max_decompressed_bytes=LIMIT,
    )
    with pytest.raises(InvalidRecord, match="t-3, batch at offset 5: record 0"):
        fetched.extend(offset for chunk in reading for offset in chunk.offsets)
    assert fetched == [2, 3, 4]
    with pytest.raises(CorruptMessage, match="magic"):
        read(good + bytes(100))


def scan(data: bytes, room: int = 99) -> tuple[int, int, int, Any]:
    found = np.zeros((room, scan_kernels.FIELDS), np.int64)
    address, _alive = buffer_address(GUARDED.hold(data))
    return *scan_kernels.scan_batches(address, 0, len(data), 0, 2**63 - 1, found), found


def test_the_table_of_headers() -> None:
    batch = with_log_append_time(
        encode_batch([b"a", b"b"], base_offset=7, leader_epoch=-1, timestamps=[-5, 9]), -3
    )
    data = batch + batch[:70]  # the second one is cut
    rows, position, why, found = scan(data)
    assert (rows, position, why) == (1, len(batch), scan_kernels.DONE)
    ((_, header),) = iter_headers(data)
    row = found[0].tolist()
    assert row[1] - row[0] == len(batch) - 61
    assert row[2:] == told(header)
    assert scan(batch * 3, room=2)[:3] == (2, 2 * len(batch), scan_kernels.FULL)
    assert scan(batch + bytes(61))[:3] == (1, len(batch), scan_kernels.NOT_A_BATCH)
    assert scan(bytes(60))[:3] == (0, 0, scan_kernels.DONE)


def told(header: BatchHeader) -> list[int]:
    return [
        header.crc,
        header.compression,
        header.record_count,
        header.last_offset_delta,
        header.base_offset,
        header.base_timestamp,
        int(header.timestamp_type),
        header.max_timestamp,
        header.partition_leader_epoch,
    ]


def test_the_last_header() -> None:
    first, second = encode_batch([b"a"]), encode_batch([b"b"] * 3, base_offset=1)
    for data, expected in ((first + second, 4), (first + second[:-1], 1), (first[:50], None)):
        last = last_header(data)
        assert (last.next_offset if last else None) == expected
    with pytest.raises(CorruptMessage, match="magic 0"):
        last_header(bytes(200))
    with pytest.raises(CorruptMessage, match="length"):
        last_header(first + second[:8] + b"\xff\xff\xff\xff" + second[12:])


def references(chunk: RecordChunk) -> tuple[int, int]:
    return sys.getrefcount(chunk), sys.getrefcount(chunk.values[7])


def test_records_made_at_once_are_records_like_others() -> None:
    (chunk,) = read(encode_batch([b"v%d" % n for n in range(300)], keys=[b"k"] * 300))
    before = references(chunk)
    records = list(chunk.records())
    by_hand = [Record(chunk, n, value) for n, value in enumerate(chunk.values)]
    assert records == by_hand
    assert [type(record) for record in records] == [Record] * 300
    assert records[299].offset == 299
    assert references(chunk) == (before[0] + 600, before[1] + 2)
    del records, by_hand
    gc.collect()
    assert references(chunk) == before


def test_only_records_of_plain_bytes_are_hidden_from_the_collector() -> None:
    (chunk,) = read(encode_batch([b"v"] * 30))
    assert not any(map(gc.is_tracked, chunk.records()))
    chunk.values = [[value] for value in chunk.values]
    records = list(chunk.records())
    assert all(map(gc.is_tracked, records))
    assert records[3].value == [b"v"]
    gone = weakref.ref(chunk)
    records[3].value.append(records[3])
    del chunk, records
    gc.collect()
    assert gone() is None
