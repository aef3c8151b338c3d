"""`python -m bench [--scale S]`: every figure, a median of several, beside its bare limit."""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import uuid
from typing import TYPE_CHECKING

from bench import (
    cluster,
    coordinator_loss,
    failover,
    groups,
    large_group,
    limits,
    many_groups,
    spark,
    storage,
    transactions,
    upkeep,
)
from bench.measure import RUNS, alternating, median, printed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pylog import LocalCluster


def log_figures(brokers: int, scale: float, runs: int) -> None:
    """Produce, consume and latency with `brokers` brokers."""
    count = max(1_000, int(1_000_000 * scale))
    name = itertools.count()
    with cluster.cluster(brokers) as running:
        label = f"{brokers} broker{'s' if brokers > 1 else ''}"
        for size in (100, 1_000):
            rows = count if size == 100 else count // 4

            def topic() -> str:
                return cluster.fresh_topic(running, f"bench-{next(name)}")

            def send(rows: int = rows, size: int = size) -> float:
                return cluster.produce(running, topic(), rows, size)

            def send_arrow(rows: int = rows, size: int = size) -> float:
                return cluster.produce_arrow(running, topic(), rows, size)

            median(f"{label}: send, {size} bytes, acks=all", "rec/s", send, runs=runs)
            median(f"{label}: send_arrow, {size} bytes, acks=all", "rec/s", send_arrow, runs=runs)
            full = topic()
            cluster.produce_arrow(running, full, rows, size)

            def columns(full: str = full) -> float:
                return cluster.consume_arrow(running, full)

            def records(full: str = full) -> float:
                return cluster.consume_records(running, full)

            median(f"{label}: poll_arrow, {size} bytes", "rec/s", columns, runs=runs)
            median(f"{label}: records, {size} bytes", "rec/s", records, runs=runs)
        samples = max(200, int(5_000 * scale))
        latencies = [cluster.end_to_end(running, topic(), samples) for _ in range(runs)]
        for which, part in (("p50", 0.5), ("p99", 0.99)):
            values = [cluster.percentile(run, part) for run in latencies]
            printed(f"{label}: end to end at 1,000 rec/s, {which}", "ms", values)


def group_figures(scale: float, runs: int) -> None:
    """The work and the costs of groups of consumers; large ones and many at the end."""
    for brokers in (1, 3):
        with cluster.cluster(brokers) as running:
            label = f"{brokers} broker{'s' if brokers > 1 else ''}"
            groups.group_rows(running, label, runs)
            if brokers == 1:
                groups.cost_rows(running, scale, runs)
    large_group.rows(scale)
    coordinator_loss.rows(scale)
    many_groups.rows(scale)


def upkeep_figures(scale: float) -> None:
    """Idle brokers, many new partitions, and a failover under load, with three brokers."""
    name = itertools.count()
    idle, many = max(3, int(100 * scale)), max(3, int(1_000 * scale))
    seconds = max(1.0, 60 * min(1.0, scale))
    with cluster.cluster(3) as running:
        median(
            f"3 brokers: busiest broker, {idle} idle partitions",
            "% core",
            lambda: upkeep.idle_percent(running, "idle", idle, seconds),
            runs=1,
        )
        median(
            f"3 brokers: {many} new partitions to the first ack",
            "s",
            lambda: upkeep.first_acknowledgement(running, f"many-{next(name)}", many),
            runs=3,
        )
    failover.rows(scale)


def transaction_figures(scale: float, runs: int) -> None:
    """Transactions, one behind the other."""
    for brokers in (1, 3):
        with cluster.cluster(brokers) as running:
            label = f"{brokers} broker{'s' if brokers > 1 else ''}"
            transactions.transaction_rows(running, label, scale, runs)


def limit_figures(scale: float) -> None:
    """gRPC echo and a pwrite loop."""
    total = max(4 << 20, int((512 << 20) * scale))
    median("limit: pwrite of 256 KiB, no fsync", "MB/s", lambda: limits.pwrite_mb_per_s(total))
    messages = max(20, int(2_000 * scale))
    with limits.echo_server() as address:
        size = 256 * 1024

        def throughput() -> float:
            seconds, _ = limits.echo_run(address, messages, size, in_flight=5)
            return messages * size / seconds / 1e6

        def round_trip() -> float:
            _, times = limits.echo_run(address, messages, 200, in_flight=1)
            return cluster.percentile(times, 0.5)

        median("limit: gRPC echo, 256 KiB one way, 5 in flight", "MB/s", throughput)
        median("limit: gRPC echo, 200 bytes, round trip p50", "ms", round_trip)


