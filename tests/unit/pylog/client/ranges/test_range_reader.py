from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from pylog import errors
from pylog.client.ranges.range_fetcher import FETCH_BYTES_MIN
from pylog.client.ranges.range_reader import (
    Batches,
    Damaged,
    RangeReader,
    RangeToSplit,
    Skipped,
    TooManyTransactions,
    TopicGone,
)
from pylog.client.settings import CONSUMER_SETTINGS
from pylog.model import (
    RangePiece,
    RangeSplit,
    TopicPartition,
    TransactionName,
    TransactionSpan,
)
from pylog.records.batch import iter_headers
from pylog.records.builder import encode_batch
from pylog.rpc.v1 import log_pb2
from tests.fakes.fake_cluster import FakeCluster
from tests.fakes.fake_topics import FakePartition

A0 = TopicPartition("a", 0)


@pytest.fixture
def cluster(short_grace: None) -> Iterator[FakeCluster]:
    with FakeCluster(brokers=2) as cluster:
        yield cluster


@pytest.fixture
def reader(cluster: FakeCluster) -> Iterator[RangeReader]:
    reader = make(cluster)
    yield reader
    reader.close()


def make(cluster: FakeCluster, **settings: object) -> RangeReader:
    return RangeReader(
        CONSUMER_SETTINGS.parse(
            {
                "bootstrap_servers": cluster.bootstrap_servers,
                "fetch_max_wait_ms": 20,
                "retry_backoff_ms": 5,
                "default_api_timeout_ms": 20_000,
                **settings,
            }
        )
    )


def fill(partition: FakePartition, *batches: int) -> None:
    for count in batches:
        partition.append(encode_batch([b"x" * 100] * count))


def ranges(items: list[Batches | Skipped | Damaged]) -> list[tuple[int, int] | Skipped | Damaged]:
    """The items that came: each batch as (first, last) offset."""
    found: list[tuple[int, int] | Skipped | Damaged] = []
    for item in items:
        if isinstance(item, Skipped | Damaged):
            found.append(item)
        else:
            found += [(h.base_offset, h.last_offset) for _, h in iter_headers(item.data)]
    return found


def test_topics_and_offsets(cluster: FakeCluster, reader: RangeReader) -> None:
    topic = cluster.create_topic("a", partitions=2)
    fill(topic.partitions[0], 3)
    topic.partitions[0].log_start = 1
    found = reader.topics(["a"])
    assert found["a"].topic_id == topic.topic_id
    assert len(found["a"].partitions) == 2
    both = [A0, TopicPartition("a", 1)]
    latest = reader.offsets(both, -1)
    assert [latest[at].offset for at in both] == [3, 0]
    assert latest[A0].topic_id == topic.topic_id
    assert [reader.offsets(both, -2)[at].offset for at in both] == [1, 0]


def test_who_reads_committed_records_is_told_both_ends(
    cluster: FakeCluster, reader: RangeReader
) -> None:
    topic = cluster.create_topic("a")
    fill(topic.partitions[0], 6)
    topic.partitions[0].stable = 4
    committed = make(cluster, isolation_level="read_committed")
    committed.topics(["a"])
    assert committed.offsets([A0], -1)[A0].offset == 4
    assert committed.high_watermarks([A0]) == {A0: 6}
    committed.close()
    reader.topics(["a"])
    assert reader.offsets([A0], -1)[A0].offset == 6
    assert reader.high_watermarks([A0]) == {}


def test_a_topic_that_does_not_exist_is_left_out(cluster: FakeCluster, reader: RangeReader) -> None:
    cluster.create_topic("a")
    assert list(reader.topics(["a", "none"])) == ["a"]
    del cluster.topics["a"]
    with pytest.raises(TopicGone, match="topic a was deleted"):
        reader.offsets([A0], -1)


