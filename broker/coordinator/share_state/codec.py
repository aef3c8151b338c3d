"""Records of `__share_group_state` as bytes: Kafka's schemas."""

from __future__ import annotations

from struct import Struct
from typing import Final

from pylog_broker.coordinator.generated import share_snapshot, share_update
from pylog_broker.coordinator.generated.share_snapshot import ShareSnapshotKey
from pylog_broker.coordinator.runtime.decision import Record
from pylog_broker.kafka_primitives import MalformedMessage

_TYPE: Final = Struct(">h")
_MODULES: Final = {module.TYPE: module for module in (share_snapshot, share_update)}


class ShareStateCodec:
    """A `Codec`."""

    def encode(self, record: Record) -> tuple[bytes, bytes | None]:
        """Key and value."""
        key, value, _ = record
        if isinstance(key, ShareSnapshotKey):
            written = None if value is None else share_snapshot.encode_value(value, 0)
            return share_snapshot.encode_key(key), written
        written = None if value is None else share_update.encode_value(value, 0)
        return share_update.encode_key(key), written

    def decode(self, key: bytes, value: bytes | None) -> Record | None:
        """The record; None for one of a type that this release does not know. Raises
        MalformedMessage.
        """
        if len(key) < _TYPE.size:
            raise MalformedMessage("the key of a record of share state has no type")
        module = _MODULES.get(_TYPE.unpack_from(key)[0])
        if module is None:
            return None
        content = None if value is None else module.decode_value(memoryview(value))
        return Record(module.decode_key(memoryview(key)), content)
