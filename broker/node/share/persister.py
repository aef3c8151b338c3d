"""The way to the share coordinator of a partition: this broker, or another one, whichever leads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeVar

from pylog import errors
from pylog.errors import CoordinatorNotAvailable
from pylog.model import BrokerId
from pylog_broker.controller.settings import SHARE_GROUP_STATE
from pylog_broker.coordinator.runtime.runtime import partition_for
from pylog_broker.kafka.calls import BrokerCalls
from pylog_broker.kafka.share_state import RemoteShareStates, ShareStates
from pylog_broker.metadata.image import MetadataImage
from pylog_broker.metadata.messages import Failure, InternalTopicEnsured
from pylog_broker.node.share.coordinators import coordinator_key
from pylog_broker.share.persisted import (
    InitializeState,
    ReadState,
    StateRead,
    StateSummary,
    WriteState,
)
from pylog_broker.share.sessions import SharePartitionKey

SECONDS_MAX: Final = 30.0
"""For so long one request is tried again."""
CALL_SECONDS_MAX: Final = 10.0
BACK_OFF_SECONDS_MIN: Final = 0.05
BACK_OFF_SECONDS_MAX: Final = 1.0
_TRIED_AGAIN: Final = (
    errors.NotCoordinator,
    errors.CoordinatorNotAvailable,
    errors.CoordinatorLoadInProgress,
    errors.NetworkException,
    errors.BrokerNotAvailable,
    errors.RequestTimedOut,
    errors.ThrottlingQuotaExceeded,
)
"""Another try may find another leader; and what was done already is done once more as well."""

AnswerT = TypeVar("AnswerT")


class Persister:
    """A `ShareStates` that finds the coordinator, and tries again while there is none. Raises
    CoordinatorNotAvailable after SECONDS_MAX. Lives on the broker's loop.
    """

    def __init__(
        self,
        here: ShareStates,
        calls: BrokerCalls,
        image: Callable[[], MetadataImage],
        ensure: Callable[[str], Awaitable[InternalTopicEnsured | Failure]],
        broker_id: BrokerId,
    ) -> None:
        self._here = here
        self._calls = calls
        self._image = image
        self._ensure = ensure
        self._broker_id = broker_id

    async def initialize(self, request: InitializeState) -> None:
        """See `ShareCoordinator`. The internal topic is made where it is not there."""
        if SHARE_GROUP_STATE not in self._image().topics_by_name:
            ensured = await self._ensure(SHARE_GROUP_STATE)
            if isinstance(ensured, Failure):
                raise errors.from_code(ensured.code, ensured.message)
        await self._tried(request.key, lambda states: states.initialize(request))

    async def read(self, request: ReadState) -> StateRead:
        """See `ShareCoordinator`."""
        return await self._tried(request.key, lambda states: states.read(request))

    async def write(self, request: WriteState) -> None:
        """See `ShareCoordinator`."""
        await self._tried(request.key, lambda states: states.write(request))

    async def delete(self, key: SharePartitionKey) -> None:
        """See `ShareCoordinator`. Without the internal topic there is nothing to delete."""
        if SHARE_GROUP_STATE in self._image().topics_by_name:
            await self._tried(key, lambda states: states.delete(key))

    async def summary(self, key: SharePartitionKey) -> StateSummary:
        """See `ShareCoordinator`."""
        return await self._tried(key, lambda states: states.summary(key))

    async def _tried(
        self, key: SharePartitionKey, ask: Callable[[ShareStates], Awaitable[AnswerT]]
    ) -> AnswerT:
        back_off_seconds = BACK_OFF_SECONDS_MIN
        loop = asyncio.get_running_loop()
        over = loop.time() + SECONDS_MAX
        while True:
            try:
                return await ask(self._coordinator(key))
            except _TRIED_AGAIN as error:
                if loop.time() + back_off_seconds > over:
                    raise CoordinatorNotAvailable(
                        f"share group {key.group_id!r}: its share coordinator cannot be reached: "
                        f"{error}"
                    ) from None
            await asyncio.sleep(back_off_seconds)
            back_off_seconds = min(2 * back_off_seconds, BACK_OFF_SECONDS_MAX)

    def _coordinator(self, key: SharePartitionKey) -> ShareStates:
        image = self._image()
        topic = image.topics_by_name.get(SHARE_GROUP_STATE)
        if topic is None:
            raise CoordinatorNotAvailable(f"there is no {SHARE_GROUP_STATE} yet")
        number = partition_for(coordinator_key(key), len(topic.partitions))
        leader = topic.partitions[number].leader
        if leader == self._broker_id:
            return self._here
        if leader < 0:
            raise CoordinatorNotAvailable(f"{SHARE_GROUP_STATE}-{number} has no leader now")
        ask = partial(self._calls.call, leader, timeout_seconds=CALL_SECONDS_MAX)
        return RemoteShareStates(ask)
