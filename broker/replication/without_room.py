"""The work that was refused for now, and is tried again until done: logs that could not be made, or
whose names could not be given up, because the disk is full or the process short of something.

That passes, unlike a broken disk. So such a replica is offline, but not failed.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

RETRY_MS: Final = 1_000


class WithoutRoom(Generic[Key]):
    """Keys in the order in which they came; all are tried together."""

    def __init__(self) -> None:
        self._keys: dict[Key, None] = {}
        self.next_deadline: int | None = None
        """The time to `take` them; None: there are none."""

    def add(self, now_ms: int, key: Key) -> None:
        """It was refused now."""
        self._keys[key] = None
        if self.next_deadline is None:
            self.next_deadline = now_ms + RETRY_MS

    def take(self, now_ms: int) -> tuple[Key, ...]:
        """The work to be tried now; nothing before its time."""
        if self.next_deadline is None or now_ms < self.next_deadline:
            return ()
        taken = tuple(self._keys)
        self._keys.clear()
        self.next_deadline = None
        return taken
