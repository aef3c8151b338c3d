"""The fetcher of a follower broker: when it asks a leader, and for what."""

from __future__ import annotations

import pytest

from pylog.model import BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from pylog_broker.config import TopicConfig
from pylog_broker.replication.fetcher import LeaderFetcher
from pylog_broker.replication.follower import FollowerState
from pylog_broker.replication.partition import Partition
from pylog_broker.replication.replica_fetch_messages import ReplicaPartitionFetch


class Asking(Partition):
    """A partition at `offset`, without a log."""

    def __init__(self, number: int) -> None:
        name = TopicPartition("t", number)
        super().__init__(BrokerId(2), name, TOPIC, TopicConfig(), None, Offset(0))
        self.following = FollowerState(
            topic_id=TOPIC,
            partition=number,
            leader=BrokerId(1),
            leader_epoch=LeaderEpoch(0),
            fetch_max_bytes=1,
            backoff_ms=50,
            backoff_max_ms=1_000,
        )

    def move_to(self, offset: int) -> None:
        assert self.following is not None
        self.following.question(Offset(offset), LeaderEpoch(0), Offset(0), Offset(0))

    def question(self) -> ReplicaPartitionFetch:
        assert self.following is not None
        asked = self.following.asked
        at = asked.fetch_offset if asked else Offset(0)
        return self.following.question(at, LeaderEpoch(0), Offset(0), Offset(0))


TOPIC = TopicId("t" * 22)
A, B, C = (Asking(number) for number in range(3))


def make(*partitions: Partition, named_max: int = 9) -> LeaderFetcher:
    fetcher = LeaderFetcher(BrokerId(1), 50, 1_000, named_max)
    for item in partitions:
        fetcher.add(item)
    return fetcher


def send(fetcher: LeaderFetcher, request_id: int) -> tuple[list[int], int, int, list[int]]:
    """The next fetch: partitions, session id and epoch, forgotten partitions."""
    asked, session, epoch, forgotten = fetcher.next_fetch(request_id)
    return [item.partition for item in asked], session, epoch, [number for _, number in forgotten]


def opened(*partitions: Partition) -> LeaderFetcher:
    """A fetcher in session 7, whose first fetch was answered."""
    fetcher = make(*partitions)
    send(fetcher, 1)
    assert fetcher.answered(1)
    fetcher.on_success(7)
    return fetcher


def test_one_fetch_is_in_flight() -> None:
    fetcher = make(A, B)
    assert fetcher.next_deadline == 0
    assert fetcher.may_send(0)
    fetcher.next_fetch(1)
    assert not fetcher.may_send(0)
    assert fetcher.next_deadline is None
    assert fetcher.answered(1)
    assert not fetcher.answered(1)
    assert fetcher.may_send(0)


def test_a_second_one_follows_for_partitions_that_came_in_but_no_third() -> None:
    fetcher = make(A)
    fetcher.next_fetch(1)
    fetcher.add(B)
    assert fetcher.may_send(0)
    fetcher.next_fetch(2)
    fetcher.add(C)
    assert not fetcher.may_send(0)
    assert fetcher.answered(1)
    assert fetcher.may_send(0)


def test_only_what_changed_is_named_within_a_session() -> None:
    """KIP-227."""
    fetcher = make(A, B, C)
    assert send(fetcher, 1) == ([0, 1, 2], 0, 0, [])
    fetcher.answered(1)
    fetcher.on_success(7)
    assert send(fetcher, 2) == ([], 7, 1, [])
    fetcher.answered(2)
    fetcher.on_success(7)
    B.move_to(5)
    fetcher.answered_for(A, refused=False)
    fetcher.answered_for(B, refused=False)
    fetcher.remove(C)
    assert send(fetcher, 3) == ([1], 7, 2, [2])
    assert send(fetcher, 4) == ([], 7, 3, [])


