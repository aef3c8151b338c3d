"""The producer against a real gRPC server in this process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from pylog import errors
from pylog.client.consumer.consumer import Consumer
from pylog.client.producer import producer as producer_module
from pylog.client.producer.producer import Producer
from pylog.clock import wall_ns
from pylog.model import RecordMetadata
from pylog.records.batch import iter_headers
from pylog.records.reader import iter_records
from pylog.records.record import Record
from tests.fakes.fake_cluster import FakeCluster


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(2) as running:
        running.create_topic("t", 3)
        running.create_topic("one")
        yield running


def producer(cluster: FakeCluster, **config: Any) -> Producer:
    given: dict[str, Any] = {"linger_ms": 0, "max_block_ms": 5_000, **config}
    return Producer(bootstrap_servers=cluster.bootstrap_servers, **given)


def stored(cluster: FakeCluster, topic: str = "one", partition: int = 0) -> list[Record]:
    data = cluster.topics[topic].partitions[partition].read(0, 1 << 30)
    return list(iter_records(data, topic, partition))


def test_a_record_arrives_with_all_its_parts(cluster: FakeCluster) -> None:
    with producer(cluster) as p:
        sent = p.send(
            "t", "välue", key=b"k", headers=[("a", b"1"), ("a", None)], partition=2, timestamp_ms=5
        ).result(5)
        p.send("t", None, key="", headers={"h": "x"}, partition=2, timestamp_ms=6).result(5)
    assert sent == RecordMetadata("t", 2, 0, 5)
    first, second = stored(cluster, "t", 2)
    assert (first.key, first.value, first.timestamp_ms) == (b"k", "välue".encode(), 5)
    assert first.headers == [("a", b"1"), ("a", None)]
    assert (second.key, second.value, second.headers) == (b"", None, [("h", b"x")])


def test_keys_go_where_java_puts_them(cluster: FakeCluster) -> None:
    cluster.create_topic("six", 6)
    with producer(cluster) as p:
        placed = [p.send("six", b"", key=k).result(5).partition for k in ("21", "foobar", "abc")]
    assert placed == [0, 0, 3]


def test_a_custom_partitioner_sees_serialized_bytes(cluster: FakeCluster) -> None:
    seen = []

    def choose(*arguments: Any) -> int:
        seen.append(arguments)
        return 1

    with producer(cluster, partitioner=choose, serializer=lambda t, d: f"{t}:{d}".encode()) as p:
        assert p.send("t", 5, key=6).result(5).partition == 1
    assert seen == [("t", b"t:6", b"t:5", 3)]


def test_many_records_share_batches_and_keep_their_order(cluster: FakeCluster) -> None:
    with producer(cluster, linger_ms=5) as p:
        handles = [p.send("one", b"%d" % i) for i in range(1_000)]
        p.flush(10)
        assert [h.result(0).offset for h in handles] == list(range(1_000))
        assert p.metrics()["batch-send-total"] < 30
    assert [r.value for r in stored(cluster)] == [b"%d" % i for i in range(1_000)]


def test_each_handle_that_somebody_keeps_is_its_own_records(cluster: FakeCluster) -> None:
    told: list[int] = []
    with producer(cluster, linger_ms=60_000) as p:
        p.send("one", b"0")  # from here on records go straight into their batch
        kept: dict[int, Any] = {}
        for number in range(1, 400):
            match number % 6:
                case 0:
                    kept[number] = p.send("one", b"x")
                case 1:
                    kept[number] = p.send("one", b"x").result  # by its method alone
                case 2:
                    kept[number] = p.send("one", b"x").as_future()
                case 3:
                    p.send("one", b"x").add_done_callback(lambda h: told.append(h.result().offset))
                case _:
                    p.send("one", b"x")
        p.flush(30)
        offsets = {
            number: (keeper() if callable(keeper) else keeper.result(0)).offset
            for number, keeper in kept.items()
        }
    assert offsets == {number: number for number in range(1, 400) if number % 6 < 3}
    assert told == list(range(3, 400, 6))


def test_a_handle_that_nobody_keeps_is_given_out_again(cluster: FakeCluster) -> None:
    with producer(cluster, linger_ms=60_000) as p:
        p.send("one", b"0")
        assert len({id(p.send("one", b"x")) for _ in range(50)}) <= 2  # the batch's first, and one
        p.flush(30)


@pytest.mark.parametrize("called", [False, True])
@pytest.mark.parametrize("key", [None, b"key"])
def test_a_batch_that_is_closed_under_the_hands_of_who_adds(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, key: bytes | None, called: bool
) -> None:
    close_now = False

    def look_at_the_clock() -> int:
        if close_now:
            with p._lock:
                p._accumulator.mark_all_due()
        return wall_ns()

    monkeypatch.setattr(producer_module, "wall_ns", look_at_the_clock)
    with producer(cluster, linger_ms=60_000) as p:
        handles, told = [], []
        for number in range(30):
            close_now = number % 3 == 2
            handles.append(
                p.send("one", b"%d" % number, key, on_delivery=lambda m, _: told.append(m.offset))
                if called
                else p.send("one", b"%d" % number, key)
            )
        p.flush(30)
        assert [handle.result(0).offset for handle in handles] == list(range(30))
    assert told == (list(range(30)) if called else [])
    assert [(r.key, r.value) for r in stored(cluster)] == [(key, b"%d" % n) for n in range(30)]


def test_an_open_batch_takes_keys_within_its_size_and_callables_only(cluster: FakeCluster) -> None:
    with producer(cluster, linger_ms=60_000, batch_size=1_000, batch_max_size=1_000) as p:
        for _ in range(50):
            p.send("one", b"", b"k" * 100)
        p.send("one", b"")
        with pytest.raises(errors.InvalidRequest, match="on_delivery=5; it must be a callable"):
            p.send("one", b"", on_delivery=5)  # type: ignore[arg-type]
    data = cluster.topics["one"].partitions[0].read(0, 1 << 30)
    headers = [header for _, header in iter_headers(data)]
    assert sum(header.record_count for header in headers) == 51
    assert all(header.size <= 1_000 for header in headers)


def test_a_record_larger_than_a_batch_follows_a_small_one(cluster: FakeCluster) -> None:
    with producer(cluster, linger_ms=50) as p:
        p.send("one", b"first").result(30)
        small, large = p.send("one", b"x"), p.send("one", b"y" * 100_000)
        assert (small.result(30).offset, large.result(30).offset) == (1, 2)


def test_callbacks_come_once_each_in_order(cluster: FakeCluster) -> None:
    told: list[Any] = []
    with producer(cluster) as p:
        for _ in range(50):
            p.send("one", b"x", on_delivery=lambda m, e: told.append((m and m.offset, e)))
    assert told == [(i, None) for i in range(50)]


def test_lost_answers_and_refusals_store_each_record_once_and_in_order(
    cluster: FakeCluster,
) -> None:
    code = errors.NotEnoughReplicas.code
    cluster.produce_faults.extend([0, "drop", 0, code, code, 0, "drop", 0, code, 0, 0, "drop"])
    with producer(cluster, batch_size=200, retry_backoff_ms=10) as p:
        handles = [p.send("one", b"%04d" % i) for i in range(100)]
        p.flush(20)
        assert [h.result(0).offset for h in handles] == list(range(100))
    assert [r.value for r in stored(cluster)] == [b"%04d" % i for i in range(100)]
    by_sequence: dict[int, bytes] = {}
    for request in cluster.produce_requests:
        for batch in request.batches:
            sequence = int.from_bytes(batch.batch[53:57], "big")
            assert (
                by_sequence.setdefault(sequence, batch.batch) == batch.batch
            )  # retry = same bytes


def test_a_moved_leader_is_found(cluster: FakeCluster) -> None:
    with producer(cluster, retry_backoff_ms=10) as p:
        p.send("one", b"a").result(5)
        cluster.move_leader("one", 0, 2)
        assert p.send("one", b"b").result(5).offset == 1


def test_a_stopped_broker_is_waited_for(cluster: FakeCluster) -> None:
    with producer(cluster, retry_backoff_ms=10) as p:
        p.send("one", b"a").result(5)
        cluster.stop_broker(1)
        handle = p.send("one", b"b")
        assert not handle.done()
        cluster.start_broker(1)
        assert handle.result(10).offset == 1


def test_an_answer_that_never_comes_ends_in_a_named_time_out(cluster: FakeCluster) -> None:
    cluster.produce_faults.append("hang")
    with producer(cluster, delivery_timeout_ms=1_500) as p:
        with pytest.raises(errors.DeliveryTimedOut, match=r"one-0: .*delivery_timeout_ms=1500"):
            p.send("one", b"a").result(5)
        # The next record neither repeats the lost sequence nor fails.
        assert p.send("one", b"b").result(5).offset == 1


def test_a_full_buffer_blocks_and_then_says_so(cluster: FakeCluster) -> None:
    cluster.produce_faults.extend(["hang"] * 100)
    with producer(
        cluster, buffer_memory=100_000, max_block_ms=1_000, delivery_timeout_ms=10_000
    ) as p:

        def fill() -> None:
            for _ in range(10_000):
                p.send("one", b"x" * 1_000)

        words = r"buffer_memory=100000 .*max_block_ms=1000"
        with pytest.raises(errors.BufferExhausted, match=words):
            fill()
        p.close(0)


def test_a_full_buffer_does_not_cut_batches_short(cluster: FakeCluster) -> None:
    with producer(cluster, batch_size=2_000, buffer_memory=16_000, linger_ms=1_000) as p:
        for i in range(1_000):
            p.send("t", b"x" * 79, partition=i % 2)  # 19 fill a batch
        p.flush(10)
        assert p.metrics()["batch-send-total"] == 2 * 27


def test_lingering_batches_give_way_when_they_alone_fill_the_buffer(cluster: FakeCluster) -> None:
    with producer(cluster, batch_size=2_000, buffer_memory=4_000, linger_ms=30_000) as p:
        handles = [p.send("t", b"x", partition=i % 3) for i in range(9)]
        assert [h.result(5).offset for h in handles[:2]] == [0, 0]


def test_a_record_too_large_is_refused_by_send_naming_the_limit(cluster: FakeCluster) -> None:
    with producer(cluster) as p:
        with pytest.raises(errors.MessageTooLarge, match="max_request_size is 1048576"):
            p.send("one", b"x" * 1_048_577)
        assert p.send("one", b"x" * 1_000_000).result(5).offset == 0


@pytest.mark.usefixtures("short_grace")
def test_a_topic_that_does_not_exist_is_named(cluster: FakeCluster) -> None:
    with producer(cluster, retry_backoff_ms=10) as p:
        with pytest.raises(errors.UnknownTopicOrPartition, match="nope"):
            p.send("nope", b"x")
        with pytest.raises(errors.UnknownTopicOrPartition, match=r"partitions 0 to 2.*partition 9"):
            p.send("t", b"x", partition=9)
        with pytest.raises(errors.UnknownTopicOrPartition, match="partition -1"):
            p.send("t", b"x", partition=-1)
        for name in ("", "\ud800", "a/b", "x" * 250, 5):
            with pytest.raises(errors.InvalidTopic):
                p.send(name, b"x")  # type: ignore[arg-type]
        assert p.send("one", b"x").result(5).offset == 0


def test_servers_that_do_not_answer_are_named_with_their_faults() -> None:
    with (
        Producer(bootstrap_servers="127.0.0.1:1,127.0.0.1:2", max_block_ms=700) as p,
        pytest.raises(errors.BootstrapFailed) as failed,
    ):
        p.send("t", b"x")
    assert "127.0.0.1:1: connection refused" in str(failed.value)
    assert "127.0.0.1:2: connection refused" in str(failed.value)


def test_one_good_address_of_three_is_enough(cluster: FakeCluster) -> None:
    addresses = ["127.0.0.1:1", cluster.bootstrap_servers[0], "127.0.0.1:2"]
    with Producer(bootstrap_servers=addresses) as p:
        assert p.partitions_for("t") == [0, 1, 2]


def test_values_of_other_types_are_refused(cluster: FakeCluster) -> None:
    with producer(cluster) as p:
        with pytest.raises(errors.SerializationFailed, match="the value is int"):
            p.send("one", 5)
        with pytest.raises(errors.SerializationFailed, match="header's name"):
            p.send("one", b"", headers=[("\ud800", b"")])
        with pytest.raises(errors.SerializationFailed, match="a header must be a pair"):
            p.send("one", b"", headers=["a"])  # type: ignore[list-item]
        for wrong in (-5, 2**63, 1.5, "now"):
            with pytest.raises(errors.InvalidTimestamp, match=f"timestamp_ms={wrong!r}"):
                p.send("one", b"", timestamp_ms=wrong)  # type: ignore[arg-type]
        with pytest.raises(errors.InvalidRequest, match="on_delivery=5"):
            p.send("one", b"", on_delivery=5)  # type: ignore[arg-type]
        far = p.send("one", b"far", timestamp_ms=2**63 - 1).result(5)
        assert far.timestamp_ms == 2**63 - 1
    with producer(cluster, value_serializer=lambda _t, d: d["x"]) as p:
        with pytest.raises(errors.SerializationFailed, match="KeyError"):
            p.send("one", {})
        assert p.send("one", {"x": b"1"}, key=b"plain").result(5).offset == 1


def test_after_close_everything_says_closed(cluster: FakeCluster) -> None:
    p = producer(cluster)
    handle = p.send("one", b"x")
    p.close()
    p.close()
    assert handle.result(0).offset == 0  # close() waits for what was sent
    with pytest.raises(errors.ClientClosed, match="closed"):
        p.send("one", b"x")
    with pytest.raises(errors.ClientClosed, match="closed"):
        p.partitions_for("one")


def test_close_without_patience_fails_what_is_outstanding(cluster: FakeCluster) -> None:
    cluster.produce_faults.append("hang")
    p = producer(cluster)
    handle = p.send("one", b"x")
    p.close(0)
    with pytest.raises(errors.ClientClosed):
        handle.result(0)


def test_a_flush_that_takes_too_long_says_what_is_missing(cluster: FakeCluster) -> None:
    cluster.produce_faults.append("hang")
    p = producer(cluster)
    p.send("one", b"x")
    with pytest.raises(errors.RequestTimedOut, match="1 records in 1 batches"):
        p.flush(0.05)
    p.close(0)


def test_a_flush_returns_when_callbacks_have_run(cluster: FakeCluster) -> None:
    runs, goes_on = threading.Event(), threading.Event()
    told: list[RecordMetadata | None] = []

    def slow(metadata: RecordMetadata | None, _error: Exception | None) -> None:
        runs.set()
        goes_on.wait(10)
        told.append(metadata)

    with producer(cluster) as p:
        handle = p.send("one", b"x", on_delivery=slow)
        assert runs.wait(10)
        assert handle.done()
        with pytest.raises(errors.RequestTimedOut, match="callbacks have not ended"):
            p.flush(0.05)
        p.flush(0)
        flushes = threading.Thread(target=p.flush, args=(10,))
        flushes.start()
        goes_on.set()
        flushes.join()
        assert told == [handle.result(0)]


def test_without_acknowledgement_there_is_no_offset(cluster: FakeCluster) -> None:
    with producer(cluster, acks=0) as p:
        handles = [p.send("one", b"%d" % i) for i in range(500)]
        p.flush(5)
        assert {h.result(0).offset for h in handles} == {-1}
        with Consumer(
            "one", bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest"
        ) as c:
            got: list[Any] = []
            for record in c:
                got.append(record.value)
                if len(got) == 500:
                    break
    assert got == [b"%d" % i for i in range(500)]


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_batches(cluster: FakeCluster, compression: str) -> None:
    with producer(cluster, compression_type=compression, linger_ms=5) as p:
        for _ in range(100):
            p.send("one", b"x" * 100)
        p.flush(5)
        assert p.metrics()["byte-total"] < 5_000
    assert [r.value for r in stored(cluster)] == [b"x" * 100] * 100


def test_many_threads_share_a_producer(cluster: FakeCluster) -> None:
    with producer(cluster, batch_size=500, buffer_memory=20_000) as p:

        def work(number: int) -> None:
            for i in range(200):
                p.send("t", b"%d-%d" % (number, i), partition=number % 3)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        p.flush(10)
    for number in range(4):
        mine = [
            r.value for r in stored(cluster, "t", number % 3) if r.value.startswith(b"%d-" % number)
        ]
        assert mine == [b"%d-%d" % (number, i) for i in range(200)]


def test_blocking_calls_inside_a_callback_are_refused(cluster: FakeCluster) -> None:
    faults: list[Any] = []

    def misuse(_metadata: object, _error: object) -> None:
        for call in (lambda: p.flush(1), lambda: p.partitions_for("t")):
            try:
                call()
            except errors.WrongThread as error:
                faults.append(error)

    with producer(cluster) as p:
        p.send("one", b"x", on_delivery=misuse).result(5)
        p.flush(5)
    assert len(faults) == 2


def test_settings_are_checked_at_construction() -> None:
    with pytest.raises(errors.InvalidConfig, match=r"lingerms.*did you mean linger_ms"):
        Producer(bootstrap_servers="a:1", lingerms=5)
    with pytest.raises(errors.InvalidConfig, match=r"acks=7|acks='7'"):
        Producer(bootstrap_servers="a:1", acks=7)
    with pytest.raises(errors.InvalidConfig, match="enable_idempotence=True needs acks='all'"):
        Producer(bootstrap_servers="a:1", acks=1, enable_idempotence=True)
    with pytest.raises(errors.InvalidConfig, match="at most 5"):
        Producer(
            bootstrap_servers="a:1",
            enable_idempotence=True,
            max_in_flight_requests_per_connection=6,
        )
    with pytest.raises(errors.InvalidConfig, match="one of none, gzip, snappy, lz4, zstd"):
        Producer(bootstrap_servers="a:1", compression_type="brotli")
    for name, value in (("gzip", 0), ("gzip", 10), ("lz4", 18), ("zstd", 23)):
        with pytest.raises(errors.InvalidConfig, match=f"compression_{name}_level={value}"):
            Producer(bootstrap_servers="a:1", **{f"compression_{name}_level": value})
    with pytest.raises(errors.InvalidConfig, match="has no port"):
        Producer(bootstrap_servers="localhost")


def test_a_method_that_is_not_there_is_an_attribute_error(cluster: FakeCluster) -> None:
    with producer(cluster) as p:
        assert "commit_transaction" in dir(p)
        with pytest.raises(AttributeError, match="comit_transaction"):
            p.comit_transaction()


def test_tables_are_sent_by_column(cluster: FakeCluster) -> None:
    with producer(cluster) as p:
        table = pa.table(
            {
                "key": pa.array(["21", "foobar", "abc", None]),
                "value": pa.array([b"1", b"", None, b"4"]),
                "timestamp": pa.array([1, 2, 3, 4], pa.int64()),
            }
        )
        cluster.create_topic("six", 6)
        sent = p.send_arrow("six", table).result(5)
    assert {(m.partition, m.offset) for m in sent} >= {(0, 0), (3, 0)}
    by_key = {r.key: r for n in range(6) for r in stored(cluster, "six", n)}
    assert [by_key[k].partition for k in (b"21", b"foobar", b"abc")] == [0, 0, 3]
    assert [by_key[k].value for k in (b"21", b"foobar", b"abc")] == [b"1", b"", None]
    assert by_key[None].value == b"4"
    assert by_key[b"abc"].timestamp_ms == 3


def test_a_table_names_partitions(cluster: FakeCluster) -> None:
    with producer(cluster) as p:
        table = pa.table({"value": ["a", "b", "c"], "partition": [2, 0, 2]})
        p.send_arrow("t", table).result(5)
        p.send_arrow("t", pa.table({"value": ["d"]}), partition=1).result(5)
        assert p.send_arrow("t", pa.table({"value": pa.array([], pa.string())})).result(5) == []
        with pytest.raises(errors.UnknownTopicOrPartition, match="no partition 3"):
            p.send_arrow("t", pa.table({"value": ["a"], "partition": [3]}))
        with pytest.raises(errors.InvalidRequest, match="'value' is needed"):
            p.send_arrow("t", pa.table({"values": ["a"]}))
        with pytest.raises(errors.InvalidRequest, match="must be binary or string"):
            p.send_arrow("t", pa.table({"value": [1]}))
        with pytest.raises(errors.InvalidRequest, match="RecordBatch or Table"):
            p.send_arrow("t", [1])
    assert [r.value for r in stored(cluster, "t", 2)] == [b"a", b"c"]
    assert [r.value for r in stored(cluster, "t", 0)] == [b"b"]
    assert [r.value for r in stored(cluster, "t", 1)] == [b"d"]


def test_a_large_table_survives_faults_once_and_in_order(cluster: FakeCluster) -> None:
    cluster.produce_faults.extend([0, "drop", 0, errors.NotEnoughReplicas.code])
    values = [b"%06d" % i for i in range(60_000)]
    with producer(cluster, retry_backoff_ms=10) as p:
        p.send("one", b"first")
        p.send_arrow("one", pa.table({"value": values})).result(20)
        p.send("one", b"last").result(5)
    assert [r.value for r in stored(cluster)] == [b"first", *values, b"last"]
