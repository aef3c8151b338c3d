"""The newest events and effects of each process's core, for the report of a seed that failed."""

from __future__ import annotations

import re
from collections import deque

from tests.fakes.short_text import short_text

KEPT = 50
WIDTH_MAX = 240


class Histories:
    """The events of each process, put into words only when somebody asks."""

    def __init__(self) -> None:
        self._by_name: dict[str, deque[tuple[int, str, object]]] = {}
        self._newest = ""

    def add(self, now_us: int, name: str, what: str, value: object) -> None:
        """A core was told something, or wants it done."""
        history = self._by_name.get(name)
        if history is None:
            history = self._by_name[name] = deque(maxlen=KEPT)
        history.append((now_us, what, value))
        self._newest = name

    def concerned(self, report: str) -> list[str]:
        """The processes that a report names; else the one that did something last."""
        words = set(re.findall(r"[\w']+", report))
        named = [name for name in self._by_name if name in words]
        return named or ([self._newest] if self._newest else [])

    def lines(self, report: str) -> list[str]:
        """The newest events of each process concerned, oldest first."""
        lines: list[str] = []
        for name in self.concerned(report):
            lines.append(f"the last {len(self._by_name[name])} events of {name}:")
            lines += [
                f"  {now_us / 1e6:10.6f} {what} {short_text(value)}"[:WIDTH_MAX]
                for now_us, what, value in self._by_name[name]
            ]
        return lines
