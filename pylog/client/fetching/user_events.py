"""What the user's thread wants of a consumer: events for its core, and some back. Pure.

An event has an answer, which is there at once where the core can decide by itself, and comes later
where a broker is to be asked. The consumer's lock is held around all of it, also where an answer is
looked at: nobody but the user's thread waits, and it does so outside of here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from pylog.client.fetching.subscription import Subscription
from pylog.model import TopicPartition

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class Answer(Generic[T]):
    """What comes of an event: a value or an error, once."""

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

    def result(self) -> T:
        """The value; raises the error. It is done."""
        assert self.done
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]


# ---- from the user's thread --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Subscribe:
    """Read what the subscription covers; partitions that stay keep their position."""

    subscription: Subscription
    answer: Answer[None] = field(default_factory=Answer)


@dataclass(frozen=True, slots=True)
class Assign:
    """Read exactly these."""

    partitions: tuple[TopicPartition, ...]
    answer: Answer[None] = field(default_factory=Answer)


@dataclass(frozen=True, slots=True)
class StartFetching:
    """The user polls for the first time."""

    answer: Answer[None] = field(default_factory=Answer)


@dataclass(frozen=True, slots=True)
class Seek:
    """Go on at an offset; `last_epoch` is that of the record before it, where it is known."""

    topic_partition: TopicPartition
    offset: int
    last_epoch: int | None = None
    answer: Answer[None] = field(default_factory=Answer)


@dataclass(frozen=True, slots=True)
class SeekTo:
    """Go on where a look-up by time tells."""

    partitions: tuple[TopicPartition, ...]
    timestamp: int
    answer: Answer[None] = field(default_factory=Answer)


@dataclass(frozen=True, slots=True)
class Pause:
    """Give out no records of these."""

    partitions: tuple[TopicPartition, ...]
    answer: Answer[None] = field(default_factory=Answer)


@dataclass(frozen=True, slots=True)
class Resume:
    """Undo a pause."""

    partitions: tuple[TopicPartition, ...]
    answer: Answer[None] = field(default_factory=Answer)


@dataclass(frozen=True, slots=True)
class AskPosition:
    """The offset of the partition's next record, once it is known."""

    topic_partition: TopicPartition
    answer: Answer[int] = field(default_factory=Answer)


UserEvent = Subscribe | Assign | StartFetching | Seek | SeekTo | Pause | Resume | AskPosition


# ---- to the user's thread ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Callback:
    """User's code that must run on the user's thread: the next poll runs it, and answers with what
    it gives or raises.
    """

    run: Callable[[], Any]
    answer: Answer[Any] = field(default_factory=Answer)
