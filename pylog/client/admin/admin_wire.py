"""Administrators' values as messages of the Admin service, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from pylog import errors
from pylog.client.admin.admin_types import (
    OPERATIONS,
    AlterConfigOp,
    ConfigEntry,
    ConfigResource,
    ConfigSynonym,
    LogDirDescription,
    LogDirReplica,
    config_resource,
)
from pylog.client.admin.broker_types import (
    BrokerListener,
    BrokerPart,
    BrokerStatus,
    HostedReplica,
)
from pylog.client.arguments import mapping, several, shown, whole, whole_or_none
from pylog.client.cluster.metadata import BrokerInfo, ClusterSnapshot, TopicInfo
from pylog.client.cluster.wire import error_of
from pylog.client.topics_and_partitions import check_topic
from pylog.config import INT_MAX
from pylog.model import (
    NO_LEADER,
    BrokerDescription,
    FeatureDescription,
    NewPartitions,
    NewTopic,
    PartitionDescription,
    TopicDescription,
    TopicPartition,
)
from pylog.plain_text import is_text
from pylog.rpc.v1 import admin_pb2

ConfigChanges = Mapping[str, str | None] | Iterable[AlterConfigOp]
"""New values by name (None: back to the default), or operations."""

_RESOURCE: Final = '("topic", name)'
_CHANGES: Final = "{setting: value}, or several AlterConfigOp(name, value, op)"
_REPLICAS: Final = "for each new partition a list of brokers' ids"
_KINDS: Final = {"topic": "TOPIC", "broker": "BROKER", "group": "GROUP"}


def resource_message(resource: ConfigResource) -> admin_pb2.ConfigResource:
    """The resource; a broker without a name is the cluster's default."""
    kind = "CLUSTER" if resource == ("broker", "") else _KINDS[resource.type]
    return admin_pb2.ConfigResource(type=kind, name=resource.name)


def resource_of(message: admin_pb2.ConfigResource) -> ConfigResource:
    """The resource of a message."""
    kinds = {
        admin_pb2.ConfigResource.TOPIC: "topic",
        admin_pb2.ConfigResource.GROUP: "group",
    }
    return ConfigResource(kinds.get(message.type, "broker"), message.name)


def questions(given: Any) -> admin_pb2.DescribeConfigsRequest:
    """One resource, several, or names of settings by resource."""
    if isinstance(given, tuple) and given and isinstance(given[0], str):
        given = [given]
    several(given, "resources", _RESOURCE)
    request = admin_pb2.DescribeConfigsRequest()
    names: Mapping[Any, Any] = given if isinstance(given, Mapping) else {}
    for item in given:
        resource = config_resource(item)
        wanted = names.get(item)
        request.resources.add(
            resource=resource_message(resource),
            all_names=wanted is None,
            names=() if wanted is None else _setting_names(wanted, resource),
        )
    return request


def _setting_names(given: object, resource: ConfigResource) -> list[str]:
    what = f"settings of {resource}"
    names = [given] if isinstance(given, str) else several(given, what, "their names")
    for name in names:
        if not is_text(name):
            raise errors.InvalidConfig(f"{resource}: {shown(name)} is no setting's name")
    return names


def entry_of(entry: admin_pb2.ConfigEntry) -> ConfigEntry:
    """A described setting."""
    return ConfigEntry(
        entry.name,
        entry.value if entry.HasField("value") else None,
        admin_pb2.ConfigSource.Name(entry.source),
        entry.read_only,
        entry.sensitive,
        entry.type,
        entry.documentation,
        tuple(
            ConfigSynonym(
                s.name, s.value if s.HasField("value") else None,
                admin_pb2.ConfigSource.Name(s.source),
            )
            for s in entry.synonyms
        ),
    )  # fmt: skip


def resource_and_fault(
    told: admin_pb2.DescribedConfig | admin_pb2.AlterConfigsResult,
) -> tuple[ConfigResource, errors.PylogError | None]:
    """The resource of a server's answer, and its error when the server did not do what was
    asked."""
    resource = resource_of(told.resource)
    return resource, error_of(told.error, str(resource))


def fault_of_topic(
    told: admin_pb2.CreatedTopic | admin_pb2.DeletedTopic | admin_pb2.GrownTopic,
) -> errors.PylogError | None:
    """The error of a topic for which a server did not do what was asked."""
    return error_of(told.error, f"topic {told.name}")


def topic_ids(given: Any) -> list[str]:
    """Ids of topics, as `create_topics` gives them; InvalidRequest for anything else."""
    wanted = "a topic's id, or a list of such"
    ids = [given] if isinstance(given, str) else several(given, "topic_ids", wanted)
    for each in ids:
        if not is_text(each):
            raise errors.InvalidRequest(f"topic_ids: {shown(each)} is no topic's id")
    return ids


def entries_of(described: admin_pb2.DescribedConfig) -> dict[str, ConfigEntry]:
    """A resource's described settings by name."""
    return {entry.name: entry for entry in map(entry_of, described.entries)}


