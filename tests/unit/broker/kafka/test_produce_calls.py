"""Produce between brokers, as values and bytes, over a real log."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pylog import errors
from pylog.clock import SYSTEM_CLOCK
from pylog.model import BrokerId, TopicId
from pylog.records.builder import encode_batch
from pylog.records.reader import iter_records
from pylog_broker.api.answer_memory import AnswerMemory
from pylog_broker.api.api import DataApi
from pylog_broker.api.batch_checks import BatchChecks
from pylog_broker.api.context import RequestContext
from pylog_broker.api.request_memory import RequestMemory
from pylog_broker.kafka.broker_apis import AnyBoundBrokerApi, BrokerApi
from pylog_broker.kafka.generated.produce import ProduceRequest, ProduceResponse
from pylog_broker.kafka.produce_calls import PRODUCE, BatchesHere, produce_api, produce_there
from pylog_broker.metrics.counters import RequestCounters
from pylog_broker.node.engine import Engine
from pylog_broker.replication.produce_messages import PartitionAck, PartitionBatch
from tests.fakes.broker_group import T0, TOPIC_ID, BrokerGroup

ONE = BrokerId(1)
HERE = RequestContext("x", "", "")
NO_TOPIC = TopicId("Z" * 21 + "A")
Ask = Callable[[BrokerApi[Any, Any], Any], Awaitable[Any]]


class World:
    """A broker that leads t-0."""

    def __init__(self, group: BrokerGroup, pool: ThreadPoolExecutor) -> None:
        self.group = group
        manager = group.managers[ONE]
        self.engine = Engine(
            manager,
            SYSTEM_CLOCK,
            pool,
            alter_partition=_unreached,
            remove_directory=lambda _: None,
            report_failed=lambda *_: None,
            on_fault=lambda _: None,
        )
        data = DataApi.over(
            manager,
            self.engine.perform,
            SYSTEM_CLOCK,
            checks=BatchChecks(pool, 1 << 20, manager.topic_config),
            memory=RequestMemory(1 << 20),
            answers=AnswerMemory(1 << 20),
            counters=RequestCounters(),
            topic_name=lambda _: None,
        )
        self.here = BatchesHere(data.produce)
        self.bound = produce_api(self.here, lambda: group.image)

    async def ask(self, api: BrokerApi[Any, Any], request: Any) -> Any:
        """Over bytes, as another broker does."""
        asked = memoryview(b"".join(api.encode_request(request, api.version)))
        answer = await self.bound.handle(HERE, api.decode_request(asked, 0, api.version))
        said = memoryview(b"".join(api.encode_response(answer, api.version)))
        return api.decode_response(said, 0, api.version)

    def values(self) -> list[bytes | None]:
        return [each.value for each in iter_records(self.group.stored(1), "t", 0)]


async def _unreached(request: object) -> None:
    return None


@pytest.fixture
def group(tmp_path: Path) -> BrokerGroup:
    made = BrokerGroup(tmp_path, 1)
    made.create_topic((1,))
    made.run()
    return made


def run(group: BrokerGroup, main: Callable[[World], Coroutine[Any, Any, None]]) -> None:
    async def whole() -> None:
        with ThreadPoolExecutor(1) as pool:
            async with asyncio.timeout(30):
                world = World(group, pool)
                await main(world)
                world.engine.stop()

    asyncio.run(whole())


def made(*values: bytes, topic_id: TopicId = TOPIC_ID, **changes: Any) -> PartitionBatch:
    return PartitionBatch(T0, topic_id, encode_batch(values, timestamps=0, **changes))


def test_a_batch_is_written_here_and_there(group: BrokerGroup) -> None:
    async def main(world: World) -> None:
        (ack,) = await world.here.produce(HERE, [made(b"a", b"b")], 5_000)
        assert (ack.topic_partition, ack.failure, ack.base_offset) == (T0, None, 0)
        there = await produce_there(world.ask, made(b"c", compression="zstd"), 5_000)
        assert there == PartitionAck(T0, None, 2)  # type: ignore[arg-type]
        assert world.values() == [b"a", b"b", b"c"]

    run(group, main)


def test_a_refusal_comes_with_its_words(group: BrokerGroup) -> None:
    async def main(world: World) -> None:
        ack = await produce_there(world.ask, made(b"a", topic_id=NO_TOPIC), 5_000)
        assert ack.failure is not None
        assert ack.failure.code == errors.UnknownTopicId.code
        torn = PartitionBatch(T0, TOPIC_ID, encode_batch([b"a"])[:-1])
        ack = await produce_there(world.ask, torn, 5_000)
        assert ack.failure is not None
        assert ack.failure.code == errors.CorruptMessage.code
        assert ack.failure.message
        assert world.values() == []

    run(group, main)


def test_only_what_is_durable_and_of_no_transaction_is_taken(group: BrokerGroup) -> None:
    async def main(world: World) -> None:
        for asked in (ProduceRequest(None, 1, 100, []), ProduceRequest("t", -1, 100, [])):
            with pytest.raises(errors.InvalidRequest, match="acks=all"):
                await world.ask(PRODUCE, asked)

    run(group, main)


def test_an_answer_about_something_else_is_none(group: BrokerGroup) -> None:
    async def main(world: World) -> None:
        async def strange(api: BrokerApi[Any, Any], request: Any) -> ProduceResponse:
            return ProduceResponse()

        with pytest.raises(errors.UnknownServerError):
            await produce_there(strange, made(b"a"), 100)

    run(group, main)


def test_a_call_that_fails_as_a_whole_fails_each_batch(group: BrokerGroup) -> None:
    async def main(world: World) -> None:
        bound: AnyBoundBrokerApi = world.bound

        async def refused(api: BrokerApi[Any, Any], request: Any) -> Any:
            return bound.refused(request, errors.BrokerNotAvailable("it stops"))

        ack = await produce_there(refused, made(b"a"), 100)
        assert ack.failure is not None
        assert ack.failure.code == errors.BrokerNotAvailable.code

    run(group, main)
