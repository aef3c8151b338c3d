"""Spark's source and sink over pylog, beside a Python source and sink that touch only memory."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from bench.cluster import PARTITIONS
from bench.measure import stopwatch
from bench.memory_rows import MICRO_BATCH_ROWS, MemorySource
from pylog import Producer

PYLOG: Final = "pylog"
KAFKA: Final = "kafka"
"""Spark's own connector, whose options are called as pylog's are; its jars are not Spark's."""


def session(jars: Iterable[Path] = ()) -> SparkSession:
    """A local[2] session that knows both sources, and what is in `jars`."""
    builder: Any = SparkSession.builder
    spark = (
        builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", 2)
        .config("spark.log.level", "ERROR")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.jars", ",".join(map(str, jars)))
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


def source(
    spark: SparkSession, bootstrap: str, topic: str, rows: int, system: str = PYLOG
) -> float:
    """Rows a second out of a topic into a sink that drops them."""
    with stopwatch() as elapsed:
        frame = (
            spark.read.format(system)
            .option(f"{system}.bootstrap.servers", bootstrap)
            .option("subscribe", topic)
            .load()
        )
        frame.write.format("noop").mode("overwrite").save()
        return rows / elapsed()


def sink(
    spark: SparkSession, bootstrap: str, topic: str, rows: int, size: int, system: str = PYLOG
) -> float:
    """Rows a second from a range into a topic, acks=all."""
    writer = _generated(spark, rows, size).write.format(system)
    writer = writer.option(f"{system}.bootstrap.servers", bootstrap).option("topic", topic)
    with stopwatch() as elapsed:
        writer.mode("append").save()
        return rows / elapsed()


def dropping_sink(spark: SparkSession, rows: int, size: int) -> float:
    """Rows a second from the same range into a Python sink that drops them."""
    writer = _generated(spark, rows, size).write.format("memory_rows")
    with stopwatch() as elapsed:
        writer.mode("append").save()
        return rows / elapsed()


def _generated(spark: SparkSession, rows: int, size: int) -> DataFrame:
    return spark.range(0, rows, 1, 4).selectExpr(f"cast(repeat('x', {size}) as binary) as value")


def fill_for_micro_batches(bootstrap: str, topic: str, batches: int) -> None:
    """So many records in each partition that batches of MICRO_BATCH_ROWS come out whole."""
    rows = batches * MICRO_BATCH_ROWS // PARTITIONS
    data = pa.record_batch({"value": pa.array([b"x" * 100] * rows, pa.binary())})
    with Producer(bootstrap_servers=bootstrap) as producer:
        for partition in range(PARTITIONS):
            producer.send_arrow(topic, data, partition=partition).result(60)


def micro_batches(
    spark: SparkSession, bootstrap: str, topic: str, batches: int, system: str = PYLOG
) -> float:
    """Seconds for a query of `batches` micro-batches over a topic filled for them."""
    return _streamed(
        spark.readStream.format(system)
        .option(f"{system}.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", MICRO_BATCH_ROWS)
        .load(),
        batches,
    )


def memory_micro_batches(spark: SparkSession, batches: int) -> float:
    """Seconds for a query of as many micro-batches from memory."""
    reader = spark.readStream.format("memory_rows").option("size", 100)
    return _streamed(reader.option("rows", batches * MICRO_BATCH_ROWS).load(), batches)


def sink_batch_ms(
    spark: SparkSession, bootstrap: str, topic: str, batches: int, rows: int, *, exactly_once: bool
) -> float:
    """Milliseconds of a streaming query's trigger that writes `rows` rows of 100 bytes: the median
    of all but the first.
    """
    reader = spark.readStream.format("memory_rows").option("size", 100).option("rowsABatch", rows)
    frame = reader.option("rows", batches * rows).load().select("value")
    with tempfile.TemporaryDirectory() as checkpoint:
        query = (
            frame.writeStream.format(PYLOG)
            .option("pylog.bootstrap.servers", bootstrap)
            .option("topic", topic)
            .option("pylog.exactly.once", str(exactly_once).lower())
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        told = [p.durationMs["triggerExecution"] for p in query.recentProgress if p.numInputRows]
        assert len(told) == batches
        return statistics.median(told[1:])


def _streamed(frame: DataFrame, batches: int) -> float:
    with tempfile.TemporaryDirectory() as checkpoint, stopwatch() as elapsed:
        writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        seconds = elapsed()
        assert sum(progress.numInputRows > 0 for progress in query.recentProgress) == batches
        return seconds
