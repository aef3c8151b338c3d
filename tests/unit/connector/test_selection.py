from __future__ import annotations

from dataclasses import replace

import pytest

from pylog_connector.errors import InvalidOption
from pylog_connector.selection import by_names, by_partitions, by_pattern


def test_by_names() -> None:
    chosen = by_names(["b", "a"])
    assert chosen.topics == ("a", "b")
    assert chosen.covers("a")
    assert chosen.covers("a", 7)
    assert not chosen.covers("c")
    assert chosen.chosen("a", 2) == (0, 1)
    assert chosen.grows()
    assert str(chosen) == "subscribe a, b"
    assert chosen.among(["a", "x"], ["y"]) == ("a", "b")


def test_a_pattern_is_found_anywhere_in_a_name() -> None:
    chosen = by_pattern("a.")
    assert chosen.covers("xab")  # as in Spark's Kafka connector
    assert not chosen.covers("xba")
    assert chosen.found("ab", internal=False)
    assert not chosen.found("__abc", internal=True)
    assert chosen.among(["ab"], ["ac", "other"]) == ["ab", "ac"]
    assert str(chosen) == "subscribePattern 'a.'"
    assert not by_pattern("^a$").covers("ab")


def test_assigned_partitions() -> None:
    chosen = by_partitions('{"b":[3,1,1],"a":[0]}')
    assert chosen.topics == ("a", "b")
    assert chosen.covers("b", 3)
    assert chosen.covers("b")
    assert not chosen.covers("b", 0)
    assert not chosen.covers("c", 0)
    assert chosen.chosen("b", 2) == (1,)
    assert chosen.absent({"a": 1, "b": 2}) == ("b-3",)
    assert chosen.absent({"a": 1}) == ()
    assert not chosen.grows()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["assign=''", "lists of partitions"]),
        ("a,b", ["assign='a,b'"]),
        ("{}", ["names no topic"]),
        ('{"a":0}', ["assign.a='0'"]),
        ('{"a":[]}', ["assign.a='[]'"]),
        ('{"a":["0"]}', ["assign.a=", "at least 0"]),
        ('{"a":[-1]}', ["assign.a='[-1]'", "at least 0"]),
        ('{"a":[true]}', ["assign.a="]),
        ('{"a":[2147483648]}', ["assign.a="]),
        ('{"a/b":[0]}', ["assign.a/b", "contains"]),
        ('{"a":[0]', ["not valid JSON"]),
    ],
)
def test_wrong_assignments(text: str, words: list[str]) -> None:
    with pytest.raises(InvalidOption) as error:
        by_partitions(text)
    for word in words:
        assert word in str(error.value)


def test_partitions_of_every_topic() -> None:
    for chosen in (by_names(["a"]), by_pattern("a")):
        some = replace(chosen, numbers=frozenset({2, 0, 5}))
        assert some.covers("a")
        assert some.covers("a", 5)
        assert not some.covers("a", 1)
        assert not some.covers("b", 0)
        assert some.chosen("a", 3) == (0, 2)
        assert not some.grows()
        assert str(some).endswith(", narrowed by partitions")
