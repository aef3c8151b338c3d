"""Random lives of a broker's disks, against a dumb twin: a list of values for each log."""

from __future__ import annotations

import errno
from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pylog.errors import KafkaStorageError
from pylog.model import BrokerId, TopicId, TopicPartition
from pylog_broker.storage.directories.directory import MetaProperties
from pylog_broker.storage.errors import StorageStartError
from pylog_broker.storage.manager.log_directories import LogDirectories
from pylog_broker.storage.manager.opening import Opening
from tests.fakes.logs import WALL_MS, append, values_of
from tests.fakes.memory_files import MemoryFiles

PATHS = [f"/disk{number}/broker-1" for number in (1, 2, 3)]
NAMES = "abcd"
NAME = st.sampled_from(NAMES)
DISK = st.sampled_from(range(3))

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), NAME),
        st.tuples(st.just("fail"), NAME, st.sampled_from(["append", "pread"])),
        st.tuples(st.just("restart"), st.sets(DISK, max_size=2), st.booleans()),
    ),
    max_size=25,
)


class Machine:
    """Three disks; log n of `NAMES` belongs to disk n modulo 3, as the metadata would say."""

    def __init__(self) -> None:
        self.files = MemoryFiles()
        self.twin: dict[str, list[bytes]] = {name: [] for name in NAMES}
        self.away: dict[str, Any] = {}
        self.ids = iter(range(1_000))
        self.places: list[str] = []
        self.logs = self.opened()
        self.places = [manager.meta.directory_id for manager in self.logs.opened]

    def opened(self) -> LogDirectories:
        opening = Opening(
            self.files, PATHS, MetaProperties("c", BrokerId(1), "", "boot"),
            new_directory_id=lambda: f"dir-{next(self.ids)}", wall_ms=WALL_MS,
        )  # fmt: skip
        for step in opening.steps:
            step()
        return opening.finish()

    def place(self, name: str) -> int:
        return NAMES.index(name) % 3

    def append(self, name: str, value: bytes) -> None:
        key, topic_id = TopicPartition(name, 0), TopicId(name * 22)
        place = self.places[self.place(name)]
        log = self.logs.by_id(topic_id, 0, place)
        if log is None:
            log = self.logs.create(key, topic_id, directory_id=place)
        append(log, value)
        self.twin[name].append(value)

    def restart(self, away: set[int], clean: bool) -> None:
        self.files.faults.clear()
        with suppress(OSError, KafkaStorageError):
            self.logs.close(clean=clean)
        self.files.kill()
        self.files.names |= self.away
        self.away = {
            name: file
            for name, file in self.files.names.items()
            if any(name.startswith(f"{PATHS[disk]}/") for disk in away)
        }
        for name in self.away:
            del self.files.names[name]
        self.logs = self.opened()


@given(STEPS)
@settings(max_examples=200)
def test_what_was_appended_is_where_it_was_or_offline(steps: list[tuple[Any, ...]]) -> None:
    machine = Machine()
    for number, step in enumerate(steps):
        match step:
            case ("append", name):
                with suppress(KafkaStorageError):
                    machine.append(name, b"%d" % number)
                with suppress(KafkaStorageError):
                    machine.logs.take_new_failures()
            case ("fail", name, operation):
                machine.files.fail(operation, f"{name}-0/", errno.EIO)
            case ("restart", away, clean):
                with suppress(StorageStartError):
                    machine.restart(away, clean)
        check(machine)


def check(machine: Machine) -> None:
    gone = {each.directory_id for each in machine.logs.offline}
    for name in NAMES:
        place = machine.places[machine.place(name)]
        log = machine.logs.by_id(TopicId(name * 22), 0, place)
        elsewhere = [p for p in PATHS if p != PATHS[machine.place(name)]]
        assert not any(machine.files.exists(f"{p}/{name}-0") for p in elsewhere)
        if log is None:
            assert (
                place in gone
                or TopicPartition(name, 0) in machine.logs.failed
                or (not machine.twin[name])
            )
        elif log.failure is None and not machine.files.faults:
            assert [value for _, value in values_of(log)] == machine.twin[name]
            assert place not in gone
