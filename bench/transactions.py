"""The cost of transactions: for pylog, and for Kafka by confluent-kafka.

`__transaction_state` is in place on both sides; acks=all, and no time is spent on lingering.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol

from bench import cluster, kafka_peer
from bench.measure import median, stopwatch
from pylog import Consumer, LocalCluster, Producer, TopicPartition

INITS: Final = 5
SINGLES: Final = 100
SMALL: Final = 60
LARGE: Final = 30
COPIES: Final = 30
COPIED: Final = 200
"""Records a transaction that reads, transforms and writes."""
HUGE: Final = 10_000
HUGES: Final = 5
READS: Final = 40
"""Transactions of 10,000 records, for readers."""
VALUE: Final = b"x" * 100
PATIENCE_S: Final = 30.0


class Writer(Protocol):
    """A producer whose transactional id is begun."""

    def begin(self) -> None:
        """Open a transaction."""

    def send(self, topic: str, count: int) -> None:
        """So many records, over all partitions in turn."""

    def commit(self) -> None:
        """Until the decision is committed."""

    def close(self) -> None:
        """End it."""


class Reader(Protocol):
    """The only member of a group, which reads what is committed."""

    def take(self, count: int) -> None:
        """Until so many records have come."""

    def commit_with(self, writer: Writer) -> None:
        """The positions, with the writer's transaction."""

    def close(self) -> None:
        """Leave."""


class Side(Protocol):
    """One system: its cluster, its client."""

    def topic(self) -> str:
        """A fresh one."""

    def writer(self) -> Writer:
        """A producer with a new transactional id."""

    def fill(self, topic: str, count: int) -> None:
        """So many records, outside of transactions."""

    def reader(self, topic: str) -> Reader:
        """A member of a new group, at the first record."""

    def plain(self, topic: str, count: int) -> float:
        """Records a second outside of transactions, until the last acknowledgement."""

    def read(self, topic: str, count: int, isolation: str) -> float:
        """Records a second, until so many have come."""


# ---- pylog --------------------------------------------------------------------------------------

_NAMES = itertools.count()


def _fresh_name() -> str:
    return f"bench-{os.getpid()}-{next(_NAMES)}"


@dataclass(frozen=True, slots=True)
class _OurWriter:
    producer: Producer

    def begin(self) -> None:
        self.producer.begin_transaction()

    def send(self, topic: str, count: int) -> None:
        send = self.producer.send
        for number in range(count):
            send(topic, VALUE, partition=number % cluster.PARTITIONS)

    def commit(self) -> None:
        self.producer.commit_transaction()

    def close(self) -> None:
        self.producer.close()


@dataclass(frozen=True, slots=True)
class _OurReader:
    consumer: Consumer

    def take(self, count: int) -> None:
        read = 0
        while read < count:
            read += len(self.consumer.poll(1.0))

    def commit_with(self, writer: Writer) -> None:
        assert isinstance(writer, _OurWriter)
        consumer = self.consumer
        positions = {each: consumer.position(each) for each in consumer.assignment()}
        writer.producer.send_offsets_to_transaction(positions, consumer.group_metadata())

    def close(self) -> None:
        self.consumer.close()


@dataclass(frozen=True, slots=True)
class Ours:
    """A `Side`."""

    running: LocalCluster

    def topic(self) -> str:
        return cluster.fresh_topic(self.running, _fresh_name())

    def writer(self) -> _OurWriter:
        producer = Producer(
            bootstrap_servers=self.running.bootstrap_servers, transactional_id=_fresh_name()
        )
        producer.init_transactions()
        return _OurWriter(producer)

    def fill(self, topic: str, count: int) -> None:
        self.plain(topic, count)

    def reader(self, topic: str) -> _OurReader:
        consumer = Consumer(
            bootstrap_servers=self.running.bootstrap_servers,
            group_id=_fresh_name(),
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
            max_poll_records=COPIED,
        )
        consumer.subscribe(topic)
        return _OurReader(consumer)

    def plain(self, topic: str, count: int) -> float:
        with Producer(bootstrap_servers=self.running.bootstrap_servers) as producer:
            writer = _OurWriter(producer)
            writer.send(topic, cluster.PARTITIONS)
            producer.flush()
            with stopwatch() as elapsed:
                writer.send(topic, count)
                producer.flush()
                return count / elapsed()

    def read(self, topic: str, count: int, isolation: str) -> float:
        with Consumer(
            bootstrap_servers=self.running.bootstrap_servers, isolation_level=isolation
        ) as consumer:
            partitions = [TopicPartition(topic, n) for n in range(cluster.PARTITIONS)]
            consumer.assign(partitions)
            consumer.seek_to_beginning(*partitions)
            consumer.end_offsets(partitions)
            with stopwatch() as elapsed:
                read = 0
                while read < count:
                    read += len(consumer.poll(5))
                return count / elapsed()


