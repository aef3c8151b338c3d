"""The fake of files of which nothing is in memory before it was read."""

from __future__ import annotations

from pathlib import Path

from tests.fakes.paged_files import PagedFiles


def test_a_page_is_in_memory_when_it_was_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 10_000)
    files = PagedFiles()
    handle = files.open(str(path))
    assert files.pread_nowait(handle, 10, 0) is None
    assert files.pread(handle, 10, 4_090) == b"x" * 10
    assert files.waited_for == [(4_090, 10)]
    found = files.pread_nowait(handle, 8_192, 0)
    assert found is not None
    assert bytes(found) == b"x" * 8_192
    assert files.pread_nowait(handle, 1, 8_192) is None
    files.close(handle)


def test_nothing_stays_in_memory_where_it_is_short(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x")
    files = PagedFiles(forgets=True)
    handle = files.open(str(path))
    assert files.pread(handle, 1, 0) == b"x"
    assert files.pread_nowait(handle, 1, 0) is None
    files.close(handle)
