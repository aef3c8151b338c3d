"""The controller's process in the simulation: the shell around `Controller` and its metadata log.

It appends and syncs as two events, so that a crash falls between them, and only then says
"committed". Everything that ever was published or answered is remembered: a controller that comes
back must still know it (I14).
"""

from __future__ import annotations

import base64
import errno
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pylog.model import BrokerEpoch, BrokerId, LeaderEpoch, Offset
from pylog_broker.controller.controller import Controller
from pylog_broker.controller.effects import (
    AppendRecords,
    Effect,
    Publish,
    RejectSession,
    Reply,
    Report,
    SnapshotDue,
    TellSession,
)
from pylog_broker.controller.metadata_log import MetadataLog
from pylog_broker.controller.metadata_snapshots import SnapshotTask
from pylog_broker.metadata.admin import AlterPartitionReassignments, NewReplicas
from pylog_broker.metadata.image import MetadataImage
from pylog_broker.metadata.messages import AlterPartition
from pylog_broker.metadata.records import MetadataRecord
from pylog_broker.storage.errors import PassingStorageError
from tests.sim.disk import Disk, TornWrite
from tests.sim.files import SimFiles
from tests.sim.rpc import Actor, Machine, Rpc
from tests.sim.violation import Violation

if TYPE_CHECKING:
    from tests.sim.broker_process import BrokerProcess
    from tests.sim.cluster import Cluster

DIRECTORY = "/data/controller"
ROOM_RETRY_MS = 500
Answer = Callable[[object], None]


@dataclass(eq=False, slots=True)
class _Asked:
    """A caller that waits for an answer, and the offset of the decisions that the answer may rest
    on."""

    answer: Answer
    rests_on: Offset = Offset(-1)


