"""The start and the end of a read, as options say them: `earliest`, `latest`, offsets or times.

Pure: text to values, and values against what the cluster has. The JSON is Spark's Kafka
connector's: `{"topic":{"0":23,"1":-2}}`, where -2 means earliest and -1 latest; for a whole topic
also `{"topic":"earliest"}`. An offset as the query's progress shows it (`pylog_connector.offsets`)
is taken for `startingOffsets` as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pylog.config import LONG_MAX
from pylog.model import TopicPartition
from pylog_connector.errors import InvalidOption, NoOffsetAtTime, UnknownTopic
from pylog_connector.offsets import VERSION
from pylog_connector.values import INT_MAX, json_object, shown, whole_number

EARLIEST: Final = -2
LATEST: Final = -1

Positions = int | Mapping[str, int | Mapping[int, int]]
"""A number for every partition, or by topic, or by topic and partition; `EARLIEST` and `LATEST`
have their meaning for offsets and for times."""

Found = Mapping[tuple[TopicPartition, int], int]
"""The offset of each time that was looked up, -1 where no record is that late."""

_OFFSETS: Final = (
    'use earliest, latest, or JSON like {"topic":{"0":23,"1":-2}} (-2 earliest, -1 latest)'
)
_STARTS: Final = _OFFSETS.replace("latest, or", "latest, committed:<group>, or")
_TIMES: Final = 'use JSON with milliseconds since 1970, like {"topic":{"0":1700000000000}}'
_TIME: Final = "give milliseconds since 1970, or -2 for earliest, -1 for latest"


@dataclass(frozen=True, slots=True)
class Bound:
    """A start or an end. `times`: the values are milliseconds since 1970 instead of offsets;
    `lenient`: where no record is that late, the partition's end is meant. `group`: whose committed
    offsets these are (`pylog_connector.committed`), with the leader `epochs` of their records.
    """

    option: str
    values: Positions
    times: bool = False
    lenient: bool = False
    group: str | None = None
    epochs: Mapping[TopicPartition, int] = field(default_factory=dict)

    def named(self, at: TopicPartition, offset: int) -> str:
        """An offset that was chosen for a partition, for an error's text."""
        if self.group is not None:
            return f"{self.option}, whose committed offset in {at} is {offset}"
        return f'{self.option}.{at.topic}."{at.partition}"={offset}'

    def at(self, topic: str, partition: int) -> int:
        """The value for one partition."""
        if isinstance(self.values, int):
            return self.values
        found = self.values[topic]
        return found if isinstance(found, int) else found[partition]

    def rule(self, topic: str) -> int | None:
        """The value for all partitions of a topic, also those to come; None: each has its own."""
        if isinstance(self.values, int):
            return self.values
        found = self.values.get(topic)
        return found if isinstance(found, int) else None

    def queries(self, assigned: Mapping[str, Sequence[int]]) -> list[tuple[TopicPartition, int]]:
        """The times that must be looked up, of partitions that `check` has passed."""
        if not self.times:
            return []
        return [
            (TopicPartition(topic, p), self.at(topic, p))
            for topic, partitions in sorted(assigned.items())
            for p in partitions
            if self.at(topic, p) >= 0
        ]

    def offset(self, at: TopicPartition, found: Found) -> int:
        """The offset for one partition, `EARLIEST` or `LATEST`.

        NoOffsetAtTime where no record is that late and that is not allowed.
        """
        value = self.at(*at)
        if not self.times or value < 0:
            return value
        offset = found[at, value]
        if offset >= 0:
            return offset
        if self.lenient:
            return LATEST
        raise NoOffsetAtTime(
            f"{self.option}={value}: {at} has no record of that time or later; give an earlier "
            "time, or set startingOffsetsByTimestampStrategy=latest to start at its end"
        )

    def check(self, assigned: Mapping[str, Sequence[int]], selected: str) -> None:
        """That JSON names exactly the partitions that are read.

        UnknownTopic or InvalidOption with the path of the first one too many or missing. A missing
        partition is not given a default: nobody would see that records were skipped or read again.
        """
        if isinstance(self.values, int):
            return
        for topic, values in self.values.items():
            if topic not in assigned:
                raise UnknownTopic(
                    f"{self.option}.{topic}: the topic is not among those that are read "
                    f"({', '.join(sorted(assigned)) or 'none'}, by {selected}); take it out, or "
                    "read it as well"
                )
            for partition in () if isinstance(values, int) else values:
                if partition not in assigned[topic]:
                    raise InvalidOption(
                        f'{self.option}.{topic}."{partition}": the partition is not among those '
                        f"that are read ({_listed(assigned[topic])}); take it out"
                    )
        for topic, partitions in assigned.items():
            if topic not in self.values:
                raise InvalidOption(
                    f"{self.option}.{topic} is missing: JSON must name every topic and partition "
                    "that is read (-2 earliest, -1 latest)"
                )
            values = self.values[topic]
            for partition in partitions:
                if not isinstance(values, int) and partition not in values:
                    raise InvalidOption(
                        f'{self.option}.{topic}."{partition}" is missing: JSON must name every '
                        "partition (-2 earliest, -1 latest)"
                    )

    def where(self, meaning: int) -> str | None:
        """The JSON path at which `meaning` (`EARLIEST` or `LATEST`) occurs, empty for everywhere;
        None: nowhere. For checks like "a batch cannot start at latest".
        """
        if isinstance(self.values, int):
            return "" if self.values == meaning else None
        for topic, values in self.values.items():
            if isinstance(values, int):
                if values == meaning:
                    return f".{topic}"
                continue
            for partition, value in values.items():
                if value == meaning:
                    return f'.{topic}."{partition}"'
        return None


