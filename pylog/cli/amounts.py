"""Sizes, counts and times as people read them. Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

_UNITS: Final = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def size_shown(size: int | None) -> str | None:
    """`74.5 GiB`, `512 B`: three digits, and a unit. None, or less than 0, is not known."""
    if size is None or size < 0:
        return None
    if size < 1024:
        return f"{size} B"
    amount, unit = float(size), "B"
    for next_unit in _UNITS:
        if amount < 999.5:  # else it would be shown with four digits
            break
        amount, unit = amount / 1024, next_unit
    return f"{amount:.3g} {unit}" if amount < 99.95 else f"{amount:.0f} {unit}"


def rate_shown(rate: float | None) -> str | None:
    """Records a second: tenths only where they matter."""
    return None if rate is None else f"{rate:,.0f}" if rate >= 10 else f"{rate:.1f}"


def instant_shown(at_ms: int, now_ms: int) -> str:
    """`12:03:11 UTC` of today, with the date of another day."""
    at, now = (datetime.fromtimestamp(ms / 1000, UTC) for ms in (at_ms, now_ms))
    return f"{at:%H:%M:%S} UTC" if at.date() == now.date() else f"{at:%Y-%m-%d %H:%M:%S} UTC"
