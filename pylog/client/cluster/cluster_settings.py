"""The settings that a client's connections need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pylog.client.cluster.metadata import Address, parse_addresses


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """Those of a client's settings that `Cluster` goes by."""

    bootstrap: tuple[Address, ...]
    client_id: str
    request_timeout_ms: int
    default_api_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    metadata_max_age_ms: int
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    bootstrap_timeout_ms: int = 8_000
    by_gateway: bool = False
    """`client.routing=gateway`: every connection goes to one of the bootstrap addresses."""
    framed: bool = True
    """`client.transport=auto`: framed streams where brokers offer them."""
    connections_max_idle_ms: int = 540_000
    """-1: no limit."""
    setup_timeout_ms: int = 10_000
    setup_timeout_max_ms: int = 30_000

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> ClusterSettings:
        """Out of a parsed settings table."""
        return cls(
            parse_addresses(values["bootstrap.servers"]),
            values["client.id"],
            values["request.timeout.ms"],
            values["default.api.timeout.ms"],
            values["retry.backoff.ms"],
            values["retry.backoff.max.ms"],
            values["metadata.max.age.ms"],
            values["reconnect.backoff.ms"],
            values["reconnect.backoff.max.ms"],
            values["bootstrap.timeout.ms"],
            values["client.routing"] == "gateway",
            values["client.transport"] == "auto",
            values["connections.max.idle.ms"],
            values["socket.connection.setup.timeout.ms"],
            values["socket.connection.setup.timeout.max.ms"],
        )

    def backoff_s(self, attempts: int, jitter: float) -> float:
        """Exponential, within 20 % (KIP-580)."""
        wait = self.retry_backoff_ms * 2 ** min(max(attempts - 1, 0), 30)
        return float(min(wait, self.retry_backoff_max_ms) * (0.8 + 0.4 * jitter) / 1000)
