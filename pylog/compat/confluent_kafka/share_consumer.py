"""confluent-kafka's `ShareConsumer` over pylog's share consumer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any

from pylog import errors, model
from pylog.client.share_consumer import share_consumer as pylog_share
from pylog.compat.confluent_kafka import settings
from pylog.compat.confluent_kafka.error import (
    ConcurrentModificationException,
    IllegalStateException,
    KafkaError,
    KafkaException,
    exception_of,
    local,
)
from pylog.compat.confluent_kafka.events import Deadline
from pylog.compat.confluent_kafka.model import (
    AcknowledgeType,
    Message,
    Messages,
    TopicPartition,
    message_of,
)
from pylog.records.record import Record

_STEP_S = 1.0


class ShareConsumer:
    """Takes messages in turn with the members of its share group (KIP-932)."""

    def __init__(self, *config: dict[str, Any], **named: Any) -> None:
        parsed = settings.parse(settings.merged(config, named), settings.CONSUMER)
        if not parsed.passed.get("group.id"):
            raise ValueError("Failed to create share consumer: group.id must be set")
        taken = (
            "group.id",
            "share.acknowledgement.mode",
            "max.poll.records",
            "max.poll.interval.ms",
            "fetch.min.bytes",
            "fetch.max.wait.ms",
            "fetch.max.bytes",
            "check.crcs",
            "client.rack",
        )
        values = settings.admin_settings(parsed)
        values.update(
            (name.replace(".", "_"), parsed.passed[name]) for name in taken if name in parsed.passed
        )
        try:
            self._consumer = pylog_share.ShareConsumer(**values)
        except errors.InvalidConfig as error:
            raise local(KafkaError._INVALID_ARG, str(error)) from error
        self._delivered: dict[tuple[str, int, int], Record] = {}
        self._closed = False

    def subscribe(self, topics: Sequence[str]) -> None:
        """Read these topics."""
        if isinstance(topics, str) or not isinstance(topics, Iterable):
            raise TypeError("expected list of topic unicode strings")
        with _translating():
            self._consumer.subscribe(list(topics))

    def unsubscribe(self) -> None:
        """Read nothing, and leave the group."""
        with _translating():
            self._consumer.unsubscribe()

    def subscription(self) -> list[str]:
        """The subscribed topics."""
        with _translating():
            return sorted(self._consumer.subscription())

    def poll(self, timeout: float = -1) -> Messages:
        """Messages, as soon as there are any; none after `timeout` seconds."""
        deadline = Deadline(timeout)
        with _translating():
            while True:
                records = list(self._consumer.poll(min(deadline.left_s(), _STEP_S)))
                if records or deadline.has_passed():
                    break
        self._delivered = {(r.topic, r.partition, r.offset): r for r in records}
        return Messages([message_of(record) for record in records])

    def acknowledge(
        self,
        message: Message[Any, Any],
        ack_type: AcknowledgeType = AcknowledgeType.ACCEPT,
    ) -> None:
        """Say what becomes of a message of the last poll."""
        if not isinstance(message, Message):
            raise TypeError(f"expected Message, not {type(message).__name__}")
        place = (str(message.topic()), int(message.partition() or 0), int(message.offset() or 0))
        self.acknowledge_offset(*place, ack_type)

    def acknowledge_offset(
        self,
        topic: str,
        partition: int,
        offset: int,
        ack_type: AcknowledgeType = AcknowledgeType.ACCEPT,
    ) -> None:
        """The same, for the message at an offset."""
        record = self._delivered.get((topic, partition, offset))
        if record is None:
            raise IllegalStateException(
                f"{topic}-{partition} at offset {offset} was not returned by the last poll"
            )
        with _translating():
            self._consumer.acknowledge(record, model.AcknowledgeType(int(ack_type)))

    def commit_sync(self, timeout: float = 60) -> dict[TopicPartition, KafkaException | None]:
        """Send what was acknowledged, and wait; the outcome by partition."""
        with _translating():
            told = self._consumer.commit(timeout=timeout)
        return {
            TopicPartition(*tp): None if error is None else exception_of(error)
            for tp, error in told.items()
        }

    def commit_async(self) -> None:
        """Send what was acknowledged."""
        with _translating():
            self._consumer.commit_async()

    def set_acknowledgement_commit_callback(self, callback: Callable[..., Any] | None) -> None:
        """Call `callback({partition: offsets}, exception)` within polls, when acknowledgements have
        arrived or failed.
        """
        if callback is not None and not callable(callback):
            raise TypeError("callback must be callable or None")

        def told(offsets: Any, error: errors.PylogError | None) -> None:
            places = {TopicPartition(*tp): set(numbers) for tp, numbers in offsets.items()}
            assert callback is not None
            callback(places, None if error is None else exception_of(error))

        with _translating():
            self._consumer.set_acknowledgement_commit_callback(told if callback else None)

    def set_sasl_credentials(self, username: str, password: str) -> None:
        """Raises KafkaException: pylog has no authentication yet."""
        raise local(KafkaError._UNSUPPORTED_FEATURE, "pylog has no authentication yet")

    def close(self) -> None:
        """Send what was acknowledged, and leave the group."""
        if not self._closed:
            self._closed = True
            with _translating():
                self._consumer.close()

    def __enter__(self) -> Any:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        exc_traceback: TracebackType | None,
    ) -> None:
        self.close()


class _translating:
    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, errors.WrongThread):
            raise ConcurrentModificationException(str(error)) from error
        if isinstance(error, errors.ClientClosed | errors.InvalidRequest):
            raise IllegalStateException(str(error)) from error
        if isinstance(error, errors.PylogError):
            raise exception_of(error) from error
