"""Sinks, event by event: attempts begin, are prepared, and count by one decision."""

from __future__ import annotations

from typing import Any

import pytest

from pylog.errors import (
    InvalidRequest,
    InvalidTxnState,
    ProducerFenced,
    SinkBatchDecided,
    SinkRunSuperseded,
    ThrottlingQuotaExceeded,
)
from pylog_broker.config import BrokerConfig
from pylog_broker.coordinator.expiry import Expiry
from pylog_broker.coordinator.runtime import shard as shards
from pylog_broker.coordinator.transactions.config import TransactionConfig
from pylog_broker.coordinator.transactions.coordinator import TransactionCounts
from pylog_broker.coordinator.transactions.messages import (
    AddPartitions,
    InitProducer,
    PartitionsAdded,
)
from pylog_broker.coordinator.transactions.settings import transaction_config
from pylog_broker.coordinator.transactions.sink_messages import (
    KEEP_FOREVER,
    AbortBatch,
    AlreadyDecided,
    BatchAborted,
    BatchDecided,
    BeginTask,
    DecideBatch,
    DescribedSink,
    ForgetSink,
    Member,
    PrepareTask,
    RenewTask,
    SinkForgotten,
    SinkKey,
    WrittenRange,
    placement_of,
    sink_of,
)
from pylog_broker.coordinator.transactions.sinks import (
    ANSWERS_MAX,
    RUNS_MAX,
    SinkCounts,
)
from pylog_broker.coordinator.transactions.transaction import (
    LAST_EPOCH,
    NO_IDENTITY,
    Identity,
    record_of,
)
from tests.fakes.transaction_shard import WALL_MS, A, B, TransactionShard, identity

SINK, OTHER = SinkKey("8f3b", "topic/orders"), SinkKey("77aa", "topic/orders")
RUN, NEXT_RUN = "run-1", "run-2"
RECEIPT = (WrittenRange("events", 0, 10, 19), WrittenRange("events", 1, 7, 7))


class Sinks(TransactionShard):
    """A shard with the requests of one sink."""

    def begin_task(
        self, task: int = 0, *, batch: int = 0, run: str = RUN, attempt: int = 0, **more: Any
    ) -> Any:
        """The answer to BeginSinkTask."""
        key = more.get("sink", SINK)
        request = BeginTask(key, run, batch, task, attempt)
        number = self._with_id(lambda c, r, f: c.sinks.begin(self.wall_ms, r, request, f))
        return self.replies[number]

    def write(self, member: Member, *partitions: Any) -> Any:
        """The answer to the AddPartitionsToTxn of the brokers that get the first batches."""
        request = AddPartitions(member.transactional_id, member.identity, partitions or (A,))
        return self.answer(lambda c, r: c.add_partitions(self.wall_ms, r, request))

    def prepare(self, member: Member, timeout_ms: int = 0) -> Any:
        request = PrepareTask(SINK, member, timeout_ms)
        return self.answer(lambda c, r: c.sinks.prepare(self.wall_ms, r, request))

    def renew(self, member: Member) -> Any:
        return self.answer(lambda c, r: c.sinks.renew(self.wall_ms, r, RenewTask(SINK, member)))

    def staged(self, task: int = 0, **more: Any) -> Member:
        """An attempt that has written to a partition and is prepared."""
        member = self.begin_task(task, **more)
        assert isinstance(member, Member), member
        self.write(member, A)
        assert self.prepare(member) == member
        return member

    def decide(
        self, *members: Member, batch: int = 0, run: str = RUN, rows: int = 11, **more: Any
    ) -> Any:
        """The answer to DecideSinkBatch."""
        self.advance(0)
        return self.replies[self.ask_decide(*members, batch=batch, run=run, rows=rows, **more)]

    def ask_decide(
        self, *members: Member, batch: int = 0, run: str = RUN, rows: int = 11, **more: Any
    ) -> int:
        """The number of a DecideSinkBatch."""
        keep_ms, visible_ms = more.get("keep_ms", KEEP_FOREVER), more.get("visible_ms", 0)
        request = DecideBatch(
            SINK, run, batch, members, rows, 77, "", RECEIPT, keep_ms, (), visible_ms
        )
        return self.ask(lambda c, r: c.sinks.decide(self.wall_ms, r, request))

    def abort(self, *, batch: int = 0, run: str = RUN, ends_run: bool = False) -> Any:
        request = AbortBatch(SINK, run, batch, ends_run=ends_run)
        return self.answer(lambda c, r: c.sinks.abort(self.wall_ms, r, request))

    def abort_attempt(self, member: Member) -> Any:
        request = AbortBatch(SINK, "", 0, member=member)
        return self.answer(lambda c, r: c.sinks.abort(self.wall_ms, r, request))

    def states(self) -> dict[str, str]:
        """The states of all transactional ids, by their numbers."""
        return {
            name.rpartition("/")[2]: each.state.shown
            for name, each in self.coordinator.transactions.items()
        }

    def described(self) -> list[DescribedSink]:
        return list(self.coordinator.sinks.described())


