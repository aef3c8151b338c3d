"""The producer's half that lives on pylog's loop: it drains, encodes, sends and completes.

The shell around `accumulator` and `sender`. Users' threads add records under `lock`; the loop holds
it only while the sender decides. A thread that sends now and then, alone and without linger, does
the loop's part for its record itself (`at_hand`): to wake another thread for it costs more. So
decisions and what is written for them are made one at a time, under `turn`. The lock order is: it,
`lock`, a batch's delivery. Users' callbacks run outside of all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import random
import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, Final, assert_never

from pylog import errors
from pylog.client.background import LoopThread, logger
from pylog.client.cluster.cluster import Cluster
from pylog.client.cluster.cluster_settings import ClusterSettings
from pylog.client.cluster.message_sizes import TooLarge
from pylog.client.cluster.metadata import TopicInfo
from pylog.client.cluster.wire import error_of
from pylog.client.producer.delivery import Delivery
from pylog.client.producer.encoding import PlainTime, batch_bytes, compression_of, split_batch
from pylog.client.producer.produce_requests import OutgoingRequest, ProduceMessages, answers_of
from pylog.client.producer.producer_metrics import ProducerMetrics
from pylog.client.producer.transaction_calls import TransactionCalls
from pylog.client.sending.accumulator import Accumulator, AccumulatorSettings
from pylog.client.sending.producer_batch import Batch
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
from pylog.client.sending.send_settings import ACKS, SenderSettings
from pylog.client.sending.sender import Sender
from pylog.client.sending.transaction_events import (
    CommitOffsets,
    EndTransaction,
    FindCoordinator,
    InitProducer,
    OperationDone,
    TransactionAnswer,
    TransactionRequest,
)
from pylog.client.sending.transactions import Transactions, TransactionSettings
from pylog.client.streams.stream import PRODUCE, RequestStream
from pylog.clock import SYSTEM_CLOCK, Clock, busy_ns
from pylog.deadline_timer import DeadlineTimer
from pylog.model import NO_PRODUCER_ID
from pylog.records import compiled, kernels
from pylog.rpc import apis
from pylog.rpc.framing import Chunks
from pylog.rpc.produce_wire import Item
from pylog.rpc.v1 import log_pb2

PRODUCER_ID_S_MAX: Final = 3.0
"""The time that one broker may take to find a producer id before another is asked."""

HAND_OVER_BYTES: Final = 384 * 1024
"""A thread that has filled batches of this size since the loop last looked lets the loop run.

