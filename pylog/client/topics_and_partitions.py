"""The forms in which callers may name topics, partitions and offsets in them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from pylog import errors
from pylog.client.arguments import mapping, shown, whole_or_none
from pylog.config import INT_MAX, LONG_MAX
from pylog.model import OffsetAndMetadata, TopicPartition, topic_name_fault
from pylog.plain_text import is_text

Partitions = TopicPartition | tuple[str, int] | Iterable[TopicPartition | tuple[str, int]]
"""One partition, or several."""


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


def offsets_of(given: object) -> dict[TopicPartition, OffsetAndMetadata]:
    """Offsets that a user gives to commit: by partition an offset, or an OffsetAndMetadata."""
    shape = "{TopicPartition(topic, number): the next offset to read}"
    found: dict[TopicPartition, OffsetAndMetadata] = {}
    for key, value in mapping(given, "offsets", shape).items():
        tp = one_partition(key)
        committed = value if isinstance(value, OffsetAndMetadata) else OffsetAndMetadata(value)
        number = whole_or_none(committed.offset, 0)
        if number is None:
            raise errors.OffsetOutOfRange(
                f"{tp}: offset {shown(committed.offset)} cannot be committed; give a whole number "
                f"from 0 on, that of the next record to read"
            )
        check_metadata(tp, committed)
        found[tp] = committed._replace(offset=number)
    return found


def check_metadata(tp: TopicPartition, position: OffsetAndMetadata) -> None:
    """InvalidRequest for what cannot be committed with an offset."""
    if not is_text(position.metadata):
        raise errors.InvalidRequest(
            f"{tp}: metadata={shown(position.metadata)}: give a text in UTF-8"
        )
