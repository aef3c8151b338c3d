"""The codecs of a batch's records: none, lz4 and zstd, with a cap on what comes out.

Reads one frame as any Kafka client writes it (with or without content size, checksums, linked
blocks) and writes lz4 as the Java client does: independent 64 KiB blocks, no content size. gzip
and snappy are known by name and id only.
"""

from __future__ import annotations

from typing import Final

import lz4.frame
import zstandard

from pylog.errors import InvalidRecord, UnsupportedCompressionType
from pylog.records.batch import Buffer, CompressionType

DECOMPRESSED_BYTES_MAX: Final = 256 * 1024 * 1024
"""What a reader accepts of one batch unless told otherwise: far above any sane batch (Kafka's
default limit is 1 MiB compressed), far below what would hurt."""

_NAMES: Final = {codec.name.lower(): codec for codec in CompressionType}
_SUPPORTED: Final = {
    int(codec): codec for codec in (CompressionType.NONE, CompressionType.LZ4, CompressionType.ZSTD)
}
_STEP: Final = 64 * 1024
_ZSTD_LEVEL: Final = 3  # Kafka's default, `compression.zstd.level`
_ZSTD_WINDOW_MAX: Final = 1 << 27  # zstd's own default limit; a larger one is a memory attack
_LZ4_RATIO_MAX: Final = 256  # the format cannot exceed 255 : 1
_ZSTD_RATIO_MAX: Final = 32 * 1024  # a run of 128 KiB takes four bytes
_ZSTD_STEP_MIN: Final = 128
"""Near the limit the input is fed in so small pieces that the output passes it by 4 MiB at most."""


def codec_from_name(name: str) -> CompressionType:
    """The codec called `none`, `lz4` or `zstd`.

    Raises UnsupportedCompressionType for gzip and snappy, which this version cannot write, and for
    any other name.
    """
    codec = _NAMES.get(name)
    if codec is None or codec not in _SUPPORTED:
        raise UnsupportedCompressionType(
            f"compression type {name!r} is not supported; use none, lz4 or zstd"
        )
    return codec


def check_codec(codec: int) -> CompressionType:
    """The codec with that id; UnsupportedCompressionType when records in it cannot be read."""
    supported = _SUPPORTED.get(codec)
    if supported is None:
        known = f" ({CompressionType(codec).name.lower()})" if codec in (1, 2) else ""
        raise UnsupportedCompressionType(
            f"compression codec {codec}{known} is not supported; use none, lz4 or zstd"
        )
    return supported


def compress(codec: CompressionType, records: Buffer) -> Buffer:
    """`records` in that codec; the very same object for none."""
    if codec is CompressionType.NONE:
        return records
    if codec is CompressionType.LZ4:
        frame: bytes = lz4.frame.compress(
            records,
            block_size=lz4.frame.BLOCKSIZE_MAX64KB,
            block_linked=False,
            store_size=False,
        )
        return frame
    if codec is CompressionType.ZSTD:
        return zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compress(records)
    raise UnsupportedCompressionType(f"compression type {codec.name.lower()} cannot be written")


def decompress(codec: int, data: Buffer, *, max_bytes: int) -> Buffer:
    """The records behind `data`, at most `max_bytes` of them; the very same object for none.

    Raises InvalidRecord for a malformed, cut or over-long stream and as soon as the output would
    pass `max_bytes` (a decompression bomb costs no more than that), UnsupportedCompressionType for
    other codecs.
    """
    known = check_codec(codec)
    if known is CompressionType.NONE:
        return data
    if known is CompressionType.LZ4:
        return _decompress_lz4(data, max_bytes)
    return _decompress_zstd(data, max_bytes)


def _over_limit(name: str, max_bytes: int) -> InvalidRecord:
    return InvalidRecord(
        f"the batch's {name} records decompress to more than the limit of {max_bytes} bytes"
    )


def _decompress_lz4(data: Buffer, max_bytes: int) -> bytes:
    # The library allocates what it may return in one call, so the step grows with the input, not
    # with the limit.
    step = min(max(_STEP, 4 * len(data)), _LZ4_RATIO_MAX * len(data) + 64, max_bytes + 1)
    decompressor = lz4.frame.LZ4FrameDecompressor()
    pieces: list[bytes] = []
    total = 0
    feed: Buffer = data
    try:
        while not decompressor.eof:
            piece = decompressor.decompress(feed, max_length=step)
            feed = b""
            total += len(piece)
            if total > max_bytes:
                raise _over_limit("lz4", max_bytes)
            if not piece and not decompressor.eof:
                raise InvalidRecord("the batch's lz4 stream is cut")
            pieces.append(piece)
    except (RuntimeError, ValueError, EOFError) as error:
        raise InvalidRecord(f"the batch's lz4 stream is malformed: {error}") from error
    if decompressor.unused_data:
        raise InvalidRecord(
            f"{len(decompressor.unused_data)} bytes follow the end of the batch's lz4 frame"
        )
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _decompress_zstd(data: Buffer, max_bytes: int) -> bytes:
    try:
        declared = zstandard.get_frame_parameters(data).content_size
        if declared in (0, zstandard.CONTENTSIZE_UNKNOWN):
            return _stream_zstd(data, max_bytes)
        if declared > max_bytes:
            raise _over_limit("zstd", max_bytes)
        decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_MAX)
        return decompressor.decompress(data, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise InvalidRecord(f"the batch's zstd stream is malformed: {error}") from error


def _stream_zstd(data: Buffer, max_bytes: int) -> bytes:
    """For frames without content size, as librdkafka and Java write them.

    Not `stream_reader`: it takes a cut stream for a finished one. A decompression object gives out
    all that its input holds, so the input is fed in pieces that cannot expand past the limit by
    much.
    """
    decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_MAX).decompressobj()
    source = memoryview(data)
    pieces: list[bytes] = []
    total = position = 0
    while not decompressor.eof:
        if position >= len(source):
            raise InvalidRecord("the batch's zstd stream is cut")
        step = max(_ZSTD_STEP_MIN, (max_bytes - total) // _ZSTD_RATIO_MAX)
        piece = decompressor.decompress(source[position : position + step])
        position += step
        total += len(piece)
        if total > max_bytes:
            raise _over_limit("zstd", max_bytes)
        pieces.append(piece)
    if decompressor.unused_data or position < len(source):
        raise InvalidRecord("bytes follow the end of the batch's zstd frame")
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
