from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.broker_group import BrokerGroup


@pytest.fixture
def group(tmp_path: Path) -> BrokerGroup:
    """Brokers without topics."""
    return BrokerGroup(tmp_path)
