"""Damaged and strange files under real brokers: what is served, what is offline, and what is told.

Bad inputs 68 to 73, 75, 76 and 78 to 81. One broker is killed, its files are damaged, topic by
topic, and it starts again; then it is stopped in order, and once more.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pylog import AdminClient, Consumer, LocalCluster, NewTopic, Producer, TopicPartition, errors
from pylog_broker.storage.directories.clean_marker import CLEAN_MARKER
from tests.fakes.waiting import eventually

pytestmark = pytest.mark.integration

RECORDS = 6
"""Two in each segment."""
DAY_S = 86_400
TAIL = b"\x07" * 500
Damage = Callable[[Path], None]


def segment(log: Path, offset: int, suffix: str = ".log") -> Path:
    return log / f"{offset:020d}{suffix}"


def cut(log: Path) -> None:
    path = segment(log, 4)
    os.truncate(path, path.stat().st_size - 10)


def append(tail: bytes) -> Damage:
    def damage(log: Path) -> None:
        with segment(log, 4).open("ab") as file:
            file.write(tail)

    return damage


def rot(log: Path) -> None:
    with segment(log, 0).open("r+b") as file:
        file.seek(200)
        file.write(b"\xff" * 10)


def overlap(log: Path) -> None:
    shutil.copy(segment(log, 2), segment(log, 1))


def strays(log: Path) -> None:
    segment(log, 1).touch()
    segment(log, 7, ".index").write_bytes(b"12345678")


def lose_caches(log: Path) -> None:
    for path in log.iterdir():
        if path.suffix != ".log" and path.name != "partition.metadata":
            path.unlink()


def spoil_caches(log: Path) -> None:
    for path in log.glob("*index"):
        path.write_bytes(b"\xff" * 64)
    for path in log.glob("*.snapshot"):
        path.write_bytes(b"")


def folder_for_index(log: Path) -> None:
    path = segment(log, 2, ".index")
    path.unlink()
    path.mkdir()
    (path / "in-the-way").touch()


def foreign(log: Path) -> None:
    for name in (".DS_Store", "notes.txt~"):
        (log / name).write_bytes(b"x")
    os.mkfifo(log / "pipe")


def leftovers(log: Path) -> None:
    shutil.copy(segment(log, 0), segment(log, 0, ".log.swap"))
    segment(log, 2, ".log.cleaned").write_bytes(b"half of it")
    segment(log, 0, ".index.deleted").write_bytes(b"x")
    (log / "leader-epoch-checkpoint.tmp").write_bytes(b"x")


def from_the_future(log: Path) -> None:
    late = segment(log, 0).stat().st_mtime + 3 * DAY_S
    for path in log.iterdir():
        os.utime(path, (late, late))


SERVED: dict[str, tuple[Damage, int]] = {
    "n68-cut": (cut, RECORDS - 1),
    "n68-zeros": (append(bytes(4096)), RECORDS),
    "n68-tail": (append(TAIL), RECORDS),
    "n71-strays": (strays, RECORDS),
    "n72-lost": (lose_caches, RECORDS),
    "n72-spoiled": (spoil_caches, RECORDS),
    "n73-checkpoints": (lambda _log: None, RECORDS),
    "n76-foreign": (foreign, RECORDS),
    "n78-leftovers": (leftovers, RECORDS),
    "n80-future": (from_the_future, RECORDS),
}
"""The damage to a topic's log after a crash, and the number of its records that are there
afterwards."""
OFFLINE: dict[str, tuple[Damage, tuple[str, ...]]] = {
    "n70-gap": (
        lambda log: segment(log, 2).unlink(),
        ("00000000000000000000.log", "00000000000000000004.log"),
    ),
    "n70-overlap": (overlap, ("00000000000000000000.log", "00000000000000000001.log")),
    "n70-name": (lambda log: (log / "backup.log").touch(), ("backup.log",)),
    "n72-metadata": (
        lambda log: (log / "partition.metadata").unlink(),
        ("n72-metadata-0 holds records but no partition.metadata", "restore that file"),
    ),
    "n72-folder": (folder_for_index, ("00000000000000000002.index",)),
}
"""The same for logs that are not served, and what the broker's log names."""


