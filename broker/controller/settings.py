"""What the controller can be set to. Values only; `pylog_broker.config` names and checks them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pylog_broker.config import BROKER_NAMES, BrokerConfig, TopicConfig

MIN_ISR: Final = "min.insync.replicas"


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """Times in milliseconds. `expected_brokers` is N, the number of task slots: it caps ids."""

    expected_brokers: int
    claim_wait_ms: int = 10_000
    # As long as a granted id waits for its registration: a start waits up to 10 s for the lock of
    # a directory whose old owner is still flushing, then recovers its logs.
    claim_hold_ms: int = 30_000
    # A directory that nobody has locked so long after it was granted: its start has failed (a full
    # disk), and must not keep the next one waiting.
    claim_unlocked_hold_ms: int = 2_000
    session_grace_ms: int = 300
    session_timeout_ms: int = 6_000
    controlled_shutdown_wait_ms: int = 3_000
    num_partitions: int = 1
    default_replication_factor: int = 1
    topic_defaults: TopicConfig = field(default_factory=TopicConfig)
    # what the controller was started with, by Kafka's names
    static_config: Mapping[str, str] = field(default_factory=dict)
    auto_leader_rebalance: bool = True
    leader_imbalance_check_ms: int = 300_000
    leader_imbalance_percentage: int = 10
    # A request beyond this is refused before any of it is looked at; the second bounds the
    # memory of every image in the cluster.
    partitions_per_request_max: int = 10_000
    partitions_max: int = 100_000
    # Ids are durable before use: a block costs one fsync, and a crash wastes at most one block.
    producer_id_block: int = 1_000
    snapshot_interval_records: int = 20_000
    # Committed records kept in memory for brokers that reconnect; who is further behind gets a
    # snapshot.
    tail_records_max: int = 50_000

    @classmethod
    def from_config(
        cls,
        config: BrokerConfig,
        *,
        expected_brokers: int,
        static_config: Mapping[str, str] | None = None,
    ) -> ControllerSettings:
        """The settings that a configuration stands for; `static_config` as it was given."""
        return cls(
            expected_brokers=expected_brokers,
            claim_wait_ms=config.broker_claim_wait_ms,
            session_grace_ms=config.broker_session_grace_ms,
            session_timeout_ms=config.broker_session_timeout_ms,
            num_partitions=config.num_partitions,
            default_replication_factor=config.default_replication_factor,
            topic_defaults=config.topic,
            static_config=dict(static_config or {}),
            auto_leader_rebalance=config.auto_leader_rebalance_enable,
            leader_imbalance_check_ms=config.leader_imbalance_check_interval_seconds * 1_000,
            leader_imbalance_percentage=config.leader_imbalance_per_broker_percentage,
            producer_id_block=config.producer_id_block_size,
        )

    def with_setting(
        self, name: str, own: Mapping[str, str], cluster: Mapping[str, str]
    ) -> TopicConfig:
        """Topic settings of which the named one is right: as the topic's own values have it, or the
        cluster's, or the default. Read as brokers read it, however it was spelled.
        """
        value = own.get(name, cluster.get(BROKER_NAMES[name]))
        if value is None:
            return self.topic_defaults
        return TopicConfig.resolve({name: value}, self.topic_defaults)

    def min_isr(self, own: Mapping[str, str], cluster: Mapping[str, str]) -> int:
        """`min.insync.replicas` of a topic with these values of its own. As leaders judge, who know
        the metadata alone: the value of the start counts because it is written there.
        """
        value = own.get(MIN_ISR, cluster.get(MIN_ISR))
        values = {} if value is None else {MIN_ISR: value}
        return TopicConfig.resolve(values, TopicConfig()).min_insync_replicas

    @property
    def min_isr_to_record(self) -> str | None:
        """What the metadata must say for the start's `min.insync.replicas` to hold; None: nothing,
        it is Kafka's default.
        """
        value = self.topic_defaults.min_insync_replicas
        return None if value == TopicConfig().min_insync_replicas else str(value)

    def says(self, name: str) -> bool:
        """Whether the broker setting was given at the start, and not left at its default."""
        return name in self.static_config
