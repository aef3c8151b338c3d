"""The loop's side of a share consumer: polls its core, and carries out what it wants.

The lock covers the core, and `ready` tells the user's thread that something came.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from pylog import errors
from pylog.client.background import AFTER_DEFECT_MS, LoopThread, as_defect, logger
from pylog.client.cluster.cluster import Cluster
from pylog.client.fetching.fetch_events import Notice, RefreshMetadata, WatchTopics
from pylog.client.membership.messages import FindCoordinator
from pylog.client.share_consumer.share_calls import ShareCalls
from pylog.client.share_consumer.share_metrics import ShareMetrics
from pylog.client.sharing.messages import (
    ShareAcknowledge,
    ShareAnswer,
    ShareFetch,
    ShareHeartbeat,
    ShareRequest,
)
from pylog.client.sharing.share_core import Effect, ShareCore
from pylog.clock import Clock
from pylog.deadline_timer import DeadlineTimer

T = TypeVar("T")


class ShareLoop:
    """Carries out the core's effects."""

    def __init__(
        self,
        thread: LoopThread,
        cluster: Cluster,
        core: ShareCore,
        calls: ShareCalls,
        metrics: ShareMetrics,
        clock: Clock,
    ) -> None:
        self.cluster = cluster
        self.core = core
        self.metrics = metrics
        self.lock = threading.Lock()
        self.ready = threading.Condition(self.lock)
        self.closed = False
        self.defect: errors.PylogError | None = None
        """A step of the loop failed as nobody expects: for the user's next wait to raise. Changed
        under the lock.
        """
        self.listener: Callable[[], object] | None = None
        """Told as well when something comes; changed under the lock."""
        self._thread = thread
        self._calls = calls
        self._clock = clock
        self._poke_pending = False
        self._timer = DeadlineTimer(self.step)
        self._tasks: set[asyncio.Task[None]] = set()

    # ---- from any thread ----------------------------------------------------------------------

    def ask(self, question: Callable[..., T], *arguments: Any, **named: Any) -> T:
        """Ask something of the core, and have the loop look."""
        with self.lock:
            answer = question(*arguments, **named)
        self.poke()
        return answer

    def poke(self) -> None:
        """Have the loop look."""
        if not self._poke_pending:
            self._poke_pending = True
            self._thread.call(self.step)

    def notify(self) -> None:
        """Tell the user's thread that something came. The lock is held."""
        self.ready.notify_all()
        if self.listener is not None:
            self.listener()

    def notify_soon(self) -> None:
        """`notify`, by the loop."""
        self._thread.call(self._notify_here)

    def _notify_here(self) -> None:
        with self.lock:
            self.notify()

    # ---- on the loop --------------------------------------------------------------------------

    def step(self, event: Callable[..., list[Any]] | None = None, *arguments: Any) -> None:
        """Give the core an event, wake the user, poll, and carry out what the core decides. What
        fails in that as nobody expects is the user's to hear.
        """
        self._poke_pending = False
        if self.closed:
            return
        now_ms = self._clock.monotonic_ms()
        try:
            next_ms = self._take_step(now_ms, event, arguments)
        except Exception as error:  # noqa: BLE001  nobody else would hear of it
            next_ms = now_ms + AFTER_DEFECT_MS
            with self.lock:
                self.defect = as_defect(error, "a step of the share consumer")
                self.notify()
        self._timer.set(self._thread.loop, now_ms, next_ms)

    def _take_step(
        self, now_ms: int, event: Callable[..., list[Any]] | None, arguments: tuple[Any, ...]
    ) -> int | None:
        """When there is something to do without another event."""
        self.cluster.start()
        with self.lock:
            effects: list[Effect] = [] if event is None else event(now_ms, *arguments)
            decided = self.core.poll(now_ms)
            self.ready.notify_all()
            if self.listener is not None and self.core.has_news:
                self.listener()
        for effect in [*effects, *decided.effects]:
            self._perform(effect)
        return decided.deadline_ms

    def perform(self, effects: list[Effect]) -> None:
        """Carry these out, by the loop."""
        for effect in effects:
            self._thread.call(self._perform, effect)

    def _perform(self, effect: Effect) -> None:
        match effect:
            case FindCoordinator() | ShareHeartbeat() | ShareFetch() | ShareAcknowledge():
                task = asyncio.ensure_future(self._call(effect))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            case WatchTopics(topics, every):
                self.cluster.all_topics = every
                self.cluster.topics.clear()
                self.cluster.refresh_soon(*topics)
            case RefreshMetadata(topics):
                self.cluster.refresh_soon(*topics)
            case Notice(text):
                logger.warning("%s", text)
            case _:
                raise AssertionError(f"a share consumer does not want {effect}")

    async def _call(self, request: ShareRequest) -> None:
        sent_ms = self._clock.monotonic_ms()
        try:
            answer = await self._calls.call(request)
        except errors.PylogError as error:
            logger.debug("%s failed: %s", type(request).__name__, error)
            self.step(self.core.on_no_answer, request, error)
            return
        if isinstance(request, ShareFetch | ShareAcknowledge):
            assert isinstance(answer, ShareAnswer)
            self.metrics.answered(self._clock.monotonic_ms(), sent_ms, request, answer)
        self.step(self.core.on_answer, request, answer)

    async def close(self) -> None:
        """Ask nothing more, and let go of the connections."""
        self._timer.cancel()
        for task in self._tasks:
            task.cancel()
        await self.cluster.close()
