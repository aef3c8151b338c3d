"""`spark-submit broker_app.py`: it starts, says what is wrong, ends whole, and comes back."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pylog import AdminClient, NewTopic, Producer
from pylog.clock import SYSTEM_CLOCK
from tests.verify.kills import SHORT, free_port, run
from tests.verify.load import read_all
from tests.verify.spark_cluster import ROOT, SparkCluster, alive, descendants

pytestmark = pytest.mark.spark

TOPIC = "kept"
GONE_MS = 4_000
"""The promise is two seconds; the others are for a machine that has much else to do."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """One application for the tests that only need one to run: a start takes over ten seconds."""
    shared = SparkCluster(tmp_path_factory.mktemp("shared") / "data", port=free_port())
    yield shared
    shared.close()


def running(cluster: SparkCluster) -> SparkCluster:
    """The shared application, started unless it runs already."""
    if not cluster.running:
        cluster.start()
    return cluster


def write_some(bootstrap: str, first: int, count: int) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        handles = [
            producer.send(TOPIC, b"%d" % n, partition=n % 3) for n in range(first, first + count)
        ]
        for handle in handles:
            handle.result(30)


def values(bootstrap: str) -> list[int]:
    stored = read_all(bootstrap, TOPIC, 3)
    return sorted(int(value) for records in stored.values() for _, value in records)


def epochs(bootstrap: str) -> tuple[str, list[int]]:
    with AdminClient(bootstrap_servers=bootstrap) as admin:
        topic = admin.describe_topics([TOPIC])[TOPIC]
    return topic.topic_id, [p.leader_epoch for p in topic.partitions]


def create(bootstrap: str) -> None:
    with AdminClient(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(TOPIC, 3, 3, config={"min.insync.replicas": "2"})])


ENDINGS: dict[str, Callable[[SparkCluster], None]] = {
    "kill -9 of the JVM": lambda c: os.kill(c.jvm, signal.SIGKILL),
    "kill -9 of Python": lambda c: os.kill(c.python_driver(), signal.SIGKILL),
    "SIGTERM to the JVM": lambda c: os.kill(c.jvm, signal.SIGTERM),
    "SIGTERM to Python": lambda c: os.kill(c.python_driver(), signal.SIGTERM),
    "Ctrl-C": lambda c: os.killpg(c.jvm, signal.SIGINT),
}


def test_either_half_ends_the_other_and_the_same_command_serves_the_same(
    cluster: SparkCluster,
) -> None:
    create(running(cluster).bootstrap)
    identity, (topic_id, before) = cluster.cluster_id, epochs(cluster.bootstrap)
    for number, (name, end) in enumerate(ENDINGS.items()):
        write_some(cluster.bootstrap, number * 100, 100)
        halves = [cluster.jvm, cluster.python_driver()]
        end(cluster)
        deadline = SYSTEM_CLOCK.monotonic_ms() + GONE_MS
        while any(alive(pid) for pid in halves) and SYSTEM_CLOCK.monotonic_ms() < deadline:
            SYSTEM_CLOCK.sleep(0.02)
        assert not [pid for pid in halves if alive(pid)], f"{name}: a half outlived it"
        cluster.wait_gone(5)
        cluster.start()
        assert cluster.cluster_id == identity, name
        assert values(cluster.bootstrap) == list(range((number + 1) * 100)), name
        again, after = epochs(cluster.bootstrap)
        assert again == topic_id, name
        assert all(new >= old for new, old in zip(after, before, strict=True)), name
        before = after


def test_a_second_driver_on_the_same_directory_is_refused(cluster: SparkCluster) -> None:
    folder = running(cluster).data_dir.parent
    done = submit(folder, f"spark.pylog.listen=127.0.0.1:{free_port()}")
    assert done.returncode != 0
    assert str(cluster.data_dir) in done.stderr
    assert "Traceback" not in done.stderr


def test_nothing_of_it_outlives_an_orderly_stop(cluster: SparkCluster) -> None:
    below = [pid for pid, _, _ in descendants(running(cluster).jvm)]
    assert cluster.terminate() == 0
    deadline = SYSTEM_CLOCK.monotonic_ms() + 10_000
    while any(alive(pid) for pid in below) and SYSTEM_CLOCK.monotonic_ms() < deadline:
        SYSTEM_CLOCK.sleep(0.1)
    assert not [pid for pid in below if alive(pid)]
    _, last, after = cluster.log().rpartition("]: stopped\n")
    assert last
    assert "\n\tat " not in after, after


def test_permuted_data_roots_lose_nothing_and_copy_nothing(tmp_path: Path) -> None:
    roots = tmp_path / "roots"
    running = SparkCluster(
        roots, port=free_port(), conf={"spark.pylog.data.dir": f"{roots}/{{slot}}"}
    )
    try:
        running.start()
        create(running.bootstrap)
        write_some(running.bootstrap, 0, 300)
        written = set(log_files(roots))
        for _ in range(2):
            assert running.terminate() == 0
            rotate(roots)
            running.start()
            assert values(running.bootstrap) == list(range(300))
        # The same files, each in the root that its broker's directory was moved to.
        assert {inode for inode, _ in log_files(roots)} == {inode for inode, _ in written}
    finally:
        running.close()


def log_files(roots: Path) -> list[tuple[int, int]]:
    files = roots.glob(f"*/broker-*/{TOPIC}-*/*.log")
    return sorted((file.stat().st_ino, file.stat().st_size) for file in files)


def rotate(roots: Path) -> None:
    """0 becomes 1, 1 becomes 2, 2 becomes 0; the driver's own root stays."""
    (roots / "0").rename(roots / "aside")
    for slot in (2, 1):
        (roots / str(slot)).rename(roots / str((slot + 1) % 3))
    (roots / "aside").rename(roots / "1")


