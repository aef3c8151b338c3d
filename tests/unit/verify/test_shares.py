"""The judge of the share group's trial finds what it is there for."""

from __future__ import annotations

import json

from tests.verify.shares import LIMIT, LOCK_MS, Verdict


def told(*lines: tuple[str, int, object]) -> Verdict:
    verdict = Verdict()
    for line in lines:
        verdict.hear(json.dumps(line))
    return verdict


def test_a_record_that_was_accepted_is_well() -> None:
    verdict = told(("got", 0, [(0, 5, 1)]), ("accepting", 1, [(0, 5)]), ("accepted", 2, [(0, 5)]))
    assert verdict.judge({(0, 5)}) == []


def test_a_record_that_nobody_accepted_is_found() -> None:
    verdict = told(("got", 0, [(0, 5, 2)]))
    assert verdict.judge({(0, 5)}) == ["(0, 5) was never accepted, delivered 1x"]
    assert verdict.judge(set()) == ["(0, 5) was never produced"]


def test_a_record_at_its_limit_and_an_accept_that_was_cut_off_are_well() -> None:
    verdict = told(("got", 0, [(0, 5, LIMIT), (0, 6, 1)]), ("accepting", 1, [(0, 6)]))
    assert verdict.judge({(0, 5), (0, 6)}) == []


def test_a_record_that_comes_again_after_its_accept_is_found() -> None:
    first = ("got", 0, [(0, 5, 1)]), ("accepted", 2, [(0, 5)])
    assert told(*first, ("got", 2 + LOCK_MS, [(0, 5, 2)])).judge({(0, 5)}) == []
    late = told(*first, ("got", 3 + LOCK_MS, [(0, 5, 2)]))
    assert late.judge({(0, 5)}) == [f"(0, 5) came {LOCK_MS + 1} ms after it was accepted"]


def test_two_accepts_and_too_many_deliveries_are_found() -> None:
    verdict = told(
        ("accepted", 2, [(0, 5)]), ("accepted", 3, [(0, 5)]), ("got", 0, [(0, 6, LIMIT + 1)])
    )
    assert verdict.faults == [
        "(0, 5) was accepted twice",
        f"(0, 6) was delivered for the {LIMIT + 1}th time",
    ]