@pytest.fixture
def shard() -> Sinks:
    return Sinks()


# ---- one batch -----------------------------------------------------------------------------------


def test_a_batch_counts_by_one_append(shard: Sinks) -> None:
    one, two = shard.staged(0), shard.staged(1)
    before = len(shard.log)
    decided = shard.decide(one, two)
    assert isinstance(decided, BatchDecided)
    assert decided.is_new
    assert decided.batch.receipt == RECEIPT
    assert shard.states() == {"0": "PrepareCommit", "1": "PrepareCommit"}
    assert len(shard.log) == before + 2 * 2 + 1
    assert [(each.transactional_id, each.commits) for each in shard.sent] == [
        (one.transactional_id, True),
        (two.transactional_id, True),
    ]
    shard.write_markers()
    assert shard.states() == {"0": "CompleteCommit", "1": "CompleteCommit"}


def test_attempts_that_are_not_named_are_aborted(shard: Sinks) -> None:
    lost, won = shard.staged(0, attempt=1), shard.staged(0, attempt=2)
    shard.decide(won)
    assert {each.transactional_id: each.commits for each in shard.sent} == {
        lost.transactional_id: False,
        won.transactional_id: True,
    }


def test_an_attempt_that_wrote_nothing_is_fenced_by_the_decision(shard: Sinks) -> None:
    silent, won = shard.begin_task(0, attempt=1), shard.staged(0, attempt=2)
    shard.decide(won)
    assert shard.states()["0"] == "CompleteAbort"
    assert isinstance(shard.write(silent, B), ProducerFenced)


def test_a_task_asks_again(shard: Sinks) -> None:
    assert shard.begin_task(3) == shard.begin_task(3)
    assert shard.begin_task(3) != shard.begin_task(3, attempt=1)


def test_no_decision_names_an_attempt_that_is_not_prepared(shard: Sinks) -> None:
    member = shard.begin_task()
    shard.write(member)
    assert isinstance(shard.decide(member), InvalidTxnState)
    assert shard.states() == {"0": "Ongoing"}


def test_a_prepared_attempt_begins_on_no_other_partition(shard: Sinks) -> None:
    member = shard.staged()
    assert shard.write(member, A) == PartitionsAdded({A: None}), "a request that came twice"
    refused = shard.write(member, B)
    assert isinstance(refused, InvalidTxnState)
    assert "is prepared: it writes nothing" in str(refused)


def test_nothing_is_written_with_an_id_that_no_attempt_has(shard: Sinks) -> None:
    """It would hold back readers for ever."""
    member = shard.staged()
    shard.decide(member)
    shard.write_markers()
    guessed = Member(member.transactional_id, member.identity.next)
    refused = shard.write(guessed)
    assert isinstance(refused, InvalidTxnState)
    assert "belongs to no attempt" in str(refused)
    assert shard.states() == {"0": "CompleteCommit"}


