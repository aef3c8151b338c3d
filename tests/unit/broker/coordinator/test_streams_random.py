"""Members of a streams group that do what they like, with coordinators that die: no task is active
at two members in one epoch, or twice at one process, no commit of an old epoch is taken, what a new
coordinator reads is what the old one knew, and the group settles.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from pylog.errors import (
    FencedMemberEpoch,
    GroupIdNotFound,
    PylogError,
    StaleMemberEpoch,
    UnknownMemberId,
)
from pylog_broker.coordinator.groups.codec import GroupCodec
from pylog_broker.coordinator.groups.coordinator import GroupCoordinator
from pylog_broker.coordinator.groups.messages import OffsetsCommitted
from pylog_broker.coordinator.groups.streams.group import StreamsGroup
from pylog_broker.coordinator.groups.streams.messages import StreamsHeartbeatAnswer
from pylog_broker.coordinator.groups.streams.tasks import NO_TASKS, TaskId
from tests.fakes.classic_clients import TP, G
from tests.fakes.consumer_members import delete_topic, set_topic, shard_with
from tests.fakes.streams_members import COUNTS, Streamer, at_once

STEPS = 200


class Worker:
    """One thread of a program. It hears each answer, some of them late, or never."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        process = f"p{number // 2}"
        self.member = Streamer(world.shard, f"w{number}", COUNTS, process)
        self.unheard: Any = None

    def step(self, rng: random.Random) -> None:
        chance = 1.0 if self.world.faults_are_over else rng.random()
        member = self.member
        if chance < 0.05 and member.epoch:
            member.leave()
        elif chance < 0.12:
            self.unheard = member.send(member.request())  # the answer is lost
        elif chance < 0.25 and member.epoch:
            self.commit()
        else:
            self.heard(member.beat())

    def heard(self, answer: Any) -> None:
        if isinstance(answer, PylogError):
            assert isinstance(answer, FencedMemberEpoch | UnknownMemberId | GroupIdNotFound), answer
            self.member.epoch, self.member.owned = 0, NO_TASKS
        else:
            assert isinstance(answer, StreamsHeartbeatAnswer)

    def commit(self) -> None:
        answer = self.member.commit(self.world.next_offset())
        if isinstance(answer, OffsetsCommitted):
            assert answer.partitions == {TP: None}
            assert self.may_commit
        else:
            assert isinstance(answer, StaleMemberEpoch | UnknownMemberId), answer
            assert not self.may_commit

    @property
    def may_commit(self) -> bool:
        """At its present epoch, or an earlier one if it has had the task since."""
        known = self.world.group.members.get(self.member.member_id)
        if known is None or self.member.epoch >= known.member_epoch:
            return known is not None and self.member.epoch == known.member_epoch
        owner, since = self.world.owner
        return owner == known.member_id and since <= self.member.epoch


class World:
    """A shard, its workers and what is known of them."""

    def __init__(self, rng: random.Random) -> None:
        config = at_once(
            streams_initial_rebalance_delay_ms=rng.choice((0, 3_000)),
            streams_num_standby_replicas=rng.choice((0, 1, 2)),
        )
        self.shard = shard_with(config, t=rng.randint(1, 5))
        self.faults_are_over = False
        self._offset = 0
        self.owner = ("", 0)
        """The member that has the task of the partition that is committed, and the epoch since
        which it has."""
        self.workers = [Worker(self, number) for number in range(rng.randint(1, 6))]

    @property
    def group(self) -> StreamsGroup:
        found = self.shard.coordinator.groups.get(G)
        return found if isinstance(found, StreamsGroup) else StreamsGroup(G)

    def next_offset(self) -> int:
        self._offset += 1
        return self._offset

    def change_topics(self, rng: random.Random) -> None:
        """An internal topic is made as it was asked for, or is gone."""
        topics = self.shard.topics
        name = rng.choice(("g-repartition", "g-changelog"))
        if name in topics and rng.random() < 0.3:
            delete_topic(self.shard, name)
        elif name not in topics:
            set_topic(self.shard, name, topics["t"].partition_count)

    def look_at_the_owner(self) -> None:
        owner = self.group.owners.get(TaskId("0", TP.partition), "")
        if owner != self.owner[0]:
            epoch = self.group.members[owner].member_epoch if owner else 0
            self.owner = (owner, epoch)

    def check(self) -> None:
        group = self.group
        self.look_at_the_owner()
        holders = Counter(task for each in group.members.values() for task in each.held.active)
        assert not [task for task, count in holders.items() if count > 1], "two are active"
        at_process = Counter(
            (member.process_id, task)
            for member in group.members.values()
            for task in set(member.held.all())
        )
        assert not [each for each, count in at_process.items() if count > 1], "twice at a process"
        for member in group.members.values():
            roles = (member.assigned.active, member.assigned.standby)
            assert roles[0].isdisjoint(roles[1])
        assert group.owners == {
            task: member.member_id
            for member in group.members.values()
            for task in member.held.active
        }

        for worker in self.workers:
            known = group.members.get(worker.member.member_id)
            epoch = worker.member.epoch
            if epoch and known is not None and epoch in (known.member_epoch, known.previous_epoch):
                assert worker.member.owned <= known.held, "what it works on is given away"

    def check_replay(self) -> None:
        """The log holds all that the coordinator knows."""
        read = GroupCoordinator(self.shard.config, self.shard.topics, Counter())
        codec = GroupCodec()
        for offset, (key, value) in enumerate(self.shard.log):
            record = codec.decode(key, value)
            assert record is not None
            read.replay(record, offset)  # type: ignore[arg-type]
        assert read.groups.get(G, StreamsGroup(G)) == self.group
        assert read.offsets.of(G) == self.shard.coordinator.offsets.of(G)


@pytest.mark.parametrize("seed", range(24))
def test_a_group_of_restless_members(seed: int) -> None:
    rng = random.Random(seed)
    world = World(rng)
    for _ in range(STEPS):
        chance = rng.random()
        if chance < 0.02:
            world.shard.start()
        elif chance < 0.1:
            world.change_topics(rng)
        elif chance < 0.2:
            world.shard.advance(rng.choice((10, 3_000, 20_000, 31_000)))
        else:
            rng.choice(world.workers).step(rng)
        world.check()
    world.check_replay()

    world.faults_are_over = True
    for name in ("g-repartition", "g-changelog"):
        set_topic(world.shard, name, world.shard.topics["t"].partition_count)
    for _ in range(100):
        for worker in world.workers:
            worker.step(rng)
        world.check()
        world.shard.advance(500)
        if world.group.state_name == "Stable" and len(world.group.members) == len(world.workers):
            break
    else:
        pytest.fail(f"the group did not settle: {world.group}")
    world.check_replay()
    active = sorted(task for worker in world.workers for task in worker.member.owned.active)
    count = world.shard.topics["t"].partition_count
    assert active == sorted((part, number) for part in "01" for number in range(count))
    known = {name: replace(each).assigned for name, each in world.group.members.items()}
    assert known == {each.member.member_id: each.member.owned for each in world.workers}
