"""`python -m bench.peers [--only PART] [--brokers N] [--scale S]`: pylog beside Kafka, in one run.

Needs Java 17, Kafka's jars (`tools/kafka_jars.py`; Maven fetches them) and the extra `peers`. Both
clusters are up and one is asked at a time; where throughput is measured, Kafka's processes are
stopped while pylog is asked. Each row is a median of runs taken in turns. The figure that counts is
the ratio of pylog's to the peer's; `wanted` is the ratio at which pylog aims.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Final

from bench import cluster, groups, kafka_peer, transactions
from bench.gateway import cpu_seconds, gateway_pid
from bench.measure import Figure, alternating, printed
from bench.streams import broker_pids
from pylog import LocalCluster

RUNS: Final = 5
IDLE_S: Final = 3.0
RATE: Final = 1_000

C_CLIENT: Final = "confluent-kafka"
"""The C client, against Kafka; pylog stands for its client against its own brokers."""
JAVA: Final = "Java"
"""Kafka's perf tools."""
CONNECTOR: Final = "Kafka's connector"

WANTED: Final = {
    ("end to end p50, ms", 1, C_CLIENT): 0.5 / 0.29,
    ("end to end p99, ms", 1, C_CLIENT): 1.5 / 1.6,
    ("end to end p50, ms", 3, C_CLIENT): 0.9 / 0.92,
    ("send, 100 bytes", 1, C_CLIENT): 1.2 / 1.03,
    ("send, 100 bytes", 3, C_CLIENT): 0.7 / 0.36,
    ("send, 1,000 bytes", 1, JAVA): 220 / 140,
    ("send, 1,000 bytes", 3, JAVA): 100 / 51,
    ("send_arrow, 100 bytes", 1, JAVA): 2.5 / 0.70,
    ("poll_arrow, 100 bytes", 1, JAVA): 5.0 / 2.6,
    ("poll_arrow, 1,000 bytes", 1, JAVA): 550 / 470,
    ("iteration, 100 bytes", 1, C_CLIENT): 2.0 / 0.26,
    ("Spark source, 100 bytes", 1, CONNECTOR): 1.5,
    ("Spark sink, 100 bytes", 1, CONNECTOR): 1.0,
    ("Spark sink, 1,000 bytes", 1, CONNECTOR): 250 / 167,
    ("20 Spark micro-batches, s", 1, CONNECTOR): 1.0,
    ("first record, consumer, s", 1, C_CLIENT): 0.1 / 0.19,
    ("first record, consumer, s", 3, C_CLIENT): 0.1 / 0.20,
    ("second member settled, consumer, s", 1, C_CLIENT): 1 / 5.1,
    ("second member settled, consumer, s", 3, C_CLIENT): 1 / 5.1,
    ("second member settled, classic, s", 1, C_CLIENT): 0.4 / 1.6,
    ("second member settled, classic, s", 3, C_CLIENT): 1.0,
    ("longest gap of the first, consumer, s", 1, C_CLIENT): 50 / 154,
    ("longest gap of the first, consumer, s", 3, C_CLIENT): 50 / 71,
    ("close, consumer, s", 1, C_CLIENT): 5 / 3,
    ("close, consumer, s", 3, C_CLIENT): 20 / 30,
    ("commit p50, ms", 1, C_CLIENT): 0.8 / 0.87,
    ("commit p50, ms", 3, C_CLIENT): 1.8 / 1.99,
    ("init_transactions p50, ms", 1, C_CLIENT): 50 / 1_038,
    ("init_transactions p50, ms", 3, C_CLIENT): 80 / 1_551,
    ("1 record p50, ms", 1, C_CLIENT): 4 / 29,
    ("1 record p50, ms", 3, C_CLIENT): 6 / 59,
    ("100 records p50, ms", 1, C_CLIENT): 6 / 15,
    ("100 records p50, ms", 3, C_CLIENT): 9 / 71,
    ("1,000 records", 1, C_CLIENT): 150 / 49,
    ("1,000 records", 3, C_CLIENT): 100 / 14,
    ("copy of 200 records p50, ms", 1, C_CLIENT): 10 / 96,
    ("copy of 200 records p50, ms", 3, C_CLIENT): 15 / 117,
}
"""(row, brokers, peer): pylog's figure of the peer's, both as they were on one kind of machine."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two clusters of as many brokers."""

    ours: LocalCluster
    theirs: kafka_peer.KafkaCluster
    names: itertools.count[int]
    runs: int

    @property
    def brokers(self) -> int:
        return self.theirs.brokers

    @property
    def label(self) -> str:
        return f"{self.brokers} broker{'s' if self.brokers > 1 else ''}"

    def ours_fresh(self) -> str:
        return cluster.fresh_topic(self.ours, f"peers-{next(self.names)}")

    def theirs_fresh(self) -> str:
        return self.theirs.fresh_topic(f"peers-{next(self.names)}")


