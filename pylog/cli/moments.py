"""Times and spans of time, as people write them on the command line. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DAYS: Final = r"(?:(?P<weeks>\d+)W)?(?:(?P<days>\d+)D)?"
_HOURS: Final = r"(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?"
_SPAN: Final = re.compile(f"{_DAYS}T?{_HOURS}")
_ISO_SPAN: Final = re.compile(f"P{_DAYS}(?:T{_HOURS})?")
"""Minutes are behind a T: ISO 8601's P1M is a month, which has no fixed length."""
SPANS: Final = "a span of time such as P1DT12H, PT30M, 1d12h or 90s"


def moment_ms(text: str) -> int:
    """`1706702400000` or `2024-01-31T12:00` (in UTC unless it says otherwise) in milliseconds since
    1970. ValueError for anything else.
    """
    if text.isascii() and text.isdigit():
        return int(text)
    moment = datetime.fromisoformat(text)
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(milliseconds=1)


def time_shown(timestamp_ms: int | None) -> str | None:
    """A record's time for people; in milliseconds where no calendar goes so far."""
    if timestamp_ms is None:
        return None
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (OverflowError, ValueError):  # a record may have any time
        return f"{timestamp_ms} ms"
    return moment.isoformat(timespec="milliseconds")


def seconds_shown(seconds: float | None) -> str | None:
    """An age for people: tenths only where they matter."""
    return None if seconds is None else f"{seconds:,.0f}" if seconds >= 10 else f"{seconds:.1f}"


def span_ms(text: str) -> int:
    """ISO 8601's `P1DT12H`, or the same without the letters: `1d12h`. ValueError for others."""
    said = text.strip().upper()
    found = (_ISO_SPAN if said.startswith("P") else _SPAN).fullmatch(said)
    parts = {} if found is None else {k: v for k, v in found.groupdict().items() if v is not None}
    if not parts:
        raise ValueError(f"{text!r} is not {SPANS}")
    try:
        span = timedelta(**{name: float(number) for name, number in parts.items()})
    except OverflowError as error:
        raise ValueError(f"{text!r} is longer than any time") from error
    return span // timedelta(milliseconds=1)