def test_a_range_is_read_whole_and_no_further_than_its_batches(
    cluster: FakeCluster, reader: RangeReader
) -> None:
    topic = cluster.create_topic("a")
    fill(topic.partitions[0], *[10] * 50)
    reader.topics(["a"])
    items = ranges(list(reader.read("a", topic.topic_id, 0, 25, 431)))
    assert items[0] == (20, 29)
    assert (420, 429) in items
    assert (430, 439) in items
    reached = [last for _, last in items]  # type: ignore[misc]
    assert reached == list(range(29, reached[-1] + 1, 10))


def test_small_fetches_follow_each_other(cluster: FakeCluster) -> None:
    topic = cluster.create_topic("a")
    fill(topic.partitions[0], *[10] * 20)
    reader = make(cluster, max_partition_fetch_bytes=2000)
    reader.topics(["a"])
    items = list(reader.read("a", topic.topic_id, 0, 0, 200))
    reader.close()
    assert len(items) > 10
    assert ranges(items) == [(n, n + 9) for n in range(0, 200, 10)]


def test_few_offsets_are_asked_for_with_a_bound(cluster: FakeCluster) -> None:
    topic = cluster.create_topic("a")
    for _ in range(4):
        topic.partitions[0].append(encode_batch([b"x" * 300_000]))
    reader = make(cluster, max_partition_fetch_bytes=8_000_000)
    reader.topics(["a"])
    assert ranges(list(reader.read("a", topic.topic_id, 0, 0, 3))) == [(n, n) for n in range(3)]
    reader.close()
    asked = [r.partitions[0].max_bytes for r in cluster.fetch_requests]
    assert asked[0] == FETCH_BYTES_MIN
    assert 600_000 < asked[1] < 700_000  # two records as large as the first


def test_the_next_leader_is_found(cluster: FakeCluster) -> None:
    topic = cluster.create_topic("a")
    fill(topic.partitions[0], *[10] * 20)
    reader = make(cluster, max_partition_fetch_bytes=2000)
    reader.topics(["a"])
    items = reader.read("a", topic.topic_id, 0, 0, 200)
    seen = [next(items)]
    cluster.move_leader("a", 0, 2)
    cluster.stop_broker(1)
    seen += list(items)
    reader.close()
    assert ranges(seen) == [(n, n + 9) for n in range(0, 200, 10)]


@pytest.mark.parametrize(
    "fault",
    [
        errors.NotLeaderOrFollower,
        errors.LeaderNotAvailable,
        errors.UnknownTopicOrPartition,
        errors.FencedLeaderEpoch,
        errors.UnknownLeaderEpoch,
        errors.OffsetOutOfRange,
        errors.KafkaStorageError,
    ],
)
def test_what_passes_is_tried_again(
    cluster: FakeCluster, reader: RangeReader, fault: type[errors.PylogError]
) -> None:
    topic = cluster.create_topic("a")
    fill(topic.partitions[0], 10)
    reader.topics(["a"])
    cluster.fetch_faults.append(fault.code)
    assert ranges(list(reader.read("a", topic.topic_id, 0, 0, 10))) == [(0, 9)]


def test_what_is_gone_is_told(cluster: FakeCluster, reader: RangeReader) -> None:
    topic = cluster.create_topic("a")
    partition = topic.partitions[0]
    fill(partition, *[10] * 5)
    partition.log_start, partition.batches = 30, partition.batches[3:]
    reader.topics(["a"])
    assert ranges(list(reader.read("a", topic.topic_id, 0, 5, 50))) == [
        Skipped(5, 30),
        (30, 39),
        (40, 49),
    ]
    assert ranges(list(reader.read("a", topic.topic_id, 0, 5, 20))) == [Skipped(5, 20)]


def test_what_has_rotted_is_told_and_what_follows_is_read(
    cluster: FakeCluster, reader: RangeReader
) -> None:
    topic = cluster.create_topic("a")
    partition = topic.partitions[0]
    fill(partition, *[10] * 5)
    partition.damaged = (20, 30)
    reader.topics(["a"])
    why = "x.log is damaged; seek to 30 to go on"
    assert ranges(list(reader.read("a", topic.topic_id, 0, 0, 50))) == [
        (0, 9),
        (10, 19),
        Damaged(20, 30, why),
        (30, 39),
        (40, 49),
    ]
    assert ranges(list(reader.read("a", topic.topic_id, 0, 22, 25))) == [Damaged(22, 25, why)]