def _listed(partitions: Sequence[int]) -> str:
    if len(partitions) > 20:
        return f"{partitions[0]} to {partitions[-1]}"
    return ", ".join(map(str, partitions))


def offsets_bound(option: str, text: str) -> Bound:
    """`earliest`, `latest` or JSON; InvalidOption names option and path of what is wrong."""
    word = text.strip()
    if word.lower() == "earliest":
        return Bound(option, EARLIEST)
    if word.lower() == "latest":
        return Bound(option, LATEST)
    if not word.startswith("{"):
        words = _STARTS if option == "startingOffsets" else _OFFSETS
        raise InvalidOption(f"{option}={shown(text)}: {words}")
    value = json_object(option, word, _OFFSETS)
    if _is_progress(value):
        if value["v"] != VERSION:
            raise InvalidOption(
                f"{option}.v={value['v']}: this connector knows version {VERSION} of a query's "
                'offsets; write {"topic":{"0":23}}'
            )
        value = {topic: _plain(option, topic, at) for topic, at in _topics(value).items()}
    return Bound(
        option, {topic: _by_partition(option, topic, v, "offset") for topic, v in value.items()}
    )


def times_bound(option: str, text: str, *, lenient: bool) -> Bound:
    """JSON of milliseconds since 1970 by topic and partition; InvalidOption as above."""
    word = text.strip()
    if not word.startswith("{"):
        raise InvalidOption(f"{option}={shown(text)}: {_TIMES}")
    value = json_object(option, word, _TIMES)
    values = {topic: _by_partition(option, topic, v, "time") for topic, v in value.items()}
    return Bound(option, values, times=True, lenient=lenient)


def time_bound(option: str, text: str, *, lenient: bool) -> Bound:
    """One time for all partitions; -2 and -1 mean earliest and latest, as in Spark's connector."""
    number = whole_number(text.strip())
    if number is None or not EARLIEST <= number <= LONG_MAX:
        raise InvalidOption(f"{option}={shown(text)}: {_TIME}")
    return Bound(option, number, times=True, lenient=lenient)


def _is_progress(value: Mapping[str, object]) -> bool:
    """Whether it is this connector's own offset: a version, and topics that have ids."""
    version = value.get("v")
    number = isinstance(version, int) and not isinstance(version, bool)
    return number and isinstance(value.get("t"), dict)


def _topics(value: Mapping[str, object]) -> dict[str, object]:
    topics = value["t"]
    assert isinstance(topics, dict)
    return topics


def _plain(option: str, topic: str, position: object) -> object:
    """`{"id":...,"p":{"0":{"e":1,"o":23}}}` as `{"0":23}`."""
    if isinstance(position, dict) and isinstance(position.get("p"), dict):
        partitions = position["p"]
        if all(isinstance(at, dict) and "o" in at for at in partitions.values()):
            return {key: at["o"] for key, at in partitions.items()}
    raise InvalidOption(
        f"{option}.t.{topic}={shown(position)}: copy the offset whole from the query's progress, "
        'or write {"topic":{"0":23}}'
    )


def _by_partition(option: str, topic: str, value: object, what: str) -> int | dict[int, int]:
    path = f"{option}.{topic}"
    if isinstance(value, str) and value.strip().lower() in ("earliest", "latest"):
        return EARLIEST if value.strip().lower() == "earliest" else LATEST
    if what == "time" and isinstance(value, int) and not isinstance(value, bool):
        return _number(path, value, what)
    if not isinstance(value, dict) or not value:
        raise InvalidOption(
            f"{path}={shown(value)}: give an object with one {what} for each partition, "
            'like {"0":23,"1":-2}, or "earliest" or "latest" for all of them'
        )
    values = {}
    for key, number in value.items():
        if not (key.isascii() and key.isdigit() and str(int(key[:12])) == key):
            raise InvalidOption(
                f'{path}."{key[:80]}": a partition is a whole number in quotes, like "0"'
            )
        if int(key) > INT_MAX:
            raise InvalidOption(f'{path}."{key}": a partition is at most {INT_MAX}')
        values[int(key)] = _number(f'{path}."{key}"', number, what)
    return values


def _number(path: str, value: object, what: str) -> int:
    allowed = f"{'an offset' if what == 'offset' else 'a time'} is 0 or more"
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidOption(f"{path}={shown(value)}: {allowed}, a whole number")
    if value > LONG_MAX:
        raise InvalidOption(f"{path}={value}: {allowed}, and at most {LONG_MAX}")
    if value < EARLIEST:
        raise InvalidOption(f"{path}={value}: {allowed}; -2 means earliest, -1 latest")
    return value
