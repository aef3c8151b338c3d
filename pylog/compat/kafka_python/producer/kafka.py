"""kafka-python's `KafkaProducer` over pylog's producer."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from types import TracebackType
from typing import Any, ClassVar, Final

from pylog import errors
from pylog.client.producer.producer import Producer
from pylog.compat.kafka_python import settings
from pylog.compat.kafka_python.clusters import admin_of
from pylog.compat.kafka_python.errors import (
    IllegalStateError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
)
from pylog.compat.kafka_python.partitioner import chooser
from pylog.compat.kafka_python.producer.future import FailedSend, FutureRecordMetadata, Sizes
from pylog.compat.kafka_python.serializer import Headers, converter
from pylog.compat.kafka_python.structs import ConsumerGroupMetadata, ours, position_of
from pylog.compat.kafka_python.translation import constructing, translated, translating
from pylog.compat.new_topics import NewTopics
from pylog.model import ConsumerGroupMetadata as OurGroupMetadata
from pylog.model import topic_name_fault
from pylog.records.compression import CODEC_NAMES

_BYTES: Final = (bytes, bytearray, memoryview, type(None))
_NUMBERS: Final = count(1)
_NOT_THROTTLED: Final = {"throttle-time-avg": 0.0, "throttle-time-max": 0.0}
"""Brokers throttle no client yet."""


class KafkaProducer:
    """Sends records; thread safe. The constructor waits for the cluster.

    Settings are kafka-python's, with its defaults; an unknown one is a ValueError. With
    `allow_auto_create_topics`, the default, a topic that does not exist is made at its first
    record.
    """

    DEFAULT_CONFIG: ClassVar[Mapping[str, Any]] = settings.PRODUCER_DEFAULTS

    def __init__(self, **configs: Any) -> None:
        strange = settings.unknown(configs, settings.PRODUCER | settings.PRODUCER_OWN)
        if strange:
            raise ValueError(f"Unrecognized configs: {sorted(strange)}")
        self.config = {**self.DEFAULT_CONFIG, **configs}
        if self.config["client_id"] is None:
            self.config["client_id"] = f"kafka-python-producer-{next(_NUMBERS)}"
        if self.config["compression_type"] not in (None, *CODEC_NAMES):
            raise ValueError(f"Not supported codec: {self.config['compression_type']}")
        self._serialize_key = converter(
            "key_serializer", configs.get("key_serializer"), "serialize"
        )
        self._serialize_value = converter(
            "value_serializer", configs.get("value_serializer"), "serialize"
        )
        self._choose = chooser(configs.get("partitioner"))
        self._closed = False
        self._initialized = False  # for transactions
        self._transactional = configs.get("transactional_id") is not None
        with constructing():
            named = {**configs, "client_id": self.config["client_id"]}
            ours_ = settings.producer_settings(named)
            self._admin = admin_of(named)
            try:
                self._producer = Producer(**ours_)
            except BaseException:
                self._admin.close()
                raise
        made, wait_s = self.config["allow_auto_create_topics"], self.config["max_block_ms"] / 1000
        self._new_topics = NewTopics(self._admin, wait_s) if made else None

    # ---- records ------------------------------------------------------------------------------

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: list[tuple[str, bytes]] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> FutureRecordMetadata:
        """A future of the record's metadata, at once; the record leaves with its batch.

        KafkaTimeoutError when the topic's metadata, or room in the buffer, is not there within
        `max_block_ms`; MessageSizeTooLargeError; ValueError and TypeError for wrong arguments.
        """
        if self._closed:
            raise IllegalStateError("KafkaProducer already closed!")
        if value is None and key is None:
            raise ValueError("Need at least one: key or value")
        _check_topic(topic)
        pairs = _checked_headers(headers)
        key_bytes, value_bytes = key, value
        if self._serialize_key is not None:
            key_bytes = self._serialize_key(topic, pairs, key)
        if self._serialize_value is not None:
            value_bytes = self._serialize_value(topic, pairs, value)
        for what, data in (("key", key_bytes), ("value", value_bytes)):
            if not isinstance(data, _BYTES):
                raise TypeError(f"Unsupported type for serialized {what}: {type(data)}")
        sizes = _sizes(key_bytes, value_bytes, pairs)
        try:
            if self._new_topics is not None:
                self._new_topics.ensure((topic,))
            if partition is not None:
                self._check_partition(topic, partition)
            elif self._choose is not None:
                numbers = self._producer.partitions_for(topic)
                partition = self._choose(topic, key, key_bytes, value, value_bytes, numbers)
            handle = self._producer.send(
                topic,
                value_bytes,
                key=key_bytes,
                headers=pairs or None,
                partition=partition,
                timestamp_ms=timestamp_ms,
            )
        except errors.PylogError as error:
            return self._refused(error, sizes)
        return FutureRecordMetadata(handle, sizes)

    def _refused(self, error: errors.PylogError, sizes: Sizes) -> FutureRecordMetadata:
        """A failed future for an error that concerns this record alone; all other errors are
        raised."""
        if isinstance(error, errors.InvalidTxnState):
            raise IllegalStateError(str(error)) from error
        fault = translated(error)
        here = (KafkaTimeoutError, MessageSizeTooLargeError, IllegalStateError)
        of_transaction = self._transactional and (error.abortable or error.fatal)
        if isinstance(fault, here) or of_transaction or error.code <= 0:
            raise fault from error
        return FutureRecordMetadata(FailedSend(fault), sizes)

    def _check_partition(self, topic: str, partition: int) -> None:
        if partition < 0:
            raise ValueError("partition must be >= 0")
        if partition not in self._producer.partitions_for(topic):
            try:
                self._producer.refresh(topic)
            except errors.PylogError as error:
                raise translated(error) from error
            if partition not in self._producer.partitions_for(topic):
                raise ValueError(f"Unrecognized partition {partition} for topic {topic}")

    def flush(self, timeout: float | None = None) -> None:
        """Return when all that was sent before is acknowledged or has failed; KafkaTimeoutError
        after `timeout` seconds.
        """
        with translating():
            self._producer.flush(timeout)

    def partitions_for(self, topic: str) -> set[int]:
        """The topic's partition numbers."""
        with translating():
            if self._new_topics is not None:
                self._new_topics.ensure((topic,))
            return set(self._producer.partitions_for(topic))

    # ---- transactions -------------------------------------------------------------------------

    def init_transactions(self) -> None:
        """Before the first transaction: fence earlier producers of the `transactional_id`. A second
        call does nothing.
        """
        with self._of_transactions():
            if not self._initialized:
                self._producer.init_transactions()
                self._initialized = True

    def begin_transaction(self) -> None:
        """Begin a transaction, to which all later records belong."""
        with self._of_transactions():
            self._producer.begin_transaction()

    def send_offsets_to_transaction(
        self,
        offsets: Mapping[tuple[str, int], Any],
        group_metadata: ConsumerGroupMetadata | str,
    ) -> None:
        """Commit a consumer's offsets with the transaction. `group_metadata` is what the consumer's
        `group_metadata()` says, or a group's name, with which nobody is fenced.
        """
        wanted = {ours(tp): position_of(given) for tp, given in offsets.items()}
        if isinstance(group_metadata, str):
            group = OurGroupMetadata(group_metadata)
        elif not isinstance(group_metadata, ConsumerGroupMetadata):
            raise TypeError(
                f"{group_metadata!r}: give consumer.group_metadata(), or a group's name"
            )
        else:
            group = OurGroupMetadata(
                group_metadata.group_id or "",
                group_metadata.generation_id,
                group_metadata.member_id,
                group_metadata.group_instance_id,
            )
        with self._of_transactions():
            self._producer.send_offsets_to_transaction(wanted, group)

    def commit_transaction(self) -> None:
        """All of the transaction counts."""
        with self._of_transactions():
            self._producer.commit_transaction()

    def abort_transaction(self) -> None:
        """None of the transaction counts."""
        with self._of_transactions():
            self._producer.abort_transaction()

    def _of_transactions(self) -> Any:
        if not self._transactional:
            raise IllegalStateError("transactions need a transactional_id: give KafkaProducer one")
        return translating()

    # ---- the rest -----------------------------------------------------------------------------

    def bootstrap_connected(self) -> bool:
        """Whether the producer has found its cluster and is not closed."""
        return not self._closed

    def metrics(self, raw: bool = False) -> dict[str, Any]:
        """Figures by name, in a group `producer-metrics`; with `raw` without the group."""
        with translating():
            figures = {**self._producer.metrics(), **_NOT_THROTTLED}
        return figures if raw else {"producer-metrics": figures}

    def close(self, timeout: float | None = None, null_logger: bool = False) -> None:
        """Send what is buffered, wait up to `timeout` seconds for it, and let go of connections."""
        if self._closed:
            return
        if timeout is not None and timeout < 0:
            raise ValueError(f"Invalid timeout: {timeout}")
        self._closed = True
        with translating():
            self._producer.close(timeout)
            self._admin.close()
        for name in ("key_serializer", "value_serializer"):
            close = getattr(self.config.get(name), "close", None)
            if callable(close):
                close()

    def __enter__(self) -> KafkaProducer:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        self.close()

    def __str__(self) -> str:
        name, txn = self.config.get("client_id"), self.config.get("transactional_id")
        return f"<KafkaProducer client_id={name} transactional_id={txn}>"


def _check_topic(topic: Any) -> None:
    if not isinstance(topic, str):
        raise TypeError(f"the topic must be a str, not {type(topic).__name__}")
    fault = topic_name_fault(topic)
    if fault is not None:
        raise ValueError(fault)


def _checked_headers(headers: Any) -> list[tuple[str, bytes]]:
    if headers is None:
        return []
    if not isinstance(headers, list):
        raise TypeError("headers must be a list")
    for pair in headers:
        whole = isinstance(pair, tuple) and len(pair) == 2
        if not whole or not isinstance(pair[0], str) or not isinstance(pair[1], bytes):
            raise TypeError(f"all headers must be tuples of str and bytes, not {pair!r}")
    return headers


def _sizes(key: Any, value: Any, headers: Headers) -> Sizes:
    return (
        -1 if key is None else len(key),
        -1 if value is None else len(value),
        sum(len(name.encode()) + len(data or b"") for name, data in headers) if headers else -1,
    )
