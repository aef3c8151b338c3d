"""A shell around the controller that commits at once, for tests: a disk that never fails.

Its own test is `tests/unit/broker/controller/test_controller_shell.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count

from pylog.model import (
    NO_BROKER_EPOCH,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    NewTopic,
    Offset,
    TopicId,
    topic_id_from_bytes,
)
from pylog_broker.controller.controller import Controller
from pylog_broker.controller.effects import AppendRecords, Effect, Reply, machine_of
from pylog_broker.controller.settings import ControllerSettings
from pylog_broker.metadata.admin import CreateTopics, TopicsCreated
from pylog_broker.metadata.features import SUPPORTED
from pylog_broker.metadata.image import MetadataImage
from pylog_broker.metadata.messages import (
    AlterPartition,
    BrokerRegistered,
    BrokerState,
    PartitionIsr,
    PartitionsAltered,
    RegisterBroker,
)
from pylog_broker.metadata.records import (
    Endpoint,
    MetadataRecord,
    PartitionRecord,
    Software,
    usual_listeners,
)


def counting_ids(prefix: int = 7) -> object:
    """A factory of ids that are different and always the same."""
    numbers = count(1)
    return lambda: str(topic_id_from_bytes(bytes([prefix]) + next(numbers).to_bytes(15, "big")))


@dataclass(frozen=True, slots=True)
class Incarnation:
    """One life of a broker, as the shell started it."""

    broker_id: BrokerId
    epoch: BrokerEpoch
    incarnation_id: str


class ControllerShell:
    """Drives a controller: performs appends at once, keeps the log, collects other effects."""

    def __init__(
        self,
        image: MetadataImage | None = None,
        *,
        settings: ControllerSettings | None = None,
        now_ms: int = 1_000,
        wall_ms: int = 0,
        ids: object = None,
        next_offset: Offset | None = None,
    ) -> None:
        self.settings = settings or ControllerSettings(expected_brokers=3)
        self.now_ms = now_ms
        self.log: list[MetadataRecord] = []
        image = image or MetadataImage()
        self.first_offset = Offset(image.offset + 1) if next_offset is None else next_offset
        self.replies: dict[object, object] = {}
        self.others: list[Effect] = []
        self._tokens = count(1)
        make = ids or counting_ids()
        assert callable(make)
        self.controller = Controller(
            machine_of(image), self.settings, make, next_offset=next_offset
        )
        self.perform(self.controller.start(now_ms, wall_ms))

    def perform(self, effects: list[Effect]) -> list[Effect]:
        """Carries out `effects` and what follows from them; they come back for comparison."""
        for effect in effects:
            if isinstance(effect, AppendRecords):
                assert effect.first_offset == self.first_offset + len(self.log)
                self.log.extend(effect.records)
                self.perform(self.controller.on_committed(self.now_ms, effect.last_offset))
            elif isinstance(effect, Reply):
                assert effect.token not in self.replies, "answered twice"
                self.replies[effect.token] = effect.response
            else:
                self.others.append(effect)
        return effects

    def call(self, method: str, *arguments: object) -> object:
        """The answer to a request, which must come at once."""
        token = f"{method}-{next(self._tokens)}"
        self.perform(getattr(self.controller, method)(self.now_ms, *arguments, token))
        return self.replies.pop(token)

    def advance(self, ms: int, *, alive: tuple[Incarnation, ...] = ()) -> None:
        """Lets time pass as a shell does, `on_time` at every deadline; `alive` send heartbeats."""
        end = self.now_ms + ms
        while self.now_ms < end:
            due = self.controller.next_deadline_ms
            self.now_ms = end if due is None else max(self.now_ms + 1, min(due, end))
            for broker in alive:
                self.call("heartbeat", broker.broker_id, broker.epoch)
            self.perform(self.controller.on_time(self.now_ms))

    # ---- brokers -------------------------------------------------------------------------------

    def registration(self, broker: int, life: int = 1, **changes: object) -> RegisterBroker:
        """The registration that the `life`-th incarnation of a broker would send."""
        values: dict[str, object] = {
            "broker_id": BrokerId(broker),
            "incarnation_id": f"incarnation-{broker}-{life}",
            "cluster_id": self.controller.decided.cluster_id,
            "host_id": f"host-{broker}",
            "rack": None,
            "listeners": usual_listeners(
                Endpoint(f"host-{broker}", 9000 + broker), Endpoint(f"host-{broker}", 9100 + broker)
            ),
            "software": Software("pylog", "1.0", features=SUPPORTED),
            "directory_id": f"directory-{broker}",
            "boot_id": f"boot-{broker}",
            "log_intact": True,
            "highest_controller_epoch": ControllerEpoch(-1),
            "previous_broker_epoch": self.epoch_of(broker),
        }
        return RegisterBroker(**(values | changes))  # type: ignore[arg-type]

    def epoch_of(self, broker: int) -> BrokerEpoch:
        """The one that a claim would be told."""
        known = self.controller.decided.brokers.get(BrokerId(broker))
        return NO_BROKER_EPOCH if known is None else known.broker_epoch

    def register(self, broker: int, life: int = 1, **changes: object) -> Incarnation:
        """Registers; the broker is fenced and has no session stream."""
        request = self.registration(broker, life, **changes)
        answer = self.call("register_broker", request)
        assert isinstance(answer, BrokerRegistered), answer
        return Incarnation(request.broker_id, answer.broker_epoch, request.incarnation_id)

    def open(self, broker: Incarnation) -> None:
        """Opens a session stream."""
        self.perform(
            self.controller.session_opened(
                self.now_ms, broker.broker_id, broker.epoch, broker.incarnation_id
            )
        )

    def progress(
        self, broker: Incarnation, offset: int | None = None, *, want_unfence: bool = True
    ) -> list[Effect]:
        """Tells that the broker has applied all metadata, or those up to `offset`."""
        applied = self.controller.image.offset if offset is None else Offset(offset)
        return self.perform(
            self.controller.session_progress(
                self.now_ms, broker.broker_id, broker.epoch, applied, want_unfence
            )
        )

    def broken(self, broker: Incarnation) -> None:
        """The broker's session stream breaks."""
        self.perform(self.controller.session_broken(self.now_ms, broker.broker_id, broker.epoch))

    def join(self, broker: int, life: int = 1, **changes: object) -> Incarnation:
        """Registers, opens a session, catches up and is unfenced."""
        incarnation = self.register(broker, life, **changes)
        self.open(incarnation)
        self.progress(incarnation)
        assert not self.controller.image.brokers[incarnation.broker_id].fenced
        return incarnation

    def lose(self, broker: Incarnation) -> None:
        """The broker's task ends: it is fenced at once."""
        self.perform(self.controller.task_ended(self.now_ms, broker.incarnation_id))

    # ---- topics --------------------------------------------------------------------------------

    def create(
        self,
        name: str = "t",
        *,
        partitions: int = 1,
        replication: int = 3,
        assignment: Mapping[int, list[int]] | None = None,
        config: Mapping[str, str] | None = None,
    ) -> TopicId:
        """Creates one topic, for which nobody waits."""
        if assignment is not None:
            topic = NewTopic(name, replica_assignment=assignment, config=config)
        else:
            topic = NewTopic(name, partitions, replication, config=config)
        answer = self.call("create_topics", CreateTopics((topic,), timeout_ms=0))
        assert isinstance(answer, TopicsCreated)
        assert answer.topics[0].failure is None, answer.topics[0].failure
        assert answer.topics[0].topic_id is not None
        return answer.topics[0].topic_id

    def partition(self, topic: str = "t", number: int = 0) -> PartitionRecord:
        """A partition as committed."""
        return self.controller.image.topics_by_name[topic].partitions[number]

    def alter(
        self, isr: list[int], *, topic: str = "t", number: int = 0, leader: int | None = None
    ) -> PartitionsAltered:
        """The leader asks for an ISR, with everything else as it is now."""
        partition = self.partition(topic, number)
        brokers = self.controller.image.brokers
        by = BrokerId(partition.leader if leader is None else leader)
        request = AlterPartition(
            by,
            brokers[by].broker_epoch,
            (
                PartitionIsr(
                    partition.topic_id,
                    partition.partition,
                    partition.leader_epoch,
                    partition.partition_epoch,
                    tuple(BrokerState(BrokerId(b), brokers[BrokerId(b)].broker_epoch) for b in isr),
                ),
            ),
        )
        answer = self.call("alter_partition", request)
        assert isinstance(answer, PartitionsAltered)
        return answer
