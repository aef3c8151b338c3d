"""The settings of coordinators of groups, out of a broker's settings. Pure."""

from __future__ import annotations

from pylog_broker.config import BrokerConfig
from pylog_broker.coordinator.groups.config import GroupConfig
from pylog_broker.group_settings import SettingsByGroup

_MINUTE_MS = 60_000


def group_config(config: BrokerConfig, settings: SettingsByGroup) -> GroupConfig:
    """The broker's settings, as they were when it started, and those of each group."""
    return GroupConfig(
        min_session_timeout_ms=config.group_min_session_timeout_ms,
        max_session_timeout_ms=config.group_max_session_timeout_ms,
        max_size=config.group_max_size,
        initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        consumer_max_size=config.group_consumer_max_size,
        consumer_migration_policy=config.group_consumer_migration_policy,
        share_max_size=config.group_share_max_size,
        streams_max_size=config.group_streams_max_size,
        offset_metadata_max_bytes=config.offset_metadata_max_bytes,
        offsets_retention_ms=config.offsets_retention_minutes * _MINUTE_MS,
        offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
        settings=settings,
    )
