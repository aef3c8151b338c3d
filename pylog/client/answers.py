"""The values that pass between the user's thread and a client's cores: answers, and the user's
code. Pure.

The client's lock is held around all of it, also where an answer is looked at: nobody but the user's
thread waits, and it does so outside of here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class Answer(Generic[T]):
    """The outcome of an event: a value or an error, once."""

    done: bool = False
    _value: T | None = None
    _error: BaseException | None = None

    def succeed(self, value: T) -> None:
        """It is answered."""
        assert not self.done
        self.done, self._value = True, value

    def fail(self, error: BaseException) -> None:
        """It cannot be."""
        assert not self.done
        self.done, self._error = True, error

    @property
    def failed(self) -> bool:
        """Whether it is done, with an error."""
        return self._error is not None

    @property
    def error(self) -> BaseException | None:
        """The error that stands for the answer, or None."""
        return self._error

    def result(self) -> T:
        """The value; raises the error. It is done."""
        assert self.done
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class Callback:
    """User's code that must run on the user's thread: the next poll runs it, and answers with what
    it gives or raises.
    """

    run: Callable[[], Any]
    answer: Answer[Any] = field(default_factory=Answer)
    is_awaited: bool = True
    """Whether the member takes no step before it is answered."""
