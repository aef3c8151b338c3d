"""Bytes of records as people read them: JSON, text, Avro, or hexadecimal. Pure.

Control characters, marks that turn the direction of text, and whatever else is not printable are
written as escapes; HTML is escaped where pages are made.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final

from pylog.console import avro

PREVIEW_BYTES: Final = 1_024
"""The most bytes of a key or value in a list of records."""
PAGE_BYTES: Final = 128 << 10
"""The most bytes of a value on a page of its own; all of it can be downloaded."""
JSON_BYTES_MAX: Final = 2 << 20
HEX_BYTES_MAX: Final = 4_096
HEX_COLUMNS: Final = 16
_TOKENS: Final = re.compile(r'"(?:\\.|[^"\\])*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
REGISTRY_HEAD: Final = 5
"""Bytes of Confluent's wire format before the Avro: a zero, and a schema's number."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A key or value for people. `kind`: null, empty, JSON, text, Avro or binary. `size`: in bytes,
    of all of it; `whole`: whether `text` tells all of it.
    """

    kind: str
    text: str
    size: int
    whole: bool = True
    note: str = ""


def show(data: bytes | None, bytes_max: int, *, pretty: bool, schema: Any = None) -> Shown:
    """The bytes as text, cut behind `bytes_max`. `schema`: of Avro, where one is known."""
    if data is None:
        return Shown("null", "", 0)
    if not data:
        return Shown("empty", "", 0)
    decoded = _as_avro(data, schema)
    if decoded is not None:
        text, note = decoded
        cut, whole = _cut(_indented(text) if pretty else text, bytes_max)
        return Shown("Avro", cut, len(data), whole, note)
    if looks_like_text(data):
        return _as_text(data, bytes_max, pretty=pretty)
    whole = len(data) <= min(bytes_max, HEX_BYTES_MAX)
    note = ""
    if data[0] == 0 and len(data) > REGISTRY_HEAD:
        number = int.from_bytes(data[1:REGISTRY_HEAD], "big")
        note = f"perhaps of a schema registry, schema {number}"
    return Shown("binary", hex_lines(data[: min(bytes_max, HEX_BYTES_MAX)]), len(data), whole, note)


def looks_like_text(data: bytes) -> bool:
    """Whether its beginning is UTF-8 with hardly a control character."""
    head = data[:4_096]
    try:
        text = head.decode()
    except UnicodeDecodeError as error:
        if len(data) == len(head) or error.start < len(head) - 3:
            return False
        text = head[: error.start].decode()
    odd = sum(1 for c in text if (c < " " and c not in "\n\r\t") or c == "\x7f")
    return odd == 0 or odd * 20 < len(text)


def _as_text(data: bytes, bytes_max: int, *, pretty: bool) -> Shown:
    kind = "text"
    text, whole = _cut(data[: bytes_max + 4].decode(errors="replace"), bytes_max)
    whole = whole and len(data) <= bytes_max
    if data.lstrip()[:1] in (b"{", b"[", b'"') and len(data) <= JSON_BYTES_MAX:
        try:
            full = data.decode()
            json.loads(full)
        except (ValueError, RecursionError):
            pass
        else:
            kind = "JSON"
            if pretty:
                text, whole = _cut(_indented(full), bytes_max)
    return Shown(kind, plain(text), len(data), whole)


def _cut(text: str, chars_max: int) -> tuple[str, bool]:
    return (text, True) if len(text) <= chars_max else (text[:chars_max], False)


def plain(text: str) -> str:
    """The text with escapes for all that cannot be seen, but for line breaks and tabs."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text)


def _indented(text: str) -> str:
    """JSON, one member a line. Its numbers and strings stay as they are written."""
    out: list[str] = []
    depth = 0
    tokens = _TOKENS.findall(text)
    for index, token in enumerate(tokens):
        if token in ("{", "["):
            depth += 1
            empty = index + 1 < len(tokens) and tokens[index + 1] in ("}", "]")
            out.append(token if empty else f"{token}\n{'  ' * min(depth, 40)}")
        elif token in ("}", "]"):
            depth -= 1
            opened = index > 0 and tokens[index - 1] in ("{", "[")
            out.append(token if opened else f"\n{'  ' * min(depth, 40)}{token}")
        elif token == ",":
            out.append(f",\n{'  ' * min(depth, 40)}")
        else:
            out.append(": " if token == ":" else token)
    return "".join(out)


def hex_lines(data: bytes) -> str:
    """Offset, bytes and letters, sixteen bytes a line."""
    lines = []
    for start in range(0, len(data), HEX_COLUMNS):
        row = data[start : start + HEX_COLUMNS]
        letters = "".join(chr(b) if 32 <= b < 127 else "." for b in row)
        lines.append(f"{start:06x}  {row.hex(' '):<{HEX_COLUMNS * 3}} {letters}")
    return "\n".join(lines)


def _as_avro(data: bytes, schema: Any) -> tuple[str, str] | None:
    """JSON of what is in it, and a note; None where it is no Avro, or nobody knows its schema."""
    try:
        if data.startswith(avro.CONTAINER_MAGIC):
            rows, complete = avro.read_container(data)
            note = "a file of Avro" if complete else "a file of Avro, of which the first rows"
            return avro.to_json(rows), note
        if schema is None:
            return None
        for skipped in (0, REGISTRY_HEAD) if data[0] == 0 else (0,):
            try:
                return avro.to_json(avro.decode(data[skipped:], schema)), ""
            except avro.AvroError:
                continue
    except avro.AvroError:
        pass
    return None
