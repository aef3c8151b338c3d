"""Positions of sources that count with the batches of a sink, or fail them."""

from __future__ import annotations

import random
from typing import Any

import pytest

from pylog.errors import InvalidRequest, InvalidTxnState, SinkBatchDecided, SinkRunSuperseded
from pylog.model import TopicPartition
from pylog_broker.coordinator.transactions.config import TransactionConfig
from pylog_broker.coordinator.transactions.messages import AddPartitions, PartitionsAdded
from pylog_broker.coordinator.transactions.sink_messages import (
    KEEP_FOREVER,
    AbortBatch,
    AlreadyDecided,
    BatchDecided,
    BeginTask,
    DecideBatch,
    ForgetSink,
    Member,
    PrepareTask,
    SinkKey,
)
from tests.fakes.transaction_shard import A, TransactionShard

SINK = SinkKey("8f3b", "copy")
RUN, NEXT_RUN = "run-1", "run-2"
OFFSETS = TopicPartition("__consumer_offsets", 3)


class Sinks(TransactionShard):
    """A shard with the requests of one sink, some of which are about positions."""

    attempts = 0

    def begin_task(self, group: str = "", **more: Any) -> Any:
        """The answer to BeginSinkTask."""
        self.attempts += 1
        request = BeginTask(
            SINK,
            more.get("run", RUN),
            more.get("batch", 0),
            0,
            more.get("attempt", self.attempts),
            group,
            more.get("digest", "at 5") if group else "",
        )
        number = self._with_id(lambda c, r, f: c.sinks.begin(self.wall_ms, r, request, f))
        return self.replies[number]

    def write(self, member: Member, partition: TopicPartition = OFFSETS) -> Any:
        request = AddPartitions(member.transactional_id, member.identity, (partition,))
        return self.answer(lambda c, r: c.add_partitions(self.wall_ms, r, request))

    def prepare(self, member: Member, timeout_ms: int = 0) -> Any:
        request = PrepareTask(SINK, member, timeout_ms)
        return self.answer(lambda c, r: c.sinks.prepare(self.wall_ms, r, request))

    def held(self, group: str = "g", *, timeout_ms: int = 0, **more: Any) -> Member:
        """Positions that wait for the decision."""
        member = self.begin_task(group, **more)
        assert isinstance(member, Member), member
        self.write(member)
        assert self.prepare(member, timeout_ms) == member
        return member

    def staged(self, **more: Any) -> Member:
        """Rows that wait for the decision."""
        member = self.begin_task(**more)
        assert isinstance(member, Member), member
        self.write(member, A)
        assert self.prepare(member) == member
        return member

    def decide(
        self, *members: Member, groups: tuple[str, ...] = ("g",), batch: int = 0, run: str = RUN
    ) -> Any:
        self.advance(0)
        request = DecideBatch(
            SINK, run, batch, members, 11, 77, "", (), KEEP_FOREVER, progress_groups=groups
        )
        return self.answer(lambda c, r: c.sinks.decide(self.wall_ms, r, request))

    def abort(self, member: Member) -> Any:
        request = AbortBatch(SINK, "", 0, member=member)
        return self.answer(lambda c, r: c.sinks.abort(self.wall_ms, r, request))

    def ends(self) -> dict[str, bool]:
        """The ends of transactions that were not told of before: whether each commits."""
        sent, self.sent = self.sent, []
        return {each.transactional_id.rpartition("/")[2]: each.commits for each in sent}


@pytest.fixture
def shard() -> Sinks:
    return Sinks()


def refused(given: Any, *words: str) -> None:
    assert isinstance(given, InvalidRequest), given
    for word in words:
        assert word in str(given)


# ---- one decision --------------------------------------------------------------------------------


def test_positions_count_with_the_rows(shard: Sinks) -> None:
    positions, rows = shard.held(), shard.staged()
    decided = shard.decide(rows)
    assert decided == BatchDecided(decided.batch, True)
    assert {positions.transactional_id[-1], rows.transactional_id[-1]} == {"0", "1"}
    assert shard.ends() == {"0": True, "1": True}


