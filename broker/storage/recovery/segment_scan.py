"""The fourth pass of a start: the segments that are not trusted are read, batch by batch.

That makes indexes, epochs and producers' state anew, and finds gaps. A batch is taken into account
only once it is clear that the one behind it follows, and a cut never takes back one that was.
`recovery` says what is cut and what is stepped over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from pylog.config import LONG_MAX
from pylog.errors import CorruptMessage
from pylog.model import LeaderEpoch, Offset
from pylog.records.batch import HEADER_SIZE, BatchHeader, crc_matches, read_header
from pylog_broker.storage.checkpoints.leader_epochs import LeaderEpochCache
from pylog_broker.storage.errors import CorruptSegment, InvalidOffset
from pylog_broker.storage.files import NO_ROOM, is_of_the_moment
from pylog_broker.storage.indexes.time_index import TimeIndex
from pylog_broker.storage.indexes.txn_index import AbortedTransaction
from pylog_broker.storage.producers.producer_history import ProducerHistory
from pylog_broker.storage.producers.producer_state import read_marker
from pylog_broker.storage.recovery.last_stop import Knowledge, RecoveryReport, warned
from pylog_broker.storage.recovery.segment_files import SegmentFiles
from pylog_broker.storage.recovery.trust import REMOVED, Before, Step, TrustPlan, next_step
from pylog_broker.storage.segments.damage import DamageFinder, Hole, Place
from pylog_broker.storage.segments.scan import BadBatch, find_valid_batch, only_zeros, scan
from pylog_broker.storage.segments.segment import Segment, place_of


@dataclass(frozen=True, slots=True)
class ReadSegment:
    """One segment that was read. `indexes_hold`: its index files tell the truth as they are.
    `ends_log`: its tail was cut, and all later segments with it. `unindexed`: what its index of
    aborted transactions should say, and does not, for want of room.
    """

    segment: Segment
    indexes_hold: bool
    ends_log: bool
    report: RecoveryReport
    unindexed: tuple[AbortedTransaction, ...] = ()


@dataclass(frozen=True, slots=True)
class Scanned:
    """All segments that were read, in order. `epochs` are those of the log up to its end;
    `epochs_agree`: each batch that was read has the epoch that the checkpoint says, in a log with
    gaps.
    """

    read: tuple[ReadSegment, ...]
    epochs: LeaderEpochCache
    epochs_agree: bool
    report: RecoveryReport


class _End(Enum):
    """How the reading of a segment ended."""

    WHOLE = "to its end, maybe over holes"
    TRIMMED = "its preallocated zeros were cut off, and the log goes on in the next segment"
    CUT = "its tail was cut, and all later segments with it"


@dataclass(slots=True)
class _SoFar:
    """The sum of the batches up to here. `epoch` is that of the last one, -1 where nothing tells
    it.
    """

    epochs: LeaderEpochCache
    producers: ProducerHistory
    epoch: int
    epochs_agree: bool


def scan_segments(
    shelf: SegmentFiles,
    known: Knowledge,
    plan: TrustPlan,
    trusted: Sequence[Segment],
    epochs: LeaderEpochCache,
    producers: ProducerHistory,
) -> Scanned:
    """Read what the plan does not trust. `epochs` and `producers` are those of the trusted part,
    and are at the log's end afterwards. CorruptSegment, OSError.
    """
    so_far = _SoFar(epochs, producers, plan.epoch, known.gaps_allowed)
    read: list[ReadSegment] = []
    told: list[RecoveryReport] = []
    batches = 0
    last = trusted[-1] if trusted else None
    for number, base in enumerate(plan.to_read):
        later = plan.to_read[number + 1 :]
        before = None if last is None else Before(last.base_offset, last.end_offset)
        step = next_step(known, shelf.look, before, base, later)
        if step in REMOVED:
            told.append(shelf.remove(base, step))
            continue
        if step is Step.CUT:
            told += shelf.cut((base, *later))
            break
        if step is Step.FOLLOWS_A_GAP:
            told.append(RecoveryReport(has_gaps=True))
        if batches or trusted:
            producers.take(base)
        last = shelf.segment(base)
        outcome = SegmentScan(shelf, known, last, later, so_far).read()
        read.append(outcome)
        told.append(outcome.report)
        batches += outcome.report.batches
        if outcome.ends_log:
            break
    producers.take_no_more()
    if known.stop.in_order and last is not None:
        bases = [segment.base_offset for segment in (*trusted, *(each.segment for each in read))]
        producers.compare(bases, last.end_offset)
    return Scanned(tuple(read), so_far.epochs, so_far.epochs_agree, RecoveryReport.total(told))


class SegmentScan:
    """Reads one segment; made for one call of `read`."""

    def __init__(
        self,
        shelf: SegmentFiles,
        known: Knowledge,
        segment: Segment,
        later: Sequence[int],
        so_far: _SoFar,
    ) -> None:
        """`later`: the segments behind it."""
        self._shelf = shelf
        self._files = shelf.files
        self._known = known
        self._segment = segment
        self._size = shelf.size(segment.base_offset)
        self._later = later
        self._so_far = so_far
        verify_from = known.stop.verify_from
        self._verify = verify_from is not None and (not later or later[0] > verify_from)
        self._witness = segment.indexes.witness(self._size) if known.stop.in_order else None
        self._aborted: list[AbortedTransaction] = []
        self._abort_markers: set[tuple[int, int]] = set()
        self._unindexed: tuple[AbortedTransaction, ...] = ()
        self._batches = 0
        self._has_gaps = False
        self._told: list[RecoveryReport] = []

    def read(self) -> ReadSegment:
        """Take its batches up, and cut its tail or step over what has rotted."""
        segment = self._segment
        end = self._read_batches()
        self._settle_aborted()
        indexes_hold = False
        if end is _End.WHOLE:
            if segment.holes and self._later:
                self._keep_age()
            indexes_hold = self._witness is not None and self._witness.agrees(
                len(segment.offsets), compacted=self._known.gaps_allowed
            )
        report = RecoveryReport(self._batches, has_gaps=self._has_gaps)
        if self._told:
            report = RecoveryReport.total([report, *self._told])
        return ReadSegment(segment, indexes_hold, end is _End.CUT, report, self._unindexed)

    def _read_batches(self) -> _End:
        segment, size = self._segment, self._size
        position = 0
        while position < size:
            try:
                self._scan_from(position)
                break
            except BadBatch as bad:
                if self._is_untrimmed(bad):
                    # It was preallocated, and a loss of power undid the trim of the roll.
                    self._told.append(self._shelf.cut_tail(segment, bad, size))
                    return _End.TRIMMED
                hole = self._hole(bad)
                if hole is None:
                    self._told.append(self._shelf.cut_tail(segment, bad, size))
                    self._told += self._shelf.cut(self._later)
                    return _End.CUT
                segment.step_over(hole)
                position, self._witness = hole.end_position, None
                message = (
                    f"{segment.log_path} is damaged at position {hole.position}: {hole.reason}; "
                    f"what is at offsets {hole.offset} to {hole.end_offset - 1} cannot be read, "
                    "the rest can"
                )
                self._told.append(warned(message))
        return _End.WHOLE

    def _is_untrimmed(self, bad: BadBatch) -> bool:
        """Whether the log goes on in the next segment, and this one has only zeros behind."""
        followed = (
            self._later
            and self._later[0] == self._segment.end_offset
            and self._known.stop.verify_from is not None
        )
        return bool(followed) and only_zeros(
            self._files, self._segment.handle(), bad.position, self._size
        )

    def _keep_age(self) -> None:
        """A segment is not older without its newest batch: retention would take it too early."""
        segment = self._segment
        try:
            data = self._files.read_all(segment.time_index_path)
            times = TimeIndex.decode(segment.base_offset, data, segment.end_offset)
        except (OSError, InvalidOffset):
            return
        timestamp, offset = times.last
        if segment.max_timestamp < timestamp <= self._shelf.wall_ms:
            segment.max_timestamp, segment.offset_of_max_timestamp = timestamp, offset

    # ---- batch by batch -------------------------------------------------------------------------

    def _scan_from(self, start: int) -> None:
        """Take every batch from a position on, once it is clear that the one behind it follows.
        BadBatch.
        """
        handle, size, verify = self._segment.handle(), self._size, self._verify
        gaps_allowed = self._known.gaps_allowed
        waiting: tuple[int, BatchHeader] | None = None
        try:
            for position, header in scan(self._files, handle, start, size, verify=verify):
                if waiting is not None:
                    gap = header.base_offset - waiting[1].next_offset
                    if (
                        gap < 0
                        or (gap and not gaps_allowed)
                        or header.partition_leader_epoch < waiting[1].partition_leader_epoch
                    ):
                        self._refuse_leap(*waiting, header, verify)
                    self._accept(*waiting)
                waiting = (position, header)
        except BadBatch as bad:
            if waiting is not None and waiting[0] < bad.position:
                after = self._sound_header(self._segment, bad.position)
                self._refuse_leap(*waiting, after, verify)
                self._accept(*waiting)
            raise
        if waiting is not None:
            if self._later:
                self._refuse_overhang(*waiting, self._later[0])
            self._accept(*waiting)

    def _refuse_overhang(self, position: int, header: BatchHeader, next_base: int) -> None:
        """The same for the last batch of a segment."""
        segment = self._segment
        end = header.next_offset
        leaps = header.base_offset > segment.end_offset and end > next_base
        if leaps or (end != next_base and not self._is_sound(segment, position, header)):
            raise BadBatch(position, f"it ends at {end} where {next_base} begins")
        if header.partition_leader_epoch > self._so_far.epoch:
            with self._shelf.glance(next_base) as (following, size):
                if not size:
                    return
                after = self._sound_header(following, 0)
            self._refuse_leap(position, header, after, True)

    def _refuse_leap(
        self, position: int, header: BatchHeader, after: BatchHeader | None, verified: bool
    ) -> None:
        """BadBatch if what is wrong at the next batch, `after`, is this one's fault: it leaps
        beyond the next one, which fits where it stands itself, or it does not match its CRC.
        """
        segment = self._segment
        if not verified and not self._is_sound(segment, position, header):
            raise BadBatch(position, "the batch's CRC does not match its bytes")
        if after is None:
            return
        if segment.end_offset < after.base_offset <= header.last_offset:
            raise BadBatch(
                position, f"offset {header.base_offset} where {segment.end_offset} should follow"
            )
        epoch = header.partition_leader_epoch
        if self._so_far.epoch <= after.partition_leader_epoch < epoch:
            raise BadBatch(position, f"epoch {epoch} before {after.partition_leader_epoch}")

    def _is_sound(self, segment: Segment, position: int, header: BatchHeader) -> bool:
        batch = self._files.pread(segment.handle(), header.size, position)
        return crc_matches(batch, 0, header)

    def _sound_header(self, segment: Segment, position: int) -> BatchHeader | None:
        """That of a batch that matches its CRC. Others, a torn tail say, accuse nobody."""
        try:
            header = read_header(self._files.pread(segment.handle(), HEADER_SIZE, position))
        except CorruptMessage:
            return None
        return header if self._is_sound(segment, position, header) else None

    def _accept(self, position: int, header: BatchHeader) -> None:
        """Take a batch up that stays. BadBatch where it does not follow what came before."""
        self._check_place(position, header)
        self._segment.account(place_of(header))
        if self._witness is not None:
            self._witness.see(position, header)
        self._take(position, header)
        self._batches += 1

    def _check_place(self, position: int, header: BatchHeader) -> None:
        """Offset and epoch stand outside the CRC; what came before tells what they may be."""
        expected, so_far = self._segment.end_offset, self._so_far
        if (
            header.base_offset < expected
            or (header.base_offset > expected and not self._known.gaps_allowed)
            or not self._segment.takes_offset(header.last_offset)
        ):
            raise BadBatch(position, f"offset {header.base_offset} where {expected} should follow")
        if header.base_offset > expected:
            self._has_gaps = True
        if header.partition_leader_epoch < so_far.epoch:
            raise BadBatch(
                position, f"epoch {header.partition_leader_epoch} after epoch {so_far.epoch}"
            )
        so_far.epoch = header.partition_leader_epoch

    def _take(self, position: int, header: BatchHeader) -> None:
        """Take up what a batch says of epochs, producers and transactions."""
        so_far = self._so_far
        if so_far.epochs_agree:
            stored = self._known.stored_epoch(header)
            so_far.epochs_agree = header.partition_leader_epoch == stored
        if header.partition_leader_epoch > so_far.epochs.latest:
            so_far.epochs.assign(
                LeaderEpoch(header.partition_leader_epoch), Offset(header.base_offset)
            )
        if header.producer_id < 0:
            return
        marker = None
        if header.is_control:
            batch = self._files.pread(self._segment.handle(), header.size, position)
            marker = read_marker(batch, header)
            if marker is not None and marker.aborts:
                self._abort_markers.add((header.producer_id, header.last_offset))
        aborted = so_far.producers.apply(header, marker)
        if aborted is not None:
            self._aborted.append(aborted)

    # ---- the index of aborted transactions ------------------------------------------------------

    def _settle_aborted(self) -> None:
        """Compare the segment's index of aborted transactions with what its markers said."""
        segment = self._segment
        try:
            known = segment.txn_index.entries()
        except (OSError, InvalidOffset) as error:
            if is_of_the_moment(error):
                raise
            known = None
        if segment.holes and known is not None:
            return  # a marker may be in them
        if known != self._aborted and not (self._known.gaps_allowed and self._agrees(known)):
            try:
                segment.txn_index.replace(self._aborted)
            except OSError as error:
                if error.errno not in NO_ROOM:
                    raise
                self._unindexed = tuple(self._aborted)
            self._told.append(RecoveryReport(indexes_rebuilt=1))

    def _agrees(self, known: list[AbortedTransaction] | None) -> bool:
        """Whether an index knows of the same markers, and of some whose batches were cleaned."""
        firsts = {(entry.producer_id, entry.last_offset): entry[1] for entry in known or ()}
        return firsts.keys() <= self._abort_markers and all(
            firsts.get((entry.producer_id, entry.last_offset), LONG_MAX) <= entry.first_offset
            for entry in self._aborted
        )

    # ---- where the bytes are no batch -----------------------------------------------------------

    def _hole(self, bad: BadBatch) -> Hole | None:
        """The hole, which must not be cut away; None for a tail that must. CorruptSegment where
        the log was closed cleanly and nothing tells where it ends.
        """
        segment, size, later = self._segment, self._size, self._later
        is_last = not self._shelf.any_data(later)
        if self._known.lost_power_behind(segment.end_offset):
            return None
        end_offset = None if is_last else later[0]
        finder = DamageFinder(
            self._files,
            segment.handle(),
            size=size,
            end_offset=end_offset,
            entries=segment.entries_near(bad.position, size),
        )
        hole = finder.hole(Place(bad.position, segment.end_offset), bad.reason)
        if hole.end_position < size or end_offset is not None:
            return hole
        if self._known.stop.verify_from is None:
            raise CorruptSegment(
                f"{segment.log_path} is damaged at position {bad.position}: {bad.reason}. It was "
                "closed cleanly, so nothing is cut"
            )
        follows = find_valid_batch(
            self._files, segment.handle(), bad.position + 1, size, above_offset=segment.end_offset
        )
        if follows is None:
            return None
        header = read_header(self._files.pread(segment.handle(), HEADER_SIZE, follows))
        return Hole(bad.position, follows, segment.end_offset, header.base_offset, bad.reason)
