"""A follower's actions upon its leader's answers."""

from __future__ import annotations

import random

import pytest

from pylog import errors
from pylog.model import BrokerId, LeaderEpoch, Offset, TopicId
from pylog_broker.metadata.messages import Failure
from pylog_broker.replication.fetch_messages import EpochEnd
from pylog_broker.replication.follower import (
    AppendFetched,
    CutTo,
    FollowerState,
    FollowerStatus,
    LogView,
    SetAside,
    StartOverAt,
)
from pylog_broker.replication.replica_fetch_messages import (
    ReplicaPartitionData,
    ReplicaPartitionFetch,
)
from pylog_broker.storage.checkpoints.leader_epochs import EpochEntry, LeaderEpochCache

ID = TopicId("t" * 22)


def state() -> FollowerState:
    return FollowerState(
        topic_id=ID,
        partition=0,
        leader=BrokerId(1),
        leader_epoch=LeaderEpoch(9),
        fetch_max_bytes=1_000,
        backoff_ms=50,
        backoff_max_ms=1_000,
    )


def log(start: int, end: int, *epochs: tuple[int, int]) -> LogView:
    entries = [EpochEntry(LeaderEpoch(epoch), Offset(at)) for epoch, at in epochs]
    return LogView(Offset(start), Offset(end), LeaderEpochCache(entries))


def ask(follower: FollowerState, view: LogView, request_id: int = 1) -> ReplicaPartitionFetch:
    asked = follower.question(
        view.log_end_offset, view.epochs.latest, view.log_start_offset, Offset(0)
    )
    follower.sent_in(request_id)
    return asked


def data(
    failure: type[errors.PylogError] | None = None,
    *,
    diverging: tuple[int, int] | None = None,
    records: bytes = b"",
    start: int = 0,
    high_watermark: int = 0,
) -> ReplicaPartitionData:
    return ReplicaPartitionData(
        ID,
        0,
        Failure(failure.code, "why") if failure else None,
        Offset(high_watermark),
        Offset(high_watermark),
        Offset(start),
        EpochEnd(LeaderEpoch(diverging[0]), Offset(diverging[1])) if diverging else None,
        records,
    )


def test_a_good_answer_is_appended_with_the_leaders_marks() -> None:
    follower, view = state(), log(0, 5, (3, 0))
    ask(follower, view)
    action = follower.on_answer(0, 1, data(records=b"xyz", high_watermark=7, start=2), view)
    assert action == AppendFetched(b"xyz", Offset(7), Offset(2))


def test_the_question_is_the_same_object_until_something_changes() -> None:
    follower, view = state(), log(0, 5, (3, 0))
    first = ask(follower, view)
    assert ask(follower, view, 2) is first
    assert first == ReplicaPartitionFetch(
        ID, 0, LeaderEpoch(9), Offset(5), LeaderEpoch(3), Offset(0), 1_000, Offset(0)
    )
    assert ask(follower, log(0, 6, (3, 0)), 3).fetch_offset == 6


def test_the_last_epoch_is_asked_for_after_an_empty_answer_too() -> None:
    """B-R10."""
    follower, view = state(), log(0, 5, (3, 0))
    ask(follower, view)
    assert follower.on_answer(0, 1, data(high_watermark=5), view) is not None
    assert ask(follower, view, 2).last_fetched_epoch == 3


def test_answers_to_earlier_questions_are_ignored() -> None:
    follower, view = state(), log(0, 5, (3, 0))
    ask(follower, view, 2)
    assert follower.on_answer(0, 1, data(records=b"x"), view) is None


def test_a_later_request_of_the_session_asks_the_same_again() -> None:
    follower, view = state(), log(0, 5, (3, 0))
    ask(follower, view, 2)
    assert follower.on_answer(0, 3, data(records=b"x"), view) is not None


def test_an_answer_is_ignored_when_the_log_moved_meanwhile() -> None:
    follower, view = state(), log(0, 5, (3, 0))
    ask(follower, view)
    assert follower.on_answer(0, 1, data(records=b"x"), log(0, 4, (3, 0))) is None


@pytest.mark.parametrize(
    ("view", "leader_end", "action"),
    [
        # the leader ends our epoch earlier
        (log(0, 10, (3, 0)), (3, 6), CutTo(Offset(6))),
        # the leader does not have our last epoch: its next older one ends at 6, ours at 8
        (log(0, 10, (2, 0), (3, 8)), (2, 6), CutTo(Offset(6))),
        (log(0, 10, (2, 0), (3, 8)), (2, 20), CutTo(Offset(8))),
        # we do not have the epoch that it names: cut all later ones and ask again (KIP-279)
        (log(0, 10, (1, 0), (4, 5)), (3, 7), CutTo(Offset(5))),
        (log(0, 10, (1, 0), (4, 5)), (3, 2), CutTo(Offset(5))),
        # an epoch without records at our end goes too (B-R6), or we would ask for ever
        (log(0, 10, (2, 0), (3, 10)), (2, 10), CutTo(Offset(10))),
        # all that we have is of epochs that the leader does not have
        (log(100, 150, (5, 100)), (3, 200), CutTo(Offset(100))),
        # the leader's log ends before ours begins
        (log(100, 150, (5, 100)), (5, 40), StartOverAt(Offset(40))),
        # epoch 0 is an epoch like any other (B-R7)
        (log(0, 10, (0, 0)), (0, 4), CutTo(Offset(4))),
    ],
)
def test_where_to_cut(
    view: LogView, leader_end: tuple[int, int], action: CutTo | StartOverAt
) -> None:
    follower = state()
    ask(follower, view)
    assert follower.on_answer(0, 1, data(diverging=leader_end), view) == action