class ControllerNode:
    """The machine of the controller: restarts its process after each death."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.rng = cluster.scheduler.rng("controller")
        self.snapshot_rng = cluster.scheduler.rng("controller snapshots")
        self.parts_rng = cluster.scheduler.rng("controller appends in parts")
        self.machine = Machine("ctl", cluster.scheduler, self.rng.randint(0, 10**9))
        self.disk = Disk()
        self.process: ControllerProcess | None = None
        # ghost state: every record appended, and how far it was shown to anybody
        # (None: the place of a record that was never part of a whole append)
        self.written: list[MetadataRecord | None] = []
        self.append_ends = {-1}  # the last offsets of appends
        self.shown_offset = -1
        self.epochs_seen: list[int] = []

    def start(self) -> None:
        """A new process, recovering what is on disk."""
        if self.process is None:
            self.cluster.scheduler.note("ctl start")
            process = self.process = ControllerProcess(self)
            process.hear(process.begin)

    def kill(self, away_ms: float, *, power: bool = False) -> None:
        """The process dies (and its machine's power fails); it starts again after a while."""
        process = self.process
        if process is None:
            return
        self.cluster.scheduler.note("ctl power" if power else "ctl kill")
        process.alive = False
        process.files.die()
        self.process = None
        self.machine.resume()
        self.cluster.net.break_all_of(self.machine.name, seen_by_peer=not power)
        if power:
            self.disk.lose_power(self.rng)
        self.cluster.scheduler.after(int(away_ms * 1_000), self.start)


class ControllerProcess(Actor):
    """One life of the controller."""

    def __init__(self, node: ControllerNode) -> None:
        super().__init__(node.machine)
        self.node = node
        self.cluster = node.cluster
        self.files = SimFiles(node.disk, rng=node.rng)
        self.log: MetadataLog
        self.core: Controller
        self._watchers: list[Rpc] = []
        self._sessions: dict[tuple[BrokerId, BrokerEpoch], Rpc] = {}
        self._opened: dict[Rpc, None] = {}
        self._tick_at = -1
        self._syncing = False
        self._appends: deque[AppendRecords[MetadataRecord]] = deque()  # in wait for room
        self._due_snapshot: SnapshotTask | None = None
        self._snapshotting = False

    def _new_id(self) -> str:
        raw = self.node.rng.randbytes(16)
        return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()

    def _check_recovered(self, image: MetadataImage) -> None:
        node = self.node
        if image.offset < node.shown_offset:
            raise Violation(
                "I14", f"the controller recovered to {image.offset}, shown was {node.shown_offset}"
            )
        if image.offset >= len(node.written):
            raise Violation(
                "I14", f"recovered to {image.offset}, {len(node.written)} records written"
            )
        if image.offset not in node.append_ends:
            raise Violation("I14", f"recovered to {image.offset}, in the middle of an append")
        del node.written[image.offset + 1 :]
        unfinished = self.log.end_offset - len(node.written)
        if unfinished:
            self.cluster.sometimes["metadata append never finished"] += 1
            node.written += [None] * unfinished
        if image.records() != _replayed(node.written).records():
            raise Violation("I14", "the recovered image is not a replay of what was written")

    def begin(self) -> None:
        """Recover, raise the epoch, then act."""
        try:
            self.log = MetadataLog.open(
                self.files,
                DIRECTORY,
                boot_id=f"ctl-boot-{self.node.disk.boot}",
                wall_ms=self.cluster.wall_ms(),
            )
        except (OSError, PassingStorageError) as error:
            if not _is_without_room(error):
                raise
            self.node.kill(self.node.rng.randint(50, 500))  # it is tried again
            return
        self._check_recovered(self.log.image)
        self.core = Controller(
            self.log.machine,
            self.cluster.controller_settings(),
            self._new_id,
            next_offset=self.log.end_offset,
        )
        self.perform(self.core.start(self.machine.now_ms()))

    def run(self, fn: Callable[..., None], *args: Any) -> None:
        try:
            fn(*args)
        except TornWrite:
            self.node.kill(self.node.rng.randint(50, 1_000))

    # ---- effects

    def perform(self, effects: list[Effect]) -> None:
        """Do what the core asks for."""
        for effect in effects:
            self.cluster.scheduler.told(self.name, "wants", effect)
            match effect:
                case AppendRecords():
                    self._append(effect)
                case Reply():
                    # It may rest on all that was decided when it was asked for.
                    token = effect.token
                    assert isinstance(token, _Asked)
                    self._show(token.rests_on)
                    token.answer(effect.response)
                case Publish():
                    batch = effect.batch
                    self._show(Offset(batch.first_offset + len(batch.records) - 1))
                    self.cluster.on_published(effect.batch)
                    self._push(effect.batch)
                case TellSession():
                    self._tell(effect)
                case RejectSession():
                    self._reject(effect)
                case SnapshotDue():
                    self._due_snapshot = self.log.snapshot_task(self.core.image)
                    self._begin_snapshot()
                case Report():
                    self.cluster.scheduler.note("report", effect.message)
        self._arm()

    def _append(self, effect: AppendRecords[MetadataRecord]) -> None:
        if effect.first_offset != len(self.node.written):
            raise Violation(
                "I14", f"records at {effect.first_offset}, the log ends at {len(self.node.written)}"
            )
        self.cluster.scheduler.note("ctl append", effect.first_offset, *effect.records)
        self.node.written.extend(effect.records)
        self.node.append_ends.add(effect.last_offset)
        most = self.cluster.swarm.metadata_batch_records
        if len(effect.records) > most:
            self.cluster.sometimes["metadata append in parts"] += 1
            self._cut_short(parts=-(-len(effect.records) // most))
        self._appends.append(effect)
        if len(self._appends) == 1:
            self._write()

    def _cut_short(self, parts: int) -> None:
        """The process dies between two parts, now and then: nothing else would often hit that."""
        rng = self.node.parts_rng
        may_die = self.node.shown_offset >= 0 and not self.cluster.net.calm
        if may_die and not self._appends and rng.random() < 0.3:
            self.node.disk.torn_write_rng = rng
            self.node.disk.torn_write_in = rng.randint(1, parts - 1)

    def _write(self) -> None:
        """Write the decisions, in order; without room they wait, as in the product."""
        epoch = LeaderEpoch(self.core.controller_epoch)
        while self._appends:
            try:
                self.log.append(self._appends[0], epoch=epoch, wall_ms=self.cluster.wall_ms())
            except PassingStorageError:
                self.cluster.sometimes["controller without room"] += 1
                self.timer(ROOM_RETRY_MS, self._write)
                break
            self._appends.popleft()
        if not self._syncing:
            self._sync_soon(self.node.rng.expovariate(1.0))

    def _sync_soon(self, wait_ms: float) -> None:
        self._syncing = True
        self.timer(wait_ms, self._sync)

    def _sync(self) -> None:
        self._syncing = False
        try:
            offset = self.log.flush()
        except PassingStorageError:
            self._sync_soon(ROOM_RETRY_MS)
            return
        self.perform(self.core.on_committed(self.machine.now_ms(), offset))
        self.log.remember_cluster(self.core.image.cluster_id)

    def _begin_snapshot(self) -> None:
        """Beside the log, one at a time, as in the product: written after a while, and taken up
        after another.
        """
        task = self._due_snapshot
        if task is not None and not self._snapshotting:
            self._due_snapshot = None
            self._snapshotting = True
            self.timer(self.node.snapshot_rng.expovariate(0.02), self._write_snapshot, task)

    def _write_snapshot(self, task: SnapshotTask) -> None:
        task.run()
        self.timer(self.node.snapshot_rng.expovariate(0.02), self._end_snapshot, task)

    def _end_snapshot(self, task: SnapshotTask) -> None:
        self.cluster.sometimes["metadata snapshot"] += 1
        if self.log.end_offset > task.end_offset:
            self.cluster.sometimes["metadata appended over a snapshot"] += 1
        try:
            self.log.on_snapshot(task)
        except (OSError, PassingStorageError) as error:
            if not _is_without_room(error):
                raise
        self._snapshotting = False
        self._begin_snapshot()

    def check_disk(self) -> None:
        """I14: what a restart would recover is what is in memory."""
        self.log.flush()
        self.log.close()
        found = MetadataLog.open(self.files, DIRECTORY, boot_id=f"ctl-boot-{self.node.disk.boot}")
        replayed = _replayed(self.node.written).records()
        if found.image.records() != replayed:
            raise Violation("I14", "the metadata on disk is not a replay of what was written")
        if found.image.offset == self.core.image.offset and replayed != self.core.image.records():
            raise Violation("I14", "the image in memory is not a replay of what was written")

    def _show(self, offset: Offset) -> None:
        """Something leaves the process that rests on what is decided up to `offset`."""
        self.node.shown_offset = max(self.node.shown_offset, offset)

    def _decide(self, method: Callable[..., list[Effect]], *asked: Any) -> None:
        """Have the core decide a call; the last of `asked` hears the answer."""
        *arguments, answer = asked
        token = _Asked(answer)
        effects = method(self.machine.now_ms(), *arguments, token)
        token.rests_on = self.core.decided.offset
        self.perform(effects)

    def _push(self, batch: object) -> None:
        self._watchers = [rpc for rpc in self._watchers if rpc.open]
        for rpc in self._watchers:
            process: Any = rpc.client
            rpc.push(process.membership.on_metadata_batch, rpc, batch)

    def _tell(self, effect: TellSession) -> None:
        rpc = self._sessions.get((effect.broker_id, effect.broker_epoch))
        if rpc is not None and rpc.open:
            process: Any = rpc.client
            rpc.push(process.membership.on_session_state, effect)

    def _reject(self, effect: RejectSession) -> None:
        rpc = self._sessions.pop((effect.broker_id, effect.broker_epoch), None)
        if rpc is not None and rpc.open:
            process: Any = rpc.client
            rpc.push(process.membership.on_session_rejected, effect)

    def _arm(self) -> None:
        deadline = self.core.next_deadline_ms
        if deadline is not None and (self._tick_at < 0 or deadline < self._tick_at):
            self._tick_at = deadline
            self.timer(max(0, deadline - self.machine.now_ms()), self._tick, deadline)

    def _tick(self, deadline: int) -> None:
        if deadline == self._tick_at:
            self._tick_at = -1
            self.perform(self.core.on_time(self.machine.now_ms()))

    # ---- what brokers ask

    def stop_cluster(self, wait_ms: float, away_ms: float) -> None:
        """The driver stops in order, and waits so long for the brokers."""
        self.perform(self.core.stop_cluster(self.machine.now_ms()))
        self.timer(wait_ms, self._cluster_stopped, away_ms)

    def _cluster_stopped(self, away_ms: float) -> None:
        self.perform(self.core.cluster_stopped(self.machine.now_ms()))
        with suppress(PassingStorageError):
            self.log.flush()
        self.cluster.sometimes["cluster stop"] += 1
        self.node.kill(away_ms)

    def serve_claim(self, request: Any, answer: Answer) -> None:
        self._decide(self.core.claim_broker, request, answer)

    def serve_register(self, request: Any, answer: Answer) -> None:
        self._decide(self.core.register_broker, request, answer)

    def serve_heartbeat(self, broker: tuple[BrokerId, BrokerEpoch], answer: Answer) -> None:
        self._decide(self.core.heartbeat, *broker, answer)

    def serve_alter_partition(self, request: AlterPartition, answer: Answer) -> None:
        self._decide(self.core.alter_partition, request, answer)

    def serve_producer_ids(self, broker: tuple[BrokerId, BrokerEpoch], answer: Answer) -> None:
        self._decide(self.core.allocate_producer_ids, *broker, answer)

    def serve_ensure_internal_topic(self, request: Any, answer: Answer) -> None:
        self._decide(self.core.ensure_internal_topic, request, answer)

    def serve_shutdown(self, broker: tuple[BrokerId, BrokerEpoch], answer: Answer) -> None:
        self._decide(self.core.controlled_shutdown, *broker, answer)

    def serve_create_topics(self, request: Any, answer: Answer) -> None:
        self._decide(self.core.create_topics, request, answer)

    def serve_delete_topics(self, request: Any, answer: Answer) -> None:
        self._decide(self.core.delete_topics, request, answer)

    def serve_create_partitions(self, request: Any, answer: Answer) -> None:
        self._decide(self.core.create_partitions, request, answer)

    def serve_elect_leaders(self, request: Any, answer: Answer) -> None:
        self._decide(self.core.elect_leaders, request, answer)

    def serve_move(self, request: AlterPartitionReassignments, answer: Answer) -> None:
        """As long as it leaves as many copies as the budget of faults reckons with."""
        if all(map(self._leaves_enough, request.partitions)):
            self._decide(self.core.alter_partition_reassignments, request, answer)

    def _leaves_enough(self, wanted: NewReplicas) -> bool:
        image = self.core.decided
        topic = image.topics_by_name.get(wanted.topic)
        partition = None if topic is None else topic.partitions.get(wanted.partition)
        if partition is None:
            return True
        dropped = set(partition.adding_replicas) - set(wanted.replicas or ())
        held = {*partition.isr, *partition.eligible_leader_replicas}
        left = set(partition.isr) - dropped
        min_isr = self.cluster.min_isr_of(image, wanted.topic)
        return not dropped & held or len(left) >= min_isr

    def serve_alter_configs(self, request: Any, answer: Answer) -> None:
        self._decide(self.core.alter_configs, request, answer)

    def serve_replicas_failed(self, request: Any, answer: Answer) -> None:
        self._decide(self.core.replicas_failed, request, answer)

    def serve_unregister(self, broker: BrokerId, answer: Answer) -> None:
        self._decide(self.core.unregister_broker, broker, answer)

    def task_ended(self, incarnation: str) -> None:
        """Spark says so."""
        self.cluster.sometimes["task end reported"] += 1
        self.perform(self.core.task_ended(self.machine.now_ms(), incarnation))

    def serve_watch(self, rpc: Rpc, from_offset: Offset) -> None:
        """A broker wants committed metadata from an offset on, for as long as it listens."""
        self._watchers.append(rpc)
        process: Any = rpc.client
        for batch in self.core.batches_since(from_offset):
            self._show(self.core.image.offset)
            rpc.push(process.membership.on_metadata_batch, rpc, batch)

    def serve_session(self, rpc: Rpc, process: BrokerProcess) -> None:
        """A broker's session stream."""
        broker, epoch = process.broker_id, process.broker_epoch
        self._sessions[broker, epoch] = rpc
        self._opened[rpc] = None
        self.perform(
            self.core.session_opened(self.machine.now_ms(), broker, epoch, process.incarnation)
        )

    def serve_session_progress(
        self, broker: BrokerId, epoch: BrokerEpoch, offset: Offset, want_unfence: bool
    ) -> None:
        """The broker's metadata has reached `offset`."""
        self.perform(
            self.core.session_progress(self.machine.now_ms(), broker, epoch, offset, want_unfence)
        )

    def session_ended(self, rpc: Rpc, broker: BrokerId, epoch: BrokerEpoch) -> None:
        """A session stream broke; of one that never came through we know nothing."""
        if rpc not in self._opened:
            return
        del self._opened[rpc]
        self.perform(self.core.session_broken(self.machine.now_ms(), broker, epoch))


def _replayed(records: list[MetadataRecord | None]) -> MetadataImage:
    image = MetadataImage()
    for offset, record in enumerate(records):
        if record is not None:
            image.replay(record, Offset(offset))
    return image


def _is_without_room(error: Exception) -> bool:
    return isinstance(error, PassingStorageError) or (
        isinstance(error, OSError) and error.errno == errno.ENOSPC
    )