def test_positions_count_with_a_batch_without_rows(shard: Sinks) -> None:
    shard.held()
    assert shard.decide().is_new
    assert shard.ends() == {"0": True}


def test_one_attempt_of_each_group_counts(shard: Sinks) -> None:
    shard.held("g", attempt=1)
    shard.held("h", attempt=1)  # of the same task
    shard.held("g", attempt=2)  # one that Spark has run again
    shard.begin_task("h", attempt=3)  # and one that is still at it
    assert shard.decide(shard.staged(), groups=("h", "g")).is_new
    assert shard.ends() == {"0": True, "1": True, "2": False, "4": True}


def test_a_source_that_has_read_nothing_holds_up_no_batch(shard: Sinks) -> None:
    shard.held("g")
    assert shard.decide(shard.staged(), groups=("g", "idle")).is_new
    assert shard.decide(shard.staged(batch=1), groups=("g", "idle"), batch=1).is_new


@pytest.mark.parametrize("answered", [False, True])
def test_positions_whose_abort_was_cut_off_are_missed(shard: Sinks, answered: bool) -> None:
    """The log has that the transaction is aborted, and not yet that its id is free."""
    positions, rows = shard.held(), shard.staged()
    before = len(shard.log)
    shard.abort(positions)
    del shard.log[before + 1 :]
    shard.start()
    if answered:
        shard.write_markers()
    given = shard.decide(rows)
    assert isinstance(given, InvalidTxnState), given
    assert "were aborted" in str(given)


def test_a_decision_that_is_gone_on_with_commits_positions(shard: Sinks) -> None:
    shard.held()
    rows = shard.staged()
    before = len(shard.log)
    shard.decide(rows)
    del shard.log[before + 1 :]  # the decision alone is left
    shard.sent.clear()
    shard.start()
    assert shard.ends() == {"0": True, "1": True}


def test_the_next_coordinator_knows_of_positions(shard: Sinks) -> None:
    shard.held()
    shard.start()
    assert shard.decide().is_new
    assert shard.ends() == {"0": True}


# ---- what fails a batch --------------------------------------------------------------------------


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("how", ["aborted", "late", "not renewed"])
def test_a_batch_whose_positions_are_lost_fails(shard: Sinks, how: str, restarts: bool) -> None:
    rows = shard.staged()
    if how == "aborted":
        shard.abort(shard.held())
    elif how == "late":
        shard.held(timeout_ms=1_000)
        shard.advance(1_000)
    else:
        shard.write(shard.begin_task("g"))
        shard.advance(shard.config.sink_lease_ms)
    shard.write_markers()
    more = shard.staged()  # takes another id: the record of the lost positions stays
    if restarts:
        shard.start()
    given = shard.decide(rows, more)
    assert isinstance(given, InvalidTxnState)
    assert "to group 'g' with batch 0 were aborted" in str(given)
    assert shard.ends() == {}
    again = shard.held()  # another attempt of the task
    assert again.transactional_id.endswith("/1")
    assert shard.decide(rows, more).is_new


def test_positions_that_are_not_held_yet_fail_a_batch(shard: Sinks) -> None:
    shard.write(shard.begin_task("g"))
    assert isinstance(shard.decide(shard.staged()), InvalidTxnState)


def test_a_sink_that_is_not_told_of_the_group_is_refused(shard: Sinks) -> None:
    shard.held("g")
    rows = shard.staged()
    for groups in ((), ("h",)):
        refused(shard.decide(rows, groups=groups), "group 'g'", "pylog.progress.group=", "copy")
    assert shard.decide(rows).is_new


def test_a_sink_of_which_no_source_ever_spoke_is_refused(shard: Sinks) -> None:
    rows = shard.staged()
    refused(shard.decide(rows), "sinkId=copy", "no source")
    assert shard.decide(rows, groups=()).is_new
    assert shard.decide(shard.staged(batch=1), batch=1).is_new, "it may have read nothing"


