"""Groups go on while members come, go and stall, and their coordinators are killed."""

from __future__ import annotations

import pytest

from tests.verify.groups import run

pytestmark = pytest.mark.integration


def test_each_record_is_read_and_no_position_goes_back() -> None:
    assert run(rebalances=15, seed=3) == []
