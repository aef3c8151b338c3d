"""The result of kafka-python's `send`: a future of one record's metadata."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pylog import errors
from pylog.client.producer.delivery import DeliveryHandle
from pylog.compat.kafka_python.errors import KafkaError, KafkaTimeoutError
from pylog.compat.kafka_python.future import Future
from pylog.compat.kafka_python.structs import TopicPartition
from pylog.compat.kafka_python.translation import translated


class RecordMetadata(NamedTuple):
    """The place of a record in the log. Sizes are -1 for parts that the record does not have;
    `checksum` is None, as for all records since Kafka 0.11.
    """

    topic: str
    partition: int
    topic_partition: TopicPartition
    offset: int
    timestamp: int
    checksum: None
    serialized_key_size: int
    serialized_value_size: int
    serialized_header_size: int


Sizes = tuple[int, int, int]


class FailedSend:
    """The stand-in for the handle of a record that never came into a batch."""

    def __init__(self, error: KafkaError) -> None:
        self.error = error

    def done(self) -> bool:
        """It is."""
        return True


class FutureRecordMetadata(Future):
    """The outcome of one `send`, which is its batch's: nothing is registered until somebody asks to
    be called.
    """

    def __init__(self, handle: DeliveryHandle | FailedSend, sizes: Sizes) -> None:
        self._handle = handle
        self._sizes = sizes

    @property
    def is_done(self) -> bool:
        """Whether the record was acknowledged or has failed."""
        return self._handle.done()

    @property
    def value(self) -> RecordMetadata | None:
        """The place of the record in the log; None until that is known, and after a failure."""
        return self._metadata() if self.succeeded() else None

    @property
    def exception(self) -> BaseException | None:
        """The record's error; None until that is known, and after a success."""
        if isinstance(self._handle, FailedSend):
            return self._handle.error
        error = self._handle.exception(0) if self._handle.done() else None
        return None if error is None else translated(error)

    def get(self, timeout: float | None = None) -> RecordMetadata:
        """The metadata, or what the record failed by; KafkaTimeoutError after `timeout` seconds."""
        if isinstance(self._handle, DeliveryHandle):
            try:
                self._handle.exception(timeout)
            except TimeoutError as error:
                raise KafkaTimeoutError(f"no acknowledgement within {timeout} s") from error
            except errors.PylogError as error:
                raise translated(error) from error
        fault = self.exception
        if fault is not None:
            raise fault
        return self._metadata()

    def _metadata(self) -> RecordMetadata:
        assert isinstance(self._handle, DeliveryHandle)
        told = self._handle.result(0)
        place = TopicPartition(told.topic, told.partition)
        return RecordMetadata(*place, place, told.offset, told.timestamp_ms, None, *self._sizes)

    def _when_done(self, call: Callable[[], None]) -> Future:
        if isinstance(self._handle, FailedSend):
            call()
        else:
            self._handle.add_done_callback(lambda _handle: call())
        return self
