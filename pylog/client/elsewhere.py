"""Blocking calls of an asyncio client, on other threads.

A thread cannot be cancelled: a call whose caller is gives up what it waits for, as at Ctrl-C, and a
`close` or a leave goes on until it is done or its time is up. A consumer is for one thread at a
time, so whatever comes next waits for the end of that call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextvars import copy_context
from typing import TypeVar

from pylog import errors
from pylog.client.callers import Caller, heard

T = TypeVar("T")


class Elsewhere:
    """Makes the calls of one client. From the thread of the event loop alone."""

    def __init__(self) -> None:
        self._left: Future[object] | None = None  # the newest call whose caller was cancelled

    async def run(self, call: Callable[[], T]) -> T:
        """Make the call once one that was left has ended; returns or raises as it does."""
        before = self._left
        ran: Future[T] = Future()
        caller = Caller()

        def work() -> None:
            if before is not None:
                wait((before,))
            try:
                ran.set_result(caller.run(call))
            except BaseException as error:  # noqa: BLE001  the caller's
                ran.set_exception(error)

        asyncio.get_running_loop().run_in_executor(None, copy_context().run, work)
        outcome = asyncio.wrap_future(ran)
        try:
            return await asyncio.shield(outcome)
        except asyncio.CancelledError:
            outcome.add_done_callback(heard)
            self._left = ran  # type: ignore[assignment]
            caller.give_up()
            raise

    async def left_has_ended(self, timeout_s: float | None = None) -> None:
        """Return when no call that was left is under way; RequestTimedOut after so many seconds."""
        left = self._left
        if left is None:
            return
        if not left.done():
            over = asyncio.wrap_future(left)
            over.add_done_callback(heard)
            await asyncio.wait({over}, timeout=timeout_s)
        if not left.done():
            raise errors.RequestTimedOut(
                "a call of this consumer that was cancelled still waits for a broker, and has not "
                f"ended within {timeout_s:g} s; call again"
            )
        self._left = None
