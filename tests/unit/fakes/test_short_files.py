"""Files that refuse one operation, once."""

from __future__ import annotations

import errno

import pytest

from tests.fakes.memory_files import MemoryFiles
from tests.fakes.short_files import Shortage, refuse_one_of


def test_the_operation_of_that_number_is_refused_and_no_other() -> None:
    files = MemoryFiles()
    shortage = Shortage(2, errno.EMFILE)
    refuse_one_of(files, shortage)
    files.mkdir("/d")
    handle = files.open("/d/f", create=True)
    with pytest.raises(OSError, match="Too many open files"):
        files.append(handle, [b"abcd"])
    assert shortage.refused == f"append({handle})"
    assert files.pread(handle, 9, 0) == b"ab", "a part was written"
    assert files.append(handle, [b"!"]) == 1
    assert shortage.seen == 5


def test_operations_within_others_count_and_a_look_does_not() -> None:
    files = MemoryFiles()
    shortage = Shortage(-1, errno.EMFILE)
    refuse_one_of(files, shortage)
    files.mkdir("/d")
    files.write_atomic("/d/f", b"x")
    assert shortage.seen == 7  # mkdir, write_atomic: unlink, open, append, rename, fsync_dir
    with shortage.not_now():
        files.read_all("/d/f")
    assert shortage.seen == 7
