"""Disks that answer nobody for a while, with work of the pool on its way to them.

The loop goes on meanwhile. So the work ends after something that it has not heard of, and what it
says of the disk is old by then.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from pylog.model import TopicPartition
from pylog_broker.storage.checkpoints.checkpoints import (
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
)
from pylog_broker.storage.log.log import Log
from pylog_broker.storage.segments.flush_task import FlushTask

if TYPE_CHECKING:
    from tests.sim.broker_node import BrokerNode
    from tests.sim.broker_process import BrokerProcess
    from tests.sim.nemesis import Nemesis

SYNCED_WITHIN_MS = 3_000
CUT_WITHIN_MS = 4_000
WRITTEN_WITHIN_MS = 5_000
CHECKPOINT_WITHIN_MS = 3_000
NEWER_WITHIN_MS = 3_000
TAIL_WITHIN_MS = 300
CHECKPOINTS = (RECOVERY_POINT_CHECKPOINT, LOG_START_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT)


class Syncing(NamedTuple):
    """A sync of one log."""

    topic_partition: TopicPartition
    task: FlushTask


class SyncOverCut:
    """A log is cut while a sync of it is under way, is written on, and its machine loses power.

    A leader that nobody hears but its clients writes a tail that its followers do not have. Its
    disk stalls under a sync of that, and works again when the log has been cut. Nobody has synced
    the records that are written then, up to where the sync should have reached.
    """

    def __init__(self, nemesis: Nemesis) -> None:
        self._nemesis = nemesis
        self._cluster = nemesis.cluster
        self._rng = nemesis.rng
        self._node: BrokerNode
        self._process: BrokerProcess
        self._log: Log
        self._task: FlushTask

    def strike(self) -> None:
        """Cut a leader off."""
        cluster = self._cluster
        led = [p for p in cluster.image.partitions() if p.leader >= 0 and len(p.isr) > 1]
        if not led:
            return
        self._node = cluster.owners[self._rng.choice(led).leader]
        process = self._node.process
        if process is None or process.core is None:
            return
        self._process = process
        name = self._node.machine.name
        cluster.net.reset_between(name, "ctl")  # while the controller can hear of it
        others = [n.machine.name for n in cluster.brokers.values() if n is not self._node]
        pairs = [pair for o in (*others, "ctl") for pair in ((name, o), (o, name))]
        for pair in pairs:
            cluster.net.cut(*pair)

        def mend() -> None:
            for pair in pairs:
                cluster.net.uncut(*pair)

        def stall() -> None:
            process.pool.is_stalled = True
            mend()
            self._await_cut()

        away_ms = self._rng.randint(400, 2_000)
        self._nemesis.later(
            away_ms, lambda: self._nemesis.when(self._has_tail, stall, SYNCED_WITHIN_MS, mend)
        )

    def _is_alive(self) -> bool:
        return self._node.process is self._process and not self._process.is_closing

    def _has_tail(self) -> bool:
        """Whether a sync is under way of a log that others have gone on without."""
        for log, task in self._syncs() if self._is_alive() else ():
            ghost = self._cluster.shadows.ghost(log.topic_id, log.topic_partition.partition)
            leads = ghost.record is None or ghost.record.leader == self._node.broker_id
            agreed = ghost.shadow(self._node.broker_id).agreed_end()
            if not leads and agreed < task.up_to and log.generation == task.generation:
                self._log, self._task = log, task
                return True
        return False

    def _syncs(self) -> Iterator[tuple[Log, FlushTask]]:
        assert self._process.logs is not None
        for syncing in self._process.pool.subjects("sync"):
            assert isinstance(syncing, Syncing)
            log = self._process.logs.get(syncing.topic_partition)
            if log is not None:
                yield log, syncing.task

    def _await_cut(self) -> None:
        def go_on() -> None:
            self._process.pool.is_stalled = False

        def cut() -> None:
            go_on()
            self._await_checkpoint()

        self._nemesis.when(
            lambda: self._is_alive() and self._log.generation != self._task.generation,
            cut,
            CUT_WITHIN_MS,
            go_on,
        )

    def _await_checkpoint(self) -> None:
        """Awaits a checkpoint of the log as it is when it has grown to where the sync should have
        reached.
        """
        self._cluster.sometimes["log cut under a sync"] += 1
        path = f"{self._log.directory.rpartition('/')[0]}/{RECOVERY_POINT_CHECKPOINT}"
        disk = self._node.disk
        before: list[object] = []

        def is_written() -> bool:
            if not self._is_alive() or any(task is self._task for _, task in self._syncs()):
                return False
            if not before and self._log.log_end_offset >= self._task.up_to:
                before.append(disk.find(path))
            return bool(before) and disk.find(path) is not before[0]

        self._nemesis.when(is_written, self._take_power, WRITTEN_WITHIN_MS)

    def _take_power(self) -> None:
        def take() -> None:
            if self._is_alive() and self._node.may_be_damaged():
                self._cluster.sometimes["power loss after a sync over a cut"] += 1
                self._node.kill(self._nemesis.away_ms(), power=True)

        self._nemesis.later(self._rng.randint(1, 30), take)


class CheckpointOverNews:
    """A checkpoint is on its way to the disk when its broker writes a newer one, and the broker
    dies soon after the older one came through.

    The disk stalls under it until the topic has made way for another one of its name, so that
    what the older one says is of logs that are gone. The broker dies as a leader that has written
    what nobody else has: a start that took the old high watermark would call that committed.
    """

    def __init__(self, nemesis: Nemesis) -> None:
        self._nemesis = nemesis
        self._cluster = nemesis.cluster
        self._rng = nemesis.rng
        self._process: BrokerProcess
        self._files: list[object] = []

    def strike(self) -> None:
        """Wait for a checkpoint."""
        self._nemesis.when(self._is_begun, self._stall, CHECKPOINT_WITHIN_MS)

    def _is_begun(self) -> bool:
        processes = [node.process for node in self._cluster.brokers.values()]
        for process in filter(None, processes):
            if not process.is_closing and process.pool.subjects("checkpoint"):
                self._process = process
                return True
        return False

    def _is_alive(self) -> bool:
        return self._process.alive and not self._process.is_closing

    def _checkpoints(self) -> list[object]:
        """The files as they are; each write makes another one."""
        assert self._process.logs is not None
        homes = [manager.directory for manager in self._process.logs.opened]
        return [self._process.node.disk.find(f"{h}/{name}") for h in homes for name in CHECKPOINTS]

    def _stall(self) -> None:
        self._process.pool.is_stalled = True
        self._files = self._checkpoints()
        self._cluster.administrator.recreate()

        def is_newer() -> bool:
            return not self._is_alive() or self._checkpoints() != self._files

        self._nemesis.when(is_newer, self._go_on, NEWER_WITHIN_MS, self._go_on)

    def _go_on(self) -> None:
        """The older checkpoint comes through, after whatever was written meanwhile."""
        self._process.pool.is_stalled = False
        if self._is_alive() and self._checkpoints() != self._files:
            self._cluster.sometimes["checkpoint over a newer one"] += 1
            self._nemesis.when(self._is_through, self._silence, NEWER_WITHIN_MS)

    def _is_through(self) -> bool:
        return not self._process.pool.subjects("checkpoint")

    def _silence(self) -> None:
        """The other brokers hear nothing from it any more."""
        cluster, name = self._cluster, self._process.name
        others = [n.machine.name for n in cluster.brokers.values() if n.machine.name != name]
        for other in others:
            cluster.net.cut(name, other)

        def die() -> None:
            for other in others:
                cluster.net.uncut(name, other)
            if self._is_alive():
                self._process.node.kill(self._nemesis.away_ms())

        self._nemesis.when(self._has_tail, die, TAIL_WITHIN_MS, die)

    def _has_tail(self) -> bool:
        cluster, broker = self._cluster, self._process.broker_id
        for partition in cluster.image.partitions():
            ghost = cluster.shadows.ghost(partition.topic_id, partition.partition)
            if partition.leader == broker and ghost.shadow(broker).end > ghost.committed_end:
                return True
        return not self._is_alive()