def test_no_decision_names_an_attempt_of_another_batch(shard: Sinks) -> None:
    early = shard.staged(batch=4)
    assert isinstance(shard.decide(early, batch=5), InvalidTxnState)


def test_a_batch_without_rows_is_decided_too(shard: Sinks) -> None:
    assert shard.decide(rows=0).is_new
    assert not shard.sent
    assert shard.decide(batch=1).is_new


# ---- a decision stands ---------------------------------------------------------------------------


def test_a_decision_that_is_asked_for_again_is_the_same(shard: Sinks) -> None:
    member = shard.staged()
    first = shard.decide(member)
    assert shard.decide(member) == first._replace(is_new=False)
    shard.write_markers()
    assert shard.decide(member) == first._replace(is_new=False)


def test_a_batch_of_an_earlier_run_is_not_written_again(shard: Sinks) -> None:
    first = shard.decide(shard.staged())
    assert shard.begin_task(run=NEXT_RUN) == AlreadyDecided(first.batch)
    assert shard.decide(run=NEXT_RUN, rows=12) == first._replace(is_new=False)
    assert shard.decide(batch=1, run=NEXT_RUN).batch.run_number == 1


def test_a_second_writer_of_one_batch_is_refused(shard: Sinks) -> None:
    shard.decide(shard.staged())
    refused = shard.begin_task(1)
    assert isinstance(refused, SinkBatchDecided)
    assert "sinkId" in str(refused)
    assert isinstance(shard.decide(rows=12), SinkBatchDecided)


@pytest.mark.parametrize("run", [RUN, NEXT_RUN])
def test_an_earlier_batch_is_refused(shard: Sinks, run: str) -> None:
    shard.decide(batch=7)
    assert isinstance(shard.begin_task(batch=6, run=run), SinkBatchDecided)
    assert isinstance(shard.decide(batch=6, run=run), SinkBatchDecided)


def test_an_abort_undoes_no_decision(shard: Sinks) -> None:
    member = shard.staged()
    shard.decide(member)
    assert shard.abort() == BatchAborted(0)
    assert shard.states() == {"0": "PrepareCommit"}


def test_a_decision_is_answered_when_readers_see_it(shard: Sinks) -> None:
    lost, won, silent = shard.staged(0), shard.staged(0, attempt=1), shard.begin_task(1)
    asked = shard.ask_decide(won, visible_ms=1_000)
    assert asked not in shard.replies
    assert shard.states() == {"0": "PrepareAbort", "1": "PrepareCommit", "2": "CompleteAbort"}
    again = shard.ask_decide(won, visible_ms=1_000)
    for markers in shard.sent:
        assert asked not in shard.replies
        shard.tell_written(markers, *markers.partitions)
    made = shard.replies[asked].batch
    assert (shard.replies[asked], shard.replies[again]) == (
        BatchDecided(made, True),
        BatchDecided(made, False),
    )
    shard.advance(5_000)
    assert shard.decide(won, visible_ms=1_000) == BatchDecided(made, False), "it is seen"
    assert {lost, silent}.isdisjoint({won})


def test_an_answer_waits_for_markers_only_for_a_while(shard: Sinks) -> None:
    member = shard.staged()
    asked = shard.ask_decide(member, visible_ms=1_000)
    shard.advance(999)
    assert asked not in shard.replies
    shard.advance(1)
    assert isinstance(shard.replies[asked], BatchDecided)
    shard.write_markers()
    assert shard.states() == {"0": "CompleteCommit"}


def test_no_more_than_some_answers_wait(shard: Sinks) -> None:
    member = shard.staged()
    waiting = [shard.ask_decide(member, visible_ms=1_000) for _ in range(ANSWERS_MAX)]
    assert isinstance(shard.decide(member, visible_ms=1_000), BatchDecided)
    assert not shard.replies.keys() & set(waiting)


