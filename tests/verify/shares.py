"""A share group of a real cluster whose members are killed and stopped, and its brokers killed.

`python -m tests.verify.shares [--records N] [--consumers N] [--seed S]`. Three brokers, a producer,
and processes with some share consumers each. At the end, of each record that was acknowledged to
the producer: somebody's accept of it was acknowledged, or the consumer that accepted it was killed
or cut off before it heard, or it lies in the group's dead-letter topic: rejected, or delivered as
often as the limit says. Each record whose rejection was acknowledged lies there, and none that was
neither. None was delivered again once the lock of its acknowledged accept had ended (what lay in a
consumer's buffer till then does not count), nor accepted again by somebody to whom it was delivered
later; none was delivered beyond the limit; and nothing is left of the group's lag. A consumer that
was too slow may accept what another one has accepted since: brokers pass that over, as Kafka's do.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import threading
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from pylog import AdminClient, Consumer, LocalCluster, NewTopic, Producer, Record, errors
from pylog.clock import SYSTEM_CLOCK
from pylog.model import TopicPartition
from tests.verify import share_worker
from tests.verify.share_worker import Settings

TOPIC: Final = "jobs"
DEAD: Final = "dlq.jobs"
DEAD_PARTITIONS: Final = 2
GROUP: Final = "workers"
PARTITIONS: Final = 6
CONSUMERS_PER_PROCESS: Final = 3
LOCK_MS: Final = 5_000
LIMIT: Final = 10
"""The most that there may be: a delivery counts though a consumer was stopped or killed before its
program had the records.
"""
UNSEEN_MAX: Final = 5
"""Deliveries in a row, before the last one, that no program has seen."""
PAUSE_S: Final = (0.5, 8.0)
"""The times for which a process is stopped: shorter and longer than a lock, and than a session."""
REJECTING_PERCENT: Final = 2
POISON_EVERY: Final = 400
PATIENCE_MS: Final = 120_000
RATE: Final = 1_000
"""Records a second of the producer."""
_CONFIG: Final = {
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "6",
    "share.coordinator.state.topic.num.partitions": "6",
    "group.share.min.session.timeout.ms": "1000",
    "group.share.session.timeout.ms": "3000",
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.heartbeat.interval.ms": "500",
    "group.share.min.record.lock.duration.ms": "1000",
}

Place = tuple[int, int]
"""A record: partition and offset."""


class _Accept(NamedTuple):
    """An accept that was acknowledged: of the record's delivery with that count."""

    count: int
    begin_ms: int
    end_ms: int


