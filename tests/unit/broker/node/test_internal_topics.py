"""A broker asks for an internal topic once, however many of its coordinators need it."""

from __future__ import annotations

import asyncio

from pylog import errors
from pylog.model import BrokerEpoch, BrokerId, TopicId
from pylog_broker.metadata.messages import EnsureInternalTopic, Failure, InternalTopicEnsured
from pylog_broker.node.internal_topics import InternalTopics

NAME = "__consumer_offsets"
ENSURED = InternalTopicEnsured(NAME, TopicId("t" * 22), 50)
ASKED = EnsureInternalTopic(BrokerId(1), BrokerEpoch(7), NAME)


class Controller:
    """Answers when told to."""

    def __init__(self) -> None:
        self.asked: list[EnsureInternalTopic] = []
        self.answers: asyncio.Queue[InternalTopicEnsured | Failure | errors.PylogError]
        self.answers = asyncio.Queue()

    async def ensure(self, request: EnsureInternalTopic) -> InternalTopicEnsured | Failure:
        self.asked.append(request)
        answer = await self.answers.get()
        if isinstance(answer, errors.PylogError):
            raise answer
        return answer


def topics_of(controller: Controller) -> InternalTopics:
    return InternalTopics(controller.ensure, lambda: (BrokerId(1), BrokerEpoch(7)))


def test_all_who_need_a_topic_share_one_question() -> None:
    async def main() -> None:
        controller = Controller()
        topics = topics_of(controller)
        waiting = [asyncio.ensure_future(topics.ensure(NAME)) for _ in range(3)]
        await asyncio.sleep(0)
        waiting.pop().cancel()
        controller.answers.put_nowait(ENSURED)
        assert await asyncio.gather(*waiting) == [ENSURED, ENSURED]
        assert controller.asked == [ASKED]
        controller.answers.put_nowait(ENSURED)
        assert await topics.ensure(NAME) == ENSURED
        assert controller.asked == [ASKED, ASKED]

    asyncio.run(main())


def test_what_passes_is_said_to_pass() -> None:
    async def main() -> None:
        controller = Controller()
        topics = topics_of(controller)
        not_yet = Failure(errors.CoordinatorNotAvailable.code, "2 brokers are registered")
        controller.answers.put_nowait(not_yet)
        assert await topics.ensure(NAME) == not_yet
        controller.answers.put_nowait(errors.BrokerUnreachable("gone"))
        assert await topics.ensure(NAME) == Failure(
            errors.CoordinatorNotAvailable.code,
            f"internal topic {NAME}: the controller did not answer: gone",
        )
        controller.answers.put_nowait(Failure(errors.StaleBrokerEpoch.code, "an earlier life"))
        assert await topics.ensure(NAME) == Failure(
            errors.CoordinatorNotAvailable.code, f"internal topic {NAME}: an earlier life"
        )
        wrong = Failure(errors.InvalidTopic.code, "no such topic")
        controller.answers.put_nowait(wrong)
        assert await topics.ensure("__other") == wrong

    asyncio.run(main())


def test_a_broker_that_stops_asks_no_more() -> None:
    async def main() -> None:
        topics = topics_of(Controller())
        waiting = asyncio.ensure_future(topics.ensure(NAME))
        await asyncio.sleep(0)
        topics.stop()
        done, _ = await asyncio.wait([waiting])
        assert done == {waiting}
        assert waiting.cancelled()

    asyncio.run(main())