def spark_figures(scale: float, runs: int) -> None:
    """Source, sink and micro-batches, in turns with a Python source and sink over memory."""
    session = spark.session()
    name = itertools.count()
    with cluster.cluster(1) as running:
        bootstrap = running.bootstrap_servers
        for size in (100, 1_000):
            rows = max(4_000, int(2_000_000 * scale) // (1 if size == 100 else 4))
            full = cluster.fresh_topic(running, f"source-{next(name)}")
            cluster.produce_arrow(running, full, rows, size)
            spark_rows(session, running, f"sink-{next(name)}", full, rows, size, runs)
        batches = max(2, int(20 * scale))
        small = cluster.fresh_topic(running, "micro-batches")
        spark.fill_for_micro_batches(bootstrap, small, batches)
        alternating(
            "s",
            {
                f"limit: {batches} micro-batches of 1,000 rows from memory": (
                    lambda: spark.memory_micro_batches(session, batches)
                ),
                f"Spark source, {batches} micro-batches of 1,000 rows": (
                    lambda: spark.micro_batches(session, bootstrap, small, batches)
                ),
            },
            runs=runs,
        )
        for rows in (100_000, 1_000):
            sink_batch_rows(session, running, max(20, int(rows * scale)), batches, runs)
    session.stop()


def sink_batch_rows(
    session: SparkSession, running: LocalCluster, rows: int, batches: int, runs: int
) -> None:
    """The time of a streaming query's batch, exactly once and at least once."""

    def batch_ms(*, exactly_once: bool) -> float:
        topic = cluster.fresh_topic(running, f"streamed-{uuid.uuid4()}")
        bootstrap = running.bootstrap_servers
        return spark.sink_batch_ms(
            session, bootstrap, topic, batches, rows, exactly_once=exactly_once
        )

    alternating(
        "ms",
        {
            f"Spark sink, {rows:,} rows a batch, at least once": (
                lambda: batch_ms(exactly_once=False)
            ),
            f"Spark sink, {rows:,} rows a batch, exactly once": lambda: batch_ms(exactly_once=True),
        },
        runs=runs,
    )


def spark_rows(
    session: SparkSession,
    running: LocalCluster,
    sinks: str,
    full: str,
    rows: int,
    size: int,
    runs: int,
) -> None:
    """Rows of one size out of the topic `full`, and into fresh ones."""
    bootstrap, name = running.bootstrap_servers, itertools.count()

    def sink() -> float:
        topic = cluster.fresh_topic(running, f"{sinks}-{next(name)}")
        return spark.sink(session, bootstrap, topic, rows, size)

    alternating(
        "rows/s",
        {
            f"limit: in-memory Python source, {size} bytes": (
                lambda: spark.memory_source(session, rows, size, 4)
            ),
            f"Spark source, {size} bytes": lambda: spark.source(session, bootstrap, full, rows),
        },
        runs=runs,
    )
    alternating(
        "rows/s",
        {
            f"limit: Python sink that drops, {size} bytes": (
                lambda: spark.dropping_sink(session, rows, size)
            ),
            f"Spark sink, {size} bytes": sink,
        },
        runs=runs,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="size of each run, 1 is full")
    parser.add_argument(
        "--runs",
        type=int,
        default=RUNS,
        help="of which a row of `log`, `groups` and `spark` is the median",
    )
    parts = ["limits", "storage", "log", "groups", "transactions", "upkeep", "spark"]
    parser.add_argument("--only", choices=parts)
    options = parser.parse_args()
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # As where it is installed: else each of Spark's processes would compile what it imports.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if options.only in (None, "limits"):
        limit_figures(options.scale)
    if options.only in (None, "storage"):
        storage.figures(options.scale)
    if options.only in (None, "log"):
        log_figures(1, options.scale, options.runs)
        log_figures(3, options.scale, options.runs)
    if options.only in (None, "groups"):
        group_figures(options.scale, options.runs)
    if options.only in (None, "transactions"):
        transaction_figures(options.scale, options.runs)
    if options.only in (None, "upkeep"):
        upkeep_figures(options.scale)
    if options.only in (None, "spark"):
        spark_figures(options.scale, options.runs)


if __name__ == "__main__":
    main()
