"""The histories of the processes in a failing seed's report."""

from __future__ import annotations

from pylog.client.fetching.fetch_events import Notice
from tests.sim.histories import KEPT, Histories


def told(*names: str, count: int = 1) -> Histories:
    histories = Histories()
    for number in range(count):
        for name in names:
            histories.add(1_000_000 * number, name, "wants", Notice(f"{number}"))
    return histories


def test_the_processes_are_those_that_the_report_names() -> None:
    histories = told("b1", "b10", "late", "late'")
    assert histories.concerned("I6: b10 reads what b2 has not") == ["b10"]
    assert histories.concerned("C: late': t-0 sends b1 again") == ["b1", "late'"]


def test_a_report_without_names_is_about_the_last_one_that_did_something() -> None:
    assert told("b1", "ctl").concerned("Traceback") == ["ctl"]
    assert Histories().lines("Traceback") == []


def test_the_newest_events_are_told_in_short_text() -> None:
    lines = told("b1", count=KEPT + 10).lines("b1")
    assert lines[0] == f"the last {KEPT} events of b1:"
    assert lines[1] == "   10.000000 wants Notice(text='10')"
    assert len(lines) == KEPT + 1
