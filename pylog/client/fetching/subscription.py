"""Which topics a consumer reads."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from pylog import errors
from pylog.client.arguments import several
from pylog.client.topics_and_partitions import check_topic
from pylog.topic_patterns import TopicPattern, topic_pattern


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
