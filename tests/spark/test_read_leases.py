"""Batches that take longer than retention gives them, on real Spark against real brokers."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pylog import AdminClient, Consumer, LocalCluster, NewTopic, Producer
from pylog import TopicPartition as Tp
from pylog.clock import SYSTEM_CLOCK
from pylog_connector.errors import DataLoss
from pylog_connector.options import source_options
from pylog_connector.source import BatchReader
from tests.fakes.waiting import eventually

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.integration]

RECORDS = 50
PARTITIONS = 3
"""One more than the session has cores: its task begins when another one has ended."""
CONFIG = {"log.initial.task.delay.ms": "0", "log.retention.check.interval.ms": "200"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(config=CONFIG) as running:
        yield running


def create(cluster: LocalCluster, name: str) -> None:
    """A topic with a segment for every few records."""
    address = cluster.bootstrap_servers
    with AdminClient(bootstrap_servers=address) as admin:
        admin.create_topics([NewTopic(name, PARTITIONS, 1, config={"segment.bytes": "2000"})])
    with Producer(bootstrap_servers=address, linger_ms=0) as producer:
        for number in range(RECORDS):
            for partition in range(PARTITIONS):
                producer.send(name, b"%d" % number * 100, partition=partition)
            producer.flush()


class SlowCount(threading.Thread):
    """Counts the rows of a topic. The first tasks wait behind their first rows until the test lets
    them go on.
    """

    def __init__(
        self, spark: SparkSession, cluster: LocalCluster, topic: str, folder: Path, *, lease: bool
    ) -> None:
        super().__init__()
        self.begun, self.go = folder / f"{topic}-begun", folder / f"{topic}-go"
        self.rows = -1
        self.error: Exception | None = None
        ends = {end: {str(n): end for n in range(PARTITIONS)} for end in (0, RECORDS)}
        options = {
            "pylog.bootstrap.servers": cluster.bootstrap_servers,
            "subscribe": topic,
            "startingOffsets": json.dumps({topic: ends[0]}),
            "endingOffsets": json.dumps({topic: ends[RECORDS]}),
            "pylog.read.lease": str(lease).lower(),
        }
        begun, go = str(self.begun), str(self.go)

        def wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                Path(begun).touch()
                deadline = SYSTEM_CLOCK.monotonic_ms() + 60_000
                while not Path(go).exists() and SYSTEM_CLOCK.monotonic_ms() < deadline:
                    SYSTEM_CLOCK.sleep(0.02)
                yield batch

        read = spark.read.format("pylog").options(**options).load().select("value")
        self._frame = read.mapInArrow(wait, read.schema)

    def run(self) -> None:
        try:
            self.rows = len(self._frame.collect())
        except PySparkException as error:
            self.error = error


@pytest.mark.parametrize("lease", [True, False])
def test_a_slow_batch_is_read_whole(
    spark: SparkSession, cluster: LocalCluster, tmp_path: Path, lease: bool
) -> None:
    """And without a lease it fails by name, when retention has taken what it had still to read."""
    topic = "held" if lease else "open"
    beside = f"beside-{topic}"
    for name in (topic, beside):
        create(cluster, name)
    query = SlowCount(spark, cluster, topic, tmp_path, lease=lease)
    query.start()
    eventually(60, query.begun.exists, "the query reads")
    with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        for name in (topic, beside):
            admin.incremental_alter_configs({("topic", name): {"retention.bytes": "0"}})
    with Consumer(bootstrap_servers=cluster.bootstrap_servers) as consumer:
        gone = {Tp(beside, number): RECORDS for number in range(PARTITIONS)}
        eventually(
            30,
            lambda: consumer.beginning_offsets(list(gone)) == gone,
            "retention takes what nobody reads",
        )
        last = Tp(topic, PARTITIONS - 1)
        if not lease:
            eventually(30, lambda: consumer.beginning_offsets([last])[last] == RECORDS, "and this")
        assert consumer.beginning_offsets([last]) == {last: 0 if lease else RECORDS}
    query.go.touch()
    query.join(60)
    if lease:
        assert query.error is None
        assert query.rows == PARTITIONS * RECORDS
    else:
        assert "PYLOG_DATA_LOSS" in str(query.error)
        assert f"open-{PARTITIONS - 1} was to be read from offset 0 to 50" in str(query.error)


def test_an_overwrite_goes_through_a_lease_and_ends_the_read_by_name(
    spark: SparkSession, cluster: LocalCluster
) -> None:
    """One task has read old rows: another one must not read new ones in their place."""
    create(cluster, "table")
    address = {"pylog.bootstrap.servers": cluster.bootstrap_servers}
    held = {**address, "subscribe": "table", "pylog.read.lease": "true"}
    options = source_options(held, streaming=False)
    batch = BatchReader(options, ("partition", "offset"))
    first, second, _ = batch.partitions()
    assert sum(rows.num_rows for rows in batch.read(first)) == RECORDS
    new = spark.range(10).selectExpr("cast(id as string) value", "cast(id % 3 as int) partition")
    new.write.format("pylog").mode("overwrite").options(**address, topic="table").save()
    with pytest.raises(DataLoss, match="as the topic was overwritten"):
        list(batch.read(second))
