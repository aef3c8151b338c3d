"""Applications that send: the product's producer core, `Sender` with its accumulator, on simulated
streams.

The work of the product's shell on its loop is done here on simulated time: requests that wait for
one stream go in one message, a broken stream is made anew, metadata are asked for when the core
wants them. The outcome of each record is remembered, and compared with what is committed at the
end.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, assert_never

from pylog import errors
from pylog.client.producer.encoding import batch_bytes, split_batch
from pylog.client.sending.accumulator import Accumulator, AccumulatorSettings, TopicBuffer
from pylog.client.sending.producer_batch import RECORD_OVERHEAD, Batch
from pylog.client.sending.send_alone import SendAlone
from pylog.client.sending.send_events import (
    Ack,
    BatchDone,
    BatchFailed,
    BatchSplit,
    Disconnect,
    Effect,
    RefreshMetadata,
    RequestProducerId,
    SendRequest,
)
from pylog.client.sending.send_settings import SenderSettings
from pylog.client.sending.sender import Sender
from pylog.client.sending.transaction_events import (
    CommitOffsets,
    EndTransaction,
    FindCoordinator,
    InitProducer,
    OperationDone,
    TransactionRequest,
)
from pylog.client.sending.transactions import Transactions
from pylog.model import BrokerId, ProducerId, TopicId, TopicPartition
from pylog.records.compression import Compression
from pylog_broker.replication.produce_messages import PartitionAck, PartitionBatch, Produce
from tests.sim.client_metadata import KeptMetadata
from tests.sim.client_service import Answers, ProduceMessage
from tests.sim.contents import Original, fingerprint
from tests.sim.ghost import PartitionKey
from tests.sim.rpc import Actor, Machine, Rpc, unary
from tests.sim.violation import Violation

if TYPE_CHECKING:
    from tests.sim.cluster import Cluster

QUIET_MS = (500, 4_000)
MESSAGE_REQUESTS_MAX = 16
THE_THREAD = 1
BATCHES_REMEMBERED = 5
MAY_FAIL = frozenset(
    {
        errors.DeliveryTimedOut,
        errors.MessageTooLarge,
        errors.OutOfOrderSequenceNumber,
        errors.RecordListTooLarge,
        errors.UnknownTopicId,
        errors.UnknownTopicOrPartition,
    }
)
"""The errors that a record may fail with, whatever befalls the cluster."""


@dataclass(eq=False, slots=True)
class Fate:
    """One batch's records, by their number in the order of sending, and what became of them."""

    numbers: list[int] = field(default_factory=list)
    home: PartitionKey = (TopicId(""), -1)  # where it was last sent
    marks: list[int] = field(default_factory=list)  # fingerprints, under each producer id
    told: int = -2  # the offset of the "ok"; -1: it was none, -2: not acknowledged
    failed: bool = False


@dataclass(eq=False, slots=True)
class _Stream:
    """To one broker. Requests wait here until they are written."""

    rpc: Rpc
    queue: deque[tuple[int, Produce]] = field(default_factory=deque)
    is_waking: bool = False


