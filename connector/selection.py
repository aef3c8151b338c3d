"""The topics and partitions that a source reads: `subscribe`, `subscribePattern` or `assign`. Pure.

A pattern is searched for anywhere in a name, not matched against the whole of it, because that is
what Spark's Kafka connector does: `a.` finds `xab`. Internal topics are never found by a pattern.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pylog.model import topic_name_fault
from pylog.topic_patterns import topic_pattern
from pylog_connector.errors import InvalidOption
from pylog_connector.values import INT_MAX, json_object, shown

_ASSIGN_REMEDY: Final = 'use JSON with lists of partitions, like {"topic":[0,1]}'


@dataclass(frozen=True, slots=True)
class Selection:
    """The topics that are read: `topics` by name (sorted), those that `pattern` finds, or those of
    `partitions`, of which only these are. `numbers`: of each topic only the partitions of these
    numbers, where it has them.
    """

    option: str
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: Mapping[str, tuple[int, ...]] | None = None
    numbers: frozenset[int] | None = None

    def covers(self, topic: str, partition: int | None = None) -> bool:
        """Whether a topic, or one partition of it, is among what is read."""
        if self.numbers is not None and partition is not None and partition not in self.numbers:
            return False
        if self.pattern is not None:
            return topic_pattern(self.pattern).finds(topic)
        if topic not in self.topics:
            return False
        if self.partitions is None or partition is None:
            return True
        return partition in self.partitions[topic]

    def found(self, topic: str, *, internal: bool) -> bool:
        """Whether a pattern finds a topic of the cluster."""
        return not internal and self.covers(topic)

    def chosen(self, topic: str, count: int) -> tuple[int, ...]:
        """The partitions to read of a topic that has `count` of them."""
        if self.numbers is not None:
            return tuple(p for p in sorted(self.numbers) if p < count)
        if self.partitions is None:
            return tuple(range(count))
        return tuple(p for p in self.partitions[topic] if p < count)

    def absent(self, counts: Mapping[str, int]) -> tuple[str, ...]:
        """Assigned partitions that do not exist, of topics that have `counts` partitions."""
        return tuple(
            f"{topic}-{p}"
            for topic, partitions in sorted((self.partitions or {}).items())
            if topic in counts
            for p in partitions
            if p >= counts[topic]
        )

    def grows(self) -> bool:
        """Whether every partition that is added later is read as well."""
        return self.partitions is None and self.numbers is None

    def among(self, existing: Iterable[str], known: Iterable[str]) -> Sequence[str]:
        """The topics that a batch is about: those named, or found now or known from before."""
        if self.pattern is None:
            return self.topics
        return sorted({*existing, *(topic for topic in known if self.covers(topic))})

    def __str__(self) -> str:
        what = repr(self.pattern) if self.pattern is not None else ", ".join(self.topics)
        narrowed = "" if self.numbers is None else ", narrowed by partitions"
        return f"{self.option} {what}{narrowed}"


def by_names(topics: Iterable[str]) -> Selection:
    """`subscribe`."""
    return Selection("subscribe", tuple(sorted(topics)))


def by_pattern(regex: str) -> Selection:
    """`subscribePattern`, a regular expression that `topic_pattern` takes."""
    return Selection("subscribePattern", pattern=regex)


def by_partitions(text: str) -> Selection:
    """`assign`: JSON of topics with lists of partitions; InvalidOption tells the path."""
    if not text.strip().startswith("{"):
        raise InvalidOption(f"assign={shown(text)}: {_ASSIGN_REMEDY}")
    partitions: dict[str, tuple[int, ...]] = {}
    for topic, listed in json_object("assign", text, _ASSIGN_REMEDY).items():
        fault = topic_name_fault(topic)
        if fault is not None:
            raise InvalidOption(f"assign.{topic}: {fault}")
        partitions[topic] = _listed(topic, listed)
    return Selection("assign", tuple(sorted(partitions)), partitions=partitions)


def _listed(topic: str, listed: Any) -> tuple[int, ...]:
    path = f"assign.{topic}"
    if not isinstance(listed, list) or not listed:
        raise InvalidOption(f"{path}={shown(listed)}: {_ASSIGN_REMEDY}")
    for partition in listed:
        if (
            not isinstance(partition, int)
            or isinstance(partition, bool)
            or not 0 <= partition <= INT_MAX
        ):
            raise InvalidOption(
                f"{path}={shown(listed)}: a partition is a whole number of at least 0; "
                f"{_ASSIGN_REMEDY}"
            )
    return tuple(sorted(set(listed)))
