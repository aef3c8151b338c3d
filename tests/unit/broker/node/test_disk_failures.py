"""Disks that fail under a serving broker: the news of it, and the service that goes on."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest

from pylog.clock import SYSTEM_CLOCK
from pylog.errors import KafkaStorageError
from pylog.model import BrokerId, Offset, TopicId, TopicPartition
from pylog_broker.config import BrokerConfig
from pylog_broker.metadata.messages import FailuresNoted, ReplicaKey
from pylog_broker.node import upkeep
from pylog_broker.node.disk_failures import DiskFailures
from pylog_broker.node.failures import FailureReports
from pylog_broker.node.upkeep import Upkeep
from pylog_broker.storage.directories.directory import MetaProperties
from pylog_broker.storage.log.log import Log
from pylog_broker.storage.manager.log_directories import LogDirectories
from pylog_broker.storage.manager.opening import Opening
from pylog_broker.storage.segments.flush_task import FlushTask
from tests.fakes.logs import WALL_MS, append
from tests.fakes.memory_files import MemoryFiles

ONE, TWO = "/disk1/broker-1", "/disk2/broker-1"
CONFIG = BrokerConfig(
    replica_high_watermark_checkpoint_interval_ms=1, log_cleaner_backoff_ms=1
)  # fmt: skip


class Manager:
    """The part of a replica manager that upkeep uses; notes the logs that upkeep reports."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def high_watermarks(self) -> dict[TopicPartition, Offset]:
        return {TopicPartition(name, 0): Offset(len(self.told)) for name in ("a", "b")}

    def on_retained(self, now_ms: int) -> list[str]:
        return []

    def on_logs_failed(self, now_ms: int, logs: list[Log]) -> list[str]:
        return [log.topic_partition.topic for log in logs]


class Broker:
    """A log `a` on the first disk and `b` on the second."""

    def __init__(self, *paths: str) -> None:
        self.files = MemoryFiles()
        self.manager = Manager()
        self.faults: list[str] = []
        self.sent: list[tuple[str, ...]] = []
        ids = iter(["dir-1", "dir-2"])
        owner = MetaProperties("c", BrokerId(1), "", "boot")
        opening = Opening(
            self.files, paths, owner,
            new_directory_id=ids.__next__, wall_ms=WALL_MS, config=CONFIG,
        )  # fmt: skip
        for step in opening.steps:
            step()
        self.logs: LogDirectories = opening.finish()
        for name, number in (("a", 1), ("b", 2)):
            key = TopicPartition(name, 0)
            self.logs.create(key, TopicId(name * 22), directory_id=f"dir-{number}")
        self.hurried: list[str] = []
        self.engine = cast(Any, self)
        self.failures = DiskFailures(
            self.logs, self.engine, FailureReports(self.send), self.faults.append
        )

    def tell(self, event: Callable[[int], list[str]]) -> None:
        self.manager.told += event(0)

    async def flush(self, task: FlushTask) -> None:
        task.run()

    def delete_at_once(self, root: str) -> None:
        self.hurried.append(root)

    async def send(
        self, replicas: tuple[ReplicaKey, ...], log_dirs: tuple[str, ...], reason: str
    ) -> FailuresNoted:
        self.sent.append(log_dirs)
        return FailuresNoted()

    def log(self, name: str) -> Log:
        log = self.logs.get(TopicPartition(name, 0))
        assert log is not None
        return log

    def upkeep(self, pool: ThreadPoolExecutor) -> Upkeep:
        return Upkeep(self.logs, self.engine, SYSTEM_CLOCK, pool, pool, CONFIG, self.failures.take)


def run(test: Callable[[Broker], Coroutine[Any, Any, None]], *paths: str) -> Broker:
    async def main() -> Broker:
        broker = Broker(*(paths or (ONE, TWO)))
        async with asyncio.timeout(20):
            await test(broker)
        return broker

    return asyncio.run(main())


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0)


def fails_to_append(log: Log) -> None:
    with pytest.raises(KafkaStorageError):
        append(log, b"v")


