"""Java's properties files, as Kafka's settings are written. Pure, but for `read_properties`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from pylog.errors import InvalidConfig

FILE_BYTES_MAX: Final = 1 << 20
"""A file of settings has a few kilobytes."""

_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_BLANKS: Final = " \t\f"
_ENTRY: Final = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*(?:[=:][ \t\f]*)?(.*)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|u|.)", re.DOTALL)
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_properties(path: str) -> dict[str, str]:
    """The file's settings. InvalidConfig for a file that cannot be read, or is none of settings."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise InvalidConfig(f"the properties file {path}: {error.strerror or error}") from error
    if len(data) > FILE_BYTES_MAX:
        raise InvalidConfig(f"the properties file {path} is larger than {FILE_BYTES_MAX} bytes")
    try:
        return parse_properties(data.decode())
    except UnicodeDecodeError as error:
        raise InvalidConfig(f"the properties file {path} is no text in UTF-8: {error}") from error
    except InvalidConfig as error:
        raise InvalidConfig(f"the properties file {path}, {error}") from None


def parse_properties(text: str) -> dict[str, str]:
    """Settings by name; of a name that comes twice the later value. InvalidConfig names the line of
    an escape that is none, or of a value without a name.
    """
    found: dict[str, str] = {}
    lines = enumerate(_LINE_END.split(text), 1)
    for number, line in lines:
        entry = line.lstrip(_BLANKS)
        if not entry or entry[0] in "#!":
            continue
        while _continues(entry):
            _, more = next(lines, (0, ""))
            entry = entry[:-1] + more.lstrip(_BLANKS)
        matched = _ENTRY.fullmatch(entry)
        assert matched is not None, "the last part takes anything"
        name, value = (_unescaped(part, number) for part in matched.groups())
        if not name:
            raise InvalidConfig(f"line {number}: a value without a name: {entry[:80]!r}")
        found[name] = value
    return found


def _continues(line: str) -> bool:
    """Whether the next line belongs to it: it ends in a backslash that is not escaped itself."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _unescaped(text: str, line: int) -> str:
    def meant(escape: re.Match[str]) -> str:
        what = escape[1]
        if what == "u":
            raise InvalidConfig(f"line {line}: \\u is followed by four hexadecimal digits")
        return chr(int(what[1:], 16)) if len(what) > 1 else _CONTROLS.get(what, what)

    return _ESCAPE.sub(meant, text)
