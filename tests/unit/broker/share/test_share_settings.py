from __future__ import annotations

import pytest

from pylog.errors import InvalidConfig
from pylog_broker.share.settings import Reset, ShareSettings, duration_ms, reset_of


def test_defaults_are_kafkas() -> None:
    settings = ShareSettings()
    assert reset_of(settings.auto_offset_reset) == (Reset.LATEST, 0)
    assert not settings.reads_committed
    assert ShareSettings(isolation_level="read_committed").reads_committed


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("PT1H", 3_600_000),
        ("P7D", 7 * 86_400_000),
        ("P1DT2H3M4.5S", 86_400_000 + 2 * 3_600_000 + 3 * 60_000 + 4_500),
        ("pt0.25s", 250),
        ("PT0S", 0),
    ],
)
def test_durations(text: str, ms: int) -> None:
    assert duration_ms(text) == ms
    assert reset_of(f"by_duration:{text}") == (Reset.BY_DURATION, ms)


@pytest.mark.parametrize(
    "text",
    ["", "P", "PT", "1H", "P1H", "PT1D", "PT1M1H", "PT-1H", "PT1.5H", "PT1", "P1DT", "PTS",
     "PT1H1H", "PT99999999999S", "PT1.S"],
)  # fmt: skip
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(InvalidConfig, match="ISO 8601"):
        duration_ms(text)


def test_what_is_no_reset() -> None:
    with pytest.raises(InvalidConfig, match="'none' is none of earliest, latest, by_duration"):
        reset_of("none")
