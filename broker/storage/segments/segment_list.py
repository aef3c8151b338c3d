"""A log's segments in order: which one holds an offset, when the next one begins, which ones go.

Raises OSErrors as they come; `Log` says what they mean.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from typing import Final, NamedTuple, overload

from pylog_broker.config import TopicConfig
from pylog_broker.storage.files import Files
from pylog_broker.storage.indexes.offset_index import RELATIVE_MAX
from pylog_broker.storage.indexes.txn_index import TxnIndex
from pylog_broker.storage.segments.open_segments import OpenSegments
from pylog_broker.storage.segments.segment import SWAP_ENDING, BatchPlace, Segment

_OPEN_MAX: Final = 8
"""Segments besides the active one that keep a handle: enough for some slow readers of one log."""


class CutPoint(NamedTuple):
    """The position and the offset at which the last segment that stays, and the log with it, is to
    end."""

    position: int
    end_offset: int


class SwapSteps:
    """A staged segment that takes the place of full ones, step by step; called again after an
    error it goes on where it stopped. OSError.
    """

    def __init__(
        self,
        files: Files,
        directory: str,
        old: Sequence[Segment],
        new: Segment,
        renamed: list[str],
    ) -> None:
        """`renamed` gets the paths that may go."""
        self._files = files
        self._directory = directory
        self._left = list(old)
        self._new = new
        self._renamed = renamed

    def __call__(self) -> None:
        while self._left:
            old = self._left[0]
            for path in old.rename_deleted(replaced=old.base_offset == self._new.base_offset):
                self._renamed.append(path)
            del self._left[0]
        self._new.rename("")
        self._files.fsync_dir(self._directory)


class SegmentList(Sequence[Segment]):
    """Segments, oldest first; the last is active. Empty only before the first `add`, and within a
    removal of all.
    """

    def __init__(
        self,
        files: Files,
        directory: str,
        jitter: Callable[[int], int],
        readers: OpenSegments | None = None,
    ) -> None:
        """`readers`: what limits the open segments of all logs together."""
        self._files = files
        self._readers = readers or OpenSegments()
        self._directory = directory
        self._jitter = jitter
        self._segments: list[Segment] = []
        self._bases: list[int] = []
        self._opened: deque[Segment] = deque()
        self._looked_up: deque[Segment] = deque()  # whose index of transactions was loaded
        self._names_went = False  # and the directory is not synced since
        # files that bear their `.deleted` names, and whom nobody was told of yet
        self._renamed: list[str] = []
        # files that go as soon as they can, of segments that could not be begun
        self._abandoned: list[Segment] = []
        # the largest timestamp up to each full segment, as far as somebody asked
        self._largest = array("q")

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    @overload
    def __getitem__(self, index: int) -> Segment: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Segment]: ...
    def __getitem__(self, index: int | slice) -> Segment | Sequence[Segment]:
        return self._segments[index]

    @property
    def active(self) -> Segment:
        """The one that is written to."""
        return self._segments[-1]

    @property
    def holds_nothing(self) -> bool:
        """Whether there is no batch at all."""
        return len(self._segments) == 1 and not self._segments[0].size

    def adopt(self, segments: list[Segment]) -> None:
        """Take over what a start found."""
        self._segments = segments
        self._bases = [segment.base_offset for segment in segments]
        del self._largest[:]

    def from_offset(self, offset: int) -> Iterator[Segment]:
        """The segment that holds `offset` (or the first), and all later ones."""
        return self._from(max(0, bisect_right(self._bases, offset) - 1))

    def _from(self, index: int) -> Iterator[Segment]:
        """Each when it is asked for: readers usually need one, and to copy a list of thousands
        costs more than a look-up.
        """
        while index < len(self._segments):
            segment = self._segments[index]
            yield segment
            index = bisect_right(self._bases, segment.base_offset)

    def base_after(self, base: int) -> int | None:
        """The base offset of the segment behind the one that begins at `base` or before it; None
        when there is none."""
        index = bisect_right(self._bases, base)
        return self._bases[index] if index < len(self._bases) else None

    def after(self, segment: Segment) -> Segment:
        """The one that follows a full segment."""
        return self._segments[bisect_right(self._bases, segment.base_offset)]

    def opened(self, segment: Segment) -> None:
        """A segment is about to be read: only a few inactive ones keep their handle."""
        if segment.is_open or segment is self._segments[-1]:
            return
        self._keep_handle(segment)

    def txn_index_of(self, segment: Segment) -> TxnIndex:
        """To look something up in it: only a few inactive segments keep theirs in memory."""
        index = segment.txn_index
        if not index.is_loaded and segment is not self._segments[-1]:
            self._looked_up.append(segment)
            if len(self._looked_up) > _OPEN_MAX:
                oldest = self._looked_up.popleft()
                if oldest is not self._segments[-1]:
                    oldest.txn_index.drop()
        return index

    def newer_than(self, timestamp: int) -> Iterator[Segment]:
        """The first segment with a record at or after a time, and all later ones."""
        largest = self._largest
        for segment in self._segments[len(largest) : -1]:
            before = largest[-1] if largest else -1
            largest.append(max(before, segment.max_timestamp))
        return self._from(bisect_left(largest, timestamp))

    def close(self) -> None:
        """Give all handles back."""
        for segment in self._opened:
            self._readers.rested(segment)
        with ExitStack() as closing:
            for segment in self._segments:
                closing.callback(segment.close)

    # ---- growing --------------------------------------------------------------------------------

    def must_roll(
        self,
        place: BatchPlace,
        pending_bytes: int,
        pending_timestamp: int,
        config: TopicConfig,
        wall_ms: int,
    ) -> bool:
        """Whether a batch needs a new segment, after others of `pending_bytes`, the first of them
        of `pending_timestamp`, that go to the active one.
        """
        segment = self._segments[-1]
        batch_size, _, last_offset, max_timestamp = place
        if not 0 <= last_offset - segment.base_offset <= RELATIVE_MAX:
            return True
        size = segment.size + pending_bytes
        if not size:
            return False
        if size > config.segment_bytes - batch_size:
            return True
        if segment.indexes_full(config.segment_index_bytes):
            return True
        first = segment.first_timestamp if segment.size else pending_timestamp
        # By the records' times, as in Kafka; by the clock when they have none.
        waited = (
            max_timestamp - first
            if first >= 0 and max_timestamp >= 0
            else wall_ms - segment.created_ms
        )
        return waited > config.segment_ms - segment.jitter_ms

    def is_old(self, config: TopicConfig, wall_ms: int) -> bool:
        """Whether the active segment has batches and is due to roll by the clock."""
        segment = self._segments[-1]
        age = wall_ms - segment.created_ms
        return segment.size > 0 and age > config.segment_ms - segment.jitter_ms

    def add(self, base_offset: int, config: TopicConfig, wall_ms: int) -> None:
        """Begin a new segment; the one before it takes no more batches.

        An empty one before it goes: its base could not express the next offset.
        """
        limit = min(config.segment_jitter_ms, config.segment_ms)
        segment = Segment(
            self._files,
            self._directory,
            base_offset,
            index_interval_bytes=config.index_interval_bytes,
            created_ms=wall_ms,
            jitter_ms=self._jitter(limit) if limit else 0,
        )
        before = self._segments[-1] if self._segments else None
        if before is not None:
            # First: a file behind which another one stands has nothing but batches in it.
            before.trim()
        self._remove_abandoned()
        try:
            segment.create(config.segment_bytes if config.preallocate else 0)
            self._files.fsync_dir(self._directory)
        except OSError:
            self._abandoned.append(segment)
            with suppress(OSError):
                self._remove_abandoned()
            raise
        self._segments.append(segment)
        self._bases.append(base_offset)
        if before is not None and before.size:
            before.seal()
            if before.is_open:
                self._keep_handle(before)
        elif before is not None:
            del self._segments[-2], self._bases[-2]
            self._abandoned.append(before)
            with suppress(OSError):
                self._remove_abandoned()

    def _remove_abandoned(self) -> None:
        while self._abandoned:
            self._abandoned[-1].unlink()
            self._abandoned.pop()

    def _keep_handle(self, segment: Segment) -> None:
        self._opened.append(segment)
        self._readers.opened(segment)
        while len(self._opened) > _OPEN_MAX:
            oldest = self._opened.popleft()
            if oldest is not self._segments[-1]:
                self._readers.rested(oldest)
                oldest.rest()

    # ---- shrinking ------------------------------------------------------------------------------

    def cut_point(self, offset: int) -> CutPoint:
        """Behind the last batch that lies wholly before `offset`, in the segment that will be the
        last. In a gap that is below `offset`: files cannot say more, and a start must find the same
        end. The follower fetches the leader's records of the gap again.
        """
        index = max(0, bisect_right(self._bases, offset) - 1)
        place = None
        if index and self._bases[index] == offset:
            index -= 1  # that segment goes as a whole, the one before it stays as it is
        else:
            place = self._segments[index].place_before(offset)
        last = self._segments[index]
        return CutPoint(*place) if place is not None else CutPoint(last.size, last.end_offset)

    def truncate(self, offset: int, point: CutPoint) -> None:
        """Remove segments that begin at or behind `offset`, newest first (the very first stays),
        then the last one's batches from the cut point on. After an error it can be called again.
        """
        del self._largest[:]
        while len(self._segments) > 1 and self._bases[-1] >= offset:
            self._segments[-1].unlink()
            self._segments.pop()
            self._bases.pop()
            self._names_went = True
        if self._names_went:
            # A name that came back after a loss of power would overlap what is written next.
            self._files.fsync_dir(self._directory)
            self._names_went = False
        last = self._segments[-1]
        last.activate()
        last.truncate(*point)

    def _slice_of(self, bases: Sequence[int]) -> slice | None:
        """The indices of the full segments of these bases, None when they are not all there."""
        first = bisect_right(self._bases, bases[0]) - 1
        stop = first + len(bases)
        if first < 0 or self._bases[first:stop] != list(bases) or stop >= len(self._bases):
            return None
        return slice(first, stop)

    def stage(self, bases: Sequence[int], segment: Segment) -> bool:
        """Have a cleaned segment ready to `replace` these. False when they are not all there any
        more. After an error nothing has changed.
        """
        if self._slice_of(bases) is None:
            return False
        segment.rename(SWAP_ENDING)
        self._files.fsync_dir(self._directory)
        return True

    def begin_swap(self, bases: Sequence[int], segment: Segment) -> SwapSteps:
        """Put a staged segment in the place of full ones. Nobody may look at a file before the swap
        that comes back has run; then `take_renamed` gives the paths that may go.

        The segment has its last name only when the old ones have theirs; a start after a crash in
        between finishes that (`survey.py`).
        """
        found = self._slice_of(bases)
        assert found is not None, bases
        old = self._segments[found]
        self._segments[found] = [segment]
        self._bases[found] = [segment.base_offset]
        del self._largest[:]
        return SwapSteps(self._files, self._directory, old, segment, self._renamed)

    def take_renamed(self) -> list[str]:
        """The paths that bear their `.deleted` names, and whom nobody was told of yet."""
        renamed, self._renamed = self._renamed, []
        return renamed

    def remove_all(self) -> None:
        """Remove every segment, newest first. After an error it can be called again."""
        del self._largest[:]
        self._opened.clear()
        self._looked_up.clear()
        while self._segments:
            self._segments[-1].unlink()
            self._segments.pop()
            self._bases.pop()

    def rename_below(self, offset: int) -> list[str]:
        """Give segments wholly below `offset` names that say they may go; the paths.

        After an error the next call goes on where this one stopped.
        """
        del self._largest[:]
        while len(self._segments) > 1 and self._bases[1] <= offset:
            for path in self._segments[0].rename_deleted():
                self._renamed.append(path)
            del self._segments[0], self._bases[0]
        if self._renamed:
            self._files.fsync_dir(self._directory)
        return self.take_renamed()
