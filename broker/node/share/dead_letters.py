"""Dead letters on their way: read from the log where the group wants that, and written to the
leader of a partition of the dead-letter topic, here or on another broker.

A write that fails is tried again for as long as this broker leads the partition that the records
are of, and the records stay archiving meanwhile: they hold places of
`share.partition.max.record.locks`, so that a group stops before it loses any. Given up, with a line
in the log and a count, is only what no waiting helps: the group has no dead-letter topic any more,
or names one that is missing or may not be one, or the topic takes no such record.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from pylog import errors
from pylog.clock import Clock
from pylog.errors import PylogError
from pylog.model import BrokerId, LeaderEpoch, NewTopic, Offset, TopicId, TopicPartition
from pylog_broker.config import BrokerConfig, TopicConfig
from pylog_broker.dead_letter_topics import DeadLetterRules, topic_fault
from pylog_broker.metadata.admin import CreateTopics, TopicsCreated
from pylog_broker.metadata.image import MetadataImage
from pylog_broker.node.engine import Engine
from pylog_broker.node.link import Backoff
from pylog_broker.replication.fetch_messages import Fetch, PartitionData, PartitionFetch
from pylog_broker.replication.produce_messages import PartitionAck, PartitionBatch
from pylog_broker.share.dead_letters import Copied, copies, next_batch, offsets_of
from pylog_broker.share.sessions import SharePartitionKey
from pylog_broker.share.settings import ShareSettingsOf
from pylog_broker.share.share_partition import DeadLetters

AT_ONCE_MAX: Final = 32
"""Batches of all partitions that are read and written at a time; the others wait."""
BATCH_BYTES: Final = 1024 * 1024
TIMEOUT_MS: Final = 10_000
RETRY_SECONDS_FIRST: Final = 0.1
RETRY_SECONDS_LAST: Final = 5.0
TOLD_AGAIN_MS: Final = 60_000
TOLD_MAX: Final = 1_000
"""Groups of which is remembered when a line was last about them."""
_NO_END: Final = 2**63 - 1

_TAKES_NOT: Final = (
    errors.MessageTooLarge,
    errors.RecordListTooLarge,
    errors.InvalidRecord,
    errors.InvalidTimestamp,
    errors.InvalidTopic,
    errors.PolicyViolation,
)
"""The topic will not take these records, however often they are sent."""

_log = logging.getLogger("pylog.share")

Ask = Callable[[CreateTopics], Awaitable[TopicsCreated]]
ProduceTo = Callable[[BrokerId, PartitionBatch, int], Awaitable[PartitionAck]]
"""Leader, batch and time-out; raises what reaching the leader fails with."""


class Undeliverable(Exception):
    """A group's dead letters cannot be written, for this reason."""


class Target(NamedTuple):
    """The partition that takes a partition's dead letters. `bytes_max`: of a batch there."""

    name: TopicPartition
    topic_id: TopicId
    leader: BrokerId
    bytes_max: int


