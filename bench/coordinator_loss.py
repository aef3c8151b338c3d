"""The time for which groups stand still when the broker that coordinates them is killed.

Each group has one member that commits a growing position every 20 ms. Nobody may be rebalanced for
the kill, and no acknowledged commit may be lost.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from typing import Final

from bench import cluster
from bench.measure import printed
from pylog import AdminClient, Consumer, LocalCluster, TopicPartition
from pylog.clock import SYSTEM_CLOCK, ticks

GROUPS: Final = 30
PAUSE_S: Final = 0.02
BEFORE_S: Final = 2.0
AFTER_S: Final = 8.0


class _Member:
    """The only member of its group, on a thread of its own."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        self.group = group
        self.assignments = 0
        self.acknowledged = 0
        self.fault: Exception | None = None
        self.has_begun = threading.Event()
        self._longest_s = 0.0
        self._bootstrap, self._topic = bootstrap, topic
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.assignments += bool(partitions)

    def close(self) -> None:
        """It leaves, and what it met is raised."""
        self._ends.set()
        self._thread.join()
        if self.fault is not None:
            raise self.fault

    def longest_s(self) -> float:
        """The longest time from one acknowledged commit to the next, since it was last asked."""
        longest, self._longest_s = self._longest_s, 0.0
        return longest

    def _run(self) -> None:
        try:
            with Consumer(
                bootstrap_servers=self._bootstrap, group_id=self.group, enable_auto_commit=False
            ) as consumer:
                consumer.subscribe(self._topic, listener=self)
                while not consumer.assignment():
                    consumer.poll(0.1)
                self._commit(consumer)
        except Exception as error:  # noqa: BLE001 -- raised by close
            self.fault = error
        finally:
            self.has_begun.set()

    def _commit(self, consumer: Consumer) -> None:
        place = TopicPartition(self._topic, 0)
        before = ticks()
        while not self._ends.is_set():
            consumer.poll(0)
            consumer.commit({place: self.acknowledged + 1})
            self.acknowledged += 1
            now = ticks()
            self._longest_s = max(self._longest_s, now - before)
            before = now
            self.has_begun.set()
            self._ends.wait(PAUSE_S)


def longest_gap_seconds(running: LocalCluster, groups: int) -> float:
    """Seconds of the group that waited longest for its next commit, of all that the killed broker
    coordinated. Raises RuntimeError where a group was rebalanced or a commit was lost.
    """
    topic = cluster.fresh_topic(running, "coordinator-loss", 1)
    servers = running.bootstrap_servers
    members = [_Member(servers, topic, f"loss-{number}") for number in range(groups)]
    with AdminClient(bootstrap_servers=servers) as admin:
        for member in members:
            member.has_begun.wait()
        SYSTEM_CLOCK.sleep(BEFORE_S)
        described = admin.describe_groups([member.group for member in members])
        [(broker, _)] = Counter(d.coordinator.id for d in described.values()).most_common(1)
        for member in members:
            member.longest_s()
        running.kill(broker)
        SYSTEM_CLOCK.sleep(AFTER_S)
        gaps = [m.longest_s() for m in members if described[m.group].coordinator.id == broker]
        running.start(broker)
        for member in members:
            member.close()
        for member in members:
            [kept] = admin.list_group_offsets(member.group).values()
            if kept.offset < member.acknowledged or member.assignments != 1:
                raise RuntimeError(
                    f"{member.group}: {member.acknowledged} commits acknowledged and {kept.offset} "
                    f"kept, {member.assignments} assignments"
                )
    return max(gaps)


def rows(scale: float) -> None:
    """With three brokers."""
    groups = max(3, int(GROUPS * scale))
    with cluster.cluster(3) as running:
        gap = longest_gap_seconds(running, groups)
        printed(f"3 brokers: {groups} groups, coordinator killed, longest gap", "s", [gap])
