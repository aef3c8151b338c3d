"""Whole streaming queries without Spark, over a cluster in this process.

The cases are those of the tests of Spark's own Kafka connector, by intent: where a query starts by
every way to say so, what happens while it is stopped, what is limited, what is lost.
"""

from __future__ import annotations

import itertools
import json
import random
import threading
from collections.abc import Iterator

import pytest

from pylog.model import TopicPartition
from pylog.records.batch import iter_headers
from pylog.records.builder import ControlType, encode_batch, encode_control_batch
from pylog_connector import errors
from pylog_connector.byte_ranges import Ranges
from pylog_connector.clients import reader_for
from pylog_connector.options import source_options
from pylog_connector.source import BatchReader
from tests.fakes.fake_cluster import FakeCluster
from tests.fakes.fake_topics import FakePartition
from tests.fakes.micro_batches import Checkpoint, Row, Run


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic that is denied is gone at once, instead of after three seconds; nobody idles."""
    monkeypatch.setattr("pylog.client.cluster.denials.UNKNOWN_TOPIC_GRACE_MS", 30)
    monkeypatch.setattr("pylog_connector.source.IDLE_S", 0.0)
    monkeypatch.setattr("pylog_connector.bounds.TOPICS_AGE_MS_MAX", 0)


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster() as cluster:
        yield cluster


def fill(partition: FakePartition, *values: str, time: int = 0) -> None:
    partition.append(encode_batch([value.encode() for value in values], timestamps=time))


def options(cluster: FakeCluster, **more: object) -> dict[str, str]:
    shared = {
        "pylog.bootstrap.servers": ",".join(cluster.bootstrap_servers),
        "pylog.retry.backoff.ms": "10",
        "pylog.fetch.max.wait.ms": "50",
        "fetchOffset.retryIntervalMs": "0",
    }
    return shared | {name: str(value) for name, value in more.items()}


def values(rows: list[Row]) -> list[str]:
    return sorted(row[3] for row in rows)


SELECTIONS = {
    "assign": json.dumps({"t": [0, 1, 2]}),
    "subscribe": "t",
    "subscribePattern": "^t$",
}
STARTS = {
    "latest": ({"startingOffsets": "latest"}, []),
    "earliest": ({"startingOffsets": "earliest"}, ["0-a", "0-b", "0-c", "1-a", "1-b"]),
    "specific offsets": (
        {"startingOffsets": '{"t":{"0":1,"1":-1,"2":-2}}'},
        ["0-b", "0-c"],
    ),
    "specific timestamps": (
        {
            "startingOffsetsByTimestamp": '{"t":{"0":2000,"1":2000,"2":-1}}',
            "startingOffsets": "latest",
        },
        ["0-b", "0-c", "1-b"],
    ),
    "global timestamp": (
        {"startingTimestamp": "3000", "startingOffsetsByTimestampStrategy": "latest"},
        ["0-c"],
    ),
}


@pytest.mark.parametrize("fail_on_data_loss", ["true", "false"])
@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("selection", SELECTIONS)
def test_where_a_query_starts(
    cluster: FakeCluster, selection: str, start: str, fail_on_data_loss: str
) -> None:
    """N 2.1: all ways to choose topics by all ways to start, by both attitudes to losses."""
    partitions = cluster.create_topic("t", 3).partitions
    for time, value in enumerate("abc"):
        fill(partitions[0], f"0-{value}", time=1000 * (time + 1))
    fill(partitions[1], "1-a", time=1000)
    fill(partitions[1], "1-b", time=2000)
    given, first = STARTS[start]
    chosen = options(
        cluster,
        **{selection: SELECTIONS[selection]},
        **given,
        failOnDataLoss=fail_on_data_loss,
    )
    checkpoint = Checkpoint()
    with Run(chosen, checkpoint) as run:
        assert values(run.drain()) == first
        fill(partitions[0], "0-running", time=4000)
        fill(partitions[2], "2-running", time=4000)
        assert values(run.drain()) == ["0-running", "2-running"]
    fill(partitions[1], "1-stopped", time=5000)
    partitions.append(FakePartition(leader=1))
    fill(partitions[3], "3-added", time=500)
    with Run(chosen, checkpoint) as run:
        added = [] if selection == "assign" else ["3-added"]
        assert values(run.drain()) == ["1-stopped", *added]
        fill(partitions[3], "3-more", time=600)
        assert values(run.drain()) == ([] if selection == "assign" else ["3-more"])
    with Run(chosen, checkpoint) as run:
        assert run.drain() == []
        assert not run.batches  # idle: no batch at all


@pytest.mark.parametrize("by_partition", [True, False])
def test_a_time_that_no_record_has(cluster: FakeCluster, by_partition: bool) -> None:
    """N 2.1, four cases: no strategy and `error` fail, `latest` starts at the end, a mix."""
    first, second = cluster.create_topic("t", 2).partitions
    fill(first, "0-a", time=1000)
    fill(second, "1-a", time=9000)
    given = (
        {"startingOffsetsByTimestamp": '{"t":{"0":5000,"1":5000}}'}
        if by_partition
        else {"startingTimestamp": "5000"}
    )
    for strategy in ({}, {"startingOffsetsByTimestampStrategy": "error"}):
        chosen = options(cluster, subscribe="t", **given, **strategy)
        with (
            Run(chosen, Checkpoint()) as run,
            pytest.raises(errors.NoOffsetAtTime, match=r"=5000: t-0 has no record of that time"),
        ):
            run.trigger()
    chosen = options(cluster, subscribe="t", **given, startingOffsetsByTimestampStrategy="latest")
    with Run(chosen, Checkpoint()) as run:
        assert values(run.drain()) == ["1-a"]  # and partition 0 starts at its end
        fill(first, "0-b", time=100)
        assert values(run.drain()) == ["0-b"]


def test_available_now_reads_fifteen_records_in_three_batches(cluster: FakeCluster) -> None:
    """Records that come meanwhile are for the next run."""
    (partition,) = cluster.create_topic("t").partitions
    fill(partition, *(f"{n:02}" for n in range(15)))
    chosen = options(cluster, subscribe="t", startingOffsets="earliest", maxOffsetsPerTrigger=5)
    checkpoint = Checkpoint()

    def more(rows: list[Row]) -> None:
        fill(partition, "later")

    with Run(chosen, checkpoint, available_now=True, sink=more) as run:
        run.drain()
        assert [len(batch) for batch in run.batches] == [5, 5, 5]
    with Run(chosen, checkpoint, available_now=True) as run:
        assert values(run.drain()) == ["later"] * 3


def test_an_uncommitted_batch_is_replayed_though_partitions_were_added(
    cluster: FakeCluster,
) -> None:
    """SPARK-53560: no crash loop, nothing twice, nothing lost."""
    partitions = cluster.create_topic("t", 2).partitions
    for number, partition in enumerate(partitions):
        fill(partition, *(f"{number}-{n}" for n in range(4)))
    chosen = options(cluster, subscribe="t", startingOffsets="earliest", maxOffsetsPerTrigger=4)
    checkpoint = Checkpoint()

    def fails(rows: list[Row]) -> None:
        raise RuntimeError("the sink is down")

    with (
        Run(chosen, checkpoint, available_now=True, sink=fails) as run,
        pytest.raises(RuntimeError),
    ):
        run.drain()
    partitions.append(FakePartition(leader=1))
    fill(partitions[2], "2-0")
    with Run(chosen, checkpoint, available_now=True) as run:
        rows = run.drain()
    assert values(rows) == sorted([f"{p}-{n}" for p in range(2) for n in range(4)] + ["2-0"])
    assert values(run.batches[0]) == ["0-0", "0-1", "1-0", "1-1"]


def test_a_first_batch_that_failed_starts_where_it_started(cluster: FakeCluster) -> None:
    """N-L4: `latest` has moved until the replay."""
    (partition,) = cluster.create_topic("t").partitions
    fill(partition, "old")
    checkpoint = Checkpoint()

    def fails(rows: list[Row]) -> None:
        raise RuntimeError("the sink is down")

    chosen = options(cluster, subscribe="t")
    with Run(chosen, checkpoint, sink=fails) as run, pytest.raises(RuntimeError):
        run.trigger()
    fill(partition, "new")
    with Run(chosen, checkpoint) as run:
        assert values(run.drain()) == ["new"]


@pytest.mark.parametrize("limit", [1, 2**63 - 1])
def test_limits_at_their_ends(cluster: FakeCluster, limit: int) -> None:
    """SPARK-26718: the greatest limit does not overflow; the least still goes on."""
    partitions = cluster.create_topic("t", 3).partitions
    for number, count in enumerate((1, 1, 8)):
        fill(partitions[number], *(f"{number}-{n}" for n in range(count)))
    chosen = options(cluster, subscribe="t", startingOffsets="earliest", maxOffsetsPerTrigger=limit)
    with Run(chosen, Checkpoint()) as run:
        assert len(run.drain()) == 10
        # Nobody starves: each partition gives one record at least.
        assert len(run.batches[0]) == (10 if limit > 1 else 3)


def test_once_takes_everything(cluster: FakeCluster) -> None:
    """N-R8: Trigger.Once knows no limits."""
    (partition,) = cluster.create_topic("t").partitions
    fill(partition, *"abcdef")
    chosen = options(
        cluster, subscribe="t", startingOffsets="earliest", maxOffsetsPerTrigger=2,
        minOffsetsPerTrigger=2,
    )  # fmt: skip
    with Run(chosen, Checkpoint()) as run:
        assert run.trigger(once=True)
        assert len(run.batches[0]) == 6


def test_headers_do_not_break_an_old_checkpoint(cluster: FakeCluster) -> None:
    (partition,) = cluster.create_topic("t").partitions
    fill(partition, "a")
    checkpoint = Checkpoint()
    with Run(options(cluster, subscribe="t", startingOffsets="earliest"), checkpoint) as run:
        assert values(run.drain()) == ["a"]
    fill(partition, "b")
    with Run(options(cluster, subscribe="t", includeHeaders="true"), checkpoint) as run:
        assert values(run.drain()) == ["b"]


def test_an_idle_query_makes_no_batch_in_a_hundred_triggers(
    cluster: FakeCluster,
) -> None:
    """N 2.7-5: positions are equal texts, whatever the order of topics and partitions."""
    for name in ("b", "a", "c"):
        fill(cluster.create_topic(name, 12).partitions[11], name)
    chosen = options(cluster, subscribe="c,a,b", startingOffsets="earliest")
    with Run(chosen, Checkpoint()) as run:
        assert run.trigger()
        assert not any(run.trigger() for _ in range(100))
        assert len(run.checkpoint.ends) == 1


def mark(partition: FakePartition) -> None:
    """A transaction ends: an offset that no consumer gets."""
    batch = encode_control_batch(
        ControlType.COMMIT,
        producer_id=1,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp_ms=0,
        base_offset=partition.end,
        leader_epoch=0,
    )
    ((_, header),) = iter_headers(batch)
    partition.batches.append((header, batch))
    partition.end += 1


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_batches_that_begin_with_end_with_or_are_markers(
    cluster: FakeCluster, isolation: str
) -> None:
    """N-G4: offsets have gaps, and a batch without any record ends."""
    (partition,) = cluster.create_topic("t").partitions
    chosen = options(
        cluster, subscribe="t", startingOffsets="earliest",
        **{"pylog.isolation.level": isolation},
    )  # fmt: skip
    with Run(chosen, Checkpoint()) as run:
        fill(partition, "a", "b")
        mark(partition)
        assert [row[2:] for row in run.drain()] == [(0, "a"), (1, "b")]
        mark(partition)
        assert run.drain() == []
        assert len(run.batches) == 2
        mark(partition)
        fill(partition, "c")
        mark(partition)
        assert [row[2:] for row in run.drain()] == [(5, "c")]


# ---- losses ------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [1, 9])
def test_a_topic_made_anew_between_batches(cluster: FakeCluster, length: int) -> None:
    """N-R3, N-M13: noticed when it is shorter than what was read, and when it is longer."""
    fill(cluster.create_topic("t").partitions[0], *(f"old-{n}" for n in range(5)))
    checkpoint = Checkpoint()
    chosen = options(cluster, subscribe="t", startingOffsets="earliest")
    with Run(chosen, checkpoint) as run:
        run.drain()
    fill(cluster.create_topic("t").partitions[0], *(f"new-{n}" for n in range(length)))
    with (
        Run(chosen, checkpoint) as run,
        pytest.raises(errors.DataLoss, match="topic t was deleted and created again"),
    ):
        run.trigger()
    with Run({**chosen, "failOnDataLoss": "false"}, checkpoint) as run:
        assert values(run.drain()) == [f"new-{n}" for n in range(length)]


def test_a_topic_made_anew_with_fewer_partitions_under_a_running_query(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It still believes in the old partitions for a second; nobody leads them any more."""
    monkeypatch.setattr("pylog_connector.bounds.TOPICS_AGE_MS_MAX", 60_000)
    fill(cluster.create_topic("t", 3).partitions[2], "old")
    chosen = options(cluster, subscribe="t", startingOffsets="earliest", failOnDataLoss="false")
    with Run(chosen, Checkpoint()) as run:
        assert values(run.drain()) == ["old"]
        fill(cluster.create_topic("t").partitions[0], "new")
        for _ in range(50):  # until the client's own metadata is refreshed
            if run.trigger():
                break
            reader_for(source_options(chosen, streaming=True)).topics(["t"])
        assert values(run.batches[-1]) == ["new"]


