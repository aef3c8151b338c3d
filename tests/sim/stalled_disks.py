"""Disks that answer nobody for a while, with work of the pool on its way to them.

The loop goes on meanwhile. So the work ends after something that it has not heard of, and what it
says of the disk is old by then.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from pylog.model import TopicPartition
from pylog_broker.storage.checkpoints.checkpoints import RECOVERY_POINT_CHECKPOINT
from pylog_broker.storage.log.log import Log
from pylog_broker.storage.segments.flush_task import FlushTask

if TYPE_CHECKING:
    from tests.sim.broker_node import BrokerNode
    from tests.sim.broker_process import BrokerProcess
    from tests.sim.nemesis import Nemesis

SYNCED_WITHIN_MS = 3_000
CUT_WITHIN_MS = 4_000
WRITTEN_WITHIN_MS = 5_000


class Syncing(NamedTuple):
    """A sync of one log."""

    topic_partition: TopicPartition
    task: FlushTask


class SyncOverCut:
    """A log is cut while a sync of it is under way, is written on, and its machine loses power.

    A leader that nobody hears but its clients writes a tail that its followers do not have. Its
    disk stalls under a sync of that, and works again when the log has been cut. What is written
    then, up to where the sync should have reached, was synced by nobody.
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
        """Of the log as it is when it has grown to where the sync should have reached."""
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
