"""A start that meets an error of the moment is put off: none of its replicas, and no directory, is
taken for a broken one, and the next attempt finds everything.
"""

from __future__ import annotations

import errno

import pytest

from pylog.model import BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from pylog_broker.config import TopicConfig
from pylog_broker.storage.directories.directory import MetaProperties, inspect
from pylog_broker.storage.errors import StartPutOff, StorageStartError
from pylog_broker.storage.files import OF_THE_MOMENT
from pylog_broker.storage.manager.log_directories import LogDirectories
from pylog_broker.storage.manager.opening import Opening
from tests.fakes.logs import TOPIC, TOPIC_ID, WALL_MS, append, batch_of, values_of
from tests.fakes.memory_files import MemoryFiles
from tests.fakes.short_files import Shortage, refuse_one_of

PATHS = ("/disk1/broker-1", "/disk2/broker-1")
CODES = sorted(OF_THE_MOMENT)


def start(files: MemoryFiles, *, boot: str = "boot") -> LogDirectories:
    """As a broker begins."""
    ids = iter(["dir-1", "dir-2"])
    owner = MetaProperties("c", BrokerId(1), "", boot)
    opening = Opening(files, PATHS, owner, new_directory_id=lambda: next(ids), wall_ms=WALL_MS)
    for step in opening.steps:
        step()
    return opening.finish()


def left_by_a_kill() -> MemoryFiles:
    """Two logs in each of two directories, one of them with records that were deleted."""
    files = MemoryFiles()
    logs = start(files)
    for number in range(4):
        name, topic_id = TopicPartition(f"t{number}", 0), TopicId(f"{number}" * 21 + "A")
        log = logs.create(name, topic_id, directory_id=f"dir-{number % 2 + 1}")
        for value in (b"a", b"b", b"c"):
            batch = batch_of(value, producer=(7, 0, log.log_end_offset))
            log.append_as_leader(batch, leader_epoch=LeaderEpoch(0), wall_ms=WALL_MS)
        if number == 3:
            log.advance_log_start(Offset(2))
    files.kill()
    return files


def portrait(logs: LogDirectories) -> list[object]:
    assert (logs.offline, dict(logs.failed)) == ((), {})
    assert (logs.failed_replicas, logs.lost_replicas, logs.log_intact) == ((), (), True)
    return [(log.topic_partition, log.log_start_offset, values_of(log)) for log in logs.logs]


def test_every_operation_of_a_start_may_be_refused_once() -> None:
    expected = portrait(start(left_by_a_kill()))
    assert len(expected) == 4
    put_off = number = 0
    while True:
        files = left_by_a_kill()
        shortage = Shortage(number, CODES[number % len(CODES)])
        refuse_one_of(files, shortage)
        try:
            logs = start(files)
        except StartPutOff:
            put_off += 1
            assert not files.handles, shortage.refused
            logs = start(files)
        if not shortage.refused:
            break
        with shortage.not_now():
            assert portrait(logs) == expected, shortage.refused
        number += 1
    assert put_off > 50


def left_by_a_loss_of_power() -> MemoryFiles:
    """A log of six segments; of the second one the end was lost, of the fourth one all."""
    files = MemoryFiles()
    config = TopicConfig(segment_bytes=200)
    log = start(files).create(TOPIC, TOPIC_ID, config, directory_id="dir-1")
    for _ in range(12):
        append(log, b"v" * 20)
    bases = [segment.base_offset for segment in log.segments]
    assert bases == [0, 2, 4, 6, 8, 10]
    files.kill()
    for base, kept in ((2, 100), (6, 0)):
        del files.names[f"{log.directory}/{base:020d}.log"].data[kept:]
    return files


def test_a_start_after_a_loss_of_power_may_end_anywhere() -> None:
    """The next one knows that what is missing was lost, and not that the power was."""
    number = 0
    while True:
        files = left_by_a_loss_of_power()
        shortage = Shortage(number, CODES[number % len(CODES)])
        refuse_one_of(files, shortage)
        try:
            logs = start(files, boot="another")
        except StartPutOff:
            logs = start(files, boot="another")
        if not shortage.refused:
            break
        with shortage.not_now():
            assert (logs.offline, dict(logs.failed)) == ((), {}), shortage.refused
            (log,) = logs.logs
            assert (log.damage, logs.log_intact) == ((), False), shortage.refused
            assert [offset for offset, _ in values_of(log)] == [0, 1, 2], shortage.refused
        number += 1
    assert number > 50


def test_a_directory_that_cannot_be_looked_at_now_is_offered_later() -> None:
    files = left_by_a_kill()
    files.fail("read_all", "meta.properties", errno.EMFILE)
    with pytest.raises(StartPutOff, match="cannot be looked at now"):
        inspect(files, PATHS[0])
    assert inspect(files, PATHS[0]) is not None
    assert StartPutOff.retriable
    assert not issubclass(StartPutOff, StorageStartError)
