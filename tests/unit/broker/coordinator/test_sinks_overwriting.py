"""Batches that overwrite topics: what the decision says, and what the markers carry."""

from __future__ import annotations

from typing import Any

import pytest

from pylog.errors import ConcurrentTransactions, InvalidRequest
from pylog.model import Offset, TopicId, TopicPartition
from pylog_broker.coordinator.transactions.config import TransactionConfig
from pylog_broker.coordinator.transactions.messages import NO_STARTS, AddPartitions, NewStart
from pylog_broker.coordinator.transactions.sink_messages import (
    KEEP_FOREVER,
    BatchDecided,
    BeginTask,
    DecideBatch,
    ForgetSink,
    Member,
    OverwrittenTopic,
    PrepareTask,
    SinkForgotten,
    SinkKey,
    WrittenRange,
)
from tests.fakes.transaction_shard import A, B, C, TransactionShard

SINK = SinkKey("8f3b", "events")
RUN = "run-1"
EVENTS = OverwrittenTopic("events", TopicId("e" * 21 + "Q"), (10, 7, 0))
STARTS = {
    A: NewStart(EVENTS.topic_id, Offset(10)),
    B: NewStart(EVENTS.topic_id, Offset(7)),
    C: NewStart(EVENTS.topic_id, Offset(0)),
}
RECEIPT = (WrittenRange("events", 0, 10, 19),)


class Sinks(TransactionShard):
    """A shard with the requests of one sink that overwrites."""

    def prepared(self, task: int = 0, *partitions: TopicPartition, batch: int = 0) -> Member:
        """An attempt that has written to these partitions, if to any, and is prepared."""
        request = BeginTask(SINK, RUN, batch, task, 0)
        number = self._with_id(lambda c, r, f: c.sinks.begin(self.wall_ms, r, request, f))
        member: Member = self.replies[number]
        if partitions:
            added = AddPartitions(member.transactional_id, member.identity, partitions)
            self.answer(lambda c, r: c.add_partitions(self.wall_ms, r, added))
        prepared = PrepareTask(SINK, member)
        assert self.answer(lambda c, r: c.sinks.prepare(self.wall_ms, r, prepared)) == member
        return member

    def decide(
        self, *members: Member, batch: int = 0, keep_ms: int = KEEP_FOREVER, **more: Any
    ) -> Any:
        overwritten = more.get("overwritten", (EVENTS,))
        request = DecideBatch(SINK, RUN, batch, members, 1, 77, "", RECEIPT, keep_ms, overwritten)
        return self.answer(lambda c, r: c.sinks.decide(self.wall_ms, r, request))

    def forget(self) -> Any:
        return self.answer(lambda c, r: c.sinks.forget(self.wall_ms, r, ForgetSink(SINK)))


@pytest.fixture
def shard() -> Sinks:
    return Sinks()


def starts_of(*partitions: TopicPartition) -> dict[TopicPartition, NewStart]:
    return {each: STARTS[each] for each in partitions}


def test_the_markers_of_the_first_attempt_bring_all_new_starts(shard: Sinks) -> None:
    one, two = shard.prepared(0, A), shard.prepared(1, A, B)
    decided = shard.decide(two, one)
    assert decided == BatchDecided(decided.batch, True)
    assert decided.batch.overwritten == (EVENTS,)
    assert [(each.transactional_id, each.partitions, each.starts) for each in shard.sent] == [
        (one.transactional_id, frozenset({A, B, C}), STARTS),
        (two.transactional_id, frozenset({A, B}), starts_of(A, B)),
    ]


def test_attempts_that_do_not_count_bring_no_starts(shard: Sinks) -> None:
    shard.prepared(0, A, B)
    shard.decide(shard.prepared(1, B))
    lost, won = shard.sent
    assert (lost.commits, lost.partitions, lost.starts) == (False, frozenset({A, B}), NO_STARTS)
    assert (won.commits, won.starts) == (True, STARTS)


