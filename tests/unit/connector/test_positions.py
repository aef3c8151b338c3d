from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connector.errors import InvalidOption, UnknownTopic
from connector.positions import (
    EARLIEST,
    LATEST,
    check_assigned,
    parse_positions,
    position_of,
    symbolic,
)


def test_words_and_json() -> None:
    assert parse_positions("o", " Earliest ") == EARLIEST
    assert parse_positions("o", "LATEST") == LATEST
    assert parse_positions("o", ' {"t":{"0":23,"1":-2,"2":-1}}') == {"t": {0: 23, 1: -2, 2: -1}}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["o=''", "earliest, latest, or JSON"]),
        ("23", ["o='23'"]),
        ("[1]", ["o='[1]'"]),
        ('{"t":', ["not valid JSON"]),
        ("{}", ["names no topic"]),
        ('{"t":{}}', ["o.t=", "one offset for each partition"]),
        ('{"t":"earliest"}', ["o.t='earliest'"]),
        ('{"t":[1]}', ["o.t="]),
        ('{"t":{"x":1}}', ['o.t."x"', "whole number in quotes"]),
        ('{"t":{"-1":1}}', ['o.t."-1"']),
        ('{"t":{"01":1}}', ['o.t."01"']),
        ('{"t":{"0":"5"}}', ["""o.t."0"='5'""", "whole number"]),
        ('{"t":{"0":1.5}}', ['o.t."0"=', "1.5"]),
        ('{"t":{"0":true}}', ['o.t."0"=', "true"]),
        ('{"t":{"0":null}}', ['o.t."0"=']),
        ('{"t":{"0":-3}}', ['o.t."0"=-3', "-2 means earliest"]),
        ('{"t":{"0":9223372036854775808}}', ["9223372036854775808"]),
        ('{"t":{"0":1,"0":2}}', ['"0" stands there twice']),
        ('{"t":{"0":1},"t":{"0":2}}', ['"t" stands there twice']),
        ("{" * 100_000, ["not valid JSON"]),
    ],
)
def test_wrong_texts_name_the_path(text: str, words: list[str]) -> None:
    with pytest.raises(InvalidOption) as error:
        parse_positions("o", text)
    for word in words:
        assert word in str(error.value)
    assert len(str(error.value)) < 400


positions = st.dictionaries(
    st.text(st.characters(codec="utf-8"), min_size=1),
    st.dictionaries(st.integers(0, 2**31 - 1), st.integers(-2, 2**63 - 1), min_size=1),
    min_size=1,
)


@given(positions)
def test_what_json_writes_is_read_again(wanted: dict[str, dict[int, int]]) -> None:
    assert parse_positions("o", json.dumps(wanted)) == wanted


def test_json_must_name_exactly_what_is_read() -> None:
    assigned = {"a": [0, 1], "b": [0]}
    check_assigned("o", EARLIEST, assigned)
    check_assigned("o", {"a": {0: 1, 1: 2}, "b": {0: -1}}, assigned)
    with pytest.raises(UnknownTopic, match=r"o\.c: .*a, b"):
        check_assigned("o", {"c": {0: 1}}, assigned)
    with pytest.raises(
        InvalidOption, match=r'o\.a\."2": the topic has no such partition; it has 2'
    ):
        check_assigned("o", {"a": {0: 1, 1: 2, 2: 0}, "b": {0: -1}}, assigned)
    with pytest.raises(InvalidOption, match=r"o\.b is missing"):
        check_assigned("o", {"a": {0: 1, 1: 2}}, assigned)
    with pytest.raises(InvalidOption, match=r'o\.a\."1" is missing'):
        check_assigned("o", {"a": {0: 1}, "b": {0: -1}}, assigned)


def test_looking_up_positions() -> None:
    assert position_of(LATEST, "a", 3) == LATEST
    assert position_of({"a": {3: 9}}, "a", 3) == 9
    assert symbolic(LATEST, LATEST) == ""
    assert symbolic(EARLIEST, LATEST) is None
    assert symbolic({"a": {0: 5, 3: -1}}, LATEST) == '.a."3"'
    assert symbolic({"a": {0: 5}}, LATEST) is None
