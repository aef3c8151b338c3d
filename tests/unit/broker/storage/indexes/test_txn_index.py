"""The index of aborted transactions: found in memory, against a plain search."""

from __future__ import annotations

import random

import pytest

from pylog.model import LeaderEpoch
from pylog.records.builder import ControlType, encode_control_batch
from pylog_broker.config import TopicConfig
from pylog_broker.storage.errors import InvalidOffset
from pylog_broker.storage.indexes.txn_index import (
    AbortedTransaction,
    TxnIndex,
    decode_entries,
    encode_entry,
)
from pylog_broker.storage.log.validator import INTERNAL, Origin
from tests.fakes.logs import WALL_MS, batch_of, open_log
from tests.fakes.memory_files import MemoryFiles

VERIFIED = Origin(transaction_verified=True)
PATH = "/data/t-0/00000000000000000100.txnindex"


class ReadsCounted(MemoryFiles):
    """Files that count the reads of the index."""

    reads = 0

    def read_all(self, path: str) -> bytes:
        self.reads += path.endswith(".txnindex")
        return super().read_all(path)


def some(rng: random.Random, count: int) -> list[AbortedTransaction]:
    """Markers in order, transactions that overlap; the stable offset never moves back."""
    entries, last, stable = [], 100, 100
    for _ in range(count):
        last += rng.randrange(1, 20)
        stable = max(stable, last - rng.randrange(1, 30))
        first = max(0, last - rng.randrange(40))
        entries.append(AbortedTransaction(rng.randrange(5), first, last, stable))
    return entries


def plain(
    entries: list[AbortedTransaction], offset: int, upper_bound: int
) -> tuple[list[AbortedTransaction], bool]:
    found = []
    for entry in entries:
        if entry.last_offset >= offset and entry.first_offset < upper_bound:
            found.append(entry)
        if entry.last_stable_offset >= upper_bound:
            return found, True
    return found, False


@pytest.mark.parametrize("seed", range(20))
def test_a_look_up_finds_what_a_plain_search_finds(seed: int) -> None:
    rng = random.Random(seed)
    files = ReadsCounted()
    files.mkdir("/data/t-0")
    entries = some(rng, rng.randrange(80))
    index = TxnIndex(files, PATH, 100)
    half = rng.randrange(len(entries) + 1)
    for entry in entries[:half]:
        index.append(entry)
    assert index.entries() == entries[:half]
    for entry in entries[half:]:
        index.append(entry)
    for again in (index, TxnIndex(files, PATH, 100)):
        files.reads = 0
        for _ in range(100):
            offset = rng.randrange(50, 1200)
            bound = offset + rng.randrange(200)
            found, is_all = again.overlapping(offset, bound)
            expected, is_all_expected = plain(entries, offset, bound)
            assert found == expected
            assert is_all or not is_all_expected or not found or entries[-1].last_offset < offset
        assert files.reads == (0 if again is index else 1)
        end = rng.randrange(100, 1000)
    index.truncate_to_offset(end)
    assert index.entries() == [entry for entry in entries if entry.last_offset < end]


def test_what_makes_no_sense_is_refused() -> None:
    files = MemoryFiles()
    files.mkdir("/data/t-0")
    good = [AbortedTransaction(1, 100, 105, 105), AbortedTransaction(1, 106, 110, 110)]
    for bad in (
        [good[1], good[0]],
        [AbortedTransaction(1, 100, 99, 99)],
        [AbortedTransaction(1, 107, 106, 106)],
    ):
        data = b"".join(map(encode_entry, bad))
        files.write_atomic(PATH, data)
        with pytest.raises(InvalidOffset):
            TxnIndex(files, PATH, 100).overlapping(0, 1000)
        with pytest.raises(InvalidOffset):
            decode_entries(data, 100)
    for data in (b"x" * 33, b"\1" + encode_entry(good[0])[1:]):
        files.write_atomic(PATH, data)
        with pytest.raises(InvalidOffset):
            TxnIndex(files, PATH, 100).entries()


def test_fetches_of_a_log_read_each_index_once() -> None:
    files = ReadsCounted()
    log = open_log(files, config=TopicConfig(segment_bytes=400))
    epoch = LeaderEpoch(0)
    for number in range(60):
        producer = (number, 0, 0)
        batch = batch_of(b"v" * 20, producer=producer, transactional=True)
        log.append_as_leader(batch, leader_epoch=epoch, wall_ms=WALL_MS, origin=VERIFIED)
        marker = encode_control_batch(
            ControlType.ABORT,
            producer_id=number,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp_ms=WALL_MS,
        )
        log.append_as_leader(marker, leader_epoch=epoch, wall_ms=WALL_MS, origin=INTERNAL)
    end_offset = log.log_end_offset
    assert len(log.segments) > 20

    def looked_up(offset: int, upper_bound: int) -> list[int]:
        return [entry.producer_id for entry in log.aborted_transactions(offset, upper_bound)]

    assert looked_up(0, end_offset) == list(range(60))
    for _ in range(5):
        files.reads = 0
        assert looked_up(20, 24) == [10, 11]
        assert looked_up(end_offset - 4, end_offset) == [58, 59]
    assert files.reads == 0, "a few segments keep theirs in memory"
    kept = sum(segment.txn_index.is_loaded for segment in log.segments)
    assert kept <= 10, "and not all"
