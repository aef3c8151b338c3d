"""The examples do what they say, also when a worker is killed in the middle."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyarrow import dataset

from pylog import AdminClient, Consumer, LocalCluster, NewTopic, Producer

pytestmark = pytest.mark.integration

EXAMPLES = Path(__file__).parents[2] / "examples"
PARTITIONS = 6
COUNT = 3_000
SOON = {
    "group.consumer.session.timeout.ms": "2000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.share.session.timeout.ms": "2000",
    "group.share.min.session.timeout.ms": "1000",
    "group.share.heartbeat.interval.ms": "500",
    "group.share.min.heartbeat.interval.ms": "500",
}
"""The partitions of a worker that was killed are soon another one's."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(1, config=SOON) as running:
        yield running


def started(name: str, cluster: LocalCluster, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            sys.executable,
            str(EXAMPLES / name),
            *("--bootstrap", cluster.bootstrap_servers, "--idle", "5", *arguments),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def killed_at_its_first_number(worker: subprocess.Popen[str]) -> list[str]:
    """All whole lines that it printed; one that the kill cut is not among them."""
    assert worker.stdout is not None
    said = ""
    for line in worker.stdout:
        said += line
        if " = " in line:
            worker.kill()
            break
    said += worker.stdout.read()  # by the same buffer, which has lines of it already
    worker.communicate()
    return said[: said.rfind("\n") + 1].splitlines()


def fill(cluster: LocalCluster, topic: str, values: Iterator[tuple[bytes, bytes]]) -> None:
    servers = cluster.bootstrap_servers
    with AdminClient(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(topic, PARTITIONS, 1)])
    with Producer(bootstrap_servers=servers) as producer:
        for key, value in values:
            producer.send(topic, value, key)


def test_a_pool_of_workers_does_all_of_it(cluster: LocalCluster) -> None:
    fill(cluster, "numbers", ((b"%d" % n, b"%d" % n) for n in range(2, COUNT)))
    fill_bad = Producer(bootstrap_servers=cluster.bootstrap_servers)
    fill_bad.send("numbers", b"seven")
    fill_bad.close()
    killed, other = (started("worker_pool.py", cluster, "--topic", "numbers") for _ in range(2))
    said = killed_at_its_first_number(killed)
    out, errors = other.communicate(timeout=60)
    assert other.returncode == 0, errors
    lines = said + out.splitlines()
    assert {int(line.split(" = ")[0]) for line in lines if " = " in line} == set(range(2, COUNT))
    assert "2772 = 2 x 2 x 3 x 3 x 7 x 11" in lines
    assert sum("no number: b'seven'" in line for line in lines) >= 1
    assert sum(line.startswith("takes") for line in out.splitlines()) >= 1


def test_effects_and_positions_in_one_transaction(cluster: LocalCluster, tmp_path: Path) -> None:
    payments = [(b"account-%d" % (n % 17), b"%d" % n) for n in range(COUNT)]
    fill(cluster, "payments", iter(payments))
    database = tmp_path / "ledger.sqlite"
    arguments = ("--topic", "payments", "--database", str(database))
    workers = [started("idempotent_processing.py", cluster, *arguments) for _ in range(3)]
    with sqlite3.connect(database, timeout=30) as looking:
        while not _stored(looking):
            assert any(worker.poll() is None for worker in workers)
    workers[0].kill()
    told = [worker.communicate(timeout=60) for worker in workers]
    assert [worker.returncode for worker in workers[1:]] == [0, 0], told
    expected: Counter[str] = Counter()
    for key, value in payments:
        expected[key.decode()] += int(value)
    with sqlite3.connect(database) as looking:
        assert dict(looking.execute("select account, amount from balances")) == expected
        [(stored,)] = looking.execute("select sum(next_offset) from positions")
    assert stored == COUNT


def test_a_queue_of_jobs_tries_again_what_fails(cluster: LocalCluster) -> None:
    fill(cluster, "jobs", ((b"%d" % n, b"%d" % n) for n in range(2, COUNT)))
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        producer.send("jobs", b"seven")
    workers = [started("share_job_queue.py", cluster, "--topic", "jobs") for _ in range(3)]
    said = killed_at_its_first_number(workers[0])
    told = [worker.communicate(timeout=120) for worker in workers[1:]]
    assert [worker.returncode for worker in workers[1:]] == [0, 0], told
    lines = said + [line for out, _ in told for line in out.splitlines()]
    assert {int(line.split(" = ")[0]) for line in lines if " = " in line} == set(range(2, COUNT))
    failed = [line for line in lines if "'seven'" in line]
    assert sum("given up after 3" in line for line in failed) <= 1
    assert sum("released after" in line for line in failed) >= 1
    with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        assert {lag.lag for lag in admin.group_lag("jobs")["jobs"].values()} == {0}