def test_an_attempt_is_aborted_alone(shard: Sinks) -> None:
    failed, other = shard.staged(0), shard.staged(1)
    assert shard.abort_attempt(failed) == BatchAborted(1)
    assert shard.states() == {"0": "PrepareAbort", "1": "Ongoing"}
    shard.write_markers()
    again = shard.staged(0, attempt=1)
    assert shard.abort_attempt(failed) == BatchAborted(0), "the id is another attempt's by now"
    shard.decide(other, again)
    assert shard.abort_attempt(again) == BatchAborted(0)


def test_an_abort_ends_the_attempts_of_its_batch(shard: Sinks) -> None:
    member, later = shard.staged(), shard.staged(batch=1)
    assert shard.abort() == BatchAborted(1)
    assert shard.states() == {"0": "PrepareAbort", "1": "Ongoing"}
    assert isinstance(shard.decide(member), InvalidTxnState)
    assert shard.abort(run="never seen", batch=1) == BatchAborted(0)
    assert shard.decide(later, batch=1).is_new


def test_a_run_that_ended_writes_nothing_more(shard: Sinks) -> None:
    prepared, later = shard.staged(0), shard.staged(0, batch=1)
    assert shard.abort(ends_run=True) == BatchAborted(2)
    assert shard.states() == {"0": "PrepareAbort", "1": "PrepareAbort"}
    for _ in range(2):
        late = shard.begin_task(1)
        assert isinstance(late, InvalidTxnState)
        assert str(late).startswith(f"run {RUN} of query ")
        assert isinstance(shard.prepare(prepared), InvalidTxnState)
        assert isinstance(shard.decide(later, batch=1), InvalidTxnState)
        assert isinstance(shard.decide(batch=2), InvalidTxnState)
        length = len(shard.log)
        assert shard.abort(ends_run=True) == BatchAborted(0)
        assert len(shard.log) == length, "it has ended"
        shard.write_markers()
        shard.start()
    assert shard.decide(shard.staged(run=NEXT_RUN), run=NEXT_RUN).is_new


def test_a_run_may_end_before_it_begins(shard: Sinks) -> None:
    assert shard.abort(ends_run=True) == BatchAborted(0)
    assert isinstance(shard.begin_task(), InvalidTxnState)
    assert isinstance(shard.begin_task(run=NEXT_RUN), Member)
    assert isinstance(shard.begin_task(), SinkRunSuperseded)


def test_the_end_of_a_run_is_no_matter_of_another_one(shard: Sinks) -> None:
    shard.begin_task()
    member = shard.staged(run=NEXT_RUN)
    assert shard.abort(ends_run=True) == BatchAborted(0), "it was put out"
    assert shard.abort(run="never seen", ends_run=True) == BatchAborted(0)
    assert shard.decide(member, run=NEXT_RUN).is_new


def test_a_decision_outlives_the_end_of_its_run(shard: Sinks) -> None:
    member = shard.staged()
    made = shard.decide(member).batch
    assert shard.abort(ends_run=True) == BatchAborted(0)
    assert shard.states() == {"0": "PrepareCommit"}
    assert shard.decide(member) == BatchDecided(made, False), "it is asked for again"


def test_an_end_that_was_cut_off_is_gone_on_with(shard: Sinks) -> None:
    shard.staged()
    before = len(shard.log)
    shard.abort(ends_run=True)
    del shard.log[before + 1 :]  # it knows of the end, and of nothing that followed
    shard.start()
    assert shard.states() == {"0": "PrepareAbort"}
    assert shard.described()[0].open_attempts == 0


def test_sinks_that_decided_nothing_are_forgotten(shard: Sinks) -> None:
    shard.write(shard.begin_task())
    shard.abort(ends_run=True)
    shard.write_markers()
    shard.begin_task(sink=OTHER)  # its query dies
    shard.advance(shard.config.max_timeout_ms - 1)
    assert [each.sink for each in shard.described()] == [SINK, OTHER]
    shard.advance(shard.config.expiration_interval_ms)
    assert [each.sink for each in shard.described()] == [OTHER]
    shard.advance(shard.config.id_expiration_ms + 2 * shard.config.expiration_interval_ms)
    assert shard.described() == []
    assert shard.states() == {}


