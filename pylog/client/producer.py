"""`Producer`: records in, acknowledged batches out.

The shell around `accumulator` and `sender`. Users' threads add records under one lock; pylog's
loop thread drains, encodes, sends and completes, with the same lock held only while the sender
decides. The lock order is: producer, then a batch's delivery.
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from pylog import errors
from pylog.client.accumulator import Accumulator, Batch, HeaderList, TopicBuffer
from pylog.client.background import close_at_exit, logger, shared_loop
from pylog.client.cluster import Cluster, ClusterSettings
from pylog.client.delivery import Delivery, DeliveryHandle, OnDelivery
from pylog.client.encoding import (
    batch_bytes,
    compression_of,
    header_list,
    load_kernels,
    record_size,
    to_bytes,
)
from pylog.client.metadata import TopicInfo
from pylog.client.not_offered import PRODUCER_NOT_OFFERED, refuse_later
from pylog.client.produce_requests import (
    EncodedBatch,
    OutgoingRequest,
    ProduceMessages,
    answers_of,
)
from pylog.client.send_events import (
    BatchDone,
    BatchFailed,
    Disconnect,
    Effect,
    RefreshMetadata,
    RequestProducerId,
    SendRequest,
)
from pylog.client.sender import Sender, SenderSettings
from pylog.client.settings import PRODUCER_SETTINGS
from pylog.client.stream import RequestStream
from pylog.client.wire import error_of
from pylog.clock import SYSTEM_CLOCK, Clock
from pylog.model import RecordMetadata, TopicPartition
from pylog.records.batch import read_header
from pylog.rpc.v1 import log_pb2

if TYPE_CHECKING:
    import pyarrow as pa


PRODUCER_ID_S_MAX: Final = 3.0
"""How long one broker may take to find a producer id before another is asked."""
HAND_OVER_BYTES: Final = 64 * 1024
"""A thread that has filled batches of this size since the loop last looked lets the loop run.

