"""The consumer against a real gRPC server in this process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from pylog import errors
from pylog.client.consumer import Consumer
from pylog.client.consumer_records import ConsumerRecords
from pylog.client.consumer_settings import duration_ms
from pylog.client.decoding import Decoder
from pylog.client.producer import Producer
from pylog.clock import SYSTEM_CLOCK
from pylog.model import OffsetAndMetadata, OffsetAndTimestamp, TopicPartition
from pylog.records.record import Record
from tests.fakes.fake_cluster import FakeCluster

T0, T1, T2 = (TopicPartition("t", p) for p in range(3))


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(2) as running:
        running.create_topic("t", 3)
        yield running


def fill(cluster: FakeCluster, count: int, partition: int = 0, topic: str = "t") -> None:
    with Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=0) as p:
        for i in range(count):
            p.send(topic, b"%d" % i, key=b"k", partition=partition, timestamp_ms=1_000 + i)


def consumer(cluster: FakeCluster, *topics: str, **config: Any) -> Consumer:
    given: dict[str, Any] = {"auto_offset_reset": "earliest", **config}
    return Consumer(*topics, bootstrap_servers=cluster.bootstrap_servers, **given)


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
        assert SYSTEM_CLOCK.monotonic_ms() - before < 50
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
                c.poll(1)
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
        with pytest.raises(errors.UnknownTopicOrPartition, match="no partition 9"):
            c.end_offsets(TopicPartition("t", 9))


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


def test_a_fault_that_is_caught_late_stops_nothing(cluster: FakeCluster) -> None:
    fill(cluster, 3)
    cluster.fetch_faults.append(errors.TopicAuthorizationFailed.code)
    with consumer(cluster, retry_backoff_ms=1) as c:
        c.assign([T0])
        c.seek(T0, 0)
        c.poll(0)
        with cluster.changed:
            cluster.changed.wait_for(lambda: not cluster.fetch_faults, 5)
        SYSTEM_CLOCK.sleep(0.1)  # the time to try again passes before anybody hears of the fault
        with pytest.raises(errors.TopicAuthorizationFailed):
            c.poll(5)
        assert [r.offset for r in c.poll(5)] == [0, 1, 2]


def test_a_call_that_waits_hears_of_the_close() -> None:
    c = Consumer("t", bootstrap_servers="127.0.0.1:1")
    outcome: list[BaseException] = []

    def ask() -> None:
        try:
            c.partitions_for("t")
        except BaseException as error:  # noqa: BLE001  told by the test
            outcome.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    while c._cluster.metadata.version == 0 and not c._cluster.faults:
        pass  # the call waits for servers that are not there
    c.close()
    thread.join(5)
    assert [type(error) for error in outcome] == [errors.ClientClosed]


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


def test_records_that_are_cut_off_meanwhile(cluster: FakeCluster) -> None:
    fill(cluster, 10)
    cluster.topics["t"].partitions[0].log_start = 7
    with consumer(cluster) as c:
        c.assign([T0])
        c.seek(T0, 2)
        assert [r.offset for r in c.poll(5)] == [7, 8, 9]


def test_passing_faults_are_not_seen(cluster: FakeCluster) -> None:
    fill(cluster, 10)
    cluster.fetch_faults.extend(
        [
            errors.NotLeaderOrFollower.code,
            errors.OffsetNotAvailable.code,
            errors.UnknownTopicOrPartition.code,
        ]
    )
    with consumer(cluster, retry_backoff_ms=10) as c:
        c.assign([T0])
        c.seek(T0, 4)
        assert [r.offset for r in c.poll(5)] == [4, 5, 6, 7, 8, 9]


def test_a_moved_leader_and_a_restarted_broker_are_found(cluster: FakeCluster) -> None:
    fill(cluster, 3)
    with consumer(cluster, retry_backoff_ms=10) as c:
        c.assign([T0])
        assert len(c.poll(5)) == 3
        cluster.move_leader("t", 0, 2)
        fill(cluster, 3)
        assert [r.offset for r in c.poll(5)] == [3, 4, 5]
        cluster.stop_broker(2)
        assert not c.poll(0.05)
        cluster.start_broker(2)
        fill(cluster, 3)
        assert [r.offset for r in c.poll(10)] == [6, 7, 8]


def test_new_partitions_and_topics_by_pattern(cluster: FakeCluster) -> None:
    fill(cluster, 2)
    cluster.create_topic("other")
    with consumer(cluster, metadata_max_age_ms=50) as c:
        c.subscribe(pattern="t[0-9]*")
        assert len(c.poll(5)) == 2
        cluster.create_topic("t2")
        fill(cluster, 3, topic="t2")
        assert {r.topic for r in c.poll(5)} == {"t2"}
        assert c.subscription() == {"t", "t2"}


@pytest.mark.usefixtures("short_grace")
def test_a_pattern_lets_go_of_a_deleted_topic(cluster: FakeCluster) -> None:
    cluster.create_topic("gone")
    fill(cluster, 2, topic="gone")
    with consumer(cluster, metadata_max_age_ms=50, retry_backoff_ms=10) as c:
        c.subscribe(pattern="t|gone")
        assert len(c.poll(5)) == 2
        del cluster.topics["gone"]
        while c.subscription() != {"t"}:
            c.poll(0.05)
        assert c.assignment() == {T0, T1, T2}
        cluster.create_topic("gone")
        fill(cluster, 3, topic="gone")
        assert len(c.poll(5)) == 3


@pytest.mark.parametrize(("exclude", "topics"), [(True, {"t"}), (False, {"t", "__secret"})])
def test_internal_topics_and_patterns(
    cluster: FakeCluster, exclude: bool, topics: set[str]
) -> None:
    cluster.create_topic("__secret")
    with consumer(cluster, exclude_internal_topics=exclude) as c:
        c.subscribe(pattern=".*")
        for _ in range(100):
            c.poll(0.05)
            if c.subscription():
                break
        assert c.subscription() == topics


@pytest.mark.usefixtures("short_grace")
def test_a_topic_that_does_not_exist_is_named(cluster: FakeCluster) -> None:
    with (
        consumer(cluster, "nope", retry_backoff_ms=10) as c,
        pytest.raises(errors.UnknownTopicOrPartition, match="nope"),
    ):
        c.poll(10)


@pytest.mark.usefixtures("short_grace")
def test_asking_for_a_topic_that_does_not_exist_is_no_fault_of_what_is_read(
    cluster: FakeCluster,
) -> None:
    fill(cluster, 2)
    with consumer(cluster, "t", retry_backoff_ms=10) as c:
        for ask in (lambda: c.partitions_for("nope"), lambda: c.end_offsets(("none", 0))):
            with pytest.raises(errors.UnknownTopicOrPartition):
                ask()
        assert len(c.poll(5)) == 2
        assert list(c._cluster.topics) == ["t"]
        cluster.create_topic("nope")
        assert c.partitions_for("nope") == [0]


def test_servers_that_never_answer_are_named() -> None:
    with (
        Consumer("t", bootstrap_servers="127.0.0.1:1", default_api_timeout_ms=300) as c,
        pytest.raises(errors.BootstrapFailed, match=r"127.0.0.1:1: connection refused"),
    ):
        c.poll(10)


def test_deserializers_and_their_failures(cluster: FakeCluster) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as p:
        for value in (b"1", b"2", b"x", b"4"):
            p.send("t", value, key=b"9", partition=0)
    with consumer(cluster, deserializer=lambda _t, d: int(d)) as c:
        c.assign([T0])
        assert [(r.key, r.value) for r in c.poll(5)] == [(9, 1), (9, 2)]
        for _ in range(2):
            with pytest.raises(errors.SerializationFailed, match="t-0 at offset 2") as caught:
                c.poll(5)
        raw = caught.value.record
        assert (raw.offset, raw.key, raw.value) == (2, b"9", b"x")
        c.seek(T0, 3)
        assert [r.value for r in c.poll(5)] == [4]


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


@pytest.mark.parametrize("columns", [False, True])
def test_a_batch_that_cannot_be_read_holds_back_nothing_else(
    cluster: FakeCluster, columns: bool
) -> None:
    fill(cluster, 30)
    fill(cluster, 30)
    fill(cluster, 3, 1)
    header, batch = cluster.topics["t"].partitions[0].batches[-1]
    cluster.topics["t"].partitions[0].batches[-1] = (header, batch[:-1] + b"!")
    with consumer(cluster) as c:
        c.assign([T0, T1])
        read = 0
        fault: errors.PylogError | None = None
        while read < header.base_offset + 3 or fault is None:
            try:
                read += c.poll_arrow(5).num_rows if columns else len(c.poll(5))
            except errors.CorruptMessage as error:
                fault = error
        assert f"t-0, batch at offset {header.base_offset}" in str(fault)
        assert c.position() == {T0: header.base_offset, T1: 3}
        c.seek(T0, 60)
        assert not c.poll(0.05)


def test_a_position_that_the_loop_moves_meanwhile_stays_moved(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(cluster, 10)
    with consumer(cluster, max_poll_records=4) as c:
        c.assign([T0])
        assert len(c.poll(5)) == 4
        take = Decoder.take

        def cut_while_decoding(decoder: Decoder, count: int) -> list[Record]:
            with c._lock:
                c._fetcher.seek(c._fetcher.partitions[T0], 2)
            monkeypatch.undo()
            return take(decoder, count)

        monkeypatch.setattr(Decoder, "take", cut_while_decoding)
        assert c.poll(5).records(T0)[0].offset == 4
        assert c.position(T0) == 2
        assert c.poll(5).records(T0)[0].offset == 2


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


def test_what_is_refused(cluster: FakeCluster) -> None:
    with pytest.raises(errors.NotOffered, match="group_id='g': consumer groups"):
        consumer(cluster, "t", group_id="g")
    with pytest.raises(errors.InvalidConfig, match="did you mean auto_offset_reset"):
        Consumer("t", bootstrap_servers="a:1", auto_ofset_reset="earliest")
    with pytest.raises(errors.InvalidConfig, match="one of latest, earliest, none"):
        Consumer("t", bootstrap_servers="a:1", auto_offset_reset="smallest")
    with consumer(cluster) as c:
        with pytest.raises(errors.InvalidRequest, match="Consumer is not subscribed to any topics"):
            c.poll(0)
        with pytest.raises(errors.NotOffered, match=r"Consumer.commit: consumer groups"):
            c.commit()
        with pytest.raises(errors.InvalidRequest, match="is not a partition"):
            c.assign(["t"])  # type: ignore[list-item]
        with pytest.raises(errors.InvalidRequest, match="is not a partition"):
            c.assign([("t", 2**31)])
        for refused in (c.subscribe, c.partitions_for, lambda name: c.end_offsets((name, 0))):
            with pytest.raises(errors.InvalidTopic):
                refused("\ud800")
        with pytest.raises(errors.InvalidRequest, match="either topics or pattern"):
            c.subscribe()
        with pytest.raises(errors.InvalidRegularExpression, match=r"missing \]"):
            c.subscribe(pattern="[")
    for call in (lambda: c.poll(0), c.assignment, lambda: c.seek(T0, 1)):
        with pytest.raises(errors.ClientClosed, match="closed"):
            call()