def test_two_sources_do_not_share_a_group(shard: Sinks) -> None:
    held = shard.held(digest="at 5")
    refused(shard.begin_task("g", digest="at 6"), "two sources commit to group 'g'")
    shard.abort(held)
    shard.start()
    refused(shard.begin_task("g", digest="at 6"), "two sources commit to group 'g'")
    assert isinstance(shard.begin_task("g", digest="at 5"), Member)


def test_a_sink_that_never_decides_is_noticed_with_the_next_batch(shard: Sinks) -> None:
    for run in (RUN, NEXT_RUN):
        shard.held(run=run)  # the batch fails once, and is run again
    for run in (NEXT_RUN, "run-3"):
        refused(shard.begin_task("g", batch=1, run=run), "batch 0", "sinkId=copy", "sinks forget")
        shard.start()
    shard.answer(lambda c, r: c.sinks.forget(shard.wall_ms, r, ForgetSink(SINK)))
    assert isinstance(shard.begin_task("g", batch=1, run="run-3"), Member)


def test_open_positions_are_listed_by_their_groups(shard: Sinks) -> None:
    shard.staged()
    for group in ("h", "g", "g"):
        shard.held(group)
    (listed,) = shard.coordinator.sinks.described()
    assert (listed.open_attempts, listed.progress_groups) == (4, ("g", "h"))
    shard.decide(groups=("g", "h"))
    (listed,) = shard.coordinator.sinks.described()
    assert (listed.open_attempts, listed.progress_groups) == (0, ())


def test_ids_of_lost_positions_do_not_pile_up(shard: Sinks) -> None:
    for number in range(20):
        shard.held(run=f"run {number}")
        shard.write_markers()
    assert len(shard.coordinator.transactions) == 2


# ---- runs and replays ----------------------------------------------------------------------------


def test_a_batch_that_counts_is_not_committed_again(shard: Sinks) -> None:
    shard.held()
    made = shard.decide().batch
    assert shard.begin_task("g") == AlreadyDecided(made), "foreachBatch reads its frame twice"
    assert shard.begin_task("g", run=NEXT_RUN, digest="at 6") == AlreadyDecided(made)
    shard.held(batch=1, run=NEXT_RUN)
    assert shard.decide(batch=1, run=NEXT_RUN).is_new
    assert isinstance(shard.begin_task("g", run=NEXT_RUN), SinkBatchDecided)
    assert isinstance(shard.begin_task(batch=1, run=NEXT_RUN), SinkBatchDecided), "rows are"


def test_a_new_run_puts_out_the_positions_of_the_one_before_it(shard: Sinks) -> None:
    shard.held()
    shard.ends()
    new = shard.held(run=NEXT_RUN, digest="at 6")
    assert shard.ends() == {"0": False}
    assert isinstance(shard.begin_task("g"), SinkRunSuperseded)
    assert shard.decide(run=NEXT_RUN).is_new
    assert shard.ends() == {new.transactional_id[-1]: True}


# ---- at random -----------------------------------------------------------------------------------


