"""What coordinators of groups go by, under Kafka's names."""

from __future__ import annotations

from dataclasses import dataclass

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
    """How long a new member may wait in a join without being heard of: its client gives up before.
    """
    consumer_session_timeout_ms: int = 45_000
    """group.consumer.session.timeout.ms: how long a member may be silent (consumer protocol)."""
    consumer_heartbeat_interval_ms: int = 5_000
    """group.consumer.heartbeat.interval.ms: how often it is told to send one."""
    consumer_max_size: int = 2**31 - 1
    """group.consumer.max.size: members of one group of it."""
    consumer_migration_policy: str = "bidirectional"
    """group.consumer.migration.policy: in which direction a group with members may change its
    protocol. One of bidirectional, upgrade (to the consumer protocol), downgrade, disabled.
    """
    share_session_timeout_ms: int = 45_000
    """group.share.session.timeout.ms: how long a member of a share group may be silent."""
    share_heartbeat_interval_ms: int = 5_000
    """group.share.heartbeat.interval.ms: how often it is told to send a heartbeat."""
    share_max_size: int = 200
    """group.share.max.size: members of one share group."""
    offset_metadata_max_bytes: int = 4_096
    """offset.metadata.max.bytes"""
    offsets_retention_ms: int = 7 * _DAY_MS
    """offsets.retention.minutes"""
    offsets_retention_check_interval_ms: int = 10 * 60 * 1000
    """offsets.retention.check.interval.ms"""

    @property
    def may_upgrade(self) -> bool:
        """Whether a classic group with members may become one of the consumer protocol."""
        return self.consumer_migration_policy in ("bidirectional", "upgrade")

    @property
    def may_downgrade(self) -> bool:
        """Likewise the other way."""
        return self.consumer_migration_policy in ("bidirectional", "downgrade")
