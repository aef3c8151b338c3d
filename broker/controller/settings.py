"""The settings of the controller. Values only; `pylog_broker.config` names and checks them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pylog.model import CONSUMER_OFFSETS
from pylog_broker.config import BROKER_NAMES, BrokerConfig, TopicConfig

MIN_ISR: Final = "min.insync.replicas"
TRANSACTION_STATE: Final = "__transaction_state"
SHARE_GROUP_STATE: Final = "__share_group_state"


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """The name, size and configuration with which an internal topic is made."""

    name: str
    num_partitions: int
    replication_factor: int
    config: Mapping[str, str]


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
    # what brokers are started with, as far as the controller knows: bounds of groups' settings
    broker: BrokerConfig = field(default_factory=BrokerConfig)
    # by name; nobody may have another internal topic made
    internal_topics: Mapping[str, InternalTopic] = field(default_factory=dict)
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
    # Committed records kept in memory for brokers that reconnect; a broker further behind gets a
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
            broker=config,
            internal_topics=_internal_topics(config, expected_brokers, static_config or {}),
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
        """`min.insync.replicas` of a topic with these values of its own. As leaders judge, which
        know the metadata alone: the value of the start counts because it is written there.
        """
        value = own.get(MIN_ISR, cluster.get(MIN_ISR))
        values = {} if value is None else {MIN_ISR: value}
        return TopicConfig.resolve(values, TopicConfig()).min_insync_replicas

    @property
    def min_isr_to_record(self) -> str | None:
        """The value that the metadata must have for the start's `min.insync.replicas` to hold;
        None: nothing, it is Kafka's default.
        """
        value = self.topic_defaults.min_insync_replicas
        return None if value == TopicConfig().min_insync_replicas else str(value)

    def says(self, name: str) -> bool:
        """Whether the broker setting was given at the start, and not left at its default."""
        return name in self.static_config


def _internal_topics(
    config: BrokerConfig, expected_brokers: int, said: Mapping[str, str]
) -> dict[str, InternalTopic]:
    """The internal topics, with Apache Kafka's settings of them.

    Their number of replicas follows from the configured brokers, and never from those that are
    alive: a topic that is made while most brokers are still starting would keep one replica.
    """

    def factor(name: str, value: int) -> int:
        return value if name in said else min(value, expected_brokers)

    def min_isr(replicas: int, name: str = "", value: int = 2) -> str:
        return str(value if name in said or replicas >= 3 else 1)

    offsets = factor("offsets.topic.replication.factor", config.offsets_topic_replication_factor)
    offsets_config = {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        MIN_ISR: min_isr(offsets),
        "segment.bytes": str(config.offsets_topic_segment_bytes),
    }
    transactions = factor(
        "transaction.state.log.replication.factor", config.transaction_state_log_replication_factor
    )
    transactions_config = {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        MIN_ISR: min_isr(
            transactions, "transaction.state.log.min.isr", config.transaction_state_log_min_isr
        ),
        "segment.bytes": str(config.transaction_state_log_segment_bytes),
        "unclean.leader.election.enable": "false",
    }
    shares = factor(
        "share.coordinator.state.topic.replication.factor",
        config.share_coordinator_state_topic_replication_factor,
    )
    shares_config = {
        # KIP-932: the coordinator deletes what its snapshots have made redundant
        "cleanup.policy": "delete",
        "compression.type": "producer",
        MIN_ISR: min_isr(
            shares,
            "share.coordinator.state.topic.min.isr",
            config.share_coordinator_state_topic_min_isr,
        ),
        "retention.ms": "-1",
        "segment.bytes": str(config.share_coordinator_state_topic_segment_bytes),
    }
    counts = (
        config.offsets_topic_num_partitions,
        config.transaction_state_log_num_partitions,
        config.share_coordinator_state_topic_num_partitions,
    )
    topics = (
        InternalTopic(CONSUMER_OFFSETS, counts[0], offsets, offsets_config),
        InternalTopic(TRANSACTION_STATE, counts[1], transactions, transactions_config),
        InternalTopic(SHARE_GROUP_STATE, counts[2], shares, shares_config),
    )
    return {topic.name: topic for topic in topics}
