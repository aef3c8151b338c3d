"""The share state that this broker coordinates: a shard for each partition of `__share_group_state`
that it leads.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, Final

from pylog import errors
from pylog.clock import Clock
from pylog.model import Offset, TopicPartition
from pylog_broker.controller.settings import SHARE_GROUP_STATE
from pylog_broker.coordinator.runtime.decision import Decision, RequestId
from pylog_broker.coordinator.runtime.runtime import CoordinatorRuntime, partition_for
from pylog_broker.coordinator.share_state.codec import ShareStateCodec
from pylog_broker.coordinator.share_state.coordinator import ShareCoordinator, ShareStateConfig
from pylog_broker.metadata.image import MetadataDelta, MetadataImage
from pylog_broker.node.coordinators import CoordinatorShell
from pylog_broker.node.engine import Engine
from pylog_broker.replication.offset_messages import DeleteRecords
from pylog_broker.share.persisted import (
    InitializeState,
    ReadState,
    StateRead,
    StateSummary,
    WriteState,
)
from pylog_broker.share.sessions import SharePartitionKey

PRUNE_TIMEOUT_MS: Final = 10_000
"""The time for which a pruning waits for replicas that are slow to follow; the next one asks
again."""

_log = logging.getLogger("pylog.coordinator")

ShareOperation = Callable[[ShareCoordinator, RequestId, int], Decision]


def coordinator_key(key: SharePartitionKey) -> str:
    """The key by which a partition of the topic is chosen for its state, as in Kafka."""
    return f"{key.group_id}:{key.topic_id}:{key.partition}"


class ShareShards:
    """A `ShareStates`. Lives on the broker's loop."""

    def __init__(
        self,
        config: ShareStateConfig,
        engine: Engine,
        clock: Clock,
        pool: Executor,
        image: Callable[[], MetadataImage],
        *,
        timeout_ms: int,
        prune_interval_ms: int,
    ) -> None:
        self._image = image
        self._engine = engine
        self._timeout_ms = timeout_ms
        self._prune_seconds = prune_interval_ms / 1000
        self._pruned: dict[int, Offset] = {}
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._pruning: asyncio.Task[None] | None = None
        codec = ShareStateCodec()
        runtime = CoordinatorRuntime[ShareCoordinator](
            SHARE_GROUP_STATE,
            lambda partition: ShareCoordinator(config),
            codec,
            now_ms=clock.monotonic_ms(),
        )
        self.shell = CoordinatorShell(runtime, codec, engine, clock, pool)
        self._prune_later()

    async def _call(self, key: SharePartitionKey, operation: ShareOperation) -> Any:
        topic = self._image().topics_by_name.get(SHARE_GROUP_STATE)
        if topic is None:
            raise errors.NotCoordinator(f"there is no {SHARE_GROUP_STATE} yet")
        number = partition_for(coordinator_key(key), len(topic.partitions))
        return await self.shell.call(number, operation, timeout_ms=self._timeout_ms)

    async def initialize(self, request: InitializeState) -> None:
        """See `ShareCoordinator`."""
        await self._call(
            request.key, lambda shard, number, wall_ms: shard.initialize(wall_ms, number, request)
        )

    async def read(self, request: ReadState) -> StateRead:
        """See `ShareCoordinator`."""
        found: StateRead = await self._call(
            request.key, lambda shard, number, wall_ms: shard.read(wall_ms, number, request)
        )
        return found

    async def write(self, request: WriteState) -> None:
        """See `ShareCoordinator`."""
        await self._call(
            request.key, lambda shard, number, wall_ms: shard.write(wall_ms, number, request)
        )

    async def delete(self, key: SharePartitionKey) -> None:
        """See `ShareCoordinator`."""
        await self._call(key, lambda shard, number, _: shard.delete(number, key))

    async def summary(self, key: SharePartitionKey) -> StateSummary:
        """See `ShareCoordinator`."""
        found: StateSummary = await self._call(
            key, lambda shard, number, _: shard.summary(number, key)
        )
        return found

    def on_metadata(self, delta: MetadataDelta) -> None:
        """Drops the state of topics that are gone."""
        gone = frozenset(removed.topic_id for removed in delta.removed_topics)
        if gone:
            self.shell.tell(lambda each: each.on_topics_deleted(gone))

    # ---- what the log need not keep --------------------------------------------------------------

    def _prune_later(self) -> None:
        self._timer = self._loop.call_later(self._prune_seconds, self._begin_to_prune)

    def _begin_to_prune(self) -> None:
        self._pruning = self._loop.create_task(self._prune())

    async def _prune(self) -> None:
        """Have the logs begin where their redundant part ends."""
        offsets = []
        for number in self.shell.runtime.coordinators():
            offset = await self._redundant(number)
            if offset > self._pruned.get(number, 0):
                self._pruned[number] = offset
                offsets.append((TopicPartition(SHARE_GROUP_STATE, number), offset))
        if offsets:
            request = DeleteRecords(tuple(offsets), PRUNE_TIMEOUT_MS)
            manager = self._engine.manager
            self._engine.tell(lambda now_ms: manager.delete_records(now_ms, request, _told))
        self._prune_later()

    async def _redundant(self, number: int) -> Offset:
        """Asked like a request: a snapshot that is not committed makes nothing redundant yet."""

        def operation(shard: ShareCoordinator, request_id: RequestId, _wall_ms: int) -> Decision:
            return shard.redundant(request_id)

        try:
            offset: Offset = await self.shell.call(number, operation, timeout_ms=self._timeout_ms)
        except errors.PylogError as error:
            _log.debug("%s-%d is pruned later: %s", SHARE_GROUP_STATE, number, error)
            return Offset(0)
        return offset

    def stop(self) -> None:
        """Nothing is decided, read or written any more."""
        if self._timer is not None:
            self._timer.cancel()
        if self._pruning is not None:
            self._pruning.cancel()
        self.shell.stop()


def _told(watermarks: Any) -> None:
    for each in watermarks:
        if each.failure is not None:
            _log.debug("%s is pruned later: %s", each.topic_partition, each.failure.message)
