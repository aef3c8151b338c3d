"""Members of a classic group that do what they like, with coordinators that die: nobody owns what
another one owns in the same generation, no commit of an old generation is taken, what a new
coordinator reads is what the old one knew, and the group settles.
"""

from __future__ import annotations

import random
from collections import Counter
from enum import Enum, auto
from typing import Any

import pytest

from pylog.errors import PylogError, RebalanceInProgress
from pylog_broker.coordinator.groups.classic.group import ClassicGroup, ClassicState
from pylog_broker.coordinator.groups.classic.messages import Joined, Synced
from pylog_broker.coordinator.groups.codec import GroupCodec
from pylog_broker.coordinator.groups.config import GroupConfig
from pylog_broker.coordinator.groups.coordinator import GroupCoordinator
from pylog_broker.coordinator.groups.messages import OffsetsCommitted
from tests.fakes.classic_clients import TP, Client, G
from tests.fakes.group_shard import GroupShard

PARTITIONS = range(6)
STEPS = 400


class Doing(Enum):
    NOTHING = auto()
    JOINING = auto()
    SYNCING = auto()
    WORKING = auto()


class Worker:
    """One program: it joins, works and commits, as the answers tell it."""

    def __init__(self, world: World, number: int, *, static: bool) -> None:
        self.world = world
        self.client = Client(
            world.shard,
            f"w{number}",
            f"i{number}" if static else None,
            rebalance_timeout_ms=world.rebalance_timeout_ms,
        )
        self.doing = Doing.NOTHING
        self.owned: set[int] = set()

    def step(self, rng: random.Random) -> None:
        match self.doing:
            case Doing.NOTHING:
                self.client.ask_to_join()
                self.doing = Doing.JOINING
            case Doing.JOINING:
                self.on_joined(self.client.answer)
            case Doing.SYNCING:
                self.on_synced(self.client.answer)
            case Doing.WORKING if rng.random() < 0.03 and not self.world.faults_are_over:
                self.client.leave()
                self.begin_again(forget=True)
            case Doing.WORKING if rng.random() < 0.5:
                self.on_heard(self.client.heartbeat())
            case Doing.WORKING:
                self.on_committed(self.client.commit(self.world.next_offset()))

    def on_joined(self, answer: Any) -> None:
        if isinstance(answer, PylogError):
            self.on_heard(answer)
        elif isinstance(answer, Joined):
            joined = self.client.joined
            shares: dict[str, bytes] = {}
            for number, partition in enumerate(PARTITIONS):
                if joined.members and not joined.skip_assignment:
                    owner = joined.members[number % len(joined.members)].member_id
                    shares[owner] = shares.get(owner, b"") + bytes((partition,))
            self.client.sync(shares)
            self.doing = Doing.SYNCING

    def on_synced(self, answer: Any) -> None:
        if isinstance(answer, PylogError):
            self.on_heard(answer)
        elif isinstance(answer, Synced):
            self.owned = set(answer.assignment)
            # A static member that starts again is the same owner under another id.
            owner = self.client.instance_id or self.client.member_id
            self.world.owns(self.client.generation, owner, self.owned)
            self.doing = Doing.WORKING

    def on_heard(self, answer: PylogError | None) -> None:
        if answer is not None:
            self.begin_again(forget=not isinstance(answer, RebalanceInProgress))

    def on_committed(self, answer: Any) -> None:
        if isinstance(answer, OffsetsCommitted):
            assert self.client.generation == self.world.group().generation
            assert answer.partitions == {TP: None}
            return
        self.on_heard(answer)

    def begin_again(self, *, forget: bool) -> None:
        """`forget`: it is no member that the group knows."""
        if forget:
            self.client.member_id = ""
        self.owned = set()
        self.doing = Doing.NOTHING

    def on_coordinator_died(self) -> None:
        if self.doing in (Doing.JOINING, Doing.SYNCING):
            self.begin_again(forget=self.client.instance_id is not None)


class World:
    """A shard, its workers and what is known of them."""

    def __init__(self, rng: random.Random) -> None:
        self.shard = GroupShard(GroupConfig(initial_rebalance_delay_ms=rng.choice((0, 500, 3_000))))
        self.faults_are_over = False
        self._owners: dict[tuple[int, int], str] = {}
        self._offset = 0
        self.rebalance_timeout_ms = rng.choice((2_000, 30_000))
        count = rng.randint(1, 5)
        self.workers = [Worker(self, n, static=rng.random() < 0.5) for n in range(count)]

    def group(self) -> ClassicGroup:
        found = self.shard.coordinator.groups[G]
        assert isinstance(found, ClassicGroup)
        return found

    def next_offset(self) -> int:
        self._offset += 1
        return self._offset

    def owns(self, generation: int, worker: str, partitions: set[int]) -> None:
        for partition in partitions:
            owner = self._owners.setdefault((generation, partition), worker)
            assert owner == worker, f"two owners of {partition} in generation {generation}"

    def check_replay(self) -> None:
        """The log of a stable group holds all that its coordinator knows."""
        known = self.shard.coordinator.groups.get(G)
        if not isinstance(known, ClassicGroup) or known.state is not ClassicState.STABLE:
            return
        read = GroupCoordinator(GroupConfig(), self.shard.topics, Counter())
        codec = GroupCodec()
        for offset, (key, value) in enumerate(self.shard.log):
            record = codec.decode(key, value)
            assert record is not None
            read.replay(record, offset)  # type: ignore[arg-type]
        found = read.groups[G]
        assert isinstance(found, ClassicGroup)
        for name in ("generation", "leader", "protocol", "protocol_type", "static", "state"):
            assert getattr(found, name) == getattr(known, name), name
        assert {m.member_id: m.assignment for m in found.members.values()} == {
            m.member_id: m.assignment for m in known.members.values()
        }
        assert read.offsets.of(G) == self.shard.coordinator.offsets.of(G)


@pytest.mark.parametrize("seed", range(40))
def test_a_group_of_restless_members(seed: int) -> None:
    rng = random.Random(seed)
    world = World(rng)
    for _ in range(STEPS):
        chance = rng.random()
        if chance < 0.01:
            world.shard.start()
            for worker in world.workers:
                worker.on_coordinator_died()
        elif chance < 0.15:
            world.shard.advance(rng.choice((10, 500, 3_000, 12_000)))
        else:
            rng.choice(world.workers).step(rng)
        world.check_replay()

    world.faults_are_over = True
    for _ in range(200):
        for worker in world.workers:
            worker.step(rng)
        world.shard.advance(500)
        if all(worker.doing is Doing.WORKING for worker in world.workers):
            heard = [worker.client.heartbeat() for worker in world.workers]
            if heard == [None] * len(heard):
                break
    else:
        pytest.fail(f"the group did not settle: {world.group()}")
    owned = sorted(partition for worker in world.workers for partition in worker.owned)
    assert owned == [*PARTITIONS]
    assert {worker.client.generation for worker in world.workers} == {world.group().generation}