# ---- Kafka and confluent-kafka -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _TheirWriter:
    producer: Any

    def begin(self) -> None:
        self.producer.begin_transaction()

    def send(self, topic: str, count: int) -> None:
        produce, poll = self.producer.produce, self.producer.poll
        for number in range(count):
            produce(topic, VALUE, partition=number % cluster.PARTITIONS)
            if number % 1_000 == 0:
                poll(0)

    def commit(self) -> None:
        self.producer.commit_transaction(PATIENCE_S)

    def close(self) -> None:
        assert self.producer.flush(PATIENCE_S) == 0


@dataclass(frozen=True, slots=True)
class _TheirReader:
    consumer: Any

    def take(self, count: int) -> None:
        read = 0
        while read < count:
            read += len(self.consumer.consume(count - read, timeout=1.0))

    def commit_with(self, writer: Writer) -> None:
        assert isinstance(writer, _TheirWriter)
        consumer = self.consumer
        positions = consumer.position(consumer.assignment())
        writer.producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata())

    def close(self) -> None:
        self.consumer.close()


@dataclass(frozen=True, slots=True)
class Theirs:
    """A `Side`."""

    running: kafka_peer.KafkaCluster

    def topic(self) -> str:
        return self.running.fresh_topic(_fresh_name())

    def _producer(self, **config: Any) -> Any:
        from confluent_kafka import Producer as ConfluentProducer

        return ConfluentProducer(
            {
                "bootstrap.servers": self.running.bootstrap_servers,
                "acks": "all",
                "enable.idempotence": True,
                "log_level": 3,
                "socket.nagle.disable": True,
                **kafka_peer.WRITING,
                "linger.ms": 0,
                **config,
            }
        )

    def writer(self) -> _TheirWriter:
        producer = self._producer(**{"transactional.id": _fresh_name()})
        producer.init_transactions(PATIENCE_S)
        return _TheirWriter(producer)

    def fill(self, topic: str, count: int) -> None:
        kafka_peer.fill(self.running, topic, count // cluster.PARTITIONS)

    def _consumer(self, isolation: str) -> Any:
        from confluent_kafka import Consumer as ConfluentConsumer

        return ConfluentConsumer(
            {
                "bootstrap.servers": self.running.bootstrap_servers,
                "group.id": _fresh_name(),
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "socket.nagle.disable": True,
                "isolation.level": isolation,
                "log_level": 3,
            }
        )

    def reader(self, topic: str) -> _TheirReader:
        consumer = self._consumer("read_committed")
        consumer.subscribe([topic])
        return _TheirReader(consumer)

    def plain(self, topic: str, count: int) -> float:
        writer = _TheirWriter(self._producer(**{"linger.ms": 5}))
        writer.send(topic, cluster.PARTITIONS)
        writer.close()
        with stopwatch() as elapsed:
            writer.send(topic, count)
            writer.close()
            return count / elapsed()

    def read(self, topic: str, count: int, isolation: str) -> float:
        from confluent_kafka import OFFSET_BEGINNING
        from confluent_kafka import TopicPartition as Position

        consumer = self._consumer(isolation)
        try:
            partitions = [Position(topic, n, OFFSET_BEGINNING) for n in range(cluster.PARTITIONS)]
            for each in partitions:
                consumer.get_watermark_offsets(each, timeout=10)
            with stopwatch() as elapsed:
                consumer.assign(partitions)
                read = 0
                while read < count:
                    read += len(consumer.consume(1_000, timeout=5))
                return count / elapsed()
        finally:
            consumer.close()


# ---- scenarios ----------------------------------------------------------------------------------


@contextlib.contextmanager
def _writing(side: Side) -> Iterator[tuple[Writer, str]]:
    """A writer, and a topic to which it has written once."""
    topic, writer = side.topic(), side.writer()
    try:
        _written(writer, topic, cluster.PARTITIONS)
        yield writer, topic
    finally:
        writer.close()


def _written(writer: Writer, topic: str, count: int) -> float:
    """Seconds of a transaction of so many records."""
    with stopwatch() as elapsed:
        writer.begin()
        writer.send(topic, count)
        writer.commit()
        return elapsed()


def init_ms(side: Side, times: int) -> float:
    """Milliseconds until a producer with a new transactional id may begin, p50."""
    taken = []
    for _ in range(times):
        with stopwatch() as elapsed:
            writer = side.writer()
            taken.append(elapsed())
        writer.close()
    return statistics.median(taken) * 1_000


def transaction_ms(side: Side, records: int, times: int) -> float:
    """Milliseconds of a transaction of so many records, one behind the other, p50."""
    with _writing(side) as (writer, topic):
        return statistics.median(_written(writer, topic, records) for _ in range(times)) * 1_000


def records_a_second(side: Side, records: int, times: int) -> float:
    """Records a second in transactions of so many, one behind the other."""
    with _writing(side) as (writer, topic), stopwatch() as elapsed:
        for _ in range(times):
            _written(writer, topic, records)
        return records * times / elapsed()


def copy_ms(side: Side, times: int) -> float:
    """Milliseconds of a transaction that reads 200 records, writes 200 and commits where it has
    read to, p50.
    """
    source = side.topic()
    side.fill(source, 2 * COPIED * (times + 1))  # a poll may bring more than is needed
    reader = side.reader(source)
    try:
        with _writing(side) as (writer, topic):
            taken = []
            for _ in range(times + 1):
                with stopwatch() as elapsed:
                    reader.take(COPIED)
                    writer.begin()
                    writer.send(topic, COPIED)
                    reader.commit_with(writer)
                    writer.commit()
                    taken.append(elapsed())
    finally:
        reader.close()
    return statistics.median(taken[1:]) * 1_000  # in the first one the group forms


def share_of_plain(side: Side, times: int) -> float:
    """Records a second in transactions of 10,000, of those of plain `send` in flushes of 10,000."""
    plain = statistics.median(side.plain(side.topic(), HUGE) for _ in range(times))
    return records_a_second(side, HUGE, times) / plain


def committed_share(side: Side, times: int) -> float:
    """Records a second of committed readers, of those of others; in transactions of 10,000."""
    with _writing(side) as (writer, topic):
        for _ in range(times):
            _written(writer, topic, HUGE)
    speeds: dict[str, list[float]] = {"read_uncommitted": [], "read_committed": []}
    for _ in range(3):
        for isolation, values in speeds.items():
            values.append(side.read(topic, times * HUGE, isolation))
    committed, all_of_it = map(statistics.median, reversed(speeds.values()))
    return committed / all_of_it


Row = tuple[str, str, Callable[[Side], float]]
"""Name, unit, one run."""


def rows(scale: float) -> list[Row]:
    """The measurements of a side."""

    def times(full: int) -> int:
        return max(2, int(full * min(scale, 1)))

    return [
        ("init_transactions p50, ms", "ms", partial(init_ms, times=times(INITS))),
        ("1 record p50, ms", "ms", partial(transaction_ms, records=1, times=times(SINGLES))),
        ("100 records p50, ms", "ms", partial(transaction_ms, records=100, times=times(SMALL))),
        ("1,000 records", "rec/s", partial(records_a_second, records=1_000, times=times(LARGE))),
        ("copy of 200 records p50, ms", "ms", partial(copy_ms, times=times(COPIES))),
        ("10,000 records, of plain send", "", partial(share_of_plain, times=times(HUGES))),
        ("read_committed, of read_uncommitted", "", partial(committed_share, times=times(READS))),
    ]


def transaction_rows(running: LocalCluster, label: str, scale: float, runs: int) -> None:
    """The rows of pylog alone."""
    side = Ours(running)
    side.writer().close()
    for name, unit, run in rows(scale):
        median(f"{label}: {name}", unit, lambda run=run: run(side), runs=runs)  # type: ignore[misc]
