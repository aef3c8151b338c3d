"""The source in Spark's plans: one source twice, an idle one beside a busy one, watermarks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    Filter,
    GreaterThanOrEqual,
    InputPartition,
)
from pyspark.sql.functions import col, expr

from pylog.records.builder import encode_batch
from tests.fakes.fake_cluster import FakeCluster
from tests.fakes.fake_topics import FakePartition

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def fill(partition: FakePartition, *values: int, time: int = 0) -> None:
    partition.append(encode_batch([b"%d" % value for value in values], timestamps=time))


def source(spark: SparkSession, servers: str, **options: str) -> DataFrame:
    reader = spark.readStream.format("pylog").option("pylog.bootstrap.servers", servers)
    frame = reader.option("startingOffsets", "earliest").options(**options).load()
    return frame.withColumn("number", expr("cast(cast(value as string) as int)"))


def run(frame: DataFrame, folder: Path, name: str, mode: str = "append") -> list[dict[str, int]]:
    """Until nothing is left; what each batch read by source."""
    writer = frame.writeStream.format("memory").queryName(name).outputMode(mode)
    writer = writer.option("checkpointLocation", str(folder / name)).trigger(availableNow=True)
    query = writer.start()
    query.awaitTermination(120)
    assert not query.isActive
    return [
        {str(n): source.numInputRows for n, source in enumerate(progress.sources)}
        for progress in query.recentProgress
    ]


def test_one_source_twice_in_a_query(
    spark: SparkSession, cluster: FakeCluster, tmp_path: Path
) -> None:
    """N-G10: joined with itself and in a union with itself, a source has one position."""
    partitions = cluster.create_topic("a", 2).partitions
    fill(partitions[0], 1, 2, 3)
    fill(partitions[1], 4)
    numbers = source(spark, cluster.bootstrap_servers[0], subscribe="a").select("number")
    joined = numbers.join(numbers.withColumnRenamed("number", "other"), expr("number = other"))
    progress = run(joined, tmp_path, "self_join")
    assert sorted(r.number for r in spark.table("self_join").collect()) == [1, 2, 3, 4]
    assert all(len(batch) == 1 for batch in progress)
    both = numbers.union(numbers.select(col("number") + 10))
    progress = run(both, tmp_path, "self_union")
    found = sorted(r.number for r in spark.table("self_union").collect())
    assert found == [1, 2, 3, 4, 11, 12, 13, 14]
    assert all(len(batch) == 1 for batch in progress)


def test_an_idle_source_beside_a_busy_one(
    spark: SparkSession, cluster: FakeCluster, tmp_path: Path
) -> None:
    """SPARK-22956: its offsets stay, and neither is read twice after restarts."""
    busy = cluster.create_topic("busy").partitions[0]
    idle = cluster.create_topic("idle").partitions[0]
    fill(busy, 1)
    fill(idle, 100)
    servers = cluster.bootstrap_servers[0]
    both = source(spark, servers, subscribe="busy").union(source(spark, servers, subscribe="idle"))
    query = both.select("number").writeStream.format("parquet").trigger(availableNow=True)
    query = query.option("checkpointLocation", str(tmp_path / "c")).option(
        "path", str(tmp_path / "out")
    )
    for expected in ([1, 100], [1, 2, 100], [1, 2, 3, 100, 101]):
        query.start().awaitTermination(120)
        rows = spark.read.parquet(str(tmp_path / "out")).collect()
        assert sorted(r.number for r in rows) == expected
        fill(busy, len(expected))
        if expected == [1, 2, 100]:
            fill(idle, 101)


def test_a_watermark_on_the_records_times(
    spark: SparkSession, cluster: FakeCluster, tmp_path: Path
) -> None:
    """N-G11: windows are closed by the column `timestamp`, and late records left out."""
    partition = cluster.create_topic("a").partitions[0]
    fill(partition, 1, 2, time=1_000)
    fill(partition, 3, time=12_000)
    fill(partition, 4, time=40_000)
    frame = source(spark, cluster.bootstrap_servers[0], subscribe="a")
    counts = frame.withWatermark("timestamp", "5 seconds")
    counts = counts.groupBy(expr("window(timestamp, '10 seconds')")).count()
    run(counts.selectExpr("window.start start", "count"), tmp_path, "windows")
    rows = spark.table("windows").selectExpr("cast(start as int) start", "count").collect()
    assert sorted((r.start, r["count"]) for r in rows) == [(0, 2), (10, 1)]


class _PushedReader(DataSourceReader):
    """Reads ten numbers, from the least that a filter asks for."""

    def __init__(self) -> None:
        self._first = 0

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        for each in filters:
            if isinstance(each, GreaterThanOrEqual):
                self._first = each.value
        return filters

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(self._first)]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        for number in range(partition.value, 10):
            yield (number,)


class _Pushed(DataSource):
    @classmethod
    def name(cls) -> str:
        return "pushed"

    def schema(self) -> str:
        return "x int"

    def reader(self, schema: object) -> DataSourceReader:
        return _PushedReader()


def test_pushed_filters_leak_into_other_queries_of_a_frame(spark: SparkSession) -> None:
    """V1, why the source takes none: docs/decisions/030-filters-are-not-pushed-down.md. Once this
    fails, Spark has mended it.
    """
    spark.dataSource.register(_Pushed)
    setting = "spark.sql.python.filterPushdown.enabled"
    spark.conf.set(setting, "true")
    try:
        frame = spark.read.format("pushed").load()
        assert frame.filter("x >= 5").count() == 5
        assert frame.count() == 5  # of ten
    finally:
        spark.conf.unset(setting)
