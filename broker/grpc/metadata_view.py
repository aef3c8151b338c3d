"""The metadata image as clients see it: what `Log.Metadata` answers, on brokers and gateway."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pylog import errors
from pylog.model import NO_LEADER, TopicId, topic_name_fault
from pylog.rpc.v1 import common_pb2, log_pb2
from pylog_broker.clients.wire import error_of
from pylog_broker.metadata.image import MetadataImage, TopicImage
from pylog_broker.metadata.messages import Failure
from pylog_broker.metadata.records import Endpoint, PartitionRecord

TOPICS_PER_REQUEST_MAX: Final = 10_000


def endpoint_message(endpoint: Endpoint) -> common_pb2.Endpoint:
    """An address as a message."""
    return common_pb2.Endpoint(host=endpoint.host, port=endpoint.port)


def broker_messages(image: MetadataImage, *, fenced: bool = False) -> list[common_pb2.Broker]:
    """The brokers that serve: registered and not fenced, ascending by id; or those that are fenced,
    where they were last.

    One that stops in order serves until its leaders have moved.
    """
    return [
        common_pb2.Broker(
            id=broker_id,
            endpoint=endpoint_message(broker.client_endpoint),
            rack=broker.rack or "",
            epoch=broker.broker_epoch,
            stream_endpoint=endpoint_message(broker.stream_endpoint)
            if broker.stream_endpoint
            else None,
        )
        for broker_id, broker in sorted(image.brokers.items())
        if broker.fenced == fenced
    ]


def metadata_response(
    image: MetadataImage, request: log_pb2.MetadataRequest, controller: Endpoint | None
) -> log_pb2.MetadataResponse:
    """What was asked, each unknown topic with its own error; InvalidRequest when it is too much."""
    asked = len(request.topics) + len(request.topic_ids)
    if asked > TOPICS_PER_REQUEST_MAX:
        raise errors.InvalidRequest(
            f"{asked} topics in one request; the limit is {TOPICS_PER_REQUEST_MAX}"
        )
    return log_pb2.MetadataResponse(
        cluster_id=image.cluster_id,
        controller_epoch=image.controller_epoch,
        brokers=broker_messages(image),
        fenced_brokers=broker_messages(image, fenced=True)
        if request.include_fenced_brokers
        else (),
        controller=endpoint_message(controller) if controller else None,
        topics=_topics(image, request),
        metadata_offset=image.offset,
    )


def _topics(
    image: MetadataImage, request: log_pb2.MetadataRequest
) -> Iterator[log_pb2.TopicMetadata]:
    if request.all_topics:
        for name in sorted(image.topics_by_name):
            yield _topic(image, image.topics_by_name[name])
        return
    for name in dict.fromkeys(request.topics):  # a large topic named often would be a large answer
        topic = image.topics_by_name.get(name)
        if topic is not None:
            yield _topic(image, topic)
            continue
        fault = topic_name_fault(name)
        failure = (
            Failure(errors.InvalidTopic.code, fault)
            if fault
            else Failure(errors.UnknownTopicOrPartition.code, f"topic {name} does not exist")
        )
        yield log_pb2.TopicMetadata(error=error_of(failure), name=name)
    for topic_id in dict.fromkeys(request.topic_ids):
        topic = image.topics_by_id.get(TopicId(topic_id))
        if topic is not None:
            yield _topic(image, topic)
            continue
        failure = Failure(errors.UnknownTopicId.code, f"there is no topic with id {topic_id[:64]}")
        yield log_pb2.TopicMetadata(error=error_of(failure), topic_id=topic_id)


def _topic(image: MetadataImage, topic: TopicImage) -> log_pb2.TopicMetadata:
    return log_pb2.TopicMetadata(
        name=topic.name,
        topic_id=topic.topic_id,
        internal=topic.name.startswith("__"),
        partitions=[
            _partition(image, topic.name, topic.partitions[number])
            for number in sorted(topic.partitions)
        ],
    )


def _partition(
    image: MetadataImage, topic: str, record: PartitionRecord
) -> log_pb2.PartitionMetadata:
    failure = None
    if record.leader == NO_LEADER:
        failure = Failure(
            errors.LeaderNotAvailable.code,
            f"{topic}-{record.partition} has no leader: none of its in-sync replicas "
            f"{list(record.isr or record.eligible_leader_replicas)} is live",
        )
    return log_pb2.PartitionMetadata(
        error=error_of(failure),
        partition=record.partition,
        leader=record.leader,
        leader_epoch=record.leader_epoch,
        replicas=record.replicas,
        isr=record.isr,
        eligible_leader_replicas=record.eligible_leader_replicas,
        offline_replicas=[
            broker
            for broker in record.replicas
            if broker not in image.brokers
            or image.brokers[broker].fenced
            or broker in record.failed_replicas
        ],
        partition_epoch=record.partition_epoch,
    )
