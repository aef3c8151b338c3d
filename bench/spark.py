"""Spark's source and sink over pylog, beside a Python source that only makes rows in memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from bench.measure import stopwatch

CHUNK = 50_000
SCHEMA = (
    "key binary, value binary, topic string, partition int, offset long, "
    "timestamp timestamp, timestampType int"
)


class MemoryReader(DataSourceReader):
    """Yields ready-made Arrow batches: what a Python source can give at most."""

    def __init__(self, rows: int, size: int, partitions: int) -> None:
        self._rows, self._size, self._partitions = rows, size, partitions

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(n) for n in range(self._partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        count = min(CHUNK, self._rows // self._partitions)
        batch = pa.record_batch(
            [
                pa.nulls(count, pa.binary()),
                pa.array([b"x" * self._size] * count, pa.binary()),
                pa.array(["topic"] * count, pa.string()),
                pa.array([partition.value] * count, pa.int32()),
                pa.array(range(count), pa.int64()),
                pa.array([0] * count, pa.timestamp("us", "UTC")),
                pa.array([0] * count, pa.int32()),
            ],
            names=[part.split()[0] for part in SCHEMA.split(", ")],
        )
        for _ in range(self._rows // self._partitions // count):
            yield batch


class MemorySource(DataSource):
    """Format `memory_rows`."""

    @classmethod
    def name(cls) -> str:
        return "memory_rows"

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: Any) -> DataSourceReader:
        options = self.options
        return MemoryReader(int(options["rows"]), int(options["size"]), int(options["partitions"]))


def session() -> SparkSession:
    """A local[2] session that knows both sources."""
    builder: Any = SparkSession.builder
    spark = (
        builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", 2)
        .config("spark.log.level", "ERROR")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    spark.dataSource.register(MemorySource)
    return spark


def memory_source(spark: SparkSession, rows: int, size: int, partitions: int) -> float:
    """Rows a second from memory into a sink that drops them."""
    reader = spark.read.format("memory_rows").option("rows", rows).option("size", size)
    frame = reader.option("partitions", partitions).load()
    with stopwatch() as elapsed:
        frame.write.format("noop").mode("overwrite").save()
        return rows / elapsed()


def source(spark: SparkSession, bootstrap: str, topic: str, rows: int) -> float:
    """Rows a second out of a pylog topic into a sink that drops them."""
    with stopwatch() as elapsed:
        frame = (
            spark.read.format("pylog")
            .option("pylog.bootstrap.servers", bootstrap)
            .option("subscribe", topic)
            .load()
        )
        frame.write.format("noop").mode("overwrite").save()
        return rows / elapsed()


def sink(spark: SparkSession, bootstrap: str, topic: str, rows: int, size: int) -> float:
    """Rows a second from a range into a pylog topic, acks=all."""
    frame = spark.range(0, rows, 1, 4).selectExpr(f"cast(repeat('x', {size}) as binary) as value")
    with stopwatch() as elapsed:
        (
            frame.write.format("pylog")
            .option("pylog.bootstrap.servers", bootstrap)
            .option("topic", topic)
            .mode("append")
            .save()
        )
        return rows / elapsed()


def micro_batches(spark: SparkSession, bootstrap: str, topic: str, batches: int = 20) -> float:
    """Seconds for `batches` micro-batches of 1,000 rows of a topic that holds as many."""
    with tempfile.TemporaryDirectory() as checkpoint, stopwatch() as elapsed:
        frame = (
            spark.readStream.format("pylog")
            .option("pylog.bootstrap.servers", bootstrap)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", 1000)
            .load()
        )
        writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        assert len(query.recentProgress) >= batches
        return elapsed()
