"""Writing to a log: batches to the active segment, new segments where they do not fit, and what
every batch tells: epochs, producers, aborted transactions, the newest bytes in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from pylog.errors import KafkaStorageError
from pylog.model import LeaderEpoch, Offset
from pylog.records.batch import CONTROL_BIT, BatchHeader
from pylog_broker.config import TopicConfig
from pylog_broker.storage.files import PASSES, Buffer
from pylog_broker.storage.indexes.offset_index import RELATIVE_MAX
from pylog_broker.storage.log.durability import Durability
from pylog_broker.storage.log.follower_batches import PlacedBatch
from pylog_broker.storage.log.guard import FaultGuard
from pylog_broker.storage.producers.producer_history import ProducerHistory
from pylog_broker.storage.producers.producer_state import read_marker
from pylog_broker.storage.segments.scan import BadBatch
from pylog_broker.storage.segments.segment import BatchPlace, Segment
from pylog_broker.storage.segments.segment_list import SegmentList
from pylog_broker.storage.tail_cache import TailCache


class LogWriter:
    """The writers' view of a log's parts. Knows no rules: `LogAppender` has checked the batches."""

    def __init__(
        self,
        name: str,
        segments: SegmentList,
        producers: ProducerHistory,
        tail: TailCache,
        durable: Durability,
        guard: FaultGuard,
    ) -> None:
        self._name = name
        self._segments = segments
        self._producers = producers
        self._tail = tail
        self._durable = durable
        self._guard = guard

    def write_one(
        self,
        place: BatchPlace,
        head: Buffer,
        rest: Buffer,
        header: BatchHeader,
        config: TopicConfig,
        wall_ms: int,
        leader_epoch: int,
    ) -> None:
        """Write a batch under `leader_epoch`, in a new segment where it does not fit.

        Raises DiskFull (nothing of it has stayed) and KafkaStorageError.
        """
        segments = self._segments
        _, _, _, max_timestamp = place
        if self._must_roll(place, 0, max_timestamp, config, wall_ms):
            self._roll_before(place, config, wall_ms)
        self._append(segments.active, (head, rest) if rest else (head,), (place,))
        self._note(place, head, rest, header, wall_ms, leader_epoch)

    def write(
        self,
        batches: list[PlacedBatch],
        headers: list[BatchHeader],
        config: TopicConfig,
        wall_ms: int,
    ) -> None:
        """Write batches as they are to the active segment, rolling where one does not fit.

        Raises DiskFull (nothing of the batches that are not in the log has stayed) and
        KafkaStorageError.
        """
        if len(batches) == 1:
            (place, head, rest), header = batches[0], headers[0]
            epoch = header.partition_leader_epoch
            self.write_one(place, head, rest, header, config, wall_ms, epoch)
            return
        first = pending_bytes = 0
        for number, (place, _, _) in enumerate(batches):
            size, _, _, _ = place
            _, _, _, since = batches[first][0]
            if self._must_roll(place, pending_bytes, since, config, wall_ms):
                if first < number:
                    self._write_to_segment(batches[first:number], headers[first:number], wall_ms)
                    first, pending_bytes = number, 0
                self._roll_before(place, config, wall_ms)
            pending_bytes += size
        if first:
            batches, headers = batches[first:], headers[first:]
        self._write_to_segment(batches, headers, wall_ms)

    def _must_roll(
        self,
        place: BatchPlace,
        pending_bytes: int,
        pending_timestamp: int,
        config: TopicConfig,
        wall_ms: int,
    ) -> bool:
        try:
            return self._segments.must_roll(
                place, pending_bytes, pending_timestamp, config, wall_ms
            )
        except (OSError, BadBatch):
            with self._guard.io("appending"):  # it may have to read its indexes
                raise

    def _roll_before(self, place: BatchPlace, config: TopicConfig, wall_ms: int) -> None:
        """Begin the segment where the one before ends, also when the batch lies further on (the
        leader's log was compacted): a start could not tell a gap between two segments that nobody
        has noted from the end of the first one lost with the power.
        """
        _, base_offset, last_offset, _ = place
        end = self._segments.active.end_offset
        expressible = last_offset - end <= RELATIVE_MAX
        self.roll(end if expressible else base_offset, config, wall_ms)

    def _write_to_segment(
        self, batches: list[PlacedBatch], headers: list[BatchHeader], wall_ms: int
    ) -> None:
        buffers: list[Buffer] = []
        for _, head, rest in batches:
            buffers.append(head)
            if rest:
                buffers.append(rest)
        self._append(self._segments.active, buffers, [batch[0] for batch in batches])
        for (place, head, rest), header in zip(batches, headers, strict=True):
            self._note(place, head, rest, header, wall_ms, header.partition_leader_epoch)

    def _append(
        self, segment: Segment, buffers: Sequence[Buffer], places: Sequence[BatchPlace]
    ) -> None:
        before = segment.size
        try:
            segment.append(buffers, places)
        except OSError as error:
            if segment.size == before:
                cut = segment.drop_partial
                self._guard.leave_unfinished(cut)
                with self._guard.io("cutting a partial write"):
                    cut()
                self._guard.finished(cut)
            raise self._guard.fault(error, "appending") from error

    def _note(
        self,
        place: BatchPlace,
        head: Buffer,
        rest: Buffer,
        header: BatchHeader,
        wall_ms: int,
        epoch: int,
    ) -> None:
        """Take up the news of a batch that is in the log."""
        _, base_offset, last_offset, _ = place
        self._tail.add(base_offset, last_offset, head, rest)
        epochs = self._durable.epochs
        if epoch > epochs.latest:
            epochs.assign(LeaderEpoch(epoch), Offset(base_offset))
        if header.attributes & CONTROL_BIT:
            self._note_marker(header, base_offset, [head, rest], wall_ms)
        elif header.producer_id >= 0:
            self._producers.now.apply(header, base_offset, seen_ms=wall_ms)

    def _note_marker(
        self, header: BatchHeader, base_offset: int, pieces: list[Buffer], wall_ms: int
    ) -> None:
        segment = self._segments.active
        marker = read_marker(b"".join(pieces), header)
        aborted = self._producers.now.apply(header, base_offset, marker, seen_ms=wall_ms)
        if aborted is not None:
            # Without it the log file says more than its index: nobody may read it so.
            try:
                segment.txn_index.append(aborted)
            except OSError as error:
                if error.errno in PASSES:
                    self._guard.leave_unfinished(partial(segment.txn_index.complete, aborted))
                    return
                raise self._guard.fail(
                    KafkaStorageError(
                        f"{self._name}: {segment.txn_index.path} cannot be written: "
                        f"{error}; this replica is offline until the broker starts again"
                    )
                ) from error

    def roll(self, base_offset: int, config: TopicConfig, wall_ms: int) -> None:
        """Begin a new segment, with a snapshot of the producers before it."""
        with self._guard.io("rolling the log"):
            self._segments.add(base_offset, config, wall_ms)
            snapshot = partial(self._producers.take_soon, base_offset)
            self._guard.leave_unfinished(snapshot)  # it is to be there before the next batch
            snapshot()
            self._guard.finished(snapshot)
