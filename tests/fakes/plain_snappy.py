"""Raw snappy blocks by the book, a byte at a time: the dumb twin of the library's decoder.

The format: a varint, how much the block holds; then elements, each begun by a tag byte whose low
two bits tell a literal (0) from copies with offsets of 11 bits, 2 bytes and 4 bytes (1, 2, 3).
"""

from __future__ import annotations


class BadBlock(ValueError):
    """The bytes are no raw snappy block."""


def unpack(block: bytes) -> bytes:
    """The unpacked bytes of the block; BadBlock when it breaks off, points outside or lies about
    its size."""
    try:
        declared, at = _declared(block)
        out = bytearray()
        while at < len(block):
            at = _element(block, at, out)
            if len(out) > declared:
                raise BadBlock("it holds more than it declares")
    except IndexError as error:
        raise BadBlock("it breaks off") from error
    if len(out) != declared:
        raise BadBlock("it holds less than it declares")
    return bytes(out)


def _declared(block: bytes) -> tuple[int, int]:
    size = 0
    for at in range(5):
        size |= (block[at] & 0x7F) << 7 * at
        if block[at] < 0x80:
            if size >= 1 << 32:
                break
            return size, at + 1
    raise BadBlock("its size is no varint of 32 bits")


def _element(block: bytes, at: int, out: bytearray) -> int:
    tag = block[at]
    at += 1
    kind = tag & 3
    if kind == 0:
        length = tag >> 2
        if length >= 60:
            wide = length - 59
            length = int.from_bytes(_some(block, at, wide), "little")
            at += wide
        out += _some(block, at, length + 1)
        return at + length + 1
    if kind == 1:
        length, wide = (tag >> 2 & 7) + 4, 1
        offset = (tag >> 5) << 8 | block[at]
    else:
        length, wide = (tag >> 2) + 1, 2 if kind == 2 else 4
        offset = int.from_bytes(_some(block, at, wide), "little")
    if not 0 < offset <= len(out):
        raise BadBlock("a copy from outside")
    for _ in range(length):
        out.append(out[-offset])
    return at + wide


def _some(block: bytes, at: int, size: int) -> bytes:
    piece = block[at : at + size]
    if len(piece) < size:
        raise IndexError
    return piece