def test_a_failed_append_is_told_in_the_next_turn() -> None:
    async def test(broker: Broker) -> None:
        broker.files.fail("append", f"{TWO}/b-0", errno.EIO)
        fails_to_append(broker.log("b"))
        assert broker.manager.told == []
        await until(lambda: bool(broker.sent))

    broker = run(test)
    assert (broker.manager.told, broker.sent, broker.faults) == (["b"], [("dir-2",)], [])


def test_it_is_heard_from_a_pool_thread() -> None:
    async def test(broker: Broker) -> None:
        broker.files.fail("append", f"{TWO}/b-0", errno.EIO)
        await asyncio.to_thread(fails_to_append, broker.log("b"))
        await until(lambda: bool(broker.sent))

    assert run(test).manager.told == ["b"]


def test_what_fails_at_a_stop_is_left_to_the_next_start() -> None:
    async def test(broker: Broker) -> None:
        broker.files.fail("append", ".log", errno.EIO, times=9)
        for name in ("a", "b"):
            fails_to_append(broker.log(name))
        broker.failures.stop()
        broker.failures.take()
        broker.logs.retire()
        broker.failures.registered()
        assert broker.logs.live == broker.logs.opened

    broker = run(test)
    assert (broker.manager.told, broker.sent, broker.faults) == ([], [], [])


def test_the_last_directory_is_a_fault_of_the_broker() -> None:
    async def test(broker: Broker) -> None:
        broker.files.fail("append", ".log", errno.EIO, times=9)
        for name in ("a", "b"):
            fails_to_append(broker.log(name))
        await until(lambda: bool(broker.faults))

    assert "every log directory has failed" in run(test).faults[0]


def test_a_directory_that_refuses_the_registration_is_given_up() -> None:
    async def test(broker: Broker) -> None:
        broker.logs.opened[1]._identity.set_intact(False)
        broker.files.fail("append", f"{TWO}/meta.properties", errno.EROFS)
        broker.failures.registered()
        await until(lambda: bool(broker.sent))

    broker = run(test)
    assert (broker.manager.told, broker.sent, broker.faults) == (["b"], [("dir-2",)], [])


def test_upkeep_goes_on_with_the_directory_that_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "MAINTENANCE_SECONDS", 0)

    async def test(broker: Broker) -> None:
        with ThreadPoolExecutor(2) as pool:
            running = asyncio.ensure_future(broker.upkeep(pool).run())
            broker.files.fail("append", f"{TWO}/replication", errno.EIO)
            await until(lambda: bool(broker.sent))
            marks = f"{ONE}/replication-offset-checkpoint"
            await until(lambda: marks in broker.files.names)
            append(broker.log("a"), b"v")
            broker.manager.told.append("again")  # other high watermarks are to be written
            before = broker.files.names.get(marks)
            await until(lambda: broker.files.names.get(marks) is not before)
            assert not running.done()
            broker.files.fail("append", f"{ONE}/replication", errno.EIO, times=9)
            broker.manager.told.append("and again")
            with pytest.raises(KafkaStorageError, match="every log directory has failed"):
                await running

    assert run(test).manager.told[0] == "b"


def test_with_one_directory_upkeep_ends_with_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "MAINTENANCE_SECONDS", 0)

    async def test(broker: Broker) -> None:
        with ThreadPoolExecutor(2) as pool:
            broker.files.fail("append", f"{ONE}/replication", errno.EIO)
            with pytest.raises(KafkaStorageError, match=f"{ONE} cannot be written"):
                await broker.upkeep(pool).run()

    assert run(test, ONE).sent == []


def test_upkeep_of_a_full_disk_makes_room_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "MAINTENANCE_SECONDS", 0)

    async def test(broker: Broker) -> None:
        with ThreadPoolExecutor(2) as pool:
            running = asyncio.ensure_future(broker.upkeep(pool).run())
            broker.files.fail("append", f"{TWO}/b-0", errno.ENOSPC)
            fails_to_append(broker.log("b"))
            await until(lambda: bool(broker.hurried))
            running.cancel()

    assert run(test).hurried == [TWO]