def test_a_gap_up_to_the_end_finishes(cluster: FakeCluster, reader: RangeReader) -> None:
    topic = cluster.create_topic("a")
    partition = topic.partitions[0]
    fill(partition, *[10] * 5)
    partition.batches = partition.batches[:2]  # compaction took the rest
    reader.topics(["a"])
    assert ranges(list(reader.read("a", topic.topic_id, 0, 0, 50))) == [(0, 9), (10, 19)]
    assert list(reader.read("a", topic.topic_id, 0, 30, 50)) == []


def test_a_leader_that_does_not_know_the_end_yet_is_waited_for(
    cluster: FakeCluster, reader: RangeReader
) -> None:
    topic = cluster.create_topic("a")
    partition = topic.partitions[0]
    fill(partition, 10)
    partition.committed = 0
    reader.topics(["a"])
    items = reader.read("a", topic.topic_id, 0, 0, 10)

    def commit() -> None:
        with cluster.changed:
            cluster.changed.wait_for(lambda: len(cluster.fetch_requests) >= 4, 10)
            partition.committed = 10
            cluster.changed.notify_all()

    committing = threading.Thread(target=commit)
    committing.start()
    found = ranges(list(items))
    committing.join()
    assert found == [(0, 9)]


def test_a_recreated_or_deleted_topic_is_not_read(
    cluster: FakeCluster, reader: RangeReader
) -> None:
    old = cluster.create_topic("a")
    new = cluster.create_topic("a")
    fill(new.partitions[0], 10)
    with pytest.raises(TopicGone, match=f"created again: its id was {old.topic_id}"):
        list(reader.read("a", old.topic_id, 0, 0, 10))
    reader.topics(["a"])
    del cluster.topics["a"]
    with pytest.raises(TopicGone, match="deleted"):
        list(reader.read("a", new.topic_id, 0, 0, 10))


def test_nobody_answers(cluster: FakeCluster) -> None:
    reader = make(cluster, default_api_timeout_ms=1_500)
    for broker in (1, 2):
        cluster.stop_broker(broker)
    with pytest.raises(errors.BootstrapFailed) as error:
        reader.topics(["a"])
    for address in cluster.bootstrap_servers:
        assert f"{address}: connection refused" in str(error.value)
    reader.close()


def test_a_read_that_waits_hears_of_the_close(cluster: FakeCluster, reader: RangeReader) -> None:
    topic = cluster.create_topic("a")
    fill(topic.partitions[0], 10)
    reader.topics(["a"])
    items = reader.read("a", topic.topic_id, 0, 0, 500)
    assert ranges([next(items)]) == [(0, 9)]
    heard: list[type[BaseException]] = []

    def read_on() -> None:
        try:
            next(items)
        except errors.PylogError as error:
            heard.append(type(error))

    waiting = threading.Thread(target=read_on)
    waiting.start()
    asked = len(cluster.fetch_requests)
    with cluster.changed:
        assert cluster.changed.wait_for(lambda: len(cluster.fetch_requests) > asked, 5)
    reader.close()
    waiting.join(5)
    assert heard == [errors.ClientClosed]


def test_the_end_of_an_epoch(cluster: FakeCluster, reader: RangeReader) -> None:
    topic = cluster.create_topic("a")
    fill(topic.partitions[0], 10)
    topic.partitions[0].epoch_ends[0] = 7
    cluster.move_leader("a", 0, 2)
    reader.topics(["a"])
    assert reader.epoch_ends({A0: 0}) == {A0: 7}


