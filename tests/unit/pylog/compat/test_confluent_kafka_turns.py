"""Turns of threads that share a consumer."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from pylog.compat.confluent_kafka import KafkaException, turns
from pylog.compat.confluent_kafka.turns import Turns
from tests.fakes.waiting import eventually

WAIT_S = 60.0
"""Machines of tests may be slow."""


def test_the_thread_inside_may_enter_again() -> None:
    mine = Turns()
    with mine:
        with mine:
            assert mine._inside == threading.get_ident()
        assert mine._inside == threading.get_ident()
    assert mine._inside is None


def test_a_thread_that_comes_back_lets_others_in_first() -> None:
    mine, order = Turns(), []

    def other() -> None:
        with mine:
            order.append("other")

    with ThreadPoolExecutor(1) as threads:
        with mine:
            waiting = threads.submit(other)
            eventually(WAIT_S, mine._line.locked, "the other thread waits")
            order.append("first")
        with mine:
            order.append("again")
        waiting.result(WAIT_S)
    assert order == ["first", "other", "again"]


def test_a_turn_that_never_ends_is_a_conflict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "_WAIT_S", 0.01)
    mine = Turns()
    with mine, ThreadPoolExecutor(1) as threads:
        failed = threads.submit(mine.__enter__).exception(WAIT_S)
    assert isinstance(failed, KafkaException)
    assert failed.args[0].name() == "_CONFLICT"
    with mine:
        assert not mine._line.locked()
