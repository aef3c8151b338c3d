"""The fingerprints of batches; the simulator's own idea of a broker's time of day, and of the
deletions that may go by it.
"""

from __future__ import annotations

from pylog.records.batch import read_header
from pylog.records.builder import encode_batch
from tests.sim.contents import Trust, WallClock, fingerprint

START_MS = 1_000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
RETENTION_MS = 4_000


def test_batches_of_one_crc_are_told_apart() -> None:
    name = b"q0" + 18 * b"'"
    one = encode_batch([name + b".108"], timestamps=1_700_000_016_214)
    other = encode_batch([name + b".126"], timestamps=1_700_000_016_269)
    assert read_header(one).crc == read_header(other).crc
    assert fingerprint(one) != fingerprint(other)


def test_a_batch_is_the_same_at_another_place() -> None:
    one = encode_batch([b"a"], timestamps=1, base_offset=3, leader_epoch=4)
    assert fingerprint(one) == fingerprint(encode_batch([b"a"], timestamps=1))


class Now:
    """A true time that is set by hand."""

    def __init__(self) -> None:
        self.ms = START_MS

    def __call__(self) -> int:
        return self.ms


def looking() -> tuple[Now, WallClock, Trust]:
    """A clock that its broker has seen right."""
    now = Now()
    clock = WallClock(now, small_step_ms=600_000)
    trust = Trust(clock)
    trust.looked()
    return now, clock, trust


def jumped() -> tuple[Now, WallClock, Trust]:
    """A clock a day ahead, which its broker has seen jump, so long ago that it believes it."""
    now, clock, trust = looking()
    clock.set(DAY_MS)
    trust.looked()
    now.ms += RETENTION_MS + 1
    return now, clock, trust


def test_a_jump_is_believed_after_the_retention_time() -> None:
    now, _, trust = jumped()
    assert trust.believed_ms(RETENTION_MS) == now.ms + DAY_MS
    assert trust.believed_ms(RETENTION_MS + 1) == now.ms


def test_each_jump_is_believed_in_its_time() -> None:
    now, clock, trust = jumped()
    clock.set(HOUR_MS)
    trust.looked()
    assert trust.believed_ms(RETENTION_MS) == now.ms + DAY_MS
    clock.set(-DAY_MS)
    trust.looked()
    assert trust.believed_ms(RETENTION_MS) == now.ms + HOUR_MS
    now.ms += RETENTION_MS + 1
    assert trust.believed_ms(RETENTION_MS) == now.ms + HOUR_MS


def test_a_small_step_is_believed_at_once() -> None:
    now, clock, trust = looking()
    clock.set(-1_000)
    clock.set(1_000)
    trust.looked()
    assert trust.believed_ms(RETENTION_MS) == now.ms + 2_000


def test_a_clock_that_was_right_for_a_moment_between_two_looks_has_not_jumped_again() -> None:
    now, clock, trust = jumped()
    clock.set(-DAY_MS)
    clock.set(DAY_MS)
    trust.looked()
    assert trust.believed_ms(RETENTION_MS) == now.ms + DAY_MS


def test_a_clock_that_was_seen_right_has_jumped_again() -> None:
    now, clock, trust = jumped()
    clock.set(-DAY_MS)
    trust.looked()
    clock.set(DAY_MS)
    trust.looked()
    assert trust.believed_ms(RETENTION_MS) == now.ms


def test_a_clock_asks_for_the_time_after_a_reboot() -> None:
    now, clock, _ = jumped()
    clock.rebooted()
    clock.set(DAY_MS)
    assert clock.now_ms() == now.ms + DAY_MS


def test_what_the_clock_says_first_after_a_boot_is_believed() -> None:
    now, clock, trust = looking()
    clock.rebooted()
    clock.set(DAY_MS)
    trust.started(knows_boot=False)
    trust.looked()
    assert trust.believed_ms(RETENTION_MS) == now.ms + DAY_MS


def test_a_process_goes_on_with_what_the_last_one_on_its_boot_wrote_down() -> None:
    now, clock, trust = looking()
    clock.set(DAY_MS)
    trust.started(knows_boot=True)
    trust.looked()
    assert trust.believed_ms(RETENTION_MS) == now.ms
