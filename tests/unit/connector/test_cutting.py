"""Consistent cuts in the plans of streams and batch reads, over logs to which transactions are
written meanwhile.
"""

from __future__ import annotations

import logging
import pickle
import random
from collections.abc import Iterable, Mapping
from typing import Any, cast

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from pylog.model import TopicPartition, TransactionName
from pylog_connector.bounds import BoundsReader
from pylog_connector.cutting import MARKER_WAITS_S, STARVED_MS, ConsistentEnds
from pylog_connector.errors import ReadFailed
from pylog_connector.options import source_options
from pylog_connector.planning import Bounds, PartitionBounds, TopicBounds
from pylog_connector.positions import EARLIEST, LATEST, Bound
from pylog_connector.source import StreamReader
from tests.fakes.transaction_history import History, Written

PLACES = [TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)]
P, Q, R = PLACES


class Cluster:
    """The bounds of the logs of a history."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.is_gone = False

    def bounds(
        self,
        epochs: Mapping[TopicPartition, int] | None = None,
        known: Iterable[str] = (),
        *,
        anew: bool = False,
    ) -> Bounds:
        stable = self.history.stable()
        found: dict[str, dict[int, PartitionBounds]] = {}
        for (topic, partition), end in stable.items():
            found.setdefault(topic, {})[partition] = PartitionBounds(0, end, 1)
        return {topic: TopicBounds(topic * 22, of) for topic, of in found.items()}

    def transactions(self, ranges: Any, named: Any = (), *, spans_max: int | None = None) -> Any:
        if self.is_gone:
            return None
        return self.history.describe(ranges, named, spans_max=spans_max)

    def rest_s(self) -> float:
        return 0.0

    def times(self, queries: object) -> dict[object, int]:
        return {}

    def story(self, at: TopicPartition) -> str:
        return "by request"


class Clock:
    """Moves by sleeping, and lets `later` happen then."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.slept: list[float] = []
        self.later: list[Any] = []

    def wall_ms(self) -> int:
        return self.now_ms

    def monotonic_ms(self) -> int:
        return self.now_ms

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_ms += round(seconds * 1000)
        if self.later:
            self.later.pop(0)()


def stream(cluster: Cluster, clock: Clock, **options: str) -> StreamReader:
    given = {
        "pylog.bootstrap.servers": "h:1",
        "subscribe": "a,b",
        "startingOffsets": "earliest",
        "pylog.consistent.cut": "true",
        **options,
    }
    return StreamReader(
        source_options(given, streaming=True),
        ("value",),
        bounds_reader=cast(BoundsReader, cluster),
        clock=clock,
    )


def ends(offset: Mapping[str, Any]) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic, int(p)): at["o"]
        for topic, of in offset["t"].items()
        for p, at in of["p"].items()
    }


def logs() -> History:
    return History(random.Random(0), PLACES)


def write(history: History, *places: TopicPartition, marked: Iterable[TopicPartition]) -> Written:
    """A transaction that is decided, with a record in each of these partitions."""
    one = Written(TransactionName(len(history.transactions), 0), commits=True)
    history.transactions.append(one)
    for at in places:
        one.records.setdefault(at, []).append(history._take(at))
    for at in marked:
        history._mark(one, at)
    return one


@pytest.mark.parametrize("limit", ["", "3", "40"])
@pytest.mark.parametrize("available_now", [False, True])
def test_no_batch_of_a_query_splits_a_transaction(limit: str, available_now: bool) -> None:
    options = {"maxOffsetsPerTrigger": limit} if limit else {}
    for seed in range(12):
        rng = random.Random(f"{limit} {available_now} {seed}")
        history = History(rng, PLACES)
        history.busy = True
        cluster, clock = Cluster(history), Clock()
        cuts, position = [dict.fromkeys(PLACES, 0)], None
        for run in range(6):
            reader = stream(cluster, clock, **options)
            if available_now:
                reader.prepareForTriggerAvailableNow()
            at = reader.initialOffset() if position is None else position
            for _ in range(6):
                for _ in range(rng.randrange(15)):
                    history.step()
                if run == 5:
                    history.busy = False
                    history.settle()
                following = reader.latestOffset(at, reader.getDefaultReadLimit())
                cuts.append(ends(following))
                if available_now and following == at:
                    break
                at = following
            position = at
        reader = stream(cluster, clock)
        cuts.append(ends(reader.latestOffset(position, ReadAllAvailable())))
        assert cuts[-1] == history.ends, seed
        history.check(cuts)


def test_markers_on_their_way_are_waited_for() -> None:
    history, clock = logs(), Clock()
    one = write(history, P, Q, marked=[P])
    reader = stream(Cluster(history), clock)
    clock.later = [lambda: None, lambda: history._mark(one, Q)]
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    assert ends(end) == {P: 2, Q: 2, R: 0}
    assert clock.slept == [*MARKER_WAITS_S[:2]]


