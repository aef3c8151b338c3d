from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from pylog.records.columnar import decode_to_arrow
from pylog_connector import clients
from pylog_connector.clients import drop_producer
from pylog_connector.errors import SinkRow, WriteFailed
from pylog_connector.options import SinkOptions, sink_options
from pylog_connector.sink_rows import check_rows, rows_by_topic
from pylog_connector.writing import write_batches
from tests.fakes.fake_cluster import FakeCluster
from tests.fakes.fake_topics import FakeTopic
from tests.fakes.waiting import eventually


def options(topic: str | None = None, **client: str) -> SinkOptions:
    given = {"pylog.bootstrap.servers": "h:1", **{f"pylog.{k}": v for k, v in client.items()}}
    return sink_options({**given, "topic": topic} if topic else given)


def grouped(batch: pa.RecordBatch, to: SinkOptions) -> dict[str, list[dict[str, Any]]]:
    columns = [n for n in batch.schema.names if n != "other"]
    return {part.topic: part.rows.to_pylist() for part in rows_by_topic(batch, to, columns)}


def check_all(batch: pa.RecordBatch, to: SinkOptions, columns: list[str]) -> None:
    for part in rows_by_topic(batch, to, columns):
        check_rows(part, to)


def test_rows_are_grouped_by_topic_in_order() -> None:
    batch = pa.record_batch(
        {
            "value": ["1", "2", "3"],
            "topic": ["b", "a", "b"],
            "partition": pa.array([1, None, 0], pa.int8()),
            "other": [7, 7, 7],
        }
    )
    assert grouped(batch, options()) == {
        "b": [{"value": b"1", "partition": 1}, {"value": b"3", "partition": 0}],
        "a": [{"value": b"2", "partition": None}],
    }
    assert list(grouped(batch, options("z"))) == ["z"]
    assert grouped(batch.slice(0, 0), options()) == {}


def test_types_are_the_producers() -> None:
    at = datetime.datetime(2024, 5, 6, 7, 8, 9, 123456)
    batch = pa.record_batch(
        {
            "key": pa.array([b"k"], pa.large_binary()),
            "value": pa.array(["v"], pa.large_string()),
            "timestamp": pa.array([at], pa.timestamp("us")),
        }
    )
    (part,) = rows_by_topic(batch, options("a"), ["key", "value", "timestamp"])
    assert part.rows.schema.types == [pa.binary(), pa.binary(), pa.timestamp("us", tz="UTC")]
    zoned = pa.record_batch(
        {"value": ["v"], "timestamp": pa.array([at], pa.timestamp("us", tz="Europe/Berlin"))}
    )
    (part,) = rows_by_topic(zoned, options("a"), ["value", "timestamp"])
    assert part.rows.column("timestamp")[0].value == zoned.column("timestamp")[0].value


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"topic": ["a", None]}, ["column topic is null", "option topic", "b'k1'"]),
        ({"topic": ["a", "x/y"]}, ["column topic", "'/'", "b'k1'"]),
        ({"partition": [0, -3]}, ["partition is -3", "b'k1'"]),
        (
            {"timestamp": pa.array([0, -2], pa.timestamp("ms", tz="UTC"))},
            ["timestamp is 1969-12-31T23:59:59.998+00:00", "row 1 of the task", "b'k1'"],
        ),
        (
            {
                "headers": pa.array(
                    [[("h", b"1")], [("g", None), (None, b"2")]],
                    pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
                )
            },
            ["header's key is null", "b'k1'"],
        ),
        ({"value": ["", "x" * 2_000_000]}, ["2000002 bytes", "allows 1048576", "b'k1'"]),
    ],
)
def test_bad_rows_are_told_by_their_key(columns: dict[str, Any], words: list[str]) -> None:
    batch = pa.record_batch({"value": ["", "v"], "key": ["k0", "k1"], **columns})
    names = [name for name in batch.schema.names if name != "topic"] + ["topic"]
    to = options() if "topic" in columns else options("a")
    with pytest.raises(SinkRow) as error:
        check_all(batch, to, names)
    text = str(error.value)
    assert text.startswith("[PYLOG_SINK_ROW] ")
    for word in words:
        assert word in text, text


