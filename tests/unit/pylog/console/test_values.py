"""The form in which bytes are shown."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylog.console.avro import Schema
from pylog.console.values import Shown, plain, show


def kind_and_text(data: bytes | None, **more: object) -> tuple[str, str]:
    shown = show(data, 1_000, pretty=False, **more)  # type: ignore[arg-type]
    return shown.kind, shown.text


def test_what_bytes_are() -> None:
    assert show(None, 10, pretty=False) == Shown("null", "", 0)
    assert show(b"", 10, pretty=False) == Shown("empty", "", 0)
    assert kind_and_text(b"hello") == ("text", "hello")
    assert kind_and_text("grüße".encode()) == ("text", "grüße")
    assert kind_and_text(b'{"a":1}') == ("JSON", '{"a":1}')
    assert kind_and_text(b'{"a":') == ("text", '{"a":')
    assert kind_and_text(b"123") == ("text", "123")
    assert kind_and_text(b"\xff\x00A") == (
        "binary", f"000000  {'ff 00 41':<48} ..A"
    )  # fmt: skip


def test_what_cannot_be_seen_is_written_out() -> None:
    assert plain("a\u202eb\x1b[31m\n\tc\u2028") == "a\\u202eb\\x1b[31m\n\tc\\u2028"


def test_what_is_cut_says_so() -> None:
    shown = show(b"x" * 5_000_000, 100, pretty=True)
    assert (len(shown.text), shown.size, shown.whole) == (100, 5_000_000, False)
    assert show(b"x" * 100, 100, pretty=True).whole
    assert show("é".encode() * 100, 101, pretty=True).whole is False
    binary = show(b"\xff" * 100_000, 100_000, pretty=True)
    assert (binary.whole, binary.text.count("\n") + 1) == (False, 256)


def test_a_letter_that_is_cut_in_two_is_no_reason_for_hexadecimal() -> None:
    assert show(b"a" + "é".encode() * 5_000, 100, pretty=False).kind == "text"


def test_json_is_laid_out_and_its_numbers_stay_as_they_are() -> None:
    text = '{"big":12345678901234567890123,"f":1.10,"e":[],"o":{},"l":[1,{"s":"a,b:{}\\""}]}'
    shown = show(text.encode(), 1_000, pretty=True)
    assert shown.kind == "JSON"
    assert '"big": 12345678901234567890123,' in shown.text
    assert '"f": 1.10,' in shown.text
    assert '"e": [],' in shown.text
    assert '"s": "a,b:{}\\""' in shown.text
    assert json.loads(shown.text) == json.loads(text)


def test_json_that_would_break_a_parser_is_text() -> None:
    assert show(b"[" * 200_000, 100, pretty=True).kind == "text"
    assert show(b'{"a":' + b"9" * 10_000 + b"}", 100, pretty=True).kind == "text"


def test_a_registry_is_told_by_its_head() -> None:
    shown = show(b"\x00\x00\x00\x00\x2a\xff\xfe", 100, pretty=False)
    assert shown.note == "perhaps of a schema registry, schema 42"


def test_bytes_that_do_not_fit_the_schema_are_shown_as_what_they_are() -> None:
    schema = Schema('"string"')
    assert kind_and_text(b"\x06abc", schema=schema) == ("Avro", '"abc"')
    assert kind_and_text(b"abc", schema=schema) == ("text", "abc")


@given(st.binary(max_size=300), st.booleans())
def test_any_bytes_can_be_shown(data: bytes, pretty: bool) -> None:
    shown = show(data, 100, pretty=pretty)
    assert shown.size == len(data)
    assert all(c.isprintable() or c in "\n\t" for c in shown.text)


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=30,
))  # fmt: skip
def test_json_that_is_laid_out_says_the_same(value: object) -> None:
    shown = show(json.dumps([value]).encode(), 100_000, pretty=True)
    assert (shown.kind, json.loads(shown.text)) == ("JSON", [value])


@pytest.mark.parametrize("depth", [10, 900])
def test_deep_json_stays_small(depth: int) -> None:
    text = "[" * depth + "]" * depth
    assert len(show(text.encode(), 10_000_000, pretty=True).text) < 200 * depth
