"""Effects are performed in order, never from within a call, and time comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest

from pylog.clock import SYSTEM_CLOCK
from pylog.model import BrokerEpoch, BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from pylog_broker.metadata.messages import AlterPartition, PartitionsAltered
from pylog_broker.node.engine import Engine
from pylog_broker.replication.effects import (
    ColdRead,
    DeleteReplicaLater,
    Effect,
    FetchDone,
    HighWatermarkMoved,
    LeadershipBegan,
    LeadershipEnded,
    OperationFailed,
    ProduceDone,
    ReplicaFailed,
    SendAlterPartition,
    SendReplicaFetch,
    SyncLog,
)
from pylog_broker.replication.manager import ReplicaManager
from pylog_broker.replication.replica_fetch_messages import ReplicaFetch
from pylog_broker.storage.segments.flush_task import FlushTask, SyncHistory
from tests.fakes.memory_files import MemoryFiles


class ScriptedManager:
    """Notes what it is told; answers with nothing."""

    def __init__(self) -> None:
        self.heard: list[tuple[object, ...]] = []
        self.next_deadline_ms: int | None = None
        self.told = asyncio.Event()

    def _note(self, *event: object) -> list[Effect]:
        self.heard.append(event)
        self.told.set()
        return []

    def on_replica_fetched(self, now_ms: int, wall_ms: int, *event: object) -> list[Effect]:
        return self._note("fetched", *event)

    def on_partitions_altered(self, now_ms: int, *event: object) -> list[Effect]:
        return self._note("altered", *event)

    def on_cold_read(self, now_ms: int, read: ColdRead) -> list[Effect]:
        return self._note("read", read)

    def on_synced(self, now_ms: int, sync: SyncLog) -> list[Effect]:
        return self._note("synced", sync)

    def on_time(self, now_ms: int, wall_ms: int) -> list[Effect]:
        self.next_deadline_ms = None
        return self._note("time")


Test = Callable[[Engine, ScriptedManager, list[str]], Coroutine[Any, Any, None]]


def run(test: Test) -> None:
    async def main() -> None:
        manager = ScriptedManager()
        faults: list[str] = []

        async def alter(request: AlterPartition) -> PartitionsAltered | None:
            return None

        with ThreadPoolExecutor(1) as pool:
            engine = Engine(
                cast(ReplicaManager, manager), SYSTEM_CLOCK, pool, alter_partition=alter,
                remove_directory=lambda path: manager.heard.append(("removed", path)),
                on_fault=faults.append,
                report_failed=lambda *replica: manager.heard.append(replica),
            )  # fmt: skip
            async with asyncio.timeout(10):
                await test(engine, manager, faults)
            engine.stop()

    asyncio.run(main())


def test_effects_caused_by_an_answer_come_after_those_that_were_there() -> None:
    async def test(engine: Engine, manager: ScriptedManager, faults: list[str]) -> None:
        order: list[str] = []

        def first(acks: object) -> None:
            engine.perform([FetchDone(lambda partitions: order.append("caused"), ())])
            order.append("first")

        engine.perform(
            [ProduceDone(first, ()), FetchDone(lambda partitions: order.append("second"), ())]
        )
        assert order == ["first", "second", "caused"]

    run(test)


def test_without_connections_a_fetch_is_answered_with_none_on_a_later_turn() -> None:
    async def test(engine: Engine, manager: ScriptedManager, faults: list[str]) -> None:
        request = ReplicaFetch(BrokerId(1), BrokerEpoch(1), 1, 1, 1, ())
        engine.perform([SendReplicaFetch(BrokerId(2), 5, request)])
        assert manager.heard == []
        await manager.told.wait()
        assert manager.heard == [("fetched", 2, 5, None)]

    run(test)


def test_an_unreachable_controller_is_an_answer_too() -> None:
    async def test(engine: Engine, manager: ScriptedManager, faults: list[str]) -> None:
        request = AlterPartition(BrokerId(1), BrokerEpoch(1), ())
        engine.perform([SendAlterPartition(9, request)])
        await manager.told.wait()
        assert manager.heard == [("altered", 9, None)]

    run(test)


def test_a_cold_read_runs_on_the_pool_and_comes_back() -> None:
    async def test(engine: Engine, manager: ScriptedManager, faults: list[str]) -> None:
        pages: list[str] = []
        read = ColdRead("token", lambda: pages.append("read"))
        engine.perform([read])
        await manager.told.wait()
        assert pages == ["read"]
        assert manager.heard == [("read", read)]

    run(test)


def test_a_sync_runs_on_the_pool_and_comes_back() -> None:
    async def test(engine: Engine, manager: ScriptedManager, faults: list[str]) -> None:
        files = MemoryFiles()
        handle = files.open("/log", create=True)
        files.append(handle, [b"batch"])
        sync = SyncLog(
            TopicPartition("t", 0), FlushTask(files, ["/log"], Offset(1), 0, SyncHistory())
        )
        engine.perform([sync])
        await manager.told.wait()
        assert files.names["/log"].synced
        assert manager.heard == [("synced", sync)]

    run(test)


class Listener:
    """Notes what it hears."""

    def __init__(self) -> None:
        self.heard: list[Effect] = []

    def on_leadership_began(self, began: LeadershipBegan) -> None:
        self.heard.append(began)

    def on_leadership_ended(self, ended: LeadershipEnded) -> None:
        self.heard.append(ended)

    def on_high_watermark_moved(self, moved: HighWatermarkMoved) -> None:
        self.heard.append(moved)


def test_a_listener_hears_of_leaderships_in_order_and_nobody_else_does() -> None:
    async def test(engine: Engine, manager: ScriptedManager, faults: list[str]) -> None:
        name, epoch, topic_id = TopicPartition("__t", 0), LeaderEpoch(1), TopicId("t" * 22)
        effects: list[Effect] = [
            LeadershipBegan(name, epoch, topic_id, Offset(3)),
            HighWatermarkMoved(name, epoch, topic_id, Offset(4)),
            LeadershipEnded(name, epoch, topic_id),
        ]
        engine.perform(effects)
        engine.leaderships = listener = Listener()
        engine.perform(effects)
        assert listener.heard == effects
        assert manager.heard == []

    run(test)


def test_a_deadline_calls_back() -> None:
    async def test(engine: Engine, manager: ScriptedManager, faults: list[str]) -> None:
        manager.next_deadline_ms = SYSTEM_CLOCK.monotonic_ms() + 5
        engine.perform([])
        await manager.told.wait()
        assert manager.heard == [("time",)]

    run(test)


def test_failed_replicas_are_reported_and_end_nothing() -> None:
    async def test(engine: Engine, manager: ScriptedManager, faults: list[str]) -> None:
        one = TopicPartition("t", 0)
        engine.perform([ReplicaFailed(one, "a bad block", topic_id=TopicId("id"))])
        assert faults == []
        assert manager.heard == [("id", 0, "a bad block")]
        engine.perform([ReplicaFailed(one, "its directory cannot be renamed")])
        assert len(manager.heard) == 1  # nothing that the controller counts on
        gone = ReplicaFailed(one, "the disk", directory_failed=True, topic_id=TopicId("id"))
        engine.perform([gone])
        assert manager.heard[1:] == [("id", 0, "the disk")]
        assert faults == []

    run(test)


def test_a_defect_over_a_waiting_request_leaves_a_line_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test(engine: Engine, manager: ScriptedManager, faults: list[str]) -> None:
        error = IndexError("list index out of range")
        engine.perform([OperationFailed("DelayedFetch", error)])
        assert faults == []
        [line] = caplog.records
        assert (line.levelname, line.message) == (
            "ERROR",
            "a defect of the broker ended a waiting request with an error: DelayedFetch: "
            "IndexError('list index out of range')",
        )
        assert line.exc_info is not None
        assert line.exc_info[1] is error

    run(test)


def test_the_manager_hears_what_happens_until_the_stop() -> None:
    async def test(engine: Engine, manager: ScriptedManager, faults: list[str]) -> None:
        acks: list[object] = []

        def event(now_ms: int) -> list[Effect]:
            manager.heard.append(("news",))
            return [ProduceDone(acks.append, ())]

        engine.tell(event)
        assert (manager.heard, acks) == ([("news",)], [()])
        engine.perform([DeleteReplicaLater("/d1/t-0.x-delete", 0)])
        engine.stop()
        engine.tell(event)
        engine.perform([ProduceDone(acks.append, ())])
        engine.delete_at_once("/d1")
        assert (manager.heard, acks) == ([("news",)], [()])

    run(test)


def test_a_full_disk_waits_for_no_deletion() -> None:
    async def test(engine: Engine, manager: ScriptedManager, faults: list[str]) -> None:
        an_hour = 3_600_000
        for path in ("/d1/t-0.x-delete", "/d10/t-1.x-delete", "/d1/t-2.x-delete"):
            engine.perform([DeleteReplicaLater(path, an_hour)])
        engine.delete_at_once("/d1")
        engine.perform([DeleteReplicaLater("/d2/t-3.x-delete", 0)])
        while len(manager.heard) < 3:
            await asyncio.sleep(0)
        removed = [("removed", f"/{path}.x-delete") for path in ("d1/t-0", "d1/t-2", "d2/t-3")]
        assert sorted(manager.heard) == removed
        engine.delete_at_once("/d1")

    run(test)
