"""The ghost state of all partitions."""

from __future__ import annotations

from collections import Counter

import pytest

from pylog.model import BrokerId, TopicId
from pylog.records.builder import encode_batch
from tests.sim.ghost import Batch, Violation
from tests.sim.shadows import Shadows, _Reading

BATCH = bytes(encode_batch([b"value"] * 3))


def read(data: bytes) -> list[Batch]:
    """What a look at a log file after a restart finds."""
    shadows = Shadows(Counter(), lambda *_: None, lambda: 0)
    ghost = shadows.ghost(TopicId("t"), 0)
    return shadows._batches(BrokerId(1), ghost, bytearray(data), _Reading("/t-0"), check=True)


@pytest.mark.parametrize("room", [0, 1, 500])
def test_a_batch_that_a_kill_has_torn_is_none(room: int) -> None:
    """In a preallocated file zeros come behind it, be it as long as the batch or longer."""
    for written in range(len(BATCH) - 1):
        assert read(BATCH[:written] + bytes(len(BATCH) - written + room)) == []


def test_a_batch_that_is_whole_and_wrong_is_told() -> None:
    for position in range(24, len(BATCH) - 1):
        wrong = bytearray(BATCH)
        wrong[position] ^= 0x55
        with pytest.raises(Violation, match="I15: /t-0: bad CRC at 0"):
            read(wrong)


def test_nobody_has_to_hold_the_records_of_a_deleted_topic() -> None:
    shadows = Shadows(Counter(), lambda *_: None, lambda: 0)
    ghost = shadows.ghost(TopicId("t"), 0)
    ghost.members = (BrokerId(3),)
    ghost.committed_end = 5
    with pytest.raises(Violation, match="I4: broker 3"):
        ghost.check_members()
    shadows.topic_deleted(TopicId("t"))
    ghost.check_members()
