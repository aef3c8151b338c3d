"""The consumer against a real gRPC server in this process: records, positions, settings."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from pylog import errors
from pylog.client.answers import Callback
from pylog.client.consumer.consumer import Consumer
from pylog.client.consumer.consumer_records import ConsumerRecords
from pylog.client.consumer.consumer_settings import duration_ms, parse_settings
from pylog.client.fetching.request_manager import Polled
from pylog.client.producer.producer import Producer
from pylog.clock import SYSTEM_CLOCK
from pylog.model import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from pylog.records.builder import ControlType, encode_batch, encode_control_batch
from tests.fakes.consumers import consumer, fill
from tests.fakes.fake_cluster import FakeCluster
from tests.fakes.fake_topics import FakePartition

T0, T1, T2 = (TopicPartition("t", p) for p in range(3))


def test_all_partitions_of_the_topics_are_read(cluster: FakeCluster) -> None:
    for partition in range(3):
        fill(cluster, 10, partition)
    with consumer(cluster, "t") as c:
        got: dict[int, list[int]] = {0: [], 1: [], 2: []}
        while sum(map(len, got.values())) < 30:
            for record in c.poll(5):
                got[record.partition].append(record.offset)
        assert got == {p: list(range(10)) for p in range(3)}
        assert c.assignment() == {T0, T1, T2}
        assert c.subscription() == {"t"}
        assert c.position() == {T0: 10, T1: 10, T2: 10}
        assert c.lag() == {T0: 0, T1: 0, T2: 0}


def test_no_poll_returns_more_than_asked_for(cluster: FakeCluster) -> None:
    fill(cluster, 1_200)
    with consumer(cluster, max_poll_records=500) as c:
        c.assign([T0])
        sizes, fetches = [], 0.0
        while sum(sizes) < 1_200:
            records = c.poll(5)
            sizes.append(len(records))
            assert records.partitions == [T0]
            assert records.records(T0) == list(records)
            assert records.next_offsets == {T0: c.position(T0)}
            fetches = fetches or c.metrics()["fetch-total"]
        assert sizes == [500, 500, 200]


def test_an_empty_topic_returns_nothing_in_time(cluster: FakeCluster) -> None:
    with consumer(cluster) as c:
        c.assign([T0])
        assert c.position(T0) == 0
        before = SYSTEM_CLOCK.monotonic_ms()
        assert len(c.poll(0)) == 0
        assert SYSTEM_CLOCK.monotonic_ms() - before < 400  # less than any fetch may wait
        assert not c.poll(0.1)
        assert SYSTEM_CLOCK.monotonic_ms() - before >= 100


def test_latest_begins_at_the_end(cluster: FakeCluster) -> None:
    fill(cluster, 5)
    with consumer(cluster, auto_offset_reset="latest") as c:
        c.assign([("t", 0)])
        assert c.position(T0) == 5
        fill(cluster, 1)
        (record,) = c.poll(5)
        assert record.offset == 5


def test_without_a_policy_one_must_seek(cluster: FakeCluster) -> None:
    fill(cluster, 5)
    with consumer(cluster, auto_offset_reset="none") as c:
        c.assign([T0])
        for _ in range(2):
            with pytest.raises(errors.NoOffsetForPartition, match="t-0 has no position"):
                c.poll(5)
        c.seek(T0, 3)
        assert [r.offset for r in c.poll(5)] == [3, 4]
        c.seek(T0, 77)
        with pytest.raises(errors.OffsetOutOfRange, match=r"t-0: offset 77 .*0 to 5"):
            c.poll(5)


def test_seeks(cluster: FakeCluster) -> None:
    fill(cluster, 5)
    with consumer(cluster) as c:
        c.assign([T0])
        assert len(c.poll(5)) == 5
        c.seek(T0, OffsetAndMetadata(2))
        assert [r.offset for r in c.poll(5)] == [2, 3, 4]
        c.seek_to_end()
        assert c.position(T0) == 5
        c.seek_to_beginning(T0)
        assert c.position(T0) == 0
        assert [r.offset for r in c.poll(5)] == [0, 1, 2, 3, 4]
        with pytest.raises(errors.OffsetOutOfRange, match="t-0"):
            c.seek(T0, -1)
        with pytest.raises(errors.InvalidRequest, match="t-1 is not assigned"):
            c.seek(T1, 0)


def test_offsets_by_time_and_at_the_ends(cluster: FakeCluster) -> None:
    fill(cluster, 5)
    with consumer(cluster) as c:
        assert c.offsets_for_times({T0: 1_002, T1: 0}) == {
            T0: OffsetAndTimestamp(2, 1_002, 0),
            T1: None,
        }
        assert c.end_offsets([T0, T1]) == {T0: 5, T1: 0}
        assert c.beginning_offsets(T0) == {T0: 0}
        assert c.offsets_for_times({T0: 2**63 - 1}) == {T0: None}
        with pytest.raises(errors.InvalidTimestamp, match="-5"):
            c.offsets_for_times({T0: -5})
        with pytest.raises(errors.UnknownTopicOrPartition, match="no partition 9") as fault:
            c.end_offsets(TopicPartition("t", 9))
        assert fault.value.topic_partition == TopicPartition("t", 9)


def test_leaving_an_iteration_loses_and_repeats_nothing(cluster: FakeCluster) -> None:
    fill(cluster, 20)
    with consumer(cluster) as c:
        c.assign([T0])
        seen = []
        for record in c:
            seen.append(record.offset)
            if len(seen) == 3:
                break
        assert c.position(T0) == 3
        for record in c:
            seen.append(record.offset)
            if len(seen) == 5:
                break
        assert c.poll_arrow(5).column("offset").to_pylist() == list(range(5, 20))
        c.seek(T0, 0)
        next(iter(c))
        seen += [r.offset for r in c.poll(5)]
        assert seen == [0, 1, 2, 3, 4, *range(1, 20)]
        c.seek(T0, 0)
        next(iter(c))
        c.seek(T0, 18)
        assert [r.offset for r in c.poll(5)] == [18, 19]


def test_a_pause_inside_an_iteration_holds_at_once_and_repeats_nothing(
    cluster: FakeCluster,
) -> None:
    fill(cluster, 20)
    with consumer(cluster) as c:
        c.assign([T0])
        seen = []
        for record in c:
            seen.append(record.offset)
            if len(seen) == 3:
                c.pause(T0)
                fill(cluster, 1, 1)
                c.assign([T0, T1])
            if record.partition == 1:
                break
        assert seen == [0, 1, 2, 0]
        c.resume(T0)
        assert [r.offset for r in c.poll(5)] == list(range(3, 20))


def test_what_an_iteration_left_goes_with_its_partition(cluster: FakeCluster) -> None:
    fill(cluster, 20)
    fill(cluster, 2, 1)
    with consumer(cluster) as c:
        c.assign([T0])
        next(iter(c))
        c.assign([T1])
        assert [(r.partition, r.offset) for r in c.poll(5)] == [(1, 0), (1, 1)]


def test_columns(cluster: FakeCluster) -> None:
    fill(cluster, 5)
    with consumer(cluster) as c:
        c.assign([T0])
        batch = c.poll_arrow(5, include_headers=True)
        assert batch.schema.names == [
            "key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers",
        ]  # fmt: skip
        assert batch.column("value").to_pylist() == [b"0", b"1", b"2", b"3", b"4"]
        empty = c.poll_arrow(0)
        assert (empty.num_rows, empty.num_columns) == (0, 7)
        c.seek(T0, 2)
        as_records = c.poll(5).to_arrow()
        c.seek(T0, 2)
        assert as_records.equals(c.poll_arrow(5))


def test_paused_partitions_keep_their_records(cluster: FakeCluster) -> None:
    fill(cluster, 5, 0)
    fill(cluster, 5, 1)
    with consumer(cluster) as c:
        c.assign([T0, T1])
        c.pause(T0)
        assert c.paused() == {T0}
        got = list(c.poll(5))
        while len(got) < 5:
            got += c.poll(5)
        assert {r.partition for r in got} == {1}
        assert not c.poll(0.05)
        c.resume(T0)
        assert [r.offset for r in c.poll(5)] == [0, 1, 2, 3, 4]


class OnlyOdd:
    """Drops records at even offsets, and once fails."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self.closed = False

    def on_consume(self, records: ConsumerRecords) -> ConsumerRecords:
        self.seen += [record.offset for record in records]
        if len(self.seen) == 4:
            raise RuntimeError("not today")
        return ConsumerRecords(
            {tp: [r for r in records.records(tp) if r.offset % 2] for tp in records.partitions}
        )

    def close(self) -> None:
        self.closed = True


