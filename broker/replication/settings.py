"""The numbers that replication runs by, each with Kafka's name and default where Kafka has one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from pylog_broker.config import RACK_AWARE_SELECTORS, BrokerConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationSettings:
    """Limits and waits of one broker's replica manager. All times in milliseconds."""

    # replica.lag.time.max.ms: a follower that did not catch up for this long leaves the ISR
    replica_lag_time_max_ms: int = 30_000
    # replica.fetch.*: what a follower asks its leaders for
    replica_fetch_wait_max_ms: int = 500
    replica_fetch_min_bytes: int = 1
    replica_fetch_max_bytes: int = 1 << 20
    replica_fetch_response_max_bytes: int = 10 << 20
    # after a broken connection or an answer that cannot be used; Kafka waits a full second
    # (replica.fetch.backoff.ms, here the most it grows to): most of our fail-over budget
    replica_fetch_backoff_ms: int = 50
    replica_fetch_backoff_max_ms: int = 1_000
    # A follower that waits at the log's end hears of a new high watermark after at most this long.
    # Data that comes sooner carries it along, which halves the messages of a busy partition.
    high_watermark_linger_ms: int = 5
    # ISR changes that the controller could not take yet
    alter_partition_backoff_ms: int = 50
    alter_partition_backoff_max_ms: int = 1_000
    # fetch.max.bytes of the broker: no answer is larger, whatever the client asks for (one whole
    # batch is always returned)
    fetch_max_bytes: int = 55 << 20
    # replica.selector.class: consumers that name a rack are sent to a follower that stands there
    rack_aware_reads: bool = False
    # longer waits are cut to this
    request_wait_max_ms: int = 300_000
    # a request naming more partitions is refused (bad input 33); a follower spreads them over
    # several fetches
    request_partitions_max: int = 20_000
    # local.read.max.*: files that readers on this machine hold open, and for how long
    local_read_max_descriptors: int = 256
    local_read_max_ms: int = 60_000
    # requests that may wait at once, of all kinds together
    waiting_requests_max: int = 100_000

    @classmethod
    def from_config(cls, config: BrokerConfig) -> Self:
        """The settings that a broker's configuration gives, the others at their defaults."""
        backoff_max_ms = max(1, config.replica_fetch_backoff_ms)
        return cls(
            replica_lag_time_max_ms=config.replica_lag_time_max_ms,
            replica_fetch_wait_max_ms=config.replica_fetch_wait_max_ms,
            replica_fetch_min_bytes=config.replica_fetch_min_bytes,
            replica_fetch_max_bytes=config.replica_fetch_max_bytes,
            replica_fetch_response_max_bytes=config.replica_fetch_response_max_bytes,
            replica_fetch_backoff_ms=min(cls().replica_fetch_backoff_ms, backoff_max_ms),
            replica_fetch_backoff_max_ms=backoff_max_ms,
            fetch_max_bytes=config.fetch_max_bytes,
            local_read_max_descriptors=config.local_read_max_descriptors,
            local_read_max_ms=config.local_read_max_ms,
            rack_aware_reads=config.replica_selector_class in RACK_AWARE_SELECTORS,
        )
