"""One segment of a log: `<base offset, 20 digits>.log` with its indexes.

Writes go straight to the file; the indexes are written along, some entries at a time. Those of
the active segment live in memory; those of others are loaded when they are needed first, and
dropped with the handle. They are a cache of what the log file says: a full disk leaves them behind
without harm, one that makes no sense, or does not lead to a batch, is made again from the headers.
The index of aborted transactions has no copy in memory.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Sequence
from typing import Final, NamedTuple

from broker.storage import offset_index, time_index
from broker.storage.errors import InvalidOffset
from broker.storage.files import Buffer, Files
from broker.storage.offset_index import RELATIVE_MAX, OffsetIndex
from broker.storage.scan import BadBatch, scan
from broker.storage.time_index import TimeIndex
from broker.storage.txn_index import TxnIndexFile
from pylog.errors import CorruptMessage
from pylog.model import NO_TIMESTAMP
from pylog.records.batch import HEADER_SIZE, BatchHeader, read_header

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TXN_INDEX_SUFFIX: Final = ".txnindex"
SNAPSHOT_SUFFIX: Final = ".snapshot"
PRODUCERS_SUFFIX: Final = ".producers"
CACHE_SUFFIXES: Final = (
    INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    SNAPSHOT_SUFFIX,
    PRODUCERS_SUFFIX,
)
"""What stands beside a segment's batches and can be made again from them."""

DELETED_SUFFIX: Final = ".deleted"
CLEANED_ENDING: Final = ".cleaned"
"""Behind the names of a segment that the cleaner is writing."""
SWAP_ENDING: Final = ".swap"
"""Behind the names of one that is whole, and takes the place of others."""
CUT_SUFFIX: Final = ".cut"

NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Errors of a write that pass when somebody makes room."""

_ENTRIES_AT_ONCE: Final = 32 * offset_index.ENTRY.size
"""So many bytes of new entries are written together: one call to the system for each would cost a
tenth of an append."""

_OF_THE_MOMENT: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR})

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


def _place_of(header: BatchHeader) -> BatchPlace:
    return BatchPlace(header.size, header.base_offset, header.last_offset, header.max_timestamp)


class SegmentFacts(NamedTuple):
    """What a segment's batches amount to, so that nobody need read them again."""

    size: int
    end_offset: int
    max_timestamp: int
    offset_of_max_timestamp: int
    first_timestamp: int


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
        ending: str = "",
    ) -> None:
        """`ending` stands behind the names of a segment that is only being made."""
        self._files = files
        self._path = f"{directory}/{segment_name(base_offset)}"
        self._ending = ending
        self.index_interval_bytes = index_interval_bytes
        self.base_offset = base_offset
        self.end_offset = base_offset
        self.size = 0
        self.max_timestamp = NO_TIMESTAMP
        self.offset_of_max_timestamp = base_offset
        self.first_timestamp = NO_TIMESTAMP
        self.created_ms = created_ms
        self.jitter_ms = jitter_ms
        self._offsets: OffsetIndex | None = OffsetIndex(base_offset)
        self._times: TimeIndex | None = TimeIndex(base_offset)
        self._bytes_since_entry = 0
        self._sealed = False
        self._handle: int | None = None
        self._index_handles: tuple[int, int] | None = None
        self._indexes_behind = False
        self._new_offsets, self._new_times = bytearray(), bytearray()  # not in the files yet

    # ---- files --------------------------------------------------------------------------------

    @property
    def log_path(self) -> str:
        """The file with the batches."""
        return self._path + LOG_SUFFIX + self._ending

    @property
    def index_path(self) -> str:
        """The offset index."""
        return self._path + INDEX_SUFFIX + self._ending

    @property
    def time_index_path(self) -> str:
        """The time index."""
        return self._path + TIME_INDEX_SUFFIX + self._ending

    @property
    def is_open(self) -> bool:
        """Whether the log file has a handle."""
        return self._handle is not None

    def handle(self, *, create: bool = False) -> int:
        """The log file's handle, opened on first use."""
        if self._handle is None:
            self._handle = self._files.open(self.log_path, create=create)
        return self._handle

    @property
    def offsets(self) -> OffsetIndex:
        """The offset index, loaded on first use. OSError, BadBatch when it must be made again."""
        if self._offsets is None:
            self._load_indexes()
            assert self._offsets is not None
        return self._offsets

    @property
    def times(self) -> TimeIndex:
        """The time index, likewise."""
        if self._times is None:
            self._load_indexes()
            assert self._times is not None
        return self._times

    @property
    def facts(self) -> SegmentFacts:
        """What the batches amount to."""
        return SegmentFacts(
            self.size,
            self.end_offset,
            self.max_timestamp,
            self.offset_of_max_timestamp,
            self.first_timestamp,
        )

    def adopt(self, facts: SegmentFacts) -> None:
        """Take over what is known for sure; the index files are trusted until they are used."""
        self.size = facts.size
        self.end_offset = facts.end_offset
        self.max_timestamp = facts.max_timestamp
        self.offset_of_max_timestamp = facts.offset_of_max_timestamp
        self.first_timestamp = facts.first_timestamp
        self._offsets = self._times = None
        self._sealed = True

    def activate(self) -> None:
        """Make ready for appends. OSError, BadBatch."""
        self._sealed = False
        self._bytes_since_entry = self.size - self.offsets.last[1]

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

    def rest(self) -> None:
        """Nobody has read it for long: give the handles and the memory of the indexes back."""
        self.close()
        if self._sealed and not self._indexes_behind:
            self._offsets = self._times = None

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
            # the seal may add one more
            or len(self.times) >= index_bytes_max // time_index.ENTRY.size - 1
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
        for batch in batches:
            offset_entry, time_entry = self.account(batch)
            if offset_entry:
                self._new_offsets += offset_entry
                self._new_times += time_entry
                if len(self._new_offsets) >= _ENTRIES_AT_ONCE:
                    self.write_new_entries()

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
        if self._bytes_since_entry > self.index_interval_bytes:
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

    def write_new_entries(self) -> None:
        """Write the index entries that wait; what they say of the last batches, the log says too,
        so nothing is lost with them.
        """
        if not (self._new_offsets or self._new_times):
            return
        offsets_new, times_new = bytes(self._new_offsets), bytes(self._new_times)
        self._new_offsets.clear()
        self._new_times.clear()
        if self._indexes_behind:
            return
        try:
            offsets, times = self._open_indexes()
            if offsets_new:
                self._files.append(offsets, [offsets_new])
            if times_new:
                self._files.append(times, [times_new])
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            self._indexes_behind = True

    def seal(self) -> None:
        """The segment takes no more batches, or the log closes: its largest timestamp enters the
        time index.
        """
        self._sealed = True
        if self._times is None:
            self._close_indexes()
            return  # it was sealed before, and is not even loaded
        self._new_times += self.times.maybe_append(self.max_timestamp, self.offset_of_max_timestamp)
        self.write_new_entries()
        self._close_indexes()

    def note_sealed(self) -> None:
        """As `seal`, but only in memory: the files are compared afterwards."""
        self._sealed = True
        self.times.maybe_append(self.max_timestamp, self.offset_of_max_timestamp)

    def index_files_match(self) -> bool:
        """Whether the index files hold what the log file says."""
        if not self._file_holds(self.index_path, self.offsets.encode()):
            return False
        if self._file_holds(self.time_index_path, self.times.encode()):
            return True
        # A clean stop seals the active segment too.
        sealed = TimeIndex.decode(self.base_offset, self.times.encode(), self.end_offset)
        sealed.maybe_append(self.max_timestamp, self.offset_of_max_timestamp)
        if not self._file_holds(self.time_index_path, sealed.encode()):
            return False
        self._times = sealed
        return True

    def _file_holds(self, path: str, expected: bytes) -> bool:
        status = self._files.stat(path)
        return (
            status is not None
            and status.kind == "file"
            and status.size == len(expected)
            and self._files.read_all(path) == expected
        )

    def _load_indexes(self) -> None:
        try:
            data = self._files.read_all(self.index_path)
            self._offsets = OffsetIndex.decode(self.base_offset, data, self.size)
            data = self._files.read_all(self.time_index_path)
            self._times = TimeIndex.decode(self.base_offset, data, self.end_offset)
        except (OSError, InvalidOffset) as error:
            if isinstance(error, OSError) and error.errno in _OF_THE_MOMENT:
                raise
            logger.warning("the indexes of %s are made again: %s", self.log_path, error)
            self.rebuild_indexes()

    def rebuild_indexes(self) -> None:
        """Make both indexes from the headers, in memory and on disk. OSError, BadBatch."""
        sealed, expected = self._sealed, self.facts
        self._offsets, self._times = OffsetIndex(self.base_offset), TimeIndex(self.base_offset)
        self._bytes_since_entry = self.size = 0
        self.max_timestamp, self.offset_of_max_timestamp = NO_TIMESTAMP, self.base_offset
        try:
            for at, header in scan(self._files, self.handle(), 0, expected.size, verify=False):
                if not self.base_offset <= header.last_offset < expected.end_offset:
                    raise BadBatch(at, f"offset {header.last_offset} is not of this segment")
                self.account(_place_of(header))
        except BaseException:
            self.adopt(expected)
            raise
        if sealed:
            self.times.maybe_append(self.max_timestamp, self.offset_of_max_timestamp)
        self.write_indexes(behind_only=False)

    def write_indexes(self, *, behind_only: bool = True) -> None:
        """Replace index files that are behind (or, after a recovery, wrong).

        They are rewritten whole and atomically. No room is no error: they stay behind.
        """
        if behind_only and not self._indexes_behind:
            return
        self._close_indexes()
        self._new_offsets.clear()
        self._new_times.clear()
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
        self.write_new_entries()
        kept = self.offsets.truncate_to_position(position)
        last_indexed, last_position = self.offsets.last
        # Also drops the entry of the seal: the segment may be the active one again.
        times_kept = self.times.truncate_to_offset(last_indexed + 1)
        self.size = position
        self.end_offset = end_offset
        self._sealed = False
        self._bytes_since_entry = position - last_position
        self._find_max_timestamp(last_position)
        if self._indexes_behind:
            self.write_indexes()
        else:
            offsets, times = self._open_indexes()
            self._files.truncate(offsets, kept * offset_index.ENTRY.size)
            self._files.truncate(times, times_kept * time_index.ENTRY.size)
        self.txn_index.truncate_to_offset(end_offset)

    def _find_max_timestamp(self, last_position: int) -> None:
        """Of all that is older than the newest index entry, the time index knows the maximum."""
        self.max_timestamp, self.offset_of_max_timestamp = self.times.last
        if not self.size:
            self.first_timestamp = NO_TIMESTAMP
        for _, header in scan(self._files, self.handle(), last_position, self.size, verify=False):
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp = header.max_timestamp
                self.offset_of_max_timestamp = header.last_offset

    @property
    def txn_index(self) -> TxnIndexFile:
        """The index of aborted transactions; its file is there when one was aborted."""
        path = self._path + TXN_INDEX_SUFFIX + self._ending
        return TxnIndexFile(self._files, path, self.base_offset)

    # ---- look-ups -------------------------------------------------------------------------------

    def position_of(self, offset: int) -> int:
        """Where to begin to look for `offset`: a batch begins there that is not behind it.

        An index that leads elsewhere is made again. OSError, BadBatch.
        """
        position = self.offsets.lookup(offset)
        if position and not self._leads_to_batch(position, offset):
            logger.warning("%s leads nowhere: made again", self.index_path)
            self.rebuild_indexes()
            position = self.offsets.lookup(offset)
        return position

    def _leads_to_batch(self, position: int, offset: int) -> bool:
        try:
            header = read_header(self._files.pread(self.handle(), HEADER_SIZE, position))
        except CorruptMessage:
            return False
        return (
            self.base_offset <= header.base_offset <= offset
            and position + header.size <= self.size
            and header.last_offset < self.end_offset
        )

    def locate(self, offset: int) -> tuple[int, BatchHeader] | None:
        """(position, header) of the first batch that ends at or behind `offset`."""
        start = self.position_of(offset)
        for position, header in scan(self._files, self.handle(), start, self.size, verify=False):
            if header.last_offset >= offset:
                return position, header
        return None

    def fsync(self) -> None:
        """Make the batches durable, and of a full segment the indexes too."""
        self._files.fsync(self.handle())
        if self._sealed:
            for path in self.index_files():
                handle = self._files.open(path)
                try:
                    self._files.fsync(handle)
                finally:
                    self._files.close(handle)

    def index_files(self) -> list[str]:
        """Those of its index files that are there."""
        paths = (self._path + suffix for suffix in CACHE_SUFFIXES)
        return [path for path in paths if self._files.exists(path)]

    def paths(self) -> tuple[str, ...]:
        """Every file that a segment can have."""
        suffixes = (*CACHE_SUFFIXES, LOG_SUFFIX)
        return tuple(self._path + suffix + self._ending for suffix in suffixes)

    def unlink(self) -> None:
        """Remove the files, the log last: an index without a log is cleared away at the start."""
        self.close()
        for path in self.paths():
            self._files.unlink(path)

    def rename(self, ending: str) -> None:
        """Give the files of a segment that is being made another ending, the log last: where that
        has it, all have it. Its snapshot stays that of the segment that it replaces.
        """
        self.close()
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, LOG_SUFFIX):
            path = self._path + suffix
            if self._files.exists(path + self._ending):
                self._files.rename(path + self._ending, path + ending)
        self._ending = ending

    def rename_deleted(self, *, replaced: bool = False) -> list[str]:
        """Give the files names that say they may go; the new paths. `replaced`: by a segment of the
        same base, which keeps the snapshot.

        Who still has them open can read on; a start removes what is left of them. The log first:
        without it the segment is gone.
        """
        self.close()
        renamed = []
        for path in reversed(self.paths()):
            if replaced and path.endswith((SNAPSHOT_SUFFIX, PRODUCERS_SUFFIX)):
                continue
            if self._files.exists(path):
                self._files.rename(path, path + DELETED_SUFFIX)
                renamed.append(path + DELETED_SUFFIX)
        return renamed
