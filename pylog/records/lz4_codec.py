"""lz4 frames: written as the Java client does, read in every form that Kafka's clients write.

Written: independent 64 KiB blocks, no content size, no checksums but the header's, which is the
right one (Kafka's clients wrote a broken one with message format 0 only, which is not readable
here). Read: with or without content size, checksums, linked blocks.
"""

from __future__ import annotations

from typing import Final

import lz4.frame

from pylog.records import stream_faults
from pylog.records.batch import Buffer

LEVEL_MIN: Final = 1
LEVEL_MAX: Final = 17
LEVEL_DEFAULT: Final = 9

_FAST: Final = 0
_HIGH_MIN: Final = 3
"""The library's lowest level of its slower, denser compressor."""
_STEP: Final = 64 * 1024
_RATIO_MAX: Final = 256  # the format cannot exceed 255 : 1


def compress(records: Buffer, level: int) -> bytes:
    """`records` as one frame.

    As in Kafka the default level, 9, is the fast compressor; every other one is the dense
    compressor at that level, of which the library has 3 to 12.
    """
    frame: bytes = lz4.frame.compress(
        records,
        compression_level=_FAST if level == LEVEL_DEFAULT else max(level, _HIGH_MIN),
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    return frame


def decompress(data: Buffer, max_bytes: int) -> bytes:
    """The content of the one frame of `data`.

    InvalidRecord for anything else and beyond `max_bytes`.
    """
    # The library allocates what it may return in one call, so the step grows with the input, not
    # with the limit.
    step = min(max(_STEP, 4 * len(data)), _RATIO_MAX * len(data) + 64, max_bytes + 1)
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
                raise stream_faults.over_limit("lz4", max_bytes)
            if not piece and not decompressor.eof:
                raise stream_faults.cut("lz4")
            pieces.append(piece)
    except (RuntimeError, ValueError, EOFError) as error:
        raise stream_faults.malformed("lz4", error) from error
    if decompressor.unused_data:
        raise stream_faults.trailing("lz4", len(decompressor.unused_data))
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
