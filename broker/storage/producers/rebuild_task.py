"""Reading a log's producers again after a truncation, on a thread of its own.

The loop would stand still over it: 8 us for each batch behind the newest snapshot, which may be all
of a segment. The log uses nothing of its producers until the loop has taken the outcome.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pylog.records.batch import BatchHeader
from pylog_broker.storage.files import Files, is_of_the_moment
from pylog_broker.storage.producers.producer_budget import ProducerBudget
from pylog_broker.storage.producers.producer_snapshot import BadSnapshot, restore
from pylog_broker.storage.producers.producer_state import Marker, ProducerStates, read_marker
from pylog_broker.storage.segments.scan import BadBatch, scan


class Span(NamedTuple):
    """A segment's file, as far as the log reaches."""

    path: str
    end_offset: int
    size: int


class Snapshot(NamedTuple):
    """One that stands before an offset: its file and its companion."""

    offset: int
    path: str
    companion: str


class RebuildTask:
    """`run()` on a pool thread, then `Log.on_rebuilt`. `states`: what the batches say. `used`: the
    offset of the snapshot that it began from, -1 for none. `damaged`: those that were of no use.
    """

    def __init__(self, files: Files, snapshots: Sequence[Snapshot], spans: Sequence[Span]) -> None:
        """`snapshots`: the newest first."""
        self._files = files
        self._snapshots = snapshots
        self._spans = spans
        self.states = ProducerStates()
        self.used = -1
        self.damaged: list[int] = []
        self.error: OSError | BadBatch | None = None

    def run(self) -> None:
        """Never raises; `error` tells."""
        try:
            self._begin()
            for span in self._spans:
                if span.end_offset > self.used and span.size:
                    self._read(span)
        except (OSError, BadBatch) as error:
            self.error = error

    def _begin(self) -> None:
        """Take the newest snapshot that can be read."""
        for snapshot in self._snapshots:
            try:
                self.states = read_states(
                    self._files,
                    snapshot.path,
                    snapshot.companion,
                    ProducerBudget(),
                    snapshot.offset,
                )
            except (OSError, BadSnapshot) as error:
                if is_of_the_moment(error):
                    raise
                self.damaged.append(snapshot.offset)
            else:
                self.used = snapshot.offset
                return

    def _read(self, span: Span) -> None:
        handle = self._files.open(span.path)
        try:
            for header, marker in headers_in(self._files, handle, 0, span.size, self.used):
                self.states.apply(header, header.base_offset, marker)
        finally:
            self._files.close(handle)


def read_states(
    files: Files, snapshot: str, companion: str, budget: ProducerBudget, offset: int
) -> ProducerStates:
    """The state of a snapshot file, which stands before `offset`. OSError, BadSnapshot."""
    data = files.read_all(snapshot)
    more = files.read_all(companion) if files.exists(companion) else None
    packed, forgot = restore(data, more)
    if more is None and not packed:
        states = ProducerStates(budget=budget)
    else:
        states = ProducerStates(packed=packed, forgot=forgot, budget=budget)
    states.committed.known_from = offset
    return states


def headers_in(
    files: Files, handle: int, begin: int, size: int, start: int
) -> Iterator[tuple[BatchHeader, Marker | None]]:
    """The headers of all batches with a producer from the offset `start` on, between the position
    `begin` and the end of a file, and what the control batches among them say. OSError, BadBatch.
    """
    for position, header in scan(files, handle, begin, size, verify=False):
        if header.base_offset >= start and header.producer_id >= 0:
            marker = None
            if header.is_control:
                marker = read_marker(files.pread(handle, header.size, position), header)
            yield header, marker
