"""The transactional ids that this broker coordinates, and the way to those of other brokers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any, Final, NamedTuple

from pylog import errors
from pylog.clock import Clock
from pylog.model import NO_LEADER, BrokerId, TopicPartition
from pylog_broker.api.coordinators import TransactionOperation
from pylog_broker.api.transactional_ids import partition_of
from pylog_broker.controller.settings import TRANSACTION_STATE
from pylog_broker.coordinator.expiry import Expiry
from pylog_broker.coordinator.runtime.runtime import CoordinatorRuntime, Sent
from pylog_broker.coordinator.transactions.codec import TransactionCodec
from pylog_broker.coordinator.transactions.config import TransactionConfig
from pylog_broker.coordinator.transactions.coordinator import (
    TransactionCoordinator,
    TransactionCounts,
)
from pylog_broker.coordinator.transactions.messages import AddPartitions, SendMarkers
from pylog_broker.coordinator.transactions.transaction import Identity
from pylog_broker.kafka.broker_apis import ADD_PARTITIONS_TO_TXN, WRITE_TXN_MARKERS
from pylog_broker.kafka.calls import BrokerCalls
from pylog_broker.kafka.transaction_calls import (
    Add,
    Write,
    added_from_wire,
    addition_to_wire,
    markers_to_wire,
    written_from_wire,
)
from pylog_broker.metadata.image import MetadataImage
from pylog_broker.metadata.messages import Failure
from pylog_broker.node.coordinators import CoordinatorShell
from pylog_broker.node.engine import Engine
from pylog_broker.replication.produce_messages import WriteMarker

BACK_OFF_SECONDS_MIN: Final = 0.02
BACK_OFF_SECONDS_MAX: Final = 1.0
ASK_SECONDS_MAX: Final = 15.0
"""The time for which a batch waits for the coordinator of its transaction; then its producer gets
the reason."""
GONE_SECONDS: Final = 30.0
"""A partition that the metadata have not had for so long is deleted: nobody needs its marker."""

_log = logging.getLogger("pylog.coordinator")


class TransactionShards:
    """The `TransactionCoordinators` of a broker: a shard for each partition of
    `__transaction_state` that it leads.
    """

    def __init__(
        self,
        config: TransactionConfig,
        engine: Engine,
        clock: Clock,
        pool: Executor,
        image: Callable[[], MetadataImage],
    ) -> None:
        self._image = image
        self.config = config
        self.counts = TransactionCounts()
        codec = TransactionCodec()
        expiry = Expiry(engine.manager.trusted_ms)
        runtime = CoordinatorRuntime[TransactionCoordinator](
            TRANSACTION_STATE,
            lambda partition: TransactionCoordinator(config, self.counts, expiry),
            codec,
            now_ms=clock.monotonic_ms(),
        )
        self.senders: MarkerSenders | None = None
        """Set before the first metadata."""
        self.shell = CoordinatorShell(runtime, codec, engine, clock, pool, on_sent=self._on_sent)

    async def call(
        self,
        transactional_id: str,
        operation: TransactionOperation,
        *,
        timeout_ms: int | None = None,
    ) -> Any:
        """See `TransactionCoordinators`."""
        topic = self._image().topics_by_name.get(TRANSACTION_STATE)
        if topic is None:
            raise errors.NotCoordinator(
                f"transactional id {transactional_id!r}: there is no {TRANSACTION_STATE} yet"
            )
        number = partition_of(transactional_id, len(topic.partitions))
        return await self.shell.call(number, operation, timeout_ms=timeout_ms)

    async def call_all(self, operation: TransactionOperation) -> list[Any]:
        """See `TransactionCoordinators`."""
        runtime = self.shell.runtime
        if runtime.loading:
            raise errors.CoordinatorLoadInProgress(
                f"{len(runtime.loading)} partitions of {TRANSACTION_STATE} are being read"
            )
        asked = (self.shell.call(number, operation) for number in runtime.coordinators())
        return list(await asyncio.gather(*asked))

    def _on_sent(self, sent: Sent) -> None:
        assert self.senders is not None
        self.senders.send(sent)

    def stop(self) -> None:
        """Nothing is decided or sent any more."""
        self.shell.stop()
        if self.senders is not None:
            self.senders.stop()


class _Sending(NamedTuple):
    transactional_id: str
    identity: Identity


class MarkerSenders:
    """Sends markers until each partition has its own, or another coordinator leads."""

    def __init__(
        self,
        me: BrokerId,
        shell: CoordinatorShell[TransactionCoordinator],
        image: Callable[[], MetadataImage],
        calls: BrokerCalls,
        write: Write,
        clock: Clock,
    ) -> None:
        """`write`: to the partitions that this broker leads itself."""
        self._me = me
        self._shell = shell
        self._image = image
        self._calls = calls
        self._write_here = write
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._sending: dict[_Sending, asyncio.Task[None]] = {}

    def __len__(self) -> int:
        return len(self._sending)

    def send(self, sent: Sent) -> None:
        """Begin; the sending for the same end by an earlier coordinator stops."""
        message = sent.message
        assert isinstance(message, SendMarkers)
        key = _Sending(message.transactional_id, message.identity)
        before = self._sending.get(key)
        if before is not None:
            before.cancel()
        task = self._sending[key] = self._loop.create_task(self._send(sent, message))
        task.add_done_callback(lambda done: self._on_done(key, done))

    def stop(self) -> None:
        """Send no more."""
        for task in self._sending.values():
            task.cancel()

    def _on_done(self, key: _Sending, task: asyncio.Task[None]) -> None:
        if self._sending.get(key) is task:
            del self._sending[key]
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("markers of %r are not sent any more", key, exc_info=error)

    async def _send(self, sent: Sent, message: SendMarkers) -> None:
        number, epoch = sent.topic_partition.partition, sent.epoch
        left = set(message.partitions)
        missing_since: dict[TopicPartition, int] = {}
        pause = BACK_OFF_SECONDS_MIN
        while left and self._shell.runtime.decides(number, epoch):
            by_leader = self._by_leader(sorted(left), missing_since)
            gone = by_leader.pop(None, [])
            done = set(gone)
            outcomes = await asyncio.gather(
                *(
                    self._write(leader, _markers(message, partitions, epoch))
                    for leader, partitions in by_leader.items()
                    if leader is not None
                )
            )
            for outcome in outcomes:
                for partition, failure in outcome.items():
                    if failure is None or failure.code == errors.InvalidProducerEpoch.code:
                        done.add(partition)
                    elif failure.code == errors.TransactionCoordinatorFenced.code:
                        _log.warning(
                            "%r is coordinated elsewhere: %s",
                            message.transactional_id,
                            failure.message,
                        )
                        return
            left -= done
            if done:
                told = frozenset(done)
                self._shell.tell_shard(
                    number,
                    epoch,
                    lambda shard, wall_ms, told=told: shard.on_markers_written(  # type: ignore[misc]
                        wall_ms, message.transactional_id, message.identity, told
                    ),
                )
            if left:
                await asyncio.sleep(pause)
                pause = min(2 * pause, BACK_OFF_SECONDS_MAX)

    def _by_leader(
        self, partitions: Iterable[TopicPartition], missing_since: dict[TopicPartition, int]
    ) -> dict[BrokerId | None, list[TopicPartition]]:
        """The partitions by who leads them; under None those that are gone for good. One without a
        leader, and one that the metadata do not have yet, is for a later turn.
        """
        image, now_ms = self._image(), self._clock.monotonic_ms()
        found: dict[BrokerId | None, list[TopicPartition]] = {}
        for partition in partitions:
            topic = image.topics_by_name.get(partition.topic)
            record = None if topic is None else topic.partitions.get(partition.partition)
            if record is None:
                since_ms = missing_since.setdefault(partition, now_ms)
                if now_ms - since_ms >= GONE_SECONDS * 1000:
                    found.setdefault(None, []).append(partition)
            elif record.leader != NO_LEADER:
                missing_since.pop(partition, None)
                found.setdefault(record.leader, []).append(partition)
        return found

    async def _write(
        self, leader: BrokerId, markers: Sequence[WriteMarker]
    ) -> Mapping[TopicPartition, Failure | None]:
        try:
            if leader == self._me:
                outcomes = await self._write_here(markers)
            else:
                response = await self._calls.call(
                    leader, WRITE_TXN_MARKERS, markers_to_wire(markers)
                )
                outcomes = written_from_wire(markers, response)
        except errors.PylogError as error:
            outcomes = [Failure(error.code, str(error))] * len(markers)
        return dict(zip((each.topic_partition for each in markers), outcomes, strict=True))


def _markers(
    message: SendMarkers, partitions: Iterable[TopicPartition], epoch: int
) -> list[WriteMarker]:
    producer_id, producer_epoch = message.identity
    version, starts = max(message.version, 1), message.starts
    return [
        WriteMarker(
            each,
            producer_id,
            producer_epoch,
            message.commits,
            epoch,
            version,
            *starts.get(each, ()),
        )
        for each in partitions
    ]


class CoordinatorCalls:
    """The `AskCoordinator` of a broker: asks until there is an answer, for a while."""

    def __init__(
        self,
        me: BrokerId,
        image: Callable[[], MetadataImage],
        calls: BrokerCalls,
        add: Add,
        clock: Clock,
    ) -> None:
        """`add`: at the coordinators of this broker itself."""
        self._me = me
        self._image = image
        self._calls = calls
        self._add_here = add
        self._clock = clock

    async def add(
        self, request: AddPartitions
    ) -> Mapping[TopicPartition, errors.PylogError | None]:
        """See `AskCoordinator`."""
        until_ms = self._clock.monotonic_ms() + ASK_SECONDS_MAX * 1000
        pause = BACK_OFF_SECONDS_MIN
        while True:
            try:
                return await self._add(request)
            except (errors.RetriableError, errors.BrokerNotAvailable) as error:
                if self._clock.monotonic_ms() >= until_ms:
                    raise errors.CoordinatorNotAvailable(
                        f"the coordinator of {request.transactional_id!r} did not answer: {error}"
                    ) from None
            await asyncio.sleep(pause)
            pause = min(2 * pause, BACK_OFF_SECONDS_MAX)

    async def _add(
        self, request: AddPartitions
    ) -> Mapping[TopicPartition, errors.PylogError | None]:
        topic = self._image().topics_by_name.get(TRANSACTION_STATE)
        if topic is None:
            # The producer's own coordinator may know of the topic before this broker does.
            raise errors.CoordinatorNotAvailable(f"there is no topic {TRANSACTION_STATE} yet")
        number = partition_of(request.transactional_id, len(topic.partitions))
        coordinator = topic.partitions[number].leader
        if coordinator == NO_LEADER:
            raise errors.CoordinatorNotAvailable(f"{TRANSACTION_STATE}-{number} has no leader")
        if coordinator == self._me:
            return (await self._add_here(request)).partitions
        response = await self._calls.call(
            coordinator, ADD_PARTITIONS_TO_TXN, addition_to_wire(request)
        )
        return added_from_wire(request, response)
