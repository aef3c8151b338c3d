"""Topics, configurations and elections: messages and values."""

from __future__ import annotations

from collections.abc import Sequence

from pylog import errors
from pylog.model import BrokerId, NewTopic, TopicId
from pylog.rpc.v1 import admin_pb2
from pylog_broker.api.admin import ClusterDescription
from pylog_broker.metadata.admin import (
    AlterConfigs,
    AlterPartitionReassignments,
    ConfigChange,
    ConfigsAltered,
    ConfigsQuestion,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    DescribedConfig,
    ElectLeaders,
    FeatureState,
    FeaturesUpdated,
    LeadersElected,
    ListPartitionReassignments,
    NewPartitionsOf,
    NewReplicas,
    OngoingReassignment,
    PartitionReassignmentsAltered,
    PartitionsCreated,
    TopicsCreated,
    TopicsDeleted,
    UpdateFeatures,
)
from pylog_broker.metadata.messages import Failure
from pylog_broker.metadata.records import ConfigResourceType
from pylog_broker.protobuf.failures import error_of
from pylog_broker.protobuf.metadata import broker_messages, endpoint_message


def no_question(_request: object) -> None:
    """The question of a request that has no fields: None."""


# ---- topics -------------------------------------------------------------------------------------


def new_topics_from(request: admin_pb2.CreateTopicsRequest) -> CreateTopics:
    """Topics to create. InvalidReplicaAssignment for a partition that is assigned twice."""
    topics = tuple(map(_new_topic, request.topics))
    return CreateTopics(topics, request.timeout_ms, request.validate_only)


def _new_topic(topic: admin_pb2.NewTopic) -> NewTopic:
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


def topics_created(answer: TopicsCreated) -> admin_pb2.CreateTopicsResponse:
    """Its answer."""
    return admin_pb2.CreateTopicsResponse(
        topics=[
            admin_pb2.CreatedTopic(
                error=error_of(topic.failure),
                name=topic.name,
                topic_id=topic.topic_id or "",
                num_partitions=topic.num_partitions,
                replication_factor=topic.replication_factor,
            )
            for topic in answer.topics
        ]
    )


def deletion_from(request: admin_pb2.DeleteTopicsRequest) -> DeleteTopics:
    """Topics to delete."""
    return DeleteTopics(tuple(request.names), tuple(map(TopicId, request.topic_ids)))


def topics_deleted(answer: TopicsDeleted) -> admin_pb2.DeleteTopicsResponse:
    """Its answer."""
    return admin_pb2.DeleteTopicsResponse(
        topics=[
            admin_pb2.DeletedTopic(
                error=error_of(topic.failure),
                name=topic.name or "",
                topic_id=topic.topic_id or "",
            )
            for topic in answer.topics
        ]
    )


def growth_from(request: admin_pb2.CreatePartitionsRequest) -> CreatePartitions:
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
        request.timeout_ms,
        request.validate_only,
    )


def partitions_created(answer: PartitionsCreated) -> admin_pb2.CreatePartitionsResponse:
    """Its answer."""
    return admin_pb2.CreatePartitionsResponse(
        topics=[
            admin_pb2.GrownTopic(
                error=error_of(topic.failure),
                name=topic.name,
                num_partitions=topic.num_partitions,
            )
            for topic in answer.topics
        ]
    )


# ---- configurations -----------------------------------------------------------------------------


def _kind(resource: admin_pb2.ConfigResource) -> ConfigResourceType:
    try:
        return ConfigResourceType(resource.type)
    except ValueError:
        raise errors.InvalidRequest(
            f"configurations belong to the cluster, a topic, a broker or a group, not to a "
            f"resource of the kind {resource.type}"
        ) from None


def _resource(kind: ConfigResourceType, name: str) -> admin_pb2.ConfigResource:
    """The resource of a configuration."""
    return admin_pb2.ConfigResource(type=admin_pb2.ConfigResource.Type.Name(kind.value), name=name)


def questions_from(request: admin_pb2.DescribeConfigsRequest) -> list[ConfigsQuestion]:
    """The settings to describe. InvalidRequest for resources that have none."""
    return [*map(_question, request.resources)]


def configs_described(answer: Sequence[DescribedConfig]) -> admin_pb2.DescribeConfigsResponse:
    """Its answer."""
    return admin_pb2.DescribeConfigsResponse(resources=map(_described, answer))


def _question(item: admin_pb2.ConfigQuestion) -> ConfigsQuestion:
    return ConfigsQuestion(
        _kind(item.resource),
        item.resource.name,
        None if item.all_names else tuple(item.names),
    )


