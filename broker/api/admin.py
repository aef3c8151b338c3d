"""Administrators' requests to the gateway: bounded, given to the controller, answered item by item.

A change that the controller cannot take up at all (it is no controller any more, its disk is full)
is a failure of each item, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pylog.model import BrokerId
from pylog_broker.api.context import RequestContext
from pylog_broker.api.limits import check_items, check_replicas
from pylog_broker.api.metadata import brokers_of
from pylog_broker.controller.effects import Effect
from pylog_broker.metadata.admin import (
    AlterConfigs,
    AlteredConfig,
    AlterPartitionReassignments,
    ConfigsAltered,
    ConfigsQuestion,
    CreatedTopic,
    CreatePartitions,
    CreateTopics,
    DeletedTopic,
    DeleteTopics,
    DescribedConfig,
    ElectLeaders,
    FeatureState,
    FeaturesUpdated,
    GrownTopic,
    LeadersElected,
    ListPartitionReassignments,
    OngoingReassignment,
    PartitionReassignmentsAltered,
    PartitionsCreated,
    TopicsCreated,
    TopicsDeleted,
    UpdateFeatures,
)
from pylog_broker.metadata.image import BrokerRegistration
from pylog_broker.metadata.messages import Failure
from pylog_broker.metadata.records import Endpoint

if TYPE_CHECKING:
    from pylog_broker.controller.controller import Controller

TIMEOUT_DEFAULT_MS: Final = 30_000
TIMEOUT_MS_MAX: Final = 300_000
BROKERS_KNOW_MS_MAX: Final = 10_000
"""A change of settings holds once it is durable; a broker that stands still shall not hold up the
answer.
"""

Ask = Callable[[Callable[[int, object], list[Effect]]], Awaitable[Any]]
"""Give the function a time and a token, perform its effects, wait for the reply to the token."""


class ClusterDescription(NamedTuple):
    """The brokers that serve, ascending by id, as committed. `controller`: the gateway beside it,
    None before it listens; `controller_since_ms`: when its epoch began, by the time of day, 0 when
    that is not known.
    """

    cluster_id: str
    controller_epoch: int
    brokers: Sequence[BrokerRegistration]
    controller: Endpoint | None
    controller_since_ms: int


class AdminHandler:
    """Lives on the controller's loop. All raise InvalidRequest for too many items."""

    def __init__(
        self, controller: Controller, ask: Ask, endpoint: Callable[[], Endpoint | None]
    ) -> None:
        self._controller = controller
        self._ask = ask
        self._endpoint = endpoint

    async def create_topics(self, _context: RequestContext, request: CreateTopics) -> TopicsCreated:
        """New topics; each with its own failure."""
        check_items(len(request.topics), "topics")
        wanted = replace(request, timeout_ms=_timeout(request.timeout_ms))
        answer = await self._ask(
            lambda now, token: self._controller.create_topics(now, wanted, token)
        )
        if isinstance(answer, Failure):
            return TopicsCreated(tuple(CreatedTopic(t.name, answer) for t in wanted.topics))
        assert isinstance(answer, TopicsCreated), answer
        return answer

    async def delete_topics(self, _context: RequestContext, request: DeleteTopics) -> TopicsDeleted:
        """Topics to go; each with its own failure."""
        check_items(len(request.names) + len(request.topic_ids), "topics")
        answer = await self._ask(
            lambda now, token: self._controller.delete_topics(now, request, token)
        )
        if isinstance(answer, Failure):
            by_name = (DeletedTopic(name, None, answer) for name in request.names)
            by_id = (DeletedTopic(None, topic_id, answer) for topic_id in request.topic_ids)
            return TopicsDeleted((*by_name, *by_id))
        assert isinstance(answer, TopicsDeleted), answer
        return answer

    async def create_partitions(
        self, _context: RequestContext, request: CreatePartitions
    ) -> PartitionsCreated:
        """More partitions; each topic with its own failure."""
        check_items(len(request.topics), "topics")
        wanted = replace(request, timeout_ms=_timeout(request.timeout_ms))
        answer = await self._ask(
            lambda now, token: self._controller.create_partitions(now, wanted, token)
        )
        if isinstance(answer, Failure):
            return PartitionsCreated(tuple(GrownTopic(t.topic, answer) for t in wanted.topics))
        assert isinstance(answer, PartitionsCreated), answer
        return answer

    async def describe_configs(
        self, _context: RequestContext, questions: Sequence[ConfigsQuestion]
    ) -> list[DescribedConfig]:
        """The settings that hold for each resource, and why; as committed."""
        check_items(len(questions), "resources")
        return [*map(self._controller.describe_configs, questions)]

    async def alter_configs(
        self, _context: RequestContext, request: AlterConfigs
    ) -> ConfigsAltered:
        """Changed settings; each resource with its own failure."""
        check_items(len(request.changes), "resources")
        timeout_ms = min(max(0, request.timeout_ms), BROKERS_KNOW_MS_MAX)
        wanted = replace(request, timeout_ms=timeout_ms)
        answer = await self._ask(
            lambda now, token: self._controller.alter_configs(now, wanted, token)
        )
        if isinstance(answer, Failure):
            return ConfigsAltered(
                tuple(
                    AlteredConfig(c.resource_type, c.resource_name, answer) for c in wanted.changes
                )
            )
        assert isinstance(answer, ConfigsAltered), answer
        return answer

    async def elect_leaders(
        self, _context: RequestContext, request: ElectLeaders
    ) -> LeadersElected:
        """Elections by command; each partition with its own failure."""
        check_items(len(request.partitions or ()), "partitions")
        answer = await self._ask(
            lambda now, token: self._controller.elect_leaders(now, request, token)
        )
        if isinstance(answer, Failure):
            return LeadersElected((), answer)
        assert isinstance(answer, LeadersElected), answer
        return answer

    async def alter_partition_reassignments(
        self, _context: RequestContext, request: AlterPartitionReassignments
    ) -> PartitionReassignmentsAltered:
        """Partitions begin to move, or move no more; each with its own failure."""
        check_items(len(request.partitions), "partitions")
        check_replicas(sum(len(each.replicas or ()) for each in request.partitions))
        answer = await self._ask(
            lambda now, token: self._controller.alter_partition_reassignments(now, request, token)
        )
        if isinstance(answer, Failure):
            return PartitionReassignmentsAltered((), answer)
        assert isinstance(answer, PartitionReassignmentsAltered), answer
        return answer

    async def list_partition_reassignments(
        self, _context: RequestContext, question: ListPartitionReassignments
    ) -> tuple[OngoingReassignment, ...]:
        """The moves that go on, as committed."""
        check_items(len(question.partitions or ()), "partitions")
        return self._controller.list_partition_reassignments(question)

    async def unregister_broker(self, _context: RequestContext, broker: BrokerId) -> Failure | None:
        """The broker is gone for good; or why not."""
        answer = await self._ask(
            lambda now, token: self._controller.unregister_broker(now, broker, token)
        )
        return answer if isinstance(answer, Failure) else None

    async def describe_cluster(
        self, _context: RequestContext, _request: None
    ) -> ClusterDescription:
        """The live brokers, as committed."""
        image = self._controller.image
        return ClusterDescription(
            image.cluster_id,
            image.controller_epoch,
            brokers_of(image, fenced=False),
            self._endpoint(),
            image.controller_since_ms,
        )

    async def describe_features(
        self, _context: RequestContext, _request: None
    ) -> tuple[FeatureState, ...]:
        """Every feature's level, as committed."""
        return self._controller.describe_features()

    async def update_features(
        self, _context: RequestContext, request: UpdateFeatures
    ) -> FeaturesUpdated:
        """Raised levels; all of them, or none."""
        check_items(len(request.levels), "features")
        answer = await self._ask(
            lambda now, token: self._controller.update_features(now, request, token)
        )
        if isinstance(answer, Failure):
            return FeaturesUpdated(answer)
        assert isinstance(answer, FeaturesUpdated), answer
        return answer


def _timeout(timeout_ms: int) -> int:
    return min(timeout_ms, TIMEOUT_MS_MAX) if timeout_ms > 0 else TIMEOUT_DEFAULT_MS
