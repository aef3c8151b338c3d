"""Topics by regular expression: which names match, for the groups of one shard. Pure.

Names are matched by RE2 in time linear in their length, whatever the expression. A cluster may have
a hundred thousand of them, so they are looked at in slices, one in a turn of the coordinator, and
requests are answered in between. All names are looked at when a group has a new expression, and
when a coordinator has just loaded it; else only those of topics that were created or deleted.

The names found are a record of the group for each expression, so that a new coordinator assigns the
same topics as the one before it. Its version is 0: a coordinator that loads it looks at the names
again.

Not here: what the group makes of it (`consumer.protocol`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from pylog.topic_patterns import topic_pattern
from pylog_broker.coordinator.generated.consumer_group_regular_expression import (
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
)
from pylog_broker.coordinator.groups.consumer.group import ConsumerGroup, ConsumerMember
from pylog_broker.coordinator.runtime.decision import Record

MATCHES_A_TURN: Final = 4_000
"""Names times expressions: some milliseconds."""


@dataclass(slots=True)
class _Search:
    """Names that are still to be looked at, and what was found so far."""

    pending: deque[str]
    found: dict[str, set[str]]
    """By expression; one that is not here has come since the search began."""


class RegexSearches:
    """The searches that are under way, one for a group at most. None but the coordinator that has
    begun them knows of them.
    """

    def __init__(self) -> None:
        self._searches: dict[str, _Search] = {}

    def begin(self, group: ConsumerGroup, names: Iterable[str]) -> None:
        """Look at all these names, and forget what was found before."""
        found = {regex: set[str]() for regex in regexes_of(group.members.values())}
        self._searches[group.group_id] = _Search(deque(names), found)

    def look_at(self, group: ConsumerGroup, names: Iterable[str]) -> None:
        """Topics of these names were created, or are gone."""
        search = self._searches.get(group.group_id)
        if search is None:
            found = {regex: set(topics) for regex, topics in group.resolved.items()}
            search = self._searches[group.group_id] = _Search(deque(), found)
        search.pending.extend(names)

    def forget(self, group_id: str) -> None:
        """The group needs none any more."""
        self._searches.pop(group_id, None)

    def advance(
        self, group: ConsumerGroup, existing: Collection[str]
    ) -> Mapping[str, frozenset[str]] | None:
        """Look at the next slice. The topics of each of the group's expressions; None while names
        are left. Nothing where no search is under way, or one that does not know all expressions.
        """
        search = self._searches.get(group.group_id)
        if search is None:
            return {}
        patterns = {regex: topic_pattern(regex) for regex in regexes_of(group.members.values())}
        if not patterns.keys() <= search.found.keys():
            del self._searches[group.group_id]
            return {}
        for _ in range(min(len(search.pending), MATCHES_A_TURN // max(len(patterns), 1) + 1)):
            name = search.pending.popleft()
            exists = name in existing
            for regex, pattern in patterns.items():
                found = search.found[regex]
                if exists and pattern.matches(name):
                    found.add(name)
                else:
                    found.discard(name)
        if search.pending:
            return None
        del self._searches[group.group_id]
        return {regex: frozenset(search.found[regex]) for regex in patterns}


def regexes_of(members: Iterable[ConsumerMember]) -> list[str]:
    """The expressions by which these subscribe, each once, in order."""
    return sorted({member.regex for member in members if member.regex})


def regex_record(group_id: str, regex: str, topics: frozenset[str], wall_ms: int) -> Record:
    """These topics match."""
    value = ConsumerGroupRegularExpressionValue(tuple(sorted(topics)), 0, wall_ms)
    return Record(ConsumerGroupRegularExpressionKey(group_id, regex), value)


def unused_regexes(group: ConsumerGroup, members: Iterable[ConsumerMember]) -> list[Record]:
    """Tombstones of all expressions that none of `members` uses, where these are the group's
    members."""
    used = regexes_of(members)
    return [
        Record(ConsumerGroupRegularExpressionKey(group.group_id, regex), None)
        for regex in sorted(group.resolved)
        if regex not in used
    ]
