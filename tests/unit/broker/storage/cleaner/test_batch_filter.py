"""A batch cleaned, against records written one by one in plain Python; and the index witness."""

from __future__ import annotations

import random

import numpy as np
import pytest

from pylog.model import TimestampType
from pylog.records.batch import (
    HEADER_SIZE,
    BatchHeader,
    crc_matches,
    read_header,
    with_log_append_time,
)
from pylog.records.builder import encode_batch
from pylog.records.compression import DECOMPRESSED_BYTES_MAX
from pylog.records.reader import iter_records
from pylog.records.record import Record
from pylog.records.sections import open_section
from pylog.records.varint import encode_varint
from pylog_broker.storage.cleaner.batch_filter import delete_horizon, empty_batch, filtered_batch
from pylog_broker.storage.cleaner.offset_map import fields_of
from pylog_broker.storage.indexes.index_witness import IndexWitness
from tests.fakes.logs import WALL_MS


def random_batch(rng: random.Random, compression: str) -> bytes:
    count = rng.randrange(1, 30)
    data = [None, b"", b"x", b"y" * 200]
    batch = encode_batch(
        [rng.choice(data) for _ in range(count)],
        keys=[rng.choice(data) for _ in range(count)],
        headers=[[("h", rng.choice(data))] * rng.randrange(3) for _ in range(count)],
        timestamps=[WALL_MS + rng.randrange(-(10**6), 10**6) for _ in range(count)],
        base_offset=rng.randrange(10**6),
        leader_epoch=3,
        producer_id=7,
        producer_epoch=1,
        base_sequence=40,
        compression=compression,
    )
    return with_log_append_time(batch, WALL_MS + 5) if rng.random() < 0.3 else batch


def one_by_one(records: list[Record], base_offset: int, base_timestamp: int) -> bytes:
    parts = []
    for record in records:
        body = b"\0" + encode_varint(record.timestamp_ms - base_timestamp)
        body += encode_varint(record.offset - base_offset)
        for data in (record.key, record.value):
            body += encode_varint(-1) if data is None else encode_varint(len(data)) + data
        body += encode_varint(len(record.headers))
        for name, value in record.headers:
            body += encode_varint(len(name)) + name.encode()
            body += encode_varint(-1) if value is None else encode_varint(len(value)) + value
        parts.append(encode_varint(len(body)) + body)
    return b"".join(parts)


@pytest.mark.parametrize("compression", ["none", "lz4", "zstd"])
@pytest.mark.parametrize("seed", range(20))
def test_a_filtered_batch(seed: int, compression: str) -> None:
    rng = random.Random(seed)
    batch = random_batch(rng, compression)
    for horizon in (None, WALL_MS + 10**9, None):  # the third time the batch has one already
        header = read_header(batch)
        records = list(iter_records(batch, "t", 0))
        mask = [rng.random() < 0.7 for _ in records]
        mask[rng.randrange(len(mask))] = True
        kept = [record for record, stays in zip(records, mask, strict=True) if stays]
        section = open_section(batch, 0, header, max_bytes=DECOMPRESSED_BYTES_MAX)
        fields = fields_of(section, header)
        result = filtered_batch(section, header, fields, np.array(mask, np.uint8), horizon)
        found = read_header(result)
        until = delete_horizon(header) if horizon is None else horizon
        base = kept[0].timestamp_ms if until is None else until
        stamped = header.timestamp_type is TimestampType.LOG_APPEND_TIME
        newest = max(record.timestamp_ms for record in kept)
        assert stamped is (found.timestamp_type is TimestampType.LOG_APPEND_TIME)
        assert delete_horizon(found) == until
        assert found == header._replace(
            base_timestamp=base,
            max_timestamp=header.max_timestamp if stamped else newest,
            record_count=len(kept),
            attributes=found.attributes,
            batch_length=found.batch_length,
            crc=found.crc,
        )
        assert crc_matches(result, 0, found)
        plain = open_section(result, 0, found, max_bytes=DECOMPRESSED_BYTES_MAX)
        body = bytes(memoryview(plain.buffer)[plain.start : plain.end])
        assert body == one_by_one(kept, header.base_offset, base)
        batch = result


def test_an_empty_batch_keeps_producer_sequences_and_offsets() -> None:
    batch = random_batch(random.Random(1), "lz4")
    header, empty = read_header(batch), read_header(empty_batch(read_header(batch)))
    assert empty.size == HEADER_SIZE
    assert (empty.base_offset, empty.last_offset) == (header.base_offset, header.last_offset)
    assert (empty.producer_id, empty.last_sequence) == (7, header.last_sequence)
    assert (empty.base_timestamp, empty.max_timestamp) == (-1, header.max_timestamp)
    assert empty.compression == 0


# ---- the index witness --------------------------------------------------------------------------

PLACES = [(0, 1, 10), (100, 3, 30), (200, 5, 20), (300, 7, 40)]
"""Position, last offset and largest timestamp of four batches."""


@pytest.mark.parametrize(
    ("offsets", "times", "due", "compacted", "agrees"),
    [
        ([(3, 100), (7, 300)], [(30, 3), (40, 7)], 2, False, True),
        ([(5, 200)], [(40, 7)], 3, False, True),  # a start left some out
        ([], [(40, 7)], 3, False, True),
        ([], [(40, 7)], 9, False, False),  # emptied by somebody
        ([], [(40, 7)], 9, True, True),  # Kafka's cleaner makes few
        ([(3, 101)], [(40, 7)], 1, False, False),  # leads nowhere
        ([(9, 400)], [(40, 7)], 1, False, False),
        ([(3, 100)], [(30, 3)], 1, False, False),  # the largest is missing
        ([(3, 100)], [(20, 5), (40, 7)], 1, False, False),  # 20 was no record then
        ([(3, 100)], [], 1, False, False),
    ],
)
def test_index_files_that_tell_the_truth(
    offsets: list[tuple[int, int]],
    times: list[tuple[int, int]],
    due: int,
    compacted: bool,
    agrees: bool,
) -> None:
    witness = IndexWitness(offsets, times)
    for position, last_offset, timestamp in PLACES:
        header = read_header(encode_batch([b"v"], timestamps=timestamp, base_offset=last_offset))
        witness.see(position, header)
    assert witness.agrees(due, compacted=compacted) is agrees


def test_a_wide_gap_means_lost_entries() -> None:
    witness = IndexWitness([], [(10, 1)])
    for position in (0, 2 << 20):
        header: BatchHeader = read_header(
            encode_batch([b"v"], timestamps=10, base_offset=1 + position)
        )
        witness.see(position, header)
    assert not witness.agrees(1, compacted=True)
