"""`pylog topics describe`: which partitions the options of Kafka's tool take."""

from __future__ import annotations

import pytest

from pylog.cli.topics import _FILTERS, _taken
from pylog.client.admin.admin_types import ConfigEntry
from pylog.model import PartitionDescription, TopicDescription


def partition(number: int, leader: int | None, *isr: int) -> PartitionDescription:
    return PartitionDescription(number, leader, 0, (1, 2, 3), isr)


WHOLE = partition(0, 1, 1, 2, 3)
AT_MIN = partition(1, 1, 1, 2)
UNDER_MIN = partition(2, 1, 1)
OFFLINE = partition(3, None)
TOPIC = TopicDescription("t", "id", False, (WHOLE, AT_MIN, UNDER_MIN, OFFLINE))


def entries(min_isr: str) -> dict[str, ConfigEntry]:
    name = "min.insync.replicas"
    return {name: ConfigEntry(name, min_isr, "DYNAMIC_TOPIC_CONFIG", False, False, "int", "", ())}


@pytest.mark.parametrize(
    ("filters", "min_isr", "expected"),
    [
        ([], "2", [WHOLE, AT_MIN, UNDER_MIN, OFFLINE]),
        (["under_replicated"], "2", [AT_MIN, UNDER_MIN, OFFLINE]),
        (["unavailable"], "2", [OFFLINE]),
        (["under_min_isr"], "2", [UNDER_MIN, OFFLINE]),
        (["at_min_isr"], "2", [AT_MIN]),
        (["at_min_isr", "unavailable"], "2", [AT_MIN, OFFLINE]),
        (["at_min_isr"], "9", [WHOLE]),  # as brokers count: never more than there are replicas
    ],
)
def test_an_option_takes(
    filters: list[str], min_isr: str, expected: list[PartitionDescription]
) -> None:
    asked = [_FILTERS[name] for name in filters]
    assert list(_taken(TOPIC, entries(min_isr), asked)) == expected
