"""A log's producers now, and some of their earlier states to come back to when the log is cut."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from broker.storage.files import Files
from broker.storage.producer_state import ProducerSnapshot, ProducerStates
from broker.storage.scan import scan
from broker.storage.segment import Segment

_SNAPSHOTS_KEPT: Final = 3


class ProducerHistory:
    """`now` is the state at the log's end."""

    def __init__(self) -> None:
        self.now = ProducerStates()
        self._snapshots: list[ProducerSnapshot] = []

    def keep(self, offset: int) -> None:
        """A segment begins at `offset`: a cut behind it need not read what is before it."""
        if len(self.now):
            self._snapshots.append(self.now.snapshot(offset))
            del self._snapshots[:-_SNAPSHOTS_KEPT]

    def clear(self) -> None:
        """The log was emptied."""
        self.now.clear()
        self._snapshots.clear()

    def truncate(self, files: Files, segments: Iterable[Segment], end_offset: int) -> None:
        """The log ends at `end_offset` now: read the headers from the last snapshot before it.

        Raises OSError and BadBatch.
        """
        snapshots = self._snapshots
        if not len(self.now) and not snapshots:
            return
        while snapshots and snapshots[-1].offset > end_offset:
            snapshots.pop()
        self.now = ProducerStates(snapshots[-1] if snapshots else None)
        start = snapshots[-1].offset if snapshots else 0
        for segment in segments:
            if segment.end_offset <= start:
                continue
            for _, header in scan(files, segment.handle(), 0, segment.size, verify=False):
                if header.base_offset >= start:
                    self.now.apply(header, header.base_offset)
