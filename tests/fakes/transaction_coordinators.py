"""The transactional ids that a broker coordinates, as handlers reach them: one shard in memory."""

from __future__ import annotations

import asyncio
from typing import Any

from pylog.errors import PylogError
from pylog_broker.api.coordinators import TransactionOperation
from tests.fakes.transaction_shard import TransactionShard


class FakeTransactionCoordinators:
    """`fault`: what every call raises, and nothing is decided; `asked`: by which transactional id,
    and with which time-out, each call came.
    """

    def __init__(self, shard: TransactionShard | None = None) -> None:
        self.shard = shard or TransactionShard()
        self.fault: PylogError | None = None
        self.asked: list[tuple[str, int | None]] = []

    async def call(
        self,
        transactional_id: str,
        operation: TransactionOperation,
        *,
        timeout_ms: int | None = None,
    ) -> Any:
        """The reply, which may come of what others ask later."""
        self.asked.append((transactional_id, timeout_ms))
        return await self._reply(operation)

    async def call_all(self, operation: TransactionOperation) -> list[Any]:
        """That of the one shard."""
        return [await self._reply(operation)]

    async def _reply(self, operation: TransactionOperation) -> Any:
        if self.fault is not None:
            raise self.fault
        shard = self.shard
        shard.advance(0)
        number = shard.ask(lambda each, request: operation(each, request, shard.wall_ms))
        while number not in shard.replies:
            await asyncio.sleep(0)
        reply = shard.replies[number]
        if isinstance(reply, PylogError):
            raise reply
        return reply
