"""Zig-zag varints, the integers inside a record (protobuf's sint32 and sint64)."""

from __future__ import annotations

from typing import Final

from pylog.records.batch import Buffer

VARINT_BYTES_MAX: Final = 5
VARLONG_BYTES_MAX: Final = 10

_SMALL: Final = tuple(bytes((n,)) for n in range(128))


def varint_size(value: int) -> int:
    """Bytes that `value` (at most 64 bits, signed) takes."""
    zigzag = (value << 1) ^ (value >> 63)
    return (zigzag.bit_length() + 6) // 7 or 1


def encode_varint(value: int) -> bytes:
    """`value` (at most 64 bits, signed) as a zig-zag varint."""
    zigzag = (value << 1) ^ (value >> 63)
    if zigzag < 128:
        return _SMALL[zigzag]
    out = bytearray()
    while zigzag >= 128:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


def read_varint(buffer: Buffer, position: int, end: int) -> tuple[int, int]:
    """(value of up to 32 bits, position after it).

    ValueError when the varint runs past `end`, takes more than five bytes, or holds more than 32
    bits.
    """
    if position < end and (byte := buffer[position]) < 128:  # by far the most common
        return (byte >> 1) ^ -(byte & 1), position + 1
    return _read(buffer, position, end, VARINT_BYTES_MAX, 32)


def read_varlong(buffer: Buffer, position: int, end: int) -> tuple[int, int]:
    """As `read_varint`, up to 64 bits in at most ten bytes."""
    if position < end and (byte := buffer[position]) < 128:  # by far the most common
        return (byte >> 1) ^ -(byte & 1), position + 1
    return _read(buffer, position, end, VARLONG_BYTES_MAX, 64)


def _read(buffer: Buffer, position: int, end: int, most: int, bits: int) -> tuple[int, int]:
    zigzag = shift = 0
    for place in range(position, min(end, position + most)):
        byte = buffer[place]
        zigzag |= (byte & 0x7F) << shift
        if byte < 128:
            if zigzag >> bits:
                raise ValueError(f"a varint at position {position} holds more than {bits} bits")
            return (zigzag >> 1) ^ -(zigzag & 1), place + 1
        shift += 7
    raise ValueError(f"a varint at position {position} is cut or too long")
