"""A Spark query that copies a topic, while its driver, its tasks and the brokers die.

`python -m tests.verify.exactly_once [--kills N] [--seed S] [--stateful] [--at-least-once]`. Three
brokers, a producer of numbers, and one driver in a process of its own whose query copies them with
the sink as it is. The driver is killed, doubled on its checkpoint, and loses the last file of its
commit log; Python workers of its tasks are killed; brokers are killed, the coordinator's above all,
and so is the controller. Half of the kills are placed (`tests.verify.placed_kills`): before and
behind begin, prepare, decision and abort of a batch, and while its decision is on its way. With
`--stateful` the query keeps state, and rows of one key have no order.

In the end the numbers that readers of committed records get are those that were acknowledged, each
once, and those of one key in their order. One such reader reads all the time. No transaction is
open any more, and none that a run left open has held readers back for 20 s after the next run of
the query had started. With `--at-least-once` the campaign checks itself: it has to find numbers
twice.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from pylog import AdminClient, LocalCluster, NewTopic, TopicPartition, errors
from pylog.clock import SYSTEM_CLOCK
from tests.verify.held_back import HeldBackWatch
from tests.verify.placed_kills import (
    ABORTED,
    ABORTS,
    BEGINS,
    BROKER,
    COORDINATOR,
    DONE,
    DRIVER,
    FAILS,
    FOLDER_VARIABLE,
    ITSELF,
    ORDERS,
    PREPARED,
    RAISES,
    REACHED,
    order,
    take_back,
)
from tests.verify.spark_cluster import descendants
from tests.verify.transactions import (
    PARTITIONS,
    SOURCE,
    TARGET,
    CommittedReader,
    Numbers,
    faults_of,
    left_open,
    wait_for_all,
)

ROOT: Final = Path(__file__).resolve().parents[2]
MASTER: Final = "local[2,4]"
START_S_MAX: Final = 400.0
MOMENT_S_MAX: Final = 30.0
END_S_MAX: Final = 60.0
HELD_BACK_S_MAX: Final = 20.0
PLACED_SHARE: Final = 0.5
PREPARED_MS: Final = 20_000
"""So long a driver that is gone leaves a batch open that no other run of its query follows."""
_CONFIG: Final = {
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
}
ONCE: Final = ("pylog.exactly.once=true", f"pylog.sink.prepared.timeout.ms={PREPARED_MS}")
AT_LEAST_ONCE: Final = ("pylog.exactly.once=false",)
STATEFUL: Final = "stateful=true"


class Driver:
    """A process with a query."""

    def __init__(
        self,
        bootstrap: str,
        checkpoint: Path,
        options: Sequence[str],
        *,
        master: str = MASTER,
        orders: Path | None = None,
        on_start: Callable[[], None] = lambda: None,
    ) -> None:
        """`orders`: the folder of those for `placed_kills`. `on_start`: called when the query has
        started, by the thread that listens.
        """
        self.lines: list[str] = []
        self._on_start = on_start
        self._changed = threading.Condition()
        self._process = subprocess.Popen(
            [
                sys.executable, "-m", "tests.verify.copy_query",
                bootstrap, SOURCE, TARGET, str(checkpoint), master, *options,
            ],
            cwd=ROOT,
            env=os.environ | ({} if orders is None else {FOLDER_VARIABLE: str(orders)}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )  # fmt: skip
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                if line.strip() == "started":
                    self._on_start()
                with self._changed:
                    self.lines.append(line.strip())
                    self._changed.notify_all()
        self._process.wait()
        with self._changed:
            self._changed.notify_all()

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    @property
    def failure(self) -> str:
        """The error that the query ended with; empty: none."""
        return next((line for line in self.lines if line.startswith("failed ")), "")

    def batches(self) -> int:
        """So many were written."""
        return sum(line.startswith("batch ") for line in self.lines)

    def wait_for(self, batches: int, seconds: float = START_S_MAX) -> bool:
        """Until it has written so many, or has ended; whether it has."""
        with self._changed:
            self._changed.wait_for(lambda: self.batches() >= batches or self.has_ended, seconds)
        return self.batches() >= batches

    def wait_for_end(self, seconds: float) -> None:
        """Until it has ended, or goes on all the same."""
        batches = self.batches()
        with self._changed:
            self._changed.wait_for(lambda: self.has_ended or self.batches() > batches + 1, seconds)

    def python_workers(self) -> list[int]:
        """The processes in which its tasks run, and its commits."""
        below = [(pid, command) for pid, _, command in descendants(self._process.pid)]
        daemons = {pid for pid, command in below if "pyspark.daemon" in command}
        return sorted(pid for pid, parent, _ in descendants(self._process.pid) if parent in daemons)

    def kill(self) -> None:
        """All of it is gone, and nobody is told."""
        for pid in (self._process.pid, *[pid for pid, _, _ in descendants(self._process.pid)]):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.close()

    def close(self) -> None:
        """The query is stopped."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            for pid in [pid for pid, _, _ in descendants(self._process.pid)]:
                os.kill(pid, signal.SIGKILL)
            self._process.kill()
        self._thread.join()


