"""The parts of share groups on one broker, put together."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Executor
from functools import partial
from typing import Final

from pylog.clock import Clock
from pylog.model import BrokerId
from pylog_broker.api.context import RequestContext
from pylog_broker.api.coordinators import GroupCoordinators
from pylog_broker.api.share_groups.api import ShareApi
from pylog_broker.api.share_groups.fetching import ShareFetchingHandler
from pylog_broker.api.share_groups.members import ShareMembersHandler
from pylog_broker.api.share_groups.offsets import ShareOffsetsHandler
from pylog_broker.config import BrokerConfig
from pylog_broker.controller.settings import SHARE_GROUP_STATE
from pylog_broker.coordinator.share_state.coordinator import ShareCoordinator, ShareStateConfig
from pylog_broker.group_settings import SettingsByGroup
from pylog_broker.kafka.broker_apis import AnyBoundBrokerApi
from pylog_broker.kafka.calls import BrokerCalls
from pylog_broker.kafka.produce_calls import BatchesHere, produce_there
from pylog_broker.kafka.share_state import list_offsets_api, share_state_apis
from pylog_broker.metadata.image import MetadataDelta, MetadataImage
from pylog_broker.metadata.messages import Failure, InternalTopicEnsured
from pylog_broker.metrics.counters import RequestCounters
from pylog_broker.node.coordinators import CoordinatorShell
from pylog_broker.node.engine import Engine
from pylog_broker.node.share.coordinators import ShareShards
from pylog_broker.node.share.dead_letters import Ask as AskForTopics
from pylog_broker.node.share.dead_letters import DeadLetterTopics, DeadLetterWriter
from pylog_broker.node.share.fetches import ShareFetches
from pylog_broker.node.share.group_states import GroupStates
from pylog_broker.node.share.led_partitions import LedSharePartitions
from pylog_broker.node.share.persister import Persister
from pylog_broker.replication.leaderships import LeadershipListener
from pylog_broker.replication.produce_messages import PartitionAck, PartitionBatch
from pylog_broker.share.sessions import ShareSessions
from pylog_broker.share.settings import ShareSettings

ANSWER_SECONDS: Final = 5.0
"""So much longer than a batch may wait for its replicas another broker may take to answer."""
_HERE: Final = RequestContext("share groups", "", "this broker", "share groups")

Ensure = Callable[[str], Awaitable[InternalTopicEnsured | Failure]]


class BrokerShareGroups:
    """Lives on the broker's loop."""

    def __init__(
        self,
        config: BrokerConfig,
        settings: SettingsByGroup,
        engine: Engine,
        clock: Clock,
        pool: Executor,
        calls: BrokerCalls,
        image: Callable[[], MetadataImage],
        ensure: Ensure,
        broker_id: BrokerId,
        create_topics: AskForTopics,
        unpacking: Executor,
    ) -> None:
        """`ensure` has internal topics made, `create_topics` those that are none. `unpacking`
        unpacks batches, one at a time.
        """
        self._config = config
        self._settings = settings
        self._image = image
        self._shards = ShareShards(
            ShareStateConfig(
                config.share_coordinator_snapshot_update_records_per_snapshot,
                config.share_coordinator_cold_partition_snapshot_interval_ms,
            ),
            engine,
            clock,
            pool,
            image,
            timeout_ms=config.share_coordinator_write_timeout_ms,
            prune_interval_ms=config.share_coordinator_state_topic_prune_interval_ms,
        )
        persister = Persister(self._shards, calls, image, ensure, broker_id)
        self._calls = calls
        self._broker_id = broker_id
        self._topics = DeadLetterTopics(image, config, broker_id, self._settings_of, create_topics)
        self.dead_letters = DeadLetterWriter(
            self._topics,
            engine,
            clock,
            unpacking,
            self._produce,
            unpacked_bytes_max=config.message_decompressed_max_bytes,
        )
        self.batches_here: BatchesHere | None = None
        """Set before the first metadata."""
        self.sessions = ShareSessions(config.group_share_max_share_sessions)
        self.led = LedSharePartitions(
            engine,
            clock,
            persister,
            image,
            broker_id,
            self._settings_of,
            lambda group_id: self.sessions.of_group(group_id) > 0,
            self.dead_letters,
        )
        self._fetches = ShareFetches(engine, clock, self.led, self.sessions)
        self.states = GroupStates(persister, self.led, calls, image, broker_id)
        self._members: ShareMembersHandler | None = None

    def _settings_of(self, group_id: str) -> ShareSettings:
        settings = self._settings.of(group_id)
        return ShareSettings(
            settings.share_record_lock_duration_ms,
            settings.share_delivery_count_limit,
            settings.share_partition_max_record_locks,
            settings.share_auto_offset_reset,
            settings.share_isolation_level,
            settings.errors_deadletterqueue_topic_name,
            settings.errors_deadletterqueue_copy_record_enable,
            settings.share_renew_acknowledge_enable,
        )

    @property
    def shell(self) -> CoordinatorShell[ShareCoordinator]:
        """The shell of the share coordinator."""
        return self._shards.shell

    @property
    def shells(self) -> Mapping[str, LeadershipListener]:
        """By internal topic, the listener that hears of the partitions led here."""
        return {SHARE_GROUP_STATE: self._shards.shell}

    def broker_apis(self) -> list[AnyBoundBrokerApi]:
        """The APIs for other brokers."""
        return [*share_state_apis(self._shards), list_offsets_api(self.led.offsets)]

    def api(self, groups: GroupCoordinators, counters: RequestCounters) -> ShareApi:
        """The handlers of all that clients ask."""
        timeout_ms = self._config.offsets_commit_timeout_ms
        self._members = ShareMembersHandler(
            groups,
            self.states,
            self._image,
            lambda: str(uuid.uuid4()),
            commit_timeout_ms=timeout_ms,
        )
        return ShareApi(
            self._members,
            ShareFetchingHandler(self._fetches, self._image, counters),
            ShareOffsetsHandler(groups, self.states, self._image, commit_timeout_ms=timeout_ms),
        )

    async def _produce(
        self, leader: BrokerId, batch: PartitionBatch, timeout_ms: int
    ) -> PartitionAck:
        if leader == self._broker_id:
            assert self.batches_here is not None
            (ack,) = await self.batches_here.produce(_HERE, [batch], timeout_ms)
            return ack
        seconds = timeout_ms / 1000 + ANSWER_SECONDS
        ask = partial(self._calls.call, leader, timeout_seconds=seconds)
        return await produce_there(ask, batch, timeout_ms)

    def on_connection_closed(self, connection: str) -> None:
        """A client's connection has ended."""
        self._fetches.on_connection_closed(connection)

    def on_metadata(self, delta: MetadataDelta) -> None:
        """The image has changed."""
        self.led.on_metadata(delta)
        self._shards.on_metadata(delta)

    def stop(self) -> None:
        """Nothing acts any more."""
        if self._members is not None:
            self._members.stop()
        self.led.stop()
        self._topics.stop()
        self._shards.stop()