class ProducerApp(Actor):
    """Sends until it is told to stop, or leaves. `acks` as in the product; without `idempotent`
    nothing is promised but what it is told.
    """

    may_fail: Collection[type[errors.PylogError]] = MAY_FAIL
    transactional_id = ""

    def __init__(self, cluster: Cluster, name: str, *, acks: int, idempotent: bool) -> None:
        super().__init__(Machine(name, cluster.scheduler, 0))
        self.cluster = cluster
        self.acks = acks
        self.idempotent = idempotent
        self.rng = cluster.scheduler.rng(name)
        self.stopped = False
        self.fates: list[Fate] = []
        self.producer_ids: list[ProducerId] = []
        clients = cluster.swarm.clients
        self._places = self.rng.choice(("key", "sticky", "chosen"))
        self._compression = Compression.of(self.rng.choice(clients.compressions), None)
        self._number = 0
        self._id_turn = self.rng.randrange(100)
        self._kept = KeptMetadata(cluster, self, self.rng, self._on_metadata)
        metadata = self._kept.metadata
        self.accumulator = Accumulator(
            AccumulatorSettings(
                batch_size=clients.batch_size,
                batch_max_size=clients.batch_size,
                linger_ms=clients.linger_ms,
                buffer_memory=64 * clients.batch_size,
            ),
            make_delivery=self._new_fate,
            available=metadata.available,
            draw=self.rng.randrange,
        )
        self._sending = SenderSettings(
            acks=acks,
            idempotent=idempotent,
            max_in_flight=clients.max_in_flight,
            max_request_size=4 * clients.batch_size,
            request_timeout_ms=clients.request_timeout_ms,
            delivery_timeout_ms=clients.delivery_timeout_ms,
            retry_backoff_ms=clients.retry_backoff_ms,
            retry_backoff_max_ms=8 * clients.retry_backoff_ms,
        )
        transactions = self._make_transactions()
        self._transactional_id = (
            "" if transactions is None else transactions.settings.transactional_id
        )
        self.sender = Sender(
            self._sending,
            self.accumulator,
            metadata,
            self.rng.random,
            lambda batch, size: split_batch(batch, size, self._new_fate),
            transactions,
        )
        self._alone = SendAlone(self.sender.dispatcher)
        self._streams: dict[int, _Stream] = {}
        # by partition and producer, the sequences of what was sent and may be stored
        self._sent: dict[tuple[TopicPartition, int, int], set[int]] = {}
        # by partition, the batches that were sent and whose fate is open, and the broker of each
        self._unsettled: dict[TopicPartition, dict[Batch, int]] = {}
        self._tick_at = -1
        self._last_words: set[TopicPartition] = set()

    def _make_transactions(self) -> Transactions | None:
        """The transactions of an application that sends in transactions; None for one that does
        not.
        """
        return None

    def _new_fate(self) -> Fate:
        fate = Fate()
        self.fates.append(fate)
        return fate

    # ---- the application

    def start(self) -> None:
        """Learn of the topic, then send."""
        self._kept.refresh_soon(self.cluster.TOPIC)
        self._step(self.sender.poll(self.now_ms()))
        self._write()

    def leave(self, *, orderly: bool) -> None:
        """No more records; after the last answer, or at once, it is gone."""
        self.stopped = True
        if not orderly:
            self._die()
            return
        self.accumulator.mark_all_due()
        self._step(self.sender.poll(self.now_ms()))
        self._gone_when_done()

    def _gone_when_done(self) -> None:
        if self.is_done:
            self._die()
        else:
            self.timer(100, self._gone_when_done)

    def _die(self) -> None:
        for broker in list(self._streams):
            self._close(broker)
        self.alive = False

    @property
    def is_done(self) -> bool:
        """Whether each record's fate is known."""
        return not self.accumulator.incomplete

    def now_ms(self) -> int:
        """The producer's monotonic clock."""
        return self.machine.now_ms()

    def _write(self) -> None:
        if self.stopped:
            return
        buffer = self._buffer()
        if buffer is not None:
            self._send_some(buffer)
        swarm = self.cluster.swarm
        wait_ms = self.rng.expovariate(1.0 / swarm.produce_interval_ms)
        if self.rng.random() < swarm.quiet_share:
            wait_ms += self.rng.randint(*QUIET_MS)
        self.timer(wait_ms, self._write)

    def _buffer(self) -> TopicBuffer | None:
        topic = self.cluster.TOPIC
        buffer = self.accumulator.topics.get(topic)
        count = self._kept.metadata.partition_count(topic)
        if buffer is None and count:
            buffer = self.accumulator.topic(topic, count)
            self.accumulator.claim(buffer, THE_THREAD)
        return buffer

    def _send_some(self, buffer: TopicBuffer) -> None:
        count = self.rng.randint(1, self.cluster.swarm.records_max)
        chosen = self.rng.randrange(buffer.partitions) if self._places == "chosen" else None
        upkeep = self.cluster.swarm.upkeep
        wanted = False
        batch: Batch | None = None
        for _ in range(count):
            key: bytes | None = None
            if upkeep is not None or self._places == "key":
                keys = upkeep.keys if upkeep is not None else 10
                key = b"%d" % self.rng.randrange(keys)
            is_deletion = upkeep is not None and self.rng.random() < upkeep.tombstone_share
            partition = buffer.partition_of(key) if key and self._places == "key" else chosen
            batch, opened = self._add(buffer, key, partition, is_deletion=is_deletion)
            wanted = wanted or opened
        if not wanted:
            return
        if batch is not None and count == 1 and self._sent_alone(batch):
            self.cluster.sometimes["sent past the queue"] += 1
            return
        self._step(self.sender.poll(self.now_ms()))

    def _add(
        self, buffer: TopicBuffer, key: bytes | None, partition: int | None, *, is_deletion: bool
    ) -> tuple[Batch | None, bool]:
        """The batch that the record went into, None when there is no room for it; and whether the
        sender should look.
        """
        number = self._number
        name = f"{self.name}.{number}"
        value = None if is_deletion else name.encode()
        # Two deletions of a key would be the same bytes.
        headers = [(name, b"")] if is_deletion else None
        size = RECORD_OVERHEAD + len(key or b"") + len(value or b"")
        size += len(name) + 10 if headers else 0
        place = buffer.sticky.current if partition is None else partition
        batch = buffer.open.get(place)
        wanted = False
        if batch is not None and batch.room < size:
            self.accumulator.close_batch(buffer, place)
            wanted, batch = True, None
            if partition is None and buffer.sticky.current == place:
                self.accumulator.advance_sticky(buffer)
            place = buffer.sticky.current if partition is None else place
            batch = buffer.open.get(place)
        if batch is None:
            if not self.accumulator.has_room(size):
                self.cluster.sometimes["no room in the accumulator"] += 1
                return None, True
            wanted |= self.accumulator.open_batch(self.now_ms(), buffer, place, size)
            batch = buffer.open[place]
        batch.add(value, key, headers, ~self.cluster.wall_ms(), size)
        batch.delivery.numbers.append(number)
        self._number += 1
        return batch, wanted

    def _sent_alone(self, batch: Batch) -> bool:
        """Whether the batch has gone past the queue, as one of a thread that sends now and then."""
        leader = self._kept.metadata.leader(*batch.topic_partition)
        stream = self._streams.get(leader.broker) if leader is not None else None
        if leader is None or stream is None or stream.queue or self.accumulator.linger_ms:
            return False
        request = self._alone.take(self.now_ms(), batch, leader.broker)
        if request is None:
            return False
        self._alone.request = None
        self._step([request])
        return True

    def say_last_words(self) -> None:
        """One record more to each partition, again until it is acknowledged: L1."""
        self.stopped = True
        buffer = self._buffer()
        if not self.alive or buffer is None:
            return
        count = self._kept.metadata.partition_count(buffer.name) or 0
        self._last_words = {TopicPartition(buffer.name, number) for number in range(count)}
        for tp in sorted(self._last_words):
            self._repeat_last_word(tp)
        self.accumulator.mark_all_due()
        self._step(self.sender.poll(self.now_ms()))

    @property
    def waits_for(self) -> list[str]:
        """The batches without an outcome, for a report and for L1."""
        if not self.alive:
            return []
        incomplete = self.accumulator.incomplete
        waiting = [batch for batch in incomplete if self._exists(batch.topic_partition)]
        words = [f"last word to {tp}" for tp in sorted(self._last_words) if self._exists(tp)]
        if incomplete and not waiting:
            words = []  # ... and may have all the memory until then
        return words + [f"{batch.topic_partition} {batch.delivery}" for batch in waiting]

    def _exists(self, tp: TopicPartition) -> bool:
        """Records for a partition that a topic made anew does not have wait for their time-out."""
        topic = self.cluster.topic()
        return topic is None or tp.partition in topic.partitions

    # ---- steps

    def _step(self, effects: Sequence[Effect]) -> None:
        """Carry out what the sender decided."""
        for effect in effects:
            self.cluster.scheduler.told(self.name, "wants", effect)
            match effect:
                case SendRequest():
                    self._send(effect)
                case RefreshMetadata(topics):
                    self._kept.refresh_soon(*topics)
                case Disconnect(broker):
                    self.cluster.sometimes["producer cuts a stream"] += 1
                    self._close(broker)
                case RequestProducerId():
                    self._request_id()
                case FindCoordinator() | InitProducer() | CommitOffsets() | EndTransaction():
                    self._ask_coordinator(effect)
                case BatchDone() | BatchFailed() | BatchSplit() | OperationDone():
                    pass  # below
                case _:
                    assert_never(effect)
        for effect in effects:
            match effect:
                case BatchDone():
                    self._done(effect)
                case BatchFailed():
                    self._failed(effect)
                case BatchSplit(batch, parts):
                    self._split(batch, parts)
                case OperationDone():
                    self._operation_done(effect)
        self._arm()

    def _ask_coordinator(self, request: TransactionRequest) -> None:
        """Something of a transaction, which this one has not."""
        raise AssertionError(request)

    def _operation_done(self, effect: OperationDone) -> None:
        """Likewise."""
        raise AssertionError(effect)

    def _arm(self) -> None:
        deadline = self.sender.next_deadline_ms(self.now_ms())
        if deadline is not None and (self._tick_at < 0 or deadline < self._tick_at):
            self._tick_at = deadline
            self.timer(max(1, deadline - self.now_ms()), self._tick, deadline)

    def _tick(self, deadline: int) -> None:
        if deadline == self._tick_at:
            self._tick_at = -1
            self._step(self.sender.poll(self.now_ms()))

    def _on_metadata(self) -> None:
        for name, buffer in self.accumulator.topics.items():
            count = self._kept.metadata.partition_count(name) or 0
            buffer.grow(max(count, buffer.partitions))
        self.accumulator.leaders_changed()
        self._step(self.sender.on_metadata(self.now_ms()))

    # ---- requests

    def _send(self, effect: SendRequest) -> None:
        stream = self._streams.get(effect.broker) or self._open(effect.broker)
        if self.idempotent:
            for batch in effect.batches:
                self._must_be_remembered(batch)
                self._must_follow(batch, effect.broker)
        if stream is None:
            return
        items = tuple(self._item(batch) for batch in effect.batches)
        request = Produce(
            self.acks,
            self.sender.settings.request_timeout_ms,
            items,
            transactional_id=self.transactional_id,
        )
        stream.queue.append((effect.correlation, request))
        if not stream.is_waking:
            stream.is_waking = True
            self.timer(self.rng.random() * 2, self._flush, effect.broker, stream)

    def _must_be_remembered(self, batch: Batch) -> None:
        """A broker knows the last five batches of a producer: one that is sent again is one of
        them, or it may be refused though it is stored.
        """
        sent = self._sent.setdefault(_lane_of(batch), set())
        behind = sorted(sequence for sequence in sent if sequence > batch.base_sequence)
        if len(behind) >= BATCHES_REMEMBERED:
            raise Violation(
                "C",
                f"{self.name}: {batch.topic_partition} sends sequence {batch.base_sequence} again, "
                f"and has sent {behind} behind it",
            )
        sent.add(batch.base_sequence)

    def _must_follow(self, batch: Batch, broker: int) -> None:
        """Check that a new batch goes to the broker to which all unsettled ones before it were
        sent, whose stream keeps the order. A part of a batch that was sent is not new.
        """
        sent = self._unsettled.setdefault(batch.topic_partition, {})
        others = [at for older, at in sent.items() if at != broker and not older.resolved]
        if batch.attempts == 1 and batch not in sent and others:
            raise Violation(
                "C",
                f"{self.name}: {batch.topic_partition} sends the new sequence "
                f"{batch.base_sequence} to {broker}, while older ones are at {others}",
            )
        sent[batch] = broker

    def _item(self, batch: Batch) -> PartitionBatch:
        tp = batch.topic_partition
        topic_id = TopicId(self._kept.metadata.topic_id(tp.topic))
        fresh = batch.encoded is None or batch.stamped_id != batch.producer_id
        values, keys = (batch.values, batch.keys) if batch.encoded is None else ([], None)
        if batch.encoded is None:
            values, keys, _ = batch.columns()
        known = self.cluster.shadows.contents
        fate: Fate = batch.delivery
        before = known.get(fate.marks[-1]) if fate.marks else None
        is_transactional = bool(self.transactional_id)
        data = batch_bytes(batch, self._compression, transactional=is_transactional)
        fate.home = (topic_id, tp.partition)
        if fresh:
            mark = fingerprint(data)
            if before is None:
                times = tuple(batch.times.of_all(batch.count))
                before = Original(
                    fate.home,
                    tuple(keys or [None] * len(values)),
                    tuple(values),
                    times,
                    is_transactional,
                )
            fate.marks.append(mark)
            known.sent(mark, before._replace(home=fate.home))
        return PartitionBatch(tp, topic_id, data)

    def _open(self, broker: int) -> _Stream | None:
        process = self.cluster.process(BrokerId(broker))
        if process is None or process.core is None:
            self.timer(1 + self.rng.random() * 20, self._refused, broker)
            return None
        rpc = Rpc(self.cluster.net, self, process, lambda: self._broken(broker, stream))
        stream = self._streams[broker] = _Stream(rpc)
        return stream

    def _refused(self, broker: int) -> None:
        if broker not in self._streams:
            self._step(self.sender.on_disconnected(self.now_ms(), broker, "nobody listens"))

    def _flush(self, broker: int, stream: _Stream) -> None:
        """Write what waits: several requests to a message."""
        stream.is_waking = False
        while stream.queue and stream.rpc.open:
            count = min(len(stream.queue), MESSAGE_REQUESTS_MAX)
            message = ProduceMessage(tuple(stream.queue.popleft() for _ in range(count)))
            process = self.cluster.server(stream.rpc)
            stream.rpc.request(
                process.clients.serve_produce,
                message,
                partial(self._answered, broker, stream),
                None,
            )
            for correlation, _ in message.requests if self.acks == 0 else ():
                self._step(self.sender.on_written(self.now_ms(), broker, correlation))

    def _answered(self, broker: int, stream: _Stream, answers: Answers | None) -> None:
        if answers is None or self._streams.get(broker) is not stream or self.acks == 0:
            return
        told = [(correlation, [_ack(ack) for ack in acks]) for correlation, acks in answers]
        self.cluster.scheduler.told(self.name, f"is answered by {broker}", told)
        self._step(self.sender.on_acks(self.now_ms(), broker, told))

    def _broken(self, broker: int, stream: _Stream) -> None:
        if self._streams.get(broker) is stream:
            del self._streams[broker]
            self.cluster.scheduler.told(self.name, "loses the stream to", broker)
            self._step(self.sender.on_disconnected(self.now_ms(), broker, "the stream broke"))

    def _close(self, broker: int) -> None:
        stream = self._streams.pop(broker, None)
        if stream is not None and stream.rpc.open:
            stream.rpc.close()

    # ---- the producer's id

    def _request_id(self) -> None:
        known = sorted(self._kept.metadata.brokers)
        self._id_turn += 1
        node = None
        if known:
            node = self.cluster.owners.get(BrokerId(known[self._id_turn % len(known)]))
        if node is None:
            self._kept.refresh_soon(self.cluster.TOPIC)
            self.timer(1, self._got_id, None)
            return
        if self.producer_ids:
            self.cluster.sometimes["fresh producer id"] += 1
        unary(
            self.cluster.net,
            self,
            lambda: node.process,
            lambda process, _value, answer: process.clients.new_producer_id(answer),
            None,
            self._got_id,
            500,
        )

    def _got_id(self, producer_id: ProducerId | None) -> None:
        if producer_id is None:
            error = errors.CoordinatorNotAvailable("no producer id")
            self._step(self.sender.on_producer_id_failed(self.now_ms(), error))
            return
        self.cluster.note_producer_id(producer_id)
        self.producer_ids.append(producer_id)
        self._step(self.sender.on_producer_id(self.now_ms(), producer_id, 0))

    # ---- outcomes

    def _done(self, effect: BatchDone) -> None:
        batch, fate = effect.batch, effect.batch.delivery
        self._unsettled.get(batch.topic_partition, {}).pop(batch, None)
        fate.told = effect.base_offset
        batch.forget_records()
        if self.acks == -1:
            self.cluster.sometimes["acknowledged"] += 1
        self.cluster.scheduler.note(
            "acked", self.name, str(batch.topic_partition), batch.base_sequence, effect.base_offset
        )
        self._last_words.discard(batch.topic_partition)

    def _failed(self, effect: BatchFailed) -> None:
        batch, error = effect.batch, effect.error
        batch.delivery.failed = True
        self._unsettled.get(batch.topic_partition, {}).pop(batch, None)
        tp = batch.topic_partition
        if not batch.maybe_stored:  # another one may have its sequence
            self._sent.get(_lane_of(batch), set()).discard(batch.base_sequence)
        self.cluster.scheduler.note("send fails", self.name, str(tp), batch.base_sequence, error)
        self.cluster.sometimes[f"send: {error.name}"] += 1
        if type(error) not in self.may_fail:
            raise Violation("C", f"{self.name}: a batch for {tp} failed with {error!r}")
        if tp in self._last_words:
            self.timer(100, self._repeat_last_word, tp)

    def _repeat_last_word(self, tp: TopicPartition) -> None:
        buffer = self._buffer()
        if buffer is None or tp not in self._last_words:
            return
        if any(batch.topic_partition == tp for batch in self.accumulator.incomplete):
            self.timer(100, self._repeat_last_word, tp)
            return
        batch, _ = self._add(buffer, b"0", tp.partition, is_deletion=False)
        if batch is None:
            self.timer(100, self._repeat_last_word, tp)
        self.accumulator.mark_all_due()
        self._step(self.sender.poll(self.now_ms()))

    def _split(self, batch: Batch, parts: Sequence[Batch]) -> None:
        self.cluster.sometimes["batch split"] += 1
        broker = self._unsettled.get(batch.topic_partition, {}).pop(batch, None)
        if broker is not None:
            self._unsettled[batch.topic_partition].update(dict.fromkeys(parts, broker))
        numbers = iter(batch.delivery.numbers)
        for part in parts:
            part.delivery.numbers = [next(numbers) for _ in range(part.count)]

    # ---- at the end

    def check_history(self) -> None:
        """Every "ok" of acks=all is committed at the offset told; of an idempotent producer nothing
        is there twice, and what it sent stands in the order in which it was sent.
        """
        places: dict[PartitionKey, dict[int, list[int]]] = {}
        shadows = self.cluster.shadows
        sent = [f for f in self.fates if f.marks and not shadows.ghost(*f.home).is_lossy]
        for fate in sent:
            if fate.home not in places:
                found: dict[int, list[int]] = {}
                for batch in self.cluster.shadows.ghost(*fate.home).committed:
                    found.setdefault(batch.mark, []).append(batch.base)
                places[fate.home] = found
        acked: dict[PartitionKey, list[tuple[int, list[int]]]] = {}
        seen: Counter[int] = Counter()
        for fate in sent:
            found = places[fate.home]
            at = [base for mark in fate.marks for base in found.get(mark, ())]
            if self.acks == -1:
                self._check_told(fate, at)
                if fate.told >= 0:
                    acked.setdefault(fate.home, []).append((fate.told, fate.numbers))
            for number in fate.numbers:
                seen[number] += len(at)
        if self.idempotent:
            self._check_once(seen)
            for home, batches in acked.items():
                self._check_order(home, batches)

    def _check_told(self, fate: Fate, at: list[int]) -> None:
        if fate.told >= -1 and not at:
            raise Violation("C", f"{self.name}: acknowledged {fate} is lost")
        if fate.told >= 0 and fate.told not in at:
            raise Violation("C", f"{self.name}: {fate} was told {fate.told}, is at {at}")

    def _check_once(self, seen: Counter[int]) -> None:
        homes = {fate.home for fate in self.fates if fate.marks}
        forgotten = (self.cluster.shadows.ghost(*home).sequences.forgotten for home in homes)
        if not set().union(*forgotten).isdisjoint(self.producer_ids):
            return  # its records were deleted before it heard of them
        twice = [number for number, times in seen.items() if times > 1]
        if twice:
            raise Violation("C", f"{self.name}: records {twice} are there more than once")

    def _check_order(self, home: PartitionKey, batches: list[tuple[int, list[int]]]) -> None:
        numbers = [number for _, sent in sorted(batches) for number in sent]
        for before, after in pairwise(numbers):
            if after < before:
                raise Violation(
                    "C", f"{self.name}: acknowledged {after} stands behind {before} in {home}"
                )


def _lane_of(batch: Batch) -> tuple[TopicPartition, int, int]:
    return batch.topic_partition, batch.producer_id, batch.producer_epoch


def _ack(ack: PartitionAck) -> Ack:
    failure = ack.failure
    code = 0 if failure is None else failure.code
    return Ack(
        code,
        "" if failure is None else failure.message,
        ack.base_offset,
        ack.log_append_time_ms,
        # as the product reads its message: 0 is "not set" and also a legal broker id
        ack.current_leader if code and ack.current_leader_epoch > 0 else -1,
        ack.current_leader_epoch,
        ack.record_index,
    )