ROTTEN = "n69-rot"
"""The first of its batches; there is no other replica."""


def spoil_checkpoints(folder: Path) -> None:
    """Far beyond the log's end, twice, and nothing at all."""
    for name in ("replication-offset-checkpoint", "recovery-point-offset-checkpoint"):
        entry = "n73-checkpoints 0 1000000\n"
        (folder / name).write_text(f"0\n2\n{entry}{entry}")
    (folder / "log-start-offset-checkpoint").write_bytes(b"")


class World:
    """The cluster, and what its broker wrote to its log since the damage."""

    def __init__(self, cluster: LocalCluster, admin: AdminClient) -> None:
        self.cluster, self.admin = cluster, admin
        self.folder = cluster.data_dir / "broker-1"
        self._told = self._log().stat().st_size

    def _log(self) -> Path:
        return self.cluster.data_dir / "logs" / "broker-1.log"

    @property
    def told(self) -> str:
        return self._log().read_bytes()[self._told :].decode()

    def leader(self, topic: str) -> int | None:
        return self.admin.describe_topics(topic)[topic].partitions[0].leader

    def values(self, topic: str) -> list[bytes]:
        tp = TopicPartition(topic, 0)
        found: list[bytes] = []
        with Consumer(bootstrap_servers=self.cluster.bootstrap_servers) as consumer:
            consumer.assign([tp])
            consumer.seek_to_beginning()
            end = consumer.end_offsets([tp])[tp]
            while consumer.position(tp) < end:
                found += [record.value for record in consumer.poll(10)]
        return found


def value(number: int) -> bytes:
    return b"%d" % number * 1_000


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("files")
    with (
        LocalCluster(data_dir=folder) as cluster,
        AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin,
    ):
        names = [*SERVED, *OFFLINE, ROTTEN, "whole"]
        admin.create_topics([NewTopic(n, config={"segment.bytes": "2500"}) for n in names])
        with Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=0) as producer:
            for number in range(RECORDS):
                sent = [producer.send(name, value(number)) for name in names]
                for handle in sent:
                    handle.result(30)
        cluster.kill(1)
        found = World(cluster, admin)
        damages = [*SERVED.items(), *OFFLINE.items(), (ROTTEN, (rot, ()))]
        for name, (damage, _) in damages:
            assert [p.name for p in sorted((found.folder / f"{name}-0").glob("*.log"))] == [
                f"{offset:020d}.log" for offset in (0, 2, 4)
            ]
            damage(found.folder / f"{name}-0")
        spoil_checkpoints(found.folder)
        (found.folder / ".DS_Store").touch()
        (found.folder / "linked-0").symlink_to(folder)
        cluster.start(1)
        eventually(30, lambda: found.leader("whole") == 1, "the broker leads again")
        yield found


@pytest.mark.parametrize("topic", [*SERVED, "whole"])
def test_what_can_be_mended_is_served(world: World, topic: str) -> None:
    _, count = SERVED.get(topic, (None, RECORDS))
    assert world.values(topic) == [value(number) for number in range(count)]
    with Producer(bootstrap_servers=world.cluster.bootstrap_servers) as producer:
        assert producer.send(topic, b"new").result(30).offset == count


@pytest.mark.parametrize("topic", OFFLINE)
def test_what_cannot_is_offline_with_a_reason_and_stays(world: World, topic: str) -> None:
    _, words = OFFLINE[topic]
    if world.leader(topic) is not None:  # what a start does not look at is found by a reader
        with Consumer(bootstrap_servers=world.cluster.bootstrap_servers) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            consumer.seek_to_beginning()
            assert not consumer.poll(5)
    eventually(30, lambda: world.leader(topic) is None, "nobody leads it")
    lines = [line for line in world.told.splitlines() if f"{topic}-0" in line]
    assert any(all(word in line for word in words) for line in lines), lines
    short = {"delivery_timeout_ms": 1_000, "request_timeout_ms": 900, "linger_ms": 0}
    with Producer(bootstrap_servers=world.cluster.bootstrap_servers, **short) as producer:
        fault = producer.send(topic, b"x").exception(30)
    assert isinstance(fault, errors.DeliveryTimedOut)
    assert f"{topic}-0" in str(fault)
    assert segment(world.folder / f"{topic}-0", 4).exists(), "damage is evidence, and stays"


