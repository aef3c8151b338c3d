"""One producer's batches through the production sender and replica managers: each acknowledged one
is stored once, in the order of sending, whatever is refused, lost or forgotten on the way.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pylog import errors
from tests.fakes.producer_over_brokers import MEMBERS, ProducerOverBrokers

LEADER = 1


@pytest.fixture
def over(tmp_path: Path) -> ProducerOverBrokers:
    """A producer whose partition has lost its beginning, as any with retention has."""
    return ProducerOverBrokers(tmp_path, log_start=2)


def outcomes(over: ProducerOverBrokers) -> str:
    """One letter a batch, in the order of sending: acknowledged or failed."""
    return "".join("a" if fate.done >= 0 else "f" for fate in over.fates.values())


# ---- the beginning of a producer -----------------------------------------------------------------


def test_a_first_batch_that_is_refused_for_a_moment_is_not_overtaken(
    over: ProducerOverBrokers,
) -> None:
    over.send()
    over.send()
    over.shrink()
    over.arrive(LEADER)
    over.restore()
    while over.arrive(LEADER):
        pass
    over.settle()
    over.check()
    assert outcomes(over) == "aa"
    assert over.committed == [b"0", b"1"]


# ---- the middle of its life, case by case --------------------------------------------------------


def _refused(over: ProducerOverBrokers) -> None:
    """The first batch meets too few replicas in sync; those behind it do not."""
    over.shrink()
    over.arrive(LEADER)
    over.restore()


def _throttled(over: ProducerOverBrokers) -> None:
    over.arrive(LEADER, refusal=errors.ThrottlingQuotaExceeded)


def _answer_lost(over: ProducerOverBrokers) -> None:
    """The first batch is stored, and the connection breaks before that is told."""
    over.disconnect(LEADER, arriving=1)


def _never_arrived(over: ProducerOverBrokers) -> None:
    over.disconnect(LEADER)


def _timed_out(over: ProducerOverBrokers) -> None:
    """The first batch is stored here, and not replicated within the request's time."""
    over.hold_replication()
    over.arrive(LEADER)
    over.group.advance(10_000)
    over.group.cut_links.clear()


FIRST: dict[str, Callable[[ProducerOverBrokers], None]] = {
    "refused": _refused,
    "throttled": _throttled,
    "answer lost": _answer_lost,
    "never arrived": _never_arrived,
    "timed out": _timed_out,
}


@pytest.mark.parametrize("moves", [False, True], ids=["stays", "moves"])
@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
@pytest.mark.parametrize("what", FIRST)
@pytest.mark.parametrize("in_flight", [2, 3, 4, 5])
def test_several_in_flight_of_which_the_first_meets_trouble(
    over: ProducerOverBrokers, in_flight: int, what: str, known: bool, moves: bool
) -> None:
    over.send()
    over.settle()
    if not known:  # as after a long pause
        over.lose_state()
        over.delete()
        over.rebuild(2)
        over.restore()
        assert not over.is_known()
    for _ in range(in_flight):
        over.send()
    FIRST[what](over)
    if moves:
        over.restore()
        over.elect(2)
    while over.arrive(LEADER):
        pass
    over.settle()
    over.send()  # and after all that
    over.settle()
    over.check()
    in_doubt = what in ("answer lost", "never arrived")
    if in_doubt and not known:
        assert outcomes(over) == "a" + "f" * in_flight + "a"
        for fate in list(over.fates.values())[1:-1]:
            assert isinstance(fate.error, errors.OutOfOrderSequenceNumber)
            assert "may or may not be stored" in str(fate.error)
    else:
        assert outcomes(over) == "a" * (in_flight + 2)


@pytest.mark.parametrize("what", ["answer lost", "timed out"])
def test_what_is_stored_and_then_forgotten_is_not_stored_again(
    over: ProducerOverBrokers, what: str
) -> None:
    over.send()
    over.settle()
    for _ in range(3):
        over.send()
    FIRST[what](over)
    while over.answer(LEADER):
        pass
    over.restore()
    over.lose_state()
    over.settle()
    over.pass_time(2_000)  # followers fetch again
    over.check()
    assert outcomes(over) == "afff"
    assert over.committed == [b"0", b"1"]
    assert "may or may not be stored" in str([*over.fates.values()][1].error)


# ---- whatever comes ------------------------------------------------------------------------------


def _do(over: ProducerOverBrokers, action: str, number: int) -> None:
    broker = MEMBERS[number % 3]
    match action:
        case "send":
            for records in range(1, 2 + number):
                over.send(records)
        case "arrive":
            any(over.arrive(member) for member in MEMBERS)
        case "throttle":
            any(over.arrive(m, refusal=errors.ThrottlingQuotaExceeded) for m in MEMBERS)
        case "answer":
            any(over.answer(member) for member in MEMBERS)
        case "disconnect":
            over.disconnect(over.leader, arriving=number)
        case "refuse":
            over.shrink()
            any(over.arrive(member) for member in MEMBERS)
            over.restore()
        case "shrink":
            over.shrink()
        case "restore":
            over.restore()
        case "hold replication":
            over.hold_replication()
        case "elect":
            over.elect(broker)
        case "learn":
            over.learn_leader()
        case "delete" if over.may_forget():
            over.delete()
        case "move" if broker != over.leader and over.may_forget():
            over.delete()
            over.rebuild(broker)
            over.restore()
            over.elect(broker)
        case "rebuild" if broker != over.leader:
            over.rebuild(broker)
        case "lose state" if over.may_forget():
            over.lose_state()
        case "wait":
            over.pass_time((1, 100, 1_000, 5_000, 9_000)[number])


COMMON = ("send", "arrive", "arrive", "answer", "answer", "throttle", "refuse", "lose state")
RARE = (
    "disconnect",
    "shrink",
    "restore",
    "hold replication",
    "elect",
    "learn",
    "delete",
    "rebuild",
    "move",
    "wait",
)
STEPS = st.lists(
    st.tuples(st.sampled_from((*COMMON, *COMMON, *RARE)), st.integers(0, 4)),
    min_size=10,
    max_size=60,
)


def _holds(begun: bool, steps: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as root:
        over = ProducerOverBrokers(Path(root), log_start=1)
        if begun:
            over.send()
            over.settle()
        for action, number in steps:
            _do(over, action, number)
        over.settle()
        over.send()
        over.settle()
        over.check()
        assert outcomes(over).endswith("a")


@settings(max_examples=15, suppress_health_check=list(HealthCheck))
@given(st.booleans(), STEPS)
def test_acknowledged_batches_are_stored_once_and_in_order(
    begun: bool, steps: list[tuple[str, int]]
) -> None:
    _holds(begun, steps)


@pytest.mark.slow
@settings(max_examples=1_000, suppress_health_check=list(HealthCheck))
@given(st.booleans(), STEPS)
def test_acknowledged_batches_are_stored_once_and_in_order_a_thousand_times(
    begun: bool, steps: list[tuple[str, int]]
) -> None:
    _holds(begun, steps)