@pytest.mark.parametrize(
    ("start", "action"),
    [
        # The epoch 7 began at 66; its first records are deleted, so that it begins at 68 now. The
        # records here at 66 and 67 are not those that were committed there.
        (68, StartOverAt(Offset(68))),
        (67, CutTo(Offset(68))),
        (24, CutTo(Offset(68))),
    ],
)
def test_what_lies_below_the_leaders_log_is_not_kept(
    start: int, action: CutTo | StartOverAt
) -> None:
    follower, view = state(), log(24, 70, (6, 24))
    ask(follower, view)
    assert follower.on_answer(0, 1, data(diverging=(6, 68), start=start), view) == action


def test_a_divergence_that_nothing_contradicts_does_not_loop() -> None:
    follower, view = state(), log(0, 10, (3, 0))
    ask(follower, view)
    action = follower.on_answer(5, 1, data(diverging=(3, 10)), view)
    assert isinstance(action, SetAside)
    assert action.retry_at_ms == 55


def test_nothing_is_cut_before_the_leader_was_asked() -> None:
    """B-R1."""
    assert state().offset_to_cut_at_start(Offset(3), Offset(10)) == 10


def test_behind_the_leaders_log_start_it_starts_over_there() -> None:
    """B-R11."""
    follower, view = state(), log(0, 5, (3, 0))
    ask(follower, view)
    action = follower.on_answer(0, 1, data(errors.OffsetOutOfRange, start=1_000), view)
    assert action == StartOverAt(Offset(1_000))


def test_an_empty_log_may_start_over_anywhere() -> None:
    follower, view = state(), log(1_000, 1_000)
    ask(follower, view)
    action = follower.on_answer(0, 1, data(errors.OffsetOutOfRange, start=20), view)
    assert action == StartOverAt(Offset(20))


def test_faults_are_set_aside_longer_and_longer() -> None:
    """B-R38."""
    follower, view = state(), log(0, 5, (3, 0))
    waits = []
    for number in range(1, 9):
        ask(follower, view, number)
        action = follower.on_answer(0, number, data(errors.UnknownLeaderEpoch), view)
        assert isinstance(action, SetAside)
        assert follower.status is FollowerStatus.SET_ASIDE
        waits.append(action.retry_at_ms)
        follower.take_back()
    assert waits == [50, 100, 200, 400, 800, 1_000, 1_000, 1_000]
    assert "75" in follower.fault
    follower.on_progress()
    ask(follower, view, 9)
    again = follower.on_answer(0, 9, data(errors.KafkaStorageError), view)
    assert again == SetAside(50, "error 56: why")


class ToyLog:
    """A log as a list of epochs, one for each offset from 0."""

    def __init__(self, records: list[int]) -> None:
        self.records = records
        self.epochs = LeaderEpochCache()
        for offset, epoch in enumerate(records):
            if epoch > self.epochs.latest:
                self.epochs.assign(LeaderEpoch(epoch), Offset(offset))

    def view(self) -> LogView:
        return LogView(Offset(0), Offset(len(self.records)), self.epochs)


@pytest.mark.parametrize("seed", range(200))
def test_repair_always_ends_at_the_common_prefix(seed: int) -> None:
    """B-R4, B-R5: two histories that share a beginning, then any epochs on both sides."""
    rng = random.Random(seed)

    def history(epochs: list[int], length: int) -> list[int]:
        return sorted(rng.choice(epochs) for _ in range(length))

    shared = history([0, 1, 2], rng.randrange(0, 5))
    mine = [epoch for epoch in range(3, 20) if rng.random() < 0.5]
    theirs = [epoch for epoch in range(3, 20) if epoch not in mine]
    leader = ToyLog(shared + (history(theirs, rng.randrange(0, 8)) if theirs else []))
    tail = history(mine, rng.randrange(0, 8)) if mine else []
    follower_log = ToyLog(shared + tail)
    leader.epochs.assign(LeaderEpoch(30), Offset(len(leader.records)))
    follower = state()
    for request_id in range(1, 40):
        view = follower_log.view()
        asked = ask(follower, view, request_id)
        end = leader.epochs.end_offset_for(asked.last_fetched_epoch, Offset(len(leader.records)))
        diverges = asked.last_fetched_epoch >= 0 and (
            end.epoch < asked.last_fetched_epoch or end.end_offset < asked.fetch_offset
        )
        if not diverges:
            break
        answer = data(diverging=(end.epoch, end.end_offset))
        action = follower.on_answer(0, request_id, answer, view)
        assert isinstance(action, CutTo), (action, leader.records, follower_log.records)
        follower_log = ToyLog(follower_log.records[: action.offset])
    else:
        raise AssertionError("it never ends")
    kept = len(follower_log.records)
    assert follower_log.records == leader.records[:kept]
    assert kept >= len(shared), "what both have is not cut"
