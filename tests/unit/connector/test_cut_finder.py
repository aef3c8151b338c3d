"""The search for cuts, over random histories of transactions whose markers come at random times."""

from __future__ import annotations

import logging
import random

import pytest

from pylog.model import TopicPartition, TransactionName, TransactionSpan
from pylog_connector import cut_finder
from pylog_connector.cut_finder import CutFinder, Found
from tests.fakes.transaction_history import History, Written

PLACES = [TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)]
P, Q, R = PLACES
ZERO = dict.fromkeys(PLACES, 0)


def found_by(found: Found | None) -> dict[TopicPartition, int]:
    assert found is not None
    return found.ends


@pytest.mark.parametrize("lookback", [1, 5, 1_000])
def test_no_batch_splits_a_transaction_and_all_is_read_when_markers_have_come(
    lookback: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cut_finder, "LOOKBACK", lookback)
    progress = 0
    for seed in range(150):
        rng = random.Random(f"below {seed}")
        history = History(rng, PLACES)
        history.busy = rng.random() < 0.5
        history.open_max = rng.randint(1, 5)
        finder, cuts = CutFinder(history.describe), [ZERO]
        for _ in range(12):
            for _ in range(rng.randrange(30)):
                history.step()
            starts = cuts[-1]
            stable = history.stable()
            ends = {at: max(start, stable[at]) for at, start in starts.items()}
            cuts.append(found_by(finder.below(starts, ends)))
            assert all(starts[at] <= end <= ends[at] for at, end in cuts[-1].items()), seed
            progress += cuts[-1] != starts
        history.busy = False
        history.settle()
        last = finder.below(cuts[-1], history.ends)
        assert last == Found(dict(history.ends), whole=True), seed
        history.check([*cuts, history.ends])
    assert progress > 400


def batch(
    finder: CutFinder, logs: History, cuts: list[dict[TopicPartition, int]], most: int
) -> None:
    """One of so many offsets of each partition at most."""
    starts, stable = cuts[-1], logs.stable()
    latest = {at: max(start, stable[at]) for at, start in starts.items()}
    ends = {at: min(latest[at], start + most) for at, start in starts.items()}
    cuts.append(found_by(finder.admitted(starts, latest, ends, {})))
    assert all(starts[at] <= end <= latest[at] for at, end in cuts[-1].items())


def test_limited_batches_split_none_either_and_go_on() -> None:
    for seed in range(150):
        rng = random.Random(f"admitted {seed}")
        history = History(rng, PLACES)
        history.busy = rng.random() < 0.5
        finder, cuts = CutFinder(history.describe), [ZERO]

        for _ in range(12):
            for _ in range(rng.randrange(40)):
                history.step()
            batch(finder, history, cuts, rng.randint(1, 9))
        history.busy = False
        history.settle()
        for _ in range(1_000):
            if cuts[-1] == history.ends:
                break
            batch(finder, history, cuts, 2)
            assert cuts[-1] != cuts[-2], f"{seed}: nothing is admitted"
        assert cuts[-1] == history.ends, seed
        history.check(cuts)


def transaction(history: History, *places: TopicPartition, marked: bool = True) -> Written:
    """A committed one with a record in each of these partitions."""
    one = Written(TransactionName(len(history.transactions), 0), commits=True)
    history.transactions.append(one)
    for at in places:
        one.records.setdefault(at, []).append(history._take(at))
    for at in one.records if marked else ():
        history._mark(one, at)
    return one


def history() -> History:
    return History(random.Random(0), PLACES)


def test_a_cut_where_nothing_is_split_takes_one_question() -> None:
    logs = history()
    for _ in range(3_000):
        transaction(logs, P, Q)
    finder = CutFinder(logs.describe)
    assert finder.below(ZERO, logs.stable()) == Found(logs.ends, whole=True)
    assert logs.questions == 1


