"""The ghost state of all partitions."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from pylog.model import BrokerId, TopicId
from pylog.records.batch import read_header
from pylog.records.builder import encode_batch
from tests.sim.contents import Original, fingerprint
from tests.sim.disk import Disk, Inode
from tests.sim.ghost import Batch, Violation
from tests.sim.shadows import Shadows, _Reading

BATCH = bytes(encode_batch([b"value"] * 3))


ONE = BrokerId(1)


def read(data: bytes) -> list[Batch]:
    """The batches that a look at a log file after a restart finds."""
    shadows = Shadows(Counter(), lambda *_: None, lambda: 0)
    node = Inode()
    node.append(data)
    found = shadows._whole(shadows.ghost(TopicId("t"), 0), node, _Reading("/t-0"))
    return [each.batch for each in found]


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
        fingerprint(BATCH),
        Original(ghost.key, (None,) * 3, (b"value",) * 3, (header.max_timestamp,) * 3),
    )
    node = Inode()
    node.append(BATCH)

    def look() -> tuple[int, int]:
        reading = _Reading("/t-0")
        return len(shadows._whole(ghost, node, reading)), reading.position

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


def numbered_batches(count: int) -> list[bytes]:
    """Batches of three records each, one behind the other."""
    found = []
    for number in range(count):
        batch = bytearray(encode_batch([b"%d" % number * 9] * 3))
        batch[:8] = (3 * number).to_bytes(8, "big")
        found.append(bytes(batch))
    return found


def with_segments(*segments: tuple[int, bytes]) -> tuple[Shadows, Disk, _Reading]:
    """The files of a log, (base, bytes) each."""
    shadows = Shadows(Counter(), lambda *_: None, lambda: 0)
    ghost = shadows.ghost(TopicId("t"), 0)
    for batch in numbered_batches(5):
        header = read_header(batch)
        times = (header.max_timestamp,) * 3
        ghost.contents.sent(
            fingerprint(batch), Original(ghost.key, (None,) * 3, (b"v",) * 3, times)
        )
    disk = Disk()
    disk.mkdir("/data/t-0")
    for base, data in segments:
        disk.create(f"/data/t-0/{base:020d}.log").append(data)
    return shadows, disk, _Reading("/data/t-0")


def after_a_failed_sync(*segments: tuple[int, bytes]) -> tuple[Shadows, Disk, _Reading]:
    """The same, and pages of the files may be gone."""
    shadows, disk, reading = with_segments(*segments)
    reading.may_have_lost = True
    return shadows, disk, reading


def test_what_a_failed_sync_took_is_missing_between_others() -> None:
    a, b, c, d, e = numbered_batches(5)
    shadows, disk, reading = after_a_failed_sync(
        (0, a + bytes(len(b) - 1) + b"x" + c), (9, d[:40] + bytes(len(d) - 40)), (12, e)
    )
    ghost = shadows.ghost(TopicId("t"), 0)
    first, batches, end = shadows._read_all(ONE, ghost, reading, disk)
    assert (first, [batch.base for batch in batches], end) == (0, [0, 6, 12], 15)
    shadow = ghost.shadow(ONE)
    assert shadow.behind_loss == {6, 12}
    ghost.replace(ONE, first, batches, end)
    ghost.committed, ghost._bases, ghost.committed_end = batches, [0, 6, 12], 15
    ghost.members = (ONE,)
    with pytest.raises(Violation, match="only up to 3 of 15"):
        ghost.check_members()
    shadow.log_start = 12
    ghost.check_members()


@pytest.mark.parametrize("before", [b"", bytes(numbered_batches(1)[0])])
def test_a_batch_that_has_lost_its_offset_is_lost(before: bytes) -> None:
    """Its CRC does not cover the first bytes, which are the end of a page."""
    _, b, c, *_ = numbered_batches(5)
    base = 0 if before else 3
    shadows, disk, reading = after_a_failed_sync((base, before + bytes(8) + b[8:] + c))
    ghost = shadows.ghost(TopicId("t"), 0)
    _, batches, _ = shadows._read_all(ONE, ghost, reading, disk)
    assert [batch.base for batch in batches] == [0, 6][not before :]
    assert ghost.shadow(ONE).behind_loss == {6}


def test_what_was_synced_before_is_not_lost() -> None:
    a, b, c, *_ = numbered_batches(3)
    shadows, disk, reading = after_a_failed_sync((0, a + bytes(len(b) - 1) + b"x" + c))
    ghost = shadows.ghost(TopicId("t"), 0)
    _, batches, _ = shadows._read_all(ONE, ghost, reading, disk)
    shadow = ghost.shadow(ONE)
    shadows._check_synced(ONE, shadow, reading, batches)
    reading.synced[3] = batches[0]._replace(base=3)
    with pytest.raises(Violation, match="which was synced"):
        shadows._check_synced(ONE, shadow, reading, batches)


def test_nobody_has_to_hold_the_records_of_a_deleted_topic() -> None:
    shadows = Shadows(Counter(), lambda *_: None, lambda: 0)
    ghost = shadows.ghost(TopicId("t"), 0)
    ghost.members = (BrokerId(3),)
    ghost.committed_end = 5
    with pytest.raises(Violation, match="I4: broker 3"):
        ghost.check_members()
    shadows.topic_deleted(TopicId("t"))
    ghost.check_members()


@pytest.mark.parametrize("left", [b"", bytes(1_000)])
@pytest.mark.parametrize("all_anew", [False, True])
def test_a_log_goes_on_before_a_segment_that_a_given_up_roll_left(
    all_anew: bool, left: bytes
) -> None:
    """Be it preallocated or not; and the roll that succeeds at last begins a segment."""
    a, b, c, *_ = numbered_batches(5)
    shadows, disk, reading = with_segments((0, a))
    ghost = shadows.ghost(TopicId("t"), 0)

    def look() -> list[int]:
        if all_anew:
            disk.note_cut("/data/t-0", "0.log")
        shadows._read(ONE, ghost, reading, disk)
        return [batch.base for batch in ghost.shadow(ONE).batches]

    assert look() == [0]
    disk.create(f"/data/t-0/{3:020d}.log").append(left)
    assert look() == [0]
    all_anew = False
    disk.file(f"/data/t-0/{0:020d}.log").append(b)
    assert (look(), ghost.shadow(ONE).end) == ([0, 3], 6)
    disk.unlink(f"/data/t-0/{3:020d}.log")
    disk.create(f"/data/t-0/{6:020d}.log").append(c)
    assert (look(), ghost.shadow(ONE).end) == ([0, 3, 6], 9)
