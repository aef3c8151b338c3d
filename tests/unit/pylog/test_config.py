from __future__ import annotations

from typing import Any

import pytest

from pylog import errors
from pylog.config import REQUIRED, ConfigKey, ConfigTable

KEYS = (
    ConfigKey("bootstrap.servers", list, REQUIRED, "Where to start."),
    ConfigKey("linger.ms", int, 5, "How long to wait.", low=0, high=1000),
    ConfigKey("ratio", float, 0.5, "A ratio.", low=0, high=1),
    ConfigKey("enable.idempotence", bool, True, "No duplicates."),
    ConfigKey("compression.type", str, "none", "Codec.", choices=("none", "lz4")),
    ConfigKey("client.rack", str, None, "Rack."),
    ConfigKey("protocols", list, ["a"], "Protocols.", choices=("a", "b")),
    ConfigKey("serializer", object, None, "A callable."),
)
TABLE = ConfigTable(KEYS)
KEYWORDS = ConfigTable(KEYS, separator="_", what="producer setting")


def test_defaults_fill_what_is_not_given() -> None:
    assert TABLE.parse({"bootstrap.servers": "a:1, b:2"}) == {
        "bootstrap.servers": ["a:1", "b:2"],
        "linger.ms": 5,
        "ratio": 0.5,
        "enable.idempotence": True,
        "compression.type": "none",
        "client.rack": None,
        "protocols": ["a"],
        "serializer": None,
    }


def test_only_the_given_settings_for_layers_of_overrides() -> None:
    assert TABLE.parse_given({"linger.ms": "7"}) == {"linger.ms": 7}


@pytest.mark.parametrize(
    ("name", "value", "parsed"),
    [
        ("linger.ms", " 10 ", 10),
        ("linger.ms", 10.0, 10),
        ("ratio", "0.25", 0.25),
        ("ratio", 1, 1.0),
        ("enable.idempotence", "FALSE", False),
        ("client.rack", None, None),
        ("protocols", ("a", "b"), ["a", "b"]),
        ("serializer", len, len),
    ],
)
def test_values_are_typed(name: str, value: object, parsed: Any) -> None:
    assert TABLE[name].parse(value) == parsed


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("linger.ms", -1),
        ("linger.ms", 1001),
        ("linger.ms", "5ms"),
        ("linger.ms", "1_0"),
        ("linger.ms", "²"),
        ("linger.ms", True),
        ("linger.ms", None),
        ("linger.ms", 0.5),
        ("ratio", float("nan")),
        ("ratio", "nan"),
        ("ratio", 1.5),
        ("enable.idempotence", 1),
        ("enable.idempotence", "yes"),
        ("compression.type", "brotli"),
        ("compression.type", 3),
        ("protocols", "a,c"),
        ("protocols", 5),
    ],
)
def test_a_wrong_value_is_refused_naming_key_and_value(name: str, value: object) -> None:
    with pytest.raises(errors.InvalidConfig) as refused:
        TABLE.parse_given({name: value})
    assert str(refused.value).startswith(f"{name}={value!r}: it must be ")


def test_the_range_stands_in_the_message() -> None:
    with pytest.raises(errors.InvalidConfig, match=r"a whole number from 0 to 1000"):
        TABLE.parse_given({"linger.ms": -1})
    with pytest.raises(errors.InvalidConfig, match=r"one of none, lz4"):
        TABLE.parse_given({"compression.type": "zip"})


def test_an_unknown_name_gets_the_nearest_one_in_the_spelling_of_the_table() -> None:
    with pytest.raises(errors.InvalidConfig, match=r"unknown setting linger\.m; .*linger\.ms\?"):
        TABLE.parse_given({"linger.m": 1})
    with pytest.raises(errors.InvalidConfig, match=r"producer setting lingerms; .*linger_ms\?"):
        KEYWORDS.parse_given({"lingerms": 1})
    with pytest.raises(errors.InvalidConfig, match=r"unknown setting zzz$"):
        TABLE.parse_given({"zzz": 1})


def test_a_text_must_be_utf8_and_a_key_may_have_an_error_of_its_own() -> None:
    with pytest.raises(errors.InvalidConfig, match=r"^client\.rack='\\udcff': .*text in UTF-8"):
        TABLE.parse_given({"client.rack": "\udcff"})
    key = ConfigKey("group.id", str, None, "A group.", error=errors.InvalidGroupId)
    for wrong in ("\udcff", 5):
        with pytest.raises(errors.InvalidGroupId, match=r"^group\.id="):
            key.parse(wrong)


def test_keyword_spelling() -> None:
    assert KEYWORDS.parse({"bootstrap_servers": ["a:1"], "linger_ms": 9})["linger.ms"] == 9
    with pytest.raises(errors.InvalidConfig, match=r"^linger_ms=-1: "):
        KEYWORDS.parse_given({"linger_ms": -1})


def test_a_required_setting_that_is_missing_is_named() -> None:
    with pytest.raises(errors.InvalidConfig, match=r"^bootstrap_servers is missing"):
        KEYWORDS.parse({})


def test_a_long_value_is_cut_in_the_message() -> None:
    with pytest.raises(errors.InvalidConfig) as refused:
        TABLE.parse_given({"compression.type": "x" * 10_000})
    assert len(str(refused.value)) < 200


def test_a_default_list_is_not_shared() -> None:
    first = TABLE.parse({"bootstrap.servers": "a:1"})
    first["protocols"].append("b")
    assert TABLE.parse({"bootstrap.servers": "a:1"})["protocols"] == ["a"]


def test_a_text_has_its_longest() -> None:
    key = ConfigKey("client.id", str, "", "A name.", high=4)
    assert [key.parse(text) for text in ("", "abcd", "\u00e9\u00e9", " abcd ")] == [
        "", "abcd", "\u00e9\u00e9", "abcd",
    ]  # fmt: skip
    for text in ("abcde", "\u00e9\u00e9\u00e9"):
        with pytest.raises(errors.InvalidConfig, match="must be a text of at most 4 bytes"):
            key.parse(text)