def test_an_unfinished_read_stops_fetching(cluster: FakeCluster) -> None:
    topic = cluster.create_topic("a")
    fill(topic.partitions[0], *[10] * 50)
    reader = make(cluster, max_partition_fetch_bytes=2000)
    reader.topics(["a"])
    items = reader.read("a", topic.topic_id, 0, 0, 500)
    next(items)
    items.close()
    assert list(items) == []
    reader.close()
    assert len(cluster.fetch_requests) <= 5


def test_a_range_waits_for_an_open_transaction(cluster: FakeCluster) -> None:
    """Its records are neither skipped nor lost: they come when it has ended."""
    topic = cluster.create_topic("a")
    partition = topic.partitions[0]
    fill(partition, 3, 3)
    partition.stable = 3
    reader = make(cluster, isolation_level="read_committed")
    reader.topics(["a"])
    items = reader.read("a", topic.topic_id, 0, 0, 6)
    assert ranges([next(items)]) == [(0, 2)]

    def end_it() -> None:
        with cluster.changed:
            asked = len(cluster.fetch_requests)
            cluster.changed.wait_for(lambda: len(cluster.fetch_requests) >= asked + 4, 30)
            partition.stable = None

    ending = threading.Thread(target=end_it)
    ending.start()
    assert ranges(list(items)) == [(3, 5)]
    ending.join()
    reader.close()


def test_a_transaction_that_stays_open_is_named(cluster: FakeCluster) -> None:
    topic = cluster.create_topic("a")
    fill(topic.partitions[0], 3, 3)
    topic.partitions[0].stable = 3
    reader = make(cluster, isolation_level="read_committed", default_api_timeout_ms=2_000)
    reader.topics(["a"])
    with pytest.raises(
        errors.RequestTimedOut,
        match=r"a-0 has .* last stable offset on, which is 3, and the range ends at 6",
    ):
        list(reader.read("a", topic.topic_id, 0, 3, 6))
    reader.close()


def test_aborted_batches_are_left_out_of_a_range(cluster: FakeCluster) -> None:
    topic = cluster.create_topic("a")
    for producer in (1, 2):
        topic.partitions[0].append(
            encode_batch(
                [b"x"], producer_id=producer, producer_epoch=0, base_sequence=0, transactional=True
            )
        )
    topic.partitions[0].aborted = [(2, 1)]
    reader = make(cluster, isolation_level="read_committed")
    reader.topics(["a"])
    assert ranges(list(reader.read("a", topic.topic_id, 0, 0, 2))) == [(0, 0)]
    reader.close()


def test_the_bytes_of_ranges_and_their_first_pieces(
    cluster: FakeCluster, reader: RangeReader
) -> None:
    topic = cluster.create_topic("a", partitions=2)
    fill(topic.partitions[0], 3, 3, 3)
    fill(topic.partitions[1], 1)
    one, three = (len(encode_batch([b"x" * 100] * count)) for count in (1, 3))
    reader.topics(["a"])
    found = reader.split(
        {
            A0: RangeToSplit(0, 9, piece_bytes=2 * three, pieces_max=1),
            TopicPartition("a", 1): RangeToSplit(0, 1),
        }
    )
    assert found == {
        A0: RangeSplit(3 * three, (RangePiece(6, 2 * three),), RangePiece(9, three)),
        TopicPartition("a", 1): RangeSplit(one),
    }


def test_ranges_are_asked_of_the_leader_that_there_is(
    cluster: FakeCluster, reader: RangeReader
) -> None:
    topic = cluster.create_topic("a")
    fill(topic.partitions[0], 3)
    reader.topics(["a"])
    cluster.move_leader("a", 0, 2 if topic.partitions[0].leader == 1 else 1)
    assert reader.split({A0: RangeToSplit(0, 3)}) == {
        A0: RangeSplit(len(encode_batch([b"x" * 100] * 3)))
    }
    assert cluster.split_requests[-1].partitions[0].current_leader_epoch == 1
    del cluster.topics["a"]
    with pytest.raises(TopicGone):
        reader.split({A0: RangeToSplit(0, 3)})


