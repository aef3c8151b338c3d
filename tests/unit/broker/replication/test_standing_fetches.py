"""A fetch that is answered several times, each time from where the answer before ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from pylog import errors
from pylog.model import BrokerId, LeaderEpoch, Offset, TopicPartition
from pylog.records.batch import last_header
from pylog_broker.replication.effects import FetchDone, FetchStands
from pylog_broker.replication.fetch_messages import Fetch, PartitionData, PartitionFetch, Standing
from pylog_broker.replication.fetches import STANDING_BURST, STANDING_PER_MS
from tests.fakes.broker_group import T0, BrokerGroup

ONE = BrokerId(1)
T1 = TopicPartition("t", 1)


@pytest.fixture
def group(tmp_path: Path) -> BrokerGroup:
    group = BrokerGroup(tmp_path)
    group.create_topic(partitions=2)
    group.run()
    return group


def stand(
    group: BrokerGroup,
    *names: TopicPartition,
    answers: int = 10,
    size: int = 10_000,
    epoch: int = 0,
    wait_ms: int = 500,
) -> object:
    items = tuple(
        PartitionFetch(name, None, Offset(0), 1 << 20, LeaderEpoch(epoch))
        for name in names or (T0,)
    )
    return group.send(1, Fetch(wait_ms, 1, 1 << 20, items, False, Standing(answers, size)))


def append(group: BrokerGroup, value: bytes = b"v", name: TopicPartition = T0) -> None:
    group.advance(1)
    group.produce(1, value, name=name)
    group.run()


def told(group: BrokerGroup, token: object) -> list[tuple[PartitionData, ...]]:
    """All answers but the last."""
    return [effect.partitions for effect in group.standing.get(token, [])]


def ended(group: BrokerGroup, token: object) -> tuple[PartitionData, ...] | None:
    group.run()
    done = group.answers.get(token)
    assert done is None or isinstance(done, FetchDone)
    return None if done is None else done.partitions


def test_each_answer_begins_where_the_one_before_ended(group: BrokerGroup) -> None:
    token = stand(group, T0, T1)
    for value in (b"a", b"b", b"c"):
        append(group, value)
    append(group, b"d", T1)
    answers = told(group, token)
    assert b"".join(bytes(first.records) for first, _ in answers) == group.stored(1)
    assert b"".join(bytes(second.records) for _, second in answers) == group.stored(1, T1)
    assert [first.high_watermark for first, _ in answers] == [1, 2, 3, 3]
    assert ended(group, token) is None


def test_the_last_answer_ends_it(group: BrokerGroup) -> None:
    token = stand(group, answers=3)
    for _ in range(4):
        append(group)
    assert len(told(group, token)) == 2
    (last,) = ended(group, token) or ()
    header = last_header(last.records)
    assert header is not None
    assert header.base_offset == 2


def test_so_do_its_bytes(group: BrokerGroup) -> None:
    token = stand(group, size=600)
    for _ in range(4):
        append(group, b"x" * 180)
    assert len(told(group, token)) == 2
    assert ended(group, token) is not None


def test_what_is_far_behind_is_answered_once(group: BrokerGroup) -> None:
    for _ in range(3):
        append(group, b"x" * 5_000)
    token = stand(group)
    assert told(group, token) == []
    assert ended(group, token) is not None


def test_with_more_to_read_it_ends(group: BrokerGroup) -> None:
    for _ in range(3):
        append(group, b"x" * 100)
    item = PartitionFetch(T0, None, Offset(0), 200, LeaderEpoch(0))
    token = group.send(1, Fetch(500, 1, 1 << 20, (item,), False, Standing(10, 10_000)))
    assert told(group, token) == []
    assert ended(group, token) is not None


def test_an_empty_answer_counts_and_it_waits_again(group: BrokerGroup) -> None:
    token = stand(group, answers=3)
    group.advance(500)
    assert [data.records for (data,) in told(group, token)] == [b""]
    group.advance(499)
    assert len(told(group, token)) == 1
    group.advance(1)
    assert len(told(group, token)) == 2
    group.advance(500)
    assert ended(group, token) is not None


def test_more_often_than_a_reader_can_ask_it_is_not_answered(group: BrokerGroup) -> None:
    token = stand(group, answers=1_000, size=1 << 20)
    for _ in range(STANDING_BURST + 5):
        group.produce(1, b"v")
        group.run()
    assert len(told(group, token)) == STANDING_BURST
    assert ended(group, token) is not None
    token = group.send(1, Fetch(500, 1, 1 << 20, (PartitionFetch(
        T0, None, Offset(STANDING_BURST + 5), 1 << 20, LeaderEpoch(0)
    ),), False, Standing(1_000, 1 << 20)))  # fmt: skip
    for _ in range(20):
        group.advance(1)
        for _ in range(STANDING_PER_MS):
            group.produce(1, b"v")
            group.run()
    assert len(told(group, token)) == 20 * STANDING_PER_MS


def test_a_new_leader_ends_it(group: BrokerGroup) -> None:
    token = stand(group)
    append(group)
    group.elect(2)
    group.tell()
    group.run()
    (data,) = ended(group, token) or ()
    assert data.failure is not None
    assert data.failure.code == errors.FencedLeaderEpoch.code
    assert (len(told(group, token)), data.current_leader) == (1, 2)


def test_a_new_epoch_of_the_same_leader_ends_it(group: BrokerGroup) -> None:
    token = stand(group)
    append(group)
    group.elect(1)
    group.tell()
    group.run()
    (data,) = ended(group, token) or ()
    assert data.failure is not None
    assert data.failure.code == errors.FencedLeaderEpoch.code


def test_who_names_no_epoch_is_answered_once(group: BrokerGroup) -> None:
    token = stand(group, epoch=-1)
    append(group)
    assert told(group, token) == []
    assert ended(group, token) is not None


def test_one_bad_partition_ends_it(group: BrokerGroup) -> None:
    token = stand(group, T0, TopicPartition("t", 9))
    assert told(group, token) == []
    assert ended(group, token) is not None


def test_who_does_not_wait_is_answered_once(group: BrokerGroup) -> None:
    token = stand(group, wait_ms=0)
    assert told(group, token) == []
    assert ended(group, token) is not None


def test_cancelled_it_leaves_nothing(group: BrokerGroup) -> None:
    token = stand(group)
    append(group)
    group.managers[ONE].cancel(token)
    append(group)
    group.advance(1_000)
    assert len(told(group, token)) == 1
    assert ended(group, token) is None
    assert isinstance(group.standing[token][0], FetchStands)
