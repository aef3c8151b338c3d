"""The knowledge of a log before it is opened, and the report of its opening. No file is touched."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from pylog_broker.storage.segments.segment import SegmentFacts

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


@dataclass(slots=True)
class RecoveryReport:
    """The report of an opening."""

    batches: int = 0
    segments_trusted: int = 0
    bytes_cut: int = 0
    segments_cut: int = 0
    indexes_rebuilt: int = 0
    lost_durable: bool = False
    has_gaps: bool = False
    warnings: list[str] = field(default_factory=list)
