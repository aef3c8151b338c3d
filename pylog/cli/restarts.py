"""The rules by which `pylog local` restarts a process that has ended, or gives it up. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

FIRST_WAIT_MS: Final = 1_000
WAIT_MS_MAX: Final = 30_000
STARTS_MAX: Final = 6
"""In a row, each of which ended soon: whatever ends it will end it again."""
STEADY_MS: Final = 60_000
"""A process that runs for so long has started well."""


@dataclass(frozen=True, slots=True)
class TellEnded:
    """A process has ended, and is started again after `wait_ms`."""

    name: str
    wait_ms: int


@dataclass(frozen=True, slots=True)
class StartAgain:
    """Start it now; then `on_started`."""

    name: str


@dataclass(frozen=True, slots=True)
class GiveUp:
    """It has ended once more; it is not started again."""

    name: str


Effect = TellEnded | StartAgain | GiveUp


@dataclass(slots=True)
class _Process:
    starts: int = 0  # again, in a row
    started_ms: int | None = None
    start_at_ms: int | None = None  # it has ended, and waits


class Restarts:
    """Owned by the command. Processes go by their names."""

    def __init__(self) -> None:
        self.given_up: set[str] = set()
        self._processes: dict[str, _Process] = {}

    def look(self, now_ms: int, ended: Iterable[str]) -> list[Effect]:
        """The effects for the processes that do not run now."""
        effects: list[Effect] = []
        for name in ended:
            if name in self.given_up:
                continue
            process = self._processes.setdefault(name, _Process())
            if process.start_at_ms is None:
                effects.append(self._ended(now_ms, name, process))
            elif now_ms >= process.start_at_ms:
                effects.append(StartAgain(name))
        return effects

    def _ended(self, now_ms: int, name: str, process: _Process) -> Effect:
        if process.started_ms is not None and now_ms - process.started_ms >= STEADY_MS:
            process.starts = 0
        if process.starts >= STARTS_MAX:
            self.given_up.add(name)
            return GiveUp(name)
        wait_ms = min(WAIT_MS_MAX, FIRST_WAIT_MS << process.starts)
        process.start_at_ms = now_ms + wait_ms
        return TellEnded(name, wait_ms)

    def on_started(self, now_ms: int, name: str) -> None:
        """It was started, well or not: if it does not run, the next `look` is told."""
        process = self._processes[name]
        process.starts += 1
        process.started_ms, process.start_at_ms = now_ms, None
