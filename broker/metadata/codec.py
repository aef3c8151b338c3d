"""The Cluster service's messages as protobuf, and back.

Pure values on both sides: the generated `_pb2` modules load protobuf only, not gRPC. Every pair
`encode_x` / `decode_x` is exact: `decode_x(encode_x(value)) == value`.
"""

from __future__ import annotations

from typing import Any

from pylog.model import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    NewTopic,
    Offset,
    PartitionEpoch,
    ProducerId,
    TopicId,
)
from pylog.rpc.v1 import cluster_pb2, common_pb2
from pylog_broker.metadata.admin import CreatedTopic, CreateTopics, TopicsCreated
from pylog_broker.metadata.messages import (
    AlteredPartition,
    AlterPartition,
    BrokerClaim,
    BrokerDirectory,
    BrokerRegistered,
    BrokerState,
    ClaimBroker,
    EnsureInternalTopic,
    Failure,
    FailuresNoted,
    HeartbeatAccepted,
    InternalTopicEnsured,
    LogDirectory,
    MetadataBatch,
    PartitionIsr,
    PartitionsAltered,
    ProducerIdBlock,
    RegisterBroker,
    ReplicaKey,
    ReplicasFailed,
    ShutdownPermitted,
)
from pylog_broker.metadata.record_codec import (
    decode_listeners,
    decode_record,
    decode_software,
    earlier_endpoints,
    encode_listener,
    encode_record,
    encode_software,
)


def encode_failure(failure: Failure | None) -> common_pb2.Error | None:
    """None (no error field) when there is no failure."""
    return None if failure is None else common_pb2.Error(code=failure.code, message=failure.message)


def decode_failure(message: Any) -> Failure | None:
    """The failure in the `error` field of `message`, if one is set."""
    if not message.HasField("error") or message.error.code == 0:
        return None
    return Failure(message.error.code, message.error.message)


# ---- metadata stream --------------------------------------------------------------------------


def encode_batch(batch: MetadataBatch) -> cluster_pb2.MetadataBatch:
    """Committed metadata for a broker."""
    return cluster_pb2.MetadataBatch(
        controller_epoch=batch.controller_epoch,
        first_offset=batch.first_offset,
        snapshot=batch.snapshot,
        records=map(encode_record, batch.records),
        committed_offset=batch.committed_offset,
        previous_offset=batch.previous_offset,
    )


def decode_batch(message: cluster_pb2.MetadataBatch) -> MetadataBatch:
    """Committed metadata from the controller."""
    return MetadataBatch(
        ControllerEpoch(message.controller_epoch),
        Offset(message.first_offset),
        tuple(map(decode_record, message.records)),
        message.snapshot,
        Offset(message.committed_offset),
        Offset(message.previous_offset) if message.HasField("previous_offset") else None,
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
        broker_epoch=answer.broker_epoch,
    )


def decode_claimed(message: cluster_pb2.ClaimBrokerResponse) -> BrokerClaim | Failure:
    """The controller's answer to a claim."""
    return decode_failure(message) or BrokerClaim(
        BrokerId(message.broker_id),
        message.directory_id or None,
        message.cluster_id,
        ControllerEpoch(message.controller_epoch),
        message.retry_after_ms,
        BrokerEpoch(message.broker_epoch),
    )


def encode_registration(request: RegisterBroker) -> cluster_pb2.RegisterBrokerRequest:
    """A new incarnation."""
    return cluster_pb2.RegisterBrokerRequest(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        cluster_id=request.cluster_id,
        host_id=request.host_id,
        rack=request.rack or "",
        **earlier_endpoints(request.listeners),
        listeners=map(encode_listener, request.listeners),
        software=encode_software(request.software),
        directory_id=request.directory_id,
        boot_id=request.boot_id,
        log_intact=request.log_intact,
        highest_controller_epoch=request.highest_controller_epoch,
        failed_replicas=map(_encode_replica, request.failed_replicas),
        lost_replicas=map(_encode_replica, request.lost_replicas),
        static_config=dict(request.static_config),
        log_dirs=(
            cluster_pb2.LogDirectory(
                directory_id=directory.directory_id,
                intact=directory.intact,
                replicas=map(_encode_replica, directory.replicas),
            )
            for directory in request.log_dirs
        ),
        offline_log_dirs=request.offline_log_dirs,
        previous_broker_epoch=request.previous_broker_epoch,
    )


def decode_registration(message: cluster_pb2.RegisterBrokerRequest) -> RegisterBroker:
    """A new incarnation."""
    return RegisterBroker(
        broker_id=BrokerId(message.broker_id),
        incarnation_id=message.incarnation_id,
        cluster_id=message.cluster_id,
        host_id=message.host_id,
        rack=message.rack or None,
        listeners=decode_listeners(message),
        software=decode_software(message.software),
        directory_id=message.directory_id,
        boot_id=message.boot_id,
        log_intact=message.log_intact,
        highest_controller_epoch=ControllerEpoch(message.highest_controller_epoch),
        failed_replicas=tuple(map(_decode_replica, message.failed_replicas)),
        lost_replicas=tuple(map(_decode_replica, message.lost_replicas)),
        static_config=tuple(sorted(message.static_config.items())),
        log_dirs=tuple(
            LogDirectory(
                directory.directory_id,
                directory.intact,
                tuple(map(_decode_replica, directory.replicas)),
            )
            for directory in message.log_dirs
        ),
        offline_log_dirs=tuple(message.offline_log_dirs),
        previous_broker_epoch=BrokerEpoch(message.previous_broker_epoch),
    )


