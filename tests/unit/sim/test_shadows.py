"""The ghost state of all partitions."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from pylog.model import BrokerId, TopicId
from pylog.records.batch import read_header
from pylog.records.builder import encode_batch
from tests.sim.contents import Original
from tests.sim.disk import Inode
from tests.sim.ghost import Batch, Violation
from tests.sim.shadows import Shadows, _Reading

BATCH = bytes(encode_batch([b"value"] * 3))


ONE = BrokerId(1)


def read(data: bytes) -> list[Batch]:
    """What a look at a log file after a restart finds."""
    shadows = Shadows(Counter(), lambda *_: None, lambda: 0)
    node = Inode()
    node.append(data)
    return shadows._whole(ONE, shadows.ghost(TopicId("t"), 0), node, _Reading("/t-0"))


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


def test_a_file_is_read_again_when_it_has_changed_and_only_then() -> None:
    shadows = Shadows(Counter(), lambda *_: None, lambda: 0)
    ghost = shadows.ghost(TopicId("t"), 0)
    header = read_header(BATCH)
    ghost.contents.sent(
        header.crc, Original(ghost.key, (None,) * 3, (b"value",) * 3, (header.max_timestamp,) * 3)
    )
    node = Inode()
    node.append(BATCH)

    def look() -> tuple[int, int]:
        reading = _Reading("/t-0")
        return len(shadows._whole(ONE, ghost, node, reading)), reading.position

    assert look() == (1, len(BATCH))
    kept = node.kept
    assert look() == (1, len(BATCH))
    assert node.kept is kept
    node.truncate(70)
    assert look() == (0, 0)
    node.fsync()
    node.append(BATCH[70:])
    assert look() == (1, len(BATCH))
    node.drop_pages(random.Random(1))
    assert look() == (0, 0)


def test_nobody_has_to_hold_the_records_of_a_deleted_topic() -> None:
    shadows = Shadows(Counter(), lambda *_: None, lambda: 0)
    ghost = shadows.ghost(TopicId("t"), 0)
    ghost.members = (BrokerId(3),)
    ghost.committed_end = 5
    with pytest.raises(Violation, match="I4: broker 3"):
        ghost.check_members()
    shadows.topic_deleted(TopicId("t"))
    ghost.check_members()
