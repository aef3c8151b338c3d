"""One task at a time: the polls of an asyncio consumer, and how they wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pylog import errors
from pylog.client.callers import call_on


class OneTask:
    """Knows the loop on which a poll is under way; a poll of a loop that was closed is over."""

    def __init__(self) -> None:
        self._poll: tuple[asyncio.AbstractEventLoop] | None = None

    @contextmanager
    def poll(self) -> Iterator[None]:
        """A task polls; WrongThread while another one does."""
        if self._poll is not None and not self._poll[0].is_closed():
            raise errors.WrongThread(
                "the consumer is in use by another task; use it from one task at a time"
            )
        mine = self._poll = (asyncio.get_running_loop(),)
        try:
            yield
        finally:
            if self._poll is mine:  # not that of a task after a closed loop's
                self._poll = None


async def news(
    listen: Callable[[Callable[[], object]], Callable[[], None]], timeout_s: float
) -> None:
    """Return when something may have come."""
    loop = asyncio.get_running_loop()
    came = asyncio.Event()
    stop = listen(lambda: call_on(loop, came.set))
    try:
        async with asyncio.timeout(timeout_s):
            await came.wait()
    except TimeoutError:
        pass
    finally:
        stop()
