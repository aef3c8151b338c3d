"""Batches that count once, on real Spark against real brokers: counts are exact whatever fails."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, WriterCommitMessage
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.types import StructType

import pylog
from pylog import AdminClient, Consumer, LocalCluster, NewTopic, TopicPartition
from pylog_connector.datasource import PylogDataSource
from pylog_connector.sink import StreamWriter
from tests.fakes.waiting import eventually
from tests.verify import exactly_once

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.integration]

ONCE = {"pylog.exactly.once": "true"}
AT_LEAST_ONCE = {"pylog.exactly.once": "false"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    config = {"min.insync.replicas": "2", "transaction.state.log.num.partitions": "4"}
    with LocalCluster(brokers=3, config=config) as running:
        yield running


@pytest.fixture
def topics(cluster: LocalCluster, request: pytest.FixtureRequest) -> Callable[..., str]:
    """Makes topics of three partitions, with names of their own."""

    def make(name: str) -> str:
        full = "".join(c if c.isalnum() else "-" for c in f"{request.node.name}-{name}")
        with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(full, 3, 3)])
        return full

    return make


def settle(cluster: LocalCluster, topic: str) -> None:
    """Wait until no transaction holds back readers: a decision is answered before its markers are
    written, and a write that failed is aborted when its last task has ended.
    """
    servers = cluster.bootstrap_servers
    with (
        Consumer(bootstrap_servers=servers, isolation_level="read_committed") as committed,
        Consumer(bootstrap_servers=servers) as all_records,
    ):
        tps = [TopicPartition(topic, n) for n in all_records.partitions_for(topic)]
        eventually(
            30,
            lambda: committed.end_offsets(tps) == all_records.end_offsets(tps),
            f"readers of {topic} are held back",
        )


def values(cluster: LocalCluster, topic: str, *, committed: bool = True) -> Counter[int]:
    """The numbers that readers see once nothing holds them back."""
    settle(cluster, topic)
    level = "read_committed" if committed else "read_uncommitted"
    found: Counter[int] = Counter()
    with Consumer(bootstrap_servers=cluster.bootstrap_servers, isolation_level=level) as consumer:
        partitions = [TopicPartition(topic, n) for n in consumer.partitions_for(topic)]
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        ends = consumer.end_offsets(partitions)
        while any(consumer.position(tp) < end for tp, end in ends.items()):
            found.update(int(record.value) for record in consumer.poll(0.5))
    return found


def each_once(count: int) -> Counter[int]:
    return Counter(range(count))


def numbers(spark: SparkSession, count: int, tasks: int = 2, first: int = 0) -> DataFrame:
    return spark.range(first, first + count, 1, tasks).selectExpr(
        "cast(id % 10 as string) key", "cast(id as string) value"
    )


def write(frame: DataFrame, cluster: LocalCluster, topic: str, **options: str) -> None:
    given = {"pylog.bootstrap.servers": cluster.bootstrap_servers, "topic": topic}
    frame.write.format("pylog").mode("append").options(**given, **ONCE, **options).save()


def failing_once(flag: Path, at: int) -> Callable[[Iterator[pa.RecordBatch]], Any]:
    """Passes rows on, and fails in the middle of the task that has the number `at`, once."""
    name, wanted = str(flag), str(at)

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if wanted in batch.column("value").to_pylist() and not Path(name).exists():
                yield batch.slice(0, batch.num_rows // 2)
                Path(name).touch()
                raise RuntimeError("by the test")
            yield batch

    return rows


def source(spark: SparkSession, cluster: LocalCluster, topic: str, **options: str) -> DataFrame:
    given = {
        "pylog.bootstrap.servers": cluster.bootstrap_servers,
        "subscribe": topic,
        "startingOffsets": "earliest",
        **options,
    }
    read = spark.readStream.format("pylog").options(**given).load()
    return read.selectExpr("cast(key as string) key", "cast(value as string) value")


def copy(
    frame: DataFrame, cluster: LocalCluster, topic: str, checkpoint: Path, **options: str
) -> StreamingQuery:
    given = {
        "pylog.bootstrap.servers": cluster.bootstrap_servers,
        "topic": topic,
        "checkpointLocation": str(checkpoint),
        **ONCE,
        **options,
    }
    writer = frame.writeStream.format("pylog").options(**given)
    return writer.trigger(availableNow=True).start()


def forget_last_commit(checkpoint: Path) -> int:
    """As if the driver had died between the sink's commit and Spark's note of it."""
    last = max(
        (path for path in (checkpoint / "commits").iterdir() if path.name.isdigit()),
        key=lambda path: int(path.name),
    )
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)
    return int(last.name)


# ---- batch writes ------------------------------------------------------------------------------


def test_a_batch_write_counts_whole_or_not_at_all(
    spark: SparkSession, cluster: LocalCluster, topics: Callable[[str], str], tmp_path: Path
) -> None:
    topic = topics("t")
    frame = numbers(spark, 4_000)
    broken = frame.mapInArrow(failing_once(tmp_path / "flag", 3_999), frame.schema)
    with pytest.raises(PySparkException, match="by the test"):
        write(broken, cluster, topic)
    assert values(cluster, topic) == Counter()
    write(broken, cluster, topic)
    assert values(cluster, topic) == each_once(4_000)
    assert values(cluster, topic, committed=False).total() >= 4_000


def test_a_write_is_read_at_once(
    spark: SparkSession, cluster: LocalCluster, topics: Callable[[str], str]
) -> None:
    topic = topics("t")
    given = {"pylog.bootstrap.servers": cluster.bootstrap_servers, "subscribe": topic}
    for number in range(1, 6):
        write(numbers(spark, 100), cluster, topic)
        assert spark.read.format("pylog").options(**given).load().count() == 100 * number


def test_rows_of_several_topics_count_at_once(
    spark: SparkSession, cluster: LocalCluster, topics: Callable[[str], str]
) -> None:
    even, odd = topics("even"), topics("odd")
    frame = numbers(spark, 1_000).selectExpr(
        "value", f"if(cast(value as int) % 2 = 0, '{even}', '{odd}') topic"
    )
    given = {"pylog.bootstrap.servers": cluster.bootstrap_servers, **ONCE}
    frame.write.format("pylog").mode("append").options(**given).save()
    assert values(cluster, even) == Counter(range(0, 1_000, 2))
    assert values(cluster, odd) == Counter(range(1, 1_000, 2))


def test_a_write_with_a_key_is_done_once(
    spark: SparkSession, cluster: LocalCluster, topics: Callable[[str], str]
) -> None:
    topic = topics("t")
    for tasks in (2, 3, 1):
        write(numbers(spark, 500, tasks), cluster, topic, idempotencyKey="day 7")
    assert values(cluster, topic) == each_once(500)
    with pytest.raises(PySparkException, match=r"PYLOG_IDEMPOTENCY_CONFLICT.*501 rows"):
        write(numbers(spark, 501), cluster, topic, idempotencyKey="day 7")
    write(numbers(spark, 500, first=500), cluster, topic, idempotencyKey="day 8")
    assert values(cluster, topic) == each_once(1_000)


def test_an_empty_frame_writes_nothing(
    spark: SparkSession, cluster: LocalCluster, topics: Callable[[str], str]
) -> None:
    topic = topics("t")
    write(numbers(spark, 0), cluster, topic)
    assert values(cluster, topic) == Counter()


# ---- streams -----------------------------------------------------------------------------------


def test_a_query_that_fails_in_the_middle_goes_on_exactly(
    spark: SparkSession, cluster: LocalCluster, topics: Callable[[str], str], tmp_path: Path
) -> None:
    there, here = topics("from"), topics("to")
    write(numbers(spark, 3_000), cluster, there)
    frame = source(spark, cluster, there, maxOffsetsPerTrigger="1000")
    broken = frame.mapInArrow(failing_once(tmp_path / "flag", 2_000), frame.schema)
    query = copy(broken, cluster, here, tmp_path / "c")
    with pytest.raises(PySparkException, match="by the test"):
        query.awaitTermination()
    seen = values(cluster, here)
    whole = sum(progress.numInputRows for progress in query.recentProgress)
    assert seen.total() == whole  # of the batches before
    copy(broken, cluster, here, tmp_path / "c").awaitTermination()
    assert values(cluster, here) == each_once(3_000)


@pytest.mark.parametrize("once", [True, False])
def test_a_batch_whose_commit_spark_forgot_is_not_written_again(
    spark: SparkSession,
    cluster: LocalCluster,
    topics: Callable[[str], str],
    tmp_path: Path,
    once: bool,
) -> None:
    there, here = topics("from"), topics("to")
    write(numbers(spark, 900), cluster, there)
    frame = source(spark, cluster, there, maxOffsetsPerTrigger="300")
    how = ONCE if once else AT_LEAST_ONCE
    copy(frame, cluster, here, tmp_path / "c", **how).awaitTermination()
    forget_last_commit(tmp_path / "c")
    write(numbers(spark, 100, first=900), cluster, there)
    copy(frame, cluster, here, tmp_path / "c", **how).awaitTermination()
    found = values(cluster, here)
    assert found.keys() == each_once(1_000).keys()
    assert (found == each_once(1_000)) == once


def test_a_checkpoint_that_was_put_back_is_refused_by_name(
    spark: SparkSession, cluster: LocalCluster, topics: Callable[[str], str], tmp_path: Path
) -> None:
    there, here = topics("from"), topics("to")
    write(numbers(spark, 300), cluster, there)
    frame = source(spark, cluster, there)
    copy(frame, cluster, here, tmp_path / "c").awaitTermination()
    shutil.copytree(tmp_path / "c", tmp_path / "old")
    for first in (300, 600):
        write(numbers(spark, 300, first=first), cluster, there)
        copy(frame, cluster, here, tmp_path / "c").awaitTermination()
    with pytest.raises(PySparkException, match=r"PYLOG_BATCH_ALREADY_WRITTEN.*sinkId"):
        copy(frame, cluster, here, tmp_path / "old").awaitTermination()
    assert values(cluster, here) == each_once(900)


def test_a_checkpoint_that_was_deleted_is_noticed(
    spark: SparkSession, cluster: LocalCluster, topics: Callable[[str], str], tmp_path: Path
) -> None:
    there, here = topics("from"), topics("to")
    write(numbers(spark, 300), cluster, there)
    frame = source(spark, cluster, there)
    first = copy(frame, cluster, here, tmp_path / "a", sinkId="mine")
    first.awaitTermination()
    progress = first.lastProgress
    assert progress is not None
    for given in (first, progress, str(first.id)):
        (receipt,) = pylog.write_receipts(given, bootstrap_servers=cluster.bootstrap_servers)
        assert (receipt.sink_id, receipt.batch_id, receipt.row_count) == ("mine", 0, 300)
        assert {each.topic for each in receipt.ranges} == {here}
    with pytest.raises(PySparkException, match=rf"PYLOG_SINK_TAKEN.*query {first.id} has written"):
        copy(frame, cluster, here, tmp_path / "b", sinkId="mine").awaitTermination()
    assert values(cluster, here) == each_once(300)
    takeover = {"sinkId": "mine", "pylog.sink.takeover": "true"}
    copy(frame, cluster, here, tmp_path / "c", **takeover).awaitTermination()
    assert values(cluster, here) == Counter({n: 2 for n in range(300)})


def test_two_writes_of_one_batch_need_an_id_each(
    spark: SparkSession, cluster: LocalCluster, topics: Callable[[str], str], tmp_path: Path
) -> None:
    there, here = topics("from"), topics("to")
    write(numbers(spark, 200), cluster, there)
    frame = source(spark, cluster, there)

    def twice(ids: tuple[str, ...], checkpoint: str) -> StreamingQuery:
        def both(batch: DataFrame, _number: int) -> None:
            for name in ids:
                how = {"sinkId": name} if name else {}
                write(batch, cluster, here, **how)

        writer = frame.writeStream.foreachBatch(both)
        writer = writer.option("checkpointLocation", str(tmp_path / checkpoint))
        return writer.trigger(availableNow=True).start()

    with pytest.raises(PySparkException, match=r"PYLOG_BATCH_ALREADY_WRITTEN.*sinkId"):
        twice(("", ""), "refused").awaitTermination()
    assert values(cluster, here) == each_once(200)
    other = topics("other")
    here = other
    twice(("first", "second"), "c").awaitTermination()
    assert values(cluster, other) == Counter({n: 2 for n in range(200)})
    forget_last_commit(tmp_path / "c")
    twice(("first", "second"), "c").awaitTermination()
    assert values(cluster, other) == Counter({n: 2 for n in range(200)})


def test_a_job_group_of_the_users_hides_the_run(
    spark: SparkSession, cluster: LocalCluster, topics: Callable[[str], str], tmp_path: Path
) -> None:
    there, here = topics("from"), topics("to")
    write(numbers(spark, 50), cluster, there)

    def grouped(batch: DataFrame, _number: int) -> None:
        batch.sparkSession.sparkContext.setJobGroup("mine", "my own words")
        write(batch, cluster, here)

    writer = source(spark, cluster, there).writeStream.foreachBatch(grouped)
    query = writer.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True)
    with pytest.raises(PySparkException, match=r"PYLOG_SINK_IDENTITY.*setJobGroup"):
        query.start().awaitTermination()
    assert values(cluster, here) == Counter()


def test_a_thread_of_foreach_batch_names_the_batch(
    spark: SparkSession, cluster: LocalCluster, topics: Callable[[str], str], tmp_path: Path
) -> None:
    """Spark does not tell the tasks of its writes: one without a key would be doubled silently."""
    there, here = topics("from"), topics("to")
    write(numbers(spark, 200), cluster, there)
    frame = source(spark, cluster, there, maxOffsetsPerTrigger="100")

    def in_a_thread(key: str, checkpoint: str) -> StreamingQuery:
        def written(batch: DataFrame, number: int) -> None:
            session: Any = batch.sparkSession
            how = {"idempotencyKey": f"{key}-{number}"} if key else {}

            def thread() -> None:
                classic = session._jvm.org.apache.spark.sql.classic.SparkSession
                classic.setActiveSession(session._jsparkSession)
                write(batch, cluster, here, **how)

            with ThreadPoolExecutor(1) as pool:
                pool.submit(thread).result()

        writer = frame.writeStream.foreachBatch(written)
        writer = writer.option("checkpointLocation", str(tmp_path / checkpoint))
        return writer.trigger(availableNow=True).start()

    with pytest.raises(PySparkException, match=r"PYLOG_SINK_IDENTITY.*idempotencyKey"):
        in_a_thread("", "refused").awaitTermination()
    assert values(cluster, here) == Counter()
    in_a_thread("copy", "c").awaitTermination()
    assert values(cluster, here) == each_once(200)
    forget_last_commit(tmp_path / "c")
    in_a_thread("copy", "c").awaitTermination()
    assert values(cluster, here) == each_once(200)


def test_a_run_allocates_producer_ids_once(
    spark: SparkSession, cluster: LocalCluster, topics: Callable[[str], str], tmp_path: Path
) -> None:
    there, here = topics("from"), topics("to")
    write(numbers(spark, 1_200), cluster, there)
    frame = source(spark, cluster, there, maxOffsetsPerTrigger="200")
    copy(frame, cluster, here, tmp_path / "c").awaitTermination()
    query = json.loads((tmp_path / "c" / "metadata").read_text())["id"]
    with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        names = [one.transactional_id for one in admin.list_transactions()]
    assert 1 <= sum(name.startswith(f"__sink/{query}/") for name in names) <= 12
    assert values(cluster, here) == each_once(1_200)


def test_the_process_that_commits_loads_nothing_heavy(
    spark: SparkSession, cluster: LocalCluster, topics: Callable[[str], str], tmp_path: Path
) -> None:
    there, here = topics("from"), topics("to")
    write(numbers(spark, 50), cluster, there)
    told = str(tmp_path / "modules")

    class WatchedWriter(StreamWriter):
        def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
            import sys

            before = set(sys.modules)
            super().commit(messages, batchId)
            Path(told).write_text(" ".join(sorted(set(sys.modules) - before)))

    class Watched(PylogDataSource):
        @classmethod
        def name(cls) -> str:
            return "pylog_watched"

        def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
            made = super().streamWriter(schema, overwrite)
            return WatchedWriter(made._options, made._columns)

    assert issubclass(Watched, DataSource)
    spark.dataSource.register(Watched)
    writer = source(spark, cluster, there).writeStream.format("pylog_watched")
    given = {"pylog.bootstrap.servers": cluster.bootstrap_servers, "topic": here, **ONCE}
    writer = writer.options(**given, checkpointLocation=str(tmp_path / "c"))
    writer.trigger(availableNow=True).start().awaitTermination()
    loaded = {name.partition(".")[0] for name in Path(told).read_text().split()}
    assert loaded.isdisjoint({"grpc", "numba", "pandas", "numpy", "pyarrow", "asyncio"})
    assert values(cluster, here) == each_once(50)


# ---- whatever dies -----------------------------------------------------------------------------


def test_speculation_changes_no_count(
    spark: SparkSession, cluster: LocalCluster, tmp_path: Path
) -> None:
    """A second attempt of the first task of each batch is begun while the first one waits."""
    with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.create_topics(
            [NewTopic(exactly_once.SOURCE, 4, 3), NewTopic(exactly_once.TARGET, 4, 3)]
        )
    write(numbers(spark, 5_000, 4), cluster, exactly_once.SOURCE)
    driver = exactly_once.Driver(
        cluster.bootstrap_servers,
        tmp_path / "c",
        [
            "pylog.exactly.once=true",
            "slow=20",
            "source.maxRecordsPerPartition=1000",
            "spark.speculation=true",
            "spark.speculation.interval=100ms",
            "spark.speculation.quantile=0.1",
            "spark.speculation.minTaskRuntime=500ms",
            "spark.executor.memory=512m",
        ],
        master="local-cluster[2,1,512]",
    )
    try:
        assert driver.wait_for(1), driver.lines
    finally:
        driver.close()
    assert values(cluster, exactly_once.TARGET) == each_once(5_000)


def test_a_few_kills_change_nothing() -> None:
    """The short form of `make exactly-once`."""
    assert exactly_once.run(8, 7, exactly_once.ONCE) == []
