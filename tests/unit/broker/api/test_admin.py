"""Administrators' requests: bounded, given to the controller, and answered item by item."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

import pytest

from pylog import errors
from pylog.model import BrokerId, NewTopic, TopicId
from pylog_broker.api.admin import (
    BROKERS_KNOW_MS_MAX,
    TIMEOUT_DEFAULT_MS,
    TIMEOUT_MS_MAX,
    AdminHandler,
    ClusterDescription,
)
from pylog_broker.api.broker_admin import DescribeConfigsHandler
from pylog_broker.api.context import RequestContext
from pylog_broker.api.limits import ITEMS_PER_REQUEST_MAX
from pylog_broker.controller.controller import Controller
from pylog_broker.metadata.admin import (
    AlterConfigs,
    AlteredConfig,
    AlterPartitionReassignments,
    ConfigChange,
    ConfigsAltered,
    ConfigsQuestion,
    CreatedTopic,
    CreatePartitions,
    CreateTopics,
    DeletedTopic,
    DeleteTopics,
    ElectLeaders,
    GrownTopic,
    LeadersElected,
    ListPartitionReassignments,
    NewPartitionsOf,
    NewReplicas,
    PartitionReassignmentsAltered,
    PartitionsCreated,
    TopicsCreated,
    TopicsDeleted,
)
from pylog_broker.metadata.image import MetadataImage
from pylog_broker.metadata.messages import Failure
from pylog_broker.metadata.records import ConfigResourceType, Endpoint

T = TypeVar("T")

CONTEXT = RequestContext("test", "10.0.0.1", "10.0.0.1:5")
FULL = Failure(errors.KafkaStorageError.code, "nothing was changed: the disk is full")
TOPIC = ConfigResourceType.TOPIC


class Asked:
    """A controller that keeps what it is asked, and answers what the test says."""

    def __init__(self, answer: object) -> None:
        self.answer = answer
        self.asked: list[tuple[str, Any]] = []
        self.image = MetadataImage()

    def __getattr__(self, name: str) -> Callable[[int, Any, object], list[Any]]:
        def method(_now: int, wanted: Any, _token: object) -> list[Any]:
            self.asked.append((name, wanted))
            return []

        return method

    async def ask(self, call: Callable[[int, object], list[Any]]) -> object:
        call(0, None)
        return self.answer


def handler(asked: Asked) -> AdminHandler:
    return AdminHandler(cast(Controller, asked), asked.ask, lambda: Endpoint("gate", 1))


def run(answer: Awaitable[T]) -> T:
    async def main() -> T:
        return await answer

    return asyncio.run(main())


def test_what_the_controller_cannot_take_up_is_a_failure_of_each_item() -> None:
    admin = handler(Asked(FULL))
    assert run(admin.create_topics(CONTEXT, CreateTopics((NewTopic("t", 1, 1),)))) == TopicsCreated(
        (CreatedTopic("t", FULL),)
    )
    gone = TopicId("G" * 22)
    assert run(admin.delete_topics(CONTEXT, DeleteTopics(("t",), (gone,)))) == TopicsDeleted(
        (DeletedTopic("t", None, FULL), DeletedTopic(None, gone, FULL))
    )
    grown = CreatePartitions((NewPartitionsOf("t", 5),))
    assert run(admin.create_partitions(CONTEXT, grown)) == PartitionsCreated(
        (GrownTopic("t", FULL),)
    )
    changes = AlterConfigs((ConfigChange(TOPIC, "t"),))
    assert run(admin.alter_configs(CONTEXT, changes)) == ConfigsAltered(
        (AlteredConfig(TOPIC, "t", FULL),)
    )
    assert run(admin.elect_leaders(CONTEXT, ElectLeaders(False))) == LeadersElected((), FULL)
    moves = AlterPartitionReassignments((NewReplicas("t", 0, (BrokerId(1),)),))
    moved = run(admin.alter_partition_reassignments(CONTEXT, moves))
    assert moved == PartitionReassignmentsAltered((), FULL)
    assert run(admin.unregister_broker(CONTEXT, BrokerId(7))) == FULL


def test_waiting_is_bounded() -> None:
    asked = Asked(TopicsCreated(()))
    admin = handler(asked)
    for told, meant in ((0, TIMEOUT_DEFAULT_MS), (-1, TIMEOUT_DEFAULT_MS), (7, 7), (10**9, None)):
        run(admin.create_topics(CONTEXT, CreateTopics((), told)))
        assert asked.asked.pop()[1].timeout_ms == (meant or TIMEOUT_MS_MAX)
    asked.answer = ConfigsAltered(())
    for told, meant in ((0, 0), (-1, 0), (7, 7), (10**9, BROKERS_KNOW_MS_MAX)):
        run(admin.alter_configs(CONTEXT, AlterConfigs((), timeout_ms=told)))
        assert asked.asked.pop()[1].timeout_ms == meant


def test_too_many_items_are_refused_before_the_controller_hears_of_them() -> None:
    asked = Asked(None)
    admin = handler(asked)
    many = ITEMS_PER_REQUEST_MAX + 1
    question = ConfigsQuestion(TOPIC, "t")
    of_broker = DescribeConfigsHandler(MetadataImage, {})
    for refused in (
        admin.create_topics(CONTEXT, CreateTopics((NewTopic("t", 1, 1),) * many)),
        admin.delete_topics(CONTEXT, DeleteTopics(("t",) * many)),
        admin.delete_topics(CONTEXT, DeleteTopics(("t",), (TopicId("i"),) * (many - 1))),
        admin.create_partitions(CONTEXT, CreatePartitions((NewPartitionsOf("t", 2),) * many)),
        admin.alter_configs(CONTEXT, AlterConfigs((ConfigChange(TOPIC, "t"),) * many)),
        admin.elect_leaders(CONTEXT, ElectLeaders(False, (("t", 0),) * many)),
        admin.alter_partition_reassignments(
            CONTEXT, AlterPartitionReassignments((NewReplicas("t", 0, None),) * many)
        ),
        admin.list_partition_reassignments(CONTEXT, ListPartitionReassignments((("t", 0),) * many)),
        admin.describe_configs(CONTEXT, [question] * many),
        of_broker.handle(CONTEXT, [question] * many),
    ):
        with pytest.raises(errors.InvalidRequest, match=f"{many} .* the limit is 10000"):
            run(cast(Awaitable[Any], refused))
    assert asked.asked == []


def test_the_replicas_of_one_request_are_bounded() -> None:
    asked = Asked(None)
    many = NewReplicas("t", 0, (BrokerId(1),) * 100_001)
    with pytest.raises(errors.InvalidRequest, match="100001 replicas in one request"):
        run(
            handler(asked).alter_partition_reassignments(
                CONTEXT, AlterPartitionReassignments((many,))
            )
        )
    assert asked.asked == []


def test_the_cluster_is_described_as_committed() -> None:
    described = run(handler(Asked(None)).describe_cluster(CONTEXT, None))
    assert described == ClusterDescription("", -1, [], Endpoint("gate", 1), 0)
