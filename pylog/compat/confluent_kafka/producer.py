"""confluent-kafka's `Producer` over pylog's producer."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Final

from pylog import errors, model
from pylog.client.admin.admin import AdminClient
from pylog.client.producer import producer as pylog_producer
from pylog.clock import SYSTEM_CLOCK
from pylog.compat.confluent_kafka import settings
from pylog.compat.confluent_kafka.admin.metadata import ClusterMetadata, cluster_metadata
from pylog.compat.confluent_kafka.error import (
    KafkaError,
    KafkaException,
    error_of,
    exception_of,
    local,
    translating,
)
from pylog.compat.confluent_kafka.events import Deadline, Events
from pylog.compat.confluent_kafka.model import TIMESTAMP_CREATE_TIME, Message, TopicPartition
from pylog.compat.confluent_kafka.partitioners import placing
from pylog.compat.confluent_kafka.statistics import Statistics
from pylog.compat.new_topics import NewTopics

OnDelivery = Callable[[KafkaError | None, Message[Any, Any]], Any]

_STEP_MS: Final = 1_000
"""The time of each wait of pylog's calls, within the caller's time-out."""
_TOPIC_S: Final = 10.0
"""The time that one attempt to make a topic may last."""
_MESSAGE_BYTES_MAX: Final = 1_000_000
"""librdkafka's `message.max.bytes`, unless it is given."""
_PASSING: Final = (errors.BootstrapFailed, errors.RequestTimedOut, errors.BufferExhausted)


class _Waiting:
    """A message whose topic is not known yet, or for which there is no room."""

    __slots__ = ("message", "on_delivery", "partition", "since_ms", "timestamp")

    def __init__(
        self,
        message: Message[Any, Any],
        on_delivery: OnDelivery | None,
        partition: int,
        timestamp: int,
    ) -> None:
        self.message, self.on_delivery = message, on_delivery
        self.partition, self.timestamp = partition, timestamp
        self.since_ms = SYSTEM_CLOCK.monotonic_ms()


