"""The judge of the share group's trial finds what it is there for."""

from __future__ import annotations

import json

from tests.verify.shares import LIMIT, LOCK_MS, Verdict


def accepted(
    partition: int, offset: int, count: int, *, begin_ms: int, end_ms: int
) -> tuple[str, int, object]:
    return ("accepted", end_ms, [begin_ms, [(partition, offset, count)]])


def told(*lines: tuple[str, int, object]) -> Verdict:
    verdict = Verdict()
    for line in lines:
        verdict.hear(json.dumps(line))
    return verdict


def test_a_record_that_was_accepted_is_well() -> None:
    accepting = ("accepting", 1, [(0, 5, 1)])
    verdict = told(("got", 0, [(0, 5, 1)]), accepting, accepted(0, 5, 1, begin_ms=1, end_ms=2))
    assert verdict.judge({(0, 5)}) == []


def test_a_record_that_nobody_accepted_is_found() -> None:
    verdict = told(("got", 0, [(0, 5, 2)]))
    assert verdict.judge({(0, 5)}) == ["(0, 5) was never accepted, delivered 1x"]
    assert verdict.judge(set()) == ["(0, 5) was never produced"]


def test_an_accept_that_was_cut_off_is_well() -> None:
    verdict = told(("got", 0, [(0, 6, 1)]), ("accepting", 1, [(0, 6, 1)]))
    assert verdict.judge({(0, 6)}) == []


def test_a_record_at_its_limit_is_a_dead_letter() -> None:
    verdict = told(("got", 0, [(0, 5, LIMIT)]))
    assert verdict.judge({(0, 5)}) == ["(0, 5) was never accepted, delivered 1x"]
    verdict.dead[0, 5] += 2
    assert verdict.judge({(0, 5)}) == []


def test_a_record_that_was_rejected_is_a_dead_letter() -> None:
    verdict = told(("rejecting", 1, [(0, 5, 1)]), ("rejected", 2, [(0, 5, 1)]))
    [never, lost] = verdict.judge({(0, 5)})
    assert never == "(0, 5) was never accepted, delivered 0x"
    assert lost.startswith("(0, 5) was rejected and is no dead letter: ")
    verdict.dead[0, 5] += 1
    assert verdict.judge({(0, 5)}) == []


def test_a_dead_letter_that_nobody_rejected_is_found() -> None:
    verdict = told(("got", 0, [(0, 5, 1), (0, 6, LIMIT)]))
    verdict.dead.update([(0, 5), (0, 6)])
    [fault] = verdict.judge({(0, 5), (0, 6)})
    assert fault.startswith("(0, 5) is a dead letter, delivered 1x")


def test_a_record_that_comes_again_after_its_accept_is_found() -> None:
    first = ("got", 0, [(0, 5, 1)]), accepted(0, 5, 1, begin_ms=1, end_ms=2)
    assert told(*first, ("got", 2 + LOCK_MS, [(0, 5, 2)])).judge({(0, 5)}) == []
    late = told(*first, ("got", 3 + LOCK_MS, [(0, 5, 2)]))
    assert late.judge({(0, 5)}) == [f"(0, 5) came {LOCK_MS + 1} ms after it was accepted"]


def test_two_accepts_and_too_many_deliveries_are_found() -> None:
    first = accepted(0, 5, 1, begin_ms=1, end_ms=2)
    verdict = told(first, accepted(0, 5, 2, begin_ms=3, end_ms=4), ("got", 0, [(0, 6, LIMIT + 1)]))
    assert verdict.faults == [
        "(0, 5) was accepted twice: 2 accepted (1); 4 accepted (2)",
        f"(0, 6) was delivered for the {LIMIT + 1}th time",
    ]


def test_an_accept_that_is_too_late_does_no_harm() -> None:
    first = accepted(0, 5, 2, begin_ms=1, end_ms=2)
    verdict = told(first, accepted(0, 5, 1, begin_ms=3, end_ms=4))
    assert (verdict.faults, verdict.too_late, verdict.accepted_ms) == ([], 1, {(0, 5): 2})
