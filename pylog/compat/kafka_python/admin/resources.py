"""The arguments of kafka-python's admin client: topics, settings, members, and their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum, IntEnum, StrEnum
from typing import Any, TypeVar

E = TypeVar("E", bound=Enum)


def member_of(enum: type[E], given: Any) -> E:
    """The member with that value or name, in any case; ValueError for another one."""
    if isinstance(given, enum):
        return given
    for member in enum:
        names = (member.name, str(member.value).upper())
        if given == member.value or str(given).strip().upper().replace("-", "_") in names:
            return member
    raise ValueError(f"Unrecognized {enum.__name__}: {given}")


class NewTopic:
    """A topic to create; -1 means the cluster's default."""

    def __init__(
        self,
        name: str,
        num_partitions: int = -1,
        replication_factor: int = -1,
        replica_assignments: Mapping[int, Sequence[int]] | None = None,
        topic_configs: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.replica_assignments = replica_assignments or {}
        self.topic_configs = topic_configs or {}


class NewPartitions:
    """The partition count that a topic shall grow to."""

    def __init__(
        self, total_count: int, new_assignments: Sequence[Sequence[int]] | None = None
    ) -> None:
        self.total_count = total_count
        self.new_assignments = new_assignments


class ConfigResourceType(IntEnum):
    """The kinds of resources that have settings."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource:
    """A topic, broker or group with settings: names to look up, or values to set."""

    def __init__(
        self,
        resource_type: ConfigResourceType | str,
        name: str,
        configs: Mapping[str, Any] | Sequence[str] | None = None,
    ) -> None:
        self.resource_type = member_of(ConfigResourceType, resource_type)
        self.name = name
        self.configs = configs

    def __str__(self) -> str:
        return f"ConfigResource {self.name}={self.resource_type}"

    def __repr__(self) -> str:
        return f"ConfigResource({self.resource_type}, {self.name}, {self.configs})"


class ConfigFilterType(IntEnum):
    """The settings that a description includes."""

    ALL = 0
    DYNAMIC = 1
    MODIFIED = 2
    DEFAULT = 3
    STATIC = 4


class ConfigType(IntEnum):
    """The type of a setting."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ConfigSourceType(IntEnum):
    """The sources of a setting's value."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


class AlterConfigOp(IntEnum):
    """The changes that can be made to a setting."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class OffsetSpec(IntEnum):
    """An end of a partition, or its latest record by time."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5


class OffsetTimestamp(int):
    """Milliseconds since 1970, to be told from an offset."""


class IsolationLevel(IntEnum):
    """Whether records of open and aborted transactions are seen."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class GroupState(StrEnum):
    """The state of a group."""

    UNKNOWN = "Unknown"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"
    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"


class GroupType(StrEnum):
    """The protocol of a group's members."""

    UNKNOWN = "Unknown"
    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"


class TransactionState(StrEnum):
    """The state of a transactional id."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"
    UNKNOWN = "Unknown"


class UpdateFeatureType(IntEnum):
    """The ways in which a feature's level may change."""

    UNKNOWN = 0
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class MemberToRemove:
    """A member that is to leave its group: by its id, or by its static name."""

    def __init__(
        self,
        member_id: str | None = None,
        group_instance_id: str | None = None,
        reason: str | None = None,
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.reason = reason

    def _parts(self) -> tuple[str | None, ...]:
        return self.member_id, self.group_instance_id, self.reason

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MemberToRemove) and self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash(self._parts())

    def __repr__(self) -> str:
        names = f"member_id={self.member_id}, group_instance_id={self.group_instance_id}"
        return f"<MemberToRemove {names}>"
