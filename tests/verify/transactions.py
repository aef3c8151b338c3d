"""Consume, transform, produce on a real cluster, while workers, brokers and coordinators die.

`python -m tests.verify.transactions [--kills N] [--workers N] [--seed S]`. Three brokers, a
producer of numbers, and workers in processes of their own, each of which reads some of them and
writes them on in transactions with the positions of the group. Workers are killed, stopped for
longer than their transactions may be open, and doubled under the same transactional id; brokers are
killed, the coordinator's above all, and so is the controller.

In the end the numbers that readers of committed records get are those that were acknowledged, each
once, and those of one key in their order. One such reader reads all the time: what it got was never
taken back, so it has never seen a record of an aborted transaction, which comes again. No
transaction is open any more, and none hangs.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import threading
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Final

from pylog import AdminClient, Consumer, LocalCluster, NewTopic, Producer, Record, errors
from pylog.clock import SYSTEM_CLOCK
from pylog.model import RecordMetadata
from tests.verify.ctp_worker import TRANSACTION_TIMEOUT_MS

SOURCE: Final = "numbers"
TARGET: Final = "copies"
GROUP: Final = "copiers"
PARTITIONS: Final = 6
KEYS: Final = 50
RATE: Final = 400
PATIENCE_S: Final = 120.0
PAUSE_S: Final = (1.0, TRANSACTION_TIMEOUT_MS / 1000 + 4)
"""The times for which a worker is stopped: shorter and longer than its transactions may be open."""
_CONFIG: Final = {
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "1000",
}


class Numbers:
    """Sends numbers in their order, each to the partition of its key, until it is closed."""

    def __init__(self, bootstrap: str) -> None:
        self.acknowledged: list[int] = []
        self.failed: list[str] = []
        self._ends = threading.Event()
        self._producer = Producer(
            bootstrap_servers=bootstrap, request_timeout_ms=5_000, delivery_timeout_ms=120_000
        )
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._ends.wait(0.01):
            for _ in range(RATE // 100):
                value = number
                number += 1

                def done(
                    metadata: RecordMetadata | None,
                    error: errors.PylogError | None,
                    value: int = value,
                ) -> None:
                    if metadata is not None:
                        self.acknowledged.append(value)
                    else:
                        self.failed.append(f"{value}: {error!r}")

                key = b"%d" % (value % KEYS)
                self._producer.send(SOURCE, b"%d" % value, key=key, on_delivery=done)

    def close(self) -> None:
        """All of them are acknowledged, or have failed."""
        self._ends.set()
        self._thread.join()
        self._producer.close(150)


class CommittedReader:
    """Reads what is committed, from the beginning and all the time."""

    def __init__(self, bootstrap: str) -> None:
        self.seen: Counter[int] = Counter()
        self.by_key: dict[bytes | None, list[int]] = defaultdict(list)
        self.faults: list[str] = []
        self._ends = threading.Event()
        self._bootstrap = bootstrap
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            with Consumer(
                TARGET,
                bootstrap_servers=self._bootstrap,
                auto_offset_reset="earliest",
                isolation_level="read_committed",
            ) as consumer:
                while not self._ends.is_set():
                    for record in consumer.poll(0.2):
                        self._take(record)
        except errors.PylogError as error:
            self.faults.append(f"the reader ended with {error!r}")

    def _take(self, record: Record) -> None:
        number = int(record.value)
        self.seen[number] += 1
        if self.seen[number] > 1:
            self.faults.append(f"{number} came again, at {record.partition}/{record.offset}")
        self.by_key[record.key].append(number)

    def close(self) -> None:
        self._ends.set()
        self._thread.join()


@dataclass
class Told:
    """The reports of all workers."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    counts: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


