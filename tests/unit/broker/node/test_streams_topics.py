"""Internal topics of streams groups: asked for once at a time, and what became of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from pylog import errors
from pylog.model import NewTopic
from pylog_broker.metadata.admin import CreatedTopic, CreateTopics, TopicsCreated
from pylog_broker.metadata.messages import Failure
from pylog_broker.node import streams_topics
from pylog_broker.node.streams_topics import RETRY_MS, StreamsTopics

T = TypeVar("T")
A, B = NewTopic("a", 3, -1), NewTopic("b", 3, -1)


class VirtualClock:
    """Time as the test says."""

    def __init__(self) -> None:
        self.now_ms = 0

    def advance(self, ms: int) -> None:
        self.now_ms += ms

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_ms(self) -> int:
        return self.now_ms

    def sleep(self, seconds: float) -> None:
        raise AssertionError(seconds)


class Controller:
    """Answers as it is told, when it is let."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.failures: dict[str, Failure] = {}
        self.fault: errors.PylogError | None = None
        self.may_answer = asyncio.Event()

    async def create(self, request: CreateTopics) -> TopicsCreated:
        self.asked.append([topic.name for topic in request.topics])
        await self.may_answer.wait()
        if self.fault is not None:
            raise self.fault
        return TopicsCreated(
            tuple(CreatedTopic(each.name, self.failures.get(each.name)) for each in request.topics)
        )


def run(test: Awaitable[T]) -> T:
    async def bounded() -> T:
        async with asyncio.timeout(10):
            return await test

    return asyncio.run(bounded())


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_a_topic_that_many_name_is_asked_for_once() -> None:
    async def test() -> None:
        controller = Controller()
        topics = StreamsTopics(controller.create, VirtualClock())
        topics.create([A])
        topics.create([A, B])
        topics.create([A, B])
        await settle()
        assert controller.asked == [["a"], ["b"]]
        controller.may_answer.set()
        await settle()
        assert topics.failures(["a", "b"]) == {}
        topics.create([A])  # it was deleted meanwhile
        await settle()
        assert controller.asked[2:] == [["a"]]

    run(test())


def test_failures_are_told_and_tried_again_after_a_while() -> None:
    async def test() -> None:
        controller, clock = Controller(), VirtualClock()
        controller.may_answer.set()
        topics = StreamsTopics(controller.create, clock)
        controller.failures = {
            "a": Failure(errors.InvalidReplicationFactor.code, "too few brokers"),
            "b": Failure(errors.TopicAlreadyExists.code, "it is there"),
        }
        topics.create([A, B])
        await settle()
        assert topics.failures(["a", "b", "c"]) == {"a": "too few brokers"}
        topics.create([A])
        await settle()
        assert controller.asked == [["a", "b"]]
        clock.advance(RETRY_MS)
        controller.fault = errors.BrokerUnreachable("the controller is away")
        topics.create([A])
        await settle()
        (why,) = topics.failures(["a"]).values()
        assert why == "the controller did not answer: the controller is away"
        clock.advance(RETRY_MS)
        controller.fault, controller.failures = None, {}
        topics.create([A])
        await settle()
        assert topics.failures(["a"]) == {}

    run(test())


def test_failures_are_bounded_and_a_stop_asks_for_no_more() -> None:
    async def test() -> None:
        controller = Controller()
        controller.may_answer.set()
        topics = StreamsTopics(controller.create, VirtualClock())
        many = [NewTopic(f"t{n}", 1, -1) for n in range(streams_topics.FAILURES_MAX + 5)]
        controller.failures = {each.name: Failure(1, "no") for each in many}
        topics.create(many)
        await settle()
        names = [each.name for each in many]
        assert len(topics.failures(names)) == streams_topics.FAILURES_MAX
        assert topics.failures(names[:5]) == {}
        controller.may_answer.clear()
        topics.create([A])
        await settle()
        topics.stop()
        await settle()
        assert topics.failures(["a"]) == {}

    run(test())
