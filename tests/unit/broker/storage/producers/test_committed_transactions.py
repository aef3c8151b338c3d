"""The transactions of ranges of a log: in memory, by its batches, and both together."""

from __future__ import annotations

import random
from collections.abc import Collection

import pytest

from pylog.client.ranges.found_transactions import FoundTransactions
from pylog.model import LeaderEpoch, Offset, TransactionName, TransactionSpan
from pylog.records.builder import ControlType, encode_control_batch
from pylog_broker.config import TopicConfig
from pylog_broker.storage.log.log import Log
from pylog_broker.storage.log.validator import INTERNAL
from pylog_broker.storage.producers import committed_transactions
from pylog_broker.storage.producers.committed_transactions import CommittedTransactions
from pylog_broker.storage.segments.segment_reader import PagesCold
from tests.fakes.logs import WALL_MS, batch_of, open_log
from tests.fakes.memory_files import MemoryFiles


def span(producer: int, epoch: int, first: int, marker: int = -1) -> TransactionSpan:
    return TransactionSpan(TransactionName(producer, epoch), first, marker)


def put(log: Log, producer: int, epoch: int, sequence: int, count: int = 1) -> int:
    """A batch of a transaction; its first offset."""
    batch = batch_of(*[b"v"] * count, producer=(producer, epoch, sequence), transactional=True)
    info = log.append_as_leader(
        batch, leader_epoch=LeaderEpoch(0), wall_ms=WALL_MS, origin=INTERNAL
    )
    return info.base_offset


def end(log: Log, producer: int, epoch: int, *, commits: bool = True) -> int:
    """A marker, whose epoch is the one behind that of the batches; its offset."""
    marker = encode_control_batch(
        ControlType.COMMIT if commits else ControlType.ABORT,
        producer_id=producer,
        producer_epoch=epoch + 1,
        coordinator_epoch=0,
        timestamp_ms=WALL_MS,
    )
    info = log.append_as_leader(
        marker, leader_epoch=LeaderEpoch(0), wall_ms=WALL_MS, origin=INTERNAL
    )
    return info.base_offset


def asked(
    log: Log,
    start: int,
    end: int = -1,
    *,
    high_watermark: int | None = None,
    named: Collection[TransactionName] | None = None,
    spans_max: int = 1_000,
    headers_max: int = 1_000,
) -> set[TransactionSpan]:
    """All answers, put together as a client does it."""
    found = FoundTransactions()
    while start >= 0:
        spans, following = log.transactions(
            start,
            end,
            high_watermark=log.log_end_offset if high_watermark is None else high_watermark,
            named=named,
            spans_max=spans_max,
            headers_max=headers_max,
        )
        assert following < 0 or following > start
        found.add(spans, whole=following < 0)
        start = following
    return {*found.spans()}


def forget(log: Log) -> None:
    """As after a start from a snapshot at the log's end."""
    log.producers.committed.clear()
    log.producers.committed.known_from = log.log_end_offset


def test_the_newest_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committed_transactions, "KEPT", 3)
    known = CommittedTransactions()
    for number in range(5):
        known.add(7, number, number * 10, number * 10 + 5)
    assert (known.known_from, len([*known.spans(0, 99)])) == (0, 5)
    known.add(7, 5, 50, 55)
    assert known.known_from == 26
    assert [*known.spans(0, 99)] == [span(7, n, n * 10, n * 10 + 5) for n in (3, 4, 5)]
    assert [*known.spans(36, 55)] == [span(7, 4, 40, 45)]
    known.clear()
    assert (known.known_from, [*known.spans(0, 99)]) == (0, [])


@pytest.mark.parametrize("in_memory", [True, False])
def test_committed_and_open_transactions_are_told(in_memory: bool) -> None:
    log = open_log(MemoryFiles(), config=TopicConfig(segment_bytes=300))
    put(log, 1, 0, 0, 3)
    put(log, 2, 4, 0)
    assert end(log, 1, 0) == 4
    assert end(log, 2, 4, commits=False) == 5
    put(log, 1, 1, 0)
    put(log, 3, 0, 0)
    assert end(log, 9, 6) == 8  # nothing was written here
    assert end(log, 3, 0) == 9
    if not in_memory:
        forget(log)
    whole = {span(1, 0, 0, 4), span(9, 6, 8, 8), span(3, 0, 7, 9), span(1, 1, 6)}
    for headers_max in (1, 2, 1_000):
        for spans_max in (1, 1_000):
            assert asked(log, 0, headers_max=headers_max, spans_max=spans_max) == whole
    # a marker that is not committed yet is none
    assert asked(log, 0, high_watermark=9) == whole - {span(3, 0, 7, 9)} | {
        span(3, 0, 7) for _ in range(in_memory)
    }
    assert asked(log, 0, 8) == {span(1, 0, 0, 4)}
    assert asked(log, 5, 9) == {span(9, 6, 8, 8)}
    names = {TransactionName(3, 0), TransactionName(2, 4), TransactionName(1, 1)}
    assert asked(log, 0, named=names) == {span(3, 0, 7, 9), span(1, 1, 6)}
    log.advance_log_start(Offset(6))
    assert asked(log, 0) == whole - {span(1, 0, 0, 4)}