class Worker:
    """A process with a transactional id."""

    def __init__(self, bootstrap: str, name: str, protocol: str, told: Told) -> None:
        self.name = name
        self._told = told
        self._killed = False
        self._process = subprocess.Popen(
            [
                sys.executable, "-m", "tests.verify.ctp_worker",
                bootstrap, SOURCE, TARGET, GROUP, protocol, name,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def stop_for(self, seconds: float) -> None:
        """All of it stops for a while."""
        self._process.send_signal(signal.SIGSTOP)
        threading.Timer(seconds, self._process.send_signal, [signal.SIGCONT]).start()

    def kill(self) -> None:
        """It is gone, and nobody is told."""
        self._killed = True
        self._process.kill()
        self.close()

    def close(self) -> None:
        """It ends its transaction, and leaves."""
        self._process.send_signal(signal.SIGCONT)
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._thread.join()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        with self._process.stdout as lines, self._process.stderr as errors_of_it:
            for line in lines:
                what, _, more = line.strip().partition(" ")
                with self._told.lock:
                    self._told.counts[what] += 1
                    if what != "committed":
                        self._told.reasons[more.partition(":")[0]] += 1
            errors_told = errors_of_it.read()
        status = self._process.wait()
        if status and not self._killed:
            last = " | ".join(errors_told.strip().splitlines()[-3:])
            with self._told.lock:
                self._told.faults.append(f"{self.name} ended with status {status}: {last}")


class Trial:
    """The workers, and what happens to them and to the cluster."""

    def __init__(self, cluster: LocalCluster, rng: random.Random, workers: int) -> None:
        self._cluster = cluster
        self._rng = rng
        self._protocol = rng.choice(("consumer", "classic"))
        self.told = Told()
        self.did: Counter[str] = Counter()
        self._workers = {f"w{n}": self._started(f"w{n}") for n in range(workers)}
        self._twins: list[Worker] = []

    def _started(self, name: str) -> Worker:
        return Worker(self._cluster.bootstrap_servers, name, self._protocol, self.told)

    def disturb(self) -> None:
        """One thing that dies, stops, or has a double."""
        what = self._rng.choice(
            ("kill a worker", "stop a worker", "double a worker", "kill a broker",
             "kill the coordinator", "kill the controller")
        )  # fmt: skip
        name = self._rng.choice(sorted(self._workers))
        worker = self._workers[name]
        if what == "kill a worker":
            worker.kill()
        elif what == "stop a worker":
            worker.stop_for(self._rng.uniform(*PAUSE_S))
        elif what == "double a worker":
            self._twins.append(worker)  # one of the two ends as fenced
            self._workers[name] = self._started(name)
        elif what == "kill the controller":
            self._cluster.kill_controller()
            SYSTEM_CLOCK.sleep(self._rng.uniform(0.0, 2.0))
            self._cluster.start_controller()
        else:
            self._kill_a_broker(name if what == "kill the coordinator" else None)
        self.did[what] += 1
        for each, ended in list(self._workers.items()):
            if ended.has_ended:  # killed, or fenced by a double
                ended.close()
                self._workers[each] = self._started(each)

    def _kill_a_broker(self, coordinates: str | None) -> None:
        broker = self._rng.choice(self._cluster.brokers)
        if coordinates is not None:
            with AdminClient(bootstrap_servers=self._cluster.bootstrap_servers) as admin:
                try:
                    described = admin.describe_transactions(coordinates, timeout=10)
                except errors.PylogError:
                    pass  # it has never begun
                else:
                    broker = described[coordinates].coordinator
        self._cluster.kill(broker)
        SYSTEM_CLOCK.sleep(self._rng.uniform(0.0, 3.0))
        self._cluster.start(broker)

    def end(self) -> None:
        """All workers leave."""
        for worker in (*self._workers.values(), *self._twins):
            worker.close()


def faults_of(numbers: Numbers, reader: CommittedReader, *, in_order: bool = True) -> list[str]:
    """Everything that is wrong with what was read; `in_order`: that of one key has an order."""
    wanted = set(numbers.acknowledged)
    # A number that failed by its time-out may be stored all the same.
    lost = sorted(wanted - reader.seen.keys())
    faults = [f"{len(lost)} lost: {lost[:5]} ..."] if lost else []
    if not numbers.failed and (more := sorted(reader.seen.keys() - wanted)):
        faults.append(f"{len(more)} that nobody sent: {more[:5]} ...")
    for key, read in reader.by_key.items():
        if in_order and read != sorted(read):
            faults.append(f"key {key!r} is out of order")
    return faults + reader.faults


def left_open(admin: AdminClient) -> list[str]:
    """Transactions that did not end."""
    deadline_ms = SYSTEM_CLOCK.monotonic_ms() + 30_000
    while True:
        opened = [
            each for each in admin.list_transactions()
            if each.state not in ("Empty", "CompleteCommit", "CompleteAbort")
        ]  # fmt: skip
        hanging = admin.find_hanging_transactions(older_than_ms=0)
        if not opened and not hanging:
            return []
        if SYSTEM_CLOCK.monotonic_ms() >= deadline_ms:
            return [f"{each} is left open" for each in (*opened, *hanging)]
        SYSTEM_CLOCK.sleep(0.5)


def wait_for_all(numbers: Numbers, reader: CommittedReader) -> None:
    """Until all that was acknowledged is there, or nothing came for long."""
    wanted = set(numbers.acknowledged)
    deadline_ms = SYSTEM_CLOCK.monotonic_ms() + int(PATIENCE_S * 1000)
    while not wanted <= reader.seen.keys() and SYSTEM_CLOCK.monotonic_ms() < deadline_ms:
        SYSTEM_CLOCK.sleep(0.2)


def run(kills: int, workers: int, seed: int) -> list[str]:
    """Everything that is wrong."""
    rng = random.Random(seed)
    with LocalCluster(3, config=_CONFIG) as cluster:
        bootstrap = cluster.bootstrap_servers
        with AdminClient(bootstrap_servers=bootstrap) as admin:
            admin.create_topics([NewTopic(name, PARTITIONS, 3) for name in (SOURCE, TARGET)])
            numbers, reader = Numbers(bootstrap), CommittedReader(bootstrap)
            trial = Trial(cluster, rng, workers)
            try:
                for _ in range(kills):
                    SYSTEM_CLOCK.sleep(rng.uniform(0.2, 2.5))
                    trial.disturb()
                numbers.close()
                wait_for_all(numbers, reader)
            finally:
                numbers.close()
                trial.end()
            faults = left_open(admin)
            reader.close()
        faults += faults_of(numbers, reader) + trial.told.faults
        for log in sorted((cluster.data_dir / "logs").iterdir()):
            text = log.read_text()
            faults += [f"{log.name}: {word}" for word in ("Traceback", "a defect") if word in text]
    print(
        f"seed {seed}: {dict(trial.did)}; {len(numbers.acknowledged)} numbers acknowledged, "
        f"{len(numbers.failed)} failed, {sum(reader.seen.values())} read committed; "
        f"transactions {dict(trial.told.counts)}; reasons {dict(trial.told.reasons)}"
    )
    return faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    options = parser.parse_args()
    faults = run(options.kills, options.workers, options.seed)
    for fault in faults[:50]:
        print(fault)
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