def changes(given: Mapping[Any, ConfigChanges]) -> admin_pb2.AlterConfigsRequest:
    """Changes by resource; InvalidConfig for what cannot be one."""
    request = admin_pb2.AlterConfigsRequest()
    shape = f"{{{_RESOURCE}: {{setting: value}}}}"
    for item, wanted in mapping(given, "changes", shape, errors.InvalidConfig).items():
        resource = config_resource(item)
        altered = request.resources.add(resource=resource_message(resource))
        for op in _operations(resource, wanted):
            altered.ops.add(name=op.name, type=op.op.upper(), value=op.value or "")
    return request


def _operations(resource: ConfigResource, wanted: ConfigChanges) -> Iterable[AlterConfigOp]:
    if isinstance(wanted, Mapping):
        ops = [
            AlterConfigOp(name, value, "delete" if value is None else "set")
            for name, value in wanted.items()
        ]
    else:
        ops = [
            _operation(op, resource) for op in several(wanted, f"changes of {resource}", _CHANGES)
        ]
    for name, value, op in ops:
        if not is_text(name):
            raise errors.InvalidConfig(f"{resource}: {shown(name)} is no setting's name")
        if not isinstance(op, str) or op.lower() not in OPERATIONS:
            raise errors.InvalidConfig(
                f"{resource}: {name}: {op!r} is not one of {', '.join(OPERATIONS)}"
            )
        if op.lower() != "delete" and not is_text(value):
            raise errors.InvalidConfig(
                f"{resource}: {name}={value!r}: configuration values are texts in UTF-8"
            )
    return [
        AlterConfigOp(name, None if op.lower() == "delete" else value, op.lower())
        for name, value, op in ops
    ]


def _operation(given: object, resource: ConfigResource) -> AlterConfigOp:
    if isinstance(given, tuple | list) and 1 <= len(given) <= 3:
        return AlterConfigOp(*given)
    raise errors.InvalidConfig(f"{resource}: {shown(given)} is no change; give {_CHANGES}")


def growth(given: Mapping[str, NewPartitions | int]) -> admin_pb2.CreatePartitionsRequest:
    """New totals by topic; InvalidPartitions and InvalidReplicaAssignment name what cannot be."""
    request = admin_pb2.CreatePartitionsRequest()
    for name, wanted in mapping(given, "topics", "{topic: NewPartitions(new total)}").items():
        check_topic(name)
        new = wanted if isinstance(wanted, NewPartitions) else NewPartitions(wanted)
        total = whole_or_none(new.total_count, 1, INT_MAX)
        if total is None:
            raise errors.InvalidPartitions(
                f"topic {name}: {shown(new.total_count)} partitions; give the new total, 1 to "
                f"{INT_MAX}"
            )
        topic = request.topics.add(topic=name, total_count=total)
        what = f"topic {name}: assignments"
        lists = () if new.assignments is None else new.assignments
        for brokers in several(lists, what, _REPLICAS, errors.InvalidReplicaAssignment):
            ids = broker_ids(brokers, what, errors.InvalidReplicaAssignment)
            topic.assignment.add(brokers=ids)
    return request


def broker_ids(
    given: object, argument: str, error: type[errors.PylogError] = errors.InvalidRequest
) -> list[int]:
    """Brokers by their ids."""
    ids = several(given, argument, "a list of brokers' ids", error)
    return [whole(broker, argument, 0, INT_MAX, error) for broker in ids]


def directory_of(directory: admin_pb2.LogDir) -> LogDirDescription:
    """A log directory of a broker."""
    return LogDirDescription(
        directory.path,
        directory.total_bytes,
        directory.usable_bytes,
        {
            TopicPartition(r.topic, r.partition): LogDirReplica(
                r.size_bytes,
                r.offset_lag,
                r.log_start_offset,
                r.log_end_offset,
                error_of(r.error, f"{r.topic}-{r.partition}"),
            )
            for r in directory.replicas
        },
        error_of(directory.error),
        directory.directory_id,
    )


def status_of(told: admin_pb2.DescribeBrokerResponse) -> BrokerStatus:
    """A broker as it sees itself."""
    registered = told.broker_epoch >= 0
    return BrokerStatus(
        told.broker_id,
        told.broker_epoch if registered else None,
        told.registered_ms if registered else None,
        told.rack or None,
        told.version,
        tuple(
            BrokerListener(
                each.name,
                each.endpoint.host,
                each.endpoint.port,
                each.protocol,
                each.purpose,
                each.open,
                each.connections if each.connections >= 0 else None,
            )
            for each in told.listeners
        ),
        tuple(BrokerPart(part.name, part.state, part.detail) for part in told.parts),
        {
            TopicPartition(r.topic, r.partition): HostedReplica(
                r.topic_id,
                r.role,
                r.leader if r.leader >= 0 else None,
                r.leader_epoch,
                tuple(r.isr),
                r.log_start_offset,
                r.high_watermark,
                r.log_end_offset,
                r.directory_id,
                r.fault,
            )
            for r in told.replicas
        },
    )


