"""The topics that a consumer reads."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from pylog import errors
from pylog.client.arguments import several
from pylog.client.topics_and_partitions import check_topic
from pylog.topic_patterns import TopicPattern, topic_pattern

INTERNAL: Final = "__"
"""Names of internal topics begin with it."""
REGEX_CHARS_MAX: Final = 8_000
"""The subscription in the form that a coordinator takes."""


@dataclass(slots=True)
class Subscription:
    """Topics by name or by pattern; false when there is neither (manual assignment).

    `seen` are the topics whose partitions were assigned: what they get later is new.
    """

    topics: tuple[str, ...] = ()
    pattern: TopicPattern | None = None
    seen: set[str] = field(default_factory=set)
    exclude_internal: bool = True
    regex: str = ""
    """The pattern for a coordinator to match; empty: this consumer matches it, as `re` compiled it,
    or as it is longer than what a coordinator takes.
    """

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
            regex = _regex(pattern, exclude_internal) if isinstance(pattern, str) else ""
            return cls(pattern=chosen, exclude_internal=exclude_internal, regex=regex)
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
        hidden = (INTERNAL,) if self.exclude_internal else ()
        return [t for t in known if pattern.matches(t) and not t.startswith(hidden)]


def _regex(pattern: str, exclude_internal: bool) -> str:
    """The same for a coordinator, which leaves no topic out by itself."""
    if exclude_internal:
        begins_with_lookahead = pattern.startswith(("^(?!", "^(?="))
        rest = pattern[1:] if begins_with_lookahead else f"(?:{pattern})"
        pattern = f"^(?!{INTERNAL}){rest}"
        try:
            topic_pattern(pattern)
        except errors.InvalidRegularExpression:
            return ""
    return pattern if len(pattern) <= REGEX_CHARS_MAX else ""


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