def ratio(pair: Pair, row: str, ours: Figure, peer: str, theirs: Figure) -> None:
    """Print pylog's median of the peer's, and what is wanted of it."""
    share = ours.median / theirs.median
    wanted = WANTED.get((row, pair.brokers, peer))
    at = "at most" if row.endswith((" s", " ms")) else "at least"
    told = "" if wanted is None else f" (wanted: {at} {wanted:.2f})"
    sys.stdout.write(f"ratio: {pair.label}: {row}: pylog / {peer} = {share:.2f}{told}\n")
    sys.stdout.flush()


def idle(pair: Pair) -> None:
    """The costs of both while nobody asks."""
    processes = {
        "pylog": [*broker_pids(pair.ours), gateway_pid(pair.ours)],
        "Kafka": [process.pid for process in pair.theirs.processes],
    }
    before = {name: sum(map(cpu_seconds, pids)) for name, pids in processes.items()}
    time.sleep(IDLE_S)  # noqa: TID251 - the idle time is what is asked for
    for name, pids in processes.items():
        used = (sum(map(cpu_seconds, pids)) - before[name]) / IDLE_S * 100
        sys.stdout.write(f"idle, {pair.label}, {name}: {used:.1f} % of a core\n")


def latency(pair: Pair, scale: float) -> None:
    """End to end at 1,000 records a second, linger 0, acks=all.

    Before each run comes a second that is not counted: that side was idle. Kafka is not stopped
    here, so that no JVM has just been woken.
    """
    samples, warm, again = (max(200, int(n * scale)) for n in (4_000, 15_000, 1_000))

    def ours(count: int) -> list[float]:
        cluster.end_to_end(pair.ours, pair.ours_fresh(), again, RATE)
        return cluster.end_to_end(pair.ours, pair.ours_fresh(), count, RATE)

    def theirs(count: int) -> list[float]:
        kafka_peer.end_to_end(pair.theirs, pair.theirs_fresh(), again, RATE)
        return kafka_peer.end_to_end(pair.theirs, pair.theirs_fresh(), count, RATE)

    sides: Mapping[str, Callable[[int], list[float]]] = {"pylog": ours, C_CLIENT: theirs}
    for run in sides.values():
        run(warm)
    taken: dict[str, list[list[float]]] = {name: [] for name in sides}
    for _ in range(pair.runs):
        for name, run in sides.items():
            taken[name].append(run(samples))
    for row, share in (("end to end p50, ms", 0.5), ("end to end p99, ms", 0.99)):
        figures = [
            printed(
                f"{pair.label}: {row}: {name}",
                "ms",
                [cluster.percentile(times, share) for times in runs],
            )
            for name, runs in taken.items()
        ]
        ratio(pair, row, figures[0], C_CLIENT, figures[1])


def compare(
    pair: Pair,
    unit: str,
    ours: Mapping[str, Callable[[], float]],
    peers: Mapping[str, Callable[[], float]],
    *,
    asleep: bool = True,
) -> None:
    """Runs in turns of pylog's rows and of what its peers do for all of them; Kafka is stopped
    while pylog runs unless it may not be put to sleep.
    """

    def ours_runs(run: Callable[[], float]) -> float:
        with pair.theirs.asleep() if asleep else nullcontext():
            return run()

    runs = {f"{pair.label}: {row}": functools.partial(ours_runs, run) for row, run in ours.items()}
    runs |= {f"{pair.label}: {next(iter(ours))}: {peer}": run for peer, run in peers.items()}
    figures = alternating(unit, runs, runs=pair.runs)
    for row, figure in zip(ours, figures, strict=False):
        for peer, other in zip(peers, figures[len(ours) :], strict=True):
            ratio(pair, row, figure, peer, other)


