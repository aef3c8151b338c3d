"""What a producer counts, under Apache Kafka's names; by the batch and the request, never by the
record. Pure: owned by the loop's thread, read by others, who may see a count that is one batch old.
"""

from __future__ import annotations

from typing import Final

from pylog.client.producer_batch import BATCH_OVERHEAD, Batch
from pylog.client.windowed import Windowed

_WINDOWED: Final = (
    "records",
    "errors",
    "retries",
    "bytes",
    "requests",
    "batch_size",
    "queue_time",
    "latency",
    "compression",
)


class ProducerMetrics:
    """Times in milliseconds, sizes in bytes, rates by the second."""

    def __init__(self, now_ms: int) -> None:
        self._totals: dict[str, int] = {
            "record-send-total": 0,
            "record-error-total": 0,
            "record-retry-total": 0,
            "batch-send-total": 0,
            "batch-split-total": 0,
            "request-total": 0,
            "byte-total": 0,
            "buffer-exhausted-total": 0,
            "bufferpool-wait-time-ms-total": 0,
        }
        self._windows = {name: Windowed(now_ms) for name in _WINDOWED}
        self._sent: dict[int, dict[int, int]] = {}  # broker, correlation: when
        self._now_ms = now_ms

    # ---- events -------------------------------------------------------------------------------

    def batch_sent(self, now_ms: int, batch: Batch, size: int, raw_size: int) -> None:
        """A batch goes out, perhaps once more. `raw_size`: uncompressed, 0 where that is `size`."""
        self._now_ms = now_ms
        windows = self._windows
        if batch.attempts > 1:
            self._totals["record-retry-total"] += batch.count
            windows["retries"].record(now_ms, batch.count)
            return
        windows["batch_size"].record(now_ms, size)
        windows["queue_time"].record(now_ms, now_ms - batch.created_ms)
        windows["records"].record(now_ms, batch.count)
        windows["compression"].record(now_ms, size / max(raw_size, size, BATCH_OVERHEAD))

    def request_sent(self, now_ms: int, broker: int, correlation: int, size: int) -> None:
        """A request of `size` bytes goes out."""
        self._totals["request-total"] += 1
        self._totals["byte-total"] += size
        self._windows["requests"].record(now_ms, 1)
        self._windows["bytes"].record(now_ms, size)
        self._sent.setdefault(broker, {})[correlation] = now_ms

    def request_answered(self, now_ms: int, broker: int, correlation: int) -> None:
        """Its answer came."""
        sent_ms = self._sent.get(broker, {}).pop(correlation, None)
        if sent_ms is not None:
            self._windows["latency"].record(now_ms, now_ms - sent_ms)

    def disconnected(self, broker: int) -> None:
        """No more answers from there."""
        self._sent.pop(broker, None)

    def batch_done(self, batch: Batch) -> None:
        """Acknowledged."""
        self._totals["record-send-total"] += batch.count
        self._totals["batch-send-total"] += 1

    def batch_split(self) -> None:
        """Refused for its size, and taken apart."""
        self._totals["batch-split-total"] += 1

    def records_failed(self, count: int) -> None:
        """Given up, or refused by `send` itself."""
        self._totals["record-error-total"] += count
        self._windows["errors"].record(self._now_ms, count)

    def waited_for_room(self, waited_ms: int, *, in_vain: bool) -> None:
        """A sending thread stood before a full buffer."""
        self._totals["bufferpool-wait-time-ms-total"] += waited_ms
        self._totals["buffer-exhausted-total"] += in_vain

    # ---- reading ------------------------------------------------------------------------------

    def read(self, now_ms: int) -> dict[str, float]:
        """Everything that is counted here."""
        w = self._windows
        return {
            **self._totals,
            "record-send-rate": w["records"].rate(now_ms),
            "record-error-rate": w["errors"].rate(now_ms),
            "record-retry-rate": w["retries"].rate(now_ms),
            "byte-rate": w["bytes"].rate(now_ms),
            "request-rate": w["requests"].rate(now_ms),
            "batch-size-avg": w["batch_size"].average(now_ms),
            "batch-size-max": w["batch_size"].largest(now_ms),
            "record-queue-time-avg": w["queue_time"].average(now_ms),
            "record-queue-time-max": w["queue_time"].largest(now_ms),
            "request-latency-avg": w["latency"].average(now_ms),
            "request-latency-max": w["latency"].largest(now_ms),
            "compression-rate-avg": w["compression"].average(now_ms),
        }
