from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylog_connector.admission import Pace, limited

# ---- shares ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lags", "limit", "shares"),
    [
        ([5, 3], 3, [1, 1]),  # what Spark's Kafka connector was measured to do
        ([5, 3], 8, [5, 3]),
        ([5, 3], 100, [5, 3]),
        ([5, 3], None, [5, 3]),
        ([5, 0, 3], 1, [1, 0, 1]),
        ([1, 1, 8], 5, [1, 1, 4]),
        ([10], 3, [3]),
        ([0, 0], 3, [0, 0]),
        ([2**62, 2**62], 2**63 - 1, [2**62 - 1, 2**62 - 1]),
        ([2**62, 2**62], 2**63, [2**62, 2**62]),
    ],
)
def test_shares(lags: list[int], limit: int | None, shares: list[int]) -> None:
    begins = {"t": {p: 100 for p in range(len(lags))}}
    latest = {"t": {p: 100 + lag for p, lag in enumerate(lags)}}
    ends = limited(begins, latest, limit)["t"]
    assert [ends[p] - 100 for p in range(len(lags))] == shares


@given(st.lists(st.integers(0, 2**40), min_size=1, max_size=20), st.integers(1, 2**41))
def test_shares_starve_nobody_and_reach_the_end(lags: list[int], limit: int) -> None:
    begins = {"t": dict.fromkeys(range(len(lags)), 0)}
    latest = {"t": dict(enumerate(lags))}
    ends = limited(begins, latest, limit)["t"]
    for partition, lag in enumerate(lags):
        assert min(1, lag) <= ends[partition] <= lag
    waiting = sum(1 for lag in lags if lag)
    assert sum(ends.values()) <= max(limit, waiting) + waiting
    if sum(lags) <= limit:
        assert ends == dict(enumerate(lags))


# ---- waits -------------------------------------------------------------------------------------


def test_too_few_records_wait_for_more_or_for_the_delay() -> None:
    pace = Pace(min_offsets=5, max_delay_ms=1000)
    assert pace.due(0, 100)  # the first batch never waits
    assert not pace.due(4, 200)
    assert pace.due(5, 300)
    assert not pace.due(4, 1299)
    assert pace.due(4, 1300)
    assert not pace.due(0, 2299)
    assert pace.due(0, 2300)


def test_without_a_minimum_nothing_waits() -> None:
    pace = Pace()
    assert pace.due(0, 0)
    assert pace.due(0, 0)
