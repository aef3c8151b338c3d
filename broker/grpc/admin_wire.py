"""Between the messages of the Admin service and the controller's values."""

from __future__ import annotations

from typing import Final

from pylog import errors
from pylog.model import BrokerId, NewTopic
from pylog.rpc.v1 import admin_pb2
from pylog_broker.metadata.admin import (
    AlterConfigs,
    ConfigChange,
    ConfigsQuestion,
    CreatePartitions,
    DescribedConfig,
    FeatureState,
    NewPartitionsOf,
)
from pylog_broker.metadata.records import ConfigResourceType
from pylog_broker.protobuf.failures import error_of

BROKERS_KNOW_MS_MAX: Final = 10_000
"""A change holds once it is durable; a broker that stands still shall not hold up the answer."""
ITEMS_PER_REQUEST_MAX: Final = 10_000


def bounded(items: int, what: str = "topics") -> None:
    """InvalidRequest when a request names more than `ITEMS_PER_REQUEST_MAX` things."""
    if items > ITEMS_PER_REQUEST_MAX:
        raise errors.InvalidRequest(
            f"{items} {what} in one request; the limit is {ITEMS_PER_REQUEST_MAX}"
        )


def new_topic_from(topic: admin_pb2.NewTopic) -> NewTopic:
    """A topic to create."""
    assignment = {item.partition: tuple(item.brokers) for item in topic.assignment}
    if len(assignment) != len(topic.assignment):
        raise errors.InvalidReplicaAssignment(f"topic {topic.name}: a partition is assigned twice")
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        replica_assignment=assignment or None,
        config=dict(topic.config) or None,
    )


def growth_from(request: admin_pb2.CreatePartitionsRequest, timeout_ms: int) -> CreatePartitions:
    """Topics to grow."""
    return CreatePartitions(
        tuple(
            NewPartitionsOf(
                topic.topic,
                topic.total_count,
                tuple(tuple(map(BrokerId, item.brokers)) for item in topic.assignment) or None,
            )
            for topic in request.topics
        ),
        timeout_ms,
        request.validate_only,
    )


def _kind(resource: admin_pb2.ConfigResource) -> ConfigResourceType:
    try:
        return ConfigResourceType(resource.type)
    except ValueError:
        raise errors.InvalidRequest(
            f"configurations belong to the cluster, a topic or a broker, not to a resource of "
            f"the kind {resource.type}"
        ) from None


def resource_message(kind: ConfigResourceType, name: str) -> admin_pb2.ConfigResource:
    """What a configuration belongs to."""
    return admin_pb2.ConfigResource(type=admin_pb2.ConfigResource.Type.Name(kind.value), name=name)


def question_from(item: admin_pb2.ConfigQuestion) -> ConfigsQuestion:
    """Which settings to describe."""
    return ConfigsQuestion(
        _kind(item.resource),
        item.resource.name,
        None if item.all_names else tuple(item.names),
    )


def described_message(described: DescribedConfig) -> admin_pb2.DescribedConfig:
    """One resource's settings."""
    return admin_pb2.DescribedConfig(
        error=error_of(described.failure),
        resource=resource_message(described.resource_type, described.resource_name),
        entries=[
            admin_pb2.ConfigEntry(
                name=entry.name,
                value=entry.value,
                source=admin_pb2.ConfigSource.Name(entry.source),
                read_only=entry.read_only,
                sensitive=entry.sensitive,
                type=entry.type,
                documentation=entry.doc,
                synonyms=[
                    admin_pb2.ConfigSynonym(
                        name=synonym.name,
                        value=synonym.value,
                        source=admin_pb2.ConfigSource.Name(synonym.source),
                    )
                    for synonym in entry.synonyms
                ],
            )
            for entry in described.entries
        ],
    )


def changes_from(request: admin_pb2.AlterConfigsRequest) -> AlterConfigs:
    """Configuration changes. InvalidRequest when a setting is named twice for a resource."""
    timeout_ms = min(max(0, request.timeout_ms), BROKERS_KNOW_MS_MAX)
    changes = tuple(map(_change, request.resources))
    return AlterConfigs(changes, request.validate_only, timeout_ms)


def _change(item: admin_pb2.AlteredResource) -> ConfigChange:
    kinds = admin_pb2.AlterConfigOp
    values: dict[str, str | None] = {}
    appended: dict[str, str] = {}
    subtracted: dict[str, str] = {}
    for op in item.ops:
        if op.name in values or op.name in appended or op.name in subtracted:
            raise errors.InvalidRequest(
                f"{item.resource.name[:249]}: {op.name[:120]} is changed twice in one request"
            )
        match op.type:
            case kinds.SET:
                values[op.name] = op.value
            case kinds.DELETE:
                values[op.name] = None
            case kinds.APPEND:
                appended[op.name] = op.value
            case kinds.SUBTRACT:
                subtracted[op.name] = op.value
            case _:
                raise errors.InvalidRequest(
                    f"{item.resource.name[:249]}: {op.name[:120]} has the unknown kind of change "
                    f"{op.type}"
                )
    return ConfigChange(_kind(item.resource), item.resource.name, values, appended, subtracted)


def feature_message(feature: FeatureState) -> admin_pb2.Feature:
    """A feature's level and range."""
    return admin_pb2.Feature(
        name=feature.name, level=feature.level, lowest=feature.lowest, highest=feature.highest
    )
