"""The benchmarks still run, at a tiny size: the figures are not looked at."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools import kafka_jars

ROOT = Path(__file__).parents[2]


pytestmark = pytest.mark.integration


@pytest.mark.parametrize(
    ("part", "figures"),
    [
        ("limits", 3), ("storage", 11), ("log", 20), ("groups", 33), ("transactions", 14),
        ("upkeep", 8), ("spark", 14),
    ],
)  # fmt: skip
def test_a_benchmark_runs(part: str, figures: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench", "--scale", "0.002", "--runs", "2", "--only", part],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert len([line for line in done.stdout.splitlines() if " to " in line]) == figures


def test_the_benchmark_of_the_gateway_runs() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench.gateway", "--scale", "0.01"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("by gateway") == 4


def test_the_benchmark_of_local_reads_runs() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench.local_reads", "8", "1"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("ratio") == 4
    assert "fell back" not in done.stdout


def test_the_benchmark_of_the_streams_runs() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench.streams", "--scale", "0.01"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("auto") == done.stdout.count("grpc") == 5


def test_the_benchmark_of_memory_runs() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench.memory", "1", "0"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("ms/MB") == 5


@pytest.mark.skipif(
    not kafka_jars.present() or importlib.util.find_spec("confluent_kafka") is None,
    reason="Kafka's jars and its C client are fetched by hand: `make peers` says how",
)
def test_the_benchmark_of_the_peers_runs() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "bench.peers",
            "--scale",
            "0.002",
            "--brokers",
            "1",
            "--only",
            "latency",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("ratio: 1 broker: ") == 2


def test_the_benchmark_of_the_peers_tells_what_is_missing() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench.peers"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PATH": ""},
    )
    assert done.returncode == 1
    assert done.stderr == (
        "bench.peers: java is not installed: Kafka needs Java 17 or later, and `java` in PATH\n"
    )