class World:
    """A query of two sources under a coordinator that dies. `positions`: the batch and group of
    each transaction with positions, `rows`: the batch of each with rows, by id and epoch.
    """

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.shard = TransactionShard(TransactionConfig(max_timeout_ms=30_000, sink_lease_ms=9_000))
        self.batch = self.run = self.attempts = 0
        self.positions: dict[tuple[str, int], tuple[int, str]] = {}
        self.rows: dict[tuple[str, int], int] = {}
        self.read: dict[int, set[str]] = {}
        self.outcomes: dict[tuple[str, int], bool] = {}
        self.promised: list[int] = []

    def ask(self, operation: Any) -> Any:
        """The answer; None where the coordinator dies, with any part of what it wrote last."""
        shard, rng = self.shard, self.rng
        dies, before = rng.random() < 0.08, len(shard.log)
        shard.commits = not dies
        number = shard._with_id(operation)
        if dies:
            del shard.log[before + rng.randint(0, len(shard.log) - before) :]
            shard.commits = True
            shard.start()
        self.look()
        return None if dies else shard.replies[number]

    def look(self) -> None:
        for sent in self.shard.sent:
            transaction = sent.transactional_id, sent.identity[1] - 1
            assert self.outcomes.setdefault(transaction, sent.commits) == sent.commits

    def attempt(self, group: str = "") -> Member | AlreadyDecided | None:
        """From beginning to end; None where it does not get there."""
        self.attempts += 1
        digest = f"end of {self.batch}" if group else ""
        request = BeginTask(SINK, f"run {self.run}", self.batch, 0, self.attempts, group, digest)
        member = self.ask(lambda c, r, f: c.sinks.begin(self.shard.wall_ms, r, request, f))
        assert not isinstance(member, InvalidRequest), "Spark goes on when a batch is decided"
        if not isinstance(member, Member):
            return member if isinstance(member, AlreadyDecided) else None
        transaction = member.transactional_id, member.identity.epoch
        if group:
            self.positions[transaction] = self.batch, group
        else:
            self.rows[transaction] = self.batch
        partition = OFFSETS if group else A
        add = AddPartitions(member.transactional_id, member.identity, (partition,))
        added = self.ask(lambda c, r, _f: c.add_partitions(self.shard.wall_ms, r, add))
        if added != PartitionsAdded({partition: None}):
            return None
        prepare = PrepareTask(SINK, member, self.rng.choice((0, 5_000)))
        given = self.ask(lambda c, r, _f: c.sinks.prepare(self.shard.wall_ms, r, prepare))
        return member if given == member and self.rng.random() < 0.9 else None

    def run_batch(self) -> None:
        """As Spark does: each task is tried again a few times, and a batch that fails ends the
        run.
        """
        read = self.read.setdefault(self.batch, {"g", self.rng.choice("gh")})
        tasks = [*sorted(read), *[""] * self.rng.randint(0, 2)]
        self.rng.shuffle(tasks)
        staged = []
        for group in tasks:
            tried = next(filter(None, (self.attempt(group) for _ in range(3))), None)
            if tried is None:
                self.run += 1
                return
            if not group and isinstance(tried, Member):
                staged.append(tried)
            if self.rng.random() < 0.1:
                self.shard.advance(self.rng.choice((500, 4_000, 10_000)))
                self.look()
        request = DecideBatch(
            SINK, f"run {self.run}", self.batch, tuple(staged), len(staged), 0, "", (),
            progress_groups=("g", "h"),
        )  # fmt: skip
        for _ in range(2):
            given = self.ask(lambda c, r, _f: c.sinks.decide(self.shard.wall_ms, r, request))
            assert not isinstance(given, InvalidRequest), given
            if isinstance(given, BatchDecided):
                self.promised.append(self.batch)
                self.batch += 1
                return
        self.run += 1

    def end(self) -> None:
        """Each batch that was promised has its positions, once for each group, and rows without
        positions there are none.
        """
        self.shard.advance(60_000)
        self.look()
        counted: dict[int, list[str]] = {}
        for transaction, (batch, group) in self.positions.items():
            if self.outcomes.get(transaction):
                counted.setdefault(batch, []).append(group)
        for batch, groups in counted.items():
            assert sorted(groups) == sorted(self.read[batch])
        with_rows = {batch for each, batch in self.rows.items() if self.outcomes.get(each)}
        assert with_rows <= counted.keys()
        assert set(self.promised) <= counted.keys() <= {*self.promised, self.batch}


@pytest.mark.parametrize("seed", range(8))
def test_rows_and_positions_count_together_whatever_dies(seed: int) -> None:
    world = World(seed)
    for _ in range(30):
        world.run_batch()
        if world.rng.random() < 0.5:
            world.shard.write_markers()
    world.end()
    assert world.promised
    assert world.run
