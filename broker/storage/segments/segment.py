"""One segment of a log: `<base offset, 20 digits>.log` with its indexes.

Writes go straight to the file; the indexes are written along, some entries at a time
(`segment_indexes.py`). Those of the active segment live in memory; those of others are loaded when
they are needed first, and dropped with the handle. They are a cache of what the log file says: one
that makes no sense, or does not lead to a batch, is made again from the headers.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from pylog.errors import CorruptMessage
from pylog.model import NO_TIMESTAMP
from pylog.records.batch import HEADER_SIZE, BatchHeader, read_header
from pylog_broker.storage.errors import InvalidOffset
from pylog_broker.storage.files import NO_ROOM, OF_THE_MOMENT, Buffer, Files, sync
from pylog_broker.storage.indexes.offset_index import RELATIVE_MAX, OffsetIndex
from pylog_broker.storage.indexes.segment_indexes import WAITING_MAX, SegmentIndexes
from pylog_broker.storage.indexes.time_index import TimeIndex
from pylog_broker.storage.indexes.txn_index import TxnIndex
from pylog_broker.storage.segments.damage import DamageFinder, Hole, Place
from pylog_broker.storage.segments.scan import BadBatch, scan

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
"""The files beside a segment's batches that can be made again from them."""

DELETED_SUFFIX: Final = ".deleted"
CLEANED_ENDING: Final = ".cleaned"
"""Behind the names of a segment that the cleaner is writing."""
SWAP_ENDING: Final = ".swap"
"""Behind the names of one that is whole, and takes the place of others."""
CUT_SUFFIX: Final = ".cut"

_ENTRIES_NEAR: Final = 64
"""So many entries of the index at each side of damage are looked at for one that is right."""

logger = logging.getLogger(__name__)


def segment_name(base_offset: int) -> str:
    """The 20 digits that a segment's files begin with."""
    return f"{base_offset:020d}"


BatchPlace = tuple[int, int, int, int]
"""The facts about one batch that a segment must be given: its size, its first and last offset, and
its largest timestamp. A plain tuple, which costs a fifteenth of a named one; every append makes it.
"""


def place_of(header: BatchHeader) -> BatchPlace:
    """That of a batch that is in the log."""
    return header.size, header.base_offset, header.last_offset, header.max_timestamp


