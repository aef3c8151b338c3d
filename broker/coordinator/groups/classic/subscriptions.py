"""The subscription of a consumer of the classic protocol: only members read it, but for the topics.

`ConsumerProtocolSubscription`, big-endian: 2 bytes of version, then an array (4 bytes of count) of
topics (2 bytes of length, UTF-8), which every version has first.
"""

from __future__ import annotations

from struct import Struct
from struct import error as struct_error
from typing import Final

_START: Final = Struct(">hi")
_LENGTH: Final = Struct(">h")


def topics_of(metadata: bytes) -> frozenset[str] | None:
    """The topics that the subscription names; None for bytes that are none."""
    try:
        version, count = _START.unpack_from(metadata)
        position = _START.size
        if version < 0 or count < 0 or count * _LENGTH.size > len(metadata) - position:
            return None
        topics = set()
        for _ in range(count):
            (size,) = _LENGTH.unpack_from(metadata, position)
            position += _LENGTH.size
            if not 0 <= size <= len(metadata) - position:
                return None
            topics.add(metadata[position : position + size].decode())
            position += size
    except (struct_error, UnicodeDecodeError):
        return None
    return frozenset(topics)
