"""One segment of a log: `<base offset, 20 digits>.log` with its `.index` and `.timeindex`.

Writes go straight to the file; the indexes live in memory and are written along, 8 and 12 bytes at
a time. They are a cache of what the log file says: a full disk leaves them behind without harm, and
opening a log compares them with the file.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Sequence
from typing import Final, NamedTuple

from broker.storage import offset_index, time_index
from broker.storage.files import Buffer, Files
from broker.storage.offset_index import RELATIVE_MAX, OffsetIndex
from broker.storage.scan import scan
from broker.storage.time_index import TimeIndex
from pylog.model import NO_TIMESTAMP
from pylog.records.batch import BatchHeader

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TXN_INDEX_SUFFIX: Final = ".txnindex"
SNAPSHOT_SUFFIX: Final = ".snapshot"
DELETED_SUFFIX: Final = ".deleted"
CUT_SUFFIX: Final = ".cut"

NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Errors of a write that pass when somebody makes room."""

logger = logging.getLogger(__name__)


def segment_name(base_offset: int) -> str:
    """The 20 digits that a segment's files begin with."""
    return f"{base_offset:020d}"


class BatchPlace(NamedTuple):
    """What a segment must know of one batch that it is given."""

    size: int
    base_offset: int
    last_offset: int
    max_timestamp: int


