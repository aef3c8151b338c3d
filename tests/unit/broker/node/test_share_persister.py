"""The way to a share coordinator that moves, fails, and is not there yet."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar, cast

import pytest

from pylog import errors
from pylog.model import (
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    Offset,
    PartitionEpoch,
    TopicId,
)
from pylog_broker.api.context import RequestContext
from pylog_broker.controller.settings import SHARE_GROUP_STATE
from pylog_broker.kafka.broker_apis import BrokerApi
from pylog_broker.kafka.calls import BrokerCalls
from pylog_broker.kafka.share_state import share_state_apis
from pylog_broker.metadata.image import MetadataImage
from pylog_broker.metadata.messages import Failure, InternalTopicEnsured, MetadataBatch
from pylog_broker.metadata.records import PartitionRecord, TopicRecord
from pylog_broker.node.share import persister
from pylog_broker.node.share.persister import Persister
from pylog_broker.share.persisted import InitializeState, StateSummary
from pylog_broker.share.sessions import SharePartitionKey
from tests.fakes.share_states import FakeShareStates

ONE, TWO, NOBODY = BrokerId(1), BrokerId(2), BrokerId(-1)
TOPIC = TopicId("T" * 21 + "A")
KEY = SharePartitionKey("g", TopicId("U" * 21 + "A"), 0)

T = TypeVar("T")


class World:
    """Broker 1, with broker 2 at the other end of its calls; each has a coordinator."""

    def __init__(self) -> None:
        self.image = MetadataImage()
        self.here, self.there = FakeShareStates(), FakeShareStates()
        self.refusal: Failure | None = None
        self.called: list[BrokerId] = []
        self.epoch = 0
        self.persister = Persister(
            self.here, cast(BrokerCalls, self), lambda: self.image, self.ensure, ONE
        )

    def lead(self, leader: BrokerId) -> None:
        record = PartitionRecord(
            TOPIC,
            0,
            (ONE, TWO),
            (ONE, TWO),
            leader,
            LeaderEpoch(self.epoch),
            PartitionEpoch(self.epoch),
        )
        records = (record,) if self.epoch else (TopicRecord(SHARE_GROUP_STATE, TOPIC), record)
        self.epoch += 1
        first = Offset(self.image.offset + 1)
        self.image.apply(MetadataBatch(ControllerEpoch(1), first, records))

    async def ensure(self, name: str) -> InternalTopicEnsured | Failure:
        if self.refusal is not None:
            return self.refusal
        self.lead(TWO)
        return InternalTopicEnsured(name, TOPIC, 1)

    async def call(
        self, broker: BrokerId, api: BrokerApi[Any, Any], request: Any, *, timeout_seconds: float
    ) -> Any:
        """As `BrokerCalls.call`."""
        self.called.append(broker)
        (bound,) = [each for each in share_state_apis(self.there) if each.api is api]
        return await bound.handle(RequestContext("x", "", ""), request)


def run(main: Awaitable[T]) -> T:
    async def whole() -> T:
        async with asyncio.timeout(20):
            return await main

    return asyncio.run(whole())


def test_the_topic_is_made_and_its_leader_is_asked() -> None:
    async def main() -> None:
        world = World()
        await world.persister.initialize(InitializeState(KEY, 1, 5))
        assert world.called == [TWO]
        assert await world.persister.summary(KEY) == StateSummary(1, 0, 5, 0)
        world.lead(ONE)
        with pytest.raises(errors.InvalidRequest, match="has no state"):
            await world.persister.summary(KEY)  # of its own coordinator
        assert len(world.called) == 2

    run(main())


def test_where_the_topic_cannot_be_made_it_says_why() -> None:
    async def main() -> None:
        world = World()
        world.refusal = Failure(errors.CoordinatorNotAvailable.code, "1 of 3 brokers")
        with pytest.raises(errors.CoordinatorNotAvailable, match="1 of 3 brokers"):
            await world.persister.initialize(InitializeState(KEY, 1))
        await world.persister.delete(KEY)  # there is nothing to delete

    run(main())


def test_it_tries_again_until_there_is_a_leader_that_answers() -> None:
    async def main() -> None:
        world = World()
        world.lead(NOBODY)
        asking = asyncio.ensure_future(world.persister.initialize(InitializeState(KEY, 1)))
        await asyncio.sleep(0.01)
        world.there.fault = errors.CoordinatorLoadInProgress("it is being read")
        world.lead(TWO)
        await asking
        assert world.called == [TWO, TWO]

    run(main())


def test_other_refusals_are_told_at_once() -> None:
    async def main() -> None:
        world = World()
        world.lead(TWO)
        world.there.fault = errors.FencedStateEpoch("it is of epoch 9")
        with pytest.raises(errors.FencedStateEpoch, match="it is of epoch 9"):
            await world.persister.initialize(InitializeState(KEY, 1))
        assert world.called == [TWO]

    run(main())


def test_it_gives_up_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(persister, "SECONDS_MAX", 0.1)

    async def main() -> None:
        world = World()
        world.lead(NOBODY)
        with pytest.raises(errors.CoordinatorNotAvailable, match=r"reached: .* has no leader"):
            await world.persister.summary(KEY)

    run(main())
