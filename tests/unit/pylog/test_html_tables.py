"""Descriptions in a notebook: nothing in them is markup."""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser

import pytest

from pylog.client.admin.admin_types import (
    GroupDescription,
    GroupMember,
    LogDirDescription,
    LogDirReplica,
)
from pylog.client.consumer.consumer_records import ConsumerRecords
from pylog.html_tables import ROWS_MAX, html_table
from pylog.model import (
    BrokerDescription,
    ClusterDescription,
    PartitionDescription,
    TopicDescription,
    TopicPartition,
)
from pylog.records.record import Record

HOSTILE = "<script>alert('&\"')</script>\x1b[2J\u202e"
BROKER = BrokerDescription(1, HOSTILE, 9092, HOSTILE, 7)


class Page(HTMLParser):
    """The tags of a page, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.cells: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert attrs == []
        if tag in ("td", "th", "b"):
            self.cells.append("")

    def handle_data(self, data: str) -> None:
        if self.cells:
            self.cells[-1] += data


def described() -> Iterator[object]:
    partition = PartitionDescription(0, None, 3, (1, 2), (1,), (), (2,))
    yield TopicDescription(HOSTILE, "id", False, (partition,))
    yield ClusterDescription(HOSTILE, 1, (BROKER, BrokerDescription(2, "h", 1, None, 7, True)))
    member = GroupMember(HOSTILE, "consumer", HOSTILE, HOSTILE, assignment=None)
    yield GroupDescription(HOSTILE, "consumer", HOSTILE, "", "", BROKER, (member,))
    replicas = {TopicPartition(HOSTILE, 0): LogDirReplica(1, 2, 3, 4)}
    yield LogDirDescription(HOSTILE, 5, 4, replicas)
    record = Record.of(HOSTILE, 1, 7, 99, key=HOSTILE.encode(), value=b"\xff" + HOSTILE.encode())
    yield ConsumerRecords({TopicPartition("t", 0): [record]})


@pytest.mark.parametrize("value", list(described()), ids=lambda value: type(value).__name__)
def test_what_others_wrote_is_text(value: object) -> None:
    html: str = value._repr_html_()  # type: ignore[attr-defined]
    page = Page(html)
    assert set(page.tags) <= {"div", "p", "b", "table", "thead", "tbody", "tr", "th", "td"}
    assert any("<script>alert('&\"')</script>\\x1b[2J\\u202e" in cell for cell in page.cells)
    assert html.isprintable()


def test_a_topic() -> None:
    partitions = tuple(PartitionDescription(n, 1, 3, (1, 2), (1, 2)) for n in range(2))
    page = Page(TopicDescription("t", "id", False, partitions)._repr_html_())
    assert page.cells == [
        "topic t", "partition", "leader", "epoch", "replicas", "in sync", "offline",
        "0", "1", "3", "1, 2", "1, 2", "", "1", "1", "3", "1, 2", "1, 2", "",
    ]  # fmt: skip


def test_a_cluster_says_how_many_are_live() -> None:
    away = BrokerDescription(2, "h", 1, None, 7, fenced=True)
    page = Page(ClusterDescription("c", 1, (BROKER, away))._repr_html_())
    assert page.cells[0] == "cluster c: 1 of 2 brokers are live"
    assert page.cells[-1] == "fenced"


def test_long_tables_and_long_texts_are_cut() -> None:
    rows = ((number, "x" * 10_000) for number in range(10_000))
    html = html_table("t", ("a", "b"), rows, 10_000)
    assert html.count("<tr>") == ROWS_MAX + 1
    assert f"and {10_000 - ROWS_MAX} more" in html
    assert len(html) < 100_000