A thread that sends in a tight loop keeps the interpreter's lock for a whole switch interval (5 ms)
whenever the loop's thread needs it, and the loop needs it several times for one request: the
pipeline would run dry. So the sending thread truly waits, until the loop has written what is due.
More bytes mean fewer switches of threads, fewer mean a steadier stream: with a third of this a
single broker gets a sixth less, with half a megabyte three brokers do. A shorter switch interval
(`sys.setswitchinterval`) would do without the wait, but it is the process's, not ours.
"""
HAND_OVER_S_MAX: Final = 0.005
"""The longest such wait: by then the interpreter would have made the threads take turns anyway."""

KERNELS_BACKLOG_BYTES: Final = 1024 * 1024
"""Not acknowledged yet, with which a thread that sends waits for the kernels: three threads that
take turns load them in a second instead of a third, and most of that goes into plain encoding."""
KERNELS_MS_MAX: Final = 1_000
"""The longest such wait: what takes longer is compiled, not loaded, and is not waited for."""

FINISH_S_MAX: Final = 2.0
"""The time for which the end of a producer without acks waits until brokers have seen its last
records."""

_Stream = RequestStream[OutgoingRequest, log_pb2.ProduceResponse]


class ProducerLoop:
    """Methods without an underscore are for the users' threads."""

    def __init__(self, thread: LoopThread, values: Mapping[str, Any]) -> None:
        """Out of the parsed settings. Nothing connects before something is to be known or sent."""
        self.clock: Clock = SYSTEM_CLOCK
        self.thread = thread
        self.lock = threading.Lock()
        self.room = threading.Condition(self.lock)
        self._taken = threading.Condition(self.lock)  # the loop has written what was due
        self.turn = threading.RLock()
        self._rng = random.Random()
        self.compression = compression_of(values)
        self._compresses = values["compression.type"] != "none"
        self._acks = ACKS[values["acks"]]
        self._closed = False
        self._filled_bytes = 0  # of batches filled since the loop last looked
        self._plain_time = PlainTime()
        self._kernels: threading.Thread | None = None  # loads them
        self._kernels_until_ms = 0
        self._handing_over = 0  # threads that wait for `_taken`
        self._wake_pending = False  # `_on_wake` will run
        self._look_wanted = False  # something happened since the sender last looked
        self._timer = DeadlineTimer(self._poll)
        self.streams: dict[int, _Stream] = {}
        self._had_producer_id = False
        self._id_turn = self._rng.randrange(1_000)
        self._availability_timeout_ms: int = values["partitioner.availability.timeout.ms"]
        self._available: dict[str, tuple[int, list[int]]] = {}
        self.metrics = ProducerMetrics(self.clock.monotonic_ms())
        self.cluster = Cluster(
            thread, ClusterSettings.of(values), rng=self._rng, on_change=self._on_metadata
        )
        self._messages = ProduceMessages(
            self._acks,
            values["request.timeout.ms"],
            self.cluster.settings.client_id,
            values["transactional.id"] or "",
        )
        batch_size = min(values["batch.size"], values["max.request.size"])
        self.accumulator = Accumulator(
            AccumulatorSettings(
                batch_size=batch_size,
                batch_max_size=min(values["batch.max.size"], values["max.request.size"]),
                linger_ms=values["linger.ms"],
                buffer_memory=values["buffer.memory"],
                adaptive=values["partitioner.adaptive.partitioning.enable"],
            ),
            make_delivery=Delivery,
            available=self.available,
            draw=self._rng.randrange,
        )
        settings = SenderSettings.of(values)
        self.transactions = _transactions(values, settings, self._rng.random)
        self._is_transactional = self.transactions is not None
        self._transaction_calls = TransactionCalls(self.cluster, settings.delivery_timeout_ms)
        self.sender = Sender(
            settings,
            self.accumulator,
            self.cluster.metadata,
            self._rng.random,
            self._split,
            self.transactions,
        )
        thread.call(self._poll)

    # ---- for users' threads -------------------------------------------------------------------

    def wake(self) -> None:
        """Have the loop look. The lock is held."""
        self._look_wanted = True
        if not self._wake_pending:
            self._wake_pending = True
            self.thread.call(self._on_wake)

    def wake_surely(self) -> None:
        """The same after an interrupt, which may have come just before the loop was called."""
        self._wake_pending = False
        self.wake()

    def filled(self, batch: Batch) -> None:
        """The batch has all the bytes it was made for: have the loop send it, and now and then let
        the loop run. The lock is held, but for the waiting.
        """
        self._filled_bytes += batch.size - batch.counted
        batch.counted = batch.size
        if self._kernels is not None:
            self._wait_for_kernels(self._kernels)
        if self._filled_bytes < HAND_OVER_BYTES or self.thread.is_current():
            if not self.sender.dispatcher.would_wait(batch.topic_partition):
                self.wake()
            return
        self.wake()
        self._handing_over += 1
        self._taken.wait(HAND_OVER_S_MAX)
        self._handing_over -= 1

    def _wait_for_kernels(self, loading: threading.Thread) -> None:
        """A thread that sends faster than plain Python encodes leaves the processor to what loads
        the kernels. The lock is held, but for the waiting.
        """
        left_ms = self._kernels_until_ms - self.clock.monotonic_ms()
        if left_ms <= 0 or not loading.is_alive():
            self._kernels = None
        elif self.accumulator.used > KERNELS_BACKLOG_BYTES and not self.thread.is_current():
            self.wake()
            self.lock.release()
            try:
                loading.join(left_ms / 1000)
            finally:
                self.lock.acquire()

    def available(self, topic: str) -> list[int]:
        """The partitions that keyless records may go to: those that have a leader, and of these
        those whose leader takes what is sent to it (KIP-794).
        """
        metadata = self.cluster.metadata
        version, available = self._available.get(topic, (-1, []))
        if version != metadata.version:
            version, available = metadata.version, metadata.available(topic)
            self._available[topic] = (version, available)
        if self._availability_timeout_ms:
            now_ms = self.clock.monotonic_ms()
            stalled = self.sender.pipes.stalled(now_ms, self._availability_timeout_ms)
            if stalled:
                leader = metadata.leader
                quick = [
                    p
                    for p in available
                    if (led := leader(topic, p)) is not None and led.broker not in stalled
                ]
                return quick or available
        return available

    def adopt(self, transactional_id: str, producer_id: int, producer_epoch: int) -> None:
        """Continue a transaction that another producer has opened: all later records belong to
        it."""
        with self.turn, self.lock:
            self.sender.adopt(transactional_id, producer_id, producer_epoch)
            self._messages = replace(self._messages, transactional_id=transactional_id)

    # ---- the end ------------------------------------------------------------------------------

    async def shut_down(self) -> None:
        """Fail what is left, and let go of streams and connections."""
        self._closed = True
        self._timer.cancel()
        with self.turn, self.lock:
            effects = self.sender.fail_all(
                errors.ClientClosed("the producer was closed before the record was acknowledged")
            )
            if self.transactions is not None:
                self.transactions.end(errors.ClientClosed("the producer is closed"), effects)
            self.room.notify_all()
        self._perform(effects)
        self._tell(effects)
        if self._acks == 0:  # nobody has said that it arrived
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FINISH_S_MAX):
                    streams = self.streams.values()
                    await asyncio.gather(*(s.finish() for s in streams), return_exceptions=True)
        with self.turn:
            for stream in self.streams.values():
                stream.close()
            self.streams.clear()
        await self.cluster.close()

    # ---- steps --------------------------------------------------------------------------------

    def _on_wake(self) -> None:
        with self.lock:
            self._wake_pending = False
            wanted = self._look_wanted
        if wanted:
            self._poll()
        elif self._handing_over:
            self._let_go()

    def _poll(self) -> None:
        if not self._closed:
            self._step(self.sender.poll)

    def _step(self, event: Callable[..., list[Effect]], *arguments: Any) -> None:
        """Give the sender an event and carry out what it decides."""
        now_ms = self.clock.monotonic_ms()
        with self.turn:
            with self.lock:
                self._look_wanted = False  # whatever the event is, the sender looks at everything
                self._filled_bytes = 0
                effects = event(now_ms, *arguments)
                deadline_ms = self.sender.next_deadline_ms(now_ms)
            self._perform(effects)
            if not self._closed:
                self._timer.set(self.thread.loop, now_ms, deadline_ms)
        self._tell(effects)
        if self._handing_over:
            self.thread.loop.call_soon(self._let_go)  # behind the writers that were woken

    def _let_go(self) -> None:
        with self.lock:
            self._taken.notify_all()

    def look_within(self, now_ms: int, time_ms: int) -> None:
        """Have the loop look not later than then. Any thread."""
        if not self._timer.is_due_by(now_ms + time_ms):
            self.thread.call(self._poll)

    def _perform(self, effects: list[Effect]) -> None:
        """Everything that is not for the user."""
        for effect in effects:
            match effect:
                case SendRequest():
                    try:
                        self._send(effect)
                    except Exception as error:  # noqa: BLE001  other effects come behind it
                        self.not_sent(effect, error)
                case RefreshMetadata(topics):
                    self.cluster.refresh_soon(*topics)
                case Disconnect(broker):
                    self.metrics.disconnected(broker)
                    stream = self.streams.pop(broker, None)
                    if stream is not None:
                        stream.close(abort=True)
                case RequestProducerId():
                    self._request_producer_id()
                case FindCoordinator() | InitProducer() | CommitOffsets() | EndTransaction():
                    self._ask_coordinator(effect)
                case BatchDone() | BatchFailed() | BatchSplit() | OperationDone():
                    pass  # `_tell`
                case _:
                    assert_never(effect)

    def _tell(self, effects: list[Effect]) -> None:
        """The outcome of records. Users' callbacks run in here: no lock is held."""
        finished = False
        for effect in effects:
            match effect:
                case BatchDone(batch, base_offset, log_append_time_ms):
                    finished = True
                    self.metrics.batch_done(batch)
                    batch.forget_records()
                    batch.delivery.succeed(
                        batch.topic_partition, base_offset, log_append_time_ms, batch.times
                    )
                case BatchFailed(batch, error, record_index):
                    finished = True
                    self.metrics.records_failed(batch.count)
                    batch.forget_records()
                    batch.delivery.fail(error, record_index)
                case BatchSplit(batch, parts):
                    self.metrics.batch_split()
                    batch.delivery.split([(part.count, part.delivery) for part in parts])
                case OperationDone(operation, failure):
                    operation.waiter.set_result(failure)
                case SendRequest() | RefreshMetadata() | Disconnect() | RequestProducerId():
                    pass  # `_perform`
                case FindCoordinator() | InitProducer() | CommitOffsets() | EndTransaction():
                    pass  # the same
                case _:
                    assert_never(effect)
        if finished:
            with self.lock:
                if self.accumulator.room_is_worth_waking:
                    self.room.notify_all()

    # ---- requests -----------------------------------------------------------------------------

    def _send(self, effect: SendRequest) -> None:
        stream = self.streams.get(effect.broker) or self._open_stream(effect.broker)
        if stream is not None:
            stream.send(self.outgoing(effect))

    def outgoing(self, effect: SendRequest) -> OutgoingRequest:
        topic_id = self.cluster.metadata.topic_id
        now_ms = self.clock.monotonic_ms()
        items = []
        size = 0
        for batch in effect.batches:
            raw_size = batch.size if self._compresses else 0
            data = self._encoded(now_ms, batch)
            size += len(data)
            self.metrics.batch_sent(now_ms, batch, len(data), raw_size)
            topic, partition = batch.topic_partition
            items.append(Item(topic, topic_id(topic), partition, data))
        self.metrics.request_sent(now_ms, effect.broker, effect.correlation, size)
        return OutgoingRequest(effect.correlation, items, size)

    def _encoded(self, now_ms: int, batch: Batch) -> bytes:
        if self._kernels_until_ms or compiled.is_loaded():
            return batch_bytes(batch, self.compression, transactional=self._is_transactional)
        began_ns = busy_ns()
        data = batch_bytes(batch, self.compression, transactional=self._is_transactional)
        if self._plain_time.is_too_long(now_ms, busy_ns() - began_ns):
            self._kernels_until_ms = now_ms + KERNELS_MS_MAX
            self._kernels = kernels.warm_in_background()
        return data

    def not_sent(self, effect: SendRequest, error: Exception) -> None:
        """A request could not be made. Its batches fail; the effects behind it are other ones'."""
        logger.error("a request could not be made", exc_info=error)
        call, broker, correlation = self.thread.loop.call_soon, effect.broker, effect.correlation
        if self._acks == 0:
            call(self._step, self.sender.on_written, broker, correlation)
            return
        fault = Ack(errors.InvalidRecord.code, f"the batch cannot be made: {error!r}")
        answer = (correlation, [fault] * len(effect.batches))
        call(self._step, self.sender.on_acks, broker, [answer])

    def _split(self, batch: Batch, size: int) -> list[Batch]:
        return split_batch(batch, size, Delivery)

    def _open_stream(self, broker: int) -> _Stream | None:
        server = self.cluster.broker(broker)
        if server is None:  # gone from metadata since the sender looked
            fault = f"broker {broker} is not alive"
            self.thread.loop.call_soon(self._step, self.sender.on_disconnected, broker, fault)
            return None
        stream = self.streams[broker] = RequestStream(
            broker,
            server,
            self.cluster,
            PRODUCE,
            on_response=self._on_response,
            on_written=self._on_written if self._acks == 0 else None,
            on_broken=self._on_broken,
            pack=self._pack,
            lock=self.turn,
        )
        return stream

    def _pack(self, queue: deque[OutgoingRequest]) -> tuple[Chunks, list[int]]:
        return self._messages.pack(queue)

    def _on_response(self, broker: int, response: log_pb2.ProduceResponse) -> None:
        answers = answers_of(response)
        now_ms = self.clock.monotonic_ms()
        for correlation, _ in answers:
            self.metrics.request_answered(now_ms, broker, correlation)
        self._step(self.sender.on_acks, broker, answers)

    def _on_written(self, broker: int, correlations: list[int]) -> None:
        now_ms = self.clock.monotonic_ms()
        for correlation in correlations:
            self.metrics.request_answered(now_ms, broker, correlation)
            self._step(self.sender.on_written, broker, correlation)

    def _on_broken(self, stream: _Stream, fault: str, too_large: TooLarge | None) -> None:
        if self.streams.get(stream.broker) is stream and not self._closed:
            with self.turn:
                del self.streams[stream.broker]
            self.metrics.disconnected(stream.broker)
            if stream.went_idle:
                return  # the next request opens another
            if too_large is not None:
                self._messages = self._messages.smaller(too_large.limit)
            self._step(self.sender.on_disconnected, stream.broker, fault, too_large)

    def _on_metadata(self, _faulty: list[TopicInfo]) -> None:
        metadata = self.cluster.metadata
        with self.lock:
            for name, buffer in self.accumulator.topics.items():
                buffer.grow(max(metadata.partition_count(name) or 0, buffer.partitions))
            self.accumulator.leaders_changed()
        self._step(self.sender.on_metadata)

    def break_off(self, broker: int) -> None:
        """A request was not written whole: cut its stream."""
        stream = self.streams.get(broker)
        if stream is not None:
            stream.close(abort=True)
            self._on_broken(stream, "the thread that wrote to it was interrupted", None)

    # ---- the producer's id --------------------------------------------------------------------

    def _request_producer_id(self) -> None:
        if self._had_producer_id:
            self._had_producer_id = False
            logger.warning(
                "the sequence of a partition broke (a batch failed, or a broker lost records): "
                "going on with a fresh producer id"
            )
        task = asyncio.ensure_future(self._fetch_producer_id())
        task.add_done_callback(self._on_producer_id)

    async def _fetch_producer_id(self) -> tuple[int, int]:
        cluster = self.cluster
        cluster.start()
        await cluster.connected(cluster.settings.default_api_timeout_ms)
        brokers = sorted(cluster.metadata.brokers)
        # Another broker each time: one that was started while the controller is away has no ids.
        self._id_turn += 1
        server = cluster.broker(brokers[self._id_turn % len(brokers)]) if brokers else None
        if server is None:
            cluster.refresh_soon()
            raise errors.CoordinatorNotAvailable("the cluster has no live broker yet")
        request = log_pb2.InitProducerIdRequest(
            producer_id=NO_PRODUCER_ID,
            producer_epoch=NO_PRODUCER_ID,
            client_id=cluster.settings.client_id,
            delivery_timeout_ms=self.sender.settings.delivery_timeout_ms,
        )
        timeout_s = min(cluster.settings.request_timeout_ms / 1000, PRODUCER_ID_S_MAX)
        response = await server.call(apis.INIT_PRODUCER_ID, request, timeout_s)
        error = error_of(response.error, "InitProducerId")
        if isinstance(error, errors.ThrottlingQuotaExceeded):
            error.throttle_time_ms = response.throttle_time_ms
        if error is not None:
            raise error
        return response.producer_id, response.producer_epoch

    def _on_producer_id(self, task: asyncio.Task[tuple[int, int]]) -> None:
        if task.cancelled():
            return
        error = task.exception()  # looked at also after the end, or asyncio complains of it
        if self._closed:
            return
        if error is None:
            self._had_producer_id = True
            self._step(self.sender.on_producer_id, *task.result())
            return
        if not isinstance(error, errors.PylogError):
            logger.error("asking for a producer id failed", exc_info=error)
            error = errors.UnknownServerError(repr(error))
        if isinstance(error, errors.StaleMetadataError):
            self.cluster.refresh_soon()
        self._step(self.sender.on_producer_id_failed, error)

    # ---- transactions -------------------------------------------------------------------------

    def _ask_coordinator(self, request: TransactionRequest) -> None:
        task = asyncio.ensure_future(self._transaction_calls.call(request))
        task.add_done_callback(functools.partial(self._on_coordinator, request))

    def _on_coordinator(
        self, request: TransactionRequest, task: asyncio.Task[TransactionAnswer]
    ) -> None:
        if task.cancelled():
            return
        error = task.exception()  # looked at also after the end, or asyncio complains of it
        if self._closed:
            return
        if error is None:
            self._step(self.sender.on_transaction_answer, request, task.result())
            return
        if not isinstance(error, errors.PylogError):
            logger.error("asking a coordinator failed", exc_info=error)
            error = errors.UnknownServerError(repr(error))
        if isinstance(error, errors.StaleMetadataError):
            self.cluster.refresh_soon()
        self._step(self.sender.on_no_transaction_answer, request, error)


def _transactions(
    values: Mapping[str, Any], sending: SenderSettings, jitter: Callable[[], float]
) -> Transactions | None:
    name = values["transactional.id"]
    if name is None:
        return None
    settings = TransactionSettings(
        name, values["transaction.timeout.ms"], values["transaction.two.phase.commit.enable"]
    )
    return Transactions(settings, sending, jitter, Future)
