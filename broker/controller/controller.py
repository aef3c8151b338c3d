"""The controller: the only writer of the cluster's metadata. (Signatures; behaviour follows.)"""

from __future__ import annotations

from collections.abc import Callable

from broker.controller.effects import Effect
from broker.controller.settings import ControllerSettings
from broker.metadata.admin import AlterConfigs, CreateTopics, DeleteTopics, ElectLeaders
from broker.metadata.image import MetadataImage
from broker.metadata.messages import AlterPartition, ClaimBroker, MetadataBatch, RegisterBroker
from pylog.model import BrokerEpoch, BrokerId, ClusterDescription, ControllerEpoch, Offset


class Controller:
    """Pure: takes times and answers, returns effects.

    Every method returns the effects to perform, in order. A `Reply` to `token` may come with a
    later call (`on_committed`, `on_time`, ...). A refused call is a `Reply` with a `Failure`.
    """

    def __init__(
        self, image: MetadataImage, settings: ControllerSettings, new_id: Callable[[], str]
    ) -> None:
        """`image` as recovered from disk (empty: a new cluster).

        `new_id()` gives 22 characters of URL-safe base64 for 16 random bytes.
        """
        raise NotImplementedError

    @property
    def image(self) -> MetadataImage:
        """What is committed: what brokers and clients may know. Read only."""
        raise NotImplementedError

    @property
    def controller_epoch(self) -> ControllerEpoch:
        raise NotImplementedError

    @property
    def next_deadline_ms(self) -> int | None:
        raise NotImplementedError

    def batches_since(self, from_offset: Offset) -> tuple[MetadataBatch, ...]:
        """Committed metadata from `from_offset` on; one snapshot batch when that is too old."""
        raise NotImplementedError

    def describe_cluster(self) -> ClusterDescription:
        raise NotImplementedError

    def start(self, now_ms: int) -> list[Effect]:
        """Once, first: raises the controller epoch."""
        raise NotImplementedError

    def on_committed(self, now_ms: int, offset: Offset) -> list[Effect]:
        raise NotImplementedError

    def on_time(self, now_ms: int) -> list[Effect]:
        raise NotImplementedError

    # ---- brokers: replies BrokerClaim, BrokerRegistered, HeartbeatAccepted, ShutdownPermitted ------

    def claim_broker(self, now_ms: int, request: ClaimBroker, token: object) -> list[Effect]:
        raise NotImplementedError

    def register_broker(self, now_ms: int, request: RegisterBroker, token: object) -> list[Effect]:
        raise NotImplementedError

    def session_opened(
        self, now_ms: int, broker_id: BrokerId, broker_epoch: BrokerEpoch, incarnation_id: str
    ) -> list[Effect]:
        """Each opened stream is broken once; several may overlap (a reconnect)."""
        raise NotImplementedError

    def session_progress(
        self,
        now_ms: int,
        broker_id: BrokerId,
        broker_epoch: BrokerEpoch,
        metadata_offset: Offset,
        want_unfence: bool,
    ) -> list[Effect]:
        raise NotImplementedError

    def session_broken(
        self, now_ms: int, broker_id: BrokerId, broker_epoch: BrokerEpoch
    ) -> list[Effect]:
        raise NotImplementedError

    def heartbeat(
        self, now_ms: int, broker_id: BrokerId, broker_epoch: BrokerEpoch, token: object
    ) -> list[Effect]:
        raise NotImplementedError

    def task_ended(self, now_ms: int, incarnation_id: str) -> list[Effect]:
        """Spark reported the end of the task that ran this incarnation: it is dead."""
        raise NotImplementedError

    def controlled_shutdown(
        self, now_ms: int, broker_id: BrokerId, broker_epoch: BrokerEpoch, token: object
    ) -> list[Effect]:
        raise NotImplementedError

    def unregister_broker(self, now_ms: int, broker_id: BrokerId, token: object) -> list[Effect]:
        raise NotImplementedError

    def stop_cluster(self, now_ms: int) -> list[Effect]:
        """The whole cluster stops in order: tells all sessions, fences nobody any more."""
        raise NotImplementedError

    # ---- partitions, producer ids: replies PartitionsAltered, ProducerIdBlock, LeadersElected ------

    def alter_partition(self, now_ms: int, request: AlterPartition, token: object) -> list[Effect]:
        raise NotImplementedError

    def allocate_producer_ids(
        self, now_ms: int, broker_id: BrokerId, broker_epoch: BrokerEpoch, token: object
    ) -> list[Effect]:
        raise NotImplementedError

    def elect_leaders(self, now_ms: int, request: ElectLeaders, token: object) -> list[Effect]:
        raise NotImplementedError

    # ---- topics and configs: replies TopicsCreated, TopicsDeleted, ConfigsAltered ----------------

    def create_topics(self, now_ms: int, request: CreateTopics, token: object) -> list[Effect]:
        raise NotImplementedError

    def delete_topics(self, now_ms: int, request: DeleteTopics, token: object) -> list[Effect]:
        raise NotImplementedError

    def alter_configs(self, now_ms: int, request: AlterConfigs, token: object) -> list[Effect]:
        raise NotImplementedError
