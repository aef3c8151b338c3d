"""The parts that tests of the Spark source share: runs of it over a cluster in this process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pylog.records.builder import encode_batch
from tests.fakes.fake_cluster import FakeCluster
from tests.fakes.fake_topics import FakePartition


def fill(partition: FakePartition, *values: str, **more: Any) -> None:
    partition.append(encode_batch([value.encode() for value in values], timestamps=0, **more))


def numbers(cluster: FakeCluster, topic: str, *counts: int) -> None:
    """A topic with so many records per partition, valued `<partition>-<offset>`."""
    for number, partition in enumerate(cluster.create_topic(topic, len(counts)).partitions):
        if counts[number]:
            fill(partition, *(f"{number}-{n}" for n in range(counts[number])))


class Reads:
    """Batch reads and streaming runs of one topic, with the options that all share."""

    def __init__(self, spark: SparkSession, cluster: FakeCluster, folder: Path) -> None:
        self.spark = spark
        self.options = {
            "pylog.bootstrap.servers": ",".join(cluster.bootstrap_servers),
            "subscribe": "a",
            "pylog.retry.backoff.ms": "10",
            "pylog.fetch.max.wait.ms": "50",
        }
        self.folder = folder
        self.runs = 0

    def batch(self, **options: object) -> DataFrame:
        return self.spark.read.format("pylog").options(**self.with_options(options)).load()

    def stream(self, **options: object) -> DataFrame:
        return self.spark.readStream.format("pylog").options(**self.with_options(options)).load()

    def with_options(self, options: dict[str, object]) -> dict[str, Any]:
        """The shared ones and these; None takes one away."""
        chosen = {**self.options, **options}
        return {name: value for name, value in chosen.items() if value is not None}

    def start(self, *, trigger: dict[str, Any] | None = None, **options: object) -> StreamingQuery:
        writer = self.stream(**options).writeStream.format("parquet")
        writer = writer.option("checkpointLocation", str(self.folder / "checkpoint"))
        writer = writer.option("path", str(self.folder / "out"))
        return writer.trigger(**(trigger or {"availableNow": True})).start()

    def run(self, **options: Any) -> list[int]:
        """Run until Trigger.AvailableNow ends; rows per batch."""
        query = self.start(**options)
        query.awaitTermination()
        return [progress.numInputRows for progress in query.recentProgress]

    def out(self) -> list[str]:
        rows = self.spark.read.parquet(str(self.folder / "out")).collect()
        return sorted(bytes(row.value).decode() for row in rows)

    def offsets(self, batch: int) -> dict[str, Any]:
        lines = (self.folder / "checkpoint" / "offsets" / str(batch)).read_text().splitlines()
        found: dict[str, Any] = json.loads(lines[-1])
        return found


def values(frame: DataFrame) -> list[str]:
    return sorted(bytes(row.value).decode() for row in frame.select("value").collect())


def ends_with(query: StreamingQuery) -> str:
    with pytest.raises(PySparkException) as error:
        query.awaitTermination(60)
    return str(error.value)
