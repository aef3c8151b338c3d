"""Produce, consume and end-to-end latency of real broker processes on this machine."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from bench.measure import stopwatch
from pylog import AdminClient, Consumer, LocalCluster, NewTopic, Producer, TopicPartition

PARTITIONS = 4


@contextmanager
def cluster(brokers: int) -> Iterator[LocalCluster]:
    """A LocalCluster whose topics need two in-sync replicas where there are three."""
    with LocalCluster(brokers=brokers) as running:
        yield running


def fresh_topic(running: LocalCluster, name: str, partitions: int = PARTITIONS) -> str:
    """A new topic with as many replicas as there are brokers."""
    replicas = len(running.brokers)
    with AdminClient(bootstrap_servers=running.bootstrap_servers) as admin:
        config = {"min.insync.replicas": str(min(2, replicas))}
        admin.create_topics([NewTopic(name, partitions, replicas, config=config)])
    return name


@contextmanager
def _sending(running: LocalCluster, topic: str) -> Iterator[Producer]:
    """A producer that has sent its first record."""
    with Producer(bootstrap_servers=running.bootstrap_servers) as producer:
        producer.send(topic, b"x").result(10)
        yield producer


def produce(running: LocalCluster, topic: str, count: int, size: int) -> float:
    """Records a second of `Producer.send`, acks=all, until the last acknowledgement."""
    value = b"x" * size
    with _sending(running, topic) as producer, stopwatch() as elapsed:
        for _ in range(count):
            producer.send(topic, value)
        producer.flush()
        return count / elapsed()


def produce_keyed(running: LocalCluster, topic: str, count: int, size: int) -> float:
    """As `produce`, each record with one of a thousand keys."""
    value = b"x" * size
    keys = [b"user-%d" % number for number in range(1_000)]
    with _sending(running, topic) as producer, stopwatch() as elapsed:
        for number in range(count):
            producer.send(topic, value, keys[number % 1_000])
        producer.flush()
        return count / elapsed()


def produce_told(running: LocalCluster, topic: str, count: int, size: int) -> float:
    """As `produce`, each record's outcome told to a callback."""
    value = b"x" * size
    done = 0

    def told(_: object, error: object) -> None:
        nonlocal done
        assert error is None, error
        done += 1

    with _sending(running, topic) as producer, stopwatch() as elapsed:
        for _ in range(count):
            producer.send(topic, value, on_delivery=told)
        producer.flush()
        seconds = elapsed()
    assert done == count
    return count / seconds


def produce_arrow(running: LocalCluster, topic: str, count: int, size: int, **how: Any) -> float:
    """Records a second of `Producer.send_arrow`, in chunks of 50,000."""
    chunk = min(count, 50_000)
    data = pa.record_batch({"value": pa.array([b"x" * size] * chunk, pa.binary())})
    with Producer(bootstrap_servers=running.bootstrap_servers, **how) as producer:
        producer.send(topic, b"x").result(10)
        with stopwatch() as elapsed:
            futures = [producer.send_arrow(topic, data) for _ in range(count // chunk)]
            for future in futures:
                future.result(60)
            return count // chunk * chunk / elapsed()


def consume_arrow(running: LocalCluster, topic: str, **how: Any) -> float:
    """Records a second of `poll_arrow`, from the beginning to the end."""
    with _at_the_start(running, topic, **how) as (consumer, total), stopwatch() as elapsed:
        read = 0
        while read < total:
            read += consumer.poll_arrow(5).num_rows
        return total / elapsed()


def consume_records(running: LocalCluster, topic: str) -> float:
    """Records a second of iterating over polled records and touching each value."""
    with _at_the_start(running, topic) as (consumer, total), stopwatch() as elapsed:
        read = size = 0
        while read < total:
            for record in consumer.poll(5):
                size += len(record.value)
                read += 1
        return total / elapsed()


@contextmanager
def _at_the_start(running: LocalCluster, topic: str, **how: Any) -> Iterator[tuple[Consumer, int]]:
    with Consumer(bootstrap_servers=running.bootstrap_servers, **how) as consumer:
        partitions = [TopicPartition(topic, n) for n in range(PARTITIONS)]
        total = sum(consumer.end_offsets(partitions).values())
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        yield consumer, total


def end_to_end(
    running: LocalCluster, topic: str, count: int, rate: int = 1_000, **how: Any
) -> list[float]:
    """Milliseconds from `send` to the record in a consumer's hands, linger 0, `rate` a second;
    `how`: settings of both clients.
    """
    latencies: list[float] = []
    with (
        Producer(bootstrap_servers=running.bootstrap_servers, linger_ms=0, **how) as producer,
        Consumer(
            bootstrap_servers=running.bootstrap_servers, fetch_max_wait_ms=500, **how
        ) as consumer,
    ):
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek_to_beginning()
        producer.send(topic, b"0" * 20, partition=0).result(10)
        consumer.poll(5)

        def send(value: bytes) -> None:
            producer.send(topic, value, partition=0)

        sender = threading.Thread(target=paced, args=(send, count, rate))
        sender.start()
        while len(latencies) < count:
            latencies.extend(
                (time.perf_counter_ns() - int(record.value)) / 1e6 for record in consumer.poll(5)
            )
        sender.join()
    return latencies


def percentile(values: list[float], share: float) -> float:
    """The value below which `share` (0 to 1) of the values lie."""
    return statistics.quantiles(values, n=1000)[min(998, int(share * 1000) - 1)]


def paced(send: Callable[[bytes], None], count: int, rate: int) -> None:
    """Calls `send` `rate` times a second with the time, in ns, at which it does."""
    started = time.perf_counter()
    for number in range(count):
        wait = started + number / rate - time.perf_counter()
        if wait > 0:
            time.sleep(wait)  # noqa: TID251 - the pace is what is asked for
        send(b"%d" % time.perf_counter_ns())