def test_interceptors_see_and_change_what_a_poll_returns(cluster: FakeCluster) -> None:
    fill(cluster, 6)
    odd = OnlyOdd()
    with consumer(cluster, interceptor_classes=[odd, OnlyOdd], max_poll_records=2) as c:
        c.assign([T0])
        polled = [[record.offset for record in c.poll(5)] for _ in range(3)]
        assert polled == [[1], [3], [5]]
        assert odd.seen == [0, 1, 2, 3, 4, 5]
        assert c.position(T0) == 6
        c.seek(T0, 0)
        assert next(iter(c)).offset == 1
    assert odd.closed
    with pytest.raises(errors.InvalidConfig, match="has no method on_consume"):
        consumer(cluster, interceptor_classes=[object()])
    with pytest.raises(errors.InvalidConfig, match="cannot be imported"):
        consumer(cluster, interceptor_classes="no.such.Thing")
    with pytest.raises(errors.InvalidConfig, match="value_deserializer=5: it must be a callable"):
        consumer(cluster, value_deserializer=5)


def test_metrics_have_kafkas_names(cluster: FakeCluster) -> None:
    fill(cluster, 10)
    with consumer(cluster, max_poll_records=4) as c:
        c.assign([T0])
        c.poll(5)
        metrics = c.metrics()
        assert metrics["records-consumed-total"] == 4
        assert metrics["bytes-consumed-total"] > 100
        assert metrics["bytes-consumed-rate"] > 0
        assert metrics["records-lag-max"] == metrics["t-0.records-lag"] == 6
        assert metrics["fetch-size-avg"] <= metrics["fetch-size-max"]
        assert metrics["fetch-latency-avg"] >= 0
        c.poll(5)
        assert c.metrics()["records-lag-max"] == 2
        assert c.metrics()["time-between-poll-max"] >= 0


