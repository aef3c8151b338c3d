"""The transactions of one partition, by a plain twin over what is committed there.

I7: up to where a reader of committed records may go, and which it may see. I12: a marker ends the
transaction whose epoch is below its own and nothing else; behind it no record of that transaction
comes; no transaction has markers of both kinds. All clients here speak transaction version 2.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from pylog.model import TopicId
from tests.sim.contents import Marker
from tests.sim.violation import Violation

OPEN = "open"
COMMITTED = "committed"
ABORTED = "aborted"
MARKER = "marker"


class Begun(NamedTuple):
    """A transaction in a partition, from its first record on."""

    producer_id: int
    epoch: int
    first: int


class Ended(NamedTuple):
    """Likewise to its marker."""

    begun: Begun
    marker: int
    commits: bool


class PartitionTransactions:
    """The transactions of one partition."""

    def __init__(self, key: tuple[TopicId, int]) -> None:
        self.begun: list[Begun] = []
        self.ended: list[Ended] = []
        self.markers: list[tuple[int, int, Marker]] = []
        """The markers of all that was written, also without effect: producer id and epoch with
        each.
        """
        self._key = key
        self._open: dict[int, tuple[Begun, list[int]]] = {}
        self._fences: dict[int, int] = {}  # the newest epoch of each producer id
        self._offsets: dict[Begun, list[int]] = {}
        self._of: dict[int, str] = {}  # what each offset is, where it is of a transaction

    @property
    def open(self) -> list[Begun]:
        """Those that have not ended."""
        return [begun for begun, _ in self._open.values()]

    def add(self, base: int, last: int, producer_id: int, epoch: int, ends: Marker | None) -> None:
        """The next committed batch of a transaction, or the marker of one."""
        newest = self._fences.get(producer_id, -1)
        if epoch < newest:
            what = "marker" if ends is not None else "batch"
            raise Violation(
                "I12",
                f"{self._key}: a {what} at {base} of producer {producer_id} has epoch {epoch}, and "
                f"stands behind {newest}",
            )
        self._fences[producer_id] = epoch
        if ends is not None:
            self._end(base, producer_id, epoch, ends)
            return
        if producer_id not in self._open:
            begun = Begun(producer_id, epoch, base)
            self.begun.append(begun)
            self._open[producer_id] = (begun, [])
            self._offsets[begun] = self._open[producer_id][1]
        begun, offsets = self._open[producer_id]
        if begun.epoch != epoch:
            raise Violation("I12", f"{self._key}: {begun} is open at {base}, of epoch {epoch}")
        for offset in range(base, last + 1):
            self._of[offset] = OPEN
            offsets.append(offset)

    def _end(self, base: int, producer_id: int, epoch: int, ends: Marker) -> None:
        self._of[base] = MARKER
        self.markers.append((producer_id, epoch, ends))
        found = self._open.pop(producer_id, None)
        if found is None:
            return
        begun, offsets = found
        if begun.epoch != epoch - 1:
            raise Violation("I12", f"{self._key}: the marker {base} of epoch {epoch} ends {begun}")
        self.ended.append(Ended(begun, base, ends.commits))
        self._of.update(dict.fromkeys(offsets, COMMITTED if ends.commits else ABORTED))

    def status(self, offset: int) -> str:
        """The status of a committed offset; empty where it is of no transaction."""
        return self._of.get(offset, "")

    def open_at(self, offset: int) -> Begun | None:
        """The open transaction of a committed offset."""
        found = (begun for begun, offsets in self._open.values() if offset in offsets)
        return next(found, None)

    def is_hidden(self, offset: int, *, read_committed: bool) -> bool:
        """Whether no reader of that kind gets it."""
        status = self._of.get(offset)
        return status == MARKER or (read_committed and status == ABORTED)

    def last_stable_offset(
        self, high_watermark: int, known_to: int = 0, ended: Collection[int] = (), start: int = 0
    ) -> int:
        """The offset up to which readers of committed records may go while that is committed.
        Markers below `known_to` count as well, and those that have ended what is open of the
        producers `ended`. A log that begins at `start` may know nothing of what lay before.
        """
        found = [begun for begun in self.open if begun.producer_id not in ended]
        for each in reversed(self.ended):
            if each.marker < max(high_watermark, known_to):
                break
            found.append(each.begun)
        firsts = [begun.first for begun in found if begun.first >= start]
        for begun in found if start else ():
            if begun.first < start:
                firsts += [offset for offset in self._offsets[begun] if offset >= start][:1]
        return min((*firsts, high_watermark))