@pytest.mark.parametrize("selection", ["subscribe", "subscribePattern", "assign"])
def test_57_a_deleted_topic(cluster: FakeCluster, selection: str) -> None:
    """N-M5: it ends the query, or with failOnDataLoss=false the others go on."""
    for name in ("t1", "t2"):
        fill(cluster.create_topic(name).partitions[0], f"{name}-a")
    text = {"subscribe": "t1,t2", "subscribePattern": "t.", "assign": '{"t1":[0],"t2":[0]}'}
    chosen = options(cluster, **{selection: text[selection]}, startingOffsets="earliest")
    checkpoint = Checkpoint()
    with Run(chosen, checkpoint) as run:
        assert values(run.drain()) == ["t1-a", "t2-a"]
    del cluster.topics["t1"]
    fill(cluster.topics["t2"].partitions[0], "t2-b")
    with (
        Run(chosen, checkpoint) as run,
        pytest.raises(errors.DataLoss, match=r"topic t1 was deleted.*failOnDataLoss=false"),
    ):
        run.trigger()
    with Run({**chosen, "failOnDataLoss": "false"}, checkpoint) as run:
        assert values(run.drain()) == ["t2-b"]


@pytest.mark.parametrize("again", [False, True])
def test_57_a_planned_batch_whose_topic_is_gone(cluster: FakeCluster, again: bool) -> None:
    """The plan is in the checkpoint, and a process that never knew the topic is to run it."""
    for number, partition in enumerate(cluster.create_topic("t", 3).partitions):
        fill(partition, str(number))
    fill(cluster.create_topic("other").partitions[0], "kept")
    chosen = options(cluster, subscribePattern="^(t|other)$", startingOffsets="earliest")
    checkpoint = Checkpoint()

    def fails(rows: list[Row]) -> None:
        raise RuntimeError("the sink is down")

    with Run(chosen, checkpoint, sink=fails) as run, pytest.raises(RuntimeError):
        run.trigger()
    del cluster.topics["t"]
    if again:
        fill(cluster.create_topic("t").partitions[0], "new")
    with Run(chosen, checkpoint) as run, pytest.raises(errors.DataLoss, match="topic t was del"):
        run.trigger()
    with Run({**chosen, "failOnDataLoss": "false"}, checkpoint) as run:
        assert values(run.drain()) == (["kept", "new"] if again else ["kept"])


