"""Copies that brokers make and let make under a throttle (KIP-73), beside the published settings.

A plain list of what has passed stands for the rate: over no stretch of time is it more than the
rate allows, and a second's worth on top. A fetch that was sent before the rate was used up may be
answered yet. Only replicas that are named and out of sync are held back, each is looked at again
within a second, and one that joins the ISR goes on at once.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from pylog.config import LONG_MAX
from pylog.model import BrokerId
from pylog_broker.replication.fetcher import IN_FLIGHT_MAX
from pylog_broker.replication.follower import FollowerStatus
from pylog_broker.replication.partition import Partition
from pylog_broker.replication.replica_fetch_messages import ReplicaFetched
from pylog_broker.replication.replica_fetches import URGENT
from pylog_broker.replication.sessions import ParkedFetch
from pylog_broker.replication.throttle import BURST_MS, LOOK_AGAIN_MS
from tests.sim.violation import Violation

if TYPE_CHECKING:
    from tests.sim.broker_process import BrokerProcess


class _Passed:
    """The bytes that passed at one rate. `late_max`: so many answers of each peer may have been on
    their way when the rate was used up.
    """

    def __init__(self, late_max: int) -> None:
        self._late_max = late_max
        self._rate = LONG_MAX
        self._settled: list[tuple[int, int]] = []
        self._late: dict[BrokerId, deque[tuple[int, int]]] = {}

    def at_rate(self, rate: int) -> bool:
        """The rate is that from now on. Whether it is a limit."""
        if rate != self._rate:
            self._rate = rate
            self._settled.clear()
            self._late.clear()
        return rate < LONG_MAX

    def add(self, now_ms: int, peer: BrokerId, size: int) -> str:
        """So many bytes have passed; the reason why they should not have, if there is one."""
        late = self._late.setdefault(peer, deque())
        late.append((now_ms, size))
        while len(late) > self._late_max:
            self._settled.append(late.popleft())
        self._settled.sort()
        total = 0
        for since_ms, each in reversed(self._settled):
            total += each
            most = self._rate * (now_ms - since_ms + BURST_MS) / 1_000
            if total > most + self._rate / 1_000 + 1:
                return f"{total} bytes since {since_ms}, now {now_ms}, at {self._rate} a second"
        return ""


class Throttles:
    """Those of one life of a broker."""

    def __init__(self, process: BrokerProcess) -> None:
        self._process = process
        self._sometimes = process.cluster.sometimes
        self._leader = _Passed(1)
        self._follower = _Passed(IN_FLIGHT_MAX)
        self._held: dict[BrokerId, tuple[ParkedFetch, set[Partition]]] = {}
        """The partitions held back of each follower's fetch, which is answered in the end."""

    # ---- the settings

    def _rate(self, side: str) -> int:
        image, me = self._process.image, self._process.broker_id
        name = f"{side}.replication.throttled.rate"
        for_all = image.cluster_configs().get(name, str(LONG_MAX))
        return int(image.broker_configs(me).get(name, for_all))

    def _names(self, side: str, partition: Partition, broker: BrokerId) -> bool:
        """Whether the topic names the replica of that broker."""
        name, number = partition.topic_partition
        setting = f"{side}.replication.throttled.replicas"
        named = self._process.image.topic_configs(name).get(setting, "").split(",")
        return "*" in named or f"{number}:{broker}" in named

    def _is_bound(self, side: str, partition: Partition, follower: BrokerId) -> bool:
        """Whether what that follower copies keeps to this broker's rate."""
        return (
            self._rate(side) < LONG_MAX
            and follower not in partition.isr
            and self._names(side, partition, self._process.broker_id)
        )

    # ---- what passes

    def told(self, follower: BrokerId, fetched: ReplicaFetched) -> None:
        """This broker, which leads, answers a follower."""
        if self._leader.at_rate(self._rate("leader")):
            size = self._bound_bytes("leader", follower, fetched)
            self._pass("leader", self._leader, follower, size)

    def heard(self, leader: BrokerId, fetched: ReplicaFetched | None) -> None:
        """A leader answers this broker, which follows."""
        if fetched is not None and self._follower.at_rate(self._rate("follower")):
            size = self._bound_bytes("follower", self._process.broker_id, fetched)
            self._pass("follower", self._follower, leader, size)

    def _bound_bytes(self, side: str, follower: BrokerId, fetched: ReplicaFetched) -> int:
        assert self._process.core is not None
        found = {
            (each.topic_id, each.topic_partition.partition): each
            for each in self._process.core.partitions()
        }
        return sum(
            len(data.records)
            for data in fetched.partitions
            if data.records
            and (data.topic_id, data.partition) in found
            and self._is_bound(side, found[data.topic_id, data.partition], follower)
        )

    def _pass(self, side: str, passed: _Passed, peer: BrokerId, size: int) -> None:
        if size:
            self._sometimes[f"throttles: {side} counted"] += 1
            why = passed.add(self._process.now_ms(), peer, size)
            if why:
                raise Violation("T", f"{self._process.name}, {side}: {why}")

    # ---- what is held back

    def look(self) -> None:
        """After each step of the core."""
        # Another rate forgets what is owed, also where the old one is back before any bytes pass.
        self._leader.at_rate(self._rate("leader"))
        self._follower.at_rate(self._rate("follower"))
        core = self._process.core
        assert core is not None
        for follower, session in core._replica_fetches._sessions.by_follower.items():
            if session.parked is None:
                self._held.pop(follower, None)
                continue
            if self._held.get(follower, (None,))[0] is not session.parked:
                self._held[follower] = (session.parked, set())
            held = self._held[follower][1]
            for partition in session.touched:
                if core._replica_fetches.news_of(partition, session.wanted[partition]) != URGENT:
                    continue
                if self._is_bound("leader", partition, follower):
                    self._sometimes["throttles: leader holds back"] += 1
                    held.add(partition)
                elif partition in held and follower not in partition.isr:
                    self._sometimes["throttles: fetch waits that is bound no more"] += 1
                else:
                    raise Violation(
                        "T",
                        f"{self._process.name} holds {partition.topic_partition} back from "
                        f"{follower}; ISR {partition.isr}",
                    )
        for fetcher in core._followers._fetchers.values():
            for partition, at_ms in fetcher.aside.items():
                following = partition.following
                if following is None or following.status is FollowerStatus.SET_ASIDE:
                    continue
                if at_ms > self._process.now_ms() + LOOK_AGAIN_MS:
                    raise Violation(
                        "T", f"{self._process.name} fetches {partition} again only at {at_ms}"
                    )
                if self._process.broker_id in partition.isr:
                    raise Violation("T", f"{self._process.name} is in the ISR of {partition}")
                self._sometimes["throttles: follower holds back"] += 1
