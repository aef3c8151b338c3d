from __future__ import annotations

import pytest

from pylog.cli.amounts import instant_shown, rate_shown, size_shown
from pylog.cli.cluster import _liveness
from pylog.cli.topic_sizes import TopicSize, topic_sizes
from pylog.client.admin.admin_types import LogDirDescription, LogDirReplica
from pylog.model import BrokerDescription, TopicPartition

NOON_MS = 1_700_000_000_000 // 86_400_000 * 86_400_000 + 43_391_000  # 12:03:11 of a day


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (None, None), (-1, None), (0, "0 B"), (512, "512 B"), (1023, "1023 B"), (1024, "1 KiB"),
        (1536, "1.5 KiB"), (102_350, "100 KiB"), (1024 * 999, "999 KiB"),
        (1024 * 1000, "0.977 MiB"), (80_000_000_000, "74.5 GiB"), (2**63 - 1, "8 EiB"),
    ],
)  # fmt: skip
def test_sizes(size: int | None, shown: str | None) -> None:
    assert size_shown(size) == shown


def test_rates_and_instants() -> None:
    assert [rate_shown(rate) for rate in (None, 0.0, 9.94, 12_345.6)] == [
        None, "0.0", "9.9", "12,346",
    ]  # fmt: skip
    assert instant_shown(NOON_MS, NOON_MS + 1_000) == "12:03:11 UTC"
    assert instant_shown(NOON_MS, NOON_MS + 86_400_000) == "2023-11-14 12:03:11 UTC"


def test_who_is_fenced_is_told_with_the_time() -> None:
    def broker(number: int, **how: object) -> BrokerDescription:
        return BrokerDescription(number, "h", 1, None, 7, **how)  # type: ignore[arg-type]

    away = broker(2, fenced=True, fenced_since_ms=NOON_MS)
    assert _liveness([broker(1), away, broker(3)], NOON_MS) == (
        "2 of 3 brokers are live, broker 2 is fenced since 12:03:11 UTC"
    )
    assert _liveness([broker(1), broker(2, fenced=True)], 0) == (
        "1 of 2 brokers is live, broker 2 is fenced"
    )
    many = [broker(number, fenced=True) for number in range(8)]
    assert _liveness(many, 0).endswith("broker 4 is fenced and 3 more")


def test_sizes_are_of_one_copy_and_of_all_disks() -> None:
    def directory(**sizes: int) -> LogDirDescription:
        found = {
            TopicPartition(name[0], int(name[2])): LogDirReplica(size, 0, 0, 0, None)
            for name, size in sizes.items()
        }
        return LogDirDescription("/d", 1, 1, found)

    directories = [directory(t_0=10, t_1=5), directory(t_0=8, u_0=1), directory(t_1=7)]
    assert topic_sizes(directories) == {"t": TopicSize(17, 30), "u": TopicSize(1, 1)}
    assert topic_sizes([]) == {}
