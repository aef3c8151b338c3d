"""One replica's log: segments, epochs, producers, and the newest batches in memory.

Synchronous and deterministic over `Files`; times are arguments. The loop of the process owns it.
`high_watermark` is not known here: who reads says where to stop.

Errors. `DiskFull`: nothing of the batch stayed, the log goes on. Any other failure of a write or a
sync, and damage that a read meets, takes the log offline for good: every later call raises the same
error. A failed fsync is never tried again: the kernel may have dropped the pages it could not
write, so a second one that succeeds proves nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

from broker.config import TopicConfig
from broker.storage.checkpoints import EPOCH_CHECKPOINT, read_epochs, write_epochs
from broker.storage.errors import CorruptSegment, DiskFull, InvalidOffset
from broker.storage.files import Buffer, Files
from broker.storage.leader_epochs import LeaderEpochCache
from broker.storage.producer_state import ProducerSnapshot, ProducerStates
from broker.storage.recovery import GAPS_ALLOWED, LastStop, RecoveryReport, SegmentLoader
from broker.storage.scan import BadBatch, scan
from broker.storage.segment import NO_ROOM, BatchPlace, Segment
from broker.storage.segment_reader import SegmentReader
from broker.storage.tail_cache import TailBudget, TailCache, TailRead
from broker.storage.time_lookup import first_at_or_after, largest
from broker.storage.validator import CLIENT, Origin, as_stored, checked_header
from pylog.errors import CorruptMessage, KafkaStorageError, OffsetOutOfRange
from pylog.model import (
    NO_TIMESTAMP,
    LeaderEpoch,
    Offset,
    OffsetAndTimestamp,
    TopicId,
    TopicPartition,
)
from pylog.records.batch import (
    BatchHeader,
    crc_matches,
    iter_headers,
    with_offset_and_epoch,
)

LogRead = TailRead
"""`records` (whole batches), the offset of the first one's first record, the offset after the last.
"""

_OPEN_SEGMENTS_MAX: Final = 8
_SNAPSHOTS_KEPT: Final = 3
_TAIL_BYTES_MAX: Final = 4 * 1024 * 1024


class AppendInfo(NamedTuple):
    """Where a batch landed. `duplicate`: it was there already, the offsets are the first time's;
    answer it when the high watermark has passed `last_offset`.
    """

    base_offset: Offset
    last_offset: Offset
    log_append_time_ms: int
    log_start_offset: Offset
    duplicate: bool = False
    record_count: int = 0
    size: int = 0


@dataclass(frozen=True, slots=True)
class Environment:
    """What a log gets from its manager; the defaults suit a log that stands alone.

    `jitter(limit)` draws the time that is taken off a segment's life, 0 to `limit`.
    `log_start_moved` and `recovery_point_lowered` write the checkpoints, before the log acts on it.
    """

    tail_budget: TailBudget
    tail_bytes_max: int = _TAIL_BYTES_MAX
    decompressed_bytes_max: int = 64 * 1024 * 1024
    jitter: Callable[[int], int] = lambda limit: 0
    log_start_moved: Callable[[Log], None] = lambda log: None
    recovery_point_lowered: Callable[[Log], None] = lambda log: None


class FlushTask:
    """Syncs the segments up to an offset, on any thread: `run()` there, `Log.on_flushed` here."""

    def __init__(self, files: Files, paths: Sequence[str], up_to: Offset, generation: int) -> None:
        self._files = files
        self._paths = paths
        self.up_to = up_to
        self.generation = generation
        self.error: OSError | None = None

    def run(self) -> None:
        """Never raises; `error` tells."""
        for path in self._paths:
            try:
                handle = self._files.open(path)
            except FileNotFoundError:
                continue  # deleted meanwhile
            except OSError as error:
                self.error = error
                return
            try:
                self._files.fsync(handle)
            except OSError as error:
                self.error = error
                return
            finally:
                self._files.close(handle)


class Log:
    """Invariants: segments are contiguous in order and never empty of segments; the last one is
    active; `log_start_offset <= log_end_offset`; `recovery_point <= log_end_offset`.
    """

    def __init__(
        self,
        files: Files,
        directory: str,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        config: TopicConfig,
        environment: Environment | None = None,
    ) -> None:
        """Not for callers: use `open`."""
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.directory = directory
        self.config = config
        self.epochs = LeaderEpochCache()
        self.producers = ProducerStates()
        self.recovery = RecoveryReport()
        self.failure: KafkaStorageError | None = None
        self.generation = 0
        """Grows whenever records leave the end of the log."""
        self._files = files
        self._environment = environment or Environment(TailBudget(_TAIL_BYTES_MAX))
        self._tail = TailCache(self._environment.tail_bytes_max, self._environment.tail_budget)
        self._segments: list[Segment] = []
        self._bases: list[int] = []
        self._log_start = 0
        self._log_end = 0
        self._recovery_point = 0
        self._wall_ms = 0  # the newest time that the log was told
        self._unflushed_since_ms = -1
        self._open_segments: deque[Segment] = deque()
        self._producer_snapshots: list[ProducerSnapshot] = []

    # ---- open and close -------------------------------------------------------------------------

    @classmethod
    def open(
        cls,
        files: Files,
        directory: str,
        topic_partition: TopicPartition,
        topic_id: TopicId,
        config: TopicConfig,
        *,
        wall_ms: int,
        last_stop: LastStop | None = None,
        log_start_offset: int = 0,
        environment: Environment | None = None,
    ) -> Self:
        """The log in `directory`, recovered; a new one when nothing is there.

        `last_stop` None: unknown, every CRC is checked. Raises CorruptSegment when the log is
        damaged beyond its tail, KafkaStorageError when the disk fails, DiskFull.
        """
        log = cls(files, directory, topic_partition, topic_id, config, environment)
        with log._io("opening the log"):
            log._load(last_stop or LastStop(), log_start_offset, wall_ms)
        return log

    def _load(self, last_stop: LastStop, log_start_offset: int, wall_ms: int) -> None:
        self._wall_ms = wall_ms
        if not self._files.exists(self.directory):
            self._files.mkdir(self.directory)
            parent, _, _ = self.directory.rpartition("/")
            self._files.fsync_dir(parent or ".")
        scanned = LeaderEpochCache()

        def on_batch(header: BatchHeader) -> None:
            if header.partition_leader_epoch > scanned.latest:
                scanned.assign(
                    LeaderEpoch(header.partition_leader_epoch), Offset(header.base_offset)
                )
            self.producers.apply(header, header.base_offset)

        loader = SegmentLoader(
            self._files,
            self.directory,
            self.config,
            last_stop,
            wall_ms=wall_ms,
            on_batch=on_batch,
            on_segment=self._keep_producer_snapshot,
        )
        segments = loader.load()
        self.recovery = loader.report
        self._adopt(segments)
        if not segments:
            self._new_segment(log_start_offset, wall_ms)
        self._log_end = self._segments[-1].end_offset
        self._log_start = max(log_start_offset, self._segments[0].base_offset)
        recovered = last_stop.recovery_point if self.recovery.batches else 0
        self._recovery_point = min(recovered, self._log_end)
        if loader.report.bytes_cut or not last_stop.memory_survived:
            self._recovery_point = self._log_end  # the loader has synced what is left
        self._take_epochs(scanned)
        if self._log_start > self._log_end:
            # Deleted records were lost together with the rest: nothing readable is there.
            self._restart_at(self._log_start, wall_ms)
        self.epochs.truncate_from_start(Offset(self._log_start))

    def _take_epochs(self, scanned: LeaderEpochCache) -> None:
        """The epochs of the batches, and from the checkpoint only what batches cannot show: an
        epoch that began at the log's end and wrote nothing.
        """
        stored = read_epochs(self._files, f"{self.directory}/{EPOCH_CHECKPOINT}")
        if (
            stored
            and stored[-1].epoch > scanned.latest
            and (stored[-1].start_offset == self._log_end)
        ):
            scanned.assign(*stored[-1])
        self.epochs = LeaderEpochCache(scanned.entries)
        self.epochs.changed = list(self.epochs.entries) != stored

    def close(self, *, clean: bool) -> None:
        """Give the handles back; `clean` syncs everything first and raises when that fails."""
        if clean and self.failure is None:
            self.flush()
            with self._io("closing the log"):
                for segment in self._segments:
                    segment.write_indexes()
        for segment in self._segments:
            segment.close()
        self._tail.clear()

    # ---- what it is ------------------------------------------------------------------------------

    @property
    def log_start_offset(self) -> Offset:
        """The first offset that may be read. It may lie inside a batch."""
        return Offset(self._log_start)

    @property
    def log_end_offset(self) -> Offset:
        """The offset of the next record."""
        return Offset(self._log_end)

    @property
    def recovery_point(self) -> Offset:
        """Everything below is synced."""
        return Offset(self._recovery_point)

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self._segments)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Oldest first; the last is active. To look at, not to change."""
        return tuple(self._segments)

    def __repr__(self) -> str:
        return f"<Log {self.topic_partition} [{self._log_start}, {self._log_end})>"

    def check_usable(self) -> None:
        """Raises the error that took the log offline, if one did."""
        if self.failure is not None:
            raise self.failure

    def last_stable_offset(self, high_watermark: Offset) -> Offset:
        """Where a read-committed reader must stop."""
        return Offset(self.producers.last_stable_offset(high_watermark))

    # ---- append ---------------------------------------------------------------------------------

    def append_as_leader(
        self,
        batch: bytes,
        *,
        leader_epoch: LeaderEpoch,
        wall_ms: int,
        origin: Origin = CLIENT,
    ) -> AppendInfo:
        """Give `batch` (exactly one) the next offsets and write it.

        Raises what `checked_header` raises, OutOfOrderSequenceNumber, InvalidProducerEpoch,
        DiskFull and KafkaStorageError. After an error nothing of the batch is in the log.
        """
        self.check_usable()
        header = checked_header(
            batch,
            self.config,
            origin,
            wall_ms=wall_ms,
            max_decompressed_bytes=self._environment.decompressed_bytes_max,
        )
        if header.producer_id >= 0 and not header.is_control:
            earlier = self.producers.check(header, log_start_offset=self._log_start)
            if earlier is not None:
                return self._duplicate(earlier.first_offset, earlier.last_offset, earlier.timestamp)
        batch, header = as_stored(batch, header, self.config, wall_ms=wall_ms)
        base = self._log_end
        last = base + header.last_offset_delta
        head, rest = with_offset_and_epoch(batch, base, leader_epoch)
        place = BatchPlace(len(batch), base, last, header.max_timestamp)
        self._write([(place, head, rest)], wall_ms)
        if leader_epoch > self.epochs.latest:
            self.epochs.assign(leader_epoch, Offset(base))
        self.producers.apply(header, base)
        self._after_append(wall_ms)
        by_broker = self.config.message_timestamp_type == "LogAppendTime"
        return AppendInfo(
            Offset(base),
            Offset(last),
            wall_ms if by_broker else NO_TIMESTAMP,
            Offset(self._log_start),
            False,
            header.record_count,
            len(batch),
        )

    def _duplicate(self, first: int, last: int, timestamp: int) -> AppendInfo:
        by_broker = self.config.message_timestamp_type == "LogAppendTime"
        return AppendInfo(
            Offset(first),
            Offset(last),
            timestamp if by_broker else NO_TIMESTAMP,
            Offset(self._log_start),
            True,
        )

    def append_as_follower(self, records: bytes, *, wall_ms: int | None = None) -> AppendInfo:
        """Write the leader's batches as they are; a cut last one is left out.

        Raises CorruptMessage (a CRC), InvalidOffset (not behind the log's end), DiskFull and
        KafkaStorageError. All batches are checked before the first byte is written.
        """
        self.check_usable()
        wall_ms = self._wall_ms if wall_ms is None else wall_ms
        batches: list[tuple[BatchPlace, Buffer, Buffer]] = []
        headers: list[BatchHeader] = []
        expected = self._log_end
        view = memoryview(records)
        for position, header in iter_headers(records):
            if not crc_matches(records, position, header):
                raise CorruptMessage(
                    f"{self.topic_partition}: the fetched batch at offset {header.base_offset} "
                    "does not match its CRC"
                )
            if header.base_offset < expected and not headers and self._holds_nothing():
                expected = self._begin_inside(header, wall_ms)
            if header.base_offset < expected or header.last_offset_delta < 0:
                raise InvalidOffset(
                    f"{self.topic_partition}: the fetched batch of offsets {header.base_offset} "
                    f"to {header.last_offset} does not follow the log's end {expected}"
                )
            if header.base_offset > expected:
                self._allow_gaps()
            expected = header.last_offset + 1
            size = header.size
            place = BatchPlace(size, header.base_offset, header.last_offset, header.max_timestamp)
            batches.append((place, view[position : position + size], b""))
            headers.append(header)
        if not headers:
            return AppendInfo(
                Offset(self._log_end), Offset(self._log_end - 1), -1, Offset(self._log_start)
            )
        self._write(batches, wall_ms)
        for header in headers:
            if header.partition_leader_epoch > self.epochs.latest:
                self.epochs.assign(
                    LeaderEpoch(header.partition_leader_epoch), Offset(header.base_offset)
                )
            self.producers.apply(header, header.base_offset)
        self._after_append(wall_ms)
        return AppendInfo(
            Offset(headers[0].base_offset),
            Offset(headers[-1].last_offset),
            NO_TIMESTAMP,
            Offset(self._log_start),
            False,
            sum(header.record_count for header in headers),
            sum(place.size for place, _, _ in batches),
        )

    def _holds_nothing(self) -> bool:
        return len(self._segments) == 1 and not self._segments[0].size

    def _begin_inside(self, header: BatchHeader, wall_ms: int) -> int:
        """The leader's log starts inside this batch (DeleteRecords): begin with the batch, keep the
        start.
        """
        start = self._log_start
        if header.last_offset < start:
            return self._log_end
        epochs = self.epochs.entries
        with self._io("starting the log inside a batch"):
            self._restart_at(header.base_offset, wall_ms)
        self._log_start = start
        self.epochs = LeaderEpochCache(epochs)
        return header.base_offset

    def _allow_gaps(self) -> None:
        path = f"{self.directory}/{GAPS_ALLOWED}"
        with self._io("noting a gap"):
            if not self.config.compacted and not self._files.exists(path):
                self._files.write_atomic(path, b"")

    def _write(self, batches: list[tuple[BatchPlace, Buffer, Buffer]], wall_ms: int) -> None:
        """Write batches to the active segment, rolling where one does not fit."""
        incoming: list[tuple[BatchPlace, Buffer, Buffer]] = []
        incoming_size = 0
        for batch in batches:
            place = batch[0]
            if self._must_roll(place, incoming, incoming_size, wall_ms):
                if incoming:
                    self._write_to_segment(incoming)
                    incoming, incoming_size = [], 0
                self._roll(place.base_offset, wall_ms)
            incoming.append(batch)
            incoming_size += place.size
        self._write_to_segment(incoming)

    def _must_roll(
        self,
        place: BatchPlace,
        incoming: list[tuple[BatchPlace, Buffer, Buffer]],
        incoming_size: int,
        wall_ms: int,
    ) -> bool:
        segment = self._segments[-1]
        if not segment.takes_offset(place.last_offset):
            return True
        size = segment.size + incoming_size
        if not size:
            return False
        config = self.config
        if size > config.segment_bytes - place.size:
            return True
        if segment.indexes_full(config.segment_index_bytes):
            return True
        first = segment.first_timestamp if segment.size else incoming[0][0].max_timestamp
        # By the records' times, as in Kafka; by the clock when they have none.
        waited = (
            place.max_timestamp - first
            if first >= 0 and place.max_timestamp >= 0
            else wall_ms - segment.created_ms
        )
        return waited > config.segment_ms - segment.jitter_ms

    def _write_to_segment(self, batches: list[tuple[BatchPlace, Buffer, Buffer]]) -> None:
        segment = self._segments[-1]
        buffers: list[Buffer] = []
        for _, head, rest in batches:
            buffers.append(head)
            if rest:
                buffers.append(rest)
        before = segment.size
        try:
            segment.append(buffers, [batch[0] for batch in batches])
        except OSError as error:
            if segment.size == before:
                with self._io("cutting a partial write"):
                    segment.drop_partial()
            raise self._fault(error, "appending to the log") from error
        for place, head, rest in batches:
            self._tail.add(place.base_offset, place.last_offset, head, rest)
        self._log_end = segment.end_offset

    def _after_append(self, wall_ms: int) -> None:
        config = self.config
        self._wall_ms = wall_ms
        if self._log_end - self._recovery_point >= config.flush_messages:
            self.flush()
        elif self._unflushed_since_ms < 0:
            self._unflushed_since_ms = wall_ms

    # ---- roll -----------------------------------------------------------------------------------

    def roll(self, wall_ms: int) -> None:
        """Begin a new segment, unless the active one is empty."""
        self.check_usable()
        if self._segments[-1].size:
            self._roll(self._log_end, wall_ms)

    def maybe_roll(self, wall_ms: int) -> bool:
        """Begin a new segment when the active one is old enough by the clock."""
        self.check_usable()
        segment = self._segments[-1]
        age = wall_ms - segment.created_ms
        if not segment.size or age <= self.config.segment_ms - segment.jitter_ms:
            return False
        self._roll(self._log_end, wall_ms)
        return True

    def _roll(self, base_offset: int, wall_ms: int) -> None:
        with self._io("rolling the log"):
            old = self._segments[-1]
            if not old.size:
                # An empty segment whose base cannot express the next offset: replace it.
                self._segments.pop()
                self._bases.pop()
                old.unlink()
            else:
                old.seal()
                self._hold_open(old)
            self._keep_producer_snapshot(base_offset)
            self._new_segment(base_offset, wall_ms)

    def _new_segment(self, base_offset: int, wall_ms: int) -> None:
        limit = min(self.config.segment_jitter_ms, self.config.segment_ms)
        segment = Segment(
            self._files,
            self.directory,
            base_offset,
            index_interval_bytes=self.config.index_interval_bytes,
            created_ms=wall_ms,
            jitter_ms=self._environment.jitter(limit) if limit else 0,
        )
        try:
            segment.create()
            self._files.fsync_dir(self.directory)
        except OSError:
            segment.close()
            if self._segments:
                segment.unlink()
            raise
        self._segments.append(segment)
        self._bases.append(base_offset)
        self._log_end = base_offset

    def _keep_producer_snapshot(self, offset: int) -> None:
        if len(self.producers):
            self._producer_snapshots.append(self.producers.snapshot(offset))
            del self._producer_snapshots[:-_SNAPSHOTS_KEPT]

    def _adopt(self, segments: list[Segment]) -> None:
        self._segments = segments
        self._bases = [segment.base_offset for segment in segments]

    def _hold_open(self, segment: Segment) -> None:
        """An inactive segment has a handle: keep only a few of these."""
        self._open_segments.append(segment)
        while len(self._open_segments) > _OPEN_SEGMENTS_MAX:
            oldest = self._open_segments.popleft()
            if oldest is not self._segments[-1]:
                oldest.close()

    # ---- read -----------------------------------------------------------------------------------

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        upper_bound: int,
        min_one: bool = True,
        nowait: bool = False,
    ) -> LogRead:
        """Whole batches from the one that holds `offset`, at most `max_bytes` (with `min_one`, the
        first one whatever its size), none that reaches to `upper_bound`.

        Raises OffsetOutOfRange, CorruptSegment (the log is offline then), KafkaStorageError, and
        with `nowait` PagesCold.
        """
        self.check_usable()
        if not self._log_start <= offset <= self._log_end:
            raise OffsetOutOfRange(
                f"offset {offset} of {self.topic_partition} is outside "
                f"[{self._log_start}, {self._log_end}]"
            )
        if offset >= upper_bound or offset == self._log_end:
            return LogRead(b"", offset, offset)
        found = self._tail.read(offset, max_bytes, upper_bound=upper_bound, min_one=min_one)
        if found is not None:
            return found
        with self._io("reading the log"):
            for segment in self._segments[max(0, bisect_right(self._bases, offset) - 1) :]:
                if not segment.is_open and segment is not self._segments[-1]:
                    self._hold_open(segment)
                found = SegmentReader(self._files, segment, nowait=nowait).read(
                    offset, max(max_bytes, 0), upper_bound=upper_bound, min_one=min_one
                )
                if found is not None:
                    return found
        return LogRead(b"", offset, offset)

    def bytes_between(self, offset: int, upper_bound: int) -> int:
        """About how many bytes a reader at `offset` would get up to `upper_bound`; never less than
        there are, and exact for what is in memory.
        """
        if offset >= upper_bound:
            return 0
        in_memory = self._tail.bytes_between(offset, upper_bound)
        if in_memory is not None:
            return in_memory
        total = 0
        for segment in self._segments[max(0, bisect_right(self._bases, offset) - 1) :]:
            if segment.base_offset >= upper_bound:
                break
            start = segment.offsets.lookup(offset)
            total += segment.size - start
        return total

    def offset_for_timestamp(
        self, timestamp_ms: int, *, upper_bound: int | None = None
    ) -> OffsetAndTimestamp | None:
        """The first record at or after a time, below `upper_bound` (default: the log's end)."""
        self.check_usable()
        end = self._log_end if upper_bound is None else upper_bound
        with self._io("looking up a time"):
            return first_at_or_after(
                self._files, self._segments, timestamp_ms, start=self._log_start, end=end
            )

    def max_timestamp(self, *, upper_bound: int | None = None) -> OffsetAndTimestamp | None:
        """The first record with the largest timestamp, below `upper_bound` (KIP-734)."""
        self.check_usable()
        end = self._log_end if upper_bound is None else upper_bound
        with self._io("looking up the largest time"):
            return largest(self._files, self._segments, start=self._log_start, end=end)

    # ---- cut ------------------------------------------------------------------------------------

    def truncate_to(self, offset: Offset) -> Offset:
        """Remove the records from `offset` on; the new log end.

        A batch that reaches to `offset` goes as a whole, so the end may come out lower (epochs
        never end inside a batch, so it does not where replication asks).
        """
        self.check_usable()
        if offset >= self._log_end:
            self.epochs.truncate_from_end(offset)
            self._write_epochs()
            return Offset(self._log_end)
        if offset < self._segments[0].base_offset:
            self.truncate_fully_and_start_at(offset)
            return offset
        with self._io("truncating the log"):
            cut = self._cut_point(offset)
            if cut is not None and cut[1] < self._log_start <= offset:
                # The log starts inside the batch that goes: nothing readable is left.
                self._restart_at(self._log_start, self._segments[-1].created_ms)
                return Offset(self._log_end)
            self._lower_recovery_point(cut[1] if cut is not None else offset)
            self.generation += 1
            self._remove_segments_from(offset)
            segment = self._segments[-1]
            if cut is not None and segment.size > cut[0]:
                segment.truncate(*cut)
            self._log_end = segment.end_offset
            self._log_start = min(self._log_start, self._log_end)
            self._tail.truncate(self._log_end)
            self.epochs.truncate_from_end(Offset(self._log_end))
        self._write_epochs()
        self._rebuild_producers()
        return Offset(self._log_end)

    def _cut_point(self, offset: int) -> tuple[int, int] | None:
        """(position, base offset) of the first batch that ends at or behind `offset`, in the
        segment that stays active; None when that segment ends before `offset`.
        """
        index = max(0, bisect_right(self._bases, offset) - 1)
        if index and self._bases[index] == offset:
            return None  # that segment goes as a whole
        located = self._segments[index].locate(offset)
        return None if located is None else (located[0], located[1].base_offset)

    def _remove_segments_from(self, offset: int) -> None:
        """Remove segments that begin at or behind `offset`, newest first; the first one stays."""
        removed = False
        while len(self._segments) > 1 and self._bases[-1] >= offset:
            self._bases.pop()
            self._segments.pop().unlink()
            removed = True
        if removed:
            # A name that came back after a loss of power would overlap what is written next.
            self._files.fsync_dir(self.directory)

    def truncate_fully_and_start_at(self, offset: Offset) -> None:
        """Remove everything; the next record is `offset`."""
        self.check_usable()
        with self._io("truncating the whole log"):
            self._restart_at(offset, self._segments[-1].created_ms)

    def _restart_at(self, offset: int, wall_ms: int) -> None:
        self._lower_recovery_point(min(offset, self._recovery_point))
        self.generation += 1
        while self._segments:
            self._bases.pop()
            self._segments.pop().unlink()
        self._open_segments.clear()
        self._tail.clear()
        self._new_segment(offset, wall_ms)
        self._log_start = offset
        self._recovery_point = offset
        self.epochs.clear()
        self.producers.clear()
        self._producer_snapshots.clear()
        write_epochs(self._files, f"{self.directory}/{EPOCH_CHECKPOINT}", ())
        self.epochs.written()
        self._environment.log_start_moved(self)

    def _lower_recovery_point(self, offset: int) -> None:
        """Before bytes are cut that were synced: else a crash would take what replaces them for
        synced too.
        """
        if offset < self._recovery_point:
            self._recovery_point = offset
            self._environment.recovery_point_lowered(self)

    def _rebuild_producers(self) -> None:
        if not len(self.producers) and not self._producer_snapshots:
            return
        while self._producer_snapshots and self._producer_snapshots[-1].offset > self._log_end:
            self._producer_snapshots.pop()
        snapshot = self._producer_snapshots[-1] if self._producer_snapshots else None
        self.producers = ProducerStates(snapshot)
        start = snapshot.offset if snapshot else 0
        with self._io("reading the producers' state"):
            for segment in self._segments:
                if segment.end_offset <= start:
                    continue
                for _, header in scan(self._files, segment.handle(), 0, segment.size, verify=False):
                    if header.base_offset >= start:
                        self.producers.apply(header, header.base_offset)

    # ---- start ----------------------------------------------------------------------------------

    def advance_log_start(self, offset: Offset) -> bool:
        """Hide the records below `offset` for good (DeleteRecords, or what the leader says).

        Durable when it returns. False when the log starts there or later already. The caller keeps
        it at or below the high watermark. Files go with `delete_old_segments`.
        """
        self.check_usable()
        if offset <= self._log_start:
            return False
        if offset > self._log_end:
            raise OffsetOutOfRange(
                f"{self.topic_partition} cannot start at {offset}: it ends at {self._log_end}"
            )
        self._log_start = offset
        self.epochs.truncate_from_start(offset)
        with self._io("writing the log start"):
            self._environment.log_start_moved(self)
        return True

    def delete_old_segments(self) -> list[str]:
        """Give segments wholly below the log start names that say they may go; the paths."""
        self.check_usable()
        renamed: list[str] = []
        with self._io("deleting old segments"):
            while len(self._segments) > 1 and self._bases[1] <= self._log_start:
                segment = self._segments.pop(0)
                self._bases.pop(0)
                renamed += segment.rename_deleted()
            if renamed:
                self._files.fsync_dir(self.directory)
        return renamed

    # ---- epochs and syncs ----------------------------------------------------------------------

    def assign_epoch(self, epoch: LeaderEpoch, start_offset: Offset) -> None:
        """A new leader epoch begins at `start_offset`.

        Kept in memory until the next flush: the batches themselves tell it after a crash.
        """
        self.epochs.assign(epoch, start_offset)

    def flush(self, up_to: Offset | None = None) -> None:
        """Make the records below `up_to` (default: all) durable."""
        self.check_usable()
        end = self._log_end if up_to is None else min(up_to, self._log_end)
        with self._io("syncing the log"):
            self._sync_epochs()
            if end <= self._recovery_point:
                return
            for segment in self._segments:
                if segment.end_offset > self._recovery_point and segment.base_offset < end:
                    segment.fsync()
        self._recovery_point = end
        self._unflushed_since_ms = -1

    def maybe_flush(self, wall_ms: int) -> None:
        """Sync when `flush.ms` says so."""
        since = self._unflushed_since_ms
        if since >= 0 and wall_ms - since >= self.config.flush_ms:
            self.flush()

    def flush_task(self) -> FlushTask | None:
        """Syncs the segments that are full, for a thread of its own; None when there is none."""
        self.check_usable()
        active = self._segments[-1]
        if active.base_offset <= self._recovery_point:
            return None
        paths = [
            segment.log_path
            for segment in self._segments[:-1]
            if segment.end_offset > self._recovery_point
        ]
        return FlushTask(self._files, paths, Offset(active.base_offset), self.generation)

    def on_flushed(self, task: FlushTask) -> None:
        """A flush task has run. A log that was cut meanwhile gains nothing by it."""
        if task.error is not None:
            raise self._fault(task.error, "syncing the log")
        if task.generation == self.generation and task.up_to > self._recovery_point:
            with self._io("writing the epochs"):
                self._sync_epochs()
            self._recovery_point = task.up_to

    def _write_epochs(self) -> None:
        with self._io("writing the epochs"):
            self._sync_epochs()

    def _sync_epochs(self) -> None:
        if self.epochs.changed:
            write_epochs(self._files, f"{self.directory}/{EPOCH_CHECKPOINT}", self.epochs.entries)
            self.epochs.written()

    # ---- failures -------------------------------------------------------------------------------

    @contextmanager
    def _io(self, doing: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._fault(error, doing) from error
        except CorruptSegment as error:
            self.failure = error
            raise
        except BadBatch as error:
            self.failure = CorruptSegment(
                f"{self.directory} is damaged at position {error.position}: {error.reason}"
            )
            raise self.failure from error

    def _fault(self, error: OSError, doing: str) -> KafkaStorageError:
        """What an OSError means: no room passes, anything else ends this log."""
        if self.failure is not None:
            return self.failure
        if error.errno in NO_ROOM:
            return DiskFull(
                f"{doing} of {self.topic_partition}: no room on the disk of {self.directory} "
                f"({error.strerror}); free some space"
            )
        self.failure = KafkaStorageError(
            f"{doing} of {self.topic_partition} in {self.directory} failed: {error}; this replica "
            "is offline until the broker restarts"
        )
        return self.failure
