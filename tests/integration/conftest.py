"""A cluster for tests of wrong requests. Modules with another need have one of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pylog.local import LocalCluster
from tests.fakes.raw_client import RawClient


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Two brokers; no log of theirs may show an exception that nobody thought of."""
    with LocalCluster(2) as running:
        yield running
        for log in sorted((running.data_dir / "logs").iterdir()):
            text = log.read_text()
            assert "Traceback" not in text, text[-5000:]
            assert "failed unexpectedly" not in text, text[-5000:]


@pytest.fixture(scope="module")
def raw(cluster: LocalCluster) -> Iterator[RawClient]:
    with RawClient(cluster.bootstrap_servers) as client:
        yield client


@pytest.fixture
def topic(raw: RawClient, request: pytest.FixtureRequest) -> str:
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)
    raw.create_topic(name)
    return name
