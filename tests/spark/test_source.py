"""The source on real Spark, over a cluster in this process that can be made to lose things."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chispa import assert_df_equality
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.functions import col
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from connector.schema import source_schema
from pylog.records.builder import encode_batch
from tests.fakes.fake_cluster import FakeCluster, FakePartition

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster() as cluster:
        yield cluster


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


@pytest.fixture
def reads(spark: SparkSession, cluster: FakeCluster, tmp_path: Path) -> Reads:
    return Reads(spark, cluster, tmp_path)


def values(frame: DataFrame) -> list[str]:
    return sorted(bytes(row.value).decode() for row in frame.select("value").collect())


def ends_with(query: StreamingQuery) -> str:
    with pytest.raises(PySparkException) as error:
        query.awaitTermination(60)
    return str(error.value)


# ---- batch -------------------------------------------------------------------------------------


def test_all_columns_are_as_in_sparks_kafka_source(
    spark: SparkSession, cluster: FakeCluster, reads: Reads
) -> None:
    partition = cluster.create_topic("a").partitions[0]
    partition.append(
        encode_batch(
            [b"v", None],
            keys=[b"k", None],
            headers=[[("h", b"1"), ("h", None)], None],
            timestamps=[1_700_000_000_123, 5],
        )
    )
    frame = reads.batch(includeHeaders=True)
    assert frame.schema == source_schema(include_headers=True)
    first = datetime.datetime(2023, 11, 14, 22, 13, 20, 123000)
    second = datetime.datetime(1970, 1, 1, 0, 0, 0, 5000)
    expected = spark.createDataFrame(
        [
            (
                bytearray(b"k"), bytearray(b"v"), "a", 0, 0, first, 0,
                [Row(key="h", value=bytearray(b"1")), Row(key="h", value=None)],
            ),
            (None, None, "a", 0, 1, second, 0, None),
        ],
        source_schema(include_headers=True),
    )  # fmt: skip
    assert_df_equality(frame.orderBy("offset"), expected)
    plain = reads.batch()
    assert plain.schema == source_schema(include_headers=False)
    assert_df_equality(plain.orderBy("offset"), expected.drop("headers"))


def test_explicit_and_symbolic_offsets(cluster: FakeCluster, reads: Reads) -> None:
    numbers(cluster, "a", 5, 4)
    assert len(values(reads.batch())) == 9
    chosen = reads.batch(
        startingOffsets='{"a":{"0":2,"1":-2}}', endingOffsets='{"a":{"0":4,"1":-1}}'
    )
    assert values(chosen) == ["0-2", "0-3", "1-0", "1-1", "1-2", "1-3"]
    assert chosen.rdd.getNumPartitions() == 2
    one = reads.batch(startingOffsets='{"a":{"0":4,"1":4}}', endingOffsets='{"a":{"0":5,"1":4}}')
    assert values(one) == ["0-4"]
    assert one.rdd.getNumPartitions() == 1  # an empty range takes no task
    none = reads.batch(startingOffsets='{"a":{"0":5,"1":4}}', endingOffsets='{"a":{"0":5,"1":4}}')
    assert values(none) == []


def test_a_frame_used_again_sees_what_was_written_since(cluster: FakeCluster, reads: Reads) -> None:
    numbers(cluster, "a", 2)
    frame = reads.batch()
    assert values(frame) == ["0-0", "0-1"]
    fill(cluster.topics["a"].partitions[0], "0-2")
    cluster.topics["a"].partitions.append(FakePartition(leader=1))
    fill(cluster.topics["a"].partitions[1], "1-0")
    assert values(frame) == ["0-0", "0-1", "0-2", "1-0"]
    assert values(frame.union(frame)) == sorted(["0-0", "0-1", "0-2", "1-0"] * 2)


def test_a_filter_does_not_stick_to_the_frame(cluster: FakeCluster, reads: Reads) -> None:
    numbers(cluster, "a", 6)
    frame = reads.batch()
    assert frame.filter(col("offset") > 3).count() == 2
    assert frame.count() == 6


def test_a_schema_selects_columns(cluster: FakeCluster, reads: Reads) -> None:
    numbers(cluster, "a", 2)
    reader = reads.spark.read.format("pylog").options(**reads.options)
    frame = reader.schema("offset bigint, value binary").load()
    assert [tuple(row) for row in frame.collect()] == [
        (0, bytearray(b"0-0")),
        (1, bytearray(b"0-1")),
    ]
    stream = reads.spark.readStream.format("pylog").options(
        **{**reads.options, "startingOffsets": "earliest"}
    )
    frame = stream.schema("offset bigint").load()
    query = frame.writeStream.format("memory").queryName("projected").trigger(availableNow=True)
    query.start().awaitTermination()
    assert reads.spark.table("projected").count() == 2
    for wrong in ("offset int", "nonsense string", "headers string"):
        with pytest.raises(PySparkException, match=r"\[PYLOG_SOURCE_SCHEMA\] column|has no column"):
            reader.schema(wrong).load().collect()


def test_large_and_compressed_records_come_in_pieces(cluster: FakeCluster, reads: Reads) -> None:
    partition = cluster.create_topic("a").partitions[0]
    for n in range(6):
        partition.append(encode_batch([bytes([n]) * (6 << 20)] * 2, compression="zstd"))
    rows = reads.batch().selectExpr("length(value) l", "hex(substring(value, 1, 1)) b", "offset")
    assert [tuple(r) for r in rows.orderBy("offset").collect()] == [
        (6 << 20, f"0{n // 2}", n) for n in range(12)
    ]


@pytest.mark.parametrize(
    ("options", "condition", "words"),
    [
        ({"startingOffset": "latest"}, "PYLOG_UNKNOWN_OPTION", "startingOffsets"),
        ({"assign": '{"a":[0]}'}, "PYLOG_INVALID_OPTION", "give only one of"),
        ({"groupIdPrefix": "x"}, "PYLOG_OPTION_NOT_OFFERED", "checkpoint"),
        ({"subscribe": ""}, "PYLOG_INVALID_OPTION", "names no topic"),
        ({"failOnDataLoss": "maybe"}, "PYLOG_INVALID_OPTION", "true or false"),
        ({"maxOffsetsPerTrigger": "0"}, "PYLOG_INVALID_OPTION", "at least 1"),
        ({"topic": "a"}, "PYLOG_OPTION_NOT_APPLICABLE", "subscribe"),
        ({"pylog.bootstrap.servers": "h"}, "PYLOG_INVALID_OPTION", "host:port"),
    ],
)
def test_wrong_options_are_told_at_load(
    reads: Reads, options: dict[str, str], condition: str, words: str
) -> None:
    for load in (reads.batch, reads.stream):
        with pytest.raises(AnalysisException) as error:
            load(**options)
        assert f"[{condition}] " in str(error.value)
        assert words in str(error.value)


@pytest.mark.parametrize(
    ("options", "condition", "words"),
    [
        ({"subscribe": "none"}, "PYLOG_UNKNOWN_TOPIC", "no topic none"),
        ({"startingOffsets": "latest"}, "PYLOG_INVALID_OPTION", "reads nothing"),
        ({"startingOffsets": '{"a":{"7":1}}'}, "PYLOG_INVALID_OPTION", 'startingOffsets.a."7"'),
        ({"startingOffsets": '{"a":{"0":9}}'}, "PYLOG_OFFSET_BEYOND_END", "ends at 2"),
        (
            {"startingOffsets": '{"a":{"0":2}}', "endingOffsets": '{"a":{"0":1}}'},
            "PYLOG_START_AFTER_END",
            "startingOffsets is 2 and endingOffsets is 1",
        ),
    ],
)
def test_batches_that_cannot_be_read(
    cluster: FakeCluster, reads: Reads, options: dict[str, str], condition: str, words: str
) -> None:
    numbers(cluster, "a", 2)
    with pytest.raises(PySparkException) as error:
        reads.batch(**options).collect()
    assert f"[{condition}] " in str(error.value)
    assert words in str(error.value)


def test_nobody_there(cluster: FakeCluster, reads: Reads) -> None:
    addresses = cluster.bootstrap_servers
    cluster.close()
    with pytest.raises(PySparkException) as error:
        reads.batch(**{"pylog.default.api.timeout.ms": "500"}).collect()
    assert "[PYLOG_READ_FAILED] cannot look up the offsets of a" in str(error.value)
    assert f"{addresses[0]}: connection refused" in str(error.value)


def test_a_batch_that_lost_records(cluster: FakeCluster, reads: Reads) -> None:
    numbers(cluster, "a", 5)
    start = {"startingOffsets": '{"a":{"0":1}}'}
    cluster.topics["a"].partitions[0].log_start = 3
    with pytest.raises(PySparkException) as error:
        reads.batch(**start).collect()
    assert "[PYLOG_DATA_LOSS] a-0 was to be read from offset 1" in str(error.value)
    assert "first offset is 3" in str(error.value)
    assert values(reads.batch(**start, failOnDataLoss=False)) == ["0-3", "0-4"]


# ---- which topics, which times, which tasks ----------------------------------------------------


def test_a_pattern_finds_topics_anywhere_in_their_names(cluster: FakeCluster, reads: Reads) -> None:
    by_pattern = {"subscribe": None, "subscribePattern": "a."}
    assert values(reads.batch(**by_pattern)) == []  # nothing found: empty, no error
    reads.run(**by_pattern, startingOffsets="earliest")
    numbers(cluster, "xab", 2)
    numbers(cluster, "ac", 1)
    numbers(cluster, "xa", 3)
    assert values(reads.batch(**by_pattern)) == ["0-0", "0-0", "0-1"]
    assert sum(reads.run(**by_pattern)) == 3  # topics that came later are read from their start
    del cluster.topics["xab"]
    assert "[PYLOG_DATA_LOSS] topic xab was deleted" in ends_with(reads.start(**by_pattern))
    fill(cluster.topics["ac"].partitions[0], "more")
    assert sum(reads.run(**by_pattern, failOnDataLoss=False)) == 1


def test_assigned_partitions_only(cluster: FakeCluster, reads: Reads) -> None:
    numbers(cluster, "a", 2, 3, 4)
    assigned = {"subscribe": None, "assign": '{"a":[2,0,7]}'}
    assert values(reads.batch(**assigned)) == ["0-0", "0-1", "2-0", "2-1", "2-2", "2-3"]
    offsets = '{"a":{"0":1,"2":-2}}'
    assert len(values(reads.batch(**assigned, startingOffsets=offsets))) == 5
    assert sum(reads.run(**assigned, startingOffsets=offsets)) == 5
    text = ends_with(reads.start(subscribe=None, assign='{"a":[0]}'))
    assert "[PYLOG_CHECKPOINT_MISMATCH] the checkpoint holds offsets of a-2" in text
    with pytest.raises(
        PySparkException, match=r'startingOffsets.a."1": the partition is not among'
    ):
        reads.batch(**assigned, startingOffsets='{"a":{"0":1,"1":0,"2":0}}').collect()


def at_times(cluster: FakeCluster) -> None:
    """Partition 0: offsets 0 to 3 of times 1000, 2000, 3000, 4000; partition 1: one of 2500."""
    first, second = cluster.create_topic("a", 2).partitions
    for time in (1000, 2000, 3000, 4000):
        first.append(encode_batch([b"0-%d" % time], timestamps=time))
    second.append(encode_batch([b"1-2500"], timestamps=2500))


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"startingTimestamp": 2500}, ["0-3000", "0-4000", "1-2500"]),
        ({"startingTimestamp": 2000, "endingTimestamp": 4000}, ["0-2000", "0-3000", "1-2500"]),
        ({"endingTimestamp": 2000}, ["0-1000"]),
        (
            {"startingOffsetsByTimestamp": '{"a":{"0":4000,"1":-2}}',
             "startingOffsets": "earliest"},
            ["0-4000", "1-2500"],
        ),
        ({"endingOffsetsByTimestamp": '{"a":{"0":1500,"1":9000}}'}, ["0-1000", "1-2500"]),
        (
            {"startingTimestamp": 3500, "startingOffsetsByTimestampStrategy": "latest"},
            ["0-4000"],
        ),
        (
            {"startingTimestamp": 3000, "endingOffsets": '{"a":{"0":3,"1":1}}',
             "startingOffsetsByTimestampStrategy": "latest"},
            ["0-3000"],
        ),
        ({"startingOffsets": '{"a":"earliest"}', "endingOffsets": '{"a":{"0":1,"1":-1}}'},
         ["0-1000", "1-2500"]),
    ],
)  # fmt: skip
def test_times(
    cluster: FakeCluster, reads: Reads, options: dict[str, object], wanted: list[str]
) -> None:
    at_times(cluster)
    assert values(reads.batch(**options)) == wanted


def test_a_time_that_no_record_has(cluster: FakeCluster, reads: Reads) -> None:
    at_times(cluster)
    with pytest.raises(PySparkException) as error:
        reads.batch(startingTimestamp=3500).collect()
    assert "[PYLOG_NO_OFFSET_AT_TIME] startingTimestamp=3500: a-1" in str(error.value)
    assert "startingOffsetsByTimestampStrategy=latest" in str(error.value)
    assert sum(reads.run(startingTimestamp=2500)) == 3
    # What is written before the ending time counts, also when the frame is used again.
    frame = reads.batch(endingTimestamp=5000)
    assert len(values(frame)) == 5
    for time in (4500, 5000, 5500):
        cluster.topics["a"].partitions[1].append(encode_batch([b"late"], timestamps=time))
    assert len(values(frame)) == 6


def test_ranges_are_split_and_nothing_is_read_twice(cluster: FakeCluster, reads: Reads) -> None:
    numbers(cluster, "a", 10, 0, 3)
    everything = values(reads.batch())
    for options, tasks in (
        ({}, 2),  # the empty partition takes none
        ({"minPartitions": 5}, 5),
        ({"maxRecordsPerPartition": 4}, 4),
        ({"maxRecordsPerPartition": 4, "minPartitions": 6}, 6),
    ):
        frame = reads.batch(**options)
        assert frame.rdd.getNumPartitions() == tasks, options
        assert values(frame) == everything
    fill(cluster.topics["a"].partitions[1], "1-0")
    fill(cluster.topics["a"].partitions[0], "0-10")
    assert values(frame) == sorted([*everything, "1-0", "0-10"])
    assert reads.run(startingOffsets="earliest", minPartitions=6) == [15]
    assert len(list((reads.folder / "out").glob("*.parquet"))) == 6


def test_too_few_records_wait_for_more(cluster: FakeCluster, reads: Reads) -> None:
    numbers(cluster, "a", 3)
    options = {"startingOffsets": "earliest", "minOffsetsPerTrigger": 5, "maxTriggerDelay": "10m"}
    query = reads.start(trigger={"processingTime": "0 seconds"}, **options)
    try:
        query.processAllAvailable()
        assert len(reads.out()) == 3  # the first batch never waits
        fill(cluster.topics["a"].partitions[0], "a", "b")
        query.awaitTermination(1)
        assert len(reads.out()) == 3
        fill(cluster.topics["a"].partitions[0], "c", "d", "e")
        while len(reads.out()) < 8:
            assert query.isActive, query.exception()
            query.awaitTermination(1)
    finally:
        query.stop()
    fill(cluster.topics["a"].partitions[0], "f")
    assert sum(reads.run(**options)) == 1  # nor does Trigger.AvailableNow


# ---- streams -----------------------------------------------------------------------------------


def test_available_now_reads_what_is_there_in_limited_batches(
    cluster: FakeCluster, reads: Reads
) -> None:
    numbers(cluster, "a", 10, 5)
    limited = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": 6}
    # Shares of Spark's Kafka connector: 4 + 2, then 4 + 2 of 6 + 3, then what is left.
    assert [rows for rows in reads.run(**limited) if rows] == [6, 6, 3]
    assert len(reads.out()) == len(set(reads.out())) == 15
    assert reads.offsets(0)["boot"] == {"t": {"a": {"0": 0, "1": 0}}}
    assert "boot" not in reads.offsets(1)
    assert {p: at["o"] for p, at in reads.offsets(2)["t"]["a"]["p"].items()} == {"0": 10, "1": 5}

    before = sorted((reads.folder / "checkpoint" / "offsets").iterdir())
    assert sum(reads.run(**limited)) == 0
    assert sorted((reads.folder / "checkpoint" / "offsets").iterdir()) == before  # no batch at all

    fill(cluster.topics["a"].partitions[0], "new")
    cluster.topics["a"].partitions.append(FakePartition(leader=1))
    fill(cluster.topics["a"].partitions[2], "added")
    assert sum(reads.run(**limited)) == 2
    assert len(reads.out()) == len(set(reads.out())) == 17


def test_an_empty_topic_makes_one_batch_and_then_none(cluster: FakeCluster, reads: Reads) -> None:
    cluster.create_topic("a")
    reads.run()
    assert reads.offsets(0)["boot"] == {"t": {"a": {"0": 0}}}
    reads.run()
    assert len(list((reads.folder / "checkpoint" / "commits").glob("[0-9]*"))) == 1


def test_a_running_query_sees_records_and_partitions_as_they_come(
    cluster: FakeCluster, reads: Reads
) -> None:
    numbers(cluster, "a", 3)
    query = reads.start(trigger={"processingTime": "0 seconds"})
    try:
        # Starts at latest: the first batch is empty, and fixes where the query began.
        checkpoint = reads.folder / "checkpoint" / "commits" / "0"
        while not checkpoint.exists():
            assert query.isActive, query.exception()
            query.awaitTermination(1)
        fill(cluster.topics["a"].partitions[0], "later")
        query.processAllAvailable()
        assert reads.out() == ["later"]
        cluster.topics["a"].partitions.append(FakePartition(leader=1))
        fill(cluster.topics["a"].partitions[1], "added")
        while "added" not in reads.out():
            assert query.isActive, query.exception()
            query.awaitTermination(1)
        progress = query.lastProgress
        assert progress is not None
        assert json.loads(progress.sources[0].latestOffset) == {
            "a": {"0": 4, "1": 1},
            "avgOffsetsBehindLatest": 0,
            "maxOffsetsBehindLatest": 0,
            "minOffsetsBehindLatest": 0,
        }
    finally:
        query.stop()


def test_a_failed_first_batch_is_replayed_from_where_it_began(
    cluster: FakeCluster, reads: Reads
) -> None:
    """`latest` has moved by the replay; the range is the first attempt's all the same."""
    numbers(cluster, "a", 3)
    partition = cluster.topics["a"].partitions[0]
    frame = reads.stream()
    checkpoint = str(reads.folder / "failing")
    seen: list[list[str]] = []

    def fails(rows: DataFrame, batch: int) -> None:
        seen.append(values(rows))
        if len(seen) == 1:
            fill(partition, "after the plan")
            raise RuntimeError("the sink is down")

    writer = frame.writeStream.option("checkpointLocation", checkpoint).foreachBatch(fails)
    writer = writer.trigger(availableNow=True)
    assert "the sink is down" in ends_with(writer.start())
    writer.start().awaitTermination()
    assert seen == [[], [], ["after the plan"]]