def new_topics(given: object) -> list[NewTopic]:
    """Topics to create: one, or several."""
    wanted = "NewTopic(name, ...), or several"
    topics = [given] if isinstance(given, NewTopic) else several(given, "topics", wanted)
    for topic in topics:
        if not isinstance(topic, NewTopic):
            raise errors.InvalidRequest(f"topics: {shown(topic)} is none; give {wanted}")
    return topics


def new_topic_message(topic: NewTopic) -> admin_pb2.NewTopic:
    """A topic to create; InvalidRequest and InvalidConfig name what cannot be."""
    if topic.replica_assignment is not None and (
        topic.num_partitions not in (1, -1) or topic.replication_factor != -1
    ):
        raise errors.InvalidRequest(
            f"topic {topic.name}: replica_assignment says it all; leave num_partitions and "
            f"replication_factor out"
        )
    for count, what, error in (
        (topic.num_partitions, "partitions", errors.InvalidPartitions),
        (topic.replication_factor, "replicas", errors.InvalidReplicationFactor),
    ):
        if whole_or_none(count, -1, INT_MAX) is None:
            raise error(f"topic {topic.name}: {shown(count)} {what}; it must be 1 to {INT_MAX}")
    given = {} if topic.config is None else topic.config
    where = f"topic {topic.name}: config"
    config = dict(mapping(given, where, "{setting: value}", errors.InvalidConfig))
    for key, value in config.items():
        if not is_text(value) or not is_text(key):
            raise errors.InvalidConfig(
                f"topic {topic.name}: {key}={value!r}: configuration values are texts in UTF-8"
            )
    message = admin_pb2.NewTopic(
        name=topic.name,
        num_partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        config=config,
    )
    if topic.replica_assignment is not None:
        message.num_partitions = -1
        where, fault = f"topic {topic.name}: replica_assignment", errors.InvalidReplicaAssignment
        placed = mapping(topic.replica_assignment, where, "{partition: brokers' ids}", fault)
        for partition in sorted(whole(p, where, 0, INT_MAX, fault) for p in placed):
            ids = broker_ids(placed[partition], where, fault)
            message.assignment.add(partition=partition, brokers=ids)
    return message


def topic_description(topic: TopicInfo) -> TopicDescription:
    """A topic out of the metadata."""
    return TopicDescription(
        topic.name,
        topic.topic_id,
        topic.internal,
        tuple(
            PartitionDescription(
                number,
                None if p.leader == NO_LEADER else p.leader,
                p.leader_epoch,
                p.replicas,
                p.isr,
                p.eligible_leader_replicas,
                p.offline_replicas,
            )
            for number, p in enumerate(topic.partitions)
        ),
    )


def broker_descriptions(snapshot: ClusterSnapshot) -> tuple[BrokerDescription, ...]:
    """The brokers in the metadata, live and fenced, in the order of ids."""
    given = [(broker, False) for broker in snapshot.brokers]
    given += [(broker, True) for broker in snapshot.fenced_brokers]
    return tuple(
        broker_description(broker, fenced=fenced)
        for broker, fenced in sorted(given, key=lambda each: each[0].id)
    )


def broker_description(broker: BrokerInfo, *, fenced: bool = False) -> BrokerDescription:
    """A broker out of the metadata."""
    return BrokerDescription(
        broker.id,
        broker.address.host,
        broker.address.port,
        broker.rack or None,
        broker.epoch,
        fenced,
        broker.fenced_since_ms or None if fenced else None,
    )


def new_replicas_message(tp: TopicPartition, replicas: object) -> admin_pb2.NewReplicas:
    """The replicas that a partition is to move to; None: it is to move no more."""
    message = admin_pb2.NewReplicas(topic=tp.topic, partition=tp.partition)
    if replicas is not None:
        where = f"{tp}: replicas"
        brokers = broker_ids(replicas, where, errors.InvalidReplicaAssignment)
        message.replicas.CopyFrom(admin_pb2.ReplicaList(brokers=brokers))
    return message


def feature_levels(levels: Mapping[str, int]) -> dict[str, int]:
    """Levels by the features' names, checked; InvalidRequest."""
    given = mapping(levels, "levels", "{'metadata.version': 2}", errors.InvalidRequest)
    checked = {}
    for name, level in given.items():
        if not is_text(name):
            raise errors.InvalidRequest(f"levels: {shown(name)} is no feature's name")
        checked[name] = whole(level, f"feature {name}", 0, INT_MAX, errors.InvalidRequest)
    return checked


def feature_descriptions(features: Iterable[admin_pb2.Feature]) -> dict[str, FeatureDescription]:
    """Features by their names."""
    return {
        each.name: FeatureDescription(each.name, each.level, each.lowest, each.highest)
        for each in sorted(features, key=lambda feature: feature.name)
    }
