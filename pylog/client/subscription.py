"""Which topics a consumer reads, and how callers may name partitions."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pylog import errors
from pylog.client.arguments import mapping, several, shown, whole_or_none
from pylog.config import INT_MAX, LONG_MAX
from pylog.model import OffsetAndMetadata, TopicPartition, topic_name_fault
from pylog.topic_patterns import TopicPattern, topic_pattern

Partitions = TopicPartition | tuple[str, int] | Iterable[TopicPartition | tuple[str, int]]
"""One partition, or several."""


@dataclass(slots=True)
class Subscription:
    """Topics by name or by pattern; false when there is neither (manual assignment).

    `seen` are the topics whose partitions were assigned: what they get later is new.
    """

    topics: tuple[str, ...] = ()
    pattern: TopicPattern | None = None
    seen: set[str] = field(default_factory=set)
    exclude_internal: bool = True

    @classmethod
    def of(
        cls,
        topics: str | Iterable[str] | None,
        pattern: str | re.Pattern[str] | None,
        *,
        exclude_internal: bool = True,
    ) -> Subscription:
        """Checked; InvalidRequest for both or neither, InvalidTopic and
        InvalidRegularExpression for the contents.
        """
        if (topics is None) == (pattern is None):
            raise errors.InvalidRequest("subscribe() takes either topics or pattern=")
        if pattern is not None:
            try:
                chosen = topic_pattern(_text(pattern))
            except errors.InvalidRegularExpression as error:
                raise errors.InvalidRegularExpression(f"pattern={error}") from None
            return cls(pattern=chosen, exclude_internal=exclude_internal)
        assert topics is not None
        wanted = "a topic's name, or several"
        names = [topics] if isinstance(topics, str) else several(topics, "topics", wanted)
        for name in names:
            check_topic(name)
        return cls(tuple(dict.fromkeys(names)))

    def __bool__(self) -> bool:
        return bool(self.topics) or self.pattern is not None

    def matching(self, known: Iterable[str]) -> list[str]:
        """The subscribed topics among the known ones; a pattern must match the whole name, and
        internal topics (`__...`) only without `exclude_internal`.
        """
        if self.pattern is None:
            return list(self.topics)
        pattern = self.pattern
        hidden = ("__",) if self.exclude_internal else ()
        return [t for t in known if pattern.matches(t) and not t.startswith(hidden)]


def _text(pattern: str | re.Pattern[str]) -> str:
    """A pattern's text; what `re` compiled is matched by this module's own rules."""
    if isinstance(pattern, str):
        return pattern
    if not isinstance(pattern, re.Pattern) or not isinstance(pattern.pattern, str):
        raise errors.InvalidRegularExpression(f"{pattern!r}: give a pattern as a text")
    if pattern.flags & ~(re.UNICODE | re.ASCII | re.IGNORECASE):
        raise errors.InvalidRegularExpression(
            f"{pattern.pattern!r}: of the flags of re, IGNORECASE alone is taken"
        )
    return ("(?i)" if pattern.flags & re.IGNORECASE else "") + pattern.pattern


def check_topic(name: object) -> None:
    """InvalidTopic for what no topic can be called: it must not come near a server."""
    if not isinstance(name, str) or not name:
        raise errors.InvalidTopic(f"a topic must be a text that is not empty, not {name!r}")
    fault = topic_name_fault(name)
    if fault is not None:
        raise errors.InvalidTopic(fault)


def one_partition(given: TopicPartition | tuple[str, int]) -> TopicPartition:
    """A TopicPartition out of what callers give; InvalidRequest when it is none."""
    if isinstance(given, tuple) and len(given) == 2:
        topic, partition = given
        number = whole_or_none(partition, 0, INT_MAX)
        if isinstance(topic, str) and number is not None:
            check_topic(topic)
            return TopicPartition(topic, number)
    raise errors.InvalidRequest(
        f"{given!r} is not a partition; give TopicPartition(topic, number) or (topic, number)"
    )


def some_partitions(given: Iterable[Partitions]) -> list[TopicPartition]:
    """Partitions out of arguments that may each be one or several."""
    chosen: dict[TopicPartition, None] = {}
    for item in given:
        if isinstance(item, tuple) and item and isinstance(item[0], str):
            chosen[one_partition(item)] = None
        elif isinstance(item, Iterable) and not isinstance(item, str | bytes):
            for inner in item:
                chosen[one_partition(inner)] = None  # type: ignore[arg-type]
        else:
            one_partition(item)  # raises
    return list(chosen)


def seek_target(tp: TopicPartition, given: int | OffsetAndMetadata) -> tuple[int, int | None]:
    """The offset, and the leader epoch where it is told; OffsetOutOfRange for what is none."""
    offset, epoch = given, None
    if isinstance(given, OffsetAndMetadata):
        offset, epoch = given.offset, given.leader_epoch
    number = whole_or_none(offset, 0)
    if number is None:
        raise errors.OffsetOutOfRange(
            f"{tp}: seek to offset {shown(offset)}; it must be from 0 to {LONG_MAX}"
        )
    return number, epoch


def times_by_partition(given: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Times to look up; InvalidTimestamp for one below 0."""
    times: dict[TopicPartition, int] = {}
    shape = "{TopicPartition(topic, number): milliseconds since 1970}"
    for key, timestamp in mapping(given, "times", shape).items():
        tp = one_partition(key)
        number = whole_or_none(timestamp, 0, math.inf)
        if number is None:
            raise errors.InvalidTimestamp(
                f"{tp}: time {shown(timestamp)}; it must be 0 or more, in milliseconds since "
                f"1970. For the ends use beginning_offsets() and end_offsets()"
            )
        times[tp] = number
    return times


def is_single(partitions: tuple[Partitions, ...]) -> bool:
    """Whether the caller named exactly one partition, not a collection."""
    if len(partitions) != 1:
        return False
    given = partitions[0]
    return isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], str)
