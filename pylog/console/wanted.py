"""The records of a topic that a user asks to see, as a page's address names them. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import urlencode

from pylog.cli.moments import moment_ms
from pylog.config import INT_MAX, LONG_MAX
from pylog.records.record import Record

STARTS: Final = ("newest", "earliest", "offset", "time", "positions")
LIMIT_DEFAULT: Final = 50
LIMIT_MAX: Final = 500
TEXT_CHARS_MAX: Final = 1_000
PARTITIONS_MAX: Final = 100
"""That are read for one page."""


class WantedError(ValueError):
    """The page's address asks for something impossible; the message names the field and what to
    give."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """`start` is one of STARTS; `offset`, `time` (as it was written) and `positions` belong to it.
    Of the filters `key`, `contains` and `field` with `equals` all that are given must be met.
    """

    topic: str
    partition: int | None = None
    start: str = "newest"
    offset: int | None = None
    time: str = ""
    positions: Mapping[int, int] | None = None
    limit: int = LIMIT_DEFAULT
    key: str = ""
    contains: str = ""
    field: str = ""
    equals: str = ""
    committed: bool = False

    @property
    def filters(self) -> bool:
        """Whether not every record is wanted."""
        return bool(self.key or self.contains or self.field)

    @property
    def time_ms(self) -> int:
        """The time that was written, in milliseconds since 1970."""
        return moment_ms(self.time)

    def matches(self, record: Record) -> bool:
        """Whether a record passes all filters."""
        if self.key and record.key != self.key.encode():
            return False
        if self.contains:
            part = self.contains.encode()
            texts = [record.value, record.key, *(value for _, value in record.headers)]
            if not any(part in text for text in texts if text is not None):
                return False
        return not self.field or self._field_matches(record.value)

    def _field_matches(self, value: bytes | None) -> bool:
        try:
            found: Any = json.loads(value or b"null")
        except (ValueError, RecursionError):
            return False
        for name in self.field.split("."):
            if isinstance(found, list) and name.isascii() and name.isdigit():
                found = found[int(name)] if int(name) < len(found) else None
            elif isinstance(found, dict) and name in found:
                found = found[name]
            else:
                return False
        return self.equals in (found if isinstance(found, str) else json.dumps(found), found)

    def query(self) -> str:
        """As the query of an address, without what is not said."""
        positions = ",".join(f"{p}:{o}" for p, o in sorted((self.positions or {}).items()))
        said = {
            "partition": self.partition,
            "from": self.start,
            "offset": self.offset,
            "time": self.time,
            "at": positions,
            "limit": None if self.limit == LIMIT_DEFAULT else self.limit,
            "key": self.key,
            "contains": self.contains,
            "field": self.field,
            "equals": self.equals,
            "committed": "1" if self.committed else "",
        }
        return urlencode({name: value for name, value in said.items() if value not in (None, "")})

    def onward(self, positions: Mapping[int, int]) -> Wanted:
        """The same, from other positions on."""
        return replace(self, start="positions", offset=None, time="", positions=positions)


def parse(topic: str, query: Mapping[str, str]) -> Wanted:
    """The request in a page's address; WantedError names the field that is wrong."""
    start = query.get("from", "") or "newest"
    if start not in STARTS:
        raise WantedError(f"from={start[:50]!r}: it must be one of {', '.join(STARTS)}")
    wanted = Wanted(
        topic,
        partition=_number(query, "partition", INT_MAX),
        start=start,
        offset=_number(query, "offset", LONG_MAX) if start == "offset" else None,
        time=_text(query, "time").strip() if start == "time" else "",
        positions=_positions(query.get("at", "")) if start == "positions" else None,
        limit=min(_number(query, "limit", INT_MAX) or LIMIT_DEFAULT, LIMIT_MAX),
        key=_text(query, "key"),
        contains=_text(query, "contains"),
        field=_text(query, "field").strip(),
        equals=_text(query, "equals"),
        committed=query.get("committed") == "1",
    )
    if start == "offset" and (wanted.offset is None or wanted.partition is None):
        raise WantedError("to read from an offset, give the partition and the offset")
    if start == "time":
        try:
            found = wanted.time_ms
        except ValueError:
            raise WantedError(
                f"time={wanted.time[:50]!r}: write 2024-01-31T12:00 (in UTC unless it says "
                "otherwise), or milliseconds since 1970"
            ) from None
        if not 0 <= found <= LONG_MAX:
            raise WantedError(f"time={wanted.time[:50]!r}: no record can be of that time")
    return wanted


def _text(query: Mapping[str, str], name: str) -> str:
    text = query.get(name, "")
    if len(text) > TEXT_CHARS_MAX:
        raise WantedError(f"{name} has {len(text)} characters; the limit is {TEXT_CHARS_MAX}")
    return text


def _number(query: Mapping[str, str], name: str, limit: int) -> int | None:
    text = query.get(name, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= limit):
        raise WantedError(f"{name}={text[:50]!r}: it must be a whole number from 0 to {limit}")
    return int(text)


def _positions(text: str) -> dict[int, int]:
    found = {}
    for item in text.split(",")[: PARTITIONS_MAX + 1]:
        partition, _, offset = item.partition(":")
        both = (partition, offset)
        if not all(each.isascii() and each.isdigit() and len(each) < 20 for each in both):
            raise WantedError(f"at={item[:50]!r}: write partition:offset, separated by commas")
        found[int(partition)] = min(int(offset), LONG_MAX)
    if len(found) > PARTITIONS_MAX:
        raise WantedError(f"at: more than {PARTITIONS_MAX} partitions")
    return found
