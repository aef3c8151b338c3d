"""The settings that the producer's sender needs. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

ACKS: Final = {"all": -1, "-1": -1, "0": 0, "1": 1}


@dataclass(frozen=True, slots=True)
class SenderSettings:
    """`acks` is 0, 1 or -1."""

    acks: int = -1
    idempotent: bool = True
    max_in_flight: int = 5
    max_request_size: int = 1_048_576
    request_timeout_ms: int = 30_000
    delivery_timeout_ms: int = 120_000
    retries: int = 2**31 - 1
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Out of the producer's settings table."""
        return cls(
            acks=ACKS[values["acks"]],
            idempotent=values["enable.idempotence"],
            max_in_flight=values["max.in.flight.requests.per.connection"],
            max_request_size=values["max.request.size"],
            request_timeout_ms=values["request.timeout.ms"],
            delivery_timeout_ms=values["delivery.timeout.ms"],
            retries=values["retries"],
            retry_backoff_ms=values["retry.backoff.ms"],
            retry_backoff_max_ms=values["retry.backoff.max.ms"],
        )

    def backoff_ms(self, attempts: int, jitter: float) -> int:
        """The milliseconds to wait after so many attempts: exponential, within 20 % (KIP-580)."""
        longest = self.retry_backoff_max_ms
        wait = min(self.retry_backoff_ms * 2 ** min(max(attempts - 1, 0), 30), longest)
        return int(wait * (0.8 + 0.4 * jitter))