def test_an_overwrite_without_rows_ends_an_attempt_that_wrote_nothing(shard: Sinks) -> None:
    shard.decide(shard.prepared())
    (sent,) = shard.sent
    assert (sent.commits, sent.partitions, sent.starts) == (True, frozenset({A, B, C}), STARTS)
    shard.write_markers()
    (transaction,) = shard.coordinator.transactions.values()
    assert transaction.state.shown == "CompleteCommit"


def test_other_topics_of_the_batch_keep_what_they_have(shard: Sinks) -> None:
    other = TopicPartition("kept", 0)
    shard.decide(shard.prepared(0, A, other))
    (sent,) = shard.sent
    assert sent.partitions == {A, B, C, other}
    assert sent.starts == STARTS


def test_the_next_coordinator_sends_the_same(shard: Sinks) -> None:
    one, two = shard.prepared(0, A), shard.prepared(1, B)
    shard.decide(one, two)
    before, shard.sent = shard.sent, []
    shard.start()
    assert shard.sent == before
    shard.tell_written(before[0], *before[0].partitions)
    shard.sent.clear()
    shard.start()
    assert shard.sent == [before[1]]


@pytest.mark.parametrize("kept", range(1, 5))
def test_the_next_coordinator_goes_on_from_any_record_of_the_decision(
    shard: Sinks, kept: int
) -> None:
    one, two = shard.prepared(0, A), shard.prepared(1, B)
    begun = len(shard.log)
    shard.decide(one, two)
    before, shard.sent = shard.sent, []
    assert len(shard.log) == begun + 5
    del shard.log[begun + kept :]
    shard.start()
    assert sorted(shard.sent) == sorted(before)


def test_a_decision_that_is_asked_for_again_is_the_same(shard: Sinks) -> None:
    member = shard.prepared(0, A)
    first = shard.decide(member)
    assert shard.decide(member) == first._replace(is_new=False)
    shard.write_markers()
    shard.start()
    assert shard.decide(member) == first._replace(is_new=False)
    assert not shard.sent


def test_the_next_batch_waits_for_all_markers(shard: Sinks) -> None:
    """Its decision would take the place of this one, which says where partitions begin."""
    shard.decide(shard.prepared(0, A))
    later = shard.prepared(0, A, batch=1)
    refused = shard.decide(later, batch=1)
    assert isinstance(refused, ConcurrentTransactions)
    assert "batch 0 of sink 'events' of query '8f3b' has not overwritten" in str(refused)
    assert isinstance(shard.forget(), ConcurrentTransactions)
    shard.tell_written(shard.sent[0], A, B)
    assert isinstance(shard.decide(later, batch=1), ConcurrentTransactions)
    shard.write_markers()
    assert shard.decide(later, batch=1, overwritten=()).is_new
    assert shard.sent[0].starts == NO_STARTS
    assert shard.forget() == SinkForgotten()


def test_a_decision_is_remembered_until_all_markers_are_written(shard: Sinks) -> None:
    shard.decide(shard.prepared(0, A), keep_ms=0)
    hours_ms = 2 * shard.config.expiration_interval_ms
    shard.advance(hours_ms)
    shard.sent.clear()
    shard.start()
    assert shard.sent[0].starts == STARTS
    shard.write_markers()
    shard.advance(hours_ms)
    assert list(shard.coordinator.sinks.described()) == []


def test_an_overwrite_needs_an_attempt(shard: Sinks) -> None:
    refused = shard.decide()
    assert isinstance(refused, InvalidRequest)
    assert "begin one, which may be without rows" in str(refused)


def test_an_overwrite_is_within_the_bounds_of_a_transaction() -> None:
    shard = Sinks(TransactionConfig(partitions_max=3))
    member = shard.prepared(0, A, TopicPartition("kept", 0))
    refused = shard.decide(member)
    assert isinstance(refused, InvalidRequest)
    assert "overwrite 3 partitions in a transaction of 4; the limit is 3" in str(refused)
    assert not shard.sent
    assert shard.decide(member, overwritten=(EVENTS._replace(starts=(10, 7)),)).is_new
