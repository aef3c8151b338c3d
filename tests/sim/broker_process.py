"""One life of a simulated broker: the shell around `ReplicaManager` and its logs.

It performs what the replica manager asks for and hands it what others ask. After each step of the
core the ghost state looks at every replica that the broker holds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pylog import errors
from pylog.model import CONSUMER_OFFSETS, BrokerEpoch, BrokerId, TopicPartition
from pylog_broker.controller.settings import TRANSACTION_STATE
from pylog_broker.metadata.image import MetadataImage
from pylog_broker.node.coordinators import CoordinatorShell
from pylog_broker.replication.effects import (
    ColdRead,
    DeleteRecordsDone,
    DeleteReplicaLater,
    Effect,
    FetchDone,
    FetchStands,
    HighWatermarkMoved,
    InternalAppended,
    InternalRead,
    LeadershipBegan,
    LeadershipEnded,
    OffsetsListed,
    OperationFailed,
    ProduceDone,
    ReplicaFailed,
    ReplicaFetchDone,
    SendAlterPartition,
    SendReplicaFetch,
    SyncLog,
    WriteLogStarts,
)
from pylog_broker.replication.manager import ReplicaManager
from pylog_broker.replication.partition_state import PartitionState
from pylog_broker.replication.replica_fetch_messages import ReplicaFetch
from pylog_broker.storage.log.log import Log
from pylog_broker.storage.manager.log_directories import LogDirectories
from pylog_broker.storage.manager.manager import LogManager
from tests.sim.broker_calls import CALL_TIMEOUT_MS, BrokerCalls
from tests.sim.broker_membership import BrokerMembership
from tests.sim.broker_startup import BrokerStartup
from tests.sim.broker_upkeep import BrokerUpkeep
from tests.sim.client_service import ClientService, Producing
from tests.sim.controller_node import ControllerProcess
from tests.sim.coordinator_shell import UnaryCall
from tests.sim.disk import TornWrite
from tests.sim.durable import check_recovery_point
from tests.sim.files import SimFiles
from tests.sim.group_service import GroupService
from tests.sim.leaderships import Leaderships, logs_to_check
from tests.sim.net import Deliver
from tests.sim.peers import PeerCall
from tests.sim.rpc import Actor, Call, unary
from tests.sim.shadows import Shadows
from tests.sim.share_service import ShareService
from tests.sim.sim_loop import SimLoop
from tests.sim.stalled_disks import Syncing
from tests.sim.throttles import Throttles
from tests.sim.transaction_service import TransactionService
from tests.sim.violation import Violation
from tests.sim.workers import Pool

if TYPE_CHECKING:
    from tests.sim.broker_node import BrokerNode


_GO_ON_TO_THE_END = (Pool, BrokerMembership)
"""The actors whose steps are done while the logs are being closed; requests are not served any
more."""


class BrokerProcess(Actor):
    """One life of a broker."""

    def __init__(self, node: BrokerNode) -> None:
        super().__init__(node.machine)
        self.node = node
        self.cluster = node.cluster
        self.incarnation = f"{node.machine.name}-{node.lives}"
        self.files = SimFiles(node.disk, cold_share=node.cluster.swarm.cold_share, rng=node.rng)
        pool_rng = node.cluster.scheduler.rng(f"pool {self.incarnation}")
        self.pool = Pool(self, pool_rng, node.cluster.disk_wait_ms)
        self.files.pool = self.pool
        self.broker_id = BrokerId(-1)
        self.broker_epoch = BrokerEpoch(-1)
        self.image = MetadataImage()
        self.core_settings = self.cluster.replication_settings()
        self.logs: LogDirectories | None = None
        self.core: ReplicaManager | None = None
        self.calls = BrokerCalls(self)
        self.clients = ClientService(self)
        self.loop: SimLoop | None = None  # where there are coordinators
        self.groups: GroupService | None = None
        self.transactions: TransactionService | None = None
        self.shares: ShareService | None = None
        self.throttles: Throttles | None = None
        self.membership = BrokerMembership(self)
        self._startup = BrokerStartup(self)
        self._tick_at = -1
        self._stopping = False
        self._refused = (0, 0)
        self.is_closing = False
        self.is_opening = False

    def start(self) -> None:
        """Claim an id, open the logs and register."""
        self._startup.claim()

    def registered(self, broker_epoch: BrokerEpoch) -> None:
        """The controller knows this life of the broker."""
        assert self.logs is not None
        self.broker_epoch = broker_epoch
        self.core = ReplicaManager(
            self.broker_id,
            self.logs,
            self.cluster.broker_config(),
            settings=self.core_settings,
            is_watched=lambda _topic: True,
        )
        if self.cluster.swarm.throttles:
            self.throttles = Throttles(self)
        self._leaderships = Leaderships(
            self.broker_id, self.cluster.led_by_epoch, self.cluster.sometimes
        )
        self._start_coordinators()
        self.logs.on_failure(lambda: self.timer(0, self.take_failures))
        self.take_failures()
        self.step(self.core.on_registered(self.now_ms(), broker_epoch))
        self.membership.start()
        for manager in self.logs.live:
            BrokerUpkeep(self, manager, self.core).start()

    def _start_coordinators(self) -> None:
        cluster = self.cluster
        if (cluster.groups, cluster.transactions, cluster.shares) == (None, None, None):
            return
        rng = cluster.scheduler.rng(f"loop {self.incarnation}")
        self.loop = SimLoop(self, self.pool, rng)
        before = asyncio._get_running_loop()
        asyncio._set_running_loop(self.loop)  # type: ignore[arg-type]
        try:
            if cluster.groups is not None:
                self.groups = GroupService(self)
            if cluster.transactions is not None:
                self.transactions = TransactionService(self)
            if cluster.shares is not None:
                self.shares = ShareService(self)
        finally:
            asyncio._set_running_loop(before)

    @property
    def services(self) -> list[GroupService | TransactionService | ShareService]:
        """Those of its coordinators, as far as there are some."""
        found = (self.groups, self.transactions, self.shares)
        return [each for each in found if each is not None]

    @property
    def shells(self) -> list[CoordinatorShell[Any]]:
        """Those of its coordinators, one for each internal topic."""
        return [shell for each in self.services for shell in each.shells]

    # ---- steps

    def run(self, fn: Callable[..., None], *args: Any) -> None:
        if self.is_closing and not isinstance(getattr(fn, "__self__", None), _GO_ON_TO_THE_END):
            return
        before = asyncio._get_running_loop()
        if self.loop is not None:
            asyncio._set_running_loop(self.loop)  # type: ignore[arg-type]
        try:
            fn(*args)
        except TornWrite:
            self.torn_write()
        finally:
            asyncio._set_running_loop(before)

    def torn_write(self) -> None:
        """The process dies in the middle of a write."""
        self.cluster.sometimes["torn write"] += 1
        self.node.kill(self.node.rng.randint(20, self.cluster.swarm.away_ms))

    def now_ms(self) -> int:
        """The broker's monotonic clock."""
        return self.machine.now_ms()

    def step(self, effects: list[Effect]) -> None:
        """The core made a step: check everything, then do what it asks for."""
        assert self.core is not None
        self._leaderships.hear(effects, self.core.partitions())
        states = self._check(effects)
        if self.throttles is not None:
            self.throttles.look()
        for effect in effects:
            self._perform(effect, states)
        self._arm()

    def _check(self, effects: list[Effect]) -> dict[TopicPartition, PartitionState]:
        assert self.core is not None
        assert self.logs is not None
        if self.core.waiting_requests > self.core_settings.waiting_requests_max:
            raise Violation("I16", f"{self.core.waiting_requests} requests wait on {self.name}")
        states = self.core.describe()
        logs = logs_to_check(effects, self.core.partitions())
        shadows: Shadows = self.cluster.shadows
        for state in states:
            log = logs.get(state.topic_partition)
            if log is None:
                continue
            min_insync = self.cluster.min_isr_of(self.image, state.topic_partition.topic)
            shadows.observe(
                self.broker_id, state, log, self.node.disk, min_insync, self._is_placed_anew
            )
            self._check_last_stable_offset(state, log)
        if self.cluster.transactions is not None:
            self.cluster.transactions.ghost.look()
        return {state.topic_partition: state for state in states}

    def _check_last_stable_offset(self, state: PartitionState, log: Log) -> None:
        if self.cluster.transactions is None or state.leader != self.broker_id:
            return
        ghost = self.cluster.shadows.ghost(state.topic_id, state.topic_partition.partition)
        ghost.check_last_stable(self.broker_id, log.last_stable_offset(state.high_watermark))

    def _is_placed_anew(self, log: Log) -> bool:
        """Whether the broker was unregistered, or has given up a directory, and the metadata have
        the replica where the log is.
        """
        assert self.logs is not None
        record = self.image.partition(log.topic_id, log.topic_partition.partition)
        manager = self.logs.directory_of(log)
        return (
            record is not None
            and manager is not None
            and self.broker_id in record.emptied_replicas
            and record.directory_of(self.broker_id) == manager.meta.directory_id
        )

    def take_failures(self) -> None:
        """Logs and log directories that have failed are used no more, and the controller hears of
        them.
        """
        assert self.logs is not None
        assert self.core is not None
        failed: list[Log] = []
        try:
            failed = self.logs.take_new_failures()
        except errors.KafkaStorageError as error:
            self._without_directories(error)
            return
        for directory in self.logs.take_failed_directories():
            self.cluster.sometimes["log directory failed"] += 1
            self.cluster.scheduler.note("dir failed", self.name, directory.path, directory.reason)
            self.calls.report_directory(directory.directory_id, directory.reason)
            self.timer(self.node.rng.randint(100, 3_000), self.node.kill, 100)
        if failed:
            self.step(self.core.on_logs_failed(self.now_ms(), failed))

    def check_all_serve(self) -> None:
        """At the end no replica is offline whose log works."""
        assert self.core is not None
        for partition in self.core.partitions():
            name = partition.topic_partition
            if partition.offline and not self.may_have_failed(name):
                raise Violation("H", f"{self.name}: {name} is offline, and its log works")

    def may_have_failed(self, topic_partition: TopicPartition) -> bool:
        """Whether a disk has given this life a reason to give the replica up."""
        disk, broker = self.node.disk, f"broker-{self.broker_id}"
        homes = {f"{mount}/{broker}/{topic_partition}" for mount in self.node.mounts}
        if len(self.node.mounts) > 1 and disk.harmed:
            return True  # an error of one log is taken for one of its disk
        if self.files.has_missed_a_disk:
            return True  # maybe when it started; it is offline for this life, also when it is back
        return bool(homes & disk.harmed) or not all(map(disk.is_reachable, self.node.mounts))

    def damaged_logs(self) -> list[str]:
        """The directories of logs that were given up for what is lost in them."""
        assert self.logs is not None
        return [log.directory for log in self.logs.logs if log.failure and log.damage]

    def directory_failed(self, manager: LogManager, error: Exception) -> None:
        """One of several directories does not do what it was asked for."""
        assert self.logs is not None
        try:
            self.logs.fail(manager, error)
        except errors.KafkaStorageError as fault:
            self._without_directories(fault)
        else:
            self.take_failures()

    def _without_directories(self, error: Exception) -> None:
        self.cluster.scheduler.note("no directory", self.name, error)
        self.node.kill(self.node.rng.randint(100, 1_000))

    def _perform(self, effect: Effect, states: dict[TopicPartition, PartitionState]) -> None:
        self.cluster.scheduler.told(self.name, "wants", effect)
        match effect:
            case ProduceDone(token, acks):
                if isinstance(token, Producing):
                    self.clients.produced(token, acks)
                else:
                    marked: Any = token
                    marked(acks)
            case FetchDone(token, partitions) | FetchStands(token, partitions):
                if not isinstance(token, Call):  # it is of the leader of share groups
                    fetched: Any = token
                    fetched(partitions)
                    return
                self.clients.found(token, partitions, stands=isinstance(effect, FetchStands))
            case ReplicaFetchDone(token, fetched):
                assert isinstance(token, Call)
                self.cluster.count_fetched(fetched)
                if self.throttles is not None:
                    self.throttles.told(token.value.replica_id, fetched)
                token.answer(fetched)
            case SendReplicaFetch():
                self.calls.fetch(effect)
            case SendAlterPartition():
                self.calls.alter_partition(effect)
            case ColdRead():
                self.cluster.sometimes["cold read"] += 1
                self._read_cold(effect)
            case SyncLog():
                self.cluster.sometimes["log synced for its acks"] += 1
                self._sync_log(effect)
            case WriteLogStarts():
                self.cluster.sometimes["log starts written beside the loop"] += 1
                self._write_starts(effect)
            case ReplicaFailed():
                self.cluster.on_replica_failed(self, effect)
            case OperationFailed():
                raise Violation("raised", effect.reason)
            case DeleteReplicaLater():
                self.cluster.shadows.log_deleted(self.broker_id, effect.directory, self.node.disk)
                self.timer(effect.delay_ms, self._remove, effect.directory)
            case DeleteRecordsDone(token, watermarks):
                deleted: Any = token
                if isinstance(token, Call):
                    deleted.answer(effect)
                else:
                    deleted(watermarks)
            case LeadershipBegan() | LeadershipEnded() | HighWatermarkMoved():
                # heard before all others: by `leaderships`
                self._tell_coordinators(effect.topic_partition.topic, effect)
            case InternalRead() | InternalAppended():
                asked: Any = effect.token
                self._tell_coordinators(asked.args[0].topic_partition.topic, effect)
            case OffsetsListed():
                listed: Any = effect.token
                listed(effect.answers)

    def _tell_coordinators(self, topic: str, effect: Effect) -> None:
        if self.groups is not None and topic == CONSUMER_OFFSETS:
            self.groups.perform(effect)
        elif self.transactions is not None and topic == TRANSACTION_STATE:
            self.transactions.perform(effect)
        elif self.shares is not None:
            self.shares.perform(effect)

    def _remove(self, directory: str) -> None:
        logs = self.logs
        assert logs is not None

        def removed(outcome: object) -> None:
            if isinstance(outcome, OSError):
                self.cluster.sometimes["deleted files stay"] += 1  # the next start tries again
            elif isinstance(outcome, Exception):
                raise outcome

        self.pool.run("removal", lambda: logs.remove_directory(directory), removed)

    def cancelled(self, call: Call) -> None:
        if isinstance(call.value, UnaryCall | PeerCall):
            for service in self.services:
                service.cancelled(call)
        else:
            self.clients.cancelled(call)

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
        def warm(outcome: object) -> None:
            assert self.core is not None
            if isinstance(outcome, Exception):
                raise outcome
            if not self.is_closing:
                self.step(self.core.on_cold_read(self.now_ms(), effect))

        read: Any = effect.read
        self.pool.run("cold read", read, warm)

    def _sync_log(self, effect: SyncLog) -> None:
        def synced(_outcome: object) -> None:
            assert self.core is not None
            if not self.is_closing:
                self.step(self.core.on_synced(self.now_ms(), effect))
                self._check_synced(effect.topic_partition)

        subject = Syncing(effect.topic_partition, effect.task)
        self.pool.run("sync", effect.task.run, synced, subject)

    def _write_starts(self, effect: WriteLogStarts) -> None:
        def written(_outcome: object) -> None:
            assert self.core is not None
            if not self.is_closing:
                self.step(self.core.on_log_starts_written(self.now_ms(), effect))

        self.pool.run("log starts", effect.task.run, written)

    def _check_synced(self, topic_partition: TopicPartition) -> None:
        log = None if self.logs is None else self.logs.get(topic_partition)
        if log is not None:
            check_recovery_point(self.name, log, self.node.disk)

    def ask_controller(
        self,
        handler: Callable[..., None],
        value: object,
        on_answer: Callable[[Any], None],
        post: Callable[[str, str, Deliver], None] | None = None,
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
            post,
        )

    @property
    def boot_id(self) -> str:
        """The machine's: another one after each loss of power."""
        return f"{self.name}-boot-{self.node.disk.boot}"

    # ---- the end

    def stop(self, away_ms: float) -> None:
        """An orderly stop: leaders first, then a clean close."""
        if self.core is None or self._stopping:
            return
        self._stopping = True
        self.cluster.scheduler.note("stopping", self.name)

        self.ask_controller(
            ControllerProcess.serve_shutdown,
            (self.broker_id, self.broker_epoch),
            lambda _answer: self._close(away_ms),
        )

    def stop_with_cluster(self) -> None:
        """All stop: nobody is left to lead."""
        if self.core is not None and not self._stopping:
            self._stopping = True
            self.timer(self.node.rng.random() * 300, self._close, self.cluster.swarm.away_ms)

    def _close(self, away_ms: float) -> None:
        logs, core = self.logs, self.core
        assert logs is not None
        assert core is not None
        for service in self.services:
            service.stop()
        self.is_closing = True
        self._refused = (self.node.disk.shortages, self.node.disk.refusals)

        def closed(error: object) -> None:
            if error is None:
                self.cluster.sometimes["clean stop"] += 1
            else:
                self.cluster.scheduler.note("close", self.name, error)
                self._must_have_reason(error)
            self.node.kill(away_ms)

        def close() -> None:
            try:
                logs.checkpoint_high_watermarks(marks)
            except (OSError, errors.PylogError) as error:
                self.cluster.scheduler.note("marks", self.name, error)
            logs.retire()
            self.pool.run("close", lambda: logs.close(clean=True), closed)

        marks = core.high_watermarks()
        self.pool.end(close)

    def _must_have_reason(self, error: object) -> None:
        """An orderly stop ends well, but for a disk that does not work, or that has had no room for
        something since it began, though it may have some by now.
        """
        disk = self.node.disk
        works = all(map(disk.is_reachable, self.node.mounts)) and not disk.harmed
        if works and (disk.shortages, disk.refusals) == self._refused:
            raise Violation("S", f"{self.name} stops in order, and not cleanly: {error}")

    # ---- what other brokers ask

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
