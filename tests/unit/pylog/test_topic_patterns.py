"""Patterns of topic names: what they find, that they cannot hang, what is refused."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylog.errors import InvalidRegularExpression
from pylog.topic_patterns import LENGTH_MAX, topic_pattern

NAMES = ["flights", "flights-2024", "test-flights", "a.b", "axb", "A_1", "x", "Flights.old"]


@pytest.mark.parametrize(
    "text",
    [
        "flights", "flights.*", "^flights$", "a.b", r"a\.b", "[A-Z].*", "(a|x).*", ".", "",
        "^(?!test-).*", "^(?!test-|a).+$", "^(?=f)(?!.*old).*", "^(?!.*[.(]).*t", "^(?i)FLIGHTS",
        r"\w+-\d{4}\Z", "(?P<year>[0-9]+)", "flights|x", "[]x]", "[^]x]+",
    ],
)  # fmt: skip
def test_patterns_find_what_python_finds(text: str) -> None:
    pattern = topic_pattern(text)
    twin = re.compile(text if "(?i)" not in text else "(?i)^FLIGHTS")
    for name in NAMES:
        assert pattern.finds(name) == bool(twin.search(name)), name
        assert pattern.matches(name) == bool(twin.fullmatch(name)), name


@given(st.text(alphabet="ab.*+?|()[]^-\\d!=:", max_size=10), st.text(alphabet="ab-.", max_size=8))
def test_a_pattern_is_refused_or_means_what_it_means_to_python(text: str, name: str) -> None:
    try:
        twin = re.compile(text)
        pattern = topic_pattern(text)
    except (re.error, InvalidRegularExpression, FutureWarning):
        return
    assert pattern.finds(name) == bool(twin.search(name))
    assert pattern.matches(name) == bool(twin.fullmatch(name))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (r"^\p{Alpha}+$", ["flights", "axb", "x"]),
        (r"^[\p{Lower}.]+$", ["flights", "a.b", "axb", "x"]),
        (r"\P{Alnum}", ["flights-2024", "test-flights", "a.b", "A_1", "Flights.old"]),
        (r"^\Qa.b\E$", ["a.b"]),
        (r"^\p{Lu}", ["A_1", "Flights.old"]),
        (r"\p{Digit}\z", ["flights-2024", "A_1"]),
    ],
)
def test_what_java_writes(text: str, found: list[str]) -> None:
    assert [name for name in NAMES if topic_pattern(text).finds(name)] == found


@pytest.mark.parametrize(
    "text", ["(x+)+$", "(x|x)*y", "(x*)*y", "(x|xx)+$", "x*x*x*x*x*x*y", "(.*)(.*)(.*)(.*)y$"]
)
def test_59_no_pattern_takes_its_time(text: str) -> None:
    """Bad input 59: each of these takes a backtracking engine minutes at least."""
    pattern = topic_pattern(text)
    began = time.process_time()
    for name in ("x" * 248 + "-", "x" * 60 + "!"):
        assert not pattern.finds(name)
        assert not pattern.matches(name)
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a(", "missing )"),
        ("[a", "missing ]"),
        ("*a", "no argument for repetition"),
        ("a(?!b)", "lookahead stands at the very beginning"),
        ("(?!a).*", "lookahead stands at the very beginning"),
        ("^(?!a)b|c", "lookahead stands at the very beginning"),
        ("^(?!a", "lookahead"),
        ("(?<=a)b", "there is no lookbehind"),
        (r"(a)\1", "no backreferences"),
        ("a*+", "no possessive quantifiers"),
        ("(?>a)", "no atomic groups"),
        ("(a{1000}){1000}", "at most 1000"),
        ("[a-z&&[^b]]", "no intersection"),
        (r"\p{javaLowerCase}", "invalid character class range"),
        ("x" * (LENGTH_MAX + 1), f"at most {LENGTH_MAX} characters, not {LENGTH_MAX + 1}"),
    ],
)
def test_what_is_refused_and_what_to_write(text: str, words: str) -> None:
    with pytest.raises(InvalidRegularExpression) as error:
        topic_pattern(text)
    assert words in str(error.value), str(error.value)
