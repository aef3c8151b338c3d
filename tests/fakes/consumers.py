"""Records for consumers, and consumers that read from the start: what their tests share."""

from __future__ import annotations

from typing import Any

from pylog import Consumer, Producer
from tests.fakes.fake_cluster import FakeCluster


def fill(cluster: FakeCluster, count: int, partition: int = 0, topic: str = "t") -> None:
    """Numbers as values, under one key, a millisecond apart from 1,000 on."""
    with Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=0) as p:
        for i in range(count):
            p.send(topic, b"%d" % i, key=b"k", partition=partition, timestamp_ms=1_000 + i)


def consumer(cluster: FakeCluster, *topics: str, **config: Any) -> Consumer:
    given: dict[str, Any] = {"auto_offset_reset": "earliest", **config}
    return Consumer(*topics, bootstrap_servers=cluster.bootstrap_servers, **given)
