"""A consumer's metrics, under Apache Kafka's names: by the fetch and the poll, never by the
record. Pure. Written by the loop's thread and the user's, each its own numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pylog.client.fetching.fetch_state import Partition
from pylog.client.windowed import Windowed

_NAMES: Final = (
    "fetches", "latency", "size", "bytes", "records", "between_polls", "idle",
)  # fmt: skip

_UNANSWERED_MAX: Final = 1_000


class ConsumerMetrics:
    """Times in milliseconds, sizes in bytes, rates by the second."""

    def __init__(self, now_ms: int) -> None:
        self._windows = {name: Windowed(now_ms) for name in _NAMES}
        self._fetches = self._bytes = self._records = 0
        self._sent_ms: dict[int, int] = {}  # by correlation
        self._now_ms = now_ms
        self._polled_ms: int | None = None
        self._poll_ended_ms: int | None = None

    # ---- events -------------------------------------------------------------------------------

    def fetch_sent(self, now_ms: int, correlation: int) -> None:
        """A fetch goes out, or one that stands goes on: to a user both are questions."""
        if len(self._sent_ms) >= _UNANSWERED_MAX:
            self._sent_ms.clear()  # of streams that broke
        self._fetches += 1
        self._sent_ms[correlation] = now_ms
        self._windows["fetches"].record(now_ms, 1)

    def fetch_answered(self, now_ms: int, correlation: int, size: int) -> None:
        """Its answer came, with `size` bytes of batches."""
        self._now_ms = now_ms
        sent_ms = self._sent_ms.pop(correlation, None)
        if sent_ms is not None:
            self._windows["latency"].record(now_ms, now_ms - sent_ms)
        if size:
            self._bytes += size
            self._windows["size"].record(now_ms, size)
            self._windows["bytes"].record(now_ms, size)

    def polled(self, now_ms: int) -> None:
        """The user asks for records."""
        if self._polled_ms is not None and self._poll_ended_ms is not None:
            between_ms = now_ms - self._polled_ms
            self._windows["between_polls"].record(now_ms, between_ms)
            inside_ms = self._poll_ended_ms - self._polled_ms
            self._windows["idle"].record(now_ms, inside_ms / between_ms if between_ms else 1.0)
        self._polled_ms = now_ms

    def poll_ended(self, now_ms: int) -> None:
        """They were given, or there are none."""
        self._poll_ended_ms = now_ms

    def consumed(self, records: int) -> None:
        """So many records go to the user."""
        if records:
            self._records += records
            self._windows["records"].record(self._now_ms, records)

    # ---- reading ------------------------------------------------------------------------------

    def read(self, now_ms: int, partitions: Iterable[Partition]) -> dict[str, float]:
        """Everything, with a `<topic>-<partition>.records-lag` for each partition whose end is
        known: as of its last fetch.
        """
        w = self._windows
        assigned = list(partitions)
        lags: dict[str, float] = {}
        for p in assigned:
            if p.readable_end is not None and p.position is not None:
                lags[f"{p.topic_partition}.records-lag"] = max(p.readable_end - p.position, 0)
        return {
            "records-consumed-total": self._records,
            "records-consumed-rate": w["records"].rate(now_ms),
            "bytes-consumed-total": self._bytes,
            "bytes-consumed-rate": w["bytes"].rate(now_ms),
            "fetch-total": self._fetches,
            "fetch-rate": w["fetches"].rate(now_ms),
            "fetch-latency-avg": w["latency"].average(now_ms),
            "fetch-latency-max": w["latency"].largest(now_ms),
            "fetch-size-avg": w["size"].average(now_ms),
            "fetch-size-max": w["size"].largest(now_ms),
            "records-per-request-avg": self._records / max(self._fetches, 1),
            "records-lag-max": max(lags.values(), default=float("nan")),
            "time-between-poll-avg": w["between_polls"].average(now_ms),
            "time-between-poll-max": w["between_polls"].largest(now_ms),
            "poll-idle-ratio-avg": w["idle"].average(now_ms),
            "last-poll-seconds-ago": (
                (now_ms - self._polled_ms) // 1000 if self._polled_ms is not None else -1
            ),
            "buffered-bytes": sum(p.buffered_bytes for p in assigned),
            "assigned-partitions": len(assigned),
            **lags,
        }
