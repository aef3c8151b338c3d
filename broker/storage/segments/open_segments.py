"""Full segments that keep a handle because somebody reads them: so many of all logs together.

A log that must roll or open an index needs files, too, and readers of old records could take the
last ones: each partition alone keeps up to eight open. Over the limit the segment that was opened
longest ago rests; the next reader opens it again. Pure bookkeeping.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pylog_broker.storage.segments.segment import Segment


class OpenSegments:
    """Shared by the logs of a process. Owned by its loop."""

    def __init__(self, count_max: int = sys.maxsize) -> None:
        self._count_max = count_max
        self._segments: OrderedDict[int, Segment] = OrderedDict()  # longest open first

    def opened(self, segment: Segment) -> None:
        """It is about to be read, or was just filled."""
        self._segments[id(segment)] = segment
        self._segments.move_to_end(id(segment))
        while len(self._segments) > self._count_max:
            self._segments.popitem(last=False)[1].rest()

    def rested(self, segment: Segment) -> None:
        """It keeps no handle any more."""
        self._segments.pop(id(segment), None)
