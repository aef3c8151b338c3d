"""Transactions of ranges, asked of the leader."""

from __future__ import annotations

from pathlib import Path

import pytest

from pylog import errors
from pylog.model import (
    BrokerId,
    LeaderEpoch,
    Offset,
    TopicPartition,
    TransactionName,
    TransactionSpan,
)
from pylog.records.builder import ControlType, encode_control_batch
from pylog_broker.replication.effects import ColdRead, RangeTransactionsDescribed
from pylog_broker.replication.range_messages import RangeTransactionsAnswer, RangeTransactionsQuery
from pylog_broker.storage.log.log import Log
from pylog_broker.storage.log.validator import INTERNAL
from tests.fakes.broker_group import T0, TOPIC_ID, WALL_MS, BrokerGroup
from tests.fakes.logs import batch_of
from tests.fakes.paged_files import PagedFiles

ONE, TWO, THREE = (BrokerId(number) for number in (1, 2, 3))
COMMITTED = TransactionSpan(TransactionName(7, 0), 0, 3)
OPEN = TransactionSpan(TransactionName(7, 1), 4)


@pytest.fixture
def group(tmp_path: Path) -> BrokerGroup:
    group = BrokerGroup(tmp_path)
    group.create_topic(partitions=2)
    group.run()
    log = log_of(group)
    for batch in (
        batch_of(b"a", b"b", b"c", producer=(7, 0, 0), transactional=True),
        marker(7, 1),
        batch_of(b"d", producer=(7, 1, 0), transactional=True),
    ):
        append(log, batch)
    group.produce(1, b"e")
    group.run()
    return group


def log_of(group: BrokerGroup, broker: BrokerId = ONE) -> Log:
    log = group.logs[broker].get(T0)
    assert log is not None
    return log


def marker(producer: int, epoch: int) -> bytes:
    return encode_control_batch(
        ControlType.COMMIT,
        producer_id=producer,
        producer_epoch=epoch,
        coordinator_epoch=0,
        timestamp_ms=WALL_MS,
    )


def append(log: Log, batch: bytes) -> None:
    log.append_as_leader(batch, leader_epoch=LeaderEpoch(0), wall_ms=WALL_MS, origin=INTERNAL)


def ask(
    group: BrokerGroup, *queries: RangeTransactionsQuery, broker: BrokerId = ONE
) -> list[RangeTransactionsAnswer]:
    [effect] = group.managers[broker].describe_transactions(group.now_ms, queries, "token")
    assert isinstance(effect, RangeTransactionsDescribed)
    assert effect.token == "token"
    return [*effect.answers]


def test_transactions_and_the_last_stable_offset(group: BrokerGroup) -> None:
    empty = TopicPartition("t", 1)
    assert ask(group, RangeTransactionsQuery(T0, 0), RangeTransactionsQuery(empty, 0)) == [
        RangeTransactionsAnswer(T0, None, TOPIC_ID, Offset(4), (COMMITTED, OPEN)),
        RangeTransactionsAnswer(empty, None, TOPIC_ID, Offset(0)),
    ]
    named = frozenset({OPEN.name})
    assert ask(group, RangeTransactionsQuery(T0, 0, named=named))[0].spans == (OPEN,)
    assert ask(group, RangeTransactionsQuery(T0, 0, 4))[0].spans == (COMMITTED,)


def test_a_marker_that_is_not_committed_is_none(group: BrokerGroup) -> None:
    group.cut_links = {(ONE, TWO), (ONE, THREE)}
    append(log_of(group), marker(7, 2))
    assert ask(group, RangeTransactionsQuery(T0, 4))[0].spans == (OPEN,)


def test_a_follower_that_leads_knows_the_same(group: BrokerGroup) -> None:
    group.elect(2)
    group.tell()
    group.run()
    group.advance(1_001)
    [answer] = ask(group, RangeTransactionsQuery(T0, 0), broker=TWO)
    assert (answer.failure, answer.spans) == (None, (COMMITTED, OPEN))


def test_others_than_the_leader_refuse(group: BrokerGroup) -> None:
    def code(query: RangeTransactionsQuery, broker: BrokerId = ONE) -> int:
        [answer] = ask(group, query, broker=broker)
        assert answer.failure is not None
        assert answer.spans == ()
        return answer.failure.code

    assert code(RangeTransactionsQuery(T0, 0), TWO) == errors.NotLeaderOrFollower.code
    newer = RangeTransactionsQuery(T0, 0, current_leader_epoch=LeaderEpoch(4))
    assert code(newer) == errors.UnknownLeaderEpoch.code
    missing = RangeTransactionsQuery(TopicPartition("t", 99), 0)
    assert code(missing) == errors.UnknownTopicOrPartition.code


def test_a_new_leader_tells_nothing_before_it_knows_what_is_committed(group: BrokerGroup) -> None:
    group.elect(2)
    group.cut_links = {(ONE, TWO), (THREE, TWO)}
    group.tell()
    group.run()
    [answer] = ask(group, RangeTransactionsQuery(T0, 0), broker=TWO)
    assert answer.failure is not None
    assert answer.failure.code == errors.OffsetNotAvailable.code


def test_the_loop_does_not_wait_for_the_disk(group: BrokerGroup) -> None:
    files, manager = PagedFiles(), group.managers[ONE]
    log = log_of(group)
    log._reader._files = files  # of the files that the test reads nothing is in memory
    log.producers.committed.clear()
    log.producers.committed.known_from = log.log_end_offset
    [effect] = manager.describe_transactions(
        group.now_ms, [RangeTransactionsQuery(T0, 0, 6)], "token"
    )
    while isinstance(effect, ColdRead):
        assert files.waited_for == [], "the broker's loop waited for the disk"
        assert callable(effect.read)
        effect.read()
        files.waited_for.clear()
        [effect] = manager.on_cold_read(group.now_ms, effect)
    assert isinstance(effect, RangeTransactionsDescribed)
    answer = effect.answers[0]
    assert (answer.spans, answer.next_offset) == ((COMMITTED, OPEN), 6)
    log._reader._files = PagedFiles(forgets=True)
    [first] = manager.describe_transactions(
        group.now_ms, [RangeTransactionsQuery(T0, 0, 6)], "gives up"
    )
    manager.cancel("gives up")
    assert isinstance(first, ColdRead)
    assert manager.on_cold_read(group.now_ms, first) == []
