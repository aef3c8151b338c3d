"""Clients that get a fresh producer id, and clients that wait for one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pylog.errors import InvalidConfig, ThrottlingQuotaExceeded
from pylog_broker.api import producer_id_quota
from pylog_broker.api.producer_id_quota import ProducerIdQuota, source_of
from pylog_broker.config import PRODUCER_ID_EXPIRATION_MS_MIN, BrokerConfig

HERE, THERE = "10.0.0.1", "10.0.0.2"


class Asked:
    """A quota, and settings that a test changes."""

    def __init__(self, ip: int = 3, client: int = 100, window_s: int = 30) -> None:
        self.config = BrokerConfig(
            max_producer_ids_per_ip=ip,
            max_producer_ids_per_client_id=client,
            producer_id_quota_window_seconds=window_s,
        )
        self.quota = ProducerIdQuota(lambda: self.config)

    def ask(self, now_ms: int, address: str = HERE, client_id: str = "") -> int:
        """0 when an id is given, else how long to wait."""
        try:
            self.quota.admit(now_ms, address, client_id, 120_000)
        except ThrottlingQuotaExceeded as error:
            return error.throttle_time_ms or -1
        return 0


def test_an_address_gets_so_many_and_then_one_at_a_time() -> None:
    asked = Asked()
    assert [asked.ask(0) for _ in range(5)] == [0, 0, 0, 10_000, 10_000]
    assert asked.ask(4_000) == 6_000
    assert [asked.ask(10_000), asked.ask(10_000)] == [0, 10_000]
    assert [asked.ask(90_000) for _ in range(4)] == [0, 0, 0, 10_000]  # it was full, and not fuller
    assert asked.quota.refused == {"ip": 5, "client.id": 0}


def test_another_address_is_another_ones_limit() -> None:
    asked = Asked(ip=1)
    assert [asked.ask(0), asked.ask(0), asked.ask(0, THERE)] == [0, 30_000, 0]


def test_a_client_id_is_limited_wherever_it_comes_from() -> None:
    asked = Asked(ip=10, client=2)
    answers = [asked.ask(0, place, "app") for place in (HERE, THERE, HERE)]
    assert answers == [0, 0, 15_000]
    assert asked.ask(0, HERE, "other") == 0
    assert asked.ask(0, HERE) == 0  # without a name only its address counts
    assert asked.quota.refused == {"ip": 0, "client.id": 1}


def test_a_refusal_takes_nothing_from_the_other_limit() -> None:
    asked = Asked(ip=3, client=1)
    assert [asked.ask(0, HERE, "app") for _ in range(4)] == [0, 30_000, 30_000, 30_000]
    assert [asked.ask(0), asked.ask(0), asked.ask(0)] == [0, 0, 10_000]


@pytest.mark.parametrize(("ip", "client", "name"), [(1, 9, "ip=1"), (9, 1, "client.id=1")])
def test_a_refusal_names_the_limit_and_the_cure(ip: int, client: int, name: str) -> None:
    asked = Asked(ip, client)
    asked.ask(0, HERE, "app\n")
    with pytest.raises(ThrottlingQuotaExceeded) as caught:
        asked.quota.admit(0, HERE, "app\n", 0)
    text = str(caught.value)
    assert f"max.producer.ids.per.{name} within producer.id.quota.window.seconds=30" in text
    assert "next in 30000 ms" in text
    assert "raise that limit" in text
    assert "\n" not in text


def test_a_limit_that_is_raised_is_noticed_within_half_a_minute() -> None:
    asked = Asked(ip=1, window_s=86_400)
    assert [asked.ask(0), asked.ask(0)] == [0, producer_id_quota.THROTTLE_MS_MAX]
    asked.config = replace(asked.config, max_producer_ids_per_ip=100_000)
    assert asked.ask(30_000) == 0


def test_many_sources_share_a_count_and_take_no_more_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(producer_id_quota, "SOURCES_MAX", 3)
    asked = Asked(ip=2)
    assert [asked.ask(n, f"10.0.0.{n}") for n in range(3)] == [0, 0, 0]
    assert [asked.ask(5, f"10.1.0.{n}") for n in range(3)] == [0, 0, 15_000]
    # a user that was not heard of for so long that its count is full again makes way
    assert [asked.ask(20_000, "10.1.0.9") for _ in range(3)] == [0, 0, 15_000]
    assert len(asked.quota._by_ip._buckets) == 4


def test_a_producer_that_would_send_again_too_late_gets_no_id() -> None:
    quota = ProducerIdQuota(
        lambda: BrokerConfig(producer_id_expiration_ms=PRODUCER_ID_EXPIRATION_MS_MIN)
    )
    quota.admit(0, HERE, "", 120_000)
    quota.admit(0, HERE, "", 0)
    with pytest.raises(InvalidConfig, match=r"120001 is above 120000.*240000"):
        quota.admit(0, HERE, "", 120_001)


@pytest.mark.parametrize(
    ("host", "source"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::1", "::/64"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("unix:/tmp/socket", "unix:/tmp/socket"),
        ("", ""),
    ],
)
def test_what_an_address_counts_as(host: str, source: str) -> None:
    assert source_of(host) == source
