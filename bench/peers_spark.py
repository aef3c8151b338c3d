"""`python -m bench.peers_spark [--scale S]`: pylog's source and sink beside Spark's for Kafka.

One session, local[2], one broker of each system, in turns, as in `bench.peers`. The connector is
the newest that Spark has published (`tools/kafka_jars.py`).
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
from collections.abc import Callable, Mapping

from pyspark.sql import SparkSession

from bench import cluster, kafka_peer, spark
from bench.memory_rows import MICRO_BATCH_ROWS
from bench.peers import CONNECTOR, RUNS, Pair, check_peer, compare, idle, pair_of
from tools.kafka_jars import JarsMissing, spark_connector


class Both:
    """Both systems under one Spark."""

    def __init__(self, pair: Pair, session: SparkSession) -> None:
        self.pair = pair
        self.session = session
        self.servers = {
            spark.PYLOG: pair.ours.bootstrap_servers,
            spark.KAFKA: pair.theirs.bootstrap_servers,
        }

    def fresh(self, system: str) -> str:
        """A new topic of one of them."""
        return self.pair.ours_fresh() if system == spark.PYLOG else self.pair.theirs_fresh()

    def compare(self, row: str, unit: str, run: Callable[[str], float]) -> None:
        """`run` for each in turns. Kafka stays awake: the producers that Spark keeps in its JVM may
        hang when their broker was stopped meanwhile.
        """
        ours, theirs = (functools.partial(run, system) for system in (spark.PYLOG, spark.KAFKA))
        compare(self.pair, unit, {row: ours}, {CONNECTOR: theirs}, asleep=False)

    def throughput(self, rows: int, size: int) -> None:
        """Rows a second out of topics and into fresh ones."""
        full = {system: self.fresh(system) for system in self.servers}
        cluster.produce_arrow(self.pair.ours, full[spark.PYLOG], rows, size)
        kafka_peer.produce(self.pair.theirs, full[spark.KAFKA], rows, size)

        def source(system: str, full: Mapping[str, str] = full) -> float:
            return spark.source(self.session, self.servers[system], full[system], rows, system)

        def sink(system: str) -> float:
            topic = self.fresh(system)
            return spark.sink(self.session, self.servers[system], topic, rows, size, system)

        self.compare(f"Spark source, {size:,} bytes", "rows/s", source)
        self.compare(f"Spark sink, {size:,} bytes", "rows/s", sink)

    def micro_batches(self, batches: int) -> None:
        """Seconds for a whole query."""
        small = {system: self.fresh(system) for system in self.servers}
        ours = self.servers[spark.PYLOG], small[spark.PYLOG]
        spark.fill_for_micro_batches(*ours, batches)
        each = batches * MICRO_BATCH_ROWS // cluster.PARTITIONS
        kafka_peer.fill(self.pair.theirs, small[spark.KAFKA], each)

        def query(system: str) -> float:
            where = self.servers[system], small[system]
            return spark.micro_batches(self.session, *where, batches, system)

        self.compare(f"{batches} Spark micro-batches, s", "s", query)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="size of each run, 1 is full")
    parser.add_argument("--runs", type=int, default=RUNS, help="of which a row is the median")
    parser.add_argument("--only", choices=["throughput", "batches"])
    options = parser.parse_args()
    scale = options.scale
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    check_peer()
    try:
        connector = spark_connector()
    except JarsMissing as missing:
        sys.exit(f"bench.peers_spark: {missing}")
    with pair_of(1, options.runs) as pair:
        idle(pair)
        both = Both(pair, spark.session(connector))
        if options.only in (None, "throughput"):
            for size, rows in ((100, 2_000_000), (1_000, 400_000)):
                both.throughput(max(4_000, int(rows * scale)), size)
        if options.only in (None, "batches"):
            both.micro_batches(max(2, int(20 * scale)))
        both.session.stop()


if __name__ == "__main__":
    main()
