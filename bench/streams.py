"""`python -m bench.streams [--brokers N] [--scale S]`: framed streams beside gRPC.

The two in turn, within one run: end-to-end latency, throughput, and what they cost in processor
time, which other load on the machine disturbs least.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import sys
from collections.abc import Callable

from bench import cluster
from bench.gateway import cpu_seconds
from pylog import LocalCluster

ROUNDS = 3
TRANSPORTS = ("auto", "grpc")


def broker_pids(running: LocalCluster) -> list[int]:
    """The processes of the brokers."""
    return [node._process.pid for node in running._nodes.values()]


class Costs:
    """Processor time of this process and of the brokers since it was made."""

    def __init__(self, running: LocalCluster) -> None:
        self._brokers = broker_pids(running)
        self._before = self._now()

    def _now(self) -> tuple[float, float]:
        here, there = cpu_seconds(os.getpid()), sum(map(cpu_seconds, self._brokers))
        return here * 1000, there * 1000

    def since(self) -> tuple[float, float]:
        """Milliseconds: (here, in the brokers)."""
        (here, there), now = self._before, self._now()
        return now[0] - here, now[1] - there


def latency(running: LocalCluster, name: Callable[[], str], count: int) -> None:
    """End to end at 1,000 records a second, linger 0."""
    figures: dict[str, list[tuple[float, float, float, float]]] = {}
    for _ in range(ROUNDS):
        for transport in TRANSPORTS:
            topic = cluster.fresh_topic(running, name())
            costs = Costs(running)
            times = cluster.end_to_end(running, topic, count, client_transport=transport)
            here, there = (spent / count * 1000 for spent in costs.since())
            figures.setdefault(transport, []).append(
                (cluster.percentile(times, 0.5), cluster.percentile(times, 0.99), here, there)
            )
    for transport, rows in figures.items():
        p50, p99, here, there = (statistics.median(column) for column in zip(*rows, strict=True))
        sys.stdout.write(
            f"end to end, {transport}: p50 {p50:.2f} ms, p99 {p99:.2f} ms; CPU a record: "
            f"client {here:.0f} us, brokers {there:.0f} us\n"
        )
        sys.stdout.flush()


def throughput(running: LocalCluster, name: Callable[[], str], size: int, total: int) -> None:
    """`send_arrow` and `poll_arrow` of so many bytes."""
    figures: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
    count = max(1_000, total // size)
    megabytes = count * size / 1e6
    for _ in range(ROUNDS):
        for transport in TRANSPORTS:
            topic = cluster.fresh_topic(running, name())
            costs = Costs(running)
            rate = cluster.produce_arrow(running, topic, count, size, client_transport=transport)
            spent = costs.since()
            figures.setdefault(("send_arrow", transport), []).append((rate, *spent))
            costs = Costs(running)
            rate = cluster.consume_arrow(running, topic, client_transport=transport)
            spent = costs.since()
            figures.setdefault(("poll_arrow", transport), []).append((rate, *spent))
    for (what, transport), rows in sorted(figures.items()):
        rate, here, there = (statistics.median(column) for column in zip(*rows, strict=True))
        sys.stdout.write(
            f"{what}, {size} bytes, {transport}: {rate:,.0f} rec/s; CPU a MB: "
            f"client {here / megabytes:.2f} ms, brokers {there / megabytes:.2f} ms\n"
        )
        sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--brokers", type=int, default=1)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--only", choices=("latency", "throughput"))
    options = parser.parse_args()
    numbers = itertools.count()

    def name() -> str:
        return f"streams-{next(numbers)}"

    with cluster.cluster(options.brokers) as running:
        if options.only != "throughput":
            latency(running, name, max(200, int(3_000 * options.scale)))
        if options.only != "latency":
            for size in (100, 1_000):
                throughput(running, name, size, int(100e6 * options.scale))


if __name__ == "__main__":
    main()
