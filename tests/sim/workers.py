"""Threads of a process's pool, in simulated time: work that waits for the disk takes a while, and
everything else goes on meanwhile.

A piece of work runs on a thread of its own, but never together with anything else: it runs up to
its next look at the disk, and there the scheduler may let something else happen first. So a run
follows from its seed as ever, the process may die in the middle of a sync, and what the broker's
loop does in between is seen by the work as on a real machine.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.sim.rpc import Actor

PAUSE_SHARE = 0.2
SLOW_SHARE = 0.05
SLOW_TIMES = 20
STALLED_MS = 1


class Abandoned(BaseException):
    """The process that the work belonged to is gone; no handler of the product may catch it."""


class Pool:
    """The threads of one process."""

    def __init__(self, actor: Actor, rng: random.Random, mean_ms: Callable[[], float]) -> None:
        """`mean_ms`: how long a thread waits for the disk, on average."""
        self._mean_ms = mean_ms
        self._actor = actor
        self._rng = rng
        self._workers: dict[_Worker, None] = {}
        self._is_ending = False
        self.current: _Worker | None = None
        """The worker whose turn it is; None: it is the process's own loop's."""
        self.is_stalled = False
        """The disk answers nobody: a thread that waits for it goes on waiting."""

    def run(
        self,
        what: str,
        work: Callable[[], Any],
        then: Callable[[Any], None],
        subject: object = None,
    ) -> None:
        """Do `work` beside the loop; `then` hears, on the loop, what it returned, or the exception
        that it raised. `subject`: what it is about, for `subjects`.
        """
        if self._is_ending:
            return
        worker = _Worker(self, what, work, then, subject)
        self._workers[worker] = None
        self._actor.timer(self._rng.random(), self._go_on, worker)

    def end(self, then: Callable[[], None]) -> None:
        """Begin nothing more, also of what was asked for; `then` hears when what runs has ended."""
        self._is_ending = True
        for worker in list(self._workers):
            if not worker.has_begun:
                del self._workers[worker]
        if self._workers:
            self._actor.timer(1, self.end, then)
        else:
            self._is_ending = False
            then()

    @property
    def under_way(self) -> list[str]:
        """The steps that have begun and have not ended."""
        return [worker.what for worker in self._workers if worker.has_begun]

    def subjects(self, what: str) -> list[object]:
        """The subjects of such work that has begun and has not ended."""
        found = (worker for worker in self._workers if worker.what == what)
        return [worker.subject for worker in found if worker.has_begun]

    def _go_on(self, worker: _Worker) -> None:
        if worker not in self._workers:
            return
        if self.is_stalled and worker.has_begun:
            self._actor.timer(STALLED_MS, self._go_on, worker)
            return
        self.current = worker
        try:
            worker.go_on()
        finally:
            self.current = None
        if not worker.done:
            self._actor.timer(self._wait_ms(), self._go_on, worker)
            return
        del self._workers[worker]
        outcome = worker.outcome
        if isinstance(outcome, BaseException) and not isinstance(outcome, Exception):
            raise outcome
        self._actor.timer(self._rng.random(), self._ended, worker)

    def _ended(self, worker: _Worker) -> None:
        worker.then(worker.outcome)

    def _wait_ms(self) -> float:
        times = SLOW_TIMES if self._rng.random() < SLOW_SHARE else 1
        return times * self._rng.expovariate(1.0 / self._mean_ms())

    def at_the_disk(self, *, long: bool) -> None:
        """The thread whose turn it is looks at the disk; `long`: it waits for it, always."""
        worker = self.current
        if worker is not None and (long or self._rng.random() < PAUSE_SHARE):
            worker.pause()

    def abandon(self) -> None:
        """The process is gone, and its threads with it. One of them may be the one that says so."""
        for worker in list(self._workers):
            if worker is not self.current:
                worker.abandon()
        self._workers.clear()


class _Worker:
    def __init__(
        self,
        pool: Pool,
        what: str,
        work: Callable[[], Any],
        then: Callable[[Any], None],
        subject: object,
    ) -> None:
        self.what = what
        self.subject = subject
        self.then = then
        self.done = False
        self.outcome: Any = None
        self._pool = pool
        self._work = work
        self._abandoned = False
        self._thread: threading.Thread | None = None
        self._its_turn = threading.Semaphore(0)
        self._turn_is_over = threading.Semaphore(0)

    @property
    def has_begun(self) -> bool:
        """Whether it has come to the disk."""
        return self._thread is not None

    def go_on(self) -> None:
        """Let it run up to its next pause, or its end."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()
        else:
            self._its_turn.release()
        self._turn_is_over.acquire()

    def _run(self) -> None:
        try:
            self.outcome = self._work()
        except BaseException as error:  # noqa: BLE001  handed to the caller that asked for the work
            self.outcome = error
        self.done = True
        self._turn_is_over.release()

    def pause(self) -> None:
        """On its own thread: something else happens first."""
        if self._abandoned:
            raise Abandoned
        self._turn_is_over.release()
        self._its_turn.acquire()
        if self._abandoned:
            raise Abandoned

    def abandon(self) -> None:
        """Have the thread end."""
        self._abandoned = True
        if self._thread is None or self.done:
            return
        self._pool.current = self
        while not self.done:
            self.go_on()
        self._pool.current = None
