"""The source on real Spark: which topics, which times, which tasks."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from pylog.records.builder import encode_batch
from tests.fakes.fake_cluster import FakeCluster
from tests.fakes.spark_reads import Reads, ends_with, fill, numbers, values

pytestmark = [pytest.mark.spark, pytest.mark.slow]


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
    # Records from before the ending time count, also when the frame is used again.
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


def test_bytes_bound_batches_and_tasks(cluster: FakeCluster, reads: Reads) -> None:
    partitions = cluster.create_topic("a", 2).partitions
    for _ in range(8):
        fill(partitions[0], *["x" * 100] * 5)
    fill(partitions[1], "y")
    size = partitions[0].batches[0][0].size
    frame = reads.batch(maxBytesPerPartition=2 * size)
    assert frame.rdd.getNumPartitions() == 5
    assert len(values(frame)) == 41
    shared = {"startingOffsets": "earliest", "maxBytesPerPartition": size}
    rows = [count for count in reads.run(maxBytesPerTrigger=3 * size, **shared) if count]
    assert sum(rows) == len(reads.out()) == 41
    assert max(rows) <= 16
    assert len(rows) == 3


def test_options_narrow_what_is_read(cluster: FakeCluster, reads: Reads) -> None:
    """Also where neither key nor timestamp is among the columns."""
    for number, partition in enumerate(cluster.create_topic("a", 3).partitions):
        for time in (1_000, 2_000, 3_000):
            names = [b"%d-%d-%s" % (number, time, key or b"none") for key in KEYS]
            partition.append(encode_batch(names, keys=KEYS, timestamps=time))
    chosen = {"partitions": "0,2", "keys": '["x",null]', "minTimestamp": 2_000}
    wanted = [
        f"{p}-{time}-{key}" for p in (0, 2) for time in (2_000, 3_000) for key in ("none", "x")
    ]
    assert values(reads.batch(**chosen)) == wanted
    reader = reads.spark.read.format("pylog").options(**reads.with_options({**chosen}))
    assert values(reader.schema("value binary").load()) == wanted
    assert sum(reads.run(**chosen, startingOffsets="earliest")) == len(wanted)
    assert reads.out() == wanted


KEYS = [b"x", b"y", None]
