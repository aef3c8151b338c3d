"""Rules for every test."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# Machines of tests may be slow: how long an example takes tells nothing about it.
settings.register_profile("pylog", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("pylog")


@pytest.fixture(autouse=True)
def _nothing_is_imported_twice() -> Iterator[None]:
    """The folders `broker` and `connector` are imported as `pylog_broker` and `pylog_connector`; by
    their own names, which the repository's root offers too, they would be second copies.
    """
    yield
    assert not {"broker", "connector"} & sys.modules.keys()
