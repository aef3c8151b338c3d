"""The sink on real Spark, over a cluster in this process that keeps what it is sent."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from pylog.records.reader import iter_records
from pylog.records.record import Record
from tests.fakes.fake_cluster import FakeCluster

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def records(cluster: FakeCluster, topic: str) -> list[Record]:
    return [
        record
        for number, partition in enumerate(cluster.topics[topic].partitions)
        for record in iter_records(partition.read(0, 1 << 30), topic, number)
    ]


def write(frame: DataFrame, cluster: FakeCluster, **options: str) -> None:
    servers = ",".join(cluster.bootstrap_servers)
    writer = frame.write.format("pylog").mode("append")
    writer.options(**{"pylog.bootstrap.servers": servers, **options}).save()


def refusal(frame: DataFrame, cluster: FakeCluster, **options: str) -> str:
    with pytest.raises(PySparkException) as error:
        write(frame, cluster, **options)
    return str(error.value)


def test_every_column_is_written(spark: SparkSession, cluster: FakeCluster) -> None:
    cluster.create_topic("a", partitions=3)
    frame = spark.sql(
        "select 'k' key, 'v' value, 2 partition, timestamp '2024-05-06 07:08:09.123' timestamp, "
        "array(named_struct('key', 'h', 'value', X'01'), "
        "named_struct('key', 'h', 'value', cast(null as binary))) headers, 'ignored' other"
    )
    write(frame, cluster, topic="a")
    (record,) = records(cluster, "a")
    assert (record.partition, record.key, record.value) == (2, b"k", b"v")
    assert record.headers == [("h", b"\x01"), ("h", None)]
    written = datetime.datetime(2024, 5, 6, 7, 8, 9, 123000, datetime.UTC)
    assert record.timestamp_ms == int(written.timestamp() * 1000)


def test_nulls_and_binary(spark: SparkSession, cluster: FakeCluster) -> None:
    cluster.create_topic("a")
    frame = spark.sql(
        "select cast(null as binary) key, cast(null as string) value, cast(null as int) partition,"
        " cast(null as timestamp) timestamp,"
        " cast(null as array<struct<key:string,value:binary>>) headers"
        " union all select X'00ff', 'x', 0, timestamp '1970-01-01 00:00:01', array()"
    ).coalesce(1)
    write(frame, cluster, topic="a")
    tombstone, plain = records(cluster, "a")
    assert (tombstone.key, tombstone.value, tombstone.headers) == (None, None, [])
    assert tombstone.timestamp_ms > 1_600_000_000_000  # null: when it was written
    assert (plain.key, plain.value, plain.timestamp_ms) == (b"\x00\xff", b"x", 1000)


def test_the_topic_option_overrides_the_column(spark: SparkSession, cluster: FakeCluster) -> None:
    for topic in ("a", "b", "c"):
        cluster.create_topic(topic)
    frame = spark.createDataFrame(
        [("1", "a"), ("2", "b"), ("3", "a")], "value string, topic string"
    )
    write(frame.coalesce(1), cluster)
    assert [r.value for r in records(cluster, "a")] == [b"1", b"3"]
    assert [r.value for r in records(cluster, "b")] == [b"2"]
    # The column's type and nulls then do not matter, as with Spark's Kafka sink.
    write(frame.selectExpr("value", "cast(null as int) topic"), cluster, topic="c")
    assert sorted(r.value or b"" for r in records(cluster, "c")) == [b"1", b"2", b"3"]


def test_keys_go_where_kafkas_clients_put_them(spark: SparkSession, cluster: FakeCluster) -> None:
    from pylog.records.murmur2 import partition_for_key

    cluster.create_topic("a", partitions=5)
    write(spark.range(200).selectExpr("concat('k', id) key", "'' value"), cluster, topic="a")
    found = records(cluster, "a")
    assert len(found) == 200
    for record in found:
        assert record.key is not None
        assert record.partition == partition_for_key(record.key, 5)


def test_many_rows_through_a_small_buffer(spark: SparkSession, cluster: FakeCluster) -> None:
    cluster.create_topic("a", partitions=2)
    frame = spark.range(0, 30_000, 1, 2).selectExpr(
        "lpad(cast(id as string), 100, '0') value", "cast(id % 2 as int) partition"
    )
    write(frame, cluster, topic="a", **{"pylog.buffer.memory": "400000"})
    found = [int(record.value or b"-1") for record in records(cluster, "a")]
    assert sorted(found) == list(range(30_000))
    for partition in (0, 1):  # the order of each task's rows is kept
        for low in (0, 15_000):
            rows = [n for n in found if n % 2 == partition and low <= n < low + 15_000]
            assert rows == sorted(rows)


def test_lost_answers_make_no_duplicates(spark: SparkSession, cluster: FakeCluster) -> None:
    cluster.create_topic("a")
    cluster.produce_faults.extend(["drop", 6, "drop"])
    write(
        spark.range(0, 10_000, 1, 1).selectExpr("lpad(cast(id as string), 100, '0') value"),
        cluster,
        topic="a",
    )
    assert [int(r.value or b"-1") for r in records(cluster, "a")] == list(range(10_000))


def test_60_refusals(spark: SparkSession, cluster: FakeCluster) -> None:
    """The full tables are unit tests; here, that Spark shows what they say."""
    cluster.create_topic("a")
    for query, options, words in (
        ("select 'v' v", {"topic": "a"}, ["[PYLOG_SINK_SCHEMA] the column value is missing"]),
        ("select 'v' value", {}, ["[PYLOG_SINK_SCHEMA] there is neither"]),
        (
            "select 'v' value",
            {"topics": "a"},
            ["[PYLOG_UNKNOWN_OPTION] topics='a'", "or topic (to write)"],
        ),
        ("select 'v' value", {"subscribe": "a"}, ["[PYLOG_SINK_SCHEMA] there is neither"]),
        (
            "select 'v' value",
            {"topic": "a", "pylog.commit.group": "g"},
            ["[PYLOG_OPTION_NOT_APPLICABLE] pylog.commit.group='g'"],
        ),
        ("select 'k1' key, 'v' value, cast(null as string) topic", {}, ["[PYLOG_SINK_ROW] ", "k1"]),
        (
            "select 'k2' key, repeat('x', 20971520) value",
            {"topic": "a"},
            ["[PYLOG_SINK_ROW] topic a: 20971522 bytes", "b'k2'", "pylog.max.request.size"],
        ),
        ("select 1 value", {"topic": "a"}, ["the column value is int; it must be string or bin"]),
    ):
        text = refusal(spark.sql(query), cluster, **options)
        for word in words:
            assert word in text, text
    assert not cluster.produce_requests


def test_60_an_unknown_topic_and_partition(spark: SparkSession, cluster: FakeCluster) -> None:
    cluster.create_topic("a")
    text = refusal(spark.sql("select 'v' value"), cluster, topic="none")
    assert "[PYLOG_UNKNOWN_TOPIC] cannot write to topic none" in text
    text = refusal(spark.sql("select 'v' value, 7 partition"), cluster, topic="a")
    assert "[PYLOG_UNKNOWN_TOPIC] cannot write to topic a" in text
    assert "there is no partition 7; correct the column partition" in text


def test_save_modes(spark: SparkSession, cluster: FakeCluster) -> None:
    cluster.create_topic("a")
    options = {"pylog.bootstrap.servers": cluster.bootstrap_servers[0], "topic": "a"}
    frame = spark.sql("select 'v' value")
    at_least_once = {**options, "pylog.exactly.once": "false"}
    with pytest.raises(AnalysisException, match=r"\[PYLOG_SAVE_MODE\] .*mode\('append'\)"):
        frame.write.format("pylog").mode("overwrite").options(**at_least_once).save()
    # Spark itself refuses its default mode for data sources like this one, and says what to use.
    with pytest.raises(AnalysisException, match=r'"Append"'):
        frame.write.format("pylog").options(**options).save()


def test_a_topic_is_no_table(spark: SparkSession, cluster: FakeCluster) -> None:
    cluster.create_topic("a")
    options = {"pylog.bootstrap.servers": cluster.bootstrap_servers[0], "topic": "a"}
    writer = spark.sql("select 'v' value").write.format("pylog").options(**options)
    for mode in ("append", "errorifexists"):
        with pytest.raises(PySparkException, match=r"\[PYLOG_SAVE_MODE\] .* write with save\(\)"):
            writer.mode(mode).saveAsTable("topic_a")
    assert not spark.catalog.tableExists("topic_a")
    assert not cluster.produce_requests
    writer.mode("append").save()
    assert len(records(cluster, "a")) == 1


def test_a_batch_write_inside_a_stream(
    spark: SparkSession, cluster: FakeCluster, tmp_path: Path
) -> None:
    cluster.create_topic("a")
    cluster.create_topic("b")
    write(spark.sql("select 'k' key, 'v' value"), cluster, topic="a")

    def copy(frame: DataFrame, _batch: int) -> None:
        write(frame.selectExpr("key", "value"), cluster, topic="b")

    query = source(spark, cluster, "a").writeStream.foreachBatch(copy)
    query = query.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True)
    query.start().awaitTermination()
    assert [r.value for r in records(cluster, "b")] == [b"v"]


# ---- streams -----------------------------------------------------------------------------------


def stream(cluster: FakeCluster, frame: DataFrame, folder: Path, **options: Any) -> Any:
    writer = frame.writeStream.format("pylog").option("checkpointLocation", str(folder / "c"))
    servers = {"kafka.bootstrap.servers": ",".join(cluster.bootstrap_servers)}
    return writer.options(**servers, **options).trigger(availableNow=True)


def source(spark: SparkSession, cluster: FakeCluster, topic: str) -> DataFrame:
    return (
        spark.readStream.format("pylog")
        .option("pylog.bootstrap.servers", ",".join(cluster.bootstrap_servers))
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .load()
    )


def test_from_topic_to_topic(spark: SparkSession, cluster: FakeCluster, tmp_path: Path) -> None:
    cluster.create_topic("a", partitions=2)
    cluster.create_topic("b", partitions=2)
    rows = spark.range(50).selectExpr(
        "concat('k', id) key",
        "cast(id as string) value",
        "array(named_struct('key', 'n', 'value', cast(cast(id as string) as binary))) headers",
    )
    write(rows, cluster, topic="a")
    copy = source(spark, cluster, "a")  # its columns are the sink's; offset is left alone
    for run in range(2):
        query = stream(cluster, copy, tmp_path, topic="b").start()
        query.awaitTermination()
        written = [progress.sink.numOutputRows for progress in query.recentProgress]
        assert written == ([50] if run == 0 else [-1]), written  # -1: no batch at all
    copied, original = records(cluster, "b"), records(cluster, "a")
    assert len(copied) == 50
    for record in original:
        (same,) = [r for r in copied if r.key == record.key]
        assert (same.value, same.headers) == (record.value, record.headers)
        assert (same.partition, same.timestamp_ms) == (record.partition, record.timestamp_ms)


def test_complete_mode_appends_the_whole_result(
    spark: SparkSession, cluster: FakeCluster, tmp_path: Path
) -> None:
    cluster.create_topic("a")
    cluster.create_topic("b")
    counts = source(spark, cluster, "a").groupBy("key").count()
    counts = counts.selectExpr("key", "cast(count as string) value")
    for _ in range(2):
        write(spark.sql("select 'k' key, 'v' value"), cluster, topic="a")
        stream(cluster, counts, tmp_path, topic="b").outputMode(
            "complete"
        ).start().awaitTermination()
    assert [r.value for r in records(cluster, "b")] == [b"1", b"2"]


def test_60_a_stream_that_cannot_be_written_fails(
    spark: SparkSession, cluster: FakeCluster, tmp_path: Path
) -> None:
    cluster.create_topic("a")
    write(spark.sql("select 'k' key, 'v' value"), cluster, topic="a")
    for options, words in (
        ({"topic": "none"}, "[PYLOG_UNKNOWN_TOPIC] cannot write to topic none"),
        ({"topic": "a", "pylog.linger.ms": "x"}, "[PYLOG_INVALID_OPTION] pylog.linger.ms='x'"),
    ):
        query = stream(cluster, source(spark, cluster, "a"), tmp_path, **options).start()
        with pytest.raises(PySparkException) as error:
            query.awaitTermination(60)
        assert words in str(error.value)
