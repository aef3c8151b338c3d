"""A cluster in memory, for the adapters' tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fakes.fake_cluster import FakeCluster


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    """One broker, and the topic t of two partitions."""
    with FakeCluster() as running:
        running.create_topic("t", 2)
        yield running
