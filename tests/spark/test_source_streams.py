"""The source on real Spark: streams, and what becomes of them when records are lost."""

from __future__ import annotations

import json

import pytest
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from pylog_connector.schema import source_schema
from tests.fakes.fake_cluster import FakeCluster
from tests.fakes.fake_topics import FakePartition
from tests.fakes.spark_reads import Reads, ends_with, fill, numbers, values

pytestmark = [pytest.mark.spark, pytest.mark.slow]


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
            "recordsBehindLatest": 0,
            "bytesBehindLatest": 0,
            "secondsBehindLatest": 0,
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


def test_57_retention_overtook_a_stream(cluster: FakeCluster, reads: Reads) -> None:
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


def test_58_a_damaged_or_foreign_checkpoint_is_refused(cluster: FakeCluster, reads: Reads) -> None:
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


def test_61_of_two_queries_on_one_checkpoint_one_goes_on(
    cluster: FakeCluster, reads: Reads
) -> None:
    """Spark's own rule: the one that was started last; nothing is read twice or left out."""
    numbers(cluster, "a", 2)
    first = reads.start(trigger={"processingTime": "0 seconds"}, startingOffsets="earliest")
    try:
        first.processAllAvailable()
        second = reads.start(trigger={"processingTime": "0 seconds"}, startingOffsets="earliest")
        try:
            assert not first.isActive
            fill(cluster.topics["a"].partitions[0], "more")
            second.processAllAvailable()
        finally:
            second.stop()
    finally:
        first.stop()
    assert reads.out() == ["0-0", "0-1", "more"]


@pytest.mark.parametrize("trigger", [{"availableNow": True}, {"processingTime": "0 seconds"}])
def test_a_stream_has_no_end(
    cluster: FakeCluster, reads: Reads, trigger: dict[str, object]
) -> None:
    numbers(cluster, "a", 2)
    why = ends_with(reads.start(endingOffsets="latest", trigger=trigger))
    assert "[PYLOG_OPTION_NOT_APPLICABLE] endingOffsets" in why
    assert "During handling of the above exception" not in why  # Spark's own, after the error
    assert "[PYLOG_UNKNOWN_TOPIC] the cluster has no topic none" in ends_with(
        reads.start(subscribe="none")
    )


def test_the_schema_is_one_that_spark_takes() -> None:
    from pyspark.sql.pandas.types import to_arrow_schema

    from pylog.records.columnar import record_schema

    for headers in (False, True):
        wanted: StructType = source_schema(include_headers=headers)
        assert to_arrow_schema(wanted, timezone="UTC").equals(record_schema(headers))
