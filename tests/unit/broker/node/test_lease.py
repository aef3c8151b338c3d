"""The lease is renewed by its thread only while the loop ticks."""

from __future__ import annotations

import threading

from pylog_broker.node.lease import Lease


class SteppedClock:
    def __init__(self) -> None:
        self.now_ms = 0

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_ms(self) -> int:
        return self.now_ms

    def sleep(self, seconds: float) -> None:
        self.now_ms += int(seconds * 1000)


def test_a_loop_that_is_silent_for_half_the_lease_counts_as_dead() -> None:
    clock = SteppedClock()
    lease = Lease(lambda: None, clock, lease_ms=6000, interval_ms=2000)
    clock.now_ms = 3000
    assert lease.loop_is_alive
    clock.now_ms = 3001
    assert not lease.loop_is_alive
    lease.tick()
    assert lease.loop_is_alive


def test_the_thread_goes_on_after_a_heartbeat_that_did_not_arrive() -> None:
    calls = 0
    twice = threading.Event()

    def renew() -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            twice.set()
        raise ConnectionError

    lease = Lease(renew, SteppedClock(), lease_ms=6000, interval_ms=1)
    assert not lease.started
    lease.start()
    assert twice.wait(10)
    lease.stop()
    assert lease.started