A thread that sends in a tight loop keeps the interpreter's lock for a whole switch interval (5 ms)
whenever the loop's thread needs it, and the loop needs it several times for one request: the
pipeline would run dry. So the sending thread truly waits, until the loop has written what is due.
More bytes mean fewer switches of threads, fewer mean a steadier stream.
"""
HAND_OVER_S_MAX: Final = 0.005
"""The longest such wait: by then the interpreter would have made the threads take turns anyway."""

_Stream = RequestStream[OutgoingRequest, log_pb2.ProduceResponse]


class Producer:
    """Sends records. Thread safe. Idempotent unless told otherwise: no retry stores one twice.

    Settings are Kafka's with underscores (`linger_ms=5`); an unknown one raises InvalidConfig,
    which names the nearest. Nothing connects before the first call that needs the cluster.
    """

    def __init__(self, *, bootstrap_servers: str | Iterable[str], **config: Any) -> None:
        values = _settings(bootstrap_servers, config)
        self._clock: Clock = SYSTEM_CLOCK
        self._rng = random.Random()
        self._acks = {"all": -1, "-1": -1, "0": 0, "1": 1}[values["acks"]]
        self._max_block_ms: int = values["max.block.ms"]
        self._max_request_size: int = values["max.request.size"]
        self._compression = compression_of(values)
        self._partitioner: Callable[..., int] | None = values["partitioner"]
        both = values["serializer"]
        self._serialize_key: Callable[[str, Any], bytes | None] | None = (
            values["key.serializer"] or both
        )
        self._serialize_value: Callable[[str, Any], bytes | None] | None = (
            values["value.serializer"] or both
        )
        self._closed = False
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._taken = threading.Condition(self._lock)  # the loop has written what was due
        self._filled_bytes = 0  # of batches filled since the loop last looked
        self._kernels_loaded = False
        self._handing_over = 0  # threads that wait for `_taken`
        self._wake_pending = False  # `_on_wake` will run
        self._look_wanted = False  # something happened since the sender last looked
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self._streams: dict[int, _Stream] = {}
        self._had_producer_id = False
        self._id_turn = self._rng.randrange(1_000)
        self._counts: Counter[str] = Counter()
        self._available: dict[str, tuple[int, list[int]]] = {}
        self._thread = shared_loop()
        self._cluster = Cluster(
            self._thread, ClusterSettings.of(values), rng=self._rng, on_change=self._on_metadata
        )
        self._messages = ProduceMessages(
            self._acks, values["request.timeout.ms"], self._cluster.settings.client_id
        )
        self._accumulator = Accumulator(
            batch_size=min(values["batch.size"], self._max_request_size),
            linger_ms=values["linger.ms"],
            buffer_memory=values["buffer.memory"],
            make_delivery=Delivery,
            available=self._available_partitions,
            first_sticky=self._rng.randrange,
        )
        self._sender = Sender(
            _sender_settings(values, self._acks),
            self._accumulator,
            self._cluster.metadata,
            self._rng.random,
        )
        self._batch_size = self._accumulator.batch_size
        self._topics = self._accumulator.topics
        self._thread.call(self._poll)
        close_at_exit(self)

    # ---- sending ------------------------------------------------------------------------------

    def send(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        headers: Iterable[tuple[str, Any]] | Mapping[str, Any] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> DeliveryHandle:
        """A handle on the record's outcome, at once; the record leaves with its batch.

        `on_delivery(metadata, error)` is called on pylog's thread, one of the two being None.
        Blocks up to `max_block_ms` for the topic's metadata and for room in `buffer_memory`.
        Raises UnknownTopicOrPartition, MessageTooLarge, BufferExhausted, SerializationFailed,
        BootstrapFailed, ClientClosed; whatever happens later is the handle's.
        """
        buffer = self._topics.get(topic)
        if buffer is None or self._closed:
            buffer = self._topic_buffer(topic)
        if self._serialize_value is not None:
            value = self._serialized(self._serialize_value, topic, value, "value")
        elif type(value) is not bytes and value is not None:
            value = to_bytes(value, topic, "value")
        size = 21 if value is None else len(value) + 21  # RECORD_OVERHEAD, without a global look-up
        if key is not None or self._serialize_key is not None:
            if self._serialize_key is not None:
                key = self._serialized(self._serialize_key, topic, key, "key")
            elif type(key) is not bytes:
                key = to_bytes(key, topic, "key")
            if key is not None:
                size += len(key)
        pairs: HeaderList | None = None
        if headers:
            pairs = header_list(headers, topic)
            size += record_size(pairs)
        if size > self._max_request_size:
            raise self._too_large(topic, size)
        if timestamp_ms is None:
            timestamp_ms = self._clock.wall_ms()
        elif timestamp_ms < 0:
            raise errors.InvalidTimestamp(
                f"topic {topic}: timestamp_ms={timestamp_ms}; it must be 0 or more, in "
                f"milliseconds since 1970"
            )
        if partition is not None:
            self._check_partition(buffer, partition)
        elif self._partitioner is not None:
            partition = self._partitioner(topic, key, value, buffer.partitions)
            self._check_partition(buffer, partition)
        with self._lock:
            if partition is None and key is not None:
                partition = buffer.partition_of(key)
            batch = buffer.open.get(buffer.sticky if partition is None else partition)
            if batch is None or batch.size + size > self._batch_size:
                batch = self._open_batch(buffer, partition, size)
            index = batch.add(value, key, pairs, timestamp_ms, size)
            if on_delivery is not None:
                batch.delivery.on_delivery(index, on_delivery)
        return DeliveryHandle(batch.delivery, index)

    def _open_batch(self, buffer: TopicBuffer, partition: int | None, size: int) -> Batch:
        """A batch with room for the record, in any partition if none is asked for.

        The lock is held, and given up while waiting for memory.
        """
        if not self._kernels_loaded and self._accumulator.incomplete:
            self._load_kernels()
        while True:
            number = buffer.sticky if partition is None else partition
            batch = buffer.open.get(number)
            if batch is None:
                self._wait_for_room(buffer, number, size, size)
                batch = buffer.open.get(number)
            if batch is None:
                if self._accumulator.open_batch(self._clock.monotonic_ms(), buffer, number, size):
                    self._wake()
                return buffer.open[number]
            if batch.size + size <= self._batch_size:
                return batch  # another thread's
            # It is full, and due with that; keyless records go on to the next partition.
            self._accumulator.close_batch(buffer, number)
            self._hand_over(batch)

    def _load_kernels(self) -> None:
        """Records come faster than they are acknowledged, so large batches are near: the thread
        that sends them loads the encoder, not the loop. The lock is held, but for the loading.
        """
        self._kernels_loaded = True
        if not self._thread.is_current():
            self._lock.release()
            try:
                load_kernels()
            finally:
                self._lock.acquire()

    def _hand_over(self, batch: Batch) -> None:
        """The batch was filled: have the loop send it, and now and then let the loop run.

        The lock is held, but for the waiting.
        """
        self._filled_bytes += batch.size
        if self._filled_bytes < HAND_OVER_BYTES or self._thread.is_current():
            if not self._sender.would_wait(batch.topic_partition):
                self._wake()
            return
        self._wake()
        self._handing_over += 1
        self._taken.wait(HAND_OVER_S_MAX)
        self._handing_over -= 1

    def send_arrow(
        self, topic: str, data: pa.RecordBatch | pa.Table, *, partition: int | None = None
    ) -> Future[list[RecordMetadata]]:
        """Send every row; a Future of one RecordMetadata per record batch written, which names
        its partition, its first offset and its first timestamp (rows are not looked at one by one).

        Columns: `value` (binary or string), and optionally `key`, `headers`
        (list<struct<key: string, value: binary>>), `partition` (int) and `timestamp` (timestamp,
        or int milliseconds). Rows with a key go where `send` would put them; rows without one stay
        together. Order is kept per partition. Blocks as `send` does when the buffer is full.
        The Future fails with the first error; other batches may have been written all the same.
        """
        from pylog.client.arrow import ARROW_BATCH_BYTES, encode_rows

        buffer = self._topic_buffer(topic)
        if partition is not None:
            self._check_partition(buffer, partition)
        handles = []
        for number, encoded in encode_rows(
            topic,
            data,
            partitions=buffer.partitions,
            partition=partition,
            batch_size=min(max(self._batch_size, ARROW_BATCH_BYTES), self._max_request_size),
            compression=self._compression,
            now_ms=self._clock.wall_ms(),
        ):
            if len(encoded) > self._max_request_size:
                raise self._too_large(topic, len(encoded))
            handles.append(self._add_encoded(buffer, number, encoded))
        return _gather(handles)

    def _add_encoded(
        self, buffer: TopicBuffer, partition: int | None, encoded: bytes
    ) -> DeliveryHandle:
        header = read_header(encoded)
        with self._lock:
            number = buffer.sticky if partition is None else partition
            self._wait_for_room(buffer, number, len(encoded), None)
            target = TopicPartition(buffer.name, number)
            batch = self._accumulator.add_encoded(
                self._clock.monotonic_ms(),
                target,
                encoded,
                header.record_count,
                header.base_timestamp,
            )
            self._wake()
        return DeliveryHandle(batch.delivery, 0)

    def _wait_for_room(
        self, buffer: TopicBuffer, partition: int, size: int, open_size: int | None
    ) -> None:
        """Return once buffer.memory takes another batch, or (with `open_size`) another thread has
        opened one that takes a record of that size. The lock is held, but for the waiting.
        """
        deadline: int | None = None
        while True:
            if self._closed:
                raise errors.ClientClosed("the producer is closed")
            batch = buffer.open.get(partition) if open_size is not None else None
            if batch is not None and batch.size + (open_size or 0) <= self._batch_size:
                return
            if self._accumulator.has_room(size):
                return
            now_ms = self._clock.monotonic_ms()
            deadline = deadline if deadline is not None else now_ms + self._max_block_ms
            if now_ms >= deadline or self._thread.is_current():
                raise errors.BufferExhausted(
                    f"{buffer.name}-{partition}: buffer_memory={self._accumulator.buffer_memory} "
                    f"is full of unacknowledged records and stayed so for max_block_ms="
                    f"{self._max_block_ms}; send slower, raise either, or look at the brokers"
                )
            if self._accumulator.only_open:
                self._accumulator.mark_all_due()  # else memory comes back without
            self._wake()
            self._room.wait((deadline - now_ms) / 1000)

    def _topic_buffer(self, topic: str) -> TopicBuffer:
        """The topic's buffer, once the cluster told how many partitions it has."""
        if self._closed:
            raise errors.ClientClosed("the producer is closed")
        if not isinstance(topic, str) or not topic:
            raise errors.InvalidTopic(f"the topic must be a text that is not empty, not {topic!r}")
        known = self._topics.get(topic)
        if known is not None:
            return known
        info = self._thread.run(self._cluster.topic(topic, self._max_block_ms))
        with self._lock:
            return self._accumulator.topic(topic, len(info.partitions))

    def _check_partition(self, buffer: TopicBuffer, partition: int) -> None:
        if isinstance(partition, int) and 0 <= partition < buffer.partitions:
            return
        if isinstance(partition, int) and partition >= buffer.partitions:
            # Perhaps the topic has grown: ask once.
            self._thread.run(self._refresh_once(buffer.name))
            if partition < buffer.partitions:
                return
        raise errors.UnknownTopicOrPartition(
            f"topic {buffer.name} has partitions 0 to {buffer.partitions - 1}; there is no "
            f"partition {partition!r}"
        )

    async def _refresh_once(self, topic: str) -> None:
        try:
            await asyncio.wait_for(self._cluster.refresh(topic), self._max_block_ms / 1000)
        except TimeoutError:
            raise self._cluster.unreachable(self._max_block_ms) from None

    def _serialized(
        self, serialize: Callable[[str, Any], bytes | None], topic: str, data: Any, what: str
    ) -> bytes | None:
        try:
            return to_bytes(serialize(topic, data), topic, what)
        except errors.PylogError:
            raise
        except Exception as error:
            self._counts["records-failed"] += 1
            raise errors.SerializationFailed(
                f"topic {topic}: the serializer failed on the {what}: {error!r}"
            ) from error

    def _too_large(self, topic: str, size: int) -> errors.MessageTooLarge:
        return errors.MessageTooLarge(
            f"topic {topic}: the record takes up to {size} bytes; max_request_size is "
            f"{self._max_request_size}. Raise it, and the topic's max.message.bytes with it"
        )

    # ---- waiting ------------------------------------------------------------------------------

    def flush(self, timeout: float | None = None) -> None:
        """Return when everything sent before is acknowledged or failed; RequestTimedOut after
        `timeout` seconds. What failed is told by its handle, not here.
        """
        if self._thread.is_current():
            raise errors.WrongThread("flush() inside a callback would wait for its own thread")
        with self._lock:
            batches = list(self._accumulator.incomplete)
            self._accumulator.mark_all_due()
            self._wake()
        deadline = None if timeout is None else self._clock.monotonic_ms() + int(timeout * 1000)
        for i, batch in enumerate(batches):
            left = None if deadline is None else (deadline - self._clock.monotonic_ms()) / 1000
            if not batch.delivery.wait(left):
                waiting = [b for b in batches[i:] if not b.delivery.done]
                raise errors.RequestTimedOut(
                    f"flush: {sum(b.count for b in waiting)} records in {len(waiting)} batches "
                    f"are not acknowledged after {timeout} s, the first in "
                    f"{batch.topic_partition}"
                )

    def partitions_for(self, topic: str) -> list[int]:
        """The topic's partition numbers."""
        return list(range(self._topic_buffer(topic).partitions))

    def refresh(self, topic: str) -> None:
        """Look the topic up anew, for who keeps a producer idle over times in which a topic may
        grow, or be deleted and created again. Raises UnknownTopicOrPartition and BootstrapFailed.
        """
        self._topic_buffer(topic)
        self._thread.run(self._refresh_once(topic))
        self._thread.run(self._cluster.topic(topic, self._max_block_ms))

    def metrics(self) -> dict[str, float]:
        """Counters since the start, and present levels, under Kafka's names where it has them."""
        with self._lock:
            return {
                "record-send-total": self._counts["records-sent"],
                "record-error-total": self._counts["records-failed"],
                "batch-send-total": self._counts["batches-sent"],
                "request-total": self._counts["requests"],
                "byte-total": self._counts["bytes"],
                "batches-incomplete": len(self._accumulator.incomplete),
                "requests-in-flight": self._sender.requests_in_flight,
                "buffer-total-bytes": self._accumulator.buffer_memory,
                "buffer-available-bytes": self._accumulator.buffer_memory - self._accumulator.used,
            }

    def close(self, timeout: float | None = None) -> None:
        """Send what is buffered, wait up to `timeout` seconds (None: until `delivery_timeout_ms`
        settles it), fail the rest with ClientClosed, and let go of connections.
        """
        if self._closed:
            return
        try:
            if not self._thread.is_current():
                self.flush(timeout)
        except errors.RequestTimedOut as error:
            logger.warning("producer closed with records outstanding: %s", error)
        finally:
            self._closed = True
            closing = self._thread.start(self._shut_down())
            if not self._thread.is_current():
                closing.result()

    def close_at_exit(self) -> None:
        """The interpreter ends without a `close()`: a last moment for what is buffered."""
        self.close(timeout=1.0)

    async def _shut_down(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        with self._lock:
            effects = self._sender.fail_all(
                errors.ClientClosed("the producer was closed before the record was acknowledged")
            )
            self._room.notify_all()
        self._perform(effects)
        for stream in self._streams.values():
            stream.close()
        self._streams.clear()
        await self._cluster.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., Any]:
            return refuse_later("Producer", name, PRODUCER_NOT_OFFERED)

    # ---- the loop's side ----------------------------------------------------------------------

    def _wake(self) -> None:
        """Have the loop look. The lock is held."""
        self._look_wanted = True
        if not self._wake_pending:
            self._wake_pending = True
            self._thread.call(self._on_wake)

    def _on_wake(self) -> None:
        with self._lock:
            self._wake_pending = False
            wanted = self._look_wanted
        if wanted:
            self._poll()
        elif self._handing_over:
            self._let_go()

    def _on_timer(self) -> None:
        self._timer = None
        self._poll()

    def _poll(self) -> None:
        if not self._closed:
            self._step(self._sender.poll)

    def _step(self, event: Callable[..., list[Effect]], *arguments: Any) -> None:
        """Give the sender an event and carry out what it decides."""
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            self._look_wanted = False  # whatever the event is, the sender looks at everything
            self._filled_bytes = 0
            effects = event(now_ms, *arguments)
            deadline_ms = self._sender.next_deadline_ms(now_ms)
        self._perform(effects)
        self._set_timer(now_ms, deadline_ms)
        if self._handing_over:
            self._thread.loop.call_soon(self._let_go)  # behind the writers that were woken

    def _let_go(self) -> None:
        with self._lock:
            self._taken.notify_all()

    def _set_timer(self, now_ms: int, deadline_ms: int | None) -> None:
        """Keep a timer that is not later than the sender's next deadline.

        One that comes too early costs a look; moving it at every request would cost more.
        """
        if deadline_ms is None or self._closed:
            return
        if self._timer is not None:
            if self._timer_ms <= deadline_ms:
                return
            self._timer.cancel()
        self._timer_ms = deadline_ms
        # Clocks are read in whole milliseconds: half a one more, so that the time has come.
        delay_s = max(deadline_ms - now_ms + 0.5, 0.5) / 1000
        self._timer = self._thread.loop.call_later(delay_s, self._on_timer)

    def _perform(self, effects: list[Effect]) -> None:
        finished = False
        for effect in effects:
            match effect:
                case SendRequest():
                    self._send(effect)
                case BatchDone(batch, base_offset, log_append_time_ms):
                    finished = True
                    self._counts["records-sent"] += batch.count
                    self._counts["batches-sent"] += 1
                    batch.forget_records()
                    batch.delivery.succeed(
                        batch.topic_partition, base_offset, log_append_time_ms, batch.timestamps
                    )
                case BatchFailed(batch, error, record_index):
                    finished = True
                    self._counts["records-failed"] += batch.count
                    batch.forget_records()
                    batch.delivery.fail(error, record_index)
                case RefreshMetadata(topics):
                    self._cluster.refresh_soon(*topics)
                case Disconnect(broker):
                    stream = self._streams.pop(broker, None)
                    if stream is not None:
                        stream.close()
                case RequestProducerId():
                    self._request_producer_id()
        if finished:
            with self._lock:
                if self._accumulator.room_is_worth_waking:
                    self._room.notify_all()

    def _send(self, effect: SendRequest) -> None:
        stream = self._streams.get(effect.broker)
        if stream is None:
            server = self._cluster.broker(effect.broker)
            if server is None:  # gone from metadata since the sender looked
                self._thread.loop.call_soon(
                    self._step,
                    self._sender.on_disconnected,
                    effect.broker,
                    f"broker {effect.broker} is not alive",
                )
                return
            stream = self._streams[effect.broker] = RequestStream(
                effect.broker,
                server,
                server.log.ProduceStream,
                on_response=self._on_response,
                on_written=self._on_written if self._acks == 0 else None,
                on_broken=self._on_broken,
                pack=self._messages.pack,
            )
        topic_id = self._cluster.metadata.topic_id
        batches = [
            EncodedBatch(
                batch.topic_partition,
                topic_id(batch.topic_partition.topic),
                batch_bytes(batch, self._compression),
            )
            for batch in effect.batches
        ]
        size = sum(len(batch.data) for batch in batches)
        self._counts["bytes"] += size
        self._counts["requests"] += 1
        stream.send(OutgoingRequest(effect.correlation, batches, size))

    def _on_response(self, broker: int, response: log_pb2.ProduceResponse) -> None:
        self._step(self._sender.on_acks, broker, answers_of(response))

    def _on_written(self, broker: int, message: log_pb2.ProduceRequest) -> None:
        for request in (message, *message.following):
            self._step(self._sender.on_written, broker, request.correlation)

    def _on_broken(self, stream: _Stream, fault: str) -> None:
        if self._streams.get(stream.broker) is stream:
            del self._streams[stream.broker]
            self._step(self._sender.on_disconnected, stream.broker, fault)

    def _on_metadata(self, _faulty: list[TopicInfo]) -> None:
        metadata = self._cluster.metadata
        with self._lock:
            for name, buffer in self._topics.items():
                buffer.grow(max(metadata.partition_count(name) or 0, buffer.partitions))
        self._step(self._sender.on_metadata)

    def _available_partitions(self, topic: str) -> list[int]:
        metadata = self._cluster.metadata
        version, available = self._available.get(topic, (-1, []))
        if version != metadata.version:
            version, available = metadata.version, metadata.available(topic)
            self._available[topic] = (version, available)
        return available

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
        cluster = self._cluster
        cluster.start()
        await cluster.connected(cluster.settings.default_api_timeout_ms)
        brokers = sorted(cluster.metadata.brokers)
        # Another broker each time: one that was started while the controller is away has no ids.
        self._id_turn += 1
        server = cluster.broker(brokers[self._id_turn % len(brokers)]) if brokers else None
        if server is None:
            cluster.refresh_soon()
            raise errors.CoordinatorNotAvailable("the cluster has no live broker yet")
        request = log_pb2.InitProducerIdRequest(producer_id=-1, producer_epoch=-1)
        timeout_s = min(cluster.settings.request_timeout_ms / 1000, PRODUCER_ID_S_MAX)
        response = await server.call(server.log.InitProducerId, request, timeout_s)
        error = error_of(response.error, "InitProducerId")
        if error is not None:
            raise error
        return response.producer_id, response.producer_epoch

    def _on_producer_id(self, task: asyncio.Task[tuple[int, int]]) -> None:
        if task.cancelled() or self._closed:
            return
        error = task.exception()
        if error is None:
            self._had_producer_id = True
            self._step(self._sender.on_producer_id, *task.result())
            return
        if not isinstance(error, errors.PylogError):
            logger.error("asking for a producer id failed", exc_info=error)
            error = errors.UnknownServerError(repr(error))
        if isinstance(error, errors.StaleMetadataError):
            self._cluster.refresh_soon()
        self._step(self._sender.on_producer_id_failed, error)


