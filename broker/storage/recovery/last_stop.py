"""What is known of a log before it is opened, and what opening it has found. Data only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from broker.storage.segments.segment import SegmentFacts


@dataclass(frozen=True, slots=True)
class LastStop:
    """How the log was left. `verify_from`: batches that end behind it have their CRCs checked.

    `memory_survived`: the machine has not lost power since (same boot id), so whatever was written
    is there and only the last batch can be torn. `recovery_point`: everything below was synced.
    `facts`: no file of the log has changed since a clean stop that noted these; nothing is read.
    `in_order`: whoever had it last closed it, so indexes that tell the truth stay as they are.
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


@dataclass(slots=True)
class RecoveryReport:
    """What opening found and did."""

    batches: int = 0
    segments_trusted: int = 0
    bytes_cut: int = 0
    segments_cut: int = 0
    indexes_rebuilt: int = 0
    lost_durable: bool = False
    has_gaps: bool = False
    warnings: list[str] = field(default_factory=list)
