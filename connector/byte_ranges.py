"""The bytes of offset ranges, as their leaders tell them: how many there are, and where to cut."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pylog.errors import PylogError
from pylog.model import RangeSplit, TopicPartition
from pylog_connector.clients import reader_for
from pylog_connector.errors import InvalidOption, ReadFailed
from pylog_connector.option_names import in_options
from pylog_connector.options import SourceOptions

if TYPE_CHECKING:
    from pylog.client.ranges.range_reader import RangeToSplit

logger = logging.getLogger("pylog.connector")

Ranges = Mapping[TopicPartition, tuple[int, int]]
"""Offsets, from and to."""

PIECES_A_CALL: Final = 25
"""As many as a broker tells of one range at once."""
PIECES_MAX: Final = 100_000
"""The most pieces of one batch, each of them a task: far more than Spark schedules well."""


class ByteRanges:
    """The bytes of ranges of a source's partitions. No records are read for it."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def bytes_of(self, ranges: Ranges) -> dict[TopicPartition, int] | None:
        """The bytes of each range. None when a topic was deleted or made anew meanwhile; ReadFailed
        says why leaders did not answer.
        """
        from pylog.client.ranges.range_reader import RangeToSplit

        wanted = {at: RangeToSplit(start, end) for at, (start, end) in ranges.items()}
        found = self._split(wanted)
        return None if found is None else {at: split.bytes for at, split in found.items()}

    def first_pieces(
        self, ranges: Ranges, sizes: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, RangeSplit] | None:
        """The first piece of each range that `sizes` names, of at most so many bytes; as above."""
        from pylog.client.ranges.range_reader import RangeToSplit

        return self._split(
            {
                at: RangeToSplit(*ranges[at], piece_bytes=size, pieces_max=1)
                for at, size in sizes.items()
            }
        )

    def cuts(self, ranges: Ranges, piece_bytes: int) -> dict[TopicPartition, list[int]]:
        """The offsets at which pieces of about the same size, and at most so many bytes, meet.

        None of them where leaders cannot be asked, which is logged: the read is right without.
        InvalidOption where there would be too many.
        """
        from pylog.client.ranges.range_reader import RangeToSplit

        cuts: dict[TopicPartition, list[int]] = {at: [] for at in ranges}
        left = {at: start for at, (start, end) in ranges.items() if start < end}
        first = True
        while left:
            wanted = {
                at: RangeToSplit(start, ranges[at][1], piece_bytes, PIECES_A_CALL, even=True)
                for at, start in left.items()
            }
            try:
                found = self._split(wanted)
            except ReadFailed as error:
                logger.warning("partitions are read by one task each: %s", error)
                return {}
            if found is None:
                return {}  # the tasks find it gone
            if first:
                _check_count(sum(-(-each.bytes // piece_bytes) for each in found.values()))
                first = False
            for at, split in found.items():
                ends = [piece.end_offset for piece in split.pieces]
                if split.next is None or not ends:
                    del left[at]
                    ends = ends[:-1]
                else:
                    left[at] = ends[-1]
                cuts[at] += ends
        return cuts

    def _split(
        self, wanted: Mapping[TopicPartition, RangeToSplit]
    ) -> dict[TopicPartition, RangeSplit] | None:
        from pylog.client.ranges.range_reader import TopicGone

        try:
            return reader_for(self._options).split(wanted)
        except TopicGone:
            return None
        except PylogError as error:
            why = in_options(str(error), self._options.bootstrap_option)
            at = min(wanted)
            raise ReadFailed(
                f"cannot look up how many bytes there are in {at}"
                f"{'' if len(wanted) == 1 else f' and {len(wanted) - 1} more'}: {why}"
            ) from error


def _check_count(count: int) -> None:
    if count > PIECES_MAX:
        raise InvalidOption(
            f"maxBytesPerPartition: the batch would have {count} tasks, and {PIECES_MAX} is the "
            "most; give a larger value, or leave it out"
        )
