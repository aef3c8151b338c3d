"""Producer ids, dealt out of blocks that the controller made durable."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from pylog import errors
from pylog.model import ProducerId
from pylog_broker.metadata.messages import Failure, ProducerIdBlock


class ProducerIds:
    """Never deals an id twice: a block belongs to one process, and what a crash leaves is lost.

    The next block is asked for when a tenth of the current one is left, so that a producer waits
    for the controller only when it cannot be reached.
    """

    def __init__(self, allocate: Callable[[], Awaitable[ProducerIdBlock | Failure]]) -> None:
        self._allocate = allocate
        self._next = 0
        self._end = 0
        self._refill_at = 0
        self._spare: ProducerIdBlock | None = None
        self._refilling: asyncio.Task[None] | None = None

    async def take(self) -> ProducerId:
        """A fresh id; CoordinatorNotAvailable when the controller gives no block."""
        while self._next >= self._end:
            if self._spare is not None:
                self._use(self._spare)
                break
            await asyncio.shield(self._refill())
        producer_id = ProducerId(self._next)
        self._next += 1
        if self._next >= self._refill_at and self._spare is None:
            self._refill()
        return producer_id

    def prepare(self) -> None:
        """Have a block at hand before the first producer comes: the controller may be gone then."""
        if self._next >= self._end and self._spare is None:
            self._refill()

    def stop(self) -> None:
        """Ask for no more."""
        if self._refilling is not None:
            self._refilling.cancel()

    def _use(self, block: ProducerIdBlock) -> None:
        self._spare = None
        self._next = block.first
        self._end = block.first + block.count
        self._refill_at = self._end - max(1, block.count // 10)

    def _refill(self) -> asyncio.Task[None]:
        if self._refilling is None or self._refilling.done():
            self._refilling = asyncio.ensure_future(self._fetch())
            # A refill ahead of need may fail unseen: the next request for an id tries again.
            self._refilling.add_done_callback(lambda task: task.cancelled() or task.exception())
        return self._refilling

    async def _fetch(self) -> None:
        try:
            answer = await self._allocate()
        except errors.PylogError as error:
            raise errors.CoordinatorNotAvailable(
                f"no producer id left and none to be had: {error}"
            ) from None
        if isinstance(answer, Failure):
            raise errors.CoordinatorNotAvailable(
                f"no producer id left, and the controller refused more: {answer.message}"
            )
        self._spare = answer
