"""A host of the simulation with its disk and its clock, and what befalls it.

It starts a broker's process again after each death; the process is `broker_process`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pylog.model import BrokerId
from pylog_broker.storage.directories.partition_directories import CLOCK_CHECKPOINT
from pylog_broker.storage.directories.roster import ROSTER, Roster
from pylog_broker.storage.segments.retention import JUMP_MS
from tests.sim.broker_process import BrokerProcess
from tests.sim.contents import Trust, WallClock
from tests.sim.disk import MOUNTS, Disk, Inode
from tests.sim.rpc import Machine
from tests.sim.scheduler import US_PER_MS

if TYPE_CHECKING:
    from tests.sim.cluster import Cluster


class BrokerNode:
    """A host with one broker directory; it starts the broker's process again after each death."""

    def __init__(self, cluster: Cluster, number: int) -> None:
        self.cluster = cluster
        self.number = number
        self.rng = cluster.scheduler.rng(f"broker {number}")
        self._spark_rng = cluster.scheduler.rng(f"spark {number}")
        self.machine = Machine(f"b{number}", cluster.scheduler, self.rng.randint(0, 10**9))
        self.clock = WallClock(cluster.wall_ms, JUMP_MS)
        self.mounts = MOUNTS[: cluster.swarm.log_dirs]
        self.disk = Disk(mounts=self.mounts)
        self.disk.wall_ms = self.clock.now_ms
        self.disk.on_failure = self._disk_fails
        self._trust: dict[str, Trust] = {}
        self.process: BrokerProcess | None = None
        self.lives = 0
        self.registered_life = 0  # the last one that the controller took
        self.broker_id = BrokerId(-1)  # once it has been granted one
        # A power loss struck and the broker has not come back into all its ISRs since: it counts
        # against the fault budget.
        self.damaged = False
        self.lost_life = 0
        self.registered_since = True

    def trust(self, directory: str) -> Trust:
        """The clock that deletions in a log directory may go by."""
        return self._trust.setdefault(directory, Trust(self.clock))

    def opened(self, directory: str, boot_id: str) -> None:
        """A process has opened a log directory."""
        checkpoint = self.disk.find(f"{directory}/{CLOCK_CHECKPOINT}")
        knows = isinstance(checkpoint, Inode) and boot_id.encode() in checkpoint.data.split()
        self.trust(directory).started(knows_boot=knows)

    def start(self) -> None:
        """A new process."""
        if self.process is None:
            self.lives += 1
            self._mend_disks()
            self.cluster.scheduler.note("start", self.machine.name, self.lives)
            self.process = BrokerProcess(self)
            self.process.hear(self.process.start)

    def _mend_disks(self) -> None:
        """Somebody has looked after what did not work, or not yet; never after the last one."""
        bad = sorted(self.disk.broken_mounts | self.disk.absent_mounts)
        for mount in bad:
            if self.rng.random() < 0.6:
                self.mend(mount)
        if len(self.disk.broken_mounts | self.disk.absent_mounts) == len(self.mounts):
            self.mend(self.rng.choice(self.mounts))

    def mend(self, mount: str) -> None:
        """A disk works, from the next start on."""
        if mount in self.disk.broken_mounts | self.disk.absent_mounts:
            self.disk.broken_mounts.discard(mount)
            self.disk.absent_mounts.discard(mount)
            self.cluster.sometimes["log directory came back"] += 1
            self.cluster.scheduler.note("mended", self.machine.name, mount)

    def may_be_damaged(self) -> bool:
        """Whether the fault budget has room for what this broker may lose now."""
        others = sum(node.damaged for node in self.cluster.brokers.values() if node is not self)
        return others < self.cluster.swarm.min_insync - 1 and not self.cluster.holds_alone(self)

    def kill(self, away_ms: float, *, power: bool = False) -> None:
        """The process dies (with `power` its machine does); it starts again after a while."""
        process = self.process
        if process is None:
            if power:
                self._lose_power()
            return
        self.cluster.scheduler.note("power" if power else "kill", self.machine.name)
        process.alive = False
        for what in process.pool.under_way:
            self.cluster.sometimes["died with work at the disk"] += 1
            self.cluster.sometimes[f"died over a {what}"] += 1
        process.pool.abandon()
        process.files.die()
        self.process = None
        self.machine.resume()
        self.cluster.net.break_all_of(self.machine.name, seen_by_peer=not power)
        if not process.is_opening:  # what a start that is cut short has done is judged by the next
            self.cluster.shadows.refresh(self.broker_id, self.disk)
        self.cluster.shadows.life_ended(self.broker_id)
        if power:
            self._lose_power()
        if self.cluster.swarm.task_ends and self._spark_rng.random() < 0.7:
            wait_us = self._spark_rng.randint(50, 3_000) * US_PER_MS
            self.cluster.scheduler.after(wait_us, self._task_ended, process.incarnation)
        self.cluster.scheduler.after(int(away_ms * 1_000), self.start)

    def _task_ended(self, incarnation: str) -> None:
        controller = self.cluster.controller.process
        if controller is not None:
            controller.hear(controller.task_ended, incarnation)

    def replace_logs(self, directories: list[str]) -> None:
        """Have the replicas copied again, as the broker's log asks an operator to do."""
        self.kill(500)
        for directory in directories:
            self.cluster.scheduler.note("wipe", directory)
            self.cluster.shadows.wiped(self.broker_id, directory)
            self.disk.wipe(directory)

    def _disk_fails(self, act: str, directory: str) -> bool:
        if not self.may_be_damaged():
            return False
        self.is_damaged()
        self.cluster.sometimes["disk failed"] += 1
        self.cluster.scheduler.note("disk fails", directory)
        drops = act == "fsync"
        self.cluster.shadows.before_failure(self.broker_id, directory, self.disk, drops=drops)
        return True

    def would_be_whole(self) -> bool:
        """Whether its directories say that a kill takes nothing. A full disk puts that off, its own
        word to when there is room, the doubt that the others note to the next start.
        """
        boot = f"{self.machine.name}-boot-{self.disk.boot}".encode()
        return all(self._says_intact(f"{m}/broker-{self.broker_id}", boot) for m in self.mounts)

    def _says_intact(self, directory: str, boot: bytes) -> bool:
        meta = self.disk.find(f"{directory}/meta.properties")
        if not isinstance(meta, Inode) or boot not in meta.data:
            return False
        roster = self.disk.find(f"{directory}/{ROSTER}")
        doubts = isinstance(roster, Inode) and Roster.decode(bytes(roster.data)).doubtful
        return b"log.intact=true" in meta.data and not doubts

    def is_damaged(self) -> None:
        """From now on until it has come back into all its ISRs."""
        self.damaged = True
        self.lost_life = self.lives
        self.registered_since = False

    def _lose_power(self) -> None:
        self.is_damaged()
        self.cluster.shadows.before_power_loss(self.broker_id, self.disk)
        self.disk.lose_power(self.rng)
        self.clock.rebooted()