def test_good_rows_pass_whatever_is_null() -> None:
    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    batch = pa.record_batch(
        {
            "value": pa.array([None, None], pa.string()),
            "key": pa.array([None, "k"], pa.string()),
            "partition": pa.array([None, None], pa.int32()),
            "timestamp": pa.array([None, None], pa.timestamp("us", tz="UTC")),
            "headers": pa.array([None, []], headers),
        }
    )
    (part,) = rows_by_topic(batch, options("a"), batch.schema.names)
    check_rows(part, options("a"))
    sliced = batch.slice(1, 1)
    (part,) = rows_by_topic(sliced, options("a"), batch.schema.names)
    check_rows(part, options("a"))


def test_a_copied_record_without_a_timestamp_gets_one() -> None:
    """The source shows Kafka's -1, which means none, as 1 ms before 1970."""
    times = pa.array([-1, 0, None], pa.timestamp("ms", tz="UTC"))
    batch = pa.record_batch({"value": ["a", "b", "c"], "timestamp": times})
    (part,) = rows_by_topic(batch, options("a"), batch.schema.names)
    check_rows(part, options("a"))
    assert part.rows.column("timestamp").null_count == 2
    assert part.rows.column("timestamp")[1].value == 0


def test_the_size_limit_is_the_settings() -> None:
    batch = pa.record_batch({"value": ["x" * 2_000_000]})
    for limit in ("3000000", "1000000"):
        to = options("a", **{"max.request.size": limit})
        (part,) = rows_by_topic(batch, to, ["value"])
        if limit == "3000000":
            check_rows(part, to)
        else:
            with pytest.raises(SinkRow, match=r"in row 0 of the task \(from 0\);"):
                check_rows(part, to)


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster() as cluster:
        yield cluster


@pytest.fixture
def sink(cluster: FakeCluster) -> Iterator[SinkOptions]:
    sink = sink_options(
        {"pylog.bootstrap.servers": ",".join(cluster.bootstrap_servers), "topic": "a"}
    )
    yield sink
    drop_producer(sink)


def values_of(topic: FakeTopic) -> list[bytes | None]:
    """The values of a topic of one partition."""
    (partition,) = topic.partitions
    read = decode_to_arrow(
        partition.read(0, 1 << 20, partition.end), "a", 0, from_offset=0, to_offset=1 << 62
    )
    return read.column("value").to_pylist()  # type: ignore[no-any-return]


def test_a_topic_that_was_made_anew_between_two_tasks_takes_the_second_ones_rows(
    cluster: FakeCluster, sink: SinkOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kept producer may believe anything of the topic, for however long."""
    monkeypatch.setattr(clients, "TOPICS_AGE_MS_MAX", 3_600_000)
    old = cluster.create_topic("a")
    write_batches([pa.record_batch({"value": ["1"]})], sink, ["value"])
    del cluster.topics["a"]
    new = cluster.create_topic("a")
    rows = [pa.record_batch({"value": [value]}) for value in ("2", "3")]
    assert write_batches(rows, sink, ["value"]) == {"a": 2}
    assert values_of(old) == [b"1"]
    assert values_of(new) == [b"2", b"3"]


def test_rows_behind_a_tasks_first_ones_do_not_go_to_another_topic(
    cluster: FakeCluster, sink: SinkOptions
) -> None:
    old = cluster.create_topic("a")
    made: list[FakeTopic] = []

    def rows() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"value": ["1"]})
        eventually(30, lambda: old.partitions[0].end == 1, "the first row is written")
        del cluster.topics["a"]
        made.append(cluster.create_topic("a"))
        yield pa.record_batch({"value": ["2"]})

    with pytest.raises(WriteFailed, match="records meant for the old one are not written"):
        write_batches(rows(), sink, ["value"])
    assert made[0].partitions[0].end == 0
