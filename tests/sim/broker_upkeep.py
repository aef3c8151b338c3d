"""What a simulated broker does for its logs as time passes: syncs, checkpoints, retention, passes
of the cleaner. The shells of the product do the same on their loop and pool.

Whatever retention takes is judged here, by the rules of `tests.sim.contents`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.replication.manager import ReplicaManager
from broker.storage.cleaner.clean_task import CleanTask
from broker.storage.log.guard import DISK_FAILED
from broker.storage.log.log import Log
from broker.storage.manager.manager import LogManager
from pylog import errors
from pylog.model import Offset
from tests.sim.contents import may_forget
from tests.sim.ghost import Violation

if TYPE_CHECKING:
    from tests.sim.broker_process import BrokerProcess


class BrokerUpkeep:
    """Of one log directory in one life of a broker, from its registration on."""

    def __init__(self, process: BrokerProcess, logs: LogManager, core: ReplicaManager) -> None:
        self._process = process
        self._node = process.node
        self._cluster = process.cluster
        self._logs = logs
        self._core = core
        self._trust = process.node.trust(self._logs.directory)

    def start(self) -> None:
        """Begin all of it."""
        self._sync()
        self._checkpoint()
        if self._cluster.swarm.upkeep is not None:
            self._clean()

    def _sync(self) -> None:
        """fsync some log, as the flush settings or the kernel would."""
        if self._logs.is_offline:
            return
        logs = [log for log in self._logs.logs if log.failure is None]
        try:
            if logs:
                self._node.rng.choice(logs).flush()
        except errors.PylogError as error:
            self._cluster.scheduler.note("sync", self._process.name, error)
        self._process.take_failures()
        interval = self._cluster.swarm.sync_interval_ms
        self._process.timer(self._node.rng.expovariate(1.0 / interval), self._sync)

    def _checkpoint(self) -> None:
        if self._logs.is_offline:
            return
        try:
            self._logs.checkpoint_high_watermarks(self._core.high_watermarks())
            self._logs.checkpoint_recovery_points()
            self._maintain(self._logs)
            if (removal := self._logs.removal_task(self._process.now_ms())) is not None:
                removal.run()
        except (OSError, errors.PylogError) as error:
            self._cluster.scheduler.note("checkpoint", self._process.name, error)
            if not self._is_alone:
                self._process.directory_failed(self._logs, error)
        self._process.take_failures()
        self._process.timer(500 + self._node.rng.random() * 2_000, self._checkpoint)

    def _maintain(self, logs: LogManager) -> None:
        """Rolls and retention; whatever goes must be allowed to."""
        # after a pass of the cleaner no step has looked at the files
        self._cluster.shadows.refresh(self._process.broker_id, self._node.disk)
        before = {log.topic_partition: log.log_start_offset for log in logs.logs}
        watermarks = self._core.high_watermarks()
        self._trust.looked()
        try:
            logs.maintain(self._process.now_ms(), self._node.clock.now_ms(), watermarks)
        finally:
            for log in logs.logs:
                if log.log_start_offset > before[log.topic_partition]:
                    self._retained(log, before[log.topic_partition])

    def _retained(self, log: Log, before: Offset) -> None:
        number = log.topic_partition.partition
        ghost = self._cluster.shadows.ghost(log.topic_id, number)
        shadow = ghost.shadow(self._process.broker_id)
        self._cluster.scheduler.note("retained", self._process.name, number, log.log_start_offset)
        self._cluster.sometimes["retention"] += 1
        batches = [b for b in shadow.batches if before <= b.last < log.log_start_offset]
        behind = sum(shadow.sizes[b.base] for b in shadow.batches if b.last >= before)
        for batch in batches:
            behind -= shadow.sizes[batch.base]
            if len(shadow.holes.get(batch.base, ())) > batch.last - batch.base:
                continue  # compaction had taken all of its records
            timestamp = ghost.contents.of(batch.crc).timestamp
            why = may_forget(log.config, timestamp, behind, self._trust)
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
        if self._logs.is_offline:
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
        wait_ms = self._node.rng.random() * 50
        task.run()
        self._process.timer(wait_ms, self._cleaned, task)

    def _cleaned(self, task: CleanTask) -> None:
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
            if "input/output error" not in why:
                raise Violation("K", f"{self._process.name} cannot clean {name}: {why}")
        self._process.timer(1, self._clean)


def is_of_the_disk(error: Exception | None) -> bool:
    """Whether the disk under a pass of the cleaner fails."""
    return isinstance(error, OSError) and error.errno in DISK_FAILED
