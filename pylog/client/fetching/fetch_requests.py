"""Fetch requests as bytes: of one to the next only the correlation and offsets change, so what a
consumer's requests and a partition's have in common is encoded once.

The bytes are those of `FetchRequest` in `log.proto`, as protobuf writes them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from pylog.client.fetching.fetch_events import FetchItem
from pylog.rpc.framing import Chunks
from pylog.rpc.varint import varint, zigzag

STANDING_ANSWERS: Final = 64
"""The number of answers to one request, while little comes at a time."""
STANDING_BYTES: Final = 16 * 1024
"""The bytes of batches in all these answers; a consumer may get them although it has no room for
them, or has paused."""
_UINT64: Final = 2**64 - 1


class FetchRequests:
    """Makes the requests of one consumer."""

    def __init__(
        self,
        *,
        min_bytes: int,
        max_bytes: int,
        partition_bytes: int,
        read_committed: bool,
        client_id: str,
        rack: str,
    ) -> None:
        self._limits = _number(b"\x18", min_bytes) + _number(b"\x20", max_bytes)
        self._limits += b"\x28\x01" if read_committed else b""
        self._partition_bytes = _number(b"\x28", partition_bytes)
        standing_bytes = min(STANDING_BYTES, partition_bytes, max_bytes)
        client, stands = _text(b"\x3a", client_id), _number(b"\x48", STANDING_ANSWERS)
        stands += _number(b"\x50", standing_bytes)
        self._end = client + _text(b"\x42", rack) + stands
        self._end_without_rack = client + stands

    def encode(
        self,
        correlation: int,
        max_wait_ms: int,
        items: Sequence[FetchItem],
        *,
        leaders_only: bool = False,
    ) -> bytes:
        """The request's bytes. `leaders_only`: it tells no rack."""
        pieces = [_number(b"\x08", correlation), _number(b"\x10", max_wait_ms), self._limits]
        limit = self._partition_bytes
        for item in items:
            names = _names(*item.topic_partition, item.topic_id)
            offset = _number(b"\x20", item.offset)
            epochs = _epochs(item.leader_epoch, item.last_epoch)
            size = len(names) + len(offset) + len(limit) + len(epochs)
            pieces += (b"\x32", varint(size), names, offset, limit, epochs)
        pieces.append(self._end_without_rack if leaders_only else self._end)
        return b"".join(pieces)


def pack_encoded(queue: deque[bytes]) -> tuple[Chunks, None]:
    """Each request is a message."""
    return [queue.popleft()], None


def _number(tag: bytes, value: int) -> bytes:
    return tag + varint(value & _UINT64) if value else b""


def _text(tag: bytes, text: str) -> bytes:
    data = text.encode()
    return tag + varint(len(data)) + data if data else b""


@lru_cache(4096)
def _names(topic: str, partition: int, topic_id: str) -> bytes:
    return _text(b"\x0a", topic) + _text(b"\x12", topic_id) + _number(b"\x18", partition)


@lru_cache(1024)
def _epochs(leader: int, last: int) -> bytes:
    return _number(b"\x30", zigzag(leader)) + _number(b"\x38", zigzag(last))
