"""Administrators at work while everything runs: they delete records and topics, grow, reconfigure.

One command at a time, each repeated until it is answered: its outcome may be unknown in between, as
it is to a person whose connection broke. The ghost state's belief follows from the asking (records
may go from then on) and from the answer (then they have to stay away).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from pylog import errors
from pylog.model import BrokerId, Offset, TopicId, TopicPartition, is_internal
from pylog_broker.metadata.admin import (
    AlterConfigs,
    AlterPartitionReassignments,
    ConfigChange,
    ConfigsAltered,
    CreatePartitions,
    DeleteTopics,
    ElectLeaders,
    LeadersElected,
    NewPartitionsOf,
    NewReplicas,
    PartitionReassignmentsAltered,
    PartitionsCreated,
    TopicsDeleted,
)
from pylog_broker.metadata.messages import BrokerUnregistered, Failure
from pylog_broker.metadata.records import ConfigResourceType, PartitionRecord
from pylog_broker.replication.effects import DeleteRecordsDone
from pylog_broker.replication.offset_messages import DeleteRecords
from tests.sim.clients import Client
from tests.sim.controller_node import ControllerProcess
from tests.sim.rpc import Actor, Machine, unary

if TYPE_CHECKING:
    from tests.sim.broker_node import BrokerNode
    from tests.sim.cluster import Cluster

ASK_MS = 1_000
TO_HIGH_WATERMARK = Offset(-1)
PARTITIONS_MAX = 3
BATCH_BYTES_MIN = 140  # of one record
MAY_REFUSE = (
    errors.UnknownTopicOrPartition.code,
    errors.RequestTimedOut.code,
    errors.InvalidConfig.code,  # a broker's, against what holds meanwhile
    errors.BrokerIdNotRegistered.code,
    errors.InvalidRequest.code,
)


SIDES = ("leader", "follower")

MAY_REFUSE_A_MOVE = (
    errors.UnknownTopicOrPartition.code,
    errors.InvalidReplicaAssignment.code,  # a broker that is fenced, or is none any more
    errors.NoReassignmentInProgress.code,
    errors.NotController.code,
    errors.KafkaStorageError.code,
)


class Administrator(Actor):
    """Owns the topic's fate. `busy`: a command is not settled yet."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(Machine("admin", cluster.scheduler, 0))
        self.cluster = cluster
        self.busy = False
        self.rng = cluster.scheduler.rng("administrator")
        self._deletions = 0
        self.asked_unclean: set[tuple[TopicId, int]] = set()

    def _ask(
        self, handler: Callable[..., None], request: object, heard: Callable[[Any], None]
    ) -> None:
        controller = self.cluster.controller
        unary(self.cluster.net, self, lambda: controller.process, handler, request, heard, ASK_MS)

    def _again(self, step: Callable[[], None]) -> None:
        self.timer(200, step)

    # ---- the topic

    def create(self, then: Callable[[], None] = lambda: None) -> None:
        """The topic, with all that the swarm wants of it."""
        self.busy = True

        def heard(answer: Any) -> None:
            failure = answer if isinstance(answer, Failure | None) else answer.topics[0].failure
            created = answer is not None and failure is None
            if created or (failure and failure.code == errors.TopicAlreadyExists.code):
                self.busy = False
                then()
                return
            self.cluster.scheduler.note("create", failure)
            self._again(partial(self.create, then))

        self._ask(ControllerProcess.serve_create_topics, self.cluster.new_topic(), heard)

    def recreate(self) -> None:
        """Delete the topic, and make another one of its name."""
        topic = self.cluster.topic()
        if self.busy or topic is None:
            return
        self.busy = True
        self._delete(topic.topic_id)

    def _delete(self, topic_id: TopicId) -> None:
        def heard(answer: Any) -> None:
            if isinstance(answer, TopicsDeleted):
                failure = answer.topics[0].failure
                if failure is None or failure.code == errors.UnknownTopicId.code:
                    self.cluster.sometimes["topic re-created"] += 1
                    self.timer(self.rng.choice((0, 50, 2_000)), self.create)
                    return
            self._again(partial(self._delete, topic_id))

        request = DeleteTopics(topic_ids=(topic_id,))
        self._ask(ControllerProcess.serve_delete_topics, request, heard)

    def grow(self) -> None:
        """One partition more."""
        topic = self.cluster.topic()
        if self.busy or topic is None or len(topic.partitions) >= PARTITIONS_MAX:
            return
        self.busy = True
        self._grow(len(topic.partitions) + 1)

    def _grow(self, count: int) -> None:
        def heard(answer: Any) -> None:
            if isinstance(answer, PartitionsCreated):
                failure = answer.topics[0].failure
                # refused: it took effect, and only the answer was lost
                if failure is None or failure.code == errors.InvalidPartitions.code:
                    self.busy = False
                    self.cluster.sometimes["topic grown"] += 1
                    return
            self._again(partial(self._grow, count))

        request = CreatePartitions((NewPartitionsOf(self.cluster.TOPIC, count),), timeout_ms=500)
        self._ask(ControllerProcess.serve_create_partitions, request, heard)

    def move(self) -> None:
        """A partition begins to move to other brokers, or moves no more."""
        cluster = self.cluster
        topic, factor = cluster.topic(), cluster.swarm.replication_factor
        brokers = sorted(cluster.image.brokers)
        if topic is None or len(brokers) < factor:
            return
        record = topic.partitions[self.rng.choice(sorted(topic.partitions))]
        self._move(topic.name, record, self.rng.sample(brokers, factor))

    def move_internal(self) -> None:
        """The same of a partition of an internal topic; more often than not its leader leaves, and
        with it the coordinator.
        """
        cluster, rng = self.cluster, self.rng
        factor, brokers = cluster.swarm.replication_factor, sorted(cluster.image.brokers)
        names = sorted(filter(is_internal, cluster.image.topics_by_name))
        if not names or len(brokers) < factor:
            return
        topic = cluster.image.topics_by_name[rng.choice(names)]
        record = topic.partitions[rng.choice(sorted(topic.partitions))]
        others = [broker for broker in brokers if broker != record.leader]
        leaves = len(others) >= factor and rng.random() < 0.6
        self._move(topic.name, record, rng.sample(others if leaves else brokers, factor))

    def take_from_leader(self, topic: str, number: int) -> None:
        """The others go on without the leader, at once; another move brings one in its place."""
        record = self.cluster.image.topics_by_name[topic].partitions[number]
        others = [broker for broker in record.isr if broker != record.leader]
        if len(others) >= self.cluster.swarm.min_insync:
            self._move(topic, record, others)

    def _move(self, topic: str, record: PartitionRecord, replicas: list[BrokerId]) -> None:
        target: tuple[BrokerId, ...] | None = tuple(replicas)
        if record.is_reassigning and self.rng.random() < 0.3:
            target = None
        wanted = NewReplicas(topic, record.partition, target)

        def heard(answer: Any) -> None:
            if isinstance(answer, PartitionReassignmentsAltered):
                failure = answer.partitions[0].failure if answer.partitions else answer.failure
                assert failure is None or failure.code in MAY_REFUSE_A_MOVE, failure

        request = AlterPartitionReassignments((wanted,))
        self._ask(ControllerProcess.serve_move, request, heard)

    # ---- throttles of moves

    def throttle_rate(self) -> None:
        """Leaders give, or followers take, what replicas out of sync lack at another rate, or at
        none; everywhere, or at one broker.
        """
        name = f"{self.rng.choice(SIDES)}.replication.throttled.rate"
        value = self.rng.choice(("0", "200", "1000", "4000", None))
        if self.rng.random() < 0.3:
            broker = self.rng.choice(sorted(self.cluster.owners))
            self._reconfigure(ConfigResourceType.BROKER, str(broker), ((name, value),))
        else:
            self._reconfigure(ConfigResourceType.CLUSTER, "", ((name, value),))

    def throttle_replicas(self) -> None:
        """Other replicas of the topic keep to the rates: all, or those of the moves of now."""
        topic = self.cluster.topic()
        if topic is None:
            return
        side = self.rng.choice(SIDES)
        pairs = ",".join(
            f"{record.partition}:{broker}"
            for record in topic.partitions.values()
            for broker in (
                record.adding_replicas if side == "follower" else record.original_replicas
            )
        )
        value = self.rng.choice(("*", "*", pairs, None)) or None
        name = f"{side}.replication.throttled.replicas"
        self._reconfigure(ConfigResourceType.TOPIC, topic.name, ((name, value),))

    def end_throttles(self) -> None:
        """At the end the rates are wide enough for everything, or there are none any more."""
        if self.busy:
            self._again(self.end_throttles)
            return
        self.busy = True
        wide = self.rng.choice((None, str(10**9)))
        self.cluster.sometimes["throttles: lifted" if wide is None else "throttles: widened"] += 1
        names = [f"{side}.replication.throttled.rate" for side in SIDES]
        own: dict[str, str | None] = dict.fromkeys(names)
        changes = [ConfigChange(ConfigResourceType.CLUSTER, "", dict.fromkeys(names, wide))]
        for broker in sorted(self.cluster.image.brokers):
            changes.append(ConfigChange(ConfigResourceType.BROKER, str(broker), own))
        self._end_throttles(AlterConfigs(tuple(changes)))

    def _end_throttles(self, request: AlterConfigs, *, is_last: bool = False) -> None:
        """Once now, and once when no copy of an earlier command is on its way any more."""

        def heard(answer: Any) -> None:
            if isinstance(answer, ConfigsAltered):
                failures = [each.failure for each in answer.resources if each.failure is not None]
                assert all(each.code in MAY_REFUSE for each in failures), failures
                self.busy = False
                if not is_last:
                    late_ms = self.cluster.net.parameters.tail_ms[1]
                    self.timer(late_ms, partial(self._end_throttles, request, is_last=True))
                return
            self._again(partial(self._end_throttles, request, is_last=is_last))

        self._ask(ControllerProcess.serve_alter_configs, request, heard)

    def help_empty_partitions(self) -> None:
        """At the end, every second: have any live replica lead a partition that nobody may lead and
        to which nothing was committed. Such a partition was made by a controller that did not know
        yet which brokers had died.
        """
        empty = self._empty_partitions()
        if empty:
            self.cluster.sometimes["election by command"] += 1
            topics = self.cluster.image.topics_by_name
            self.asked_unclean.update((topics[name].topic_id, number) for name, number in empty)
            request = ElectLeaders(unclean=True, partitions=empty)
            self._ask(ControllerProcess.serve_elect_leaders, request, lambda _: None)
        self.timer(1_000, self.help_empty_partitions)

    def _empty_partitions(self) -> tuple[tuple[str, int], ...]:
        """Those that nobody may lead and that have nothing to lose, but the controller cannot know:
        enough were in sync when they were made, as far as it knew, or it was told that a log is no
        longer there.
        """
        cluster = self.cluster
        return tuple(
            (cluster.image.topics_by_id[partition.topic_id].name, partition.partition)
            for partition in cluster.image.partitions()
            if not (*partition.isr, *partition.eligible_leader_replicas)
            and (partition.emptied_replicas or not partition.never_committed)
            and not cluster.shadows.ghost(partition.topic_id, partition.partition).committed_end
        )

    def reconfigure(self) -> None:
        """Another policy, another retention, or another number of replicas for a commit."""
        swarm = self.cluster.swarm
        self._reconfigure(
            ConfigResourceType.TOPIC,
            self.cluster.TOPIC,
            (
                ("cleanup.policy", self.rng.choice(("delete", "compact", "compact,delete"))),
                ("retention.ms", self.rng.choice(("-1", "1000", "3000"))),
                ("retention.bytes", self.rng.choice(("-1", "1500"))),
                # never below what the budget of faults was reckoned by
                ("min.insync.replicas", self._min_isr()),
                (
                    "max.message.bytes",
                    self.rng.choice(
                        (str(max(BATCH_BYTES_MIN, swarm.clients.batch_size // 2)), None)
                    ),
                ),
                ("segment.bytes", self.rng.choice(("1024", "4000"))),
            ),
        )

    def refuse_batches(self) -> None:
        """All but small ones, for a while."""
        topic, name = ConfigResourceType.TOPIC, "max.message.bytes"

        def take_them() -> None:
            if self.busy:
                self.timer(100, take_them)
            else:
                self._reconfigure(topic, self.cluster.TOPIC, ((name, None),))

        if not self.busy:
            self._reconfigure(topic, self.cluster.TOPIC, ((name, str(BATCH_BYTES_MIN)),))
            self.timer(self.rng.randint(300, 2_000), take_them)

    def reconfigure_cluster(self) -> None:
        """Change a default for topics or brokers without a value of their own; also back to the
        value before."""
        self._reconfigure(
            ConfigResourceType.CLUSTER,
            "",
            (
                ("min.insync.replicas", self.rng.choice((self._min_isr(), None))),
                ("log.index.interval.bytes", self.rng.choice(("50", "400", None))),
                ("log.segment.bytes", self.rng.choice(("1024", "4000", None))),
                ("log.flush.interval.messages", self.rng.choice(("3", None))),
            ),
        )

    def reconfigure_broker(self) -> None:
        """The same for one broker."""
        broker = self.rng.choice(sorted(self.cluster.owners))
        self._reconfigure(
            ConfigResourceType.BROKER,
            str(broker),
            (
                ("log.index.interval.bytes", self.rng.choice(("50", "400", None))),
                ("log.segment.bytes", self.rng.choice(("1024", "4000", None))),
                ("log.flush.interval.messages", self.rng.choice(("3", None))),
            ),
        )

    def _min_isr(self) -> str:
        swarm = self.cluster.swarm
        return str(self.rng.randint(swarm.min_insync, swarm.replication_factor))

    def _reconfigure(
        self, kind: ConfigResourceType, name: str, choices: tuple[tuple[str, str | None], ...]
    ) -> None:
        if not self.busy:
            self.busy = True
            key, value = self.rng.choice(choices)
            self._alter(ConfigChange(kind, name, {key: value}))

    def _alter(self, change: ConfigChange) -> None:
        def heard(answer: Any) -> None:
            if isinstance(answer, ConfigsAltered):
                failure = answer.resources[0].failure
                assert failure is None or failure.code in MAY_REFUSE, failure
                self.busy = False
                name = next(iter(change.values))
                where = "" if change.resource_type is ConfigResourceType.TOPIC else " of "
                where += change.resource_type.name.lower() if where else ""
                self.cluster.sometimes[f"{name}{where} changed"] += 1
                if where:
                    self.cluster.sometimes[f"settings{where} changed"] += 1
                return
            self._again(partial(self._alter, change))

        self._ask(ControllerProcess.serve_alter_configs, AlterConfigs((change,)), heard)

    # ---- leaders and brokers

    def elect_preferred(self) -> None:
        """Leaders go back to where they belong, once."""

        def heard(answer: Any) -> None:
            if isinstance(answer, LeadersElected):
                elected = [found for found in answer.partitions if found.failure is None]
                self.cluster.sometimes["preferred leader by command"] += len(elected)

        self._ask(ControllerProcess.serve_elect_leaders, ElectLeaders(unclean=False), heard)

    def elect_unclean(self, topic_id: TopicId, number: int, attempts: int = 10) -> None:
        """Have any live replica lead, whatever it lacks; ask again until one does. But not a
        replica that has lost pages in the middle meanwhile: a follower that copies from it cannot
        go on behind them.
        """
        record = self.cluster.image.partition(topic_id, number)
        if record is None or record.leader >= 0 or not attempts:
            return
        if any(node.damaged for node in self.cluster.brokers.values()):
            return
        self.asked_unclean.add((topic_id, number))
        request = ElectLeaders(unclean=True, partitions=((self.cluster.TOPIC, number),))
        self._ask(ControllerProcess.serve_elect_leaders, request, lambda _: None)
        self.timer(300, self.elect_unclean, topic_id, number, attempts - 1)

    def unregister(self, node: BrokerNode) -> None:
        """Somebody takes a broker that is down for gone; it comes back all the same."""
        controller = self.cluster.controller.process
        if controller is None or node.process is not None or not node.may_be_damaged():
            return

        def heard(answer: object) -> None:
            if isinstance(answer, BrokerUnregistered):
                self.cluster.sometimes["broker unregistered"] += 1

        node.is_damaged()
        controller.hear(controller.serve_unregister, node.broker_id, heard)

    # ---- records

    def delete_records(self) -> None:
        """Up to somewhere, in some partition."""
        topic = self.cluster.topic()
        if topic is None:
            return
        number = self.rng.choice(sorted(topic.partitions))
        self._deletions += 1
        DeleterClient(
            self.cluster,
            f"d{self._deletions}",
            topic.topic_id,
            TopicPartition(topic.name, number),
        ).start()


class DeleterClient(Client):
    """Asks once for records to be deleted."""

    def start(self) -> None:
        self.find_leader()
        self.timer(5_000, self.retire)

    def connected(self) -> None:
        rpc, ghost = self.rpc, self.ghost
        assert rpc is not None
        offset = Offset(self.rng.randint(0, ghost.committed_end))
        if self.rng.random() < 0.2:
            offset = TO_HIGH_WATERMARK
        else:
            ghost.deleted_to = max(ghost.deleted_to, offset)
        self.cluster.scheduler.note("delete", self.topic_partition, offset)
        request = DeleteRecords(((self.topic_partition, offset),), ASK_MS)
        rpc.request(
            self.cluster.server(rpc).clients.serve_delete_records,
            (request, self.topic_id),
            self._answered,
            2 * ASK_MS,
        )

    def _answered(self, done: DeleteRecordsDone | None) -> None:
        low = None if done is None else done.watermarks[0]
        if low is not None and low.failure is None:
            self.cluster.sometimes["records deleted"] += 1
            self.cluster.scheduler.note("deleted", self.topic_partition, low.low_watermark)
            ghost = self.ghost
            ghost.acknowledged_start = max(ghost.acknowledged_start, low.low_watermark)
        self.retire()
