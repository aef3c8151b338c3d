"""What the driver's side makes of what the cluster answers."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pylog_connector import bounds, errors
from pylog_connector.options import source_options


class Reader:
    """Knows topics of so many partitions."""

    def __init__(self, *counts: int) -> None:
        self.topics = {
            f"t{n}": SimpleNamespace(partitions=range(count)) for n, count in enumerate(counts)
        }

    def topics_where(self, wanted: object) -> dict[str, SimpleNamespace]:
        return self.topics


def test_59_a_pattern_that_finds_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bad input 59: a hundred thousand topics."""
    reader = Reader(bounds.PARTITIONS_MAX, 1)
    monkeypatch.setattr(bounds, "reader_for", lambda options: reader)
    options = {"pylog.bootstrap.servers": "h:1", "subscribePattern": ".*"}
    source = bounds.BoundsReader(source_options(options, streaming=True))
    with pytest.raises(errors.InvalidOption) as error:
        source.bounds()
    for word in ("subscribePattern='.*' finds 2 topics with 100001", "100000", "narrower"):
        assert word in str(error.value)


class ListingClock:
    """Each listing takes `listing_ms`."""

    def __init__(self, listing_ms: int) -> None:
        self.now_ms = 1_000
        self.listing_ms = listing_ms

    def wall_ms(self) -> int:
        return self.now_ms

    def monotonic_ms(self) -> int:
        return self.now_ms

    def sleep(self, seconds: float) -> None:
        self.now_ms += round(seconds * 1000)


@pytest.mark.parametrize(("listing_ms", "rest_s"), [(0, 0.0), (3, 0.027), (40, 0.36), (900, 0.1)])
def test_listing_takes_a_tenth_of_an_idle_streams_time(
    monkeypatch: pytest.MonkeyPatch, listing_ms: int, rest_s: float
) -> None:
    clock = ListingClock(listing_ms)
    asked = 0

    class Lister:
        def topics(self, names: object) -> dict[str, SimpleNamespace]:
            nonlocal asked
            asked += 1
            clock.now_ms += listing_ms
            return {"a": SimpleNamespace(topic_id="x", partitions=range(0))}

        def offsets_at(self, wanted: object, times: object) -> tuple[dict[str, int], ...]:
            return {}, {}

        def high_watermarks(self, wanted: object) -> dict[str, int]:
            return {}

    monkeypatch.setattr(bounds, "reader_for", lambda options: Lister())
    options = {"pylog.bootstrap.servers": "h:1", "subscribe": "a"}
    source = bounds.BoundsReader(source_options(options, streaming=True), clock)
    assert source.rest_s() == 0.0
    source.bounds()
    assert source.rest_s() == pytest.approx(rest_s)
    source.bounds()
    assert asked == 1
    source.bounds(anew=True)
    assert asked == 2
