"""A number's course as a line in a drawing that has no script. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

WIDTH: Final = 640
HEIGHT: Final = 120
_STEPS: Final = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


@dataclass(frozen=True, slots=True)
class Chart:
    """`line` and `area`: points of an SVG. The words tell the same to those who do not see it."""

    label: str
    line: str
    area: str
    most: str
    last: str
    begin: str
    end: str


def short(number: float) -> str:
    """`1234567` as `1.23 M`."""
    for step, letter in _STEPS:
        if abs(number) >= step:
            return f"{number / step:.3g} {letter}"
    return f"{number:.3g}"


def chart(label: str, points: Sequence[tuple[int, float]]) -> Chart | None:
    """A line over time from 0 up; None for fewer than two points."""
    if len(points) < 2:
        return None
    first, last = points[0][0], points[-1][0]
    highest = max(value for _, value in points) or 1.0
    spots = [
        f"{(at - first) / max(last - first, 1) * WIDTH:.1f},"
        f"{HEIGHT - min(max(value, 0) / highest, 1) * (HEIGHT - 4):.1f}"
        for at, value in points
    ]
    line = " ".join(spots)
    return Chart(
        label,
        line,
        f"0,{HEIGHT} {line} {WIDTH},{HEIGHT}",
        short(max(value for _, value in points)),
        short(points[-1][1]),
        clock_time(first),
        clock_time(last),
    )


def clock_time(at_ms: int) -> str:
    """Time of day, in UTC."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%H:%M:%S")
