"""The operating system's files, and the fake against the same expectations."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pylog_broker.storage.files import Files, OsFiles
from tests.fakes.memory_files import MemoryFiles


@pytest.fixture(params=["os", "memory"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Files, str]:
    if request.param == "os":
        return OsFiles(), str(tmp_path)
    files = MemoryFiles()
    files.mkdir("/d")
    return files, "/d"


def test_append_read_truncate(disk: tuple[Files, str]) -> None:
    files, root = disk
    handle = files.open(f"{root}/a", create=True)
    assert files.append(handle, [b"abc", bytearray(b"de"), memoryview(b"f")]) == 6
    assert files.pread(handle, 3, 2) == b"cde"
    assert files.pread(handle, 100, 4) == b"ef"
    assert files.size(handle) == 6
    files.truncate(handle, 2)
    files.append(handle, [b"X"])
    files.fsync(handle)
    files.close(handle)
    assert files.read_all(f"{root}/a") == b"abX"


def test_names(disk: tuple[Files, str]) -> None:
    files, root = disk
    assert files.stat(f"{root}/none") is None
    with pytest.raises(FileNotFoundError):
        files.open(f"{root}/none")
    with pytest.raises(FileNotFoundError):
        files.read_all(f"{root}/none")
    files.mkdir(f"{root}/x/y")
    files.mkdir(f"{root}/x/y")
    files.write_atomic(f"{root}/x/f", b"1")
    files.write_atomic(f"{root}/x/f", b"22")
    assert files.listdir(f"{root}/x") == ["f", "y"]
    status = files.stat(f"{root}/x/f")
    assert status is not None
    assert (status.kind, status.size) == ("file", 2)
    files.rename(f"{root}/x", f"{root}/z")
    assert files.read_all(f"{root}/z/f") == b"22"
    files.unlink(f"{root}/z/f")
    files.unlink(f"{root}/z/f")
    files.rmdir(f"{root}/z/y")
    assert files.listdir(f"{root}/z") == []
    files.fsync_dir(root)


def test_a_lock_is_exclusive_and_given_back(disk: tuple[Files, str]) -> None:
    files, root = disk
    handle = files.try_lock(f"{root}/.lock")
    assert handle is not None
    assert files.try_lock(f"{root}/.lock") is None
    files.close(handle)
    again = files.try_lock(f"{root}/.lock")
    assert again is not None
    files.close(again)


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom pylog_broker.storage.files import OsFiles\n"
        f"assert OsFiles().try_lock({str(tmp_path / '.lock')!r}) is not None\n"
        "print('locked', flush=True)\nsys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"locked\n"
        assert OsFiles().try_lock(str(tmp_path / ".lock")) is None
        process.kill()
        process.wait()
    handle = OsFiles().try_lock(str(tmp_path / ".lock"))
    assert handle is not None
    os.close(handle)


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = OsFiles()
    handle = files.open(str(tmp_path / "a"), create=True)
    write, writev = os.write, os.writev
    monkeypatch.setattr(os, "writev", lambda fd, buffers: writev(fd, [bytes(buffers[0])[:2]]))
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, bytes(data)[:3]))
    assert files.append(handle, [b"0123", b"456789"]) == 10
    files.close(handle)
    assert (tmp_path / "a").read_bytes() == b"0123456789"


def test_more_buffers_than_one_writev_takes(tmp_path: Path) -> None:
    files = OsFiles()
    handle = files.open(str(tmp_path / "a"), create=True)
    assert files.append(handle, [b"xy"] * 3000) == 6000
    assert files.size(handle) == 6000
    files.close(handle)


def test_a_warm_page_is_read_without_waiting(tmp_path: Path) -> None:
    files = OsFiles()
    handle = files.open(str(tmp_path / "a"), create=True)
    files.append(handle, [b"z" * 10_000])
    found = files.pread_nowait(handle, 100, 9_950)
    assert found in (None, b"z" * 50)  # None where the file system does not support it
    files.close(handle)


def test_a_symlink_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    kinds = [OsFiles().stat(str(tmp_path / name)) for name in ("link", "pipe")]
    assert [status.kind for status in kinds if status] == ["symlink", "other"]


def test_the_fake_loses_what_was_not_synced() -> None:
    files = MemoryFiles()
    files.mkdir("/d")
    files.fsync_dir("")
    handle = files.open("/d/a", create=True)
    files.append(handle, [b"one"])
    files.fsync(handle)
    files.fsync_dir("/d")
    files.append(handle, [b"two"])
    files.open("/d/b", create=True)
    files.lose_power()
    assert files.listdir("/d") == ["a"]
    assert files.read_all("/d/a") == b"one"


def test_the_fake_fails_on_demand() -> None:
    files = MemoryFiles()
    files.mkdir("/d")
    handle = files.open("/d/a", create=True)
    files.fail("append", "/d/a", errno.EIO, bytes_first=1)
    with pytest.raises(OSError, match="injected"):
        files.append(handle, [b"xyz"])
    assert files.append(handle, [b"!"]) == 1
    files.capacity = 3
    with pytest.raises(OSError, match="no space"):
        files.append(handle, [b"12345"])
    assert files.read_all("/d/a") == b"x!1"
