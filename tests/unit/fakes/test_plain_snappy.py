"""The twin by hand-made blocks, and the library against the twin."""

from __future__ import annotations

import random

import pytest
from cramjam import snappy

from pylog.errors import InvalidRecord
from pylog.records.batch import CompressionType
from pylog.records.compression import decompress
from tests.fakes.bad_batches import snappy_zeros, xerial
from tests.fakes.plain_snappy import BadBlock, unpack


def test_hand_made_blocks() -> None:
    assert unpack(b"\x00") == b""
    assert unpack(b"\x03\x08abc") == b"abc"
    assert unpack(b"\x07\x08abc" + bytes((1 | 0 << 2, 3))) == b"abcabca"  # 4 bytes, 3 back
    assert unpack(b"\x05\x08abc" + bytes((2 | 1 << 2, 1, 0))) == b"abccc"
    assert unpack(b"\x05\x08abc" + bytes((3 | 1 << 2, 2, 0, 0, 0))) == b"abcbc"
    assert unpack(b"\x3d" + bytes((60 << 2, 60)) + bytes(61)) == bytes(61)
    assert unpack(snappy_zeros(640)) == bytes(640)


@pytest.mark.parametrize(
    "block",
    [
        b"",
        b"\x80",
        b"\x01",
        b"\x01\x04ab",
        b"\x03\x08ab",
        b"\x04\x00a" + bytes((1, 2)),
        b"\xff" * 9,
    ],
)
def test_bad_blocks(block: bytes) -> None:
    with pytest.raises(BadBlock):
        unpack(block)


@pytest.mark.parametrize("seed", range(8))
def test_the_library_says_what_the_twin_says(seed: int) -> None:
    rng = random.Random(seed)
    sources = [b"", b"x" * 90, rng.randbytes(70), b"abcd" * 40 + rng.randbytes(30) + b"abcd" * 9]
    for _ in range(1500):
        block = bytearray(snappy.compress_raw(rng.choice(sources)))
        for _ in range(rng.choice((0, 1, 1, 2))):
            block[rng.randrange(len(block))] = rng.choice((0, 1, 0xFF, rng.randrange(256)))
        if rng.random() < 0.2:
            del block[rng.randrange(len(block)) :]
        if bytes(block[:8]) == xerial()[:8]:
            continue
        try:
            expected: bytes | None = unpack(bytes(block))
        except BadBlock:
            expected = None
        for stream in (bytes(block), xerial(bytes(block)) if block else b""):
            try:
                found: bytes | None = bytes(
                    decompress(CompressionType.SNAPPY, stream, max_bytes=1 << 20)
                )
            except InvalidRecord:
                found = None
            assert found == expected, block.hex()