def test_a_topic_that_a_pattern_lost_may_come_back(cluster: FakeCluster) -> None:
    fill(cluster.create_topic("t1").partitions[0], "old")
    chosen = options(
        cluster, subscribePattern="t.", startingOffsets="earliest", failOnDataLoss="false"
    )
    with Run(chosen, Checkpoint()) as run:
        assert values(run.drain()) == ["old"]
        del cluster.topics["t1"]
        assert run.drain() == []
        fill(cluster.create_topic("t1").partitions[0], "new")
        assert values(run.drain()) == ["new"]


def test_57_records_that_retention_took(cluster: FakeCluster) -> None:
    """Bad input 57: topic, partition, wanted and first; or a warning, and nothing twice."""
    (partition,) = cluster.create_topic("t").partitions
    for n in range(10):
        fill(partition, str(n))
    chosen = options(cluster, subscribe="t", startingOffsets="earliest", maxOffsetsPerTrigger=2)
    checkpoint = Checkpoint()
    with Run(chosen, checkpoint) as run:
        run.trigger()
    partition.log_start, partition.batches = 6, partition.batches[6:]
    with Run(chosen, checkpoint) as run, pytest.raises(errors.DataLoss) as error:
        run.trigger()
    for word in ("t-0", "from offset 2", "first offset is 6", "4 records", "failOnDataLoss=false"):
        assert word in str(error.value)
    with Run({**chosen, "failOnDataLoss": "false"}, checkpoint) as run:
        assert values(run.drain()) == ["6", "7", "8", "9"]


