"""The settings of coordinators of transactions, under Kafka's names."""

from __future__ import annotations

from dataclasses import dataclass

_DAY_MS = 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True)
class TransactionConfig:
    """Defaults are Kafka's."""

    max_timeout_ms: int = 15 * 60 * 1000
    """transaction.max.timeout.ms: the longest time-out that a producer may ask for."""
    id_expiration_ms: int = 7 * _DAY_MS
    """transactional.id.expiration.ms: how long an id without a transaction is remembered."""
    expiration_interval_ms: int = 60 * 60 * 1000
    """transaction.remove.expired.transaction.cleanup.interval.ms"""
    two_phase_commit: bool = False
    """transaction.two.phase.commit.enable (KIP-939)"""
    partitions_max: int = 10_000
    """The most partitions of one transaction: its record has to hold them all."""
    sinks_max: int = 10_000
    """sinks.max: of queries, in one shard."""
    sink_attempts_max: int = 10_000
    """sink.attempts.max: open ones of one sink, as a decision has to name them all."""
    sink_lease_ms: int = 60_000
    """sink.attempt.lease.ms: how long an attempt that writes lives without being renewed."""
    ids_max: int = 100_000
    """Transactional ids of one shard, each of about a kilobyte of memory."""
