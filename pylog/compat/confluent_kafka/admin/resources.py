"""The arguments and results of confluent-kafka's admin client."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, TypeVar

from pylog.compat.confluent_kafka.model import (
    ConsumerGroupState,
    ConsumerGroupType,
    Node,
    OrderedEnum,
    TopicPartition,
    TopicPartitionInfo,
    Uuid,
)

E = TypeVar("E", bound=Enum)


def member_of(enum: type[E], given: Any) -> E:
    """The member with that name or number; ValueError and TypeError as in the library."""
    if isinstance(given, enum):
        return given
    if isinstance(given, str):
        try:
            return enum[given.upper()]
        except KeyError:
            raise ValueError(f"Unknown value {given!r}: should be a {enum.__name__}") from None
    if isinstance(given, int):
        return enum(given)
    raise TypeError(f"Unknown value {given!r}: should be a {enum.__name__}")


class NewTopic:
    """A topic to create; -1 means the cluster's default. `replica_assignment` lists the brokers of
    each partition.
    """

    def __init__(
        self,
        topic: str,
        num_partitions: int = -1,
        replication_factor: int = -1,
        replica_assignment: Sequence[Sequence[int]] | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self.topic = topic
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.replica_assignment = replica_assignment
        self.config = config

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NewTopic) and self.topic == other.topic

    def __lt__(self, other: NewTopic) -> bool:
        return self.topic < other.topic

    def __hash__(self) -> int:
        return hash(self.topic)

    def __repr__(self) -> str:
        return f"NewTopic(topic={self.topic},num_partitions={self.num_partitions})"


class NewPartitions:
    """The partition count that a topic shall grow to."""

    def __init__(
        self,
        topic: str,
        new_total_count: int,
        replica_assignment: Sequence[Sequence[int]] | None = None,
    ) -> None:
        self.topic = topic
        self.new_total_count = new_total_count
        self.replica_assignment = replica_assignment

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NewPartitions) and self.topic == other.topic

    def __lt__(self, other: NewPartitions) -> bool:
        return self.topic < other.topic

    def __hash__(self) -> int:
        return hash(self.topic)

    def __repr__(self) -> str:
        return f"NewPartitions(topic={self.topic},new_total_count={self.new_total_count})"


class ResourceType(OrderedEnum):
    """The kinds of resources that have settings."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    BROKER = 4
    TRANSACTIONAL_ID = 5


class ResourcePatternType(OrderedEnum):
    """The ways in which a pattern matches names of resources."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AlterConfigOpType(OrderedEnum):
    """The changes that can be made to a setting."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigSource(OrderedEnum):
    """The sources of a setting's value."""

    UNKNOWN_CONFIG = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    GROUP_CONFIG = 8


class ConfigEntry:
    """A setting as it holds, or a change of one. `source` is a ConfigSource's number."""

    def __init__(
        self,
        name: str,
        value: str | None,
        source: Any = ConfigSource.UNKNOWN_CONFIG,
        is_read_only: bool = False,
        is_default: bool = False,
        is_sensitive: bool = False,
        is_synonym: bool = False,
        synonyms: Mapping[str, ConfigEntry] | None = None,
        incremental_operation: AlterConfigOpType | None = None,
    ) -> None:
        self.name = name
        self.value = value
        self.source = source
        self.is_read_only = is_read_only
        self.is_default = is_default
        self.is_sensitive = is_sensitive
        self.is_synonym = is_synonym
        self.synonyms = dict(synonyms or {})
        self.incremental_operation = incremental_operation

    def __repr__(self) -> str:
        return f"ConfigEntry({self})"

    def __str__(self) -> str:
        return f'{self.name}="{self.value}"'


class ConfigResource:
    """A topic, broker or group, with the settings that it is to have."""

    Type = ResourceType

    def __init__(
        self,
        restype: Any,
        name: str,
        set_config: Mapping[str, str] | None = None,
        described_configs: Mapping[str, ConfigEntry] | None = None,
        error: Any = None,
        incremental_configs: Sequence[ConfigEntry] | None = None,
    ) -> None:
        if name is None:
            raise ValueError("expected resource name to be not None")
        self.restype = member_of(ResourceType, restype)
        self.restype_int = self.restype.value
        self.name = name
        self.set_config_dict = dict(set_config or {})
        self.incremental_configs = list(incremental_configs or [])
        self.configs = described_configs
        self.error = error

    def set_config(self, name: str, value: str, overwrite: bool = True) -> None:
        """Have a setting set; one that is there already only with `overwrite`."""
        if overwrite or name not in self.set_config_dict:
            self.set_config_dict[name] = value

    def add_incremental_config(self, config_entry: ConfigEntry) -> None:
        """Have a setting changed."""
        self.incremental_configs.append(config_entry)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConfigResource) and self._key() == other._key()

    def __lt__(self, other: ConfigResource) -> bool:
        return (self.restype.value, self.name) < (other.restype.value, other.name)

    def _key(self) -> tuple[ResourceType, str]:
        return self.restype, self.name

    def __hash__(self) -> int:
        return hash(self._key())

    def __len__(self) -> int:
        return len(self.set_config_dict)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"ConfigResource({self.restype},{self.name})"


