"""The simulator's files behave as the product's do."""

from __future__ import annotations

import errno
import random

import pytest

from pylog_broker.storage.files import Files
from tests.sim.disk import MOUNTS, Disk
from tests.sim.files import SimFiles


def process(disk: Disk) -> SimFiles:
    return SimFiles(disk, rng=random.Random(1))


def test_write_read_cut() -> None:
    files: Files = process(Disk())
    files.mkdir("/data/d")
    handle = files.open("/data/d/f", create=True)
    assert files.append(handle, [b"abc", b"def"]) == 6
    assert files.pread(handle, 3, 2) == b"cde"
    assert files.pread(handle, 9, 4) == b"ef"
    files.truncate(handle, 4)
    assert files.read_all("/data/d/f") == b"abcd"
    assert files.size(handle) == 4
    assert files.listdir("/data/d") == ["f"]
    files.unlink("/data/d/f")
    files.unlink("/data/d/f")
    assert files.pread(handle, 4, 0) == b"abcd"
    with pytest.raises(FileNotFoundError):
        files.open("/data/d/f")


def test_what_was_replaced_atomically_survives_a_power_loss() -> None:
    for seed in range(30):
        disk = Disk()
        files = process(disk)
        files.mkdir("/data")
        disk.root.fsync()
        files.write_atomic("/data/f", b"old")
        files.write_atomic("/data/f", b"new")
        files.die()
        disk.lose_power(random.Random(seed))
        assert process(disk).read_all("/data/f") == b"new"


def test_a_lock_goes_with_its_process() -> None:
    disk = Disk()
    one, two = process(disk), process(disk)
    one.mkdir("/data")
    assert one.try_lock("/data/.lock") is not None
    assert two.try_lock("/data/.lock") is None
    one.die()
    handle = two.try_lock("/data/.lock")
    assert handle is not None
    two.close(handle)
    assert process(disk).try_lock("/data/.lock") is not None


def test_a_full_disk_keeps_a_part_and_says_so() -> None:
    disk = Disk()
    files = process(disk)
    handle = files.open("/f", create=True)
    disk.full = True
    with pytest.raises(OSError, match="no space") as raised:
        files.append(handle, [b"x" * 30])
    assert raised.value.errno == errno.ENOSPC
    assert files.size(handle) == 10


def test_a_renamed_directory_keeps_its_open_files() -> None:
    disk = Disk()
    files = process(disk)
    files.mkdir("/data/t-0")
    handle = files.open("/data/t-0/0.log", create=True)
    files.rename("/data/t-0", "/data/t-0-delete")
    files.append(handle, [b"x"])
    assert files.read_all("/data/t-0-delete/0.log") == b"x"
    files.truncate(handle, 0)
    assert disk.cuts["/data/t-0-delete"] >= 1


def several_disks() -> tuple[Disk, SimFiles]:
    disk = Disk(mounts=MOUNTS)
    files = SimFiles(disk, rng=random.Random(0))
    for mount in MOUNTS:
        files.mkdir(f"{mount}/b")
        files.write_atomic(f"{mount}/b/f", b"there")
    return disk, files


def test_a_disk_that_fails_gives_errors_and_the_others_do_not() -> None:
    disk, files = several_disks()
    handle = files.open("/disk1/b/f")
    disk.broken_mounts.add("/disk1")
    with pytest.raises(OSError, match="input/output error"):
        files.pread(handle, 5, 0)
    with pytest.raises(OSError, match="input/output error"):
        files.exists("/disk1/b/f")
    assert files.read_all("/disk2/b/f") == b"there"
    files.close(handle)
    disk.broken_mounts.clear()
    assert files.read_all("/disk1/b/f") == b"there"


def test_a_disk_that_is_not_mounted_is_an_empty_directory() -> None:
    disk, files = several_disks()
    disk.absent_mounts.add("/disk1")
    assert (files.listdir("/disk1"), files.exists("/disk1/b")) == ([], False)
    with pytest.raises(FileNotFoundError):
        files.read_all("/disk1/b/f")
    with pytest.raises(AssertionError, match="not mounted"):
        files.mkdir("/disk1/b")
    disk.absent_mounts.clear()
    assert files.read_all("/disk1/b/f") == b"there"


def test_one_of_several_disks_may_be_full() -> None:
    disk, files = several_disks()
    disk.full_mounts.add("/disk1")
    files.write_atomic("/disk2/b/f", b"more")
    with pytest.raises(OSError, match="no space left"):
        files.write_atomic("/disk1/b/f", b"more")
    files.unlink("/disk1/b/f")
    files.write_atomic("/disk1/b/f", b"more")


def test_what_somebody_copied_is_there_for_good() -> None:
    disk, files = several_disks()
    disk.copy("/data/b", "/disk1/c")
    disk.wipe("/data/b")
    disk.lose_power(random.Random(0))
    assert files.read_all("/disk1/c/f") == b"there"
    assert not files.exists("/data/b")


def test_an_access_may_be_refused_for_a_moment() -> None:
    disk = Disk()
    files = SimFiles(disk, rng=random.Random(1))
    handle = files.open("/data/f", create=True)
    disk.short_share, disk.short_once = 1.0, True
    with pytest.raises(OSError, match="not just now"):
        files.append(handle, [b"x"])
    assert files.append(handle, [b"x"]) == 1
    assert disk.shortages == 1
