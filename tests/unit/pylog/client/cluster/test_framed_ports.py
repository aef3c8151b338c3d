"""The times at which framed ports are tried: the rests of Kafka's ClusterConnectionStates."""

from __future__ import annotations

import pytest

from pylog.client.cluster.framed_ports import NO_STREAM_MS, FramedPorts
from pylog.client.cluster.metadata import Address

PORT = Address("a", 1), 5
OTHER = Address("a", 2), 6
MIDDLE = 0.5  # of the jitter: exactly the rest


def rests(ports: FramedPorts, now_ms: int, times: int, jitter: float = MIDDLE) -> list[int]:
    """The rest after each of so many failures, each at the end of the rest before it."""
    told = []
    for _ in range(times):
        ports.broke(PORT, now_ms, jitter)
        told.append(ports.rest_ms(PORT, now_ms))
        now_ms += told[-1]
    return told


def test_an_unknown_port_is_tried_at_once() -> None:
    assert FramedPorts(50, 1_000).rest_ms(PORT, 0) == 0


def test_rests_double_up_to_the_longest() -> None:
    assert rests(FramedPorts(50, 1_000), 0, 7) == [50, 100, 200, 400, 800, 1_000, 1_000]
    assert rests(FramedPorts(500, 100), 0, 2) == [100, 100]
    assert rests(FramedPorts(1, 1 << 62), 0, 70)[-1] == 1 << 62


@pytest.mark.parametrize(("jitter", "first"), [(0.0, 80), (1.0, 120)])
def test_a_fifth_more_or_less(jitter: float, first: int) -> None:
    assert rests(FramedPorts(100, 1_000), 0, 1, jitter) == [first]


def test_an_attempt_gets_more_time_after_each_failure_up_to_the_longest() -> None:
    ports = FramedPorts(1, 1, 100, 500)
    given = [ports.connect_ms(PORT, MIDDLE)]
    for now_ms in range(0, 40, 10):
        ports.broke(PORT, now_ms, MIDDLE)
        given.append(ports.connect_ms(PORT, MIDDLE))
    assert given == [100, 200, 400, 500, 500]
    assert (ports.connect_ms(PORT, 0.0), ports.connect_ms(PORT, 1.0)) == (400, 600)
    ports.greeted(PORT)
    assert ports.connect_ms(PORT, 1.0) == 100
    assert FramedPorts(1, 1, 500, 100).connect_ms(PORT, MIDDLE) == 100


def test_the_rest_runs_out() -> None:
    ports = FramedPorts(50, 1_000)
    ports.broke(PORT, 1_000, MIDDLE)
    assert [ports.rest_ms(PORT, now) for now in (1_000, 1_049, 1_050, 2_000)] == [50, 1, 0, 0]


def test_a_greeting_makes_the_next_failure_a_first_one() -> None:
    ports = FramedPorts(50, 1_000)
    assert rests(ports, 0, 3) == [50, 100, 200]
    ports.greeted(PORT)
    assert ports.rest_ms(PORT, 350) == 0
    assert rests(ports, 350, 2) == [50, 100]


def test_one_break_of_several_connections_counts_once() -> None:
    ports = FramedPorts(50, 1_000)
    for now_ms in (0, 0, 20, 49):
        ports.broke(PORT, now_ms, MIDDLE)
    assert ports.rest_ms(PORT, 49) == 1
    ports.broke(PORT, 50, MIDDLE)
    assert ports.rest_ms(PORT, 50) == 100


def test_each_life_of_each_broker_has_its_own() -> None:
    ports = FramedPorts(50, 1_000)
    ports.broke(PORT, 0, MIDDLE)
    assert ports.rest_ms((PORT[0], 6), 0) == ports.rest_ms(OTHER, 0) == 0
    ports.broke(OTHER, 0, MIDDLE)
    ports.keep([OTHER])
    assert (ports.rest_ms(PORT, 0), ports.rest_ms(OTHER, 0)) == (0, 50)


def test_a_port_that_cannot_be_had_is_let_be_ever_longer() -> None:
    ports = FramedPorts(50, 1_000)
    assert ports.let_be(PORT, 0)
    assert [ports.is_let_be(PORT, now) for now in (0, NO_STREAM_MS - 1, NO_STREAM_MS)] == [
        True, True, False,
    ]  # fmt: skip
    assert not ports.let_be(PORT, NO_STREAM_MS)
    assert ports.is_let_be(PORT, 3 * NO_STREAM_MS - 1)
    assert not ports.is_let_be(PORT, 3 * NO_STREAM_MS)
    assert not ports.is_let_be(OTHER, 0)