def test_an_added_partition_that_does_not_begin_at_zero(cluster: FakeCluster) -> None:
    """N-M15."""
    fill(cluster.create_topic("t").partitions[0], "a")
    chosen = options(cluster, subscribe="t", startingOffsets="earliest")
    checkpoint = Checkpoint()
    with Run(chosen, checkpoint) as run:
        run.drain()
    cluster.topics["t"].partitions.append(FakePartition(leader=1, end=3, log_start=3))
    fill(cluster.topics["t"].partitions[1], "b")
    with (
        Run(chosen, checkpoint) as run,
        pytest.raises(errors.DataLoss, match="is new to the query, and was to be read from"),
    ):
        run.trigger()
    with Run({**chosen, "failOnDataLoss": "false"}, checkpoint) as run:
        assert values(run.drain()) == ["b"]


# ---- stress ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_everything_is_seen_once_whatever_is_added_and_deleted(
    cluster: FakeCluster, seed: int
) -> None:
    """N 2.1's and 2.6's stress: topics come, grow and go, the query restarts, its sink fails.

    Without deletions every record is seen exactly once, with them none twice, and every one that
    is still there at the end.
    """
    rng = random.Random(seed)
    deletes = seed % 2 == 1
    numbers = itertools.count()
    alive: dict[str, set[str]] = {}
    chosen = options(
        cluster, subscribePattern="^stress-", startingOffsets="earliest",
        failOnDataLoss=str(not deletes).lower(), maxOffsetsPerTrigger=rng.choice([3, 10, 1000]),
    )  # fmt: skip
    checkpoint, seen = Checkpoint(), list[str]()
    failing = [False]

    def sink(rows: list[Row]) -> None:
        if failing[0]:
            failing[0] = False
            raise RuntimeError("the sink is down")
        seen.extend(values(rows))

    def change() -> None:
        name = f"stress-{rng.randrange(4)}"
        if name not in alive:
            cluster.create_topic(name, rng.randint(1, 3))
            alive[name] = set()
        elif deletes and rng.random() < 0.2:
            del cluster.topics[name], alive[name]
            return
        partitions = cluster.topics[name].partitions
        if rng.random() < 0.2 and len(partitions) < 6:
            partitions.append(FakePartition(leader=1))
        made = [f"{name}/{next(numbers)}" for _ in range(rng.randint(1, 9))]
        fill(rng.choice(partitions), *made)
        alive[name] |= set(made)

    run = Run(chosen, checkpoint, sink=sink)
    for _ in range(50):
        for _ in range(rng.randint(0, 3)):
            change()
        failing[0] = rng.random() < 0.15
        try:
            run.trigger()
            restart = rng.random() < 0.1
        except RuntimeError:
            restart = True
        if restart:
            run.stop()
            run = Run(chosen, checkpoint, sink=sink)
    failing[0] = False
    run.stop()
    with Run(chosen, checkpoint, sink=sink) as run:
        run.drain()
    assert len(seen) == len(set(seen))
    left = set[str]().union(*alive.values())
    assert left <= set(seen) if deletes else left == set(seen)


