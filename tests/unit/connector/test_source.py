"""The stream reader's own state; what it decides is tested with `planning` and `admission`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from pylog.model import TopicPartition
from pylog_connector.bounds import BoundsReader
from pylog_connector.datasource import PylogDataSource
from pylog_connector.errors import DataLoss, OptionNotApplicable
from pylog_connector.lag import NOTHING_TOLD, Unread
from pylog_connector.options import source_options
from pylog_connector.planning import Bounds, PartitionBounds, TopicBounds
from pylog_connector.ranges import ReadRange
from pylog_connector.source import RefusedStream, StreamReader

T0 = TopicPartition("a", 0)


class Cluster:
    """Bounds as they are set. Partitions are told as they were when they were last listed, and the
    first one from the beginning.
    """

    def __init__(self) -> None:
        self.ends = {0: (0, 3)}
        self.topic_id = "x" * 22
        self.asked = 0
        self.listed: list[int] = []
        self.unread_asked: list[dict[TopicPartition, tuple[int, int]]] = []
        self.told = NOTHING_TOLD
        self.awaited: list[tuple[dict[TopicPartition, int], int, int]] = []
        self.coming: list[dict[int, tuple[int, int]]] = []
        """The bounds that come while leaders wait for records, one after the other."""
        self.rests: list[float] = []
        """The seconds that listing should wait, one after the other; then 0."""

    def bounds(
        self,
        epochs: Mapping[TopicPartition, int] | None = None,
        known: Iterable[str] = (),
        *,
        anew: bool = False,
    ) -> Bounds:
        self.asked += 1
        if anew or not self.listed:
            self.listed = sorted(self.ends)
        partitions = {p: PartitionBounds(*self.ends[p], 1) for p in self.listed}
        return {"a": TopicBounds(self.topic_id, partitions)}

    def rest_s(self) -> float:
        return self.rests.pop(0) if self.rests else 0.0

    def times(self, queries: object) -> dict[object, int]:
        return {}

    def unread(self, behind: Mapping[TopicPartition, tuple[int, int]]) -> Unread:
        self.unread_asked.append(dict(behind))
        return self.told

    def await_records(self, ends: Mapping[TopicPartition, int], count: int, wait_ms: int) -> bool:
        self.awaited.append((dict(ends), count, wait_ms))
        came = self.coming.pop(0) if self.coming else None
        self.ends |= came or {}
        return came is not None

    def story(self, at: TopicPartition) -> str:
        return "by request"


class FrozenClock:
    """Moves only by sleeping."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.slept: list[float] = []

    def wall_ms(self) -> int:
        return self.now_ms

    def monotonic_ms(self) -> int:
        return self.now_ms

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_ms += round(seconds * 1000)


def reader(cluster: Cluster, clock: FrozenClock, **options: str) -> StreamReader:
    given = {"pylog.bootstrap.servers": "h:1", "subscribe": "a", **options}
    return StreamReader(
        source_options(given, streaming=True),
        ("value",),
        bounds_reader=cast(BoundsReader, cluster),
        clock=clock,
    )


def ends(offset: Mapping[str, Any]) -> dict[str, int]:
    return {p: at["o"] for p, at in offset["t"]["a"]["p"].items()}


def test_an_idle_stream_is_asked_less_and_less_often() -> None:
    cluster, clock = Cluster(), FrozenClock()
    stream = reader(cluster, clock)
    start = stream.initialOffset()
    first = stream.latestOffset(start, ReadAllAvailable())
    assert ends(first) == {"0": 3}
    assert clock.slept == []
    for _ in range(7):
        assert stream.latestOffset(first, ReadAllAvailable()) is first
    assert clock.slept == [0.005, 0.01, 0.02, 0.04, 0.08, 0.1]
    cluster.ends[0] = (0, 5)
    assert ends(stream.latestOffset(first, ReadAllAvailable())) == {"0": 5}


