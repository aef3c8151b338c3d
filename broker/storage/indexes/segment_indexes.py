"""The offset index and the time index of one segment, in memory and in their files.

Here: entries that wait to be written, what is loaded and dropped again, files that fell behind and
are replaced, cuts. Not here: which batches get an entry, and how indexes are made again from the
batches (`Segment`), what an entry looks like (`offset_index`, `time_index`), and the index of
aborted transactions (`txn_index`).

A full disk, or a process that is short of something, leaves the files behind without harm: they
say nothing that the batches do not say.
"""

from __future__ import annotations

from typing import Final

from pylog_broker.storage.errors import InvalidOffset
from pylog_broker.storage.files import NO_ROOM, OF_THE_MOMENT, Files
from pylog_broker.storage.indexes import offset_index, time_index
from pylog_broker.storage.indexes.index_witness import IndexWitness
from pylog_broker.storage.indexes.offset_index import RELATIVE_MAX, OffsetIndex
from pylog_broker.storage.indexes.time_index import TimeIndex

_LEAVES_BEHIND: Final = NO_ROOM | OF_THE_MOMENT

_InMemory = tuple[tuple[OffsetIndex, TimeIndex] | None, int, int]
"""The indexes, and how many entries of each wait to be written."""

WAITING_MAX: Final = 32
"""So many new entries of the offset index are written together: one call to the system for each
would cost a tenth of an append."""


