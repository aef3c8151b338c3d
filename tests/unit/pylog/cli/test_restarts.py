"""The restarts of processes of `pylog local`."""

from __future__ import annotations

from pylog.cli.restarts import (
    STARTS_MAX,
    STEADY_MS,
    GiveUp,
    Restarts,
    StartAgain,
    TellEnded,
)

ONE, TWO = "broker 1", "broker 2"


def test_it_is_told_at_once_and_started_after_a_wait() -> None:
    restarts = Restarts()
    assert restarts.look(0, []) == []
    assert restarts.look(10, [ONE]) == [TellEnded(ONE, 1_000)]
    assert restarts.look(1_009, [ONE]) == []
    assert restarts.look(1_010, [ONE]) == [StartAgain(ONE)]
    restarts.on_started(1_500, ONE)
    assert restarts.look(1_501, []) == []


def test_each_goes_its_own_way() -> None:
    restarts = Restarts()
    assert restarts.look(0, [ONE]) == [TellEnded(ONE, 1_000)]
    assert restarts.look(500, [ONE, TWO]) == [TellEnded(TWO, 1_000)]
    assert restarts.look(1_000, [ONE, TWO]) == [StartAgain(ONE)]
    restarts.on_started(1_000, ONE)
    assert restarts.look(1_500, [TWO]) == [StartAgain(TWO)]


def falls(restarts: Restarts, now_ms: int, alive_ms: int) -> tuple[int, int | None]:
    """(the time when it runs again, how long it waited; None: given up) of a process that was
    started at `now_ms` and ends after `alive_ms`.
    """
    now_ms += alive_ms
    (effect,) = restarts.look(now_ms, [ONE])
    if effect == GiveUp(ONE):
        return now_ms, None
    assert isinstance(effect, TellEnded)
    now_ms += effect.wait_ms
    assert restarts.look(now_ms, [ONE]) == [StartAgain(ONE)]
    restarts.on_started(now_ms, ONE)
    return now_ms, effect.wait_ms


def test_what_ends_over_and_over_waits_longer_and_is_given_up() -> None:
    restarts, now_ms = Restarts(), 0
    waits: list[int | None] = []
    for _ in range(STARTS_MAX + 1):
        now_ms, wait_ms = falls(restarts, now_ms, 100)
        waits.append(wait_ms)
    assert waits == [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, None]
    assert restarts.given_up == {ONE}
    assert restarts.look(now_ms + 10**6, [ONE]) == []


def test_what_ran_for_a_while_has_started_well() -> None:
    restarts, now_ms = Restarts(), 0
    waits: list[int | None] = []
    for alive_ms in (0, 100, STEADY_MS - 1, STEADY_MS, 100):
        now_ms, wait_ms = falls(restarts, now_ms, alive_ms)
        waits.append(wait_ms)
    assert waits == [1_000, 2_000, 4_000, 1_000, 2_000]
