"""A client in a second language, generated from `proto/`, sends a record and reads it back."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pylog import AdminClient, Consumer, LocalCluster, NewTopic
from pylog.records.murmur2 import murmur2
from tools import go_client

pytestmark = pytest.mark.go


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return go_client.build(tmp_path_factory.mktemp("go"))


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(2) as running:
        with AdminClient(bootstrap_servers=running.bootstrap_servers) as admin:
            admin.create_topics(NewTopic("t", 3, 2))
        yield running


def run(client: Path, bootstrap: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(client), "-bootstrap", bootstrap, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_it_sends_a_record_and_reads_it_back(client: Path, cluster: LocalCluster) -> None:
    servers = cluster.bootstrap_servers.split(",")
    partition = (murmur2(b"go") & 0x7FFFFFFF) % 3
    for offset, server in enumerate(servers):  # by each it finds gateway and leader
        done = run(client, server, "-topic", "t", "-key", "go", "-value", f"from Go {offset}")
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines() == [
            f"sent to partition {partition} at offset {offset}",
            f"read (go, from Go {offset}) from partition {partition} at offset {offset}",
        ]
    with Consumer("t", bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        values = list(consumer.to_pandas()["value"])
    assert values == [b"from Go %d" % offset for offset in range(len(servers))]


def test_it_tells_what_the_broker_refuses(client: Path, cluster: LocalCluster) -> None:
    done = run(client, cluster.bootstrap_servers.split(",")[0], "-topic", "nowhere")
    assert done.returncode == 1
    assert "error 3: " in done.stderr
