"""Record headers: a list of (key, value) pairs as the bytes inside a record, and back.

Keys may repeat, a value may be null (None) or empty, a key is never null. Order is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from pylog.records.batch import Buffer
from pylog.records.varint import encode_varint, read_varint

Header = tuple[str, bytes | None]

NO_HEADERS: Final = b"\x00"
_NULL: Final = encode_varint(-1)


def encode_headers(headers: Iterable[Header] | None) -> bytes:
    """The header part of a record, its count first.

    TypeError names what is neither a str key nor a bytes (or None) value: a null key cannot be
    stored.
    """
    pairs: Sequence[Header] = list(headers) if headers else ()
    if not pairs:
        return NO_HEADERS
    parts = [encode_varint(len(pairs))]
    for key, value in pairs:
        if not isinstance(key, str):
            raise TypeError(f"a header key must be str, not {type(key).__name__}")
        name = key.encode()
        parts += (encode_varint(len(name)), name)
        if value is None:
            parts.append(_NULL)
        elif isinstance(value, (bytes, bytearray, memoryview)):
            parts += (encode_varint(len(value)), bytes(value))
        else:
            raise TypeError(
                f"the value of header {key!r} must be bytes or None, not {type(value).__name__}"
            )
    return b"".join(parts)


def read_headers(buffer: Buffer, position: int, count: int, end: int) -> list[Header]:
    """The `count` headers at `position`, which is after their count.

    ValueError when they do not fit before `end`. A key that is not UTF-8 is decoded with
    replacement characters, as Java's clients do.
    """
    headers: list[Header] = []
    for _ in range(count):
        length, position = read_varint(buffer, position, end)
        if not 0 <= length <= end - position:
            raise ValueError(f"a header key of {length} bytes at position {position}")
        key = bytes(buffer[position : position + length]).decode("utf-8", "replace")
        length, position = read_varint(buffer, position + length, end)
        if not -1 <= length <= end - position:
            raise ValueError(f"a header value of {length} bytes at position {position}")
        if length < 0:
            headers.append((key, None))
        else:
            headers.append((key, bytes(buffer[position : position + length])))
            position += length
    return headers
