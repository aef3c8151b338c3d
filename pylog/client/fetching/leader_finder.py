"""The request manager that has metadata refreshed where nobody is known to lead. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pylog.client.cluster.metadata import ClusterMetadata
from pylog.client.fetching.fetch_events import Effect, Notice, RefreshMetadata
from pylog.client.fetching.fetch_state import FetcherSettings
from pylog.client.fetching.leaderless import Leaderless
from pylog.client.fetching.request_manager import Polled
from pylog.model import TopicPartition

STUCK_AFTER_MS: Final = 1_000
"""The time after `fetch.max.wait.ms` at which an answer is overdue, and the leader looked up
again."""


class LeaderFinder:
    """Owned by the consumer's lock, and polled behind the managers that miss leaders."""

    def __init__(self, settings: FetcherSettings, metadata: ClusterMetadata) -> None:
        self._settings = settings
        self._metadata = metadata
        self._leaderless = Leaderless(settings.leaderless_patience_ms)
        self._missing: dict[TopicPartition, None] = {}  # since the last poll
        self._stuck: dict[str, None] = {}  # the same
        self._refresh_at_ms = 0

    def is_missing(self, tp: TopicPartition) -> None:
        """Nobody is known to lead the partition."""
        self._missing[tp] = None

    def is_stuck(self, topics: Iterable[str]) -> None:
        """A leader of these does not answer: another one may lead by now."""
        self._stuck.update(dict.fromkeys(topics))

    def forget_all_but(self, assigned: Iterable[TopicPartition]) -> None:
        """The user reads these."""
        self._leaderless.forget_all_but(assigned)

    def poll(self, now_ms: int) -> Polled:
        """A refresh now and then, while it is needed; and what the user should know."""
        effects: list[Effect] = []
        missing, stuck = self._missing, self._stuck
        if missing or stuck or self._leaderless.knows_some:
            self._missing, self._stuck = {}, {}
            if (missing or stuck) and now_ms >= self._refresh_at_ms:
                wait_ms = self._settings.retry_backoff_ms if missing else STUCK_AFTER_MS
                self._refresh_at_ms = now_ms + wait_ms
                topics = {**stuck, **{tp.topic: None for tp in missing}}
                effects.append(RefreshMetadata(tuple(topics)))
            effects += map(Notice, self._leaderless.look(now_ms, missing, self._metadata))
        deadline = self._refresh_at_ms if self._refresh_at_ms > now_ms else None
        return Polled(effects, deadline)