def _settings(bootstrap_servers: str | Iterable[str], config: Mapping[str, Any]) -> dict[str, Any]:
    given = dict(config)
    if not isinstance(given.get("acks", ""), str):
        given["acks"] = str(given["acks"])  # acks=0, acks=1, acks=-1 as numbers
    bootstrap = bootstrap_servers if isinstance(bootstrap_servers, str) else list(bootstrap_servers)
    values = PRODUCER_SETTINGS.parse({"bootstrap_servers": bootstrap, **given})
    acks_all = values["acks"] in ("all", "-1")
    idempotent = values["enable.idempotence"]
    in_flight = values["max.in.flight.requests.per.connection"]
    if idempotent and not acks_all:
        raise errors.InvalidConfig(
            f"enable_idempotence=True needs acks='all', not {values['acks']!r}"
        )
    if idempotent and in_flight > 5:
        raise errors.InvalidConfig(
            f"enable_idempotence=True allows max_in_flight_requests_per_connection of at most 5, "
            f"not {in_flight}: brokers remember the last five batches of a producer"
        )
    if idempotent is None:
        values["enable.idempotence"] = acks_all and in_flight <= 5
    shortest = values["linger.ms"] + values["request.timeout.ms"]
    if values["delivery.timeout.ms"] < shortest:
        if "delivery_timeout_ms" in given and "request_timeout_ms" in given:
            raise errors.InvalidConfig(
                f"delivery_timeout_ms={values['delivery.timeout.ms']} must be at least linger_ms "
                f"+ request_timeout_ms = {shortest}"
            )
        values["request.timeout.ms"] = max(values["delivery.timeout.ms"] - values["linger.ms"], 1)
    return values


def _sender_settings(values: Mapping[str, Any], acks: int) -> SenderSettings:
    return SenderSettings(
        acks=acks,
        idempotent=values["enable.idempotence"],
        max_in_flight=values["max.in.flight.requests.per.connection"],
        max_request_size=values["max.request.size"],
        request_timeout_ms=values["request.timeout.ms"],
        delivery_timeout_ms=values["delivery.timeout.ms"],
        retries=values["retries"],
        retry_backoff_ms=values["retry.backoff.ms"],
        retry_backoff_max_ms=values["retry.backoff.max.ms"],
    )


def _gather(handles: list[DeliveryHandle]) -> Future[list[RecordMetadata]]:
    """One future over several batches: all their metadata, or the first error."""
    future: Future[list[RecordMetadata]] = Future()
    future.set_running_or_notify_cancel()
    lock = threading.Lock()
    left = len(handles)
    if not handles:
        future.set_result([])

    def on_done(_handle: DeliveryHandle) -> None:
        nonlocal left
        with lock:
            left -= 1
            if left:
                return
        error = next((e for e in (h.exception() for h in handles) if e is not None), None)
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result([handle.result() for handle in handles])

    for handle in handles:
        handle.add_done_callback(on_done)
    return future
