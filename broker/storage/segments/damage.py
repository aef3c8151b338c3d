"""The whole parts of a damaged segment, and the holes between them.

A batch that has rotted must not take along those before and behind it. The length of a batch gives
the beginning of the next one, if it is sound, else the index does, else the bytes: every place that
has a magic byte where a header has it is tried. A place counts only when its batch matches its CRC
and batch follows batch from there to one that the index names, or to the end: a value may hold
bytes that look like a batch, but what follows them does not.

Offsets stand outside the CRC. A batch whose offset lies beyond that of the batch behind it is the
damaged one. Within a gap that compaction has left an offset can move without a trace.

Not here: what follows from it. `SegmentReader` reads around holes, and so does a start.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from operator import itemgetter
from struct import Struct
from typing import Final, NamedTuple

from pylog.errors import CorruptMessage
from pylog.records.batch import HEADER_SIZE, MAGIC, MAGIC_OFFSET, BatchHeader, crc_matches
from pylog.records.batch import read_header as header_in
from pylog_broker.storage.files import Files
from pylog_broker.storage.segments.scan import BadBatch

_WINDOW: Final = 1024 * 1024
_BASE_OFFSET: Final = Struct(">q")
_OFFSETS_MAX: Final = 2**31
"""A segment's offsets lie closer together than that."""


class Hole(NamedTuple):
    """The bytes `[position, end_position)` are no whole batches. They, or what was there, held the
    offsets `[offset, end_offset)`.
    """

    position: int
    end_position: int
    offset: int
    end_offset: int
    reason: str


class Place(NamedTuple):
    """A position where a batch begins, and the offset that it has at least; None: any."""

    position: int
    offset: int | None


