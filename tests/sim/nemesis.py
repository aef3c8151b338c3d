"""The faults: one at a time or several at once, within the budget of the promises.

The budget: a power loss strikes only while fewer than `min.insync.replicas` - 1 other brokers
have lost power, or a log directory, and not come back into all their ISRs. Beyond it the right
outcome would be an offline partition, which is another test's business. Kills, pauses and cuts have
no budget.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pylog_broker.controller.metadata_batches import BATCH_RECORDS_MAX
from tests.sim.alterations import OutlivedRefusal
from tests.sim.disk import Directory
from tests.sim.new_leaders import ToldEnd
from tests.sim.scheduler import US_PER_MS
from tests.sim.stalled_disks import CheckpointOverNews, SyncOverCut

if TYPE_CHECKING:
    from tests.sim.broker_node import BrokerNode
    from tests.sim.cluster import Cluster

PAUSE_MS_MAX = 4_000
FULL_MS_MAX = 1_500
SHORT_MS_MAX = 600
ATTEMPTS = 300
LOOK_MS = 2
UNREGISTERED_WITHIN_MS = 1_500
LOADS_WITHIN_MS = 4_000
CLOCK_STEPS_MS = (1_000, -1_000, 3_600_000, -3_600_000, 864_000_000, -864_000_000)


def _nothing() -> None:
    pass


class Nemesis:
    """Draws faults until it is told to stop."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.rng = cluster.scheduler.rng("nemesis")
        self.stopped = False
        self._copies: list[tuple[BrokerNode, str, str]] = []
        self._strike: dict[str, Callable[[], None]] = {
            "kill": lambda: self._any().kill(self.away_ms()),
            "torn_write": self._torn_write,
            "power": self._power,
            "power_in_fetch": lambda: self._power_in_fetch(ATTEMPTS),
            "pause": self._pause,
            "isolate": self._isolate,
            "one_way": self._one_way,
            "session_breaks": self._session_breaks,
            "reset": self._reset,
            "cut_controller": self._cut_controller,
            "controller_kill": self._controller_kill,
            "controller_full": self._controller_full,
            "kill_all": self._kill_all,
            "cluster_stop": self._cluster_stop,
            "disk_full": self._disk_full,
            "stop": self._stop,
            "delete_records": cluster.administrator.delete_records,
            "recreate": self._recreate,
            "grow": cluster.administrator.grow,
            "move": cluster.administrator.move,
            "throttle_rate": cluster.administrator.throttle_rate,
            "throttle_replicas": cluster.administrator.throttle_replicas,
            "move_internal": cluster.administrator.move_internal,
            "take_loading_away": self._take_loading_away,
            "reconfigure": cluster.administrator.reconfigure,
            "refuse_batches": cluster.administrator.refuse_batches,
            "reconfigure_cluster": cluster.administrator.reconfigure_cluster,
            "reconfigure_broker": cluster.administrator.reconfigure_broker,
            "elect_preferred": cluster.administrator.elect_preferred,
            "unregister": self._unregister,
            "unregister_eligible": self._unregister_eligible,
            "unclean": lambda: self._unclean(ATTEMPTS),
            "set_clock": lambda: self._set_clock(self._any()),
            "set_clock_while_down": self._set_clock_while_down,
            "disk_fails": self._disk_fails,
            "sync_fails": self._sync_fails,
            "short_of_files": self._short_of_files,
            "one_short_moment": self._one_short_moment,
            "directory_fails": self._directory_fails,
            "directory_missing": self._directory_missing,
            "directory_full": self._directory_full,
            "replica_moved": lambda: self._handle_replica(self._move),
            "replica_copied": lambda: self._handle_replica(self._copy),
            "replica_restored": lambda: self._restore_soon(1),
            "refusal_outlived": lambda: OutlivedRefusal(self).strike(),
            "sync_outlives_cut": lambda: SyncOverCut(self).strike(),
            "told_leader_dies": lambda: ToldEnd(self).strike(),
            "checkpoint_outlived": lambda: CheckpointOverNews(self).strike(),
        }

    def start(self) -> None:
        """Begin."""
        self._next()

    def _next(self) -> None:
        interval = self.cluster.swarm.fault_interval_ms
        wait_ms = self.rng.expovariate(1.0 / interval)
        self.cluster.scheduler.after(int(wait_ms * US_PER_MS), self._act)

    def _act(self) -> None:
        if self.stopped:
            return
        kind = self.rng.choice(self.cluster.swarm.faults)
        self.cluster.scheduler.note("nemesis", kind)
        self._strike[kind]()
        self._next()

    # ---- choices

    def _any(self) -> BrokerNode:
        return self.rng.choice(list(self.cluster.brokers.values()))

    def _target(self) -> BrokerNode:
        """A broker, more often than not one that leads: there is more to lose."""
        leaders = [
            node
            for node in self.cluster.brokers.values()
            if any(p.leader == node.broker_id for p in self.cluster.image.partitions())
        ]
        if leaders and self.rng.random() < 0.6:
            return self.rng.choice(leaders)
        return self._any()

    def away_ms(self) -> int:
        """The time for which a process that dies stays away."""
        return self.rng.randint(20, self.cluster.swarm.away_ms)

    def later(self, wait_ms: int, fn: Callable[[], None]) -> None:
        """Call `fn` after a while, also when all faults have ended."""
        self.cluster.scheduler.after(wait_ms * US_PER_MS, fn)

    def when(
        self,
        seen: Callable[[], bool],
        then: Callable[[], None],
        patience_ms: int,
        otherwise: Callable[[], None] = _nothing,
    ) -> None:
        """Look again and again: `then` once it is seen, `otherwise` after that time, or when all
        faults have ended.
        """
        if self.stopped or patience_ms <= 0:
            otherwise()
        elif seen():
            then()
        else:
            left_ms = patience_ms - LOOK_MS
            self.later(LOOK_MS, lambda: self.when(seen, then, left_ms, otherwise))

    # ---- processes and machines

    def _torn_write(self) -> None:
        node = self._target()
        node.disk.torn_write_rng = self.rng

    def _power(self) -> None:
        cluster = self.cluster
        damaged = [node for node in cluster.brokers.values() if node.damaged]
        budget = cluster.swarm.min_insync - 1
        node = self._any() if len(damaged) < budget else None
        if node is not None and cluster.holds_alone(node, only_tails=True):
            node = None
        if node is None:
            # one that lost its power already may lose it again
            again = [node for node in damaged if not cluster.holds_alone(node, only_tails=True)]
            node = self.rng.choice(again) if again and self.rng.random() < 0.3 else None
        if node is not None:
            cluster.sometimes["power loss"] += 1
            node.kill(self.away_ms(), power=True)

    def _power_in_fetch(self, attempts: int) -> None:
        """A caught-up follower dies with a fetch on its way: what KIP-903 is about."""
        cluster = self.cluster
        damaged = [node for node in cluster.brokers.values() if node.damaged]
        if self.stopped or len(damaged) >= cluster.swarm.min_insync - 1:
            return
        for node in cluster.brokers.values():
            process = node.process
            if (
                process is None
                or not process.calls.fetching
                or cluster.holds_alone(node, only_tails=True)
            ):
                continue
            if cluster.is_caught_up(node):
                cluster.sometimes["power loss"] += 1
                node.kill(self.away_ms(), power=True)
                return
        if attempts > 0:
            self.later(3, lambda: self._power_in_fetch(attempts - 1))

    def _pause(self) -> None:
        machine = self.rng.choice((self._target().machine, self.cluster.controller.machine))
        machine.pause()
        self.later(self.rng.randint(50, PAUSE_MS_MAX), machine.resume)

    def _controller_kill(self) -> None:
        controller = self.cluster.controller
        if self.rng.random() < 0.3:
            controller.disk.torn_write_rng = self.rng
            if self.cluster.swarm.metadata_batch_records < BATCH_RECORDS_MAX:
                controller.disk.torn_write_in = self.rng.randint(0, 5)
        else:
            controller.kill(self.away_ms(), power=self.rng.random() < 0.5)
        self.cluster.sometimes["controller restart"] += 1

    def _controller_full(self) -> None:
        disk = self.cluster.controller.disk
        disk.full_in = self.rng.randint(0, 5)  # in the middle of an append, too

        def free() -> None:
            disk.full_in = -1
            disk.full = False

        self.later(self.rng.randint(50, FULL_MS_MAX), free)

    def _kill_all(self) -> None:
        # all within 100 ms, the controller with them: the driver is gone
        for node in self.cluster.brokers.values():
            self.later(
                self.rng.randint(0, 100),
                lambda node=node: node.kill(self.away_ms()),  # type: ignore[misc]
            )
        if self.rng.random() < 0.5:
            self.cluster.controller.kill(self.away_ms())
        self.cluster.sometimes["kill all"] += 1

    def _cluster_stop(self) -> None:
        process = self.cluster.controller.process
        if process is not None:
            process.hear(process.stop_cluster, self.rng.randint(50, 1_500), self.away_ms())

    def _disk_full(self) -> None:
        disk = self._target().disk
        disk.full = True

        def free() -> None:
            disk.full = False

        self.later(self.rng.randint(50, FULL_MS_MAX), free)

    def _disk_fails(self) -> None:
        # one access, which may be a while away; the budget is looked at then
        self._target().disk.failing = self.rng.choice(("append", "read"))

    def _sync_fails(self) -> None:
        """The same of a sync: the kernel drops pages, and others around them may stay."""
        self._target().disk.failing = "fsync"

    def _short_of_files(self) -> None:
        """For a while much that the process asks for is refused: a flood of connections, say."""
        disk = self._target().disk
        disk.short_rng = self.rng
        disk.short_share = self.rng.choice((0.03, 0.2, 1.0))
        self.cluster.sometimes["short of descriptors or memory"] += 1

        def enough() -> None:
            disk.short_share = 0.0

        self.later(self.rng.randint(20, SHORT_MS_MAX), enough)

    def _one_short_moment(self) -> None:
        """One access is refused, some time from now."""
        disk = self._target().disk
        disk.short_rng = self.rng
        disk.short_share = 0.3
        disk.short_once = True

    # ---- log directories: one of a broker's disks, never the last that works

    def _mount(self, node: BrokerNode) -> str | None:
        disk = node.disk
        usable = [m for m in node.mounts if m not in disk.broken_mounts | disk.absent_mounts]
        return self.rng.choice(usable) if len(usable) > 1 else None

    def _may_lose(self, node: BrokerNode) -> bool:
        """Whether a directory of it may fail: its replicas count no more while others do."""
        return node.process is not None and node.process.core is not None and node.may_be_damaged()

    def _directory_fails(self) -> None:
        node = self._target()
        mount = self._mount(node)
        if self._may_lose(node) and mount is not None:
            node.is_damaged()
            self.cluster.scheduler.note("breaks", node.machine.name, mount)
            node.disk.broken_mounts.add(mount)

    def _directory_missing(self) -> None:
        """The broker starts without a disk that was there; it must know that."""
        node = self._target()
        mount = self._mount(node)
        if not self._may_lose(node) or mount is None:
            return
        node.is_damaged()
        node.kill(self.away_ms())
        self.cluster.scheduler.note("missing", node.machine.name, mount)
        node.disk.absent_mounts.add(mount)

    def _directory_full(self) -> None:
        node = self._target()
        mount = self.rng.choice(node.mounts)
        node.disk.full_mounts.add(mount)
        self.later(self.rng.randint(50, FULL_MS_MAX), lambda: node.disk.full_mounts.discard(mount))

    def _handle_replica(self, act: Callable[[BrokerNode, str, str], None]) -> None:
        """While its broker is down, somebody does something to a replica's files."""
        node = self._any()
        mount = self._mount(node)
        if mount is None or node.process is None or node.process.core is None:
            return
        broker = f"broker-{node.broker_id}"
        disk = node.disk
        home = disk.find(f"{mount}/{broker}")
        others = [m for m in node.mounts if m != mount and disk.is_reachable(m)]
        found = [
            (f"{mount}/{broker}/{name}", f"{other}/{broker}/{name}")
            for name in sorted(home.entries if isinstance(home, Directory) else ())
            for other in others
            if name.removeprefix(f"{self.cluster.TOPIC}-").isdecimal()
            and disk.find(f"{other}/{broker}") is not None
            and disk.find(f"{other}/{broker}/{name}") is None
        ]
        if found:
            node.kill(self.away_ms())
            act(node, *self.rng.choice(found))

    def _move(self, node: BrokerNode, source: str, target: str) -> None:
        """It may be an old copy for all that the broker knows: it counts as one that lacks
        records.
        """
        if not node.may_be_damaged():
            return
        node.is_damaged()
        self.cluster.sometimes["replica moved"] += 1
        self.cluster.scheduler.note("moved", source, target)
        node.disk.copy(source, target)
        node.disk.wipe(source)
        self.cluster.shadows.moved(node.broker_id, source, target)

    def _copy(self, node: BrokerNode, source: str, target: str) -> None:
        self.cluster.sometimes["replica copied"] += 1
        self.cluster.scheduler.note("copied", source, target)
        node.disk.copy(source, target)
        self._copies.append((node, source, target))
        if self.rng.random() < 0.7:
            self.later(self.rng.randint(500, 4_000), lambda: self._restore_soon(20))

    def _restore_soon(self, attempts: int) -> None:
        """The same as `_restore`, as soon as the budget has room for it."""
        if not self.stopped and attempts > 0 and not self._restore():
            self.later(300, lambda: self._restore_soon(attempts - 1))

    def _restore(self) -> bool:
        """Somebody removes the right one of two copies. Whether there were two."""
        for node, source, target in self._copies:
            there = all(node.disk.find(path) is not None for path in (source, target))
            if there and node.may_be_damaged() and node.process is not None:
                self._copies.remove((node, source, target))
                node.kill(self.away_ms())
                node.is_damaged()
                self.cluster.sometimes["replica restored"] += 1
                self.cluster.scheduler.note("restored", source, target)
                self.cluster.shadows.wiped(node.broker_id, source)
                node.disk.wipe(source)
                return True
        return False

    # ---- administrators

    def _unregister(self) -> None:
        """One dies, and is taken for gone before it is back."""
        node = self._any()
        if node.process is not None and node.may_be_damaged():
            away_ms = self.cluster.swarm.session_timeout_ms + self.away_ms() + 1_000
            node.kill(away_ms)
            self.later(away_ms - 500, lambda: self.cluster.administrator.unregister(node))

    def _unregister_eligible(self) -> None:
        """So many die that one of them stays eligible to lead, and that one is taken for gone."""
        cluster = self.cluster
        led = [partition for partition in cluster.image.partitions() if len(partition.isr) > 1]
        if not led:
            return
        partition = self.rng.choice(led)
        doomed = self.rng.sample(partition.isr, len(partition.isr) - 1)
        for broker in doomed:
            cluster.owners[broker].kill(UNREGISTERED_WITHIN_MS + self.away_ms())

        def eligible() -> BrokerNode | None:
            now = cluster.image.partition(partition.topic_id, partition.partition)
            members = () if now is None else now.eligible_leader_replicas
            nodes = [cluster.owners[broker] for broker in members if broker in doomed]
            return next((node for node in nodes if node.process is None), None)

        def forget() -> None:
            node = eligible()
            assert node is not None
            cluster.sometimes["eligible broker taken for gone"] += 1
            cluster.administrator.unregister(node)

        self.when(lambda: eligible() is not None, forget, UNREGISTERED_WITHIN_MS)

    def _take_loading_away(self) -> None:
        """As soon as a coordinator reads its log, its partition leaves it."""

        def loading() -> tuple[str, int] | None:
            for node in self.cluster.brokers.values():
                for shell in () if node.process is None else node.process.shells:
                    for number in shell.runtime.loading:
                        return shell.runtime.topic, number
            return None

        def take() -> None:
            found = loading()
            assert found is not None
            self.cluster.administrator.take_from_leader(*found)

        self.when(lambda: loading() is not None, take, LOADS_WITHIN_MS)

    def _recreate(self) -> None:
        # seldom: what a topic goes through in its life is worth more than its birth
        if self.rng.random() < 0.3:
            self.cluster.administrator.recreate()

    def _unclean(self, attempts: int) -> None:
        """All replicas that may lead die while one is left that may not, and is made to."""
        cluster = self.cluster
        if self.stopped or any(node.damaged for node in cluster.brokers.values()):
            return
        for partition in cluster.image.partitions():
            members = {*partition.isr, *partition.eligible_leader_replicas}
            left = [b for b in partition.replicas if b not in members and cluster.process(b)]
            if not any(cluster.image.is_live(broker) for broker in left):
                continue
            away_ms = cluster.swarm.session_timeout_ms + 4_000
            for node in cluster.brokers.values():
                if node.broker_id in members:
                    node.kill(away_ms)
            wait_us = (cluster.swarm.session_timeout_ms + 500) * US_PER_MS
            elect = cluster.administrator.elect_unclean
            cluster.scheduler.after(wait_us, elect, partition.topic_id, partition.partition)
            return
        if attempts > 0:
            self.later(10, lambda: self._unclean(attempts - 1))

    def _set_clock(self, node: BrokerNode) -> None:
        """Forward or back, by much or little; or right again."""
        clock = node.clock
        step_ms = self.rng.choice(CLOCK_STEPS_MS)
        if clock.ahead_ms and self.rng.random() < 0.5:
            step_ms = -clock.ahead_ms
        self.cluster.sometimes["clock set"] += 1
        clock.set(step_ms)

    def _set_clock_while_down(self) -> None:
        """A broker dies, its clock is set before its next start, and maybe once more then."""
        node, away_ms = self._any(), self.away_ms()
        if self.rng.random() < 0.3:
            self._power()
            down = [each for each in self.cluster.brokers.values() if each.process is None]
            node = self.rng.choice(down) if down else node
        else:
            node.kill(away_ms)
        self.later(self.rng.randint(0, away_ms), lambda: self._set_clock(node))
        if self.rng.random() < 0.3:
            self.later(away_ms + self.rng.randint(0, 1_000), lambda: self._set_clock(node))

    def _stop(self) -> None:
        process = self._target().process
        if process is not None:
            away_ms = self.away_ms()
            process.hear(process.stop, away_ms)

    # ---- the network

    def _cut(self, pairs: list[tuple[str, str]], for_ms: int = 0) -> None:
        net = self.cluster.net
        for source, target in pairs:
            net.cut(source, target)

        def heal() -> None:
            for source, target in pairs:
                net.uncut(source, target)

        drawn_ms = self.rng.randint(100, max(200, self.cluster.swarm.away_ms))
        self.later(for_ms or drawn_ms, heal)

    def _others(self, node: BrokerNode) -> list[str]:
        others = [n.machine.name for n in self.cluster.brokers.values() if n is not node]
        return [*others, "ctl"]

    def _isolate(self) -> None:
        """From brokers and controller; clients still reach it."""
        node = self._target()
        name = node.machine.name
        self._cut([pair for o in self._others(node) for pair in ((name, o), (o, name))])

    def _one_way(self) -> None:
        node = self._target()
        other = self.rng.choice(self._others(node))
        pair = (node.machine.name, other)
        self._cut([pair if self.rng.random() < 0.5 else (pair[1], pair[0])])

    def _session_breaks(self) -> None:
        """A follower that goes on to fetch loses its session, and has it again a moment later."""
        leaders = {partition.leader for partition in self.cluster.image.partitions()}
        followers = [n for n in self.cluster.brokers.values() if n.broker_id not in leaders]
        if followers:
            name = self.rng.choice(followers).machine.name
            self._cut([(name, "ctl"), ("ctl", name)], self.rng.randint(250, 1_000))
            self.cluster.net.reset_between(name, "ctl")

    def _reset(self) -> None:
        for _ in range(self.rng.randint(1, 6)):
            self.cluster.net.reset_some(self.rng)

    def _cut_controller(self) -> None:
        name = self._target().machine.name
        self._cut([(name, "ctl"), ("ctl", name)])
