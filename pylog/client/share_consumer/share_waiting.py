"""The wait of a share consumer's calls, and the events that end it: news, the time, a wakeup, or a
fault.

On the user's thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from pylog import errors
from pylog.client.answers import Answer
from pylog.client.callers import check_caller, kept_waiting
from pylog.client.cluster.cluster import Cluster
from pylog.client.cluster.denials import Denial
from pylog.client.share_consumer.share_loop import ShareLoop
from pylog.clock import Clock

LOOK_AGAIN_S: Final = 0.5
"""Some faults show only by time: nobody answers."""

V = TypeVar("V")


class ShareWaiting:
    """The waiting of one share consumer; `wake` may come from any thread."""

    def __init__(self, loop: ShareLoop, cluster: Cluster, clock: Clock, timeout_ms: int) -> None:
        self._loop = loop
        self._cluster = cluster
        self._core = loop.core
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._started_ms = clock.monotonic_ms()
        self._woken = False
        self._in_callback = False
        self._told: dict[str, Denial | None] = {}

    def wake(self) -> None:
        """Have the wait that runs, or the next one, raise WokenUp. Never blocks: a handler of a
        signal may interrupt the very thread that holds the lock.
        """
        self._woken = True
        self._loop.notify_soon()

    def until(self, timeout_s: float, look: Callable[[int], V | None]) -> V | None:
        """The first result of `look`, which is called under the lock with the time until it finds
        something; None when the time is up.
        """
        deadline_ms = self._clock.monotonic_ms() + timeout_s * 1000
        while True:
            self.raise_faults()
            with self._loop.lock:
                self._refuse_closed()
                now_ms = self._clock.monotonic_ms()
                found = look(now_ms)
                if found is not None:
                    return found
                left_s = (deadline_ms - now_ms) / 1000
                if left_s <= 0:
                    return None
                if not self._woken and self._loop.defect is None:
                    self._loop.ready.wait(min(left_s, LOOK_AGAIN_S))

    def answer(self, answer: Answer[V]) -> V:
        """The core's answer, which comes in time. WokenUp after `wakeup()`."""
        with kept_waiting(self._loop.notify_soon):
            return self._answer(answer)

    def _answer(self, answer: Answer[V]) -> V:
        while True:
            with self._loop.lock:
                self._refuse_closed()
                if answer.done:
                    return answer.result()
                self._raise_defect()
                self._raise_woken()
                self._loop.ready.wait(LOOK_AGAIN_S)

    def settle(self, answer: Answer[None], deadline_ms: int) -> bool:
        """Whether it is answered by then."""
        with self._loop.lock:
            while not answer.done:
                left_s = (deadline_ms - self._clock.monotonic_ms()) / 1000
                if left_s <= 0:
                    return False
                self._loop.ready.wait(min(left_s, LOOK_AGAIN_S))
        return True

    def listen(self, listener: Callable[[], object]) -> Callable[[], None]:
        """Have `listener` called when a wait would end, also at once if it would; gives what ends
        the listening.
        """

        def stop() -> None:
            with self._loop.lock:
                if self._loop.listener is listener:
                    self._loop.listener = None

        with self._loop.lock:
            self._loop.listener = listener
            defect, is_closed = self._loop.defect, self._loop.closed
            if self._woken or is_closed or defect is not None or self._core.has_news:
                listener()
        return stop

    # ---- the user's code ----------------------------------------------------------------------

    def run_callbacks(self) -> None:
        """Pass the outcomes of acknowledgements to the user's callback. An error of the callback
        goes to the user."""
        while self._core.for_user:
            callback = self._core.for_user.popleft()
            self._in_callback = True
            try:
                callback.run()
            finally:
                self._in_callback = False

    def refuse_in_callback(self) -> None:
        """InvalidRequest for what is called in the user's callback, as in Kafka."""
        if self._in_callback:
            raise errors.InvalidRequest(
                "the consumer cannot be used inside its acknowledgement commit callback: use it "
                "after the call that runs the callback"
            )

    # ---- faults -------------------------------------------------------------------------------

    def raise_faults(self) -> None:
        """Raise what the user must know."""
        with self._loop.lock:
            self._raise_defect()
            self._raise_woken()
            error = self._core.take_error()
        if error is not None:
            raise error
        if not self._cluster.metadata.version:
            self._raise_out_of_reach()
        else:
            self._raise_denied()

    def _refuse_closed(self) -> None:
        check_caller()
        if self._loop.closed:
            raise errors.ClientClosed("the share consumer is closed")

    def _raise_defect(self) -> None:
        """The lock is held."""
        defect, self._loop.defect = self._loop.defect, None
        if defect is not None:
            raise defect

    def _raise_woken(self) -> None:
        if self._woken:
            self._woken = False
            raise errors.WokenUp("wakeup() was called")

    def _raise_out_of_reach(self) -> None:
        """BootstrapFailed while no server has ever answered, and the time for that is up."""
        if self._cluster.gave_up is not None:
            raise self._cluster.gave_up
        waited_ms = self._clock.monotonic_ms() - self._started_ms
        if waited_ms >= self._timeout_ms:
            raise self._cluster.unreachable(waited_ms)

    def _raise_denied(self) -> None:
        """UnknownTopicOrPartition, or what else the cluster says of a subscribed topic; what was
        raised once counts when the cluster says it again.
        """
        for topic, denial in list(self._cluster.denied.items()):
            is_mine = topic in self._core.topics and denial is not self._told.get(topic)
            if is_mine and denial.counts(self._timeout_ms):
                self._told[topic] = denial
                self._cluster.thread.call(self._cluster.refresh_soon)
                raise denial.error