# ---- runs ----------------------------------------------------------------------------------------


def test_a_new_run_aborts_what_the_one_before_left_open(shard: Sinks) -> None:
    prepared, open_one = shard.staged(0), shard.begin_task(1)
    shard.write(open_one, B)
    new = shard.begin_task(0, run=NEXT_RUN)
    assert shard.states() == {"0": "PrepareAbort", "1": "PrepareAbort", "2": "Empty"}
    assert isinstance(new, Member)
    assert isinstance(shard.renew(open_one), InvalidTxnState)
    assert isinstance(shard.begin_task(2), SinkRunSuperseded)
    assert isinstance(shard.decide(prepared), SinkRunSuperseded)


def test_a_run_without_rows_puts_out_the_one_before_it(shard: Sinks) -> None:
    shard.staged(0)
    assert shard.decide(run=NEXT_RUN).is_new
    assert shard.states() == {"0": "PrepareAbort"}
    assert isinstance(shard.begin_task(1, batch=1), SinkRunSuperseded)


def test_runs_are_remembered_within_bounds(shard: Sinks) -> None:
    for number in range(RUNS_MAX + 3):
        shard.decide(batch=number, run=f"run {number}")
    assert isinstance(shard.begin_task(run="run 3", batch=9999), SinkRunSuperseded)
    assert shard.described()[0].run_id == f"run {RUNS_MAX + 2}"
    shard.start()
    assert isinstance(shard.begin_task(run="run 3", batch=9999), SinkRunSuperseded)


# ---- ids -----------------------------------------------------------------------------------------


def test_after_the_first_batches_no_producer_id_is_new(shard: Sinks) -> None:
    for batch in range(4):
        shard.decide(shard.staged(0, batch=batch), shard.staged(1, batch=batch), batch=batch)
        shard.write_markers()
    assert shard.next_producer_id == 1002
    assert shard.begin_task(batch=4).identity == identity(1000, 4)


def test_an_id_whose_markers_are_not_written_waits(shard: Sinks) -> None:
    shard.decide(shard.staged())
    assert shard.begin_task(batch=1).transactional_id.endswith("/1")


def test_an_id_whose_epochs_run_out_is_left(shard: Sinks) -> None:
    shard.decide(shard.staged())
    shard.write_markers()
    transaction = next(iter(shard.coordinator.transactions.values()))
    worn = transaction._replace(
        identity=Identity(transaction.identity.producer_id, type(LAST_EPOCH)(LAST_EPOCH - 1))
    )
    shard.log.append(shard._codec.encode(record_of(worn)))
    shard.start()
    assert shard.begin_task(batch=1).transactional_id.endswith("/1")


def test_ids_of_a_sink_are_placed_and_told_apart_by_the_sink(shard: Sinks) -> None:
    name = shard.begin_task().transactional_id
    assert sink_of(name) == SINK
    assert placement_of(name) == SINK.placement
    assert placement_of("payments/1") == "payments/1"


def test_a_producer_cannot_take_an_id_of_a_sink(shard: Sinks) -> None:
    member = shard.staged()
    request = InitProducer(member.transactional_id, 1000, NO_IDENTITY)
    assert isinstance(
        shard.answer(lambda c, r: c.init_producer(shard.wall_ms, r, request)), InvalidRequest
    )


# ---- time ----------------------------------------------------------------------------------------


