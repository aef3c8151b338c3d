"""A broker directory in memory, opened and filled."""

from __future__ import annotations

from collections.abc import Mapping

from pylog.model import BrokerId, Offset, TopicId, TopicPartition
from pylog_broker.config import BrokerConfig
from pylog_broker.storage.files import Files
from pylog_broker.storage.log.log import Log
from pylog_broker.storage.manager.manager import LogManager
from tests.fakes.logs import TOPIC, TOPIC_ID, WALL_MS, append
from tests.fakes.memory_files import MemoryFiles

ROOT = "/data/broker-1"
OTHER = TopicPartition("other.topic", 3)
OTHER_ID = TopicId("o" * 21 + "A")


def open_manager(
    files: Files,
    *,
    directory: str = ROOT,
    cluster: str = "cluster",
    broker: int = 1,
    boot: str = "boot-1",
    config: BrokerConfig | None = None,
    mount: str = "",
) -> LogManager:
    return LogManager.open(
        files,
        directory,
        cluster_id=cluster,
        broker_id=BrokerId(broker),
        boot_id=boot,
        new_directory_id="directory-1",
        wall_ms=WALL_MS,
        config=config,
        mount_id=mount,
    )


def log_of(manager: LogManager, key: TopicPartition = TOPIC) -> Log:
    log = manager.get(key)
    assert log is not None
    return log


def write_log_starts(manager: LogManager) -> bool:
    """Write the log starts, as a broker's pool does once they have moved; whether they had."""
    task = manager.log_starts_task()
    if task is None:
        return False
    task.run()
    while manager.on_log_starts_written(task):
        task.run()
    return True


def maintain(
    manager: LogManager, now_ms: int, wall_ms: int, marks: Mapping[TopicPartition, Offset]
) -> None:
    """Upkeep up to where files have their `.deleted` names."""
    manager.maintain(now_ms, wall_ms, marks)
    if write_log_starts(manager):
        manager.maintain(now_ms, wall_ms, marks)


def running(count: int = 3) -> tuple[MemoryFiles, LogManager]:
    files = MemoryFiles()
    manager = open_manager(files)
    log = manager.create(TOPIC, TOPIC_ID)
    for _ in range(count):
        append(log, b"v")
    return files, manager
