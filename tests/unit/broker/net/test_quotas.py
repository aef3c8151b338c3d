"""The connections that may stay, and the time at which the next one is taken."""

from __future__ import annotations

from pylog_broker.net.quotas import ConnectionQuotas, Limits, Refusal

HERE, THERE = "10.0.0.1", "10.0.0.2"


def opened(quotas: ConnectionQuotas, *addresses: str, listener: str = "a") -> list[Refusal | None]:
    return [quotas.opened(listener, address, 9) for address in addresses]


def test_a_listener_has_so_many_at_a_time() -> None:
    quotas = ConnectionQuotas()
    quotas.add_listener("a", 2)
    quotas.add_listener("b", 1)
    assert opened(quotas, HERE, THERE, HERE) == [None, None, Refusal.LISTENER]
    assert opened(quotas, HERE, listener="b") == [None]
    quotas.left_listener("a")
    assert opened(quotas, HERE) == [None]
    assert quotas.by_listener == {"a": 2, "b": 1}
    assert quotas.refused == {("a", Refusal.LISTENER): 1}


def test_an_address_has_so_many_over_all_listeners() -> None:
    quotas = ConnectionQuotas(Limits(per_ip=2, overrides={THERE: 1, "10.0.0.3": 0}))
    quotas.add_listener("a", 100)
    quotas.add_listener("b", 100)
    assert opened(quotas, HERE) + opened(quotas, HERE, HERE, listener="b") == [
        None,
        None,
        Refusal.ADDRESS,
    ]
    assert opened(quotas, THERE, THERE, "10.0.0.3") == [None, Refusal.ADDRESS, Refusal.ADDRESS]
    quotas.left_address(HERE)
    assert opened(quotas, HERE) == [None]


def test_limits_change_while_connections_are_open() -> None:
    quotas = ConnectionQuotas()
    quotas.add_listener("a", 100)
    assert opened(quotas, HERE, HERE) == [None, None]
    quotas.limits = Limits(per_ip=1)
    assert opened(quotas, HERE, THERE) == [Refusal.ADDRESS, None]


def test_descriptors_are_kept_for_logs() -> None:
    quotas = ConnectionQuotas(Limits(last_descriptor=500))
    quotas.add_listener("a", 1_000)
    assert quotas.opened("a", HERE, 499) is None
    assert quotas.opened("a", HERE, 500) is Refusal.FILES


def test_a_proven_peer_counts_elsewhere() -> None:
    quotas = ConnectionQuotas(Limits(per_ip=1))
    quotas.add_listener("a", 10)
    quotas.add_listener("proven", 1)
    assert opened(quotas, HERE, THERE) == [None, None]
    assert quotas.moved("a", "proven")
    quotas.left_address(HERE)
    assert opened(quotas, HERE) == [None]
    assert not quotas.moved("a", "proven")
    assert quotas.by_listener == {"a": 2, "proven": 1}


def taken(quotas: ConnectionQuotas, until_ms: int, step_ms: int) -> int:
    """The number of connections that are taken when some always wait."""
    count = 0
    for now_ms in range(0, until_ms, step_ms):
        while not quotas.wait_ms(now_ms):
            quotas.taken()
            count += 1
    return count


def test_so_many_are_taken_in_a_second_and_a_burst_at_the_start() -> None:
    assert taken(ConnectionQuotas(Limits(creation_rate=100)), 10_000, 7) == 100 + 999
    assert taken(ConnectionQuotas(Limits(creation_rate=1)), 10_000, 10) == 1 + 9


def test_the_wait_is_as_long_as_the_rate_says() -> None:
    quotas = ConnectionQuotas(Limits(creation_rate=2))
    for _ in range(2):
        assert quotas.wait_ms(0) == 0
        quotas.taken()
    assert quotas.wait_ms(0) == 501
    assert quotas.wait_ms(250) == 251
    assert quotas.wait_ms(501) == 0


def test_a_rate_of_none_takes_none_and_without_a_rate_all_are_taken() -> None:
    assert taken(ConnectionQuotas(Limits(creation_rate=0)), 5_000, 10) == 0
    assert ConnectionQuotas().wait_ms(0) == 0
