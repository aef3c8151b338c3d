"""A log's producers now, and their earlier states on disk to come back to.

A snapshot is written where a segment begins and at a clean stop, as in Kafka. It is a cache: with
none, or a damaged one, the headers of the batches tell the same.
"""

from __future__ import annotations

import logging
import re
from bisect import insort
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final

from pylog.config import LONG_MAX
from pylog.records.batch import BatchHeader
from pylog_broker.storage.files import NO_ROOM, PASSES, Files, is_of_the_moment
from pylog_broker.storage.indexes.txn_index import AbortedTransaction
from pylog_broker.storage.producers.producer_budget import ProducerBudget
from pylog_broker.storage.producers.producer_snapshot import (
    BadSnapshot,
    encode_companion,
    encode_snapshot,
)
from pylog_broker.storage.producers.producer_state import (
    SLICE,
    Marker,
    ProducerStates,
)
from pylog_broker.storage.producers.rebuild_task import (
    RebuildTask,
    Snapshot,
    Span,
    headers_in,
    read_states,
)
from pylog_broker.storage.producers.snapshot_task import SnapshotTask
from pylog_broker.storage.segments.segment import (
    PRODUCERS_SUFFIX,
    SNAPSHOT_SUFFIX,
    Segment,
    segment_name,
)

_NAME: Final = re.compile(rf"([0-9]{{20}}){re.escape(SNAPSHOT_SUFFIX)}")

READ_AT_ONCE_BYTES: Final = 64 * 1024
"""The most bytes of batches that the loop reads after a truncation: 7 ms where they are as small as
can be."""

logger = logging.getLogger(__name__)