def test_nothing_new_is_said_of_partitions_that_were_listed_for_it() -> None:
    cluster, clock = Cluster(), FrozenClock()
    stream = reader(cluster, clock)
    first = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    cluster.ends[1] = (0, 2)
    second = stream.latestOffset(first, ReadAllAvailable())
    assert (ends(second), clock.slept) == ({"0": 3, "1": 2}, [])
    assert stream.latestOffset(second, ReadAllAvailable()) is second
    cluster.ends[2] = (0, 4)
    assert ends(stream.latestOffset(second, ReadAllAvailable())) == {"0": 3, "1": 2, "2": 4}


def test_an_idle_stream_looks_after_its_wait_and_not_before() -> None:
    cluster = Cluster()

    class Clock(FrozenClock):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            cluster.ends[0] = (0, 9)

    stream = reader(cluster, Clock())
    first = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    assert stream.latestOffset(first, ReadAllAvailable()) is first
    assert ends(stream.latestOffset(first, ReadAllAvailable())) == {"0": 9}


def test_records_do_not_wait_for_a_listing_that_takes_long() -> None:
    cluster, clock = Cluster(), FrozenClock()
    stream = reader(cluster, clock)
    first = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    cluster.ends[1] = (0, 2)
    cluster.rests = [0.25, 0.15, 0.05]
    second = stream.latestOffset(first, ReadAllAvailable())
    assert (ends(second), clock.slept) == ({"0": 3, "1": 2}, [0.1, 0.1, 0.05])
    cluster.ends[0], cluster.ends[2] = (0, 5), (0, 1)
    assert ends(stream.latestOffset(second, ReadAllAvailable())) == {"0": 5, "1": 2}


def test_a_look_that_is_repeated_does_not_end_the_delay() -> None:
    cluster, clock = Cluster(), FrozenClock()
    stream = reader(cluster, clock, minOffsetsPerTrigger="4", maxTriggerDelay="1s")
    limit = stream.getDefaultReadLimit()
    first = stream.latestOffset(stream.initialOffset(), limit)
    clock.now_ms += 1_000
    cluster.ends[1] = (0, 1)  # fewer than four, but the delay is over
    assert ends(stream.latestOffset(first, limit)) == {"0": 3, "1": 1}


def test_a_run_to_a_fixed_end_lists_what_there_is_at_its_first_batch() -> None:
    cluster, clock = Cluster(), FrozenClock()
    stream = reader(cluster, clock, startingOffsets="earliest")
    stream.prepareForTriggerAvailableNow()
    start = stream.initialOffset()
    cluster.ends[1] = (0, 2)
    first = stream.latestOffset(start, ReadAllAvailable())
    assert ends(first) == {"0": 3, "1": 2}


def test_limits_wait_and_bound_but_not_when_all_is_wanted() -> None:
    cluster, clock = Cluster(), FrozenClock()
    limits = {"minOffsetsPerTrigger": "4", "maxTriggerDelay": "1s", "maxOffsetsPerTrigger": "6"}
    stream = reader(cluster, clock, **limits)
    limit = stream.getDefaultReadLimit()
    assert limit == ReadMaxRows(6)
    first = stream.latestOffset(stream.initialOffset(), limit)
    cluster.ends[0] = (0, 6)
    assert stream.latestOffset(first, limit) is first  # three of four
    assert ends(stream.latestOffset(first, ReadAllAvailable())) == {"0": 6}  # Trigger.Once
    cluster.ends[0] = (0, 20)
    assert ends(stream.latestOffset(first, limit)) == {"0": 9}
    clock.now_ms += 1_000
    cluster.ends[0] = (0, 4)
    assert ends(stream.latestOffset(first, limit)) == {"0": 4}  # the delay is over


