"""What administrators ask of the controller, as values. The gateway turns them into gRPC.

Errors are per item: one bad topic does not fail the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from broker.metadata.messages import Failure
from broker.metadata.records import ConfigResourceType
from pylog.model import NO_LEADER, BrokerId, NewTopic, TopicId


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
class ConfigChange:
    """New values of one resource; None puts the default back. All of them apply, or none."""

    resource_type: ConfigResourceType
    resource_name: str
    values: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class AlterConfigs:
    """Configuration changes (KIP-339: only what is named changes)."""

    changes: tuple[ConfigChange, ...]
    validate_only: bool = False


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
class ElectLeaders:
    """Elections by command (KIP-183, KIP-460).

    `partitions` as (topic name, partition), None for all. Unclean elections may lose acknowledged
    records: they need the list of partitions.
    """

    unclean: bool
    partitions: tuple[tuple[str, int], ...] | None = None


@dataclass(frozen=True, slots=True)
class ElectedLeader:
    """The partition's new leader, or why there was no election."""

    topic: str
    partition: int
    failure: Failure | None = None
    leader: BrokerId = NO_LEADER


@dataclass(frozen=True, slots=True)
class LeadersElected:
    """The answer to ElectLeaders. Asked for all: only those that changed or failed."""

    partitions: tuple[ElectedLeader, ...]
    failure: Failure | None = None
