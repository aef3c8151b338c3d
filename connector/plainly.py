"""Errors of the connector as Spark's users should see them: the message, not the way to it.

Spark shows the whole stack of a Python data source's error, and that of its cause before it. An
error that names option or topic, value and remedy needs neither; what is no ConnectorError is a
defect and keeps both. At level DEBUG the logger `pylog.connector` has them all.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar

from pylog_connector.errors import ConnectorError

P = ParamSpec("P")
T = TypeVar("T")

_log = logging.getLogger("pylog.connector")


def plainly(method: Callable[P, T]) -> Callable[P, T]:
    """A method that Spark calls, with errors cut down to themselves."""

    @functools.wraps(method)
    def told(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(*args, **kwargs)
        except ConnectorError as error:
            _log.debug("%s", error, exc_info=error)
            raise error.with_traceback(None) from None

    return told


def plainly_each(method: Callable[P, Iterator[T]]) -> Callable[P, Iterator[T]]:
    """The same for a method that yields."""

    @functools.wraps(method)
    def told(*args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        try:
            yield from method(*args, **kwargs)
        except ConnectorError as error:
            _log.debug("%s", error, exc_info=error)
            raise error.with_traceback(None) from None

    return told
