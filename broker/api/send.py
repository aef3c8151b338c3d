"""Send: records of clients that make no batches, placed, batched and brought to their leaders."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple, Protocol

from pylog import errors
from pylog.clock import Clock
from pylog.model import NO_LEADER, BrokerId, Offset, TopicPartition, is_internal
from pylog.records.builder import encode_batch
from pylog.records.murmur2 import partition_for_key
from pylog_broker.api.context import RequestContext
from pylog_broker.api.limits import check_items
from pylog_broker.metadata.image import MetadataImage, TopicImage
from pylog_broker.metadata.messages import Failure
from pylog_broker.replication.produce_messages import PartitionAck, PartitionBatch

REQUEST_BYTES_MAX: Final = 8 << 20
"""The most bytes of keys, values and headers in one request."""
IN_WORK_BYTES_MAX: Final = 64 << 20
"""The same over all requests: the process of the gateway is the controller's, too."""
TIMEOUT_DEFAULT_MS: Final = 30_000
TIMEOUT_MS_MAX: Final = 120_000
RETRY_SECONDS: Final = 0.1
RECORD_OVERHEAD: Final = 32
"""Bytes that a record of nothing counts for."""

_NOT_STORED: Final = frozenset(
    error.code
    for error in (
        errors.LeaderNotAvailable,
        errors.NotLeaderOrFollower,
        errors.FencedLeaderEpoch,
        errors.UnknownLeaderEpoch,
        errors.NotEnoughReplicas,
        errors.ThrottlingQuotaExceeded,
    )
)
"""A leader says by these that it has stored nothing and that a later attempt may succeed."""

Headers = tuple[tuple[str, bytes | None], ...]


