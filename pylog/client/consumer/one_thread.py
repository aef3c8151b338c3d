"""One thread at a time: the second one that uses an object that is not thread safe gets an
error."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pylog import errors


class OneThread:
    """Knows which thread uses the consumer at the moment; that one may come in again."""

    def __init__(self) -> None:
        self.user: int | None = None
        self._lock = threading.Lock()

    @contextmanager
    def use(self) -> Iterator[None]:
        """The calling thread uses it; WrongThread when another one does."""
        me = threading.get_ident()
        with self._lock:
            if self.user not in (None, me):
                raise errors.WrongThread(
                    "the consumer is in use by another thread; a consumer is not thread safe: use "
                    "it from one thread at a time (only wakeup() may come from another)"
                )
            outermost = self.user is None
            self.user = me
        try:
            yield
        finally:
            if outermost:
                self.user = None
