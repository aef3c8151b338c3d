"""Which batches go to which broker, in what order, and what an answer means: the producer's core.

Pure: events in (`poll`, `on_acks`, `on_disconnected`, ...), effects out. The producer's lock is
held around each call. Covers sequences, retries, order and time-outs; bytes, streams and waiting
users are the shell's.

Order and exactly-once, per partition (a "lane"):

- a batch gets its sequence when it is first sent, and keeps it and its bytes for every retry;
- new batches go out only while all earlier unresolved ones are in flight to the same broker (its
  stream keeps order); after a refusal the lane is retried one batch at a time, oldest first;
- a batch that fails after it had a sequence leaves a gap. Nothing new is sent into a lane with a
  gap until what is unresolved settled: either a later batch is accepted, which proves that the
  lost one was stored, or the lane goes on with a fresh producer id. Only batches that certainly
  were not stored move to the fresh id; the others fail. (Kafka moves all: redpanda #3039 shows
  how that stores records twice.)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from pylog import errors
from pylog.client.accumulator import Accumulator, Batch
from pylog.client.metadata import ClusterMetadata
from pylog.client.send_events import (
    Ack,
    BatchDone,
    BatchFailed,
    Disconnect,
    Effect,
    RefreshMetadata,
    RequestProducerId,
    SendRequest,
)
from pylog.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, TopicPartition

SEQUENCE_MAX: Final = 2**31 - 1
STUCK_AFTER_MS: Final = 1_000
"""An answer that takes longer makes the sender look whether somebody else leads by now: a frozen
leader does not break its connection, and `request.timeout.ms` is far too long to wait.
"""


# ---- state -------------------------------------------------------------------------------------


@dataclass(slots=True)
class Lane:
    """One partition's unresolved batches, in the order of their sequences.

    Invariants: sequences in `unresolved` rise; with a `gap` nothing is taken from the accumulator.
    """

    topic_partition: TopicPartition
    topic_id: str = ""
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    next_sequence: int = 0
    acked_sequence: int = NO_SEQUENCE  # the last one that a broker acknowledged
    unresolved: deque[Batch] = field(default_factory=deque)
    broker: int = -1  # where `unresolved` was last sent
    retry_at_ms: int = 0
    gap: bool = False


@dataclass(slots=True)
class InFlight:
    """A request that was not answered yet."""

    sent_ms: int
    batches: tuple[Batch, ...]


@dataclass(frozen=True, slots=True)
class SenderSettings:
    """What the sender needs of the producer's settings. `acks` is 0, 1 or -1."""

    acks: int = -1
    idempotent: bool = True
    max_in_flight: int = 5
    max_request_size: int = 1_048_576
    request_timeout_ms: int = 30_000
    delivery_timeout_ms: int = 120_000
    retries: int = 2**31 - 1
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000


def next_sequence(sequence: int, count: int) -> int:
    """The sequence after a batch of `count` records; wraps from 2^31-1 to 0 (KAFKA-5283)."""
    following = sequence + count
    return following if following <= SEQUENCE_MAX else following - SEQUENCE_MAX - 1


# Refusals after which the batch certainly is not in the log. NOT_LEADER is not among them: a
# leader that loses its office while a batch waits for its followers answers so after the append.
_NOT_STORED: Final = frozenset(
    {
        errors.CorruptMessage.code,
        errors.InvalidRecord.code,
        errors.InvalidTimestamp.code,
        errors.InvalidTopic.code,
        errors.MessageTooLarge.code,
        errors.NotEnoughReplicas.code,
        errors.OutOfOrderSequenceNumber.code,
        errors.RecordListTooLarge.code,
        errors.TopicAuthorizationFailed.code,
        errors.UnsupportedCompressionType.code,
        errors.UnknownProducerId.code,
        errors.ThrottlingQuotaExceeded.code,
    }
)
_SEQUENCE_REFUSED: Final = frozenset(
    {errors.OutOfOrderSequenceNumber.code, errors.UnknownProducerId.code}
)