def test_a_start_some_time_ago(cluster: FakeCluster) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as p:
        for hours in (5, 3, 1):
            at_ms = SYSTEM_CLOCK.wall_ms() - hours * 3_600_000
            p.send("t", b"%d" % hours, partition=0, timestamp_ms=at_ms)
            p.flush()
    with consumer(cluster, auto_offset_reset="by_duration:PT4H") as c:
        c.assign([T0])
        assert [r.value for r in c.poll(5)] == [b"3", b"1"]


@pytest.mark.parametrize(
    ("given", "taken"),
    [("Earliest", "earliest"), ("LATEST", "latest"), ("By_Duration:pt4h", "by_duration:PT4H")],
)
def test_a_reset_policy_may_be_in_any_case(given: str, taken: str) -> None:
    values = parse_settings("a:1", None, {"auto_offset_reset": given})
    assert values["auto.offset.reset"] == taken


@pytest.mark.parametrize(
    "policy", ["smallest", "by_duration:", "by_duration:P", "by_duration:-PT5M"]
)
def test_reset_policies_that_are_none(policy: str) -> None:
    with pytest.raises(errors.InvalidConfig, match="one of latest, earliest, none, or by_duration"):
        Consumer("t", bootstrap_servers="a:1", auto_offset_reset=policy)


