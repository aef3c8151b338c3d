"""Spark Connect, declarative pipelines, SQL, joins of streams and states of one's own: the examples
of each against a real broker. The first two have processes of their own, because a process of
Connect can have no other session.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pylog import AdminClient, Consumer, LocalCluster, NewTopic, Producer

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.integration]

EXAMPLES = Path(__file__).parents[2] / "examples"
HIVE = ("--conf", "spark.sql.catalogImplementation=hive")
MINUTE_MS = 60_000
T0_MS = 1_767_225_600_000
"""2026-01-01T00:00:00Z"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(1, config={"log.retention.ms": "-1"}) as running:
        yield running


def make(cluster: LocalCluster, *topics: str) -> None:
    with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(topic, 2, 1) for topic in topics])


def called(command: list[str], folder: Path) -> list[str]:
    """The lines that a command prints; it must end well. What Spark leaves lies in the folder."""
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False,
        timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-6_000:]
    return done.stdout.splitlines()


def example(name: str) -> Any:
    """The module, under no name by which it could be imported: workers of Spark get its code."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def records(cluster: LocalCluster, topic: str) -> list[tuple[str, str]]:
    """Key and value of each record that readers of committed records see."""
    with Consumer(
        topic, bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest",
        isolation_level="read_committed",
    ) as consumer:  # fmt: skip
        table = consumer.to_pandas()
        return [(k.decode(), v.decode()) for k, v in zip(table["key"], table["value"], strict=True)]


def json_of(cluster: LocalCluster, topic: str) -> list[dict[str, Any]]:
    return [json.loads(value) for _, value in records(cluster, topic)]


def send_orders(cluster: LocalCluster, topic: str, count: int) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for n in range(count):
            producer.send(topic, f"{n}", key=f"c{n % 7}")


def test_spark_connect(cluster: LocalCluster, tmp_path: Path) -> None:
    """Also when the last batch is run again, as after a driver's death."""
    make(cluster, "connect-orders", "connect-totals")
    send_orders(cluster, "connect-orders", 250)
    checkpoint = tmp_path / "checkpoint"
    command = [
        sys.executable, str(EXAMPLES / "spark_connect.py"), "--bootstrap",
        cluster.bootstrap_servers, "--orders", "connect-orders", "--totals", "connect-totals",
        "--checkpoint", str(checkpoint),
    ]  # fmt: skip
    assert called(command, tmp_path)[-1] == "orders 250"
    commits = sorted(checkpoint.glob("commits/[0-9]*"), key=lambda file: int(file.name))
    commits[-1].unlink()
    (checkpoint / "commits" / f".{commits[-1].name}.crc").unlink(missing_ok=True)
    called(command, tmp_path)
    owed: Counter[str] = Counter()
    for customer, amount in records(cluster, "connect-totals"):
        owed[customer] += int(float(amount))
    assert owed == Counter({f"c{c}": sum(range(c, 250, 7)) for c in range(7)})


def test_a_declarative_pipeline(cluster: LocalCluster, tmp_path: Path) -> None:
    """Its second run goes on where the first one ended."""
    make(cluster, "orders", "large-orders")
    folder = tmp_path / "pipeline"
    shutil.copytree(EXAMPLES / "declarative_pipeline", folder)
    spec = folder / "spark-pipeline.yml"
    text = spec.read_text()
    assert "127.0.0.1:9092" in text
    assert "file:///var/tmp/orders-pipeline" in text
    text = text.replace("127.0.0.1:9092", cluster.bootstrap_servers)
    spec.write_text(text.replace("file:///var/tmp/orders-pipeline", f"file://{folder}/storage"))
    for times in (1, 2):
        send_orders(cluster, "orders", 100)
        called(["spark-pipelines", "run", *HIVE], folder)
        amounts = Counter(float(amount) for _, amount in records(cluster, "large-orders"))
        assert amounts == Counter({float(n): times for n in range(90, 100)})


def test_sql(
    spark: SparkSession, cluster: LocalCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    make(cluster, "sql-orders", "sql-customers", "sql-out")
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for n in range(60):
            producer.send("sql-orders", json.dumps({"customer": f"c{n % 3}", "amount": n}))
        for name, country in (("c0", "AT"), ("c1", "AT"), ("c2", "PT")):
            producer.send("sql-customers", json.dumps({"name": name, "country": country}))
    where = cluster.bootstrap_servers
    example("topics_in_sql").run(spark, where, "sql-orders", "sql-customers", "sql-out")
    assert "|60 " in capsys.readouterr().out
    assert {key: json.loads(value) for key, value in records(cluster, "sql-out")} == {
        "AT": {"orders": 40, "amount": sum(n for n in range(60) if n % 3 < 2)},
        "PT": {"orders": 20, "amount": sum(range(2, 60, 3))},
    }


def test_a_join_of_two_streams(spark: SparkSession, cluster: LocalCluster, tmp_path: Path) -> None:
    make(cluster, "placed", "paid", "pairs")
    joined = example("joined_streams")
    given = (cluster.bootstrap_servers, "placed", "paid", "pairs", str(tmp_path / "checkpoint"))

    def at(minute: int) -> str:
        return f"2026-01-01T{minute // 60:02}:{minute % 60:02}:00Z"

    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for n in range(30):
            producer.send("placed", json.dumps({"order": n, "placed": at(n)}))
            if n % 3:  # some within the hour, and some too late
                paid = at(n + (5 if n % 3 == 1 else 90))
                producer.send("paid", json.dumps({"of_order": n, "paid": paid}))
    joined.run(spark, *given)
    paid_in_time = {n for n in range(30) if n % 3 == 1}
    pairs = [pair for pair in json_of(cluster, "pairs") if "paid" in pair]
    assert sorted(pair["order"] for pair in pairs) == sorted(paid_in_time)
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        producer.send("placed", json.dumps({"order": 1_000, "placed": at(600)}))
        producer.send("paid", json.dumps({"of_order": 1_000, "paid": at(601)}))
    joined.run(spark, *given)
    told = json_of(cluster, "pairs")
    assert sorted(pair["order"] for pair in told) == [*range(30), 1_000]
    assert {pair["order"] for pair in told if "paid" in pair} == paid_in_time | {1_000}


def test_states_of_ones_own(spark: SparkSession, cluster: LocalCluster, tmp_path: Path) -> None:
    make(cluster, "clicks", "sessions")
    sessions = example("stateful_sessions")
    given = (cluster.bootstrap_servers, "clicks", "sessions", str(tmp_path / "checkpoint"))

    def click(producer: Producer, visitor: str, *minutes: int) -> None:
        for minute in minutes:
            at_ms = T0_MS + minute * MINUTE_MS
            producer.send("clicks", b"", key=visitor, timestamp_ms=at_ms)

    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        click(producer, "anna", 0, 5, 12)
        click(producer, "ben", 3)
    sessions.run(spark.newSession(), *given)
    assert json_of(cluster, "sessions") == []
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        click(producer, "anna", 15, 60)
        click(producer, "cleo", 61)
    sessions.run(spark.newSession(), *given)
    told = sorted(json_of(cluster, "sessions"), key=lambda session: str(session["visitor"]))
    minutes = [
        (s["visitor"], (s["first"] - T0_MS) // MINUTE_MS, (s["last"] - T0_MS) // MINUTE_MS)
        for s in told
    ]
    assert minutes == [("anna", 0, 15), ("ben", 3, 3)]
    assert [s["clicks"] for s in told] == [4, 1]
