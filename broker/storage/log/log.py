"""One replica's log: segments, epochs, producers, and the newest batches in memory.

Synchronous and deterministic over `Files`; times are arguments. The loop of the process owns it.
The high watermark is not known here: a reader says where to stop.

This module is what can be asked of a log: what each call promises, and when it is refused.
`log_state` next to it has the state and all changes of it, `log_reader` the reads, `durability` the
syncs. Call and change stand apart, because a change that an error has interrupted is finished
within the check that comes before the next call.

Errors. `PassingStorageError`, that is `DiskFull` and `ShortOfResources`: nothing of the batch
stayed, the log goes on. A truncation that it interrupts is a fact all the same: bounds, epochs and
the batches in memory say so at once, and the next call finishes the files, or raises such an error
again. `DamagedBatch`: the asked offset has rotted; what is before and behind it can be read, and
the log goes on. Any other failure of a write or a sync, and a file that is not there or too short,
takes the log offline for good: every later call raises the same error. A failed fsync is never
tried again: the kernel may have dropped the pages it could not write, so a second one that succeeds
proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, Self

from pylog.errors import KafkaStorageError, OffsetOutOfRange
from pylog.model import (
    LeaderEpoch,
    Offset,
    OffsetAndTimestamp,
    RangeSplit,
    TopicId,
    TopicPartition,
    TransactionName,
    TransactionSpan,
)
from pylog_broker.config import TopicConfig
from pylog_broker.storage.errors import CorruptSegment
from pylog_broker.storage.files import Buffer, Files
from pylog_broker.storage.indexes.txn_index import AbortedTransaction
from pylog_broker.storage.log.environment import TAIL_BYTES_MAX, AppendInfo, Environment
from pylog_broker.storage.log.guard import FaultGuard
from pylog_broker.storage.log.log_reader import LogReader
from pylog_broker.storage.log.log_state import LogState
from pylog_broker.storage.log.validator import CLIENT, Origin
from pylog_broker.storage.producers.producer_state import ProducerStates
from pylog_broker.storage.producers.rebuild_task import RebuildTask
from pylog_broker.storage.producers.snapshot_task import SnapshotTask
from pylog_broker.storage.recovery.recovery import LastStop, RecoveryReport
from pylog_broker.storage.segments.damage import Hole
from pylog_broker.storage.segments.flush_task import FlushTask
from pylog_broker.storage.segments.local_range import LocalRange
from pylog_broker.storage.segments.segment import Segment
from pylog_broker.storage.tail_cache import TailBudget, TailRead

__all__ = ["AppendInfo", "Environment", "Log", "LogRead"]

LogRead = TailRead
"""`records` (whole batches), the offset of the first one's first record, the offset after the last.
"""


CLOSE_PATIENCE_SECONDS: Final = 30.0
"""For a sync of the pool that runs while its log is closed. Without its outcome the stop is not
clean, and after a reboot every replica of the directory is in doubt.
"""


class Log:
    """Invariants: segments are contiguous, at least one, the last is active;
    `log_start_offset <= log_end_offset`; `recovery_point <= log_end_offset`.
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
        self.recovery = RecoveryReport()
        self._environment = environment or Environment(TailBudget(TAIL_BYTES_MAX))
        self._guard = FaultGuard(
            str(topic_partition),
            directory,
            lambda: self._environment.failed(self),
            self._environment.no_room,
            self._environment.disk_errors,
        )
        self._state = state = LogState(
            files, directory, topic_partition, config, self._environment, self._guard
        )
        # Its parts, which are looked at here.
        self.bounds = self._bounds = state.bounds
        self._segments = state.segments
        self._producers = state.producers
        self._tail = state.tail
        self._durable = state.durable
        self.epochs = state.durable.epochs
        """The leader epochs of the log, each with the part that it wrote."""
        self._reader = LogReader(files, state.segments, state.tail, state.gaps, self._guard)

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
        log_start_offset: int | None = None,
        environment: Environment | None = None,
    ) -> Self:
        """The log in `directory`, recovered; a new one when nothing is there.

        `last_stop` None: unknown, every CRC is checked. `log_start_offset` None: unknown, it is
        where the first segment begins. Damage in the middle stands in `damage`. Raises
        CorruptSegment when segments are missing or nothing tells where the log ends,
        KafkaStorageError when the disk fails, DiskFull.
        """
        log = cls(files, directory, topic_partition, topic_id, config, environment)
        try:
            with log._guard.io("opening the log"):
                log.recovery = log._state.load(last_stop or LastStop(), log_start_offset, wall_ms)
                log.epochs = log._durable.epochs
        except BaseException:
            log._segments.close()
            raise
        return log

    def retire(self) -> None:
        """Refuse every call from now on but `close`, which may then run on another thread."""
        self._guard.close()

    def close(self, *, clean: bool) -> None:
        """Give the handles back; `clean` syncs everything first and raises when that fails. A sync
        that runs on another thread is waited for.
        """
        self.retire()
        try:
            if clean and self._guard.failure is None:
                self._guard.finish()
                self._durable.flush(self._bounds.end, patience_seconds=CLOSE_PATIENCE_SECONDS)
                with self._guard.io("closing the log"):
                    self._state.seal()
        finally:
            self._segments.close()
            self._tail.clear()

    # ---- what it is ------------------------------------------------------------------------------
    #
    # `bounds`: where it begins and ends, to look at, not to change; always the same object, for
    # those who ask with each request.

    @property
    def config(self) -> TopicConfig:
        """The topic's settings; each is looked up when it is used."""
        return self._state.config

    @config.setter
    def config(self, config: TopicConfig) -> None:
        self._state.config = config

    @property
    def log_start_offset(self) -> Offset:
        """The first offset that may be read. It may lie inside a batch."""
        return Offset(self._bounds.start)

    @property
    def log_end_offset(self) -> Offset:
        """The offset of the next record."""
        return Offset(self._bounds.end)

    @property
    def generation(self) -> int:
        """Grows whenever records leave the end of the log."""
        return self._bounds.generation

    @property
    def recovery_point(self) -> Offset:
        """Everything below is synced."""
        return Offset(self._durable.point)

    @property
    def synced_offset(self) -> Offset:
        """Every batch below is synced, for `may_acknowledge`; never below the recovery point."""
        return Offset(self._durable.synced)

    @property
    def producers(self) -> ProducerStates:
        """The producers that wrote to this log, as far as they are known."""
        return self._producers.now

    @property
    def failure(self) -> KafkaStorageError | None:
        """The error that took the log offline for good."""
        return self._guard.failure

    @property
    def is_settled(self) -> bool:
        """Whether it works, and its files say what its memory says."""
        return not self._guard.is_barred

    def settle(self) -> None:
        """Have its files say what its memory says. KafkaStorageError while that is refused."""
        self._guard.check()

    @property
    def failed_reading(self) -> bool:
        """Whether that was an error of a read, so that what was written is not in doubt."""
        return self._guard.failed_reading

    @property
    def failed_disk(self) -> bool:
        """Whether that was an error of the disk, which the logs beside this one will meet too."""
        return self._guard.failed_disk

    @property
    def damage(self) -> tuple[Hole, ...]:
        """The holes at or above the log start, as far as anybody has met them."""
        start = self._bounds.start
        return tuple(
            hole
            for segment in self._segments
            if segment.holes
            for hole in segment.holes
            if hole.end_offset > start
        )

    def give_up_damaged(self) -> KafkaStorageError:
        """Take the log offline for its `damage`: another replica has what is lost here."""
        hole = self.damage[0]
        return self._guard.fail(
            CorruptSegment(
                f"{self.directory} is damaged: {hole.reason}; offsets {hole.offset} to "
                f"{hole.end_offset - 1} cannot be read"
            ),
            reads=True,
        )

    def take_offline(self, error: KafkaStorageError) -> None:
        """The disk below it has failed, over another log. The records here are not in doubt."""
        self._guard.fail(error, reads=True)

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self._segments)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Oldest first; the last is active. To look at, not to change."""
        return tuple(self._segments)

    def __repr__(self) -> str:
        return f"<Log {self.topic_partition} [{self._bounds.start}, {self._bounds.end})>"

    def last_stable_offset(self, high_watermark: Offset) -> Offset:
        """The offset at which a read-committed reader must stop. It is not below the log's start,
        which may have moved into an open transaction.
        """
        stable = self._producers.now.last_stable_offset(high_watermark)
        return Offset(max(stable, self._bounds.start))

    # ---- append ---------------------------------------------------------------------------------

    def append_as_leader(
        self,
        batch: Buffer,
        *,
        leader_epoch: LeaderEpoch,
        wall_ms: int,
        origin: Origin = CLIENT,
    ) -> AppendInfo:
        """Give `batch` (exactly one) the next offsets and write it.

        Raises what `checked_header` raises, OutOfOrderSequenceNumber, InvalidProducerEpoch,
        DiskFull and KafkaStorageError. After an error nothing of the batch is in the log.
        """
        if self._guard.is_barred:
            self._guard.check()
        return self._state.append_as_leader(batch, leader_epoch, wall_ms, origin)

    def append_as_follower(self, records: Buffer, *, wall_ms: int | None = None) -> AppendInfo:
        """Write the leader's batches as they are; a cut last one is left out.

        `wall_ms` None: the newest time that the log was given. Raises CorruptMessage (a CRC),
        InvalidOffset (not behind the log's end), DiskFull and KafkaStorageError. All batches are
        checked before the first byte is written.
        """
        if self._guard.is_barred:
            self._guard.check()
        return self._state.append_as_follower(records, wall_ms)

    # ---- roll -----------------------------------------------------------------------------------

    def roll(self, wall_ms: int) -> None:
        """Begin a new segment, unless the active one is empty."""
        self._guard.check()
        if self._segments.active.size:
            self._state.roll(self._bounds.end, wall_ms)

    def maybe_roll(self, wall_ms: int) -> bool:
        """Begin a new segment when the active one is old enough by the clock; else only write the
        index entries that wait.
        """
        self._guard.check()
        with self._guard.io("writing the indexes"):
            self._segments.active.indexes.write_new_entries()
        due = self._segments.is_old(self.config, wall_ms)
        if due:
            self._state.roll(self._bounds.end, wall_ms)
        return due

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
        first one whatever its size), none that reaches to `upper_bound`. They come from one
        segment, so there may be more right behind.

        Raises OffsetOutOfRange, DamagedBatch, KafkaStorageError (CorruptSegment: the log is offline
        then), and with `nowait` PagesCold.
        """
        bounds = self._bounds
        if self._guard.is_barred:
            self._guard.check()
        if not bounds.start <= offset <= bounds.end:
            raise OffsetOutOfRange(
                f"offset {offset} of {self.topic_partition} is outside "
                f"[{bounds.start}, {bounds.end}]"
            )
        return self._reader.read(
            offset, max_bytes, upper_bound=upper_bound, min_one=min_one, nowait=nowait
        )

    def bytes_between(self, offset: int, upper_bound: int) -> int:
        """About how many bytes a reader at `offset` would get up to `upper_bound`; never less than
        there are, and exact for what is in memory. KafkaStorageError.
        """
        if offset < upper_bound:
            in_memory = self._tail.bytes_between(offset, upper_bound)
            if in_memory is not None:
                return in_memory
        if self._guard.is_barred:
            self._guard.check()
        return self._reader.bytes_between(offset, upper_bound)

    def offset_for_timestamp(
        self, timestamp_ms: int, *, upper_bound: int | None = None, nowait: bool = False
    ) -> OffsetAndTimestamp | None:
        """The first record at or after a time, below `upper_bound` (default: the log's end).

        Raises KafkaStorageError, and with `nowait` PagesCold.
        """
        self._guard.check()
        end = self._bounds.end if upper_bound is None else upper_bound
        return self._reader.first_at_or_after(timestamp_ms, self._bounds.start, end, nowait=nowait)

    def first_from(
        self, offset: int, *, upper_bound: int | None = None, nowait: bool = False
    ) -> OffsetAndTimestamp | None:
        """The first record at `offset` or behind it, below `upper_bound`, with its time; errors as
        above.
        """
        self._guard.check()
        end = self._bounds.end if upper_bound is None else upper_bound
        start = max(offset, self._bounds.start)
        return self._reader.first_from(start, end, nowait=nowait) if start < end else None

    def split(
        self,
        start: int,
        end: int,
        *,
        piece_bytes: int = 0,
        pieces_max: int = 0,
        even: bool = False,
        nowait: bool = False,
    ) -> RangeSplit:
        """The bytes that the batches of `start <= offset < end` have, as far as they are there, and
        the first pieces of at most `piece_bytes` (see `range_split`); errors as above.
        """
        self._guard.check()
        start, end = max(start, self._bounds.start), min(end, self._bounds.end)
        return self._reader.split(start, end, piece_bytes, pieces_max, even=even, nowait=nowait)

    def local_range(
        self, start: int, end: int, *, upper_bound: int, files_max: int, nowait: bool = False
    ) -> LocalRange:
        """The places of the batches of `start <= offset < end` below `upper_bound`, in at most
        `files_max` segment files (see `local_range`). Raises OffsetOutOfRange for a start outside
        the log; other errors as above.
        """
        self._guard.check()
        bounds = self._bounds
        if not bounds.start <= start <= bounds.end:
            raise OffsetOutOfRange(
                f"offset {start} of {self.topic_partition} is outside "
                f"[{bounds.start}, {bounds.end}]"
            )
        return self._reader.local_range(start, end, upper_bound, files_max, nowait=nowait)

    def max_timestamp(
        self, *, upper_bound: int | None = None, nowait: bool = False
    ) -> OffsetAndTimestamp | None:
        """The first record with the largest timestamp, below `upper_bound` (KIP-734); errors as
        above.
        """
        self._guard.check()
        end = self._bounds.end if upper_bound is None else upper_bound
        return self._reader.largest(self._bounds.start, end, nowait=nowait)

    # ---- truncate -------------------------------------------------------------------------------

    def truncate_to(self, offset: Offset) -> Offset:
        """Remove the records from `offset` on; the new log end.

        It is where the batches end that stay, so it may come out lower: a batch that reaches to
        `offset` goes as a whole (though epochs never end inside one, and replication cuts at ends
        of epochs), and compaction may have left a gap before `offset`.
        """
        self._guard.check()
        if offset < self._segments[0].base_offset:
            self.truncate_fully_and_start_at(offset)
            return offset
        with self._guard.io("truncating"):
            self._state.truncate_to(offset)
        return Offset(self._bounds.end)

    def truncate_fully_and_start_at(self, offset: Offset) -> None:
        """Remove everything; the next record is `offset`."""
        self._guard.check()
        with self._guard.io("truncating all"):
            self._state.restart_at(offset)

    # ---- start ----------------------------------------------------------------------------------

    def advance_log_start(self, offset: Offset) -> bool:
        """Hide the records below `offset` for good (DeleteRecords, or what the leader says).

        Durable when it returns. False when the log starts there or later already. The caller keeps
        it at or below the high watermark. Files go with `delete_old_segments`; where there is no
        room to write the start, they go at once to make some. After an error the start is where it
        was, or, if that made no room either, where the first segment that is left begins.
        """
        self._guard.check()
        return self._state.advance_start(offset)

    def move_log_start(self, offset: Offset) -> bool:
        """As `advance_log_start`, but only in memory: until `start_is_written` a crash may bring
        the records back. False when the log starts there or later already.
        """
        self._guard.check()
        return self._state.move_start(offset)

    def retain(
        self,
        *,
        high_watermark: int,
        wall_ms: int,
        trusted_ms: int | None,
        hold_back: Callable[[Sequence[tuple[int, int]]], int] | None = None,
    ) -> str:
        """Let the log begin behind what its settings do not keep; why, or nothing.

        `trusted_ms`: the time that ages go by, None when there is none. `hold_back` is asked how
        many of the segments that would go, each with its end and its bytes, may. Only in memory: no
        file is to go before `start_is_written`.
        """
        self._guard.check()
        return self._state.retain(
            high_watermark=high_watermark,
            wall_ms=wall_ms,
            trusted_ms=trusted_ms,
            hold_back=hold_back,
        )

    @property
    def start_is_written(self) -> bool:
        """Whether the checkpoint of the log starts has this log's as it is now."""
        return self._bounds.start_is_written

    def note_start_written(self, offset: int) -> None:
        """The checkpoint says, durably, that the log starts there."""
        self._state.note_start_written(offset)

    def start_was_refused(self, error: OSError) -> KafkaStorageError:
        """The checkpoint could not be written; PassingStorageError when it may be later, else the
        log is offline now.
        """
        return self._guard.fault(error, "writing the log start")

    def delete_old_segments(self, *, all_of_it_ms: int | None = None) -> list[str]:
        """Give segments wholly below the log start names that say they may go; the paths. Where
        there is no room for longer names, the files are gone at once.

        `all_of_it_ms`: the wall time, when room is wanted so much that the active segment is to go,
        too, if all its records were deleted.
        """
        self._guard.check()
        if all_of_it_ms is not None:
            self._state.give_up_all(all_of_it_ms)
        return self._state.delete_segments()

    # ---- producers and transactions -----------------------------------------------------------

    def expire_producers(
        self, wall_ms: int, expiration_ms: int, producer_ids: Iterable[int] | None = None
    ) -> int:
        """Forget those of these producers (None: of all) that were not heard of for so long; how
        many.
        """
        return self.producers.expire(wall_ms, expiration_ms, producer_ids)

    def rebuild_task(self) -> RebuildTask | None:
        """After a truncation: reads again what the batches say of their producers, on a thread of
        its own, if that takes long; then `on_rebuilt`. Until then the log is not settled: a caller
        that uses it all the same reads them itself.
        """
        return self._state.rebuild_task()

    @property
    def is_rebuilding(self) -> bool:
        """Whether such a task runs: work that can wait leaves the log alone."""
        return self._state.is_rebuilding

    def on_rebuilt(self, task: RebuildTask) -> None:
        """A rebuild task has run. KafkaStorageError when the disk fails."""
        if not self._guard.closed and self._guard.failure is None:
            with self._guard.io("truncating"):
                self._state.on_rebuilt(task)

    def snapshot_task(self) -> SnapshotTask | None:
        """Writes what was known of the producers where a segment began, on a thread of its own, if
        they are so many that a roll left it undone; then `on_snapshot`.
        """
        self._guard.check()
        return self._producers.task()

    def on_snapshot(self, task: SnapshotTask) -> None:
        """A snapshot task has run. KafkaStorageError when the disk fails."""
        if self._guard.closed or self._guard.failure is not None:
            task.discard()
            return
        with self._guard.io("writing a snapshot of the producers"):
            self._producers.settle(task)

    def aborted_transactions(self, offset: int, upper_bound: int) -> list[AbortedTransaction]:
        """The aborted transactions with records in [offset, upper_bound), by their markers.

        A read-committed reader drops their records. Raises KafkaStorageError.
        """
        self._guard.check()
        return self._reader.aborted_transactions(offset, upper_bound)

    def transactions(
        self,
        start: int,
        end: int = -1,
        *,
        high_watermark: int,
        named: Collection[TransactionName] | None = None,
        spans_max: int,
        headers_max: int,
        nowait: bool = False,
    ) -> tuple[list[TransactionSpan], int]:
        """The transactions with committed commit markers in [start, end), and the offset from which
        to ask on, -1 when these are all. `end` -1: all from `start` on, and those that are open.
        `named`: only these.

        The newest ones stand in memory. Before those, batches are read, and the answer has also
        what is open where it stops. Raises KafkaStorageError, and with `nowait` PagesCold.
        """
        self._guard.check()
        states = self._producers.now
        start = max(start, self._bounds.start)
        upper = high_watermark if end < 0 else min(end, high_watermark)
        known_from = min(states.committed.known_from, upper)
        if start < known_from:
            if named is None or any(map(states.may_have_ended, self._older(named, start))):
                found, reached = self._reader.transactions(
                    start, known_from, headers_max, nowait=nowait
                )
                if named is not None:
                    found = [span for span in found if span.name in named]
                return found, reached
            start = known_from
        found = []
        for span in states.committed.spans(start, upper):
            if named is None or span.name in named:
                if len(found) >= spans_max:
                    return found, found[-1].marker + 1
                found.append(span)
        if end < 0:
            found += [
                span._replace(marker=-1)
                for span in (
                    *states.committed.spans(high_watermark, self._bounds.end),
                    *states.open_transactions(),
                )
                if named is None or span.name in named
            ]
        return found, -1

    def _older(self, named: Collection[TransactionName], start: int) -> set[TransactionName]:
        """Those of these transactions that memory does not know to have ended behind `start`."""
        known = self._producers.now.committed.spans(start, self._bounds.end)
        return {*named}.difference(span.name for span in known)

    def replace_segments(self, bases: list[int], cleaned: Segment) -> list[str] | None:
        """Put a cleaned segment in the place of full ones; the paths that may go later. None when
        they are not all there any more.

        PassingStorageError before anything has changed; later on such an error leaves the rest to
        the log's next use. Any other takes the log offline, and the next start finishes what was
        begun.
        """
        self._guard.check()
        return self._state.replace_segments(bases, cleaned)

    # ---- epochs and syncs -----------------------------------------------------------------------

    def assign_epoch(self, epoch: LeaderEpoch, start_offset: Offset) -> None:
        """A new leader epoch begins at `start_offset`.

        Kept in memory until the next flush: the batches themselves tell it after a crash.
        KafkaStorageError.
        """
        self._guard.check_works()
        self.epochs.assign(epoch, start_offset)

    def flush(self, up_to: Offset | None = None) -> None:
        """Make the records below `up_to` (default: all) durable."""
        self._guard.check()
        self._durable.flush(self._bounds.end if up_to is None else min(up_to, self._bounds.end))

    def flush_task(self, wall_ms: int | None = None) -> FlushTask | None:
        """Syncs the segments that are full, on a thread of its own, and the active one too when
        `flush.ms` has passed; None when there is nothing to sync.
        """
        self._guard.check()
        return self._durable.task(wall_ms, self.config.flush_ms, self.generation)

    def may_acknowledge(self, end: Offset) -> bool:
        """Whether `flush.messages` lets records that end before `end` be acknowledged now: fewer
        than so many in a row are ever acknowledged without a sync.
        """
        limit = self._state.config.flush_messages  # by default more than any offset
        return end < limit or end - self._durable.synced < limit

    def sync_task(self) -> FlushTask:
        """Syncs all that is in the log, on a thread of its own; then `on_flushed`."""
        self._guard.check_works()
        return self._durable.task_for_all(self.generation)

    def on_flushed(self, task: FlushTask) -> None:
        """A flush task has run. A log that was cut or closed meanwhile gains nothing by it."""
        if not self._guard.closed:
            self._guard.check()
            self._durable.settle(task, self.generation)
