"""Administrators' values as messages of the Admin service, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from pylog import errors
from pylog.client.admin_types import (
    OPERATIONS,
    AlterConfigOp,
    ConfigEntry,
    ConfigResource,
    ConfigSynonym,
    LogDirDescription,
    LogDirReplica,
    config_resource,
)
from pylog.client.metadata import BrokerInfo, TopicInfo
from pylog.client.wire import error_of
from pylog.config import INT_MAX
from pylog.model import (
    NO_LEADER,
    BrokerDescription,
    NewPartitions,
    NewTopic,
    PartitionDescription,
    TopicDescription,
    TopicPartition,
)
from pylog.rpc.v1 import admin_pb2

ConfigChanges = Mapping[str, str | None] | Iterable[AlterConfigOp]
"""New values by name (None: back to the default), or operations."""

_KINDS: Final = {"topic": "TOPIC", "broker": "BROKER"}


def resource_message(resource: ConfigResource) -> admin_pb2.ConfigResource:
    """The resource; a broker without a name is the cluster's default."""
    kind = "CLUSTER" if resource == ("broker", "") else _KINDS[resource.type]
    return admin_pb2.ConfigResource(type=kind, name=resource.name)


def resource_of(message: admin_pb2.ConfigResource) -> ConfigResource:
    """The resource of a message."""
    topic = message.type == admin_pb2.ConfigResource.TOPIC
    return ConfigResource("topic" if topic else "broker", message.name)


def questions(given: Any) -> admin_pb2.DescribeConfigsRequest:
    """One resource, several, or names of settings by resource."""
    if isinstance(given, tuple) and given and isinstance(given[0], str):
        given = [given]
    request = admin_pb2.DescribeConfigsRequest()
    names: Mapping[Any, Any] = given if isinstance(given, Mapping) else {}
    for item in given:
        wanted = names.get(item)
        if isinstance(wanted, str):
            wanted = [wanted]
        request.resources.add(
            resource=resource_message(config_resource(item)),
            all_names=wanted is None,
            names=wanted or (),
        )
    return request


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


def changes(
    given: Mapping[Any, ConfigChanges], *, validate_only: bool
) -> admin_pb2.AlterConfigsRequest:
    """Changes by resource; InvalidConfig for what cannot be one."""
    request = admin_pb2.AlterConfigsRequest(validate_only=validate_only)
    for item, wanted in given.items():
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
        ops = [AlterConfigOp(*op) for op in wanted]
    for name, value, op in ops:
        if op.lower() not in OPERATIONS:
            raise errors.InvalidConfig(
                f"{resource}: {name}: {op!r} is not one of {', '.join(OPERATIONS)}"
            )
        if op.lower() != "delete" and not isinstance(value, str):
            raise errors.InvalidConfig(
                f"{resource}: {name}={value!r}: configuration values are texts"
            )
    return [AlterConfigOp(name, value, op.lower()) for name, value, op in ops]


def growth(given: Mapping[str, NewPartitions | int]) -> admin_pb2.CreatePartitionsRequest:
    """New totals by topic."""
    request = admin_pb2.CreatePartitionsRequest()
    for name, wanted in given.items():
        new = NewPartitions(wanted) if isinstance(wanted, int) else wanted
        if isinstance(new.total_count, bool) or not 1 <= new.total_count < 2**31:
            raise errors.InvalidPartitions(
                f"topic {name}: {new.total_count} partitions; give the new total, 1 to {INT_MAX}"
            )
        topic = request.topics.add(topic=name, total_count=new.total_count)
        for brokers in new.assignments or ():
            topic.assignment.add(brokers=brokers)
    return request


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
        if not -1 <= count <= INT_MAX:
            raise error(f"topic {topic.name}: {count} {what}; it must be 1 to {INT_MAX}")
    config = dict(topic.config or {})
    for key, value in config.items():
        if not isinstance(value, str):
            raise errors.InvalidConfig(
                f"topic {topic.name}: {key}={value!r}: configuration values are texts"
            )
    message = admin_pb2.NewTopic(
        name=topic.name,
        num_partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        config=config,
    )
    if topic.replica_assignment is not None:
        message.num_partitions = -1
        for partition, brokers in sorted(topic.replica_assignment.items()):
            message.assignment.add(partition=partition, brokers=brokers)
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


def broker_description(broker: BrokerInfo) -> BrokerDescription:
    """A broker out of the metadata."""
    return BrokerDescription(
        broker.id, broker.address.host, broker.address.port, broker.rack or None, broker.epoch
    )
