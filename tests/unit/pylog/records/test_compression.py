from __future__ import annotations

import contextlib
import gzip
import random
import struct
import threading
import tracemalloc
from collections.abc import Callable

import lz4.frame
import pytest
import zstandard
from cramjam import snappy
from hypothesis import given, settings
from hypothesis import strategies as st

from pylog.client.settings import PRODUCER_SETTINGS
from pylog.errors import InvalidConfig, InvalidRecord, UnsupportedCompressionType
from pylog.records import zstd_codec
from pylog.records.batch import CompressionType
from pylog.records.compression import (
    CODEC_NAMES,
    LEVELS,
    Compression,
    check_codec,
    codec_from_name,
    compress,
    decompress,
)
from tests.fakes import bad_batches

RNG = random.Random(7)
DATA = RNG.randbytes(5000) + b"a" * 200_000 + RNG.randbytes(70_000)
NONE, GZIP, SNAPPY, LZ4, ZSTD = CompressionType
PACKERS: dict[str, tuple[CompressionType, Callable[[bytes], bytes]]] = {
    "gzip": (GZIP, lambda data: bytes(compress(GZIP, data))),
    "gzip with a name": (GZIP, gzip.compress),
    "snappy": (SNAPPY, lambda data: bytes(compress(SNAPPY, data))),
    "raw snappy": (SNAPPY, lambda data: bytes(snappy.compress_raw(data))),
    "lz4": (LZ4, lambda data: bytes(compress(LZ4, data))),
    "zstd": (ZSTD, lambda data: bytes(compress(ZSTD, data))),
    "zstd stream": (ZSTD, zstandard.ZstdCompressor(write_content_size=False).compress),
    "zstd stream, checksum": (
        ZSTD,
        zstandard.ZstdCompressor(write_content_size=False, write_checksum=True).compress,
    ),
}
every_form = pytest.mark.parametrize("form", PACKERS)


def packed(form: str, data: bytes) -> tuple[CompressionType, bytes]:
    codec, pack = PACKERS[form]
    return codec, pack(data)


@every_form
@pytest.mark.parametrize("data", [b"", b"x", DATA], ids=["empty", "one", "large"])
def test_round_trip(form: str, data: bytes) -> None:
    codec, stream = packed(form, data)
    for kind in (bytes, bytearray, memoryview):
        assert decompress(codec, kind(stream), max_bytes=len(data)) == data
        assert decompress(codec, stream, max_bytes=1 << 30) == data


@given(st.binary(max_size=2000), st.integers(1, 60), st.sampled_from(sorted(LEVELS)))
@settings(max_examples=100)
def test_any_bytes_at_any_level(data: bytes, repeats: int, codec: CompressionType) -> None:
    whole = data * repeats
    low, high, default = LEVELS[codec]
    for level in (low, default, min(high, 12)):
        stream = compress(Compression.of(codec.name.lower(), level), whole)
        assert decompress(codec, stream, max_bytes=len(whole)) == whole
    assert decompress(SNAPPY, compress(SNAPPY, whole), max_bytes=len(whole)) == whole


def test_none_is_the_same_object() -> None:
    assert compress(NONE, DATA) is DATA
    assert compress(Compression(NONE), DATA) is DATA
    assert decompress(0, DATA, max_bytes=0) is DATA


def test_names_and_ids() -> None:
    assert [codec_from_name(name) for name in CODEC_NAMES] == list(CompressionType)
    assert [check_codec(number) for number in range(5)] == list(CompressionType)
    for name in ("LZ4", "", "brotli", "uncompressed"):
        with pytest.raises(UnsupportedCompressionType, match="use none, gzip, snappy, lz4 or zstd"):
            codec_from_name(name)
    for codec in (5, 6, 7, -1):
        with pytest.raises(UnsupportedCompressionType, match=f"codec {codec} is not known; use no"):
            check_codec(codec)


