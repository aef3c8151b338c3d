"""The primitives that generated codecs are made of: variable-length sizes, tagged fields, limits.

Reading works on a memoryview and a position and never trusts a length: what does not fit raises
`MalformedMessage`. Kafka's compact types carry length + 1 as an unsigned varint, 0 meaning null
(KIP-482).
"""

from __future__ import annotations

from struct import error as struct_error
from typing import Final, NoReturn

from pylog.errors import InvalidRequest
from pylog.rpc import framing

INLINE_RECORDS_MAX: Final = 4096
"""Records up to this size are copied into the message; larger ones stay a buffer of their own for
writev, where an extra element costs less than the copy."""

ZERO_UUID: Final = bytes(16)

Chunks = framing.Chunks
"""An encoded message in pieces, in order."""


class MalformedMessage(InvalidRequest):
    """The bytes are not the message that their header announced."""

    default_message = "the bytes are not the message that their header announced"


DECODE_FAULTS: Final = (struct_error, IndexError, UnicodeDecodeError)
"""Raised below the generated code by reads past the end and of bytes that make no sense."""


def truncated(field: str, wanted: int, left: int) -> NoReturn:
    """Refuse a length that the message cannot hold."""
    raise MalformedMessage(f"{field} announces {wanted} bytes, {left} are left")


def count_refused(field: str, count: int, left: int) -> NoReturn:
    """Refuse an array that the message cannot hold."""
    raise MalformedMessage(f"{field} announces {count} elements in {left} bytes")


def null_refused(field: str) -> NoReturn:
    """Refuse null where the schema has none."""
    raise MalformedMessage(f"{field} is null")


def read_varint(buffer: memoryview, position: int) -> tuple[int, int]:
    """An unsigned varint of at most 5 bytes, and the position behind it."""
    value = 0
    for shift in (0, 7, 14, 21, 28):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                break
            return value, position
    raise MalformedMessage("an unsigned varint is longer than 32 bits")


def write_varint(out: bytearray, value: int) -> None:
    """Append `value` as an unsigned varint."""
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)


def skip_tag(buffer: memoryview, position: int) -> int:
    """The position behind a tagged field's size and content."""
    size, position = read_varint(buffer, position)
    if size > len(buffer) - position:
        truncated("a tagged field", size, len(buffer) - position)
    return position + size


def skip_tagged_fields(buffer: memoryview, position: int) -> int:
    """The position behind a tagged-fields section that nothing is wanted from."""
    count, position = read_varint(buffer, position)
    for _ in range(count):
        _, position = read_varint(buffer, position)
        position = skip_tag(buffer, position)
    return position
