"""One simulated cluster: controller, brokers, clients, network and the ghost state together.

A run has three parts: come up and create the topic; faults for 20 simulated seconds; heal, and at
most 40 simulated seconds to converge, or as many again while groups read on. Then the clients'
histories are checked.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import takewhile

from pylog import errors
from pylog.config import LONG_MAX
from pylog.model import (
    NO_LEADER,
    BrokerId,
    NewTopic,
    Offset,
    ProducerId,
    TopicPartition,
    is_internal,
)
from pylog_broker.config import BrokerConfig, TopicConfig
from pylog_broker.controller.settings import ControllerSettings, InternalTopic
from pylog_broker.metadata.admin import CreateTopics
from pylog_broker.metadata.image import MetadataImage, TopicImage
from pylog_broker.metadata.messages import MetadataBatch, PartitionsAltered
from pylog_broker.metadata.records import (
    PartitionRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from pylog_broker.replication.effects import ReplicaFailed
from pylog_broker.replication.replica_fetch_messages import ReplicaFetched
from pylog_broker.replication.settings import ReplicationSettings
from tests.sim.administrator import SIDES, Administrator
from tests.sim.alterations import Alterations
from tests.sim.broker_node import BrokerNode
from tests.sim.broker_process import BrokerProcess
from tests.sim.clients import WandererClient
from tests.sim.consumers import ConsumerApp
from tests.sim.controller_node import ControllerNode
from tests.sim.disk import MOUNTS
from tests.sim.ghost import PartitionGhost
from tests.sim.group_apps import Groups
from tests.sim.leaderships import LedByEpoch
from tests.sim.net import Net
from tests.sim.producers import ProducerApp
from tests.sim.rpc import Rpc
from tests.sim.scheduler import US_PER_MS, US_PER_S, Scheduler, Trace
from tests.sim.shadows import Shadows
from tests.sim.share_apps import ShareApps
from tests.sim.sink_apps import SinkApps
from tests.sim.swarm import INTERNAL_MOVES, Modes, Swarm, draw
from tests.sim.transaction_apps import TransactionApps
from tests.sim.violation import Violation

WALL_MS = 1_700_000_000_000
UP_WITHIN_S = 30
CONVERGE_WITHIN_S = 40
WAITING_MAX = 200
DRAWN = (
    "swarm",
    "upkeep",
    "disks",
    "cluster stops",
    "clients",
    "moments",
    "commands",
    "occasions",
    "metadata batches",
    "groups",
    "transactions",
    "racks",
    "moves",
    "shares",
    "sinks",
    "throttles",
    "share transactions",
    "dead letters",
    "sink progress",
)


class Cluster:
    """Everything of one run."""

    TOPIC = "t"

    def __init__(
        self,
        seed: int,
        trace: Trace | None = None,
        leaning: Callable[[Swarm], Swarm] = lambda swarm: swarm,
        modes: Modes = Modes(),  # noqa: B008 -- a value
    ) -> None:
        """`leaning` changes what the seed has drawn."""
        self.scheduler = Scheduler(seed, trace)
        rng = self.scheduler.rng
        drawn = draw(*map(rng, DRAWN), modes)
        self.swarm: Swarm = leaning(drawn)
        self.sometimes: Counter[str] = Counter()
        self.net = Net(self.scheduler, self.swarm.net)
        self.alterations = Alterations(self.net)
        self.shadows = Shadows(self.sometimes, self.scheduler.note, self.true_ms)
        self.led_by_epoch = LedByEpoch()
        self.image = MetadataImage()  # the ghost's: what the controller published
        self.min_insync = {self.swarm.min_insync}  # all that it ever was
        self.controller = ControllerNode(self)
        self.brokers = {n: BrokerNode(self, n) for n in range(1, self.swarm.brokers + 1)}
        self.owners: dict[BrokerId, BrokerNode] = {}
        self.administrator = Administrator(self)
        self.groups = Groups(self) if self.swarm.groups is not None else None
        self.transactions = TransactionApps(self) if self.swarm.transactions is not None else None
        self.shares = ShareApps(self) if self.swarm.shares is not None else None
        self.sinks = SinkApps(self) if self.swarm.sinks is not None else None
        self.topic_created = False
        self.healing = False
        self.producers: list[ProducerApp] = []
        self.consumers: list[ConsumerApp] = []
        self.wanderers: list[WandererClient] = []
        self._rng = rng("applications")
        self._producer_ids: set[int] = set()
        self._served: set[tuple[str, int]] = set()

    # ---- applications

    def _start_applications(self) -> None:
        """All of them, one after the other; some come later, or another one in their place."""
        for n in range(self.swarm.producers):
            self._start_producer(f"p{n}", acks=-1, idempotent=True)
        for n in range(self.swarm.weak_producers):
            self._start_producer(f"q{n}", acks=self.swarm.clients.weak_acks, idempotent=False)
        self._start_consumer("r", roams=False)
        self._start_consumer("s", roams=True)
        self.scheduler.after(self._rng.randint(0, 15 * US_PER_S), self._come_late)
        if self.groups is not None:
            self.groups.start()
        if self.transactions is not None:
            self.transactions.start()
        if self.shares is not None:
            self.shares.start()
        if self.sinks is not None:
            self.sinks.start()

    def _come_late(self) -> None:
        """One that was not there when the first records were written, and deleted again."""
        if not self.healing:
            self.sometimes["late producer"] += 1
            self._start_producer("late", acks=-1, idempotent=True)
            self._start_consumer("late reader", roams=False)

    def _start_producer(self, name: str, *, acks: int, idempotent: bool) -> None:
        producer = ProducerApp(self, name, acks=acks, idempotent=idempotent)
        self.producers.append(producer)
        producer.start()
        life_ms = self._rng.expovariate(1.0 / self.swarm.clients.life_ms)
        self.scheduler.after(int(life_ms * US_PER_MS), self._succeed, producer)

    def _succeed(self, producer: ProducerApp) -> None:
        """The producer leaves, and another one takes its place."""
        if self.healing:
            return
        self.sometimes["producer left"] += 1
        producer.hear(partial(producer.leave, orderly=self._rng.random() < 0.7))
        acks, idempotent = producer.acks, producer.idempotent
        self._start_producer(f"{producer.name}'", acks=acks, idempotent=idempotent)

    def _start_consumer(self, name: str, *, roams: bool) -> None:
        reset = self._rng.choice(("earliest", "latest", "none")) if roams else "earliest"
        consumer = ConsumerApp(self, name, roams=roams, reset=reset)
        self.consumers.append(consumer)
        consumer.start()

    def _send_wanderers(self) -> None:
        """To each partition that has none yet."""
        topic = self.topic()
        for number in () if topic is None else sorted(topic.partitions):
            assert topic is not None
            if (topic.topic_id, number) in self._served:
                continue
            self._served.add((topic.topic_id, number))
            where = (topic.topic_id, TopicPartition(topic.name, number))
            wanderer = WandererClient(self, f"w{number}/{len(self._served)}", *where)
            self.wanderers.append(wanderer)
            wanderer.start()

    # ---- what nodes and clients ask for

    def wall_ms(self) -> int:
        """The true time of day."""
        return WALL_MS + self.scheduler.now_us // US_PER_MS

    true_ms = wall_ms

    def disk_wait_ms(self) -> float:
        """The time for which a thread waits for a disk, on average, where it waits at all."""
        return 1.0 if self.healing else self.swarm.disk_wait_ms

    def topic(self) -> TopicImage | None:
        """The topic as the controller published it."""
        return self.image.topics_by_name.get(self.TOPIC)

    def process(self, broker: BrokerId) -> BrokerProcess | None:
        """The running process of a broker."""
        node = self.owners.get(broker)
        return None if node is None else node.process

    def server(self, rpc: Rpc) -> BrokerProcess:
        """The broker at the other end."""
        assert isinstance(rpc.server, BrokerProcess)
        return rpc.server

    def note_producer_id(self, producer_id: ProducerId) -> None:
        """No two producers ever get one id."""
        if producer_id in self._producer_ids:
            raise Violation("I11", f"producer id {producer_id} was handed out twice")
        self._producer_ids.add(producer_id)

    def controller_settings(self) -> ControllerSettings:
        """Kafka's waits, shortened: a run has only seconds."""
        return ControllerSettings(
            expected_brokers=self.swarm.brokers,
            claim_wait_ms=60_000,
            claim_hold_ms=2_000,
            # a process that dies is back before a second has passed, and its id may be free
            claim_unlocked_hold_ms=20,
            session_grace_ms=300,
            session_timeout_ms=self.swarm.session_timeout_ms,
            controlled_shutdown_wait_ms=500,
            default_replication_factor=self.swarm.replication_factor,
            leader_imbalance_check_ms=self.swarm.rebalance_ms,
            producer_id_block=3,
            snapshot_interval_records=self.swarm.snapshot_records,
            tail_records_max=self.swarm.snapshot_records,
            topic_defaults=TopicConfig(min_insync_replicas=self.swarm.min_insync),
            internal_topics=self._internal_topics(),
        )

    def _internal_topics(self) -> dict[str, InternalTopic]:
        users = (self.groups, self.transactions)
        topics = {each.topic.name: each.topic for each in users if each is not None}
        shared = () if self.shares is None else self.shares.topics
        return topics | {topic.name: topic for topic in shared}

    def broker_config(self) -> BrokerConfig:
        """The brokers' settings."""
        disks, racks = MOUNTS[: self.swarm.log_dirs], self.swarm.racks
        return BrokerConfig.from_mapping(
            {
                "min.insync.replicas": str(self.swarm.min_insync),
                "log.segment.bytes": str(self.swarm.segment_bytes),
                "log.index.interval.bytes": "100",
                "replica.lag.time.max.ms": str(self.swarm.replica_lag_ms),
                "replica.fetch.wait.max.ms": str(self.swarm.fetch_wait_ms),
                "log.retention.check.interval.ms": "500",
                "log.initial.task.delay.ms": "0",
                "log.cleaner.dedupe.buffer.size": str(1 << 20),
                "log.dirs": ",".join(disks) if len(disks) > 1 else "",
                **({"replica.selector.class": "RackAwareReplicaSelector"} if racks else {}),
            }
        )

    def replication_settings(self) -> ReplicationSettings:
        """Numbers that have no Kafka setting, or a lower bound that is too high here."""
        return ReplicationSettings(
            replica_lag_time_max_ms=self.swarm.replica_lag_ms,
            replica_fetch_wait_max_ms=self.swarm.fetch_wait_ms,
            replica_fetch_max_bytes=self.swarm.fetch_max_bytes,
            replica_fetch_response_max_bytes=4 * self.swarm.fetch_max_bytes,
            waiting_requests_max=WAITING_MAX,
            rack_aware_reads=self.swarm.racks > 0,
        )

    def rack(self, number: int) -> str | None:
        """The rack of the broker, or of the application, of that number."""
        racks = self.swarm.racks
        return f"rack {number % racks}" if racks else None

    # ---- what the controller published

    def on_published(self, batch: MetadataBatch) -> None:
        """I2 and I9 on what changed, and what I4 follows from it."""
        before = self.image.controller_epoch
        # Records that an earlier life of the controller wrote, and died over, count from now on.
        last = batch.first_offset + len(batch.records) - 1
        offset = self.image.offset + 1
        while offset <= last:
            records = tuple(takewhile(bool, self.controller.written[offset : last + 1]))
            if records:
                whole = replace(batch, first_offset=Offset(offset), records=records)
                self._take(replace(whole, previous_offset=self.image.offset))
            offset += max(1, len(records))
        if self.image.controller_epoch < before:
            raise Violation("I2", f"controller epoch {self.image.controller_epoch} < {before}")

    def _take(self, batch: MetadataBatch) -> None:
        delta = self.image.apply(batch)
        for removed in delta.removed_topics:
            self.shadows.topic_deleted(removed.topic_id)
            for wanderer in self.wanderers:
                if wanderer.topic_id == removed.topic_id:
                    wanderer.retire()
        if delta.configs or delta.partitions:
            self._configured()
        for record in batch.records:
            if isinstance(record, RegisterBrokerRecord):
                self._registered(record)
            elif isinstance(record, UnregisterBrokerRecord):
                # The controller forgets with the broker which of its lives had registered, so it
                # may take a late copy of an earlier one. That one is not live, and the next life
                # takes its place.
                self.owners[record.broker_id].registered_life = 0
        for partition in delta.partitions:
            self._partition_changed(partition)
        for broker in delta.brokers:
            for partition in self.image.partitions_of(broker):
                self._check_isr(partition)
        for node in self.brokers.values():
            self._settle_damage(node)
        if self._served and (delta.new_topics or delta.partitions):
            self._send_wanderers()

    def _configured(self) -> None:
        for topic in self.image.topics_by_id.values():
            self._topic_configured(topic)

    def _topic_configured(self, topic: TopicImage) -> None:
        # a dead-letter topic has settings of brokers
        policy = {"cleanup.policy": "delete", "delete.retention.ms": "0"}
        values = policy | dict(self.image.topic_configs(topic.name))
        self.min_insync.add(self.min_isr_of(self.image, topic.name))
        for number in topic.partitions:
            ghost = self.shadows.ghost(topic.topic_id, number)
            ghost.may_compact = ghost.may_compact or "compact" in values["cleanup.policy"]
            ghost.delete_retention_ms = int(values["delete.retention.ms"])

    def min_isr_of(self, image: MetadataImage, topic: str) -> int:
        """The topic's setting by these metadata; else the one with which all brokers were
        started."""
        name, default = "min.insync.replicas", str(self.swarm.min_insync)
        for_all = image.cluster_configs().get(name, default)
        return int(image.topic_configs(topic).get(name, for_all))

    def _registered(self, record: RegisterBrokerRecord) -> None:
        node = self.owners[record.broker_id]
        life = int(record.incarnation_id.rpartition("-")[2])
        if life < node.registered_life:
            raise Violation("I2", f"life {node.registered_life} is replaced by {record}")
        node.registered_life = life
        if life > node.lost_life:
            node.registered_since = True
            self.shadows.trusted_again(record.broker_id)

    def _settle_damage(self, node: BrokerNode) -> None:
        if not node.damaged or not node.registered_since or not node.would_be_whole():
            return
        held = self.image.partitions_of(node.broker_id)
        if all(node.broker_id in partition.isr for partition in held):
            node.damaged = False

    def _partition_changed(self, partition: PartitionRecord) -> None:
        ghost = self.shadows.ghost(partition.topic_id, partition.partition)
        known = ghost.record
        if known is not None and (
            partition.leader_epoch < known.leader_epoch
            or partition.partition_epoch <= known.partition_epoch
        ):
            raise Violation("I2", f"{known} is followed by {partition}")
        if known is not None and partition.replicas != known.replicas:
            self._moved(known, partition)
        if known is not None and partition.leader != known.leader:
            self.sometimes["leader changed"] += 1
            if partition.leader in known.eligible_leader_replicas:
                self.sometimes["ELR election"] += 1
            self._look_for_loss(known, partition, ghost)
        ghost.record = partition
        ghost.members = (*partition.isr, *partition.eligible_leader_replicas)
        if len(partition.isr) == 1 and self.swarm.replication_factor > 1:
            self.sometimes["ISR of one"] += 1
        if partition.leader < 0:
            self.sometimes["partition offline"] += 1
        self._check_isr(partition)
        ghost.check_members()

    def _moved(self, known: PartitionRecord, partition: PartitionRecord) -> None:
        key = (partition.topic_id, partition.partition)
        for broker in known.replicas:
            if broker not in partition.replicas:
                self.shadows.taken_away(broker, key)
        name = self.image.topics_by_id[partition.topic_id].name
        if known.is_reassigning and not partition.is_reassigning:
            if partition.replicas == known.target_replicas:
                self._count_move(name, "move ended")
                self._check_move_ended(known, partition, name)
                if known.leader >= 0 and known.leader not in partition.replicas:
                    self._count_move(name, "move took the leader away")
            else:
                self._count_move(name, "move cancelled")
        elif known.is_reassigning:
            self._count_move(name, "move replaced")
        else:
            self._count_move(name, "move begun")

    def _count_move(self, topic: str, what: str) -> None:
        self.sometimes[what] += 1
        if is_internal(topic):
            self.sometimes[f"moves: {topic}: {what}"] += 1

    def _check_move_ended(
        self, known: PartitionRecord, partition: PartitionRecord, topic: str
    ) -> None:
        """M: what a move adds is in sync at its end, and without those that leave there are
        `min.insync.replicas`.
        """
        isr = partition.isr
        least = min(self.min_isr_of(self.image, topic), len(partition.replicas))
        if not set(known.adding_replicas) <= set(isr) or len(isr) < least:
            raise Violation("M", f"{topic}: {known} has moved: {partition}; at least {least}")

    def _look_for_loss(
        self, known: PartitionRecord, partition: PartitionRecord, ghost: PartitionGhost
    ) -> None:
        """An unclean election counts as one only where somebody has asked for it."""
        asked = (partition.topic_id, partition.partition) in self.administrator.asked_unclean
        members = (*known.isr, *known.eligible_leader_replicas)
        if asked and partition.leader >= 0 and partition.leader not in members:
            self.scheduler.note("unclean", partition.leader, partition.partition)
            emptied = partition.leader in known.emptied_replicas
            if ghost.led_uncleanly(partition.leader, partition.leader_epoch, emptied=emptied):
                self.sometimes["unclean election with data"] += 1

    def _check_isr(self, partition: PartitionRecord) -> None:
        isr, elr = partition.isr, partition.eligible_leader_replicas
        if not set(isr) <= set(partition.replicas) or set(isr) & set(elr):
            raise Violation("I9", f"ISR, ELR and replicas do not fit: {partition}")
        counted = len(partition.original_replicas)
        if len(isr) >= min(max(self.min_insync), counted) and elr:
            raise Violation("I9", f"an ELR beside a full ISR: {partition}")
        for broker in (*isr, *elr):
            if broker not in self.image.brokers:
                raise Violation("I9", f"broker {broker} is unregistered: {partition}")
        for broker in isr:
            registration = self.image.brokers[broker]
            if partition.directory_of(broker) in registration.offline_log_dirs:
                raise Violation("I9", f"the log directory of {broker} is offline: {partition}")
            if broker != partition.leader and not self.image.is_live(broker):
                raise Violation("I9", f"broker {broker} is not live: {partition}")

    # ---- counters

    def on_replica_failed(self, process: BrokerProcess, effect: ReplicaFailed) -> None:
        """A replica went offline. Somebody looks into it and restarts the broker, some day."""
        self.sometimes["replica failed"] += 1
        self.scheduler.note("failed", process.name, effect.topic_partition, effect.reason)
        if effect.topic_id is None:
            return  # it is tried again
        if not process.may_have_failed(effect.topic_partition):
            raise Violation("H", f"{process.name}: a log that works is given up: {effect.reason}")
        process.calls.report_failed(effect)
        lost = process.damaged_logs()
        wait_ms = process.node.rng.randint(100, 3_000)
        if lost:
            # it would be given up again after each start
            process.timer(wait_ms, process.node.replace_logs, lost)
        else:
            process.timer(wait_ms, process.node.kill, 100)

    def count_fetched(self, fetched: ReplicaFetched) -> None:
        """Count the answers of leaders to followers."""
        if fetched.failure is not None and fetched.failure.code == errors.StaleBrokerEpoch.code:
            self.sometimes["stale fetch refused"] += 1
        for data in fetched.partitions:
            if data.diverging is not None:
                self.sometimes["divergence told"] += 1
            if data.failure is not None:
                name = errors.ERRORS_BY_CODE[data.failure.code].__name__
                self.sometimes[f"replica fetch: {name}"] += 1
                if data.failure.code == errors.StaleBrokerEpoch.code:
                    self.sometimes["stale fetch refused"] += 1

    def count_altered(self, answer: PartitionsAltered) -> None:
        """Count the controller's answers to ISR changes."""
        failures = [answer.failure, *(partition.failure for partition in answer.partitions)]
        for failure in failures:
            if failure is not None:
                name = errors.ERRORS_BY_CODE[failure.code].__name__
                self.sometimes[f"ISR change: {name}"] += 1

    # ---- the run

    def come_up(self) -> None:
        """Start everything on a calm network and create the topic."""
        self.net.calm = True
        self.controller.start()
        for node in self.brokers.values():
            node.start()

        def created() -> None:
            self.topic_created = True

        self.administrator.create(created)
        deadline = self.scheduler.now_us + UP_WITHIN_S * US_PER_S
        self._run_until(lambda: self.topic_created and self._all_in_sync(), deadline)
        if not self.topic_created:
            raise Violation("L1", f"the topic was not created within {UP_WITHIN_S} s")
        self.net.calm = False
        self._start_applications()
        self._send_wanderers()

    def new_topic(self) -> CreateTopics:
        """The request for the topic."""
        swarm, upkeep = self.swarm, self.swarm.upkeep
        own = {"min.insync.replicas": str(swarm.min_insync)} if swarm.own_min_isr else {}
        config = own | {
            "segment.bytes": str(swarm.segment_bytes),
            "flush.messages": str(swarm.flush_messages),
            "flush.ms": str(swarm.flush_ms),
            "preallocate": str(swarm.preallocate).lower(),
            "cleanup.policy": "delete",
            "delete.retention.ms": "0",
            "retention.ms": "-1",
        }
        if swarm.throttles:
            for side in SIDES:
                config[f"{side}.replication.throttled.replicas"] = "*"
        if upkeep is not None:
            config |= {
                "cleanup.policy": upkeep.policy,
                "retention.ms": str(upkeep.retention_ms),
                "retention.bytes": str(upkeep.retention_bytes),
                "delete.retention.ms": str(upkeep.delete_retention_ms),
                "file.delete.delay.ms": "1000",
                "min.cleanable.dirty.ratio": "0.1",
                # brokers whose clock is wrong refuse nothing
                "message.timestamp.after.max.ms": str(LONG_MAX),
            }
        topic = NewTopic(self.TOPIC, swarm.partitions, swarm.replication_factor, config=config)
        return CreateTopics((topic,), timeout_ms=500)

    def _run_until(self, done: Callable[[], bool], deadline_us: int) -> None:
        while self.scheduler.now_us < deadline_us and not done():
            self.scheduler.run_until(self.scheduler.now_us + US_PER_S // 10)

    def heal(self) -> None:
        """End all faults; L1: everything converges, every producer gets its answers."""
        self.scheduler.note("heal")
        self.net.calm = True
        self.net.heal()
        self.controller.machine.resume()
        self.controller.start()
        self.healing = True
        for node in self.brokers.values():
            node.disk.full = False
            node.disk.full_mounts.clear()
            for mount in node.mounts:
                node.mend(mount)
            if node.process and node.process.logs and node.process.logs.offline:
                node.kill(0)  # a log directory comes back with a start
            node.disk.failing = ""
            node.disk.short_share = 0.0
            node.disk.torn_write_rng = None
            node.machine.resume()
            node.start()
        self.controller.disk.torn_write_rng = None
        self.controller.disk.full_in = -1
        self.controller.disk.full = False
        self.scheduler.run_until(self.scheduler.now_us + US_PER_S)
        for producer in self.producers:
            producer.hear(producer.say_last_words)
        for consumer in self.consumers:
            consumer.hear(consumer.settle)
        if self.groups is not None:
            self.groups.settle()
        if self.transactions is not None:
            self.transactions.settle()
        if self.shares is not None:
            self.shares.settle()
        if self.sinks is not None:
            self.sinks.settle()
        if self.swarm.throttles:
            self.administrator.end_throttles()
        self.administrator.help_empty_partitions()
        self._committed_at_heal = {key: g.committed_end for key, g in self.shadows.ghosts.items()}
        self._converge()

    def _converge(self) -> None:
        """A group may have much to read: its time begins anew while it reads on."""
        unread, left = math.inf, self._unread()
        while left < unread and not self.converged():
            unread = left
            deadline = self.scheduler.now_us + CONVERGE_WITHIN_S * US_PER_S
            self._run_until(self.converged, deadline)
            left = self._unread()
        if not self.converged():
            raise Violation("L1", f"not converged: {self.describe()}")

    def _unread(self) -> int:
        readers = (self.groups, self.shares)
        return sum(each.unread for each in readers if each is not None)

    def _all_in_sync(self) -> bool:
        return bool(self.image.topics_by_id) and all(
            len(partition.isr) == len(partition.replicas) and not partition.is_reassigning
            for partition in self.image.partitions()
        )

    def converged(self) -> bool:
        """Whether all brokers are there, all replicas in sync and equal, and no client waits."""
        if not self._all_in_sync() or self.administrator.busy:
            return False
        if any(node.process is None or not node.process.core for node in self.brokers.values()):
            return False
        if any(app.waits_for for app in self.producers if app.alive):
            return False
        for partition in self.image.partitions():
            ghost = self.shadows.ghost(partition.topic_id, partition.partition)
            begin = ghost.shadow(partition.leader).log_start
            for broker in partition.replicas:
                shadow = ghost.shadow(broker)
                # retention is each broker's own business, so a follower may be ahead
                if shadow.log_start < begin:
                    return False
                if is_internal(self.image.topics_by_id[partition.topic_id].name):
                    # members go on to commit: what was committed by then is everywhere
                    if shadow.high_watermark < self._committed_at_heal.get(ghost.key, 0):
                        return False
                    continue
                if not shadow.high_watermark == shadow.end == ghost.committed_end:
                    return False
        if any(consumer.waits_for for consumer in self.consumers):
            return False
        users = (self.groups, self.transactions, self.shares, self.sinks)
        return not any(each.waits_for for each in users if each is not None)

    def is_caught_up(self, node: BrokerNode) -> bool:
        """Whether the broker follows somewhere, and holds all that is committed or more."""
        followed = [
            partition
            for partition in self.image.partitions_of(node.broker_id)
            if partition.leader not in (node.broker_id, NO_LEADER)
        ]
        return bool(followed) and all(
            ghost.shadow(node.broker_id).end >= ghost.committed_end > 0
            for partition in followed
            for ghost in (self.shadows.ghost(partition.topic_id, partition.partition),)
        )

    def holds_alone(self, node: BrokerNode, *, only_tails: bool = False) -> bool:
        """Whether some partition counts on this broker only: it was made while no other was there,
        the others have not made their replicas yet, or their log directories failed. Then a loss is
        beyond the budget, and the partition rightly stays offline.

        `only_tails`: what would be lost are records that were not synced. That is no loss to one
        that never had enough in sync to commit any.
        """
        swarm = self.swarm
        may = swarm.upkeep is not None or swarm.log_dirs > 1
        losing = {"unregister", "unregister_eligible", "unclean", "move", *INTERNAL_MOVES}
        may = may or not losing.isdisjoint(swarm.faults) or swarm.groups is not None
        may = may or swarm.transactions is not None or swarm.shares is not None
        return may and any(
            {
                broker
                for broker in (*partition.isr, *partition.eligible_leader_replicas)
                if self.shadows.has_seen(broker, partition.topic_id, partition.partition)
            }
            <= {node.broker_id}
            for partition in self.image.partitions_of(node.broker_id)
            if node.broker_id in (*partition.isr, *partition.eligible_leader_replicas)
            and not (only_tails and partition.never_committed)
        )

    def describe(self) -> str:
        """The state of all partitions and clients, for a report."""
        lines = []
        for partition in self.image.partitions():
            lines.append(str(partition))
            ghost = self.shadows.ghost(partition.topic_id, partition.partition)
            for broker in partition.replicas:
                shadow = ghost.shadow(broker)
                process = self.process(broker)
                lines.append(
                    f"  broker {broker}: start {shadow.log_start} hw {shadow.high_watermark} "
                    f"end {shadow.end} committed {ghost.committed_end} "
                    f"running {process is not None and process.core is not None}"
                )
        apps = [*(app for app in self.producers if app.alive), *self.consumers]
        lines.extend(f"  {app.name} waits for {what}" for app in apps for what in app.waits_for)
        for users in (self.groups, self.transactions, self.shares, self.sinks):
            if users is not None:
                lines.extend(f"  {what}" for what in users.waits_for)
        return "\n".join(lines)

    def check_end(self) -> None:
        """No log that works is unused; client histories; I14: the metadata on disk says what memory
        says.
        """
        for node in self.brokers.values():
            self.sometimes["access refused for a moment"] += node.disk.shortages
            assert node.process is not None
            node.process.check_all_serve()
            for service in node.process.services:
                service.compare_all()
        for producer in self.producers:
            producer.check_history()
        if self.transactions is not None:
            self.transactions.ghost.check_history(self.transactions.outputs)
        if self.sinks is not None:
            self.sinks.ghost.check_history()
        process = self.controller.process
        assert process is not None
        process.check_disk()

    # ---- hosts and brokers

    def granted(self, node: BrokerNode, broker: BrokerId) -> None:
        """The controller made this host's process a broker."""
        owner = self.owners.get(broker)
        if owner is not None and owner is not node:
            # it died before it had made its directory
            homes = (f"{mount}/broker-{broker}/meta.properties" for mount in owner.mounts)
            if any(owner.disk.find(home) is not None for home in homes):
                raise Violation("I1", f"broker {broker} moved from {owner.number} to {node.number}")
            owner.broker_id = BrokerId(-1)
        self.owners[broker] = node
        node.broker_id = broker
