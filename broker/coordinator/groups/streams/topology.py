"""Whether a topology can run on the topics that there are, and the tasks that it has then. Pure.

Source topics belong to the user, and must exist. Repartition and changelog topics are internal:
their numbers of partitions follow from the source topics, and the controller creates those that
are missing. A repartition topic without a number of its own gets the largest one of the source
topics of the subtopologies that write to it; topics that are read together (a copartition group)
have the same number. A changelog topic has a partition for each task of its subtopology.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from pylog.errors import StreamsInvalidTopology
from pylog_broker.coordinator.generated.streams_group_topology import (
    CopartitionGroup,
    StreamsGroupTopologyValue,
    Subtopology,
    TopicInfo,
)
from pylog_broker.coordinator.groups.consumer.topics import Topics, metadata_hash
from pylog_broker.coordinator.groups.streams.messages import Status, StatusCode
from pylog_broker.coordinator.groups.streams.tasks import TaskId

TASKS_MAX: Final = 20_000
"""The most tasks of one group: the records of all its targets are one append."""
NAMED_MAX: Final = 3
"""So many topics are named in a status."""


@dataclass(frozen=True, slots=True)
class ConfiguredTopology:
    """A topology on the topics that there are."""

    tasks: dict[str, int] = field(default_factory=dict)
    """The number of tasks of each subtopology; of none while the topology cannot run."""
    stateful: frozenset[str] = frozenset()
    """Subtopologies that keep state."""
    partition_counts: dict[str, int] = field(default_factory=dict)
    """The partition counts of all topics that are read."""
    to_create: tuple[TopicInfo, ...] = ()
    status: Status | None = None
    """The reason why the topology cannot run."""
    topics_hash: int = 0
    """The hash of the topics that the topology needs, as far as they exist."""

    @property
    def is_ready(self) -> bool:
        """Whether its tasks may be assigned."""
        return self.status is None

    def has(self, task: TaskId) -> bool:
        """Whether that is one of its tasks."""
        return 0 <= task.partition < self.tasks.get(task.subtopology_id, 0)


class _Unfit(Exception):
    """The topics are not as the topology needs them."""

    def __init__(self, code: StatusCode, detail: str) -> None:
        super().__init__(detail)
        self.status = Status(code, detail)


def required_topics(topology: StreamsGroupTopologyValue) -> set[str]:
    """The names of all topics that it reads, and of those in which it keeps state."""
    names: set[str] = set()
    for each in topology.subtopologies:
        names.update(each.source_topics)
        names.update(topic.name for topic in each.repartition_source_topics)
        names.update(topic.name for topic in each.state_changelog_topics)
    return names


def source_topics(topology: StreamsGroupTopologyValue) -> set[str]:
    """The names of all topics that it reads, internal ones too."""
    names: set[str] = set()
    for each in topology.subtopologies:
        names.update(each.source_topics)
        names.update(topic.name for topic in each.repartition_source_topics)
    return names


def parts_by_topic(topology: StreamsGroupTopologyValue) -> dict[str, str]:
    """The id of the subtopology that reads each topic."""
    parts: dict[str, str] = {}
    for each in topology.subtopologies:
        read = (*each.source_topics, *(topic.name for topic in each.repartition_source_topics))
        parts |= dict.fromkeys(read, each.subtopology_id)
    return parts


def configured(topology: StreamsGroupTopologyValue, topics: Topics) -> ConfiguredTopology:
    """The topology on these topics. Raises StreamsInvalidTopology where no topics could do."""
    needed = map(topics.topic, sorted(required_topics(topology)))
    topics_hash = metadata_hash(topic for topic in needed if topic is not None)
    try:
        return replace(_configured(topology.subtopologies, topics), topics_hash=topics_hash)
    except _Unfit as unfit:
        return ConfiguredTopology(status=unfit.status, topics_hash=topics_hash)


def _configured(subtopologies: tuple[Subtopology, ...], topics: Topics) -> ConfiguredTopology:
    counts = _source_counts(subtopologies, topics)
    internal = {
        topic.name: topic for each in subtopologies for topic in each.repartition_source_topics
    }
    decided = _decided_counts(subtopologies, internal, counts)
    for each in subtopologies:
        for group in each.copartition_groups:
            _copartition(_names_of(each, group), internal, counts, decided)
    counts |= decided
    tasks = {each.subtopology_id: _task_count(each, counts) for each in subtopologies}
    if (total := sum(tasks.values())) > TASKS_MAX:
        raise StreamsInvalidTopology(
            f"the topology has {total} tasks on these topics; the limit of a group is {TASKS_MAX}"
        )
    wanted = {name: topic._replace(partitions=decided[name]) for name, topic in internal.items()}
    for each in subtopologies:
        for topic in each.state_changelog_topics:
            wanted[topic.name] = topic._replace(partitions=tasks[each.subtopology_id])
    to_create = _missing(wanted, topics)
    status = None
    if to_create:
        detail = f"Internal topics are missing: {_some(topic.name for topic in to_create)}"
        status = Status(StatusCode.MISSING_INTERNAL_TOPICS, detail)
    stateful = frozenset(
        each.subtopology_id for each in subtopologies if each.state_changelog_topics
    )
    return ConfiguredTopology(tasks, stateful, counts, to_create, status)


def _source_counts(subtopologies: tuple[Subtopology, ...], topics: Topics) -> dict[str, int]:
    """The partitions of the user's topics."""
    counts = {}
    missing = set()
    for each in subtopologies:
        for name in each.source_topics:
            found = topics.topic(name)
            if found is None:
                missing.add(name)
            else:
                counts[name] = found.partition_count
    if missing:
        raise _Unfit(
            StatusCode.MISSING_SOURCE_TOPICS, f"Source topics {_some(sorted(missing))} are missing."
        )
    return counts


