"""A share consumer's metrics, under Apache Kafka's names where it has them: by the request and
the poll, never by the record. Pure.
"""

from __future__ import annotations

from typing import Final

from pylog.client.sharing.messages import ShareAcknowledge, ShareAnswer, ShareFetch
from pylog.client.windowed import Windowed

_NAMES: Final = ("fetches", "latency", "bytes", "records", "between_polls", "idle", "acks")


class ShareMetrics:
    """Times in milliseconds, sizes in bytes, rates by the second."""

    def __init__(self, now_ms: int) -> None:
        self._windows = {name: Windowed(now_ms) for name in _NAMES}
        self._fetches = self._bytes = self._records = self._acks = self._failed = 0
        self._polled_ms: int | None = None
        self._poll_ended_ms: int | None = None

    # ---- events -------------------------------------------------------------------------------

    def answered(
        self,
        now_ms: int,
        sent_ms: int,
        request: ShareFetch | ShareAcknowledge,
        answer: ShareAnswer,
    ) -> None:
        """A request has its answer."""
        acks = sum(
            each.last_offset - each.first_offset + 1 for _, part in request.acks for each in part
        )
        if acks:
            self._acks += acks
            self._windows["acks"].record(now_ms, acks)
            refused = {(p.topic_id, p.partition) for p in answer.partitions if p.ack_code}
            self._failed += sum(
                each.last_offset - each.first_offset + 1
                for place, part in request.acks
                if answer.code or (place.topic_id, place.partition) in refused
                for each in part
            )
        if isinstance(request, ShareFetch):
            self._fetches += 1
            self._windows["fetches"].record(now_ms, 1)
            self._windows["latency"].record(now_ms, now_ms - sent_ms)
            size = sum(len(part.batches) for part in answer.partitions)
            self._bytes += size
            self._windows["bytes"].record(now_ms, size)

    def polled(self, now_ms: int) -> None:
        """The user asks for records."""
        if self._polled_ms is not None and self._poll_ended_ms is not None:
            between_ms = now_ms - self._polled_ms
            self._windows["between_polls"].record(now_ms, between_ms)
            inside_ms = self._poll_ended_ms - self._polled_ms
            self._windows["idle"].record(now_ms, inside_ms / between_ms if between_ms else 1.0)
        self._polled_ms = now_ms

    def poll_ended(self, now_ms: int, records: int) -> None:
        """So many records go to the user."""
        self._poll_ended_ms = now_ms
        if records:
            self._records += records
            self._windows["records"].record(now_ms, records)

    # ---- reading ------------------------------------------------------------------------------

    def read(self, now_ms: int) -> dict[str, float]:
        """Everything."""
        w = self._windows
        return {
            "records-consumed-total": self._records,
            "records-consumed-rate": w["records"].rate(now_ms),
            "bytes-consumed-total": self._bytes,
            "bytes-consumed-rate": w["bytes"].rate(now_ms),
            "fetch-total": self._fetches,
            "fetch-rate": w["fetches"].rate(now_ms),
            "fetch-latency-avg": w["latency"].average(now_ms),
            "fetch-latency-max": w["latency"].largest(now_ms),
            "acknowledgements-send-total": self._acks,
            "acknowledgements-send-rate": w["acks"].rate(now_ms),
            "acknowledgements-error-total": self._failed,
            "time-between-poll-avg": w["between_polls"].average(now_ms),
            "time-between-poll-max": w["between_polls"].largest(now_ms),
            "poll-idle-ratio-avg": w["idle"].average(now_ms),
            "last-poll-seconds-ago": (
                (now_ms - self._polled_ms) // 1000 if self._polled_ms is not None else -1
            ),
        }
