"""The time of each request and its parts: for the metrics, and for a line about each one when an
operator asks for it (`logging.level` with `pylog.request=DEBUG`).

Kafka's request log: who asked what, and where the time went. `queue`: from its last byte to its
handler. `local`: in the handler. `remote`: for what it waited (other replicas, records to come).
`response`: from the answer to its bytes in the connection's buffer.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Generator
from typing import Any, Final, TypeVar

from pylog.clock import ticks
from pylog.errors import PylogError
from pylog_broker.api.context import RequestContext
from pylog_broker.metrics.counters import RequestCounters

T = TypeVar("T")

_log: Final = logging.getLogger("pylog.request")


class RequestTimes:
    """The times of one request, by `ticks`."""

    __slots__ = ("began", "came", "handed_over")

    def __init__(self, came: float | None = None) -> None:
        """`came`: when its last byte was there; None: just now."""
        self.began = ticks()
        self.came = self.began if came is None else came
        self.handed_over = 0.0
        """The moment from which it waits; 0: it has not waited so far."""

    def go_on_from(self, answered: float) -> None:
        """It was answered then, and waits for what its next answer tells."""
        self.came = self.began = self.handed_over = answered

    def count(self, counters: RequestCounters, api: str) -> float:
        """Count it: its answer is there. Gives the time by `ticks`."""
        answered = ticks()
        began = self.began
        local = self.handed_over or answered
        counters.answered(api, local - began, began - self.came, answered - local)
        return answered

    def tell(self, api: str, context: RequestContext, answered: float, error: str = "") -> None:
        """Its answer, which was there at `answered`, is in the connection's buffer now."""
        # Answered within the handler, it waited for nothing.
        local = self.handed_over or answered
        parts = {
            "queue": self.began - self.came,
            "local": local - self.began,
            "remote": answered - local,
            "response": ticks() - answered,
            "total": ticks() - self.came,
        }
        told = " ".join(f"{name}={1000 * seconds:.3f}ms" for name, seconds in parts.items())
        _log.debug(
            "%s client.id=%r software=%r listener=%s connection=%s principal=%s %s%s",
            api,
            context.client_id,
            f"{context.software_name} {context.software_version}".strip(),
            context.listener,
            context.connection,
            context.principal,
            told,
            f" error={error}" if error else "",
        )


def is_on() -> bool:
    """Whether lines are wanted at the moment; asked for each request."""
    return _log.isEnabledFor(logging.DEBUG)


class _UntilItWaits(Generator[Any, Any, T]):
    """The steps of a handler; the end of the first one, from which it waits, is noted."""

    __slots__ = ("_timed", "_work")

    def __init__(self, work: Generator[Any, Any, T], timed: RequestTimes) -> None:
        self._work = work
        self._timed = timed

    def __await__(self) -> Generator[Any, Any, T]:
        return self

    def send(self, value: Any) -> Any:
        """The next step."""
        waits_for = self._work.send(value)
        if not self._timed.handed_over:
            self._timed.handed_over = ticks()
        return waits_for

    def throw(self, *error: Any) -> Any:
        """Raise an error where it waits."""
        return self._work.throw(*error)

    def close(self) -> None:
        """End it where it waits."""
        self._work.close()


async def told(api: str, context: RequestContext, timed: RequestTimes, work: Awaitable[T]) -> T:
    """The result of `work`, with a line about it; also where it raises."""
    work = _UntilItWaits(work.__await__(), timed)
    if not is_on():
        return await work
    error = ""
    try:
        return await work
    except BaseException as fault:
        error = fault.name if isinstance(fault, PylogError) else type(fault).__name__
        raise
    finally:
        timed.tell(api, context, ticks(), error)
