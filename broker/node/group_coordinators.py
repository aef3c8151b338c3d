"""The groups that this broker coordinates: shards by group, and the topics that they read."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection
from concurrent.futures import Executor
from typing import Any, Final

from pylog import errors
from pylog.clock import Clock
from pylog.model import CONSUMER_OFFSETS, TopicPartition
from pylog_broker.api.coordinators import GroupOperation
from pylog_broker.coordinator.expiry import Expiry
from pylog_broker.coordinator.groups.codec import GroupCodec
from pylog_broker.coordinator.groups.config import GroupConfig
from pylog_broker.coordinator.groups.consumer.topics import SubscribedTopic
from pylog_broker.coordinator.groups.coordinator import GroupCoordinator
from pylog_broker.coordinator.groups.group import GroupType
from pylog_broker.coordinator.runtime.decision import TransactionEnd
from pylog_broker.coordinator.runtime.runtime import CoordinatorRuntime, partition_for
from pylog_broker.metadata.image import MetadataDelta, MetadataImage, TopicImage
from pylog_broker.metadata.messages import Failure
from pylog_broker.node.coordinators import CoordinatorShell
from pylog_broker.node.engine import Engine
from pylog_broker.replication.produce_messages import WriteMarker

MARKER_TIMEOUT_MS: Final = 20_000
"""The time for which a marker may wait for other replicas; its sender sends it again."""


class GroupShards:
    """The `GroupCoordinators` of a broker: a shard for each partition of `__consumer_offsets` that
    it leads.
    """

    def __init__(
        self,
        config: GroupConfig,
        engine: Engine,
        clock: Clock,
        pool: Executor,
        image: Callable[[], MetadataImage],
    ) -> None:
        self._image = image
        self._clock = clock
        self._transactions = engine.manager.transactions
        self._topics = GroupTopics(image)
        self.lost: Counter[GroupType] = Counter()
        """Members that were put out, since the broker started."""
        topics, lost, codec = self._topics, self.lost, GroupCodec()
        expiry = Expiry(engine.manager.trusted_ms)
        runtime = CoordinatorRuntime[GroupCoordinator](
            CONSUMER_OFFSETS,
            lambda partition: GroupCoordinator(config, topics, lost, expiry),
            codec,
            now_ms=clock.monotonic_ms(),
        )
        self.shell = CoordinatorShell(runtime, codec, engine, clock, pool)

    async def call(
        self, group_id: str, operation: GroupOperation, *, timeout_ms: int | None = None
    ) -> Any:
        """See `GroupCoordinators`."""
        number = self.partition_of(group_id).partition
        return await self.shell.call(number, operation, timeout_ms=timeout_ms)

    def partition_of(self, group_id: str) -> TopicPartition:
        """See `GroupCoordinators`."""
        topic = self._image().topics_by_name.get(CONSUMER_OFFSETS)
        if topic is None:
            raise errors.NotCoordinator(f"group {group_id!r}: there is no {CONSUMER_OFFSETS} yet")
        return TopicPartition(CONSUMER_OFFSETS, partition_for(group_id, len(topic.partitions)))

    async def call_all(self, operation: GroupOperation) -> list[Any]:
        """See `GroupCoordinators`."""
        runtime = self.shell.runtime
        if runtime.loading:
            raise errors.CoordinatorLoadInProgress(
                f"{len(runtime.loading)} partitions of {CONSUMER_OFFSETS} are being read"
            )
        asked = (self.shell.call(number, operation) for number in runtime.coordinators())
        return list(await asyncio.gather(*asked))

    async def write_marker(self, marker: WriteMarker) -> None:
        """The end of a transaction goes into the log by way of the shard that writes to it. Raises
        as `call`, and what speaks against the marker.
        """
        clock = self._clock
        checked = self._transactions.batch_of(clock.wall_ms(), marker)
        if isinstance(checked, Failure):
            raise errors.from_code(checked.code, checked.message)
        if checked is None:
            return
        end = TransactionEnd(
            marker.producer_id, marker.producer_epoch, marker.commits, marker.coordinator_epoch
        )
        await self.shell.call(
            marker.topic_partition.partition,
            lambda shard, number, _wall_ms: shard.end_transaction(number, end),
            timeout_ms=MARKER_TIMEOUT_MS,
        )

    def on_metadata(self, delta: MetadataDelta) -> None:
        """The image has changed: groups hear of the topics that they read."""
        changed, gone = self._topics.changed(delta)
        if gone:
            self.shell.tell(lambda each: each.on_topics_deleted(gone))
        if changed:
            self.shell.tell(lambda each: each.on_topics_changed(changed))


class GroupTopics:
    """The metadata of topics as coordinators of groups see them, and the news of these.

    Elections and ISR changes come by the thousand and mean nothing here: a topic is compared with
    what a coordinator saw of it.
    """

    def __init__(self, image: Callable[[], MetadataImage]) -> None:
        self._image = image
        self._seen: dict[str, SubscribedTopic | None] = {}

    def topic(self, name: str) -> SubscribedTopic | None:
        """The topic of that name; None while there is none."""
        if name not in self._seen:
            self._seen[name] = self._now(name)
        return self._seen[name]

    def names(self) -> Collection[str]:
        """The names of all topics."""
        return self._image().topics_by_name.keys()

    def _now(self, name: str) -> SubscribedTopic | None:
        image = self._image()
        found = image.topics_by_name.get(name)
        if found is None:
            return None
        racks = _racks(image, found)
        return SubscribedTopic(name, found.topic_id, len(found.partitions), racks)

    def changed(self, delta: MetadataDelta) -> tuple[set[str], set[str]]:
        """The names of topics that are new or different since somebody looked, and of those that
        are gone.
        """
        image = self._image()
        gone = {removed.name for removed in delta.removed_topics}
        touched = {record.topic_id for record in delta.partitions}
        names = {
            topic.name for each in touched if (topic := image.topics_by_id.get(each)) is not None
        }
        if delta.brokers:
            names |= {name for name, seen in self._seen.items() if seen is not None}
        new = {image.topics_by_id[each].name for each in delta.new_topics}
        different = {
            name
            for name in names | gone
            if name in self._seen and self._seen[name] != self._now(name)
        }
        for name in different:
            del self._seen[name]
        return different | new, gone


def _racks(image: MetadataImage, topic: TopicImage) -> tuple[frozenset[str], ...]:
    """The racks of each partition's replicas; empty where brokers have none."""
    if not any(broker.rack for broker in image.brokers.values()):
        return ()
    by_broker = {number: broker.rack for number, broker in image.brokers.items() if broker.rack}
    return tuple(
        frozenset(by_broker[each] for each in record.replicas if each in by_broker)
        for _, record in sorted(topic.partitions.items())
    )
