"""A broker's process in the simulation: the shell around `ReplicaManager` and its logs.

It claims its directory, opens it, registers, watches the metadata, keeps its session, and performs
what the replica manager asks for. After each step of the core the ghost state looks at every
replica that it holds.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from broker.controller.effects import RejectSession, TellSession
from broker.metadata.image import MetadataDelta, MetadataGap, MetadataImage
from broker.metadata.messages import (
    BrokerClaim,
    BrokerDirectory,
    BrokerRegistered,
    ClaimBroker,
    Failure,
    FailuresNoted,
    MetadataBatch,
    PartitionsAltered,
    ProducerIdBlock,
    RegisterBroker,
    ReplicasFailed,
)
from broker.metadata.records import Endpoint
from broker.replication.manager import ReplicaManager
from broker.replication.messages import (
    ColdRead,
    DeleteRecords,
    DeleteRecordsDone,
    DeleteReplicaLater,
    Effect,
    EpochEndQuery,
    EpochEnds,
    Fetch,
    FetchDone,
    OperationFailed,
    PartitionBatch,
    PartitionState,
    Produce,
    ProduceDone,
    ReplicaFailed,
    ReplicaFetch,
    ReplicaFetchDone,
    SendAlterPartition,
    SendEpochEndQuery,
    SendReplicaFetch,
    SyncLog,
)
from broker.storage.directory import find_broker_directories
from broker.storage.log_directories import LogDirectories
from broker.storage.manager import LogManager
from broker.storage.retention import JUMP_MS
from pylog import errors
from pylog.model import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    ProducerId,
    TopicId,
    TopicPartition,
)
from pylog.records.batch import read_header
from tests.sim.broker_upkeep import BrokerUpkeep
from tests.sim.contents import WallClock
from tests.sim.controller_node import ControllerProcess
from tests.sim.disk import DATA_ROOT, Disk, TornWrite
from tests.sim.files import SimFiles
from tests.sim.ghost import PartitionGhost, Violation
from tests.sim.rpc import Actor, Call, Machine, Rpc, unary
from tests.sim.shadows import Shadows

if TYPE_CHECKING:
    from tests.sim.cluster import Cluster

HEARTBEAT_MS = 300
CALL_TIMEOUT_MS = 1_000


class BrokerNode:
    """A host with one broker directory; it starts the broker's process again after each death."""

    def __init__(self, cluster: Cluster, number: int) -> None:
        self.cluster = cluster
        self.number = number
        self.rng = cluster.scheduler.rng(f"broker {number}")
        self.machine = Machine(f"b{number}", cluster.scheduler, self.rng.randint(0, 10**9))
        self.clock = WallClock(cluster.wall_ms, JUMP_MS)
        self.disk = Disk()
        self.disk.wall_ms = self.clock.now_ms
        self.disk.on_failure = self._disk_fails
        self.process: BrokerProcess | None = None
        self.lives = 0
        self.broker_id = BrokerId(-1)  # once it has been granted one
        # A power loss struck and the broker has not come back into all its ISRs since: it counts
        # against the fault budget.
        self.damaged = False
        self.lost_life = 0
        self.registered_since = True

    def start(self) -> None:
        """A new process."""
        if self.process is None:
            self.lives += 1
            self.cluster.scheduler.note("start", self.machine.name, self.lives)
            self.process = BrokerProcess(self)
            self.process.hear(self.process.claim)

    def kill(self, away_ms: float, *, power: bool = False) -> None:
        """The process dies (with `power` its machine does); it starts again after a while."""
        process = self.process
        if process is None:
            if power:
                self._lose_power()
            return
        self.cluster.scheduler.note("power" if power else "kill", self.machine.name)
        process.alive = False
        process.files.die()
        self.process = None
        self.machine.resume()
        self.cluster.net.break_all_of(self.machine.name, seen_by_peer=not power)
        self.cluster.shadows.refresh(self.broker_id, self.disk)
        if power:
            self._lose_power()
        self.cluster.scheduler.after(int(away_ms * 1_000), self.start)

    def replace_logs(self, directories: list[str]) -> None:
        """What the broker's log tells an operator to do: have the replicas copied again."""
        self.kill(500)
        for directory in directories:
            self.cluster.scheduler.note("wipe", directory)
            self.cluster.shadows.wiped(self.broker_id, directory)
            self.disk.wipe(directory)

    def _disk_fails(self, act: str, directory: str) -> bool:
        others = sum(node.damaged for node in self.cluster.brokers.values() if node is not self)
        if others >= self.cluster.swarm.min_insync - 1 or self.cluster.holds_alone(self):
            return False
        self._is_damaged()
        self.cluster.sometimes["disk failed"] += 1
        self.cluster.scheduler.note("disk fails", directory)
        drops = act == "fsync"
        self.cluster.shadows.before_failure(self.broker_id, directory, self.disk, drops=drops)
        return True

    def _is_damaged(self) -> None:
        self.damaged = True
        self.lost_life = self.lives
        self.registered_since = False

    def _lose_power(self) -> None:
        self._is_damaged()
        self.cluster.shadows.before_power_loss(self.broker_id, self.disk)
        self.disk.lose_power(self.rng)
        self.clock.rebooted()