def test_an_attempt_that_is_not_renewed_is_aborted(shard: Sinks) -> None:
    member = shard.begin_task()
    shard.write(member)
    lease_ms = shard.config.sink_lease_ms
    shard.advance(lease_ms - 1)
    assert shard.renew(member) == member
    shard.advance(lease_ms - 1)
    assert shard.states() == {"0": "Ongoing"}
    shard.advance(1)
    assert shard.states() == {"0": "PrepareAbort"}
    assert isinstance(shard.renew(member), InvalidTxnState)
    assert isinstance(shard.prepare(member), InvalidTxnState)


def test_a_prepared_attempt_waits_for_its_time_and_no_longer(shard: Sinks) -> None:
    member = shard.begin_task()
    shard.write(member)
    shard.prepare(member, timeout_ms=100_000)
    shard.advance(90_000)
    shard.renew(member)  # changes nothing
    shard.advance(9_999)
    assert shard.states() == {"0": "Ongoing"}
    shard.advance(1)
    assert shard.states() == {"0": "PrepareAbort"}
    assert isinstance(shard.decide(member), InvalidTxnState)


def test_no_attempt_waits_for_longer_than_transactions_may(shard: Sinks) -> None:
    member = shard.begin_task()
    shard.write(member)
    shard.prepare(member, timeout_ms=10**9)
    shard.advance(shard.config.max_timeout_ms)
    assert shard.states() == {"0": "PrepareAbort"}


def test_a_decision_is_kept_for_as_long_as_it_says(shard: Sinks) -> None:
    shard.decide(shard.staged(), keep_ms=1000)
    shard.write_markers()
    shard.advance(shard.config.expiration_interval_ms)
    assert shard.described() == []
    shard.start()
    assert shard.described() == []


@pytest.mark.parametrize("decides", [True, False], ids=["a decision", "an ended run"])
def test_what_is_known_of_a_sink_stays_when_the_clock_was_set_forward(
    shard: Sinks, decides: bool
) -> None:
    """P18."""
    if decides:
        shard.decide(shard.staged(), keep_ms=1000)
    else:
        shard.write(shard.begin_task())
        shard.abort(ends_run=True)
    shard.write_markers()
    trusted = dict.fromkeys((1000, shard.config.max_timeout_ms), shard.wall_ms)
    shard.expiry = Expiry(lambda kept_ms: trusted.get(kept_ms, 0))
    shard.start()
    shard.advance(864_000_000)
    assert [each.sink for each in shard.described()] == [SINK]
    trusted[1000 if decides else shard.config.max_timeout_ms] = shard.wall_ms
    shard.advance(shard.config.expiration_interval_ms)
    assert shard.described() == []


def test_a_decision_of_a_stream_stays(shard: Sinks) -> None:
    decided = shard.decide(shard.staged())
    shard.write_markers()
    shard.advance(40 * 24 * 3600 * 1000)
    assert "0" not in shard.states()
    assert shard.begin_task(run=NEXT_RUN) == AlreadyDecided(decided.batch)
    assert shard.begin_task(run=NEXT_RUN, batch=1).identity.epoch == 0


def test_an_id_that_an_attempt_has_is_not_forgotten(shard: Sinks) -> None:
    shard.decide(shard.staged())
    shard.write_markers()
    shard.advance(shard.config.id_expiration_ms - 10_000)
    member = shard.begin_task(batch=1)
    assert member.transactional_id.endswith("/0")
    shard.advance(20_000)
    assert shard.write(member) == PartitionsAdded({A: None})
    shard.prepare(member)
    assert shard.decide(member, batch=1).is_new
    shard.write_markers()
    assert shard.states() == {"0": "CompleteCommit"}


# ---- coordinators that die -----------------------------------------------------------------------


def test_a_successor_knows_who_is_prepared(shard: Sinks) -> None:
    prepared, open_one = shard.staged(0), shard.begin_task(1)
    shard.write(open_one)
    shard.start()
    shard.advance(shard.config.sink_lease_ms)
    assert shard.states() == {"0": "Ongoing", "1": "PrepareAbort"}
    assert shard.decide(prepared).is_new


