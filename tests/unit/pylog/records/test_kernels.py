"""The compiled kernels against their twins in plain Python, on good and on broken bytes."""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pylog.records import check_kernels, faults, kernels_pure, native
from pylog.records.headers import encode_headers
from pylog.records.kernels_pure import RecordFault
from pylog.records.native import decode_kernels, raw_memory
from pylog.records.native.list_encoder import encode_lists
from tests.fakes.guarded import GuardedMemory

data = st.one_of(st.none(), st.binary(max_size=20), st.integers(60, 70).map(bytes))
header_lists = st.lists(
    st.tuples(st.text(max_size=5), st.one_of(st.none(), st.binary(max_size=5))), max_size=3
)
int64 = st.integers(-(2**63), 2**63 - 1)
timestamps = st.one_of(st.integers(0, 2**41), int64)
rows = st.lists(st.tuples(data, data, header_lists, timestamps), min_size=1, max_size=12)

MEMORY = GuardedMemory(1 << 16)


def pure_section(records: list[Any]) -> bytes:
    values, keys, headers, times = map(list, zip(*records, strict=True))
    blobs = [encode_headers(pairs) for pairs in headers]
    return kernels_pure.encode_records(values, keys, blobs, times, times[0])


def pure_decode(section: bytes, count: int, last_offset_delta: int) -> object:
    try:
        return kernels_pure.decode_records(section, 0, len(section), count, last_offset_delta)
    except RecordFault as fault:
        return fault.args


def compiled_decode(section: bytes, count: int, last_offset_delta: int) -> object:
    fields = np.empty((decode_kernels.FIELDS, count), np.int64)
    address, _alive = raw_memory.buffer_address(MEMORY.hold(section))
    fault, index = decode_kernels.decode_records(
        address, 0, len(section), count, last_offset_delta, fields
    )
    if fault != faults.NONE:
        return fault, index
    return [kernels_pure.RecordFields(*column) for column in fields.T.tolist()]


def pure_check(section: bytes, count: int, base_timestamp: int) -> object:
    try:
        return tuple(kernels_pure.check_records(section, 0, len(section), count, base_timestamp))
    except RecordFault as fault:
        return fault.args


def compiled_check(section: bytes, count: int, base_timestamp: int) -> object:
    address, _alive = raw_memory.buffer_address(MEMORY.hold(section))
    fault, index, *summary = check_kernels.check_records(
        address, 0, len(section), count, base_timestamp
    )
    return (fault, index) if fault != faults.NONE else tuple(summary)


def compare(section: bytes, count: int, base_timestamp: int = 0) -> None:
    expected = pure_decode(section, count, count - 1)
    assert compiled_decode(section, count, count - 1) == expected
    checked = pure_check(section, count, base_timestamp)
    assert compiled_check(section, count, base_timestamp) == checked


@settings(max_examples=150)
@given(rows)
def test_encoding_equals_the_twin(records: list[Any]) -> None:
    values, keys, headers, times = map(list, zip(*records, strict=True))
    blobs = [encode_headers(pairs) for pairs in headers]

    expected = pure_section(records)
    for stamps in (times, array("q", times), np.array(times)):
        encoded, *span = encode_lists(3, values, keys, blobs, stamps)
        assert encoded[3:] == expected
        assert span == [times[0], max(times)]


@settings(max_examples=150)
@given(rows, st.data())
def test_decoding_equals_the_twin(records: list[Any], choose: st.DataObject) -> None:
    section = pure_section(records)
    assert isinstance(pure_decode(section, len(records), len(records) - 1), list)
    compare(section, len(records), choose.draw(int64))
    for count in (0, len(records) - 1, len(records) + 1):
        compare(section, count)


@settings(max_examples=300)
@given(st.binary(max_size=60), st.integers(0, 9))
@example(b"", 0)
@example(b"", 1)
@example(b"\x00", 1)
@example(b"\x80" * 30, 1)
@example(b"\xff" * 9 + b"\x01", 1)
@example(b"\xfe\xff\xff\xff\x0f" + b"\x00" * 20, 1)
@example(b"\xfe\xff\xff\xff\x1f" + b"\x00" * 20, 1)
def test_any_bytes(section: bytes, count: int) -> None:
    compare(section, count)