class DeadLetterTopics:
    """The dead-letter topics of groups, as settings and metadata have them at the moment. Lives on
    the loop.
    """

    def __init__(
        self,
        image: Callable[[], MetadataImage],
        config: BrokerConfig,
        broker_id: BrokerId,
        settings_of: ShareSettingsOf,
        ask: Ask,
    ) -> None:
        """`ask`: has the controller create topics."""
        self.settings_of = settings_of
        self._image = image
        self._config = config
        self._broker_id = broker_id
        self._ask = ask
        self._asked: dict[str, asyncio.Task[None]] = {}

    async def target(self, group_id: str, origin: TopicPartition) -> Target:
        """The partition that takes dead letters of `origin`. Raises Undeliverable, and errors that
        may pass: the topic has been asked for and is not known yet, or its partition has no leader.
        """
        topic = self.settings_of(group_id).dead_letter_topic
        if not topic:
            raise Undeliverable("the group has no dead-letter topic any more")
        if topic == origin.topic:
            raise Undeliverable(f"they lie in the dead-letter topic {topic!r} itself")
        image = self._image()
        live = self._config.under(image.cluster_configs(), image.broker_configs(self._broker_id))
        config = TopicConfig.resolve(image.topic_configs(topic), live.topic)
        record = image.topics_by_name.get(topic)
        fault = topic_fault(
            topic,
            DeadLetterRules(
                live.errors_deadletterqueue_topic_name_prefix,
                live.errors_deadletterqueue_auto_create_topics_enable,
            ),
            exists=record is not None,
            accepts=config.errors_deadletterqueue_group_enable,
        )
        if fault is not None:
            raise Undeliverable(fault)
        if record is None:
            await self._create(topic)
            raise errors.UnknownTopicOrPartition(f"topic {topic!r} is about to be there")
        number = origin.partition % len(record.partitions)
        name = TopicPartition(topic, number)
        leader = record.partitions[number].leader
        if leader < 0:
            raise errors.LeaderNotAvailable(f"{name} has no leader now")
        return Target(name, record.topic_id, leader, config.max_message_bytes)

    async def _create(self, topic: str) -> None:
        asked = self._asked.get(topic)
        if asked is None:
            asked = self._asked[topic] = asyncio.ensure_future(self._ask_for(topic))
            asked.add_done_callback(lambda _: self._asked.pop(topic))
        await asyncio.shield(asked)

    async def _ask_for(self, topic: str) -> None:
        config = {
            "errors.deadletterqueue.group.enable": "true",
            "message.timestamp.type": "CreateTime",
        }
        answer = await self._ask(CreateTopics((NewTopic(topic, -1, -1, config=config),), 0))
        for each in answer.topics:
            if each.failure is None or each.failure.code == errors.TopicAlreadyExists.code:
                continue
            error = errors.from_code(each.failure.code, each.failure.message)
            if isinstance(error, _TAKES_NOT):
                raise Undeliverable(f"topic {topic!r} cannot be created: {error}")
            raise error

    def stop(self) -> None:
        """Ask for no more."""
        for task in [*self._asked.values()]:
            task.cancel()


@dataclass(eq=False)
class _Delivery:
    """Dead letters of one partition. `done` of them are written or given up; `copied` has what the
    log has of offsets before `until`; `most`: of one batch.
    """

    key: SharePartitionKey
    origin: TopicPartition
    leader_epoch: LeaderEpoch
    letters: Sequence[DeadLetters]
    offsets: Sequence[int]
    done: int = 0
    copied: dict[int, Copied] = field(default_factory=dict)
    until: int = -1
    most: int = _NO_END
    tried: int = 0
    """The number of letters in the batch on its way."""


class DeadLetterSink(Protocol):
    """The sink to which leaders of partitions bring dead letters."""

    async def write(
        self,
        key: SharePartitionKey,
        origin: TopicPartition,
        leader_epoch: LeaderEpoch,
        letters: Sequence[DeadLetters],
    ) -> None:
        """Returns when each of them is written, or given up."""


