"""The aborted transactions of a segment: read-committed readers leave their records out.

File format (`.txnindex`, big-endian, Kafka's), 34 bytes an entry, in the order of the markers:

     0  2  version = 0
     2  8  producer id
    10  8  offset of the transaction's first record
    18  8  offset of its abort marker
    26  8  last stable offset when the marker was written

The file exists only when there is an entry. It is read once, and looked up in memory from then on.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from pylog_broker.storage.errors import InvalidOffset
from pylog_broker.storage.files import Files

ENTRY: Final = struct.Struct(">hqqqq")
_VERSION: Final = 0
_ROW: Final = np.dtype(
    [("version", ">i2"), ("producer", ">i8"), ("first", ">i8"), ("last", ">i8"), ("stable", ">i8")]
)


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


class TxnIndex:
    """The entries of one segment, in its file and, once somebody has asked, in memory. Raises
    OSErrors as they come.

    `path` is the file; a caller that renames the file sets it.
    """

    def __init__(self, files: Files, path: str, base_offset: int) -> None:
        self.path = path
        self._files = files
        self._base_offset = base_offset
        self._columns: _Columns | None = None

    # ---- in memory ------------------------------------------------------------------------------

    @property
    def is_loaded(self) -> bool:
        """Whether a look-up reads nothing."""
        return self._columns is not None

    @property
    def is_empty(self) -> bool:
        """Whether it is known to have no entry, which costs no memory to know."""
        return self._columns is not None and not self._columns.last

    def drop(self) -> None:
        """Out of memory."""
        if not self.is_empty:
            self._columns = None

    def _loaded(self) -> _Columns:
        if self._columns is None:
            try:
                data = self._files.read_all(self.path)
            except FileNotFoundError:
                data = b""
            self._columns = _Columns.decode(data, self._base_offset)
        return self._columns

    # ---- look-ups -------------------------------------------------------------------------------

    def entries(self) -> list[AbortedTransaction]:
        """The transactions that markers aborted. InvalidOffset for a damaged file."""
        columns = self._loaded()
        return [columns[number] for number in range(len(columns.last))]

    def overlapping(self, offset: int, upper_bound: int) -> tuple[list[AbortedTransaction], bool]:
        """Those with records in [offset, upper_bound), and whether no later segment has more.

        InvalidOffset for a damaged file.
        """
        columns = self._loaded()
        found: list[AbortedTransaction] = []
        for number in range(bisect_left(columns.last, offset), len(columns.last)):
            if columns.first[number] < upper_bound:
                found.append(columns[number])
            if columns.stable[number] >= upper_bound:
                return found, True
        return found, False

    # ---- changes --------------------------------------------------------------------------------

    def append(self, entry: AbortedTransaction) -> None:
        """A marker in the segment aborted a transaction. After an error `complete` is to follow."""
        handle = self._files.open(self.path, create=True)
        try:
            self._files.append(handle, [encode_entry(entry)])
        finally:
            self._files.close(handle)
        if self._columns is not None:
            self._columns.append(entry)

    def complete(self, entry: AbortedTransaction) -> None:
        """Add an entry, durably, of which `append` may have written a part, or all. Entries of
        later markers may be there already.
        """
        self._columns = None
        try:
            data = self._files.read_all(self.path)
        except FileNotFoundError:
            data = b""
        whole = data[: len(data) // ENTRY.size * ENTRY.size]
        known = [old for old in decode_entries(whole, self._base_offset) if old != entry]
        self.replace(sorted([*known, entry], key=lambda each: each.last_offset))

    def replace(self, entries: Sequence[AbortedTransaction]) -> None:
        """Write the file anew, or remove it."""
        self._columns = None
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


class _Columns:
    """The fields of all entries; 32 bytes an entry, where tuples would take over 200."""

    __slots__ = ("first", "last", "producer", "stable")

    def __init__(self) -> None:
        self.producer = array("q")
        self.first = array("q")
        self.last = array("q")
        self.stable = array("q")

    @classmethod
    def decode(cls, data: bytes, base_offset: int) -> _Columns:
        """Those of a file; InvalidOffset when they make no sense."""
        columns = cls()
        if not data:
            return columns
        if len(data) % ENTRY.size:
            raise InvalidOffset(f"{len(data)} bytes are no multiple of {ENTRY.size}")
        rows = np.frombuffer(data, _ROW)
        last = rows["last"]
        is_sound = (
            not rows["version"].any()
            and (rows["first"] <= last).all()
            and last[0] >= base_offset
            and (last[1:] > last[:-1]).all()
        )
        if not is_sound:
            decode_entries(data, base_offset)  # says which one it is
        for name in cls.__slots__:
            getattr(columns, name).frombytes(rows[name].astype(np.int64).tobytes())
        return columns

    def append(self, entry: AbortedTransaction) -> None:
        self.producer.append(entry.producer_id)
        self.first.append(entry.first_offset)
        self.stable.append(entry.last_stable_offset)
        self.last.append(entry.last_offset)  # the last one: a reader on the pool goes by its length

    def __getitem__(self, number: int) -> AbortedTransaction:
        return AbortedTransaction(
            self.producer[number], self.first[number], self.last[number], self.stable[number]
        )
