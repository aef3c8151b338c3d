"""Numbers over time, in bounded memory. Pure."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from pylog.model import TopicDescription, TopicPartition

POINTS_MAX: Final = 240
SERIES_MAX: Final = 3_000
"""Topics, or groups, whose course is kept: some 12 MB at most."""
EVENTS_MAX: Final = 300

KeyT = TypeVar("KeyT", bound=Hashable)


class Series:
    """Points of a number over time.

    When it is full it forgets every other point and from then on takes only every other one, so it
    always reaches back to its beginning, and its points stand equally far apart.
    """

    __slots__ = ("_at", "_seen", "_step", "_values")

    def __init__(self) -> None:
        self._at = array("q")
        self._values = array("d")
        self._step = 1
        self._seen = 0

    def add(self, at_ms: int, value: float) -> None:
        """One more point."""
        self._seen += 1
        if self._seen % self._step:
            return
        if len(self._at) >= POINTS_MAX:
            self._at, self._values = self._at[1::2], self._values[1::2]
            self._step *= 2
            if self._seen % self._step:
                return
        self._at.append(at_ms)
        self._values.append(value)

    def points(self) -> list[tuple[int, float]]:
        """(time, value), the oldest first."""
        return list(zip(self._at, self._values, strict=True))


class Courses(Generic[KeyT]):
    """A series for each of many things; those that are gone are forgotten."""

    def __init__(self) -> None:
        self._series: dict[KeyT, Series] = {}

    def add(self, at_ms: int, values: Mapping[KeyT, float]) -> None:
        """The numbers of one moment."""
        for key in self._series.keys() - values.keys():
            del self._series[key]
        for key, value in values.items():
            series = self._series.get(key)
            if series is None:
                if len(self._series) >= SERIES_MAX:
                    continue
                series = self._series[key] = Series()
            series.add(at_ms, value)

    def of(self, key: KeyT) -> list[tuple[int, float]]:
        """The points of one thing; none where nothing is known."""
        series = self._series.get(key)
        return [] if series is None else series.points()


def rates(
    before: Mapping[TopicPartition, int], now: Mapping[TopicPartition, int], elapsed_ms: int
) -> dict[str, float]:
    """Growth a second by topic, of the ends of partitions (records), or of their sizes (bytes), at
    two moments. A partition that was not there before, or that shrank, counts as still.
    """
    moved: dict[str, int] = {}
    for tp, end in now.items():
        step = max(end - before.get(tp, end), 0)
        moved[tp.topic] = moved.get(tp.topic, 0) + step
    return {topic: count * 1000 / max(elapsed_ms, 1) for topic, count in moved.items()}


@dataclass(frozen=True, slots=True)
class Change:
    """Something that happened in the cluster, in words."""

    at_ms: int
    kind: str
    text: str


class Changes:
    """The newest changes that were seen."""

    def __init__(self) -> None:
        self._events: deque[Change] = deque(maxlen=EVENTS_MAX)

    def add(self, at_ms: int, kind: str, text: str) -> None:
        """One more."""
        self._events.append(Change(at_ms, kind, text))

    def __iter__(self) -> Iterator[Change]:
        """The newest first."""
        return iter(list(reversed(self._events)))


def partition_changes(
    before: Mapping[str, TopicDescription],
    now: Mapping[str, TopicDescription],
    tell: Callable[[str, str], None],
) -> None:
    """Tell (kind, text) of each election, of each ISR that changed, of topics made and deleted."""
    for name in now.keys() - before.keys():
        tell("topic", f"topic {name} was created")
    for name in before.keys() - now.keys():
        tell("topic", f"topic {name} was deleted")
    for name in now.keys() & before.keys():
        if now[name] is before[name] or now[name].partitions == before[name].partitions:
            continue
        for old, new in zip(before[name].partitions, now[name].partitions, strict=False):
            place = f"{name}-{new.partition}"
            if old.leader != new.leader:
                tell("election", f"{place}: leader {_or_none(old.leader)}, now "
                     f"{_or_none(new.leader)} (leader epoch {new.leader_epoch})")  # fmt: skip
            if set(old.isr) != set(new.isr):
                tell("ISR", f"{place}: ISR {_ids(old.isr)}, now {_ids(new.isr)}")


def _or_none(leader: int | None) -> str:
    return "none" if leader is None else str(leader)


def _ids(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, sorted(brokers))) or "none"