@pytest.mark.parametrize(
    ("policy", "wanted_ms"),
    [("P7D", 604_800_000), ("PT1H30M", 5_400_000), ("P1DT0.5S", 86_400_500), ("PT0S", 0)],
)
def test_durations(policy: str, wanted_ms: int) -> None:
    assert duration_ms(f"by_duration:{policy}") == wanted_ms


def test_a_second_thread_is_told_off_and_wakeup_is_not(cluster: FakeCluster) -> None:
    with consumer(cluster) as c:
        c.assign([T0])
        polling = threading.Event()
        outcome: list[BaseException] = []

        def poll() -> None:
            polling.set()
            try:
                c.poll(30)
            except errors.PylogError as error:
                outcome.append(error)

        thread = threading.Thread(target=poll)
        thread.start()
        polling.wait(5)
        while c._turn.user is None:  # the other thread is on its way into poll()
            pass
        with pytest.raises(errors.WrongThread, match="thread"):
            c.poll(0)
        c.wakeup()
        thread.join(5)
        assert [type(e) for e in outcome] == [errors.WokenUp]
        assert not c.poll(0)  # a wakeup counts once


def transactions(partition: FakePartition) -> None:
    """Offsets 0-2 committed, 3-5 aborted, their markers at 6 and 7, 8 plain, 9 in one that is
    open.
    """

    def transaction(producer: int, *values: bytes) -> bytes:
        return encode_batch(
            values,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )

    def marker(kind: ControlType, producer: int) -> bytes:
        return encode_control_batch(
            kind, producer_id=producer, producer_epoch=0, coordinator_epoch=0, timestamp_ms=0
        )

    for batch in (
        transaction(1, b"a", b"b", b"c"),
        transaction(2, b"x", b"y", b"z"),
        marker(ControlType.COMMIT, 1),
        marker(ControlType.ABORT, 2),
        encode_batch([b"d"]),
        transaction(3, b"open"),
    ):
        partition.producers.clear()
        assert partition.append(batch)[0] == 0
    partition.stable, partition.aborted = 9, [(2, 3)]


def test_records_of_aborted_transactions_are_left_out(cluster: FakeCluster) -> None:
    transactions(cluster.topics["t"].partitions[0])
    with consumer(cluster, isolation_level="read_committed", fetch_max_wait_ms=20) as c:
        c.assign([T0])
        assert c.end_offsets() == {T0: 9}
        values: list[Any] = []
        while c.position(T0) < 9:
            values += [r.value for r in c.poll(1)]
        assert values == [b"a", b"b", b"c", b"d"]
        assert c.lag() == {T0: 0}
        assert c.metrics()["t-0.records-lag"] == 0
        c.seek(T0, 4)
        columns = c.poll_arrow(5)
        assert columns["value"].to_pylist() == [b"d"]
        c.seek(T0, 3)
        cluster.topics["t"].partitions[0].stable = 6  # a fetch of nothing but aborted records
        assert not c.poll_arrow(0.2)
        assert c.position(T0) == 6
    with consumer(cluster) as c:
        c.assign([T0])
        assert [r.value for r in c.poll(5)] == [b"a", b"b", b"c", b"x", b"y", b"z", b"d", b"open"]


def test_next_offsets_are_positions_behind_what_is_no_record(cluster: FakeCluster) -> None:
    transactions(cluster.topics["t"].partitions[0])
    cluster.topics["t"].partitions[0].stable = 8  # 3 to 7 are aborted records and markers
    with consumer(cluster, isolation_level="read_committed") as c:
        c.assign([T0])
        records = c.poll(5)
        assert [r.offset for r in records] == [0, 1, 2]
        assert records.next_offsets == {T0: 8} == {T0: c.position(T0)}