def test_levels() -> None:
    assert Compression.of("zstd", 9) == (ZSTD, 9)
    assert Compression.of(Compression(LZ4, 3)) == (LZ4, 3)
    for codec, (low, high, default) in LEVELS.items():
        name = codec.name.lower()
        key = PRODUCER_SETTINGS[f"compression_{name}_level"]
        assert (key.default, key.low, key.high) == (default, min(low, default), high)
        for level in (low - 1, high + 1):
            if level != default:
                with pytest.raises(InvalidConfig, match=f"compression.{name}.level={level}: "):
                    Compression.of(name, level)
    with pytest.raises(InvalidConfig, match="from 1 to 9, or -1"):
        Compression.of("gzip", 0)
    for name in ("none", "snappy"):
        with pytest.raises(InvalidConfig, match=f"{name} has no levels"):
            Compression.of(name, 1)


def test_levels_matter() -> None:
    words = b" ".join(b"%d" % RNG.randrange(500) for _ in range(20_000))
    for codec, low, high in ((GZIP, 1, 9), (LZ4, 9, 17), (ZSTD, -50, 15)):
        assert len(compress(Compression(codec, low), words)) > len(
            compress(Compression(codec, high), words)
        )


def test_our_lz4_is_framed_as_java_does() -> None:
    frame = bytes(compress(LZ4, DATA))
    info = lz4.frame.get_frame_info(frame)
    assert frame[:4] == bytes.fromhex("04224d18")
    assert (info["block_size"], info["block_linked"]) == (64 * 1024, False)
    assert (info["content_size"], info["content_checksum"]) == (0, False)


def test_our_snappy_is_framed_as_java_does() -> None:
    stream = bytes(compress(SNAPPY, DATA))
    assert stream[:16] == b"\x82SNAPPY\x00" + bytes((0, 0, 0, 1, 0, 0, 0, 1))
    position, blocks = 16, []
    while position < len(stream):
        (size,) = struct.unpack_from(">i", stream, position)
        blocks.append(bytes(snappy.decompress_raw(stream[position + 4 : position + 4 + size])))
        position += 4 + size
    assert b"".join(blocks) == DATA
    assert {len(block) for block in blocks[:-1]} == {32 * 1024}


def test_our_gzip_depends_on_nothing_but_the_records() -> None:
    stream = bytes(compress(GZIP, DATA))
    assert stream[:8] == b"\x1f\x8b\x08\0\0\0\0\0"  # no flags, no name, no time
    assert gzip.decompress(stream) == DATA


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


@every_form
def test_the_limit_is_exact(form: str) -> None:
    for data in (DATA, DATA[:3000]):
        codec, stream = packed(form, data)
        assert decompress(codec, stream, max_bytes=len(data)) == data
        with pytest.raises(InvalidRecord, match=f"limit of {len(data) - 1} bytes"):
            decompress(codec, stream, max_bytes=len(data) - 1)


