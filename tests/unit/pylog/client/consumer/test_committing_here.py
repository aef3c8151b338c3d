"""A consumer whose committing thread sends its commits itself, against brokers of sockets and a
real coordinator.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pylog import errors
from pylog.client.consumer import commit_line, commits_here
from pylog.client.consumer.commit_line import CommitLine
from pylog.client.consumer.consumer import Consumer
from pylog.clock import SYSTEM_CLOCK
from pylog.model import TopicPartition
from tests.fakes.fake_cluster import FakeCluster
from tests.fakes.interrupted import Run, interrupt_everywhere

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCluster]:
    monkeypatch.setattr(commits_here, "LINE_AFTER", 1)
    monkeypatch.setattr(commits_here, "IN_A_ROW_MS", 60_000)
    with FakeCluster(2) as running:
        running.create_topic("t", 2)
        yield running


@pytest.fixture
def consumer(fake: FakeCluster) -> Iterator[Consumer]:
    with committing(fake) as made:
        yield made


def committing(fake: FakeCluster, **settings: Any) -> Consumer:
    given: dict[str, Any] = {"retry_backoff_ms": 1, "reconnect_backoff_ms": 1, **settings}
    made = Consumer(bootstrap_servers=fake.bootstrap_servers, group_id="g", **given)
    made.assign([T0, T1])
    return made


def until(holds: Callable[[], object]) -> None:
    deadline = SYSTEM_CLOCK.monotonic_ms() + 30_000
    while not holds():
        assert SYSTEM_CLOCK.monotonic_ms() < deadline
        SYSTEM_CLOCK.sleep(0.001)


def line_of(consumer: Consumer) -> CommitLine:
    """The line of a consumer that has committed a few times."""

    def stands() -> bool:
        consumer.commit({T0: 0})
        return consumer._loop.commit_line is not None

    until(stands)
    line = consumer._loop.commit_line
    assert line is not None
    return line


def committed(consumer: Consumer, tp: TopicPartition = T0) -> int:
    return int(consumer.committed(tp).offset)


@pytest.fixture
def readers(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The threads that read outcomes past the loop, as they do."""
    threads: list[int] = []
    settle = CommitLine._settle

    def told(self: CommitLine, request: Any, outcome: commit_line.Outcome) -> None:
        threads.append(threading.get_ident())
        settle(self, request, outcome)

    monkeypatch.setattr(CommitLine, "_settle", told)
    return threads


def test_the_thread_that_waits_sends_and_reads(consumer: Consumer, readers: list[int]) -> None:
    line_of(consumer)
    readers.clear()
    for offset in range(20):
        consumer.commit({T0: offset, T1: offset + 1})
        assert (committed(consumer), committed(consumer, T1)) == (offset, offset + 1)
    assert readers == [threading.get_ident()] * 20


def test_a_consumer_that_commits_now_and_then_has_no_line(
    fake: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commits_here, "LINE_AFTER", 8)
    monkeypatch.setattr(commits_here, "IN_A_ROW_MS", -1)
    with committing(fake) as consumer:
        for offset in range(20):
            consumer.commit({T0: offset})
        assert consumer._loop.commit_line is None
        assert committed(consumer) == 19


def test_commits_stay_in_order_with_those_that_nobody_waits_for(consumer: Consumer) -> None:
    line_of(consumer)
    told: list[Any] = []
    for offset in range(0, 40, 2):
        consumer.commit_async({T0: offset}, lambda offsets, error: told.append(error))
        consumer.commit({T0: offset + 1})
        assert committed(consumer) == offset + 1
    until(lambda: consumer.poll(0) is not None and len(told) == 20)
    assert told == [None] * 20


def test_a_wakeup_ends_the_wait_and_the_commit_goes_on(
    fake: FakeCluster, consumer: Consumer, readers: list[int]
) -> None:
    line = line_of(consumer)
    with fake.groups.lock:  # no answer meanwhile
        consumer.wakeup()
        with pytest.raises(errors.WokenUp):
            consumer.commit({T0: 7})
        assert line.request is not None
        readers.clear()
    until(lambda: line.request is None)
    assert readers != [threading.get_ident()]  # the loop has read it
    assert committed(consumer) == 7
    readers.clear()
    consumer.commit({T0: 8})
    assert readers == [threading.get_ident()]
    assert committed(consumer) == 8