def test_each_record_is_transformed_exactly_once(cluster: LocalCluster) -> None:
    cents = [(b"%d" % (n % 13), b"%d" % n) for n in range(COUNT)]
    fill(cluster, "cents", iter(cents))
    with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("euros", PARTITIONS, 1)])
    name, arguments = "consume_transform_produce.py", ("--source", "cents", "--target", "euros")
    workers = [started(name, cluster, *arguments, "--id", f"worker-{n}") for n in range(2)]
    killed = workers[0]
    assert killed.stdout is not None
    for line in killed.stdout:
        if line.startswith("transformed"):
            killed.kill()
            break
    workers.append(started(name, cluster, *arguments, "--id", "worker-0"))  # its successor
    told = [worker.communicate(timeout=60) for worker in workers]
    assert [worker.returncode for worker in workers[1:]] == [0, 0], told
    with Consumer(
        "euros",
        bootstrap_servers=cluster.bootstrap_servers,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    ) as consumer:
        euros: list[bytes] = []
        for _ in range(60):
            euros += [record.value for record in consumer.poll(2)]
            if len(euros) >= COUNT:
                break
    assert sorted(euros) == sorted(b"%d.%02d" % divmod(n, 100) for n in range(COUNT))


def run(name: str, cluster: LocalCluster, *arguments: str) -> list[str]:
    """The lines of an example that ends by itself."""
    done = subprocess.run(
        [sys.executable, EXAMPLES / name, *arguments, "--bootstrap", cluster.bootstrap_servers],
        capture_output=True, text=True, check=False, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-5_000:]
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    "more",
    [(), ("--instance-id", "one"), ("--read-committed",)],
    ids=["plain", "static", "isolated"],
)
def test_a_thread_reads_a_hundred_messages(cluster: LocalCluster, more: tuple[str, ...]) -> None:
    topic = "read-by" + "-".join(more)
    fill(cluster, topic, ((b"k%d" % n, b"v%d" % n) for n in range(150)))
    arguments = ("--topic", topic, "--group", topic, "--messages", "100", *more)
    *received, last = run("consumer_thread.py", cluster, *arguments)
    assert last == f"{topic} finished reading 100 messages"
    line = re.compile(
        rf"{topic} received message : from partition (\d), \((k\d+), (v\d+)\) at offset (\d+)"
    )
    found = [line.fullmatch(text) for text in received]
    messages = [match.groups() for match in found if match is not None]
    assert len(set(messages)) == len(received) == 100
    assert all(key[1:] == value[1:] for _, key, value, _ in messages)
    # the group goes on behind what was read
    rest = run("consumer_thread.py", cluster, *arguments[: -1 - len(more)], "50")
    assert rest[-1] == f"{topic} finished reading 50 messages"
    assert not {match.groups() for text in rest if (match := line.fullmatch(text))} & set(messages)


def test_a_unique_key_stores_a_message_once(cluster: LocalCluster, tmp_path: Path) -> None:
    fill(cluster, "sold", ((b"order-%d" % (n % 80), b"%d" % (n % 80)) for n in range(100)))
    arguments = ("--topic", "sold", "--database", str(tmp_path / "orders.sqlite"), "--idle", "3")
    assert run("unique_key.py", cluster, *arguments) == ["stored 80, known already 20"]
    again = run("unique_key.py", cluster, *arguments, "--group", "delivers-all-again")
    assert again == ["stored 0, known already 100"]
    with sqlite3.connect(tmp_path / "orders.sqlite") as looking:
        stored = sorted(looking.execute("select number, amount from orders").fetchall())
    assert stored == sorted((f"order-{n}", n) for n in range(80))


def test_a_set_of_ids_has_each_message_handled_once(cluster: LocalCluster, tmp_path: Path) -> None:
    with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("tasks", PARTITIONS, 1)])
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for _ in range(2):
            for n in range(100):
                producer.send("tasks", b"", headers=[("id", b"task-%d" % n)])
    arguments = ("--topic", "tasks", "--database", str(tmp_path / "ids.sqlite"), "--idle", "3")
    *handled, last = run("processed_ids.py", cluster, *arguments)
    assert sorted(handled) == sorted(f"handled task-{n}" for n in range(100))
    assert last == "skipped 100"
    again = run("processed_ids.py", cluster, *arguments, "--group", "delivers-all-again")
    assert again == ["skipped 200"]