class SegmentFacts(NamedTuple):
    """The sum of a segment's batches, so that nobody need read them again."""

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
        self.indexes = SegmentIndexes(files, base_offset, self.index_path, self.time_index_path)
        """The indexes, maybe not loaded: look into `offsets` and `times`."""
        path = self._path + TXN_INDEX_SUFFIX + ending
        self.txn_index = TxnIndex(files, path, base_offset)
        """The index of aborted transactions; its file is there when one was aborted."""
        self._bytes_since_entry = 0
        self._sealed = False
        self._handle: int | None = None
        self.holes: tuple[Hole, ...] = ()
        """The holes, as far as anybody has met them, in order. Around it batches are whole."""
        self._longer = False  # than its batches: zeros were put behind them ahead of time
        self._placed = False  # batches are written by their positions, not at the file's end

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
        return self._with_indexes().offsets

    @property
    def times(self) -> TimeIndex:
        """The time index, likewise."""
        return self._with_indexes().times

    def _with_indexes(self) -> SegmentIndexes:
        if self.indexes.loaded is None:
            self._load_indexes()
        return self.indexes

    @property
    def facts(self) -> SegmentFacts:
        """The sum of the batches."""
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
        self.indexes.drop()
        self._sealed = True

    def activate(self) -> None:
        """Make ready for appends. OSError, BadBatch.

        As in Kafka, a whole interval passes before the next index entry, wherever the last one is.
        """
        self._sealed = False
        self._with_indexes()
        self._bytes_since_entry = 0

    def create(self, preallocated_bytes: int = 0) -> None:
        """Make the three files, empty; the log file may have zeros of that length, to be written
        over. The caller syncs the directory.
        """
        try:
            handle = self.handle(create=True)
            if self._files.size(handle):
                self._files.truncate(handle, 0)
            if preallocated_bytes:
                self._longer = self._placed = True
                self._files.truncate(handle, preallocated_bytes)
            self.indexes.open()
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """Give all handles back."""
        handle, self._handle = self._handle, None
        try:
            if handle is not None:
                self._files.close(handle)
        finally:
            self.indexes.close()

    def rest(self) -> None:
        """Nobody has read it for long: give the handles and the memory of the indexes back."""
        self.close()
        if self._sealed:
            self.indexes.rest()
            self.txn_index.drop()

    # ---- append -------------------------------------------------------------------------------

    def takes_offset(self, offset: int) -> bool:
        """Whether the indexes can express `offset` relative to the base."""
        return 0 <= offset - self.base_offset <= RELATIVE_MAX

    def indexes_full(self, index_bytes_max: int) -> bool:
        """Whether one more entry would make an index file too large."""
        indexes = self.indexes if self.indexes.loaded else self._with_indexes()
        return indexes.are_full(index_bytes_max)

    def append(self, buffers: Sequence[Buffer], batches: Sequence[BatchPlace]) -> None:
        """Write `batches`, whose bytes are `buffers`.

        An OSError of the log file is the caller's: some bytes may be there, `drop_partial` cuts
        them. The offsets must fit (`takes_offset`).
        """
        assert batches[-1][2] - self.base_offset <= RELATIVE_MAX
        assert batches[0][1] >= self.end_offset
        if self.indexes.loaded is None:  # what is in the file must be accounted for
            self._load_indexes()
        handle = self._handle if self._handle is not None else self.handle()
        if self._placed:
            self._files.write_at(handle, buffers, self.size)
        else:
            self._files.append(handle, buffers)
        for batch in batches:
            self.account(batch, True)
        if self.indexes.waiting >= WAITING_MAX:
            self.indexes.write_new_entries()

    def account(self, batch: BatchPlace, for_index_files: bool = False) -> None:
        """Take note of a batch at the end of the file; its index entries are in memory then, and
        wait to be written if they are for the files.

        The bytes since the last entry are compared before this batch's are counted, as in Kafka:
        the first batch never has an entry.
        """
        size, _, last_offset, max_timestamp = batch
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.offset_of_max_timestamp = last_offset
        if not self.size:
            self.first_timestamp = max_timestamp
        if self._bytes_since_entry > self.index_interval_bytes:
            indexes = self.indexes if self.indexes.loaded else self._with_indexes()
            indexes.append(
                last_offset,
                self.size,
                self.max_timestamp,
                self.offset_of_max_timestamp,
                for_index_files,
            )
            self._bytes_since_entry = 0
        self._bytes_since_entry += size
        self.size += size
        self.end_offset = last_offset + 1

    def drop_partial(self) -> None:
        """Cut what a failed append left behind the last whole batch."""
        self._files.truncate(self.handle(), self.size)
        self._longer = False

    def trim(self) -> None:
        """Cut the zeros that a preallocated file has behind its batches. OSError."""
        if self._longer:
            self.drop_partial()

    def seal(self) -> None:
        """The segment takes no more batches, or the log closes: its largest timestamp enters the
        time index, and nothing stands behind its batches.
        """
        self._sealed = True
        self.trim()
        self.indexes.seal(self.max_timestamp, self.offset_of_max_timestamp)

    def note_sealed(self) -> None:
        """As `seal`, but only in memory: the files are compared afterwards."""
        self._sealed = True
        self.times.maybe_append(self.max_timestamp, self.offset_of_max_timestamp)

    def index_files_match(self) -> bool:
        """Whether the index files hold what the log file says."""
        return self._with_indexes().match_files(
            self.end_offset, self.max_timestamp, self.offset_of_max_timestamp
        )

    def _load_indexes(self) -> None:
        try:
            self.indexes.load(self.size, self.end_offset)
        except (OSError, InvalidOffset) as error:
            if isinstance(error, OSError) and error.errno in OF_THE_MOMENT:
                raise
            logger.warning("the indexes of %s are made again: %s", self.log_path, error)
            self.rebuild_indexes()

    def rebuild_indexes(self) -> None:
        """Make both indexes from the headers, in memory and on disk. OSError, BadBatch; then all is
        as it was, but for what is known to have rotted.
        """
        sealed, expected, since = self._sealed, self.facts, self._bytes_since_entry
        before = self.indexes.begin()
        try:
            while not self._account_all(expected):
                pass
        except BaseException:
            self.adopt(expected)
            self.indexes.go_back(before)
            self._sealed, self._bytes_since_entry = sealed, since
            raise
        self._sealed = sealed
        if self.holes:
            # A lost batch counts on: a segment is not older without its newest batch.
            self.size, self.end_offset, *times = expected
            self.max_timestamp, self.offset_of_max_timestamp, self.first_timestamp = times
        if sealed:
            self.times.maybe_append(self.max_timestamp, self.offset_of_max_timestamp)
        self.indexes.write()

    def _account_all(self, expected: SegmentFacts) -> bool:
        """Take note of every batch but what is in holes; False when that found another hole."""
        self.indexes.begin()
        self._bytes_since_entry = self.size = start = 0
        self.end_offset = self.base_offset
        self.max_timestamp, self.offset_of_max_timestamp = NO_TIMESTAMP, self.base_offset
        try:
            for hole in (*self.holes, None):
                stop = hole.position if hole is not None else expected.size
                for at, header in scan(self._files, self.handle(), start, stop, verify=False):
                    in_order = self.end_offset <= header.base_offset <= header.last_offset
                    if not in_order or header.last_offset >= expected.end_offset:
                        raise BadBatch(at, f"offset {header.last_offset} is not of this place")
                    self.account(place_of(header))
                if hole is not None:
                    start = self.size = hole.end_position
                    self.end_offset = hole.end_offset
        except BadBatch as bad:
            self.adopt(expected)
            if not self.look_for_damage(bad.position):
                raise
            return False
        return True

    def write_indexes(self, *, behind_only: bool = True) -> None:
        """Replace index files that are behind (or, after a recovery, wrong). OSError, BadBatch."""
        if self.indexes.are_behind or not behind_only:
            self._with_indexes().write()

    # ---- cut ----------------------------------------------------------------------------------

    def truncate(self, position: int, end_offset: int) -> None:
        """Cut the file at `position`, where a batch begins; the log then ends at `end_offset`.

        Synced: a cut that a loss of power undoes would bring records back that were given up.
        """
        self._files.truncate(self.handle(), position)
        self._longer = False
        self.holes = tuple(hole for hole in self.holes if hole.end_position <= position)
        sync(self._files, self.handle())
        indexes = self._with_indexes()
        indexes.write_new_entries()
        kept = indexes.cut(position)
        last_position = indexes.offsets.last[1]
        self.size = position
        self.end_offset = end_offset
        self._sealed = False
        self._bytes_since_entry = 0
        self._find_max_timestamp(last_position)
        indexes.cut_files(kept)
        self.txn_index.truncate_to_offset(end_offset)

    def _find_max_timestamp(self, last_position: int) -> None:
        """Finds the largest timestamp. The time index knows that of all that is older than the
        newest index entry; the batches behind it are scanned.
        """
        self.max_timestamp, self.offset_of_max_timestamp = self.times.last
        if not self.size:
            self.first_timestamp = NO_TIMESTAMP
        for _, header in scan(self._files, self.handle(), last_position, self.size, verify=False):
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp = header.max_timestamp
                self.offset_of_max_timestamp = header.last_offset

    # ---- damage ---------------------------------------------------------------------------------

    def look_for_damage(self, until: int, *, gaps: bool = True) -> bool:
        """Something was wrong at a position of the file: whether what is there, or before it, has
        rotted, and was not known to. `gaps`: offsets may be missing between batches. BadBatch for a
        file that is too short, OSError.
        """
        handle = self.handle()
        missing = self.size - self._files.size(handle)
        if missing > 0:
            raise BadBatch(until, f"the file ends {missing} bytes too early")
        entries = self.entries_near(until, self.size)
        start, end = Place(0, self.base_offset), Place(self.size, self.end_offset)
        for hole in self.holes:
            if hole.end_position <= until:
                start = Place(hole.end_position, hole.end_offset)
            elif hole.position >= until and hole.position < end.position:
                end = Place(hole.position, hole.offset)
        finder = DamageFinder(
            self._files,
            handle,
            size=end.position,
            end_offset=end.offset,
            entries=[entry for entry in entries if entry[1] < end.position],
            gaps=gaps,
        )
        for entry in reversed(entries):
            if start.position < entry[1] < until:
                place = finder.confirmed(entry)
                if place is not None:
                    start = place
                    break
        found = finder.holes(start, until)
        for hole in found:
            logger.error(
                "%s is damaged at position %d: %s; what is at offsets %d to %d cannot be read, the "
                "rest can",
                self.log_path, hole.position, hole.reason, hole.offset, hole.end_offset - 1,
            )  # fmt: skip
        self.holes = tuple(sorted((*self.holes, *found)))
        return bool(found)

    def entries_near(self, position: int, size: int) -> list[tuple[int, int]]:
        """The index entries about there, (last offset, position) of batches in order; nothing
        when it makes no sense for a file of that size.
        """
        loaded = self.indexes.loaded
        if loaded is not None and self.size >= size:
            return loaded[0].near(position, _ENTRIES_NEAR)
        try:
            data = self._files.read_all(self.index_path)
            offsets = OffsetIndex.decode(self.base_offset, data, size)
        except (OSError, InvalidOffset):
            return []
        return offsets.near(position, _ENTRIES_NEAR)

    def step_over(self, hole: Hole) -> None:
        """While its batches are accounted for: go on behind what has rotted."""
        self.holes = (*self.holes, hole)
        self.size, self.end_offset = hole.end_position, hole.end_offset

    def hole_at(self, offset: int) -> Hole | None:
        """The hole there."""
        return next((h for h in self.holes if h.offset <= offset < h.end_offset), None)

    # ---- look-ups -------------------------------------------------------------------------------

    def position_of(self, offset: int) -> int:
        """The position at which a search for `offset` begins: a batch begins there that is not
        behind it.

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

    def place_before(self, offset: int) -> tuple[int, int] | None:
        """(position, offset) at which the batches end that lie wholly before `offset`; None when no
        other batch follows. Compaction may have left a gap between that offset and the next batch.
        """
        end_offset = self.base_offset
        start = self.position_of(offset - 1)  # so the batch there lies before, or is the first one
        for position, header in scan(self._files, self.handle(), start, self.size, verify=False):
            if header.last_offset >= offset:
                return position, end_offset
            end_offset = header.next_offset
        return None

    def fsync(self) -> None:
        """Make the batches durable, and of a full segment the indexes too."""
        sync(self._files, self.handle())
        if self._sealed:
            for path in self.cache_paths():
                if not self._files.exists(path):
                    continue
                handle = self._files.open(path)
                try:
                    sync(self._files, handle)
                finally:
                    self._files.close(handle)

    def cache_paths(self) -> tuple[str, ...]:
        """The files that may stand beside its log file."""
        return tuple([self._path + suffix for suffix in CACHE_SUFFIXES])

    def paths(self) -> tuple[str, ...]:
        """Every file that a segment can have."""
        suffixes = (*CACHE_SUFFIXES, LOG_SUFFIX)
        return tuple(self._path + suffix + self._ending for suffix in suffixes)

    def unlink(self) -> None:
        """Remove the files, the log last: an index without a log is cleared away at the start."""
        self.close()
        for path in self.paths():
            self._files.unlink(path)
            if self._ending == CLEANED_ENDING:  # a `rename` that was interrupted
                self._files.unlink(path.removesuffix(CLEANED_ENDING) + SWAP_ENDING)

    def rename(self, ending: str) -> None:
        """Give the files of a segment that is being made another ending, the log last: where that
        has it, all have it. Its snapshot stays that of the segment that it replaces. After an error
        files of both names may be there.
        """
        self.close()
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, LOG_SUFFIX):
            path = self._path + suffix
            if self._files.exists(path + self._ending):
                self._files.rename(path + self._ending, path + ending)
        self._ending = ending
        self.indexes.path, self.indexes.time_path = self.index_path, self.time_index_path
        self.txn_index.path = self._path + TXN_INDEX_SUFFIX + ending

    def rename_deleted(self, *, replaced: bool = False) -> Iterator[str]:
        """Give the files names that say they may go, one with each step; the new paths. `replaced`:
        by a segment of the same base, which keeps the snapshot.

        A reader that still has them open can read on; a start removes the files that are left. The
        log first: without it the segment is gone. A directory that has no room for the longer name
        can still lose the file.
        """
        self.close()
        for path in reversed(self.paths()):
            if replaced and path.endswith((SNAPSHOT_SUFFIX, PRODUCERS_SUFFIX)):
                continue
            if not self._files.exists(path):
                continue
            try:
                self._files.rename(path, path + DELETED_SUFFIX)
            except OSError as error:
                if error.errno not in NO_ROOM:
                    raise
                self._files.unlink(path)
            else:
                yield path + DELETED_SUFFIX
