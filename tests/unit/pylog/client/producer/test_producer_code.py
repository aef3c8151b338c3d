"""The user's code inside a producer, and what becomes of batches that a broker finds too large."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from pylog import errors
from pylog.client.producer import producer_loop
from pylog.client.producer.interceptors import ProducerRecord
from pylog.client.producer.producer import Producer
from pylog.client.sending.producer_batch import Batch
from pylog.model import RecordMetadata
from pylog.records.compression import Compression
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


class Counting:
    """An interceptor that marks values and counts outcomes."""

    def __init__(self, log: list[str]) -> None:
        self.log = log

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return dataclasses.replace(record, value=record.value.upper())

    def on_acknowledgement(
        self, metadata: RecordMetadata | None, error: errors.PylogError | None
    ) -> None:
        assert (metadata is None) != (error is None)
        self.log.append("interceptor: " + ("acknowledged" if error is None else error.name))

    def close(self) -> None:
        self.log.append("closed")


def test_interceptors_see_records_before_and_outcomes_first(cluster: FakeCluster) -> None:
    log: list[str] = []
    with producer(cluster, interceptor_classes=[Counting(log)], max_request_size=1_000) as p:
        p.send("one", "a", on_delivery=lambda m, _: log.append(f"callback: {m and m.offset}"))
        p.flush(5)
        with pytest.raises(errors.MessageTooLarge):
            p.send("one", "x" * 2_000)
        cluster.produce_faults.append(errors.TopicAuthorizationFailed.code)
        with pytest.raises(errors.TopicAuthorizationFailed):
            p.send("one", "b").result(5)
        assert p.metrics()["record-error-total"] == 2
    assert [r.value for r in stored(cluster)] == [b"A"]
    assert log == [
        "interceptor: acknowledged",
        "callback: 0",
        "interceptor: MESSAGE_TOO_LARGE",
        "interceptor: TOPIC_AUTHORIZATION_FAILED",
        "closed",
    ]


def test_the_pipeline_is_interceptors_then_serializers_then_partitioner(
    cluster: FakeCluster,
) -> None:
    seen: list[Any] = []

    def place(topic: str, key: bytes | None, value: bytes | None, count: int) -> int:
        seen.append((topic, key, value, count))
        return 2

    with producer(
        cluster,
        interceptor_classes=[Counting([])],
        key_serializer=lambda topic, key: f"{topic}/{key}",
        partitioner=place,
    ) as p:
        assert p.send("t", "v", key=7).result(5).partition == 2
        assert p.send("t", "w", key=8, partition=1).result(5).partition == 1  # not asked
    assert seen == [("t", b"t/7", b"V", 3)]


def test_a_partitioner_that_names_no_partition_of_the_topic_is_told(cluster: FakeCluster) -> None:
    with (
        producer(cluster, partitioner=lambda *_: 9) as p,
        pytest.raises(errors.UnknownTopicOrPartition, match="no partition 9"),
    ):
        p.send("t", b"x")


def test_a_partitioner_that_fails_is_the_senders_to_know(cluster: FakeCluster) -> None:
    def fail(*_: Any) -> int:
        raise LookupError("nowhere")

    with producer(cluster, partitioner=fail) as p, pytest.raises(LookupError):
        p.send("t", b"x")


def test_round_robin_and_ignored_keys(cluster: FakeCluster) -> None:
    with producer(cluster, partitioner="round_robin") as p:
        placed = [p.send("t", b"x", key=b"same").result(5).partition for _ in range(6)]
    assert placed == [0, 1, 2, 0, 1, 2]
    with producer(cluster, partitioner_ignore_keys=True) as p:
        placed = [p.send("t", b"x", key=b"%d" % i).result(5).partition for i in range(6)]
    assert len(set(placed)) == 1  # sticky


def test_keyless_records_spread_evenly_over_a_long_run(cluster: FakeCluster) -> None:
    with producer(cluster, batch_size=1_000, linger_ms=5) as p:
        handles = [p.send("t", b"x" * 100) for _ in range(3_000)]
        p.flush(10)
        counts = [0, 0, 0]
        for handle in handles:
            counts[handle.result(0).partition] += 1
    assert min(counts) > 0.8 * max(counts)


def test_a_batch_that_the_broker_finds_too_large_is_sent_in_parts(cluster: FakeCluster) -> None:
    too_large = errors.MessageTooLarge.code
    cluster.produce_faults.extend([too_large, too_large, 0, too_large, 0, "drop"])
    told: list[int] = []
    with producer(cluster, linger_ms=100, retry_backoff_ms=10) as p:
        handles = [
            p.send(
                "one",
                b"%03d" % i,
                key=b"k" if i % 2 else None,
                headers=[("h", b"%d" % i)] if i % 3 else None,
                timestamp_ms=1_000 + i if i % 5 else None,
                on_delivery=lambda m, _: told.append(m.offset if m else -1),
            )
            for i in range(100)
        ]
        p.flush(10)
        assert [h.result(0).offset for h in handles] == list(range(100))
        assert handles[7].result(0).timestamp_ms == 1_007
        assert p.metrics()["batch-split-total"] >= 2
    records = stored(cluster)
    assert [r.value for r in records] == [b"%03d" % i for i in range(100)]
    assert [r.key for r in records[:2]] == [None, b"k"]
    assert records[4].headers == [("h", b"4")]
    assert records[7].timestamp_ms == 1_007
    assert sorted(told) == list(range(100))


def test_a_single_record_that_is_too_large_fails_alone(cluster: FakeCluster) -> None:
    too_large = errors.MessageTooLarge.code
    cluster.produce_faults.extend([too_large, too_large])
    with producer(cluster, linger_ms=100, retry_backoff_ms=10) as p:
        first, second = p.send("one", b"a"), p.send("one", b"b")
        with pytest.raises(errors.MessageTooLarge, match="one-0"):
            first.result(5)
        assert second.result(5).offset == 0
        assert p.send("one", b"c").result(5).offset == 1


@pytest.mark.parametrize("acks", ["all", 0])
def test_a_batch_that_cannot_be_made_holds_up_nothing_else(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
    acks: str | int,
) -> None:  # fmt: skip
    make = producer_loop.batch_bytes

    def stumble(batch: Batch, compression: Compression, **more: bool) -> bytes:
        if batch.values[:1] == [b"bad"]:
            raise RuntimeError("a defect of the encoder")
        return make(batch, compression, **more)

    monkeypatch.setattr(producer_loop, "batch_bytes", stumble)
    with producer(cluster, linger_ms=50, acks=acks) as p:
        bad, good = p.send("one", b"bad"), p.send("t", b"good", partition=1)
        p.flush(10)
        assert good.exception(0) is None
        if acks:
            with pytest.raises(errors.InvalidRecord, match="a defect of the encoder"):
                bad.result(0)
        p.send("one", b"next").result(10)
    assert "a defect of the encoder" in caplog.text
    assert [record.value for record in stored(cluster)] == [b"next"]


def test_tables_fit_into_a_small_buffer(cluster: FakeCluster) -> None:
    table = pa.table({"value": [b"%06d" % i + b"x" * 94 for i in range(5_000)]})
    with producer(cluster, buffer_memory=60_000) as p:
        p.send_arrow("one", table).result(10)
        p.send("one", b"after").result(5)
        with pytest.raises(errors.MessageTooLarge, match="buffer_memory is 60000"):
            p.send("one", b"x" * 60_000)
    values = [r.value for r in stored(cluster)]
    assert len(values) == 5_001
    assert [v[:6] for v in values[:5_000]] == [b"%06d" % i for i in range(5_000)]


def test_a_buffer_smaller_than_a_batch_works(cluster: FakeCluster) -> None:
    with producer(cluster, buffer_memory=2_000, linger_ms=1_000) as p:
        handles = [p.send("one", b"x" * 300) for _ in range(20)]
        p.flush(10)
        assert [h.result(0).offset for h in handles] == list(range(20))


def test_metrics_have_kafkas_names(cluster: FakeCluster) -> None:
    with producer(cluster, linger_ms=5, compression_type="lz4") as p:
        before = p.metrics()
        assert math.isnan(before["batch-size-avg"])
        assert before["buffer-available-bytes"] == before["buffer-total-bytes"] == 33_554_432
        for _ in range(500):
            p.send("one", b"x" * 100)
        p.flush(5)
        told = p.metrics()
        assert told["record-send-total"] == 500
        assert told["record-send-rate"] > 0
        assert 0 < told["compression-rate-avg"] < 0.5
        assert 0 < told["batch-size-avg"] <= told["batch-size-max"] < 16_384
        assert told["record-queue-time-avg"] >= 0
        assert told["request-latency-max"] >= told["request-latency-avg"] >= 0
        assert told["requests-in-flight"] == told["batches-incomplete"] == 0
        with pytest.raises(errors.SerializationFailed):
            p.send("one", 5)
        assert p.metrics()["record-error-total"] == 1
