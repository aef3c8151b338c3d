"""The highest controller epoch survives; a damaged file does not stop the broker."""

from __future__ import annotations

import errno

import pytest

from pylog.model import ControllerEpoch
from pylog_broker.node.epoch_file import EpochFile
from tests.fakes.memory_files import MemoryFiles


def test_the_highest_epoch_is_kept() -> None:
    files = MemoryFiles()
    files.mkdir("/b")
    epochs = EpochFile(files, ["/b"])
    assert epochs.highest == -1
    epochs.raise_to(ControllerEpoch(7))
    epochs.raise_to(ControllerEpoch(3))
    assert EpochFile(files, ["/b"]).highest == 7


def test_a_directory_that_was_given_back_is_not_written() -> None:
    files = MemoryFiles()
    files.mkdir("/b")
    epochs = EpochFile(files, ["/b"])
    epochs.raise_to(ControllerEpoch(7))
    epochs.close()
    epochs.raise_to(ControllerEpoch(9))
    assert epochs.highest == 9
    assert EpochFile(files, ["/b"]).highest == 7


def test_a_damaged_file_counts_as_none() -> None:
    files = MemoryFiles()
    files.mkdir("/b")
    files.write_atomic("/b/controller-epoch", b"\xff?")
    assert EpochFile(files, ["/b"]).highest == -1


def test_a_full_disk_only_delays_it() -> None:
    files = MemoryFiles()
    files.mkdir("/b")
    epochs = EpochFile(files, ["/b"])
    files.capacity = 0
    epochs.raise_to(ControllerEpoch(7))
    assert epochs.highest == 7
    epochs.raise_to(ControllerEpoch(7))
    assert EpochFile(files, ["/b"]).highest == -1
    files.capacity = None
    epochs.raise_to(ControllerEpoch(7))
    assert EpochFile(files, ["/b"]).highest == 7


def test_every_log_directory_has_it_and_one_is_enough() -> None:
    files = MemoryFiles()
    for directory in ("/a", "/b"):
        files.mkdir(directory)
    epochs = EpochFile(files, ["/a", "/b"])
    epochs.raise_to(ControllerEpoch(7))
    files.fail("rename", "/a/", errno.EIO)
    epochs.raise_to(ControllerEpoch(8))
    assert files.read_all("/a/controller-epoch") == b"7\n"
    epochs.raise_to(ControllerEpoch(9))  # the failed one is left out
    assert files.read_all("/a/controller-epoch") == b"7\n"
    files.fail("read_all", "/a/", errno.EIO)
    assert EpochFile(files, ["/a", "/b"]).highest == 9
    files.fail("rename", "/b/", errno.EIO)
    with pytest.raises(OSError, match="injected"):
        epochs.raise_to(ControllerEpoch(10))
