"""The forms of a line that `pylog produce` reads as a record: text, or the output of `pylog consume
--json`."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import click

from pylog.model import NO_TIMESTAMP


class BadLine(click.ClickException):
    """A line is no record; the message says which one, and why."""


@dataclass(frozen=True, slots=True)
class Line:
    """A record to send."""

    value: bytes | None
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = field(default_factory=list)
    timestamp_ms: int | None = None


LineReader = Callable[[bytes, int], Line]
"""A line and its number -> the record; BadLine names the line that is none."""


def text_reader(
    separator: str | None,
    null_marker: str | None,
    headers: Sequence[tuple[str, bytes | None]],
) -> LineReader:
    """Lines are values, or keys and values with `separator` between them."""
    parting = os.fsencode(separator) if separator else None
    null = None if null_marker is None else os.fsencode(null_marker)

    def read(line: bytes, number: int) -> Line:
        key: bytes | None = None
        value: bytes | None = line
        if parting is not None:
            key, found, value = line.partition(parting)
            if not found:
                raise BadLine(
                    f"line {number} has no {separator!r} between key and value: {_shown(line)}"
                )
        if null is not None:
            key = None if key == null else key
            value = None if value == null else value
        return Line(value, key, headers)

    return read


def json_reader(line: bytes, number: int) -> Line:
    """A JSON object with `value` and, if wanted, `key`, `headers`, `timestamp`.

    Bytes are texts, null, or `{"base64": ...}`. Other fields (topic, partition, offset) are not
    used: the line may come from another topic.
    """
    try:
        said = json.loads(line)
        if not isinstance(said, dict) or "value" not in said:
            raise ValueError("it must be an object with a 'value'")
        timestamp = said.get("timestamp")
        return Line(
            _bytes(said["value"]),
            _bytes(said.get("key")),
            _headers(said.get("headers")),
            None if timestamp == NO_TIMESTAMP else timestamp,
        )
    except (ValueError, RecursionError) as error:
        raise BadLine(f"line {number} is no record: {error}: {_shown(line)}") from None


def _headers(said: Any) -> list[tuple[str, bytes | None]]:
    pairs: list[tuple[str, bytes | None]] = []
    for pair in () if said is None else said if isinstance(said, list) else (said,):
        if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], str):
            raise ValueError(f"its headers must be [[NAME, VALUE], ...], not {_cut(pair)}")
        pairs.append((pair[0], _bytes(pair[1])))
    return pairs


def _bytes(said: Any) -> bytes | None:
    if said is None:
        return None
    if isinstance(said, str):
        return said.encode()
    if isinstance(said, dict) and list(said) == ["base64"] and isinstance(said["base64"], str):
        try:
            return base64.b64decode(said["base64"], validate=True)
        except ValueError as error:
            raise ValueError(f"{said['base64'][:40]!r} is no base64 ({error})") from None
    raise ValueError(f"{_cut(said)} is neither a text, null, nor {{'base64': ...}}")


def _cut(said: Any) -> str:
    return json.dumps(said)[:60]


def _shown(line: bytes) -> str:
    return repr(line[:80].decode(errors="replace"))
