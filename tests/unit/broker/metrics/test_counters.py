"""Plain counters: buckets, bounded labels, ISR changes."""

from __future__ import annotations

import pytest

from pylog.model import topic_name_fault
from pylog_broker.metrics.counters import (
    BOUNDS,
    OTHER_TOPICS,
    TOPICS_MAX,
    Histogram,
    IsrChanges,
    RequestCounters,
    TopicBytes,
)


def test_a_value_on_a_bound_counts_under_it() -> None:
    histogram = Histogram()
    for seconds in (BOUNDS[0], BOUNDS[-1], BOUNDS[-1] + 1):
        histogram.observe(seconds)
    assert histogram.counts[0] == 1
    assert histogram.counts[-2:] == [1, 1]
    assert histogram.sum == pytest.approx(BOUNDS[0] + 2 * BOUNDS[-1] + 1)


def test_more_topics_than_the_limit_share_one_label() -> None:
    counted = TopicBytes()
    for number in range(TOPICS_MAX + 10):
        counted.add(f"t{number}", 3)
    counted.add("t0", 1)
    assert len(counted.by_topic) == TOPICS_MAX + 1
    assert counted.by_topic[OTHER_TOPICS] == 30
    assert counted.by_topic["t0"] == 4
    assert topic_name_fault(OTHER_TOPICS), "it could be a topic"
    counted.keep_only(["t1"])
    assert set(counted.by_topic) == {"t1", OTHER_TOPICS}


def test_requests_count_by_type_and_errors_by_code() -> None:
    counters = RequestCounters()
    counters.answered("Fetch", 0.002)
    counters.answered("Fetch", 0.002)
    counters.failed("Fetch", 6)
    counters.failed("Fetch", 6)
    counters.sent("Fetch", 0.5)
    counters.sent("never answered", 0.5)
    assert sum(counters.seconds["Fetch"].counts) == 2
    assert counters.seconds["Fetch"].response == 0.5
    assert [*counters.seconds] == ["Fetch"]
    assert counters.errors == {("Fetch", 6): 2}


def test_an_isr_shrinks_expands_or_only_changes_places() -> None:
    changes = IsrChanges()
    changes.note((1, 2, 3), (1, 2))
    changes.note((1, 2), (1, 3))
    changes.note((1, 3), (1, 3, 2))
    assert (changes.shrinks, changes.expands) == (1, 1)
