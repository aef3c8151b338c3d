"""Coordinators over a real log: what is decided is written, committed, and found again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pylog import errors
from pylog.clock import SYSTEM_CLOCK
from pylog.model import CONSUMER_OFFSETS, BrokerId, LeaderEpoch, TopicId, TopicPartition
from pylog.records.batch import iter_headers
from pylog.records.builder import encode_batch
from pylog_broker.coordinator.generated.offset_commit import OffsetCommitKey
from pylog_broker.coordinator.groups.config import GroupConfig
from pylog_broker.coordinator.groups.coordinator import GroupCoordinator
from pylog_broker.coordinator.groups.group import Caller
from pylog_broker.coordinator.groups.messages import (
    CommittedOffset,
    OffsetCommit,
    OffsetFetch,
    OffsetsCommitted,
    OffsetsFetched,
)
from pylog_broker.coordinator.runtime.decision import Decision, RequestId
from pylog_broker.metrics.counters import RequestCounters
from pylog_broker.node.coordinators import SLICE_BYTES, Coordinators
from pylog_broker.node.engine import Engine
from pylog_broker.node.group_coordinators import GroupShards
from pylog_broker.node.metrics import BrokerMetrics, BrokerParts
from pylog_broker.replication.effects import LeadershipBegan, LeadershipEnded
from pylog_broker.replication.manager import ReplicaManager
from tests.fakes.broker_group import WALL_MS, BrokerGroup

ONE = BrokerId(1)
P0 = TopicPartition(CONSUMER_OFFSETS, 0)
T0 = TopicPartition("t", 0)


async def _unreached(request: object) -> None:
    return None


class Broker:
    """One broker that leads the only partition of `__consumer_offsets`."""

    def __init__(self, group: BrokerGroup, pool: ThreadPoolExecutor) -> None:
        self.group = group
        self.manager: ReplicaManager = group.managers[ONE]
        self.faults: list[str] = []
        self.engine = Engine(
            self.manager,
            SYSTEM_CLOCK,
            pool,
            alter_partition=_unreached,
            remove_directory=lambda _: None,
            report_failed=lambda *_: None,
            on_fault=self.faults.append,
        )
        self.groups = GroupShards(
            GroupConfig(), self.engine, SYSTEM_CLOCK, pool, lambda: group.image
        )
        self.engine.leaderships = Coordinators({CONSUMER_OFFSETS: self.groups.shell})

    def begin(self, epoch: int = 0) -> None:
        """The replica manager tells of the leadership."""
        mark = self.manager.high_watermarks()[P0]
        record = self.group.record()
        self.engine.perform([LeadershipBegan(P0, LeaderEpoch(epoch), record.topic_id, mark)])

    async def loaded(self) -> None:
        while self.groups.shell.runtime.loading:
            await asyncio.sleep(0)

    async def commit(self, group_id: str, offset: int, timeout_ms: int | None = None) -> Any:
        request = OffsetCommit(group_id, Caller(), {T0: CommittedOffset(offset)})

        def operation(each: GroupCoordinator, request_id: RequestId, wall_ms: int) -> Decision:
            return each.commit_offsets(wall_ms, request_id, request)

        return await self.groups.call(group_id, operation, timeout_ms=timeout_ms)

    async def committed(self, group_id: str) -> int | None:
        request = OffsetFetch(group_id, Caller(), (T0,))
        answer: OffsetsFetched = await self.groups.call(
            group_id, lambda each, request_id, _: each.fetch_offsets(request_id, request)
        )
        found = answer.partitions[T0]
        return None if found is None else found.offset

    def batches(self) -> list[int]:
        """The number of records in each batch of the log."""
        return [header.record_count for _, header in iter_headers(self.group.stored(1, P0))]


@pytest.fixture
def group(tmp_path: Path) -> BrokerGroup:
    made = BrokerGroup(tmp_path, 1)
    made.create_topic((1,), name=CONSUMER_OFFSETS)
    made.run()
    return made


def run(
    group: BrokerGroup, main: Callable[[Broker], Coroutine[Any, Any, None]], *, begins: bool = True
) -> None:
    async def whole() -> None:
        with ThreadPoolExecutor(1) as pool:
            async with asyncio.timeout(30):
                broker = Broker(group, pool)
                if begins:
                    broker.begin()
                    await broker.loaded()
                await main(broker)
                broker.groups.shell.stop()
                broker.engine.stop()
                assert broker.faults == []

    asyncio.run(whole())


def test_a_commit_is_in_the_log_and_is_found_by_the_next_coordinator(group: BrokerGroup) -> None:
    async def first(broker: Broker) -> None:
        assert await broker.committed("g") is None
        assert await broker.commit("g", 7) == OffsetsCommitted({T0: None})
        assert await broker.committed("g") == 7
        assert broker.batches() == [1]

    async def second(broker: Broker) -> None:
        assert await broker.committed("g") == 7

    run(group, first)
    run(group, second)


def test_what_one_turn_decides_shares_a_batch(group: BrokerGroup) -> None:
    async def main(broker: Broker) -> None:
        await asyncio.gather(*(broker.commit(f"g{n}", n) for n in range(20)))
        assert broker.batches() == [20]

    run(group, main)


def test_a_long_log_is_loaded_in_slices(group: BrokerGroup) -> None:
    async def write(broker: Broker) -> None:
        for _ in range(10):
            await asyncio.gather(*(broker.commit(f"group-{n:04}", n) for n in range(1_000)))
        assert len(group.stored(1, P0)) > 2 * SLICE_BYTES

    async def load(broker: Broker) -> None:
        assert await broker.committed("group-0999") == 999
        [coordinator] = broker.groups.shell.runtime.coordinators().values()
        assert len(coordinator.groups) == 1_000

    run(group, write)
    run(group, load)


def test_metrics_tell_of_shards_and_groups(group: BrokerGroup) -> None:
    async def main(broker: Broker) -> None:
        parts = BrokerParts(1, "c", RequestCounters(), groups=broker.groups)
        topic = f'topic="{CONSUMER_OFFSETS}"'
        await broker.commit("g", 1)
        page = await BrokerMetrics(parts).page()
        assert f'pylog_coordinator_partitions{{{topic},state="active"}} 1' in page
        assert f"pylog_coordinator_load_seconds_count{{{topic}}} 1" in page
        assert f"pylog_coordinator_failures_total{{{topic}}} 0" in page
        assert 'pylog_groups{type="classic",state="Empty"} 1' in page
        assert "pylog_group_offsets 1" in page

    run(group, main)


def test_metrics_tell_how_far_groups_are_behind(group: BrokerGroup) -> None:
    """In partitions of which the coordinator has a replica; nothing of others."""
    group.create_topic((1,), topic_id=TopicId("d" * 21 + "A"))
    group.run()
    times = [WALL_MS - ago for ago in (500_000, 400_000, 300_000)]
    group.produce(1, batch=encode_batch([b"a", b"b", b"c"], timestamps=times))
    group.run()

    async def main(broker: Broker) -> None:
        parts = BrokerParts(1, "c", RequestCounters(), groups=broker.groups, engine=broker.engine)
        for name, offset in (('quo"ted', 1), ("done", 3)):
            await broker.commit(name, offset)
        [shard] = broker.groups.shell.runtime.coordinators().values()
        key = OffsetCommitKey("away", "elsewhere", 0)
        value = next(iter(shard.offsets.of("done").values()))._replace(offset=5)
        shard.offsets.replay(key, value)
        lines = (await BrokerMetrics(parts).page()).splitlines()
        told = dict(line.rsplit(" ", 1) for line in lines if line.startswith("pylog_group_"))
        at = 'topic="t",partition="0"'
        quoted = 'group="quo\\"ted"'
        assert told[f"pylog_group_committed_offset{{{quoted},{at}}}"] == "1"
        assert (
            told['pylog_group_committed_offset{group="away",topic="elsewhere",partition="0"}']
            == "5"
        )
        assert told[f"pylog_group_lag_records{{{quoted}}}"] == "2"
        age = (SYSTEM_CLOCK.wall_ms() - times[1]) / 1000
        assert age - 60 < float(told[f"pylog_group_lag_seconds{{{quoted}}}"]) <= age
        assert told['pylog_group_lag_records{group="done"}'] == "0"
        assert told['pylog_group_lag_seconds{group="done"}'] == "0.0"
        assert not [key for key in told if "_lag_" in key and "away" in key]
        assert "pylog_groups_without_detail 0" in lines

    run(group, main)


def test_requests_are_turned_away_while_the_log_is_read(group: BrokerGroup) -> None:
    async def main(broker: Broker) -> None:
        with pytest.raises(errors.NotCoordinator):
            await broker.commit("g", 1)
        broker.begin()
        with pytest.raises(errors.CoordinatorLoadInProgress):
            await broker.commit("g", 1)
        with pytest.raises(errors.CoordinatorLoadInProgress):
            await broker.groups.call_all(lambda each, request_id, _: each.list_groups(request_id))
        await broker.loaded()
        await broker.commit("g", 1)
        [listed] = await broker.groups.call_all(
            lambda each, request_id, _: each.list_groups(request_id)
        )
        assert [each.group_id for each in listed] == ["g"]

    run(group, main, begins=False)


def test_a_log_that_somebody_else_wrote_to_is_read_again(group: BrokerGroup) -> None:
    async def main(broker: Broker) -> None:
        await broker.commit("g", 1)
        log = group.logs[ONE].get(P0)
        assert log is not None
        log.append_as_leader(
            encode_batch([b"v"], keys=[b"\0\x63"]), leader_epoch=LeaderEpoch(0), wall_ms=1
        )
        with pytest.raises(errors.CoordinatorNotAvailable, match="ends at 2, not at 1"):
            await broker.commit("g", 2)
        assert broker.groups.shell.runtime.loading == [0]
        await broker.loaded()
        assert await broker.committed("g") == 1
        await broker.commit("g", 3)
        assert await broker.committed("g") == 3

    run(group, main)


def test_a_commit_that_cannot_be_replicated_is_refused_before_it_is_decided(
    tmp_path: Path,
) -> None:
    group = BrokerGroup(tmp_path, 2)
    group.create_topic((1, 2), name=CONSUMER_OFFSETS, min_isr=2)
    group.run()

    async def main(broker: Broker) -> None:
        group.set_isr(1)
        group.tell(ONE)
        with pytest.raises(errors.CoordinatorNotAvailable, match=r"min\.insync\.replicas=2"):
            await broker.commit("g", 1)
        assert broker.groups.shell.runtime.loading == []
        assert broker.batches() == []

    run(group, main)


def test_a_commit_that_is_not_committed_in_time_is_told_so(tmp_path: Path) -> None:
    group = BrokerGroup(tmp_path, 2)
    group.create_topic((1, 2), name=CONSUMER_OFFSETS)  # broker 2 never comes to fetch

    async def main(broker: Broker) -> None:
        with pytest.raises(errors.CoordinatorNotAvailable, match="not committed the request"):
            await broker.commit("g", 1, timeout_ms=20)
        assert broker.batches() == [1]

    run(group, main)


def test_who_waits_hears_that_the_broker_leads_no_more(tmp_path: Path) -> None:
    group = BrokerGroup(tmp_path, 2)
    group.create_topic((1, 2), name=CONSUMER_OFFSETS)  # broker 2 never comes to fetch

    async def main(broker: Broker) -> None:
        waiting = asyncio.ensure_future(broker.commit("g", 1))
        while not broker.batches():
            await asyncio.sleep(0)
        broker.engine.perform([LeadershipEnded(P0, LeaderEpoch(0), group.record().topic_id)])
        with pytest.raises(errors.NotCoordinator):
            await waiting
        with pytest.raises(errors.NotCoordinator):
            await broker.commit("g", 1)

    run(group, main)


def test_who_waits_hears_that_the_broker_stops(tmp_path: Path) -> None:
    group = BrokerGroup(tmp_path, 2)
    group.create_topic((1, 2), name=CONSUMER_OFFSETS)  # broker 2 never comes to fetch

    async def main(broker: Broker) -> None:
        waiting = asyncio.ensure_future(broker.commit("g", 1))
        while not broker.batches():
            await asyncio.sleep(0)
        broker.groups.shell.stop()
        with pytest.raises(errors.CoordinatorNotAvailable, match="the broker stops"):
            await waiting
        with pytest.raises(errors.CoordinatorNotAvailable, match="the broker stops"):
            await broker.commit("g", 1)

    run(group, main)
