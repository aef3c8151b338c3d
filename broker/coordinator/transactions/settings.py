"""The settings of coordinators of transactions, out of a broker's settings. Pure."""

from __future__ import annotations

from pylog_broker.config import BrokerConfig
from pylog_broker.coordinator.transactions.config import TransactionConfig


def transaction_config(config: BrokerConfig) -> TransactionConfig:
    """The broker's settings, as they were when it started."""
    return TransactionConfig(
        max_timeout_ms=config.transaction_max_timeout_ms,
        id_expiration_ms=config.transactional_id_expiration_ms,
        expiration_interval_ms=config.transaction_remove_expired_transaction_cleanup_interval_ms,
        two_phase_commit=config.transaction_two_phase_commit_enable,
        sinks_max=config.sinks_max,
        sink_attempts_max=config.sink_attempts_max,
        sink_lease_ms=config.sink_attempt_lease_ms,
    )
