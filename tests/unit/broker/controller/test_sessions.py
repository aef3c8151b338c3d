"""Observed time, and sessions by themselves; `test_brokers.py` has them in the controller."""

from __future__ import annotations

from pylog.model import BrokerEpoch, BrokerId
from pylog_broker.controller.sessions import ENDED_MAX, STEP_MS_MAX, ObservedTime, Session, Sessions

B1 = BrokerId(1)


def session(*, heard: bool = True) -> Session:
    return Session(B1, BrokerEpoch(7), "i", last_seen=0, heard=heard)


def test_observed_time_counts_only_what_was_looked_at() -> None:
    time = ObservedTime()
    assert time.advance(1_000_000) == 0
    assert time.advance(1_000_100) == 100
    assert time.advance(9_000_000) == 100 + STEP_MS_MAX
    assert time.advance(0) == 100 + STEP_MS_MAX
    assert time.advance(10) == 110 + STEP_MS_MAX


def test_the_wake_up_is_never_later_than_one_step() -> None:
    time = ObservedTime()
    time.advance(50)
    assert time.wake_up_ms(10_000) == 50 + STEP_MS_MAX
    assert time.wake_up_ms(20) == 70
    assert time.wake_up_ms(-5) == 50


def test_lease_and_grace() -> None:
    sessions = Sessions(grace_ms=300, timeout_ms=6_000)
    sessions.add(session())
    assert sessions.deadline() == 6_000
    assert sessions.expired(5_999) == []
    one = sessions.get(B1)
    assert one is not None
    one.opened(1_000)
    assert sessions.deadline() == 7_000
    one.broken(2_000)
    assert sessions.deadline() == 2_300
    assert sessions.is_alive(B1)
    assert not sessions.is_running(B1)
    ((lost, why),) = sessions.expired(2_300)
    assert lost is one
    assert "within 300 ms" in why
    assert sessions.expired(9_000) == []
    assert sessions.deadline() is None
    assert not sessions.is_alive(B1)


def test_a_lost_session_comes_back_by_a_stream_and_not_by_a_heartbeat() -> None:
    one = session()
    one.lost = True
    one.seen(5)
    assert one.lost
    one.opened(6)
    assert not one.lost


def test_who_was_never_heard_is_not_alive_and_yet_has_a_lease() -> None:
    sessions = Sessions(grace_ms=300, timeout_ms=6_000)
    sessions.add(session(heard=False))
    assert not sessions.is_alive(B1)
    assert sessions.expired(5_999) == []
    assert len(sessions.expired(6_000)) == 1


def test_a_break_that_was_never_opened_changes_nothing() -> None:
    one = session()
    one.broken(5)
    assert one.broken_at is None


def test_only_the_asked_epochs_session_is_given() -> None:
    sessions = Sessions(grace_ms=300, timeout_ms=6_000)
    sessions.add(session())
    assert sessions.get(B1, BrokerEpoch(6)) is None
    assert sessions.get(B1, BrokerEpoch(7)) is not None
    sessions.remove(B1)
    assert sessions.get(B1) is None


def test_ended_incarnations_are_bounded() -> None:
    sessions = Sessions(grace_ms=300, timeout_ms=6_000)
    for number in range(ENDED_MAX + 1):
        sessions.end(f"i{number}")
    assert not sessions.has_ended("i0")
    assert sessions.has_ended("i1")
