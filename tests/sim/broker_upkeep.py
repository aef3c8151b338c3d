"""The upkeep of a simulated broker's logs as time passes: syncs, checkpoints, retention, passes of
the cleaner. The shells of the product do the same on their loop and pool.

Every deletion by retention is judged here, by the rules of `tests.sim.contents`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from pylog import errors
from pylog.model import Offset
from pylog_broker.replication.manager import ReplicaManager
from pylog_broker.storage.cleaner.clean_task import CleanTask
from pylog_broker.storage.errors import PassingStorageError
from pylog_broker.storage.files import is_of_the_moment
from pylog_broker.storage.log.guard import DISK_FAILED
from pylog_broker.storage.log.log import Log
from pylog_broker.storage.manager.manager import LogManager
from pylog_broker.storage.segments.flush_task import FlushTask
from tests.sim.contents import may_forget
from tests.sim.disk import Directory, Inode
from tests.sim.durable import check_recovery_point
from tests.sim.stalled_disks import Syncing
from tests.sim.violation import Violation

if TYPE_CHECKING:
    from tests.sim.broker_process import BrokerProcess


class BrokerUpkeep:
    """The upkeep of one log directory in one life of a broker, from its registration on."""

    def __init__(self, process: BrokerProcess, logs: LogManager, core: ReplicaManager) -> None:
        self._process = process
        self._node = process.node
        self._cluster = process.cluster
        self._logs = logs
        self._core = core
        self._trust = process.node.trust(self._logs.directory)

    def start(self) -> None:
        """Begin all of it."""
        self._write_back()
        self._look_after()
        if self._cluster.swarm.upkeep is not None:
            self._clean()

    @property
    def _is_over(self) -> bool:
        return self._logs.is_offline or self._process.is_closing

    def _write_back(self) -> None:
        """The kernel writes some file to the disk of its own accord, or all names; nobody hears."""
        disk = self._node.disk
        if self._node.rng.random() < 0.1:
            for path in (self._logs.directory, *(log.directory for log in self._logs.logs)):
                node = disk.find(path)
                if isinstance(node, Directory):
                    node.fsync()
        elif logs := self._logs.logs:
            found = disk.find(self._node.rng.choice(logs).segments[-1].log_path)
            if isinstance(found, Inode):
                found.fsync()
        wait_ms = self._node.rng.expovariate(1.0 / self._cluster.swarm.write_back_ms)
        self._process.timer(wait_ms, self._write_back)

    # ---- rolls, retention, syncs and checkpoints, one after the other as in the product

    def _look_after(self) -> None:
        if self._is_over:
            return
        self._tried(self._begin)

    def _tried(self, step: Callable[[], None]) -> None:
        """Do the step; a fault of the disk ends the directory, or the round."""
        try:
            step()
        except (OSError, errors.KafkaStorageError) as error:
            self._ended_by(error)

    def _ended_by(self, error: Exception) -> None:
        self._cluster.scheduler.note("upkeep", self._process.name, error)
        if isinstance(error, PassingStorageError) or is_of_the_moment(error):
            self._cluster.sometimes["upkeep put off"] += 1
            self._next_round()
            return
        if self._is_alone:
            # the product's broker ends, and is started again
            self._node.kill(self._node.rng.randint(100, 1_000))
            return
        self._process.directory_failed(self._logs, error)
        self._next_round()

    def _next_round(self) -> None:
        self._process.timer(300 + self._node.rng.random() * 700, self._look_after)

    def _begin(self) -> None:
        now_ms = self._process.now_ms()
        self._maintain(self._logs)
        removal = self._logs.removal_task(now_ms)
        if removal is None:
            self._sync()
        else:
            self._process.pool.run("removal", removal.run, lambda _: self._tried(self._sync))

    def _sync(self) -> None:
        if not self._is_over:
            self._sync_next(deque(self._logs.flush_tasks()))

    def _sync_next(self, left: deque[tuple[Log, FlushTask]]) -> None:
        if self._is_over:
            return
        if not left:
            self._checkpoint()
            return
        log, task = left.popleft()

        def synced(_outcome: object) -> None:
            if self._is_over:
                return
            self._cluster.sometimes["log synced by upkeep"] += 1
            try:
                log.on_flushed(task)
                if self._logs.get(log.topic_partition) is log:
                    check_recovery_point(self._process.name, log, self._node.disk)
            except errors.KafkaStorageError as error:
                self._cluster.scheduler.note("sync", self._process.name, error)
            self._tried(lambda: self._sync_next(left))

        self._process.pool.run("sync", task.run, synced, Syncing(log.topic_partition, task))

    def _checkpoint(self) -> None:
        self._process.take_failures()
        if self._is_over or self._node.rng.random() < 0.5:
            self._next_round()
            return
        task = self._logs.checkpoint_task(self._core.high_watermarks())

        def written(_outcome: object) -> None:
            if not self._is_over:
                self._cluster.sometimes["checkpoints written beside the loop"] += 1
                self._tried(lambda: self._logs.on_checkpointed(task))
            self._next_round()

        self._process.pool.run("checkpoint", task.run, written)

    def _maintain(self, logs: LogManager) -> None:
        """Rolls and retention; whatever goes must be allowed to."""
        # after a pass of the cleaner no step has looked at the files
        shadows, broker_id, disk = self._cluster.shadows, self._process.broker_id, self._node.disk
        shadows.refresh(broker_id, disk)
        seen = {
            log.topic_partition
            for log in logs.logs
            if shadows.has_read(broker_id, (log.topic_id, log.topic_partition.partition), disk)
        }
        before = {log.topic_partition: log.log_start_offset for log in logs.logs}
        watermarks = self._core.high_watermarks()
        self._trust.looked()
        try:
            logs.maintain(self._process.now_ms(), self._node.clock.now_ms(), watermarks)
        finally:
            for log in logs.logs:
                name = log.topic_partition
                if log.log_start_offset > before[name]:
                    self._retained(log, before[name], is_seen=name in seen)
        self._process.step(self._core.on_retained(self._process.now_ms()))

    def _retained(self, log: Log, before: Offset, *, is_seen: bool) -> None:
        """F, where the checker knows what the log had."""
        number = log.topic_partition.partition
        ghost = self._cluster.shadows.ghost(log.topic_id, number)
        shadow = ghost.shadow(self._process.broker_id)
        self._cluster.scheduler.note("retained", self._process.name, number, log.log_start_offset)
        self._cluster.sometimes["retention"] += 1
        batches = [b for b in shadow.batches if before <= b.last < log.log_start_offset and is_seen]
        behind = sum(shadow.sizes[b.base] for b in shadow.batches if b.last >= before)
        for batch in batches:
            behind -= shadow.sizes[batch.base]
            gone = shadow.holes.get(batch.base, ())
            times = ghost.contents.of(batch.mark).timestamps
            # a batch is as old as the newest record that compaction has left in it
            left = [time for offset, time in enumerate(times, batch.base) if offset not in gone]
            if not left:
                continue
            why = may_forget(log.config, max(left), behind, self._trust)
            if why is not None:
                raise Violation("F", f"{self._process.name} gives up {batch}, but {why}")
        ghost.deleted_to = max(ghost.deleted_to, log.log_start_offset)

    @property
    def _is_alone(self) -> bool:
        """Whether the broker has no other directory: then it goes on as long as it can."""
        return self._cluster.swarm.log_dirs == 1

    # ---- compaction: a step on the pool's thread, then one here, until the pass is over

    def _clean(self) -> None:
        wait_ms = self._cluster.swarm.upkeep.clean_wait_ms if self._cluster.swarm.upkeep else 0
        if self._is_over:
            return
        cleaner = self._logs.cleaner
        for log in self._logs.logs:
            ghost = self._cluster.shadows.ghost(log.topic_id, log.topic_partition.partition)
            ghost.cleaned_by(
                self._trust.believed_ms(ghost.delete_retention_ms), self._node.clock.ahead_ms
            )
        task = cleaner.next_task(self._node.clock.now_ms(), self._core.high_watermarks())
        if task is None:
            self._process.timer(wait_ms, self._clean)
        else:
            self._process.timer(self._node.rng.random() * wait_ms, self._clean_on, task)

    def _clean_on(self, task: CleanTask) -> None:
        self._process.pool.run("pass of the cleaner", task.run, lambda _: self._cleaned(task))

    def _cleaned(self, task: CleanTask) -> None:
        if self._process.is_closing:
            return
        passes = self._logs.cleaner.passes
        goes_on = self._logs.cleaner.on_ran(task)
        self._process.take_failures()
        if not self._is_alone and is_of_the_disk(task.error):
            assert task.error is not None
            self._process.directory_failed(self._logs, task.error)
            return
        if goes_on:
            self._clean_on(task)
            return
        self._cluster.sometimes["compaction"] += self._logs.cleaner.passes - passes
        for name, why in self._logs.cleaner.uncleanable.items():
            # A log out of which a failed sync took pages has a hole, and is set aside.
            if "input/output error" not in why and not self._process.may_have_failed(name):
                raise Violation("K", f"{self._process.name} cannot clean {name}: {why}")
        self._process.timer(1, self._clean)


def is_of_the_disk(error: Exception | None) -> bool:
    """Whether the disk under a pass of the cleaner fails."""
    return isinstance(error, OSError) and error.errno in DISK_FAILED
