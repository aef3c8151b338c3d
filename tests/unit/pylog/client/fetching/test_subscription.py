"""A pattern as a coordinator is told it: what it matches is what the consumer would match."""

from __future__ import annotations

import re

import pytest

from pylog.client.fetching.subscription import REGEX_CHARS_MAX, Subscription
from pylog.topic_patterns import topic_pattern

NAMES = ("t", "t1", "T1", "test-1", "__consumer_offsets", "__t", "a", "b", "ab", "_a")
PATTERNS = (
    "t.*", "^t.*", "^t.*$", ".*", "a|b", "^a|b$", "^(?!test-).*", "^(?!test-)t.*", "(?i)t1",
    "(a)(b)", "^(?=t).*", r"\Qt1\E", "_.*", "__.*",
)  # fmt: skip


@pytest.mark.parametrize("exclude_internal", [True, False])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_coordinator_finds_what_the_consumer_would(pattern: str, exclude_internal: bool) -> None:
    subscription = Subscription.of(None, pattern, exclude_internal=exclude_internal)
    assert subscription.regex
    told = topic_pattern(subscription.regex)
    assert [name for name in NAMES if told.matches(name)] == subscription.matching(NAMES)


def test_a_compiled_or_very_long_pattern_and_names_are_the_consumers_own() -> None:
    assert Subscription.of(None, re.compile("t.*", re.IGNORECASE)).regex == ""
    assert Subscription.of(None, "a" * REGEX_CHARS_MAX).regex == ""
    assert Subscription.of(["t"], None).regex == ""
