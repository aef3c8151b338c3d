"""The Admin service of the gateway: topics and the cluster, straight to the controller."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from broker.controller.controller import Controller
from broker.grpc.cluster_service import Ask
from broker.grpc.guard import Context
from broker.grpc.metadata_view import broker_messages, endpoint_message
from broker.grpc.wire import error_of
from broker.metadata.admin import (
    CreatedTopic,
    CreateTopics,
    DeletedTopic,
    DeleteTopics,
    TopicsCreated,
    TopicsDeleted,
)
from broker.metadata.messages import Failure
from broker.metadata.records import Endpoint
from pylog import errors
from pylog.model import NewTopic
from pylog.rpc.v1 import admin_pb2, admin_pb2_grpc

TIMEOUT_DEFAULT_MS: Final = 30_000
TIMEOUT_MS_MAX: Final = 300_000
ITEMS_PER_REQUEST_MAX: Final = 10_000


def _bound(items: int) -> None:
    if items > ITEMS_PER_REQUEST_MAX:
        raise errors.InvalidRequest(
            f"{items} topics in one request; the limit is {ITEMS_PER_REQUEST_MAX}"
        )


def _timeout(timeout_ms: int) -> int:
    return min(timeout_ms, TIMEOUT_MS_MAX) if timeout_ms > 0 else TIMEOUT_DEFAULT_MS


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


class AdminService(admin_pb2_grpc.AdminServicer):
    """Lives on the controller's loop."""

    def __init__(
        self, controller: Controller, ask: Ask, endpoint: Callable[[], Endpoint | None]
    ) -> None:
        self._controller = controller
        self._ask = ask
        self._endpoint = endpoint

    async def CreateTopics(
        self, request: admin_pb2.CreateTopicsRequest, context: Context
    ) -> admin_pb2.CreateTopicsResponse:
        """New topics; each with its own error."""
        _bound(len(request.topics))
        wanted = CreateTopics(
            tuple(map(_new_topic, request.topics)),
            _timeout(request.timeout_ms),
            request.validate_only,
        )
        answer = await self._ask(
            lambda now, token: self._controller.create_topics(now, wanted, token)
        )
        if isinstance(answer, Failure):
            answer = TopicsCreated(tuple(CreatedTopic(t.name, answer) for t in wanted.topics))
        assert isinstance(answer, TopicsCreated), answer
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

    async def DeleteTopics(
        self, request: admin_pb2.DeleteTopicsRequest, context: Context
    ) -> admin_pb2.DeleteTopicsResponse:
        """Topics to go; each with its own error."""
        _bound(len(request.names))
        wanted = DeleteTopics(tuple(request.names))
        answer = await self._ask(
            lambda now, token: self._controller.delete_topics(now, wanted, token)
        )
        if isinstance(answer, Failure):
            answer = TopicsDeleted(tuple(DeletedTopic(n, None, answer) for n in wanted.names))
        assert isinstance(answer, TopicsDeleted), answer
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

    async def DescribeCluster(
        self, request: admin_pb2.DescribeClusterRequest, context: Context
    ) -> admin_pb2.DescribeClusterResponse:
        """The live brokers, as committed."""
        image = self._controller.image
        endpoint = self._endpoint()
        return admin_pb2.DescribeClusterResponse(
            cluster_id=image.cluster_id,
            controller_epoch=image.controller_epoch,
            brokers=broker_messages(image),
            controller=endpoint_message(endpoint) if endpoint else None,
        )
