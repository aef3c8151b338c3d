"""Groups of many members that join together."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from pylog import AdminClient, Consumer, LocalCluster, NewTopic
from tests.fakes.waiting import eventually

pytestmark = pytest.mark.integration

MEMBERS = 50
JOINS_S = 2.0
"""The last one joins so long after the first."""


@pytest.fixture(scope="module")
def patient() -> Iterator[LocalCluster]:
    """A coordinator that lets the first member of a group wait for others, as Kafka's does."""
    with LocalCluster(1, config={"group.initial.rebalance.delay.ms": "3000"}) as running:
        with AdminClient(bootstrap_servers=running.bootstrap_servers) as admin:
            admin.create_topics(NewTopic("t", MEMBERS, 1))
        yield running


class Member:
    """It polls on a thread of its own."""

    def __init__(self, bootstrap: str, after_s: float) -> None:
        self.owned = 0
        self.generation = -1
        self.ends = threading.Event()
        self._bootstrap, self._after_s = bootstrap, after_s
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        self.ends.wait(self._after_s)
        with Consumer(
            bootstrap_servers=self._bootstrap, group_id="many", group_protocol="classic"
        ) as consumer:
            consumer.subscribe("t")
            while not self.ends.is_set():
                consumer.poll(0.1)
                self.owned = len(consumer.assignment())
                self.generation = consumer.group_metadata().generation


def test_fifty_members_that_join_together_have_their_shares_within_three_generations(
    patient: LocalCluster,
) -> None:
    members = [
        Member(patient.bootstrap_servers, JOINS_S * number / MEMBERS) for number in range(MEMBERS)
    ]
    try:
        eventually(60, lambda: all(m.owned == 1 for m in members), "each has a partition")
        assert len({member.generation for member in members}) == 1
        assert 1 <= members[0].generation <= 3
    finally:
        for member in members:
            member.ends.set()
        for member in members:
            member.thread.join()
