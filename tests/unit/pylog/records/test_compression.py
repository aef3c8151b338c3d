from __future__ import annotations

import contextlib
import random
import struct

import lz4.frame
import pytest
import zstandard

from pylog.errors import InvalidRecord, UnsupportedCompressionType
from pylog.records.batch import CompressionType
from pylog.records.compression import check_codec, codec_from_name, compress, decompress

RNG = random.Random(7)
DATA = RNG.randbytes(5000) + b"a" * 200_000 + RNG.randbytes(70_000)
LZ4, ZSTD = CompressionType.LZ4, CompressionType.ZSTD
both = pytest.mark.parametrize("codec", [LZ4, ZSTD])


def zstd_stream(data: bytes) -> bytes:
    """As librdkafka and Java write it: no content size."""
    return zstandard.ZstdCompressor(write_content_size=False).compress(data)


@pytest.mark.parametrize("codec", [CompressionType.NONE, LZ4, ZSTD])
@pytest.mark.parametrize("data", [b"", b"x", DATA], ids=["empty", "one", "large"])
def test_round_trip(codec: CompressionType, data: bytes) -> None:
    packed = compress(codec, data)
    for kind in (bytes, bytearray, memoryview):
        assert decompress(codec, kind(packed), max_bytes=len(data)) == data


def test_none_is_the_same_object() -> None:
    assert compress(CompressionType.NONE, DATA) is DATA
    assert decompress(0, DATA, max_bytes=0) is DATA


def test_names() -> None:
    assert codec_from_name("zstd") is ZSTD
    for name in ("gzip", "snappy", "LZ4", "", "brotli"):
        with pytest.raises(UnsupportedCompressionType, match="use none, lz4 or zstd"):
            codec_from_name(name)
    for codec in (1, 2, 5, 6, 7, -1):
        with pytest.raises(UnsupportedCompressionType):
            check_codec(codec)


def test_our_lz4_is_framed_as_java_does() -> None:
    frame = bytes(compress(LZ4, DATA))
    info = lz4.frame.get_frame_info(frame)
    assert frame[:4] == bytes.fromhex("04224d18")
    assert (info["block_size"], info["block_linked"]) == (64 * 1024, False)
    assert (info["content_size"], info["content_checksum"]) == (0, False)


@pytest.mark.parametrize(
    "options",
    [
        {"store_size": True, "block_linked": True},
        {"block_checksum": True, "content_checksum": True},
        {"block_size": lz4.frame.BLOCKSIZE_MAX4MB},
    ],
)
def test_other_lz4_frames(options: dict[str, int]) -> None:
    assert decompress(LZ4, lz4.frame.compress(DATA, **options), max_bytes=len(DATA)) == DATA


def test_zstd_without_content_size() -> None:
    for data in (b"", b"x", DATA):
        assert decompress(ZSTD, zstd_stream(data), max_bytes=len(data)) == data


@pytest.mark.parametrize("pack", [lambda data: compress(LZ4, data), zstd_stream])
def test_the_limit_is_exact(pack: object) -> None:
    packed = pack(DATA)  # type: ignore[operator]
    codec = LZ4 if packed[:1] == b"\x04" else ZSTD
    assert decompress(codec, packed, max_bytes=len(DATA)) == DATA
    with pytest.raises(InvalidRecord, match=f"limit of {len(DATA) - 1} bytes"):
        decompress(codec, packed, max_bytes=len(DATA) - 1)


def zstd_bomb(runs: int) -> bytes:
    """Four bytes for each 128 KiB of zeros."""
    block = struct.pack("<I", 128 * 1024 << 3 | 1 << 1)[:3] + b"\0"
    last = struct.pack("<I", 128 * 1024 << 3 | 1 << 1 | 1)[:3] + b"\0"
    # magic, descriptor without content size, window of 128 KiB
    return struct.pack("<IBB", 0xFD2FB528, 0, 7 << 3) + block * runs + last


def test_a_zstd_bomb_stops_at_the_limit() -> None:
    bomb = zstd_bomb(255)
    assert len(bomb) < 1100
    assert decompress(ZSTD, bomb, max_bytes=1 << 25) == bytes(1 << 25)
    with pytest.raises(InvalidRecord, match="limit of 1048576"):
        decompress(ZSTD, bomb, max_bytes=1 << 20)
    with pytest.raises(InvalidRecord, match="limit of 1048576"):
        decompress(ZSTD, zstd_bomb(1 << 18), max_bytes=1 << 20)  # 1 MiB -> 32 GiB


def test_an_lz4_bomb_stops_at_the_limit() -> None:
    bomb = compress(LZ4, bytes(1 << 26))
    with pytest.raises(InvalidRecord, match="limit of 1048576"):
        decompress(LZ4, bomb, max_bytes=1 << 20)


def test_a_lying_content_size_is_refused() -> None:
    frame = bytearray(zstandard.ZstdCompressor().compress(b"abc" * 100))
    size = frame.index(struct.pack("<H", 300 - 256))
    frame[size : size + 2] = b"\xff\xff"
    with pytest.raises(InvalidRecord):
        decompress(ZSTD, frame, max_bytes=1 << 20)
    huge = struct.pack("<IBQ", 0xFD2FB528, 0xE0, 2**62) + b"\x01\x00\x00"
    with pytest.raises(InvalidRecord, match="limit of"):
        decompress(ZSTD, huge, max_bytes=1 << 20)


def packed_frames() -> dict[str, tuple[CompressionType, bytes]]:
    data = DATA[:6000]
    return {
        "lz4": (LZ4, bytes(compress(LZ4, data))),
        "zstd": (ZSTD, bytes(compress(ZSTD, data))),
        "zstd stream": (ZSTD, zstd_stream(data)),
    }


@pytest.mark.parametrize("name", packed_frames())
def test_cut_and_prolonged_streams(name: str) -> None:
    codec, packed = packed_frames()[name]
    for cut in [*range(40), *range(len(packed) - 40, len(packed))]:
        with pytest.raises(InvalidRecord):
            decompress(codec, packed[:cut], max_bytes=1 << 20)
    for tail in (b"\0", packed):
        with pytest.raises(InvalidRecord):
            decompress(codec, packed + tail, max_bytes=1 << 20)


@pytest.mark.parametrize("name", packed_frames())
def test_mutated_streams_end(name: str) -> None:
    codec, packed = packed_frames()[name]
    rng = random.Random(3)
    for _ in range(1500):
        broken = bytearray(packed)
        for _ in range(rng.randint(1, 3)):
            place = rng.choice((rng.randrange(16), rng.randrange(len(broken))))
            broken[place] = rng.randrange(256)
        with contextlib.suppress(InvalidRecord):
            assert len(decompress(codec, broken, max_bytes=20_000)) <= 20_000


@both
def test_garbage(codec: CompressionType) -> None:
    for data in (b"garbage", bytes(1000), b"\xff" * 1000):
        with pytest.raises(InvalidRecord, match=r"malformed|cut"):
            decompress(codec, data, max_bytes=1000)
