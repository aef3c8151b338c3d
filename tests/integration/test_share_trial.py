"""A share group whose members and brokers are killed loses no record, and none comes again after an
accept: a short form of `tests/verify/shares.py`.
"""

from __future__ import annotations

import pytest

from tests.verify import shares

pytestmark = pytest.mark.integration


def test_records_are_accepted_once_whoever_is_killed() -> None:
    assert shares.run(6_000, 6, seed=932) == []
