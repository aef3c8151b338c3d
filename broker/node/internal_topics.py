"""Internal topics, asked for by this broker's coordinators."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from pylog import errors
from pylog.model import BrokerEpoch, BrokerId
from pylog_broker.metadata.messages import EnsureInternalTopic, Failure, InternalTopicEnsured

_NOT_REGISTERED: Final = (errors.StaleBrokerEpoch.code, errors.BrokerIdNotRegistered.code)
"""This broker is about to be."""

Ask = Callable[[EnsureInternalTopic], Awaitable[InternalTopicEnsured | Failure]]


class InternalTopics:
    """One question at a time for each topic, however many wait for its answer."""

    def __init__(self, ask: Ask, identity: Callable[[], tuple[BrokerId, BrokerEpoch]]) -> None:
        """`ask` the controller, as the broker that `identity` tells."""
        self._ask = ask
        self._identity = identity
        self._asked: dict[str, asyncio.Task[InternalTopicEnsured | Failure]] = {}

    async def ensure(self, name: str) -> InternalTopicEnsured | Failure:
        """The topic, which is made if it is not there. COORDINATOR_NOT_AVAILABLE when it cannot be
        yet, or the controller cannot be reached: the caller asks again.
        """
        asked = self._asked.get(name)
        if asked is None:
            asked = self._asked[name] = asyncio.ensure_future(self._ensure(name))
            asked.add_done_callback(lambda _: self._asked.pop(name))
        return await asyncio.shield(asked)

    def stop(self) -> None:
        """Ask for no more."""
        for asked in self._asked.values():
            asked.cancel()

    async def _ensure(self, name: str) -> InternalTopicEnsured | Failure:
        broker_id, broker_epoch = self._identity()
        try:
            answer = await self._ask(EnsureInternalTopic(broker_id, broker_epoch, name))
        except errors.PylogError as error:
            return _not_available(name, f"the controller did not answer: {error}")
        if isinstance(answer, Failure) and answer.code in _NOT_REGISTERED:
            return _not_available(name, answer.message)
        return answer


def _not_available(name: str, why: str) -> Failure:
    return Failure(errors.CoordinatorNotAvailable.code, f"internal topic {name}: {why}")
