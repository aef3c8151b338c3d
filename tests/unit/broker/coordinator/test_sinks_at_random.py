"""Sinks under tasks, drivers and coordinators that die at random, against a plain account of what
was promised.
"""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, field
from typing import Any

import pytest

from pylog.errors import PylogError
from pylog.model import Offset, TopicId, TopicPartition
from pylog_broker.coordinator.transactions.config import TransactionConfig
from pylog_broker.coordinator.transactions.messages import AddPartitions
from pylog_broker.coordinator.transactions.sink_messages import (
    AbortBatch,
    BatchDecided,
    BeginTask,
    DecideBatch,
    Member,
    OverwrittenTopic,
    PrepareTask,
    RenewTask,
    SinkKey,
)
from tests.fakes.transaction_shard import A, B, C, TransactionShard

SINKS = (SinkKey("q", "a"), SinkKey("q", "b"))
STEPS = 100
TOPIC_ID = TopicId("a" * 21 + "Q")
PARTITIONS = 3
Transaction = tuple[str, int, int]
"""Transactional id, producer id, and the epoch under which it was written."""


@dataclass
class Query:
    """A query and its sink. `staged`: the members of the batch that have reported; `promised`:
    batches that a driver was told of, with the number of the decision that counts.
    """

    sink: SinkKey
    run: int = 0
    batch: int = 0
    attempts: int = 0
    open: dict[Transaction, Member] = field(default_factory=dict)
    staged: list[Member] = field(default_factory=list)
    promised: dict[int, int] = field(default_factory=dict)


def name_of(member: Member) -> Transaction:
    return member.transactional_id, *member.identity


