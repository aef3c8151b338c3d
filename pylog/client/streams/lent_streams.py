"""Streams whose answers the waiting thread reads itself, so that no other thread stands between.

The loop lends a stream to the thread that waits for small answers again and again, and watches it
no longer. The loan ends by itself when that thread has been away for some moments: then somebody
must fetch ahead, and the loop does. The choice of the thread that watches is a matter of speed
alone: the one that reads has the stream's lock, and finds nothing if another one was there before.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import select
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from pylog.client.background import LoopThread
from pylog.client.streams.framed_carrier import FramedCarrier
from pylog.client.streams.stream import RequestStream
from pylog.clock import Clock

LEND_AFTER: Final = 8
"""Answers in a row that somebody waited for."""
AWAY_MS: Final = 20
"""A thread that is away for so long does something else."""
LOOK_AFTER_S: Final = 0.05


class Readable(Protocol):
    """Something whose bytes the thread that waits takes in itself."""

    def receive(self) -> bool:
        """Take in all that has come; whether more may come."""


class Awaited(Readable, Protocol):
    """One that is no stream of the consumer's."""

    def fileno(self) -> int:
        """The socket's."""


class LentStreams:
    """The streams that one consumer has lent. `lock` is the consumer's; what is `lent` is replaced,
    never changed, by the loop, under the streams' lock.
    """

    def __init__(
        self,
        thread: LoopThread,
        lock: threading.Lock,
        clock: Clock,
        *,
        notify: Callable[[], object],
        on_interrupt: Callable[[], object],
    ) -> None:
        """`notify`: have a thread that waits, here or elsewhere, look again; the lock is held.
        `on_interrupt`: the thread raises something while it has an answer in hands.
        """
        self.lent: dict[int, FramedCarrier] = {}
        self.somebody_waits = False
        """Whether a thread is in `wait`, or about to be; changed under the lock."""
        self._thread = thread
        self._lock = lock
        self._clock = clock
        self._notify = notify
        self._on_interrupt = on_interrupt
        self._awaited = 0
        self._until_ms = 0
        self._timer: asyncio.TimerHandle | None = None
        self._woken = False  # there is a byte in the pipe
        self._closed = False
        self._pipe: tuple[int, int] | None = None
        self._poll: select.poll | None = None
        self._polled: Mapping[int, Readable] = {}

    # ---- for the thread that waits -------------------------------------------------------------

    def begin(self) -> None:
        """`wait` comes next. The lock is held."""
        if self._pipe is None:
            self._pipe = os.pipe()
            for end in self._pipe:
                os.set_blocking(end, False)
        self.somebody_waits = True

    def wait(self, timeout_s: float, at: Awaited | None = None) -> None:
        """Return when something was read, also at `at`, after `wake`, or when the time is up."""
        lent: Mapping[int, Readable] = self.lent
        if at is not None:
            lent = {**lent, at.fileno(): at}
        try:
            poll = self._poll_of(lent)
            self._until_ms = self._clock.monotonic_ms() + math.ceil(timeout_s * 1000)
            ready = poll.poll(math.ceil(timeout_s * 1000))
        finally:
            with self._lock:
                self.somebody_waits = False
                self._empty_pipe()
                if self._closed:
                    self._close_pipe()
            self._until_ms = self._clock.monotonic_ms()
        try:
            for number, _ in ready:
                one = lent.get(number)
                if one is not None and not one.receive() and one is not at:
                    self._thread.call(self.take_back)
        except BaseException:
            self._on_interrupt()
            raise

    def _poll_of(self, lent: Mapping[int, Readable]) -> select.poll:
        if self._poll is None or self._polled is not lent:
            assert self._pipe is not None
            poll = select.poll()
            poll.register(self._pipe[0], select.POLLIN)
            for at in lent:
                poll.register(at, select.POLLIN)
            self._poll, self._polled = poll, lent
        return self._poll

    # ---- for everybody -------------------------------------------------------------------------

    def wake(self) -> None:
        """End a `wait`. The lock is held."""
        if self.somebody_waits and not self._woken:
            assert self._pipe is not None
            os.write(self._pipe[1], b"\0")
            self._woken = True

    def _empty_pipe(self) -> None:
        if self._woken and self._pipe is not None:
            with contextlib.suppress(BlockingIOError):
                os.read(self._pipe[0], 1)
            self._woken = False

    def _close_pipe(self) -> None:
        if self._pipe is not None:
            for end in self._pipe:
                os.close(end)
            self._pipe = None

    # ---- for the loop --------------------------------------------------------------------------

    def answered(self, stream: RequestStream[Any, Any], *, awaited: bool) -> None:
        """The loop took an answer in. `awaited`: a small one, and somebody waited for it."""
        self._awaited = self._awaited + 1 if awaited else 0
        if self._awaited < LEND_AFTER or self._closed or not hasattr(select, "poll"):
            return
        with stream.lock:
            carrier = stream.readable
            connection = carrier.connection if carrier is not None else None
            if carrier is None or connection is None:
                return
            connection.lend()
            self._set({**self.lent, connection.socket.fileno(): carrier})
        self._until_ms = self._clock.monotonic_ms()
        if self._timer is None:
            self._timer = self._thread.loop.call_later(LOOK_AFTER_S, self._look)

    def sort_out(self) -> None:
        """A stream has ended."""
        self._set({at: one for at, one in self.lent.items() if one.connection is not None})

    def take_back(self) -> None:
        """The loop reads again."""
        self._awaited = 0
        for carrier in self.lent.values():
            if carrier.connection is not None:
                carrier.connection.take_back()
        self._set({})

    def _set(self, lent: dict[int, FramedCarrier]) -> None:
        if lent != self.lent:
            with self._lock:
                self.lent = lent
                self._notify()  # threads that wait do so at something else from now on

    def _look(self) -> None:
        self._timer = None
        if not self.lent or self._closed:
            return
        if self._clock.monotonic_ms() > self._until_ms + AWAY_MS:
            self.take_back()
        else:
            self._timer = self._thread.loop.call_later(LOOK_AFTER_S, self._look)

    def close(self) -> None:
        """No stream is left, and nobody waits any more."""
        if self._timer is not None:
            self._timer.cancel()
        with self._lock:
            self._closed = True
            self.lent = {}
            if not self.somebody_waits:
                self._close_pipe()
