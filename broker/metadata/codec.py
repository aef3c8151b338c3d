"""Metadata records and the Cluster service's messages as protobuf, and back.

Pure values on both sides: the generated `_pb2` modules load protobuf only, not gRPC. Every pair
`encode_x` / `decode_x` is exact: `decode_x(encode_x(value)) == value`. What no peer may send
(another one's enum value, a record kind of a newer version) raises an error with its name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from google.protobuf.message import DecodeError

from broker.metadata.messages import (
    AlteredPartition,
    AlterPartition,
    BrokerClaim,
    BrokerDirectory,
    BrokerRegistered,
    BrokerState,
    ClaimBroker,
    Failure,
    HeartbeatAccepted,
    MetadataBatch,
    PartitionIsr,
    PartitionsAltered,
    ProducerIdBlock,
    RegisterBroker,
    ShutdownPermitted,
)
from broker.metadata.records import (
    BrokerChangeRecord,
    ClusterRecord,
    ConfigRecord,
    ConfigResourceType,
    ControllerEpochRecord,
    Endpoint,
    MetadataRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from pylog.errors import CorruptMessage, UnsupportedVersion
from pylog.model import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    Offset,
    PartitionEpoch,
    ProducerId,
    TopicId,
)
from pylog.rpc.v1 import cluster_pb2, common_pb2, records_pb2

# ---- small parts ------------------------------------------------------------------------------


def encode_failure(failure: Failure | None) -> common_pb2.Error | None:
    """None (no error field) when there is no failure."""
    return None if failure is None else common_pb2.Error(code=failure.code, message=failure.message)


def decode_failure(message: Any) -> Failure | None:
    """The failure in the `error` field of `message`, if one is set."""
    if not message.HasField("error") or message.error.code == 0:
        return None
    return Failure(message.error.code, message.error.message)


def encode_endpoint(endpoint: Endpoint) -> common_pb2.Endpoint:
    """An address."""
    return common_pb2.Endpoint(host=endpoint.host, port=endpoint.port)


def decode_endpoint(message: common_pb2.Endpoint) -> Endpoint:
    """An address."""
    return Endpoint(message.host, message.port)


def _brokers(ids: Any) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, ids))


# ---- records ----------------------------------------------------------------------------------


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
        client_endpoint=encode_endpoint(record.client_endpoint),
        replication_endpoint=encode_endpoint(record.replication_endpoint),
        directory_id=record.directory_id,
        boot_id=record.boot_id,
        fenced=record.fenced,
        in_controlled_shutdown=record.in_controlled_shutdown,
    )


def _decode_registration(message: records_pb2.RegisterBrokerRecord) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=BrokerId(message.broker_id),
        broker_epoch=BrokerEpoch(message.broker_epoch),
        incarnation_id=message.incarnation_id,
        host_id=message.host_id,
        rack=message.rack or None,
        client_endpoint=decode_endpoint(message.client_endpoint),
        replication_endpoint=decode_endpoint(message.replication_endpoint),
        directory_id=message.directory_id,
        boot_id=message.boot_id,
        fenced=message.fenced,
        in_controlled_shutdown=message.in_controlled_shutdown,
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
        lambda r: records_pb2.ControllerEpochRecord(epoch=r.epoch),
        lambda m: ControllerEpochRecord(ControllerEpoch(m.epoch)),
    ),
    RegisterBrokerRecord: ("register_broker", _encode_registration, _decode_registration),
    BrokerChangeRecord: (
        "broker_change",
        lambda r: records_pb2.BrokerChangeRecord(
            broker_id=r.broker_id,
            broker_epoch=r.broker_epoch,
            fenced=r.fenced,
            in_controlled_shutdown=r.in_controlled_shutdown,
        ),
        lambda m: BrokerChangeRecord(
            BrokerId(m.broker_id), BrokerEpoch(m.broker_epoch), m.fenced, m.in_controlled_shutdown
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
}
_DECODERS: Final = {field: decode for field, _, decode in _CODECS.values()}


# ---- metadata stream --------------------------------------------------------------------------


def encode_batch(batch: MetadataBatch) -> cluster_pb2.MetadataBatch:
    """Committed metadata for a broker."""
    return cluster_pb2.MetadataBatch(
        controller_epoch=batch.controller_epoch,
        first_offset=batch.first_offset,
        snapshot=batch.snapshot,
        records=map(encode_record, batch.records),
        committed_offset=batch.committed_offset,
    )


def decode_batch(message: cluster_pb2.MetadataBatch) -> MetadataBatch:
    """Committed metadata from the controller."""
    return MetadataBatch(
        ControllerEpoch(message.controller_epoch),
        Offset(message.first_offset),
        tuple(map(decode_record, message.records)),
        message.snapshot,
        Offset(message.committed_offset),
    )


# ---- claim and registration -------------------------------------------------------------------


def encode_claim(claim: ClaimBroker) -> cluster_pb2.ClaimBrokerRequest:
    """A task's question."""
    return cluster_pb2.ClaimBrokerRequest(
        incarnation_id=claim.incarnation_id,
        host_id=claim.host_id,
        directories=[
            cluster_pb2.BrokerDirectory(
                broker_id=directory.broker_id,
                directory_id=directory.directory_id,
                cluster_id=directory.cluster_id,
                boot_id=directory.boot_id,
                clean=directory.clean,
                locked=directory.locked,
            )
            for directory in claim.directories
        ],
        slot=claim.slot,
    )


