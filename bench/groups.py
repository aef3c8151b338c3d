"""The time in which groups settle, and their costs for readers: for pylog, and for Kafka by
confluent-kafka.

Internal topics are in place and the initial delay is 0 on both sides.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol

from bench import cluster, kafka_peer
from bench.measure import alternating, median, stopwatch
from pylog import Consumer, LocalCluster, Producer, TopicPartition

SETTLE_S: Final = 30.0
COMMITS: Final = 300
ASYNC_COMMITS: Final = 2_000
PACE: Final = 400
"""Records a second into all partitions, while a member comes."""
PROTOCOLS: Final = ("consumer", "classic")


class Member(Protocol):
    """A consumer in a group."""

    def poll(self, seconds: float) -> int:
        """Records that came."""

    def partitions(self) -> int:
        """The number of partitions that the member has."""

    def commit(self, offset: int) -> None:
        """A position of partition 0, and wait for it."""

    def commit_all(self, count: int) -> None:
        """So many asynchronous commits, each told to a callback."""

    def close(self) -> None:
        """Leave."""


class Side(Protocol):
    """One system: its cluster, its client."""

    def topic(self) -> str:
        """A fresh one with a record in each partition."""

    def member(self, topic: str, group: str, protocol: str) -> Member:
        """A consumer that has subscribed and has not polled."""

    def sender(self, topic: str) -> contextlib.AbstractContextManager[Callable[[int], None]]:
        """A function that sends a record, of that number."""


# ---- pylog --------------------------------------------------------------------------------------


@dataclass(slots=True)
class _OurMember:
    consumer: Consumer
    topic: str

    def poll(self, seconds: float) -> int:
        return len(self.consumer.poll(seconds))

    def partitions(self) -> int:
        return len(self.consumer.assignment())

    def commit(self, offset: int) -> None:
        self.consumer.commit({TopicPartition(self.topic, 0): offset})

    def commit_all(self, count: int) -> None:
        told: list[object] = []
        for number in range(count):
            self.consumer.commit_async(
                {TopicPartition(self.topic, 0): number}, lambda _, error: told.append(error)
            )
        while len(told) < count:
            self.consumer.poll(0.001)
        assert not any(told), told[0]

    def close(self) -> None:
        self.consumer.close()


@dataclass(frozen=True, slots=True)
class Ours:
    """A `Side`."""

    running: LocalCluster
    names: itertools.count[int]

    def topic(self) -> str:
        name = cluster.fresh_topic(self.running, f"groups-{next(self.names)}")
        with Producer(bootstrap_servers=self.running.bootstrap_servers) as producer:
            for number in range(cluster.PARTITIONS):
                producer.send(name, b"x", partition=number)
        return name

    def member(self, topic: str, group: str, protocol: str) -> _OurMember:
        consumer = Consumer(
            bootstrap_servers=self.running.bootstrap_servers,
            group_id=group,
            group_protocol=protocol,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        consumer.subscribe(topic)
        return _OurMember(consumer, topic)

    @contextlib.contextmanager
    def sender(self, topic: str) -> Iterator[Callable[[int], None]]:
        servers = self.running.bootstrap_servers
        with Producer(bootstrap_servers=servers, linger_ms=0) as producer:
            yield lambda n: producer.send(topic, b"x", partition=n % cluster.PARTITIONS) and None


# ---- Kafka and confluent-kafka -------------------------------------------------------------------


@dataclass(slots=True)
class _TheirMember:
    consumer: Any
    topic: str
    told: list[object]

    def poll(self, seconds: float) -> int:
        message = self.consumer.poll(seconds)
        return int(message is not None and message.error() is None)

    def partitions(self) -> int:
        return len(self.consumer.assignment())

    def _position(self, offset: int) -> list[Any]:
        from confluent_kafka import TopicPartition as Position

        return [Position(self.topic, 0, offset)]

    def commit(self, offset: int) -> None:
        self.consumer.commit(offsets=self._position(offset), asynchronous=False)

    def commit_all(self, count: int) -> None:
        self.told.clear()
        for number in range(count):
            self.consumer.commit(offsets=self._position(number), asynchronous=True)
        while len(self.told) < count:
            self.consumer.poll(0.001)
        assert not any(self.told), self.told[0]

    def close(self) -> None:
        self.consumer.close()


@dataclass(frozen=True, slots=True)
class Theirs:
    """A `Side`."""

    running: kafka_peer.KafkaCluster
    names: itertools.count[int]

    def topic(self) -> str:
        name = self.running.fresh_topic(f"groups-{next(self.names)}")
        kafka_peer.fill(self.running, name, 1)
        return name

    def member(self, topic: str, group: str, protocol: str) -> _TheirMember:
        from confluent_kafka import Consumer as ConfluentConsumer

        told: list[object] = []
        consumer = ConfluentConsumer(
            {
                "bootstrap.servers": self.running.bootstrap_servers,
                "group.id": group,
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "socket.nagle.disable": True,
                "log_level": 3,
                "on_commit": lambda error, _: told.append(error),
            }
        )
        consumer.subscribe([topic])
        return _TheirMember(consumer, topic, told)

    @contextlib.contextmanager
    def sender(self, topic: str) -> Iterator[Callable[[int], None]]:
        from confluent_kafka import Producer as ConfluentProducer

        producer = ConfluentProducer(
            {"bootstrap.servers": self.running.bootstrap_servers, "linger.ms": 0, "acks": "all"}
        )

        def send(number: int) -> None:
            producer.produce(topic, b"x", partition=number % cluster.PARTITIONS)
            producer.poll(0)

        yield send
        producer.flush(10)


# ---- scenarios ----------------------------------------------------------------------------------

_GROUPS = itertools.count()


def _fresh_group() -> str:
    return f"group-{os.getpid()}-{next(_GROUPS)}"


def _until(happened: Callable[[], bool], step: Callable[[], object]) -> None:
    with stopwatch() as elapsed:
        while not happened():
            step()
            if elapsed() > SETTLE_S:
                raise RuntimeError(f"a group did not settle within {SETTLE_S} s")


def first_record(side: Side, protocol: str) -> float:
    """Seconds from `subscribe` to the first record of a new group."""
    topic = side.topic()
    with stopwatch() as elapsed:
        member = side.member(topic, _fresh_group(), protocol)
        _until(lambda: member.poll(0.1) > 0, lambda: None)
        seconds = elapsed()
    member.close()
    return seconds


@dataclass(frozen=True, slots=True)
class Joined:
    """The arrival of a second member, in seconds."""

    settled: float
    """Until both had their half."""
    gap: float
    """The longest time in which the first one got nothing, though records came all the time."""
    closed: float
    """The time that the second one's `close` took."""


