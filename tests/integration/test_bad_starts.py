"""Directories that a cluster must not start on: the refusal names the path and the cure.

Bad inputs 74 and 77.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pylog import AdminClient, LocalCluster, NewTopic, errors

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that a cluster of two brokers left behind."""
    folder = tmp_path_factory.mktemp("stopped")
    with (
        LocalCluster(2, data_dir=folder) as cluster,
        AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin,
    ):
        admin.create_topics(NewTopic("t", 2, 2))
    return folder


def _edit(key: str, value: str) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        meta = folder / "broker-1/meta.properties"
        lines = meta.read_text().splitlines()
        assert any(line.startswith(f"{key}=") for line in lines)
        changed = [f"{key}={value}" if line.startswith(f"{key}=") else line for line in lines]
        meta.write_text("\n".join(changed) + "\n")

    return edit


def _copy_identity(folder: Path) -> None:
    shutil.copy(folder / "broker-1/meta.properties", folder / "broker-2/meta.properties")
    meta = folder / "broker-2/meta.properties"
    meta.write_text(meta.read_text().replace("node.id=1", "node.id=2"))


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (lambda folder: (folder / "broker-1/meta.properties").unlink(),
         errors.InvalidConfig,
         "broker-1 holds 2 partitions (t-0, ...) but no meta.properties; restore that file"),
        (_edit("cluster.id", "A" * 22),
         errors.InconsistentClusterId, "belongs to cluster AAAAAAAAAAAAAAAAAAAAAA, this is"),
        (_edit("node.id", "7"),
         errors.InvalidConfig, "broker-1 belongs to broker 7, not 1; use that broker's id"),
        (_edit("version", "2"),
         errors.InvalidConfig, "has version '2'; this release knows 1. Use the release that"),
        (_copy_identity,
         errors.InvalidRegistration, "belongs to broker 1: broker 2 runs on a copy of it"),
        (lambda folder: (folder / "broker-1").chmod(0o777), errors.InvalidConfig, "chmod o-w"),
    ],
    ids=["missing", "other-cluster", "other-broker", "newer", "copied", "world-writable"],
)  # fmt: skip
def test_a_directory_that_is_not_this_brokers(
    stopped: Path,
    tmp_path: Path,
    change: Callable[[Path], None],
    error: type[errors.PylogError],
    words: str,
) -> None:
    """The error is the broker's own, and the whole message: no end of a log file."""
    folder = tmp_path / "data"
    shutil.copytree(stopped, folder)
    change(folder)
    with pytest.raises(error) as refused:
        LocalCluster(2, data_dir=folder)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_file_in_the_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.InvalidConfig, match="file' cannot be used: Not a directory; give"):
        LocalCluster(data_dir=tmp_path / "file")


@pytest.mark.skipif(not os.path.ismount("/dev/shm"), reason="no memory file system here")
def test_memory_is_told_to_be_no_disk() -> None:
    folder = Path("/dev/shm") / f"pylog-test-{os.getpid()}"
    try:
        with LocalCluster(data_dir=folder):
            pass
        for log in ("controller", "broker-1"):
            assert (
                "is on tmpfs: everything in it is gone" in (folder / f"logs/{log}.log").read_text()
            )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_sparks_own_folders_are_no_place(tmp_path: Path) -> None:
    folder = tmp_path / "work/app-20260101120000-0007/3/data"
    with pytest.raises(errors.PylogError, match=r"app-20260101120000-0007, which Spark removes"):
        LocalCluster(data_dir=folder)


def test_what_lies_in_the_current_directory_is_not_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither as a path of one letter nor as a module."""
    for letter in {*str(tmp_path / "data" / "controller")} - {"/", "."}:
        (tmp_path / letter).touch()
    for name in ("broker", "random", "select"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported by mistake')")
    monkeypatch.chdir(tmp_path)
    with LocalCluster(1, data_dir=tmp_path / "data") as cluster:
        assert cluster.brokers == [1]
