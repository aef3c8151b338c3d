"""Which brokers a host could be: its directories, with one or several per broker."""

from __future__ import annotations

import pytest

from pylog.errors import InvalidConfig
from pylog.model import BrokerId
from pylog_broker.node.offers import find_directories, refuse_left_out
from pylog_broker.storage.directories.directory import MetaProperties, write_meta
from tests.fakes.memory_files import MemoryFiles


def made(files: MemoryFiles, path: str, broker: int, directory_id: str) -> None:
    files.mkdir(path)
    write_meta(files, path, MetaProperties("c", BrokerId(broker), directory_id, "boot"))


def offered(files: MemoryFiles, *log_dirs: str) -> list[tuple[int, str, bool]]:
    found = find_directories(files, "/data", log_dirs)
    return [(each.broker_id, each.directory_id, each.locked) for each in found]


def test_without_the_setting_the_data_root_is_looked_at() -> None:
    files = MemoryFiles()
    assert offered(files) == []
    made(files, "/data/broker-2", 2, "two")
    made(files, "/data/controller", 0, "none")
    assert offered(files) == [(2, "two", False)]


def test_every_directory_offers_its_broker() -> None:
    files = MemoryFiles()
    made(files, "/disk1/broker-1", 1, "1a")
    made(files, "/disk2/broker-1", 1, "1b")
    made(files, "/disk2/broker-2", 2, "2b")
    made(files, "/data/broker-3/d", 3, "3c")
    files.mkdir("/data/broker-4")
    assert offered(files, "/disk1", "/disk2", "d") == [
        (1, "1a", False), (1, "1b", False), (2, "2b", False), (3, "3c", False),
    ]  # fmt: skip
    assert offered(files, "/disk1", "/not/mounted") == [(1, "1a", False)]


def test_one_lock_says_that_the_broker_runs() -> None:
    files = MemoryFiles()
    made(files, "/disk1/broker-1", 1, "1a")
    made(files, "/disk2/broker-1", 1, "1b")
    files.try_lock("/disk2/broker-1/.lock")
    assert offered(files, "/disk1", "/disk2") == [(1, "1a", True), (1, "1b", True)]


def test_logs_that_the_setting_leaves_out_are_named() -> None:
    files = MemoryFiles()
    made(files, "/data/broker-1", 1, "one")
    refuse_left_out(files, "/data", ())
    refuse_left_out(files, "/data", ("/data", "/disk2"))
    refuse_left_out(files, "/data", (".", "/disk2"))
    with pytest.raises(InvalidConfig, match="leaves out /data/broker-1, which holds the logs of"):
        refuse_left_out(files, "/data", ("/disk1", "/disk2"))