def writing(pair: Pair, scale: float) -> None:
    """Records a second into fresh topics, acks=all."""
    for size, rows in ((100, 600_000), (1_000, 100_000)):
        count = max(1_000, int(rows * scale))

        def ours(
            send: Callable[[LocalCluster, str, int, int], float],
            count: int = count,
            size: int = size,
        ) -> float:
            return send(pair.ours, pair.ours_fresh(), count, size)

        def confluent(callbacks: bool, count: int = count, size: int = size) -> float:
            return kafka_peer.produce(pair.theirs, pair.theirs_fresh(), count, size, callbacks)

        def java(count: int = count, size: int = size) -> float:
            # Its start is within its figure, so it has twice as long.
            return kafka_peer.java_produce(pair.theirs, pair.theirs_fresh(), 2 * count, size)

        compare(
            pair,
            "rec/s",
            {
                f"send, {size:,} bytes": functools.partial(ours, cluster.produce),
                f"send with keys, {size:,} bytes": functools.partial(ours, cluster.produce_keyed),
                f"send, callbacks, {size:,} bytes": functools.partial(ours, cluster.produce_told),
                f"send_arrow, {size:,} bytes": functools.partial(ours, cluster.produce_arrow),
            },
            {
                C_CLIENT: functools.partial(confluent, False),
                f"{C_CLIENT}, callbacks": functools.partial(confluent, True),
                JAVA: java,
            },
        )


def reading(pair: Pair, scale: float) -> None:
    """Records a second out of topics whose pages are in memory."""
    for size, rows in ((100, 1_000_000), (1_000, 200_000)):
        count = max(1_000, int(rows * scale))
        ours, theirs = pair.ours_fresh(), pair.theirs_fresh()
        cluster.produce_arrow(pair.ours, ours, count, size)
        kafka_peer.produce(pair.theirs, theirs, count, size)
        ways = {"poll_arrow": cluster.consume_arrow, "iteration": cluster.consume_records}
        compare(
            pair,
            "rec/s",
            {
                f"{row}, {size:,} bytes": functools.partial(way, pair.ours, ours)
                for row, way in ways.items()
            },
            {
                C_CLIENT: functools.partial(kafka_peer.consume, pair.theirs, theirs),
                JAVA: functools.partial(kafka_peer.java_consume, pair.theirs, theirs, count),
            },
        )


def grouping(pair: Pair, _scale: float) -> None:
    """Groups that form, grow and commit. Kafka is not stopped here: its members would be missed."""
    ours = groups.Ours(pair.ours, pair.names)
    theirs = groups.Theirs(pair.theirs, pair.names)
    for row, unit, run in groups.rows():
        compare(
            pair,
            unit,
            {row: functools.partial(run, ours)},
            {C_CLIENT: functools.partial(run, theirs)},
            asleep=False,
        )


def transacting(pair: Pair, scale: float) -> None:
    """Transactions, one behind the other. Kafka is not stopped here: its coordinator keeps time."""
    ours, theirs = transactions.Ours(pair.ours), transactions.Theirs(pair.theirs)
    for row, unit, run in transactions.rows(scale):
        compare(
            pair,
            unit,
            {row: functools.partial(run, ours)},
            {C_CLIENT: functools.partial(run, theirs)},
            asleep=False,
        )


PARTS: Final = {
    "latency": latency,
    "writing": writing,
    "reading": reading,
    "groups": grouping,
    "transactions": transacting,
}


def check_peer() -> None:
    """Ends the process with what to install, where Kafka is not to be had."""
    try:
        kafka_peer.jars()
    except kafka_peer.PeerMissing as missing:
        sys.exit(f"bench.peers: {missing}")


@contextmanager
def pair_of(brokers: int, runs: int) -> Iterator[Pair]:
    """Both clusters, running; both are ended whatever happens."""
    # An end from outside unwinds, too: no broker stays.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    with kafka_peer.kafka_cluster(brokers) as theirs, cluster.cluster(brokers) as ours:
        yield Pair(ours, theirs, itertools.count(), runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="size of each run, 1 is full")
    parser.add_argument("--runs", type=int, default=RUNS, help="of which a row is the median")
    parser.add_argument("--only", choices=sorted(PARTS), action="append")
    parser.add_argument("--brokers", type=int, choices=(1, 3), action="append")
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    check_peer()
    for brokers in options.brokers or (1, 3):
        with pair_of(brokers, options.runs) as pair:
            idle(pair)
            for name in options.only or PARTS:
                PARTS[name](pair, options.scale)


if __name__ == "__main__":
    main()
