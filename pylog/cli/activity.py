"""The activity of a cluster: ends of logs and positions of groups, looked at twice. Pure, but for
`look`.

Rates are what moved between two looks. A topic that was made meanwhile counts from the next look
on, and one that was cut or whose group was set back moves by nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeVar, cast

from pylog import errors
from pylog.clock import SYSTEM_CLOCK
from pylog.model import TopicPartition

if TYPE_CHECKING:
    from pylog.client.admin.admin import AdminClient


T = TypeVar("T")
KeyT = TypeVar("KeyT", bound=Hashable)


class TopicLook(NamedTuple):
    """A topic at one moment. `ends`: by partition, as far as they could be had."""

    ends: Mapping[int, int]
    partitions: int
    offline: int
    under_replicated: int
    replicas: int = 0  # of the partition that has most


class GroupLook(NamedTuple):
    """A group at one moment. `lag`: in records, where it is known; `lag_seconds`: the age of the
    oldest record that it has not passed in any partition; `read`: positions together.
    """

    state: str
    members: int
    lag: int | None
    lag_seconds: float | None
    read: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Look:
    """A cluster at one moment."""

    at_ms: int
    brokers: int
    topics: Mapping[str, TopicLook]
    groups: Mapping[str, GroupLook]


class TopicRow(NamedTuple):
    """`records`: a second, since the look before; None at the first."""

    topic: str
    partitions: int
    offline: int
    under_replicated: int
    records: float | None


class GroupRow(NamedTuple):
    """`records`: that the group moved on by, a second; None at the first look."""

    group: str
    state: str
    members: int
    lag: int | None
    lag_seconds: float | None
    records: float | None


def topic_rows(before: Look | None, now: Look) -> list[TopicRow]:
    """The busiest first."""
    rows = []
    for name, look in now.topics.items():
        old = None if before is None else before.topics.get(name)
        rate = None if before is None or old is None else _rate(before, now, old.ends, look.ends)
        rows.append(TopicRow(name, look.partitions, look.offline, look.under_replicated, rate))
    return sorted(rows, key=lambda row: (-(row.records or 0), row.topic))


def group_rows(before: Look | None, now: Look) -> list[GroupRow]:
    """Groups in order, the one that is furthest behind first."""
    rows = []
    for name, look in now.groups.items():
        old = None if before is None else before.groups.get(name)
        rate = None if before is None or old is None else _rate(before, now, old.read, look.read)
        rows.append(GroupRow(name, look.state, look.members, look.lag, look.lag_seconds, rate))
    return sorted(rows, key=lambda row: (-(row.lag or 0), row.group))


def _rate(before: Look, now: Look, old: Mapping[KeyT, int], new: Mapping[KeyT, int]) -> float:
    moved = sum(max(end - old[key], 0) for key, end in new.items() if key in old)
    return moved / max(now.at_ms - before.at_ms, 1) * 1000


def look(admin: AdminClient, *, internal: bool = False) -> Look:
    """The cluster now. A part that does not answer at the moment is left out.

    Raises what `AdminClient.list_topics` raises.
    """
    brokers = len(admin.describe_cluster().brokers)
    topics = topic_looks(admin, internal=internal)
    return Look(SYSTEM_CLOCK.monotonic_ms(), brokers, topics, _groups(admin))


def topic_looks(admin: AdminClient, *, internal: bool = False) -> dict[str, TopicLook]:
    """The topics now, by name. Raises what `AdminClient.list_topics` raises."""
    described = admin.describe_topics(admin.list_topics(internal=internal))
    led = {
        TopicPartition(topic.name, each.partition): "latest"
        for topic in described.values()
        for each in topic.partitions
        if each.leader is not None
    }
    ends: dict[str, dict[int, int]] = {name: {} for name in described}
    for tp, end in _ends(admin, led).items():
        ends[tp.topic][tp.partition] = end
    return {
        name: TopicLook(
            ends[name],
            len(topic.partitions),
            sum(each.leader is None for each in topic.partitions),
            sum(len(each.isr) < len(each.replicas) for each in topic.partitions),
            max((len(each.replicas) for each in topic.partitions), default=0),
        )
        for name, topic in described.items()
    }


def record_counts(admin: AdminClient, looks: Mapping[str, TopicLook]) -> dict[str, int]:
    """Offsets between the first and the last one, by topic; as far as they can be had."""
    ends = {TopicPartition(n, p): end for n, look in looks.items() for p, end in look.ends.items()}
    firsts = _ends(admin, dict.fromkeys(ends, "earliest"))
    counts: dict[str, int] = {}
    for tp, first in firsts.items():
        counts[tp.topic] = counts.get(tp.topic, 0) + max(ends[tp] - first, 0)
    return counts


def _ends(admin: AdminClient, wanted: Mapping[TopicPartition, str]) -> dict[TopicPartition, int]:
    found = _whole(lambda: admin.list_offsets(wanted) if wanted else {})
    return {tp: end.offset for tp, end in found.items() if end is not None}


def _whole(ask: Callable[[], Mapping[KeyT, T]]) -> Mapping[KeyT, T]:
    """All that could be had."""
    try:
        return ask()
    except errors.PartialFailure as error:
        return cast("Mapping[KeyT, T]", error.results)


def _groups(admin: AdminClient) -> dict[str, GroupLook]:
    states = {listing.group_id: listing.state for listing in admin.list_groups()}
    if not states:
        return {}
    described = _whole(lambda: admin.describe_groups(states))
    lags = _whole(lambda: admin.group_lag(states))
    groups = {}
    for name, state in states.items():
        partitions = lags.get(name, {})
        known = [each.lag for each in partitions.values() if each.lag is not None]
        ages = [each.lag_seconds for each in partitions.values() if each.lag_seconds is not None]
        read = {tp: each.committed.offset for tp, each in partitions.items() if each.committed}
        members = len(described[name].members) if name in described else 0
        lag = sum(known) if known else None
        groups[name] = GroupLook(state, members, lag, max(ages, default=None), read)
    return groups
