"""The producer's core: it decides which batches go to which broker, in what order, and what an
answer means.

Pure: events in (`poll`, `on_acks`, `on_disconnected`, ...), effects out. The producer's lock is
held around each call. Covers sequences, retries, order and time-outs; bytes, streams and waiting
users are the shell's.

Order and exactly-once, per partition (a "lane"):

- a batch gets its sequence when it is first sent, and keeps it and its bytes for every retry;
- new batches go out only while all earlier unresolved ones are in flight to the same broker (its
  stream keeps order); after a refusal the lane is retried one batch at a time, oldest first;
- so at most four batches follow one that is unresolved. More must not: a broker knows the last
  five of a producer, and an older one that is sent again it refuses, stored or not;
- until a broker has acknowledged something under a lane's producer id, one batch is in flight: a
  leader that knows nothing of a producer cannot tell the second of two from the first;
- a batch that fails after it had a sequence leaves a gap. Nothing new is sent into a lane with a
  gap until what is unresolved settled: either a later batch is accepted, which proves that the
  lost one was stored, or the lane goes on with a fresh producer id;
- a transactional producer has an epoch for each transaction, in which every lane begins anew; a gap
  makes the transaction one that can only be aborted, and what is unsent of that fails;
- a lane moves to a fresh id as a whole, and only where none of its batches can be stored and none
  behind them was accepted. Else all that it has left fails: their order is not bought with a
  second place. (Kafka moves all: redpanda #3039 shows how that stores records twice.)
  Nothing new is sent behind a batch that was overtaken.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Container, Iterable, Sequence

from pylog import errors
from pylog.client.cluster.message_sizes import TooLarge
from pylog.client.cluster.metadata import ClusterMetadata
from pylog.client.sending.accumulator import Accumulator
from pylog.client.sending.broker_pipes import Pipe
from pylog.client.sending.dispatcher import Dispatcher
from pylog.client.sending.lanes import Lane, LaneState
from pylog.client.sending.producer_batch import Batch, BatchState, Split
from pylog.client.sending.producer_id import ProducerId
from pylog.client.sending.send_events import (
    Ack,
    BatchDone,
    BatchFailed,
    BatchSplit,
    Disconnect,
    Effect,
    RefreshMetadata,
)
from pylog.client.sending.send_faults import (
    SEQUENCE_REFUSED,
    STUCK_AFTER_MS,
    LastFaults,
    failed_before,
    fills,
    may_be_stored,
    may_not_move,
    timed_out,
    topic_replaced,
)
from pylog.client.sending.send_settings import SenderSettings
from pylog.client.sending.transaction_events import TransactionAnswer, TransactionRequest
from pylog.client.sending.transactions import Transactions


class Sender:
    """Owned by the producer's lock. Give it time by `poll`; `next_deadline_ms` says when next."""

    def __init__(
        self,
        settings: SenderSettings,
        accumulator: Accumulator,
        metadata: ClusterMetadata,
        jitter: Callable[[], float],
        split: Split,
        transactions: Transactions | None = None,
    ) -> None:
        """`jitter()`: from 0 to 1, so that retries of many clients do not march in step."""
        self.settings = settings
        self.transactions = transactions
        producer_id = ProducerId() if transactions is None else transactions.id
        self.dispatcher = Dispatcher(settings, accumulator, metadata, producer_id)
        """The batches that go next."""
        self.pipes = self.dispatcher.pipes
        self._id = self.dispatcher.id
        self._lanes = self.dispatcher.lanes
        self._busy = self.dispatcher.busy
        self._accumulator = accumulator
        self._metadata = metadata
        self._jitter = jitter
        self._split = split
        self._faults = LastFaults()
        self._refresh_at_ms = 0

    # ---- time ---------------------------------------------------------------------------------

    def poll(self, now_ms: int) -> list[Effect]:
        """Everything that can be decided now."""
        effects: list[Effect] = []
        if self.settings.idempotent:
            self._id.have(now_ms, effects)  # before the first record needs it
        if self.transactions is not None:
            self._drop_doomed(self.transactions, effects)
        self._expire(now_ms, effects)
        self._cut_overdue(now_ms, effects)
        self._accumulator.mark_lingered(now_ms)
        if self.dispatcher.is_unsettled:
            self._settle_lanes(now_ms, effects)
        unknown = self.dispatcher.drain(now_ms, effects)
        if unknown and now_ms >= self._refresh_at_ms:
            self._refresh_at_ms = now_ms + self.settings.retry_backoff_ms
            effects.append(RefreshMetadata(tuple(unknown)))
        if self.dispatcher.is_unsettled:
            self.dispatcher.is_unsettled = any(
                lane.gap or not lane.all_in_flight
                for lane in map(self._lanes.__getitem__, self._busy)
            )
        self.pipes.rest(now_ms)
        if self.transactions is not None:
            self._poll_transactions(now_ms, self.transactions, effects)
        return effects

    def next_deadline_ms(self, now_ms: int) -> int | None:
        """The time at which `poll` has something to do without another event; None for never."""
        times = []
        if (linger := self._accumulator.next_linger_ms) is not None:
            times.append(linger)
        if self._accumulator.incomplete:
            oldest = next(iter(self._accumulator.incomplete))
            times.append(oldest.created_ms + self.settings.delivery_timeout_ms)
        for tp in self._busy if self.dispatcher.is_unsettled else ():
            lane = self._lanes[tp]
            waits = lane.unresolved and not lane.unresolved[0].in_flight
            if waits and lane.retry_at_ms > now_ms:
                times.append(lane.retry_at_ms)
        times += [at for at in (self._id.retry_at_ms, self._refresh_at_ms) if at > now_ms]
        times += self.pipes.deadlines(now_ms, self.settings.request_timeout_ms)
        if self.transactions is not None:
            at_ms = self.transactions.next_deadline_ms(now_ms)
            times += [at_ms] if at_ms is not None else []
        return min(times) if times else None

    # ---- events -------------------------------------------------------------------------------

    def on_producer_id(self, now_ms: int, producer_id: int, producer_epoch: int) -> list[Effect]:
        """A fresh producer id came."""
        self._id.came(producer_id, producer_epoch)
        return self.poll(now_ms)

    def on_producer_id_failed(self, now_ms: int, error: errors.PylogError) -> list[Effect]:
        """No producer id yet. An error that no retry can cure fails every batch."""
        self._id.failed()
        told_ms = error.throttle_time_ms if isinstance(error, errors.ThrottlingQuotaExceeded) else 0
        self._id.retry_at_ms = now_ms + max(self._backoff(self._id.attempts), told_ms)
        self._faults.befell_all(f"no producer id: {error}")
        return [] if error.retriable else self.fail_all(error)

    def on_acks(
        self, now_ms: int, broker: int, answers: Iterable[tuple[int, Sequence[Ack]]]
    ) -> list[Effect]:
        """The broker answered these requests, named by their correlation."""
        effects: list[Effect] = []
        stale: dict[str, None] = {}
        pipe = self.pipes.of(broker)
        for correlation, acks in answers:
            request = self.pipes.untrack(broker, correlation)
            if request is None:
                continue  # acks=0, or a request that was given up
            assert len(acks) == len(request.batches), "one answer per batch"
            pipe.faults = pipe.retry_at_ms = 0
            for batch, ack in zip(request.batches, acks, strict=True):
                if ack.code in (0, errors.DuplicateSequenceNumber.code):
                    self._succeed(batch, ack, effects)
                elif not batch.resolved:
                    batch.come_back()
                    self._refuse(now_ms, batch, ack, stale, effects)
        if stale:
            effects.append(RefreshMetadata(tuple(stale)))
        if self.dispatcher.is_unsettled or self._accumulator.has_due:
            return effects + self.poll(now_ms)
        self.pipes.rest(now_ms)  # what else a poll does is a matter of time, and has its deadline
        if self.transactions is not None:
            self._poll_transactions(now_ms, self.transactions, effects)
        return effects

    def on_written(self, now_ms: int, broker: int, correlation: int) -> list[Effect]:
        """With acks=0: the request went out, another may follow."""
        assert self.settings.acks == 0
        self.pipes.untrack(broker, correlation)
        pipe = self.pipes.of(broker)
        if pipe.faults and now_ms >= pipe.retry_at_ms + self.settings.retry_backoff_max_ms:
            pipe.faults = 0  # no answer will show that the broker takes what comes
        return self.poll(now_ms)

    def on_disconnected(
        self, now_ms: int, broker: int, fault: str, too_large: TooLarge | None = None
    ) -> list[Effect]:
        """The stream broke: nobody knows what became of its requests, unless it broke at a message
        that is too large.
        """
        pipe = self.pipes.of(broker)
        effects: list[Effect] = []
        unsent: set[Batch] = set()
        if too_large is not None:
            unsent = self._refuse_too_large(now_ms, pipe, fault, too_large, effects)
        if not unsent:  # else there is nothing wrong with the broker
            pipe.faults += 1
            pipe.retry_at_ms = now_ms + self._backoff(pipe.faults)
        self._abandon(now_ms, broker, fault, effects, unsent)
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
        self.pipes.keep(self._metadata.brokers)
        return effects + self.poll(now_ms)

    def adopt(self, transactional_id: str, producer_id: int, producer_epoch: int) -> None:
        """Continue a transaction that another producer has opened: all later records belong to
        it."""
        assert self.transactions is not None
        self.transactions.adopt(transactional_id, producer_id, producer_epoch)
        self.dispatcher.begin_epoch()

    def on_transaction_answer(
        self, now_ms: int, request: TransactionRequest, answer: TransactionAnswer
    ) -> list[Effect]:
        """A coordinator has answered."""
        assert self.transactions is not None
        effects: list[Effect] = []
        if self.transactions.on_answer(now_ms, request, answer, effects):
            self.dispatcher.begin_epoch()
        return effects + self.poll(now_ms)

    def on_no_transaction_answer(
        self, now_ms: int, request: TransactionRequest, error: errors.PylogError
    ) -> list[Effect]:
        """A coordinator could not be asked, or has not answered."""
        assert self.transactions is not None
        self.transactions.on_no_answer(now_ms, request, error)
        return self.poll(now_ms)

    def fail_all(self, error: errors.PylogError) -> list[Effect]:
        """Nothing is waited for any longer: the producer is closing, or cannot have an id."""
        effects: list[Effect] = []
        for batch in list(self._accumulator.incomplete):
            self._fail(batch, error, effects)
        return effects

    # ---- answers ------------------------------------------------------------------------------

    def _succeed(self, batch: Batch, ack: Ack, effects: list[Effect]) -> None:
        lane = self._lanes[batch.topic_partition]
        lane.acknowledge(batch)
        self.dispatcher.is_unsettled |= lane.gap
        self._faults.passed(batch.topic_partition)
        if batch.resolved:
            return
        self.dispatcher.leave(lane, batch)
        self._accumulator.resolve(batch)
        if self.transactions is not None:
            self.transactions.stored(batch.topic_partition, ack.base_offset, batch.count)
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
        self.dispatcher.is_unsettled = True
        error = errors.from_code(ack.code, f"{tp}: {ack.message}" if ack.message else f"{tp}")
        if ack.code in SEQUENCE_REFUSED and self.settings.idempotent:
            self._refuse_sequence(now_ms, lane, batch, error)
            return
        if ack.code == errors.MessageTooLarge.code and batch.count > 1:
            self._take_apart(lane, batch, effects)
            return
        self._faults.befell(tp, f"{error.name}: {error}")
        if may_be_stored(ack):
            batch.maybe_stored = True
        if not error.retriable or batch.attempts > self.settings.retries:
            self._fail(batch, error, effects, ack.record_index)
            return
        if error.refreshes_metadata:
            stale[tp.topic] = None
        lane.retry_at_ms = now_ms + self._backoff(batch.attempts)
        if ack.leader >= 0 and self._metadata.learn_leader(*tp, ack.leader, ack.leader_epoch):
            lane.retry_at_ms = now_ms

    def _refuse_too_large(
        self, now_ms: int, pipe: Pipe, fault: str, too_large: TooLarge, effects: list[Effect]
    ) -> set[Batch]:
        """Fail, or take apart, the batches that by themselves are larger than a message may be;
        gives all that stood behind the first of them, and so did not arrive. Where no batch is so
        large, the message held several: the next ones hold fewer.
        """
        self.dispatcher.request_bytes_max = min(
            self.dispatcher.request_bytes_max, too_large.limit // 2
        )
        batches = pipe.batches
        guilty = [batch for batch in batches if fills(batch, too_large)]
        if not guilty:
            return set()
        behind = batches[batches.index(guilty[0]) :]
        for batch in batches:
            batch.come_back()
        refusal = Ack(errors.MessageTooLarge.code, fault)
        for batch in guilty:
            if not batch.resolved:
                self._refuse(now_ms, batch, refusal, {}, effects)
        return set(behind)

    def _take_apart(self, lane: Lane, batch: Batch, effects: list[Effect]) -> None:
        """Send the records of a batch too large in smaller ones, under its sequences (KIP-126)."""
        tp = batch.topic_partition
        self._accumulator.topics[tp.topic].grows = False
        batch_size = self._accumulator.batch_size
        parts = self._split(batch, batch_size if batch.size > 2 * batch_size else batch.size // 2)
        assert len(parts) > 1
        assert sum(part.count for part in parts) == batch.count
        lane.replace(batch, parts)
        lane.retry_at_ms = 0
        self._accumulator.replace(batch, parts)
        effects.append(BatchSplit(batch, tuple(parts)))

    def _refuse_sequence(
        self, now_ms: int, lane: Lane, batch: Batch, error: errors.PylogError
    ) -> None:
        """The broker misses something that came before this batch."""
        if lane.unresolved[0] is not batch:
            lane.retry_at_ms = max(lane.retry_at_ms, now_ms)  # what it misses is still on its way
            return
        self._faults.befell(lane.topic_partition, f"{error.name}: {error}")
        lane.open_gap()
        if batch.state is not BatchState.REFUSED:
            batch.become(BatchState.REFUSED)  # whether it may move shows when all are answered

    def _topic_was_replaced(self, lane: Lane, effects: list[Effect]) -> None:
        tp = lane.topic_partition
        for batch in list(lane.unresolved):
            self._fail(batch, topic_replaced(tp.topic), effects)
        self._busy.pop(tp, None)
        self.dispatcher.start_over(lane, self._metadata.topic_id(tp.topic))

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
            self.dispatcher.is_unsettled = True
            if not lane.gap and self.settings.idempotent and not lane.take_back(batch):
                lane.open_gap()
            self.dispatcher.leave(lane, batch)
        else:
            self._accumulator.drop(batch)
        self._accumulator.resolve(batch)
        effects.append(BatchFailed(batch, error, record_index))
        if self.transactions is not None:
            self.transactions.on_batch_failed(error, effects)

    def _expire(self, now_ms: int, effects: list[Effect]) -> None:
        incomplete = self._accumulator.incomplete
        while incomplete:
            batch = next(iter(incomplete))
            if batch.created_ms + self.settings.delivery_timeout_ms > now_ms:
                return
            tp, timeout_ms = batch.topic_partition, self.settings.delivery_timeout_ms
            led = self._metadata.leader(*tp) is not None
            self._fail(batch, timed_out(batch, timeout_ms, led, self._faults.of(tp)), effects)

    # ---- transactions -------------------------------------------------------------------------

    def _poll_transactions(
        self, now_ms: int, transactions: Transactions, effects: list[Effect]
    ) -> None:
        """Behind all that concerns batches, because a transaction ends when none is left."""
        self._drop_doomed(transactions, effects)
        if transactions.has_work:
            transactions.poll(
                now_ms,
                is_idle=not self._accumulator.incomplete,
                has_records=self.dispatcher.has_sequences,
                effects=effects,
            )

    def _drop_doomed(self, transactions: Transactions, effects: list[Effect]) -> None:
        """Fail what is not in flight, once the transaction is to be aborted."""
        doom = transactions.doom
        if doom is None:
            return
        for batch in [one for one in self._accumulator.incomplete if not one.in_flight]:
            self._fail(batch, copy.copy(doom), effects)

    # ---- overdue and broken streams -----------------------------------------------------------

    def _cut_overdue(self, now_ms: int, effects: list[Effect]) -> None:
        """Requests that nobody answers: look for a new leader, and in the end cut the stream."""
        topics: dict[str, None] = {}
        for broker, waited_ms, batches in self.pipes.stuck(now_ms):
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

    def _abandon(
        self,
        now_ms: int,
        broker: int,
        fault: str,
        effects: list[Effect],
        unsent: Container[Batch] = (),
    ) -> None:
        """Nothing on its way to the broker will be answered; the `unsent` did not arrive there."""
        self._faults.befell_all(fault)
        self.dispatcher.is_unsettled = True
        topics: dict[str, None] = {}
        for batch in self.pipes.cut(broker):
            batch.come_back()
            batch.maybe_stored |= batch not in unsent
            if batch.resolved:
                continue
            topics[batch.topic_partition.topic] = None
            self._faults.befell(batch.topic_partition, fault)
            lane = self._lanes[batch.topic_partition]
            lane.retry_at_ms = now_ms + self._backoff(lane.unresolved[0].attempts)
            if batch.attempts > self.settings.retries:
                self._fail(batch, errors.NetworkException(fault), effects)
        if self.settings.acks == 0:  # brokers that do not lead any more tell so in no other way
            topics = {tp.topic: None for tp, lane in self._lanes.items() if lane.broker == broker}
        if topics:
            effects.append(RefreshMetadata(tuple(topics)))

    # ---- gaps ---------------------------------------------------------------------------------

    def _settle_lanes(self, now_ms: int, effects: list[Effect]) -> None:
        for tp in [tp for tp in self._busy if self._lanes[tp].gap]:
            lane = self._lanes[tp]
            if lane.unresolved:
                if lane.any_in_flight or lane.unresolved[0].state is not BatchState.REFUSED:
                    continue  # an answer, or a time-out, is still to come
                if not lane.may_move:
                    self._fail_lane(lane, effects)
            if not lane.unresolved and lane.bridged:
                lane.become(LaneState.STEADY)
                del self._busy[tp]
            elif self._adopt_fresh_id(now_ms, lane, effects) and not lane.unresolved:
                del self._busy[tp]

    def _fail_lane(self, lane: Lane, effects: list[Effect]) -> None:
        first, *behind = lane.unresolved
        self._fail(first, may_not_move(first, self._faults.of(lane.topic_partition)), effects)
        for batch in behind:
            self._fail(batch, failed_before(batch), effects)

    def _adopt_fresh_id(self, now_ms: int, lane: Lane, effects: list[Effect]) -> bool:
        """Leave the producer id whose sequence broke; the batches that are left come along."""
        self._id.used_up(lane.producer_id)
        if not self._id.have(now_ms, effects):
            return False
        lane.adopt(self._id.number, self._id.epoch)
        return True

    def _backoff(self, attempts: int) -> int:
        return self.settings.backoff_ms(attempts, self._jitter())
