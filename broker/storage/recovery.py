"""Opening a log: what a partition directory holds, cut to what is whole.

Every header is read once at each start: that rebuilds the indexes, the epochs and the producers'
state, and finds gaps. CRCs are checked too where the last stop was not a clean one, from the
recovery point on. What is found decides:

- bytes that are no batch, and nothing valid behind them: a torn tail (zeros, garbage, a cut batch).
  It is cut; what was not zero is kept once in `<segment>.log.cut`;
- the same with valid batches behind: after a loss of power, behind the recovery point, pages may
  have been written out of order, and everything from there on is cut. Otherwise the middle of the
  log has rotted: CorruptSegment, nothing is cut, the replica is offline;
- a segment missing, overlapping or misnamed: CorruptSegment names the files.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from broker.config import TopicConfig
from broker.storage.checkpoints import EPOCH_CHECKPOINT
from broker.storage.errors import CorruptSegment
from broker.storage.files import Files
from broker.storage.scan import BadBatch, find_valid_batch, scan
from broker.storage.segment import (
    CUT_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    BatchPlace,
    Segment,
)
from pylog.records.batch import BatchHeader

PARTITION_METADATA: Final = "partition.metadata"
GAPS_ALLOWED: Final = "gaps-allowed"
"""A file of no content in a log that may have gaps between its batches: compaction left them, here
or on the leader that this replica copied from."""

_LEFTOVERS: Final = (DELETED_SUFFIX, ".tmp", ".cleaned")
_INDEXES: Final = (INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, SNAPSHOT_SUFFIX)
_SEGMENT_NAME: Final = re.compile(r"[0-9]{20}")
_KNOWN: Final = frozenset({EPOCH_CHECKPOINT, PARTITION_METADATA, GAPS_ALLOWED})
_CUT_KEPT_MAX: Final = 16 * 1024 * 1024

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LastStop:
    """How the log was left. `verify_from`: batches that end behind it have their CRCs checked.

    `memory_survived`: the machine has not lost power since (same boot id), so whatever was written
    is there and only the last batch can be torn. `recovery_point`: everything below was synced.
    """

    recovery_point: int = 0
    verify_from: int | None = 0
    memory_survived: bool = True

    @classmethod
    def clean(cls) -> LastStop:
        """An orderly stop: nothing to check."""
        return cls(recovery_point=2**63 - 1, verify_from=None)


@dataclass(slots=True)
class RecoveryReport:
    """What opening found and did."""

    batches: int = 0
    bytes_cut: int = 0
    segments_cut: int = 0
    indexes_rebuilt: int = 0
    lost_durable: bool = False
    warnings: list[str] = field(default_factory=list)


class SegmentLoader:
    """Loads the segments of one directory; made for one call of `load`.

    `on_batch` sees every batch that stays, in order: a batch is shown only once the segment's scan
    has passed it, and a cut never takes back one that was shown.
    """

    def __init__(
        self,
        files: Files,
        directory: str,
        config: TopicConfig,
        last_stop: LastStop,
        *,
        wall_ms: int,
        log_start_offset: int | None = None,
        on_batch: Callable[[BatchHeader], None],
        on_segment: Callable[[int], None],
    ) -> None:
        self._files = files
        self._directory = directory
        self._config = config
        self._stop = last_stop
        self._wall_ms = wall_ms
        self._log_start = log_start_offset
        self._on_batch = on_batch
        self._on_segment = on_segment
        self._gaps = config.compacted or files.exists(f"{directory}/{GAPS_ALLOWED}")
        self._epoch = -1
        self.report = RecoveryReport()

    def load(self) -> list[Segment]:
        """The segments in order; none when the directory holds none."""
        bases = self._bases()
        segments: list[Segment] = []
        try:
            for number, base in enumerate(bases):
                segment = self._segment(base)
                size = self._size(segment)
                if not segments and self._lost_its_beginning(base):
                    self._cut_segments(bases[number:])
                    break
                if not self._follows(segments, segment, size, bases[number:]):
                    break
                last = number + 1 == len(bases)
                if not size and not last:
                    self._warn(f"{segment.log_path} is empty: removed")
                    segment.unlink()
                    continue
                segments.append(segment)
                self._on_segment(base)
                if not self._scan(segment, size, bases[number + 1 :]):
                    break
            self._settle(segments)
        except BaseException:
            for segment in segments:
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

    # ---- the directory -------------------------------------------------------------------------

    def _bases(self) -> list[int]:
        names = self._files.listdir(self._directory)
        bases = []
        foreign = []
        for name in names:
            path = f"{self._directory}/{name}"
            stem, dot, extension = name.partition(".")
            suffix = dot + extension
            if name.endswith(_LEFTOVERS):
                self._files.unlink(path)
            elif suffix == LOG_SUFFIX:
                if not _SEGMENT_NAME.fullmatch(stem):
                    raise CorruptSegment(f"{path}: a segment's name must be 20 digits")
                status = self._files.stat(path)
                if status is None or status.kind != "file":
                    raise CorruptSegment(f"{path} is not a file; move it away")
                bases.append(int(stem))
            elif suffix in _INDEXES and _SEGMENT_NAME.fullmatch(stem):
                if f"{stem}{LOG_SUFFIX}" not in names:
                    self._warn(f"{path} has no segment: removed")
                    self._files.unlink(path)
            elif name not in _KNOWN and not name.endswith(CUT_SUFFIX):
                foreign.append(name)
        if foreign:
            self._warn(f"{self._directory} holds what is not pylog's, ignored: {foreign[:10]}")
        return bases

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
        if segment.base_offset == before.end_offset or (self._gaps and size):
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

    def _lost_its_beginning(self, base: int) -> bool:
        """Whether the log should begin before `base`, and a loss of power took those segments.

        The log start is durable before segments are deleted, so they did not go that way. What
        follows them must not pass for a log that begins later: its leader would make all replicas
        drop the records before.
        """
        start = self._log_start
        return start is not None and start < base and self._lost_power_behind(start)

    def _any_data(self, bases: list[int]) -> bool:
        return any(self._size(self._segment(base)) for base in bases)

    # ---- one segment ----------------------------------------------------------------------------

    def _scan(self, segment: Segment, size: int, later: list[int]) -> bool:
        """Read the segment; False when its tail, and with it all later segments, was cut."""
        verify_from = self._stop.verify_from
        verify = verify_from is not None and (not later or later[0] > verify_from)
        try:
            for position, header in scan(self._files, segment.handle(), 0, size, verify=verify):
                self._check_place(segment, position, header)
                place = (header.size, header.base_offset, header.last_offset, header.max_timestamp)
                segment.account(BatchPlace(*place))
                self._on_batch(header)
                self.report.batches += 1
        except BadBatch as bad:
            self._judge(segment, bad, size, later)
            self._cut_tail(segment, bad, size)
            self._cut_segments(later)
            return False
        return True

    def _check_place(self, segment: Segment, position: int, header: BatchHeader) -> None:
        """Offset and epoch stand outside the CRC; what came before tells what they may be."""
        expected = segment.end_offset
        if (
            header.base_offset < expected
            or (header.base_offset > expected and not self._gaps)
            or not segment.takes_offset(header.last_offset)
        ):
            raise BadBatch(position, f"offset {header.base_offset} where {expected} should follow")
        if header.partition_leader_epoch < self._epoch:
            raise BadBatch(
                position, f"epoch {header.partition_leader_epoch} after epoch {self._epoch}"
            )
        self._epoch = header.partition_leader_epoch

    def _judge(self, segment: Segment, bad: BadBatch, size: int, later: list[int]) -> None:
        """CorruptSegment when the damage must not be cut away."""
        what = f"{segment.log_path} is damaged at position {bad.position}: {bad.reason}"
        if self._stop.verify_from is None:
            raise CorruptSegment(f"{what}. It was closed cleanly, so nothing is cut")
        if self._lost_power_behind(segment.end_offset):
            return
        follows = find_valid_batch(
            self._files, segment.handle(), bad.position + 1, size, above_offset=segment.end_offset
        )
        if follows is not None:
            raise CorruptSegment(
                f"{what}. A valid batch follows at position {follows}, so nothing is cut; let the "
                "replica be copied again from its leader"
            )
        if self._any_data(later):
            raise CorruptSegment(
                f"{what}. {self._segment(later[0]).log_path} follows it, so nothing is cut; let "
                "the replica be copied again from its leader"
            )

    def _lost_power_behind(self, offset: int) -> bool:
        return (
            self._stop.verify_from is not None
            and not self._stop.memory_survived
            and offset >= self._stop.recovery_point
        )

    def _cut_tail(self, segment: Segment, bad: BadBatch, size: int) -> None:
        handle = segment.handle()
        removed = size - bad.position
        tail = self._files.pread(handle, min(removed, _CUT_KEPT_MAX), bad.position)
        kept = segment.log_path + CUT_SUFFIX
        aside = ""
        if tail.strip(b"\0") and not self._files.exists(kept):
            self._files.write_atomic(kept, tail)
            aside = f"; they are kept in {kept}"
        self._files.truncate(handle, bad.position)
        self.report.bytes_cut += removed
        self._warn(
            f"{segment.log_path}: cut the last {removed} bytes from position {bad.position} "
            f"({bad.reason}){aside}"
        )

    def _cut_segments(self, bases: list[int]) -> None:
        """Set whole segments aside that follow a cut; empty ones are removed."""
        for base in reversed(bases):
            segment = self._segment(base)
            size = self._size(segment)
            if size:
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
        if recovered and end < self._stop.recovery_point:
            self.report.lost_durable = True
            self._warn(
                f"{self._directory} ends at offset {end}; up to {self._stop.recovery_point} it had "
                "been synced, so this replica has lost records"
            )
        if recovered and (self.report.bytes_cut or not self._stop.memory_survived):
            for segment in segments:
                if segment.end_offset > self._stop.recovery_point or segment is segments[-1]:
                    segment.fsync()
            self._files.fsync_dir(self._directory)
        for segment in segments:
            if segment is not segments[-1]:
                segment.note_sealed()
            if not segment.index_files_match():
                segment.write_indexes(behind_only=False)
                self.report.indexes_rebuilt += 1
            if segment is not segments[-1]:
                segment.close()

    def _warn(self, message: str) -> None:
        self.report.warnings.append(message)
        logger.warning("%s", message)
