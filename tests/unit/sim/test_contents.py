"""The simulator's own idea of a broker's time of day."""

from __future__ import annotations

from tests.sim.contents import WallClock

START_MS = 1_000
DAY_MS = 24 * 3_600_000
RETENTION_MS = 4_000


class Now:
    """A true time that is set by hand."""

    def __init__(self) -> None:
        self.ms = START_MS

    def __call__(self) -> int:
        return self.ms


def jumped() -> tuple[Now, WallClock]:
    """A clock a day ahead, which its broker has seen jump, so long ago that it believes it."""
    now = Now()
    clock = WallClock(now, small_step_ms=600_000)
    clock.looked()
    clock.set(DAY_MS)
    clock.looked()
    now.ms += RETENTION_MS + 1
    return now, clock


def test_a_jump_is_believed_after_the_retention_time() -> None:
    now, clock = jumped()
    assert clock.believed_ms(RETENTION_MS) == now.ms + DAY_MS
    assert clock.believed_ms(RETENTION_MS + 1) == now.ms


def test_a_clock_that_was_right_for_a_moment_between_two_looks_has_not_jumped_again() -> None:
    now, clock = jumped()
    clock.set(-DAY_MS)
    clock.set(DAY_MS)
    clock.looked()
    assert clock.believed_ms(RETENTION_MS) == now.ms + DAY_MS


def test_a_clock_that_was_seen_right_has_jumped_again() -> None:
    now, clock = jumped()
    clock.set(-DAY_MS)
    clock.looked()
    clock.set(DAY_MS)
    clock.looked()
    assert clock.believed_ms(RETENTION_MS) == now.ms


def test_a_clock_asks_for_the_time_after_a_reboot() -> None:
    now, clock = jumped()
    clock.rebooted()
    clock.set(DAY_MS)
    assert clock.now_ms() == now.ms + DAY_MS
    assert clock.believed_ms(RETENTION_MS) == now.ms
