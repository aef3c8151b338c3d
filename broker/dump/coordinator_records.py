"""Records of coordinators' topics as rows: what pylog and Kafka 4.2 keep there."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from struct import Struct
from types import ModuleType
from typing import Any, Final

from pylog.model import CONSUMER_OFFSETS
from pylog_broker.controller.settings import SHARE_GROUP_STATE, TRANSACTION_STATE
from pylog_broker.coordinator.generated import share_snapshot, share_update
from pylog_broker.coordinator.groups.codec import GROUP_RECORDS
from pylog_broker.coordinator.transactions.codec import TRANSACTION_RECORDS
from pylog_broker.kafka_primitives import MalformedMessage

_TYPE: Final = Struct(">h")
_BY_TOPIC: Final[Mapping[str, Mapping[int, ModuleType]]] = {
    CONSUMER_OFFSETS: GROUP_RECORDS,
    TRANSACTION_STATE: TRANSACTION_RECORDS,
    SHARE_GROUP_STATE: {module.TYPE: module for module in (share_snapshot, share_update)},
}


def has_coordinator_records(directory: str) -> bool:
    """Whether the directory of that name (`topic-partition`) has a coordinator's log."""
    return directory.rpartition("-")[0] in _BY_TOPIC


def fields_of(directory: str, key: bytes | None, value: bytes | None) -> dict[str, Any] | None:
    """`type`, `key` and `value` of a record by the names of Kafka's schemas; None for a record of
    a type that is not known here. Raises MalformedMessage.
    """
    if key is None or len(key) < _TYPE.size:
        raise MalformedMessage("the key has no type")
    module = _BY_TOPIC[directory.rpartition("-")[0]].get(_TYPE.unpack_from(key)[0])
    if module is None:
        return None
    decoded = module.decode_key(memoryview(key))
    return {
        "type": type(decoded).__name__.removesuffix("Key"),
        "key": _named(decoded),
        "value": None if value is None else _named(module.decode_value(memoryview(value))),
    }


def _named(value: object) -> Any:
    """A decoded value with the names of its fields, and topics' ids as they show elsewhere."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {
            name: base64.urlsafe_b64encode(item).decode().rstrip("=")
            if name == "topic_id"
            else _named(item)
            for name, item in value._asdict().items()
        }
    if isinstance(value, tuple):
        return [_named(item) for item in value]
    return value
