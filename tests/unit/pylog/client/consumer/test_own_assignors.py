"""Assignors of the user's: their answers are checked, and their errors end nothing of pylog's."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from pylog import errors
from pylog.client.background import shared_loop
from pylog.client.consumer.group_settings import _assignor
from pylog.client.membership.assignors import Member
from pylog.consumer_protocol import Subscription


class Own:
    """Gives what it is told to give, or raises it."""

    name = "own"

    def __init__(self, gives: object) -> None:
        self._gives = gives

    def assign(self, _counts: object, _members: object) -> Any:
        return self._gives

    def user_data(self, _owned: object, _generation: int) -> Any:
        if isinstance(self._gives, BaseException):
            raise self._gives
        return self._gives


@pytest.mark.parametrize("gives", [SystemExit(1), KeyboardInterrupt(), ValueError("no"), "text"])
def test_a_member_joins_without_user_data_that_cannot_be_had(
    gives: object, caplog: pytest.LogCaptureFixture
) -> None:
    given: list[bytes | None] = []
    over = threading.Event()
    thread = shared_loop()
    thread.call(lambda: given.append(_assignor(Own(gives)).user_data([], 1)))
    thread.call(over.set)
    assert over.wait(10)
    assert given == [None]
    assert "user_data of the assignor 'own'" in caplog.text


def test_user_data_is_bytes() -> None:
    assert _assignor(Own(b"here")).user_data([], 1) == b"here"
    assert _assignor(Own(None)).user_data([], 1) is None


@pytest.mark.parametrize("gives", [None, [], {"m": [1]}, {"m": 1}, {"m": [("t", 0, 0)]}])
def test_a_plan_that_is_none_says_what_is_wanted(gives: object) -> None:
    with pytest.raises(errors.InvalidConfig, match="a dictionary of each member's id"):
        _assignor(Own(gives)).assign({"t": 1}, [Member("m", Subscription(("t",)))])
