"""Properties files, as Java reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pylog.errors import InvalidConfig
from pylog.properties import FILE_BYTES_MAX, parse_properties, read_properties


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", {}),
        ("# a comment\n! another\n\n  \n", {}),
        ("a=1\nb = 2\nc: 3\nd 4\ne", {"a": "1", "b": "2", "c": "3", "d": "4", "e": ""}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("  a=1  ", {"a": "1  "}),
        ("a=1\na=2", {"a": "2"}),
        ("a=x=y:z # no comment", {"a": "x=y:z # no comment"}),
        ("log.dirs=/a,\\\n    /b,\\\n    /c\nb=1", {"log.dirs": "/a,/b,/c", "b": "1"}),
        ("a=1\\\n# still the value\nb=2", {"a": "1# still the value", "b": "2"}),
        ("a=ends\\\\\nb=1", {"a": "ends\\", "b": "1"}),
        ("a=1\\", {"a": "1"}),
        ("a\\=b\\ c=\\t\\n\\u00e9\\q", {"a=b c": "\t\n\u00e9q"}),
        ("a==b", {"a": "=b"}),
    ],
)
def test_texts(text: str, found: dict[str, str]) -> None:
    assert parse_properties(text) == found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a=1\nb=\\u12", "line 2: .*four hexadecimal digits"),
        ("=1", "line 1: a value without a name"),
    ],
)
def test_texts_that_are_refused(text: str, words: str) -> None:
    with pytest.raises(InvalidConfig, match=words):
        parse_properties(text)


def test_files(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    with pytest.raises(InvalidConfig, match=r"server\.properties: No such file"):
        read_properties(str(file))
    file.write_text("num.partitions=3\n")
    assert read_properties(str(file)) == {"num.partitions": "3"}
    file.write_bytes(b"\xff=1")
    with pytest.raises(InvalidConfig, match="no text in UTF-8"):
        read_properties(str(file))
    file.write_text("=1")
    with pytest.raises(InvalidConfig, match=r"server\.properties, line 1: a value without"):
        read_properties(str(file))
    file.write_bytes(b"#" * (FILE_BYTES_MAX + 1))
    with pytest.raises(InvalidConfig, match="larger than"):
        read_properties(str(file))
