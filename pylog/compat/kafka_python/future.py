"""kafka-python's Future: a value or an exception, and callbacks with either."""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable
from typing import Any

from pylog.compat.kafka_python.errors import RetriableError

logger = logging.getLogger(__name__)


class Future:
    """An outcome that may still be to come."""

    error_on_callbacks = False

    def __init__(self) -> None:
        self._done = False
        self._value: Any = None
        self._exception: BaseException | None = None
        self._waiting: list[Callable[[], None]] = []
        self._lock = threading.Lock()

    @property
    def is_done(self) -> bool:
        """Whether the outcome is there."""
        return self._done

    @property
    def value(self) -> Any:
        """The value; None until it is there, and after a failure."""
        return self._value

    @property
    def exception(self) -> BaseException | None:
        """The exception; None until it is there, and after a success."""
        return self._exception

    def succeeded(self) -> bool:
        """Whether it has a value."""
        return self.is_done and self.exception is None

    def failed(self) -> bool:
        """Whether it has an exception."""
        return self.is_done and self.exception is not None

    def retriable(self) -> bool:
        """Whether it has failed by what may pass."""
        return self.is_done and isinstance(self.exception, RetriableError)

    def success(self, value: Any) -> Future:
        """Give it its value."""
        self._value = value
        return self._finish()

    def failure(self, e: Any) -> Future:
        """Give it its exception, or the class of one."""
        exception = e() if isinstance(e, type) else e
        if not isinstance(exception, BaseException):
            raise TypeError(f"{e!r} is no exception")
        self._exception = exception
        return self._finish()

    def _finish(self) -> Future:
        with self._lock:
            self._done = True
            waiting, self._waiting = self._waiting, []
        for call in waiting:
            call()
        return self

    def add_callback(self, f: Callable[..., Any], *args: Any, **kwargs: Any) -> Future:
        """Call `f(*args, value, **kwargs)` on success, at once if that was before."""
        call = functools.partial(f, *args, **kwargs)
        return self._when_done(lambda: None if self.failed() else self._tell(call, self.value))

    def add_errback(self, f: Callable[..., Any], *args: Any, **kwargs: Any) -> Future:
        """Call `f(*args, exception, **kwargs)` on failure, at once if that was before."""
        call = functools.partial(f, *args, **kwargs)
        return self._when_done(lambda: self._tell(call, self.exception) if self.failed() else None)

    def add_both(self, f: Callable[..., Any], *args: Any, **kwargs: Any) -> Future:
        """Call `f` with the value or the exception."""
        self.add_callback(f, *args, **kwargs)
        return self.add_errback(f, *args, **kwargs)

    def chain(self, future: Future) -> Future:
        """Pass the outcome on to another one."""
        self.add_callback(future.success)
        return self.add_errback(future.failure)

    def _when_done(self, call: Callable[[], None]) -> Future:
        with self._lock:
            if not self._done:
                self._waiting.append(call)
                return self
        call()
        return self

    def _tell(self, call: Callable[..., Any], outcome: Any) -> None:
        try:
            call(outcome)
        except Exception:
            logger.exception("a callback of a future raised")
            if self.error_on_callbacks:
                raise
