"""Metadata records as protobuf, and back: what the metadata log and the metadata stream hold.

Exact: `decode_record(encode_record(record)) == record`. A record kind of a newer version raises an
error that says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from google.protobuf.message import DecodeError

from pylog.errors import CorruptMessage, UnsupportedVersion
from pylog.model import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    PartitionEpoch,
    ProducerId,
    TopicId,
)
from pylog.rpc.v1 import common_pb2, records_pb2
from pylog_broker.metadata.records import (
    BROKERS,
    CLIENTS,
    FRAMED,
    GRPC,
    KAFKA,
    NOT_TOLD,
    BrokerChangeRecord,
    ClusterRecord,
    ConfigRecord,
    ConfigResourceType,
    ControllerEpochRecord,
    Endpoint,
    FeatureLevelRecord,
    FeatureRange,
    Listener,
    MetadataRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    Software,
    TopicRecord,
    UnregisterBrokerRecord,
    endpoint_of,
    usual_listeners,
)


def encode_endpoint(endpoint: Endpoint) -> common_pb2.Endpoint:
    """An address."""
    return common_pb2.Endpoint(host=endpoint.host, port=endpoint.port)


def decode_endpoint(message: common_pb2.Endpoint) -> Endpoint:
    """An address."""
    return Endpoint(message.host, message.port)


def encode_listener(listener: Listener) -> records_pb2.Listener:
    """A listener."""
    return records_pb2.Listener(
        name=listener.name,
        endpoint=encode_endpoint(listener.endpoint),
        protocol=listener.protocol,
        purpose=listener.purpose,
    )


def earlier_endpoints(listeners: Sequence[Listener]) -> dict[str, common_pb2.Endpoint]:
    """The fields by which versions that know no listeners find a broker."""
    found = {
        "client_endpoint": endpoint_of(listeners, GRPC, CLIENTS),
        "replication_endpoint": endpoint_of(listeners, KAFKA, BROKERS),
        "stream_endpoint": endpoint_of(listeners, FRAMED, CLIENTS),
    }
    return {name: encode_endpoint(at) for name, at in found.items() if at is not None}


def decode_listeners(message: Any) -> tuple[Listener, ...]:
    """The listeners of a registration, or of a request for one; those of an earlier version by its
    endpoints.
    """
    if message.listeners or not message.HasField("client_endpoint"):
        return tuple(
            Listener(each.name, decode_endpoint(each.endpoint), each.protocol, each.purpose)
            for each in message.listeners
        )
    streams = message.stream_endpoint if message.HasField("stream_endpoint") else None
    return usual_listeners(
        decode_endpoint(message.client_endpoint),
        decode_endpoint(message.replication_endpoint),
        decode_endpoint(streams) if streams is not None else None,
    )


def encode_software(software: Software) -> records_pb2.Software | None:
    """A broker's software; None of one that does not tell."""
    if software == NOT_TOLD:
        return None
    return records_pb2.Software(
        name=software.name,
        version=software.version,
        apis=dict(software.apis),
        features=(
            records_pb2.FeatureRange(name=each.name, lowest=each.lowest, highest=each.highest)
            for each in software.features
        ),
    )


def decode_software(message: records_pb2.Software) -> Software:
    """A broker's software."""
    return Software(
        message.name,
        message.version,
        tuple(sorted(message.apis.items())),
        tuple(FeatureRange(each.name, each.lowest, each.highest) for each in message.features),
    )


def _brokers(ids: Any) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, ids))


def encode_record(record: MetadataRecord) -> records_pb2.MetadataRecord:
    """The record in its envelope."""
    field, encode, _ = _CODECS[type(record)]
    return records_pb2.MetadataRecord(**{field: encode(record)})


