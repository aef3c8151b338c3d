"""The source on real Spark in batch reads, over a cluster that can be made to lose things."""

from __future__ import annotations

import datetime
import socket

import pytest
from chispa import assert_df_equality
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Row, SparkSession
from pyspark.sql.functions import col

from pylog.records.builder import encode_batch
from pylog_connector.schema import source_schema
from tests.fakes.fake_cluster import FakeCluster
from tests.fakes.fake_topics import FakePartition
from tests.fakes.spark_reads import Reads, fill, numbers, values

pytestmark = [pytest.mark.spark, pytest.mark.slow]


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


def test_what_is_empty_takes_as_few_tasks_as_spark_lets_it(
    cluster: FakeCluster, reads: Reads
) -> None:
    numbers(cluster, "a", 0, 0, 0)
    numbers(cluster, "b", 0, 0)
    nowhere = '{"a":{"0":0,"1":0,"2":0}}'
    by_partition = '{"a":{"0":-1,"1":-1,"2":-1}}'

    def tasks(**options: object) -> int:
        frame = reads.batch(**options)
        assert values(frame) == []
        return frame.rdd.getNumPartitions()

    assert tasks() == 1  # which would read what is written before the frame is used again
    assert tasks(subscribe="a,b") == 2
    assert tasks(endingOffsets=nowhere) == 1  # for a plan of nothing
    assert tasks(subscribe=None, subscribePattern="none.*") == 1
    assert tasks(endingOffsets=by_partition) == tasks(startingOffsets=nowhere) == 3
    fill(cluster.topics["a"].partitions[1], "1-0")
    behind = '{"a":{"0":0,"1":1,"2":0}}'
    assert tasks(startingOffsets=behind, endingOffsets=behind) == 1
    some = reads.batch()
    assert values(some) == ["1-0"]
    assert some.rdd.getNumPartitions() == 1


def test_a_frame_used_again_sees_what_was_written_since(cluster: FakeCluster, reads: Reads) -> None:
    numbers(cluster, "a", 2)
    frame = reads.batch()
    assert values(frame) == ["0-0", "0-1"]
    fill(cluster.topics["a"].partitions[0], "0-2")
    cluster.topics["a"].partitions.append(FakePartition(leader=1))
    fill(cluster.topics["a"].partitions[1], "1-0")
    assert values(frame) == ["0-0", "0-1", "0-2", "1-0"]
    assert values(frame.union(frame)) == sorted(["0-0", "0-1", "0-2", "1-0"] * 2)


def test_a_view_made_by_sql(cluster: FakeCluster, reads: Reads) -> None:
    numbers(cluster, "a", 2)
    servers = reads.options["pylog.bootstrap.servers"]
    reads.spark.sql(
        "create or replace temporary view flights using pylog options "
        f"('pylog.bootstrap.servers' '{servers}', 'subscribe' 'a')"
    )
    assert reads.spark.sql("select count(*) n from flights").collect()[0].n == 2
    with pytest.raises(AnalysisException, match=r"\[PYLOG_UNKNOWN_OPTION\] subscribes='a'"):
        reads.spark.sql(
            "create temporary view v using pylog options "
            f"('pylog.bootstrap.servers' '{servers}', 'subscribes' 'a')"
        )


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
        ({"kafka.security.protocol": "SSL"}, "PYLOG_OPTION_NOT_OFFERED", "without TLS"),
        ({"subscribe": ""}, "PYLOG_INVALID_OPTION", "names no topic"),
        ({"failOnDataLoss": "maybe"}, "PYLOG_INVALID_OPTION", "true or false"),
        ({"maxOffsetsPerTrigger": "0"}, "PYLOG_INVALID_OPTION", "at least 1"),
        ({"sinkId": "a"}, "PYLOG_OPTION_NOT_APPLICABLE", "option of the sink"),
        ({"pylog.bootstrap.servers": "h"}, "PYLOG_INVALID_OPTION", "host:port"),
        ({"subscribe": None}, "PYLOG_MISSING_OPTION", "subscribePattern, or assign"),
        ({"startingOffsets": "{"}, "PYLOG_INVALID_OPTION", "startingOffsets='{' is not valid JSON"),
        ({"startingOffsets": '{"a":{"0":"1"}}'}, "PYLOG_INVALID_OPTION", 'startingOffsets.a."0"'),
        ({"subscribePattern": "(?<=a)b"}, "PYLOG_INVALID_OPTION", "no lookbehind"),
        ({"minPartitions": "0"}, "PYLOG_INVALID_OPTION", "at least 1"),
        ({"kafka.sasl.password": "hunter2"}, "PYLOG_OPTION_NOT_OFFERED", "(redacted)"),
    ],
)
def test_53_54_55_59_62_63_66_wrong_options_are_told_at_load(
    reads: Reads, options: dict[str, str], condition: str, words: str
) -> None:
    for load in (reads.batch, reads.stream):
        with pytest.raises(AnalysisException) as error:
            load(**options)
        assert f"[{condition}] " in str(error.value)
        assert words in str(error.value)
        assert "hunter2" not in str(error.value)


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
def test_55_56_batches_that_cannot_be_read(
    cluster: FakeCluster, reads: Reads, options: dict[str, str], condition: str, words: str
) -> None:
    numbers(cluster, "a", 2)
    with pytest.raises(PySparkException) as error:
        reads.batch(**options).collect()
    assert f"[{condition}] " in str(error.value)
    assert words in str(error.value)


def test_63_67_nobody_there(cluster: FakeCluster, reads: Reads) -> None:
    addresses = cluster.bootstrap_servers
    cluster.close()
    with pytest.raises(PySparkException) as error:
        reads.batch(**{"pylog.default.api.timeout.ms": "500"}).collect()
    assert "[PYLOG_READ_FAILED] cannot look up the offsets of a" in str(error.value)
    assert f"{addresses[0]}: connection refused" in str(error.value)


def test_67_an_executor_that_reaches_nobody(cluster: FakeCluster, reads: Reads) -> None:
    """The driver planned, the task does not get through: it says from where it tried."""
    numbers(cluster, "a", 2)
    frame = reads.batch(**{"pylog.default.api.timeout.ms": "500", "minPartitions": "1"})
    frame.rdd.getNumPartitions()  # plans
    address = cluster.bootstrap_servers[0]
    cluster.close()
    with pytest.raises(PySparkException) as error:
        frame.collect()
    assert f"{address}: connection refused" in str(error.value)
    assert f"tried from host {socket.gethostname()}" in str(error.value)


def test_59_a_pattern_of_nested_quantifiers(cluster: FakeCluster, reads: Reads) -> None:
    """It would take Java and Python minutes to see that it does not match."""
    numbers(cluster, "x" * 60, 2)
    by_pattern = {"subscribe": None, "subscribePattern": "(x+)+-$"}
    assert values(reads.batch(**by_pattern)) == []
    assert values(reads.batch(**{**by_pattern, "subscribePattern": "(x+)+$"})) == ["0-0", "0-1"]


def test_57_a_batch_that_lost_records(cluster: FakeCluster, reads: Reads) -> None:
    numbers(cluster, "a", 5)
    start = {"startingOffsets": '{"a":{"0":1}}'}
    cluster.topics["a"].partitions[0].log_start = 3
    with pytest.raises(PySparkException) as error:
        reads.batch(**start).collect()
    assert "[PYLOG_DATA_LOSS] a-0 was to be read from offset 1" in str(error.value)
    assert "first offset is 3" in str(error.value)
    assert values(reads.batch(**start, failOnDataLoss=False)) == ["0-3", "0-4"]