class World:
    """`wrote`: transactions with rows; `outcomes`: what markers said of each. `overwrites`: numbers
    of decisions, which are the new starts as well; `raised`: new starts that markers brought.
    """

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.shard = TransactionShard(TransactionConfig(max_timeout_ms=30_000, sink_lease_ms=9_000))
        self.queries = [Query(sink) for sink in SINKS]
        self.wrote: set[Transaction] = set()
        self.outcomes: dict[Transaction, bool] = {}
        self.asked: dict[tuple[SinkKey, int], dict[int, frozenset[Transaction]]] = {}
        """Decisions that drivers wanted, answered or not: by number, the members that count."""
        self.numbers = itertools.count(1)
        self.overwrites: set[int] = set()
        self.raised: set[tuple[TopicPartition, Offset]] = set()

    def ask(self, operation: Any) -> Any:
        """The answer; None where the coordinator dies, with any part of what it wrote last."""
        shard, rng = self.shard, self.rng
        dies = rng.random() < 0.08
        before = len(shard.log)
        shard.commits = not dies
        number = shard._with_id(operation)
        if not dies:
            self.look_at_markers()
            return shard.replies[number]
        kept = rng.randint(0, len(shard.log) - before)
        del shard.log[before + kept :]
        shard.commits = True
        shard.start()
        self.look_at_markers()
        return None

    def look_at_markers(self) -> None:
        for sent in self.shard.sent:
            producer_id, epoch = sent.identity
            transaction = sent.transactional_id, producer_id, epoch - 1
            assert self.outcomes.setdefault(transaction, sent.commits) == sent.commits
            assert transaction in self.wrote or sent.starts
            assert sent.commits or not sent.starts
            for partition, (topic_id, offset) in sent.starts.items():
                assert (partition in sent.partitions, topic_id) == (True, TOPIC_ID)
                assert transaction in self.decisions()[offset]

    def write_markers(self) -> None:
        self.look_at_markers()
        for sent in self.shard.write_markers():
            self.raised.update((each, start.offset) for each, start in sent.starts.items())
        self.look_at_markers()

    def decisions(self) -> dict[int, frozenset[Transaction]]:
        """The members that were to count with each."""
        return {number: each for asked in self.asked.values() for number, each in asked.items()}

    # ---- steps -----------------------------------------------------------------------------------

    def begin(self, query: Query) -> None:
        query.attempts += 1
        request = BeginTask(query.sink, f"run {query.run}", query.batch, 0, query.attempts)
        given = self.ask(lambda c, r, f: c.sinks.begin(self.shard.wall_ms, r, request, f))
        if isinstance(given, Member):
            assert name_of(given) not in self.wrote, "two attempts share a transaction"
            query.open[name_of(given)] = given

    def write(self, query: Query, member: Member | None = None) -> None:
        """By any attempt, also one that is over."""
        if not query.open:
            return
        member = member or self.rng.choice(list(query.open.values()))
        partitions = tuple(self.rng.sample((A, B, C), self.rng.randint(1, 3)))
        request = AddPartitions(member.transactional_id, member.identity, partitions)
        self.wrote.add(name_of(member))  # it may be, whatever the answer
        self.ask(lambda c, r, _f: c.add_partitions(self.shard.wall_ms, r, request))

    def prepare(self, query: Query, member: Member | None = None) -> None:
        if not query.open:
            return
        member = member or self.rng.choice(list(query.open.values()))
        request = PrepareTask(query.sink, member, self.rng.choice((0, 5_000)))
        given = self.ask(lambda c, r, _f: c.sinks.prepare(self.shard.wall_ms, r, request))
        if given == member and member not in query.staged:
            query.staged.append(member)

    def stage(self, query: Query) -> None:
        """An attempt from its beginning to its end."""
        self.begin(query)
        if query.open:
            member = list(query.open.values())[-1]
            self.write(query, member)
            self.prepare(query, member)

    def renew(self, query: Query) -> None:
        for member in query.open.values():
            request = RenewTask(query.sink, member)
            self.ask(
                lambda c, r, _f, request=request: c.sinks.renew(self.shard.wall_ms, r, request)
            )

    def decide(self, query: Query) -> None:
        members = tuple(self.rng.sample(query.staged, min(len(query.staged), 2)))
        number = next(self.numbers)
        of_batch = self.asked.setdefault((query.sink, query.batch), {})
        of_batch[number] = frozenset(map(name_of, members))
        overwritten: tuple[OverwrittenTopic, ...] = ()
        if members and self.rng.random() < 0.4:
            self.overwrites.add(number)
            overwritten = (OverwrittenTopic(A.topic, TOPIC_ID, (number,) * PARTITIONS),)
        request = DecideBatch(
            query.sink, f"run {query.run}", query.batch, members, number, 0, "", (),
            overwritten=overwritten,
        )  # fmt: skip
        for _ in range(2):
            given = self.ask(lambda c, r, _f: c.sinks.decide(self.shard.wall_ms, r, request))
            if isinstance(given, BatchDecided):
                self.promise(query, given)
                return
            if isinstance(given, PylogError):
                break
        self.fail(query)

    def promise(self, query: Query, given: BatchDecided) -> None:
        decided = given.batch
        assert decided.batch_id == query.batch
        assert decided.row_count in self.asked[query.sink, query.batch]
        query.promised[query.batch] = decided.row_count
        query.batch += 1
        query.staged.clear()

    def fail(self, query: Query) -> None:
        """The batch, and with it the run: the query starts again."""
        query.run += 1
        query.staged.clear()

    def abort(self, query: Query) -> None:
        ends_run = self.rng.random() < 0.5
        request = AbortBatch(query.sink, f"run {query.run}", query.batch, ends_run=ends_run)
        self.ask(lambda c, r, _f: c.sinks.abort(self.shard.wall_ms, r, request))
        self.fail(query)

    def step(self) -> None:
        query = self.rng.choice(self.queries)
        does = self.rng.choices(
            (self.stage, self.begin, self.write, self.prepare, self.renew, self.decide, self.abort),
            (30, 10, 10, 10, 4, 20, 3),
        )[0]
        does(query)
        if self.rng.random() < 0.2:
            self.write_markers()
        if self.rng.random() < 0.1:
            self.shard.advance(self.rng.choice((500, 4_000, 10_000)))
            self.look_at_markers()

    def end(self) -> None:
        """All is quiet: nothing is open, and what was promised is so."""
        self.shard.advance(60_000)
        while self.shard.sent:
            self.write_markers()
        for transaction in self.shard.coordinator.transactions.values():
            assert transaction.state.shown in ("Empty", "CompleteCommit", "CompleteAbort")
        committed = {each for each, commits in self.outcomes.items() if commits}
        explained: set[Transaction] = set()
        for query in self.queries:
            for batch in range(query.batch + 1):
                asked = self.asked.get((query.sink, batch), {})
                count = committed.intersection(*[set().union(*asked.values())])
                may_be = {
                    number: {each for each in counted if each in self.outcomes}
                    for number, counted in asked.items()
                }
                raised = {each for each in asked if (A, Offset(each)) in self.raised}
                assert len(raised) <= 1
                for number in raised:
                    cut = {(each, Offset(number)) for each in (A, B, C)}
                    assert cut <= self.raised
                if batch in query.promised:
                    assert raised == {query.promised[batch]} & self.overwrites
                    assert count == may_be[query.promised[batch]]
                else:
                    assert count in (set(), *may_be.values())
                explained |= count
        assert committed == explained
        for described in self.shard.coordinator.sinks.described():
            assert described.open_attempts == 0


@pytest.mark.parametrize("seed", range(16))
def test_what_was_promised_is_so_whatever_dies(seed: int) -> None:
    world = World(seed)
    for _ in range(STEPS):
        world.step()
    world.end()
    assert any(query.promised for query in world.queries)
    assert any(world.outcomes.values())
    assert not all(world.outcomes.values())
    assert world.raised
