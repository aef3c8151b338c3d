"""Which transactions of a segment were aborted: read-committed readers leave their records out.

File format (`.txnindex`, big-endian, Kafka's), 34 bytes an entry, in the order of the markers:

     0  2  version = 0
     2  8  producer id
    10  8  offset of the transaction's first record
    18  8  offset of its abort marker
    26  8  last stable offset when the marker was written

The file exists only when there is an entry. It has no copy in memory.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from broker.storage.errors import InvalidOffset
from broker.storage.files import Files

ENTRY: Final = struct.Struct(">hqqqq")
_VERSION: Final = 0


class AbortedTransaction(NamedTuple):
    """One entry."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def encode_entry(entry: AbortedTransaction) -> bytes:
    """Its 34 bytes."""
    return ENTRY.pack(_VERSION, *entry)


def decode_entries(data: bytes, base_offset: int) -> list[AbortedTransaction]:
    """The entries of a file; InvalidOffset when they make no sense for a segment of that base."""
    if len(data) % ENTRY.size:
        raise InvalidOffset(f"{len(data)} bytes are no multiple of {ENTRY.size}")
    entries: list[AbortedTransaction] = []
    last = base_offset - 1
    for version, *fields in ENTRY.iter_unpack(data):
        entry = AbortedTransaction(*fields)
        if version != _VERSION:
            raise InvalidOffset(f"entry {len(entries)} has version {version}")
        if entry.last_offset <= last or entry.first_offset > entry.last_offset:
            raise InvalidOffset(
                f"entry {len(entries)} ends at offset {entry.last_offset}, behind {last}"
            )
        last = entry.last_offset
        entries.append(entry)
    return entries


class TxnIndexFile:
    """The file of one segment. Raises OSErrors as they come."""

    def __init__(self, files: Files, path: str, base_offset: int) -> None:
        self.path = path
        self._files = files
        self._base_offset = base_offset

    def append(self, entry: AbortedTransaction) -> None:
        """A marker in the segment aborted a transaction."""
        handle = self._files.open(self.path, create=True)
        try:
            self._files.append(handle, [encode_entry(entry)])
        finally:
            self._files.close(handle)

    def entries(self) -> list[AbortedTransaction]:
        """The transactions that markers aborted. InvalidOffset for a damaged file."""
        try:
            data = self._files.read_all(self.path)
        except FileNotFoundError:
            return []
        return decode_entries(data, self._base_offset)

    def replace(self, entries: Sequence[AbortedTransaction]) -> None:
        """Write the file anew, or remove it."""
        if entries:
            self._files.write_atomic(self.path, b"".join(map(encode_entry, entries)))
        else:
            self._files.unlink(self.path)

    def truncate_to_offset(self, end_offset: int) -> None:
        """Drop entries of markers at or behind `end_offset`."""
        if not self._files.exists(self.path):
            return
        try:
            entries = self.entries()
        except InvalidOffset:
            entries = []
        self.replace([entry for entry in entries if entry.last_offset < end_offset])
