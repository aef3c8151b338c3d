"""A cluster's files are for its user alone, also under a umask that forbids nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pylog import AdminClient, LocalCluster, NewTopic, Producer

pytestmark = pytest.mark.integration


@pytest.fixture(autouse=True)
def loose_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def modes(root: Path) -> dict[int, int]:
    """The number of folders and files of each mode."""
    found: dict[int, int] = {}
    for path in (root, *root.rglob("*")):
        mode = path.stat().st_mode & 0o777
        found[mode] = found.get(mode, 0) + 1
    return found


def test_nothing_is_open_to_others(tmp_path: Path) -> None:
    root = tmp_path / "made" / "too"
    with LocalCluster(2, data_dir=root) as cluster:
        with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("t", 3, 2, config={"segment.bytes": "2000"})])
        with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            for _ in range(50):
                producer.send("t", bytes(100)).result()
        running = modes(root.parent)
        cluster.restart()
        for number in (1, 2):
            (root / f"broker-{number}").chmod(0o755)
        cluster.stop(1)
        cluster.start(1)
        assert (root / "broker-1").stat().st_mode & 0o777 == 0o700
        told = (root / "logs" / "broker-1.log").read_text()
        assert f"{root / 'broker-1'} had the mode 755" in told
        cluster.restart()
    assert set(running) == set(modes(root.parent)) == {0o600, 0o700}
