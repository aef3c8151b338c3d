"""Text of others on a line of ours."""

from __future__ import annotations

import json
import unicodedata

import pytest

from pylog.plain_text import cut, escaped, escaped_json, is_text

HOSTILE = {
    "\n": r"\n",
    "\r": r"\r",
    "\x1b[31m": r"\x1b[31m",
    "\x9b2J": r"\x9b2J",
    "\x07\x7f\0": r"\x07\x7f\x00",
    "\u2028\u2029\x85": r"\u2028\u2029\x85",
    "\u202egnp.exe\u2066": r"\u202egnp.exe\u2066",
    "\u200b\ufeff\xad\xa0": r"\u200b\ufeff\xad\xa0",
    "\ud800": r"\ud800",
    "\U000e0041": r"\U000e0041",
}


@pytest.mark.parametrize(("text", "line"), HOSTILE.items())
def test_what_a_terminal_would_obey_is_escaped(text: str, line: str) -> None:
    assert escaped(f"a{text}b") == f"a{line}b"
    assert escaped(line) == line, "an escaped text stays as it is"


def test_every_control_format_and_separator_character_is_escaped() -> None:
    for code in range(0x110000):
        character = chr(code)
        if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp"):
            assert escaped(character).isascii()


@pytest.mark.parametrize("text", ["", "plain words, 1 + 2 = 3: \"'\\", "Zürich, 東京 ١٢ 😀"])
def test_words_of_all_scripts_stay(text: str) -> None:
    assert escaped(text) == text
    assert escaped_json(text) == text


@pytest.mark.parametrize("text", HOSTILE)
def test_json_says_the_same(text: str) -> None:
    line = escaped_json(json.dumps({"text": text}, ensure_ascii=False))
    assert line.isprintable()
    assert json.loads(line) == {"text": text}


def test_a_long_text_is_cut() -> None:
    assert cut("abc", 3) == "abc"
    assert cut("abcde", 3) == "abc... (2 more characters)"
    assert escaped("\n" * 5, 1) == r"\n... (4 more characters)"


def test_a_text_is_what_utf8_can_write() -> None:
    assert all(map(is_text, ("", "a", "\u00e9", "\U0001f600", "\0")))
    assert not any(map(is_text, ("\udcff", "a\ud800", b"a", 1, None)))
