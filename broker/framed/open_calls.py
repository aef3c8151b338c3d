"""The unary calls of one connection that are not answered yet: each has a number, a task, a time.

A call is answered once: by its handler, by its time-out, or by the end of the connection, whichever
comes first. Later answers are for nobody.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Final, Protocol

from google.protobuf.message import Message

from pylog import errors
from pylog.clock import ticks
from pylog.rpc import calls
from pylog.rpc.framing import Chunks
from pylog_broker.api.context import RequestContext
from pylog_broker.api.request_memory import RequestMemory
from pylog_broker.framed.gathering import Gathering
from pylog_broker.protobuf.unary import UNREADABLE, AnyBound, UnaryApis

CALLS_MAX: Final = 64
"""Calls of one connection that are open at a time; then its reading pauses."""
SECONDS_MAX: Final = 330.0
"""The longest that a call may take, whatever time its client gives it: as over gRPC."""
UNKNOWN: Final = "Unknown"
"""Among the counters, an API that is not offered."""

_log = logging.getLogger("pylog.streams")


class Caller(Protocol):
    """The connection that calls come from."""

    def write_answer(self, chunks: Chunks) -> None:
        """Send an answer, and take what waited for its place."""


class _Call:
    """A call that is open. `size`: of its frame."""

    __slots__ = ("api", "number", "seconds", "size", "task", "timer")

    def __init__(self, number: int, api: str, size: int, seconds: float) -> None:
        self.number = number
        self.api = api
        self.size = size
        self.seconds = seconds
        self.task: asyncio.Task[None] | None = None
        self.timer: asyncio.TimerHandle | None = None


class OpenCalls:
    """Lives on the broker's loop.

    Invariant: `memory` counts the frames of the calls in `_open`, and of no others.
    """

    def __init__(
        self,
        caller: Caller,
        apis: UnaryApis,
        context: RequestContext,
        memory: RequestMemory,
        gathering: Gathering,
    ) -> None:
        """`gathering`: of the calls of all connections that may wait for others."""
        self._caller = caller
        self._apis = apis
        self._context = context
        self._memory = memory
        self._gathering = gathering
        self._open: dict[int, _Call] = {}
        self._may_answer = asyncio.Event()
        self._may_answer.set()

    def __len__(self) -> int:
        return len(self._open)

    # ---- the connection ------------------------------------------------------------------------

    def begin(self, frame: memoryview, came: float) -> None:
        """Take a call, which was there at `came` by `ticks`. It is answered from a task, or at once
        when it cannot be carried out.

        Raises InvalidRequest for what no answer can be given to: the connection cannot go on.
        """
        said = calls.read_call(frame)
        if said.number in self._open:
            raise errors.InvalidRequest(
                f"call {said.number} is not answered yet, and another one has its number"
            )
        bound = self._apis.by_key.get(said.key)
        api = UNKNOWN if bound is None else bound.api.name
        now = ticks()
        seconds = min(said.timeout_ms / 1000, SECONDS_MAX) - (now - came)
        try:
            if bound is None:
                raise errors.UnsupportedVersion(f"api key {said.key} is not offered by this broker")
            if said.version > bound.api.version_max:
                raise errors.UnsupportedVersion(
                    f"version {said.version} of {api} (api key {said.key}) is not offered; this "
                    f"broker speaks up to {bound.api.version_max}"
                )
            if seconds <= 0:
                raise errors.RequestTimedOut(
                    f"{api}: its {said.timeout_ms} ms were over when its turn came"
                )
            try:
                message = bound.api.request.FromString(bytes(said.request))
            except UNREADABLE as error:
                raise errors.InvalidRequest(f"the bytes are no {api} request: {error}") from None
        except errors.PylogError as fault:
            self._apis.calls.refused(api, fault)
            self._caller.write_answer(calls.failure_frame(said.number, fault))
            return
        call = self._open[said.number] = _Call(said.number, api, len(frame), seconds)
        self._memory.handed_over(call.size)
        call.timer = asyncio.get_running_loop().call_later(seconds, self._on_time, call)
        context = self._context
        if said.version:
            context = context._replace(api_version=said.version)
        if bound.may_wait is not None and bound.may_wait(message):
            self._gathering.add(partial(self._start, call, bound, context, message, came), now)
        else:
            self._gathering.begin_all()
            self._start(call, bound, context, message, came)

    def pause(self) -> None:
        """The client does not take what it was sent: no call that has not begun begins."""
        self._may_answer.clear()

    def go_on(self) -> None:
        """It does again."""
        self._may_answer.set()

    def cancel(self) -> None:
        """The connection is over: nobody waits for any of them."""
        for call in list(self._open.values()):
            self._forget(call)
            self._give_up(call)

    def refuse(self, fault: errors.PylogError) -> None:
        """Answer all of them with an error."""
        for call in list(self._open.values()):
            self._fail(call, fault)

    # ---- one call ------------------------------------------------------------------------------

    def _start(
        self, call: _Call, bound: AnyBound, context: RequestContext, message: Message, came: float
    ) -> None:
        if self._open.get(call.number) is not call:
            return  # it was answered, or its connection ended, while it waited for others
        answering = self._answer(call, bound, context, message, came)
        call.task = asyncio.get_running_loop().create_task(answering)
        call.task.add_done_callback(lambda task: self._on_done(call, task))

    async def _answer(
        self, call: _Call, bound: AnyBound, context: RequestContext, message: Message, came: float
    ) -> None:
        # Calls that came together would all make their answers before the first one is taken.
        while not self._may_answer.is_set():
            await self._may_answer.wait()
        try:
            answer = await self._apis.answer(bound, context, message, came)
        except errors.PylogError as fault:
            self._end(call, calls.failure_frame(call.number, fault))
        else:
            answered = ticks()
            self._end(call, calls.answer_frame(call.number, [answer.SerializeToString()]))
            self._apis.calls.sent(call.api, ticks() - answered)

    def _on_done(self, call: _Call, task: asyncio.Task[None]) -> None:
        """Answer a call that neither `_answer` nor anybody else has answered: its codec has a
        defect, or what it waited for was given up.
        """
        if self._open.get(call.number) is not call:
            if not task.cancelled():
                task.exception()  # it came too late to be told
            return
        if task.cancelled():
            self._fail(call, errors.RequestTimedOut(f"{call.api} was given up by the broker"))
            return
        _log.error("%s failed unexpectedly", call.api, exc_info=task.exception())
        self._fail(call, errors.UnknownServerError())

    def _on_time(self, call: _Call) -> None:
        what = f"{call.api} took over {1000 * call.seconds:.0f} ms, the time that its client gave"
        self._fail(call, errors.RequestTimedOut(what))

    def _fail(self, call: _Call, fault: errors.PylogError) -> None:
        self._apis.calls.refused(call.api, fault)
        self._end(call, calls.failure_frame(call.number, fault))
        self._give_up(call)

    def _end(self, call: _Call, chunks: Chunks) -> None:
        if self._open.get(call.number) is call:
            self._forget(call)
            self._caller.write_answer(chunks)

    def _forget(self, call: _Call) -> None:
        del self._open[call.number]
        self._memory.answered(call.size)
        if call.timer is not None:
            call.timer.cancel()

    def _give_up(self, call: _Call) -> None:
        """End the work of a call that is forgotten."""
        if call.task is not None:
            call.task.cancel()
