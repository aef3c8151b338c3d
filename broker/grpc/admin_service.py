"""The Admin service of the gateway: topics, configurations and the cluster, straight to the
controller. `admin_wire.py` turns messages into values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pylog.model import BrokerId
from pylog.rpc.v1 import admin_pb2, admin_pb2_grpc
from pylog_broker.api.metadata import brokers_of
from pylog_broker.controller.controller import Controller
from pylog_broker.grpc.admin_wire import (
    bounded,
    changes_from,
    described_message,
    feature_message,
    growth_from,
    new_topic_from,
    question_from,
    resource_message,
)
from pylog_broker.grpc.cluster_service import Ask
from pylog_broker.grpc.guard import Context
from pylog_broker.metadata.admin import (
    AlteredConfig,
    ConfigsAltered,
    CreatedTopic,
    CreateTopics,
    DeletedTopic,
    DeleteTopics,
    ElectLeaders,
    FeaturesUpdated,
    GrownTopic,
    LeadersElected,
    PartitionsCreated,
    TopicsCreated,
    TopicsDeleted,
    UpdateFeatures,
)
from pylog_broker.metadata.messages import Failure
from pylog_broker.metadata.records import Endpoint
from pylog_broker.protobuf.failures import error_of
from pylog_broker.protobuf.metadata import broker_messages, endpoint_message

TIMEOUT_DEFAULT_MS: Final = 30_000
TIMEOUT_MS_MAX: Final = 300_000


def _timeout(timeout_ms: int) -> int:
    return min(timeout_ms, TIMEOUT_MS_MAX) if timeout_ms > 0 else TIMEOUT_DEFAULT_MS


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
        bounded(len(request.topics))
        wanted = CreateTopics(
            tuple(map(new_topic_from, request.topics)),
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
        bounded(len(request.names))
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

    async def CreatePartitions(
        self, request: admin_pb2.CreatePartitionsRequest, context: Context
    ) -> admin_pb2.CreatePartitionsResponse:
        """More partitions; each topic with its own error."""
        bounded(len(request.topics))
        wanted = growth_from(request, _timeout(request.timeout_ms))
        answer = await self._ask(
            lambda now, token: self._controller.create_partitions(now, wanted, token)
        )
        if isinstance(answer, Failure):
            answer = PartitionsCreated(tuple(GrownTopic(t.topic, answer) for t in wanted.topics))
        assert isinstance(answer, PartitionsCreated), answer
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

    async def DescribeConfigs(
        self, request: admin_pb2.DescribeConfigsRequest, context: Context
    ) -> admin_pb2.DescribeConfigsResponse:
        """What holds for each resource, and why; as committed."""
        bounded(len(request.resources), "resources")
        return admin_pb2.DescribeConfigsResponse(
            resources=[
                described_message(self._controller.describe_configs(question))
                for question in map(question_from, request.resources)
            ]
        )

    async def AlterConfigs(
        self, request: admin_pb2.AlterConfigsRequest, context: Context
    ) -> admin_pb2.AlterConfigsResponse:
        """Changed settings; each resource with its own error."""
        bounded(len(request.resources), "resources")
        wanted = changes_from(request)
        answer = await self._ask(
            lambda now, token: self._controller.alter_configs(now, wanted, token)
        )
        if isinstance(answer, Failure):
            answer = ConfigsAltered(
                tuple(
                    AlteredConfig(c.resource_type, c.resource_name, answer) for c in wanted.changes
                )
            )
        assert isinstance(answer, ConfigsAltered), answer
        return admin_pb2.AlterConfigsResponse(
            resources=[
                admin_pb2.AlterConfigsResult(
                    error=error_of(altered.failure),
                    resource=resource_message(altered.resource_type, altered.resource_name),
                )
                for altered in answer.resources
            ]
        )

    async def ElectLeaders(
        self, request: admin_pb2.ElectLeadersRequest, context: Context
    ) -> admin_pb2.ElectLeadersResponse:
        """Elections by command; each partition with its own error."""
        bounded(len(request.partitions), "partitions")
        wanted = ElectLeaders(
            request.unclean,
            None
            if request.all_partitions
            else tuple((item.topic, item.partition) for item in request.partitions),
        )
        answer = await self._ask(
            lambda now, token: self._controller.elect_leaders(now, wanted, token)
        )
        if isinstance(answer, Failure):
            answer = LeadersElected((), answer)
        assert isinstance(answer, LeadersElected), answer
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

    async def UnregisterBroker(
        self, request: admin_pb2.UnregisterBrokerRequest, context: Context
    ) -> admin_pb2.UnregisterBrokerResponse:
        """The broker is gone for good."""
        broker = BrokerId(request.broker_id)
        answer = await self._ask(
            lambda now, token: self._controller.unregister_broker(now, broker, token)
        )
        failure = answer if isinstance(answer, Failure) else None
        return admin_pb2.UnregisterBrokerResponse(error=error_of(failure))

    async def DescribeCluster(
        self, request: admin_pb2.DescribeClusterRequest, context: Context
    ) -> admin_pb2.DescribeClusterResponse:
        """The live brokers, as committed."""
        image = self._controller.image
        endpoint = self._endpoint()
        return admin_pb2.DescribeClusterResponse(
            cluster_id=image.cluster_id,
            controller_epoch=image.controller_epoch,
            brokers=broker_messages(brokers_of(image, fenced=False)),
            controller=endpoint_message(endpoint) if endpoint else None,
            controller_since_ms=image.controller_since_ms,
        )

    async def DescribeFeatures(
        self, request: admin_pb2.DescribeFeaturesRequest, context: Context
    ) -> admin_pb2.DescribeFeaturesResponse:
        """Every feature's level, as committed."""
        features = self._controller.describe_features()
        return admin_pb2.DescribeFeaturesResponse(features=map(feature_message, features))

    async def UpdateFeatures(
        self, request: admin_pb2.UpdateFeaturesRequest, context: Context
    ) -> admin_pb2.UpdateFeaturesResponse:
        """Raised levels; all of them, or none."""
        bounded(len(request.levels), "features")
        wanted = UpdateFeatures(tuple(sorted(request.levels.items())), request.validate_only)
        answer = await self._ask(
            lambda now, token: self._controller.update_features(now, wanted, token)
        )
        if isinstance(answer, Failure):
            answer = FeaturesUpdated(answer)
        assert isinstance(answer, FeaturesUpdated), answer
        return admin_pb2.UpdateFeaturesResponse(
            error=error_of(answer.failure), features=map(feature_message, answer.features)
        )
