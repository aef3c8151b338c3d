"""librdkafka's consumers may be used by several threads at once, pylog's by one at a time."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

from pylog.compat.confluent_kafka.error import KafkaError, local

F = TypeVar("F", bound=Callable[..., Any])

_WAIT_S: Final = 30.0
"""Far more than a poll keeps the turn. A callback that waits for another thread, which waits for
its turn, would otherwise wait for ever.
"""


class Turns:
    """One thread at a time is inside, and may enter again; one that leaves and comes back lets
    those in first that wait. Lock order: the line, which the first that waits holds, then the turn.
    """

    def __init__(self) -> None:
        self._turn, self._line = threading.Lock(), threading.Lock()
        self._inside: int | None = None  # the thread that has the turn
        self._depth = 0  # the number of times that it has entered again

    def __enter__(self) -> None:
        me = threading.get_ident()
        if self._inside == me:
            self._depth += 1
            return
        if self._line.locked() or not self._turn.acquire(blocking=False):
            self._wait()
        self._inside = me

    def _wait(self) -> None:
        if self._line.acquire(timeout=_WAIT_S):
            try:
                if self._turn.acquire(timeout=_WAIT_S):
                    return
            finally:
                self._line.release()
        raise local(KafkaError._CONFLICT, "another thread is using the consumer")

    def __exit__(self, *_error: object) -> None:
        if self._depth:
            self._depth -= 1
            return
        self._inside = None
        self._turn.release()


def in_turn(method: F) -> F:
    """A method of what has `_turns`, so that other threads' calls wait for it."""

    @functools.wraps(method)
    def call(self: Any, *args: Any, **named: Any) -> Any:
        with self._turns:
            return method(self, *args, **named)

    return cast("F", call)
