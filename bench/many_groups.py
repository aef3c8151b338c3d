"""Thousands of groups at once: the cost of their heartbeats to the brokers, and the time until
coordinators that start anew know them again. Members are bare calls by the connections of one
client, so that clients cost little.
"""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections.abc import Awaitable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, Final, Self, TypeVar

from bench import cluster
from bench.gateway import cpu_seconds
from bench.measure import printed, stopwatch
from bench.streams import broker_pids
from pylog import AdminClient, LocalCluster
from pylog.client.cluster.server import Server
from pylog.model import CONSUMER_OFFSETS
from pylog.rpc import apis
from pylog.rpc.v1 import group_pb2
from pylog_broker.coordinator.runtime.runtime import partition_for

T = TypeVar("T")

HEARTBEAT_S: Final = 5.0
CALL_S: Final = 30.0
AT_ONCE: Final = 100
MEMBERS: Final = 3
SETTLED_ROUNDS: Final = 2 * MEMBERS
"""Heartbeats until each member has what it is to have."""
OFFSETS_OF_A_GROUP: Final = 10


@dataclass(slots=True)
class _Member:
    """A member of the new protocol that does as it is told."""

    group_id: str
    member_id: str
    topic: str
    server: Server
    epoch: int = 0
    owned: Any = None

    async def beat(self) -> None:
        """One heartbeat, which confirms what the one before was told."""
        request = group_pb2.ConsumerGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=self.epoch
        )
        if self.epoch == 0:
            request.rebalance_timeout_ms = 60_000
            request.subscribed_topics.names.append(self.topic)
            request.owned.SetInParent()
        elif self.owned is not None:
            request.owned.CopyFrom(self.owned)
            self.owned = None
        answer = await self.server.call(apis.CONSUMER_GROUP_HEARTBEAT, request, CALL_S)
        if answer.error.code:
            raise RuntimeError(f"{self.group_id}: {answer.error.message}")
        self.epoch = answer.member_epoch
        if answer.HasField("assignment"):
            self.owned = answer.assignment


class _Coordinators:
    """The broker of each group. Coordinators are there, if need be made."""

    def __init__(self, running: LocalCluster) -> None:
        self._admin = AdminClient(bootstrap_servers=running.bootstrap_servers)
        self._admin.list_group_offsets("nobody")
        described = self._admin.describe_topics([CONSUMER_OFFSETS])[CONSUMER_OFFSETS]
        self._leaders = [part.leader for part in described.partitions]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._admin.close()

    def of(self, group_id: str) -> Server:
        """The group's coordinator."""
        known = self._admin._cluster
        leader = self._leaders[partition_for(group_id, len(self._leaders))]
        return known.server_of(known.metadata.brokers[leader])

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """On the client's loop."""
        return asyncio.run_coroutine_threadsafe(work, self._admin._thread.loop).result()


async def _all(calls: Iterable[Awaitable[Any]]) -> None:
    """A hundred at a time."""
    room = asyncio.Semaphore(AT_ONCE)

    async def one(call: Awaitable[Any]) -> None:
        async with room:
            await call

    await asyncio.gather(*map(one, calls))


async def _heartbeats(
    known: _Coordinators, topic: str, pids: list[int], groups: int, seconds: float
) -> float:
    members = [
        _Member(f"many-{number}", str(uuid.uuid4()), topic, known.of(f"many-{number}"))
        for number in range(groups)
        for _ in range(MEMBERS)
    ]
    for _ in range(SETTLED_ROUNDS):
        await _all(member.beat() for member in members)
    loop = asyncio.get_running_loop()
    before, began = sum(map(cpu_seconds, pids)), loop.time()

    async def live(member: _Member, first_s: float) -> None:
        for turn in itertools.count():
            at = began + first_s + turn * HEARTBEAT_S
            if at > began + seconds:
                return
            await asyncio.sleep(max(0.0, at - loop.time()))
            await member.beat()

    spread = HEARTBEAT_S / len(members)
    await asyncio.gather(*(live(member, n * spread) for n, member in enumerate(members)))
    await asyncio.sleep(max(0.0, began + seconds - loop.time()))
    return (sum(map(cpu_seconds, pids)) - before) / (loop.time() - began) * 100


def heartbeat_percent(running: LocalCluster, groups: int, seconds: float) -> float:
    """Percent of a core that all brokers together use for so many groups of 3 members, each of
    which says every 5 s that it is there.
    """
    topic = cluster.fresh_topic(running, f"many-{groups}", MEMBERS)
    with _Coordinators(running) as known:
        return known.run(_heartbeats(known, topic, broker_pids(running), groups, seconds))


async def _commits(known: _Coordinators, topic: str, groups: int) -> None:
    async def commit(group_id: str) -> None:
        request = group_pb2.OffsetCommitRequest(group_id=group_id, generation_or_epoch=-1)
        for number in range(OFFSETS_OF_A_GROUP):
            request.offsets.add(topic=topic, partition=number, offset=1)
        answer = await known.of(group_id).call(apis.OFFSET_COMMIT, request, CALL_S)
        if answer.error.code:
            raise RuntimeError(f"{group_id}: {answer.error.message}")

    await _all(commit(f"stored-{number}") for number in range(groups))


def load_seconds(running: LocalCluster, groups: int) -> float:
    """Seconds from a broker's start, which it was killed before, until it tells of all groups that
    it coordinates, each with 10 positions.
    """
    topic = cluster.fresh_topic(running, f"stored-{groups}", OFFSETS_OF_A_GROUP)
    with _Coordinators(running) as known:
        known.run(_commits(known, topic, groups))
    [broker] = running.brokers
    running.kill(broker)
    running.start(broker)
    with AdminClient(bootstrap_servers=running.bootstrap_servers) as admin, stopwatch() as elapsed:
        known = {listing.group_id for listing in admin.list_groups()}
        seconds = elapsed()
    missing = groups - len([group for group in known if group.startswith("stored-")])
    if missing:
        raise RuntimeError(f"{missing} of {groups} groups are gone")
    return seconds


def rows(scale: float) -> None:
    """Both."""
    with LocalCluster(3) as running:
        groups, seconds = max(10, int(1_000 * scale)), max(2.0, 30 * scale)
        used = heartbeat_percent(running, groups, seconds)
        printed(f"3 brokers: {groups} groups of 3 members", "% core", [used])
    with LocalCluster(1) as running:
        groups = max(10, int(10_000 * scale))
        took = load_seconds(running, groups)
        printed(f"1 broker: {groups} groups with 10 positions each, loaded", "s", [took])
