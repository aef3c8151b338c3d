"""Records of `__transaction_state` as bytes: Kafka's schema, in the version that 4.2 writes."""

from __future__ import annotations

from struct import Struct
from typing import Final

from pylog_broker.coordinator.generated import transaction_log
from pylog_broker.coordinator.runtime.decision import Record
from pylog_broker.kafka_primitives import MalformedMessage

_TYPE: Final = Struct(">h")
_VERSION: Final = 1
"""The one that has room for what transaction version 2 needs."""


class TransactionCodec:
    """A `Codec`."""

    def encode(self, record: Record) -> tuple[bytes, bytes | None]:
        """Key and value."""
        key = transaction_log.encode_key(record.key)
        if record.value is None:
            return key, None
        return key, transaction_log.encode_value(record.value, _VERSION)

    def decode(self, key: bytes, value: bytes | None) -> Record | None:
        """The record; None for one of a type that this release does not know. Raises
        MalformedMessage.
        """
        if len(key) < _TYPE.size:
            raise MalformedMessage("the key of a transaction's record has no type")
        if _TYPE.unpack_from(key)[0] != transaction_log.TYPE:
            return None
        decoded = transaction_log.decode_key(memoryview(key))
        if value is None:
            return Record(decoded, None)
        return Record(decoded, transaction_log.decode_value(memoryview(value)))