def _described(described: DescribedConfig) -> admin_pb2.DescribedConfig:
    return admin_pb2.DescribedConfig(
        error=error_of(described.failure),
        resource=_resource(described.resource_type, described.resource_name),
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
    changes = tuple(map(_change, request.resources))
    return AlterConfigs(changes, request.validate_only, request.timeout_ms)


def configs_altered(answer: ConfigsAltered) -> admin_pb2.AlterConfigsResponse:
    """Its answer."""
    return admin_pb2.AlterConfigsResponse(
        resources=[
            admin_pb2.AlterConfigsResult(
                error=error_of(altered.failure),
                resource=_resource(altered.resource_type, altered.resource_name),
            )
            for altered in answer.resources
        ]
    )


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


# ---- elections and brokers ----------------------------------------------------------------------


def election_from(request: admin_pb2.ElectLeadersRequest) -> ElectLeaders:
    """Elections by command."""
    named = tuple((item.topic, item.partition) for item in request.partitions)
    return ElectLeaders(request.unclean, None if request.all_partitions else named)


def leaders_elected(answer: LeadersElected) -> admin_pb2.ElectLeadersResponse:
    """Its answer."""
    return admin_pb2.ElectLeadersResponse(
        error=error_of(answer.failure),
        partitions=[
            admin_pb2.ElectedLeader(
                error=error_of(elected.failure),
                topic=elected.topic,
                partition=elected.partition,
                leader=elected.leader,
            )
            for elected in answer.partitions
        ],
    )


def reassignments_from(
    request: admin_pb2.AlterPartitionReassignmentsRequest,
) -> AlterPartitionReassignments:
    """Partitions to move, or to move no more."""
    told = request.HasField("allow_replication_factor_change")
    return AlterPartitionReassignments(
        tuple(
            NewReplicas(
                item.topic,
                item.partition,
                tuple(map(BrokerId, item.replicas.brokers)) if item.HasField("replicas") else None,
            )
            for item in request.partitions
        ),
        request.allow_replication_factor_change if told else True,
    )


def reassignments_altered(
    answer: PartitionReassignmentsAltered,
) -> admin_pb2.AlterPartitionReassignmentsResponse:
    """Its answer."""
    return admin_pb2.AlterPartitionReassignmentsResponse(
        error=error_of(answer.failure),
        partitions=[
            admin_pb2.AlteredReassignment(
                error=error_of(altered.failure),
                topic=altered.topic,
                partition=altered.partition,
            )
            for altered in answer.partitions
        ],
    )


def listing_from(
    request: admin_pb2.ListPartitionReassignmentsRequest,
) -> ListPartitionReassignments:
    """The moves to list."""
    named = tuple((item.topic, item.partition) for item in request.partitions)
    return ListPartitionReassignments(None if request.all_partitions else named)


def reassignments_listed(
    answer: Sequence[OngoingReassignment],
) -> admin_pb2.ListPartitionReassignmentsResponse:
    """Its answer."""
    return admin_pb2.ListPartitionReassignmentsResponse(
        partitions=[
            admin_pb2.OngoingReassignment(
                topic=each.topic,
                partition=each.partition,
                replicas=each.replicas,
                adding_replicas=each.adding,
                removing_replicas=each.removing,
            )
            for each in answer
        ]
    )


def unregistered_from(request: admin_pb2.UnregisterBrokerRequest) -> BrokerId:
    """The broker that is to go."""
    return BrokerId(request.broker_id)


def broker_unregistered(failure: Failure | None) -> admin_pb2.UnregisterBrokerResponse:
    """Its answer."""
    return admin_pb2.UnregisterBrokerResponse(error=error_of(failure))


def cluster_described(answer: ClusterDescription) -> admin_pb2.DescribeClusterResponse:
    """The cluster, as the gateway knows it."""
    return admin_pb2.DescribeClusterResponse(
        cluster_id=answer.cluster_id,
        controller_epoch=answer.controller_epoch,
        brokers=broker_messages(answer.brokers),
        controller=endpoint_message(answer.controller) if answer.controller else None,
        controller_since_ms=answer.controller_since_ms,
    )


# ---- features -----------------------------------------------------------------------------------


def features_described(answer: Sequence[FeatureState]) -> admin_pb2.DescribeFeaturesResponse:
    """Every feature's level and range."""
    return admin_pb2.DescribeFeaturesResponse(features=map(_feature, answer))


def levels_from(request: admin_pb2.UpdateFeaturesRequest) -> UpdateFeatures:
    """Levels to raise features to."""
    return UpdateFeatures(tuple(sorted(request.levels.items())), request.validate_only)


def features_updated(answer: FeaturesUpdated) -> admin_pb2.UpdateFeaturesResponse:
    """Its answer."""
    return admin_pb2.UpdateFeaturesResponse(
        error=error_of(answer.failure), features=map(_feature, answer.features)
    )


def _feature(feature: FeatureState) -> admin_pb2.Feature:
    return admin_pb2.Feature(
        name=feature.name, level=feature.level, lowest=feature.lowest, highest=feature.highest
    )