def test_available_now_ignores_the_wait_and_stops_at_its_target() -> None:
    cluster, clock = Cluster(), FrozenClock()
    stream = reader(cluster, clock, minOffsetsPerTrigger="100", startingOffsets="earliest")
    stream.prepareForTriggerAvailableNow()
    limit = stream.getDefaultReadLimit()
    first = stream.latestOffset(stream.initialOffset(), limit)
    assert ends(first) == {"0": 3}
    cluster.ends[0] = (0, 9)
    assert stream.latestOffset(first, limit) is first
    assert clock.slept == []


def test_a_run_to_a_fixed_end_asks_the_cluster_once_a_second() -> None:
    cluster, clock = Cluster(), FrozenClock()
    stream = reader(cluster, clock, maxOffsetsPerTrigger="1", startingOffsets="earliest")
    stream.prepareForTriggerAvailableNow()
    limit = stream.getDefaultReadLimit()
    first = stream.latestOffset(stream.initialOffset(), limit)
    asked = cluster.asked

    clock.now_ms += 999
    second = stream.latestOffset(first, limit)
    assert (ends(second), cluster.asked) == ({"0": 2}, asked)

    clock.now_ms += 1
    cluster.ends[0] = (3, 3)
    with pytest.raises(DataLoss):
        stream.latestOffset(second, limit)


def test_the_progress_tells_how_far_behind_the_query_is() -> None:
    cluster, clock = Cluster(), FrozenClock()
    cluster.ends = {0: (0, 3), 1: (0, 8)}
    stream = reader(cluster, clock, maxOffsetsPerTrigger="2", startingOffsets="earliest")
    assert stream.reportLatestOffset() is None
    end = stream.latestOffset(stream.initialOffset(), stream.getDefaultReadLimit())
    assert ends(end) == {"0": 1, "1": 1}
    shown = {
        "a": {"0": 3, "1": 8},
        "avgOffsetsBehindLatest": 4.5,
        "maxOffsetsBehindLatest": 7,
        "minOffsetsBehindLatest": 2,
        "recordsBehindLatest": 9,
        "partitionsBehindLatest": {"a": {"0": {"records": 2}, "1": {"records": 7}}},
    }
    assert stream.reportLatestOffset() == shown  # leaders did not say how old records are


def test_the_progress_tells_how_old_the_oldest_unread_record_is() -> None:
    """By one look-up a second where something is left, and by none where nothing is."""
    cluster, clock = Cluster(), FrozenClock()
    clock.now_ms = 60_000
    cluster.ends = {0: (0, 3), 1: (0, 1)}
    cluster.told = Unread({T0: 45_000}, {T0: 700})
    stream = reader(cluster, clock, maxOffsetsPerTrigger="2", startingOffsets="earliest")
    end = stream.latestOffset(stream.initialOffset(), stream.getDefaultReadLimit())
    seconds = []
    for wait_ms in (0, 999, 1):
        clock.now_ms += wait_ms
        told = stream.reportLatestOffset()
        assert told is not None
        seconds.append(told["secondsBehindLatest"])
    assert seconds == [15.0, 15.999, 16.0]
    assert told["bytesBehindLatest"] == 700
    assert told["partitionsBehindLatest"] == {
        "a": {"0": {"records": 2, "bytes": 700, "seconds": 16.0}}
    }
    assert cluster.unread_asked == [{T0: (1, 3)}] * 2
    stream.latestOffset(end, ReadAllAvailable())
    told = stream.reportLatestOffset()
    assert told is not None
    assert (told["recordsBehindLatest"], told["secondsBehindLatest"]) == (0, 0.0)
    assert told["bytesBehindLatest"] == 0
    assert "partitionsBehindLatest" not in told
    assert len(cluster.unread_asked) == 2