LIMIT = 1 << 22
BOMBS: dict[str, tuple[CompressionType, bytes]] = {
    "gzip": (GZIP, bad_batches.gzip_zeros(1 << 26)),
    "snappy": (SNAPPY, bad_batches.snappy_zeros(1 << 26)),
    "snappy that declares 4 GiB": (SNAPPY, bad_batches.snappy_zeros(64, declared=2**32 - 1)),
    "xerial": (SNAPPY, bad_batches.xerial(*[bad_batches.snappy_zeros(1 << 20)] * 50)),
    "lz4": (LZ4, bad_batches.lz4_zeros(1 << 26)),
    "zstd": (ZSTD, bad_batches.zstd_zeros(1 << 26)),
    "zstd, 32 GiB": (ZSTD, bad_batches.zstd_zeros(1 << 35)),
    "zstd that declares it": (ZSTD, bad_batches.zstd_zeros(1 << 26, declared=1 << 26)),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_stops_at_the_limit(name: str) -> None:
    codec, bomb = BOMBS[name]
    tracemalloc.start()
    try:
        with pytest.raises(InvalidRecord, match=f"limit of {LIMIT} bytes"):
            decompress(codec, bomb, max_bytes=LIMIT)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # zstd may pass the limit by one step's output, 4 MiB; the others by nothing.
    assert peak < 2 * LIMIT + (1 << 20)


def test_a_bomb_within_the_limit_is_data() -> None:
    assert decompress(ZSTD, bad_batches.zstd_zeros(LIMIT), max_bytes=LIMIT) == bytes(LIMIT)
    assert decompress(SNAPPY, bad_batches.snappy_zeros(LIMIT), max_bytes=LIMIT) == bytes(LIMIT)


def test_a_lying_content_size_is_refused() -> None:
    frame = bytearray(zstandard.ZstdCompressor().compress(b"abc" * 100))
    size = frame.index(struct.pack("<H", 300 - 256))
    frame[size : size + 2] = b"\xff\xff"
    with pytest.raises(InvalidRecord):
        decompress(ZSTD, frame, max_bytes=1 << 20)
    huge = struct.pack("<IBQ", 0xFD2FB528, 0xE0, 2**62) + b"\x01\x00\x00"
    with pytest.raises(InvalidRecord, match="limit of"):
        decompress(ZSTD, huge, max_bytes=1 << 20)
    for declared in (6000, 6464, 12_800):
        block = bad_batches.snappy_zeros(6400, declared=declared)
        for stream in (block, bad_batches.xerial(block)):
            with pytest.raises(InvalidRecord, match="snappy stream is malformed"):
                decompress(SNAPPY, stream, max_bytes=1 << 20)


@every_form
def test_cut_and_prolonged_streams(form: str) -> None:
    codec, stream = packed(form, DATA[:6000])
    for cut in [*range(40), *range(len(stream) - 40, len(stream))]:
        if codec is SNAPPY and form == "snappy" and cut == 16:
            continue  # a xerial stream without blocks: no records at all, which the header refutes
        with pytest.raises(InvalidRecord):
            decompress(codec, stream[:cut], max_bytes=1 << 20)
    for tail in (b"\0", b"\0" * 8, stream):
        with pytest.raises(InvalidRecord):
            decompress(codec, stream + tail, max_bytes=1 << 20)


@every_form
def test_mutated_streams_end(form: str) -> None:
    codec, stream = packed(form, DATA[:6000])
    rng = random.Random(form)
    for _ in range(1500):
        broken = bytearray(stream)
        for _ in range(rng.randint(1, 3)):
            place = rng.choice((rng.randrange(24), rng.randrange(len(broken))))
            broken[place] = rng.randrange(256)
        with contextlib.suppress(InvalidRecord):
            assert len(decompress(codec, broken, max_bytes=20_000)) <= 20_000


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
@given(data=st.binary(max_size=64))
@settings(max_examples=200)
def test_short_garbage_ends(codec: CompressionType, data: bytes) -> None:
    with contextlib.suppress(InvalidRecord):
        decompress(codec, data, max_bytes=1000)
    with contextlib.suppress(InvalidRecord):
        decompress(codec, bad_batches.xerial(data, data), max_bytes=1000)


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_garbage(codec: CompressionType) -> None:
    for data in (b"garbage", b"\0\0garbage", b"\xff" * 1000):
        with pytest.raises(InvalidRecord, match=r"malformed|cut"):
            decompress(codec, data, max_bytes=1000)


def test_threads_never_share_a_kept_zstd_object() -> None:
    plain = [RNG.randbytes(500) * 40 for _ in range(4)]
    wrong: list[int] = []

    def work(number: int) -> None:
        for level in (1, 3) * 50:
            stream = compress(Compression(ZSTD, level), plain[number])
            if decompress(ZSTD, stream, max_bytes=1 << 20) != plain[number]:
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(zstd_codec._compressors) <= 4
    assert len(zstd_codec._decompressors) <= 4
