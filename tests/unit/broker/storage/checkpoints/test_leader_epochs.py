"""The epoch cache: the table of KIP-101's questions."""

from __future__ import annotations

from pylog.model import LeaderEpoch, Offset
from pylog_broker.storage.checkpoints.leader_epochs import (
    EpochEndOffset,
    EpochEntry,
    LeaderEpochCache,
)


def cache_of(*entries: tuple[int, int]) -> LeaderEpochCache:
    return LeaderEpochCache(EpochEntry(LeaderEpoch(e), Offset(o)) for e, o in entries)


def ends(cache: LeaderEpochCache, epoch: int, log_end: int = 100) -> tuple[int, int]:
    found = cache.end_offset_for(LeaderEpoch(epoch), Offset(log_end))
    assert isinstance(found, EpochEndOffset)
    return found


def test_an_empty_cache_knows_nothing() -> None:
    cache = cache_of()
    assert cache.latest == -1
    assert ends(cache, 0) == (-1, -1)
    assert ends(cache, -1) == (-1, -1)
    assert cache.epoch_at(Offset(5)) == -1


def test_end_offsets() -> None:
    cache = cache_of((2, 10), (4, 20), (7, 50))
    assert ends(cache, 7) == (7, 100)
    assert ends(cache, 8) == (-1, -1)  # newer than all that is known
    assert ends(cache, 4) == (4, 50)
    assert ends(cache, 5) == (4, 50)  # the largest below
    assert ends(cache, 3) == (2, 20)
    assert ends(cache, 2) == (2, 20)
    assert ends(cache, 1) == (1, 10)  # older than all: ends where the oldest begins
    assert ends(cache, -1) == (-1, -1)


def test_epoch_at() -> None:
    cache = cache_of((2, 10), (4, 20))
    assert [cache.epoch_at(Offset(o)) for o in (0, 9, 10, 19, 20, 99)] == [-1, -1, 2, 2, 4, 4]


def test_assign() -> None:
    cache = cache_of((2, 10))
    cache.assign(LeaderEpoch(2), Offset(15))
    assert (cache.entries, cache.changed) == (((2, 10),), False)
    cache.assign(LeaderEpoch(3), Offset(15))
    assert (cache.entries, cache.changed) == (((2, 10), (3, 15)), True)
    cache.written()
    cache.assign(LeaderEpoch(4), Offset(15))  # epoch 3 wrote nothing
    assert cache.entries == ((2, 10), (4, 15))
    cache.assign(LeaderEpoch(3), Offset(12))  # the log was cut and written by an older epoch
    assert cache.entries == ((2, 10), (3, 12))


def test_truncation() -> None:
    cache = cache_of((2, 10), (4, 20), (7, 50))
    cache.truncate_from_end(Offset(50))
    assert cache.entries == ((2, 10), (4, 20))
    cache.written()
    cache.truncate_from_end(Offset(21))
    assert not cache.changed
    cache.truncate_from_start(Offset(25))
    assert cache.entries == ((4, 25),)
    cache = cache_of((2, 10), (4, 20))
    cache.truncate_from_start(Offset(5))
    assert cache.entries == ((2, 10), (4, 20))
    cache.truncate_from_start(Offset(12))
    assert cache.entries == ((2, 12), (4, 20))
    cache.truncate_from_start(Offset(20))
    assert cache.entries == ((4, 20),)
    cache.clear()
    assert cache.entries == ()
    assert cache.changed
