"""The share coordinator over a real log: its state is found again, and what is redundant goes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pylog import errors
from pylog.clock import SYSTEM_CLOCK
from pylog.model import BrokerId, LeaderEpoch, TopicPartition
from pylog_broker.controller.settings import SHARE_GROUP_STATE
from pylog_broker.coordinator.share_state.coordinator import ShareStateConfig
from pylog_broker.metadata.image import MetadataDelta, RemovedTopic
from pylog_broker.node.coordinators import Coordinators
from pylog_broker.node.engine import Engine
from pylog_broker.node.share.coordinators import ShareShards, coordinator_key
from pylog_broker.replication.effects import LeadershipBegan
from pylog_broker.share.persisted import (
    InitializeState,
    ReadState,
    StateRead,
    StateSummary,
    WriteState,
)
from pylog_broker.share.record_states import RecordState, StateBatch
from pylog_broker.share.sessions import SharePartitionKey
from tests.fakes.broker_group import TOPIC_ID, BrokerGroup

ONE = BrokerId(1)
P0 = TopicPartition(SHARE_GROUP_STATE, 0)
KEY = SharePartitionKey("g", TOPIC_ID, 3)


async def _unreached(request: object) -> None:
    return None


@pytest.fixture
def group(tmp_path: Path) -> BrokerGroup:
    made = BrokerGroup(tmp_path, 1)
    made.create_topic((1,), name=SHARE_GROUP_STATE)
    made.run()
    return made


def run(group: BrokerGroup, main: Callable[[ShareShards], Coroutine[Any, Any, None]]) -> None:
    async def whole() -> None:
        with ThreadPoolExecutor(1) as pool:
            async with asyncio.timeout(30):
                manager = group.managers[ONE]
                faults: list[str] = []
                engine = Engine(
                    manager,
                    SYSTEM_CLOCK,
                    pool,
                    alter_partition=_unreached,
                    remove_directory=lambda _: None,
                    report_failed=lambda *_: None,
                    on_fault=faults.append,
                )
                shards = ShareShards(
                    ShareStateConfig(updates_per_snapshot=3),
                    engine,
                    SYSTEM_CLOCK,
                    pool,
                    lambda: group.image,
                    timeout_ms=5_000,
                    prune_interval_ms=20,
                )
                engine.leaderships = Coordinators({SHARE_GROUP_STATE: shards.shell})
                mark, record = manager.high_watermarks()[P0], group.record()
                engine.perform([LeadershipBegan(P0, LeaderEpoch(0), record.topic_id, mark)])
                while shards.shell.runtime.loading:
                    await asyncio.sleep(0)
                await main(shards)
                shards.stop()
                engine.stop()
                assert faults == []

    asyncio.run(whole())


def write(offset: int) -> WriteState:
    batch = StateBatch(offset, offset, RecordState.ACKNOWLEDGED, 1)
    return WriteState(KEY, 1, 0, 0, offset + 1, (batch,))


def test_state_is_found_by_the_next_coordinator_though_the_log_is_pruned(
    group: BrokerGroup,
) -> None:
    async def first(shards: ShareShards) -> None:
        await shards.initialize(InitializeState(KEY, 1))
        for offset in range(8):
            await shards.write(write(offset))
        while not group.managers[ONE].describe()[0].log_start_offset:
            await asyncio.sleep(0.01)

    async def second(shards: ShareShards) -> None:
        batch = StateBatch(0, 7, RecordState.ACKNOWLEDGED, 1)
        assert await shards.read(ReadState(KEY, 0)) == StateRead(1, 0, (batch,))
        assert await shards.summary(KEY) == StateSummary(1, 0, 0, 8)
        await shards.delete(KEY)
        with pytest.raises(errors.InvalidRequest, match="has no state"):
            await shards.summary(KEY)

    run(group, first)
    run(group, second)


def test_of_a_topic_that_is_gone_no_state_is_kept(group: BrokerGroup) -> None:
    async def main(shards: ShareShards) -> None:
        await shards.initialize(InitializeState(KEY, 1))
        shards.on_metadata(MetadataDelta(removed_topics=(RemovedTopic(TOPIC_ID, "t", ()),)))
        with pytest.raises(errors.InvalidRequest, match="has no state"):
            await shards.summary(KEY)

    run(group, main)


def test_the_key_of_a_partition_is_kafkas() -> None:
    assert coordinator_key(KEY) == f"g:{TOPIC_ID}:3"
