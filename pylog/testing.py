"""pytest fixtures: `pylog_cluster`, a running cluster for the whole session, and `pylog_topic`, a
fresh topic in it.

pytest loads this module in every run on a machine where pylog is installed, so it imports nothing
of pylog before a fixture is used.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pylog.local import LocalCluster

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def pylog_cluster() -> Iterator[LocalCluster]:
    """A cluster of one broker in a temporary folder; `bootstrap_servers` is its address."""
    from pylog.local import LocalCluster

    with LocalCluster() as cluster:
        yield cluster


@pytest.fixture
def pylog_topic(pylog_cluster: LocalCluster) -> str:
    """The name of a new topic with one partition in `pylog_cluster`."""
    from pylog import AdminClient, NewTopic

    name = f"pylog-test-{next(_numbers)}"
    with AdminClient(bootstrap_servers=pylog_cluster.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name)])
    return name
