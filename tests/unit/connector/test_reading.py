"""A task's ranges, over a fake cluster."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from pylog.records.builder import encode_batch
from pylog_connector.clients import drop_reader
from pylog_connector.errors import DamagedBatch, DataLoss, ReadFailed
from pylog_connector.options import SourceOptions, source_options
from pylog_connector.ranges import ReadRange
from pylog_connector.reading import ASKED_MAX, read_ranges
from tests.fakes.fake_cluster import FakeCluster
from tests.fakes.fake_topics import FakeTopic

PARTITIONS = ASKED_MAX + 2
RECORDS = 10


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(brokers=2) as cluster:
        yield cluster


@pytest.fixture
def topic(cluster: FakeCluster) -> FakeTopic:
    topic = cluster.create_topic("a", partitions=PARTITIONS)
    for number, partition in enumerate(topic.partitions):
        partition.append(encode_batch([b"%d" % number] * RECORDS))
    return topic


@pytest.fixture
def options(cluster: FakeCluster) -> Iterator[SourceOptions]:
    given = {"pylog.bootstrap.servers": ",".join(cluster.bootstrap_servers), "subscribe": "a"}
    options = source_options(given, streaming=True)
    yield options
    drop_reader(options)


def whole(topic: FakeTopic) -> list[ReadRange]:
    return [ReadRange("a", topic.topic_id, n, 0, RECORDS) for n in range(PARTITIONS)]


def test_ranges_come_in_their_order(topic: FakeTopic, options: SourceOptions) -> None:
    batches = list(read_ranges(whole(topic), options, ("partition", "value")))
    assert [batch.column("partition")[0].as_py() for batch in batches] == list(range(PARTITIONS))
    assert all(batch.num_rows == RECORDS for batch in batches)


def test_the_first_ranges_are_asked_for_at_once(
    cluster: FakeCluster, topic: FakeTopic, options: SourceOptions
) -> None:
    batches = read_ranges(whole(topic), options, ("value",))
    next(batches)
    batches.close()  # type: ignore[attr-defined]
    drop_reader(options)  # waits until the loop has let go of what was asked for
    asked = {p.partition for request in cluster.fetch_requests for p in request.partitions}
    assert 0 in asked
    assert asked <= set(range(ASKED_MAX))


def test_a_loss_is_told_when_its_range_comes(
    cluster: FakeCluster, topic: FakeTopic, options: SourceOptions
) -> None:
    topic.partitions[1].log_start = 3
    batches = read_ranges(whole(topic), options, ("value",))
    assert next(batches).num_rows == RECORDS
    with pytest.raises(DataLoss, match=r"a-1 was to be read from offset 0 to 10"):
        next(batches)


def rows_of(ranges: list[ReadRange], options: SourceOptions) -> list[tuple[int, int]]:
    """Partition and offset."""
    batches = read_ranges(ranges, options, ("partition", "offset"))
    return [(row["partition"], row["offset"]) for batch in batches for row in batch.to_pylist()]


def test_where_loss_is_allowed_a_range_ends_with_the_log(
    topic: FakeTopic, options: SourceOptions, caplog: pytest.LogCaptureFixture
) -> None:
    allowed = replace(options, fail_on_data_loss=False)
    beyond = ReadRange("a", topic.topic_id, 1, 8, 12, (8, 10), lenient=True)
    assert rows_of([beyond], allowed) == [(1, 8), (1, 9)]
    assert "a-1 was to be read from offset 8 to 12, but it ends at 10" in caplog.text
    assert rows_of([replace(beyond, start=11)], allowed) == []
    topic.partitions[1].append(encode_batch([b"1"]))
    assert rows_of([beyond], allowed) == [(1, 8), (1, 9), (1, 10)]


def test_where_loss_is_allowed_a_range_of_a_topic_made_anew_is_read_from_the_new_one(
    cluster: FakeCluster,
    topic: FakeTopic,
    options: SourceOptions,
    caplog: pytest.LogCaptureFixture,
) -> None:
    allowed = replace(options, fail_on_data_loss=False)
    planned = [ReadRange("a", topic.topic_id, n, 1, 4, (1, 4), lenient=True) for n in range(2)]
    late = ReadRange("a", topic.topic_id, 0, 2, -1, (2, 10), lenient=True)
    del cluster.topics["a"]
    cluster.create_topic("a").partitions[0].append(encode_batch([b"new"] * 3))
    assert rows_of(planned, allowed) == [(0, 1), (0, 2)]
    assert "topic a was deleted and created again after the read was planned" in caplog.text
    assert rows_of([late], allowed) == [(0, 2)]
    with pytest.raises(ReadFailed, match=r"created again .*set failOnDataLoss=false"):
        rows_of([replace(late, lenient=False)], options)
    del cluster.topics["a"]
    assert rows_of(planned, allowed) == []


def test_what_has_rotted_fails_the_task_and_says_what_to_do(
    topic: FakeTopic, options: SourceOptions
) -> None:
    topic.partitions[0].damaged = (0, 4)
    words = r"\[PYLOG_DAMAGED_BATCH\] a-0, offsets 0 to 3, cannot be read: x\.log is damaged.*"
    with pytest.raises(DamagedBatch, match=words + "failOnDataLoss=false"):
        list(read_ranges(whole(topic), options, ("value",)))


def test_what_has_rotted_is_stepped_over_when_losses_are_allowed(
    topic: FakeTopic, options: SourceOptions, caplog: pytest.LogCaptureFixture
) -> None:
    partition = topic.partitions[0]
    partition.append(encode_batch([b"behind"]))
    partition.damaged = (0, RECORDS)
    wanted = [ReadRange("a", topic.topic_id, 0, 0, RECORDS + 1)]
    options = replace(options, fail_on_data_loss=False)
    batches = list(read_ranges(wanted, options, ("value",)))
    assert [batch.column("value").to_pylist() for batch in batches] == [[b"behind"]]
    assert "a-0, offsets 0 to 9, cannot be read" in caplog.text


def test_a_topic_that_is_gone_is_named(cluster: FakeCluster, options: SourceOptions) -> None:
    late = ReadRange("none", "", 0, -2, -1)
    with pytest.raises(ReadFailed, match="topic none was deleted"):
        list(read_ranges([late], options, ("value",)))
