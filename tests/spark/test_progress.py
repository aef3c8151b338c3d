"""Positions that count with what a query writes, on real Spark against real brokers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.types import StructType

from pylog import AdminClient, Consumer, LocalCluster, NewTopic, Producer, TopicPartition
from pylog_connector.datasource import PylogDataSource
from pylog_connector.sink import StreamWriter

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.integration]

CONFIG = {"transaction.state.log.num.partitions": "4", "offsets.topic.num.partitions": "4"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(1, config=CONFIG) as running:
        yield running


class World:
    """A query from one topic to another, with a group and a sink of its own. Each run has the
    checkpoint that it names.
    """

    def __init__(self, spark: SparkSession, cluster: LocalCluster, name: str, folder: Path) -> None:
        self.spark = spark
        self.servers = cluster.bootstrap_servers
        self.name = name
        self.folder = folder
        self.there, self.here = f"{name}-from", f"{name}-to"
        self.written = 0
        with AdminClient(bootstrap_servers=self.servers) as admin:
            admin.create_topics([NewTopic(self.there, 2), NewTopic(self.here, 2)])

    def produce(self, count: int, topic: str | None = None) -> None:
        """The next numbers."""
        with Producer(bootstrap_servers=self.servers) as producer:
            for number in range(self.written, self.written + count):
                producer.send(topic or self.there, b"%d" % number, partition=number % 2)
        self.written += count

    def both(self, options: dict[str, Any]) -> dict[str, str]:
        return {
            "pylog.bootstrap.servers": self.servers,
            "pylog.progress.group": self.name,
            "sinkId": self.name,
            **{name.replace("__", "."): str(value) for name, value in options.items()},
        }

    def source(self, **options: Any) -> DataFrame:
        given = self.both({"subscribe": self.there, "startingOffsets": "earliest", **options})
        return self.spark.readStream.format("pylog").options(**given).load().select("value")

    def run(
        self, frame: DataFrame, checkpoint: str = "c", format: str = "pylog", **options: Any
    ) -> StreamingQuery:
        given = self.both({"topic": self.here, **options})
        writer = frame.writeStream.format(format).options(**given)
        writer = writer.option("checkpointLocation", str(self.folder / checkpoint))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return query

    def committed(
        self, group: str | None = None, *, stable: bool = True
    ) -> dict[TopicPartition, int]:
        with AdminClient(bootstrap_servers=self.servers) as admin:
            listed = admin.list_group_offsets(group or self.name, require_stable=stable)
        return {tp: at.offset for tp, at in listed.items() if at is not None}

    def ends(self, *topics: str) -> dict[TopicPartition, int]:
        with Consumer(bootstrap_servers=self.servers) as consumer:
            return consumer.end_offsets(
                [TopicPartition(each, p) for each in topics or (self.there,) for p in range(2)]
            )

    def rows(self) -> Counter[int]:
        """What readers of committed records see."""
        found: Counter[int] = Counter()
        with Consumer(bootstrap_servers=self.servers, isolation_level="read_committed") as consumer:
            ends = self.ends(self.here)
            consumer.assign(list(ends))
            consumer.seek_to_beginning(*ends)
            while any(consumer.position(tp) < end for tp, end in ends.items()):
                found.update(int(record.value) for record in consumer.poll(0.5))
        return found

    def each_once(self) -> Counter[int]:
        return Counter(range(self.written))


@pytest.fixture
def world(
    spark: SparkSession, cluster: LocalCluster, tmp_path: Path, request: pytest.FixtureRequest
) -> World:
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)
    return World(spark, cluster, name, tmp_path)


class KilledWriter(StreamWriter):
    """Its driver dies when the third batch is to be decided, and aborts nothing."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        if batchId == 2:
            raise RuntimeError("killed by the test")
        super().commit(messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        pass


class Killed(PylogDataSource):
    @classmethod
    def name(cls) -> str:
        return "pylog_killed"

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        made = super().streamWriter(schema, overwrite)
        return KilledWriter(made._options, made._columns)


@pytest.mark.parametrize("lost", [True, False])
def test_a_query_that_is_killed_goes_on_exactly_with_and_without_its_checkpoint(
    world: World, lost: bool
) -> None:
    world.produce(600)
    world.spark.dataSource.register(Killed)
    frame = world.source(maxOffsetsPerTrigger=200)
    with pytest.raises(PySparkException, match="killed by the test"):
        world.run(frame, format="pylog_killed")
    world.produce(100)
    if lost:
        start = {"startingOffsets": f"committed:{world.name}", "pylog__sink__takeover": "true"}
        again = world.source(maxOffsetsPerTrigger=200, **start)
        query = world.run(again, "new", pylog__sink__takeover="true")
        assert sum(progress.numInputRows for progress in query.recentProgress) == 300
    else:
        world.run(frame)
    assert world.rows() == world.each_once()
    assert world.committed() == world.ends()


def test_a_batch_without_rows_and_one_behind_a_shuffle_commit_their_positions(
    world: World,
) -> None:
    world.produce(10)
    frame = world.source()
    world.run(frame.where("cast(cast(value as string) as int) > 9"))
    assert world.rows() == Counter()
    assert world.committed() == world.ends()
    world.produce(10)
    world.run(frame.where("cast(cast(value as string) as int) > 9").repartition(3))
    assert world.rows() == Counter(range(10, 20))
    assert world.committed() == world.ends()


def test_two_sources_commit_to_a_group_each(world: World) -> None:
    other = f"{world.name}-other"
    with AdminClient(bootstrap_servers=world.servers) as admin:
        admin.create_topics([NewTopic(other, 2)])
    world.produce(10)
    second = world.source(subscribe=other, pylog__progress__group=other)
    frame = world.source().union(second)
    groups = {"pylog__progress__group": f"{world.name}, {other}"}
    with pytest.raises(PySparkException, match=rf"PYLOG_INVALID_OPTION.*group '{other}'"):
        world.run(frame)  # the sink is told of one group
    world.run(frame, **groups)
    assert world.committed(other) == {TopicPartition(other, p): 0 for p in range(2)}
    world.produce(10, other)
    world.run(frame, **groups)
    assert world.rows() == world.each_once()
    assert world.committed() == world.ends()
    assert world.committed(other) == world.ends(other)
    own = {"sinkId": f"{world.name}-2"}
    twice = world.source(**own).union(world.source(maxOffsetsPerTrigger=1, **own))
    with pytest.raises(PySparkException, match=r"PYLOG_PROGRESS_FAILED.*two sources commit"):
        world.run(twice, "twice", **own)


def test_what_foreach_batch_writes_counts_with_the_positions(world: World) -> None:
    world.produce(20)

    def write(batch: DataFrame, _number: int) -> None:
        assert batch.count() == 10
        given = world.both({"topic": world.here})
        batch.write.format("pylog").mode("append").options(**given).save()
        assert batch.count() == 10

    writer = world.source(maxOffsetsPerTrigger=10).writeStream.foreachBatch(write)
    writer = writer.option("checkpointLocation", str(world.folder / "c"))
    writer.trigger(availableNow=True).start().awaitTermination()
    assert world.rows() == world.each_once()
    assert world.committed() == world.ends()


def test_a_sink_of_another_kind_is_refused_by_name(world: World) -> None:
    world.produce(10)
    frame = world.source(maxOffsetsPerTrigger=5)
    with pytest.raises(PySparkException, match=r"PYLOG_PROGRESS_FAILED.*has not decided about it"):
        world.run(frame, format="parquet", path=str(world.folder / "out"))
    assert world.committed(stable=False) == {}
    with pytest.raises(PySparkException, match=r"PYLOG_OPTION_NOT_APPLICABLE.*exactly.once=false"):
        world.run(frame, "d", pylog__exactly__once="false")
    with Consumer(world.there, group_id=world.name, bootstrap_servers=world.servers) as consumer:
        consumer.poll(5)
        with pytest.raises(PySparkException, match=r"PYLOG_COMMIT_GROUP_IN_USE.*progress.group"):
            world.run(frame, "e")
