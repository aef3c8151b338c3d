"""All partitions of one broker: produce, fetch, replication, and what waits for them.

Pure: times are arguments, everything to do outside comes back as effects (`messages.py`), and logs
are reached through the LogManager that the shell or the simulator made. The caller owns it: one
loop, no locks.
"""

from __future__ import annotations

from broker.config import BrokerConfig
from broker.metadata.image import MetadataDelta, MetadataImage
from broker.metadata.messages import PartitionsAltered
from broker.replication.messages import (
    ColdRead,
    DeleteRecords,
    Effect,
    EpochEndQuery,
    EpochEnds,
    Fetch,
    OffsetAnswer,
    OffsetQuery,
    PartitionState,
    Produce,
    ReplicaFetch,
    ReplicaFetched,
)
from broker.replication.settings import ReplicationSettings
from broker.storage.manager import LogManager
from pylog.model import BrokerEpoch, BrokerId, Offset, TopicPartition


class ReplicaManager:
    """The replicas of one broker."""

    def __init__(
        self,
        broker_id: BrokerId,
        logs: LogManager,
        config: BrokerConfig,
        *,
        settings: ReplicationSettings | None = None,
        initial_high_watermarks: dict[TopicPartition, Offset] | None = None,
    ) -> None:
        """`settings` None: derived from `config`;

        high watermarks None: `logs.load_high_watermarks()`.
        """
        raise NotImplementedError

    def on_registered(self, now_ms: int, broker_epoch: BrokerEpoch) -> list[Effect]:
        raise NotImplementedError

    def on_metadata(
        self, now_ms: int, image: MetadataImage, delta: MetadataDelta
    ) -> list[Effect]:
        raise NotImplementedError

    def produce(
        self, now_ms: int, wall_ms: int, request: Produce, token: object
    ) -> list[Effect]:
        raise NotImplementedError

    def fetch(self, now_ms: int, request: Fetch, token: object) -> list[Effect]:
        raise NotImplementedError

    def cancel(self, token: object) -> None:
        raise NotImplementedError

    def replica_fetch(self, now_ms: int, request: ReplicaFetch, token: object) -> list[Effect]:
        raise NotImplementedError

    def on_replica_fetched(
        self,
        now_ms: int,
        wall_ms: int,
        leader: BrokerId,
        request_id: int,
        fetched: ReplicaFetched | None,
    ) -> list[Effect]:
        raise NotImplementedError

    def epoch_ends(self, request: EpochEndQuery) -> EpochEnds:
        raise NotImplementedError

    def on_epoch_ends(
        self, now_ms: int, leader: BrokerId, request_id: int, ends: EpochEnds | None
    ) -> list[Effect]:
        raise NotImplementedError

    def list_offsets(self, query: OffsetQuery) -> OffsetAnswer:
        raise NotImplementedError

    def delete_records(
        self, now_ms: int, request: DeleteRecords, token: object
    ) -> list[Effect]:
        raise NotImplementedError

    def on_partitions_altered(
        self, now_ms: int, request_id: int, answer: PartitionsAltered | None
    ) -> list[Effect]:
        raise NotImplementedError

    def on_cold_read(self, now_ms: int, read: ColdRead) -> list[Effect]:
        raise NotImplementedError

    def on_time(self, now_ms: int, wall_ms: int) -> list[Effect]:
        raise NotImplementedError

    @property
    def next_deadline_ms(self) -> int | None:
        raise NotImplementedError

    def describe(self) -> list[PartitionState]:
        raise NotImplementedError

    def high_watermarks(self) -> dict[TopicPartition, Offset]:
        raise NotImplementedError
