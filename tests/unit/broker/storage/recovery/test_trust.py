"""The plan of a start: which segments are trusted, which go, and where reading begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pytest

from pylog.model import LeaderEpoch, Offset
from pylog.records.batch import BatchHeader, read_header
from pylog_broker.storage.checkpoints.leader_epochs import EpochEntry, LeaderEpochCache
from pylog_broker.storage.errors import CorruptSegment
from pylog_broker.storage.recovery.last_stop import Knowledge, LastStop
from pylog_broker.storage.recovery.trust import (
    Adopted,
    Distrust,
    Look,
    Step,
    TrustPlan,
    plan_trust,
)
from pylog_broker.storage.segments.segment import SegmentFacts
from tests.fakes.logs import DIRECTORY, batch_of

SIZE = 500


class OnDisk(NamedTuple):
    """A segment file: where its batches end, and their epoch; None: only a scan can tell."""

    base: int
    end: int | None = None
    epoch: int = 0
    size: int = SIZE
    is_void: bool = False


def empty(base: int) -> OnDisk:
    return OnDisk(base, size=0, is_void=True)


def preallocated(base: int) -> OnDisk:
    return OnDisk(base, is_void=True)


def facts(base: int, end: int, size: int = SIZE) -> SegmentFacts:
    return SegmentFacts(size, end, 1000, end - 1, 900)


def nothing(base: int) -> SegmentFacts:
    return SegmentFacts(0, base, -1, base, -1)


def header(base: int, epoch: int) -> BatchHeader:
    return read_header(batch_of(b"v", base_offset=base, epoch=epoch))


def look_at(segments: Sequence[OnDisk]) -> Look:
    by_base = {segment.base: segment for segment in segments}

    def ends(base: int) -> tuple[SegmentFacts, BatchHeader, BatchHeader] | None:
        _, end, epoch, _, _ = by_base[base]
        if end is None:
            return None
        return facts(base, end), header(base, epoch), header(end - 1, epoch)

    return Look(
        size=lambda base: by_base[base].size,
        holds_nothing=lambda base: by_base[base].is_void,
        any_data=lambda bases: not all(by_base[base].is_void for base in bases),
        ends=ends,
    )


def known(
    stop: LastStop,
    segments: Sequence[OnDisk],
    *,
    log_start: int | None = 0,
    gaps: bool = False,
    epochs: Sequence[tuple[int, int]] = ((0, 0), (1, 20)),
) -> Knowledge:
    entries = [EpochEntry(LeaderEpoch(epoch), Offset(start)) for epoch, start in epochs]
    first = segments[0].base if segments else 0
    return Knowledge(
        directory=DIRECTORY,
        stop=stop,
        log_start=log_start,
        begins_at=first if log_start is None else log_start,
        gaps_allowed=gaps,
        recovery_point=stop.recovery_point,
        checkpoint=LeaderEpochCache(entries),
    )


def path(base: int) -> str:
    return f"{DIRECTORY}/{base:020d}.log"


FOUR = (OnDisk(0, 10), OnDisk(10, 20), OnDisk(20, 30, epoch=1), OnDisk(30))
CLEAN = LastStop.clean({0: facts(0, 10), 10: facts(10, 20), 20: facts(20, 30), 30: facts(30, 33)})
CRASH = LastStop(recovery_point=33, verify_from=33)
POWER_LOSS = LastStop(recovery_point=10, verify_from=10, memory_survived=False)
ALL_TRUSTED = tuple(Adopted(base, facts(base, base + 10)) for base in (0, 10, 20))


@dataclass(frozen=True)
class Case:
    segments: Sequence[OnDisk]
    stop: LastStop
    plan: TrustPlan | Distrust
    log_start: int | None = 0
    gaps: bool = False
    epochs: Sequence[tuple[int, int]] = ((0, 0), (1, 20))
    read_from: int = -1
    trusts: bool = True


CASES = {
    "a new log": Case((), CRASH, TrustPlan(), read_from=0),
    "a clean stop noted all": Case(
        FOUR, CLEAN, TrustPlan((*ALL_TRUSTED, Adopted(30, facts(30, 33)))), read_from=33
    ),
    "a clean stop noted nothing": Case(
        FOUR, LastStop.clean(), TrustPlan(to_read=(0, 10, 20, 30)), read_from=0
    ),
    "the clean stop's notes lack a segment": Case(
        FOUR,
        LastStop.clean({0: facts(0, 10), 20: facts(20, 30)}),
        Distrust(f"{path(10)} is not as the clean stop left it"),
    ),
    "a segment grew after the clean stop": Case(
        (*FOUR[:2], FOUR[2]._replace(size=SIZE + 1), FOUR[3]),
        CLEAN,
        Distrust(f"{path(20)} is not as the clean stop left it"),
    ),
    "nothing is trusted": Case(
        FOUR, CLEAN, TrustPlan(to_read=(0, 10, 20, 30)), read_from=0, trusts=False
    ),
    "after a crash all below the recovery point": Case(
        FOUR,
        CRASH,
        TrustPlan(
            (
                Adopted(0, facts(0, 10), 0),
                Adopted(10, facts(10, 20), 0),
                Adopted(20, facts(20, 30), 1),
            ),
            to_read=(30,),
            epoch=1,
        ),
        read_from=30,
    ),
    "the recovery point lies inside a segment": Case(
        FOUR,
        LastStop(19, 19),
        TrustPlan((Adopted(0, facts(0, 10), 0),), to_read=(10, 20, 30), epoch=0),
        read_from=10,
    ),
    "the ends of a segment tell nothing": Case(
        (FOUR[0], OnDisk(10), *FOUR[2:]),
        CRASH,
        TrustPlan((Adopted(0, facts(0, 10), 0),), to_read=(10, 20, 30), epoch=0),
        read_from=10,
    ),
    "a segment ends before the next one": Case(
        (OnDisk(0, 9), *FOUR[1:]), CRASH, TrustPlan(to_read=(0, 10, 20, 30)), read_from=0
    ),
    "the same where offsets may be missing": Case(
        (OnDisk(0, 9), *FOUR[1:]),
        LastStop(20, 20),
        TrustPlan(
            (Adopted(0, facts(0, 9), 0), Adopted(10, facts(10, 20), 0)),
            to_read=(20, 30),
            epoch=0,
            has_gaps=True,
        ),
        gaps=True,
        read_from=20,
    ),
    "a segment reaches into the next one": Case(
        (OnDisk(0, 11), *FOUR[1:]), CRASH, TrustPlan(to_read=(0, 10, 20, 30)), read_from=0
    ),
    "the epochs disagree": Case(
        FOUR,
        CRASH,
        Distrust("leader-epoch-checkpoint has epoch 0 for offset 20, the log has 1"),
        epochs=((0, 0),),
    ),
    "the epochs begin with the log start": Case(
        FOUR,
        LastStop(10, 10),
        TrustPlan((Adopted(0, facts(0, 10), 0),), to_read=(10, 20, 30), epoch=0),
        log_start=5,
        epochs=((0, 5), (1, 20)),
        read_from=10,
    ),
    "the cleaner left nothing of a segment": Case(
        (OnDisk(0, 10), empty(10), *FOUR[2:]),
        LastStop(20, 20),
        TrustPlan(
            (Adopted(0, facts(0, 10), 0), Adopted(10, nothing(10))), to_read=(20, 30), epoch=0,
            has_gaps=True,
        ),
        gaps=True,
        read_from=20,
    ),
    "a roll that was given up before a clean stop": Case(
        (FOUR[0], preallocated(4), *FOUR[1:], empty(33)),
        CLEAN,
        TrustPlan(
            (*ALL_TRUSTED, Adopted(30, facts(30, 33))),
            removed=((4, Step.GIVEN_UP), (33, Step.GIVEN_UP)),
        ),
        read_from=33,
    ),
    "after a crash a segment goes on behind the next one's base": Case(
        (FOUR[0], empty(4), *FOUR[1:]),
        CRASH,
        TrustPlan(to_read=(0, 4, 10, 20, 30)),
        read_from=0,
    ),
    "the first segment is empty": Case(
        (empty(0), *FOUR[1:]),
        CRASH,
        TrustPlan(
            (Adopted(10, facts(10, 20), 0), Adopted(20, facts(20, 30), 1)),
            to_read=(30,),
            removed=((0, Step.EMPTY),),
            epoch=1,
        ),
        read_from=30,
    ),
    "the only segment is empty": Case((empty(7),), CRASH, TrustPlan(to_read=(7,)), read_from=7),
    "a loss of power took the first segment": Case(
        FOUR[1:],
        LastStop(memory_survived=False),
        TrustPlan(cut=(10, 20, 30)),
        read_from=0,
    ),
    "segments below the start were deleted": Case(
        FOUR[1:],
        POWER_LOSS,
        TrustPlan(to_read=(10, 20, 30)),
        log_start=10,
        read_from=10,
    ),
    "nobody knows the start": Case(
        FOUR[1:],
        LastStop(memory_survived=False),
        TrustPlan(to_read=(10, 20, 30)),
        log_start=None,
        read_from=10,
    ),
    "a roll just before a crash that took the old tail": Case(
        (FOUR[0], empty(12), preallocated(15)),
        LastStop.clean({0: facts(0, 10), 12: facts(12, 15, size=0), 15: facts(15, 15)}),
        TrustPlan((Adopted(0, facts(0, 10)),), cut=(12, 15)),
        read_from=10,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_plan(name: str) -> None:
    case = CASES[name]
    about = known(
        case.stop, case.segments, log_start=case.log_start, gaps=case.gaps, epochs=case.epochs
    )
    bases = tuple(segment.base for segment in case.segments)
    plan = plan_trust(about, bases, look_at(case.segments), trusts=case.trusts)
    assert plan == case.plan
    if isinstance(plan, TrustPlan):
        assert plan.read_from == case.read_from
        parts = (*(adopted.base_offset for adopted in plan.adopted), *plan.to_read)
        assert sorted((*parts, *plan.gone)) == list(bases), "each segment is in one part"


@pytest.mark.parametrize(
    ("segments", "message"),
    [
        (
            (OnDisk(0, 10), OnDisk(8, 20)),
            f"{path(8)} begins inside {path(0)}, which ends at offset 10; move one of them away",
        ),
        (
            (OnDisk(0, 10), OnDisk(12, 20)),
            f"a segment is missing between {path(0)}, which ends at offset 10, and {path(12)}",
        ),
    ],
    ids=["overlapping", "missing"],
)
def test_segments_that_are_no_log_are_named(segments: Sequence[OnDisk], message: str) -> None:
    stop = LastStop.clean({segment.base: facts(segment.base, 10) for segment in segments})
    bases = tuple(segment.base for segment in segments)
    with pytest.raises(CorruptSegment) as raised:
        plan_trust(known(stop, segments), bases, look_at(segments))
    assert str(raised.value) == message


def test_a_look_is_taken_only_where_its_answer_matters() -> None:
    def nobody_asks(_base: object) -> bool:
        raise AssertionError("this answer does not matter")

    sizes = look_at(FOUR).size
    look = Look(sizes, nobody_asks, nobody_asks, nobody_asks)  # type: ignore[arg-type]
    plan = plan_trust(known(CLEAN, FOUR), (0, 10, 20, 30), look)
    assert plan == CASES["a clean stop noted all"].plan