class ProducerHistory:
    """`now` is the state at the log's end. Raises OSErrors, but for those that pass over a file
    that need not be there.
    """

    def __init__(self, files: Files, directory: str, budget: ProducerBudget | None = None) -> None:
        self._budget = budget or ProducerBudget()
        self.now = ProducerStates(budget=self._budget)
        self._files = files
        self._directory = directory
        self._offsets: list[int] = []  # of the snapshot files, in order
        self._doubted: list[int] = []  # the same, of those that a crash may contradict
        self._waiting: SnapshotTask | None = None  # the newest that is to be written
        self._writing: SnapshotTask | None = None  # on a thread of its own

    # ---- files ----------------------------------------------------------------------------------

    def _paths(self, offset: int) -> tuple[str, str]:
        stem = f"{self._directory}/{segment_name(offset)}"
        return stem + SNAPSHOT_SUFFIX, stem + PRODUCERS_SUFFIX

    def take(self, offset: int, *, durable: bool = False) -> None:
        """Write what is known before `offset`, where the log ends, unless that is there already."""
        is_there = self._learn(offset)
        if self._offsets and self._offsets[-1] >= offset:
            return
        if is_there and not durable:
            # A crash would tear it while it is written anew, and nothing else may know it.
            self._offsets.append(offset)
            return
        # Retention may soon take the batches that tell the same, so it is worth another attempt;
        # only a log that closes, and holds all of them, does without.
        tolerated = PASSES if durable else NO_ROOM
        snapshot, companion = self._paths(offset)
        try:
            entries = self.now.entries
            if entries or self.now.forgot:
                data = encode_companion(entries, forgot=self.now.forgot)
                self._write(companion, data, durable)
            self._write(snapshot, encode_snapshot(entries), durable)
        except OSError as error:
            if error.errno not in tolerated:
                raise
            logger.warning("%s is not written now: %s", snapshot, error)
            with suppress(OSError):  # what is left of it does not match its CRC
                self._remove(offset)
        else:
            self._offsets.append(offset)

    def take_soon(self, offset: int) -> None:
        """As `take`, where the loop would wait for it: what takes longer is left to a task.

        Of several that nobody has begun to write only the newest is written.
        """
        if len(self.now) <= SLICE:
            self.take(offset)
            return
        if self._offsets and self._offsets[-1] >= offset:
            return
        entries = self.now.copy_of_entries()
        self._waiting = SnapshotTask(
            self._files, self._paths(offset), offset, entries, forgot=self.now.forgot
        )

    def task(self) -> SnapshotTask | None:
        """The snapshot that waits to be written, on any thread; then `settle`. One at a time."""
        if self._writing is not None:
            return None
        self._writing, self._waiting = self._waiting, None
        return self._writing

    def settle(self, task: SnapshotTask) -> None:
        """A task has run. One that met what passes by itself is tried again, unless a newer one
        waits: retention may soon take the batches that tell the same.
        """
        self._writing = None
        if task.unwanted:
            task.discard()
            return
        try:
            if task.error is not None:
                raise task.error
            task.put_in_place()
        except OSError as error:
            task.discard()
            if error.errno not in PASSES:
                raise
            if not task.is_second:
                logger.warning(
                    "%s has no snapshot at %d as yet: %s", self._directory, task.offset, error
                )
            if self._waiting is None:
                self._waiting = task.again()
        else:
            insort(self._offsets, task.offset)

    def _give_up_tasks(self, low: int, high: int) -> None:
        """Snapshots before `low` and behind `high` are not wanted any more."""
        if self._writing is not None and not low <= self._writing.offset <= high:
            self._writing.unwanted = True
        if self._waiting is not None and not low <= self._waiting.offset <= high:
            self._waiting = None

    def _write(self, path: str, data: bytes, durable: bool) -> None:
        """Not atomic: a torn file does not match its CRC."""
        handle = self._files.open(path, create=True)
        try:
            if self._files.size(handle):
                self._files.truncate(handle, 0)
            self._files.append(handle, [data])
            if durable:
                self._files.fsync(handle)
        finally:
            self._files.close(handle)

    def _remove(self, offset: int) -> None:
        for path in self._paths(offset):
            self._files.unlink(path)

    def _read(self, offset: int) -> ProducerStates | None:
        """The state of a snapshot file; a damaged file is removed. OSError of the moment: it may
        say what no batch says any more.
        """
        snapshot, companion = self._paths(offset)
        try:
            return read_states(self._files, snapshot, companion, self._budget, offset)
        except (OSError, BadSnapshot) as error:
            if is_of_the_moment(error):
                raise
            logger.warning("%s is of no use (%s): the batches are read instead", snapshot, error)
            self._remove(offset)
            return None

    # ---- at the start ---------------------------------------------------------------------------

    def find(self, names: Iterable[str]) -> None:
        """Take note of the snapshot files among the names of the directory."""
        self._offsets = sorted(int(match[1]) for name in names if (match := _NAME.fullmatch(name)))

    def load(self, bases: Iterable[int], until: int, *, keeps_later: bool = False) -> int:
        """Come back to the newest usable snapshot at or before `until`; its offset, -1 when there
        is none and every batch must be read.

        Later ones may hold what a crash took away: `take` asks each at its place for what agrees
        with the log, and writes it anew; `take_no_more` ends that. `keeps_later`: there was no
        crash; `compare` them afterwards. Those of no segment go, but for the one that is used.
        """
        later = [offset for offset in self._offsets if offset > until]
        del self._offsets[len(self._offsets) - len(later) :]
        if not keeps_later:
            self.take_no_more()
            self._doubted, later = later, []
        used = -1
        self.now = ProducerStates(budget=self._budget)
        while self._offsets and used < 0:
            state = self._read(self._offsets[-1])
            if state is None:
                self._offsets.pop()
            else:
                self.now, used = state, self._offsets[-1]
        self._keep_only({*bases, used})
        self._offsets += later
        return used

    def _keep_only(self, known: Container[int]) -> None:
        for offset in [offset for offset in self._offsets if offset not in known]:
            self._remove(offset)
            self._offsets.remove(offset)

    def _learn(self, offset: int) -> bool:
        """All batches before `offset` were read, and an earlier life left a snapshot there. It
        knows batches that a cleaner has taken since. Whether it says just what is known now.
        """
        doubted = self._doubted
        while doubted and doubted[0] < offset:
            self._remove(doubted.pop(0))
        if not doubted or doubted[0] != offset:
            return False
        del doubted[0]
        earlier = self._read(offset)
        if earlier is None:
            return False
        self.now.learn(earlier)
        return earlier.knows_the_same_as(self.now)

    def take_no_more(self) -> None:
        """Drop the snapshots that nobody asked for: the log does not get to them."""
        while self._doubted:
            self._remove(self._doubted[-1])
            self._doubted.pop()

    def compare(self, bases: Iterable[int], end_offset: int) -> None:
        """All batches were read though snapshots after them were kept: those of no segment go, and
        so does what the one at the log's end does not know (any more).
        """
        self._forget_above(end_offset)
        self._keep_only({*bases, end_offset})
        if self._offsets and self._offsets[-1] == end_offset:
            last = self._read(end_offset)
            if last is None:
                self._offsets.pop()
            else:
                self.now.keep_only(last.ids)

    def _forget_above(self, offset: int) -> None:
        while self._offsets and self._offsets[-1] > offset:
            self._remove(self._offsets[-1])
            self._offsets.pop()

    # ---- while it is open -----------------------------------------------------------------------

    def apply(
        self, header: BatchHeader, marker: Marker | None = None, *, seen_ms: int = -1
    ) -> AbortedTransaction | None:
        """A batch that stands in the log already; the transaction that it aborts."""
        return self.now.apply(header, header.base_offset, marker, seen_ms=seen_ms)

    def clear(self) -> None:
        """The log was emptied. After an error it can be called again."""
        self._give_up_tasks(LONG_MAX, LONG_MAX)
        self.now.clear()
        self.take_no_more()
        self._forget_above(-1)

    def deleted_below(self, offset: int) -> None:
        """Segments below `offset` went, their snapshots with them; a stray one goes here."""
        self._give_up_tasks(offset, LONG_MAX)
        while self._offsets and self._offsets[0] < offset:
            self._remove(self._offsets[0])
            del self._offsets[0]

    def truncate(self, segments: Iterable[Segment], end_offset: int) -> None:
        """The log ends at `end_offset` now: read the headers from the last snapshot before it.

        Raises OSError and BadBatch; the state is the one from before then, and it can be called
        again.
        """
        segments = list(segments)
        self._give_up_tasks(0, end_offset)
        before = self.now
        if not len(before) and not before.forgot:
            self._forget_above(end_offset)
            return
        try:
            self._forget_above(end_offset)
            used = self.load((segment.base_offset for segment in segments), end_offset)
            for header, marker in headers(self._files, segments, used):
                self.apply(header, marker)
        except BaseException:
            self.now = before
            raise

    def begin_truncating(self, segments: Sequence[Segment], end_offset: int) -> RebuildTask | None:
        """As `truncate`, where the loop would wait for it: what takes longer is left to a task;
        None when all is done. After a task has run: `adopt`; or `truncate`, which needs none.
        """
        self._give_up_tasks(0, end_offset)
        self._forget_above(end_offset)
        if not len(self.now) and not self.now.forgot:
            return None
        while self._offsets and not self._files.exists(self._paths(self._offsets[-1])[0]):
            self._offsets.pop()  # it went with a segment that began at the log's new end
        newest = self._offsets[-1] if self._offsets else -1
        spans = [Span(each.log_path, each.end_offset, each.size) for each in segments]
        unread = sum(span.size for span in spans if span.end_offset > newest)
        if len(self.now) <= SLICE and unread <= READ_AT_ONCE_BYTES:
            self.truncate(segments, end_offset)
            return None
        snapshots = [Snapshot(at, *self._paths(at)) for at in reversed(self._offsets)]
        return RebuildTask(self._files, snapshots, spans)

    def adopt(self, task: RebuildTask, segments: Iterable[Segment]) -> None:
        """A task of the log as it is now has read what its batches say. Raises its error."""
        if task.error is not None:
            raise task.error
        for offset in task.damaged:
            logger.warning("%s is of no use: the batches were read instead", self._paths(offset)[0])
            self._remove(offset)
            self._offsets.remove(offset)
        self._keep_only({*(segment.base_offset for segment in segments), task.used})
        self.now = task.states
        self.now.count_in(self._budget)


def headers(
    files: Files, segments: Iterable[Segment], start: int
) -> Iterator[tuple[BatchHeader, Marker | None]]:
    """The headers of all batches with a producer from `start` on, and what the control batches
    among them say. OSError, BadBatch.
    """
    for segment in segments:
        if segment.end_offset <= start or not segment.size:
            continue
        begin = segment.position_of(start)
        yield from headers_in(files, segment.handle(), begin, segment.size, start)
