"""pytest fixtures: `pylog_cluster`, a running cluster for the whole session, and `pylog_topic`, a
fresh topic in it. And `check_options`, which tells what becomes of the options of an existing Kafka
pipeline; `python -m pylog.testing options` is the same as a command.

pytest loads this module in every run on a machine where pylog is installed, so it imports nothing
of pylog before a fixture is used.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pylog.local import LocalCluster
    from pylog_connector.option_verdicts import OptionVerdict

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


def check_options(
    options: Mapping[str, object],
    *,
    use: str | None = None,
    mode: str | None = None,
    output_mode: str | None = None,
) -> list[OptionVerdict]:
    """The verdict on each option under `format("pylog")`: it works, is taken without effect, or is
    refused with what to write instead. Neither Spark nor a cluster is asked.

    `use` is `read`, `readStream`, `write` or `writeStream`; without it the options decide. `mode`
    and `output_mode` are the pipeline's: Spark does not let this format have all of them.
    """
    from pylog.testing.options import verdicts_of

    return verdicts_of(options, use=use, mode=mode, output_mode=output_mode)
