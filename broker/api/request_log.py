"""A line for each request, where somebody asks for it (`logging.level` with `pylog.request=DEBUG`).

Kafka's request log: who asked what, and where the time went. `queue`: from its last byte to its
handler. `local`: in the handler. `remote`: for what it waited (other replicas, records to come).
`response`: from the answer to its bytes in the connection's buffer.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from typing import Final, TypeVar

from pylog.clock import ticks
from pylog.errors import PylogError
from pylog_broker.api.context import RequestContext

T = TypeVar("T")

_log: Final = logging.getLogger("pylog.request")


class RequestTimes:
    """The times of one request, by `ticks`."""

    __slots__ = ("began", "came", "handed_over")

    def __init__(self, came: float | None) -> None:
        """`came`: when its last byte was there; None: just now."""
        self.began = ticks()
        self.came = self.began if came is None else came
        self.handed_over = 0.0

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


def times(came: float | None = None) -> RequestTimes | None:
    """To be told when the request is answered; None: nobody asks for it."""
    return RequestTimes(came) if _log.isEnabledFor(logging.DEBUG) else None


async def told(
    api: str, context: RequestContext, work: Awaitable[T], came: float | None = None
) -> T:
    """The result of `work`, with a line about it; also where it raises."""
    timed = times(came)
    if timed is None:
        return await work
    error = ""
    try:
        return await work
    except BaseException as fault:
        error = fault.name if isinstance(fault, PylogError) else type(fault).__name__
        raise
    finally:
        timed.tell(api, context, ticks(), error)
