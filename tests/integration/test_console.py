"""The console as a process: beside a local cluster, and by the command line without a cluster."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from pylog import AdminClient, LocalCluster, NewTopic, Producer
from tests.fakes.waiting import eventually

pytestmark = [pytest.mark.integration, pytest.mark.slow]

COMMAND = [sys.executable, "-P", "-m", "pylog.cli.main"]
WAIT_S = 60


def get(address: str, **headers: str) -> tuple[int, str]:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers=given)) as answer:
            return int(answer.status), answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(1, console=True) as running:
        with AdminClient(bootstrap_servers=running.bootstrap_servers) as admin:
            admin.create_topics(NewTopic("t", 2))
        yield running
        log = (running.data_dir / "logs" / "console.log").read_text()
        assert "Traceback" not in log, log[-5000:]


def test_pages_beside_a_local_cluster(cluster: LocalCluster) -> None:
    at = cluster.console_url
    assert at is not None
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        producer.send("t", b'{"a": 1}', key=b"k", partition=1)
    eventually(WAIT_S, lambda: get(f"{at}topics/t")[0] == 200, "the console knows the topic")
    status, text = get(f"{at}topics/t/messages")
    assert (status, "Partition 1, offset 0" in text) == (200, True)
    for path in ("", "topics", "brokers", "brokers/1", "groups", "transactions", "changes",
                 "topics/t/settings", "transactions/hanging"):  # fmt: skip
        status, text = get(at + path)
        assert status == 200, text
    assert "read-only" in text
    assert get(at, host="evil.example")[0] == 421


def test_a_controller_that_is_away_is_told(cluster: LocalCluster) -> None:
    at = cluster.console_url
    cluster.kill_controller()
    status, _ = get(f"{at}topics/t/messages")
    assert status == 200
    cluster.start_controller()
    eventually(WAIT_S, lambda: "not fully known" not in get(f"{at}")[1], "all is known again")


def test_the_command_serves_before_there_is_a_cluster_and_ends_in_order() -> None:
    console = subprocess.Popen(
        [*COMMAND, "-b", "127.0.0.1:9", "console", "--listen", "127.0.0.1:0"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert console.stdout is not None
    found = re.fullmatch(r"pylog console ready: (http://127\.0\.0\.1:\d+/)\n",
                         console.stdout.readline())  # fmt: skip
    assert found is not None
    at = found[1]
    eventually(WAIT_S, lambda: "The cluster: not fully known" in get(at)[1], "the fault is told")
    with urllib.request.urlopen(f"{at}events") as news:
        assert news.readline() == b"retry: 2000\n"
        console.send_signal(signal.SIGINT)
        _, said = console.communicate(timeout=30)
    assert (console.returncode, said) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--listen", "0.0.0.0:0"], "other machines would reach it there"),
        (["--listen", "nothing"], "it must be host:port"),
        (["--host-name", "a b"], "it must be a host name"),
        (["--avro-schema", "t"], "write TOPIC=FILE"),
        (["--avro-schema", "t=/nowhere.avsc"], "No such file"),
        (["--avro-schema", "t=/dev/null"], "the schema is no JSON"),
    ],
)
def test_what_cannot_be_served_is_told_on_one_line(arguments: list[str], words: str) -> None:
    done = subprocess.run(
        [*COMMAND, "console", *arguments], capture_output=True, text=True, timeout=60,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.returncode in (1, 2)
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_port_in_use_is_named(cluster: LocalCluster) -> None:
    assert cluster.console_url is not None
    taken = cluster.console_url.removeprefix("http://").rstrip("/")
    done = subprocess.run(
        [*COMMAND, "console", "--listen", taken], capture_output=True, text=True, timeout=60,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert (done.returncode, f"--listen={taken}: Address already in use" in done.stderr) == (
        1,
        True,
    )


def test_a_local_cluster_by_the_command_line_says_where_its_pages_are() -> None:
    local = subprocess.Popen(
        [*COMMAND, "local", "--console"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert local.stdout is not None
    ready = local.stdout.readline()
    found = re.fullmatch(r"pylog ready: brokers=1 bootstrap=\S+ console=(http://\S+/)\n", ready)
    assert found is not None, ready
    assert get(f"{found[1]}health") == (200, "ok\n")
    local.send_signal(signal.SIGTERM)
    _, said = local.communicate(timeout=60)
    assert (local.returncode, said) == (0, "")
    with pytest.raises(urllib.error.URLError):
        get(f"{found[1]}health")
