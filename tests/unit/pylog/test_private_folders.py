"""Folders and files for their owner alone, whatever the umask says."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pylog.private_folders import make_private, open_private, tighten


@pytest.fixture(autouse=True, params=[0, 0o022, 0o077])
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


def test_all_that_is_made_is_private_and_what_was_there_stays(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    make_private(tmp_path / "a" / "b" / "c")
    make_private(tmp_path / "a" / "b" / "c")
    assert [mode(path) for path in sorted(tmp_path.rglob("*"))] == [0o700] * 3
    make_private(tmp_path)
    assert mode(tmp_path) == 0o755
    with open(tmp_path / "f", "a", opener=open_private) as file:
        file.write("x")
    assert mode(tmp_path / "f") == 0o600


def test_what_is_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileExistsError, match="file"):
        make_private(tmp_path / "file")
    with pytest.raises(NotADirectoryError, match="file"):
        make_private(tmp_path / "file" / "folder")


def test_an_open_folder_is_tightened_once(tmp_path: Path) -> None:
    tmp_path.chmod(0o1755)
    assert tighten(tmp_path) == 0o1755
    assert mode(tmp_path) == 0o1700
    assert tighten(tmp_path) is None
