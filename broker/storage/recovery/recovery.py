"""Opening a log: what a partition directory holds, cut to what is whole. In passes:

1. the names: leftovers go, segments are put in order (`survey.py`);
2. segments that nothing can have happened to are trusted: all of them after a clean stop whose
   files are as it left them, those below the recovery point after a crash when the ends of their
   indexes lead to a whole last batch and the epoch checkpoint agrees with their first and last;
3. the producers' newest snapshot before the rest, and what trusted batches say after it;
4. the rest is read, with CRCs where the last stop was not a clean one, from the recovery point on:
   that makes indexes, epochs and producers' state anew, and finds gaps;
5. what was cut or is behind is written and synced.

The outcome of pass 4 decides:

- bytes that are no batch, and nothing valid behind them: a torn tail (zeros, garbage, a cut batch).
  It is cut; what was not zero is kept once in `<segment>.log.cut`;
- the same with valid batches behind: after a loss of power, behind the recovery point, pages may
  have been written out of order, and everything from there on is cut. Otherwise the middle of the
  log has rotted: nothing is cut, and the log opens with a hole there (`Segment.holes`);
- no batch and nothing behind it, in a log that was closed cleanly: CorruptSegment, nothing is cut;
- a segment without a batch inside the one before it: a roll that was given up left it, and the log
  went on in the one before. It is removed, be it empty or preallocated;
- a segment missing, overlapping or misnamed: CorruptSegment names the files.
"""

from __future__ import annotations

import logging
from typing import Final

from pylog.config import LONG_MAX
from pylog.errors import CorruptMessage
from pylog.model import LeaderEpoch, Offset
from pylog.records.batch import HEADER_SIZE, BatchHeader, crc_matches, read_header
from pylog_broker.config import TopicConfig
from pylog_broker.storage.checkpoints.checkpoints import EPOCH_CHECKPOINT, read_epochs
from pylog_broker.storage.checkpoints.leader_epochs import LeaderEpochCache
from pylog_broker.storage.errors import CorruptSegment, InvalidOffset
from pylog_broker.storage.files import NO_ROOM, Files, is_of_the_moment
from pylog_broker.storage.indexes.index_witness import IndexWitness
from pylog_broker.storage.indexes.time_index import TimeIndex
from pylog_broker.storage.indexes.txn_index import AbortedTransaction
from pylog_broker.storage.producers.producer_history import ProducerHistory, headers
from pylog_broker.storage.producers.producer_state import read_marker
from pylog_broker.storage.recovery.gaps import Gaps
from pylog_broker.storage.recovery.last_stop import LastStop, RecoveryReport
from pylog_broker.storage.recovery.survey import GAPS_ALLOWED, PARTITION_METADATA, survey
from pylog_broker.storage.segments.damage import DamageFinder, Hole, Place
from pylog_broker.storage.segments.scan import BadBatch, find_valid_batch, only_zeros, scan
from pylog_broker.storage.segments.segment import CUT_SUFFIX, Segment, place_of
from pylog_broker.storage.segments.segment_facts import read_facts

__all__ = ["GAPS_ALLOWED", "PARTITION_METADATA", "LastStop", "RecoveryReport", "SegmentLoader"]

_CUT_KEPT_MAX: Final = 16 * 1024 * 1024

logger = logging.getLogger(__name__)


class _Distrust(Exception):
    """Files that were to be trusted contradict each other: everything must be read."""