def _decided_counts(
    subtopologies: tuple[Subtopology, ...],
    internal: dict[str, TopicInfo],
    counts: dict[str, int],
) -> dict[str, int]:
    """The partitions of repartition topics: as they say, or as what is written to them has."""
    decided = {name: topic.partitions for name, topic in internal.items() if topic.partitions}
    open_names = [name for name in internal if name not in decided]
    while open_names:
        before = len(open_names)
        for name in open_names:
            upstream = [
                counts.get(source) or decided.get(source)
                for each in subtopologies
                if name in each.repartition_sink_topics
                for source in (
                    *each.source_topics,
                    *(topic.name for topic in each.repartition_source_topics),
                )
            ]
            known = [count for count in upstream if count]
            if known:
                decided[name] = max(known)
        open_names = [name for name in open_names if name not in decided]
        if len(open_names) == before:
            raise StreamsInvalidTopology(
                f"the number of partitions of repartition topics {_some(sorted(open_names))} "
                "follows from nothing: no subtopology that writes to them reads a topic whose "
                "number is known"
            )
    return decided


def _names_of(subtopology: Subtopology, group: CopartitionGroup) -> set[str]:
    repartition = subtopology.repartition_source_topics
    try:
        return {
            *(subtopology.source_topics[number] for number in group.source_topics),
            *(repartition[number].name for number in group.repartition_source_topics),
        }
    except IndexError:
        raise StreamsInvalidTopology(
            f"a copartition group of subtopology {subtopology.subtopology_id!r} names a topic by a "
            "number that the subtopology does not have"
        ) from None


def _copartition(
    names: Collection[str],
    internal: dict[str, TopicInfo],
    counts: dict[str, int],
    decided: dict[str, int],
) -> None:
    """All of these get the same number of partitions."""
    external = {name: counts[name] for name in names if name not in internal}
    fixed = {name: internal[name].partitions for name in names if name in internal}
    fixed = {name: count for name, count in fixed.items() if count}
    given = external or fixed
    if not given:
        given = {"": max(decided[name] for name in names)} if names else {}
    if len(set(given.values())) > 1:
        told = ", ".join(f"{name}={count}" for name, count in sorted(given.items()))
        what = (
            "Topics not co-partitioned"
            if external
            else ("Following topics do not have the same number of partitions")
        )
        raise _Unfit(StatusCode.INCORRECTLY_PARTITIONED_TOPICS, f"{what}: [{told}]")
    for count in given.values():
        for name in names:
            if name in fixed and fixed[name] != count:
                raise _Unfit(
                    StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                    f"Number of partitions [{fixed[name]}] of repartition topic [{name}] doesn't "
                    f"match number of partitions [{count}] of the source topic.",
                )
            if name in internal:
                decided[name] = count


def _task_count(subtopology: Subtopology, counts: dict[str, int]) -> int:
    read = (
        *subtopology.source_topics,
        *(topic.name for topic in subtopology.repartition_source_topics),
    )
    if not read:
        raise StreamsInvalidTopology(f"subtopology {subtopology.subtopology_id!r} reads no topics")
    return max(counts[name] for name in read)


def _missing(wanted: dict[str, TopicInfo], topics: Topics) -> tuple[TopicInfo, ...]:
    missing = []
    for name in sorted(wanted):
        found = topics.topic(name)
        if found is None:
            missing.append(wanted[name])
        elif found.partition_count != wanted[name].partitions:
            raise _Unfit(
                StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                f"Existing topic {name} has different number of partitions: expected "
                f"{wanted[name].partitions}, found {found.partition_count}",
            )
    return tuple(missing)


def _some(names: Iterable[str]) -> str:
    all_names = list(names)
    more = len(all_names) - NAMED_MAX
    shown = ", ".join(all_names[:NAMED_MAX])
    return f"{shown} and {more} additional topics" if more > 0 else shown
