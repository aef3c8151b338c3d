"""A sender in a world of its own: what the tests of the producer's core share."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from pylog import errors
from pylog.client.cluster.metadata import (
    Address,
    BrokerInfo,
    ClusterMetadata,
    ClusterSnapshot,
    PartitionInfo,
    TopicInfo,
)
from pylog.client.sending.accumulator import Accumulator, AccumulatorSettings
from pylog.client.sending.producer_batch import Batch
from pylog.client.sending.send_alone import SendAlone
from pylog.client.sending.send_events import (
    Ack,
    Effect,
    RequestProducerId,
    SendRequest,
)
from pylog.client.sending.send_settings import SenderSettings
from pylog.client.sending.sender import Sender
from pylog.client.sending.transactions import Transactions
from pylog.model import TopicPartition

T0, T1, T2 = (TopicPartition("t", p) for p in range(3))
OK = Ack(0, base_offset=0)


def refused(error: type[errors.PylogError], **more: int) -> Ack:
    return Ack(error.code, "by the test", **more)


def halves(batch: Batch, _size: int) -> list[Batch]:
    """A split of a batch that is never encoded."""
    parts = []
    for records in (batch.values[: batch.count // 2], batch.values[batch.count // 2 :]):
        part = Batch(batch.topic_partition, batch.created_ms, batch.delivery, 1_000)
        for value in records:
            part.add(value, None, None, 0, 10)
        part.close()
        parts.append(part)
    return parts


class World:
    """A sender with its accumulator and metadata, and a clock that the test turns."""

    def __init__(
        self,
        *,
        leaders: Sequence[int] = (1, 2, 1),
        settings: SenderSettings | None = None,
        producer_id: int | None = 7,
        linger_ms: int = 0,
        batch_max_size: int = 1_000,
        transactions: Transactions | None = None,
    ) -> None:
        self.now_ms = 1_000
        self.metadata = ClusterMetadata()
        self.lead(*leaders)
        numbers = itertools.count()
        self.accumulator = Accumulator(
            AccumulatorSettings(1_000, batch_max_size, linger_ms, 16 << 20),
            make_delivery=lambda: next(numbers),
            available=self.metadata.available,
            draw=lambda _n: 0,
        )
        self.accumulator.topic("t", 3)
        self.sender = Sender(
            settings or SenderSettings(),
            self.accumulator,
            self.metadata,
            lambda: 0.5,
            halves,
            transactions,
        )
        self.alone = SendAlone(self.sender.dispatcher)
        if producer_id is not None and transactions is None:
            assert self.poll() == ([RequestProducerId()] if self.idempotent else [])
            if self.idempotent:
                assert self.sender.on_producer_id(self.now_ms, producer_id, 0) == []

    @property
    def idempotent(self) -> bool:
        return self.sender.settings.idempotent

    def lead(self, *leaders: int, epoch: int = 0, topic_id: str = "id") -> None:
        brokers = (1, 2, 3)
        self.metadata.update(
            ClusterSnapshot(
                "c",
                1,
                tuple(BrokerInfo(b, Address("h", b)) for b in brokers),
                None,
                (TopicInfo("t", topic_id, False, tuple(PartitionInfo(n, epoch) for n in leaders)),),
            )
        )

    def add(self, tp: TopicPartition = T0, count: int = 1) -> Batch:
        """A closed batch of `count` records."""
        buffer = self.accumulator.topics["t"]
        self.accumulator.open_batch(self.now_ms, buffer, tp.partition, 10)
        batch = buffer.open[tp.partition]
        for _ in range(count):
            batch.add(b"v", None, None, self.now_ms, 10)
        self.accumulator.close_batch(buffer, tp.partition)
        return batch

    def poll(self, after_ms: int = 0) -> list[Effect]:
        self.now_ms += after_ms
        return self.sender.poll(self.now_ms)

    def acks(self, broker: int, correlation: int, *acks: Ack) -> list[Effect]:
        return self.sender.on_acks(self.now_ms, broker, [(correlation, acks)])


def sequences(effects: Sequence[Effect]) -> list[tuple[int, list[int]]]:
    return [
        (e.broker, [b.base_sequence for b in e.batches])
        for e in effects
        if isinstance(e, SendRequest)
    ]


def begun(settings: SenderSettings | None = None, **more: Any) -> World:
    """A world in which each partition's first batch is acknowledged: requests 1 to 3 are spent."""
    world = World(settings=settings, **more)
    for tp in (T0, T1, T2):
        world.add(tp)
        for effect in world.poll():
            if isinstance(effect, SendRequest) and world.sender.settings.acks != 0:
                world.acks(effect.broker, effect.correlation, *[OK] * len(effect.batches))
    return world


def opened(world: World) -> Batch:
    """An open batch of one record, as `send` leaves it."""
    buffer = world.accumulator.topics["t"]
    world.accumulator.open_batch(world.now_ms, buffer, 0, 10)
    batch = buffer.open[0]
    batch.add(b"v", None, None, world.now_ms, 10)
    return batch