class Segment:
    """A part of a log. `end_offset` is the offset after its last batch (the base when empty).

    `offset_of_max_timestamp` is the last offset of the batch that holds `max_timestamp`.
    """

    def __init__(
        self,
        files: Files,
        directory: str,
        base_offset: int,
        *,
        index_interval_bytes: int,
        created_ms: int,
        jitter_ms: int = 0,
    ) -> None:
        self._files = files
        self._path = f"{directory}/{segment_name(base_offset)}"
        self._index_interval_bytes = index_interval_bytes
        self.base_offset = base_offset
        self.end_offset = base_offset
        self.size = 0
        self.max_timestamp = NO_TIMESTAMP
        self.offset_of_max_timestamp = base_offset
        self.first_timestamp = NO_TIMESTAMP
        self.created_ms = created_ms
        self.jitter_ms = jitter_ms
        self.offsets = OffsetIndex(base_offset)
        self.times = TimeIndex(base_offset)
        self._bytes_since_entry = 0
        self._handle: int | None = None
        self._index_handles: tuple[int, int] | None = None
        self._indexes_behind = False

    # ---- files --------------------------------------------------------------------------------

    @property
    def log_path(self) -> str:
        """The file with the batches."""
        return self._path + LOG_SUFFIX

    @property
    def index_path(self) -> str:
        """The offset index."""
        return self._path + INDEX_SUFFIX

    @property
    def time_index_path(self) -> str:
        """The time index."""
        return self._path + TIME_INDEX_SUFFIX

    @property
    def is_open(self) -> bool:
        """Whether the log file has a handle."""
        return self._handle is not None

    def handle(self, *, create: bool = False) -> int:
        """The log file's handle, opened on first use."""
        if self._handle is None:
            self._handle = self._files.open(self.log_path, create=create)
        return self._handle

    def create(self) -> None:
        """Make the three files, empty. The caller syncs the directory."""
        try:
            handle = self.handle(create=True)
            if self._files.size(handle):
                self._files.truncate(handle, 0)
            self._open_indexes()
        except OSError:
            self.close()
            raise

    def _open_indexes(self) -> tuple[int, int]:
        if self._index_handles is None:
            offsets = self._files.open(self.index_path, create=True)
            try:
                times = self._files.open(self.time_index_path, create=True)
            except OSError:
                self._files.close(offsets)
                raise
            self._index_handles = (offsets, times)
        return self._index_handles

    def close(self) -> None:
        """Give all handles back."""
        if self._handle is not None:
            self._files.close(self._handle)
            self._handle = None
        self._close_indexes()

    def _close_indexes(self) -> None:
        if self._index_handles is not None:
            for handle in self._index_handles:
                self._files.close(handle)
            self._index_handles = None

    # ---- append -------------------------------------------------------------------------------

    def takes_offset(self, offset: int) -> bool:
        """Whether the indexes can express `offset` relative to the base."""
        return 0 <= offset - self.base_offset <= RELATIVE_MAX

    def indexes_full(self, index_bytes_max: int) -> bool:
        """Whether one more entry would make an index file too large."""
        return (
            len(self.offsets) >= index_bytes_max // offset_index.ENTRY.size
            or len(self.times) >= index_bytes_max // time_index.ENTRY.size
        )

    def append(self, buffers: Sequence[Buffer], batches: Sequence[BatchPlace]) -> None:
        """Write `batches`, whose bytes are `buffers`.

        An OSError of the log file is the caller's: some bytes may be there, `drop_partial` cuts
        them. The offsets must fit (`takes_offset`).
        """
        assert self.takes_offset(batches[-1].last_offset)
        assert batches[0].base_offset >= self.end_offset
        handle = self._handle if self._handle is not None else self.handle()
        self._files.append(handle, buffers)
        offset_entries = time_entries = b""
        for batch in batches:
            new_offset, new_time = self.account(batch)
            offset_entries += new_offset
            time_entries += new_time
        if offset_entries:
            self._write_index_entries(offset_entries, time_entries)

    def account(self, batch: BatchPlace) -> tuple[bytes, bytes]:
        """Take note of a batch at the end of the file; the new index entries (or nothing).

        The bytes since the last entry are compared before this batch's are counted, as in Kafka:
        the first batch never has an entry.
        """
        if batch.max_timestamp > self.max_timestamp:
            self.max_timestamp = batch.max_timestamp
            self.offset_of_max_timestamp = batch.last_offset
        if not self.size:
            self.first_timestamp = batch.max_timestamp
        offset_entry = time_entry = b""
        if self._bytes_since_entry > self._index_interval_bytes:
            offset_entry = self.offsets.append(batch.last_offset, self.size)
            time_entry = self.times.maybe_append(self.max_timestamp, self.offset_of_max_timestamp)
            self._bytes_since_entry = 0
        self._bytes_since_entry += batch.size
        self.size += batch.size
        self.end_offset = batch.last_offset + 1
        return offset_entry, time_entry

    def drop_partial(self) -> None:
        """Cut what a failed append left behind the last whole batch."""
        self._files.truncate(self.handle(), self.size)

    def _write_index_entries(self, offset_entries: bytes, time_entries: bytes) -> None:
        if self._indexes_behind:
            return
        try:
            offsets, times = self._open_indexes()
            self._files.append(offsets, [offset_entries])
            if time_entries:
                self._files.append(times, [time_entries])
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            self._indexes_behind = True

    def seal(self) -> None:
        """The segment takes no more batches: its largest timestamp enters the time index."""
        entry = self.times.maybe_append(self.max_timestamp, self.offset_of_max_timestamp)
        if entry and not self._indexes_behind:
            try:
                self._files.append(self._open_indexes()[1], [entry])
            except OSError as error:
                if error.errno not in NO_ROOM:
                    raise
                self._indexes_behind = True
        self._close_indexes()

    def note_sealed(self) -> None:
        """As `seal`, but only in memory: the files are compared afterwards."""
        self.times.maybe_append(self.max_timestamp, self.offset_of_max_timestamp)

    def index_files_match(self) -> bool:
        """Whether the index files hold what the log file says."""
        pairs = (
            (self.index_path, self.offsets.encode()),
            (self.time_index_path, self.times.encode()),
        )
        for path, expected in pairs:
            status = self._files.stat(path)
            if status is None or status.kind != "file" or status.size != len(expected):
                return False
            if self._files.read_all(path) != expected:
                return False
        return True

    def write_indexes(self, *, behind_only: bool = True) -> None:
        """Replace index files that are behind (or, after a recovery, wrong).

        They are rewritten whole and atomically. No room is no error: they stay behind.
        """
        if behind_only and not self._indexes_behind:
            return
        self._close_indexes()
        try:
            self._files.write_atomic(self.index_path, self.offsets.encode())
            self._files.write_atomic(self.time_index_path, self.times.encode())
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            self._indexes_behind = True
        else:
            self._indexes_behind = False

    # ---- cut ----------------------------------------------------------------------------------

    def truncate(self, position: int, end_offset: int) -> None:
        """Cut the file at `position`, where a batch begins; the log then ends at `end_offset`.

        Synced: a cut that a loss of power undoes would bring records back that were given up.
        """
        self._files.truncate(self.handle(), position)
        self._files.fsync(self.handle())
        kept = self.offsets.truncate_to_position(position)
        last_indexed, last_position = self.offsets.entries()[-1] if kept else (-1, 0)
        # Also drops the entry of the seal: the segment may be the active one again.
        times_kept = self.times.truncate_to_offset(last_indexed + 1)
        self.size = position
        self.end_offset = end_offset
        self._bytes_since_entry = position - last_position
        self._find_max_timestamp()
        if self._indexes_behind:
            self.write_indexes()
        else:
            offsets, times = self._open_indexes()
            self._files.truncate(offsets, kept * offset_index.ENTRY.size)
            self._files.truncate(times, times_kept * time_index.ENTRY.size)

    def _find_max_timestamp(self) -> None:
        self.max_timestamp = NO_TIMESTAMP
        self.offset_of_max_timestamp = self.base_offset
        start = 0
        if len(self.times):
            # Nothing before this entry's batch is as new as the entry, so look from there on.
            start = self.offsets.lookup(self.times.entries()[-1][1])
        if not self.size:
            self.first_timestamp = NO_TIMESTAMP
        for _, header in scan(self._files, self.handle(), start, self.size, verify=False):
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp = header.max_timestamp
                self.offset_of_max_timestamp = header.last_offset

    # ---- look-ups -------------------------------------------------------------------------------

    def locate(self, offset: int) -> tuple[int, BatchHeader] | None:
        """(position, header) of the first batch that ends at or behind `offset`."""
        start = self.offsets.lookup(offset)
        for position, header in scan(self._files, self.handle(), start, self.size, verify=False):
            if header.last_offset >= offset:
                return position, header
        return None

    def fsync(self) -> None:
        """Make the batches durable."""
        self._files.fsync(self.handle())

    def paths(self) -> tuple[str, ...]:
        """Every file that a segment can have."""
        suffixes = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, SNAPSHOT_SUFFIX, LOG_SUFFIX)
        return tuple(self._path + suffix for suffix in suffixes)

    def unlink(self) -> None:
        """Remove the files, the log last: an index without a log is cleared away at the start."""
        self.close()
        for path in self.paths():
            self._files.unlink(path)

    def rename_deleted(self) -> list[str]:
        """Give the files names that say they may go; the new paths.

        Who still has them open can read on; a start removes what is left of them. The log first:
        without it the segment is gone.
        """
        self.close()
        renamed = []
        for path in reversed(self.paths()):
            if self._files.exists(path):
                self._files.rename(path, path + DELETED_SUFFIX)
                renamed.append(path + DELETED_SUFFIX)
        return renamed
