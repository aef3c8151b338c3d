"""The state of one log and every change of it: what enters at its end, what leaves at either end,
and what the cleaner puts into the middle.

Segments, bounds, epochs, producers and the newest batches in memory change together, in an order
that a crash or an error between two steps does no harm to. So the changes stand in one place:

- opening takes up what a start left whole (`recovery`), closing writes what is only in memory;
- append: all of it is checked before the first byte is written, and it is undone where it fails;
- roll: a new segment, with a snapshot of the producers before it;
- truncate: all that can refuse without harm is asked first, the cut point and the checkpoints. From
  then on the cut is a fact: bounds, epochs and the batches in memory say so at once, and the files
  follow. An error that passes leaves them to the next use of the log
  (`FaultGuard.leave_unfinished`), so that nothing that was cut is read, and nothing is written
  behind it. A crash before that is one before the truncation;
- the start: it is durable before files go, or a start after a loss of power would miss them. Where
  there is no room to write it, files must go first: deleting is what makes room;
- the middle: a cleaned segment takes the place of full ones.

Not here: when a call is refused, and what a caller is promised (`log`), what makes a client's batch
valid (`validator`), what makes fetched batches follow one another (`follower_batches`), syncs
(`durability`) and reads (`log_reader`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from pylog.errors import KafkaStorageError, OffsetOutOfRange
from pylog.model import NO_SEQUENCE, NO_TIMESTAMP, LeaderEpoch, Offset, TopicPartition
from pylog.records.batch import CODEC_MASK, CONTROL_BIT, BatchHeader, with_offset_and_epoch
from pylog_broker.config import TopicConfig
from pylog_broker.storage.errors import PassingStorageError
from pylog_broker.storage.files import NO_ROOM, PASSES, Buffer, Files
from pylog_broker.storage.indexes.offset_index import RELATIVE_MAX
from pylog_broker.storage.indexes.txn_index import AbortedTransaction
from pylog_broker.storage.log.durability import Durability
from pylog_broker.storage.log.environment import RECOMPRESSED, AppendInfo, Environment
from pylog_broker.storage.log.follower_batches import FetchedBatches, PlacedBatch, read_fetched
from pylog_broker.storage.log.guard import FaultGuard
from pylog_broker.storage.log.validator import Origin, as_stored, checked_header
from pylog_broker.storage.producers.producer_history import ProducerHistory
from pylog_broker.storage.producers.producer_state import read_marker
from pylog_broker.storage.producers.rebuild_task import RebuildTask
from pylog_broker.storage.recovery.gaps import Gaps
from pylog_broker.storage.recovery.recovery import LastStop, RecoveryReport, recover
from pylog_broker.storage.segments.retention import doomed_segments
from pylog_broker.storage.segments.scan import BadBatch
from pylog_broker.storage.segments.segment import BatchPlace, Segment
from pylog_broker.storage.segments.segment_list import CutPoint, SegmentList
from pylog_broker.storage.tail_cache import TailCache


@dataclass(slots=True)
class LogBounds:
    """`start` is the first offset that may be read, `end` the next record's. `generation` grows
    whenever records leave the end. `wall_ms` is the newest time that the log was given.
    `written_start` is where it would begin after a crash, at the earliest.
    """

    start: int = 0
    end: int = 0
    generation: int = 0
    wall_ms: int = 0
    written_start: int = 0

    @property
    def start_is_written(self) -> bool:
        """Whether a crash would bring no record back that is below the start."""
        return self.written_start >= self.start


class LogState:
    """The parts of a log, the same objects as long as it is open; only `config` may be set anew.

    `Log` has checked that the log works before it calls a change; what an error has interrupted
    calls them again in the middle of that check. The environment hears of a change before it is
    acted on.
    """

    def __init__(
        self,
        files: Files,
        directory: str,
        topic_partition: TopicPartition,
        config: TopicConfig,
        environment: Environment,
        guard: FaultGuard,
    ) -> None:
        self.config = config
        self.guard = guard
        self.bounds = LogBounds()
        self.segments = SegmentList(files, directory, environment.jitter, environment.readers)
        self.tail = TailCache(environment.tail_bytes_max, environment.tail_budget)
        self.producers = ProducerHistory(files, directory, environment.producer_budget)
        self.durable = Durability(files, directory, self.segments, guard)
        """Tells how far the log is synced, and has the epochs."""
        self.gaps = Gaps(files, directory)
        self._files = files
        self._directory = directory
        self._topic_partition = topic_partition
        self._environment = environment
        self._rebuild: RebuildTask | None = None  # left to a thread of its own, of `_work`
        self._rebuild_is_out = False
        self._work: Callable[[], None] = lambda: None

    # ---- open and close -------------------------------------------------------------------------

    def load(self, last_stop: LastStop, known_start: int | None, wall_ms: int) -> RecoveryReport:
        """Take up what the directory holds, as `recover` leaves it; a log of nothing where there
        was none. OSError, BadBatch, CorruptSegment.
        """
        bounds, durable = self.bounds, self.durable
        bounds.wall_ms = wall_ms
        if not self._files.exists(self._directory):
            self._files.mkdir(self._directory)
            self._files.fsync_dir(self._directory.rpartition("/")[0] or "/")
        found = recover(
            self._files,
            self._directory,
            self.config,
            last_stop,
            self.producers,
            wall_ms=wall_ms,
            log_start_offset=known_start,
        )
        self.segments.adopt(list(found.segments))
        self.gaps.load()
        if found.report.has_gaps:
            self.gaps.note()
        durable.epochs = found.epochs
        start = known_start or 0
        if not len(self.segments):
            self.segments.add(start, self.config, wall_ms)
        bounds.end = self.segments.active.end_offset
        start = last_stop.judge_start(self._directory, start, bounds.end)
        bounds.start = bounds.written_start = max(start, self.segments[0].base_offset)
        durable.point = min(last_stop.recovery_point, bounds.end)
        if found.report.bytes_cut or not last_stop.memory_survived:
            durable.point = bounds.end  # the recovery has synced what is left
        if bounds.start > bounds.end:
            # Deleted records were lost together with the rest: nothing readable is there.
            self.restart_at(bounds.start)
        durable.epochs.truncate_from_start(Offset(bounds.start))
        self._leave_unindexed(found.unindexed)
        return found.report

    def _leave_unindexed(
        self, segments: Sequence[tuple[Segment, Sequence[AbortedTransaction]]]
    ) -> None:
        """Nobody uses the log before these aborted transactions are in their indexes, and the next
        start must not trust a segment that lacks them.
        """
        for segment, aborted in segments:
            if segment in self.segments:
                self.durable.point = min(self.durable.point, segment.base_offset)
                self.guard.leave_unfinished(partial(segment.txn_index.replace, aborted))

    def seal(self) -> None:
        """Write what is only in memory, durably, before the log closes. OSError, BadBatch."""
        self.producers.take(self.bounds.end, durable=True)
        self.segments.active.seal()
        for segment in self.segments:
            segment.write_indexes()
        self.segments.active.fsync()
        self._files.fsync_dir(self._directory)

    # ---- append: what may enter, and at which offsets -------------------------------------------

    def append_as_leader(
        self, batch: Buffer, leader_epoch: LeaderEpoch, wall_ms: int, origin: Origin
    ) -> AppendInfo:
        """The offsets of the batch; the errors of `Log.append_as_leader`."""
        config, bounds = self.config, self.bounds
        latest = self.durable.epochs.latest
        assert leader_epoch >= latest, (leader_epoch, latest)
        producers = self.producers.now
        header = checked_header(
            batch,
            config,
            origin,
            wall_ms,
            self._environment.decompressed_bytes_max,
            producers.has_open,
        )
        by_broker = config.message_timestamp_type == "LogAppendTime"
        if header.producer_id >= 0 and not header.attributes & CONTROL_BIT:
            earlier = None
            if origin.internal and header.base_sequence == NO_SEQUENCE:
                producers.check_coordinators(header)
            else:
                earlier = producers.check(header, log_start_offset=bounds.start)
            if earlier is not None:
                return AppendInfo(
                    Offset(earlier.first_offset),
                    Offset(earlier.last_offset),
                    earlier.timestamp if by_broker else NO_TIMESTAMP,
                    Offset(bounds.start),
                    True,
                )
        if by_broker or config.compression_type != "producer":
            codec = header.attributes & CODEC_MASK
            batch, header = as_stored(batch, header, config, origin, wall_ms=wall_ms)
            if header.attributes & CODEC_MASK != codec:
                self._environment.counted[RECOMPRESSED] += 1
        base = bounds.end
        last = base + header.last_offset_delta
        head, rest = with_offset_and_epoch(batch, base, leader_epoch)
        place = (len(batch), base, last, header.max_timestamp)
        try:
            self._write_one(place, head, rest, header, config, wall_ms, leader_epoch)
        except BaseException:
            bounds.end = self.segments.active.end_offset
            raise
        bounds.end = last + 1
        bounds.wall_ms = wall_ms
        self.durable.appended(wall_ms)
        stamp = wall_ms if by_broker else NO_TIMESTAMP
        size, count = len(batch), header.record_count
        # Not by its constructor, a Python function: half the price.
        return tuple.__new__(AppendInfo, (base, last, stamp, bounds.start, False, count, size))

    def append_as_follower(self, records: Buffer, wall_ms: int | None) -> AppendInfo:
        """The offsets of the batches; the errors of `Log.append_as_follower`."""
        bounds = self.bounds
        fetched = read_fetched(
            records,
            self._topic_partition,
            bounds.end,
            latest_epoch=self.durable.epochs.epoch_at(Offset(bounds.end - 1)),
            may_begin_inside=self.segments.holds_nothing,
        )
        if not fetched.headers:
            end = bounds.end
            return AppendInfo(Offset(end), Offset(end - 1), -1, Offset(bounds.start))
        undo = None
        if fetched.has_gap or fetched.headers[0].base_offset < bounds.end:
            undo = self._prepare_for(fetched)
        wall_ms = bounds.wall_ms if wall_ms is None else wall_ms
        try:
            self._write(fetched.placed, fetched.headers, wall_ms)
        except BaseException:
            # Unless a batch got in that reaches the log start, the log begins anew at its old end.
            bounds.end = max(bounds.end, self.segments.active.end_offset)
            if undo is not None and self.segments.active.end_offset >= bounds.start:
                self.guard.finished(undo)
            raise
        if undo is not None:
            self.guard.finished(undo)
        last = fetched.headers[-1].last_offset
        bounds.end = last + 1
        bounds.wall_ms = wall_ms
        self.durable.appended(wall_ms)
        first, count, size = fetched.headers[0].base_offset, fetched.record_count, fetched.size
        fields = (first, last, NO_TIMESTAMP, bounds.start, False, count, size)
        return tuple.__new__(AppendInfo, fields)

    def _prepare_for(self, fetched: FetchedBatches) -> Callable[[], None] | None:
        """The work that undoes it, should no batch get in."""
        with self.guard.io("preparing an append"):
            if fetched.has_gap:
                self.gaps.note()
            first = fetched.headers[0].base_offset
            if first < self.bounds.end:
                return self._restart_before(first)
        return None

    # ---- write: batches that were checked, to the active segment --------------------------------
    #
    # DiskFull: nothing of the batches that are not in the log has stayed. KafkaStorageError.

    def _write_one(
        self,
        place: BatchPlace,
        head: Buffer,
        rest: Buffer,
        header: BatchHeader,
        config: TopicConfig,
        wall_ms: int,
        leader_epoch: int,
    ) -> None:
        """Write a batch under `leader_epoch`, in a new segment where it does not fit."""
        segments = self.segments
        _, _, _, max_timestamp = place
        if self._must_roll(place, 0, max_timestamp, config, wall_ms):
            self._roll_before(place, wall_ms)
        self._append(segments.active, (head, rest) if rest else (head,), (place,))
        self._note(place, head, rest, header, wall_ms, leader_epoch)

    def _write(self, batches: list[PlacedBatch], headers: list[BatchHeader], wall_ms: int) -> None:
        """Write batches as they are, rolling where one does not fit."""
        config = self.config
        if len(batches) == 1:
            (place, head, rest), header = batches[0], headers[0]
            epoch = header.partition_leader_epoch
            self._write_one(place, head, rest, header, config, wall_ms, epoch)
            return
        first = pending_bytes = 0
        for number, (place, _, _) in enumerate(batches):
            size, _, _, _ = place
            _, _, _, since = batches[first][0]
            if self._must_roll(place, pending_bytes, since, config, wall_ms):
                if first < number:
                    self._write_to_segment(batches[first:number], headers[first:number], wall_ms)
                    first, pending_bytes = number, 0
                self._roll_before(place, wall_ms)
            pending_bytes += size
        if first:
            batches, headers = batches[first:], headers[first:]
        self._write_to_segment(batches, headers, wall_ms)

    def _write_to_segment(
        self, batches: list[PlacedBatch], headers: list[BatchHeader], wall_ms: int
    ) -> None:
        buffers: list[Buffer] = []
        for _, head, rest in batches:
            buffers.append(head)
            if rest:
                buffers.append(rest)
        self._append(self.segments.active, buffers, [batch[0] for batch in batches])
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
                self.guard.leave_unfinished(cut)
                with self.guard.io("cutting a partial write"):
                    cut()
                self.guard.finished(cut)
            raise self.guard.fault(error, "appending") from error

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
        self.tail.add(base_offset, last_offset, head, rest)
        epochs = self.durable.epochs
        if epoch > epochs.latest:
            epochs.assign(LeaderEpoch(epoch), Offset(base_offset))
        if header.attributes & CONTROL_BIT:
            self._note_marker(header, base_offset, [head, rest], wall_ms)
        elif header.producer_id >= 0:
            self.producers.now.apply(header, base_offset, seen_ms=wall_ms)

    def _note_marker(
        self, header: BatchHeader, base_offset: int, pieces: list[Buffer], wall_ms: int
    ) -> None:
        segment = self.segments.active
        marker = read_marker(b"".join(pieces), header)
        aborted = self.producers.now.apply(header, base_offset, marker, seen_ms=wall_ms)
        if aborted is not None:
            # Without it the log file says more than its index: nobody may read it so.
            complete = partial(segment.txn_index.complete, aborted)
            if self.guard.is_barred:  # another marker of this append waits for its entry
                self.guard.leave_unfinished(complete)
                return
            try:
                segment.txn_index.append(aborted)
            except OSError as error:
                if error.errno in PASSES:
                    self.guard.leave_unfinished(complete)
                    return
                raise self.guard.fail(
                    KafkaStorageError(
                        f"{self._topic_partition}: {segment.txn_index.path} cannot be written: "
                        f"{error}; this replica is offline until the broker starts again"
                    )
                ) from error

    # ---- roll -----------------------------------------------------------------------------------

    def _must_roll(
        self,
        place: BatchPlace,
        pending_bytes: int,
        pending_timestamp: int,
        config: TopicConfig,
        wall_ms: int,
    ) -> bool:
        try:
            return self.segments.must_roll(place, pending_bytes, pending_timestamp, config, wall_ms)
        except (OSError, BadBatch):
            with self.guard.io("appending"):  # it may have to read its indexes
                raise

    def _roll_before(self, place: BatchPlace, wall_ms: int) -> None:
        """Begin the segment where the one before ends, also when the batch lies further on (the
        leader's log was compacted): a start could not tell a gap between two segments that nobody
        has noted from the end of the first one lost with the power.
        """
        _, base_offset, last_offset, _ = place
        end = self.segments.active.end_offset
        expressible = last_offset - end <= RELATIVE_MAX
        self.roll(end if expressible else base_offset, wall_ms)

    def roll(self, base_offset: int, wall_ms: int) -> None:
        """Begin a new segment, with a snapshot of the producers before it."""
        with self.guard.io("rolling the log"):
            self.segments.add(base_offset, self.config, wall_ms)
            # it is to be there before the next batch
            self._carry_out(partial(self.producers.take_soon, base_offset))

    def _carry_out(self, work: Callable[[], None]) -> None:
        """Do what the log's next use is to do again if it is interrupted."""
        self.guard.leave_unfinished(work)
        work()
        self.guard.finished(work)

    # ---- truncate: OSErrors come as they are, and callers stand within the guard ----------------

    def truncate_to(self, offset: Offset) -> None:
        """Remove the records from `offset` on, which is not before the first segment."""
        if offset < self.bounds.end:
            self._truncate(offset)
        # An epoch that begins at the end is forgotten too: the leader may know another.
        self.durable.epochs.truncate_from_end(min(offset, Offset(self.bounds.end)))
        self.durable.write_epochs()

    def _truncate(self, offset: int) -> None:
        bounds = self.bounds
        point = self.segments.cut_point(offset)
        end = point.end_offset
        if end < bounds.start <= offset:
            # The log starts inside the batch that goes: nothing readable is left.
            self.restart_at(bounds.start)
            return
        self._environment.truncated(self._topic_partition, end)
        self._environment.ends_at(self._topic_partition, end)
        self._lower_recovery_point(end)
        bounds.generation += 1
        bounds.end = end
        bounds.start = min(bounds.start, end)
        bounds.written_start = min(bounds.written_start, end)
        self.tail.truncate(end)
        self.durable.epochs.truncate_from_end(Offset(end))
        self._work = partial(self._cut_files, offset, point)
        self.guard.leave_unfinished(self._work)
        self.segments.truncate(offset, point)
        self._rebuild_is_out = False
        self._rebuild = self.producers.begin_truncating([*self.segments], end)
        if self._rebuild is None:
            self.guard.finished(self._work)

    def _cut_files(self, offset: int, point: CutPoint) -> None:
        """All that a truncation leaves to do; again, if it was interrupted."""
        self.segments.truncate(offset, point)
        self.producers.truncate(self.segments, point.end_offset)
        self._rebuild = None

    def rebuild_task(self) -> RebuildTask | None:
        """The rest of a truncation, for a thread of its own; given out once."""
        if self._rebuild is None or self._rebuild_is_out:
            return None
        self._rebuild_is_out = True
        return self._rebuild

    def on_rebuilt(self, task: RebuildTask) -> None:
        """A task has run. After an error the log's next use does the same."""
        if task is self._rebuild:  # else something used the log meanwhile, and has done it
            self._rebuild = None
            self.producers.adopt(task, self.segments)
            self.guard.finished(self._work)

    @property
    def is_rebuilding(self) -> bool:
        """Whether a task is out that has not come back."""
        return self._rebuild is not None and self._rebuild_is_out

    def restart_at(self, offset: int) -> None:
        """Remove everything; the next record is `offset`."""
        bounds = self.bounds
        self._environment.truncated(self._topic_partition, 0)
        self._environment.ends_at(self._topic_partition, offset)
        self._lower_recovery_point(min(offset, self.durable.point))
        bounds.generation += 1
        bounds.start = bounds.end = offset
        bounds.written_start = 0
        self.tail.clear()
        self.producers.now.clear()
        self.durable.epochs.clear()
        self._carry_out(partial(self._begin_at, offset))

    def _begin_at(self, offset: int) -> None:
        self.tail.clear()
        self.segments.remove_all()
        self.producers.clear()
        self.segments.add(offset, self.config, self.bounds.wall_ms)
        self.durable.point = offset
        self.durable.write_epochs()
        self._environment.log_start_moved(self.bounds.start)
        self.bounds.written_start = self.bounds.start

    def _restart_before(self, first: int) -> Callable[[], None]:
        """A log that holds nothing gets a batch that begins before its end, because the leader's
        log starts inside that batch: make room for it, and keep the start and the epochs.

        Until the batch is in, the log ends where it did; when it is, `FaultGuard.finished` is to
        hear of what this returns. Should it never come, the log begins again where it ends.
        """
        bounds = self.bounds
        self._environment.truncated(self._topic_partition, 0)
        self._lower_recovery_point(min(first, self.durable.point))
        bounds.generation += 1
        undo = partial(self._begin_at, bounds.end)
        self.guard.leave_unfinished(undo)
        self.segments.remove_all()
        self.producers.clear()
        self.segments.add(first, self.config, bounds.wall_ms)
        return undo

    def _lower_recovery_point(self, offset: int) -> None:
        """Before bytes are cut that were synced: else a crash would take what replaces them for
        synced too. After an error it is where it was: the next attempt must write it.
        """
        self.gaps.cut(offset)
        before = self.durable.point
        if offset < before:
            self.durable.point = offset
            try:
                self._environment.recovery_point_lowered(offset)
            except BaseException:
                self.durable.point = before
                raise
        self.durable.cut(offset)

    # ---- the start: DeleteRecords, retention, and the files below -------------------------------

    def move_start(self, offset: Offset) -> bool:
        """`Log.move_log_start`."""
        bounds = self.bounds
        if offset <= bounds.start:
            return False
        self._check_start(offset)
        bounds.start = offset
        self.durable.epochs.truncate_from_start(offset)
        return True

    def _check_start(self, offset: Offset) -> None:
        if offset > self.bounds.end:
            raise OffsetOutOfRange(
                f"{self._topic_partition} cannot start at {offset}: it ends at {self.bounds.end}"
            )

    def advance_start(self, offset: Offset) -> bool:
        """`Log.advance_log_start`."""
        bounds = self.bounds
        if offset <= bounds.start:
            if not bounds.start_is_written:
                self._write_start()
            return False
        self._check_start(offset)
        before, bounds.start = bounds.start, offset
        try:
            self._write_start()
        except BaseException:
            # a start that is not written must not be seen: a restart would bring the records back
            bounds.start = max(before, self.segments[0].base_offset)
            raise
        finally:
            self.durable.epochs.truncate_from_start(Offset(bounds.start))
        return True

    def _write_start(self) -> None:
        with self.guard.io("writing the log start"):
            try:
                self._environment.log_start_moved(self.bounds.start)
            except OSError as error:
                if error.errno not in NO_ROOM:
                    raise
                self.give_up_all(self.bounds.wall_ms)
                for path in self.delete_segments():
                    self._files.unlink(path)
                self._environment.log_start_moved(self.bounds.start)
        self.bounds.written_start = self.bounds.start

    def note_start_written(self, offset: int) -> None:
        """`Log.note_start_written`."""
        bounds = self.bounds
        bounds.written_start = max(bounds.written_start, min(offset, bounds.start))

    def retain(
        self,
        *,
        high_watermark: int,
        wall_ms: int,
        trusted_ms: int | None,
        hold_back: Callable[[Sequence[tuple[int, int]]], int] | None,
    ) -> str:
        """`Log.retain`."""
        bounds = self.bounds
        with self.guard.io("looking for old segments"):
            doomed = doomed_segments(
                self.segments,
                self.config,
                log_start=bounds.start,
                high_watermark=high_watermark,
                wall_ms=trusted_ms,
                modified_ms=self._modified_ms,
            )
        count = doomed.count if hold_back is None else self._free(doomed.count, hold_back)
        if not count:
            return ""
        if count == len(self.segments):
            self.roll(bounds.end, wall_ms)
            end = bounds.end
        else:  # a cleaned segment may end before the next one begins
            end = self.segments[count].base_offset
        if end <= bounds.start:
            return ""
        bounds.start = end
        self.durable.epochs.truncate_from_start(Offset(end))
        return doomed.reason

    def _free(self, count: int, hold_back: Callable[[Sequence[tuple[int, int]]], int]) -> int:
        """The number of the first `count` segments that readers do not hold."""
        bounds, segments = self.bounds, self.segments
        ends = [*(each.base_offset for each in segments[1 : count + 1]), bounds.end][:count]
        gone = sum(end <= bounds.start for end in ends)  # nobody can read these any more
        sizes = (each.size for each in segments[gone:count])
        return gone + hold_back([*zip(ends[gone:], sizes, strict=True)])

    def _modified_ms(self, segment: Segment) -> int:
        status = self._files.stat(segment.log_path)
        return self.bounds.wall_ms if status is None else status.modified_ns // 1_000_000

    def give_up_all(self, wall_ms: int) -> None:
        """Give up the active segment, too, where every record is below the start. A new one is
        three empty files; if even those cannot be made now, the old one stays.
        """
        if self.bounds.start == self.bounds.end and self.segments.active.size:
            try:
                self.roll(self.bounds.end, wall_ms)
            except PassingStorageError:
                return

    def delete_segments(self) -> list[str]:
        """`Log.delete_old_segments`."""
        with self.guard.io("deleting old segments"):
            renamed = self.segments.rename_below(self.bounds.start)
            self.producers.deleted_below(self.segments[0].base_offset)
            return renamed

    # ---- the middle: what the cleaner puts in ---------------------------------------------------

    def replace_segments(self, bases: list[int], cleaned: Segment) -> list[str] | None:
        """`Log.replace_segments`. Once the first file has another name, an error that passes leaves
        the paths to `delete_segments`.

        A swap may leave a gap before the next segment; so what is up to there is durable first, and
        said to be: else a start after a loss of power would take the gap for a tail that did not
        get to the disk, and cut off all that follows.
        """
        segments, guard = self.segments, self.guard
        behind = segments.base_after(bases[-1])
        if behind is None:
            return None
        self.durable.flush(behind)
        with guard.io("noting that the log has gaps"):
            self._environment.recovery_point_lowered(self.durable.point)
            self.gaps.note(self.durable.point)
        with guard.io("naming a cleaned segment"):
            if not segments.stage(bases, cleaned):
                return None
        swap = segments.begin_swap(bases, cleaned)
        self.tail.drop_below(segments.after(cleaned).base_offset)
        guard.leave_unfinished(swap)
        try:
            swap()
        except OSError as error:
            if error.errno in PASSES:
                return []
            raise guard.fail(
                KafkaStorageError(
                    f"{self._topic_partition}: putting in {cleaned.log_path}: {error}"
                )
            ) from error
        guard.finished(swap)
        return segments.take_renamed()
