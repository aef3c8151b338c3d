"""Replicas whose logs could not be made because the disk is full: tried again until there is room.

A full disk passes, unlike a broken one. So such a replica is offline, but not failed.
"""

from __future__ import annotations

from typing import Final

from pylog.model import TopicId

RETRY_MS: Final = 1_000


class WithoutRoom:
    """Keys in the order in which they came; all are tried together."""

    def __init__(self) -> None:
        self._keys: dict[tuple[TopicId, int], None] = {}
        self.next_deadline: int | None = None
        """When to `take` them."""

    def add(self, now_ms: int, topic_id: TopicId, partition: int) -> None:
        """It found no room now."""
        self._keys[topic_id, partition] = None
        if self.next_deadline is None:
            self.next_deadline = now_ms + RETRY_MS

    def take(self, now_ms: int) -> tuple[tuple[TopicId, int], ...]:
        """What is to be tried now; nothing before its time."""
        if self.next_deadline is None or now_ms < self.next_deadline:
            return ()
        taken = tuple(self._keys)
        self._keys.clear()
        self.next_deadline = None
        return taken