def submit(tmp_path: Path, *settings: str) -> subprocess.CompletedProcess[str]:
    """Run broker_app.py under wrong settings, which must end it by itself."""
    command = [str(Path(sys.executable).parent / "spark-submit")]
    command += ["--properties-file", str(ROOT / "spark-conf" / "local.conf")]
    for setting in (f"spark.pylog.data.dir={tmp_path}/data", *settings):
        command += ["--conf", setting]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    environment["PYSPARK_DRIVER_PYTHON"] = sys.executable
    return subprocess.run(
        [*command, str(ROOT / "broker_app.py")],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("spark.speculation=true", "spark.speculation=true: set it to false"),
        ("spark.pylog.broker=5", "unknown Spark setting spark.pylog.broker"),
        ("spark.pylog.listen=0.0.0.0:0", "spark.pylog.allow.plaintext"),
        ("spark.pylog.broker.min.insync.replica=2", "min.insync.replicas"),
    ],
)
def test_a_wrong_setting_ends_it_with_one_clear_line(
    tmp_path: Path, setting: str, words: str
) -> None:
    done = submit(tmp_path, setting)
    assert done.returncode != 0
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = submit(tmp_path, f"spark.pylog.listen={address}")
    assert done.returncode != 0
    assert address in done.stderr
    assert "Traceback" not in done.stderr


def test_a_broker_that_cannot_run_ends_the_application_and_says_why(tmp_path: Path) -> None:
    foreign = tmp_path / "data" / "broker-1"
    foreign.mkdir(parents=True)
    (foreign / "meta.properties").write_text(
        "version=1\ncluster.id=AnotherClustersId-----\nnode.id=1\ndirectory.id=x\nboot.id=y\n"
    )
    done = submit(tmp_path, f"spark.pylog.listen=127.0.0.1:{free_port()}")
    assert done.returncode != 0
    assert "AnotherClustersId-----" in done.stderr
    assert "Traceback" not in done.stderr


def test_kills_under_load_lose_nothing() -> None:
    run(SHORT, rate=300, flights=False, seed=1, acks=5_000)