def decode_record(message: records_pb2.MetadataRecord) -> MetadataRecord:
    """The record of an envelope; UnsupportedVersion when its kind is not known here."""
    field = message.WhichOneof("record")
    if field is None:
        raise UnsupportedVersion(
            "a metadata record is of a kind that this version does not know; run the version that "
            "wrote it, or a newer one"
        )
    record: MetadataRecord = _DECODERS[field](getattr(message, field))
    return record


def record_to_bytes(record: MetadataRecord) -> bytes:
    """The record as the metadata log holds it."""
    return encode_record(record).SerializeToString()


def record_from_bytes(raw: bytes) -> MetadataRecord:
    """The record of `record_to_bytes`; CorruptMessage when the bytes are none."""
    try:
        return decode_record(records_pb2.MetadataRecord.FromString(raw))
    except DecodeError as error:
        raise CorruptMessage(f"{len(raw)} bytes of the metadata log are no record") from error


def _encode_registration(record: RegisterBrokerRecord) -> records_pb2.RegisterBrokerRecord:
    return records_pb2.RegisterBrokerRecord(
        broker_id=record.broker_id,
        broker_epoch=record.broker_epoch,
        incarnation_id=record.incarnation_id,
        host_id=record.host_id,
        rack=record.rack or "",
        **earlier_endpoints(record.listeners),
        listeners=map(encode_listener, record.listeners),
        software=encode_software(record.software),
        directory_id=record.directory_id,
        boot_id=record.boot_id,
        fenced=record.fenced,
        in_controlled_shutdown=record.in_controlled_shutdown,
        static_config=dict(record.static_config),
        log_dirs=record.log_dirs,
        offline_log_dirs=record.offline_log_dirs,
        fenced_since_ms=record.fenced_since_ms,
    )


def _decode_registration(message: records_pb2.RegisterBrokerRecord) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=BrokerId(message.broker_id),
        broker_epoch=BrokerEpoch(message.broker_epoch),
        incarnation_id=message.incarnation_id,
        host_id=message.host_id,
        rack=message.rack or None,
        listeners=decode_listeners(message),
        software=decode_software(message.software),
        directory_id=message.directory_id,
        boot_id=message.boot_id,
        fenced=message.fenced,
        in_controlled_shutdown=message.in_controlled_shutdown,
        static_config=tuple(sorted(message.static_config.items())),
        log_dirs=tuple(message.log_dirs),
        offline_log_dirs=tuple(message.offline_log_dirs),
        fenced_since_ms=message.fenced_since_ms,
    )


def _encode_partition(record: PartitionRecord) -> records_pb2.PartitionRecord:
    return records_pb2.PartitionRecord(
        topic_id=record.topic_id,
        partition=record.partition,
        replicas=record.replicas,
        isr=record.isr,
        eligible_leader_replicas=record.eligible_leader_replicas,
        last_known_elr=record.last_known_elr,
        leader=record.leader,
        leader_epoch=record.leader_epoch,
        partition_epoch=record.partition_epoch,
        directories=record.directories,
        adding_replicas=record.adding_replicas,
        removing_replicas=record.removing_replicas,
        failed_replicas=record.failed_replicas,
        emptied_replicas=record.emptied_replicas,
        never_committed=record.never_committed,
    )


def _decode_partition(message: records_pb2.PartitionRecord) -> PartitionRecord:
    return PartitionRecord(
        topic_id=TopicId(message.topic_id),
        partition=message.partition,
        replicas=_brokers(message.replicas),
        isr=_brokers(message.isr),
        leader=BrokerId(message.leader),
        leader_epoch=LeaderEpoch(message.leader_epoch),
        partition_epoch=PartitionEpoch(message.partition_epoch),
        eligible_leader_replicas=_brokers(message.eligible_leader_replicas),
        last_known_elr=_brokers(message.last_known_elr),
        directories=tuple(message.directories),
        adding_replicas=_brokers(message.adding_replicas),
        removing_replicas=_brokers(message.removing_replicas),
        failed_replicas=_brokers(message.failed_replicas),
        emptied_replicas=_brokers(message.emptied_replicas),
        never_committed=message.never_committed,
    )


