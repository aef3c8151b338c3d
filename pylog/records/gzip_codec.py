"""gzip (RFC 1952), one member, as every Kafka client writes it.

The standard library's zlib: on batches of 16 KiB it compresses faster than the Rust codecs that
were tried, and its decompressor takes a limit.
"""

from __future__ import annotations

import zlib
from typing import Final

from pylog.records import stream_faults
from pylog.records.batch import Buffer

LEVEL_MIN: Final = 1
LEVEL_MAX: Final = 9
LEVEL_DEFAULT: Final = -1

_GZIP_BITS: Final = 16 + zlib.MAX_WBITS
_USUAL_RATIO: Final = 8
_STEP_MIN: Final = 1024


def compress(records: Buffer, level: int) -> bytes:
    """One gzip member without name and time: equal records give equal bytes."""
    return zlib.compress(records, level, wbits=_GZIP_BITS)


def decompress(data: Buffer, max_bytes: int) -> bytes:
    """The content of the one member of `data`, its CRC and size checked.

    InvalidRecord for anything else and beyond `max_bytes`. Honest data comes out in one piece; a
    bomb costs no more than the limit, because the pieces are joined only when all is well.
    """
    step = min(_USUAL_RATIO * len(data) + _STEP_MIN, max_bytes + 1)
    stream = zlib.decompressobj(_GZIP_BITS)
    pieces: list[bytes] = []
    total = 0
    feed: Buffer = data
    try:
        while not stream.eof:
            piece = stream.decompress(feed, step)
            feed = stream.unconsumed_tail
            total += len(piece)
            if total > max_bytes:
                raise stream_faults.over_limit("gzip", max_bytes)
            if len(piece) < step and not feed and not stream.eof:
                raise stream_faults.cut("gzip")
            pieces.append(piece)
    except zlib.error as error:
        raise stream_faults.malformed("gzip", error) from error
    if stream.unused_data:
        raise stream_faults.trailing("gzip", len(stream.unused_data))
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
