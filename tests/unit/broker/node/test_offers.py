"""The brokers that a host could be: its directories, with one or several per broker."""

from __future__ import annotations

import errno
from itertools import count

import pytest

from pylog.errors import InvalidConfig
from pylog.model import BrokerId
from pylog_broker.node.offers import find_directories, refuse_left_out
from pylog_broker.storage.directories.directory import MetaProperties, write_meta
from pylog_broker.storage.errors import StartPutOff
from pylog_broker.storage.files import OF_THE_MOMENT
from tests.fakes.memory_files import MemoryFiles
from tests.fakes.short_files import Shortage, refuse_one_of


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


@pytest.mark.parametrize("log_dirs", [("/data",), ("/data/", "/disk2"), ("/disk2", "/data")])
def test_the_data_root_may_be_among_them(log_dirs: tuple[str, ...]) -> None:
    files = MemoryFiles()
    made(files, "/data/broker-1", 1, "1a")
    made(files, "/disk2/broker-1", 1, "1b")
    found = {"/data": (1, "1a", False), "/disk2": (1, "1b", False)}
    assert offered(files, *log_dirs) == [found[entry.rstrip("/")] for entry in log_dirs]


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


@pytest.mark.parametrize("code", sorted(OF_THE_MOMENT))
@pytest.mark.parametrize("log_dirs", [(), ("/data",), ("/data", "/disk2"), (".", "d")])
def test_no_directory_is_left_out_for_want_of_something(
    log_dirs: tuple[str, ...], code: int
) -> None:
    """Its broker would be given to nobody, and this process an empty one."""
    for number in count():
        files = MemoryFiles()
        made(files, "/data/broker-1", 1, "1a")
        made(files, "/disk2/broker-1", 1, "1b")
        made(files, "/data/broker-2/d", 2, "2d")
        wanted = offered(files, *log_dirs)
        assert wanted
        shortage = Shortage(number, code)
        refuse_one_of(files, shortage)
        try:
            assert offered(files, *log_dirs) == wanted
        except StartPutOff:
            assert offered(files, *log_dirs) == wanted
        if not shortage.refused:
            break


def test_a_disk_that_does_not_answer_is_left_out() -> None:
    files = MemoryFiles()
    made(files, "/disk1/broker-1", 1, "1a")
    made(files, "/disk2/broker-1", 1, "1b")
    refuse_one_of(files, Shortage(0, errno.EIO))
    assert offered(files, "/disk1", "/disk2") == [(1, "1b", False)]
