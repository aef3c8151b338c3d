"""Batch writes that overwrite topics, from the tasks' rows to the driver's decision."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructField, StructType

from pylog.client.consumer.consumer import Consumer
from pylog.client.sinks.sink_types import OverwrittenTopic
from pylog.model import TopicPartition
from pylog.records.builder import encode_batch
from pylog_connector.clients import drop_staging_producer
from pylog_connector.datasource import PylogDataSource
from pylog_connector.deciding import abort, decide
from pylog_connector.errors import DataLoss, SaveMode, UnknownTopic
from pylog_connector.forensics import why_overwritten
from pylog_connector.options import (
    SinkOptions,
    SourceOptions,
    sink_options,
    source_options,
)
from pylog_connector.overwriting import overwriting
from pylog_connector.positions import EARLIEST, LATEST
from pylog_connector.ranges import Others, ReadRange
from pylog_connector.reading import read_ranges
from pylog_connector.sink_identity import OVERWRITE_KEEP_MS, SinkBatchId, batch_of_job
from pylog_connector.staged import TaskReport
from pylog_connector.staging import stage_batches
from tests.fakes.fake_cluster import FakeCluster

VALUE = StructType([StructField("value", StringType())])


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    """The topics `t` and `u` have one old record in each of their partitions."""
    with FakeCluster(2) as running:
        for topic in (running.create_topic("t", 3), running.create_topic("u")):
            for partition in topic.partitions:
                partition.append(encode_batch([b"o"], timestamps=5))
        yield running


def options(cluster: FakeCluster, **given: str) -> SinkOptions:
    made = sink_options(
        {
            "pylog.bootstrap.servers": ",".join(cluster.bootstrap_servers),
            "pylog.retry.backoff.ms": "10",
            **given,
        }
    )
    return replace(made, overwrites=True)


@pytest.fixture
def to(cluster: FakeCluster) -> Iterator[SinkOptions]:
    made = options(cluster, topic="t")
    yield made
    drop_staging_producer(made)


def stage(
    to: SinkOptions, batch: SinkBatchId, task: int, *rows: tuple[str, int], topic: str = ""
) -> TaskReport:
    """The report of a task that writes these values to these partitions."""
    columns: dict[str, pa.Array] = {
        "value": pa.array([value for value, _ in rows], pa.string()),
        "partition": pa.array([partition for _, partition in rows], pa.int32()),
    }
    if topic:
        columns["topic"] = pa.array([topic] * len(rows), pa.string())
    report = stage_batches(
        [pa.record_batch(columns)] if rows else [], to, list(columns), batch, task, task
    )
    return pickle.loads(pickle.dumps(report))  # type: ignore[no-any-return]


def left(cluster: FakeCluster, topic: str = "t") -> list[str]:
    """The values that readers of committed records find in each partition."""
    found = []
    with Consumer(
        bootstrap_servers=cluster.bootstrap_servers, isolation_level="read_committed"
    ) as consumer:
        for number in sorted(consumer.partitions_for(topic)):
            tp = TopicPartition(topic, number)
            consumer.assign([tp])
            consumer.seek_to_beginning(tp)
            end = consumer.end_offsets([tp])[tp]
            values = ""
            while consumer.position(tp) < end:
                values += "".join(record.value.decode() for record in consumer.poll(1))
            found.append(values)
    return found


def test_a_topic_has_the_new_rows_alone(cluster: FakeCluster, to: SinkOptions) -> None:
    batch = batch_of_job("j", to)
    assert batch.keep_ms == OVERWRITE_KEEP_MS
    reports = [stage(to, batch, 0, ("a", 0), ("b", 1)), stage(to, batch, 1, ("c", 0))]
    assert left(cluster) == ["o", "o", "o"]
    decided = decide(reports, to)
    assert decided is not None
    assert decided.overwritten == (OverwrittenTopic("t", cluster.topics["t"].topic_id, (1, 1, 1)),)
    assert left(cluster) == ["ac", "b", ""]
    assert left(cluster, "u") == ["o"]
    assert decide(reports, to) == decided


def test_a_write_without_rows_empties_the_topic(cluster: FakeCluster, to: SinkOptions) -> None:
    batch = batch_of_job("j", to)
    decided = decide([stage(to, batch, 0), stage(to, batch, 1)], to)
    assert decided is not None
    assert (decided.row_count, decided.receipt) == (0, ())
    assert left(cluster) == ["", "", ""]


def test_a_replayed_batch_overwrites_nothing(cluster: FakeCluster, to: SinkOptions) -> None:
    """As within foreachBatch: what was written since stays."""
    first = batch_of_job("j", to)._replace(run_id="r1")
    decided = decide([stage(to, first, 0, ("a", 0))], to)
    cluster.topics["t"].partitions[0].append(encode_batch([b"x"], timestamps=5))
    again = first._replace(run_id="r2")
    assert decide([stage(to, again, 0, ("a", 0))], to) == decided
    assert left(cluster) == ["ax", "", ""]
    empty = first._replace(batch_id=1)
    emptied = decide([stage(to, empty._replace(run_id="r2"), 0)], to)
    cluster.topics["t"].partitions[0].append(encode_batch([b"y"], timestamps=5))
    assert decide([stage(to, empty._replace(run_id="r3"), 0)], to) == emptied
    assert left(cluster) == ["y", "", ""]


def test_a_write_overwrites_the_topics_that_its_rows_name(cluster: FakeCluster) -> None:
    to = options(cluster)
    try:
        batch = batch_of_job("j", to)
        assert decide([stage(to, batch, 0)], to) is None, "none is named"
        decide([stage(to, batch, 0, ("a", 0), topic="u"), stage(to, batch, 1)], to)
        assert (left(cluster), left(cluster, "u")) == (["o", "o", "o"], ["a"])
        batch = batch_of_job("k", to)
        rows = [
            stage(to, batch, task, ("b", 0), topic=topic) for task, topic in enumerate(("t", "u"))
        ]
        decided = decide(rows, to)
        assert decided is not None
        assert [each.topic for each in decided.overwritten] == ["t", "u"]
        assert (left(cluster), left(cluster, "u")) == (["b", "", ""], ["b"])
    finally:
        drop_staging_producer(to)


def test_a_write_that_is_aborted_leaves_all_as_it_is(cluster: FakeCluster, to: SinkOptions) -> None:
    batch = batch_of_job("j", to)
    abort([stage(to, batch, 0, ("a", 0)), None], to)
    assert left(cluster) == ["o", "o", "o"]


def test_a_topic_that_is_not_there(cluster: FakeCluster) -> None:
    to = options(cluster, topic="none")
    with pytest.raises(UnknownTopic, match="cannot overwrite topic none"):
        decide([stage(to, batch_of_job("j", to), 0)], to)
    drop_staging_producer(to)


def test_a_long_wait_for_the_leaders_is_warned_of(
    cluster: FakeCluster, to: SinkOptions, caplog: pytest.LogCaptureFixture
) -> None:
    later = OverwrittenTopic("t", cluster.topics["t"].topic_id, (0, 9, 9))
    with overwriting(to) as overwrites, caplog.at_level(logging.WARNING):
        overwrites.wait([later._replace(starts=(0, 0, 0))], 10_000)
        assert not caplog.records
        overwrites.wait([later], 30)
    assert "2 partitions are overwritten later, t-1 first" in caplog.text


def test_without_exactly_once_it_is_refused_by_name() -> None:
    given = {"pylog.bootstrap.servers": "x:1", "topic": "t"}
    source = PylogDataSource({**given, "pylog.exactly.once": "false"})
    source.writer(VALUE, overwrite=False)
    with pytest.raises(SaveMode, match=r"mode\('overwrite'\).*pylog\.exactly\.once=false"):
        source.writer(VALUE, overwrite=True)
    PylogDataSource(given).writer(VALUE, overwrite=True)


def test_a_reader_is_told_that_the_topic_was_overwritten(
    cluster: FakeCluster, to: SinkOptions
) -> None:
    """A start at "earliest" that was looked up before must not give the half that is left."""
    servers = ",".join(cluster.bootstrap_servers)
    reads = source_options({"pylog.bootstrap.servers": servers, "subscribe": "t"}, streaming=False)
    at = TopicPartition("t", 1)
    decide([stage(to, batch_of_job("j", to), 0, ("a", 0))], to)
    told = why_overwritten(reads, at, 1)
    assert told is not None
    assert told.startswith("as the topic was overwritten: by batch 0 of sink 't' of query job:j")
    assert why_overwritten(reads, at, 2) is None
    assert why_overwritten(reads, at, 1, with_rows=True) is None, "it has written nothing there"
    assert why_overwritten(reads, TopicPartition("t", 0), 1, with_rows=True) is not None
    assert why_overwritten(reads, at, None) is None
    topic_id = cluster.topics["t"].topic_id
    for planned in (
        ReadRange("t", topic_id, 1, 0, 1),
        ReadRange("t", topic_id, 1, 0, 1, from_earliest=True),
    ):
        with pytest.raises(DataLoss, match=r"t-1 was to be read .* the topic was overwritten"):
            list(read_ranges([planned], reads, ["value"]))
        lenient = replace(reads, fail_on_data_loss=False)
        assert list(read_ranges([planned], lenient, ["value"])) == []


def test_a_read_of_all_that_there_is_never_mixes_old_and_new(
    cluster: FakeCluster, to: SinkOptions
) -> None:
    """Tasks look up their bounds when they run, and some have run before the topic was
    overwritten.
    """
    servers = ",".join(cluster.bootstrap_servers)
    reads = source_options({"pylog.bootstrap.servers": servers, "subscribe": "t"}, streaming=False)
    topic = cluster.create_topic("empty", 2)
    topic_id = cluster.topics["t"].topic_id
    had = ReadRange("t", topic_id, 0, EARLIEST, LATEST, known=(0, 1))
    had_none = ReadRange("empty", topic.topic_id, 1, EARLIEST, LATEST, others=Others(empty=(0,)))
    assert rows_of(reads, had, had_none) == 1
    topic.partitions[1].append(encode_batch([b"x"], timestamps=5))
    cluster.topics["t"].partitions[0].append(encode_batch([b"x"], timestamps=5))
    assert rows_of(reads, had, had_none) == 3, "a DataFrame that is used again"
    decide([stage(to, batch_of_job("j", to), 0, ("a", 0))], to)
    with pytest.raises(DataLoss, match=r"t-0 .* is gone as the topic was overwritten: by batch 0"):
        rows_of(reads, had)
    assert rows_of(replace(reads, fail_on_data_loss=False), had) == 1
    there = replace(to, topic="empty")
    fresh = ReadRange("empty", topic.topic_id, 1, EARLIEST, LATEST, others=Others(empty=(0,)))
    decide([stage(there, batch_of_job("k", there), 0, ("a", 0))], there)
    with pytest.raises(DataLoss, match=r"empty-0 .* as the topic was overwritten"):
        rows_of(reads, fresh)


def rows_of(reads: SourceOptions, *ranges: ReadRange) -> int:
    return sum(batch.num_rows for batch in read_ranges(ranges, reads, ["value"]))
