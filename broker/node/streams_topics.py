"""Internal topics of streams groups, which this broker has the controller create."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from pylog import errors
from pylog.clock import Clock
from pylog.model import NewTopic
from pylog_broker.metadata.admin import CreateTopics, TopicsCreated

RETRY_MS: Final = 5_000
"""So long after a failure a topic is asked for again: all members of its group name it."""
FAILURES_MAX: Final = 1_000
"""The most topics whose failures are remembered; beyond it the oldest one is forgotten."""

Ask = Callable[[CreateTopics], Awaitable[TopicsCreated]]


class StreamsTopics:
    """The `InternalTopicMaker` of a broker: one question at a time for each topic, however many
    name it. Lives on the loop.
    """

    def __init__(self, ask: Ask, clock: Clock) -> None:
        self._ask = ask
        self._clock = clock
        self._asked: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._failures: dict[str, tuple[int, str]] = {}
        """The time and the reason of each topic that could not be created."""

    def create(self, topics: Iterable[NewTopic]) -> None:
        """Have these created, in time."""
        now_ms = self._clock.monotonic_ms()
        wanted = tuple(topic for topic in topics if self._may_ask(topic.name, now_ms))
        if not wanted:
            return
        self._asked.update(topic.name for topic in wanted)
        task = asyncio.get_running_loop().create_task(self._create(wanted))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def failures(self, names: Iterable[str]) -> dict[str, str]:
        """The reasons why topics of these could not be created, of those that have been tried."""
        return {name: self._failures[name][1] for name in names if name in self._failures}

    def stop(self) -> None:
        """Ask for no more."""
        for task in self._tasks:
            task.cancel()

    def _may_ask(self, name: str, now_ms: int) -> bool:
        if name in self._asked:
            return False
        failed = self._failures.get(name)
        return failed is None or now_ms - failed[0] >= RETRY_MS

    async def _create(self, topics: tuple[NewTopic, ...]) -> None:
        names = [topic.name for topic in topics]
        try:
            answer = await self._ask(CreateTopics(topics, timeout_ms=0))
        except errors.PylogError as error:
            outcomes = dict.fromkeys(names, f"the controller did not answer: {error}")
        else:
            outcomes = {
                each.name: each.failure.message
                for each in answer.topics
                if each.failure is not None and each.failure.code != errors.TopicAlreadyExists.code
            }
        finally:
            self._asked.difference_update(names)
        now_ms = self._clock.monotonic_ms()
        for name in names:
            self._failures.pop(name, None)
            if name in outcomes:
                self._failures[name] = (now_ms, outcomes[name])
        while len(self._failures) > FAILURES_MAX:
            del self._failures[next(iter(self._failures))]
