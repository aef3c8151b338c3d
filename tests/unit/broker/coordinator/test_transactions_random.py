"""Producers of one transactional id that do what they like, with coordinators that die, appends
that are not committed yet, and markers that come late, twice and in any order: a dumb twin knows
what each partition was told, and the two agree.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from pylog.errors import PylogError
from pylog.model import TopicPartition
from pylog_broker.coordinator.runtime.decision import Decision, Reply
from pylog_broker.coordinator.transactions.config import TransactionConfig
from pylog_broker.coordinator.transactions.messages import (
    PartitionsAdded,
    ProducerBegun,
    SendMarkers,
    TransactionEnded,
)
from pylog_broker.coordinator.transactions.transaction import (
    EPOCH_MAX,
    LAST_EPOCH,
    Identity,
    record_of,
)
from tests.fakes.transaction_shard import T, TransactionShard, identity

PARTITIONS = [TopicPartition("events", number) for number in range(4)]
STEPS = 600
SEEDS = range(40)


class Log:
    """A partition as it would be: the producers with an open transaction, and how each one
    ended.
    """

    def __init__(self) -> None:
        self.epochs: dict[int, int] = {}
        self.open: Identity | None = None
        self.outcomes: dict[Identity, bool] = {}

    def write(self, owner: Identity) -> None:
        """A batch that was verified."""
        assert self.epochs.get(owner.producer_id, -1) <= owner.epoch, "a fenced batch"
        if self.open is not None:
            assert self.open == owner, "a batch gets into another transaction"
        self.epochs[owner.producer_id] = owner.epoch
        self.open = owner

    def mark(self, markers: SendMarkers) -> None:
        """A marker, maybe for the second time."""
        at = markers.identity
        if self.epochs.get(at.producer_id, -1) >= at.epoch:
            return  # it was told before, and the producer may have gone on (KIP-1228)
        known = self.outcomes.setdefault(at, markers.commits)
        assert known == markers.commits, "markers of both kinds"
        self.epochs[at.producer_id] = at.epoch
        if self.open is not None and self.open.producer_id == at.producer_id:
            assert self.open.epoch < at.epoch, "a marker for a transaction of its own epoch"
            self.open = None


class Producer:
    """One instance: it acts by what it was last told."""

    def __init__(self) -> None:
        self.owner: Identity | None = None
        self.asked: tuple[str, int, Any] | None = None
        self.written: set[TopicPartition] = set()


class World:
    """A shard, its producers and the partitions."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.shard = TransactionShard(TransactionConfig())
        self.logs = {partition: Log() for partition in PARTITIONS}
        self.producers = [Producer() for _ in range(3)]
        self.late: list[SendMarkers] = []
        self.decided: dict[Identity, bool] = {}

    def step(self) -> None:
        rng, shard = self.rng, self.shard
        dice = rng.random()
        if dice < 0.02:
            self.die()
        elif dice < 0.05:
            shard.commits = not shard.commits
        elif dice < 0.20:
            shard.commit()
        elif dice < 0.24:
            shard.advance(rng.choice((10, 3_000, 70_000)))
        elif dice < 0.50:
            self.deliver()
        else:
            self.act(rng.choice(self.producers))
        for producer in self.producers:
            self.hear(producer)

    def die(self) -> None:
        """A successor reads the log; what was not committed of it may be gone."""
        for producer in self.producers:
            if producer.asked is not None and producer.asked[1] not in self.shard.replies:
                producer.asked = None
        self.shard.start()

    def deliver(self) -> None:
        """A marker reaches some of its partitions."""
        shard, rng = self.shard, self.rng
        if shard.sent:
            self.late += shard.sent
            shard.sent.clear()
        if not self.late:
            return
        markers = rng.choice(self.late)
        told = rng.sample(sorted(markers.partitions), rng.randint(1, len(markers.partitions)))
        for partition in told:
            self.logs[partition].mark(markers)
        if rng.random() < 0.8:
            shard.tell_written(markers, *told)
        if rng.random() < 0.3:
            self.late.remove(markers)
            if markers.identity == shard.transaction().identity:
                self.late.append(markers)  # it is sent until it is told

    def act(self, producer: Producer) -> None:
        rng, shard = self.rng, self.shard
        if producer.asked is not None:
            if rng.random() < 0.02:
                producer.asked = None  # it gives up, and asks for something else
            return
        owner = producer.owner
        if owner is None or rng.random() < 0.03:
            expected = owner if owner is not None and rng.random() < 0.5 else None
            number = shard.init() if expected is None else shard.init(expected)
            producer.asked = "init", number, None
        elif not producer.written or rng.random() < 0.6:
            partition = rng.choice(PARTITIONS)
            producer.asked = "add", shard.add(owner, partition), partition
        else:
            commits = rng.random() < 0.7
            producer.asked = "end", shard.end(owner, commits=commits), commits
        if rng.random() < 0.01 and T in shard.coordinator.transactions:
            self.age()

    def age(self) -> None:
        """As if the producer id had been used for long."""
        now = self.shard.transaction()
        if now.state.shown == "Empty" and now.identity.epoch < LAST_EPOCH - 5:
            aged = now._replace(identity=identity(now.identity.producer_id, LAST_EPOCH - 2))
            self.shard.ask(lambda c, r: Decision([record_of(aged)], [Reply(r, None)]))

    def hear(self, producer: Producer) -> None:
        if producer.asked is None or producer.asked[1] not in self.shard.replies:
            return
        kind, number, what = producer.asked
        answer = self.shard.replies[number]
        producer.asked = None
        if isinstance(answer, ProducerBegun):
            producer.owner, producer.written = answer.identity, set()
        elif isinstance(answer, PartitionsAdded):
            assert producer.owner is not None
            if self.still_owns(producer.owner, what):
                self.logs[what].write(producer.owner)
                producer.written.add(what)
        elif isinstance(answer, TransactionEnded):
            assert kind == "end"
            assert producer.owner is not None
            known = self.decided.setdefault(producer.owner, what)
            assert known == what, "the same transaction committed and aborted"
            producer.owner, producer.written = answer.identity, set()
            assert answer.identity.epoch <= LAST_EPOCH
        elif isinstance(answer, PylogError) and not answer.retriable:
            if answer.abortable and producer.owner is not None:
                number = self.shard.end(producer.owner, commits=False)
                producer.asked = "end", number, False
            else:
                producer.owner = None

    def still_owns(self, owner: Identity, partition: TopicPartition) -> bool:
        """Whether the leader of the partition would still take the batch: a marker may have come
        between its question and the append, and the leader remembers that.
        """
        return self.logs[partition].epochs.get(owner.producer_id, -1) <= owner.epoch

    def settle(self) -> None:
        """Faults are over: what is decided ends on all partitions."""
        self.shard.commits = True
        self.shard.commit()
        self.shard.advance(200_000)
        for _ in range(5):
            self.late += self.shard.sent
            self.shard.sent.clear()
            for markers in self.late:
                for partition in markers.partitions:
                    self.logs[partition].mark(markers)
                self.shard.tell_written(markers, *markers.partitions)
            self.late.clear()
            self.shard.advance(200_000)


@pytest.mark.parametrize("seed", SEEDS)
def test_all_partitions_of_a_transaction_are_told_the_same(seed: int) -> None:
    world = World(seed)
    for _ in range(STEPS):
        world.step()
    world.settle()
    state = world.shard.transaction().state
    assert state.is_complete or state.shown == "Empty"
    assert all(log.open is None for log in world.logs.values()), "a transaction hangs"
    told: dict[Identity, set[bool]] = {}
    for log in world.logs.values():
        for at, commits in log.outcomes.items():
            told.setdefault(at, set()).add(commits)
            assert at.epoch <= EPOCH_MAX
    assert all(len(outcomes) == 1 for outcomes in told.values())
    for owner, commits in world.decided.items():
        outcomes = told.get(owner.next)
        assert outcomes is None or outcomes == {commits}
    before = dict(world.shard.coordinator.transactions)
    world.shard.start()
    assert world.shard.coordinator.transactions == before, "what is replayed is what was known"
