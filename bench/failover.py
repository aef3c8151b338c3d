"""Service at 80 % of its capacity while a broker that leads partitions is killed and comes back.

One producer sends records of 200 bytes with acks=all into 12 partitions of three brokers: first
more than the cluster takes, which tells the capacity, then 80 % of that, through the kill and the
restart. No acknowledged record may be missing from the topic. The records are small, so that three
replicas on one disk do not wait for it: that would be measured as gaps of its own.
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
VALUE: Final = b"x" * 192
CAPACITY_S: Final = 8.0
BEFORE_S: Final = 5.0
DOWN_S: Final = 6.0
AFTER_S: Final = 6.0
SHARE: Final = 0.8
TURN_S: Final = 0.01
KILL_S: Final = 1.0
"""A gap that begins so soon after the kill is the kill's."""


@dataclass
class _Outcomes:
    """Acknowledgements by the tenth of a second, and the times without one."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    tenths: Counter[int] = field(default_factory=Counter)
    acknowledged: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    last: float = 0.0
    gaps: list[tuple[float, float]] = field(default_factory=list)
    """Begin and length of those above a tenth of a second."""

    def on_delivery(self, _: object, error: Exception | None) -> None:
        now = ticks()
        with self.lock:
            if error is not None:
                self.failed[type(error).__name__] += 1
                return
            self.acknowledged += 1
            self.tenths[int(now * 10)] += 1
            if self.last and now - self.last > 0.1:
                self.gaps.append((self.last, now - self.last))
            self.last = now

    def rate(self, begin: float, end: float) -> float:
        """Acknowledgements a second between two ticks."""
        first, last = int(begin * 10), int(end * 10)
        with self.lock:
            return sum(self.tenths[tenth] for tenth in range(first, last)) * 10 / (last - first)

    def longest_gap_s(self, begin: float, end: float) -> float:
        """The longest time without an acknowledgement that began between two ticks; 0: none was
        above a tenth of a second.
        """
        with self.lock:
            return max((length for at, length in self.gaps if begin <= at < end), default=0.0)


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
    """The longest that began with the kill."""
    later_gap_s: float
    """The longest after that."""
    acknowledged: int


def _send(producer: Producer, topic: str, told: _Outcomes, rate: float, until: float) -> None:
    """Send at a steady rate; what could not be sent in its turn is sent in the next ones."""
    begin, sent = ticks(), 0
    while (now := ticks()) < until:
        due = min(int((now - begin) * rate) - sent, int(rate * TURN_S * 2))
        for _ in range(due):
            producer.send(topic, VALUE, on_delivery=told.on_delivery)
        sent += due
        SYSTEM_CLOCK.sleep(TURN_S)


def _burst(producer: Producer, topic: str, seconds: float) -> float:
    """Records a second of a sender that never waits."""
    told = _Outcomes()
    begin = ticks()
    while ticks() - begin < seconds:
        for _ in range(100):
            producer.send(topic, VALUE, on_delivery=told.on_delivery)
    producer.flush()
    return told.acknowledged / (ticks() - begin)


def _capacity(producer: Producer, topic: str, seconds: float) -> float:
    """Records a second that are acknowledged when a steady sender is asked for a burst's rate."""
    burst = _burst(producer, topic, seconds / 2)
    told, begin = _Outcomes(), ticks()
    _send(producer, topic, told, burst, begin + seconds)
    rate = told.rate(begin + seconds / 4, begin + seconds)
    producer.flush()
    return rate


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
        told.longest_gap_s(killed - 0.2, killed + KILL_S),
        told.longest_gap_s(killed + KILL_S, end),
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
    printed("3 brokers: failover, gap at the kill", "s", [figures.gap_s])
    printed("3 brokers: failover, longest gap later", "s", [figures.later_gap_s])
