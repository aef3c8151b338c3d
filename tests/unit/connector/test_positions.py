from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylog.model import TopicPartition
from pylog_connector.errors import InvalidOption, NoOffsetAtTime, UnknownTopic
from pylog_connector.offsets import PartitionPosition, StreamOffset, TopicPosition
from pylog_connector.positions import (
    EARLIEST,
    LATEST,
    Bound,
    Positions,
    offsets_bound,
    time_bound,
    times_bound,
)


def parse(text: str) -> Positions:
    return offsets_bound("o", text).values


def test_words_and_json() -> None:
    assert parse(" Earliest ") == EARLIEST
    assert parse("LATEST") == LATEST
    assert parse(' {"t":{"0":23,"1":-2,"2":-1}}') == {"t": {0: 23, 1: -2, 2: -1}}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["o=''", "earliest, latest, or JSON"]),
        ("23", ["o='23'"]),
        ("[1]", ["o='[1]'"]),
        ('{"t":', ["not valid JSON"]),
        ("{}", ["names no topic"]),
        ('{"t":{}}', ["o.t=", "one offset for each partition"]),
        ('{"t":"first"}', ["o.t='first'", '"earliest" or "latest"']),
        ('{"t":5}', ["o.t='5'"]),
        ('{"t":{"99999999999":1}}', ["at most 2147483647"]),
        ('{"t":{"a":{"x":1}},"v":1}', ["o.t.a=", "query's progress"]),
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
        parse(text)
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
    assert parse(json.dumps(wanted)) == wanted


def test_a_topic_as_a_whole_and_an_offset_from_the_progress() -> None:
    assert parse('{"t":"Earliest","u":"latest"}') == {"t": EARLIEST, "u": LATEST}
    shown = StreamOffset({"a": TopicPosition("x" * 22, {0: PartitionPosition(5, 3)})})
    assert parse(json.dumps(shown.to_json())) == {"a": {0: 5}}


def check(values: Positions) -> None:
    Bound("o", values).check({"a": [0, 1], "b": [0]}, "subscribe a, b")


def test_json_must_name_exactly_what_is_read() -> None:
    check(EARLIEST)
    check({"a": {0: 1, 1: 2}, "b": {0: -1}})
    check({"a": EARLIEST, "b": {0: -1}})
    with pytest.raises(UnknownTopic, match=r"o\.c: .*a, b, by subscribe a, b"):
        check({"c": {0: 1}})
    with pytest.raises(InvalidOption, match=r'o\.a\."2": .*those that are read \(0, 1\)'):
        check({"a": {0: 1, 1: 2, 2: 0}, "b": {0: -1}})
    with pytest.raises(InvalidOption, match=r"o\.b is missing"):
        check({"a": {0: 1, 1: 2}})
    with pytest.raises(InvalidOption, match=r'o\.a\."1" is missing'):
        check({"a": {0: 1}, "b": {0: -1}})


def test_looking_up_values() -> None:
    assert Bound("o", LATEST).at("a", 3) == Bound("o", LATEST).rule("a") == LATEST
    assert Bound("o", {"a": {3: 9}}).at("a", 3) == 9
    assert Bound("o", {"a": {3: 9}}).rule("a") is None
    assert Bound("o", {"a": EARLIEST}).at("a", 3) == Bound("o", {"a": EARLIEST}).rule("a") == -2


def test_where_a_meaning_occurs() -> None:
    def where(values: Positions, meaning: int = LATEST) -> str | None:
        return Bound("o", values).where(meaning)

    assert where(LATEST) == ""
    assert where(EARLIEST) is None
    assert where({"a": {0: 5, 3: -1}}) == '.a."3"'
    assert where({"a": {0: 5}, "b": LATEST}) == ".b"
    assert where({"a": {0: 5}}) is None


A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


def test_times_are_looked_up_for_each_partition() -> None:
    bound = times_bound("o", '{"a":{"0":1000,"1":-1}}', lenient=False)
    assert bound.queries({"a": [0, 1]}) == [(A0, 1000)]
    assert bound.offset(A0, {(A0, 1000): 7}) == 7
    assert bound.offset(A1, {}) == LATEST
    assert times_bound("o", '{"a":5,"b":"earliest"}', lenient=False).values == {"a": 5, "b": -2}
    everywhere = time_bound("o", " 5 ", lenient=False)
    assert everywhere.queries({"a": [0, 1]}) == [(A0, 5), (A1, 5)]
    assert time_bound("o", "-2", lenient=False).offset(A0, {}) == EARLIEST
    assert offsets_bound("o", "latest").queries({"a": [0]}) == []


def test_a_time_that_no_record_has() -> None:
    with pytest.raises(NoOffsetAtTime) as error:
        time_bound("startingTimestamp", "5", lenient=False).offset(A0, {(A0, 5): -1})
    for word in ("startingTimestamp=5", "a-0", "ByTimestampStrategy=latest"):
        assert word in str(error.value)
    assert time_bound("o", "5", lenient=True).offset(A0, {(A0, 5): -1}) == LATEST


@pytest.mark.parametrize(
    "text", ["", "x", "1.5", "-3", "1_0", "9223372036854775808", "{}", "\u0665"]
)
def test_wrong_times(text: str) -> None:
    with pytest.raises(InvalidOption, match=r"o=.*milliseconds since 1970, or -2"):
        time_bound("o", text, lenient=False)