def test_batches_are_read_for_those_alone_that_may_be_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = open_log(MemoryFiles())
    put(log, 1, 0, 0)
    end(log, 1, 0)
    put(log, 1, 1, 0)
    forget(log)
    reads = []
    read = log._reader.transactions

    def transactions(*args, **kwargs):  # type: ignore[no-untyped-def]
        reads.append(args)
        return read(*args, **kwargs)

    monkeypatch.setattr(log._reader, "transactions", transactions)
    assert asked(log, 0, named={TransactionName(2, 0)}) == set()  # a producer it does not know
    assert asked(log, 0, named={TransactionName(1, 1)}) == {span(1, 1, 2)}
    assert reads == []
    assert asked(log, 0, named={TransactionName(1, 0)}) == {span(1, 0, 0, 1)}
    assert len(reads) == 1


@pytest.mark.parametrize("seed", range(10))
def test_both_ways_tell_what_was_written(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committed_transactions, "KEPT", 4)
    rng = random.Random(seed)
    files, config = MemoryFiles(), TopicConfig(segment_bytes=rng.choice([400, 1_500, 100_000]))
    log = open_log(files, config=config)
    epochs, open_now = dict.fromkeys(range(4), 0), dict[int, tuple[int, int]]()
    done: list[TransactionSpan] = []
    for _ in range(150):
        producer = rng.randrange(4)
        if producer not in open_now:
            open_now[producer] = put(log, producer, epochs[producer], 0), 1
        elif rng.random() < 0.5:
            first, sequence = open_now[producer]
            put(log, producer, epochs[producer], sequence)
            open_now[producer] = first, sequence + 1
        else:
            first, _ = open_now.pop(producer)
            commits = rng.random() < 0.7
            marker = end(log, producer, epochs[producer], commits=commits)
            if commits:
                done.append(span(producer, epochs[producer], first, marker))
            epochs[producer] += 1
        if rng.random() < 0.02:
            log.close(clean=rng.random() < 0.5)
            log = open_log(files, config=config)
    opened = {span(p, epochs[p], first) for p, (first, _) in open_now.items()}
    for _ in range(30):
        start = rng.randrange(log.log_end_offset)
        found = asked(
            log, start, spans_max=rng.choice([1, 3, 99]), headers_max=rng.choice([1, 7, 999])
        )
        # where batches are read, what lies before the start is not known
        assert {(each.name, each.marker) for each in found} == {
            (each.name, each.marker) for each in [*done, *opened] if not 0 <= each.marker < start
        }
        firsts = {each.name: each.first for each in [*done, *opened]}
        assert all(
            firsts[each.name] == each.first or firsts[each.name] < start <= each.first
            for each in found
        )
        names = {each.name for each in rng.sample(done, min(3, len(done)))}
        expected = {each for each in done if each.name in names}
        assert asked(log, 0, named=names, headers_max=rng.choice([5, 999])) == expected


def test_a_truncated_log_knows_nothing_of_what_was_cut() -> None:
    log = open_log(MemoryFiles())
    put(log, 1, 0, 0)
    end(log, 1, 0)
    cut = put(log, 1, 1, 0)
    end(log, 1, 1)
    log.truncate_to(Offset(cut + 1))
    assert asked(log, 0) == {span(1, 0, 0, 1), span(1, 1, cut)}
    log.truncate_fully_and_start_at(Offset(7))
    assert asked(log, 0) == set()


def test_two_transactions_of_one_epoch_count_as_one() -> None:
    """So it is under transaction version 1."""
    found = FoundTransactions()
    found.add([span(1, 0, 2, 4), span(1, 0, 6)], whole=False)
    found.add([span(1, 0, 6, 9)], whole=True)
    assert found.spans() == [span(1, 0, 2, 9)]
    found.add([span(1, 0, 11)], whole=True)
    assert found.spans() == [span(1, 0, 2)]


def test_what_was_open_where_an_answer_ended_and_is_not_told_again_was_aborted() -> None:
    found = FoundTransactions()
    found.add([span(1, 0, 2), span(2, 0, 3), span(3, 0, 4, 5)], whole=False)
    found.add([span(2, 0, 7, 8), span(3, 0, 9)], whole=False)
    assert len(found) == 3
    found.add([], whole=True)
    assert {*found.spans()} == {span(2, 0, 3, 8), span(3, 0, 4, 5)}


def test_cold_pages_are_read_elsewhere() -> None:
    files = MemoryFiles()
    log = open_log(files)
    put(log, 1, 0, 0)
    end(log, 1, 0)
    forget(log)
    files.cold = True
    with pytest.raises(PagesCold):
        log.transactions(0, high_watermark=2, spans_max=9, headers_max=9, nowait=True)
    assert asked(log, 0) == {span(1, 0, 0, 1)}