def test_what_is_too_much_for_one_fetch_is_named_by_the_next_ones() -> None:
    one, two, three = (Asking(number) for number in range(3))
    fetcher = make(one, two, three, named_max=2)
    assert send(fetcher, 1) == ([0, 1], 0, 0, [])
    assert fetcher.has_more_to_name
    assert not fetcher.may_send(0), "the leader has to open the session first"
    fetcher.answered(1)
    fetcher.on_success(7)
    assert fetcher.may_send(0)
    assert send(fetcher, 2) == ([2], 7, 1, [])
    assert not fetcher.has_more_to_name
    for partition in (one, two, three):
        partition.move_to(5)
        fetcher.answered_for(partition, refused=False)
    assert send(fetcher, 3) == ([0, 1], 7, 2, [])
    fetcher.answered_for(one, refused=True)
    assert send(fetcher, 4) == ([2, 0], 7, 3, [])
    fetcher.name_all_again()
    assert send(fetcher, 5) == ([0, 1], 0, 0, [])


def test_who_was_refused_is_named_again_though_nothing_changed() -> None:
    fetcher = opened(A, B)
    fetcher.answered_for(A, refused=True)
    assert send(fetcher, 2) == ([0], 7, 1, [])


def test_who_is_set_aside_is_forgotten_and_named_when_it_is_back() -> None:
    fetcher = opened(A, B)
    fetcher.set_aside(A, 300)
    assert send(fetcher, 2) == ([], 7, 1, [0])
    fetcher.add(A)
    assert send(fetcher, 3) == ([0], 7, 2, [])


@pytest.mark.parametrize("end", ["failure", "lost", "now and then"])
def test_the_end_of_a_session_has_everything_named_again(end: str) -> None:
    fetcher = opened(A, B)
    send(fetcher, 2)
    if end == "failure":
        fetcher.on_failure(0)
    elif end == "lost":
        fetcher.answered(2)
        fetcher.on_session_lost()
    else:
        fetcher.name_all_again()
    assert send(fetcher, 3) == ([0, 1], 0, 0, [])


def test_a_session_is_opened_by_the_newest_full_fetch_only() -> None:
    fetcher = make(A)
    send(fetcher, 1)
    fetcher.add(B)
    assert send(fetcher, 2) == ([0, 1], 0, 0, [])
    fetcher.answered(1)
    fetcher.on_success(7)
    fetcher.answered(2)
    fetcher.on_success(8)
    assert send(fetcher, 3) == ([], 8, 1, [])


def test_a_lost_session_is_lost_once() -> None:
    """Two of its fetches were in flight; the second failure says nothing about the new session."""
    fetcher = opened(A)
    send(fetcher, 2)
    fetcher.add(B)
    send(fetcher, 3)
    fetcher.answered(2)
    fetcher.on_session_lost()
    send(fetcher, 4)
    fetcher.answered(3)
    fetcher.on_session_lost()
    fetcher.answered(4)
    fetcher.on_success(8)
    assert send(fetcher, 5) == ([], 8, 1, [])


def test_who_is_set_aside_comes_back_in_time() -> None:
    fetcher = make(A, B)
    fetcher.set_aside(A, 300)
    fetcher.next_fetch(1)
    assert list(fetcher.active) == [B]
    assert fetcher.next_deadline == 300
    assert fetcher.due(299) == []
    assert fetcher.due(300) == [A]
    assert list(fetcher.active) == [B], "it may have to be set aside again"
    fetcher.add(A)
    assert list(fetcher.active) == [B, A]
    assert fetcher.due(300) == []
    assert fetcher.may_send(300), "without waiting for the parked fetch"


def test_backoff_grows_and_is_forgotten_after_a_success() -> None:
    fetcher = make(A)
    waits = []
    now = 0
    for number in range(7):
        fetcher.next_fetch(number)
        fetcher.answered(number)
        fetcher.on_failure(now)
        at = fetcher.next_deadline
        assert at is not None
        assert not fetcher.may_send(at - 1)
        assert fetcher.may_send(at)
        waits.append(at - now)
        now = at
    assert waits == [50, 100, 200, 400, 800, 1_000, 1_000]
    fetcher.on_success(0)
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
