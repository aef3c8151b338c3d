"""Times and spans of time, as people write them."""

from __future__ import annotations

import pytest

from pylog.cli.moments import span_ms, time_shown

SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("P1DT12H", DAY + 12 * HOUR),
        ("PT30M", 30 * MINUTE),
        ("P2W", 14 * DAY),
        ("pt1.5s", 1_500),
        ("1d12h", DAY + 12 * HOUR),
        ("15m", 15 * MINUTE),
        (" 90s ", 90 * SECOND),
    ],
)
def test_spans(text: str, ms: int) -> None:
    assert span_ms(text) == ms


@pytest.mark.parametrize("text", ["", "P", "PT", "5", "-5m", "m", "x", "P5M", "P1D5H"])
def test_texts_that_are_no_span(text: str) -> None:
    """P5M is five months, which are not so many milliseconds, and not five minutes."""
    with pytest.raises(ValueError, match="is not a span of time such as"):
        span_ms(text)


def test_a_span_beyond_all_time() -> None:
    with pytest.raises(ValueError, match="longer than any time"):
        span_ms("99999999999d")


def test_times_for_people() -> None:
    assert time_shown(None) is None
    assert time_shown(1_706_702_400_123) == "2024-01-31T12:00:00.123+00:00"
    assert time_shown(2**62) == f"{2**62} ms"
