"""zstd frames: written with their content size, read with and without it.

librdkafka and Java leave the size out, kafka-python and aiokafka write it. Making a compressor or a
decompressor costs 17 microseconds, four times what they need for a kilobyte, so a few are kept.
"""

from __future__ import annotations

from typing import Final

import zstandard

from pylog.records import stream_faults
from pylog.records.batch import Buffer

LEVEL_MIN: Final = -(1 << 17)
LEVEL_MAX: Final = 22
LEVEL_DEFAULT: Final = 3

_WINDOW_MAX: Final = 1 << 27  # zstd's own default limit; a larger one is a memory attack
_RATIO_MAX: Final = 32 * 1024  # a run of 128 KiB takes four bytes
_STEP_MIN: Final = 128
"""Near the limit the input is fed in so small pieces that the output passes it by 4 MiB at most."""
_USUAL_RATIO: Final = 8
_GUESS_MAX: Final = 1 << 20  # allocated before it is known that it is needed
_BLOCKS_WALKED_MAX: Final = 32
_RUN: Final = 1  # the kind of a block that is one byte, repeated

_KEPT_MAX: Final = 4
_KEPT_WINDOW_MAX: Final = 8 << 20  # a stream may ask for 128 MiB
_KEPT_LEVEL_MAX: Final = 9  # above it a compressor holds tens of megabytes
_compressors: list[tuple[int, zstandard.ZstdCompressor]] = []
_decompressors: list[zstandard.ZstdDecompressor] = []
# Taken and put back by single list operations, which are atomic: no thread ever shares one.


def compress(records: Buffer, level: int) -> bytes:
    """`records` as one frame with its content size and no checksum."""
    try:
        made, compressor = _compressors.pop()
    except IndexError:
        made = None
    if made != level:
        compressor = zstandard.ZstdCompressor(level=level)
    frame = compressor.compress(records)
    if level <= _KEPT_LEVEL_MAX and len(_compressors) < _KEPT_MAX:
        _compressors.append((level, compressor))
    return frame


def decompress(data: Buffer, max_bytes: int) -> bytes:
    """The content of the one frame of `data`.

    InvalidRecord for anything else and beyond `max_bytes`.
    """
    try:
        decompressor = _decompressors.pop()
    except IndexError:
        decompressor = zstandard.ZstdDecompressor(max_window_size=_WINDOW_MAX)
    try:
        frame = zstandard.get_frame_parameters(data)
        declared = frame.content_size
        if declared == zstandard.CONTENTSIZE_UNKNOWN:
            return _unsized(decompressor, frame, data, max_bytes)
        if declared == 0:  # the library takes any bytes after this for an empty frame
            return _stream(decompressor, data, max_bytes)
        if declared > max_bytes:
            raise stream_faults.over_limit("zstd", max_bytes)
        records = decompressor.decompress(data, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise stream_faults.malformed("zstd", error) from error
    _keep(decompressor)
    return records


def _keep(decompressor: zstandard.ZstdDecompressor) -> None:
    if len(_decompressors) < _KEPT_MAX:
        _decompressors.append(decompressor)


def _unsized(
    decompressor: zstandard.ZstdDecompressor,
    frame: zstandard.FrameParameters,
    data: Buffer,
    max_bytes: int,
) -> bytes:
    """For frames without content size: at once where they expand as honest data does, else with
    care.
    """
    guess = min(_USUAL_RATIO * len(data) + _STEP_MIN, max_bytes)
    if guess <= _GUESS_MAX and _ends_with_its_frame(data, frame):
        try:
            records = decompressor.decompress(data, max_output_size=guess)
        except zstandard.ZstdError:
            pass  # it holds more than that, or is damaged: the stream tells which
        else:
            if frame.window_size <= _KEPT_WINDOW_MAX:
                _keep(decompressor)
            return records
    return _stream(decompressor, data, max_bytes)


def _ends_with_its_frame(data: Buffer, frame: zstandard.FrameParameters) -> bool:
    """Whether nothing follows the frame, by a walk over its blocks (RFC 8878, section 3.1.1.2).

    False also where the walk gives up: honest data has a block for each 128 KiB.
    """
    position = zstandard.frame_header_size(data)
    checksum = 4 if frame.has_checksum else 0
    for _ in range(_BLOCKS_WALKED_MAX):
        header = int.from_bytes(data[position : position + 3], "little")
        last, kind, size = header & 1, header >> 1 & 3, header >> 3
        position += 3 + (1 if kind == _RUN else size)
        if last:
            return position + checksum == len(data)
    return False


def _stream(decompressor: zstandard.ZstdDecompressor, data: Buffer, max_bytes: int) -> bytes:
    """Piece by piece, up to the limit.

    Not `stream_reader`: it takes a cut stream for a finished one. A decompression object gives out
    all that its input holds, so the input is fed in pieces that cannot expand past the limit by
    much.
    """
    stream = decompressor.decompressobj()
    source = memoryview(data)
    pieces: list[bytes] = []
    total = position = 0
    while not stream.eof:
        if position >= len(source):
            raise stream_faults.cut("zstd")
        step = max(_STEP_MIN, (max_bytes - total) // _RATIO_MAX)
        piece = stream.decompress(source[position : position + step])
        position += step
        total += len(piece)
        if total > max_bytes:
            raise stream_faults.over_limit("zstd", max_bytes)
        pieces.append(piece)
    left = len(source) - position
    if stream.unused_data or left > 0:
        raise stream_faults.trailing("zstd", len(stream.unused_data) + max(left, 0))
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
