"""The one way to the handler of a unary API, whatever edge its call came through.

The concerns of all calls stand here and nowhere else: its line in the request log, its time and its
errors among the counters, and that a defect becomes an error which a client may see. Everybody may
make every call today; a call that its principal may not make is to be refused here.

Produce and fetch do not come this way. They are answered by callbacks, thousands in a second, and
their handlers count batch by batch.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Final, TypeVar

from pylog import errors
from pylog_broker.api import request_log
from pylog_broker.api.context import RequestContext
from pylog_broker.api.request_log import RequestTimes
from pylog_broker.metadata.messages import Failure
from pylog_broker.metrics.counters import RequestCounters

RequestT = TypeVar("RequestT")
AnswerT = TypeVar("AnswerT")

_log: Final = logging.getLogger("pylog.api")

_ITEMS: Final = ("topics", "partitions", "resources", "directories")
"""The name of an answer's items, where it is no list of them."""


class Calls:
    """Lives on the loop of its process."""

    def __init__(self, counters: RequestCounters) -> None:
        self._counters = counters

    async def make(
        self,
        api: str,
        context: RequestContext,
        handle: Callable[[RequestContext, RequestT], Awaitable[AnswerT]],
        request: RequestT,
        came: float | None = None,
    ) -> AnswerT:
        """The answer of the handler of `api`. `came`: when the call was there, by `ticks`.

        Raises what the handler refuses with, and UnknownServerError for a defect of it.
        """
        timed = RequestTimes(came)
        try:
            answer = await request_log.told(api, context, timed, handle(context, request))
        except errors.PylogError as fault:
            self.refused(api, fault)
            raise
        except Exception:  # noqa: BLE001 (the top of a call: the server must live on)
            _log.exception("%s failed unexpectedly", api)
            defect = errors.UnknownServerError()
            self.refused(api, defect)
            raise defect from None
        timed.count(self._counters, api)
        for failure in failures_in(answer):
            self._counters.failed(api, failure.code)
        return answer

    def sent(self, api: str, seconds: float) -> None:
        """The answer that `make` gave was written in `seconds`."""
        self._counters.sent(api, seconds)

    def refused(self, api: str, fault: errors.PylogError) -> None:
        """A call of it failed as a whole; `make` counts the errors that it raises."""
        self._counters.failed(api, fault.code)


def failures_in(answer: object) -> Iterator[Failure | errors.PylogError]:
    """The failures that an answer tells: its own, and those of its items."""
    items: Any = answer
    if not isinstance(answer, list) and type(answer) is not tuple:
        if (failure := _failure_of(answer)) is not None:
            yield failure
        items = next((getattr(answer, name) for name in _ITEMS if hasattr(answer, name)), ())
    for item in items.values() if isinstance(items, Mapping) else items:
        if (failure := _failure_of(item)) is not None:
            yield failure


def _failure_of(item: object) -> Failure | errors.PylogError | None:
    if isinstance(item, Failure | errors.PylogError):
        return item
    found: Failure | errors.PylogError | None = getattr(item, "failure", None)
    return found if found is not None else getattr(item, "error", None)
