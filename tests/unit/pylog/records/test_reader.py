from __future__ import annotations

import pickle
import random
from collections.abc import Iterator

import pytest

from pylog.errors import CorruptMessage, InvalidRecord, UnsupportedCompressionType
from pylog.model import TimestampType
from pylog.records.batch import pack_header, seal, with_log_append_time
from pylog.records.builder import ControlType, encode_batch, encode_control_batch
from pylog.records.reader import first_record_at_or_after, iter_chunks, iter_records
from pylog.records.record import Record


def batches(sizes: tuple[int, ...], compression: str = "none") -> bytes:
    """Values "0", "1" ... at offsets 0, 1 ..., timestamps 100 times the offset, leader epoch 4."""

    def each() -> Iterator[bytes]:
        base = 0
        for size in sizes:
            offsets = range(base, base + size)
            yield encode_batch(
                [str(offset).encode() for offset in offsets],
                timestamps=[100 * offset for offset in offsets],
                base_offset=base,
                leader_epoch=4,
                compression=compression,
            )
            base += size

    return b"".join(each())


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("from_offset", [0, 1, 4, 9, 10, 22, 23, 100])
def test_from_any_offset(compression: str, from_offset: int) -> None:
    whole = batches((1, 3, 5, 1, 13), compression)
    records = list(iter_records(whole, "t", 2, from_offset=from_offset))
    assert [r.offset for r in records] == list(range(from_offset, 23))
    for r in records:
        assert r == Record.of(
            "t", 2, r.offset, 100 * r.offset, value=str(r.offset).encode(), leader_epoch=4
        )


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_cut_last_batch_is_left_out(kind: type) -> None:
    whole = batches((5, 5))
    first = len(batches((5,)))
    for cut in range(first, len(whole), 7):
        assert len(list(iter_records(kind(whole[:cut]), "t", 0))) == 5
    assert list(iter_records(kind(b""), "t", 0)) == []


def test_control_batches_are_skipped_unless_asked_for() -> None:
    marker = encode_control_batch(
        ControlType.ABORT,
        producer_id=1,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp_ms=1,
        base_offset=5,
    )
    data = batches((5,)) + marker
    assert len(list(iter_records(data, "t", 0))) == 5
    *_, last = iter_records(data, "t", 0, include_control=True)
    assert last.offset == 5
    assert list(iter_records(marker, "t", 0)) == []


@pytest.mark.parametrize("size", [1, 8])
def test_a_wrong_crc_names_the_place(size: int) -> None:
    data = bytearray(batches((2, size)))
    data[-2] ^= 1
    taken = []
    with pytest.raises(CorruptMessage, match=r"t-3, batch at offset 2: .*does not match its CRC"):
        taken.extend(iter_records(data, "t", 3))
    assert [record.offset for record in taken] == [0, 1]
    assert len(list(iter_chunks(data, "t", 3, check_crcs=False))) == 2


@pytest.mark.parametrize("count", [2, 8])
def test_malformed_records_name_the_place_and_index(count: int) -> None:
    header = pack_header(
        attributes=0, record_count=count, base_timestamp=0, max_timestamp=0, base_offset=70
    )
    good = batches((1,))[61:]
    batch = seal(header, good * count)  # every offset delta is 0
    with pytest.raises(InvalidRecord, match="t-1, batch at offset 70: record 1") as caught:
        list(iter_records(batch, "t", 1))
    assert caught.value.record_index == 1


def test_unknown_codec_and_foreign_bytes() -> None:
    header = pack_header(attributes=5, record_count=1, base_timestamp=0, max_timestamp=0)
    with pytest.raises(UnsupportedCompressionType, match=r"t-1, batch at offset 0: .*codec 5"):
        list(iter_records(seal(header, b"x" * 20), "t", 1))
    with pytest.raises(CorruptMessage):
        list(iter_records(bytes(200), "t", 1))


@pytest.mark.parametrize("count", [3, 30])
def test_columns_can_be_replaced(count: int) -> None:
    (chunk,) = iter_chunks(batches((count,)), "t", 0)
    chunk.keys = [f"key {offset}" for offset in chunk.offsets]
    chunk.values = [int(value) for value in chunk.values]
    records = list(chunk.records())
    assert [(r.key, r.value) for r in records] == [(f"key {i}", i) for i in range(count)]
    assert (chunk.next_offset, chunk.offset_at(count - 1)) == (count, count - 1)


def test_an_empty_batch_left_by_compaction() -> None:
    header = pack_header(
        attributes=0, record_count=0, base_timestamp=0, max_timestamp=0, last_offset_delta=4
    )
    empty = seal(header, b"")
    assert list(iter_chunks(empty, "t", 0)) == []
    assert first_record_at_or_after(empty, 0) is None


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_first_record_at_or_after(compression: str) -> None:
    data = batches((1, 3, 5, 1, 13), compression)
    assert first_record_at_or_after(data, 0) == (0, 0)
    assert first_record_at_or_after(data, 301) == (4, 400)
    assert first_record_at_or_after(data, 2200) == (22, 2200)
    assert first_record_at_or_after(data, 2201) is None
    assert first_record_at_or_after(data, 0, from_offset=6) == (6, 600)


def test_first_by_time_out_of_order_and_by_append_time() -> None:
    batch = encode_batch([b""] * 6, timestamps=[5, 900, 3, 1000, 2, 1])
    assert first_record_at_or_after(batch, 6) == (1, 900)
    assert first_record_at_or_after(batch, 901) == (3, 1000)
    assert first_record_at_or_after(with_log_append_time(batch, 50), 40) == (0, 50)


@pytest.mark.parametrize("count", [1, 3, 4, 50])
def test_first_by_time_equals_a_look_at_every_record(count: int) -> None:
    rng = random.Random(count)
    for _ in range(30):
        times = [rng.choice((-1, 0, rng.randint(0, 60), 2**62)) for _ in range(count)]
        batch = encode_batch([b""] * count, timestamps=times, base_offset=9)
        if rng.random() < 0.2:
            batch = with_log_append_time(batch, 30)
            times = [30] * count
        start, wanted = (
            rng.randint(0, count + 12),
            rng.choice((-1, 0, 30, 31, 60, 2**62, 2**63 - 1)),
        )
        expected = [
            (offset, time)
            for offset, time in enumerate(times, 9)
            if offset >= start and time >= wanted
        ]
        found = first_record_at_or_after(batch, wanted, from_offset=start)
        assert found == (expected[0] if expected else None)


def test_record_is_a_value() -> None:
    record = next(iter_records(encode_batch([b"v"], keys=[b"k"], headers=[[("h", None)]]), "t", 1))
    assert pickle.loads(pickle.dumps(record)) == record
    assert hash(record) == hash(Record.of("t", 1, 0))
    assert record != Record.of("t", 1, 0)
    assert record != "t"
    assert repr(record) == (
        "Record(topic='t', partition=1, offset=0, timestamp_ms=-1, key=b'k', value=b'v', "
        "headers=[('h', None)])"
    )
    assert record.leader_epoch is None
    assert record.timestamp_type is TimestampType.CREATE_TIME
    with pytest.raises(AttributeError):
        record.other = 1  # type: ignore[attr-defined]
