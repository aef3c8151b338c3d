"""The second pass of a start: which segments are trusted, and where reading begins. Pure.

Trusted are all segments after a clean stop whose files are as it left them, and those below the
recovery point after a crash, when the ends of their indexes lead to a whole last batch and the
epoch checkpoint agrees with their first and last. Files that contradict each other are distrusted:
then a second plan is made that trusts nothing.

The rules of how segments follow one another (`next_step`) are those of the scan too, which goes on
where trust ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from pylog.model import NO_TIMESTAMP
from pylog.records.batch import BatchHeader
from pylog_broker.storage.checkpoints.checkpoints import EPOCH_CHECKPOINT
from pylog_broker.storage.errors import CorruptSegment
from pylog_broker.storage.recovery.last_stop import Knowledge, RecoveryReport
from pylog_broker.storage.segments.segment import SegmentFacts


@dataclass(frozen=True, slots=True)
class Look:
    """The looks at segment files that the rules ask for, each only where its answer matters.
    Segments go by their base offsets. Each look may raise OSError.
    """

    size: Callable[[int], int]
    """The size of the file with the batches."""
    holds_nothing: Callable[[int], bool]
    """Whether there was never a batch in it: it is empty, or as it was preallocated."""
    any_data: Callable[[Sequence[int]], bool]
    """Whether any of these may hold a batch."""
    ends: Callable[[int], tuple[SegmentFacts, BatchHeader, BatchHeader] | None]
    """The facts, and the first and the last header; None where all of it must be read."""


# ---- how segments follow each other ----------------------------------------------------------


class Step(Enum):
    """The place of a segment behind the one before it. The texts of those that are removed say
    why.
    """

    FOLLOWS = "it continues the log"
    FOLLOWS_A_GAP = "it continues the log behind offsets that are missing for good reason"
    GIVEN_UP = "holds nothing and is not of the log: removed"
    EMPTY = "is empty: removed"
    CUT = "the log ends before it: it and all that follow are cut off"


REMOVED: Final = frozenset({Step.GIVEN_UP, Step.EMPTY})


class Before(NamedTuple):
    """The segment before: its base offset, and the offset at which it ends."""

    base_offset: int
    end_offset: int


def next_step(
    known: Knowledge, look: Look, before: Before | None, base: int, later: Sequence[int]
) -> Step:
    """The place of the segment at `base`; `before` is None where the log has none yet, `later` are
    the segments behind it. CorruptSegment where one is missing, or two overlap.
    """
    size = look.size(base)
    step = Step.FOLLOWS
    if before is None:
        if lost_its_beginning(known, base):
            return Step.CUT
    elif _was_given_up(known, look, before, base):
        return Step.GIVEN_UP
    else:
        step = _step_behind(known, look, before, base, size, later)
        if step is Step.CUT:
            return step
    if size or not later or (known.gaps_allowed and not known.lost_power_behind(base)):
        return step
    return Step.EMPTY


def lost_its_beginning(known: Knowledge, base: int) -> bool:
    """Whether the log should begin before `base`, and a loss of power took those segments.

    The log start is durable before segments are deleted, so they did not go that way. The segments
    that follow must not pass for a log that begins later: its leader would make all replicas drop
    the records before.
    """
    return known.begins_at < base and known.lost_power_behind(known.begins_at)


def _was_given_up(known: Knowledge, look: Look, before: Before, base: int) -> bool:
    """Whether a roll made it and was refused after that. The log went on in the segment before: to
    an offset behind where this one begins, or to an orderly stop that knows nothing of it.
    """
    facts = known.stop.facts
    is_foreign = base < before.end_offset or (facts is not None and base not in facts)
    return is_foreign and look.holds_nothing(base)


def _step_behind(
    known: Knowledge, look: Look, before: Before, base: int, size: int, later: Sequence[int]
) -> Step:
    end = before.end_offset
    if base < end and size:
        raise CorruptSegment(
            f"{known.path_of(base)} begins inside {known.path_of(before.base_offset)}, which ends "
            f"at offset {end}; move one of them away"
        )
    if base == end:
        return Step.FOLLOWS
    lost_power = known.lost_power_behind(end)
    if known.gaps_allowed and not lost_power:
        # After a loss of power this is no gap: the end of the one before did not get there.
        return Step.FOLLOWS_A_GAP
    if not look.any_data((base, *later)):
        return Step.CUT  # a roll just before a crash that took the old tail
    if not size:
        return Step.FOLLOWS  # an empty one in the middle, which is removed
    if lost_power:
        return Step.CUT
    raise CorruptSegment(
        f"a segment is missing between {known.path_of(before.base_offset)}, which ends at offset "
        f"{end}, and {known.path_of(base)}"
    )


# ---- what is not read ------------------------------------------------------------------------


class Adopted(NamedTuple):
    """A segment that is trusted. `epoch` is that of its last batch, None where nothing tells it."""

    base_offset: int
    facts: SegmentFacts
    epoch: int | None = None


@dataclass(frozen=True, slots=True)
class TrustPlan:
    """The segments in four parts: those that are trusted come first in the log, `to_read` are the
    rest of it; `removed` hold nothing, and `cut` follow the log's end. `epoch` is that of the last
    batch that is trusted, -1 where nothing tells it. `has_gaps`: offsets are missing.
    """

    adopted: tuple[Adopted, ...] = ()
    to_read: tuple[int, ...] = ()
    removed: tuple[tuple[int, Step], ...] = ()
    cut: tuple[int, ...] = ()
    epoch: int = -1
    has_gaps: bool = False

    @property
    def read_from(self) -> int:
        """The offset at which reading begins; where the log ends if nothing is to be read."""
        if self.to_read:
            return self.to_read[0]
        return self.adopted[-1].facts.end_offset if self.adopted else 0

    @property
    def gone(self) -> frozenset[int]:
        """The segments that are not there any more when it is carried out."""
        return frozenset((*(base for base, _ in self.removed), *self.cut))


@dataclass(frozen=True, slots=True)
class Distrust:
    """Files that were to be trusted contradict each other: everything must be read. `gone` are the
    segments that are not there any more, and `report` tells of them.
    """

    reason: str
    gone: frozenset[int] = frozenset()
    report: RecoveryReport = field(default_factory=RecoveryReport)


def plan_trust(
    known: Knowledge, bases: Sequence[int], look: Look, *, trusts: bool = True
) -> TrustPlan | Distrust:
    """The plan for these segments, in order; one that trusts none of them without `trusts`.

    Raises CorruptSegment, and OSError from the looks.
    """
    adopted: list[Adopted] = []
    removed: list[tuple[int, Step]] = []
    to_read: tuple[int, ...] = ()
    cut: tuple[int, ...] = ()
    before: Before | None = None
    epoch, has_gaps = -1, False
    for number, base in enumerate(bases):
        later = bases[number + 1 :]
        step = next_step(known, look, before, base, later)
        if step in REMOVED:
            removed.append((base, step))
            continue
        if step is Step.CUT:
            cut = (base, *later)
            break
        has_gaps = has_gaps or step is Step.FOLLOWS_A_GAP
        trusted = _judge(known, look, base, later) if trusts else None
        if isinstance(trusted, Distrust):
            return trusted
        if trusted is None:
            to_read = (base, *later)
            break
        adopted.append(trusted)
        if trusted.epoch is not None:
            epoch = trusted.epoch
        before = Before(base, trusted.facts.end_offset)
    return TrustPlan(tuple(adopted), to_read, tuple(removed), cut, epoch, has_gaps)


def _judge(
    known: Knowledge, look: Look, base: int, later: Sequence[int]
) -> Adopted | Distrust | None:
    """The segment as it is trusted; None where it must be read, and all behind it."""
    stop = known.stop
    if stop.facts is not None:
        noted = stop.facts.get(base)
        if noted is None or noted.size != look.size(base):
            return Distrust(f"{known.path_of(base)} is not as the clean stop left it")
        return Adopted(base, noted)
    if stop.verify_from is None or not later or later[0] > stop.verify_from:
        return None
    if not look.size(base):  # nothing is left of it (compaction)
        return Adopted(base, SegmentFacts(0, base, NO_TIMESTAMP, base, NO_TIMESTAMP))
    found = look.ends(base)
    if found is None:
        return None
    facts, first, last = found
    if facts.end_offset > later[0] or (facts.end_offset < later[0] and not known.gaps_allowed):
        return None
    for header in (first, last):
        epoch = known.stored_epoch(header)
        if epoch != header.partition_leader_epoch and header.partition_leader_epoch >= 0:
            return Distrust(
                f"{EPOCH_CHECKPOINT} has epoch {epoch} for offset {header.last_offset}, the "
                f"log has {header.partition_leader_epoch}"
            )
    return Adopted(base, facts, last.partition_leader_epoch)
