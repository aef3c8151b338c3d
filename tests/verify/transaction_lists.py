"""Processes that append to ten lists and poll them, in transactions, while brokers are killed.

`python -m tests.verify.transaction_lists [--transactions N] [--kills N] [--seed S]`. Each list is a
partition. A process appends to some of them and polls all of them as a reader of committed records;
it commits most of its transactions, aborts some, and leaves some to the next instance of its
transactional id. `list_append` judges what all of them have seen.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import threading
from collections import Counter
from collections.abc import Iterator

from pylog import AdminClient, Consumer, LocalCluster, NewTopic, Producer, errors
from pylog.client.producer.delivery import DeliveryHandle
from pylog.clock import SYSTEM_CLOCK
from pylog.model import TopicPartition
from tests.verify.list_append import Outcome, Transaction, check, count_g0

TOPIC = "lists"
KEYS = 10
PROCESSES = 4
ABORTS, LEAVES = 0.1, 0.03
"""So many transactions are aborted, and left open."""
_CONFIG = {
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
}


class History:
    """All transactions in the order in which they began, and the values that are still unused."""

    def __init__(self) -> None:
        self.transactions: list[Transaction] = []
        self.faults: list[str] = []
        self._lock = threading.Lock()
        self._values = itertools.count()

    def begin(self, process: str) -> Transaction:
        with self._lock:
            transaction = Transaction(process)
            self.transactions.append(transaction)
            return transaction

    def value(self) -> int:
        with self._lock:
            return next(self._values)


class Process:
    """One after the other, on a thread of its own."""

    def __init__(self, name: str, bootstrap: str, history: History, seed: int) -> None:
        self.name = name
        self._bootstrap = bootstrap
        self._history = history
        self._rng = random.Random(seed)
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name)
        self._thread.start()

    def close(self) -> None:
        self._ends.set()
        self._thread.join()

    def _instance(self) -> Producer:
        producer = Producer(
            bootstrap_servers=self._bootstrap,
            transactional_id=self.name,
            transaction_timeout_ms=15_000,
            request_timeout_ms=5_000,
            delivery_timeout_ms=30_000,
            linger_ms=self._rng.choice((0, 1)),
        )
        while True:
            try:
                producer.init_transactions()
            except errors.RequestTimedOut:
                continue
            return producer

    def _run(self) -> None:
        left: list[Producer] = []
        try:
            producer = self._instance()
            with Consumer(
                bootstrap_servers=self._bootstrap, isolation_level="read_committed"
            ) as consumer:
                consumer.assign([TopicPartition(TOPIC, key) for key in range(KEYS)])
                consumer.seek_to_beginning()
                while not self._ends.is_set():
                    if not self._transact(producer, consumer):
                        left.append(producer)
                        producer = self._instance()
            producer.close(10)
        except Exception as error:  # noqa: BLE001 -- told at the end
            self._history.faults.append(f"{self.name} ended with {error!r}")
        for each in left:
            each.close(0)

    def _transact(self, producer: Producer, consumer: Consumer) -> bool:
        """One transaction; whether the producer goes on."""
        transaction = self._history.begin(self.name)
        handles: list[tuple[int, DeliveryHandle]] = []
        try:
            producer.begin_transaction()
            transaction.outcome = Outcome.FAIL  # as long as no commit was asked for
            for _ in range(self._rng.randint(1, 5)):
                if self._rng.random() < 0.4:
                    self._poll(consumer, transaction)
                else:
                    key, value = self._rng.randrange(KEYS), self._history.value()
                    transaction.sent.append((str(key), value))
                    sent = producer.send(TOPIC, b"%d" % value, partition=key)
                    handles.append((value, sent))
            chance = self._rng.random()
            if chance < LEAVES:
                return False
            if chance < LEAVES + ABORTS:
                self._abort(producer)
                return True
            return self._commit(producer, transaction)
        except errors.PylogError as error:
            return self._recover(producer, error)
        finally:
            for value, handle in handles:
                if handle.done() and handle.exception() is None:
                    transaction.offsets[value] = handle.result().offset

    def _poll(self, consumer: Consumer, transaction: Transaction) -> None:
        for record in consumer.poll(0.02):
            place = record.offset, int(record.value)
            transaction.polled[str(record.partition)].append(place)

    def _commit(self, producer: Producer, transaction: Transaction) -> bool:
        transaction.outcome = Outcome.INFO
        while True:
            try:
                producer.commit_transaction()
            except errors.RequestTimedOut:
                continue
            except errors.PylogError as error:
                if error.abortable:
                    transaction.outcome = Outcome.FAIL
                return self._recover(producer, error)
            transaction.outcome = Outcome.OK
            return True

    def _recover(self, producer: Producer, error: errors.PylogError) -> bool:
        if not error.abortable and not error.retriable:
            return False
        try:
            self._abort(producer)
        except errors.PylogError:
            return False
        return True

    def _abort(self, producer: Producer) -> None:
        while True:
            try:
                producer.abort_transaction()
            except errors.RequestTimedOut:
                continue
            return


def final_lists(bootstrap: str) -> dict[str, list[tuple[int, int]]]:
    """The lists that a new reader of committed records finds in the end."""
    found: dict[str, list[tuple[int, int]]] = {str(key): [] for key in range(KEYS)}
    partitions = [TopicPartition(TOPIC, key) for key in range(KEYS)]
    with (
        Consumer(bootstrap_servers=bootstrap, isolation_level="read_committed") as consumer,
        Consumer(bootstrap_servers=bootstrap) as plain,
    ):
        deadline_ms = SYSTEM_CLOCK.monotonic_ms() + 60_000
        while consumer.end_offsets(partitions) != plain.end_offsets(partitions):
            assert SYSTEM_CLOCK.monotonic_ms() < deadline_ms, "a transaction does not end"
            SYSTEM_CLOCK.sleep(0.2)
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(partitions)
        while any(consumer.position(tp) < end for tp, end in ends.items()):
            for record in consumer.poll(0.5):
                found[str(record.partition)].append((record.offset, int(record.value)))
    return found


def kill_something(cluster: LocalCluster, rng: random.Random) -> str:
    """A broker, or the controller, for a moment."""
    if rng.random() < 0.2:
        cluster.kill_controller()
        SYSTEM_CLOCK.sleep(rng.uniform(0.0, 1.0))
        cluster.start_controller()
        return "controller"
    broker = rng.choice(cluster.brokers)
    cluster.kill(broker)
    SYSTEM_CLOCK.sleep(rng.uniform(0.0, 3.0))
    cluster.start(broker)
    return "broker"


def run(transactions: int, kills: int, seed: int) -> list[str]:
    """Everything that is wrong."""
    rng = random.Random(seed)
    history = History()
    killed: Counter[str] = Counter()
    with LocalCluster(3, config=_CONFIG) as cluster:
        bootstrap = cluster.bootstrap_servers
        with AdminClient(bootstrap_servers=bootstrap) as admin:
            admin.create_topics([NewTopic(TOPIC, KEYS, 3)])
        processes = [
            Process(f"p{n}", bootstrap, history, rng.randrange(1 << 30)) for n in range(PROCESSES)
        ]
        try:
            for wanted in _steps(transactions, kills):
                while len(history.transactions) < wanted and not history.faults:
                    SYSTEM_CLOCK.sleep(0.05)
                if wanted < transactions and not history.faults:
                    killed[kill_something(cluster, rng)] += 1
        finally:
            for process in processes:
                process.close()
        final = final_lists(bootstrap)
    found = check(history.transactions, final)
    outcomes = Counter(t.outcome.name for t in history.transactions)
    g0 = count_g0(history.transactions, final)
    print(f"seed {seed}: {dict(outcomes)} transactions, killed {dict(killed)}, {g0} times G0")
    unknown = outcomes["INFO"] / max(len(history.transactions), 1)
    faults = [f"{name}: {len(told)}, {told[:3]}" for name, told in found.items()]
    if unknown > 0.2:
        faults.append(f"{unknown:.0%} of the outcomes are unknown: that shows nothing")
    return faults + history.faults


def _steps(transactions: int, kills: int) -> Iterator[int]:
    """After how many transactions something is killed, and when all is done."""
    for kill in range(1, kills + 1):
        yield transactions * kill // (kills + 1)
    yield transactions


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--transactions", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    options = parser.parse_args()
    faults = run(options.transactions, options.kills, options.seed)
    for fault in faults:
        print(fault)
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