class DamageFinder:
    """Looks at one segment file. Every method raises OSError."""

    def __init__(
        self,
        files: Files,
        handle: int,
        *,
        size: int,
        end_offset: int | None,
        entries: Sequence[tuple[int, int]],
        gaps: bool = True,
    ) -> None:
        """`end_offset`: of the last batch of the `size` bytes, the offset behind it; None: unknown.

        `entries`: what the index says about there, (last offset, position) of some batches in
        order; nothing of it is believed that the batch there does not confirm. `gaps`: offsets may
        be missing between batches.
        """
        self._files = files
        self._handle = handle
        self._end = Place(size, end_offset)
        self._entries = entries
        self._gaps = gaps

    def confirmed(self, entry: tuple[int, int]) -> Place | None:
        """The place that an entry of the index leads to, None when its batch is not there."""
        last_offset, position = entry
        try:
            header = self._batch(position)
        except BadBatch:
            return None
        return Place(position, header.base_offset) if header.last_offset == last_offset else None

    def holes(self, start: Place, until: int) -> list[Hole]:
        """The holes from `start` on, up to the first whole batch behind the position `until`.

        A hole that reaches to an end whose offset is unknown ends with the offset -1.
        """
        found: list[Hole] = []
        position, expected = start.position, start.offset or 0
        while position <= until and position < self._end.position:
            try:
                header = self._in_line(position, expected)
            except BadBatch as bad:
                hole = self.hole(Place(position, expected), bad.reason)
                found.append(hole)
                position, expected = hole.end_position, hole.end_offset
            else:
                position, expected = position + header.size, header.next_offset
        return found

    # ---- one batch ------------------------------------------------------------------------------

    def _batch(self, position: int) -> BatchHeader:
        """The header of the batch there, whose bytes match its CRC. BadBatch."""
        header = self._header(position)
        data = self._files.pread(self._handle, header.size, position)
        if not crc_matches(data, 0, header):
            raise BadBatch(
                position,
                f"the batch of offsets {header.base_offset} to {header.last_offset} does not "
                "match its CRC",
            )
        return header

    def _header(self, position: int) -> BatchHeader:
        """BadBatch when none is there that could be."""
        data = self._files.pread(self._handle, HEADER_SIZE, position)
        try:
            header = header_in(data)
        except CorruptMessage as error:
            raise BadBatch(position, str(error)) from error
        if position + header.size > self._end.position or header.last_offset_delta < 0:
            raise BadBatch(position, f"a batch of {header.size} bytes does not fit")
        end_offset = self._end.offset
        if header.base_offset < 0 or (end_offset is not None and header.next_offset > end_offset):
            raise BadBatch(
                position,
                f"offsets {header.base_offset} to {header.last_offset} are not of this segment",
            )
        return header

    def _in_line(self, position: int, expected: int) -> BatchHeader:
        """The batch there, if it stands between what is before and behind it. BadBatch."""
        header = self._header(position)
        behind = self._entry_behind(position)
        if behind is not None and position + header.size > behind[1] and self.confirmed(behind):
            raise BadBatch(position, f"a batch of {header.size} bytes reaches into the next one")
        header = self._batch(position)
        fault = f"offset {header.base_offset} where {expected} should follow"
        if header.base_offset < expected or (header.base_offset > expected and not self._gaps):
            raise BadBatch(position, fault)
        if header.base_offset == expected:
            return header
        following = position + header.size
        if following == self._end.position:
            if self._end.offset is not None and header.next_offset != self._end.offset:
                raise BadBatch(position, fault)
            return header
        try:
            after = self._batch(following)
        except BadBatch:
            return header
        if expected < after.base_offset <= header.last_offset:
            raise BadBatch(position, fault)
        return header

    def _entry_behind(self, position: int) -> tuple[int, int] | None:
        index = bisect_right(self._entries, position, key=itemgetter(1))
        return self._entries[index] if index < len(self._entries) else None

    # ---- how far the damage reaches -------------------------------------------------------------

    def hole(self, start: Place, reason: str) -> Hole:
        """The damage that begins at `start`."""
        position, expected = start.position, start.offset or 0
        bound = self._bound(position, expected)
        for place in self._candidates(position, expected, bound):
            try:
                header = self._batch(place)
            except BadBatch:
                continue
            if header.base_offset > expected and self._leads_to(place, bound):
                return Hole(position, place, expected, header.base_offset, reason)
        end_offset = -1 if bound.offset is None else bound.offset
        return Hole(position, bound.position, expected, end_offset, reason)

    def _bound(self, position: int, expected: int) -> Place:
        """The next batch that the index names and the bytes confirm, or the end."""
        for entry in self._entries:
            if entry[1] > position and entry[0] > expected:
                place = self.confirmed(entry)
                if place is not None and place.offset is not None and place.offset > expected:
                    return place
        return self._end

    def _candidates(self, position: int, expected: int, bound: Place) -> Iterator[int]:
        """The positions at which the next batch may begin: the one that this batch's length gives,
        and else any."""
        with suppress(BadBatch):
            yield position + self._header(position).size
        start = position + 1
        while start + HEADER_SIZE <= bound.position:
            length = min(_WINDOW, bound.position - start)
            window = self._files.pread(self._handle, length, start)
            hit = window.find(MAGIC, MAGIC_OFFSET)
            while hit >= 0:
                at = hit - MAGIC_OFFSET
                (base_offset,) = _BASE_OFFSET.unpack_from(window, at)
                if expected < base_offset < expected + _OFFSETS_MAX:
                    yield start + at
                hit = window.find(MAGIC, hit + 1)
            if start + length >= bound.position:
                return
            start += length - MAGIC_OFFSET

    def _leads_to(self, position: int, bound: Place) -> bool:
        """Whether batch follows batch from there to `bound`."""
        expected = 0
        while position < bound.position:
            try:
                header = self._header(position)
            except BadBatch:
                return False
            if header.base_offset < expected:
                return False
            position, expected = position + header.size, header.next_offset
        return position == bound.position and (bound.offset is None or expected <= bound.offset)
