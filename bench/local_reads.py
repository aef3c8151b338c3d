"""Reads of a broker's files against fetches from it, on one machine: the rows that a Spark task
makes in a second, and the processor time that task and broker spend on them.

    .venv/bin/python -m bench.local_reads [MiB per topic]

One broker, values of 100 and of 1,000 bytes, the two kinds by turns, medians of five runs. A tiny
size runs as a test.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Final

import pyarrow as pa

from pylog import AdminClient, LocalCluster, NewTopic, Producer
from pylog.client.ranges.range_reader import Batches, RangeReader
from pylog.client.settings import CONSUMER_SETTINGS
from pylog.model import LATEST_TIMESTAMP, TopicPartition
from pylog.records.columnar import decode_to_arrow
from pylog_connector.narrowing import Narrowing
from pylog_connector.reading import _chunks

RUNS: Final = 5
KINDS: Final = {"fetches": False, "files": True}
_SETTINGS: Final = {"max_partition_fetch_bytes": 8 << 20, "isolation_level": "read_committed"}


def fill(address: str, topic: str, size: int, count: int) -> None:
    """Values of one size, in batches as a sink makes them."""
    with AdminClient(bootstrap_servers=address) as admin:
        admin.create_topics([NewTopic(topic, 1, 1)])
    rows = min(count, 10_000)
    table = pa.table({"value": pa.array([b"v" * size] * rows, pa.binary())})
    with Producer(bootstrap_servers=address, batch_size=1_000_000, linger_ms=20) as producer:
        for _ in range(count // rows):
            producer.send_arrow(topic, table)


def read(reader: RangeReader, at: TopicPartition, end: int, *, decodes: bool) -> None:
    """All of the partition, as a task of the source reads it."""
    left = end
    for item in reader.read(at.topic, "", at.partition, 0, end):
        assert isinstance(item, Batches)
        if decodes:
            for chunk in _chunks(item.data, Narrowing()):
                left -= decode_to_arrow(chunk, *at, check_crcs=not item.checked).num_rows
    assert not decodes or left == 0


def broker_seconds(process: int) -> float:
    """The processor time that a process has taken so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def compared(
    address: str, broker: int, at: TopicPartition, *, decodes: bool, runs: int
) -> Iterator[tuple[str, float, float, float]]:
    """(kind, rows per second, microseconds of the task and of the broker for 1,000 rows)."""
    readers = {}
    for kind, local in KINDS.items():
        settings = CONSUMER_SETTINGS.parse({"bootstrap_servers": address, **_SETTINGS})
        readers[kind] = RangeReader(settings, local_reads=local)
        readers[kind].topics([at.topic])
    end = readers["fetches"].offsets([at], LATEST_TIMESTAMP)[at].offset
    found: dict[str, list[tuple[float, float, float]]] = {kind: [] for kind in KINDS}
    for run in range(runs + 1):
        for kind, reader in readers.items():
            before = time.perf_counter(), time.process_time(), broker_seconds(broker)
            read(reader, at, end, decodes=decodes)
            after = time.perf_counter(), time.process_time(), broker_seconds(broker)
            if run:  # the first one warms
                taken, task, served = (b - a for a, b in zip(before, after, strict=True))
                found[kind].append((taken, task, served))
    for kind, times in found.items():
        taken, task, served = (median(column) for column in zip(*times, strict=True))
        yield kind, end / taken, task / end * 1e9, served / end * 1e9
    counted = readers["files"].local_reads
    assert counted is not None
    if counted.fallbacks:
        sys.stdout.write(f"fell back: {counted.fallbacks}\n")
    for reader in readers.values():
        reader.close()


def main(mib: int = 100, runs: int = RUNS) -> None:
    """Print a line for each kind, and how they compare."""
    with LocalCluster(1) as cluster:
        address = cluster.bootstrap_servers
        process = cluster._node(1)._process.pid
        for size in (100, 1_000):
            at = TopicPartition(f"values-{size}", 0)
            fill(address, at.topic, size, (mib << 20) // (size + 10))
            for decodes in (True, False):
                what = f"{size:>5} bytes, {'to Arrow' if decodes else 'bytes alone'}"
                speeds = []
                for kind, speed, task, served in compared(
                    address, process, at, decodes=decodes, runs=runs
                ):
                    speeds.append(speed)
                    sys.stdout.write(
                        f"{what:<26}{kind:<9}{speed:>12,.0f} rows/s"
                        f"{task:>9.1f} us task{served:>9.1f} us broker (1,000 rows)\n"
                    )
                sys.stdout.write(f"{what:<26}ratio    {speeds[1] / speeds[0]:>12.2f}\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