def second_member(side: Side, protocol: str) -> Joined:
    """A second member joins a group whose records never stop."""
    topic, group = side.topic(), _fresh_group()
    first = side.member(topic, group, protocol)
    _until(lambda: first.partitions() == cluster.PARTITIONS, lambda: first.poll(0.01))
    over = threading.Event()
    has: dict[str, int] = {}
    gaps: list[float] = []

    def read() -> None:
        last = time.perf_counter()
        while not over.is_set():
            if first.poll(0.01):
                now = time.perf_counter()
                gaps.append(now - last)
                last = now
            has["first"] = first.partitions()
        gaps.append(time.perf_counter() - last)

    def send(numbers: Iterator[int], record: Callable[[int], None]) -> None:
        while not over.is_set():
            cluster.paced(lambda _: record(next(numbers)), PACE // 10, PACE)

    with side.sender(topic) as record:
        sender = threading.Thread(target=send, args=(itertools.count(), record))
        sender.start()
        _until(lambda: first.poll(0.1) > 0, lambda: None)
        reader = threading.Thread(target=read)
        reader.start()
        half = cluster.PARTITIONS // 2
        try:
            with stopwatch() as elapsed:
                second = side.member(topic, group, protocol)
                _until(
                    lambda: has.get("first") == half and second.partitions() == half,
                    lambda: second.poll(0.01),
                )
                settled = elapsed()
        finally:
            over.set()
            reader.join()
            sender.join()
    with stopwatch() as elapsed:
        second.close()
        closed = elapsed()
    first.close()
    return Joined(settled, max(gaps), closed)


def commit_ms(side: Side) -> float:
    """Milliseconds of a synchronous commit, p50."""
    with _with_all(side, side.topic()) as member:
        taken = []
        for number in range(COMMITS):
            with stopwatch() as elapsed:
                member.commit(number)
                taken.append(elapsed())
    return statistics.median(taken) * 1_000


def async_commits(side: Side) -> float:
    """Asynchronous commits a second, all answered."""
    with _with_all(side, side.topic()) as member, stopwatch() as elapsed:
        member.commit_all(ASYNC_COMMITS)
        return ASYNC_COMMITS / elapsed()


@contextlib.contextmanager
def _with_all(side: Side, topic: str) -> Iterator[Member]:
    """The only member of a new group."""
    member = side.member(topic, _fresh_group(), "consumer")
    _until(lambda: member.partitions() == cluster.PARTITIONS, lambda: member.poll(0.01))
    try:
        yield member
    finally:
        member.close()


# ---- pylog alone --------------------------------------------------------------------------------


def _reading_rows(running: LocalCluster, scale: float, runs: int) -> None:
    """The same topic, by hand and in a group: the cost of a group to its readers."""
    count = max(2_000, int(2_000_000 * scale))
    full = cluster.fresh_topic(running, "in-a-group")
    cluster.produce_arrow(running, full, count, 100)
    alternating(
        "rec/s",
        {
            "poll_arrow, assigned by hand": lambda: cluster.consume_arrow(running, full),
            "poll_arrow, in a group": lambda: _read_in_group(running, full, _columns),
            "iteration, assigned by hand": lambda: cluster.consume_records(running, full),
            "iteration, in a group": lambda: _read_in_group(running, full, _records),
        },
        runs=runs,
    )


def _columns(consumer: Consumer) -> int:
    return consumer.poll_arrow(5).num_rows


def _records(consumer: Consumer) -> int:
    read = size = 0
    for record in consumer.poll(5):
        size += len(record.value)
        read += 1
    return read


def _read_in_group(running: LocalCluster, topic: str, poll: Callable[[Consumer], int]) -> float:
    """Records a second from the group's first position to the end."""
    partitions = [TopicPartition(topic, n) for n in range(cluster.PARTITIONS)]
    with Consumer(
        bootstrap_servers=running.bootstrap_servers,
        group_id=_fresh_group(),
        auto_offset_reset="latest",
    ) as consumer:
        total = sum(consumer.end_offsets(partitions).values())
        consumer.subscribe(topic)
        _until(
            lambda: len(consumer.assignment()) == cluster.PARTITIONS, lambda: consumer.poll(0.01)
        )
        consumer.seek_to_beginning()
        with stopwatch() as elapsed:
            read = 0
            while read < total:
                read += poll(consumer)
            return total / elapsed()


def _idle_group_rows(running: LocalCluster, scale: float, runs: int) -> None:
    """Writing and reading with and without a group that has nothing to do."""
    count = max(2_000, int(1_000_000 * scale))
    names = itertools.count()
    quiet = cluster.fresh_topic(running, "quiet")

    def write() -> float:
        topic = cluster.fresh_topic(running, f"beside-{next(names)}")
        return cluster.produce(running, topic, count, 100)

    def beside(run: Callable[[], float]) -> float:
        side = Ours(running, names)
        over = threading.Event()
        with _with_all(side, quiet) as member:

            def idle() -> None:
                while not over.is_set():
                    member.poll(1.0)

            thread = threading.Thread(target=idle)
            thread.start()
            try:
                return run()
            finally:
                over.set()
                thread.join()

    full = cluster.fresh_topic(running, "beside-a-group")
    cluster.produce_arrow(running, full, count, 100)

    def read() -> float:
        return cluster.consume_arrow(running, full)

    alternating(
        "rec/s",
        {
            "send, no group": write,
            "send, beside an idle group": lambda: beside(write),
            "poll_arrow, no group": read,
            "poll_arrow, beside an idle group": lambda: beside(read),
        },
        runs=runs,
    )


Row = tuple[str, str, Callable[[Side], float]]
"""Name, unit, one run."""


def rows() -> list[Row]:
    """The measurements of a side."""
    made: list[Row] = []
    for protocol in PROTOCOLS:
        joined = partial(second_member, protocol=protocol)
        made += [
            (f"first record, {protocol}, s", "s", partial(first_record, protocol=protocol)),
            (f"second member settled, {protocol}, s", "s", lambda s, j=joined: j(s).settled),
            (f"longest gap of the first, {protocol}, s", "s", lambda s, j=joined: j(s).gap),
            (f"close, {protocol}, s", "s", lambda s, j=joined: j(s).closed),
        ]
    return [*made, ("commit p50, ms", "ms", commit_ms), ("commit_async", "1/s", async_commits)]


def group_rows(running: LocalCluster, label: str, runs: int) -> None:
    """The rows of pylog alone."""
    side = Ours(running, itertools.count())
    for name, unit, run in rows():
        median(f"{label}: {name}", unit, lambda run=run: run(side), runs=runs)  # type: ignore[misc]


def cost_rows(running: LocalCluster, scale: float, runs: int) -> None:
    """The costs of a group for its members, and for others."""
    _reading_rows(running, scale, runs)
    _idle_group_rows(running, scale, runs)
