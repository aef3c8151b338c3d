"""A producer's metrics, under Apache Kafka's names; by the batch and the request, never by the
record. Pure: owned by the loop's thread but for what is said to be counted by others; read by
others, who may see a count that is one batch old.
"""

from __future__ import annotations

from collections import deque

from pylog.client.sending.producer_batch import BATCH_OVERHEAD, Batch
from pylog.client.windowed import WINDOW_MS, WINDOWS

_NAN = float("nan")


class _Window:
    """Sums and largest values of half a minute: one object for all, because a message of one record
    is counted in seven ways.
    """

    __slots__ = (
        "answers",
        "batch_bytes",
        "batch_bytes_max",
        "batches",
        "began_ms",
        "bytes",
        "errors",
        "latency_ms",
        "latency_ms_max",
        "queued_ms",
        "queued_ms_max",
        "ratio",
        "raw_bytes",
        "records",
        "refused",
        "requests",
        "retries",
    )

    def __init__(self, now_ms: int) -> None:
        self.began_ms = now_ms
        self.records = self.retries = self.errors = self.refused = 0
        self.batches = self.batch_bytes = self.batch_bytes_max = self.raw_bytes = 0
        self.queued_ms = self.queued_ms_max = 0
        self.ratio = 0.0
        self.requests = self.bytes = 0
        self.answers = self.latency_ms = self.latency_ms_max = 0


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
        self._refused = 0
        self._window = _Window(now_ms)
        self._windows = deque([self._window], maxlen=WINDOWS)
        self._sent: dict[int, dict[int, int]] = {}  # broker, correlation: when

    def _turn(self, now_ms: int) -> None:
        self._window = _Window(now_ms)
        self._windows.append(self._window)

    # ---- events -------------------------------------------------------------------------------

    def batch_sent(self, now_ms: int, batch: Batch, size: int, raw_size: int) -> None:
        """A batch goes out, perhaps once more. `raw_size`: uncompressed, 0 where that is `size`."""
        window = self._window
        if now_ms - window.began_ms >= WINDOW_MS:
            self._turn(now_ms)
            window = self._window
        if batch.attempts > 1:
            self._totals["record-retry-total"] += batch.count
            window.retries += batch.count
            return
        window.batches += 1
        window.records += batch.count
        window.batch_bytes += size
        window.raw_bytes += max(raw_size, size)
        if size > window.batch_bytes_max:
            window.batch_bytes_max = size
        queued_ms = now_ms - batch.created_ms
        window.queued_ms += queued_ms
        if queued_ms > window.queued_ms_max:
            window.queued_ms_max = queued_ms
        window.ratio += size / max(raw_size, size, BATCH_OVERHEAD)

    def request_sent(self, now_ms: int, broker: int, correlation: int, size: int) -> None:
        """A request of `size` bytes goes out."""
        self._totals["request-total"] += 1
        self._totals["byte-total"] += size
        self._window.requests += 1
        self._window.bytes += size
        self._sent.setdefault(broker, {})[correlation] = now_ms

    def request_answered(self, now_ms: int, broker: int, correlation: int) -> None:
        """Its answer came."""
        sent_ms = self._sent.get(broker, {}).pop(correlation, None)
        if sent_ms is None:
            return
        window = self._window
        window.answers += 1
        window.latency_ms += now_ms - sent_ms
        window.latency_ms_max = max(window.latency_ms_max, now_ms - sent_ms)

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
        """Given up."""
        self._totals["record-error-total"] += count
        self._window.errors += count

    def record_refused(self) -> None:
        """By `send` itself. Of any thread, with the producer's lock; hence a count of its own."""
        self._refused += 1
        self._window.refused += 1

    def waited_for_room(self, waited_ms: int, *, in_vain: bool) -> None:
        """A sending thread stood before a full buffer; it holds the lock."""
        self._totals["bufferpool-wait-time-ms-total"] += waited_ms
        self._totals["buffer-exhausted-total"] += in_vain

    # ---- reading ------------------------------------------------------------------------------

    def read(self, now_ms: int) -> dict[str, float]:
        """Everything that is counted here. Rates and averages cover the present window and the one
        before, as in Kafka; an average of nothing is NaN.
        """
        recent = [w for w in tuple(self._windows) if now_ms - w.began_ms < WINDOW_MS * WINDOWS]
        covered_s = max(now_ms - recent[0].began_ms, 1_000) / 1_000 if recent else 1.0
        batches = sum(w.batches for w in recent)
        records = sum(w.records for w in recent)
        answers = sum(w.answers for w in recent)

        def average(total: float, count: int) -> float:
            return total / count if count else _NAN

        return {
            **self._totals,
            "record-error-total": self._totals["record-error-total"] + self._refused,
            "record-send-rate": records / covered_s,
            "record-error-rate": sum(w.errors + w.refused for w in recent) / covered_s,
            "record-retry-rate": sum(w.retries for w in recent) / covered_s,
            "byte-rate": sum(w.bytes for w in recent) / covered_s,
            "request-rate": sum(w.requests for w in recent) / covered_s,
            "record-size-avg": average(sum(w.raw_bytes for w in recent), records),
            "records-per-request-avg": average(records, sum(w.requests for w in recent)),
            "batch-size-avg": average(sum(w.batch_bytes for w in recent), batches),
            "batch-size-max": max(w.batch_bytes_max for w in recent) if batches else _NAN,
            "record-queue-time-avg": average(sum(w.queued_ms for w in recent), batches),
            "record-queue-time-max": max(w.queued_ms_max for w in recent) if batches else _NAN,
            "request-latency-avg": average(sum(w.latency_ms for w in recent), answers),
            "request-latency-max": max(w.latency_ms_max for w in recent) if answers else _NAN,
            "compression-rate-avg": average(sum(w.ratio for w in recent), batches),
        }
