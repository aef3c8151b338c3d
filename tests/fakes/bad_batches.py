"""Record batches that no honest client sends: sealed with a right CRC, wrong inside."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

import lz4.frame
import zstandard
from cramjam import snappy

from pylog.records.batch import CompressionType, pack_header, seal
from pylog.records.builder import encode_batch

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
BLOCK = 128 * 1024
NO_TIME = -1


def sealed(body: bytes, codec: int = 0, *, count: int = 1, last_delta: int | None = None) -> bytes:
    """One batch around any bytes, its CRC right."""
    header = pack_header(
        attributes=codec,
        record_count=count,
        base_timestamp=NO_TIME,
        max_timestamp=NO_TIME,
        last_offset_delta=last_delta,
    )
    return seal(header, body)


def record(value: bytes, delta: int = 0) -> bytes:
    """One record of the v2 format, without key and headers."""
    body = b"\0\0" + _varint(delta) + _varint(-1) + _varint(len(value)) + value + _varint(0)
    return _varint(len(body)) + body


def _varint(value: int) -> bytes:
    return _unsigned((value << 1) ^ (value >> 63))


def _unsigned(left: int) -> bytes:
    out = bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)


def zstd_zeros(size: int, *, declared: int | None = None) -> bytes:
    """A zstd frame that unpacks to `size` zero bytes, four bytes a block.

    `declared`: the content size that it claims; None leaves that out.
    """
    if declared is None:
        head = ZSTD_MAGIC + b"\x00\x38"
    else:
        head = ZSTD_MAGIC + b"\xc0\x38" + struct.pack("<Q", declared)
    blocks, rest = divmod(size, BLOCK)
    assert not rest
    block = (BLOCK << 3 | 1 << 1).to_bytes(3, "little") + b"\0"
    last = (BLOCK << 3 | 1 << 1 | 1).to_bytes(3, "little") + b"\0"
    return head + block * (blocks - 1) + last


def lz4_zeros(size: int) -> bytes:
    """An lz4 frame that unpacks to `size` zero bytes: 255 to 1, the most that the format can."""
    frame: bytes = lz4.frame.compress(bytes(size), block_size=lz4.frame.BLOCKSIZE_MAX4MB)
    return frame


def gzip_zeros(size: int) -> bytes:
    """A gzip member that unpacks to `size` zero bytes: a thousand to 1."""
    return zlib.compress(bytes(size), 1, wbits=31)


def snappy_zeros(size: int, *, declared: int | None = None) -> bytes:
    """A raw snappy block of `size` (a multiple of 64) zero bytes: 21 to 1.

    `declared`: what its first bytes say that it holds.
    """
    copies, rest = divmod(size, 64)
    assert not rest
    literal = b"\0\0"  # one zero byte
    copy = b"\xfe\1\0"  # 64 bytes from one byte back
    shorter = b"\xfa\1\0"  # 63 bytes
    said = size if declared is None else declared
    return _unsigned(said) + literal + shorter + copy * (copies - 1)


def xerial(*blocks: bytes) -> bytes:
    """Raw snappy blocks in the stream that Java writes."""
    head = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
    return head + b"".join(struct.pack(">i", len(block)) + block for block in blocks)


def bombs() -> Iterator[tuple[str, bytes]]:
    """Batches under 1 MiB that unpack to far more than any broker has memory for (input 17)."""
    zstd, lz4_id = CompressionType.ZSTD, CompressionType.LZ4
    yield "zstd, 10 GiB", sealed(zstd_zeros(10 << 30), zstd)
    yield "zstd, 10 GiB, declared", sealed(zstd_zeros(10 << 30, declared=10 << 30), zstd)
    yield "zstd, 10 GiB, declared as 100 bytes", sealed(zstd_zeros(10 << 30, declared=100), zstd)
    yield "zstd, 1 block, declared as 10 GiB", sealed(zstd_zeros(BLOCK, declared=10 << 30), zstd)
    yield "zstd, 2**64 - 2 declared", sealed(zstd_zeros(BLOCK, declared=2**64 - 2), zstd)
    yield "lz4, 200 MiB", sealed(lz4_zeros(200 << 20), lz4_id)
    gzip_id, snappy_id = CompressionType.GZIP, CompressionType.SNAPPY
    yield "gzip, 200 MiB", sealed(gzip_zeros(200 << 20), gzip_id)
    yield "gzip in gzip", sealed(gzip_zeros(200 << 20)[:8] + gzip_zeros(1 << 20), gzip_id)
    yield "two gzip members", sealed(gzip_zeros(100) * 2, gzip_id)
    huge = snappy_zeros(1 << 20, declared=2**32 - 1)
    yield "snappy, 1 MiB, declared as 4 GiB", sealed(huge, snappy_id)
    yield "snappy, 1 MiB, declared as 30 MiB", sealed(snappy_zeros(BLOCK, declared=30 << 20), 2)
    yield "snappy, declared as 64 bytes", sealed(snappy_zeros(1 << 20, declared=64), snappy_id)
    yield "xerial, 4 GiB declared 9 times", sealed(xerial(*[huge] * 9), snappy_id)
    yield "zstd in zstd", sealed(zstandard.compress(zstd_zeros(1 << 30)), zstd)
    yield "two zstd frames", sealed(zstd_zeros(BLOCK) * 2, zstd)
    yield "two lz4 frames", sealed(lz4.frame.compress(b"x") * 2, lz4_id)
    yield "2**31 - 1 records declared", sealed(record(b"x"), count=2**31 - 1)


def malformed() -> Iterator[tuple[str, bytes]]:
    """Streams that break off, go on for ever, or are none (input 18)."""
    plain = record(b"x" * 1000)
    for name, codec, whole in (
        ("gzip", CompressionType.GZIP, zlib.compress(plain * 50, wbits=31)),
        ("snappy", CompressionType.SNAPPY, bytes(snappy.compress_raw(plain * 50))),
        ("xerial", CompressionType.SNAPPY, xerial(bytes(snappy.compress_raw(plain * 50)))),
        ("lz4", CompressionType.LZ4, lz4.frame.compress(plain * 50)),
        ("zstd", CompressionType.ZSTD, zstandard.compress(plain * 50)),
    ):
        yield f"{name}, empty", sealed(b"", codec)
        yield f"{name}, no stream", sealed(b"\xff" * 200, codec)
        yield f"{name}, only the magic", sealed(whole[:4], codec)
        for cut in range(5, len(whole), max(1, len(whole) // 20)):
            yield f"{name}, cut at {cut}", sealed(whole[:cut], codec, count=50)
        yield f"{name}, garbage behind", sealed(whole + b"\0" * 9, codec, count=50)
        for at in range(4, len(whole), max(1, len(whole) // 20)):
            spoilt = bytearray(whole)
            spoilt[at] ^= 0xFF
            yield f"{name}, spoilt at {at}", sealed(bytes(spoilt), codec, count=51)
    head = ZSTD_MAGIC + b"\x00\x38"
    yield "zstd, empty blocks for ever", sealed(head + b"\0\0\0" * 300_000, CompressionType.ZSTD)
    yield "zstd, reserved block", sealed(head + b"\x07\0\0" + bytes(9), CompressionType.ZSTD)
    yield (
        "zstd, window of 3.75 TiB",
        sealed(ZSTD_MAGIC + b"\x00\xff" + b"\x01\0\0", CompressionType.ZSTD),
    )
    for size in (0, -1, -(2**31), 2**31 - 1):
        block = struct.pack(">i", size) + bytes(100)
        yield f"xerial, a block of {size} bytes", sealed(xerial() + block, CompressionType.SNAPPY)
    later = xerial()[:12] + struct.pack(">i", 2)
    yield "xerial, of a version to come", sealed(later, CompressionType.SNAPPY)
    framed = bytes(snappy.compress(plain))
    yield "snappy, its own framing", sealed(framed, CompressionType.SNAPPY)
    skippable = b"\x50\x2a\x4d\x18" + struct.pack("<I", 2**32 - 1)
    yield "zstd, skippable frame of 4 GiB", sealed(skippable + bytes(100), CompressionType.ZSTD)
    yield "lz4, skippable frame of 4 GiB", sealed(skippable + bytes(100), CompressionType.LZ4)


def contradictory() -> Iterator[tuple[str, bytes]]:
    """Whole batches whose records are not what the header says (input 14)."""
    three = record(b"a") + record(b"b", 1) + record(b"c", 2)
    yield "no records", sealed(b"", count=0, last_delta=-1)
    yield "no records, one declared", sealed(b"")
    yield "a negative count", sealed(three, count=-3, last_delta=2)
    yield "fewer than declared", sealed(three, count=4)
    yield "more than declared", sealed(three, count=2)
    yield "the last delta is not the count less 1", sealed(three, count=3, last_delta=7)
    yield "an inner offset twice", sealed(record(b"a") + record(b"b"), count=2)
    yield "an inner offset left out", sealed(record(b"a") + record(b"b", 2), count=2)
    yield "inner offsets from 1 on", sealed(record(b"a", 1) + record(b"b", 2), count=2)
    yield "a length beyond the end", sealed(b"\x7e" + record(b"a")[1:])
    yield "a negative length", sealed(b"\x01" + record(b"a")[1:])
    yield "an endless varint", sealed(b"\xff" * 40)
    yield "two batches in one", encode_batch([b"one"]) + encode_batch([b"two"])