class OffsetSpec(ABC):
    """The offset of a partition that a caller asks for."""

    @classmethod
    def earliest(cls) -> OffsetSpec:
        """The first."""
        return EarliestSpec()

    @classmethod
    def latest(cls) -> OffsetSpec:
        """The one behind the last."""
        return LatestSpec()

    @classmethod
    def max_timestamp(cls) -> OffsetSpec:
        """The offset of the record with the largest timestamp."""
        return MaxTimestampSpec()

    @classmethod
    def for_timestamp(cls, timestamp: int) -> OffsetSpec:
        """The offset of the first record at or after a time, in milliseconds since 1970."""
        return TimestampSpec(timestamp)

    @abstractmethod
    def ours(self) -> str | int:
        """pylog's word for it."""


class EarliestSpec(OffsetSpec):
    """The first offset."""

    def ours(self) -> str | int:
        """pylog's word for it."""
        return "earliest"


class LatestSpec(OffsetSpec):
    """The offset behind the last record."""

    def ours(self) -> str | int:
        """pylog's word for it."""
        return "latest"


class MaxTimestampSpec(OffsetSpec):
    """The offset of the record with the largest timestamp."""

    def ours(self) -> str | int:
        """pylog's word for it."""
        return "max_timestamp"


class TimestampSpec(OffsetSpec):
    """The offset of the first record at or after a time."""

    def __init__(self, timestamp: int) -> None:
        self.timestamp = timestamp

    def ours(self) -> str | int:
        """pylog's word for it."""
        return self.timestamp


class ListOffsetsResultInfo:
    """An offset that was asked for; -1 where there is none."""

    def __init__(self, offset: int, timestamp: int, leader_epoch: int | None) -> None:
        self.offset = offset
        self.timestamp = timestamp
        self.leader_epoch = leader_epoch


class DeletedRecords:
    """The first offset of a partition after records were deleted."""

    def __init__(self, low_watermark: int) -> None:
        self.low_watermark = low_watermark


class ConsumerGroupListing:
    """A group, in one line."""

    def __init__(
        self,
        group_id: str,
        is_simple_consumer_group: bool,
        state: ConsumerGroupState | None = None,
        type: ConsumerGroupType | None = None,
    ) -> None:
        self.group_id = group_id
        self.is_simple_consumer_group = is_simple_consumer_group
        self.state = state
        self.type = type


class ListConsumerGroupsResult:
    """Groups, and the errors of brokers that did not answer."""

    def __init__(
        self,
        valid: list[ConsumerGroupListing] | None = None,
        errors: list[Exception] | None = None,
    ) -> None:
        self.valid = valid
        self.errors = errors


class MemberAssignment:
    """The partitions that a member reads."""

    def __init__(self, topic_partitions: list[TopicPartition] | None) -> None:
        self.topic_partitions = topic_partitions or []


class MemberDescription:
    """A member of a group."""

    def __init__(
        self,
        member_id: str,
        client_id: str,
        host: str,
        assignment: MemberAssignment,
        group_instance_id: str | None = None,
        target_assignment: MemberAssignment | None = None,
    ) -> None:
        self.member_id = member_id
        self.client_id = client_id
        self.host = host
        self.assignment = assignment
        self.group_instance_id = group_instance_id
        self.target_assignment = target_assignment


class ConsumerGroupDescription:
    """A group with its members."""

    def __init__(
        self,
        group_id: str,
        is_simple_consumer_group: bool,
        members: list[MemberDescription],
        partition_assignor: str,
        state: ConsumerGroupState,
        coordinator: Node,
        authorized_operations: Any = None,
        type: ConsumerGroupType = ConsumerGroupType.UNKNOWN,
    ) -> None:
        self.group_id = group_id
        self.is_simple_consumer_group = is_simple_consumer_group
        self.members = members
        self.partition_assignor = partition_assignor
        self.state = state
        self.coordinator = coordinator
        self.authorized_operations = authorized_operations
        self.type = type


class TopicDescription:
    """A topic with its partitions."""

    def __init__(
        self,
        name: str,
        topic_id: Uuid,
        is_internal: bool,
        partitions: list[TopicPartitionInfo],
        authorized_operations: Any = None,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.is_internal = is_internal
        self.partitions = partitions
        self.authorized_operations = authorized_operations


class DescribeClusterResult:
    """The cluster with its brokers."""

    def __init__(
        self,
        controller: Node | None,
        nodes: list[Node],
        cluster_id: str | None = None,
        authorized_operations: Any = None,
    ) -> None:
        self.cluster_id = cluster_id
        self.controller = controller
        self.nodes = nodes
        self.authorized_operations = authorized_operations