def test_a_failed_batch_is_replayed_with_the_same_records(
    cluster: FakeCluster, reads: Reads
) -> None:
    numbers(cluster, "a", 4)
    partition = cluster.topics["a"].partitions[0]
    seen: list[tuple[int, list[str]]] = []

    def fails_once(rows: DataFrame, batch: int) -> None:
        seen.append((batch, values(rows)))
        if len(seen) == 2:
            fill(partition, "more")
            raise RuntimeError("the sink is down")

    frame = reads.stream(startingOffsets="earliest", maxOffsetsPerTrigger=2)
    writer = frame.writeStream.option("checkpointLocation", str(reads.folder / "c"))
    writer = writer.foreachBatch(fails_once).trigger(availableNow=True)
    assert "the sink is down" in ends_with(writer.start())
    writer.start().awaitTermination()
    assert seen == [
        (0, ["0-0", "0-1"]),
        (1, ["0-2", "0-3"]),
        (1, ["0-2", "0-3"]),
        (2, ["more"]),
    ]


def test_retention_overtook_a_stream(cluster: FakeCluster, reads: Reads) -> None:
    numbers(cluster, "a", 4)
    reads.run(startingOffsets="earliest")
    partition = cluster.topics["a"].partitions[0]
    fill(partition, "lost", "lost too")
    fill(partition, "kept")
    partition.log_start = 6
    partition.batches = partition.batches[2:]
    text = ends_with(reads.start())
    assert "[PYLOG_DATA_LOSS] a-0 was to be read from offset 4" in text
    assert "first offset is 6 by now: 2 records were deleted" in text
    reads.run(failOnDataLoss=False)
    assert reads.out() == ["0-0", "0-1", "0-2", "0-3", "kept"]