def test_a_table_is_made_anew_from_its_changes(cluster: LocalCluster, tmp_path: Path) -> None:
    name, source, target = "change_capture.py", tmp_path / "a.sqlite", tmp_path / "b.sqlite"
    topic = ("--topic", "customers")
    assert run(name, cluster, "publish", *topic, "--database", str(source)) == ["published 0"]
    with sqlite3.connect(source) as table:
        for number in range(50):
            table.execute("insert into customers values (?, ?, 'Rome')", (number, f"c{number}"))
        table.execute("update customers set city = 'Oslo' where id % 2")
        table.execute("delete from customers where id % 5 = 0")
        table.execute("update customers set id = 1000 where id = 1")
        table.execute("update customers set name = null where id = 2")
    for published in (50 + 25 + 10 + 2 + 1, 0):
        lines = run(name, cluster, "publish", *topic, "--database", str(source))
        assert lines == [f"published {published}"]
    assert run(name, cluster, "restore", *topic, "--database", str(target)) == ["restored 40"]
    with sqlite3.connect(source) as one, sqlite3.connect(target) as other:
        rows = "select * from customers order by id"
        assert other.execute(rows).fetchall() == one.execute(rows).fetchall()


def test_features_as_they_are_and_as_they_were(cluster: LocalCluster) -> None:
    assert run("feature_store.py", cluster, "--drivers", "3") == [
        "now driver-0 20 5.0", "now driver-1 21 4.5", "now driver-2 22 4.0",
        "at 13:30 driver-0 10 5.0", "at 13:30 driver-1 11 4.5", "at 13:30 driver-2 12 4.0",
    ]  # fmt: skip


def test_the_tests_of_a_pipeline() -> None:
    command = [sys.executable, "-m", "pytest", "-q", EXAMPLES / "test_pipeline.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout
    assert "4 passed" in done.stdout


def events(cluster: LocalCluster, first: int, count: int) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for n in range(first, first + count):
            at = f"2026-01-{1 + n % 3:02}T00:00:00Z"
            producer.send("readings", json.dumps({"device": f"d{n % 7}", "at": at, "value": n}))
        producer.send("readings", "no event")
        producer.send("readings", "{}")


def test_events_become_a_table(cluster: LocalCluster, tmp_path: Path) -> None:
    with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("readings", 2, 1)])
    arguments = ("--topic", "readings", "--out", str(tmp_path))
    for number in range(2):
        events(cluster, 300 * number, 300)
        lines = run("etl_to_parquet.py", cluster, *arguments)
        assert lines[-2:] == [f"events {300 * (number + 1)}", f"rejected {2 * (number + 1)}"]
    table = dataset.dataset(tmp_path / "events", partitioning="hive").to_table()
    assert sorted(table["value"].to_pylist()) == list(range(600))
    assert {str(day) for day in table["day"].to_pylist()} == {f"2026-01-0{d}" for d in (1, 2, 3)}


def test_every_order_has_one_invoice(cluster: LocalCluster, tmp_path: Path) -> None:
    """Also when the pipeline is killed between two batches, or in one."""
    servers = cluster.bootstrap_servers
    with AdminClient(bootstrap_servers=servers) as admin:
        admin.create_topics(
            [NewTopic(name, 2, 1) for name in ("orders", "invoices", "invoices-totals")]
        )
    with Producer(bootstrap_servers=servers) as producer:
        for n in range(COUNT):
            order = {"customer": f"c{n % 7}", "amount": n, "currency": ("EUR", "USD")[n % 2]}
            producer.send("orders", json.dumps(order), key=order["customer"])
        producer.send("orders", json.dumps({"customer": "c0", "amount": 1, "currency": "XXX"}))
        producer.send("orders", "no order")
    arguments = ("--orders", "orders", "--invoices", "invoices", "--checkpoint", str(tmp_path))
    name = "exactly_once_pipeline.py"
    command = [sys.executable, EXAMPLES / name, "--bootstrap", servers, *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        start_new_session=True,
    ) as killed:  # fmt: skip
        assert killed.stdout is not None
        assert killed.stdout.readline().startswith("batch 0")
        os.killpg(killed.pid, signal.SIGKILL)
    run(name, cluster, *arguments)
    invoices = json_values(cluster, "invoices")
    assert len({invoice["number"] for invoice in invoices}) == len(invoices) == COUNT
    owed: Counter[str] = Counter()
    for total in json_values(cluster, "invoices-totals"):
        owed[total["customer"]] += round(100 * total["euros"])
    expected: Counter[str] = Counter()
    for n in range(COUNT):
        expected[f"c{n % 7}"] += 100 * n if n % 2 == 0 else 90 * n
    assert owed == expected


def json_values(cluster: LocalCluster, topic: str) -> list[dict[str, Any]]:
    """The values that readers of committed records see."""
    with Consumer(
        topic, bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest",
        isolation_level="read_committed", value_deserializer=json.loads,
    ) as consumer:  # fmt: skip
        return [value for value in consumer.to_pandas()["value"]]


def _stored(connection: sqlite3.Connection) -> int:
    """Payments that are in the database."""
    tables = connection.execute("select 1 from sqlite_master where name = 'positions'").fetchall()
    if not tables:
        return 0
    [(count,)] = connection.execute("select coalesce(sum(next_offset), 0) from positions")
    return int(count)
