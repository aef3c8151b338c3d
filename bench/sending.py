"""The time of a producer: nanoseconds per record of each step from the user's call to gRPC, each by
itself, in one thread.

    .venv/bin/python -m bench.sending [bytes per value] [KiB per batch]

Processor time, best of five. All steps but the last run under Python's lock, so their sum bounds
one process; `python -m bench --only log` shows what is left with brokers on the same cores. A tiny
size runs as a test.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from pylog import Producer
from pylog.client.cluster.metadata import (
    Address,
    BrokerInfo,
    ClusterMetadata,
    ClusterSnapshot,
    PartitionInfo,
    TopicInfo,
)
from pylog.client.producer.delivery import Delivery
from pylog.client.producer.encoding import batch_bytes
from pylog.client.producer.produce_requests import OutgoingRequest, ProduceMessages
from pylog.client.sending.accumulator import Accumulator, AccumulatorSettings
from pylog.client.sending.producer_batch import RECORD_OVERHEAD, Batch
from pylog.client.sending.send_events import Ack, BatchDone, SendRequest
from pylog.client.sending.send_settings import SenderSettings
from pylog.client.sending.sender import Sender
from pylog.clock import wall_ns
from pylog.model import TopicPartition
from pylog.records import compiled
from pylog.records.compression import Compression
from pylog.rpc.produce_wire import Item

RUNS: Final = 5
NONE: Final = Compression.of("none")
PARTITIONS: Final = 4


def best(work: Callable[[], int]) -> float:
    """Nanoseconds of processor time per record; `work` returns how many records it did."""
    times = []
    for _ in range(RUNS):
        begin = time.thread_time_ns()
        records = work()
        times.append((time.thread_time_ns() - begin) / records)
    return min(times)


def call(size: int, count: int, **more: Any) -> Callable[[], int]:
    """`Producer.send`, into a batch that never fills."""
    producer = Producer(
        bootstrap_servers="127.0.0.1:1",
        batch_size=(1 << 31) - 1,
        max_request_size=(1 << 31) - 1,
        buffer_memory=1 << 40,
        linger_ms=3_600_000,
        delivery_timeout_ms=(1 << 31) - 1,
    )
    buffer = producer._accumulator.topic("topic", 1)
    producer._straight["topic"] = buffer
    value = b"x" * size

    def work() -> int:
        send = producer.send
        for _ in range(count):
            send("topic", value, **more)
        producer._accumulator.mark_all_due()
        for batch in list(producer._accumulator.incomplete):
            producer._accumulator.drop(batch)
            producer._accumulator.resolve(batch)
        return count

    return work


def filled(size: int, batch_bytes_max: int) -> Batch:
    """A closed batch, as `send` leaves it."""
    batch = Batch(TopicPartition("topic", 0), 0, Delivery(), batch_bytes_max)
    value = b"x" * size
    while not batch.values or batch.room >= size + RECORD_OVERHEAD:
        batch.add(value, None, None, wall_ns(), size + RECORD_OVERHEAD)
    batch.close()
    return batch


def encoding(size: int, batch_bytes_max: int, count: int) -> Callable[[], int]:
    """Closed batches become bytes."""
    compiled.load()
    batch = filled(size, batch_bytes_max)
    times = max(1, count // batch.count)

    def work() -> int:
        for _ in range(times):
            batch.encoded = None
            values = batch.values
            batch_bytes(batch, NONE)
            batch.values = values
        return times * batch.count

    return work


def messages(size: int, batch_bytes_max: int, count: int) -> Callable[[], int]:
    """Encoded batches become messages."""
    batch = filled(size, batch_bytes_max)
    data = batch_bytes(batch, NONE)
    maker = ProduceMessages(-1, 30_000, "")
    encoded = [Item("topic", "id", n, data) for n in range(PARTITIONS)]
    times = max(1, count // (batch.count * PARTITIONS))

    def work() -> int:
        for number in range(times):
            request = OutgoingRequest(number, encoded, len(data) * PARTITIONS)
            maker.pack(deque([request]))
        return times * batch.count * PARTITIONS

    return work


def deciding(size: int, batch_bytes_max: int, count: int) -> Callable[[], int]:
    """The pure cores: a batch opened, closed, sequenced, sent, acknowledged."""
    metadata = ClusterMetadata()
    leaders = tuple(PartitionInfo(1, 0) for _ in range(PARTITIONS))
    metadata.update(
        ClusterSnapshot(
            "c",
            1,
            (BrokerInfo(1, Address("h", 1)),),
            None,
            (TopicInfo("topic", "id", False, leaders),),
        )
    )
    accumulator = Accumulator(
        AccumulatorSettings(batch_bytes_max, batch_bytes_max, 5, 1 << 30),
        make_delivery=Delivery,
        available=metadata.available,
        draw=lambda _n: 0,
    )
    buffer = accumulator.topic("topic", PARTITIONS)
    sender = Sender(SenderSettings(), accumulator, metadata, lambda: 0.5, lambda _b, _s: [])
    sender.on_producer_id(0, 1, 0)
    each = max(1, batch_bytes_max // (size + RECORD_OVERHEAD))
    rounds = max(1, count // (each * PARTITIONS))

    def work() -> int:
        for _ in range(rounds):
            for partition in range(PARTITIONS):
                accumulator.open_batch(0, buffer, partition, size)
                accumulator.close_batch(buffer, partition)
            requests = [e for e in sender.poll(0) if isinstance(e, SendRequest)]
            answers = [(r.correlation, [Ack(0)] * len(r.batches)) for r in requests]
            for effect in sender.on_acks(0, 1, answers):
                if isinstance(effect, BatchDone):
                    batch = effect.batch
                    batch.delivery.succeed(batch.topic_partition, 0, -1, batch.times)
        return rounds * PARTITIONS * each

    return work


def main(size: int = 100, batch_kib: int = 16, count: int = 200_000) -> None:
    """Print every step."""
    limit = batch_kib * 1024
    sys.stdout.write(f"ns per record of {size} bytes, batches of {batch_kib} KiB\n")
    steps: dict[str, Callable[[], int]] = {
        "send(topic, value)": call(size, count),
        "send(topic, value, key=...)": call(size, count, key=b"key"),
        "send(topic, value, on_delivery=...)": call(size, count, on_delivery=lambda _m, _e: None),
        "batch decided on, sent, acknowledged": deciding(size, limit, count),
        "batch encoded": encoding(size, limit, count),
        "message made of batches": messages(size, limit, count),
    }
    for name, work in steps.items():
        sys.stdout.write(f"{name:<40} {best(work):>8,.0f}\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
