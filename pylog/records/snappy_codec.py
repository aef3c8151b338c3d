"""snappy in both forms that Kafka's clients write, told apart by the first bytes as Java does.

Java, kafka-python and aiokafka write the stream of the xerial library, which is what this module
writes too, big endian:

    position  size  field
           0     8  82 'SNAPPY' 00
           8     4  version, 1
          12     4  the lowest version that can read it, 1
          16        blocks: size (4), then one raw snappy block of up to 32 KiB of records

librdkafka and kafkajs write one raw snappy block and nothing around it. A raw block begins with the
size of what it holds, so whatever that says is checked against the limit, and against what its
bytes can expand to, before any memory is taken. Snappy's own framing format is a third form, which
no Kafka client writes.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from cramjam import DecompressionError, snappy

from pylog.errors import InvalidRecord
from pylog.records import stream_faults
from pylog.records.batch import Buffer

MAGIC: Final = b"\x82SNAPPY\x00"
HEADER_SIZE: Final = 16
BLOCK_BYTES: Final = 32 * 1024  # of records; xerial's default

_VERSION: Final = Struct(">ii")
_SIZE: Final = Struct(">i")
_HEADER: Final = MAGIC + _VERSION.pack(1, 1)
_EXPANSION_MAX: Final = 32
"""Three bytes of a copy stand for 64 at most: 21 to 1. Above this the declared size is a lie."""


def compress(records: Buffer) -> bytearray:
    """`records` as a xerial stream."""
    source = memoryview(records)
    starts = range(0, len(source), BLOCK_BYTES)
    room = snappy.compress_raw_max_len(source[:BLOCK_BYTES]) if starts else 0
    out = bytearray(HEADER_SIZE + len(starts) * (_SIZE.size + room))
    out[:HEADER_SIZE] = _HEADER
    target = memoryview(out)
    end = HEADER_SIZE
    for start in starts:
        body = end + _SIZE.size
        size = snappy.compress_raw_into(source[start : start + BLOCK_BYTES], target[body:])
        _SIZE.pack_into(out, end, size)
        end = body + size
    target.release()
    del out[end:]
    return out


def decompress(data: Buffer, max_bytes: int) -> bytearray:
    """The content of a xerial stream or a raw block.

    InvalidRecord for anything else and beyond `max_bytes`.
    """
    source = memoryview(data)
    if bytes(source[: len(MAGIC)]) != MAGIC:
        blocks = [(source, _declared(source, max_bytes))]
    else:
        blocks = _xerial_blocks(source, max_bytes)
    out = bytearray(sum(size for _, size in blocks))
    target = memoryview(out)
    position = 0
    for block, size in blocks:
        _unpack(block, target[position : position + size])
        position += size
    return out


def _xerial_blocks(source: memoryview, max_bytes: int) -> list[tuple[memoryview, int]]:
    """(raw block, how much it holds) of a xerial stream."""
    if len(source) < HEADER_SIZE:
        raise stream_faults.cut("snappy")
    lowest_reader = _VERSION.unpack_from(source, len(MAGIC))[1]
    if lowest_reader > 1:
        raise stream_faults.malformed("snappy", f"version {lowest_reader} of it is not known")
    blocks = []
    position, left = HEADER_SIZE, max_bytes
    while position < len(source):
        if len(source) - position < _SIZE.size:
            raise stream_faults.cut("snappy")
        (size,) = _SIZE.unpack_from(source, position)
        position += _SIZE.size
        if size <= 0:
            raise stream_faults.malformed("snappy", f"a block of {size} bytes")
        if size > len(source) - position:
            raise stream_faults.cut("snappy")
        block = source[position : position + size]
        holds = _declared(block, left, max_bytes)
        blocks.append((block, holds))
        left -= holds
        position += size
    return blocks


def _declared(block: memoryview, left: int, max_bytes: int | None = None) -> int:
    """The decompressed bytes that a raw block declares; a fault where the block cannot hold them or
    fewer are `left`."""
    try:
        declared = int(snappy.decompress_raw_len(block))
    except DecompressionError as error:
        raise stream_faults.malformed("snappy", error) from error
    if declared > left:
        raise stream_faults.over_limit("snappy", left if max_bytes is None else max_bytes)
    if declared > _EXPANSION_MAX * len(block):
        raise stream_faults.malformed(
            "snappy", f"{len(block)} bytes cannot hold the {declared} that they declare"
        )
    return declared


def _unpack(block: memoryview, target: memoryview) -> None:
    try:
        written = snappy.decompress_raw_into(block, target)
    except DecompressionError as error:
        raise stream_faults.malformed("snappy", error) from error
    if written != len(target):
        raise InvalidRecord(f"a snappy block holds {written} bytes; it declared {len(target)}")