class RecordToSend(NamedTuple):
    """A record as its client gives it. None: no key, a tombstone, any partition, now."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    partition: int | None = None
    timestamp_ms: int | None = None

    @property
    def size(self) -> int:
        """The bytes that it counts for."""
        size = RECORD_OVERHEAD + len(self.value or b"") + len(self.key or b"")
        return size + sum(len(name) * 4 + len(value or b"") for name, value in self.headers)


class Send(NamedTuple):
    """Records for one topic. `timeout_ms` 0: the default."""

    topic: str
    records: Sequence[RecordToSend]
    timeout_ms: int = 0


class SentRecord(NamedTuple):
    """The place at which a record is stored, or the reason why it is not."""

    failure: Failure | None
    partition: int = -1
    offset: Offset = Offset(-1)


class Leaders(Protocol):
    """The way to brokers."""

    async def produce(
        self, context: RequestContext, broker: BrokerId, batches: Sequence[PartitionBatch], ms: int
    ) -> Sequence[PartitionAck]:
        """The broker's acks, in the order of the batches, of acks=all within so many milliseconds.
        Raises NetworkException where it is not known whether the broker got them.
        """
        ...


@dataclass(slots=True)
class _Batch:
    """The records for one partition, by their places in the request."""

    partition: int
    places: list[int] = field(default_factory=list)
    encoded: bytes = b""


class SendHandler:
    """Lives on the gateway's loop. Batches are made on a thread."""

    def __init__(
        self,
        image: Callable[[], MetadataImage],
        leaders: Leaders,
        clock: Clock,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`pause`: waits for so many seconds between two attempts."""
        self._image = image
        self._leaders = leaders
        self._clock = clock
        self._pause = pause
        self._turn = 0
        self.in_work_bytes = 0

    async def handle(self, context: RequestContext, request: Send) -> list[SentRecord]:
        """Each record's outcome, in their order. Raises InvalidRequest and MessageTooLarge for a
        request that is too large.
        """
        check_items(len(request.records), "records")
        size = sum(record.size for record in request.records)
        if size > REQUEST_BYTES_MAX:
            raise errors.MessageTooLarge(
                f"the records of the request have {size} bytes; the limit is {REQUEST_BYTES_MAX}"
            )
        topic = self._topic(request.topic, size)
        if isinstance(topic, Failure):
            return [SentRecord(topic)] * len(request.records)
        self.in_work_bytes += size
        try:
            return await self._send(context, topic, request)
        finally:
            self.in_work_bytes -= size

    def _topic(self, name: str, size: int) -> TopicImage | Failure:
        """The topic, or why so many bytes of records cannot be sent to it."""
        if self.in_work_bytes and self.in_work_bytes + size > IN_WORK_BYTES_MAX:
            return Failure(
                errors.ThrottlingQuotaExceeded.code,
                f"{self.in_work_bytes} bytes of records are in work at the gateway; the limit is "
                f"{IN_WORK_BYTES_MAX}; retry",
            )
        if is_internal(name):
            return Failure(errors.InvalidTopic.code, f"topic {name[:249]} is the cluster's own")
        topic = self._image().topics_by_name.get(name)
        if topic is None:
            why = f"topic {name[:249]} does not exist"
            return Failure(errors.UnknownTopicOrPartition.code, why)
        return topic

    async def _send(
        self, context: RequestContext, topic: TopicImage, request: Send
    ) -> list[SentRecord]:
        outcomes: list[SentRecord | None] = [None] * len(request.records)
        batches = self._placed(topic, request.records, outcomes)
        loop, now_ms = asyncio.get_running_loop(), self._clock.wall_ms()
        await loop.run_in_executor(None, partial(_encode, batches, request.records, now_ms))
        wait_ms = min(max(request.timeout_ms, 0) or TIMEOUT_DEFAULT_MS, TIMEOUT_MS_MAX)
        deadline_ms = self._clock.monotonic_ms() + wait_ms
        while batches:
            refused = await self._attempt(context, topic, batches, deadline_ms, outcomes)
            left_s = (deadline_ms - self._clock.monotonic_ms()) / 1000
            if left_s <= 0:
                for batch, failure in refused:
                    _settle(batch, failure, outcomes)
                break
            batches = [batch for batch, _ in refused]
            if batches:
                await self._pause(min(RETRY_SECONDS, left_s))
        return [outcome for outcome in outcomes if outcome is not None]

    def _placed(
        self,
        topic: TopicImage,
        records: Sequence[RecordToSend],
        outcomes: list[SentRecord | None],
    ) -> list[_Batch]:
        """Records by partition; those without a key and a partition of their own stay together."""
        count = len(topic.partitions)
        self._turn += 1
        anywhere = self._turn % count
        batches: dict[int, _Batch] = {}
        for place, record in enumerate(records):
            number = record.partition
            if number is None:
                number = anywhere if record.key is None else partition_for_key(record.key, count)
            elif not 0 <= number < count:
                why = f"topic {topic.name} has no partition {number}, it has {count}"
                failure = Failure(errors.UnknownTopicOrPartition.code, why)
                outcomes[place] = SentRecord(failure)
                continue
            batches.setdefault(number, _Batch(number)).places.append(place)
        return list(batches.values())

    async def _attempt(
        self,
        context: RequestContext,
        topic: TopicImage,
        batches: Iterable[_Batch],
        deadline_ms: int,
        outcomes: list[SentRecord | None],
    ) -> list[tuple[_Batch, Failure]]:
        """Sends each batch to its leader; gives those of which nothing is stored as yet."""
        refused: list[tuple[_Batch, Failure]] = []
        by_leader: defaultdict[BrokerId, list[_Batch]] = defaultdict(list)
        for batch in batches:
            record = self._image().partition(topic.topic_id, batch.partition)
            if record is None:
                gone = Failure(errors.UnknownTopicId.code, f"topic {topic.name} was deleted")
                _settle(batch, gone, outcomes)
            elif record.leader == NO_LEADER:
                why = f"{topic.name}-{batch.partition} has no leader"
                refused.append((batch, Failure(errors.LeaderNotAvailable.code, why)))
            else:
                by_leader[record.leader].append(batch)
        left_ms = max(deadline_ms - self._clock.monotonic_ms(), 1)
        for found in await asyncio.gather(
            *(
                self._to_leader(context, topic, leader, led, left_ms, outcomes)
                for leader, led in by_leader.items()
            )
        ):
            refused += found
        return refused

    async def _to_leader(
        self,
        context: RequestContext,
        topic: TopicImage,
        leader: BrokerId,
        batches: Sequence[_Batch],
        left_ms: int,
        outcomes: list[SentRecord | None],
    ) -> list[tuple[_Batch, Failure]]:
        wanted = [
            PartitionBatch(
                TopicPartition(topic.name, batch.partition), topic.topic_id, batch.encoded
            )
            for batch in batches
        ]
        try:
            acks = await self._leaders.produce(context, leader, wanted, left_ms)
        except errors.NetworkException as error:
            for batch in batches:
                _settle(batch, Failure(error.code, str(error)), outcomes)
            return []
        refused = []
        for batch, ack in zip(batches, acks, strict=True):
            failure = ack.failure
            if failure is None:
                for distance, place in enumerate(batch.places):
                    offset = Offset(ack.base_offset + distance)
                    outcomes[place] = SentRecord(None, batch.partition, offset)
            elif failure.code in _NOT_STORED and ack.base_offset < 0:
                refused.append((batch, failure))
            else:
                _settle(batch, failure, outcomes)
        return refused


def _settle(batch: _Batch, failure: Failure, outcomes: list[SentRecord | None]) -> None:
    for place in batch.places:
        outcomes[place] = SentRecord(failure, batch.partition)


def _encode(batches: Iterable[_Batch], records: Sequence[RecordToSend], now_ms: int) -> None:
    for batch in batches:
        chosen = [records[place] for place in batch.places]
        batch.encoded = encode_batch(
            [record.value for record in chosen],
            keys=[record.key for record in chosen],
            headers=[record.headers for record in chosen],
            timestamps=[
                now_ms if record.timestamp_ms is None else record.timestamp_ms for record in chosen
            ],
        )
