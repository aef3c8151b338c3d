"""confluent-kafka's clients for asyncio that serialize and deserialize: to be made by
`await AsyncSerializingProducer(conf)`. Serializers, deserializers and builders are functions or
coroutines.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar

from pylog.compat.confluent_kafka.aio.clients import AIOConsumer, AIOProducer
from pylog.compat.confluent_kafka.error import (
    ConsumeError,
    KeyDeserializationError,
    KeySerializationError,
    ValueDeserializationError,
    ValueSerializationError,
)
from pylog.compat.confluent_kafka.model import Message
from pylog.compat.confluent_kafka.serialization import MessageField, SerializationContext

K = TypeVar("K")
V = TypeVar("V")


async def _outcome(given: Any) -> Any:
    return await given if inspect.isawaitable(given) else given


async def _coded(
    code: Any, given: Any, ctx: SerializationContext, fault: Callable[[Exception], Exception]
) -> Any:
    """`given` as the serializer or deserializer makes it, where there is one; `fault` of what it
    raises.
    """
    if code is None:
        return given
    try:
        return await _outcome(code(given, ctx))
    except Exception as error:
        raise fault(error) from error


async def _codes(conf: dict[str, Any], *names: str) -> tuple[list[Any], dict[str, Any]]:
    """The codes of these settings, or what their builders make, and the settings that are left."""
    rest, found = dict(conf), []
    for name in names:
        code, builder = rest.pop(name, None), rest.pop(f"{name}.builder", None)
        if code is not None and builder is not None:
            raise ValueError(f"Cannot configure both {name} and {name}.builder; use one of them")
        if builder is not None:
            code, rest = await _outcome(builder.build(rest, name.startswith("key.")))
        found.append(code)
    return found, rest


class AsyncSerializingProducer(AIOProducer, Generic[K, V]):
    """Sends objects: `key.serializer` and `value.serializer` are callables (obj, ctx)."""

    _key_serializer: Any
    _value_serializer: Any

    async def __new__(  # type: ignore[misc]  # as the library has it: to be awaited
        cls, conf: dict[str, Any], **named: Any
    ) -> Any:
        """The producer, once its builders are done."""
        code, rest = await _codes(conf, "key.serializer", "value.serializer")
        made = object.__new__(cls)
        made._key_serializer, made._value_serializer = code
        AIOProducer.__init__(made, rest, **named)
        return made

    async def produce(  # type: ignore[override]
        self,
        topic: str,
        key: Any = None,
        value: Any = None,
        partition: int = -1,
        timestamp: int = 0,
        headers: Any = None,
    ) -> asyncio.Future[Any]:
        """A future of the message as it was delivered; KeySerializationError and
        ValueSerializationError for an object that cannot be serialized.
        """
        self._inner._check_open()
        ctx = SerializationContext(topic, MessageField.KEY, headers)
        key = await _coded(self._key_serializer, key, ctx, KeySerializationError)
        ctx = SerializationContext(topic, MessageField.VALUE, headers)
        value = await _coded(self._value_serializer, value, ctx, ValueSerializationError)
        return await super().produce(
            topic, value, key, partition=partition, timestamp=timestamp, headers=headers
        )


class AsyncDeserializingConsumer(AIOConsumer, Generic[K, V]):
    """Reads objects: `key.deserializer` and `value.deserializer` are callables (bytes, ctx)."""

    _key_deserializer: Any
    _value_deserializer: Any

    async def __new__(  # type: ignore[misc]  # as the library has it: to be awaited
        cls, conf: dict[str, Any], **named: Any
    ) -> Any:
        """The consumer, once its builders are done."""
        code, rest = await _codes(conf, "key.deserializer", "value.deserializer")
        made = object.__new__(cls)
        made._key_deserializer, made._value_deserializer = code
        AIOConsumer.__init__(made, rest, **named)
        return made

    async def poll(self, timeout: float = -1) -> Message[K, V] | None:
        """The next message, deserialized; None after `timeout` seconds. Errors are raised."""
        message: Message[Any, Any] | None = await super().poll(timeout)
        if message is None:
            return None
        error = message.error()
        if error is not None:
            raise ConsumeError(error, kafka_message=message)
        return await self._deserialized(message)

    async def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message[K, V]]:
        """Messages, deserialized; those of errors are among them."""
        found = await super().consume(num_messages, timeout)
        return [m if m.error() is not None else await self._deserialized(m) for m in found]

    async def _deserialized(self, message: Message[Any, Any]) -> Message[K, V]:
        topic, headers = str(message.topic()), message.headers()
        ctx = SerializationContext(topic, MessageField.KEY, headers)
        fault: Callable[[Exception], Exception] = partial(
            KeyDeserializationError, kafka_message=message
        )
        key = await _coded(self._key_deserializer, message.key(), ctx, fault)
        ctx = SerializationContext(topic, MessageField.VALUE, headers)
        fault = partial(ValueDeserializationError, kafka_message=message)
        value = await _coded(self._value_deserializer, message.value(), ctx, fault)
        message.set_key(key)
        message.set_value(value)
        return message
