"""Waits for records, asked of the leader."""

from __future__ import annotations

from pathlib import Path

import pytest

from pylog import errors
from pylog.model import BrokerId, LeaderEpoch, Offset, TopicPartition
from pylog.records.builder import encode_batch
from pylog_broker.replication.effects import RecordsArrived
from pylog_broker.replication.range_messages import RecordWait, WaitedPartition, WaitEnd
from pylog_broker.storage.log.validator import Origin
from tests.fakes.broker_group import T0, WALL_MS, BrokerGroup

ONE, TWO, THREE = (BrokerId(number) for number in (1, 2, 3))
T1 = TopicPartition("t", 1)


@pytest.fixture
def group(tmp_path: Path) -> BrokerGroup:
    group = BrokerGroup(tmp_path, 1)
    group.create_topic((1,), partitions=2)
    group.run()
    group.produce(1, b"a", b"b")
    group.run()
    return group


def wait(
    count: int, *, offset: int = 2, epoch: int = -1, max_wait_ms: int = 500, committed: bool = False
) -> RecordWait:
    places = (
        WaitedPartition(T0, offset, LeaderEpoch(epoch)),
        WaitedPartition(T1, 0, LeaderEpoch(epoch)),
    )
    return RecordWait(places, count, max_wait_ms, committed)


def arrived(group: BrokerGroup, token: object) -> list[tuple[TopicPartition, int, int]] | None:
    """(partition, error code, end) of an answer; None while there is none."""
    effect = group.answers.get(token)
    if effect is None:
        return None
    assert isinstance(effect, RecordsArrived)
    return [
        (end.topic_partition, end.failure.code if end.failure else 0, end.end_offset)
        for end in effect.ends
    ]


def test_what_is_there_is_answered_at_once(group: BrokerGroup) -> None:
    [told] = group.managers[ONE].await_records(group.now_ms, wait(2, offset=0), "token")
    ends = WaitEnd(T0, None, Offset(2)), WaitEnd(T1, None, Offset(0))
    assert told == RecordsArrived("token", ends)
    [told] = group.managers[ONE].await_records(group.now_ms, wait(9, max_wait_ms=0), "token")
    assert told == RecordsArrived("token", ends)


def test_records_of_all_partitions_count_together(group: BrokerGroup) -> None:
    token = group.send(1, wait(4))
    for name, count in ((T1, 1), (T0, 2), (T1, 1)):
        group.run()
        assert arrived(group, token) is None
        group.produce(1, *[b"v"] * count, name=name)
    group.run()
    assert arrived(group, token) == [(T0, 0, 4), (T1, 0, 2)]


def test_the_wait_ends_in_time_with_what_there_is(group: BrokerGroup) -> None:
    token = group.send(1, wait(4))
    group.produce(1, b"v")
    group.advance(499)
    assert arrived(group, token) is None
    group.advance(1)
    assert arrived(group, token) == [(T0, 0, 3), (T1, 0, 0)]


def test_what_is_not_committed_does_not_count(tmp_path: Path) -> None:
    group = BrokerGroup(tmp_path, 3)
    group.create_topic((1, 2, 3))
    group.run()
    request = RecordWait((WaitedPartition(T0, 0),), 1, 5_000)
    token = group.send(1, request)
    group.cut_links = {(TWO, ONE), (THREE, ONE)}
    group.produce(1, b"v")
    group.advance(400)
    assert arrived(group, token) is None
    group.cut_links = set()
    group.advance(1_001)
    assert arrived(group, token) == [(T0, 0, 1)]


def test_an_open_transaction_is_not_counted_by_a_committed_reader(group: BrokerGroup) -> None:
    batch = encode_batch([b"v"] * 5, producer_id=7, producer_epoch=0, base_sequence=0)
    transactional = encode_batch(
        [b"v"] * 5, producer_id=8, producer_epoch=0, base_sequence=0, transactional=True
    )
    log = group.logs[ONE].get(T0)
    assert log is not None
    committed, uncommitted = group.send(1, wait(6, committed=True)), group.send(1, wait(6))
    log.append_as_leader(
        transactional,
        leader_epoch=LeaderEpoch(0),
        wall_ms=WALL_MS,
        origin=Origin(transaction_verified=True),
    )
    group.produce(1, batch=batch)
    group.run()
    assert arrived(group, uncommitted) == [(T0, 0, 12), (T1, 0, 0)]
    assert arrived(group, committed) is None
    group.advance(500)
    assert arrived(group, committed) == [(T0, 0, 2), (T1, 0, 0)]


def test_others_than_the_leader_answer_at_once(tmp_path: Path) -> None:
    group = BrokerGroup(tmp_path)
    group.create_topic(partitions=2)
    group.run()
    other = group.send(2, wait(1, offset=0))
    moved = group.send(1, wait(1, offset=0))
    missing = group.send(
        1, RecordWait((WaitedPartition(TopicPartition("t", 9), 0), WaitedPartition(T0, 0)), 1, 500)
    )
    group.run()
    refused = errors.NotLeaderOrFollower.code
    assert arrived(group, other) == [(T0, refused, -1), (T1, refused, -1)]
    unknown = errors.UnknownTopicOrPartition.code
    assert arrived(group, missing) == [(T0, 0, 0), (TopicPartition("t", 9), unknown, -1)]
    assert arrived(group, moved) is None
    group.elect(2)
    group.tell(ONE)
    group.run()
    told = arrived(group, moved)
    assert told is not None
    assert told[0] == (T0, refused, -1)


def test_a_wait_that_is_given_up_is_forgotten(group: BrokerGroup) -> None:
    manager = group.managers[ONE]
    assert manager.await_records(group.now_ms, wait(5), "gives up") == []
    assert len(manager._room) == 1
    manager.cancel("gives up")
    assert len(manager._room) == 0
    group.produce(1, *[b"v"] * 9)
    group.advance(1_000)
    assert "gives up" not in group.answers
