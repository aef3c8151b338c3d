"""The driver's look at the cluster: bounds out of its answers."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pylog.client.ranges.range_reader import RangeToSplit, TooManyTransactions, TopicGone
from pylog.errors import RequestTimedOut, UnsupportedVersion
from pylog.model import RangeSplit, TopicPartition, TransactionName, TransactionSpan
from pylog_connector import bounds, errors
from pylog_connector.cut_finder import TooMany
from pylog_connector.errors import ReadFailed
from pylog_connector.lag import NOTHING_TOLD, Unread
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


class Leaders:
    """Tells of what is unread, unless it is late."""

    def __init__(self) -> None:
        self.late = self.old = False
        self.split_asked = 0

    def times_from(
        self, positions: dict[TopicPartition, int], timeout_ms: int
    ) -> dict[TopicPartition, int]:
        if self.late:
            raise RequestTimedOut(f"not done within {timeout_ms} ms")
        return dict.fromkeys(positions, 5)

    def split(
        self, ranges: dict[TopicPartition, RangeToSplit], timeout_ms: int
    ) -> dict[TopicPartition, RangeSplit]:
        self.split_asked += 1
        if self.old:
            raise UnsupportedVersion("the broker knows no SplitRanges")
        return {at: RangeSplit(wanted.end - wanted.start) for at, wanted in ranges.items()}


def test_bytes_are_told_of_not_too_many_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    leaders = Leaders()
    monkeypatch.setattr(bounds, "reader_for", lambda options: leaders)
    options = {"pylog.bootstrap.servers": "h:1", "subscribe": "a"}
    source = bounds.BoundsReader(source_options(options, streaming=True))
    most = {TopicPartition("a", p): (3, 10) for p in range(bounds.BYTES_TOLD_MAX)}
    assert source.unread(most) == Unread(dict.fromkeys(most, 5), dict.fromkeys(most, 7))
    more = most | {TopicPartition("b", 0): (0, 1)}
    assert source.unread(more) == Unread(dict.fromkeys(more, 5))
    assert leaders.split_asked == 1
    leaders.old = True
    assert source.unread(most) == Unread(dict.fromkeys(most, 5))
    leaders.late = True
    assert source.unread(most) == NOTHING_TOLD


def test_transactions_are_asked_of_leaders(monkeypatch: pytest.MonkeyPatch) -> None:
    at, name = TopicPartition("a", 0), TransactionName(1, 0)
    outcomes: list[Exception | None] = [
        None,
        TopicGone("topic a was deleted"),
        TooManyTransactions("2 transactions, and the limit is 1"),
        RequestTimedOut("bootstrap_servers does not answer"),
    ]

    class Leaders:
        def transactions(
            self, ranges: object, named: object, *, spans_max: int | None
        ) -> dict[TopicPartition, list[TransactionSpan]]:
            assert (ranges, named, spans_max) == ({at: (3, -1)}, [name], 1)
            outcome = outcomes.pop(0)
            if outcome is not None:
                raise outcome
            return {at: []}

    monkeypatch.setattr(bounds, "reader_for", lambda options: Leaders())
    options = {"pylog.bootstrap.servers": "h:1", "subscribe": "a"}
    source = bounds.BoundsReader(source_options(options, streaming=True))

    def ask() -> object:
        return source.transactions({at: (3, -1)}, [name], spans_max=1)

    assert ask() == {at: []}
    assert ask() is None
    with pytest.raises(TooMany):
        ask()
    with pytest.raises(ReadFailed) as error:
        ask()
    assert str(error.value).endswith(
        "pylog.consistent.cut: cannot look up the transactions of a-0: pylog.bootstrap.servers "
        "does not answer"
    )
