"""Sink and source of real Spark against real brokers, also while one of them is killed."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from chispa import assert_df_equality
from pyspark.sql import DataFrame, SparkSession

from pylog import AdminClient, Consumer, LocalCluster, NewTopic, Producer, TopicPartition

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.integration]


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=3, config={"min.insync.replicas": "2"}) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def admin(cluster: LocalCluster) -> Iterator[AdminClient]:
    with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        yield admin


def read(spark: SparkSession, cluster: LocalCluster, topic: str, **options: str) -> DataFrame:
    reader = spark.read.format("pylog").option("subscribe", topic)
    return reader.options(
        **{"pylog.bootstrap.servers": cluster.bootstrap_servers, **options}
    ).load()


def write(frame: DataFrame, cluster: LocalCluster, topic: str, **options: str) -> None:
    writer = frame.write.format("pylog").mode("append").option("topic", topic)
    writer.options(**{"pylog.bootstrap.servers": cluster.bootstrap_servers, **options}).save()


class Bomb:
    """Makes a file where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self._path,)


def test_a_pickle_stays_the_bytes_that_it_is(
    spark: SparkSession, cluster: LocalCluster, admin: AdminClient, tmp_path: Path
) -> None:
    burnt = tmp_path / "burnt"
    bomb = pickle.dumps(Bomb(burnt))
    pickle.loads(bomb)
    assert burnt.exists()
    burnt.unlink()
    admin.create_topics([NewTopic("bombs", 1, 3), NewTopic("bombs-copied", 1, 3)])
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        producer.send("bombs", bomb, bomb, headers=[("py-pickle", bomb)]).result(30)
    (row,) = read(spark, cluster, "bombs", includeHeaders="true").collect()
    ((name, header),) = row["headers"]
    assert (bytes(row["key"]), bytes(row["value"])) == (bomb, bomb)
    assert (name, bytes(header)) == ("py-pickle", bomb)
    copied = read(spark, cluster, "bombs", includeHeaders="true")
    write(copied.select("key", "value", "headers"), cluster, "bombs-copied")
    for topic in ("bombs", "bombs-copied"):
        where = {"bootstrap_servers": cluster.bootstrap_servers, "auto_offset_reset": "earliest"}
        with Consumer(topic, **where) as consumer:
            (record,) = consumer.poll(20)
        assert (record.key, record.value) == (bomb, bomb)
        assert record.headers == [("py-pickle", bomb)]
        with Consumer(topic, **where) as consumer:
            table = consumer.poll_arrow(20, include_headers=True)
        assert table["value"].to_pylist() == [bomb]
        with Consumer(topic, **where) as consumer:
            (theirs,) = consumer.to_pandas()["value"]
        assert theirs == bomb
    assert not burnt.exists()


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_is_written_is_read(
    spark: SparkSession, cluster: LocalCluster, admin: AdminClient, compression: str
) -> None:
    topic = f"round-trip-{compression}"
    # The records are years old: retention would be right to take them while they are read.
    admin.create_topics([NewTopic(topic, 3, 3, config={"retention.ms": "-1"})])
    rows = spark.range(20_000).selectExpr(
        "cast(concat('k', id % 100) as binary) key",
        "cast(repeat(cast(id as string), 20) as binary) value",
        "array(named_struct('key', 'n', 'value', cast(cast(id as string) as binary))) headers",
        "timestamp_millis(1700000000000 + id) timestamp",
    )
    write(rows, cluster, topic, **{"pylog.compression.type": compression})
    back = read(spark, cluster, topic, includeHeaders="true")
    columns = ["key", "value", "headers", "timestamp"]
    assert_df_equality(
        back.select(columns), rows.select(columns), ignore_row_order=True, ignore_nullable=True
    )
    ends = back.groupBy("partition").agg({"offset": "max", "*": "count"}).collect()
    assert all(row["max(offset)"] + 1 == row["count(1)"] for row in ends)
    assert len(ends) == 3