def test_what_is_held_up_is_left_out_and_not_waited_for_again() -> None:
    history, clock = logs(), Clock()
    history.transactions.append(Written(TransactionName(99, 0), {Q: [history._take(Q)]}))
    write(history, P, Q, marked=[P, Q])  # readers of Q stop before it
    write(history, R, marked=[R])
    reader = stream(Cluster(history), clock)
    first = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    assert ends(first) == {P: 0, Q: 0, R: 2}
    assert clock.slept == [*MARKER_WAITS_S]
    write(history, R, marked=[R])
    second = reader.latestOffset(first, ReadAllAvailable())
    assert ends(second) == {P: 0, Q: 0, R: 4}
    assert clock.slept == [*MARKER_WAITS_S]
    history.settle()
    third = reader.latestOffset(second, ReadAllAvailable())
    assert ends(third) == history.ends


def test_a_query_without_a_cut_says_so_once(caplog: pytest.LogCaptureFixture) -> None:
    history, clock = logs(), Clock()
    write(history, R, marked=[R])
    reader = stream(Cluster(history), clock)
    at = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    history.transactions.append(Written(TransactionName(99, 0), {Q: [history._take(Q)]}))
    write(history, P, Q, marked=[P, Q])
    with caplog.at_level(logging.WARNING, "pylog.connector"):
        for _ in range(2):
            assert reader.latestOffset(at, ReadAllAvailable()) == at
        assert caplog.messages == []
        clock.now_ms += STARVED_MS
        for _ in range(3):
            assert reader.latestOffset(at, ReadAllAvailable()) == at
    [message] = caplog.messages
    assert "1 partitions have something to read, a-0 first" in message
    history.settle()
    assert ends(reader.latestOffset(at, ReadAllAvailable())) == history.ends


def test_a_start_at_latest_is_inside_no_transaction() -> None:
    history = logs()
    write(history, P, Q, marked=[P, Q])
    one = write(history, P, Q, marked=[P])
    reader = stream(Cluster(history), Clock(), startingOffsets="latest")
    assert ends(reader.initialOffset()) == {P: 2, Q: 2, R: 0}
    history._mark(one, Q)
    explicit = '{"a":{"0":3,"1":-1},"b":"latest"}'
    reader = stream(Cluster(history), Clock(), startingOffsets=explicit)
    assert ends(reader.initialOffset()) == {P: 3, Q: 4, R: 0}  # the user's word counts


def test_topics_that_are_made_anew_all_the_time_end_a_query_by_name() -> None:
    history = logs()
    write(history, P, marked=[P])
    cluster = Cluster(history)
    cluster.is_gone = True
    for available_now in (False, True):
        reader = stream(cluster, Clock())
        if available_now:
            reader.prepareForTriggerAvailableNow()
        with pytest.raises(ReadFailed, match="deleted and created all the time"):
            reader.latestOffset(reader.initialOffset(), ReadAllAvailable())


def test_a_query_without_the_option_asks_for_no_transactions() -> None:
    history = logs()
    write(history, P, Q, marked=[P])
    reader = stream(Cluster(history), Clock(), **{"pylog.consistent.cut": "false"})
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    assert ends(end) == {P: 2, Q: 0, R: 0}
    assert history.questions == 0


def test_the_end_of_a_batch_read() -> None:
    history = logs()
    write(history, P, Q, marked=[P, Q])
    write(history, P, Q, R, marked=[P, R])
    cluster = Cluster(history)
    cuts = ConsistentEnds(cluster.transactions)
    start, latest = Bound("startingOffsets", EARLIEST), Bound("endingOffsets", LATEST)
    end = cuts.batch_end(start, latest, cluster.bounds(), {})
    assert end == Bound("endingOffsets", {"a": {0: 2, 1: 2}, "b": {0: 0}})
    assert cuts.is_short
    mixed = Bound("endingOffsets", {"a": {0: 4, 1: -1}, "b": -1})
    end = cuts.batch_end(start, mixed, cluster.bounds(), {})
    assert end == Bound("endingOffsets", {"a": {0: 4, 1: 2}, "b": {0: 0}})
    beyond = Bound("startingOffsets", {"a": {0: 9, 1: 0}, "b": -2})
    end = cuts.batch_end(beyond, latest, cluster.bounds(), {})
    assert end == Bound("endingOffsets", {"a": {0: 9, 1: 2}, "b": {0: 0}})
    assert cuts.batch_end(start, latest, {}, {}) == Bound("endingOffsets", {})


def test_a_reader_goes_to_tasks_as_it_is() -> None:
    given = {"pylog.bootstrap.servers": "h:1", "subscribe": "a", "pylog.consistent.cut": "true"}
    pickle.loads(pickle.dumps(StreamReader(source_options(given, streaming=True), ("value",))))
