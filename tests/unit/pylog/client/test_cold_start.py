"""What a fresh process with few records at a time must not stop for: loading compiled kernels."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[4]

CODE: Final = """
import sys, threading
from pylog.client.consumer import Consumer
from pylog.client.producer import Producer
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
    with Producer(linger_ms=60_000, batch_size=1 << 20, **how) as producer:
        handles = [producer.send("t", b"v") for _ in range(1_000)]
        producer.flush(60)
        assert handles[999].result(0).offset == 1_799
        for thread in threading.enumerate():
            if thread.name == "pylog-kernels":
                thread.join()
    print(*{"numba", "numpy"} & sys.modules.keys())
"""


def test_few_records_at_a_time_load_no_kernels_and_many_do() -> None:
    run = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, check=True, cwd=ROOT
    )
    few, many = run.stdout.splitlines()
    assert few.split() == []
    assert sorted(many.split()) == ["numba", "numpy"]