def mutants(section: bytes, rng: random.Random, number: int) -> Iterator[bytes]:
    for _ in range(number):
        broken = bytearray(section)
        for _ in range(rng.randint(1, 4)):
            place = rng.randrange(len(broken)) if broken else 0
            kind = rng.randrange(5)
            if kind == 0 and broken:
                broken[place] ^= 1 << rng.randrange(8)
            elif kind == 1:
                broken[place : place + 1] = rng.choice(
                    (b"\0", b"\1", b"\2", b"\x7f", b"\x80", b"\xff")
                )
            elif kind == 2:
                broken[place : place + 1] = rng.randbytes(rng.randint(0, 3))
            elif kind == 3:  # a huge varint
                broken[place : place + 1] = b"\xff" * rng.randint(1, 10) + b"\x0f"
            else:
                del broken[place:]
                broken += b"\x01"
        yield bytes(broken)


@pytest.mark.parametrize("seed", range(4))
def test_broken_sections_give_the_same_fault_and_no_read_outside(seed: int) -> None:
    rng = random.Random(seed)
    seen: set[int] = set()
    for _ in range(60):
        records = [
            (
                rng.choice((None, b"", rng.randbytes(rng.randint(1, 70)))),
                rng.choice((None, b"", rng.randbytes(5))),
                rng.choice(([], [("h", None)], [("a", b""), ("b", b"xyz")])),
                rng.randint(0, 2**41),
            )
            for _ in range(rng.randint(1, 6))
        ]
        section = pure_section(records)
        for broken in mutants(section, rng, 25):
            compare(broken, len(records))
            result = compiled_decode(broken, len(records), len(records) - 1)
            if isinstance(result, tuple):
                seen.add(result[0])
    assert seen == set(range(faults.VARINT, faults.TRAILING + 1))


def test_compacted_sections_may_have_gaps() -> None:
    section = pure_section([(b"v", None, [], 0)] * 3)
    # The second record's offset delta is its fourth byte.
    second = len(section) // 3
    gapped = section[: second + 3] + b"\x06" + section[second + 4 :]
    assert pure_decode(gapped, 3, 9) == (faults.OFFSET, 2)
    widened = gapped[: 2 * second + 3] + b"\x10" + gapped[2 * second + 4 :]
    assert compiled_decode(widened, 3, 9) == pure_decode(widened, 3, 9)
    assert [row.offset_delta for row in pure_decode(widened, 3, 9)] == [0, 3, 8]  # type: ignore[attr-defined]
    assert compiled_decode(widened, 3, 7) == (faults.OFFSET, 2)
    assert compiled_check(widened, 3, 0) == (faults.OFFSET, 1)


@pytest.mark.parametrize("size", [2, 100, 40_000, 1_000_000])
def test_a_new_buffer_is_its_own(size: int) -> None:
    first, second = raw_memory.new_buffer(size), raw_memory.new_buffer(size)
    assert first is not second
    assert (len(first), type(first)) == (size, bytes if native.is_on() else bytearray)
    assert type(raw_memory.as_bytes(first)) is bytes


def test_wrapping() -> None:
    assert kernels_pure.wrap_int64(2**63) == -(2**63)
    assert kernels_pure.wrap_int64(-(2**63) - 1) == 2**63 - 1
    assert kernels_pure.wrap_int64(-5) == -5


def test_varint_vectors() -> None:
    from pylog.records.varint import encode_varint, read_varint, read_varlong, varint_size

    vectors = {
        0: "00",
        -1: "01",
        1: "02",
        63: "7e",
        -64: "7f",
        64: "8001",
        -65: "8101",
        2**31 - 1: "feffffff0f",
        -(2**31): "ffffffff0f",
        2**63 - 1: "feffffffffffffffff01",
        -(2**63): "ffffffffffffffffff01",
    }
    for value, expected in vectors.items():
        raw = bytes.fromhex(expected)
        assert encode_varint(value) == raw
        assert varint_size(value) == len(raw)
        assert read_varlong(raw, 0, len(raw)) == (value, len(raw))
        if len(raw) <= 5:
            assert read_varint(b"xx" + raw, 2, 2 + len(raw)) == (value, 2 + len(raw))
        with pytest.raises(ValueError, match="cut"):
            read_varlong(raw, 0, len(raw) - 1)
    with pytest.raises(ValueError, match="32 bits"):
        read_varint(bytes.fromhex("ffffffff1f"), 0, 5)
