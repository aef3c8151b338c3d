from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fakes.fake_cluster import FakeCluster


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    """Two brokers, and the topic t of three partitions."""
    with FakeCluster(2) as running:
        running.create_topic("t", 3)
        yield running
