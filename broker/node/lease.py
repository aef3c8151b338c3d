"""The lease on being a broker: renewed by a thread, as long as the loop is alive.

The session stream breaks when the process dies; the lease is for what breaks nothing: a machine
that stopped, a network that swallows packets. A thread with a channel of its own renews it, so a
long pause of the loop (a big recovery, a slow disk) does not lose it; but when the loop has not
ticked for half the lease the thread stops renewing, because a broker that cannot serve must not
look alive.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

from pylog.clock import Clock


class Lease:
    """Calls `renew` from a thread of its own while ticks keep coming.

    The thread owns nothing but the channel inside `renew`; the loop and the thread share
    `_ticked_ms`, a number that only the loop writes.
    """

    def __init__(
        self, renew: Callable[[], None], clock: Clock, *, lease_ms: int, interval_ms: int
    ) -> None:
        self._renew = renew
        self._clock = clock
        self._loop_silent_ms_max = lease_ms // 2
        self._interval_seconds = interval_ms / 1000
        self._ticked_ms = clock.monotonic_ms()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pylog-lease", daemon=True)

    @property
    def started(self) -> bool:
        """Whether `start` was called."""
        return self._thread.ident is not None

    def start(self) -> None:
        """Begin to renew."""
        self._thread.start()

    def tick(self) -> None:
        """The loop is alive."""
        self._ticked_ms = self._clock.monotonic_ms()

    def stop(self) -> None:
        """End the thread; returns when it has, or after a second."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(1.0)

    @property
    def loop_is_alive(self) -> bool:
        """Whether the loop ticked within half the lease."""
        return self._clock.monotonic_ms() - self._ticked_ms <= self._loop_silent_ms_max

    def _run(self) -> None:
        while not self._stop.wait(self._interval_seconds):
            if self.loop_is_alive:
                with contextlib.suppress(ConnectionError):
                    self._renew()
