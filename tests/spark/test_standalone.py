"""`cluster.conf` on a real Spark standalone cluster: two workers, each with a data root."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from pylog import AdminClient, NewTopic, Producer
from pylog.clock import SYSTEM_CLOCK
from tests.fakes.waiting import eventually
from tests.verify.kills import free_port
from tests.verify.load import read_all
from tests.verify.spark_cluster import SparkCluster, descendants
from tests.verify.standalone import StandaloneSpark

pytestmark = pytest.mark.spark

TOPIC = "kept"


@pytest.fixture
def spark(tmp_path: Path) -> Iterator[StandaloneSpark]:
    # Two brokers fit on the first worker and one on the second, so that which is where is known.
    with StandaloneSpark(tmp_path, cores=[4, 2]) as running:
        yield running


SECRETS = re.compile(r"\b[0-9a-f]{64}\b")


def application(spark: StandaloneSpark, folder: Path, secret: str) -> SparkCluster:
    return SparkCluster(
        folder,
        port=free_port(),
        properties="cluster.conf",
        secret=secret,
        conf={
            "spark.master": spark.url,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        },
    )


def shown_to_every_user(running: SparkCluster) -> str:
    """The commands of all its processes."""
    return "\n".join(command for _, _, command in descendants(running.process.pid))


def test_nobody_without_the_secret_is_taken(spark: StandaloneSpark, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", spark.rest_port), timeout=10)
    stranger = application(spark, tmp_path / "stranger", "0" * 64)
    nobody = application(spark, tmp_path / "nobody", "")
    try:
        stranger.start(wait=False)
        eventually(60, lambda: "Failed to connect to master" in stranger.log(), "it is refused")
        assert spark.applications() == []
        stranger.close()
        nobody.start(wait=False)
        eventually(60, lambda: not nobody.running, "it ends")
        assert "A secret key must be specified" in nobody.log()
        assert spark.applications() == []
    finally:
        stranger.close()
        nobody.close()


def directories(root: Path) -> dict[str, str]:
    """The broker directories below a root, with what identifies each."""
    return {
        folder.name: (folder / "meta.properties").read_text() for folder in root.glob("broker-*")
    }


def write(bootstrap: str, first: int, count: int) -> None:
    with Producer(bootstrap_servers=bootstrap) as producer:
        handles = [
            producer.send(TOPIC, b"%d" % n, partition=n % 3) for n in range(first, first + count)
        ]
        for handle in handles:
            handle.result(30)


def values(bootstrap: str) -> list[int]:
    stored = read_all(bootstrap, TOPIC, 3)
    return sorted(int(value) for records in stored.values() for _, value in records)


def wait_for_isr(bootstrap: str, size: int, seconds: float) -> None:
    deadline = SYSTEM_CLOCK.monotonic_ms() + seconds * 1000
    with AdminClient(bootstrap_servers=bootstrap) as admin:
        while True:
            partitions = admin.describe_topics([TOPIC])[TOPIC].partitions
            if all(len(partition.isr) == size for partition in partitions):
                return
            assert SYSTEM_CLOCK.monotonic_ms() < deadline, partitions
            SYSTEM_CLOCK.sleep(0.1)


def test_a_worker_dies_and_comes_back_and_the_data_are_the_same(
    spark: StandaloneSpark, tmp_path: Path
) -> None:
    running = application(spark, tmp_path / "driver", spark.secret)
    try:
        running.start()
        assert "spark.authenticate is not set" not in running.log()
        assert "the Spark UI asks nobody" not in running.log()
        assert SECRETS.findall(shown_to_every_user(running)) == []
        bootstrap = running.bootstrap
        # Each host keeps its own brokers; the driver's root holds the controller alone.
        assert len(directories(spark.root(0))) == 2
        assert len(directories(spark.root(1))) == 1
        assert directories(running.data_dir) == {}
        identity, before = running.cluster_id, {n: directories(spark.root(n)) for n in (0, 1)}
        with AdminClient(bootstrap_servers=bootstrap) as admin:
            admin.create_topics([NewTopic(TOPIC, 3, 3, config={"min.insync.replicas": "2"})])
        write(bootstrap, 0, 300)

        spark.kill_worker(1)
        write(bootstrap, 300, 300)  # two replicas are enough
        assert values(bootstrap) == list(range(600))
        spark.start_worker(1)
        wait_for_isr(bootstrap, 3, 40)
        assert {n: set(directories(spark.root(n))) for n in (0, 1)} == {
            n: set(found) for n, found in before.items()
        }

        write(bootstrap, 600, 300)
        assert running.terminate() == 0
        running.start()
        assert running.cluster_id == identity
        assert values(bootstrap) == list(range(900))
        wait_for_isr(bootstrap, 3, 40)
        logs = [*tmp_path.glob("*.log"), *tmp_path.glob("work-*/app-*/*/std*")]
        assert len(logs) > 5
        assert {log.name: SECRETS.findall(log.read_text(errors="replace")) for log in logs} == {
            log.name: [] for log in logs
        }
        identities = {n: directories(spark.root(n)) for n in (0, 1)}
        assert {name for found in identities.values() for name in found} == {
            name for found in before.values() for name in found
        }
    except BaseException:
        print(spark.logs())  # noqa: T201  what pytest shows with a failure
        raise
    finally:
        running.close()
