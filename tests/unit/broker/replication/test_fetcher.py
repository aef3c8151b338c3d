"""When a follower broker asks a leader, and for what."""

from __future__ import annotations

from broker.config import TopicConfig
from broker.replication.fetcher import LeaderFetcher
from broker.replication.partition import Partition
from pylog.model import BrokerId, Offset, TopicId, TopicPartition


def partition(number: int) -> Partition:
    name = TopicPartition("t", number)
    return Partition(BrokerId(2), name, TopicId("t" * 22), TopicConfig(), None, Offset(0))


A, B, C = (partition(number) for number in range(3))


def make(*partitions: Partition) -> LeaderFetcher:
    fetcher = LeaderFetcher(BrokerId(1), 50, 1_000)
    for item in partitions:
        fetcher.add(item)
    return fetcher


def test_one_fetch_is_in_flight() -> None:
    fetcher = make(A, B)
    assert fetcher.next_deadline == 0
    assert fetcher.may_send(0)
    fetcher.sent(1)
    assert not fetcher.may_send(0)
    assert fetcher.next_deadline is None
    assert fetcher.answered(1)
    assert not fetcher.answered(1)
    assert fetcher.may_send(0)


def test_a_second_one_follows_for_partitions_that_came_in_but_no_third() -> None:
    fetcher = make(A)
    fetcher.sent(1)
    fetcher.add(B)
    assert fetcher.may_send(0)
    fetcher.sent(2)
    fetcher.add(C)
    assert not fetcher.may_send(0)
    assert fetcher.answered(1)
    assert fetcher.may_send(0)


def test_who_got_data_goes_to_the_back() -> None:
    fetcher = make(A, B, C)
    fetcher.rotate(A)
    assert list(fetcher.active) == [B, C, A]
    fetcher.remove(C)
    fetcher.rotate(C)
    assert list(fetcher.active) == [B, A]


def test_who_is_set_aside_comes_back_in_time() -> None:
    fetcher = make(A, B)
    fetcher.set_aside(A, 300)
    fetcher.sent(1)
    assert list(fetcher.active) == [B]
    assert fetcher.next_deadline == 300
    assert fetcher.due(299) == []
    assert fetcher.due(300) == [A]
    assert list(fetcher.active) == [B, A]
    assert fetcher.may_send(300), "without waiting for the parked fetch"


def test_backoff_grows_and_is_forgotten_after_a_success() -> None:
    fetcher = make(A)
    waits = []
    now = 0
    for number in range(7):
        fetcher.sent(number)
        fetcher.answered(number)
        fetcher.on_failure(now)
        at = fetcher.next_deadline
        assert at is not None
        assert not fetcher.may_send(at - 1)
        assert fetcher.may_send(at)
        waits.append(at - now)
        now = at
    assert waits == [50, 100, 200, 400, 800, 1_000, 1_000]
    fetcher.on_success()
    fetcher.on_failure(now)
    assert fetcher.next_deadline == now + 50
    fetcher.forgive()
    assert fetcher.may_send(now)


def test_nothing_is_sent_for_nothing() -> None:
    fetcher = make()
    assert not fetcher.may_send(0)
    assert fetcher.next_deadline is None
    fetcher.add(A)
    fetcher.set_aside(A, 50)
    assert not fetcher.may_send(0)
    fetcher.remove(A)
    assert fetcher.next_deadline is None
