"""confluent-kafka's `DeserializingConsumer`: a consumer that deserializes keys and values."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from pylog.compat.confluent_kafka.consumer import Consumer
from pylog.compat.confluent_kafka.error import (
    ConsumeError,
    KafkaError,
    KeyDeserializationError,
    ValueDeserializationError,
)
from pylog.compat.confluent_kafka.model import Message, Messages
from pylog.compat.confluent_kafka.serialization import MessageField, SerializationContext
from pylog.compat.confluent_kafka.serializing_producer import without_code
from pylog.compat.confluent_kafka.share_consumer import ShareConsumer

K = TypeVar("K")
V = TypeVar("V")


def deserialized(message: Message[Any, Any], key_code: Any, value_code: Any) -> None:
    """Put the objects of key and value in their places; ConsumeError for a message of an error."""
    error = message.error()
    if error is not None:
        raise ConsumeError(error, kafka_message=message)
    topic, headers = str(message.topic()), message.headers()
    if value_code is not None:
        ctx = SerializationContext(topic, MessageField.VALUE, headers)
        try:
            value = value_code(message.value(), ctx)
        except Exception as fault:
            raise ValueDeserializationError(fault, message) from fault
        message.set_value(value)
    if key_code is not None:
        ctx = SerializationContext(topic, MessageField.KEY, headers)
        try:
            key = key_code(message.key(), ctx)
        except Exception as fault:
            raise KeyDeserializationError(fault, message) from fault
        message.set_key(key)


class DeserializingConsumer(Consumer, Generic[K, V]):
    """Reads objects: `key.deserializer` and `value.deserializer` are callables (bytes, ctx). A
    fault in reading is raised, where `Consumer` returns a message with an error.
    """

    def __init__(self, conf: dict[str, Any]) -> None:
        code, rest = without_code(conf, "key.deserializer", "value.deserializer")
        self._key_deserializer, self._value_deserializer = code
        super().__init__(rest)

    def poll(self, timeout: float | None = -1) -> Message[K, V] | None:
        """The next message, deserialized; None after `timeout` seconds."""
        message = super().poll(timeout)
        if message is not None:
            deserialized(message, self._key_deserializer, self._value_deserializer)
        return message

    def consume(self, num_messages: int = 1, timeout: float | None = -1) -> list[Message[K, V]]:
        """Messages, deserialized."""
        found = super().consume(num_messages, timeout)
        for message in found:
            deserialized(message, self._key_deserializer, self._value_deserializer)
        return found


class DeserializingShareConsumer(ShareConsumer):
    """Takes objects in turn with the members of its share group. A message that cannot be
    deserialized has an error, and its bytes.
    """

    def __init__(self, conf: dict[str, Any]) -> None:
        code, rest = without_code(conf, "key.deserializer", "value.deserializer")
        self._key_deserializer, self._value_deserializer = code
        super().__init__(rest)

    def poll(self, timeout: float = -1) -> Messages:
        """Messages, deserialized."""
        messages = super().poll(timeout)
        for message in messages:
            key, value = message.key(), message.value()
            try:
                deserialized(message, self._key_deserializer, self._value_deserializer)
            except ConsumeError as error:
                message.set_key(key)
                message.set_value(value)
                message.set_error(KafkaError(error.code, str(error.exception)))
        return messages