def test_what_has_rotted_is_told_and_the_rest_is_served(world: World) -> None:
    tp = TopicPartition(ROTTEN, 0)
    with Consumer(bootstrap_servers=world.cluster.bootstrap_servers) as consumer:
        consumer.assign([tp])
        consumer.seek_to_beginning()
        with pytest.raises(
            errors.CorruptMessage, match=r"n69-rot-0: .*00000000000000000000\.log"
        ) as f:
            consumer.poll(10)
        assert f.value.next_offset == 1
        consumer.seek(tp, 1)
        found = [record.value for _ in range(RECORDS) for record in consumer.poll(1)]
    assert found == [value(number) for number in range(1, RECORDS)]
    with Producer(bootstrap_servers=world.cluster.bootstrap_servers) as producer:
        assert producer.send(ROTTEN, b"new").result(30).offset == RECORDS


def test_what_was_cut_is_told_and_kept_aside(world: World) -> None:
    assert f"cut the last {len(TAIL)} bytes" in world.told
    aside = segment(world.folder / "n68-tail-0", 4, ".log.cut")
    assert aside.read_bytes() == TAIL
    assert segment(world.folder / "n68-cut-0", 4, ".log.cut").exists()
    assert not segment(world.folder / "n68-zeros-0", 4, ".log.cut").exists()


def test_strange_files_are_told_once_and_left_alone(world: World) -> None:
    assert world.told.count("notes.txt~") == 1
    assert (world.folder / "n76-foreign-0/notes.txt~").read_bytes() == b"x"
    assert "symbolic link" in world.told
    left = {path.suffix for path in (world.folder / "n78-leftovers-0").iterdir()}
    assert not left & {".swap", ".cleaned", ".deleted", ".tmp"}


def test_a_clock_behind_the_files_is_told(world: World) -> None:
    assert "days before the newest file: set it right" in world.told


def test_files_that_changed_behind_a_clean_stop_are_looked_at(world: World) -> None:
    """Bad input 75. All is whole before: a failed log spoils the clean stop."""
    world.admin.delete_topics(list(OFFLINE))
    (world.folder / "linked-0").unlink(missing_ok=True)
    world.cluster.stop(1)
    world.cluster.start(1)
    before = world.values("whole")
    world.cluster.stop(1)
    assert (world.folder / CLEAN_MARKER).exists()
    with sorted((world.folder / "whole-0").glob("*.log"))[-1].open("ab") as file:
        file.write(TAIL)
    world.cluster.start(1)
    eventually(30, lambda: world.leader("whole") == 1, "the broker leads again")
    assert world.values("whole") == before
    assert world.told.count(f"cut the last {len(TAIL)} bytes") == 2


def test_damaged_metadata_are_refused_and_nothing_is_made_anew(world: World) -> None:
    """Bad input 79."""
    world.cluster.close()
    folder = world.cluster.data_dir
    shutil.copytree(
        folder, folder / "copy", symlinks=True, ignore=shutil.ignore_patterns("copy", "pipe")
    )
    (log,) = (folder / "copy").glob("controller/__cluster_metadata-0/*.log")
    with log.open("r+b") as file:
        file.seek(100)
        file.write(b"\xff" * 10)
    damaged = log.read_bytes()
    with pytest.raises(errors.PylogError, match="__cluster_metadata-0") as refused:
        LocalCluster(data_dir=folder / "copy")
    assert "\n" not in str(refused.value)
    assert log.read_bytes() == damaged


def test_too_few_files_are_refused_with_the_number_needed(tmp_path: Path) -> None:
    """Bad input 81."""
    started = f"ulimit -n 256 && exec {sys.executable} -m pylog.cli.main local --data-dir data"
    done = subprocess.run(
        ["bash", "-c", started], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert "256 files open; a broker needs" in done.stderr
    assert "ulimit -n" in done.stderr
