"""An event loop of asyncio in simulated time, on which the product's shells of coordinators run.

Callbacks run in the order in which they were asked for, each a moment after, so that several
requests and news may come within one turn of a shell. Work that is under way when the process dies
goes on no more.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any

from pylog import errors
from tests.sim.scheduler import US_PER_MS, US_PER_S
from tests.sim.violation import Violation

if TYPE_CHECKING:
    from tests.sim.rpc import Actor
    from tests.sim.workers import Pool

TURN_MS = 0.3
"""The time that a turn of the loop takes, on average."""


class _Handle:
    """A callback that may be taken back."""

    __slots__ = ("_args", "_callback", "_context", "_loop")

    def __init__(
        self,
        loop: SimLoop,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: contextvars.Context | None,
    ) -> None:
        self._loop = loop
        self._callback: Callable[..., object] | None = callback
        self._args = args
        self._context = context or contextvars.copy_context()

    def cancel(self) -> None:
        self._callback = None

    def cancelled(self) -> bool:
        return self._callback is None

    def run(self) -> None:
        callback, self._callback = self._callback, None
        if callback is not None:
            self._context.run(callback, *self._args)


def _raise(error: BaseException) -> None:
    raise error


class SimLoop:
    """The loop of one life of a process. It has what is used of `asyncio.AbstractEventLoop`."""

    def __init__(self, actor: Actor, pool: Pool, rng: random.Random) -> None:
        self._actor = actor
        self._pool = pool
        self._rng = rng
        self._last_us = 0
        self._raised: list[BaseException] = []  # by tasks, and so by the run

    # ---- what asyncio's own classes ask

    def get_debug(self) -> bool:
        return False

    def time(self) -> float:
        return self._actor.machine.now_ms() / 1_000

    def is_running(self) -> bool:
        return self._actor.alive

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Nobody awaited what failed; tasks of a process that has died are none of that, nor are
        those that the end of a run has found in the middle.
        """
        error = context.get("exception")
        is_known = any(error is each for each in self._raised)
        is_over = not self._actor.alive or self._actor.machine.scheduler.is_closed
        if not is_over and error is not None and not is_known:
            raise Violation("raised", f"{context.get('message')}: {error!r}") from error

    # ---- what shells ask

    def call_soon(
        self,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> _Handle:
        scheduler = self._actor.machine.scheduler
        wait_us = int(self._rng.expovariate(1.0 / TURN_MS) * US_PER_MS)
        self._last_us = max(self._last_us, scheduler.now_us + wait_us)
        return self._at(self._last_us, callback, args, context)

    call_soon_threadsafe = call_soon

    def call_later(
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> _Handle:
        at_us = self._actor.machine.scheduler.now_us + int(delay * US_PER_S)
        return self._at(at_us, callback, args, context)

    def call_at(
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> _Handle:
        return self.call_later(max(when - self.time(), 0.0), callback, *args, context=context)

    def _at(
        self,
        at_us: int,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: contextvars.Context | None,
    ) -> _Handle:
        handle = _Handle(self, callback, args, context)
        self._actor.machine.scheduler.at(at_us, self._actor.hear, handle.run)
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)  # type: ignore[arg-type]

    def create_task(self, work: Coroutine[Any, Any, Any], **_named: Any) -> asyncio.Task[Any]:
        watched = self._watched(work)

        def close() -> None:
            watched.close()
            work.close()

        self._actor.machine.scheduler.unstarted[work] = close
        return asyncio.Task(watched, loop=self)  # type: ignore[arg-type]

    async def _watched(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Note an error that no caller is meant to hear of: it is a finding, whoever awaits the
        task."""
        del self._actor.machine.scheduler.unstarted[work]
        try:
            return await work
        except (errors.PylogError, asyncio.CancelledError, GeneratorExit):
            raise
        except BaseException as error:
            self._raised.append(error)
            self._actor.machine.scheduler.after(0, _raise, error)
            raise

    def run_in_executor(
        self, _executor: Executor | None, work: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        future = self.create_future()

        def done(outcome: object) -> None:
            if future.cancelled():
                return
            if isinstance(outcome, Exception):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)

        self._pool.run("decoding", lambda: work(*args), done)
        return future
