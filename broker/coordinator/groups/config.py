"""The settings of coordinators of groups, under Kafka's names."""

from __future__ import annotations

from dataclasses import dataclass, field

from pylog_broker.group_settings import GroupSettings, SameSettings, SettingsByGroup

_DAY_MS = 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """Defaults are Kafka's."""

    min_session_timeout_ms: int = 6_000
    """group.min.session.timeout.ms"""
    max_session_timeout_ms: int = 1_800_000
    """group.max.session.timeout.ms"""
    max_size: int = 2**31 - 1
    """group.max.size: members of one group."""
    initial_rebalance_delay_ms: int = 3_000
    """group.initial.rebalance.delay.ms: how long the first member of an empty group is let wait for
    others.
    """
    new_member_join_timeout_ms: int = 5 * 60 * 1000
    """The time for which a new member may wait in a join without a request of its own: its client
    gives up before.
    """
    consumer_max_size: int = 2**31 - 1
    """group.consumer.max.size: members of one group of it."""
    consumer_migration_policy: str = "bidirectional"
    """group.consumer.migration.policy: in which direction a group with members may change its
    protocol. One of bidirectional, upgrade (to the consumer protocol), downgrade, disabled.
    """
    share_max_size: int = 200
    """group.share.max.size: members of one share group."""
    streams_max_size: int = 2**31 - 1
    """group.streams.max.size: members of one streams group."""
    offset_metadata_max_bytes: int = 4_096
    """offset.metadata.max.bytes"""
    offsets_retention_ms: int = 7 * _DAY_MS
    """offsets.retention.minutes"""
    offsets_retention_check_interval_ms: int = 10 * 60 * 1000
    """offsets.retention.check.interval.ms"""
    settings: SettingsByGroup = field(default_factory=SameSettings)
    """The settings that a group may have for itself."""

    def of(self, group_id: str) -> GroupSettings:
        """The settings of that group, as they are now: to be asked for at each decision."""
        return self.settings.of(group_id)

    @property
    def may_upgrade(self) -> bool:
        """Whether a classic group with members may become one of the consumer protocol."""
        return self.consumer_migration_policy in ("bidirectional", "upgrade")

    @property
    def may_downgrade(self) -> bool:
        """Likewise the other way."""
        return self.consumer_migration_policy in ("bidirectional", "downgrade")