def test_records_are_awaited_where_they_come(cluster: FakeCluster, reader: RangeReader) -> None:
    partitions = cluster.create_topic("a", partitions=2).partitions
    assert {partition.leader for partition in partitions} == {1, 2}
    fill(partitions[0], 3)
    reader.topics(["a"])
    ends = {A0: 3, TopicPartition("a", 1): 0}
    assert not reader.await_records(ends, 9, 50)
    # The first answer ends the wait: a leader that cannot be reached so soon is not asked.
    assert {(wait.min_records, wait.max_wait_ms) for wait in cluster.waits} == {(5, 50)}
    before = len(cluster.waits)

    def write() -> None:
        while len(cluster.waits) < before + 2:
            pass
        with cluster.changed:
            fill(partitions[1], 5)
            cluster.changed.notify_all()

    writer = threading.Thread(target=write)
    writer.start()
    assert reader.await_records(ends, 9, 20_000)
    writer.join()


def test_a_leader_that_has_changed_does_not_wait(cluster: FakeCluster, reader: RangeReader) -> None:
    topic = cluster.create_topic("a")
    reader.topics(["a"])
    cluster.move_leader("a", 0, 2 if topic.partitions[0].leader == 1 else 1)
    with pytest.raises(errors.NotLeaderOrFollower):
        reader.await_records({A0: 0}, 1, 20_000)


# ---- transactions -------------------------------------------------------------------------------


def told(next_offset: int, *spans: tuple[int, int, int]) -> log_pb2.DescribedTransactions:
    """One answer of a leader: producer ids, first offsets and markers."""
    return log_pb2.DescribedTransactions(
        next_offset=next_offset,
        transactions=[
            log_pb2.TransactionSpan(producer_id=p, first_offset=first, marker_offset=marker)
            for p, first, marker in spans
        ],
    )


def test_transactions_are_put_together_of_as_many_answers_as_it_takes(
    cluster: FakeCluster, reader: RangeReader
) -> None:
    cluster.create_topic("a", partitions=2)
    a1 = TopicPartition("a", 1)
    reader.topics(["a"])
    cluster.described[A0] = [told(5, (1, 2, 3), (2, 4, -1)), told(9, (3, 6, -1)), told(-1)]
    cluster.described[A0][2].transactions.add(producer_id=2, first_offset=5, marker_offset=10)
    cluster.described[a1] = [told(-1, (1, 0, -1))]
    found = reader.transactions({A0: (2, -1), a1: (0, -1)})
    one, two = TransactionName(1, 0), TransactionName(2, 0)
    assert found == {
        A0: [TransactionSpan(one, 2, 3), TransactionSpan(two, 4, 10)],
        a1: [TransactionSpan(one, 0, -1)],
    }
    asked = [
        p.start_offset for r in cluster.describe_requests for p in r.partitions if not p.partition
    ]
    assert asked == [2, 5, 9]


def test_named_transactions_and_bounds_are_asked_for(
    cluster: FakeCluster, reader: RangeReader
) -> None:
    cluster.create_topic("a")
    reader.topics(["a"])
    assert reader.transactions({A0: (2, 8)}, [TransactionName(4, 1)]) == {A0: []}
    [request] = cluster.describe_requests
    assert [(each.producer_id, each.producer_epoch) for each in request.named] == [(4, 1)]
    assert (request.partitions[0].start_offset, request.partitions[0].end_offset) == (2, 8)
    cluster.described[A0] = [told(-1, (1, 2, 3), (2, 4, 5))]
    with pytest.raises(TooManyTransactions):
        reader.transactions({A0: (0, -1)}, spans_max=1)
    cluster.described[A0] = [told(7)]
    with pytest.raises(errors.UnknownServerError, match="from 7 on"):
        reader.transactions({A0: (7, -1)})


def test_transactions_of_a_topic_that_is_gone(cluster: FakeCluster, reader: RangeReader) -> None:
    cluster.create_topic("a")
    reader.topics(["a"])
    del cluster.topics["a"]
    with pytest.raises(TopicGone):
        reader.transactions({A0: (0, -1)})
