"""The wishes of a consumer's user: events for its core, and some back. Pure.

An event has an answer, which is there at once where the core can decide by itself, and comes later
where a broker is to be asked. The consumer's lock is held around all of it, also where an answer is
looked at: nobody but the user's thread waits, and it does so outside of here.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pylog.client.answers import Answer
from pylog.client.fetching.subscription import Subscription
from pylog.model import TopicPartition

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