class Trial:
    """The driver, and what happens to it and to the cluster."""

    def __init__(
        self,
        cluster: LocalCluster,
        rng: random.Random,
        folder: Path,
        options: Sequence[str],
        on_start: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._on_start = on_start
        self._rng = rng
        self.checkpoint = folder / "checkpoint"
        self._orders = folder / "orders"
        self._orders.mkdir()
        self._options = options
        self.did: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self.faults: list[str] = []
        self.driver = self._started()

    def _started(self) -> Driver:
        bootstrap = self._cluster.bootstrap_servers
        return Driver(
            bootstrap,
            self.checkpoint,
            self._options,
            orders=self._orders,
            on_start=self._on_start,
        )

    def go_on(self) -> None:
        """The driver is started again where it has ended."""
        if self.driver.has_ended:
            self.reasons[_condition(self.driver.failure)] += 1
            self.driver.close()
            self.driver = self._started()

    def disturb(self) -> None:
        """One thing that dies, or has a double."""
        if self._rng.random() < PLACED_SHARE:
            self._place(*self._rng.choice(ORDERS))
            self.go_on()
            return
        what = self._rng.choice(
            ("kill the driver", "kill the driver", "kill a worker", "kill a worker",
             "forget a commit", "double the driver", "kill a broker", "kill the coordinator",
             "kill the controller")
        )  # fmt: skip
        if what == "kill the driver":
            self.driver.kill()
        elif what == "kill a worker":
            workers = self.driver.python_workers()
            if workers:
                try:
                    os.kill(self._rng.choice(workers), signal.SIGKILL)
                except ProcessLookupError:
                    what = "a worker was gone"
        elif what == "forget a commit":
            self.driver.kill()
            self._forget_a_commit()
        elif what == "double the driver":
            self._double()
        elif what == "kill the controller":
            self._cluster.kill_controller()
            SYSTEM_CLOCK.sleep(self._rng.uniform(0.0, 2.0))
            self._cluster.start_controller()
        else:
            self._kill_a_broker(of_sink=what == "kill the coordinator")
        self.did[what] += 1
        self.go_on()

    def _place(self, moment: str, victim: str) -> None:
        """Something dies at that moment; what is aborted has failed before, in a task or in all."""
        fails = self._rng.choice((BEGINS, PREPARED)) if moment in (ABORTS, ABORTED) else None
        order(self._orders, moment, victim)
        if fails is not None:
            order(self._orders, fails, FAILS)
        has_come = self._driver_reaches()
        if fails is not None:
            take_back(self._orders, fails)
        if not has_come:
            take_back(self._orders, moment)
            self.did[f"{moment} did not come"] += 1
            return
        if victim == DRIVER:
            self.driver.kill()
        elif victim in (COORDINATOR, BROKER):
            self._kill_a_broker(of_sink=victim == COORDINATOR)
        (self._orders / DONE).touch()
        self.did[f"{moment}: {victim}"] += 1
        if victim in (ITSELF, RAISES) or fails is not None:
            self.driver.wait_for_end(END_S_MAX)

    def _driver_reaches(self) -> bool:
        """Whether the moment of the last order came while the driver lived."""
        deadline_ms = SYSTEM_CLOCK.monotonic_ms() + round(MOMENT_S_MAX * 1000)
        while not (self._orders / REACHED).exists():
            if self.driver.has_ended or SYSTEM_CLOCK.monotonic_ms() > deadline_ms:
                return (self._orders / REACHED).exists()
            SYSTEM_CLOCK.sleep(0.01)
        return True

    def _forget_a_commit(self) -> None:
        """As if the driver had died between the sink's commit and Spark's note of it."""
        commits = sorted(
            (int(path.name), path)
            for path in (self.checkpoint / "commits").glob("*")
            if path.name.isdigit()
        )
        if commits:
            last = commits[-1][1]
            last.unlink()
            last.with_name(f".{last.name}.crc").unlink(missing_ok=True)

    def _double(self) -> None:
        """Two drivers on one checkpoint: at least one of them ends by name."""
        second = self._started()
        second.wait_for(2)
        deadline_ms = SYSTEM_CLOCK.monotonic_ms() + 60_000
        while not (self.driver.has_ended or second.has_ended):
            if SYSTEM_CLOCK.monotonic_ms() > deadline_ms:
                self.faults.append("two drivers went on with one checkpoint")
                break
            SYSTEM_CLOCK.sleep(0.1)
        if self.driver.has_ended:
            self.reasons[_condition(self.driver.failure)] += 1
            self.driver.close()
            self.driver = second
        else:
            self.reasons[_condition(second.failure)] += 1
            second.close()

    def _kill_a_broker(self, *, of_sink: bool) -> None:
        broker = self._rng.choice(self._cluster.brokers)
        if of_sink:
            broker = self._coordinator() or broker
        self._cluster.kill(broker)
        SYSTEM_CLOCK.sleep(self._rng.uniform(0.0, 3.0))
        self._cluster.start(broker)

    def _coordinator(self) -> int | None:
        with AdminClient(bootstrap_servers=self._cluster.bootstrap_servers) as admin:
            try:
                for each in admin.list_transactions(timeout=10):
                    if each.transactional_id.startswith("__sink/"):
                        return each.coordinator
            except errors.PylogError:
                pass  # a random one then
        return None


def _condition(failure: str) -> str:
    """The name of the query's error."""
    _, found, rest = failure.partition("[PYLOG_")
    return "PYLOG_" + rest.partition("]")[0] if found else failure[:200]


def run(kills: int, seed: int, options: Sequence[str] = ()) -> list[str]:
    """Everything that is wrong."""
    rng = random.Random(seed)
    is_stateful = STATEFUL in options
    with (
        tempfile.TemporaryDirectory(prefix="pylog-exactly-once-") as folder,
        LocalCluster(3, config=_CONFIG) as cluster,
    ):
        bootstrap = cluster.bootstrap_servers
        with AdminClient(bootstrap_servers=bootstrap) as admin:
            admin.create_topics([NewTopic(name, PARTITIONS, 3) for name in (SOURCE, TARGET)])
            numbers, reader = Numbers(bootstrap), CommittedReader(bootstrap)
            copies = [TopicPartition(TARGET, number) for number in range(PARTITIONS)]
            watch = HeldBackWatch(bootstrap, copies)
            trial = Trial(cluster, rng, Path(folder), options, watch.started)
            try:
                for _ in range(kills):
                    trial.driver.wait_for(1)
                    SYSTEM_CLOCK.sleep(rng.uniform(0.0, 2.5))
                    trial.disturb()
                numbers.close()
                for _ in range(5):
                    trial.go_on()
                    wait_for_all(numbers, reader)
                    if not trial.driver.has_ended:
                        break
            finally:
                numbers.close()
                trial.driver.close()
                watch.close()
            faults = left_open(admin)
            reader.close()
        faults += faults_of(numbers, reader, in_order=not is_stateful) + trial.faults
        held_back_s = watch.judge.longest_ms / 1000
        if held_back_s > HELD_BACK_S_MAX:
            faults.append(f"readers waited {held_back_s:.1f} s after a new run had started")
        for log in sorted((cluster.data_dir / "logs").iterdir()):
            text = log.read_text()
            faults += [f"{log.name}: {word}" for word in ("Traceback", "a defect") if word in text]
    print(
        f"seed {seed}: {dict(trial.did)}; {len(numbers.acknowledged)} numbers acknowledged, "
        f"{len(numbers.failed)} failed, {sum(reader.seen.values())} read committed; "
        f"queries ended by {dict(trial.reasons)}; readers were held back for {held_back_s:.1f} s "
        f"at most after a new run had started, {watch.judge.longest_of_all_ms / 1000:.1f} s in all"
    )
    return faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--at-least-once", action="store_true")
    parser.add_argument("--stateful", action="store_true")
    options = parser.parse_args()
    sink = AT_LEAST_ONCE if options.at_least_once else ONCE
    if options.stateful:
        sink = (*sink, STATEFUL)
    faults = run(options.kills, options.seed, sink)
    for fault in faults[:50]:
        print(fault)
    if options.at_least_once:
        found = any("came again" in fault for fault in faults)
        print("numbers came again, as they must" if found else "no number came again")
        return not found
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