def _encode_config(record: ConfigRecord) -> records_pb2.ConfigRecord:
    return records_pb2.ConfigRecord(
        resource_type=records_pb2.ConfigRecord.ResourceType.Name(record.resource_type),
        resource_name=record.resource_name,
        name=record.name,
        value=record.value,
    )


def _decode_config(message: records_pb2.ConfigRecord) -> ConfigRecord:
    try:
        resource_type = ConfigResourceType(message.resource_type)
    except ValueError:
        raise UnsupportedVersion(
            f"a configuration record is about a resource of the unknown kind "
            f"{message.resource_type}"
        ) from None
    value = message.value if message.HasField("value") else None
    return ConfigRecord(resource_type, message.resource_name, message.name, value)


_CODECS: Final[Mapping[type[Any], tuple[str, Callable[[Any], Any], Callable[[Any], Any]]]] = {
    ClusterRecord: (
        "cluster",
        lambda r: records_pb2.ClusterRecord(cluster_id=r.cluster_id),
        lambda m: ClusterRecord(m.cluster_id),
    ),
    ControllerEpochRecord: (
        "controller_epoch",
        lambda r: records_pb2.ControllerEpochRecord(epoch=r.epoch, since_ms=r.since_ms),
        lambda m: ControllerEpochRecord(ControllerEpoch(m.epoch), m.since_ms),
    ),
    RegisterBrokerRecord: ("register_broker", _encode_registration, _decode_registration),
    BrokerChangeRecord: (
        "broker_change",
        lambda r: records_pb2.BrokerChangeRecord(
            broker_id=r.broker_id,
            broker_epoch=r.broker_epoch,
            fenced=r.fenced,
            in_controlled_shutdown=r.in_controlled_shutdown,
            offline_log_dirs=r.offline_log_dirs,
            fenced_since_ms=r.fenced_since_ms,
        ),
        lambda m: BrokerChangeRecord(
            BrokerId(m.broker_id),
            BrokerEpoch(m.broker_epoch),
            m.fenced,
            m.in_controlled_shutdown,
            tuple(m.offline_log_dirs),
            m.fenced_since_ms,
        ),
    ),
    UnregisterBrokerRecord: (
        "unregister_broker",
        lambda r: records_pb2.UnregisterBrokerRecord(broker_id=r.broker_id),
        lambda m: UnregisterBrokerRecord(BrokerId(m.broker_id)),
    ),
    TopicRecord: (
        "topic",
        lambda r: records_pb2.TopicRecord(name=r.name, topic_id=r.topic_id),
        lambda m: TopicRecord(m.name, TopicId(m.topic_id)),
    ),
    PartitionRecord: ("partition", _encode_partition, _decode_partition),
    RemoveTopicRecord: (
        "remove_topic",
        lambda r: records_pb2.RemoveTopicRecord(topic_id=r.topic_id),
        lambda m: RemoveTopicRecord(TopicId(m.topic_id)),
    ),
    ProducerIdsRecord: (
        "producer_ids",
        lambda r: records_pb2.ProducerIdsRecord(
            broker_id=r.broker_id,
            broker_epoch=r.broker_epoch,
            next_producer_id=r.next_producer_id,
        ),
        lambda m: ProducerIdsRecord(
            BrokerId(m.broker_id), BrokerEpoch(m.broker_epoch), ProducerId(m.next_producer_id)
        ),
    ),
    ConfigRecord: ("config", _encode_config, _decode_config),
    FeatureLevelRecord: (
        "feature_level",
        lambda r: records_pb2.FeatureLevelRecord(name=r.name, level=r.level),
        lambda m: FeatureLevelRecord(m.name, m.level),
    ),
}
_DECODERS: Final = {field: decode for field, _, decode in _CODECS.values()}
