"""Records of `__consumer_offsets` as bytes: Kafka's schemas, in the versions that 4.2 writes."""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from types import ModuleType
from typing import Any, Final

from pylog_broker.coordinator.generated import (
    consumer_group_current_member_assignment,
    consumer_group_member_metadata,
    consumer_group_metadata,
    consumer_group_partition_metadata,
    consumer_group_regular_expression,
    consumer_group_target_assignment_member,
    consumer_group_target_assignment_metadata,
    group_metadata,
    legacy_offset_commit,
    offset_commit,
    share_group_current_member_assignment,
    share_group_member_metadata,
    share_group_metadata,
    share_group_state_partition_metadata,
    share_group_target_assignment_member,
    share_group_target_assignment_metadata,
    streams_group_current_member_assignment,
    streams_group_member_metadata,
    streams_group_metadata,
    streams_group_target_assignment_member,
    streams_group_target_assignment_metadata,
    streams_group_topology,
)
from pylog_broker.coordinator.generated.offset_commit import OffsetCommitValue
from pylog_broker.coordinator.runtime.decision import Record
from pylog_broker.kafka_primitives import MalformedMessage

_TYPE: Final = Struct(">h")
_MODULES: Final[tuple[ModuleType, ...]] = (
    legacy_offset_commit,
    offset_commit,
    group_metadata,
    consumer_group_metadata,
    consumer_group_partition_metadata,
    consumer_group_member_metadata,
    consumer_group_target_assignment_metadata,
    consumer_group_target_assignment_member,
    consumer_group_current_member_assignment,
    consumer_group_regular_expression,
    share_group_metadata,
    share_group_member_metadata,
    share_group_target_assignment_metadata,
    share_group_target_assignment_member,
    share_group_current_member_assignment,
    share_group_state_partition_metadata,
    streams_group_metadata,
    streams_group_member_metadata,
    streams_group_target_assignment_metadata,
    streams_group_target_assignment_member,
    streams_group_current_member_assignment,
    streams_group_topology,
)
GROUP_RECORDS: Final[Mapping[int, ModuleType]] = {module.TYPE: module for module in _MODULES}
"""The codec of each type of record."""
_BY_KEY: Final[dict[type[Any], tuple[ModuleType, int]]] = {
    key_class: (module, {group_metadata.TYPE: 3, offset_commit.TYPE: 4}.get(module.TYPE, 0))
    for module in _MODULES
    for name, key_class in vars(module).items()
    if name.endswith("Key") and isinstance(key_class, type)
}
"""The codec of each key, and the version of its value that is written."""
_EXPIRING_COMMIT: Final = 1
"""The one version of a committed offset that can say when it expires."""


class GroupCodec:
    """A `Codec`."""

    def encode(self, record: Record) -> tuple[bytes, bytes | None]:
        """Key and value."""
        module, version = _BY_KEY[type(record.key)]
        key: bytes = module.encode_key(record.key)
        value = record.value
        if value is None:
            return key, None
        if isinstance(value, OffsetCommitValue) and value.expire_timestamp != -1:
            version = _EXPIRING_COMMIT
        return key, module.encode_value(value, version)

    def decode(self, key: bytes, value: bytes | None) -> Record | None:
        """The record; None for one of a type that this release does not know. A committed offset of
        a release before 0.9 is given as one of today. Raises MalformedMessage.
        """
        if len(key) < _TYPE.size:
            raise MalformedMessage("the key of a group's record has no type")
        module = GROUP_RECORDS.get(_TYPE.unpack_from(key)[0])
        if module is None:
            return None
        decoded = module.decode_key(memoryview(key))
        content = None if value is None else module.decode_value(memoryview(value))
        if module is legacy_offset_commit:
            decoded = offset_commit.OffsetCommitKey(*decoded)
            if content is not None:
                content = OffsetCommitValue(
                    offset=content.offset,
                    metadata=content.metadata,
                    commit_timestamp=content.commit_timestamp,
                )
        return Record(decoded, content)