def test_a_successor_gives_the_same_answer(shard: Sinks) -> None:
    member = shard.staged()
    first = shard.decide(member)
    shard.start()
    assert shard.decide(member) == first._replace(is_new=False)
    assert [each.commits for each in shard.sent[-1:]] == [True]
    assert shard.begin_task(run=NEXT_RUN) == AlreadyDecided(first.batch)


@pytest.mark.parametrize("kept", range(1, 8))
def test_a_successor_writes_what_was_decided_and_cut_off(shard: Sinks, kept: int) -> None:
    """However much of the records that follow a decision the log has."""
    lost, won, silent = shard.staged(0, attempt=1), shard.staged(0, attempt=2), shard.begin_task(1)
    before = len(shard.log)
    first = shard.decide(won)
    assert len(shard.log) == before + 1 + 2 + 2 + 3
    del shard.log[before + kept :]
    shard.sent.clear()
    shard.start()
    outcomes = {each.transactional_id: each.commits for each in shard.sent}
    assert outcomes == {lost.transactional_id: False, won.transactional_id: True}
    shard.write_markers()
    assert shard.states() == {"0": "CompleteAbort", "1": "CompleteCommit", "2": "CompleteAbort"}
    assert shard.decide(won) == first._replace(is_new=False)
    assert isinstance(shard.write(silent), ProducerFenced)
    assert [each.open_attempts for each in shard.described()] == [0]
    assert shard.begin_task(batch=1).transactional_id == lost.transactional_id


def test_a_successor_commits_nothing_that_a_later_attempt_wrote_with_the_same_id(
    shard: Sinks,
) -> None:
    shard.decide(shard.staged())
    shard.write_markers()
    later = shard.staged(batch=1)
    assert later.transactional_id.endswith("/0")
    before = len(shard.log)
    shard.begin_task(batch=1, run=NEXT_RUN)
    del shard.log[before + 1 :]  # it knows of the run, and of nothing that followed
    shard.sent.clear()
    shard.start()
    assert [(each.transactional_id, each.commits) for each in shard.sent] == [
        (later.transactional_id, False)
    ]
    assert [(each.run_id, each.open_attempts) for each in shard.described()] == [(NEXT_RUN, 0)]


@pytest.mark.parametrize("kept", range(6))
def test_forgetting_that_was_cut_off_is_asked_for_again(shard: Sinks, kept: int) -> None:
    shard.decide(shard.staged(0))
    shard.write_markers()
    shard.staged(0, batch=1)
    before = len(shard.log)
    request = ForgetSink(SINK)
    shard.answer(lambda c, r: c.sinks.forget(shard.wall_ms, r, request))
    assert len(shard.log) == before + 2 + 2 + 1
    del shard.log[before + kept :]
    shard.start()
    if shard.described():
        again = shard.answer(lambda c, r: c.sinks.forget(shard.wall_ms, r, request))
        assert again == SinkForgotten()
    assert shard.described() == []
    shard.write_markers()
    assert isinstance(shard.begin_task(), Member)


def test_a_prepared_attempt_has_the_rest_of_its_time_under_a_successor(shard: Sinks) -> None:
    member = shard.begin_task()
    shard.write(member)
    shard.prepare(member, timeout_ms=100_000)
    shard.advance(90_000)
    shard.start()
    shard.advance(9_999)
    assert shard.states() == {"0": "Ongoing"}
    shard.advance(1)
    assert shard.states() == {"0": "PrepareAbort"}


# ---- looking -------------------------------------------------------------------------------------


def test_a_sink_tells_since_when_readers_and_attempts_wait(shard: Sinks) -> None:
    shard.begin_task(0)
    assert shard.described() == [DescribedSink(SINK, RUN, None, 1)]
    shard.advance(1000)
    shard.write(shard.begin_task(1))
    shard.advance(1000)
    shard.staged(2)
    described = DescribedSink(SINK, RUN, None, 3, 1, WALL_MS + 1000, WALL_MS + 2000)
    assert shard.described() == [described]
    shard.start()
    assert shard.described() == [described]


