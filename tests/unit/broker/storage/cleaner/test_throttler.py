"""A rate that is kept: bursts between two looks pass, the mean does not."""

from __future__ import annotations

import random
import sys

import pytest

from pylog_broker.storage.cleaner.throttler import CHECK_INTERVAL_MS, Throttler


def test_what_is_too_fast_is_waited_off_when_it_is_looked_at() -> None:
    throttler = Throttler(1000.0, 5000)
    assert throttler.wait_ms(400, 5000 + CHECK_INTERVAL_MS) == 0.0, "not looked at yet"
    assert throttler.wait_ms(400, 5400) == 400.0  # 800 in 0.4 s; they are due in 0.8 s
    assert throttler.wait_ms(0, 5600) == 200.0, "that wait is not over"
    assert throttler.wait_ms(300, 5800 + 301) == 0.0, "just so fast"


def test_a_rate_that_is_set_anew_holds_at_the_next_look() -> None:
    throttler = Throttler(sys.float_info.max, 0)
    assert throttler.wait_ms(1 << 40, 1000) == 0.0
    throttler.rate = 100.0
    assert throttler.wait_ms(100, 1500) == 500.0


def test_a_time_in_which_nothing_was_read_counts_too() -> None:
    throttler = Throttler(100.0, 0)
    assert throttler.wait_ms(1000, 10_000) == 0.0
    assert throttler.wait_ms(0, 20_000) == 0.0


@pytest.mark.parametrize("seed", range(10))
def test_the_mean_is_the_rate(seed: int) -> None:
    rng = random.Random(seed)
    throttler, now, total = Throttler(10_000.0, 0), 0.0, 0
    while now < 60_000:
        amount = rng.randrange(1, 4000)
        total += amount
        now += rng.random() * 50
        now += throttler.wait_ms(amount, int(now))
    assert 0.93 * 10_000 <= total / (now / 1000) <= 1.07 * 10_000