class DeadLetterWriter:
    """A `DeadLetterSink`. Lives on the broker's loop."""

    def __init__(
        self,
        topics: DeadLetterTopics,
        engine: Engine,
        clock: Clock,
        pool: Executor,
        produce: ProduceTo,
        *,
        unpacked_bytes_max: int,
    ) -> None:
        """`pool` unpacks, one thing at a time."""
        self._topics = topics
        self._engine = engine
        self._clock = clock
        self._pool = pool
        self._produce = produce
        self._unpacked_bytes_max = unpacked_bytes_max
        self._places = asyncio.Semaphore(AT_ONCE_MAX)
        self._deliveries: set[_Delivery] = set()
        self._told_ms: dict[str, int] = {}
        self.written = 0
        """Records in dead-letter topics."""
        self.given_up = 0
        """Records that no dead-letter topic takes."""

    @property
    def waiting(self) -> int:
        """Records on their way."""
        return sum(len(each.offsets) - each.done for each in self._deliveries)

    async def write(
        self,
        key: SharePartitionKey,
        origin: TopicPartition,
        leader_epoch: LeaderEpoch,
        letters: Sequence[DeadLetters],
    ) -> None:
        """See `DeadLetterSink`."""
        offsets = [offset for offset, _ in offsets_of(letters)]
        delivery = _Delivery(key, origin, leader_epoch, letters, offsets)
        backoff = Backoff(RETRY_SECONDS_FIRST, RETRY_SECONDS_LAST)
        self._deliveries.add(delivery)
        try:
            while delivery.done < len(offsets):
                try:
                    async with self._places:
                        await self._write_some(delivery)
                    backoff.reset()
                except Undeliverable as why:
                    self._give_up(delivery, len(offsets) - delivery.done, str(why))
                except _TAKES_NOT as error:
                    self._refused(delivery, error)
                except PylogError as error:
                    self._tell(key, f"dead letters of {origin} wait: {error}")
                    await backoff.wait()
        finally:
            self._deliveries.discard(delivery)

    async def _write_some(self, delivery: _Delivery) -> None:
        group_id = delivery.key.group_id
        delivery.tried = 0
        target = await self._topics.target(group_id, delivery.origin)
        offset = delivery.offsets[delivery.done]
        if not self._topics.settings_of(group_id).copies_dead_letters:
            delivery.copied, delivery.until = {}, _NO_END
        elif not offset < delivery.until < _NO_END:
            delivery.copied, delivery.until = await self._read(delivery, Offset(offset))
        batch = next_batch(
            delivery.letters,
            delivery.done,
            delivery.origin,
            group_id,
            delivery.copied,
            until=delivery.until,
            most=delivery.most,
            wall_ms=self._clock.wall_ms(),
            bytes_max=min(BATCH_BYTES, target.bytes_max),
            record_bytes_max=target.bytes_max,
        )
        delivery.tried = batch.letters
        made = PartitionBatch(target.name, target.topic_id, batch.records)
        ack = await self._produce(target.leader, made, TIMEOUT_MS)
        if ack.failure is not None:
            raise errors.from_code(ack.failure.code, ack.failure.message)
        if batch.stripped:
            self._tell(
                delivery.key,
                f"{batch.stripped} dead letters of {delivery.origin} went without key and value, "
                f"which are beyond max.message.bytes={target.bytes_max} of {target.name.topic}",
            )
        delivery.done += batch.letters
        self.written += batch.letters

    def _refused(self, delivery: _Delivery, error: PylogError) -> None:
        """The topic does not take a batch: its records go one by one, and the bad one nowhere."""
        if delivery.tried > 1:
            delivery.most = 1
        else:
            self._give_up(delivery, 1, str(error))

    def _give_up(self, delivery: _Delivery, count: int, why: str) -> None:
        delivery.done += count
        self.given_up += count
        self._tell(delivery.key, f"{count} dead letters of {delivery.origin} are given up: {why}")

    def _tell(self, key: SharePartitionKey, line: str) -> None:
        """One line for a group in a while."""
        now_ms = self._clock.monotonic_ms()
        told_ms = self._told_ms.get(key.group_id)
        if told_ms is not None and now_ms - told_ms < TOLD_AGAIN_MS:
            return
        self._told_ms.pop(key.group_id, None)
        self._told_ms[key.group_id] = now_ms
        if len(self._told_ms) > TOLD_MAX:
            del self._told_ms[next(iter(self._told_ms))]
        _log.warning("share group %s: %s", key.group_id, line)

    # ---- the log ---------------------------------------------------------------------------------

    async def _read(self, delivery: _Delivery, offset: Offset) -> tuple[dict[int, Copied], int]:
        """The records of the log from `offset` on, and the offset up to which they are complete. A
        record that is gone, or cannot be read, is left out.
        """
        (item,) = await self._fetch(
            PartitionFetch(
                delivery.origin, delivery.key.topic_id, offset, BATCH_BYTES, delivery.leader_epoch
            )
        )
        if item.failure is not None:
            error = errors.from_code(item.failure.code, item.failure.message)
            if isinstance(error, errors.OffsetOutOfRange | errors.CorruptMessage):
                return {}, max(offset + 1, item.damaged_end)
            raise error
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, self._copies, item, delivery.origin, offset)

    def _copies(
        self, item: PartitionData, origin: TopicPartition, offset: Offset
    ) -> tuple[dict[int, Copied], int]:
        return copies(
            item.records,
            origin,
            offset,
            bytes_max=BATCH_BYTES,
            unpacked_bytes_max=self._unpacked_bytes_max,
        )

    async def _fetch(self, asked: PartitionFetch) -> Sequence[PartitionData]:
        found: asyncio.Future[Sequence[PartitionData]] = asyncio.get_running_loop().create_future()

        def done(partitions: Sequence[PartitionData]) -> None:
            if not found.done():
                found.set_result(partitions)

        manager = self._engine.manager
        request = Fetch(0, 1, BATCH_BYTES, (asked,))
        self._engine.tell(lambda now_ms: manager.fetch(now_ms, request, done))
        try:
            return await found
        finally:
            if not found.done() or found.cancelled():
                manager.cancel(done)
