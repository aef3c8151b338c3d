"""Avro read back against a plain writer of it."""

from __future__ import annotations

import contextlib
import json
import struct
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylog.console.avro import AvroError, Schema, decode, read_container, to_json

RECORD = json.dumps({
    "type": "record", "name": "R", "namespace": "n", "fields": [
        {"name": "l", "type": "long"}, {"name": "s", "type": "string"},
        {"name": "b", "type": "bytes"}, {"name": "t", "type": "boolean"},
        {"name": "d", "type": "double"}, {"name": "u", "type": ["null", "string"]},
        {"name": "a", "type": {"type": "array", "items": "int"}},
        {"name": "m", "type": {"type": "map", "values": "long"}},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["X", "Y"]}},
        {"name": "x", "type": {"type": "fixed", "name": "F", "size": 2}},
        {"name": "again", "type": ["null", "n.E"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
})  # fmt: skip


def number(value: int) -> bytes:
    zigzag, out = (value << 1) ^ (value >> 63), b""
    while zigzag > 0x7F:
        out, zigzag = out + bytes([zigzag & 0x7F | 0x80]), zigzag >> 7
    return out + bytes([zigzag])


def text(value: bytes) -> bytes:
    return number(len(value)) + value


def written(row: dict[str, Any]) -> bytes:
    return b"".join([
        number(row["l"]), text(row["s"].encode()), text(row["b"]), bytes([row["t"]]),
        struct.pack("<d", row["d"]),
        number(0) if row["u"] is None else number(1) + text(row["u"].encode()),
        (number(len(row["a"])) + b"".join(map(number, row["a"])) if row["a"] else b"") + b"\0",
        (number(-len(row["m"])) + number(9) + b"".join(
            text(k.encode()) + number(v) for k, v in row["m"].items()) if row["m"] else b"")
        + b"\0",
        number("XY".index(row["e"])), row["x"],
        number(0) if row["again"] is None else number(1) + number("XY".index(row["again"])),
        number(row["at"]),
    ])  # fmt: skip


longs = st.integers(-(2**63), 2**63 - 1)
rows = st.fixed_dictionaries({
    "l": longs, "s": st.text(), "b": st.binary(), "t": st.booleans(),
    "d": st.floats(allow_nan=False), "u": st.none() | st.text(),
    "a": st.lists(st.integers(-(2**31), 2**31 - 1)), "m": st.dictionaries(st.text(), longs),
    "e": st.sampled_from("XY"), "x": st.binary(min_size=2, max_size=2),
    "again": st.none() | st.sampled_from("XY"), "at": longs,
})  # fmt: skip


@given(rows)
def test_what_was_written_is_read(row: dict[str, Any]) -> None:
    assert decode(written(row), Schema(RECORD)) == row


@given(rows, st.binary(min_size=1))
def test_bytes_that_are_left_over_are_no_value(row: dict[str, Any], more: bytes) -> None:
    with pytest.raises(AvroError):
        decode(written(row) + more, Schema(RECORD))


@given(st.binary(max_size=200))
def test_any_bytes_are_a_value_or_an_error(data: bytes) -> None:
    with contextlib.suppress(AvroError):
        to_json(decode(data, Schema(RECORD)))


def container(codec: bytes, blocks: list[list[bytes]], schema: bytes = b'"string"') -> bytes:
    sync = b"s" * 16
    meta = number(2) + text(b"avro.schema") + text(schema) + text(b"avro.codec") + text(codec)
    out = b"Obj\x01" + meta + b"\0" + sync
    for block in blocks:
        data = b"".join(block)
        if codec == b"deflate":
            packer = zlib.compressobj(wbits=-15)
            data = packer.compress(data) + packer.flush()
        out += number(len(block)) + text(data) + sync
    return out


@pytest.mark.parametrize("codec", [b"null", b"deflate"])
def test_a_container_file(codec: bytes) -> None:
    data = container(codec, [[text(b"a"), text(b"b")], [text(b"c")]])
    assert read_container(data) == (["a", "b", "c"], True)
    many = container(codec, [[text(b"r")] * 60, [text(b"r")] * 60])
    assert read_container(many) == (["r"] * 100, False)


@given(st.binary(max_size=100))
def test_any_container_is_rows_or_an_error(data: bytes) -> None:
    with contextlib.suppress(AvroError):
        read_container(b"Obj\x01" + data)


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        ('{"type": "array", "items": "null"}', number(2**40) + b"\0"),
        ('{"type": "record", "name": "R", "fields": [{"name": "r", "type": "R"}]}', b""),
        ('"string"', number(2**60)),
        ('"string"', number(-1)),
        ('"long"', b"\xff" * 20),
        ('"nobody"', b""),
        ('"boolean"', b"\x02"),
    ],
)
def test_a_few_bytes_cannot_ask_for_much(schema: str, data: bytes) -> None:
    with pytest.raises(AvroError):
        decode(data, Schema(schema))


def test_a_block_that_expands_without_end_is_refused() -> None:
    packer = zlib.compressobj(wbits=-15)
    bomb = packer.compress(b"\0" * (64 << 20)) + packer.flush()
    sync = b"s" * 16
    head = container(b"deflate", [])
    with pytest.raises(AvroError, match="larger than"):
        read_container(head + number(1) + text(bomb) + sync)


@pytest.mark.parametrize(
    "schema",
    ["{", "[" * 5_000, "3", '{"type": "record", "name": "R"}', '{"type": "fixed", "name": "F"}',
     '{"type": "record", "name": "R", "fields": [{"name": "a"}]}', '{"type": "array"}',
     '{"type": "enum", "name": "E", "symbols": "X"}'],
)  # fmt: skip
def test_what_is_no_schema_is_told(schema: str) -> None:
    with pytest.raises(AvroError):
        Schema(schema)
