"""Metadata: messages and values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from weakref import WeakKeyDictionary

from pylog.rpc.v1 import common_pb2, log_pb2
from pylog_broker.api.metadata import ClusterView, MetadataQuery, PartitionView, TopicView
from pylog_broker.metadata.image import BrokerRegistration
from pylog_broker.metadata.records import Endpoint
from pylog_broker.protobuf.failures import error_of


def endpoint_message(endpoint: Endpoint) -> common_pb2.Endpoint:
    """An address as a message."""
    return common_pb2.Endpoint(host=endpoint.host, port=endpoint.port)


def broker_messages(brokers: Iterable[BrokerRegistration]) -> list[common_pb2.Broker]:
    """Brokers as messages."""
    return [
        common_pb2.Broker(
            id=broker.broker_id,
            endpoint=endpoint_message(broker.client_endpoint),
            rack=broker.rack or "",
            epoch=broker.broker_epoch,
            stream_endpoint=endpoint_message(broker.stream_endpoint)
            if broker.stream_endpoint
            else None,
            fenced_since_ms=broker.fenced_since_ms,
        )
        for broker in brokers
    ]


def query_from(request: log_pb2.MetadataRequest) -> MetadataQuery:
    """A metadata request as a value."""
    return MetadataQuery(
        tuple(request.topics),
        tuple(request.topic_ids),
        request.all_topics,
        request.include_fenced_brokers,
    )


_answers: Final[WeakKeyDictionary[ClusterView, log_pb2.MetadataResponse]] = WeakKeyDictionary()


def metadata_response(view: ClusterView) -> log_pb2.MetadataResponse:
    """Its answer, made once for each view: nobody may change it."""
    answer = _answers.get(view)
    if answer is None:
        answer = _answers[view] = _response(view)
    return answer


def _response(view: ClusterView) -> log_pb2.MetadataResponse:
    return log_pb2.MetadataResponse(
        cluster_id=view.cluster_id,
        controller_epoch=view.controller_epoch,
        brokers=broker_messages(view.brokers),
        fenced_brokers=broker_messages(view.fenced_brokers),
        controller=endpoint_message(view.controller) if view.controller else None,
        topics=map(_topic, view.topics),
        metadata_offset=view.metadata_offset,
        gateway=view.is_gateway,
        controller_since_ms=view.controller_since_ms,
    )


def _topic(topic: TopicView) -> log_pb2.TopicMetadata:
    return log_pb2.TopicMetadata(
        error=error_of(topic.failure),
        name=topic.name,
        topic_id=topic.topic_id,
        internal=topic.is_internal,
        partitions=map(_partition, topic.partitions),
    )


def _partition(partition: PartitionView) -> log_pb2.PartitionMetadata:
    record = partition.record
    return log_pb2.PartitionMetadata(
        error=error_of(partition.failure),
        partition=record.partition,
        leader=record.leader,
        leader_epoch=record.leader_epoch,
        replicas=record.replicas,
        isr=record.isr,
        eligible_leader_replicas=record.eligible_leader_replicas,
        offline_replicas=partition.offline,
        partition_epoch=record.partition_epoch,
    )