class Sender:
    """Owned by the producer's lock. Give it time by `poll`; `next_deadline_ms` says when next."""

    def __init__(
        self,
        settings: SenderSettings,
        accumulator: Accumulator,
        metadata: ClusterMetadata,
        jitter: Callable[[], float],
    ) -> None:
        """`jitter()` gives numbers from 0 to 1: retries of many clients must not march in step."""
        self.settings = settings
        self.producer_id: int = NO_PRODUCER_ID
        self.producer_epoch: int = NO_PRODUCER_EPOCH
        self._accumulator = accumulator
        self._metadata = metadata
        self._jitter = jitter
        self._lanes: dict[TopicPartition, Lane] = {}
        self._busy: dict[TopicPartition, None] = {}  # lanes with unresolved batches
        self._unsettled = False  # a lane may have a gap, or a batch that is not in flight
        self._requests: dict[int, dict[int, InFlight]] = {}
        # Brokers that have all the requests they may have. They get no more before half of them are
        # answered: else each answer would be followed by one small request (TCP's silly window),
        # while several at once share a message.
        self._full: dict[int, None] = {}
        self._correlation = 0
        self._id_requested = False
        self._id_retry_at_ms = 0
        self._id_attempts = 0
        self._broker_retry_at_ms: dict[int, int] = {}
        self._broker_faults: dict[int, int] = {}
        self._last_fault = ""
        self._refresh_at_ms = 0

    @property
    def requests_in_flight(self) -> int:
        """Unanswered requests, over all brokers."""
        return sum(map(len, self._requests.values()))

    # ---- time ---------------------------------------------------------------------------------

    def poll(self, now_ms: int) -> list[Effect]:
        """Everything that can be decided now."""
        effects: list[Effect] = []
        if self.settings.idempotent:
            self._have_id(now_ms, effects)  # before the first record needs it
        self._expire(now_ms, effects)
        self._cut_overdue(now_ms, effects)
        self._accumulator.mark_lingered(now_ms)
        if self._unsettled:
            self._settle_lanes(now_ms, effects)
        self._drain(now_ms, effects)
        if self._unsettled:
            self._unsettled = any(
                lane.gap or not all(batch.in_flight for batch in lane.unresolved)
                for lane in map(self._lanes.__getitem__, self._busy)
            )
        return effects

    def next_deadline_ms(self, now_ms: int) -> int | None:
        """When `poll` has something to do without another event; None for never."""
        times = []
        if (linger := self._accumulator.next_linger_ms) is not None:
            times.append(linger)
        if self._accumulator.incomplete:
            oldest = next(iter(self._accumulator.incomplete))
            times.append(oldest.created_ms + self.settings.delivery_timeout_ms)
        for tp in self._busy if self._unsettled else ():
            lane = self._lanes[tp]
            waits = lane.unresolved and not lane.unresolved[0].in_flight
            if waits and lane.retry_at_ms > now_ms:
                times.append(lane.retry_at_ms)
        times += [at for at in self._broker_retry_at_ms.values() if at > now_ms]
        times += [at for at in (self._id_retry_at_ms, self._refresh_at_ms) if at > now_ms]
        for requests in self._requests.values():
            if requests:
                sent = next(iter(requests.values())).sent_ms
                stuck = sent + STUCK_AFTER_MS
                overdue = sent + self.settings.request_timeout_ms
                if stuck <= now_ms:
                    stuck = now_ms + STUCK_AFTER_MS
                times.append(min(stuck, overdue))
        return min(times) if times else None

    # ---- events -------------------------------------------------------------------------------

    def on_producer_id(self, now_ms: int, producer_id: int, producer_epoch: int) -> list[Effect]:
        """A fresh producer id came."""
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self._id_requested = False
        self._id_attempts = 0
        return self.poll(now_ms)

    def on_producer_id_failed(self, now_ms: int, error: errors.PylogError) -> list[Effect]:
        """No producer id yet. What no retry can cure fails every batch."""
        self._id_requested = False
        self._id_attempts += 1
        self._id_retry_at_ms = now_ms + self._backoff(self._id_attempts)
        self._last_fault = f"no producer id: {error}"
        effects: list[Effect] = []
        if not error.retriable:
            for batch in list(self._accumulator.incomplete):
                self._fail(batch, error, effects)
        return effects

    def on_acks(
        self, now_ms: int, broker: int, answers: Iterable[tuple[int, Sequence[Ack]]]
    ) -> list[Effect]:
        """The broker answered these requests, named by their correlation."""
        effects: list[Effect] = []
        stale: dict[str, None] = {}
        for correlation, acks in answers:
            request = self._untrack(broker, correlation)
            if request is None:
                continue  # acks=0, or a request that was given up
            assert len(acks) == len(request.batches), "one answer per batch"
            self._broker_faults.pop(broker, None)
            self._broker_retry_at_ms.pop(broker, None)
            for batch, ack in zip(request.batches, acks, strict=True):
                batch.in_flight = False
                if ack.code in (0, errors.DuplicateSequenceNumber.code):
                    self._succeed(batch, ack, effects)
                elif not batch.resolved:
                    self._refuse(now_ms, batch, ack, stale, effects)
        if stale:
            effects.append(RefreshMetadata(tuple(stale)))
        return effects + self.poll(now_ms)

    def on_written(self, now_ms: int, broker: int, correlation: int) -> list[Effect]:
        """With acks=0: the request went out, another may follow."""
        assert self.settings.acks == 0
        self._untrack(broker, correlation)
        return self.poll(now_ms)

    def on_disconnected(self, now_ms: int, broker: int, fault: str) -> list[Effect]:
        """The stream broke: nobody knows what became of its requests."""
        faults = self._broker_faults[broker] = self._broker_faults.get(broker, 0) + 1
        self._broker_retry_at_ms[broker] = now_ms + self._backoff(faults)
        effects: list[Effect] = []
        self._abandon(now_ms, broker, fault, effects)
        return effects + self.poll(now_ms)

    def on_metadata(self, now_ms: int) -> list[Effect]:
        """New metadata: lanes whose leader moved need not wait; deleted topics are found out."""
        effects: list[Effect] = []
        for tp in list(self._busy):
            lane = self._lanes[tp]
            topic_id = self._metadata.topic_id(tp.topic)
            if topic_id and lane.topic_id and topic_id != lane.topic_id:
                self._topic_was_replaced(lane, effects)
                continue
            leader = self._metadata.leader(*tp)
            head = lane.unresolved[0] if lane.unresolved else None
            if leader is None or head is None or head.in_flight:
                continue
            if leader.epoch > head.leader_epoch:
                lane.retry_at_ms = now_ms
        live = self._metadata.brokers
        for broker in [b for b in self._broker_retry_at_ms if b not in live]:
            del self._broker_retry_at_ms[broker]
            self._broker_faults.pop(broker, None)
        return effects + self.poll(now_ms)

    def fail_all(self, error: errors.PylogError) -> list[Effect]:
        """The producer is closing: nothing is waited for any longer."""
        effects: list[Effect] = []
        for batch in list(self._accumulator.incomplete):
            self._fail(batch, error, effects)
        return effects

    # ---- answers ------------------------------------------------------------------------------

    def _succeed(self, batch: Batch, ack: Ack, effects: list[Effect]) -> None:
        lane = self._lanes[batch.topic_partition]
        if batch.producer_id == lane.producer_id and batch.base_sequence != NO_SEQUENCE:
            # Also when the batch was given up before: then this closes the gap that it left.
            lane.acked_sequence = next_sequence(batch.base_sequence, batch.count - 1)
        if batch.resolved:
            return
        self._leave(lane, batch)
        self._accumulator.resolve(batch)
        effects.append(BatchDone(batch, ack.base_offset, ack.log_append_time_ms))

    def _refuse(
        self,
        now_ms: int,
        batch: Batch,
        ack: Ack,
        stale: dict[str, None],
        effects: list[Effect],
    ) -> None:
        tp = batch.topic_partition
        lane = self._lanes[tp]
        self._unsettled = True
        error = errors.from_code(ack.code, f"{tp}: {ack.message}" if ack.message else f"{tp}")
        if ack.code in _SEQUENCE_REFUSED and self.settings.idempotent:
            self._refuse_sequence(now_ms, lane, batch, error, effects)
            return
        if ack.code == errors.MessageTooLarge.code and batch.count > 1:
            error = errors.MessageTooLarge(
                f"{error}; it holds {batch.count} records: set batch_size below the topic's limit"
            )
        self._last_fault = f"{error.name}: {error}"
        if ack.code not in _NOT_STORED:
            batch.maybe_stored = True
        if not error.retriable or batch.attempts > self.settings.retries:
            self._fail(batch, error, effects, ack.record_index)
            return
        if error.refreshes_metadata:
            stale[tp.topic] = None
        lane.retry_at_ms = now_ms + self._backoff(batch.attempts)
        if ack.leader >= 0 and self._metadata.learn_leader(*tp, ack.leader, ack.leader_epoch):
            lane.retry_at_ms = now_ms

    def _refuse_sequence(
        self,
        now_ms: int,
        lane: Lane,
        batch: Batch,
        error: errors.PylogError,
        effects: list[Effect],
    ) -> None:
        """The broker misses something that came before this batch."""
        if lane.unresolved[0] is not batch:
            lane.retry_at_ms = max(lane.retry_at_ms, now_ms)  # what it misses is still on its way
            return
        lane.gap = True
        if batch.maybe_stored:
            # One attempt may have been stored where this broker does not see it (yet): to send it
            # again under another producer id could store it twice.
            self._fail(batch, error, effects)
        else:
            batch.refused = True  # certainly not stored: it may move to a fresh producer id

    def _topic_was_replaced(self, lane: Lane, effects: list[Effect]) -> None:
        tp = lane.topic_partition
        for batch in list(lane.unresolved):
            self._fail(
                batch,
                errors.UnknownTopicId(
                    f"topic {tp.topic} was deleted and created anew; records meant for the old "
                    f"one are not written to the new one"
                ),
                effects,
            )
        lane.gap = False
        self._busy.pop(tp, None)
        lane.next_sequence = 0  # the new topic's logs know nothing of this producer
        lane.acked_sequence = NO_SEQUENCE
        lane.topic_id = self._metadata.topic_id(tp.topic)

    # ---- failing ------------------------------------------------------------------------------

    def _fail(
        self,
        batch: Batch,
        error: errors.PylogError,
        effects: list[Effect],
        record_index: int = -1,
    ) -> None:
        lane = self._lanes.get(batch.topic_partition)
        if lane is not None and batch in lane.unresolved:
            self._unsettled = True
            lane.gap = lane.gap or (self.settings.idempotent and not self._take_back(lane, batch))
            self._leave(lane, batch)
        else:
            self._accumulator.drop(batch)
        self._accumulator.resolve(batch)
        effects.append(BatchFailed(batch, error, record_index))

    def _take_back(self, lane: Lane, batch: Batch) -> bool:
        """Give the sequence of a batch that certainly is not stored to the next one. Only the
        lane's last batch can do so: those behind it have their sequences in their bytes.
        """
        if batch.in_flight or batch.maybe_stored or lane.unresolved[-1] is not batch:
            return False
        if batch.producer_id == lane.producer_id and not lane.gap:
            lane.next_sequence = batch.base_sequence
            return True
        return False

    def _leave(self, lane: Lane, batch: Batch) -> None:
        lane.unresolved.remove(batch)
        if not lane.unresolved and not lane.gap:
            self._busy.pop(lane.topic_partition, None)

    def _expire(self, now_ms: int, effects: list[Effect]) -> None:
        incomplete = self._accumulator.incomplete
        while incomplete:
            batch = next(iter(incomplete))
            if batch.created_ms + self.settings.delivery_timeout_ms > now_ms:
                return
            self._fail(batch, self._timed_out(batch), effects)

    def _timed_out(self, batch: Batch) -> errors.DeliveryTimedOut:
        after = f"{batch.topic_partition}: not acknowledged within delivery_timeout_ms="
        after += f"{self.settings.delivery_timeout_ms}"
        if batch.in_flight or batch.maybe_stored:
            after += f" after {batch.attempts} attempts; the records may or may not be stored"
        elif batch.attempts:
            after += f" after {batch.attempts} attempts; the records are not stored"
        else:
            after += "; it was never sent, the records are not stored"
            if self._metadata.leader(*batch.topic_partition) is None:
                after += " (the partition has no live leader)"
        if self._last_fault:
            after += f"; last fault: {self._last_fault}"
        return errors.DeliveryTimedOut(after)

    # ---- overdue and broken streams -----------------------------------------------------------

    def _cut_overdue(self, now_ms: int, effects: list[Effect]) -> None:
        """Requests that nobody answers: look for a new leader, and in the end cut the stream."""
        waits: list[tuple[int, int]] = []
        for broker, requests in self._requests.items():
            for oldest in requests.values():
                if now_ms - oldest.sent_ms >= STUCK_AFTER_MS:
                    waits.append((broker, now_ms - oldest.sent_ms))
                break
        topics: dict[str, None] = {}
        for broker, waited_ms in waits:
            requests = self._requests[broker]
            batches = [b for r in requests.values() for b in r.batches]
            if waited_ms >= self.settings.request_timeout_ms:
                fault = f"broker {broker} did not answer for {waited_ms} ms"
            elif any(self._moved(broker, batch) for batch in batches):
                fault = f"broker {broker} was deposed while it did not answer"
            else:
                topics.update(dict.fromkeys(b.topic_partition.topic for b in batches))
                continue
            effects.append(Disconnect(broker))
            self._abandon(now_ms, broker, fault, effects)
        if topics and now_ms >= self._refresh_at_ms:
            self._refresh_at_ms = now_ms + STUCK_AFTER_MS
            effects.append(RefreshMetadata(tuple(topics)))

    def _moved(self, broker: int, batch: Batch) -> bool:
        leader = self._metadata.leader(*batch.topic_partition)
        return leader is not None and leader.broker != broker and leader.epoch > batch.leader_epoch

    def _abandon(self, now_ms: int, broker: int, fault: str, effects: list[Effect]) -> None:
        self._last_fault = fault
        self._unsettled = True
        self._full.pop(broker, None)
        topics: dict[str, None] = {}
        for request in self._requests.pop(broker, {}).values():
            for batch in request.batches:
                batch.in_flight = False
                batch.maybe_stored = True
                if batch.resolved:
                    continue
                topics[batch.topic_partition.topic] = None
                lane = self._lanes[batch.topic_partition]
                lane.retry_at_ms = now_ms + self._backoff(lane.unresolved[0].attempts)
                if batch.attempts > self.settings.retries:
                    self._fail(batch, errors.NetworkException(fault), effects)
        if topics:
            effects.append(RefreshMetadata(tuple(topics)))

    # ---- gaps ---------------------------------------------------------------------------------

    def _settle_lanes(self, now_ms: int, effects: list[Effect]) -> None:
        for tp in [tp for tp in self._busy if self._lanes[tp].gap]:
            lane = self._lanes[tp]
            if lane.unresolved and lane.unresolved[0].refused:
                self._refuse_followers(lane, effects)
            if any(not batch.refused for batch in lane.unresolved):
                continue  # an answer, or a time-out, is still to come
            if not lane.unresolved and self._bridged(lane):
                lane.gap = False
                del self._busy[tp]
            elif self._adopt_fresh_id(now_ms, lane, effects):
                lane.gap = False
                if not lane.unresolved:
                    del self._busy[tp]

    def _refuse_followers(self, lane: Lane, effects: list[Effect]) -> None:
        """The broker will take nothing behind a batch that it refused for its sequence."""
        for batch in list(lane.unresolved):
            if batch.in_flight:
                return
            if batch.maybe_stored:
                words = f"{lane.topic_partition}: a batch before this one was lost, and whether "
                words += "this one was stored is unknown"
                self._fail(batch, errors.OutOfOrderSequenceNumber(words), effects)
            else:
                batch.refused = True

    def _bridged(self, lane: Lane) -> bool:
        # A batch after the lost one was accepted, so the broker has the lost one as well.
        acked = lane.acked_sequence
        return acked != NO_SEQUENCE and next_sequence(acked, 1) == lane.next_sequence

    def _adopt_fresh_id(self, now_ms: int, lane: Lane, effects: list[Effect]) -> bool:
        """Leave the producer id whose sequence broke; batches surely not stored come along."""
        if lane.producer_id == self.producer_id:
            self.producer_id = NO_PRODUCER_ID  # used up; other lanes keep it while it works
        if not self._have_id(now_ms, effects):
            return False
        lane.producer_id, lane.producer_epoch = self.producer_id, self.producer_epoch
        lane.next_sequence = 0
        lane.acked_sequence = NO_SEQUENCE
        for batch in lane.unresolved:
            batch.refused = False
            self._sequence(lane, batch)
        return True

    def _have_id(self, now_ms: int, effects: list[Effect]) -> bool:
        if self.producer_id != NO_PRODUCER_ID:
            return True
        if not self._id_requested and now_ms >= self._id_retry_at_ms:
            self._id_requested = True
            effects.append(RequestProducerId())
        return False

    def _sequence(self, lane: Lane, batch: Batch) -> None:
        batch.producer_id, batch.producer_epoch = lane.producer_id, lane.producer_epoch
        batch.base_sequence = lane.next_sequence
        lane.next_sequence = next_sequence(lane.next_sequence, batch.count)

    # ---- draining -----------------------------------------------------------------------------

    def _drain(self, now_ms: int, effects: list[Effect]) -> None:
        unknown: dict[str, None] = {}
        candidates = self._accumulator.due()
        if self._unsettled:  # retries first
            candidates = [*self._busy, *(tp for tp in candidates if tp not in self._busy)]
        while candidates:
            by_broker: dict[int, list[Batch]] = {}
            sizes: dict[int, int] = {}
            again: list[TopicPartition] = []  # these may have something for one more request
            for tp in candidates:
                broker = self._broker_for(now_ms, tp, unknown)
                if broker is None:
                    continue
                batch = self._next_batch(now_ms, tp, broker, effects)
                if batch is None:
                    continue
                again.append(tp)
                size = sizes.get(broker, 0) + batch.size
                if broker in by_broker and size > self.settings.max_request_size:
                    continue
                self._enter(now_ms, tp, batch, broker)
                by_broker.setdefault(broker, []).append(batch)
                sizes[broker] = size
            for broker, batches in by_broker.items():
                self._send(now_ms, broker, tuple(batches), effects)
            candidates = again
        if unknown and now_ms >= self._refresh_at_ms:
            self._refresh_at_ms = now_ms + self.settings.retry_backoff_ms
            effects.append(RefreshMetadata(tuple(unknown)))

    def would_wait(self, tp: TopicPartition) -> bool:
        """Whether a batch of the partition cannot go before one of its leader's answers comes."""
        leader = self._metadata.leader(*tp)
        return leader is not None and leader.broker in self._full

    def _broker_for(self, now_ms: int, tp: TopicPartition, unknown: dict[str, None]) -> int | None:
        """The leader, if it may get another request now."""
        leader = self._metadata.leader(*tp)
        if leader is None:
            unknown[tp.topic] = None
            return None
        if leader.broker in self._full:
            return None
        if self._broker_retry_at_ms.get(leader.broker, 0) > now_ms:
            return None
        return leader.broker

    def _next_batch(
        self, now_ms: int, tp: TopicPartition, broker: int, effects: list[Effect]
    ) -> Batch | None:
        """The partition's next batch if its order allows one now; it stays where it is."""
        lane = self._lanes.get(tp)
        if lane is not None and lane.unresolved:
            head = lane.unresolved[0]
            if not all(batch.in_flight for batch in lane.unresolved):
                waits = head.in_flight or head.refused or lane.retry_at_ms > now_ms
                return None if waits else head
            if lane.broker != broker:
                return None
        if lane is not None and lane.gap:
            return None
        batch = self._accumulator.peek(tp)
        if batch is None or not self.settings.idempotent:
            return batch
        if (lane is None or lane.producer_id == NO_PRODUCER_ID) and not self._have_id(
            now_ms, effects
        ):
            return None
        return batch

    def _enter(self, now_ms: int, tp: TopicPartition, batch: Batch, broker: int) -> None:
        """The batch is being sent: into its lane if this is the first time."""
        lane = self._lanes.get(tp)
        if lane is None:
            lane = self._lanes[tp] = Lane(tp)
        lane.broker = broker
        if batch.attempts == 0:
            topic_id = self._metadata.topic_id(tp.topic)
            if topic_id != lane.topic_id:
                lane.topic_id = topic_id
                lane.next_sequence = 0
                lane.acked_sequence = NO_SEQUENCE
            taken = self._accumulator.take(tp, now_ms)
            assert taken is batch
            if self.settings.idempotent:
                if lane.producer_id == NO_PRODUCER_ID:
                    lane.producer_id = self.producer_id
                    lane.producer_epoch = self.producer_epoch
                self._sequence(lane, batch)
            lane.unresolved.append(batch)
            self._busy[tp] = None
        leader = self._metadata.leader(*tp)
        assert leader is not None
        batch.leader_epoch = leader.epoch
        batch.attempts += 1
        batch.in_flight = True

    def _send(
        self, now_ms: int, broker: int, batches: tuple[Batch, ...], effects: list[Effect]
    ) -> None:
        self._correlation += 1
        effects.append(SendRequest(broker, self._correlation, batches))
        if self.settings.acks != 0:
            self._track(broker, InFlight(now_ms, batches))
            return
        self._track(broker, InFlight(now_ms, ()))
        for batch in batches:  # nobody answers
            batch.in_flight = False
            self._leave(self._lanes[batch.topic_partition], batch)
            self._accumulator.resolve(batch)
            effects.append(BatchDone(batch, -1, -1))

    def _track(self, broker: int, request: InFlight) -> None:
        requests = self._requests.setdefault(broker, {})
        requests[self._correlation] = request
        if len(requests) >= self.settings.max_in_flight:
            self._full[broker] = None

    def _untrack(self, broker: int, correlation: int) -> InFlight | None:
        requests = self._requests.get(broker, {})
        request = requests.pop(correlation, None)
        if len(requests) <= self.settings.max_in_flight // 2:
            self._full.pop(broker, None)
        return request

    def _backoff(self, attempts: int) -> int:
        """Exponential, within 20 % (KIP-580)."""
        longest = self.settings.retry_backoff_max_ms
        wait = min(self.settings.retry_backoff_ms * 2 ** min(max(attempts - 1, 0), 30), longest)
        return int(wait * (0.8 + 0.4 * self._jitter()))
