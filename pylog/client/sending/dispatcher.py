"""The choice of the batches that may go now, their brokers and their order: requests as they are
put together.

Pure, and a part of the sender, which tells the rules of order. Not here: what answers and faults
make of a lane.
"""

from __future__ import annotations

from typing import Final

from pylog.client.cluster.metadata import ClusterMetadata
from pylog.client.sending.accumulator import Accumulator
from pylog.client.sending.broker_pipes import InFlight, Pipes
from pylog.client.sending.lanes import Lane
from pylog.client.sending.producer_batch import Batch, BatchState
from pylog.client.sending.producer_id import ProducerId
from pylog.client.sending.send_events import BatchDone, Effect, SendRequest
from pylog.client.sending.send_settings import SenderSettings
from pylog.model import NO_PRODUCER_ID, TopicPartition

_WAITING: Final = BatchState.WAITING
_IN_FLIGHT: Final = BatchState.IN_FLIGHT


class Dispatcher:
    """Owned as the sender is. Invariant: a lane with unresolved batches, or a gap, is `busy`."""

    def __init__(
        self,
        settings: SenderSettings,
        accumulator: Accumulator,
        metadata: ClusterMetadata,
        producer_id: ProducerId,
    ) -> None:
        self.settings = settings
        self.request_bytes_max = settings.max_request_size
        """The most bytes of several batches together in one request."""
        self.id = producer_id
        self.accumulator = accumulator
        self.metadata = metadata
        self.pipes = Pipes(settings.max_in_flight)
        self.lanes: dict[TopicPartition, Lane] = {}
        self.busy: dict[TopicPartition, None] = {}
        self.is_unsettled = False
        """Whether a lane may have a gap, or a batch that is not in flight."""
        self.correlation = 0

    def drain(self, now_ms: int, effects: list[Effect]) -> dict[str, None]:
        """Everything that may go now; the topics of which something is due and nobody leads."""
        unknown: dict[str, None] = {}
        candidates = self.accumulator.due()
        if self.is_unsettled:  # retries first
            candidates = [*self.busy, *(tp for tp in candidates if tp not in self.busy)]
        while candidates:
            by_broker: dict[int, list[Batch]] = {}
            sizes: dict[int, int] = {}
            again: list[TopicPartition] = []  # these may have something for one more request
            for tp in candidates:
                broker = self._broker_for(now_ms, tp, unknown)
                if broker is None:
                    continue
                batch = self.next_batch(now_ms, tp, broker, effects)
                if batch is None:
                    continue
                size = sizes.get(broker, 0) + batch.size
                if broker in by_broker and size > self.request_bytes_max:
                    again.append(tp)
                    continue
                self.enter(now_ms, tp, batch, broker)
                if self.accumulator.peek(tp) is not None:
                    again.append(tp)
                by_broker.setdefault(broker, []).append(batch)
                sizes[broker] = size
            for broker, batches in by_broker.items():
                self.send(now_ms, broker, tuple(batches), effects)
            candidates = again
        return unknown

    def would_wait(self, tp: TopicPartition) -> bool:
        """Whether a batch of the partition cannot go before one of its leader's answers comes."""
        leader = self.metadata.leader(*tp)
        return leader is not None and self.pipes.of(leader.broker).full

    def may_grow(self, now_ms: int, tp: TopicPartition) -> bool:
        """Whether a full batch of the partition had better take more than wait as it is."""
        leader = self.metadata.leader(*tp)
        used = self.accumulator.used
        return leader is not None and self.pipes.may_grow(leader.broker, used, now_ms)

    def _broker_for(self, now_ms: int, tp: TopicPartition, unknown: dict[str, None]) -> int | None:
        """The leader, if it may get another request now."""
        leader = self.metadata.leader(*tp)
        if leader is None:
            unknown[tp.topic] = None
            return None
        pipe = self.pipes.of(leader.broker)
        if pipe.may_take(now_ms):
            return leader.broker
        if self.accumulator.peek(tp) is not None:
            pipe.stall(now_ms)
        return None

    def next_batch(
        self, now_ms: int, tp: TopicPartition, broker: int, effects: list[Effect]
    ) -> Batch | None:
        """The partition's next batch if its order allows one now; it stays where it is."""
        lane = self.lanes.get(tp)
        if lane is not None and lane.unresolved:
            head = lane.unresolved[0]
            if not lane.all_in_flight:
                waits = head.state is not _WAITING or lane.retry_at_ms > now_ms
                return None if waits else head
            if head.overtaken or not lane.is_at(broker):
                return None
            if self.settings.idempotent and not lane.has_begun:
                return None
        if lane is not None and lane.gap:
            return None
        batch = self.accumulator.peek(tp)
        if batch is None:
            return None
        if batch.grew and not batch.closed and self.pipes.of(broker).is_busy:
            return None  # it takes more records meanwhile
        if not self.settings.idempotent:
            return batch
        topic_id = self.metadata.topic_id(tp.topic)
        if lane is not None and topic_id != lane.topic_id:
            self.start_over(lane, topic_id)
        needs_id = lane is None or lane.producer_id == NO_PRODUCER_ID
        return None if needs_id and not self.id.have(now_ms, effects) else batch

    def start_over(self, lane: Lane, topic_id: str) -> None:
        """The partition's topic is another one now, and its sequences begin again. So the lane
        leaves the producer id that it has used: metadata of a broker that lags may turn back to the
        topic before, whose log would take a new batch for the one that it has.
        """
        self.id.used_up(lane.producer_id)
        lane.start_over(topic_id)

    def begin_epoch(self) -> None:
        """The producer goes on under another epoch: all sequences begin anew. No batch is left of
        the one before.
        """
        for lane in self.lanes.values():
            if lane.producer_id != NO_PRODUCER_ID or lane.gap:
                assert not lane.unresolved
                lane.start_over(lane.topic_id)
        self.busy.clear()
        self.is_unsettled = False

    @property
    def has_sequences(self) -> bool:
        """Whether a batch had a sequence under the present epoch of a transactional producer."""
        return any(lane.producer_id != NO_PRODUCER_ID for lane in self.lanes.values())

    def enter(self, now_ms: int, tp: TopicPartition, batch: Batch, broker: int) -> None:
        """The batch is being sent: into its lane if this is the first time."""
        lane = self.lanes.get(tp)
        if lane is None:
            lane = self.lanes[tp] = Lane(tp)
        lane.broker = broker
        if batch.attempts == 0:
            lane.topic_id = self.metadata.topic_id(tp.topic)
            taken = self.accumulator.take(tp, now_ms)
            assert taken is batch
            if self.settings.idempotent:
                if lane.producer_id == NO_PRODUCER_ID:
                    lane.producer_id, lane.producer_epoch = self.id.number, self.id.epoch
                lane.sequence(batch)
            lane.unresolved.append(batch)
            self.busy[tp] = None
        leader = self.metadata.leader(*tp)
        assert leader is not None
        batch.leader_epoch = leader.epoch
        batch.broker = broker
        batch.attempts += 1
        batch.become(_IN_FLIGHT)

    def send(
        self, now_ms: int, broker: int, batches: tuple[Batch, ...], effects: list[Effect]
    ) -> None:
        self.correlation += 1
        effects.append(SendRequest(broker, self.correlation, batches))
        size = sum(batch.size for batch in batches)
        acked = self.settings.acks != 0
        self.pipes.track(broker, self.correlation, InFlight(now_ms, batches if acked else ()), size)
        for batch in () if acked else batches:  # nobody answers
            self.leave(self.lanes[batch.topic_partition], batch)
            self.accumulator.resolve(batch)
            effects.append(BatchDone(batch, -1, -1))

    def leave(self, lane: Lane, batch: Batch) -> None:
        """The batch is out of its lane, for good or bad."""
        lane.unresolved.remove(batch)
        if not lane.unresolved and not lane.gap:
            self.busy.pop(lane.topic_partition, None)
