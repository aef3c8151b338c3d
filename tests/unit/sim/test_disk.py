"""The simulator's disk keeps what was synced and loses only what was not."""

from __future__ import annotations

import random

import pytest

from tests.sim.disk import Disk, TornWrite


def disk_with(path: str, synced: bytes, written: bytes = b"") -> Disk:
    disk = Disk()
    disk.mkdir("/d")
    inode = disk.create(path)
    disk.append(inode, synced)
    inode.fsync()
    disk.root.fsync()
    disk.directory("/d").fsync()
    disk.append(inode, written)
    return disk


def test_a_power_loss_keeps_synced_bytes_and_may_lose_the_rest() -> None:
    lengths = set()
    for seed in range(200):
        disk = disk_with("/d/f", b"a" * 700, b"b" * 2_000)
        disk.lose_power(random.Random(seed))
        data = disk.file("/d/f").data
        assert data[:700] == b"a" * 700
        assert set(data[700:]) <= {ord("b"), 0}
        lengths.add(len(data))
    assert min(lengths) == 700
    assert max(lengths) == 2_700


def test_a_later_page_may_survive_an_earlier_one() -> None:
    def holes(seed: int) -> bool:
        disk = disk_with("/d/f", b"", b"b" * 5_000)
        disk.lose_power(random.Random(seed))
        data = bytes(disk.file("/d/f").data)
        return b"\0b" in data

    assert any(holes(seed) for seed in range(50))


def test_a_cut_that_was_not_synced_may_come_undone_in_part() -> None:
    contents = set()
    for seed in range(200):
        disk = disk_with("/d/f", b"a" * 1_024)
        inode = disk.file("/d/f")
        inode.truncate(512)
        disk.append(inode, b"b" * 512)
        disk.lose_power(random.Random(seed))
        contents.add(bytes(disk.file("/d/f").data))
    assert b"a" * 1_024 in contents
    assert b"a" * 512 + b"b" * 512 in contents


def test_names_need_a_directory_sync() -> None:
    seen = set()
    for seed in range(50):
        disk = disk_with("/d/f", b"x")
        disk.rename("/d/f", "/d/g")
        disk.create("/d/h")
        disk.lose_power(random.Random(seed))
        seen.add(tuple(sorted(disk.directory("/d").entries)))
    assert seen == {("f",), ("g",), ("g", "h")}
    disk = disk_with("/d/f", b"x")
    disk.rename("/d/f", "/d/g")
    disk.directory("/d").fsync()
    disk.lose_power(random.Random(1))
    assert sorted(disk.directory("/d").entries) == ["g"]


def test_a_directory_moves_with_its_files() -> None:
    disk = disk_with("/d/f", b"x")
    disk.rename("/d", "/e")
    assert bytes(disk.file("/e/f").data) == b"x"
    assert disk.find("/d") is None
    assert [path for path, _ in disk.walk()] == ["/e/f"]


def test_a_torn_write_leaves_a_part_and_kills() -> None:
    disk = disk_with("/d/f", b"x")
    disk.torn_write_rng = random.Random(3)
    inode = disk.file("/d/f")
    with pytest.raises(TornWrite):
        disk.append(inode, b"y" * 100)
    assert 1 <= len(inode.data) < 101
    disk.append(inode, b"z")
    assert inode.data.endswith(b"z")