def test_a_recreated_topic_is_noticed_even_when_it_is_longer(
    cluster: FakeCluster, reads: Reads
) -> None:
    numbers(cluster, "a", 2)
    reads.run(startingOffsets="earliest")
    old = cluster.topics["a"].topic_id
    fill(cluster.create_topic("a").partitions[0], "x", "y", "z")
    text = ends_with(reads.start())
    assert "[PYLOG_DATA_LOSS] topic a was deleted and created again" in text
    assert old in text
    assert cluster.topics["a"].topic_id in text
    assert "failOnDataLoss=false" in text
    reads.run(failOnDataLoss=False)
    reads.run(failOnDataLoss=False)
    assert reads.out() == ["0-0", "0-1", "x", "y", "z"]


def test_a_log_that_was_cut_and_grew_anew_is_noticed(cluster: FakeCluster, reads: Reads) -> None:
    numbers(cluster, "a", 4)
    reads.run(startingOffsets="earliest")
    partition = cluster.topics["a"].partitions[0]
    partition.epoch_ends[0], partition.epoch = 2, 1
    fill(partition, "new")
    text = ends_with(reads.start())
    assert "[PYLOG_DATA_LOSS] the log of a-0 was cut at 2" in text


def test_a_damaged_or_foreign_checkpoint_is_refused(cluster: FakeCluster, reads: Reads) -> None:
    numbers(cluster, "a", 2)
    numbers(cluster, "b", 2)
    reads.run(startingOffsets="earliest")
    assert "[PYLOG_CHECKPOINT_MISMATCH] the checkpoint holds offsets of topic a" in ends_with(
        reads.start(subscribe="b")
    )
    path = reads.folder / "checkpoint" / "offsets" / "0"
    path.write_text(path.read_text().replace('"v": 1', '"v": 9'))
    (path.parent / ".0.crc").unlink(missing_ok=True)
    assert "[PYLOG_CHECKPOINT_INVALID] the checkpoint's offset has version 9" in ends_with(
        reads.start()
    )


def test_a_stream_has_no_end(cluster: FakeCluster, reads: Reads) -> None:
    numbers(cluster, "a", 2)
    assert "[PYLOG_OPTION_NOT_APPLICABLE] endingOffsets" in ends_with(
        reads.start(endingOffsets="latest")
    )
    assert "[PYLOG_UNKNOWN_TOPIC] the cluster has no topic none" in ends_with(
        reads.start(subscribe="none")
    )


def test_the_schema_is_one_that_spark_takes() -> None:
    from pyspark.sql.pandas.types import to_arrow_schema

    from pylog.records.columnar import record_schema

    for headers in (False, True):
        wanted: StructType = source_schema(include_headers=headers)
        assert to_arrow_schema(wanted, timezone="UTC").equals(record_schema(headers))