def test_sinks_are_counted() -> None:
    counts = TransactionCounts()
    shard = Sinks(counts=counts)
    for batch in range(3):
        shard.decide(shard.staged(batch=batch), batch=batch)
        shard.write_markers()
    assert counts.sinks == SinkCounts(producer_ids=1, batches=3)
    shard.decide(batch=2)
    shard.staged(batch=3)
    shard.advance(shard.config.max_timeout_ms)
    assert counts.sinks == SinkCounts(producer_ids=1, batches=3, expired=1)


# ---- bounds --------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [SinkKey("", "s"), SinkKey("q", ""), SinkKey("q" * 250, "s")])
def test_names_are_bounded(shard: Sinks, key: SinkKey) -> None:
    assert isinstance(shard.begin_task(sink=key), InvalidRequest)


def test_a_query_id_has_no_slash(shard: Sinks) -> None:
    assert isinstance(shard.begin_task(sink=SinkKey("a/b", "s")), InvalidRequest)


def test_sinks_and_attempts_are_bounded() -> None:
    shard = Sinks(TransactionConfig(sinks_max=1, sink_attempts_max=2))
    shard.begin_task(0)
    shard.begin_task(1)
    assert isinstance(shard.begin_task(2), ThrottlingQuotaExceeded)
    other = SinkKey("another", "topic/orders")
    refused = shard.begin_task(sink=other)
    assert isinstance(refused, ThrottlingQuotaExceeded)
    assert "forget" in str(refused)


def test_the_ids_of_sinks_are_bounded_as_those_of_producers() -> None:
    shard = Sinks(TransactionConfig(ids_max=2))
    shard.begin_task(0)
    shard.begin_task(1)
    refused = shard.begin_task(2)
    assert isinstance(refused, ThrottlingQuotaExceeded)
    assert "2 transactional ids are known beside '__sink/8f3b/topic/orders/2'" in str(refused)
    assert shard.next_producer_id == 1002, "no producer id is taken in vain"


def test_a_decision_takes_more_than_is_written_at_once(
    shard: Sinks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "DECISION_BYTES_MAX", 1_000)
    monkeypatch.setattr(shards, "APPEND_BYTES_MAX", 2_000)
    members = [shard.staged(task) for task in range(100)]
    decided = shard.decide(*members)
    assert decided.is_new
    assert set(shard.states().values()) == {"PrepareCommit"}
    shard.start()
    assert shard.decide(*members) == decided._replace(is_new=False)


def test_an_id_of_a_sink_that_was_forgotten_is_left_to_expire(shard: Sinks) -> None:
    shard.staged(0)
    request = ForgetSink(SINK)
    shard.answer(lambda c, r: c.sinks.forget(shard.wall_ms, r, request))
    assert shard.begin_task(0).transactional_id.endswith("/1")


def test_limits_are_settings_of_brokers() -> None:
    config = BrokerConfig.from_mapping(
        {"sinks.max": "1", "sink.attempts.max": "2", "sink.attempt.lease.ms": "3000"}
    )
    taken = transaction_config(config)
    assert (taken.sinks_max, taken.sink_attempts_max, taken.sink_lease_ms) == (1, 2, 3000)
    assert transaction_config(BrokerConfig()) == TransactionConfig()


def test_a_sink_is_forgotten_by_command(shard: Sinks) -> None:
    shard.decide(shard.staged(0))
    shard.write_markers()
    shard.staged(0, batch=1)
    request = ForgetSink(SINK)
    forgotten = shard.answer(lambda c, r: c.sinks.forget(shard.wall_ms, r, request))
    assert forgotten == SinkForgotten()
    assert shard.described() == []
    shard.start()
    assert shard.described() == []
    assert isinstance(
        shard.answer(lambda c, r: c.sinks.forget(shard.wall_ms, r, request)), InvalidRequest
    )
    assert isinstance(shard.begin_task(), Member)
