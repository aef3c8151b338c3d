"""Kills under load: `python -m tests.verify.kills [--short] [--flights]`.

A verifiable producer runs all the time, the flights too if asked for, while brokers and drivers are
killed and paused. At the end the whole topic is read back. Prints one line per blow and a verdict;
exit status 0 only when nothing was lost, doubled or reordered, and all replicas are equal.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pylog import AdminClient, NewTopic
from pylog.clock import SYSTEM_CLOCK
from pylog.errors import PylogError
from pylog.model import TopicDescription, TopicPartition
from tests.verify.disks_replicas import difference
from tests.verify.load import Verdict, VerifiableProducer, check, gap_around
from tests.verify.spark_cluster import ROOT, SparkCluster

TOPIC = "verified"
PARTITIONS = 6
HEAL_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Blow:
    """One thing done to the cluster, and when."""

    kind: str
    at_ms: int
    partitions: tuple[int, ...]  # led by the victim at that moment


def free_port() -> int:
    """A port that nobody listens on at the moment, below Linux's range for outgoing connections.

    From that range the port of a stopped driver could be taken by any connection meanwhile, even by
    a client that tries to reach just this port.
    """
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class Campaign:
    """A cluster, a load, and a list of blows. Used from one thread."""

    def __init__(self, folder: Path, *, rate: int, flights: bool, seed: int) -> None:
        self.cluster = SparkCluster(folder / "data", port=free_port())
        self._rng = random.Random(seed)
        self._rate, self._flights = rate, flights
        self._over = threading.Event()
        self.flights_done = 0
        self.blows: list[Blow] = []
        self.unequal: list[str] = []
        self.load: VerifiableProducer

    # ---- before and after ------------------------------------------------------------------------

    def start(self) -> None:
        """Cluster, topic, load, and the flights in a loop."""
        self.cluster.start()
        with AdminClient(bootstrap_servers=self.cluster.bootstrap) as admin:
            config = {"min.insync.replicas": "2"}
            admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3, config=config)])
        self.load = VerifiableProducer(self.cluster.bootstrap, TOPIC, PARTITIONS, rate=self._rate)
        if self._flights:
            self._flyer = threading.Thread(target=self._fly, name="flights", daemon=True)
            self._flyer.start()

    def _fly(self) -> None:
        """The flights, again and again, each time in a Spark application of its own."""
        submit = str(Path(sys.executable).parent / "spark-submit")
        command = [submit, "--master", "local[1]", "--conf", "spark.log.level=ERROR"]
        command += ["--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.ui.enabled=false"]
        environment = {
            **os.environ,
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        environment["PYSPARK_DRIVER_PYTHON"] = sys.executable
        arguments = ["examples/flights.py", "--bootstrap", self.cluster.bootstrap]
        while not self._over.is_set():
            log = self.cluster.data_dir.parent / f"flights-{self.flights_done}.log"
            with log.open("w") as output:
                done = subprocess.run(
                    [*command, *arguments],
                    cwd=ROOT,
                    env=environment,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    check=False,
                )
            if done.returncode and not log.read_text().count("\ntopic flights-"):
                continue  # it found no broker to create its topic on, and has not begun
            if done.returncode:
                print(f"the flights failed: {log.read_text()[-2000:]}", flush=True)
                self.flights_done = -1
                return
            self.flights_done += 1

    def finish(self) -> Verdict:
        """Stop the load, wait for the flights, read everything back, compare the replicas."""
        self.healed()
        self._over.set()
        self.load.close()
        if self._flights:
            self._flyer.join(300)
        verdict = check(self.load, self.cluster.bootstrap)
        partitions = [TopicPartition(TOPIC, n) for n in range(PARTITIONS)]
        with AdminClient(bootstrap_servers=self.cluster.bootstrap) as admin:
            ends = admin.list_offsets(dict.fromkeys(partitions, "latest"))
        self.cluster.close()
        for tp, end in ends.items():
            assert end is not None
            places = {b: self.cluster.data_dir / f"broker-{b}" / str(tp) for b in (1, 2, 3)}
            if different := difference(places, end.offset):
                self.unequal.append(f"{tp}: {different}")
        return verdict

    # ---- what is going on ----------------------------------------------------------------------

    def topic(self) -> TopicDescription:
        """The verified topic as the gateway knows it."""
        with AdminClient(bootstrap_servers=self.cluster.bootstrap) as admin:
            return admin.describe_topics([TOPIC])[TOPIC]

    def healed(self) -> None:
        """Wait until every partition has a leader and a full ISR again, and records flow."""
        deadline = SYSTEM_CLOCK.monotonic_ms() + HEAL_SECONDS * 1000
        state = "unreachable"
        while SYSTEM_CLOCK.monotonic_ms() < deadline:
            try:
                partitions = self.topic().partitions
            except PylogError as error:
                state = repr(error)
            else:
                if all(p.leader is not None and len(p.isr) == 3 for p in partitions):
                    return self._flowing()
                state = str([(p.partition, p.leader, p.isr) for p in partitions])
            SYSTEM_CLOCK.sleep(0.2)
        raise AssertionError(f"not healed within {HEAL_SECONDS} s: {state}")

    def _lives(self) -> dict[int, int]:
        """The broker epoch of each live broker: it grows with each of its lives."""
        try:
            with AdminClient(bootstrap_servers=self.cluster.bootstrap) as admin:
                return {broker.id: broker.epoch for broker in admin.describe_cluster().brokers}
        except PylogError:
            return {}

    def _reborn(self, before: dict[int, int]) -> None:
        """Wait until all brokers are there and at least one has begun a new life."""
        deadline = SYSTEM_CLOCK.monotonic_ms() + HEAL_SECONDS * 1000
        while SYSTEM_CLOCK.monotonic_ms() < deadline:
            now = self._lives()
            if now.keys() == before.keys() and now != before:
                return
            SYSTEM_CLOCK.sleep(0.1)
        raise AssertionError(f"no broker came back within {HEAL_SECONDS} s: {before} -> {now}")

    def _flowing(self) -> None:
        before, deadline = len(self.load.acks), SYSTEM_CLOCK.monotonic_ms() + 30_000
        while len(self.load.acks) < before + self._rate:
            assert SYSTEM_CLOCK.monotonic_ms() < deadline, "healed, but nothing is acknowledged"
            SYSTEM_CLOCK.sleep(0.05)

    def leader(self) -> tuple[int, tuple[int, ...]]:
        """A broker that leads something, and what it leads."""
        partitions = self.topic().partitions
        victim = self._rng.choice(sorted({p.leader for p in partitions if p.leader is not None}))
        return victim, tuple(p.partition for p in partitions if p.leader == victim)

    # ---- blows ----------------------------------------------------------------------------------

    def strike(self, kind: str) -> None:
        """One blow, then wait until all is well again."""
        self.healed()
        before = self._lives()
        getattr(self, f"_{kind}")()
        started = self.blows[-1].at_ms
        if kind != "pause":
            self._reborn(before)
        self.healed()
        seconds = (SYSTEM_CLOCK.monotonic_ms() - started) / 1000
        gap = gap_around(self.load, list(self.blows[-1].partitions), started)
        print(f"{kind:<14} acknowledgements paused {gap} ms, healed in {seconds:.1f} s", flush=True)

    def _hit(self, kind: str, partitions: tuple[int, ...], act: Callable[[], None]) -> None:
        self.blows.append(Blow(kind, SYSTEM_CLOCK.monotonic_ms(), partitions))
        act()

    def _worker(self) -> None:
        broker, partitions = self.leader()
        pid = self.cluster.worker_of(broker)
        self._hit("worker", partitions, lambda: os.kill(pid, signal.SIGKILL))

    def _executor(self) -> None:
        broker, partitions = self.leader()
        cluster = self.cluster
        pid = cluster.parent_of(cluster.parent_of(cluster.worker_of(broker)))
        self._hit("executor", partitions, lambda: os.kill(pid, signal.SIGKILL))

    def _daemon(self) -> None:
        broker, partitions = self.leader()
        pid = self.cluster.parent_of(self.cluster.worker_of(broker))
        self._hit("daemon", partitions, lambda: os.kill(pid, signal.SIGKILL))

    def _pause(self) -> None:
        broker, partitions = self.leader()
        pid = self.cluster.worker_of(broker)

        def pause() -> None:
            os.kill(pid, signal.SIGSTOP)
            SYSTEM_CLOCK.sleep(10)
            os.kill(pid, signal.SIGCONT)

        self._hit("pause", partitions, pause)

    def _all_executors(self) -> None:
        victims = self.cluster.executors()

        def kill() -> None:
            for pid in victims:
                os.kill(pid, signal.SIGKILL)

        self._hit("all_executors", tuple(range(PARTITIONS)), kill)

    def _driver_jvm(self) -> None:
        self._driver("driver_jvm", self.cluster.jvm)

    def _driver_python(self) -> None:
        self._driver("driver_python", self.cluster.python_driver())

    def _driver(self, kind: str, pid: int) -> None:
        def kill() -> None:
            os.kill(pid, signal.SIGKILL)
            self.cluster.wait_gone(5)
            self.cluster.start()

        self._hit(kind, tuple(range(PARTITIONS)), kill)


FULL = {
    "executor": 6,
    "worker": 6,
    "daemon": 2,
    "pause": 2,
    "driver_jvm": 1,
    "driver_python": 1,
    "all_executors": 2,
}
SHORT = {"worker": 1, "executor": 1, "daemon": 1, "driver_jvm": 1, "all_executors": 1}


def run(plan: dict[str, int], *, rate: int, flights: bool, seed: int, acks: int) -> Verdict:
    """A whole campaign; prints and returns the verdict. AssertionError when a promise is broken."""
    with tempfile.TemporaryDirectory(prefix="pylog-kills-") as folder:
        campaign = Campaign(Path(folder), rate=rate, flights=flights, seed=seed)
        try:
            campaign.start()
            blows = [kind for kind, count in plan.items() for _ in range(count)]
            random.Random(seed).shuffle(blows)
            for kind in blows:
                campaign.strike(kind)
            while len(campaign.load.acks) < acks:
                SYSTEM_CLOCK.sleep(1)
            verdict = campaign.finish()
        finally:
            campaign.cluster.close()
        judge(campaign, verdict)
        return verdict


def judge(campaign: Campaign, verdict: Verdict) -> None:
    """Print the verdict and the fail-over times; AssertionError when a promise is broken."""
    takeovers = []
    for blow, following in itertools.zip_longest(campaign.blows, campaign.blows[1:]):
        if blow.kind in ("worker", "executor"):
            # Not what the next blow cost.
            window_ms = min(5_000, following.at_ms - blow.at_ms) if following else 5_000
            gap = gap_around(campaign.load, list(blow.partitions), blow.at_ms, window_ms)
            takeovers += [gap] if gap is not None else []
    print(f"blows {len(campaign.blows)}: {verdict}, unequal replicas {len(campaign.unequal)}")
    if takeovers:
        middle, longest = statistics.median(takeovers), max(takeovers)
        print(f"killed leader to the next acknowledgement: median {middle:.0f} ms, ", end="")
        print(f"longest {longest} ms of {len(takeovers)}")
    if campaign.flights_done:
        print(f"flights meanwhile: {campaign.flights_done} whole runs, each equal to pandas")
    assert not verdict.lost, f"lost: {verdict.lost[:5]}"
    assert not verdict.duplicated, f"duplicated: {verdict.duplicated[:5]}"
    assert not verdict.out_of_order, f"out of order: {verdict.out_of_order[:5]}"
    assert not campaign.unequal, f"replicas are not equal: {campaign.unequal}"
    assert verdict.unknown_share < 0.2
    assert campaign.flights_done >= 0, "the flights failed"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="one blow of each kind that matters")
    parser.add_argument("--flights", action="store_true", help="with the flights meanwhile")
    parser.add_argument("--rate", type=int, default=500, help="records a second")
    parser.add_argument("--acks", type=int, default=0, help="go on until so many are acknowledged")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    run(
        SHORT if options.short else FULL,
        rate=options.rate,
        flights=options.flights,
        seed=options.seed,
        acks=options.acks,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