def _encode_replica(replica: ReplicaKey) -> cluster_pb2.Replica:
    return cluster_pb2.Replica(topic_id=replica[0], partition=replica[1])


def _decode_replica(message: cluster_pb2.Replica) -> ReplicaKey:
    return (TopicId(message.topic_id), message.partition)


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
                tuple(map(BrokerId, partition.isr)),
                PartitionEpoch(partition.partition_epoch),
            )
            for partition in message.partitions
        ),
    )


def encode_replicas_failed(request: ReplicasFailed) -> cluster_pb2.ReplicasFailedRequest:
    """A broker's report of failed logs."""
    return cluster_pb2.ReplicasFailedRequest(
        broker_id=request.broker_id,
        broker_epoch=request.broker_epoch,
        replicas=map(_encode_replica, request.replicas),
        reason=request.reason,
        log_dirs=request.log_dirs,
    )


def decode_replicas_failed(message: cluster_pb2.ReplicasFailedRequest) -> ReplicasFailed:
    """A broker's report of failed logs."""
    return ReplicasFailed(
        BrokerId(message.broker_id),
        BrokerEpoch(message.broker_epoch),
        tuple(map(_decode_replica, message.replicas)),
        message.reason,
        tuple(message.log_dirs),
    )


def encode_failures_noted(answer: FailuresNoted | Failure) -> cluster_pb2.ReplicasFailedResponse:
    """The controller's answer to it."""
    failure = answer if isinstance(answer, Failure) else None
    return cluster_pb2.ReplicasFailedResponse(error=encode_failure(failure))


def decode_failures_noted(message: cluster_pb2.ReplicasFailedResponse) -> FailuresNoted | Failure:
    """The controller's answer to it."""
    return decode_failure(message) or FailuresNoted()


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


def encode_ensure(request: EnsureInternalTopic) -> cluster_pb2.EnsureInternalTopicRequest:
    """A coordinator's need."""
    return cluster_pb2.EnsureInternalTopicRequest(
        broker_id=request.broker_id, broker_epoch=request.broker_epoch, name=request.name
    )


def decode_ensure(message: cluster_pb2.EnsureInternalTopicRequest) -> EnsureInternalTopic:
    """A coordinator's need."""
    return EnsureInternalTopic(
        BrokerId(message.broker_id), BrokerEpoch(message.broker_epoch), message.name
    )


def encode_ensured(
    answer: InternalTopicEnsured | Failure,
) -> cluster_pb2.EnsureInternalTopicResponse:
    """The controller's answer about an internal topic."""
    if isinstance(answer, Failure):
        return cluster_pb2.EnsureInternalTopicResponse(error=encode_failure(answer))
    return cluster_pb2.EnsureInternalTopicResponse(
        name=answer.name, topic_id=answer.topic_id, num_partitions=answer.num_partitions
    )


def decode_ensured(
    message: cluster_pb2.EnsureInternalTopicResponse,
) -> InternalTopicEnsured | Failure:
    """The controller's answer about an internal topic."""
    return decode_failure(message) or InternalTopicEnsured(
        message.name, TopicId(message.topic_id), message.num_partitions
    )


def encode_streams_topics(request: CreateTopics) -> cluster_pb2.CreateStreamsTopicsRequest:
    """Internal topics of a streams group."""
    return cluster_pb2.CreateStreamsTopicsRequest(
        topics=[
            cluster_pb2.StreamsTopic(
                name=topic.name,
                num_partitions=topic.num_partitions,
                replication_factor=topic.replication_factor,
                config=topic.config or {},
            )
            for topic in request.topics
        ]
    )


def decode_streams_topics(message: cluster_pb2.CreateStreamsTopicsRequest) -> CreateTopics:
    """Internal topics of a streams group: ordinary ones. Nobody waits until brokers know them."""
    topics = tuple(
        NewTopic(
            topic.name,
            topic.num_partitions,
            topic.replication_factor,
            config=dict(topic.config) or None,
        )
        for topic in message.topics
    )
    return CreateTopics(topics, timeout_ms=0)


def encode_streams_topics_created(
    answer: TopicsCreated,
) -> cluster_pb2.CreateStreamsTopicsResponse:
    """The outcome of each."""
    return cluster_pb2.CreateStreamsTopicsResponse(
        topics=[
            cluster_pb2.CreatedStreamsTopic(name=each.name, error=encode_failure(each.failure))
            for each in answer.topics
        ]
    )


def decode_streams_topics_created(
    message: cluster_pb2.CreateStreamsTopicsResponse,
) -> TopicsCreated:
    """The outcome of each; for a topic that exists its name alone."""
    return TopicsCreated(
        tuple(CreatedTopic(each.name, decode_failure(each)) for each in message.topics)
    )
