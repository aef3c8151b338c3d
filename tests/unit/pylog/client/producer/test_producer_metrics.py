from __future__ import annotations

import math

from pylog.client.producer.producer_metrics import ProducerMetrics
from pylog.client.sending.producer_batch import Batch
from pylog.model import TopicPartition


def batch(count: int, created_ms: int, attempts: int = 1) -> Batch:
    made = Batch(TopicPartition("t", 0), created_ms, None, 1_000)
    for _ in range(count):
        made.add(b"v", None, None, 0, 10)
    made.close()
    made.attempts = attempts
    return made


def test_rates_and_averages_forget_what_is_older_than_two_windows() -> None:
    metrics = ProducerMetrics(0)
    metrics.batch_sent(10_000, batch(30, 9_990), 900, 0)
    assert metrics.read(10_000)["record-send-rate"] == 3.0
    metrics.batch_sent(31_000, batch(10, 31_000), 100, 0)
    told = metrics.read(31_000)
    assert (told["batch-size-avg"], told["batch-size-max"]) == (500, 900)
    told = metrics.read(75_000)
    assert (told["batch-size-avg"], told["record-queue-time-max"]) == (100, 0)
    told = metrics.read(99_000)
    assert math.isnan(told["batch-size-avg"])
    assert told["record-send-rate"] == 0.0


def test_what_is_counted() -> None:
    metrics = ProducerMetrics(0)
    sent = batch(5, 100)
    metrics.batch_sent(104, sent, 400, 0)
    metrics.request_sent(104, 1, 7, 400)
    metrics.request_answered(110, 1, 7)
    metrics.request_answered(110, 1, 7)  # twice, or never asked: not counted
    metrics.batch_done(sent)
    metrics.batch_sent(1_000, batch(2, 900, attempts=2), 200, 0)
    metrics.batch_sent(1_000, batch(2, 900), 300, 600)
    metrics.records_failed(1)
    metrics.record_refused()
    metrics.batch_split()
    metrics.waited_for_room(40, in_vain=True)
    read = metrics.read(2_000)
    assert read["record-send-total"] == 5
    assert read["record-retry-total"] == 2
    assert read["record-error-total"] == 2
    assert read["batch-split-total"] == 1
    assert (read["batch-size-avg"], read["batch-size-max"]) == (350, 400)
    assert (read["record-queue-time-avg"], read["record-queue-time-max"]) == (52, 100)
    assert read["request-latency-avg"] == 6
    assert read["compression-rate-avg"] == 0.75
    assert read["record-send-rate"] == 3.5
    assert read["record-size-avg"] == (400 + 600) / 7
    assert read["records-per-request-avg"] == 7
    assert (read["bufferpool-wait-time-ms-total"], read["buffer-exhausted-total"]) == (40, 1)


def test_requests_of_a_broken_stream_are_forgotten() -> None:
    metrics = ProducerMetrics(0)
    metrics.request_sent(0, 1, 1, 10)
    metrics.disconnected(1)
    metrics.request_answered(5, 1, 1)
    assert math.isnan(metrics.read(5)["request-latency-avg"])
