"""The statistics that a `stats_cb` gets: librdkafka's fields, as far as pylog counts the same."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from pylog.clock import SYSTEM_CLOCK


class Statistics:
    """The statistics of a client: the time when they are next due, and their text."""

    def __init__(self, client_id: str, kind: str, interval_ms: int) -> None:
        self._client_id, self._kind, self._interval_ms = client_id, kind, interval_ms
        self._started_ms = SYSTEM_CLOCK.monotonic_ms()
        self._due_ms = self._started_ms + interval_ms

    def is_due(self) -> bool:
        """Whether an interval has passed."""
        return self._interval_ms > 0 and SYSTEM_CLOCK.monotonic_ms() >= self._due_ms

    def left_s(self) -> float:
        """Seconds until they are due."""
        if self._interval_ms <= 0:
            return math.inf
        return max(self._due_ms - SYSTEM_CLOCK.monotonic_ms(), 0) / 1000

    def text(self, figures: Mapping[str, Any], waiting: int, waiting_bytes: int) -> str:
        """The JSON text; figures that librdkafka has no name for are in `pylog`."""
        now_ms = SYSTEM_CLOCK.monotonic_ms()
        self._due_ms = now_ms + self._interval_ms
        wall_ms = SYSTEM_CLOCK.wall_ms()
        counted = {name: v for name, v in figures.items() if not math.isnan(v)}
        topics: dict[str, Any] = {}
        for name, lag in counted.items():
            place, _, what = name.rpartition(".")
            topic, _, number = place.rpartition("-")
            if what == "records-lag" and number.isdigit():
                entry = topics.setdefault(topic, {"topic": topic, "partitions": {}})
                entry["partitions"][number] = {
                    "partition": int(number),
                    "consumer_lag": int(lag),
                    "consumer_lag_stored": int(lag),
                }
        return json.dumps(
            {
                "name": f"{self._client_id}#{self._kind}-1",
                "client_id": self._client_id,
                "type": self._kind,
                "ts": now_ms * 1000,
                "time": wall_ms // 1000,
                "age": (now_ms - self._started_ms) * 1000,
                "replyq": 0,
                "msg_cnt": waiting,
                "msg_size": waiting_bytes,
                "txmsgs": int(counted.get("record-send-total", 0)),
                "txmsg_bytes": int(counted.get("byte-total", 0)),
                "rxmsgs": int(counted.get("records-consumed-total", 0)),
                "rxmsg_bytes": int(counted.get("bytes-consumed-total", 0)),
                "tx": int(counted.get("request-total", 0)),
                "rx": int(counted.get("response-total", 0)),
                "brokers": {},
                "topics": topics,
                "pylog": counted,
            }
        )