class KeepFirst:
    def on_consume(self, records: ConsumerRecords) -> ConsumerRecords:
        return ConsumerRecords({tp: records.records(tp)[:1] for tp in records.partitions})


def test_an_interceptor_that_drops_records_moves_no_offset(cluster: FakeCluster) -> None:
    fill(cluster, 5)
    with consumer(cluster, interceptor_classes=[KeepFirst()]) as c:
        c.assign([T0])
        records = c.poll(5)
        assert [r.offset for r in records] == [0]
        assert records.next_offsets == {T0: 5} == {T0: c.position(T0)}


def test_what_an_iteration_left_says_where_it_goes_on(cluster: FakeCluster) -> None:
    transactions(cluster.topics["t"].partitions[0])
    cluster.topics["t"].partitions[0].stable = 8
    with consumer(cluster, isolation_level="read_committed") as c:
        c.assign([T0])
        next(iter(c))
        records = c.poll(5)
        assert [r.offset for r in records] == [1, 2]
        assert records.next_offsets == {T0: 8} == {T0: c.position(T0)}


# ---- what must run on the user's thread ----------------------------------------------------------


def test_a_callback_runs_on_the_thread_that_polls(cluster: FakeCluster) -> None:
    with Consumer(bootstrap_servers=cluster.bootstrap_servers) as consumer:
        consumer.assign([("t", 0)])
        callback = Callback(threading.get_ident)
        consumer._core.for_user.append(callback)
        consumer.poll(0)
        assert callback.answer.result() == threading.get_ident()


def test_a_callback_ends_the_waiting(cluster: FakeCluster) -> None:
    with Consumer(bootstrap_servers=cluster.bootstrap_servers) as consumer:
        consumer.assign([("t", 0)])
        callback = Callback(consumer.wakeup)

        def call_back() -> None:
            consumer._core.for_user.append(callback)
            consumer._loop.notify_soon()

        consumer._thread.loop.call_soon_threadsafe(
            consumer._thread.loop.call_later, 0.05, call_back
        )
        with pytest.raises(errors.WokenUp):
            consumer.poll(30)
        assert callback.answer.result() is None


def test_a_manager_calls_back_when_its_time_has_come(cluster: FakeCluster) -> None:
    """As a group's membership does whose session has run out."""
    callback = Callback(lambda: "called")

    class Membership:
        deadline_ms = SYSTEM_CLOCK.monotonic_ms() + 50

        def poll(self, now_ms: int) -> Polled:
            if now_ms < self.deadline_ms:
                return Polled([], self.deadline_ms)
            if not callback.answer.done and callback not in consumer._core.for_user:
                consumer._core.for_user.append(callback)
            return Polled([], None)

    with Consumer(bootstrap_servers=cluster.bootstrap_servers) as consumer:
        consumer._core.managers = (*consumer._core.managers, Membership())
        consumer.assign([("t", 0)])
        consumer.pause(("t", 0))
        deadline_ms = SYSTEM_CLOCK.monotonic_ms() + 10_000
        while not callback.answer.done:
            assert SYSTEM_CLOCK.monotonic_ms() < deadline_ms
            consumer.poll(0.2)
        assert callback.answer.result() == "called"


def test_what_a_callback_raises_a_poll_raises(cluster: FakeCluster) -> None:
    def fail() -> None:
        raise KeyError("of the user's code")

    with Consumer(bootstrap_servers=cluster.bootstrap_servers) as consumer:
        consumer.assign([("t", 0)])
        callback = Callback(fail)
        consumer._core.for_user.append(callback)
        with pytest.raises(KeyError, match="of the user's code"):
            consumer.poll(0)
        with pytest.raises(KeyError):
            callback.answer.result()
        consumer.poll(0)
