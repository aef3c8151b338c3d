"""The knowledge of a log before its batches are looked at, and the report of its opening. No file
is touched.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pylog.model import Offset
from pylog.records.batch import BatchHeader
from pylog_broker.storage.checkpoints.leader_epochs import LeaderEpochCache
from pylog_broker.storage.segments.segment import LOG_SUFFIX, SegmentFacts, segment_name

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LastStop:
    """The state in which the log was left. `verify_from`: batches that end behind it have their
    CRCs checked.

    `memory_survived`: the machine has not lost power since (same boot id), so whatever was written
    is there and only the last batch can be torn. `recovery_point`: everything below was synced.
    `facts`: no file of the log has changed since a clean stop that noted these; nothing is read.
    `in_order`: its last process closed it, so indexes that tell the truth stay as they are.
    `cleaned`: by a cleaner, so offsets may be missing between batches.
    """

    recovery_point: int = 0
    verify_from: int | None = 0
    memory_survived: bool = True
    facts: Mapping[int, SegmentFacts] | None = None
    in_order: bool = False
    cleaned: bool = False

    @classmethod
    def clean(cls, facts: Mapping[int, SegmentFacts] | None = None) -> LastStop:
        """An orderly stop: no CRC to check, and with `facts` nothing at all."""
        return cls(recovery_point=2**63 - 1, verify_from=None, facts=facts, in_order=True)

    def judge_start(self, directory: str, start: int, end: int) -> int:
        """The `start` that a checkpoint gives, unless the log cannot have lost what it would need.

        A start behind the end means that deleted records were lost together with all behind them,
        and nothing is readable. A log that was closed in order has lost nothing: 0 is returned.
        """
        if start <= end:
            return start
        if self.in_order:
            logger.warning(
                "%s was closed in order and ends at %d: that it starts at %d is not believed",
                directory, end, start,
            )  # fmt: skip
            return 0
        logger.warning(
            "%s ends at %d and starts at %d: what is left was deleted before, and goes",
            directory, end, start,
        )  # fmt: skip
        return start


@dataclass(frozen=True, slots=True)
class Knowledge:
    """All that is known before the first segment is looked at. `begins_at`: where the log should
    begin; the name of its first segment says it where `log_start`, the checkpoint's, is unknown.

    `gaps_allowed`: offsets may be missing between batches. `recovery_point`: everything below was
    synced. `checkpoint` has the epochs that were stored; it is not changed.
    """

    directory: str
    stop: LastStop
    log_start: int | None
    begins_at: int
    gaps_allowed: bool
    recovery_point: int
    checkpoint: LeaderEpochCache

    def path_of(self, base_offset: int) -> str:
        """A segment's file with the batches."""
        return f"{self.directory}/{segment_name(base_offset)}{LOG_SUFFIX}"

    def lost_power_behind(self, offset: int) -> bool:
        """Whether a loss of power may have taken any page of the files from `offset` on."""
        return (
            self.stop.verify_from is not None
            and not self.stop.memory_survived
            and offset >= self.recovery_point
        )

    def stored_epoch(self, header: BatchHeader) -> int:
        """The epoch of a batch by the checkpoint, which may start later than the log, at the log
        start offset.
        """
        return self.checkpoint.epoch_at(Offset(max(header.last_offset, self.log_start or 0)))


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """The report of an opening, or of a part of it."""

    batches: int = 0
    segments_trusted: int = 0
    bytes_cut: int = 0
    segments_cut: int = 0
    indexes_rebuilt: int = 0
    lost_durable: bool = False
    has_gaps: bool = False
    warnings: tuple[str, ...] = ()

    @classmethod
    def total(cls, parts: Sequence[RecoveryReport]) -> RecoveryReport:
        """The report of parts that came one after the other."""
        told = [part for part in parts if part != _NOTHING]
        if len(told) <= 1:  # after a clean stop, of each log that a broker opens
            return told[0] if told else _NOTHING
        return cls(
            batches=sum([part.batches for part in told]),
            segments_trusted=sum([part.segments_trusted for part in told]),
            bytes_cut=sum([part.bytes_cut for part in told]),
            segments_cut=sum([part.segments_cut for part in told]),
            indexes_rebuilt=sum([part.indexes_rebuilt for part in told]),
            lost_durable=any([part.lost_durable for part in told]),
            has_gaps=any([part.has_gaps for part in told]),
            warnings=tuple([warning for part in told for warning in part.warnings]),
        )


_NOTHING: Final = RecoveryReport()


def warned(message: str, *, bytes_cut: int = 0, segments_cut: int = 0) -> RecoveryReport:
    """Warn of something that happened to a log; the report of it."""
    logger.warning("%s", message)
    return RecoveryReport(bytes_cut=bytes_cut, segments_cut=segments_cut, warnings=(message,))
