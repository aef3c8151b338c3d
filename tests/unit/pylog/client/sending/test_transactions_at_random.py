"""Transactions over a dumb coordinator, with faults at random."""

from __future__ import annotations

import random

import pytest

from tests.fakes.transaction_drive import POSITION, Drive


@pytest.mark.parametrize("seed", range(40))
def test_committed_transactions_are_whole_and_no_other_is_seen(seed: int) -> None:
    drive = Drive(random.Random(seed))
    assert drive.wait_for(drive.world.transactions.init()) is None
    for number in range(25):
        drive.transaction(number)
    assert drive.commits > 3
    assert drive.aborts > 0
    assert {tp: drive.committed(tp) for tp in drive.expected} == drive.expected
    assert drive.ids.committed.get(("g", POSITION), 0) == drive.position
