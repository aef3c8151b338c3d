"""Offsets by time and by name, and the deletion of records."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pylog import errors
from pylog.model import BrokerId, LeaderEpoch, Offset, PartitionEpoch, TopicPartition
from pylog.records.builder import encode_batch
from pylog_broker.replication.effects import ColdRead, DeleteRecordsDone, OffsetsListed
from pylog_broker.replication.look_ups import COLD_READS_MAX
from pylog_broker.replication.offset_messages import DeleteRecords, OffsetQuery
from tests.fakes.broker_group import T0, TOPIC_ID, WALL_MS, BrokerGroup
from tests.fakes.paged_files import PagedFiles

ONE, TWO, THREE = (BrokerId(number) for number in (1, 2, 3))
T1, T99 = TopicPartition("t", 1), TopicPartition("t", 99)


@pytest.fixture
def group(tmp_path: Path) -> BrokerGroup:
    group = BrokerGroup(tmp_path)
    group.create_topic(partitions=2)
    group.run()
    return group


def offset(group: BrokerGroup, timestamp_ms: int, broker: int = 1) -> tuple[int, int]:
    answer = group.offset_of(broker, OffsetQuery(T0, timestamp_ms))
    return (answer.failure.code if answer.failure else 0), answer.offset


def test_offsets_by_time_and_by_name(group: BrokerGroup) -> None:
    """Bad input 36."""
    for at in (1_000, 3_000, 2_000):
        group.produce(1, batch=encode_batch([b"v"], timestamps=WALL_MS + at))
    group.run()
    assert offset(group, -1) == (0, 3)
    assert offset(group, -2) == (0, 0)
    assert offset(group, -3) == (0, 1)
    assert offset(group, WALL_MS + 1_001) == (0, 1)
    assert offset(group, WALL_MS + 3_001) == (0, -1)
    assert offset(group, 2**63 - 1) == (0, -1)
    assert offset(group, -4)[0] == errors.InvalidRequest.code
    assert offset(group, -1, broker=2)[0] == errors.NotLeaderOrFollower.code
    answer = group.offset_of(1, OffsetQuery(T0, -1, LeaderEpoch(4)))
    assert answer.failure is not None
    assert answer.failure.code == errors.UnknownLeaderEpoch.code
    answer = group.offset_of(1, OffsetQuery(T0, WALL_MS + 3_000))
    assert (answer.offset, answer.timestamp_ms, answer.leader_epoch) == (1, WALL_MS + 3_000, 0)
    assert answer.topic_id == TOPIC_ID


def test_a_look_up_by_time_reads_cold_pages_elsewhere(tmp_path: Path) -> None:
    group = BrokerGroup(tmp_path, 1)
    group.create_topic((1,))
    group.run()
    for at in range(50):
        group.produce(1, batch=encode_batch([b"v" * 1_000], timestamps=WALL_MS + at))
    group.run()
    files, manager = PagedFiles(), group.managers[ONE]
    log = group.logs[ONE].get(T0)
    assert log is not None
    log._reader._files = files  # of the files that the test reads nothing is in memory
    queries = (OffsetQuery(T0, -1), OffsetQuery(T0, WALL_MS + 40), OffsetQuery(T0, -3))
    [effect] = manager.list_offsets(group.now_ms, queries, "token")
    rounds = 0
    while isinstance(effect, ColdRead):
        assert files.waited_for == [], "the broker's loop waited for the disk"
        assert callable(effect.read)
        effect.read()
        files.waited_for.clear()
        rounds += 1
        [effect] = manager.on_cold_read(group.now_ms, effect)
    assert isinstance(effect, OffsetsListed)
    assert [answer.offset for answer in effect.answers] == [50, 40, 49]
    assert 1 <= rounds <= 3
    assert files.waited_for == []


def test_a_look_up_waits_for_the_disk_where_no_page_stays_in_memory(tmp_path: Path) -> None:
    group = BrokerGroup(tmp_path, 1)
    group.create_topic((1,))
    group.run()
    group.produce(1, batch=encode_batch([b"v"], timestamps=WALL_MS))
    group.run()
    files, manager = PagedFiles(forgets=True), group.managers[ONE]
    log = group.logs[ONE].get(T0)
    assert log is not None
    log._reader._files = files
    [effect] = manager.list_offsets(group.now_ms, (OffsetQuery(T0, WALL_MS),), "token")
    for _ in range(COLD_READS_MAX):
        assert isinstance(effect, ColdRead)
        [effect] = manager.on_cold_read(group.now_ms, effect)
    assert isinstance(effect, OffsetsListed)
    assert [answer.offset for answer in effect.answers] == [0]


def test_a_look_up_is_forgotten_or_answered_by_what_is_true_when_its_pages_are_there(
    tmp_path: Path,
) -> None:
    group = BrokerGroup(tmp_path)
    group.create_topic()
    group.run()
    group.produce(1, batch=encode_batch([b"v"], timestamps=WALL_MS))
    group.run()
    manager = group.managers[ONE]
    log = group.logs[ONE].get(T0)
    assert log is not None
    log._reader._files = PagedFiles(forgets=True)
    asked = (OffsetQuery(T0, WALL_MS),)
    [first] = manager.list_offsets(group.now_ms, asked, "gives up")
    [second] = manager.list_offsets(group.now_ms, asked, "waits")
    manager.cancel("gives up")
    assert isinstance(first, ColdRead)
    assert isinstance(second, ColdRead)
    assert manager.on_cold_read(group.now_ms, first) == []
    group.elect(2)
    group.tell(ONE)
    [listed] = [e for e in manager.on_cold_read(group.now_ms, second) if e is not None][:1]
    assert isinstance(listed, OffsetsListed)
    failure = listed.answers[0].failure
    assert failure is not None
    assert failure.code == errors.NotLeaderOrFollower.code


def test_a_new_leader_does_not_let_the_end_move_back(group: BrokerGroup) -> None:
    """B-R29, KIP-207."""
    group.produce(1, b"a")
    group.run()
    assert offset(group, -1) == (0, 1)
    group.elect(2)
    group.cut_links = {(ONE, TWO), (THREE, TWO)}
    group.tell()
    group.run()
    assert group.marks(2) == (0, 0, 1)
    assert offset(group, -1, broker=2) == (errors.OffsetNotAvailable.code, -1)
    assert offset(group, WALL_MS + 10**6, broker=2) == (errors.OffsetNotAvailable.code, -1)
    assert offset(group, -2, broker=2) == (0, 0)
    group.cut_links = set()
    group.advance(1_001)
    assert offset(group, -1, broker=2) == (0, 1)


def low(group: BrokerGroup, token: object) -> list[tuple[int, int]]:
    done = group.answers[token]
    assert isinstance(done, DeleteRecordsDone)
    return [
        (mark.failure.code if mark.failure else 0, mark.low_watermark) for mark in done.watermarks
    ]


def delete(group: BrokerGroup, *offsets: tuple[TopicPartition, int]) -> object:
    wanted = tuple((name, Offset(offset)) for name, offset in offsets)
    return group.send(1, DeleteRecords(wanted, 5_000))


def test_records_are_deleted_everywhere_before_the_answer(group: BrokerGroup) -> None:
    """F-R33, F-R34."""
    group.produce(1, b"a", b"b", b"c")
    group.advance(10)
    token = delete(group, (T0, 2))
    assert token not in group.answers
    group.advance(10)
    assert low(group, token) == [(0, 2)]
    assert [group.marks(broker) for broker in (1, 2, 3)] == [(2, 3, 3)] * 3
    token = delete(group, (T0, -1), (T0, 0))
    group.run()
    assert low(group, token)[0][0] == errors.InvalidRequest.code
    token = delete(group, (T0, -1), (T99, 0), (T1, 5))
    group.advance(10)
    assert low(group, token) == [
        (0, 3),
        (errors.UnknownTopicOrPartition.code, -1),
        (errors.OffsetOutOfRange.code, -1),
    ]
    assert group.marks(3) == (3, 3, 3)


def test_deleting_waits_for_live_replicas_only_and_not_for_ever(group: BrokerGroup) -> None:
    group.produce(1, b"a", b"b")
    group.advance(10)
    group.cut_links = {(THREE, ONE)}
    token = delete(group, (T0, 1))
    group.advance(5_000)
    assert low(group, token) == [(errors.RequestTimedOut.code, -1)]
    again = delete(group, (T0, 2))
    group.advance(1_000)
    assert again not in group.answers
    group.append(replace(group.image.brokers[THREE], fenced=True))
    group.tell()
    group.run()
    assert low(group, again) == [(0, 2)]


def test_deleting_waits_for_as_many_replicas_as_a_commit(tmp_path: Path) -> None:
    """An eligible replica that is away has not heard of it, and may lead next (KIP-966)."""
    group = BrokerGroup(tmp_path)
    group.create_topic(min_isr=2)
    group.run()
    group.produce(1, b"a", b"b")
    group.advance(10)
    old = group.record()
    for broker in (TWO, THREE):
        group.append(replace(group.image.brokers[broker], fenced=True))
    epoch = PartitionEpoch(old.partition_epoch + 1)
    alone = replace(old, isr=(ONE,), partition_epoch=epoch, eligible_leader_replicas=(TWO, THREE))
    group.append(alone)
    group.cut_links = {(TWO, ONE), (THREE, ONE)}
    group.tell()
    group.run()
    token = delete(group, (T0, 1))
    group.advance(5_000)
    done = group.answers[token]
    assert isinstance(done, DeleteRecordsDone)
    failure = done.watermarks[0].failure
    assert failure is not None
    assert failure.code == errors.RequestTimedOut.code
    assert "min.insync.replicas" in failure.message
    again = delete(group, (T0, 1))
    group.append(replace(group.image.brokers[TWO], fenced=False))
    epoch = PartitionEpoch(epoch + 1)
    group.append(replace(alone, isr=(ONE, TWO), partition_epoch=epoch, eligible_leader_replicas=()))
    group.cut_links = {(THREE, ONE)}
    group.tell()
    group.advance(1_000)
    assert low(group, again) == [(0, 1)]


def test_a_replica_fenced_out_of_the_isr_does_not_complete_a_deletion(tmp_path: Path) -> None:
    """One change fences it and takes it from the ISR, and it may lead next: it does not count as
    away before the ISR counts as too small.
    """
    group = BrokerGroup(tmp_path)
    group.create_topic(replicas=(1, 2), min_isr=2)
    group.run()
    group.produce(1, b"a", b"b")
    group.advance(10)
    group.cut_links = {(TWO, ONE)}
    token = delete(group, (T0, 1))
    group.run()
    assert token not in group.answers
    old = group.record()
    epoch = PartitionEpoch(old.partition_epoch + 1)
    group.append(
        replace(group.image.brokers[TWO], fenced=True),
        replace(old, isr=(ONE,), partition_epoch=epoch, eligible_leader_replicas=(TWO,)),
    )
    group.tell()
    group.run()
    assert token not in group.answers


def test_the_end_comes_with_the_time_of_what_is_unread(group: BrokerGroup) -> None:
    """From the beginning of a batch, from inside one, from before the log's start, at the end."""
    for times in ([1_000, 5_000, 2_000], [3_000, 4_000]):
        stamps = [WALL_MS + each for each in times]
        group.produce(1, batch=encode_batch([b"v"] * len(stamps), timestamps=stamps))
    group.run()

    def time_from(offset: int | None) -> int:
        answer = group.offset_of(1, OffsetQuery(T0, -1, from_offset=offset))
        assert (answer.failure, answer.offset, answer.leader_epoch) == (None, 5, 0)
        return answer.timestamp_ms - WALL_MS if answer.timestamp_ms >= 0 else -1

    ages = [time_from(offset) for offset in range(5)]
    assert ages == [1_000, 5_000, 2_000, 3_000, 4_000]
    assert [time_from(5), time_from(9), time_from(None)] == [-1, -1, -1]
    group.send(1, DeleteRecords(((T0, Offset(4)),), 5_000))
    group.run()
    assert time_from(0) == 4_000
