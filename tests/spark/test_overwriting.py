"""Topics that batch writes overwrite, on real Spark against real brokers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pylog import AdminClient, LocalCluster, NewTopic

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.integration]


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    config = {"min.insync.replicas": "2", "transaction.state.log.num.partitions": "4"}
    with LocalCluster(brokers=3, config=config) as running:
        yield running


@pytest.fixture
def topics(cluster: LocalCluster, request: pytest.FixtureRequest) -> Callable[..., str]:
    """Makes topics of three partitions, with names of their own."""

    def make(name: str, **config: str) -> str:
        full = "".join(c if c.isalnum() else "-" for c in f"{request.node.name}-{name}")
        with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
            given = {key.replace("_", "."): value for key, value in config.items()}
            admin.create_topics([NewTopic(full, 3, 3, config=given)])
        return full

    return make


def numbers(spark: SparkSession, first: int, count: int, tasks: int = 2) -> DataFrame:
    return spark.range(first, first + count, 1, tasks).selectExpr(
        "cast(id as string) key", "cast(id as string) value"
    )


def write(frame: DataFrame, cluster: LocalCluster, mode: str, **options: str) -> None:
    given = {"pylog.bootstrap.servers": cluster.bootstrap_servers, **options}
    frame.write.format("pylog").mode(mode).options(**given).save()


def read(spark: SparkSession, cluster: LocalCluster, topic: str, **options: str) -> DataFrame:
    given = {
        "pylog.bootstrap.servers": cluster.bootstrap_servers, "subscribe": topic, **options,
    }  # fmt: skip
    return spark.read.format("pylog").options(**given).load()


def values(frame: DataFrame) -> list[int]:
    return sorted(
        int(row.value) for row in frame.selectExpr("cast(value as string) value").collect()
    )


def test_a_topic_is_overwritten(
    spark: SparkSession, cluster: LocalCluster, topics: Callable[..., str]
) -> None:
    """Twice, and then without rows; `save` returns when readers see it."""
    topic = topics("table", retention_ms="86400000")
    write(numbers(spark, 0, 100), cluster, "append", topic=topic)
    with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        before = admin.describe_topics(topic)[topic]
        for first, count in ((100, 50), (500, 1), (0, 0), (700, 40)):
            write(numbers(spark, first, count), cluster, "overwrite", topic=topic)
            assert values(read(spark, cluster, topic)) == [*range(first, first + count)]
        after = admin.describe_topics(topic)[topic]
        assert (after.topic_id, len(after.partitions)) == (before.topic_id, 3)
    write(numbers(spark, 740, 10), cluster, "append", topic=topic)
    assert values(read(spark, cluster, topic)) == [*range(700, 750)]
    even = "int(string(key)) % 2 = 0"
    some = read(spark, cluster, topic).where(even).select("key", "value")
    write(some, cluster, "overwrite", topic=topic)
    assert values(read(spark, cluster, topic)) == [*range(700, 750, 2)]


def test_a_compacted_topic_is_overwritten_as_any_other(
    spark: SparkSession, cluster: LocalCluster, topics: Callable[..., str]
) -> None:
    topic = topics("table", cleanup_policy="compact")
    write(numbers(spark, 0, 100), cluster, "append", topic=topic)
    write(numbers(spark, 50, 100), cluster, "overwrite", topic=topic)
    assert values(read(spark, cluster, topic)) == [*range(50, 150)]


def test_topics_that_rows_name_are_overwritten(
    spark: SparkSession, cluster: LocalCluster, topics: Callable[..., str]
) -> None:
    one, two, kept = topics("one"), topics("two"), topics("kept")
    for topic in (one, two, kept):
        write(numbers(spark, 0, 10), cluster, "append", topic=topic)
    rows = numbers(spark, 10, 20).selectExpr("*", f"if(key % 2 = 0, '{one}', '{two}') topic")
    write(rows, cluster, "overwrite")
    assert values(read(spark, cluster, one)) == [*range(10, 30, 2)]
    assert values(read(spark, cluster, two)) == [*range(11, 30, 2)]
    assert values(read(spark, cluster, kept)) == [*range(10)]


def test_a_write_that_fails_leaves_the_topic_as_it_is(
    spark: SparkSession, cluster: LocalCluster, topics: Callable[..., str]
) -> None:
    topic = topics("table")
    write(numbers(spark, 0, 100), cluster, "append", topic=topic)
    bad = (
        numbers(spark, 0, 100)
        .selectExpr("key", "raise_error('bad row') value")
        .selectExpr("key", "cast(value as string) value")
    )
    with pytest.raises(PySparkException, match="bad row"):
        write(bad, cluster, "overwrite", topic=topic)
    assert values(read(spark, cluster, topic)) == [*range(100)]
    with pytest.raises(PySparkException, match=r"PYLOG_SAVE_MODE.*exactly\.once=false"):
        write(
            numbers(spark, 0, 1), cluster, "overwrite", topic=topic,
            **{"pylog.exactly.once": "false"},
        )  # fmt: skip


def test_each_batch_of_a_stream_overwrites(
    spark: SparkSession, cluster: LocalCluster, topics: Callable[..., str], tmp_path: Path
) -> None:
    there, here = topics("from"), topics("to")
    frame = spark.readStream.format("pylog").options(
        **{
            "pylog.bootstrap.servers": cluster.bootstrap_servers,
            "subscribe": there,
            "startingOffsets": "earliest",
        }
    )

    def newest(batch: DataFrame, _number: int) -> None:
        write(batch.select("key", "value"), cluster, "overwrite", topic=here)

    for first in (0, 100, 200):
        write(numbers(spark, first, 100), cluster, "append", topic=there)
        writer = frame.load().writeStream.foreachBatch(newest)
        writer = writer.option("checkpointLocation", str(tmp_path / "c"))
        writer.trigger(availableNow=True).start().awaitTermination()
        assert values(read(spark, cluster, here)) == [*range(first, first + 100)]


def test_readers_below_the_new_start_are_told(
    spark: SparkSession, cluster: LocalCluster, topics: Callable[..., str], tmp_path: Path
) -> None:
    topic, out = topics("table"), topics("out")
    write(numbers(spark, 0, 100), cluster, "append", topic=topic)
    planned = read(spark, cluster, topic)
    assert values(planned) == [*range(100)]

    def follow(checkpoint: str, **options: str) -> None:
        given = {
            "pylog.bootstrap.servers": cluster.bootstrap_servers, "subscribe": topic,
            "startingOffsets": "earliest", "maxOffsetsPerTrigger": "30", **options,
        }  # fmt: skip
        frame = spark.readStream.format("pylog").options(**given).load()
        writer = (
            frame.select("key", "value")
            .writeStream.format("pylog")
            .options(**{"pylog.bootstrap.servers": cluster.bootstrap_servers, "topic": out})
        )
        writer = writer.option("checkpointLocation", str(tmp_path / checkpoint))
        writer.trigger(availableNow=True).start().awaitTermination()

    follow("a")
    write(numbers(spark, 100, 100), cluster, "append", topic=topic)
    write(numbers(spark, 200, 50), cluster, "overwrite", topic=topic)
    with pytest.raises(PySparkException, match=r"PYLOG_DATA_LOSS.*as the topic was overwritten"):
        values(planned)
    with pytest.raises(PySparkException, match=r"PYLOG_DATA_LOSS.*as the topic was overwritten"):
        follow("a")
    follow("a", failOnDataLoss="false")
    assert values(read(spark, cluster, out)) == [*range(100), *range(200, 250)]