@dataclass
class Verdict:
    """The reports of all consumers together."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    delivered: Counter[Place] = field(default_factory=Counter)
    count_max: dict[Place, int] = field(default_factory=dict)
    accepting: set[Place] = field(default_factory=set)
    """Accepts that were sent; of some nobody heard what became of them."""
    accepted_ms: dict[Place, int] = field(default_factory=dict)
    """The time at which an accept was first acknowledged."""
    accepts: defaultdict[Place, list[_Accept]] = field(default_factory=lambda: defaultdict(list))
    too_late: int = 0
    history: defaultdict[Place, list[str]] = field(default_factory=lambda: defaultdict(list))
    """The events of each record, for the words of a fault."""
    rejecting: set[Place] = field(default_factory=set)
    rejected: set[Place] = field(default_factory=set)
    """Those of which the rejection was acknowledged."""
    dead: Counter[Place] = field(default_factory=Counter)
    """Records in the dead-letter topic; some more than once."""
    refused: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def hear(self, line: str) -> None:
        """One line of a worker."""
        what, at_ms, told = json.loads(line)
        with self.lock:
            match what:
                case "got":
                    for partition, offset, count in told:
                        self._got(at_ms, (partition, offset), count)
                case "accepting":
                    for partition, offset, _ in told:
                        self.accepting.add((partition, offset))
                        self.history[partition, offset].append(f"{at_ms} accepting")
                case "accepted":
                    begin_ms, records = told
                    for partition, offset, count in records:
                        self._accepted((partition, offset), _Accept(count, begin_ms, at_ms))
                case "rejecting":
                    for partition, offset, _ in told:
                        self.rejecting.add((partition, offset))
                        self.history[partition, offset].append(f"{at_ms} rejecting")
                case "rejected":
                    self.rejected |= {(partition, offset) for partition, offset, _ in told}
                case "refused":
                    self.refused[told[0]] += 1
                case _:
                    raise AssertionError(line)

    def _got(self, at_ms: int, place: Place, count: int) -> None:
        self.delivered[place] += 1
        self.history[place].append(f"{at_ms} delivered ({count})")
        self.count_max[place] = max(self.count_max.get(place, 0), count)
        if count > LIMIT:
            self.faults.append(f"{place} was delivered for the {count}th time")
        accepted_ms = self.accepted_ms.get(place)
        if accepted_ms is not None and at_ms > accepted_ms + LOCK_MS:
            self.faults.append(f"{place} came {at_ms - accepted_ms} ms after it was accepted")

    def _accepted(self, place: Place, accept: _Accept) -> None:
        self.history[place].append(f"{accept.end_ms} accepted ({accept.count})")
        for other in self.accepts[place]:
            self.too_late += 1
            earlier, later = sorted((other, accept))
            if later.begin_ms > earlier.end_ms:
                self.faults.append(f"{place} was accepted twice: {'; '.join(self.history[place])}")
        self.accepts[place].append(accept)
        self.accepted_ms[place] = min(accept.end_ms, self.accepted_ms.get(place, accept.end_ms))

    def judge(self, produced: set[Place]) -> list[str]:
        """Everything that is wrong with these records."""
        faults = list(self.faults)
        for place in sorted(produced - self.accepted_ms.keys() - self.dead.keys()):
            if place not in self.accepting:
                faults.append(f"{place} was never accepted, delivered {self.delivered[place]}x")
        faults += (
            f"{place} was rejected and is no dead letter: {'; '.join(self.history[place])}"
            for place in sorted(self.rejected - self.dead.keys())
        )
        faults += (
            f"{place} is a dead letter, delivered {self.delivered[place]}x: {self.history[place]}"
            for place in sorted(self.dead.keys() - self.rejecting)
            if not self._may_be_spent(place)
        )
        faults += (f"{place} was never produced" for place in self.delivered.keys() - produced)
        return faults

    def _may_be_spent(self, place: Place) -> bool:
        """Whether it may have been delivered as often as may be. Deliveries count that went to a
        consumer that was stopped or killed before its program had the record.
        """
        return self.count_max.get(place, 0) >= LIMIT - UNSEEN_MAX


class Process:
    """Some consumers in a process of their own."""

    def __init__(self, bootstrap: str, settings: Settings, verdict: Verdict) -> None:
        self._verdict = verdict
        self._killed = False
        self._process = subprocess.Popen(
            share_worker.command(bootstrap, settings),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def stall(self, seconds: float) -> None:
        """All of it stops for a while, heartbeats too."""
        self._process.send_signal(signal.SIGSTOP)
        threading.Timer(seconds, self._process.send_signal, [signal.SIGCONT]).start()

    def kill(self) -> None:
        """It is gone, and nobody is told."""
        self._killed = True
        self._process.kill()
        self.close()

    def close(self) -> None:
        """Its consumers leave."""
        self._process.send_signal(signal.SIGCONT)
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._thread.join()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                if line.endswith("\n"):  # a killed process may have said half of one
                    self._verdict.hear(line)
        status = self._process.wait()
        if status and not self._killed:
            self._verdict.faults.append(f"a worker ended with status {status}")


class Load:
    """The producer, on a thread of its own."""

    def __init__(self, bootstrap: str, count: int) -> None:
        self.produced: set[Place] = set()
        self._bootstrap = bootstrap
        self._count = count
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    @property
    def goes_on(self) -> bool:
        """Whether there is more to come."""
        return self._thread.is_alive()

    def join(self) -> set[Place]:
        """The records that are in the log."""
        self._thread.join()
        return self.produced

    def _run(self) -> None:
        with Producer(bootstrap_servers=self._bootstrap, acks="all") as producer:
            sent = []
            begin_ms = SYSTEM_CLOCK.monotonic_ms()
            for number in range(self._count):
                sent.append(producer.send(TOPIC, b"%d" % number, partition=number % PARTITIONS))
                if number % 100 == 0:
                    due_ms = begin_ms + number * 1000 // RATE
                    SYSTEM_CLOCK.sleep(max(due_ms - SYSTEM_CLOCK.monotonic_ms(), 0) / 1000)
            for delivery in sent:
                metadata = delivery.result()
                self.produced.add((metadata.partition, metadata.offset))


class Trial:
    """The group, and what happens to it."""

    def __init__(
        self, cluster: LocalCluster, rng: random.Random, consumers: int, verdict: Verdict
    ) -> None:
        self._cluster = cluster
        self._rng = rng
        self._verdict = verdict
        self.did: dict[str, int] = defaultdict(int)
        self.diary: list[str] = []
        self._processes: list[Process] = []
        while consumers > 0:
            self._start(min(consumers, CONSUMERS_PER_PROCESS))
            consumers -= CONSUMERS_PER_PROCESS

    def _start(self, consumers: int) -> None:
        settings = Settings(
            TOPIC,
            GROUP,
            self._rng.randrange(1 << 30),
            consumers,
            rejecting_percent=REJECTING_PERCENT,
            poison_every=POISON_EVERY,
        )
        bootstrap = self._cluster.bootstrap_servers
        self._processes.append(Process(bootstrap, settings, self._verdict))

    def disturb(self) -> None:
        """Something that takes records, locks or state away."""
        what = self._rng.choice(("kill", "kill", "stall", "restart", "kill a broker"))
        process = self._rng.choice(self._processes)
        if what == "kill a broker":
            broker = self._rng.choice((1, 2, 3))
            self._cluster.kill(broker)
            SYSTEM_CLOCK.sleep(self._rng.uniform(0, 1))
            self._cluster.start(broker)
        elif what == "stall":
            process.stall(self._rng.uniform(*PAUSE_S))
        else:
            self._processes.remove(process)
            process.kill() if what == "kill" else process.close()
            self._start(CONSUMERS_PER_PROCESS)
        self.did[what] += 1
        self.diary.append(f"{SYSTEM_CLOCK.monotonic_ms()} {what}")

    def end(self) -> None:
        """All consumers leave."""
        for process in self._processes:
            process.close()


def lag(admin: AdminClient) -> int | None:
    """The records left to be delivered or acknowledged; None while that cannot be known."""
    try:
        lags = [each.lag for each in admin.group_lag(GROUP)[GROUP].values()]
    except errors.PylogError:
        return None
    known = [each for each in lags if each is not None]
    return sum(known) if len(known) == PARTITIONS else None


def read_dead_letters(bootstrap: str) -> tuple[Counter[Place], list[str]]:
    """The records in the dead-letter topic, and the faults in them."""
    found: Counter[Place] = Counter()
    faults = []
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        partitions = [TopicPartition(DEAD, number) for number in range(DEAD_PARTITIONS)]
        consumer.assign(partitions)
        ends = consumer.end_offsets(*partitions)
        records: list[Record] = []
        while len(records) < sum(ends.values()):  # no transactions, no compaction
            records += consumer.poll(1.0)
    for record in records:
        told = {name: (value or b"").decode() for name, value in record.headers}
        place = int(told["__dlq.errors.partition"]), int(told["__dlq.errors.offset"])
        found[place] += 1
        count = int(told["__dlq.errors.delivery.count"])
        if (told["__dlq.errors.topic"], told["__dlq.errors.group"]) != (TOPIC, GROUP):
            faults.append(f"a dead letter of something else: {told}")
        if not 1 <= count <= LIMIT:
            faults.append(f"{place} is a dead letter after {count} deliveries")
        if record.value != b"%d" % (place[1] * PARTITIONS + place[0]):
            faults.append(f"dead letter {place} has the value {record.value!r}")
    return found, faults


def run(records: int, consumers: int, seed: int) -> list[str]:
    """Everything that is wrong."""
    rng = random.Random(seed)
    verdict = Verdict()
    with LocalCluster(3, config=_CONFIG) as cluster:
        bootstrap = cluster.bootstrap_servers
        with AdminClient(bootstrap_servers=bootstrap) as admin:
            enabled = {"errors.deadletterqueue.group.enable": "true"}
            admin.create_topics(
                [NewTopic(TOPIC, PARTITIONS, 3), NewTopic(DEAD, DEAD_PARTITIONS, 3, config=enabled)]
            )
            wanted: dict[str, Any] = {
                "share.auto.offset.reset": "earliest",
                "share.record.lock.duration.ms": str(LOCK_MS),
                "share.delivery.count.limit": str(LIMIT),
                "errors.deadletterqueue.topic.name": DEAD,
                "errors.deadletterqueue.copy.record.enable": "true",
            }
            admin.incremental_alter_configs({("group", GROUP): wanted})
            begin_ms = SYSTEM_CLOCK.monotonic_ms()
            load = Load(bootstrap, records)
            trial = Trial(cluster, rng, consumers, verdict)
            try:
                while load.goes_on:
                    SYSTEM_CLOCK.sleep(rng.uniform(0.2, 1.0))
                    trial.disturb()
                produced = load.join()
                faults = _wait_until_done(admin)
                took_s = (SYSTEM_CLOCK.monotonic_ms() - begin_ms) / 1000
            finally:
                trial.end()
        verdict.dead, strange = read_dead_letters(bootstrap)
        faults += strange
        for log in sorted((cluster.data_dir / "logs").iterdir()):
            text = log.read_text()
            faults += [f"{log.name}: {word}" for word in ("Traceback", "a defect") if word in text]
    faults += verdict.judge(produced)
    again = sum(count - 1 for count in verdict.delivered.values())
    print(
        f"seed {seed}: {len(produced)} records over {consumers} consumers in {took_s:.0f} s, "
        f"{dict(trial.did)}\n  {len(verdict.accepted_ms)} accepts acknowledged, {again} deliveries "
        f"beyond the first, {verdict.too_late} accepts too late, {dict(verdict.refused)} refused\n"
        f"  {len(verdict.dead)} dead letters, {verdict.dead.total() - len(verdict.dead)} of them "
        f"twice, {len(verdict.rejected)} rejections acknowledged"
    )
    if faults:
        faults.append("; ".join(trial.diary))
    return faults


def _wait_until_done(admin: AdminClient) -> list[str]:
    deadline_ms = SYSTEM_CLOCK.monotonic_ms() + PATIENCE_MS
    left: int | None = None
    while SYSTEM_CLOCK.monotonic_ms() < deadline_ms:
        left = lag(admin)
        if left == 0:
            return []
        SYSTEM_CLOCK.sleep(0.2)
    return [f"a lag of {left} records is left"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--consumers", type=int, default=10)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    options = parser.parse_args()
    faults = run(options.records, options.consumers, options.seed)
    for fault in faults[:50]:
        print(fault)
    if len(faults) > 50:
        print(f"and {len(faults) - 50} more")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