def test_sink_and_source_through_the_gateway(
    spark: SparkSession, cluster: LocalCluster, admin: AdminClient
) -> None:
    admin.create_topics([NewTopic("by-gateway", 3, 3)])
    rows = spark.range(5_000).selectExpr("cast(cast(id as string) as binary) value")
    how = {
        "pylog.bootstrap.servers": cluster.bootstrap_servers.split(",")[0],
        "pylog.client.routing": "gateway",
    }
    write(rows, cluster, "by-gateway", **how)
    back = read(spark, cluster, "by-gateway", **how).select("value")
    assert_df_equality(back, rows, ignore_row_order=True, ignore_nullable=True)


def test_deleted_records_are_data_loss(
    spark: SparkSession, cluster: LocalCluster, admin: AdminClient
) -> None:
    admin.create_topics([NewTopic("cut", 1, 3)])
    write(spark.range(100).selectExpr("cast(id as string) value"), cluster, "cut")
    admin.delete_records({TopicPartition("cut", 0): 40})
    assert read(spark, cluster, "cut").count() == 60
    start = {"startingOffsets": '{"cut":{"0":10}}'}
    with pytest.raises(Exception, match=r"\[PYLOG_DATA_LOSS\] cut-0 .* offset 10, .* is 40"):
        read(spark, cluster, "cut", **start).count()
    assert read(spark, cluster, "cut", failOnDataLoss="false", **start).count() == 60


def test_a_topic_that_was_created_again_is_noticed(
    spark: SparkSession, cluster: LocalCluster, admin: AdminClient, tmp_path: Path
) -> None:
    def run() -> None:
        reader = spark.readStream.format("pylog").option("subscribe", "again")
        reader = reader.option("pylog.bootstrap.servers", cluster.bootstrap_servers)
        frame = reader.option("startingOffsets", "earliest").load()
        writer = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path))
        writer.trigger(availableNow=True).start().awaitTermination()

    admin.create_topics([NewTopic("again", 1, 3)])
    write(spark.range(3).selectExpr("cast(id as string) value"), cluster, "again")
    run()
    admin.delete_topics(["again"])
    admin.create_topics([NewTopic("again", 1, 3)])
    write(spark.range(9).selectExpr("cast(id as string) value"), cluster, "again")
    with pytest.raises(Exception, match=r"\[PYLOG_DATA_LOSS\] topic again was deleted and created"):
        run()


def test_a_killed_broker_stops_neither_sink_nor_source(
    spark: SparkSession, cluster: LocalCluster, admin: AdminClient, tmp_path: Path
) -> None:
    """Two streaming queries in a row, `a` to `b` to files; a broker dies twice under them."""
    for topic in ("a", "b"):
        admin.create_topics([NewTopic(topic, 3, 3)])
    servers = {"pylog.bootstrap.servers": cluster.bootstrap_servers}
    source = spark.readStream.format("pylog").options(**servers)
    source = source.option("startingOffsets", "earliest")
    copying = (
        source.option("subscribe", "a").option("maxOffsetsPerTrigger", "4000").load()
        .select("key", "value")
        .writeStream.format("pylog").options(**servers).option("topic", "b")
        .option("checkpointLocation", str(tmp_path / "copy")).start()
    )  # fmt: skip
    killed = threading.Event()

    def strike() -> None:
        for broker in cluster.brokers[:2]:
            cluster.kill(broker)
            cluster.start(broker)
        killed.set()

    striking = threading.Thread(target=strike)
    try:
        for part in range(5):
            if part == 1:
                striking.start()
            rows = spark.range(part * 4_000, (part + 1) * 4_000)
            rows = rows.selectExpr("cast(id % 7 as string) key", "cast(id as string) value")
            write(rows, cluster, "a")
        striking.join()
        assert killed.is_set()
        copying.processAllAvailable()
    finally:
        copying.stop()
    written = read(spark, cluster, "a")
    copied = read(spark, cluster, "b")
    values = "cast(cast(value as string) as int) v"
    assert written.selectExpr(values).distinct().count() == 20_000
    assert copied.selectExpr(values).distinct().count() == 20_000
    # No task failed, so at-least-once was exactly once: the producer's retries repeat nothing.
    assert written.count() == 20_000
    assert copied.count() == 20_000
