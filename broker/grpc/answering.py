"""The share of a fetch over gRPC in the memory for answers."""

from __future__ import annotations

import asyncio
from typing import Any

from pylog import errors
from pylog_broker.api.answer_memory import SMALL_BYTES, AnswerMemory
from pylog_broker.grpc.guard import Context


class Call:
    """A `Taker`: one call, from its first answer to its end. Lives on the broker's loop."""

    def __init__(self, memory: AnswerMemory) -> None:
        self.must_wait = False
        """Whether its answer did not fit."""
        self._memory = memory
        self._room: asyncio.Future[None] | None = None
        self._unsent = 0
        self._writing: asyncio.Future[None] | None = None
        self._fault: errors.PylogError | None = None

    async def room(self) -> None:
        """Return when an answer may be looked for."""
        while self.must_wait or self._memory.is_full:
            self.must_wait = False
            self._room = asyncio.get_running_loop().create_future()
            self._memory.wait(self)
            await self._room

    async def give(self, answer: bytes, context: Context) -> None:
        """Return when the client has taken the answer as far as gRPC tells. Raises the error with
        which the call was dropped meanwhile.
        """
        if len(answer) <= SMALL_BYTES:
            await context.write(answer)
            return
        self.holds(len(answer))
        self._writing = asyncio.ensure_future(context.write(answer))
        try:
            await self._writing
        except asyncio.CancelledError:
            if self._fault is None:
                raise
            raise self._fault from None
        finally:
            self._writing.cancel()
            self.holds(0)

    def holds(self, size: int) -> None:
        """So much is not taken."""
        self._unsent = size
        self._memory.hold(self, size)

    def over(self) -> None:
        """Nothing of it is left."""
        self._unsent = 0
        self._memory.forget(self)

    def on_done(self, _context: Any) -> None:
        """gRPC says that the call has ended."""
        self.over()

    # ---- for the memory ------------------------------------------------------------------------

    @property
    def unsent_bytes(self) -> int:
        """gRPC does not tell how much of an answer has gone: all of it, until all has."""
        return self._unsent

    def resume(self) -> None:
        """There is room."""
        if self._room is not None and not self._room.done():
            self._room.set_result(None)

    def drop(self, fault: errors.PylogError) -> None:
        """End a call whose client takes nothing."""
        if self._writing is not None:
            self._fault = fault
            self._writing.cancel()
