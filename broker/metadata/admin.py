"""The requests of administrators to the controller, as values. The gateway turns them into gRPC.

Errors are per item: one bad topic does not fail the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from pylog.model import NO_LEADER, BrokerId, NewTopic, TopicId
from pylog_broker.metadata.messages import Failure
from pylog_broker.metadata.records import ConfigResourceType


@dataclass(frozen=True, slots=True)
class CreateTopics:
    """Topics to create. -1 as a count means the cluster's default.

    Answered when every live broker knows of the new partitions, at the latest after `timeout_ms`.
    With `internal` the caller is the cluster itself, and reserved names are allowed.
    """

    topics: tuple[NewTopic, ...]
    timeout_ms: int = 30_000
    validate_only: bool = False
    internal: bool = False


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """The topic as created (or as it would be, when only validated), or why not."""

    name: str
    failure: Failure | None = None
    topic_id: TopicId | None = None
    num_partitions: int = -1
    replication_factor: int = -1


@dataclass(frozen=True, slots=True)
class TopicsCreated:
    """The answer to CreateTopics, in the order of the request."""

    topics: tuple[CreatedTopic, ...]


@dataclass(frozen=True, slots=True)
class DeleteTopics:
    """Topics to delete, by name or by id."""

    names: tuple[str, ...] = ()
    topic_ids: tuple[TopicId, ...] = ()
    internal: bool = False


@dataclass(frozen=True, slots=True)
class DeletedTopic:
    """One topic that is gone, or why not."""

    name: str | None
    topic_id: TopicId | None = None
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class TopicsDeleted:
    """The answer to DeleteTopics: names first, then ids, in the order of the request."""

    topics: tuple[DeletedTopic, ...]


@dataclass(frozen=True, slots=True)
class NewPartitionsOf:
    """A topic to grow; `assignment` (one list of brokers for each added partition) None: placed."""

    topic: str
    total_count: int
    assignment: tuple[tuple[BrokerId, ...], ...] | None = None


@dataclass(frozen=True, slots=True)
class CreatePartitions:
    """Topics to grow. Answered when every live broker knows of the new partitions, at the latest
    after `timeout_ms`.
    """

    topics: tuple[NewPartitionsOf, ...]
    timeout_ms: int = 30_000
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class GrownTopic:
    """The partition count that the topic has now (or would have), or the reason why it was not
    grown."""

    name: str
    failure: Failure | None = None
    num_partitions: int = -1


@dataclass(frozen=True, slots=True)
class PartitionsCreated:
    """The answer to CreatePartitions, in the order of the request."""

    topics: tuple[GrownTopic, ...]


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """New values of one resource; None puts the default back. All of them apply, or none.

    Of lists, items may be `appended` and `subtracted` (texts with commas) to and from what holds at
    the moment. A setting is named once in all three.
    """

    resource_type: ConfigResourceType
    resource_name: str
    values: Mapping[str, str | None] = field(default_factory=dict)
    appended: Mapping[str, str] = field(default_factory=dict)
    subtracted: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AlterConfigs:
    """Configuration changes (KIP-339: only what is named changes).

    Answered when every live broker knows of them, at the latest after `timeout_ms`.
    """

    changes: tuple[ConfigChange, ...]
    validate_only: bool = False
    timeout_ms: int = 0


@dataclass(frozen=True, slots=True)
class AlteredConfig:
    """One resource that changed, or why not."""

    resource_type: ConfigResourceType
    resource_name: str
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class ConfigsAltered:
    """The answer to AlterConfigs, in the order of the request."""

    resources: tuple[AlteredConfig, ...]


@dataclass(frozen=True, slots=True)
class ConfigsQuestion:
    """The settings of one resource to describe; `names` None: all of them."""

    resource_type: ConfigResourceType
    resource_name: str
    names: tuple[str, ...] | None = None


class ConfigSource(IntEnum):
    """The sources of a value, with Apache Kafka's numbers. The first five stand over one another,
    the strongest first; a group's own value stands where a topic's does.
    """

    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_GROUP_CONFIG = 8


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """A value that one source gives, under the name that the setting has there."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """A setting as it holds: the first of `synonyms`, which are all its sources.

    A sensitive setting's values are None. `read_only`: read at the start of a process only.
    """

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    sensitive: bool
    type: str
    doc: str
    synonyms: tuple[ConfigValue, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribedConfig:
    """One resource's settings, sorted by name, or why there are none."""

    resource_type: ConfigResourceType
    resource_name: str
    failure: Failure | None = None
    entries: tuple[ConfigEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class ElectLeaders:
    """Elections by command (KIP-183, KIP-460).

    `partitions` as (topic name, partition), None for all. Unclean elections may lose acknowledged
    records: they need the list of partitions.
    """

    unclean: bool
    partitions: tuple[tuple[str, int], ...] | None = None


@dataclass(frozen=True, slots=True)
class ElectedLeader:
    """The partition's new leader, or why there was no election (where none was needed: and its
    leader).
    """

    topic: str
    partition: int
    failure: Failure | None = None
    leader: BrokerId = NO_LEADER


@dataclass(frozen=True, slots=True)
class LeadersElected:
    """The answer to ElectLeaders. Asked for all: only those that changed or failed."""

    partitions: tuple[ElectedLeader, ...]
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class NewReplicas:
    """The replicas that a partition is to move to, preferred leader first; None: cancel the move
    that is going on.
    """

    topic: str
    partition: int
    replicas: tuple[BrokerId, ...] | None


@dataclass(frozen=True, slots=True)
class AlterPartitionReassignments:
    """Partitions to move to other brokers (KIP-455), each by itself."""

    partitions: tuple[NewReplicas, ...]
    allow_replication_factor_change: bool = True


@dataclass(frozen=True, slots=True)
class AlteredReassignment:
    """One partition that moves, or moves no more; or why not."""

    topic: str
    partition: int
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class PartitionReassignmentsAltered:
    """The answer to AlterPartitionReassignments, in the order of the request; or why nothing was
    changed.
    """

    partitions: tuple[AlteredReassignment, ...]
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class ListPartitionReassignments:
    """The moves to list, as (topic name, partition); None: all that go on."""

    partitions: tuple[tuple[str, int], ...] | None = None


@dataclass(frozen=True, slots=True)
class OngoingReassignment:
    """A partition that moves: all its replicas of now, those that join, and those that leave."""

    topic: str
    partition: int
    replicas: tuple[BrokerId, ...]
    adding: tuple[BrokerId, ...]
    removing: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True)
class FeatureState:
    """A feature's finalized level, and the levels that the controller and all brokers support."""

    name: str
    level: int
    lowest: int
    highest: int


@dataclass(frozen=True, slots=True)
class UpdateFeatures:
    """Features to raise, each to a level; all of them, or none."""

    levels: tuple[tuple[str, int], ...]
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class FeaturesUpdated:
    """The answer to UpdateFeatures: what holds (or would), or why nothing was changed."""

    failure: Failure | None = None
    features: tuple[FeatureState, ...] = ()