class SegmentIndexes:
    """Both indexes are in memory, or neither is. They begin empty.

    `path` and `time_path` are the files; a caller that renames those sets them, after `close`.
    """

    def __init__(self, files: Files, base_offset: int, path: str, time_path: str) -> None:
        self.path = path
        self.time_path = time_path
        self._files = files
        self._base_offset = base_offset
        self.loaded: tuple[OffsetIndex, TimeIndex] | None = None
        """Those in memory, to look at; None when they are only in the files."""
        self._handles: tuple[int, int] | None = None
        self._behind = False
        self.waiting = 0
        """The newest entries of the offset index, that are not in its file yet, to look at."""
        self._times_waiting = 0  # likewise, of the time index
        self.begin()

    # ---- in memory ------------------------------------------------------------------------------

    @property
    def offsets(self) -> OffsetIndex:
        """The offset index; it must be loaded."""
        assert self.loaded is not None
        return self.loaded[0]

    @property
    def times(self) -> TimeIndex:
        """The time index, likewise."""
        assert self.loaded is not None
        return self.loaded[1]

    @property
    def are_behind(self) -> bool:
        """Whether the files lack entries, for want of room or of a handle."""
        return self._behind

    def begin(self) -> _InMemory:
        """Empty ones, in memory; for `go_back`, what was there before."""
        before = self.loaded, self.waiting, self._times_waiting
        self.loaded = OffsetIndex(self._base_offset), TimeIndex(self._base_offset)
        self.waiting = self._times_waiting = 0
        return before

    def go_back(self, before: _InMemory) -> None:
        """Restore the entries from before `begin`."""
        self.loaded, self.waiting, self._times_waiting = before

    def load(self, size: int, end_offset: int) -> None:
        """Those in the files, of a segment of so many bytes. OSError; InvalidOffset when they make
        no sense.
        """
        data = self._files.read_all(self.path)
        offsets = OffsetIndex.decode(self._base_offset, data, size)
        data = self._files.read_all(self.time_path)
        self.loaded = offsets, TimeIndex.decode(self._base_offset, data, end_offset)

    def witness(self, size: int) -> IndexWitness | None:
        """A witness of the entries in the files of a segment of that size; None when they make no
        sense."""
        try:
            offsets = OffsetIndex.decode(self._base_offset, self._files.read_all(self.path), size)
            data = self._files.read_all(self.time_path)
            times = TimeIndex.decode(self._base_offset, data, self._base_offset + RELATIVE_MAX)
        except (OSError, InvalidOffset):
            return None
        return IndexWitness(offsets.entries(), times.entries())

    def drop(self) -> None:
        """Out of memory; the files are trusted until the indexes are used."""
        self.loaded = None
        self.waiting = self._times_waiting = 0

    def rest(self) -> None:
        """Out of memory, unless the files do not say the same."""
        if not self._behind:
            self.loaded = None

    def are_full(self, bytes_max: int) -> bool:
        """Whether one more entry would make a file too large."""
        assert self.loaded is not None
        offsets, times = self.loaded
        return (
            len(offsets.positions) >= bytes_max // offset_index.ENTRY.size
            # the seal may add one more
            or len(times.timestamps) >= bytes_max // time_index.ENTRY.size - 1
        )

    # ---- in the files ---------------------------------------------------------------------------

    def open(self) -> tuple[int, int]:
        """The handles, opened (and the files made) on first use. OSError."""
        if self._handles is None:
            offsets = self._files.open(self.path, create=True)
            try:
                times = self._files.open(self.time_path, create=True)
            except OSError:
                self._files.close(offsets)
                raise
            self._handles = (offsets, times)
        return self._handles

    def close(self) -> None:
        """Give the handles back."""
        handles, self._handles = self._handles, None
        if handles is not None:
            try:
                self._files.close(handles[0])
            finally:
                self._files.close(handles[1])

    def append(
        self,
        last_offset: int,
        position: int,
        timestamp: int,
        offset_of_timestamp: int,
        for_files: bool,
    ) -> None:
        """Take an entry for the batch at `position` into memory, and one for the largest timestamp
        so far unless it has one. `for_files`: they are among those that wait to be written.
        """
        assert self.loaded is not None
        offsets, times = self.loaded
        offsets.append(last_offset, position)
        newer = times.maybe_append(timestamp, offset_of_timestamp)
        if for_files:
            self.waiting += 1
            self._times_waiting += newer

    def write_new_entries(self) -> None:
        """Write the entries that wait; what they say of the last batches, the log says too, so
        nothing is lost with them.
        """
        offsets_new, times_new = self.waiting, self._times_waiting
        if not (offsets_new or times_new):
            return
        self.waiting = self._times_waiting = 0
        if self._behind:
            return
        try:
            offsets, times = self.open()
            if offsets_new:
                entries = self.offsets.encode(len(self.offsets) - offsets_new)
                self._files.append(offsets, [entries])
            if times_new:
                entries = self.times.encode(len(self.times) - times_new)
                self._files.append(times, [entries])
        except OSError as error:
            if error.errno not in _LEAVES_BEHIND:
                raise
            self._behind = True

    def seal(self, max_timestamp: int, last_offset: int) -> None:
        """No more entries: the segment's largest timestamp enters the time index. OSError."""
        if self.loaded is not None:  # else it was sealed before
            self._times_waiting += self.times.maybe_append(max_timestamp, last_offset)
            self.write_new_entries()
        self.close()

    def match_files(self, end_offset: int, max_timestamp: int, last_offset: int) -> bool:
        """Whether the files hold what is in memory, sealed or not. OSError."""
        if not self._file_holds(self.path, self.offsets.encode()):
            return False
        if self._file_holds(self.time_path, self.times.encode()):
            return True
        # A clean stop seals the active segment too.
        sealed = TimeIndex.decode(self._base_offset, self.times.encode(), end_offset)
        sealed.maybe_append(max_timestamp, last_offset)
        if not self._file_holds(self.time_path, sealed.encode()):
            return False
        self.loaded = self.offsets, sealed
        return True

    def _file_holds(self, path: str, expected: bytes) -> bool:
        status = self._files.stat(path)
        return (
            status is not None
            and status.kind == "file"
            and status.size == len(expected)
            and self._files.read_all(path) == expected
        )

    def write(self) -> None:
        """Replace the files, whole and atomically; after an error that passes they are behind."""
        self.close()
        self.waiting = self._times_waiting = 0
        try:
            self._files.write_atomic(self.path, self.offsets.encode())
            self._files.write_atomic(self.time_path, self.times.encode())
        except OSError as error:
            if error.errno not in _LEAVES_BEHIND:
                raise
            self._behind = True
        else:
            self._behind = False

    def cut(self, position: int) -> tuple[int, int]:
        """Keep in memory the entries below a position of the log file; how many of each stayed.

        Also drops the entry of the seal: the segment may be the active one again.
        """
        kept = self.offsets.truncate_to_position(position)
        return kept, self.times.truncate_to_offset(self.offsets.last[0] + 1)

    def cut_files(self, kept: tuple[int, int]) -> None:
        """Bring the files to what a cut has left. OSError."""
        if self._behind:
            self.write()
            return
        offsets, times = self.open()
        self._files.truncate(offsets, kept[0] * offset_index.ENTRY.size)
        self._files.truncate(times, kept[1] * time_index.ENTRY.size)
