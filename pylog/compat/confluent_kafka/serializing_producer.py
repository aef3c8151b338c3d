"""confluent-kafka's `SerializingProducer`: a producer that serializes keys and values."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from pylog.compat.confluent_kafka.error import KeySerializationError, ValueSerializationError
from pylog.compat.confluent_kafka.producer import OnDelivery, Producer
from pylog.compat.confluent_kafka.serialization import MessageField, SerializationContext

K = TypeVar("K")
V = TypeVar("V")


def without_code(conf: dict[str, Any], *names: str) -> tuple[list[Any], dict[str, Any]]:
    """The serializers or deserializers of these settings, or what their builders make, and the
    settings that are left.
    """
    rest, found = dict(conf), []
    for name in names:
        code, builder = rest.pop(name, None), rest.pop(f"{name}.builder", None)
        if code is not None and builder is not None:
            raise ValueError(f"Cannot configure both {name} and {name}.builder; use one of them")
        if builder is not None:
            code, rest = builder.build(rest, name.startswith("key."))
        found.append(code)
    return found, rest


class SerializingProducer(Producer, Generic[K, V]):
    """Sends objects: `key.serializer` and `value.serializer` are callables (obj, ctx) -> bytes."""

    def __init__(self, conf: dict[str, Any]) -> None:
        code, rest = without_code(conf, "key.serializer", "value.serializer")
        self._key_serializer, self._value_serializer = code
        super().__init__(rest)

    def produce(  # type: ignore[override]
        self,
        topic: str,
        key: Any = None,
        value: Any = None,
        partition: int = -1,
        on_delivery: OnDelivery | None = None,
        timestamp: int = 0,
        headers: Any = None,
    ) -> None:
        """Have an object sent; KeySerializationError and ValueSerializationError for one that
        cannot be serialized. The key comes before the value, unlike in `Producer.produce`.
        """
        if self._key_serializer is not None:
            ctx = SerializationContext(topic, MessageField.KEY, headers)
            try:
                key = self._key_serializer(key, ctx)
            except Exception as error:
                raise KeySerializationError(error) from error
        if self._value_serializer is not None:
            ctx = SerializationContext(topic, MessageField.VALUE, headers)
            try:
                value = self._value_serializer(value, ctx)
            except Exception as error:
                raise ValueSerializationError(error) from error
        super().produce(
            topic,
            value,
            key,
            partition=partition,
            on_delivery=on_delivery,
            timestamp=timestamp,
            headers=headers,
        )
