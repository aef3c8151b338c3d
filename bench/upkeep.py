"""The cost of a cluster while nothing happens, and the time until many new partitions take
records."""

from __future__ import annotations

import os
import time
from pathlib import Path

from bench.measure import stopwatch
from pylog import AdminClient, LocalCluster, NewTopic, Producer

_TICKS = os.sysconf("SC_CLK_TCK")


def idle_percent(running: LocalCluster, topic: str, partitions: int, seconds: float) -> float:
    """Percent of a core that the busiest broker process uses over `seconds` with an idle topic."""
    _create(running, topic, partitions)
    time.sleep(min(seconds, 3))  # noqa: TID251 - followers open their sessions
    before = _broker_seconds()
    time.sleep(seconds)  # noqa: TID251 - idleness is what is measured
    after = _broker_seconds()
    return max(after[pid] - before[pid] for pid in before) / seconds * 100


def first_acknowledgement(running: LocalCluster, topic: str, partitions: int) -> float:
    """Seconds from the request for a topic to the first acknowledgement of all replicas, of a
    record to its last partition.
    """
    servers = running.bootstrap_servers
    with Producer(bootstrap_servers=servers, linger_ms=0) as producer, stopwatch() as elapsed:
        _create(running, topic, partitions)
        producer.send(topic, b"x", partition=partitions - 1).result(60)
        return elapsed()


def _create(running: LocalCluster, topic: str, partitions: int) -> None:
    replicas = len(running.brokers)
    with AdminClient(bootstrap_servers=running.bootstrap_servers) as admin:
        if topic not in admin.list_topics():
            config = {"min.insync.replicas": str(min(2, replicas))}
            admin.create_topics([NewTopic(topic, partitions, replicas, config=config)])


def _broker_seconds() -> dict[int, float]:
    """Processor seconds, user and system, of each broker process that this one started."""
    found: dict[int, float] = {}
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            fields = (process / "stat").read_text().rpartition(")")[2].split()
            command = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue  # it has ended
        if int(fields[1]) == os.getpid() and b"pylog_broker.node" in command:
            found[int(process.name)] = (int(fields[11]) + int(fields[12])) / _TICKS
    return found