def decode_claim(message: cluster_pb2.ClaimBrokerRequest) -> ClaimBroker:
    """A task's question."""
    return ClaimBroker(
        message.incarnation_id,
        message.host_id,
        tuple(
            BrokerDirectory(
                BrokerId(directory.broker_id),
                directory.directory_id,
                directory.cluster_id,
                directory.boot_id,
                directory.clean,
                directory.locked,
            )
            for directory in message.directories
        ),
        message.slot,
    )


def encode_claimed(answer: BrokerClaim | Failure) -> cluster_pb2.ClaimBrokerResponse:
    """The controller's answer to a claim."""
    if isinstance(answer, Failure):
        return cluster_pb2.ClaimBrokerResponse(error=encode_failure(answer))
    return cluster_pb2.ClaimBrokerResponse(
        broker_id=answer.broker_id,
        directory_id=answer.directory_id or "",
        cluster_id=answer.cluster_id,
        retry_after_ms=answer.retry_after_ms,
        controller_epoch=answer.controller_epoch,
    )


def decode_claimed(message: cluster_pb2.ClaimBrokerResponse) -> BrokerClaim | Failure:
    """The controller's answer to a claim."""
    return decode_failure(message) or BrokerClaim(
        BrokerId(message.broker_id),
        message.directory_id or None,
        message.cluster_id,
        ControllerEpoch(message.controller_epoch),
        message.retry_after_ms,
    )


def encode_registration(request: RegisterBroker) -> cluster_pb2.RegisterBrokerRequest:
    """A new incarnation."""
    return cluster_pb2.RegisterBrokerRequest(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        cluster_id=request.cluster_id,
        host_id=request.host_id,
        rack=request.rack or "",
        client_endpoint=encode_endpoint(request.client_endpoint),
        replication_endpoint=encode_endpoint(request.replication_endpoint),
        directory_id=request.directory_id,
        boot_id=request.boot_id,
        log_intact=request.log_intact,
        highest_controller_epoch=request.highest_controller_epoch,
    )


def decode_registration(message: cluster_pb2.RegisterBrokerRequest) -> RegisterBroker:
    """A new incarnation."""
    return RegisterBroker(
        broker_id=BrokerId(message.broker_id),
        incarnation_id=message.incarnation_id,
        cluster_id=message.cluster_id,
        host_id=message.host_id,
        rack=message.rack or None,
        client_endpoint=decode_endpoint(message.client_endpoint),
        replication_endpoint=decode_endpoint(message.replication_endpoint),
        directory_id=message.directory_id,
        boot_id=message.boot_id,
        log_intact=message.log_intact,
        highest_controller_epoch=ControllerEpoch(message.highest_controller_epoch),
    )


def encode_registered(answer: BrokerRegistered | Failure) -> cluster_pb2.RegisterBrokerResponse:
    """The controller's answer to a registration."""
    if isinstance(answer, Failure):
        return cluster_pb2.RegisterBrokerResponse(error=encode_failure(answer))
    return cluster_pb2.RegisterBrokerResponse(
        broker_epoch=answer.broker_epoch, controller_epoch=answer.controller_epoch
    )


def decode_registered(message: cluster_pb2.RegisterBrokerResponse) -> BrokerRegistered | Failure:
    """The controller's answer to a registration."""
    return decode_failure(message) or BrokerRegistered(
        BrokerEpoch(message.broker_epoch), ControllerEpoch(message.controller_epoch)
    )