def test_a_commit_behind_one_that_was_left_waits_for_it(
    fake: FakeCluster, consumer: Consumer
) -> None:
    line_of(consumer)
    with fake.groups.lock:
        consumer.wakeup()
        with pytest.raises(errors.WokenUp):
            consumer.commit({T0: 7})
        with pytest.raises(errors.RequestTimedOut):
            consumer.commit({T0: 8}, timeout=0.05)
    consumer.commit({T1: 9})
    assert (committed(consumer), committed(consumer, T1)) == (7, 9)


def test_a_time_out_of_the_commit(fake: FakeCluster, consumer: Consumer) -> None:
    line_of(consumer)
    with fake.groups.lock, pytest.raises(errors.RequestTimedOut):
        consumer.commit({T0: 7}, timeout=0.05)
    consumer.commit({T0: 8})
    assert committed(consumer) == 8


def test_a_broker_that_says_nothing_loses_the_line(fake: FakeCluster) -> None:
    with committing(fake, request_timeout_ms=100) as consumer:
        line = line_of(consumer)
        with fake.groups.lock, pytest.raises(errors.RequestTimedOut):
            consumer.commit({T0: 7}, timeout=1.5)
        until(lambda: consumer._loop.commit_line is not line)
        consumer.commit({T1: 8})  # of T0 what the broker did not answer may count later
        assert committed(consumer, T1) == 8


def test_a_line_that_breaks_while_nothing_is_under_way(
    fake: FakeCluster, consumer: Consumer
) -> None:
    line = line_of(consumer)
    for port in fake.streams.values():
        port.hang_up()
    consumer.commit({T0: 5})
    assert committed(consumer) == 5
    until(lambda: line_of(consumer) is not line)
    consumer.commit({T0: 6})
    assert committed(consumer) == 6


def test_a_line_that_breaks_under_a_commit(fake: FakeCluster, consumer: Consumer) -> None:
    line = line_of(consumer)
    fake.groups.lock.acquire()
    waiting = threading.Thread(target=consumer.commit, args=({T0: 5},))
    waiting.start()
    try:
        until(lambda: line.request is not None)
        for port in fake.streams.values():
            port.hang_up()
    finally:
        fake.groups.lock.release()
    waiting.join(30)
    assert committed(consumer) == 5


def test_a_group_that_moves_takes_its_line_along(fake: FakeCluster, consumer: Consumer) -> None:
    line = line_of(consumer)
    fake.groups.coordinators["g"] = 3 - line.broker
    consumer.commit({T0: 5})
    assert committed(consumer) == 5
    until(lambda: line_of(consumer).broker == 3 - line.broker)
    consumer.commit({T0: 6})
    assert committed(consumer) == 6


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (errors.UnknownMemberId.code, errors.CommitFailed),
        (errors.OffsetMetadataTooLarge.code, errors.OffsetMetadataTooLarge),
        (errors.CoordinatorLoadInProgress.code, None),
        (errors.NotCoordinator.code, None),
    ],
)
def test_a_refusal_is_as_by_the_loop(
    fake: FakeCluster, consumer: Consumer, code: int, error: type[Exception] | None
) -> None:
    line_of(consumer)
    fake.groups.faults["OffsetCommit"] = deque([code])
    if error is None:
        consumer.commit({T0: 5})
    else:
        with pytest.raises(error):
            consumer.commit({T0: 5})
        consumer.commit({T0: 5})
    assert committed(consumer) == 5


def test_an_idle_line_is_closed(fake: FakeCluster) -> None:
    with committing(fake, connections_max_idle_ms=50) as consumer:
        line_of(consumer)
        until(lambda: consumer._loop.commit_line is None)
        consumer.commit({T0: 5})
        assert committed(consumer) == 5


def test_a_consumer_that_is_closed_lets_go_of_its_line(fake: FakeCluster) -> None:
    with committing(fake) as consumer:
        line = line_of(consumer)
    assert line._link.socket is not None
    assert line._link.socket.socket.fileno() == -1


def test_a_commit_while_the_consumer_reads(fake: FakeCluster, consumer: Consumer) -> None:
    """Fetches that stand are answered by whoever waits, for a commit as well."""
    line_of(consumer)
    for offset in range(200):
        consumer.poll(0)
        consumer.commit({T0: offset})
    assert committed(consumer) == 199


def test_an_interrupt_anywhere_leaves_a_consumer_that_commits(
    fake: FakeCluster, consumer: Consumer
) -> None:
    number = 0

    def check(run: Run) -> bool:
        nonlocal number
        line_of(consumer)
        number += 2
        interrupted = run(lambda: consumer.commit({T0: number}))
        consumer.commit({T1: number + 1}, timeout=20)
        assert committed(consumer, T1) == number + 1
        return interrupted

    assert interrupt_everywhere(check, every=1) > 20