class Producer:
    """Sends messages; thread safe. `produce` never waits: what cannot go at once is kept, and sent
    by a thread of its own, in order. Delivery reports are called by `poll` and `flush`.

    Settings are librdkafka's, in a dictionary, by keyword, or both.
    """

    def __init__(self, *config: dict[str, Any], **named: Any) -> None:
        parsed = settings.parse(settings.merged(config, named), settings.PRODUCER)
        self._on_delivery = parsed.callback("on_delivery")
        self._error_cb = parsed.callback("error_cb")
        self._stats_cb = parsed.callback("stats_cb")
        parsed.callback("throttle_cb")
        self._messages_max = parsed.number("queue.buffering.max.messages", 100_000)
        self._only_errors = parsed.flag("delivery.report.only.error", False)
        self._place = placing(parsed.own.get("partitioner", "consistent_random"))
        values = settings.producer_settings(parsed)
        self._delivery_ms = int(values["delivery_timeout_ms"])
        self._transactional = "transactional_id" in values
        self._initialized = self._open = False  # its transactions; a transaction
        self._statistics = Statistics(
            str(values.get("client_id", "rdkafka")),
            "producer",
            parsed.number("statistics.interval.ms", 0) if self._stats_cb else 0,
        )
        self._admin_values = settings.admin_settings(parsed)
        self._makes_topics = parsed.flag("allow.auto.create.topics", True)
        kbytes = parsed.number("queue.buffering.max.kbytes", 32_768)
        try:
            self._producer = pylog_producer.Producer(
                **values,
                max_block_ms=_STEP_MS,
                bootstrap_timeout_ms=_STEP_MS,
                buffer_memory=min(kbytes, 1_048_576) * 1024,
            )
        except errors.InvalidConfig as error:
            raise local(KafkaError._INVALID_ARG, str(error)) from error
        self._bytes_max = int(values.get("max_request_size", _MESSAGE_BYTES_MAX))
        self._events = Events()
        self._outstanding = 0  # guarded by the events' lock, as is the backlog
        self._backlog: deque[_Waiting] = deque()
        self._drains = False
        self._known: set[str] = set()
        self._admin: AdminClient | None = None
        self._closed = False

    # ---- messages -----------------------------------------------------------------------------

    def produce(
        self,
        topic: str,
        value: str | bytes | None = None,
        key: str | bytes | None = None,
        partition: int = -1,
        callback: OnDelivery | None = None,
        on_delivery: OnDelivery | None = None,
        timestamp: int = 0,
        headers: Any = None,
    ) -> None:
        """Have a message sent; BufferError while `queue.buffering.max.messages` of them wait.
        KafkaException for one that is too large, or that belongs to no transaction.
        """
        self._check_open()
        if not isinstance(topic, str):
            raise TypeError(f"the topic must be a str, not {type(topic).__name__}")
        told = callback or on_delivery or self._on_delivery
        message: Message[Any, Any] = Message(
            topic,
            partition if partition >= 0 else None,
            None,
            _bytes(key, "key"),
            _bytes(value, "value"),
            _headers(headers),
        )
        if len(message) + len(message.key() or b"") > self._bytes_max:
            text = f"topic {topic}: a message of more than message.max.bytes={self._bytes_max}"
            raise local(KafkaError.MSG_SIZE_TOO_LARGE, text)
        if self._transactional and not self._open:
            raise local(KafkaError._STATE, f"topic {topic}: no transaction is open")
        if len(self) >= self._messages_max:
            raise BufferError("Local: Queue full")
        waiting = _Waiting(message, told, partition, timestamp)
        with self._events.changed:
            self._outstanding += 1
            if self._backlog or self._drains or self._may_wait(topic, partition):
                self._backlog.append(waiting)
                self._start_draining()
                return
        try:
            self._send(waiting)
        except errors.PylogError as error:
            with self._events.changed:
                if isinstance(error, _PASSING):
                    self._backlog.append(waiting)
                    self._start_draining()
                    return
                self._outstanding -= 1
            raise exception_of(error) from error

    def produce_batch(
        self,
        topic: str,
        messages: list[dict[str, Any]],
        partition: int = -1,
        callback: OnDelivery | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> int:
        """Have several messages sent, each a dictionary of `produce`'s arguments; how many were
        taken. Those that were not have `_error`.
        """
        if not isinstance(messages, list):
            raise TypeError("messages must be a list")
        taken = 0
        for index, each in enumerate(messages):
            if not isinstance(each, dict):
                raise TypeError(f"message {index} must be a dict, not {type(each).__name__}")
            told = each.get("callback") or each.get("on_delivery") or callback or on_delivery
            try:
                Producer.produce(
                    self,
                    topic,
                    each.get("value"),
                    each.get("key"),
                    each.get("partition", partition),
                    told,
                    None,
                    each.get("timestamp", 0),
                    each.get("headers"),
                )
                taken += 1
            except BufferError as error:
                each["_error"] = KafkaError(KafkaError._QUEUE_FULL, str(error))
            except KafkaException as error:
                each["_error"] = error.args[0]
        return taken

    def _may_wait(self, topic: str, partition: int) -> bool:
        number = None if partition < 0 else partition
        return topic not in self._known or self._producer._may_block(topic, number)

    def _send(self, waiting: _Waiting) -> None:
        message = waiting.message
        topic = str(message.topic())
        partition: int | None = waiting.partition if waiting.partition >= 0 else None
        if partition is None:
            partition = self._place(message.key(), len(self._producer.partitions_for(topic)))
        self._producer.send(
            topic,
            message.value(),
            message.key(),
            message.headers(),
            partition,
            waiting.timestamp or None,
            lambda metadata, error: self._delivered(waiting, metadata, error),
        )

    def _delivered(
        self,
        waiting: _Waiting,
        metadata: model.RecordMetadata | None,
        error: errors.PylogError | None,
    ) -> None:
        message = waiting.message
        message._latency = (SYSTEM_CLOCK.monotonic_ms() - waiting.since_ms) / 1000
        fault = None
        if metadata is not None:
            message._partition, message._offset = metadata.partition, metadata.offset
            message._timestamp = (TIMESTAMP_CREATE_TIME, metadata.timestamp_ms)
        elif error is not None:
            fault = error_of(error)
            message.set_error(fault)
        self._report(waiting, fault)

    def _report(self, waiting: _Waiting, fault: KafkaError | None) -> None:
        told = waiting.on_delivery
        with self._events.changed:
            self._outstanding -= 1
            if told is None or (fault is None and self._only_errors):
                self._events.changed.notify_all()
                return
            self._events.put(lambda: told(fault, waiting.message), counts=True)

    # ---- the thread for what has to wait ------------------------------------------------------

    def _start_draining(self) -> None:
        """The events' lock is held."""
        if not self._drains:
            self._drains = True
            threading.Thread(target=self._drain, name="pylog-produce", daemon=True).start()

    def _drain(self) -> None:
        while True:
            with self._events.changed:
                if not self._backlog:
                    self._drains = False
                    self._events.changed.notify_all()
                    return
                waiting = self._backlog[0]
            fault = self._sent_later(waiting)
            with self._events.changed:
                self._backlog.popleft()
            if fault is not None:
                waiting.message.set_error(fault)
                self._report(waiting, fault)

    def _sent_later(self, waiting: _Waiting) -> KafkaError | None:
        """Send it, however long that takes; the error where that is too long, or cannot be."""
        topic = str(waiting.message.topic())
        while True:
            try:
                if topic not in self._known:
                    self._look_up(topic)
                self._send(waiting)
                return None
            except _PASSING as error:
                if isinstance(error, errors.BootstrapFailed):
                    self._tell_error(KafkaError(KafkaError._ALL_BROKERS_DOWN, str(error)))
                waited_ms = SYSTEM_CLOCK.monotonic_ms() - waiting.since_ms
                if waited_ms >= self._delivery_ms or self._closed:
                    return KafkaError(KafkaError._MSG_TIMED_OUT, str(error))
            except errors.UnknownTopicOrPartition as error:
                known = topic in self._known
                code = KafkaError._UNKNOWN_PARTITION if known else KafkaError._UNKNOWN_TOPIC
                return KafkaError(code, str(error))
            except errors.PylogError as error:
                return error_of(error)

    def _look_up(self, topic: str) -> None:
        """Have the topic known, and made where it does not exist. The producer asks first: unlike
        an admin client it says within a step that no broker answers.
        """
        try:
            self._producer.partitions_for(topic)
        except errors.UnknownTopicOrPartition:
            if not self._makes_topics:
                raise
            NewTopics(self._admin_client(), _TOPIC_S).ensure((topic,))
            self._producer.partitions_for(topic)
        self._known.add(topic)

    def _tell_error(self, error: KafkaError) -> None:
        callback = self._error_cb
        if callback is not None:
            self._events.put(lambda: callback(error))

    # ---- waiting ------------------------------------------------------------------------------

    def poll(self, timeout: float = -1) -> int:
        """Call what waits to be told, waiting up to `timeout` seconds for it; how many calls."""
        self._check_open()
        deadline = Deadline(timeout)
        while True:
            self._tell_statistics()
            served = self._events.serve()
            if served or deadline.has_passed():
                return served
            left_s = min(deadline.left_s(), self._statistics.left_s())
            self._events.wait(lambda: False, left_s)

    def flush(self, timeout: float = -1) -> int:
        """Wait until all messages are delivered or have failed, and call their reports; how many
        still wait after `timeout` seconds.
        """
        self._check_open()
        return self._flush(timeout)

    def _flush(self, timeout: float) -> int:
        deadline = Deadline(timeout)
        while True:
            with suppress(errors.PylogError):  # RequestTimedOut: they are on their way now
                self._producer.flush(0)
            self._tell_statistics()
            self._events.serve()
            if not len(self) or deadline.has_passed():
                return len(self)
            left_s = min(deadline.left_s(), self._statistics.left_s(), 1.0)
            self._events.wait(lambda: not self._outstanding, left_s)

    def purge(self, in_queue: bool = True, in_flight: bool = True, blocking: bool = True) -> None:
        """Raises KafkaException: what pylog's producer has taken is delivered, or fails."""
        raise local(
            KafkaError._NOT_IMPLEMENTED,
            "purge(): pylog's producer forgets no message; set message.timeout.ms, or close it",
        )

    def _tell_statistics(self) -> None:
        if self._stats_cb is not None and self._statistics.is_due():
            figures = self._producer.metrics()
            self._stats_cb(self._statistics.text(figures, len(self), 0))

    def __len__(self) -> int:
        with self._events.changed:
            return self._outstanding + self._events.messages()

    def __bool__(self) -> bool:
        return True

    # ---- transactions -------------------------------------------------------------------------

    def init_transactions(self, timeout: float = -1) -> None:
        """Once, before the first transaction: fence earlier producers of the `transactional.id`."""
        self._until(timeout, self._producer.init_transactions, fits=not self._initialized)
        self._initialized = True

    def begin_transaction(self) -> None:
        """Begin a transaction, to which all later messages belong."""
        fits = self._initialized and not self._open
        self._until(0, self._producer.begin_transaction, fits=fits)
        self._open = True

    def send_offsets_to_transaction(
        self, positions: Sequence[TopicPartition], group_metadata: Any, timeout: float = -1
    ) -> None:
        """Commit a consumer's positions with the transaction; those without an offset are left
        out.
        """
        offsets = {
            tp.ours(): model.OffsetAndMetadata(tp.offset, tp.metadata or "", tp.leader_epoch)
            for tp in positions
            if tp.offset >= 0
        }
        if offsets:
            self._until(
                timeout,
                lambda: self._producer.send_offsets_to_transaction(offsets, group_metadata),
                fits=self._open,
            )

    def commit_transaction(self, timeout: float = -1) -> None:
        """All of the transaction counts, once all of it is stored. Calls its delivery reports."""
        self._end(timeout, self._producer.commit_transaction)

    def abort_transaction(self, timeout: float = -1) -> None:
        """None of the transaction counts. Calls its delivery reports."""
        self._end(timeout, self._producer.abort_transaction)

    def _end(self, timeout: float, call: Callable[[], None]) -> None:
        deadline = Deadline(timeout)
        try:
            self._wait_for_backlog(deadline)
            self._until(deadline.left_s(), call, fits=self._open)
            self._open = False
        finally:
            self._events.serve()

    def _wait_for_backlog(self, deadline: Deadline) -> None:
        with self._events.changed:
            done = self._events.changed.wait_for(
                lambda: not self._drains,
                None if deadline.left_s() == float("inf") else deadline.left_s(),
            )
        if not done:
            raise local(KafkaError._TIMED_OUT, "messages of the transaction are not sent yet")

    def _until(self, timeout: float, call: Callable[[], None], *, fits: bool) -> None:
        """Make a call of transactions, again and again while it has not come to its end; `fits`:
        whether it is one that may follow those before.
        """
        self._check_open()
        deadline = Deadline(timeout)
        while True:
            try:
                call()
                return
            except (errors.RequestTimedOut, errors.BootstrapFailed) as error:
                if deadline.has_passed():
                    raise exception_of(error) from error
            except errors.InvalidTxnState as error:
                if not self._transactional:
                    raise local(KafkaError._NOT_CONFIGURED, str(error)) from error
                if not fits:
                    raise local(KafkaError._STATE, str(error)) from error
                raise exception_of(error) from error
            except errors.PylogError as error:
                raise exception_of(error) from error

    # ---- the rest -----------------------------------------------------------------------------

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> ClusterMetadata:
        """The cluster with its topics, or with one."""
        self._check_open()
        return cluster_metadata(self._admin_client(), topic, timeout)

    def cluster_id(self, timeout: float = -1) -> str:
        """The cluster's id."""
        return str(self.list_topics(timeout=timeout).cluster_id)

    def set_sasl_credentials(self, username: str, password: str) -> None:
        """Raises KafkaException: pylog has no authentication yet."""
        raise local(KafkaError._UNSUPPORTED_FEATURE, "pylog has no authentication yet")

    def _admin_client(self) -> AdminClient:
        if self._admin is None:
            self._admin = AdminClient(**self._admin_values)
        return self._admin

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("Producer has been closed")

    def close(self) -> bool:
        """Deliver what waits, and let go of connections."""
        if not self._closed:
            self._flush(-1)
            self._closed = True
            with translating():
                self._producer.close()
                if self._admin is not None:
                    self._admin.close()
        return True

    def __enter__(self) -> Any:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        exc_traceback: TracebackType | None,
    ) -> None:
        self.close()


def _bytes(given: Any, what: str) -> bytes | None:
    if given is None or isinstance(given, bytes):
        return given
    if isinstance(given, str):
        return given.encode()
    if isinstance(given, bytearray | memoryview):
        return bytes(given)
    raise TypeError(f"the {what} must be str or bytes, not {type(given).__name__}")


def _headers(given: Any) -> list[tuple[str, bytes | None]] | None:
    if not given:
        return None
    pairs: Iterable[Any] = given.items() if isinstance(given, Mapping) else given
    checked = []
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2 or not isinstance(pair[0], str):
            raise TypeError(f"headers must be pairs of str and bytes, not {pair!r}")
        checked.append((pair[0], _bytes(pair[1], "header")))
    return checked
