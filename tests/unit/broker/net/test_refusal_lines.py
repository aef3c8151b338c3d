"""One line in ten seconds about connections that were refused, however many there were."""

from __future__ import annotations

from pylog_broker.net.refusal_lines import ADDRESSES_COUNTED, LINE_INTERVAL_MS, RefusalLines


def test_the_first_is_said_at_once_and_the_next_later_with_counts() -> None:
    lines = RefusalLines()
    assert lines.due(0) is None
    lines.note("streams", "max.connections", "10.0.0.1")
    said = lines.due(0)
    assert said == "refused 1 connection: streams: max.connections (1); from 10.0.0.1 (1)"
    for number in range(500):
        lines.note("streams", "max.connections.per.ip", f"10.0.0.{number % 5 if number > 9 else 9}")
        assert lines.due(number) is None
    lines.note("gateway", "open files", "10.0.0.9")
    assert lines.due(LINE_INTERVAL_MS) == (
        "refused 501 connections: streams: max.connections.per.ip (500), gateway: open files (1); "
        "from 10.0.0.0 (98), 10.0.0.1 (98), 10.0.0.2 (98) and 3 more"
    )
    assert lines.is_empty
    assert lines.due(5 * LINE_INTERVAL_MS) is None


def test_addresses_without_end_take_a_bounded_place() -> None:
    lines = RefusalLines()
    for number in range(10 * ADDRESSES_COUNTED):
        lines.note("streams", "max.connections", f"fd00::{number:x}")
    assert len(lines._addresses) == ADDRESSES_COUNTED + 1
    assert f"from others ({9 * ADDRESSES_COUNTED})" in (lines.due(0) or "")
