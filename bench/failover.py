"""Service at 80 % of its capacity while a broker that leads partitions is killed and comes back.

One producer sends records of 1,000 bytes with acks=all into 12 partitions of three brokers: first
as fast as it can, then at 80 % of that rate, through the kill and the restart. No acknowledged
record may be missing from the topic.
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from bench import cluster
from bench.measure import printed
from pylog import AdminClient, Consumer, LocalCluster, Producer, TopicPartition
from pylog.clock import SYSTEM_CLOCK, ticks

PARTITIONS: Final = 12
VALUE: Final = b"x" * 992
CAPACITY_S: Final = 8.0
BEFORE_S: Final = 5.0
DOWN_S: Final = 6.0
AFTER_S: Final = 6.0
SHARE: Final = 0.8
TURN_S: Final = 0.01


@dataclass
class _Outcomes:
    """Acknowledgements by the tenth of a second, and the longest time without one."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    tenths: Counter[int] = field(default_factory=Counter)
    acknowledged: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    last: float = 0.0
    longest_s: float = 0.0

    def on_delivery(self, _: object, error: Exception | None) -> None:
        now = ticks()
        with self.lock:
            if error is not None:
                self.failed[type(error).__name__] += 1
                return
            self.acknowledged += 1
            self.tenths[int(now * 10)] += 1
            if self.last:
                self.longest_s = max(self.longest_s, now - self.last)
            self.last = now

    def rate(self, begin: float, end: float) -> float:
        """Acknowledgements a second between two ticks."""
        first, last = int(begin * 10), int(end * 10)
        with self.lock:
            return sum(self.tenths[tenth] for tenth in range(first, last)) * 10 / (last - first)


@dataclass(frozen=True)
class Failover:
    """The figures of one kill: rates in records a second, the gap in seconds."""

    capacity: float
    before: float
    down: float
    """From one second after the kill until the restart."""
    after: float
    """From one second after the restart on."""
    gap_s: float
    acknowledged: int


def _send(producer: Producer, topic: str, told: _Outcomes, rate: float, until: float) -> None:
    """Send at a steady rate; what could not be sent in its turn is sent in the next ones."""
    begin, sent = ticks(), 0
    while (now := ticks()) < until:
        due = int((now - begin) * rate) - sent
        for _ in range(due):
            producer.send(topic, VALUE, on_delivery=told.on_delivery)
        sent += due
        SYSTEM_CLOCK.sleep(TURN_S)


def _capacity(producer: Producer, topic: str, seconds: float) -> float:
    told = _Outcomes()
    begin = ticks()
    while ticks() - begin < seconds:
        for _ in range(100):
            producer.send(topic, VALUE, on_delivery=told.on_delivery)
    producer.flush()
    return told.acknowledged / (ticks() - begin)


def _held(consumer: Consumer, topic: str) -> int:
    """The number of records in a topic from which nothing was deleted."""
    return sum(
        consumer.end_offsets(*(TopicPartition(topic, n) for n in range(PARTITIONS))).values()
    )


def failover(running: LocalCluster, scale: float) -> Failover:
    """Raises RuntimeError where a record failed, or an acknowledged one is not in the topic."""
    servers = running.bootstrap_servers
    topic = cluster.fresh_topic(running, "failover", PARTITIONS)
    told = _Outcomes()
    with (
        AdminClient(bootstrap_servers=servers) as admin,
        Consumer(bootstrap_servers=servers) as consumer,
        Producer(bootstrap_servers=servers) as producer,
    ):
        _capacity(producer, topic, CAPACITY_S * scale / 2)  # warm
        capacity = _capacity(producer, topic, CAPACITY_S * scale)
        held = _held(consumer, topic)
        described = admin.describe_topics([topic])[topic]
        [(broker, _)] = Counter(p.leader for p in described.partitions).most_common(1)
        killed = ticks() + BEFORE_S * scale
        restarted = killed + DOWN_S * scale
        end = restarted + AFTER_S * scale
        rate = SHARE * capacity
        sender = threading.Thread(target=_send, args=(producer, topic, told, rate, end))
        sender.start()
        SYSTEM_CLOCK.sleep(killed - ticks())
        running.kill(broker)
        SYSTEM_CLOCK.sleep(max(0.0, restarted - ticks()))
        running.start(broker)
        sender.join()
        producer.flush()
        kept = _held(consumer, topic) - held
    if told.failed or kept < told.acknowledged:
        raise RuntimeError(
            f"{told.acknowledged} records acknowledged, {kept} kept, failed: {dict(told.failed)}"
        )
    return Failover(
        capacity,
        told.rate(killed - (BEFORE_S - 1) * scale, killed),
        told.rate(killed + scale, restarted),
        told.rate(restarted + scale, end),
        told.longest_s,
        told.acknowledged,
    )


def rows(scale: float) -> None:
    """With three brokers; times are at least a tenth of their full length."""
    scale = min(1.0, max(0.1, scale))
    with cluster.cluster(3) as running:
        figures = failover(running, scale)
    printed("3 brokers: failover, capacity", "records/s", [figures.capacity])
    for name, rate in (
        ("before the kill", figures.before),
        ("without the broker", figures.down),
        ("after its return", figures.after),
    ):
        offered = SHARE * figures.capacity
        printed(f"3 brokers: failover, served {name}", "% of offered", [100 * rate / offered])
    printed("3 brokers: failover, longest gap", "s", [figures.gap_s])