def test_small_partitions_share_a_task_unless_tasks_were_asked_for() -> None:
    cluster, clock = Cluster(), FrozenClock()
    cluster.ends = {0: (0, 3), 1: (0, 2000), 2: (0, 0), 3: (0, 4)}

    def tasks(**options: str) -> list[list[tuple[int, int, int]]]:
        stream = reader(cluster, clock, startingOffsets="earliest", **options)
        start = stream.initialOffset()
        planned = stream.partitions(start, stream.latestOffset(start, ReadAllAvailable()))
        ranges: list[tuple[ReadRange, ...]] = [task.value for task in planned]
        return [[(r.partition, r.start, r.end) for r in task] for task in ranges]

    assert tasks() == [[(0, 0, 3)], [(1, 0, 2000)], [(3, 0, 4)]]
    cluster.ends[1] = (0, 20)
    assert tasks() == [[(0, 0, 3), (1, 0, 20), (3, 0, 4)]]
    assert len(tasks(minPartitions="3")) == 3
    assert len(tasks(maxRecordsPerPartition="10")) == 4


def test_an_end_that_went_back_is_believed_only_after_a_while() -> None:
    cluster, clock = Cluster(), FrozenClock()
    stream = reader(cluster, clock)
    first = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    cluster.ends[0] = (0, 1)
    with pytest.raises(DataLoss, match="went back from 3 to 1: 2 records"):
        stream.latestOffset(first, ReadAllAvailable())
    assert sum(clock.slept) == pytest.approx(3.0)
    once = reader(
        cluster, clock, **{"fetchOffset.numRetries": "1", "fetchOffset.retryIntervalMs": "7"}
    )
    once.initialOffset()
    clock.slept.clear()
    with pytest.raises(DataLoss):
        once.latestOffset(first, ReadAllAvailable())
    assert clock.slept == [0.007]


def test_leaders_wait_for_records_that_a_batch_is_short_of() -> None:
    """In place of looks of which each finds too few."""
    cluster, clock = Cluster(), FrozenClock()
    stream = reader(cluster, clock, minOffsetsPerTrigger="10", maxTriggerDelay="60s")
    limit = stream.getDefaultReadLimit()
    first = stream.latestOffset(stream.initialOffset(), limit)
    cluster.ends[0] = (0, 7)
    asked = cluster.asked
    cluster.coming, cluster.rests = [{0: (0, 12)}, {0: (0, 13)}], [0.6, 0.1]
    assert ends(stream.latestOffset(first, limit)) == {"0": 13}
    assert cluster.awaited == [({T0: 7}, 6, 500), ({T0: 12}, 1, 500)]
    assert cluster.asked - asked == 3
    assert clock.slept == []


def test_a_wait_for_records_is_over_with_the_delay() -> None:
    cluster, clock = Cluster(), FrozenClock()
    stream = reader(cluster, clock, minOffsetsPerTrigger="10", maxTriggerDelay="1s")
    limit = stream.getDefaultReadLimit()
    first = stream.latestOffset(stream.initialOffset(), limit)
    clock.now_ms += 700
    cluster.ends[0] = (0, 7)
    assert stream.latestOffset(first, limit) is first
    assert cluster.awaited == [({T0: 7}, 6, 300)]
    assert clock.slept == [0.1]  # a leader that could not wait is not asked without a pause
    clock.now_ms += 200
    assert ends(stream.latestOffset(first, limit)) == {"0": 7}


def test_a_refused_stream_says_why_at_whatever_spark_asks_first() -> None:
    source = PylogDataSource({"pylog.bootstrap.servers": "h:1", "subscribe": "a"})
    source.options["endingOffsets"] = "latest"
    stream = source.streamReader(source.schema())
    assert isinstance(stream, RefusedStream)
    for call in (
        stream.prepareForTriggerAvailableNow,
        stream.getDefaultReadLimit,
        stream.initialOffset,
        lambda: stream.latestOffset({}, ReadAllAvailable()),
        lambda: stream.partitions({}, {}),
        lambda: stream.read(InputPartition(())),
    ):
        with pytest.raises(OptionNotApplicable, match="endingOffsets='latest'"):
            call()
    stream.stop()  # as Spark does after the error
