"""A share coordinator in memory, which a test may hold up or have fail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from pylog.errors import PylogError
from pylog.model import Offset
from pylog_broker.coordinator.runtime.decision import Decision, Reply, RequestId
from pylog_broker.coordinator.share_state.coordinator import ShareCoordinator, ShareStateConfig
from pylog_broker.share.persisted import (
    InitializeState,
    ReadState,
    StateRead,
    StateSummary,
    WriteState,
)
from pylog_broker.share.sessions import SharePartitionKey


class FakeShareStates:
    """A `ShareStates`. While `held` is not set, nothing is answered; `fault` is what is answered
    next.
    """

    def __init__(self) -> None:
        self.coordinator = ShareCoordinator(ShareStateConfig())
        self.held = asyncio.Event()
        self.held.set()
        self.fault: PylogError | None = None
        self.writes: list[WriteState] = []
        self._offset = 0

    async def _do(self, operation: Callable[[RequestId], Decision]) -> Any:
        await self.held.wait()
        await asyncio.sleep(0)
        if self.fault is not None:
            fault, self.fault = self.fault, None
            raise fault
        decision = operation(RequestId(1))
        for record in decision.records:
            self.coordinator.replay(record, Offset(self._offset))
            self._offset += 1
        for effect in decision.effects:
            if isinstance(effect, Reply):
                return effect.response
        return None

    async def initialize(self, request: InitializeState) -> None:
        """See `ShareCoordinator`."""
        await self._do(lambda number: self.coordinator.initialize(0, number, request))

    async def read(self, request: ReadState) -> StateRead:
        """See `ShareCoordinator`."""
        found: StateRead = await self._do(lambda n: self.coordinator.read(0, n, request))
        return found

    async def write(self, request: WriteState) -> None:
        """See `ShareCoordinator`."""
        self.writes.append(request)
        await self._do(lambda number: self.coordinator.write(0, number, request))

    async def delete(self, key: SharePartitionKey) -> None:
        """See `ShareCoordinator`."""
        await self._do(lambda number: self.coordinator.delete(number, key))

    async def summary(self, key: SharePartitionKey) -> StateSummary:
        """See `ShareCoordinator`."""
        found: StateSummary = await self._do(lambda n: self.coordinator.summary(n, key))
        return found