# ---- bytes -------------------------------------------------------------------------------------


def batches_of(partition: FakePartition, rows: list[Row], number: int) -> int:
    """The bytes of the partition's batches that hold the rows."""
    offsets = {row[2] for row in rows if row[1] == number}
    return sum(header.size for header, _ in partition.batches if header.base_offset in offsets)


def test_no_batch_has_more_bytes_than_the_limit(cluster: FakeCluster) -> None:
    partitions = cluster.create_topic("t", 3).partitions
    for number in range(30):
        fill(partitions[0], *["x" * 50] * 10)
        fill(partitions[number % 2 + 1], "y" * 500)
    most = 3_000
    chosen = options(
        cluster, subscribe="t", startingOffsets="earliest", maxBytesPerTrigger=str(most)
    )
    for available_now in (False, True):
        with Run(chosen, Checkpoint(), available_now=available_now) as run:
            rows = run.drain()
            assert len(rows) == 330
            assert len(run.batches) > 10
            for batch in run.batches:
                sizes = [batches_of(each, batch, p) for p, each in enumerate(partitions)]
                assert 0 < sum(sizes) <= most
            full = [sum(batches_of(p, b, n) for n, p in enumerate(partitions)) for b in run.batches]
            assert sum(full[:-1]) / len(full[:-1]) > most * 0.7
    with Run(chosen, Checkpoint()) as run:  # Trigger.Once takes everything
        run.trigger(once=True)
        assert len(run.batches) == 1
        assert len(run.batches[0]) == 330


