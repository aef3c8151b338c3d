"""A fresh process does not stop to load compiled kernels."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Final

import pytest

from pylog.client.producer.producer import Producer
from tests.fakes.fake_cluster import FakeCluster

ROOT: Final = Path(__file__).parents[4]

CODE: Final = """
import sys, threading
from pylog.client.consumer.consumer import Consumer
from pylog.client.producer.producer import Producer
from pylog.model import TopicPartition
from tests.fakes.fake_cluster import FakeCluster

with FakeCluster(1) as cluster:
    cluster.create_topic("t")
    how = {"bootstrap_servers": cluster.bootstrap_servers}
    with Producer(linger_ms=0, **how) as producer, Consumer(**how) as consumer:
        consumer.assign([TopicPartition("t", 0)])
        consumer.seek_to_beginning()
        for _ in range(20):
            handles = [producer.send("t", b"v") for _ in range(40)]
            for handle in handles:
                handle.result(60)
        read = 0
        while read < 800:
            read += len(consumer.poll(60))
        print(*{"numba", "numpy"} & sys.modules.keys())
    with Producer(**how) as producer:
        handles = [producer.send("t", b"v") for _ in range(100_000)]
        producer.flush(60)
        assert handles[-1].result(0).offset == 100_799
        print(*{"numba", "numpy"} & sys.modules.keys())
        producer._loop._plain_time.is_too_long(0, 1 << 60)  # as after some seconds at full speed
        for _ in range(5):
            producer.send("t", b"v" * 1_000).result(60)
        for thread in threading.enumerate():
            if thread.name == "pylog-kernels":
                thread.join()
    print(*{"numba", "numpy"} & sys.modules.keys())
"""


def test_kernels_are_loaded_once_plain_python_took_as_long() -> None:
    run = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, check=True, cwd=ROOT
    )
    few, many, for_long = run.stdout.splitlines()
    assert few.split() == many.split() == []
    assert sorted(for_long.split()) == ["numba", "numpy"]


class Loader(threading.Thread):
    """Is at work until somebody waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[Any] = []

    def is_alive(self) -> bool:
        return not self.waits

    def join(self, timeout: float | None = None) -> None:
        self.waits.append(timeout)


@pytest.mark.parametrize(("batch_size", "waits"), [(2 << 20, 1), (64 << 10, 0)])
def test_who_is_far_ahead_waits_for_the_kernels_once(batch_size: int, waits: int) -> None:
    with FakeCluster(1) as cluster:
        cluster.create_topic("t")
        how = {"bootstrap_servers": cluster.bootstrap_servers, "batch_size": batch_size}
        with Producer(linger_ms=60_000, max_request_size=4 << 20, **how) as producer:
            producer.send("t", b"v")
            loop = producer._loop
            loop._kernels = loader = Loader()
            loop._kernels_until_ms = loop.clock.monotonic_ms() + 60_000
            for _ in range(batch_size // 50_000 + 1):  # a batch, and what begins the next
                producer.send("t", bytes(50_000))
            assert len(loader.waits) == waits
            assert all(0 < seconds <= 60 for seconds in loader.waits)


def test_what_takes_too_long_is_not_waited_for() -> None:
    with FakeCluster(1) as cluster:
        cluster.create_topic("t")
        how = {"bootstrap_servers": cluster.bootstrap_servers, "batch_size": 2 << 20}
        with Producer(linger_ms=60_000, max_request_size=4 << 20, **how) as producer:
            producer.send("t", b"v")
            loop = producer._loop
            loop._kernels = loader = Loader()
            loop._kernels_until_ms = loop.clock.monotonic_ms() - 1
            for _ in range(42):
                producer.send("t", bytes(50_000))
            assert loader.waits == []
            assert loop._kernels is None