def test_a_transaction_that_is_split_is_found_far_back() -> None:
    logs = history()
    split = transaction(logs, P, Q, marked=False)
    logs._mark(split, P)
    for _ in range(3_000):
        transaction(logs, P)
    finder = CutFinder(logs.describe)
    assert logs.stable() == {P: 6_002, Q: 0, R: 0}
    assert finder.below(ZERO, logs.stable()) == Found(ZERO, whole=False)
    assert logs.questions <= 5
    logs._mark(split, Q)
    assert finder.below(ZERO, logs.stable()) == Found(logs.ends, whole=True)


def test_a_transaction_larger_than_the_limit_is_read_whole_with_a_line_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    logs = history()
    transaction(logs, *[P] * 10, Q)
    transaction(logs, R)
    finder = CutFinder(logs.describe)
    with caplog.at_level(logging.WARNING):
        first = finder.admitted(ZERO, logs.ends, {P: 3, Q: 1, R: 1}, {})
    assert first == Found({P: 0, Q: 0, R: 2}, whole=False)  # the smaller one goes first
    assert caplog.messages == []
    with caplog.at_level(logging.WARNING):
        second = finder.admitted(first.ends, logs.ends, {P: 3, Q: 1, R: 2}, {})
    assert second == Found({P: 11, Q: 2, R: 2}, whole=False)
    assert caplog.messages == [
        "a micro-batch has 13 offsets, and its limits admit 4: transactions are read whole"
    ]


def test_a_large_transaction_does_not_wait_for_ever_behind_small_ones() -> None:
    logs = history()
    transaction(logs, *[P] * 10)
    finder, at = CutFinder(logs.describe), ZERO
    ends = []
    for _ in range(6):
        transaction(logs, R)
        proposed = {P: min(at[P] + 3, logs.ends[P]), Q: 0, R: logs.ends[R]}
        at = found_by(finder.admitted(at, logs.ends, proposed, {}))
        ends.append(at[P])
    assert ends == [0, 0, 0, 11, 11, 11]


def test_a_limited_query_asks_for_what_is_new_alone() -> None:
    logs = history()
    asked = []

    def describe(ranges, named=(), *, spans_max=None):  # type: ignore[no-untyped-def]
        asked.append({at: start for at, (start, _) in ranges.items()})
        return logs.describe(ranges, named, spans_max=spans_max)

    for _ in range(4):
        transaction(logs, P, Q)
    finder = CutFinder(describe)
    first = found_by(finder.admitted(ZERO, logs.ends, {P: 2, Q: 2, R: 0}, {P: "id"}))
    assert first == {P: 2, Q: 2, R: 0}
    before = dict(logs.ends)
    transaction(logs, P, R)
    second = found_by(finder.admitted(first, logs.ends, {P: 4, Q: 4, R: 0}, {P: "id"}))
    assert second == {P: 4, Q: 4, R: 0}
    finder.admitted(second, logs.ends, {P: 6, Q: 6, R: 0}, {P: "another"})
    assert asked == [ZERO, before, second]


def test_too_many_transactions_for_a_limit_are_read_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    logs = history()
    for _ in range(6):
        transaction(logs, P, Q)
    finder = CutFinder(logs.describe, spans_max=11)
    with caplog.at_level(logging.WARNING):
        found = finder.admitted(ZERO, logs.ends, {P: 2, Q: 2, R: 0}, {})
    assert found == Found(logs.ends, whole=True)
    assert caplog.messages[0].startswith("more than 11 transactions are to be read")


def test_a_topic_that_is_gone_is_told() -> None:
    def gone(*_: object, **__: object) -> dict[TopicPartition, list[TransactionSpan]] | None:
        return None

    finder = CutFinder(gone)
    assert finder.below(ZERO, {P: 1, Q: 1, R: 1}) is None
    assert finder.admitted(ZERO, {P: 1, Q: 1, R: 1}, {P: 1, Q: 0, R: 0}, {}) is None
