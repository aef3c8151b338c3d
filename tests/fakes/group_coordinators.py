"""The groups that a broker coordinates, as its handlers reach them: one shard in memory."""

from __future__ import annotations

import asyncio
from typing import Any

from pylog.errors import PylogError
from pylog_broker.api.coordinators import GroupOperation
from tests.fakes.group_shard import GroupShard


class FakeCoordinators:
    """`fault`: what every call raises, and nothing is decided; `asked`: the group and the time-out
    of each call that came.
    """

    def __init__(self, shard: GroupShard | None = None) -> None:
        self.shard = shard or GroupShard()
        self.fault: PylogError | None = None
        self.asked: list[tuple[str, int | None]] = []

    async def call(
        self, group_id: str, operation: GroupOperation, *, timeout_ms: int | None = None
    ) -> Any:
        """The reply, which may come of what others ask later."""
        self.asked.append((group_id, timeout_ms))
        return await self._reply(operation)

    async def call_all(self, operation: GroupOperation) -> list[Any]:
        """That of the one shard."""
        return [await self._reply(operation)]

    async def _reply(self, operation: GroupOperation) -> Any:
        if self.fault is not None:
            raise self.fault
        shard = self.shard
        number = shard.ask(lambda each, request: operation(each, request, shard.wall_ms))
        while number not in shard.replies:
            await asyncio.sleep(0)
        reply = shard.replies[number]
        if isinstance(reply, PylogError):
            raise reply
        return reply
