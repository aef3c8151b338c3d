"""`python -m bench.gateway [--scale S]`: the cost of the way through the gateway.

Direct and by gateway in turn, within one run; CPU time of the gateway's process beside them.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench import cluster
from bench.measure import stopwatch
from pylog import Consumer, LocalCluster, Producer, TopicPartition

ROUNDS = 5
CHUNK = 20_000
TICKS_PER_SECOND = 100


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


def gateway_pid(running: LocalCluster) -> int:
    """The process of the gateway."""
    assert running._head is not None
    return running._head._process.pid


def write(how: dict[str, Any], topic: str, size: int, total_bytes: int) -> float:
    """MB/s of `send_arrow`."""
    data = pa.record_batch({"value": pa.array([b"x" * size] * CHUNK, pa.binary())})
    chunks = max(1, total_bytes // (CHUNK * size))
    with Producer(batch_size=256 * 1024, **how) as producer:
        producer.send(topic, b"x").result(10)
        with stopwatch() as elapsed:
            for future in [producer.send_arrow(topic, data) for _ in range(chunks)]:
                future.result(120)
            return chunks * CHUNK * size / elapsed() / 1e6


def read(how: dict[str, Any], topic: str) -> float:
    """MB/s of `poll_arrow`, values only."""
    partitions = [TopicPartition(topic, number) for number in range(cluster.PARTITIONS)]
    with Consumer(**how) as consumer:
        total = sum(consumer.end_offsets(partitions).values())
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        rows = size = 0
        with stopwatch() as elapsed:
            while rows < total:
                batch = consumer.poll_arrow(5)
                rows += batch.num_rows
                size += batch.column("value").nbytes
            return size / elapsed() / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0)
    scale = parser.parse_args().scale
    total = int(400e6 * scale)
    name = itertools.count()
    with cluster.cluster(1) as running:
        gateway, *_ = running.bootstrap_servers.split(",")
        ways: dict[str, dict[str, Any]] = {
            "direct": {"bootstrap_servers": gateway},
            "gateway": {"bootstrap_servers": gateway, "client_routing": "gateway"},
        }
        pid = gateway_pid(running)
        for size in (100, 1_000):
            figures: dict[tuple[str, str], list[float]] = {}
            for _ in range(ROUNDS):
                for way, how in ways.items():
                    topic = cluster.fresh_topic(running, f"gateway-{next(name)}")
                    for what in ("write", "read"):
                        cpu = cpu_seconds(pid)
                        rate = (
                            write(how, topic, size, total) if what == "write" else read(how, topic)
                        )
                        figures.setdefault((what, way), []).append(rate)
                        used = (cpu_seconds(pid) - cpu) / (total / 1e6) * 1e3
                        figures.setdefault((what, f"{way} cpu"), []).append(used)
            for what in ("write", "read"):
                direct, through = (statistics.median(figures[what, way]) for way in ways)
                used = statistics.median(figures[what, "gateway cpu"])
                sys.stdout.write(
                    f"{what}, {size} bytes: direct {direct:,.0f} MB/s, by gateway {through:,.0f} "
                    f"({through / direct:.2f}); the gateway's CPU {used:.2f} ms/MB\n"
                )
        figures = {}
        for _ in range(3):
            for way, how in ways.items():
                topic = cluster.fresh_topic(running, f"gateway-{next(name)}", 1)
                samples = round_trips(how, topic, max(100, int(2_000 * scale)))
                figures.setdefault((way, ""), []).append(statistics.median(samples))
        for way in ways:
            sys.stdout.write(
                f"send, linger 0, one at a time, {way}: median {min(figures[way, '']):.2f} ms\n"
            )


def round_trips(how: dict[str, Any], topic: str, count: int) -> list[float]:
    """Milliseconds from `send` to its acknowledgement."""
    times = []
    with Producer(linger_ms=0, **how) as producer:
        producer.send(topic, b"x").result(10)
        for _ in range(count):
            with stopwatch() as elapsed:
                producer.send(topic, b"x").result(10)
                times.append(elapsed() * 1000)
    return times


if __name__ == "__main__":
    main()
