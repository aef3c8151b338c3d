"""Bytes of ranges, asked of the leader."""

from __future__ import annotations

from pathlib import Path

import pytest

from pylog import errors
from pylog.model import (
    BrokerId,
    LeaderEpoch,
    Offset,
    RangePiece,
    RangeSplit,
    TopicPartition,
)
from pylog.records.builder import encode_batch
from pylog_broker.replication.effects import ColdRead, RangesSplit
from pylog_broker.replication.range_messages import RangeAnswer, RangeQuery
from tests.fakes.broker_group import T0, TOPIC_ID, WALL_MS, BrokerGroup
from tests.fakes.paged_files import PagedFiles

ONE, TWO, THREE = (BrokerId(number) for number in (1, 2, 3))
BATCH = encode_batch([b"v" * 100] * 2, timestamps=WALL_MS)
SIZE = len(BATCH)


@pytest.fixture
def group(tmp_path: Path) -> BrokerGroup:
    group = BrokerGroup(tmp_path)
    group.create_topic(partitions=2)
    group.run()
    for _ in range(5):
        group.produce(1, batch=BATCH)
    group.run()
    return group


def ask(group: BrokerGroup, *queries: RangeQuery, broker: BrokerId = ONE) -> list[RangeAnswer]:
    [effect] = group.managers[broker].split_ranges(group.now_ms, queries, "token")
    assert isinstance(effect, RangesSplit)
    assert effect.token == "token"
    return [*effect.answers]


def test_bytes_and_pieces(group: BrokerGroup) -> None:
    empty = TopicPartition("t", 1)
    found = ask(
        group,
        RangeQuery(T0, 0, 10, piece_bytes=2 * SIZE, pieces_max=2),
        RangeQuery(empty, 0, 0),
    )
    pieces = RangePiece(4, 2 * SIZE), RangePiece(8, 2 * SIZE)
    assert found == [
        RangeAnswer(T0, None, TOPIC_ID, RangeSplit(5 * SIZE, pieces, RangePiece(10, SIZE))),
        RangeAnswer(empty, None, TOPIC_ID, RangeSplit(0)),
    ]
    [answer] = ask(group, RangeQuery(T0, 0, 10, piece_bytes=2 * SIZE, pieces_max=3, even=True))
    assert answer.split.pieces == (
        RangePiece(2, SIZE),
        RangePiece(6, 2 * SIZE),
        RangePiece(10, 2 * SIZE),
    )


def test_what_is_not_committed_or_deleted_does_not_count(group: BrokerGroup) -> None:
    assert ask(group, RangeQuery(T0, 0, 99))[0].split == RangeSplit(5 * SIZE)
    group.produce(1, batch=BATCH)  # nobody has fetched it
    assert ask(group, RangeQuery(T0, 0, 99))[0].split == RangeSplit(5 * SIZE)
    log = group.logs[ONE].get(T0)
    assert log is not None
    log.advance_log_start(Offset(4))
    assert ask(group, RangeQuery(T0, 0, 10))[0].split == RangeSplit(3 * SIZE)


def test_others_than_the_leader_refuse(group: BrokerGroup) -> None:
    def code(query: RangeQuery, broker: BrokerId = ONE) -> int:
        [answer] = ask(group, query, broker=broker)
        assert answer.failure is not None
        assert answer.split == RangeSplit(0)
        return answer.failure.code

    assert code(RangeQuery(T0, 0, 9), TWO) == errors.NotLeaderOrFollower.code
    newer = RangeQuery(T0, 0, 9, current_leader_epoch=LeaderEpoch(4))
    assert code(newer) == errors.UnknownLeaderEpoch.code
    missing = RangeQuery(TopicPartition("t", 99), 0, 9)
    assert code(missing) == errors.UnknownTopicOrPartition.code


def test_a_new_leader_tells_of_no_end_that_it_does_not_know(group: BrokerGroup) -> None:
    group.elect(2)
    group.cut_links = {(ONE, TWO), (THREE, TWO)}
    group.tell()
    group.run()
    [answer] = ask(group, RangeQuery(T0, 0, 10), broker=TWO)
    assert answer.failure is not None
    assert answer.failure.code == errors.OffsetNotAvailable.code
    group.cut_links = set()
    group.advance(1_001)
    [answer] = ask(group, RangeQuery(T0, 0, 10), broker=TWO)
    assert answer.split == RangeSplit(5 * SIZE)


def test_the_loop_does_not_wait_for_the_disk(tmp_path: Path) -> None:
    group = BrokerGroup(tmp_path, 1)
    group.create_topic((1,))
    group.run()
    for _ in range(60):
        group.produce(1, batch=encode_batch([b"v" * 3_000], timestamps=WALL_MS))
    group.run()
    files, manager = PagedFiles(), group.managers[ONE]
    log = group.logs[ONE].get(T0)
    assert log is not None
    log._reader._files = files  # of the files that the test reads nothing is in memory
    query = RangeQuery(T0, 3, 50, piece_bytes=20_000, pieces_max=25)
    [effect] = manager.split_ranges(group.now_ms, (query,), "token")
    rounds = 0
    while isinstance(effect, ColdRead):
        assert files.waited_for == [], "the broker's loop waited for the disk"
        assert callable(effect.read)
        effect.read()
        files.waited_for.clear()
        rounds += 1
        [effect] = manager.on_cold_read(group.now_ms, effect)
    assert isinstance(effect, RangesSplit)
    assert len(effect.answers[0].split.pieces) == 8
    assert 1 <= rounds <= 3
    assert files.waited_for == []
    log._reader._files = PagedFiles(forgets=True)
    [first] = manager.split_ranges(group.now_ms, (query,), "gives up")
    manager.cancel("gives up")
    assert isinstance(first, ColdRead)
    assert manager.on_cold_read(group.now_ms, first) == []