class BrokerProcess(Actor):
    """One life of a broker."""

    def __init__(self, node: BrokerNode) -> None:
        super().__init__(node.machine)
        self.node = node
        self.cluster = node.cluster
        self.incarnation = f"{node.machine.name}-{node.lives}"
        self.files = SimFiles(node.disk, cold_share=node.cluster.swarm.cold_share, rng=node.rng)
        self.broker_id = BrokerId(-1)
        self.broker_epoch = BrokerEpoch(-1)
        self.root = ""
        self.image = MetadataImage()
        self.core_settings = self.cluster.replication_settings()
        self.logs: LogDirectories | None = None
        self.core: ReplicaManager | None = None
        self._highest_controller_epoch = ControllerEpoch(-1)
        self._claimed: BrokerClaim | None = None
        self._watch: Rpc | None = None
        self._session: Rpc | None = None
        self._leaders: dict[BrokerId, Rpc] = {}
        self._tick_at = -1
        self._producer_ids: list[ProducerId] = []
        self._stopping = False

    # ---- steps

    def run(self, fn: Callable[..., None], *args: Any) -> None:
        try:
            fn(*args)
        except TornWrite:
            self.cluster.sometimes["torn write"] += 1
            self.node.kill(self.node.rng.randint(20, self.cluster.swarm.away_ms))

    def now_ms(self) -> int:
        """The broker's monotonic clock."""
        return self.machine.now_ms()

    def step(self, effects: list[Effect]) -> None:
        """The core made a step: check everything, then do what it asks for."""
        states = self._check()
        for effect in effects:
            self._perform(effect, states)
        self._arm()

    def _check(self) -> dict[TopicPartition, PartitionState]:
        assert self.core is not None
        assert self.logs is not None
        if self.core.waiting_requests > self.core_settings.waiting_requests_max:
            raise Violation("I16", f"{self.core.waiting_requests} requests wait on {self.name}")
        states = self.core.describe()
        offline = {p.topic_partition for p in self.core.partitions() if p.offline or p.log.failure}
        shadows: Shadows = self.cluster.shadows
        for state in states:
            if state.topic_partition in offline:
                continue
            config = self.image.topic_configs(state.topic_partition.topic)
            min_insync = int(config.get("min.insync.replicas", "1"))
            shadows.observe(self.broker_id, state, self.root, self.node.disk, min_insync)
        return {state.topic_partition: state for state in states}

    def _perform(self, effect: Effect, states: dict[TopicPartition, PartitionState]) -> None:
        match effect:
            case ProduceDone():
                self._produced(effect)
            case FetchDone() | ReplicaFetchDone():
                self._fetched(effect)
            case SendReplicaFetch():
                self._send_fetch(effect)
            case SendEpochEndQuery():
                self._send_query(effect)
            case SendAlterPartition():
                self._send_alter(effect)
            case ColdRead():
                self.cluster.sometimes["cold read"] += 1
                self.timer(1 + self.node.rng.random() * 10, self._read_cold, effect)
            case SyncLog():
                self.cluster.sometimes["log synced for its acks"] += 1
                self.timer(1 + self.node.rng.random() * 10, self._sync_log, effect)
            case ReplicaFailed():
                self.cluster.on_replica_failed(self, effect)
            case OperationFailed():
                raise Violation("raised", effect.reason)
            case DeleteReplicaLater():
                self.timer(effect.delay_ms, self._remove, effect.directory)
            case DeleteRecordsDone():
                call: Any = effect.token
                call.answer(effect)

    def _produced(self, effect: ProduceDone) -> None:
        call = effect.token
        assert isinstance(call, Call)
        request = call.value
        assert isinstance(request, Produce)
        for batch, ack in zip(request.batches, effect.acks, strict=True):
            if request.acks == -1 and ack.failure is None:
                ghost = self._ghost_of(batch)
                ghost.check_ok(self.broker_id, ack.base_offset, read_header(batch.batch).crc)
                if ack.base_offset < call.log_end:
                    self.cluster.sometimes["duplicate answered"] += 1
        call.answer(effect)

    def _ghost_of(self, batch: PartitionBatch) -> PartitionGhost:
        assert batch.topic_id is not None
        return self.cluster.shadows.ghost(batch.topic_id, batch.topic_partition.partition)

    def _remove(self, directory: str) -> None:
        assert self.logs is not None
        self.logs.remove_directory(directory)

    def _fetched(self, effect: FetchDone | ReplicaFetchDone) -> None:
        call = effect.token
        assert isinstance(call, Call)
        if isinstance(effect, ReplicaFetchDone):
            self.cluster.count_fetched(effect.fetched)
            call.answer(effect.fetched)
        else:
            call.answer(effect)

    def cancelled(self, call: Call) -> None:
        if self.core is not None:
            self.core.cancel(call)

    def _arm(self) -> None:
        assert self.core is not None
        deadline = self.core.next_deadline_ms
        if deadline is not None and (self._tick_at < 0 or deadline < self._tick_at):
            self._tick_at = deadline
            self.timer(max(0, deadline - self.now_ms()), self._tick, deadline)

    def _tick(self, deadline: int) -> None:
        if deadline == self._tick_at and self.core is not None:
            self._tick_at = -1
            self.step(self.core.on_time(self.now_ms(), self.node.clock.now_ms()))

    def _read_cold(self, effect: ColdRead) -> None:
        assert self.core is not None
        read: Any = effect.read
        read()
        self.step(self.core.on_cold_read(self.now_ms(), effect))

    def _sync_log(self, effect: SyncLog) -> None:
        assert self.core is not None
        effect.task.run()
        self.step(self.core.on_synced(self.now_ms(), effect))

    @property
    def fetching(self) -> bool:
        """Whether a fetch of this broker is on its way to a leader."""
        return any(rpc.asking for rpc in self._leaders.values())

    # ---- to other brokers and the controller

    def _leader_rpc(self, leader: BrokerId) -> Rpc | None:
        rpc = self._leaders.get(leader)
        if rpc is not None and rpc.open:
            return rpc
        process = self.cluster.process(leader)
        if process is None or process.core is None:
            return None
        rpc = self._leaders[leader] = Rpc(self.cluster.net, self, process)
        return rpc

    def _send_fetch(self, effect: SendReplicaFetch) -> None:
        def heard(fetched: Any) -> None:
            assert self.core is not None
            self.step(
                self.core.on_replica_fetched(
                    self.now_ms(),
                    self.node.clock.now_ms(),
                    effect.leader,
                    effect.request_id,
                    fetched,
                )
            )

        rpc = self._leader_rpc(effect.leader)
        if rpc is None:
            self.timer(1 + self.node.rng.random() * 20, heard, None)
            return
        timeout_ms = effect.request.max_wait_ms + CALL_TIMEOUT_MS
        rpc.request(self.cluster.server(rpc).serve_replica_fetch, effect.request, heard, timeout_ms)

    def _send_query(self, effect: SendEpochEndQuery) -> None:
        def heard(ends: Any) -> None:
            assert self.core is not None
            self.step(
                self.core.on_epoch_ends(self.now_ms(), effect.leader, effect.request_id, ends)
            )

        rpc = self._leader_rpc(effect.leader)
        if rpc is None:
            self.timer(1 + self.node.rng.random() * 20, heard, None)
            return
        rpc.request(
            self.cluster.server(rpc).serve_epoch_ends, effect.request, heard, CALL_TIMEOUT_MS
        )

    def _send_alter(self, effect: SendAlterPartition) -> None:
        def heard(answer: Any) -> None:
            assert self.core is not None
            known = answer if isinstance(answer, PartitionsAltered) else None
            if isinstance(answer, Failure):
                known = PartitionsAltered(failure=answer)
            if known is not None:
                self.cluster.count_altered(known)
            self.step(self.core.on_partitions_altered(self.now_ms(), effect.request_id, known))

        self.ask_controller(ControllerProcess.serve_alter_partition, effect.request, heard)

    def ask_controller(
        self, handler: Callable[..., None], value: object, on_answer: Callable[[Any], None]
    ) -> None:
        """A unary call to the controller; None when nothing is known of its outcome."""
        unary(
            self.cluster.net,
            self,
            lambda: self.cluster.controller.process,
            handler,
            value,
            on_answer,
            CALL_TIMEOUT_MS,
        )

    def report_failed(self, effect: ReplicaFailed) -> None:
        """Tell the controller, until it has taken note."""
        assert effect.topic_id is not None
        replica = (effect.topic_id, effect.topic_partition.partition)
        request = ReplicasFailed(self.broker_id, self.broker_epoch, (replica,), effect.reason)

        def heard(answer: object) -> None:
            if not isinstance(answer, FailuresNoted):
                self.timer(100, self.report_failed, effect)

        self.ask_controller(ControllerProcess.serve_replicas_failed, request, heard)

    # ---- start: claim, open, register

    def claim(self) -> None:
        """Ask which broker this process shall be."""
        found = tuple(
            BrokerDirectory(
                directory.meta.broker_id,
                directory.meta.directory_id,
                directory.meta.cluster_id,
                directory.meta.boot_id,
                directory.meta.clean,
                directory.locked,
            )
            for directory in find_broker_directories(self.files, DATA_ROOT)
        )
        request = ClaimBroker(self.incarnation, self.node.machine.name, found, self.node.number)
        self.ask_controller(ControllerProcess.serve_claim, request, self._claim_answered)

    def _claim_answered(self, answer: BrokerClaim | Failure | None) -> None:
        self.cluster.scheduler.note("claimed", self.name, answer)
        if isinstance(answer, Failure):
            self.node.kill(self.node.rng.randint(20, 200))
        elif answer is None:
            self.timer(100 + self.node.rng.random() * 100, self.claim)
        elif answer.retry_after_ms > 0:
            self.timer(answer.retry_after_ms, self.claim)
        elif self._claimed is None:
            self._claimed = answer
            self._open(answer)

    def _open(self, claim: BrokerClaim) -> None:
        self.broker_id = claim.broker_id
        self.cluster.granted(self.node, claim.broker_id)
        try:
            self._open_logs(claim)
        except (OSError, errors.PylogError) as error:
            self.cluster.scheduler.note("open", self.name, error)
            self.cluster.sometimes["open refused"] += 1
            self.node.kill(self.node.rng.randint(100, 1_000))
            return
        assert self.logs is not None
        opened = {(log.topic_id, log.topic_partition.partition) for log in self.logs.logs}
        self.cluster.shadows.recovered(self.broker_id, self.node.disk, opened)
        if self.logs.failed:
            lost = [f"{self.root}/{name}" for name in self.logs.failed]
            self.timer(self.node.rng.randint(100, 3_000), self.node.replace_logs, lost)
        self.register()

    def _open_logs(self, claim: BrokerClaim) -> None:
        self.root = f"{DATA_ROOT}/broker-{claim.broker_id}"
        new_id = base64.urlsafe_b64encode(self.node.rng.randbytes(16)).rstrip(b"=").decode()
        opened = LogManager.open(
            self.files,
            self.root,
            cluster_id=claim.cluster_id,
            broker_id=claim.broker_id,
            boot_id=self.boot_id,
            new_directory_id=new_id,
            wall_ms=self.node.clock.now_ms(),
            config=self.cluster.broker_config(),
        )
        self.logs = LogDirectories([opened])

    @property
    def boot_id(self) -> str:
        """The machine's: another one after each loss of power."""
        return f"{self.name}-boot-{self.node.disk.boot}"

    def register(self) -> None:
        """Become a broker of the cluster."""
        assert self.logs is not None
        request = RegisterBroker(
            broker_id=self.broker_id,
            incarnation_id=self.incarnation,
            cluster_id=self.logs.meta.cluster_id,
            host_id=self.node.machine.name,
            rack=None,
            client_endpoint=Endpoint(self.name, 9092),
            replication_endpoint=Endpoint(self.name, 9093),
            directory_id=self.logs.meta.directory_id,
            boot_id=self.boot_id,
            log_intact=self.logs.log_intact,
            highest_controller_epoch=self._highest_controller_epoch,
            failed_replicas=self.logs.failed_replicas,
            lost_replicas=self.logs.lost_replicas,
        )
        self.ask_controller(ControllerProcess.serve_register, request, self._register_answered)

    def _register_answered(self, answer: BrokerRegistered | Failure | None) -> None:
        if self.core is not None:
            return
        if not isinstance(answer, BrokerRegistered):
            if answer is not None:
                self.cluster.scheduler.note("register", self.name, answer.code, answer.message)
                self.node.kill(self.node.rng.randint(20, 200))
                return
            self.timer(100 + self.node.rng.random() * 100, self.register)
            return
        assert self.logs is not None
        try:
            self.logs.registered()
        except OSError as error:
            self.cluster.scheduler.note("registered", self.name, error)
            self.node.kill(self.node.rng.randint(100, 1_000))
            return
        self.broker_epoch = answer.broker_epoch
        self.core = ReplicaManager(
            self.broker_id,
            self.logs,
            self.cluster.broker_config(),
            settings=self.core_settings,
        )
        self.step(self.core.on_registered(self.now_ms(), answer.broker_epoch))
        self.watch()
        self.open_session()
        self._heartbeat()
        self.upkeep = BrokerUpkeep(self, self.logs, self.core)
        self.upkeep.start()

    # ---- session and metadata

    def watch(self) -> None:
        """Listen to the metadata from where the image ends."""
        controller = self.cluster.controller.process
        if controller is None:
            self.timer(50 + self.node.rng.random() * 50, self.watch)
            return
        rpc = self._watch = Rpc(self.cluster.net, self, controller, self._watch_broken)
        rpc.tell(controller.serve_watch, rpc, self.image.offset + 1)

    def _watch_broken(self) -> None:
        self.timer(20 + self.node.rng.random() * 50, self.watch)

    def on_metadata_batch(self, rpc: Rpc, batch: MetadataBatch) -> None:
        """Committed metadata arrives."""
        if rpc is not self._watch or self.core is None:
            return
        if batch.controller_epoch < self._highest_controller_epoch:
            rpc.close()
            return
        self._highest_controller_epoch = batch.controller_epoch
        try:
            delta: MetadataDelta = self.image.apply(batch)
        except MetadataGap:
            rpc.close()
            return
        self.cluster.scheduler.note("metadata", self.name, self.image.offset)
        self.step(self.core.on_metadata(self.now_ms(), self.image, delta))
        self._progress()

    def open_session(self) -> None:
        """The stream whose break tells the controller of our death."""
        controller = self.cluster.controller.process
        if controller is None:
            self.timer(50 + self.node.rng.random() * 50, self.open_session)
            return
        broker, epoch = self.broker_id, self.broker_epoch
        rpc = self._session = Rpc(
            self.cluster.net,
            self,
            controller,
            self._session_broken,
            lambda: controller.session_ended(rpc, broker, epoch),
        )
        rpc.tell(controller.serve_session, rpc, self)
        self._progress()

    def _session_broken(self) -> None:
        self.timer(20 + self.node.rng.random() * 50, self.open_session)

    def _progress(self) -> None:
        rpc = self._session
        if rpc is not None and rpc.open:
            controller = rpc.server
            assert isinstance(controller, ControllerProcess)
            rpc.tell(
                controller.serve_session_progress,
                self.broker_id,
                self.broker_epoch,
                self.image.offset,
                self.image.offset >= self.broker_epoch,
            )

    def on_session_state(self, effect: TellSession) -> None:
        """What the controller thinks of us."""
        self.cluster.scheduler.note("session", self.name, effect.fenced)

    def on_session_rejected(self, effect: RejectSession) -> None:
        """Another incarnation has our id: stop serving."""
        if effect.broker_epoch == self.broker_epoch:
            self.cluster.scheduler.note("rejected", self.name, effect.failure.message)
            self.node.kill(self.node.rng.randint(20, 200))

    def _heartbeat(self) -> None:
        self.ask_controller(
            ControllerProcess.serve_heartbeat,
            (self.broker_id, self.broker_epoch),
            self._heartbeat_answered,
        )
        self.timer(HEARTBEAT_MS, self._heartbeat)

    def _heartbeat_answered(self, answer: object) -> None:
        if isinstance(answer, Failure) and answer.code == errors.StaleBrokerEpoch.code:
            self.cluster.scheduler.note("stale", self.name, answer.message)
            self.node.kill(self.node.rng.randint(20, 200))

    # ---- the end

    def stop(self, away_ms: float) -> None:
        """An orderly stop: leaders first, then a clean close."""
        if self.core is None or self._stopping:
            return
        self._stopping = True
        self.cluster.scheduler.note("stopping", self.name)

        def permitted(_answer: object) -> None:
            assert self.logs is not None
            assert self.core is not None
            try:
                self.logs.checkpoint_high_watermarks(self.core.high_watermarks())
                self.logs.close(clean=True)
                self.cluster.sometimes["clean stop"] += 1
            except (OSError, errors.PylogError) as error:
                self.cluster.scheduler.note("close", self.name, error)
            self.node.kill(away_ms)

        self.ask_controller(
            ControllerProcess.serve_shutdown, (self.broker_id, self.broker_epoch), permitted
        )

    # ---- what others ask

    def serve_produce(self, request: Produce, call: Call) -> None:
        """A producer's batches."""
        if self.core is None:
            call.answer(None)
            return
        ghost = self._ghost_of(request.batches[0])
        call.log_end = ghost.shadow(self.broker_id).end
        self.cluster.scheduler.note("produce", self.name, request.acks, call.log_end)
        self.step(self.core.produce(self.now_ms(), self.node.clock.now_ms(), request, call))

    def serve_fetch(self, request: Fetch, call: Call) -> None:
        """A consumer's long poll."""
        if self.core is None:
            call.answer(None)
            return
        self.step(self.core.fetch(self.now_ms(), request, call))

    def serve_replica_fetch(self, request: ReplicaFetch, call: Call) -> None:
        """A follower's fetch."""
        if self.core is None:
            call.answer(None)
            return
        self.cluster.scheduler.note(
            "fetch",
            self.name,
            f"from {request.replica_id} life {request.replica_epoch}",
            *(
                f"{p.partition}@{p.fetch_offset} epoch {p.current_leader_epoch} "
                f"last {p.last_fetched_epoch}"
                for p in request.partitions
            ),
        )
        self.step(self.core.replica_fetch(self.now_ms(), request, call))

    def serve_delete_records(self, asked: tuple[DeleteRecords, TopicId], call: Call) -> None:
        """An administrator's; the topic must still be the one that is meant."""
        request, topic_id = asked
        name, offset = request.offsets[0]
        topic = self.image.topics_by_name.get(name.topic)
        if self.core is None or topic is None or topic.topic_id != topic_id:
            call.answer(None)
            return
        if offset < 0:
            ghost = self.cluster.shadows.ghost(topic_id, name.partition)
            ghost.deleted_to = max(ghost.deleted_to, ghost.shadow(self.broker_id).high_watermark)
        self.step(self.core.delete_records(self.now_ms(), request, call))

    def serve_epoch_ends(self, request: EpochEndQuery, call: Call) -> None:
        """A follower asks where epochs end."""
        if self.core is None:
            call.answer(None)
            return
        ends: EpochEnds = self.core.epoch_ends(request)
        call.answer(ends)

    def leader_of(self, topic_partition: TopicPartition) -> BrokerId | None:
        """Who leads, as far as this broker knows."""
        topic = self.image.topics_by_name.get(topic_partition.topic)
        if topic is None:
            return None
        partition = topic.partitions.get(topic_partition.partition)
        return None if partition is None else partition.leader

    def new_producer_id(self, answer: Callable[[object], None]) -> None:
        """A producer id that nobody has, or None."""
        if self._producer_ids:
            answer(self._producer_ids.pop())
            return

        def allocated(block: object) -> None:
            if isinstance(block, ProducerIdBlock):
                self._producer_ids.extend(
                    ProducerId(block.first + index) for index in reversed(range(block.count))
                )
            answer(self._producer_ids.pop() if self._producer_ids else None)

        if self.broker_epoch < 0:
            answer(None)
            return
        self.ask_controller(
            ControllerProcess.serve_producer_ids, (self.broker_id, self.broker_epoch), allocated
        )
