"""The coordinator of a group is asked for, remembered, and forgotten when it is none any more."""

from __future__ import annotations

import pytest

from pylog import errors
from pylog.client.membership.coordinator_finder import CoordinatorFinder
from pylog.client.membership.group_identity import GroupIdentity, MembershipSettings
from pylog.client.membership.messages import CoordinatorFound, FindCoordinator, Polled

ASK = FindCoordinator("g")
IDLE = Polled([], None)


def finder_of() -> CoordinatorFinder:
    return CoordinatorFinder(MembershipSettings(), GroupIdentity("g"), lambda: 0.5)


def asked(finder: CoordinatorFinder, now_ms: int) -> FindCoordinator:
    effects, deadline_ms = finder.poll(now_ms)
    assert (effects, deadline_ms) == ([ASK], None)
    (request,) = effects
    assert isinstance(request, FindCoordinator)
    return request


def test_it_asks_once_and_remembers() -> None:
    finder = finder_of()
    request = asked(finder, 0)
    assert finder.coordinator is None
    assert finder.poll(1) == IDLE
    finder.on_found(2, request, CoordinatorFound(3))
    assert finder.coordinator == 3
    assert finder.poll(3) == IDLE


@pytest.mark.parametrize("error", [errors.NotCoordinator, errors.CoordinatorNotAvailable])
def test_a_broker_that_is_none_any_more_is_forgotten(error: type[errors.PylogError]) -> None:
    finder = finder_of()
    finder.on_found(2, asked(finder, 0), CoordinatorFound(3))
    finder.forget_if_ousted(2, error.code)  # an older one's answer comes late
    finder.forget_if_ousted(3, errors.CoordinatorLoadInProgress.code)
    finder.forget_if_ousted(3, 0)
    assert finder.coordinator == 3
    finder.forget_if_ousted(3, error.code)
    assert finder.coordinator is None
    asked(finder, 3)


def test_a_broker_that_cannot_be_reached_is_forgotten() -> None:
    finder = finder_of()
    finder.on_found(2, asked(finder, 0), CoordinatorFound(3))
    finder.forget(4)
    assert finder.coordinator == 3
    finder.forget(3)
    assert finder.coordinator is None


def test_it_waits_longer_after_each_fault() -> None:
    finder = finder_of()
    finder.on_found(0, asked(finder, 0), CoordinatorFound(code=15))
    assert finder.poll(99) == Polled([], 100)
    finder.on_failed(100, asked(finder, 100))
    assert finder.poll(100) == Polled([], 300)
    finder.on_found(301, asked(finder, 300), CoordinatorFound(3))
    finder.forget(3)
    asked(finder, 301)


def test_a_fault_that_stays_is_told_once_before_the_next_question() -> None:
    finder = finder_of()
    finder.on_found(0, asked(finder, 0), CoordinatorFound(code=30, message="no READ"))
    assert finder.poll(1_000) == IDLE
    error = finder.take_error()
    assert isinstance(error, errors.GroupAuthorizationFailed)
    assert str(error) == "group 'g': no READ"
    assert finder.take_error() is None
    asked(finder, 1_000)


def test_an_answer_to_no_question_says_nothing() -> None:
    finder = finder_of()
    request = asked(finder, 0)
    finder.on_failed(0, request)
    finder.on_found(1, request, CoordinatorFound(9))
    finder.on_failed(1, request)
    assert finder.coordinator is None
    assert finder.poll(1) == Polled([], 100)
