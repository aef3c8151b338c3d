"""Blocking calls that asyncio clients make on other threads, and the callers that give them up.

A thread cannot be cancelled. But what it waits for can be given up, as at Ctrl-C: the waits ask
here whether their caller still waits for them.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")


class Caller:
    """The one for whom another thread makes a call. The lock is held for moments, and never while
    a wait is ended.
    """

    def __init__(self) -> None:
        self._gave_up = False
        self._end_wait: Callable[[], object] | None = None
        self._lock = threading.Lock()

    def give_up(self) -> None:
        """The wait that runs ends, and so does each that begins from now on."""
        with self._lock:
            self._gave_up, end_wait = True, self._end_wait
        if end_wait is not None:
            end_wait()

    def check(self) -> None:
        """CancelledError once the caller has given up."""
        if self._gave_up:
            raise asyncio.CancelledError

    def run(self, call: Callable[[], T]) -> T:
        """Make the call for this caller, on the thread that it is made on."""
        before = _caller.set(self)
        try:
            return call()
        finally:
            _caller.reset(before)

    @contextmanager
    def kept(self, end_wait: Callable[[], object]) -> Iterator[None]:
        """A wait that `end_wait` ends, from another thread."""
        with self._lock:
            self.check()
            self._end_wait = end_wait
        try:
            yield
        finally:
            with self._lock:
                self._end_wait = None
            self.check()


_nobody = Caller()  # gives nothing up
_caller: ContextVar[Caller] = ContextVar("pylog_caller", default=_nobody)


def check_caller() -> None:
    """CancelledError where the caller of what this thread does has given up."""
    _caller.get().check()


@contextmanager
def kept_waiting(end_wait: Callable[[], object]) -> Iterator[None]:
    """A wait that `end_wait` ends, from another thread, when the caller gives up: CancelledError
    then.
    """
    caller = _caller.get()
    if caller is _nobody:
        yield
        return
    with caller.kept(end_wait):
        yield


async def on_a_thread(call: Callable[[], T], *, begins: bool = False) -> T:
    """Make the call on a thread of the running loop's pool, and give up its waits where this is
    cancelled. A call that `begins` is begun all the same, if only to leave what goes on by itself.
    """
    caller = Caller()
    work = partial(copy_context().run, caller.run, call)
    ran = asyncio.get_running_loop().run_in_executor(None, work)
    try:
        return await (asyncio.shield(ran) if begins else ran)
    except asyncio.CancelledError:
        ran.add_done_callback(heard)
        caller.give_up()
        raise


def call_on(loop: asyncio.AbstractEventLoop, call: Callable[[], object]) -> None:
    """Have the loop make the call soon, from another thread; a loop that was closed makes none."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(call)


def heard(future: asyncio.Future[Any]) -> None:
    """Nobody asks for its error any more, and asyncio need not say so."""
    if not future.cancelled():
        future.exception()
