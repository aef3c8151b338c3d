"""Records of `__transaction_state` as bytes: Kafka's schema, in the version that 4.2 writes, and
pylog's own for sinks.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from types import ModuleType
from typing import Any, Final

from pylog_broker.coordinator.generated import (
    sink_decision,
    sink_runs,
    sink_task,
    transaction_log,
)
from pylog_broker.coordinator.generated.sink_decision import SinkDecisionKey
from pylog_broker.coordinator.generated.sink_runs import SinkRunsKey
from pylog_broker.coordinator.generated.sink_task import SinkTaskKey
from pylog_broker.coordinator.generated.transaction_log import TransactionLogKey
from pylog_broker.coordinator.runtime.decision import Record
from pylog_broker.kafka_primitives import MalformedMessage

_TYPE: Final = Struct(">h")
TRANSACTION_RECORDS: Final[Mapping[int, ModuleType]] = {
    module.TYPE: module for module in (transaction_log, sink_runs, sink_decision, sink_task)
}
"""The codec of each type of record."""
_BY_KEY: Final[Mapping[type[Any], tuple[ModuleType, int]]] = {
    # The version that has room for what transaction version 2 needs.
    TransactionLogKey: (transaction_log, 1),
    SinkRunsKey: (sink_runs, 0),
    SinkDecisionKey: (sink_decision, 1),
    SinkTaskKey: (sink_task, 0),
}


class TransactionCodec:
    """A `Codec`."""

    def encode(self, record: Record) -> tuple[bytes, bytes | None]:
        """Key and value."""
        module, version = _BY_KEY[type(record.key)]
        key: bytes = module.encode_key(record.key)
        if record.value is None:
            return key, None
        value: bytes = module.encode_value(record.value, version)
        return key, value

    def decode(self, key: bytes, value: bytes | None) -> Record | None:
        """The record; None for one of a type that this release does not know. Raises
        MalformedMessage.
        """
        if len(key) < _TYPE.size:
            raise MalformedMessage("the key of a transaction's record has no type")
        module = TRANSACTION_RECORDS.get(_TYPE.unpack_from(key)[0])
        if module is None:
            return None
        decoded = module.decode_key(memoryview(key))
        if value is None:
            return Record(decoded, None)
        return Record(decoded, module.decode_value(memoryview(value)))
