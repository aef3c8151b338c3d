"""Whether the replicas of a topic are equal, byte for byte, as they lie on the disks."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

_HEAD: Final = struct.Struct(">qi")  # base offset, length of what follows


def stored(replica: Path, end: int) -> Iterator[tuple[int, bytes]]:
    """(base offset, bytes) of each batch that begins before the offset `end`."""
    for segment in sorted(replica.glob("*.log")):
        data, at = segment.read_bytes(), 0
        while at + _HEAD.size <= len(data):
            base, length = _HEAD.unpack_from(data, at)
            size = _HEAD.size + length
            if length <= 0 or base >= end or at + size > len(data):
                break  # beyond `end`, being written, or preallocated
            yield base, data[at : at + size]
            at += size


def difference(replicas: Mapping[int, Path], end: int) -> str:
    """The first difference of the replicas (by broker) of a log that nobody cut, before the offset
    `end`; empty when there is none.
    """
    for broker, path in replicas.items():
        if not path.is_dir():
            return f"broker {broker} has none"
    found = {broker: dict(stored(path, end)) for broker, path in replicas.items()}
    reference_of, reference = next(iter(found.items()))
    for broker, batches in found.items():
        for base in sorted(reference.keys() | batches.keys()):
            if reference.get(base) != batches.get(base):
                what = "differs" if base in reference.keys() & batches.keys() else "is not in both"
                return f"the batch at {base} {what}: brokers {reference_of} and {broker}"
    return ""
