from __future__ import annotations

import pytest

from pylog.errors import InvalidShareSessionEpoch, ShareSessionLimitReached, ShareSessionNotFound
from pylog.model import TopicId
from pylog_broker.share.sessions import SessionKey, SharePartitionKey, ShareSessions

A, B = SessionKey("g", "a"), SessionKey("g", "b")
P = [SharePartitionKey("g", TopicId("t"), number) for number in range(3)]


def test_a_session_goes_on_with_the_next_epoch_and_with_no_other() -> None:
    sessions = ShareSessions(10)
    session = sessions.open(0, A, "c1")
    assert sessions.next(5, A, 1, "c1") is session
    assert sessions.next(6, A, 2, "c1") is session
    for epoch in (0, 1, 2, 4):
        with pytest.raises(InvalidShareSessionEpoch, match=f"epoch {epoch}; .* goes on with 3"):
            sessions.next(7, A, epoch, "c1")
    assert sessions.next(8, A, -1, "c1") is session
    assert session.used_ms == 8
    sessions.close(session)
    with pytest.raises(ShareSessionNotFound, match="member 'a' of group 'g' has no share session"):
        sessions.next(9, A, 3, "c1")


def test_epochs_begin_again_after_the_highest_one() -> None:
    sessions = ShareSessions(10)
    session = sessions.open(0, A, "c1")
    session.epoch = 2**31 - 1
    assert sessions.next(0, A, 1, "c1").epoch == 1


def test_there_are_no_more_than_allowed() -> None:
    sessions = ShareSessions(1)
    session = sessions.open(0, A, "c1")
    with pytest.raises(ShareSessionLimitReached, match=r"group\.share\.max\.share\.sessions"):
        sessions.open(0, B, "c1")
    sessions.close(session)
    sessions.close(session)
    sessions.open(0, B, "c1")
    assert (len(sessions), sessions.of_group("g"), sessions.of_group("h")) == (1, 1, 0)


def test_a_session_belongs_to_the_connection_of_its_last_request() -> None:
    sessions = ShareSessions(10)
    a, b = sessions.open(0, A, "c1"), sessions.open(0, B, "c1")
    assert sessions.by_connection("c1") == [a, b]
    sessions.next(1, A, 1, "c2")
    assert (sessions.by_connection("c1"), sessions.by_connection("c2")) == ([b], [a])
    sessions.close(a)
    assert sessions.by_connection("c2") == []
    assert sessions.unused_since(0) == [b]
    assert sessions.unused_since(-1) == []


def test_partitions_are_first_in_turn() -> None:
    session = ShareSessions(10).open(0, A, "c1")
    session.add(P)
    assert [session.in_turn()[0] for _ in range(4)] == [P[0], P[1], P[2], P[0]]
    session.forget([P[1], P[1]])
    assert session.in_turn() == [P[2], P[0]]