class SegmentLoader:
    """Loads the segments of one directory; made for one call of `load`.

    Afterwards `epochs` are those of the log, and the producers' history is at its end. A batch is
    taken into account only once the segment's scan has passed it, and a cut never takes back one
    that was.
    """

    def __init__(
        self,
        files: Files,
        directory: str,
        config: TopicConfig,
        last_stop: LastStop,
        producers: ProducerHistory,
        *,
        wall_ms: int,
        log_start_offset: int | None = None,
    ) -> None:
        self._files = files
        self._directory = directory
        self._config = config
        self._stop = last_stop
        self._producers = producers
        self._wall_ms = wall_ms
        self._log_start = log_start_offset
        gaps = Gaps(files, directory)
        gaps.load()
        self._gaps = config.compacted or last_stop.cleaned or gaps.allowed
        self._recovery_point = max(last_stop.recovery_point, gaps.synced_to)
        self.stored_epochs = read_epochs(files, f"{directory}/{EPOCH_CHECKPOINT}")
        self._stored = LeaderEpochCache(self.stored_epochs)
        self._epoch = -1
        self._reading = False
        self._trusts = True
        self._aborted: list[AbortedTransaction] = []
        self._abort_markers: set[tuple[int, int]] = set()
        self._epochs_agree = self._gaps
        self._truthful: set[int] = set()
        self.epochs = LeaderEpochCache()
        self.report = RecoveryReport()

    def load(self) -> list[Segment]:
        """The segments in order; none when the directory holds none."""
        found = survey(self._files, self._directory)
        self.report.warnings += found.warnings
        self._producers.find(found.names)
        try:
            return self._load(found.bases)
        except _Distrust as why:
            logger.warning("%s: %s; all of it is read", self._directory, why)
            self._trusts = self._reading = False
            self._epoch = -1
            self._epochs_agree = self._gaps
            self.report.segments_trusted = 0
            return self._load(found.bases)

    def _load(self, bases: list[int]) -> list[Segment]:
        segments: list[Segment] = []
        looked_at: list[Segment] = []
        try:
            for number, base in enumerate(bases):
                segment = self._segment(base)
                looked_at.append(segment)
                size = self._size(segment)
                if not segments and self._lost_its_beginning(base, bases[0]):
                    self._cut_segments(bases[number:])
                    break
                if segments and self._was_given_up(segments[-1], segment, size):
                    self._warn(f"{segment.log_path} holds nothing and is not of the log: removed")
                    segment.unlink()
                    continue
                if not self._follows(segments, segment, size, bases[number:]):
                    break
                emptied = self._gaps and not self._lost_power_behind(base)
                if not size and not emptied and number + 1 < len(bases):
                    self._warn(f"{segment.log_path} is empty: removed")
                    segment.unlink()
                    continue
                later = bases[number + 1 :]
                if self._is_trusted(segment, size, later):
                    segments.append(segment)
                    continue
                self._begin_reading(segments, base)
                segments.append(segment)
                if not self._scan(segment, size, later):
                    break
            self._begin_reading(segments, segments[-1].end_offset if segments else 0)
            self._producers.take_no_more()
            if self._stop.in_order and segments:
                self._producers.compare((s.base_offset for s in segments), segments[-1].end_offset)
            self._settle(segments)
        except BaseException:
            for segment in looked_at:
                segment.close()
            raise
        return segments

    def _segment(self, base: int) -> Segment:
        return Segment(
            self._files,
            self._directory,
            base,
            index_interval_bytes=self._config.index_interval_bytes,
            created_ms=self._wall_ms,
        )

    # ---- what is not read -----------------------------------------------------------------------

    def _is_trusted(self, segment: Segment, size: int, later: list[int]) -> bool:
        if self._reading or not self._trusts:
            return False
        if self._stop.facts is not None:
            facts = self._stop.facts.get(segment.base_offset)
            if facts is None or facts.size != size:
                raise _Distrust(f"{segment.log_path} is not as the clean stop left it")
        else:
            verify_from = self._stop.verify_from
            if verify_from is None or not later or later[0] > verify_from:
                return False
            if not size:  # nothing is left of it (compaction)
                facts = segment.facts
            else:
                found = read_facts(self._files, segment, size)
                if found is None:
                    return False
                facts, first, last = found
                if facts.end_offset > later[0] or (facts.end_offset < later[0] and not self._gaps):
                    return False
                self._compare_epochs(first, last)
                self._epoch = last.partition_leader_epoch
        segment.adopt(facts)
        self.report.segments_trusted += 1
        return True

    def _compare_epochs(self, *headers_found: BatchHeader) -> None:
        for header in headers_found:
            epoch = self._stored_epoch(header)
            if epoch != header.partition_leader_epoch and header.partition_leader_epoch >= 0:
                raise _Distrust(
                    f"{EPOCH_CHECKPOINT} has epoch {epoch} for offset {header.last_offset}, the "
                    f"log has {header.partition_leader_epoch}"
                )

    def _stored_epoch(self, header: BatchHeader) -> int:
        # the checkpoint may start later than the log, at the log start offset
        return self._stored.epoch_at(Offset(max(header.last_offset, self._log_start or 0)))

    def _begin_reading(self, trusted: list[Segment], offset: int) -> None:
        """From `offset` on batches are read: take what is known before it."""
        if self._reading:
            return
        self._reading = True
        self.epochs = LeaderEpochCache(self.stored_epochs if trusted else ())
        self.epochs.truncate_from_end(Offset(offset))
        bases = (segment.base_offset for segment in trusted)
        used = self._producers.load(bases, offset, keeps_later=self._stop.in_order)
        try:
            for header, marker in headers(self._files, trusted, used):
                self._producers.apply(header, marker)
        except BadBatch as bad:
            raise _Distrust(f"a batch at position {bad.position}: {bad.reason}") from bad

    # ---- how segments follow each other ---------------------------------------------------------

    def _was_given_up(self, before: Segment, segment: Segment, size: int) -> bool:
        """Whether a roll made it and was refused after that. The log went on in the segment before:
        to an offset behind where this one begins, or to an orderly stop that knows nothing of it.
        """
        facts = self._stop.facts
        is_foreign = segment.base_offset < before.end_offset or (
            facts is not None and segment.base_offset not in facts
        )
        return is_foreign and self._holds_nothing(segment, size)

    def _holds_nothing(self, segment: Segment, size: int) -> bool:
        """Whether there was never a batch in a file: it is empty, or as it was preallocated."""
        return not size or only_zeros(self._files, segment.handle(), 0, size)

    def _follows(
        self,
        segments: list[Segment],
        segment: Segment,
        size: int,
        rest: list[int],
    ) -> bool:
        """Whether `segment` continues the log; False when it and the rest were cut away."""
        if not segments:
            return True
        before = segments[-1]
        if segment.base_offset < before.end_offset and size:
            raise CorruptSegment(
                f"{segment.log_path} begins inside {before.log_path}, which ends at offset "
                f"{before.end_offset}; move one of them away"
            )
        if segment.base_offset == before.end_offset:
            return True
        if self._gaps and not self._lost_power_behind(before.end_offset):
            # After a loss of power this is no gap: the end of the one before did not get there.
            self.report.has_gaps = True
            return True
        if not self._any_data(rest):
            self._cut_segments(rest)  # a roll just before a crash that took the old tail
            return False
        if not size:
            return True  # an empty one in the middle: the caller removes it
        if self._lost_power_behind(before.end_offset):
            self._cut_segments(rest)
            return False
        raise CorruptSegment(
            f"a segment is missing between {before.log_path}, which ends at offset "
            f"{before.end_offset}, and {segment.log_path}"
        )

    def _size(self, segment: Segment) -> int:
        status = self._files.stat(segment.log_path)
        return status.size if status is not None else 0

    def _lost_its_beginning(self, base: int, first: int) -> bool:
        """Whether the log should begin before `base`, and a loss of power took those segments.

        The log start is durable before segments are deleted, so they did not go that way. The
        segments that follow must not pass for a log that begins later: its leader would make all
        replicas drop the records before. Where nobody knows the start, it is the `first` segment's
        name.
        """
        start = first if self._log_start is None else self._log_start
        return start < base and self._lost_power_behind(start)

    def _any_data(self, bases: list[int]) -> bool:
        """Whether any of these segments may hold a batch."""
        for base in bases:
            segment = self._segment(base)
            try:
                if not self._holds_nothing(segment, self._size(segment)):
                    return True
            finally:
                segment.close()
        return False

    # ---- one segment ----------------------------------------------------------------------------

    def _scan(self, segment: Segment, size: int, later: list[int]) -> bool:
        """Read the segment; False when its tail, and with it all later segments, was cut."""
        verify_from = self._stop.verify_from
        verify = verify_from is not None and (not later or later[0] > verify_from)
        if self.report.batches or self.report.segments_trusted:
            self._producers.take(segment.base_offset)
        self._aborted.clear()
        self._abort_markers.clear()
        witness = segment.indexes.witness(size) if self._stop.in_order else None
        position = 0
        while position < size:
            try:
                next_base = later[0] if later else None
                self._scan_from(segment, position, size, verify, witness, next_base)
                break
            except BadBatch as bad:
                followed = (
                    later and later[0] == segment.end_offset and self._stop.verify_from is not None
                )
                if followed and only_zeros(self._files, segment.handle(), bad.position, size):
                    # It was preallocated, and a loss of power undid the trim of the roll.
                    self._cut_tail(segment, bad, size)
                    self._settle_aborted(segment)
                    return True
                hole = self._hole(segment, bad, size, later)
                if hole is None:
                    self._cut_tail(segment, bad, size)
                    self._cut_segments(later)
                    self._settle_aborted(segment)
                    return False
                segment.step_over(hole)
                position, witness = hole.end_position, None
                self._warn(
                    f"{segment.log_path} is damaged at position {hole.position}: {hole.reason}; "
                    f"what is at offsets {hole.offset} to {hole.end_offset - 1} cannot be read, "
                    "the rest can"
                )
        self._settle_aborted(segment)
        if segment.holes and later:
            self._keep_age(segment)
        if witness is not None and witness.agrees(len(segment.offsets), compacted=self._gaps):
            self._truthful.add(segment.base_offset)
        return True

    def _keep_age(self, segment: Segment) -> None:
        """A segment is not older without its newest batch: retention would take it too early."""
        try:
            data = self._files.read_all(segment.time_index_path)
            times = TimeIndex.decode(segment.base_offset, data, segment.end_offset)
        except (OSError, InvalidOffset):
            return
        timestamp, offset = times.last
        if segment.max_timestamp < timestamp <= self._wall_ms:
            segment.max_timestamp, segment.offset_of_max_timestamp = timestamp, offset

    def _scan_from(
        self,
        segment: Segment,
        start: int,
        size: int,
        verify: bool,
        witness: IndexWitness | None,
        next_base: int | None,
    ) -> None:
        """Take every batch from a position on, once it is clear that the one behind it follows.
        BadBatch.
        """
        waiting: tuple[int, BatchHeader] | None = None
        try:
            for position, header in scan(self._files, segment.handle(), start, size, verify=verify):
                if waiting is not None:
                    gap = header.base_offset - waiting[1].next_offset
                    if (
                        gap < 0
                        or (gap and not self._gaps)
                        or header.partition_leader_epoch < waiting[1].partition_leader_epoch
                    ):
                        self._refuse_leap(segment, *waiting, header, verify)
                    self._accept(segment, *waiting, witness)
                waiting = (position, header)
        except BadBatch as bad:
            if waiting is not None and waiting[0] < bad.position:
                after = self._sound_header(segment, bad.position)
                self._refuse_leap(segment, *waiting, after, verify)
                self._accept(segment, *waiting, witness)
            raise
        if waiting is not None:
            if next_base is not None:
                self._refuse_overhang(segment, *waiting, next_base)
            self._accept(segment, *waiting, witness)

    def _refuse_overhang(
        self, segment: Segment, position: int, header: BatchHeader, next_base: int
    ) -> None:
        """The same for the last batch of a segment."""
        end = header.next_offset
        leaps = header.base_offset > segment.end_offset and end > next_base
        if leaps or (end != next_base and not self._is_sound(segment, position, header)):
            raise BadBatch(position, f"it ends at {end} where {next_base} begins")
        if header.partition_leader_epoch > self._epoch:
            following = self._segment(next_base)
            if self._size(following):
                after = self._sound_header(following, 0)
                following.close()
                self._refuse_leap(segment, position, header, after, True)

    def _accept(
        self, segment: Segment, position: int, header: BatchHeader, witness: IndexWitness | None
    ) -> None:
        self._check_place(segment, position, header)
        segment.account(place_of(header))
        if witness is not None:
            witness.see(position, header)
        self._take(segment, position, header)
        self.report.batches += 1

    def _refuse_leap(
        self,
        segment: Segment,
        position: int,
        header: BatchHeader,
        after: BatchHeader | None,
        verified: bool,
    ) -> None:
        """BadBatch if what is wrong at the next batch, `after`, is this one's fault: it leaps
        beyond the next one, which fits where it stands itself, or it does not match its CRC.
        """
        if not verified and not self._is_sound(segment, position, header):
            raise BadBatch(position, "the batch's CRC does not match its bytes")
        if after is None:
            return
        if segment.end_offset < after.base_offset <= header.last_offset:
            raise BadBatch(
                position, f"offset {header.base_offset} where {segment.end_offset} should follow"
            )
        epoch = header.partition_leader_epoch
        if self._epoch <= after.partition_leader_epoch < epoch:
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

    def _take(self, segment: Segment, position: int, header: BatchHeader) -> None:
        """A batch that stays."""
        if self._epochs_agree:
            self._epochs_agree = header.partition_leader_epoch == self._stored_epoch(header)
        if header.partition_leader_epoch > self.epochs.latest:
            self.epochs.assign(
                LeaderEpoch(header.partition_leader_epoch), Offset(header.base_offset)
            )
        if header.producer_id < 0:
            return
        marker = None
        if header.is_control:
            marker = read_marker(self._files.pread(segment.handle(), header.size, position), header)
            if marker is not None and marker.aborts:
                self._abort_markers.add((header.producer_id, header.last_offset))
        aborted = self._producers.apply(header, marker)
        if aborted is not None:
            self._aborted.append(aborted)

    def _settle_aborted(self, segment: Segment) -> None:
        """Compare the segment's index of aborted transactions with what its markers said."""
        try:
            known = segment.txn_index.entries()
        except (OSError, InvalidOffset) as error:
            if is_of_the_moment(error):
                raise
            known = None
        if segment.holes and known is not None:
            return  # a marker may be in them
        if known != self._aborted and not (self._gaps and self._agrees(known)):
            segment.txn_index.replace(self._aborted)
            self.report.indexes_rebuilt += 1

    def _agrees(self, known: list[AbortedTransaction] | None) -> bool:
        """Whether an index knows of the same markers, and of some whose batches were cleaned."""
        firsts = {(entry.producer_id, entry.last_offset): entry[1] for entry in known or ()}
        return firsts.keys() <= self._abort_markers and all(
            firsts.get((entry.producer_id, entry.last_offset), LONG_MAX) <= entry.first_offset
            for entry in self._aborted
        )

    def _check_place(self, segment: Segment, position: int, header: BatchHeader) -> None:
        """Offset and epoch stand outside the CRC; what came before tells what they may be."""
        expected = segment.end_offset
        if (
            header.base_offset < expected
            or (header.base_offset > expected and not self._gaps)
            or not segment.takes_offset(header.last_offset)
        ):
            raise BadBatch(position, f"offset {header.base_offset} where {expected} should follow")
        if header.base_offset > expected:
            self.report.has_gaps = True
        if header.partition_leader_epoch < self._epoch:
            raise BadBatch(
                position, f"epoch {header.partition_leader_epoch} after epoch {self._epoch}"
            )
        self._epoch = header.partition_leader_epoch

    def _hole(self, segment: Segment, bad: BadBatch, size: int, later: list[int]) -> Hole | None:
        """The hole, which must not be cut away; None for a tail that must. CorruptSegment
        where the log was closed cleanly and nothing tells where it ends.
        """
        is_last = not self._any_data(later)
        if self._lost_power_behind(segment.end_offset):
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
        if self._stop.verify_from is None:
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

    def _lost_power_behind(self, offset: int) -> bool:
        return (
            self._stop.verify_from is not None
            and not self._stop.memory_survived
            and offset >= self._recovery_point
        )

    def _cut_tail(self, segment: Segment, bad: BadBatch, size: int) -> None:
        handle = segment.handle()
        removed = size - bad.position
        tail = self._files.pread(handle, min(removed, _CUT_KEPT_MAX), bad.position)
        kept = segment.log_path + CUT_SUFFIX
        aside = ""
        if tail.strip(b"\0") and not self._files.exists(kept):
            aside = self._keep(kept, tail)
        self._files.truncate(handle, bad.position)
        self.report.bytes_cut += removed
        self._warn(
            f"{segment.log_path}: cut the last {removed} bytes from position {bad.position} "
            f"({bad.reason}){aside}"
        )

    def _keep(self, path: str, tail: bytes) -> str:
        """Put what is cut aside, for somebody to look at, if there is room; what to say of it."""
        try:
            self._files.write_atomic(path, tail)
        except OSError as error:
            if error.errno not in NO_ROOM:
                raise
            self._files.unlink(f"{path}.tmp")
            return "; there is no room to keep them"
        return f"; they are kept in {path}"

    def _cut_segments(self, bases: list[int]) -> None:
        """Set whole segments aside that follow a cut; those without a batch are removed."""
        for base in reversed(bases):
            segment = self._segment(base)
            size = self._size(segment)
            if not self._holds_nothing(segment, size):
                self.report.segments_cut += 1
                self.report.bytes_cut += size
                kept = segment.log_path + CUT_SUFFIX
                self._warn(f"{segment.log_path} follows a cut: its {size} bytes go to {kept}")
                self._files.rename(segment.log_path, kept)
            segment.unlink()

    # ---- the end -------------------------------------------------------------------------------

    def _settle(self, segments: list[Segment]) -> None:
        """Sync what was changed, bring the index files in order, keep few handles open."""
        if not segments:
            return
        end = segments[-1].end_offset
        recovered = self._stop.verify_from is not None
        if recovered and end < self._recovery_point:
            self.report.lost_durable = True
            self._warn(
                f"{self._directory} ends at offset {end}; up to {self._recovery_point} it had "
                "been synced, so this replica has lost records"
            )
        if recovered and (self.report.bytes_cut or not self._stop.memory_survived):
            for segment in segments:
                if segment.end_offset > self._stop.recovery_point or segment is segments[-1]:
                    segment.fsync()
            self._files.fsync_dir(self._directory)
        self._add_last_epoch(end)
        for segment in segments[self.report.segments_trusted :]:
            if segment is not segments[-1]:
                segment.note_sealed()
            if segment.base_offset in self._truthful:
                segment.indexes.load(segment.size, segment.end_offset)
            elif not segment.index_files_match():
                segment.write_indexes(behind_only=False)
                self.report.indexes_rebuilt += 1
        for segment in segments[:-1]:
            segment.rest()
        segments[-1].activate()

    def _add_last_epoch(self, end: int) -> None:
        """The epochs that the checkpoint knows and no batch can show: an epoch that began at the
        log's end and wrote nothing, and epochs whose first records the cleaner took.
        """
        if self._epochs_agree and self.stored_epochs:
            self.epochs = LeaderEpochCache(self.stored_epochs)
            self.epochs.truncate_from_end(Offset(end))
        if self.stored_epochs:
            epoch, start_offset = self.stored_epochs[-1]
            if epoch > self.epochs.latest and start_offset == end:
                self.epochs.assign(epoch, start_offset)

    def _warn(self, message: str) -> None:
        self.report.warnings.append(message)
        logger.warning("%s", message)