def encode_heartbeat(answer: HeartbeatAccepted | Failure) -> cluster_pb2.HeartbeatResponse:
    """The controller's answer to a heartbeat."""
    if isinstance(answer, Failure):
        return cluster_pb2.HeartbeatResponse(error=encode_failure(answer))
    return cluster_pb2.HeartbeatResponse(
        controller_epoch=answer.controller_epoch, fenced=answer.fenced
    )


def decode_heartbeat(message: cluster_pb2.HeartbeatResponse) -> HeartbeatAccepted | Failure:
    """The controller's answer to a heartbeat."""
    return decode_failure(message) or HeartbeatAccepted(
        ControllerEpoch(message.controller_epoch), message.fenced
    )


def encode_shutdown(
    answer: ShutdownPermitted | Failure,
) -> cluster_pb2.ControlledShutdownResponse:
    """The controller's answer to a controlled shutdown."""
    if isinstance(answer, Failure):
        return cluster_pb2.ControlledShutdownResponse(error=encode_failure(answer))
    return cluster_pb2.ControlledShutdownResponse(remaining_leaders=answer.remaining_leaders)


def decode_shutdown(
    message: cluster_pb2.ControlledShutdownResponse,
) -> ShutdownPermitted | Failure:
    """The controller's answer to a controlled shutdown."""
    return decode_failure(message) or ShutdownPermitted(message.remaining_leaders)


# ---- partitions and producer ids --------------------------------------------------------------


def encode_alter(request: AlterPartition) -> cluster_pb2.AlterPartitionRequest:
    """A leader's ISR changes."""
    return cluster_pb2.AlterPartitionRequest(
        broker_id=request.broker_id,
        broker_epoch=request.broker_epoch,
        partitions=[
            cluster_pb2.PartitionIsr(
                topic_id=wish.topic_id,
                partition=wish.partition,
                leader_epoch=wish.leader_epoch,
                partition_epoch=wish.partition_epoch,
                isr=[
                    cluster_pb2.BrokerState(
                        broker_id=state.broker_id, broker_epoch=state.broker_epoch
                    )
                    for state in wish.isr
                ],
            )
            for wish in request.partitions
        ],
    )


def decode_alter(message: cluster_pb2.AlterPartitionRequest) -> AlterPartition:
    """A leader's ISR changes."""
    return AlterPartition(
        BrokerId(message.broker_id),
        BrokerEpoch(message.broker_epoch),
        tuple(
            PartitionIsr(
                TopicId(wish.topic_id),
                wish.partition,
                LeaderEpoch(wish.leader_epoch),
                PartitionEpoch(wish.partition_epoch),
                tuple(
                    BrokerState(BrokerId(state.broker_id), BrokerEpoch(state.broker_epoch))
                    for state in wish.isr
                ),
            )
            for wish in message.partitions
        ),
    )


def encode_altered(answer: PartitionsAltered) -> cluster_pb2.AlterPartitionResponse:
    """The controller's answer to ISR changes."""
    return cluster_pb2.AlterPartitionResponse(
        error=encode_failure(answer.failure),
        partitions=[
            cluster_pb2.AlteredPartition(
                error=encode_failure(partition.failure),
                topic_id=partition.topic_id,
                partition=partition.partition,
                leader=partition.leader,
                leader_epoch=partition.leader_epoch,
                isr=partition.isr,
                partition_epoch=partition.partition_epoch,
            )
            for partition in answer.partitions
        ],
    )


def decode_altered(message: cluster_pb2.AlterPartitionResponse) -> PartitionsAltered:
    """The controller's answer to ISR changes."""
    return PartitionsAltered(
        decode_failure(message),
        tuple(
            AlteredPartition(
                TopicId(partition.topic_id),
                partition.partition,
                decode_failure(partition),
                BrokerId(partition.leader),
                LeaderEpoch(partition.leader_epoch),
                _brokers(partition.isr),
                PartitionEpoch(partition.partition_epoch),
            )
            for partition in message.partitions
        ),
    )


def encode_producer_ids(
    answer: ProducerIdBlock | Failure,
) -> cluster_pb2.AllocateProducerIdsResponse:
    """The controller's answer to a request for producer ids."""
    if isinstance(answer, Failure):
        return cluster_pb2.AllocateProducerIdsResponse(error=encode_failure(answer))
    return cluster_pb2.AllocateProducerIdsResponse(
        first_producer_id=answer.first, count=answer.count
    )


def decode_producer_ids(
    message: cluster_pb2.AllocateProducerIdsResponse,
) -> ProducerIdBlock | Failure:
    """The controller's answer to a request for producer ids."""
    return decode_failure(message) or ProducerIdBlock(
        ProducerId(message.first_producer_id), message.count
    )
