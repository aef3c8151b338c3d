"""Varints and tags as protobuf writes them, for the few messages that are read by hand.

Protobuf copies a `bytes` field twice or more on each side. Fields with record batches are therefore
cut out of the bytes, and the rest of the message is left to protobuf.
"""

from __future__ import annotations

from typing import Final

Buffer = bytes | bytearray | memoryview

SMALL_BYTES: Final = 16 * 1024
"""Up to here protobuf's copies cost less than reading field by field."""

# Wire types: the low three bits of a tag, which is field number << 3 | wire type.
VARINT: Final = 0
LENGTH_DELIMITED: Final = 2


class Unusual(Exception):
    """Something that our own writers do not write: protobuf's parser says what it is worth."""


def read_varint(data: Buffer, position: int) -> tuple[int, int]:
    """(value, position after it) of an unsigned varint; IndexError where the data ends."""
    byte = data[position]
    if byte < 128:
        return byte, position + 1
    value, shift = byte & 127, 7
    while True:
        position += 1
        byte = data[position]
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position + 1
        shift += 7
        if shift > 63:
            raise Unusual


def varint(value: int) -> bytes:
    """`value`, 0 to 2^64-1, as an unsigned varint."""
    if value < 128:
        return bytes((value,))
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def zigzag(value: int) -> int:
    """A sint32 or sint64 as the unsigned number that protobuf writes."""
    return value << 1 if value >= 0 else (-value << 1) - 1


def unzigzag(value: int) -> int:
    """The other way."""
    return value >> 1 if not value & 1 else -(value >> 1) - 1