def test_both_limits_hold(cluster: FakeCluster) -> None:
    (partition,) = cluster.create_topic("t").partitions
    for _ in range(10):
        fill(partition, *["x" * 100] * 5)
    size = partition.batches[0][0].size
    shared = {"subscribe": "t", "startingOffsets": "earliest"}
    for records, size_max, wanted in ((10, 5 * size, 10), (25, 2 * size, 10), (7, size - 1, 5)):
        chosen = options(
            cluster, **shared, maxOffsetsPerTrigger=records, maxBytesPerTrigger=size_max
        )
        with Run(chosen, Checkpoint()) as run:
            assert len(run.drain()) == 50
            assert len(run.batches[0]) == wanted, (records, size_max)


def test_a_topic_that_is_made_anew_while_bytes_are_told(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    (partition,) = cluster.create_topic("t").partitions
    fill(partition, "a", "b")
    fill(cluster.create_topic("u").partitions[0], "c", "d")
    chosen = options(
        cluster,
        subscribe="t,u",
        startingOffsets="earliest",
        maxBytesPerTrigger="1",
        failOnDataLoss="false",
    )
    with Run(chosen, Checkpoint()) as run:
        run.trigger()
        bytes_of = run.reader._byte_ranges.bytes_of

        def gone(ranges: Ranges) -> dict[TopicPartition, int] | None:
            cluster.topics.pop("t", None)
            return bytes_of(ranges)

        monkeypatch.setattr(run.reader._byte_ranges, "bytes_of", gone)
        rows = run.drain()
    assert {row[0] for row in rows} == {"u"}


def test_ranges_are_split_by_bytes(cluster: FakeCluster) -> None:
    partitions = cluster.create_topic("t", 2).partitions
    for _ in range(12):
        fill(partitions[0], *["x" * 100] * 5)
    fill(partitions[1], "y")
    size = partitions[0].batches[0][0].size
    chosen = options(
        cluster, subscribe="t", startingOffsets="earliest", maxBytesPerPartition=4 * size
    )
    with Run(chosen, Checkpoint()) as run:
        rows = run.drain()
        start = json.loads(run.checkpoint.start or "")
        tasks = run.reader.partitions(start, json.loads(run.checkpoint.ends[0]))
    assert len(rows) == 61
    ranges = [piece for task in tasks for piece in task.value]
    assert [(r.partition, r.start, r.end) for r in ranges] == [
        (0, 0, 20), (0, 20, 40), (0, 40, 60), (1, 0, 1),
    ]  # fmt: skip
    batch = BatchReader(source_options(chosen, streaming=False), ["offset"])
    assert [piece.known for task in batch.partitions() for piece in task.value] == [
        (0, 20), (20, 40), (40, 60), (0, 1),
    ]  # fmt: skip


def test_too_many_pieces_are_refused(cluster: FakeCluster) -> None:
    (partition,) = cluster.create_topic("t").partitions
    for _ in range(20):
        fill(partition, "x" * 9_000)
    chosen = options(cluster, subscribe="t", startingOffsets="earliest", maxBytesPerPartition=1)
    with (
        Run(chosen, Checkpoint()) as run,
        pytest.raises(errors.InvalidOption, match=r"would have 18\d+ tasks, and 100000"),
    ):
        run.trigger()


# ---- narrowing ---------------------------------------------------------------------------------


def test_only_some_keys_times_and_partitions(cluster: FakeCluster) -> None:
    partitions = cluster.create_topic("t", 3).partitions

    def write(number: int, *times: int) -> None:
        partitions[number].append(
            encode_batch(
                [b"%d-%d" % (number, time) for time in times],
                keys=[b"even" if time % 2 == 0 else b"odd" for time in times],
                timestamps=list(times),
            )
        )

    for number in range(3):
        write(number, 1, 2, 9, 4)
        write(number, 3, 1)
        write(number, 6, 2, 5)
    narrow = {"keys": '["even"]', "minTimestamp": "4", "maxTimestamp": "6", "partitions": "1-7"}
    shared = options(cluster, subscribe="t", startingOffsets="earliest")
    wanted = ["1-4", "1-6", "2-4", "2-6"]
    with Run(shared | narrow, Checkpoint()) as run:
        assert values(run.drain()) == wanted
        write(1, 5, 4, 8)
        write(0, 4)
        partitions.append(FakePartition(leader=1))
        write(3, 4)
        assert values(run.drain()) == ["1-4", "3-4"]
    with Run(shared | {"minTimestamp": "9"}, Checkpoint()) as run:
        assert values(run.drain()) == ["0-9", "1-9", "2-9"]
    batch = BatchReader(source_options(shared | narrow, streaming=False), ["value"])
    rows = [
        row["value"].decode()
        for task in batch.partitions()
        for found in batch.read(task)
        for row in found.to_pylist()
    ]
    assert sorted(rows) == sorted([*wanted, "1-4", "3-4"])


def test_a_checkpoint_of_more_partitions_is_not_narrowed_silently(cluster: FakeCluster) -> None:
    for partition in cluster.create_topic("t", 2).partitions:
        fill(partition, "a")
    shared = options(cluster, subscribe="t", startingOffsets="earliest")
    checkpoint = Checkpoint()
    with Run(shared, checkpoint) as run:
        run.drain()
    with (
        Run(shared | {"partitions": "1"}, checkpoint) as run,
        pytest.raises(errors.CheckpointMismatch, match=r"offsets of t-0.*narrowed by partitions"),
    ):
        run.trigger()


def test_a_query_that_needs_many_records_lets_leaders_wait(cluster: FakeCluster) -> None:
    (partition,) = cluster.create_topic("t").partitions
    fill(partition, "first")
    chosen = options(
        cluster, subscribe="t", startingOffsets="earliest", minOffsetsPerTrigger=50,
        maxTriggerDelay="10m",
    )  # fmt: skip
    with Run(chosen, Checkpoint()) as run:
        assert run.trigger()
        assert not run.trigger()  # the leader has waited in vain
        (waited,) = {(w.min_records, w.max_wait_ms) for w in cluster.waits}
        assert waited == (50, 500)

        def write() -> None:
            while len(cluster.waits) < 4:
                pass
            with cluster.changed:
                for _ in range(10):
                    fill(partition, *"abcde")
                cluster.changed.notify_all()

        writer = threading.Thread(target=write)
        writer.start()
        while not run.trigger():
            pass
        writer.join()
        assert len(run.batches[1]) == 50


@pytest.mark.parametrize("moment", [2_000, 2_500, 9_000])
def test_several_topics_begin_at_one_moment(cluster: FakeCluster, moment: int) -> None:
    """N-B20: also where records of that time are still to come, or come out of order."""
    topics = [cluster.create_topic(name, 2).partitions for name in ("t", "u")]
    times = [1_000, 2_000, 3_000, 2_400]
    for partitions in topics:
        for partition, written in zip(partitions, (times, times[:1]), strict=True):
            for time in written:
                fill(partition, str(time), time=time)
    chosen = options(
        cluster,
        subscribe="t,u",
        startingTimestamp=moment,
        minTimestamp=moment,
        startingOffsetsByTimestampStrategy="latest",
    )
    with Run(chosen, Checkpoint()) as run:
        first = [int(value) for value in values(run.drain())]
        assert first == sorted([time for time in times if time >= moment] * 2)
        for partitions in topics:
            for partition in partitions:
                for time in (1_500, 2_600, 9_500):
                    fill(partition, str(time), time=time)
        later = [int(value) for value in values(run.drain())]
        assert later == sorted([time for time in (1_500, 2_600, 9_500) if time >= moment] * 4)


def test_partitions_that_no_topic_has_are_read_once_they_exist(cluster: FakeCluster) -> None:
    partitions = cluster.create_topic("t", 1).partitions
    fill(partitions[0], "0")
    chosen = options(cluster, subscribe="t", startingOffsets="earliest", partitions="1")
    batch = BatchReader(source_options(chosen, streaming=False), ["value"])
    assert [list(batch.read(task)) for task in batch.partitions()] == []
    with Run(chosen, Checkpoint()) as run:
        assert run.drain() == []
        partitions.append(FakePartition(leader=1))
        fill(partitions[1], "1")
        assert values(run.drain()) == ["1"]
