"""Reads and writes of coordinators: a log to its end, and batches at exactly one offset."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from pylog import errors
from pylog.model import BrokerId, LeaderEpoch, Offset, TopicPartition
from pylog.records.batch import iter_headers
from pylog.records.builder import encode_batch
from pylog_broker.replication.effects import (
    ColdRead,
    Effect,
    HighWatermarkMoved,
    InternalAppended,
    InternalRead,
)
from pylog_broker.replication.internal_messages import AppendInternal, InternalData, ReadInternal
from tests.fakes.broker_group import WALL_MS, BrokerGroup
from tests.fakes.paged_files import PagedFiles

ONE, TWO = BrokerId(1), BrokerId(2)
NAME = "__consumer_offsets"
P0 = TopicPartition(NAME, 0)
FIRST = LeaderEpoch(0)


@pytest.fixture
def group(tmp_path: Path) -> BrokerGroup:
    """An internal topic of one partition, led by broker 1."""
    made = BrokerGroup(tmp_path)
    made.create_topic(name=NAME, min_isr=2)
    made.run()
    return made


def append(
    group: BrokerGroup, at: int, *values: bytes, broker: int = 1, epoch: int = 0
) -> tuple[int, list[Effect]]:
    """The code of the answer, and the effects beside it."""
    batch = encode_batch(list(values), keys=list(values), timestamps=WALL_MS)
    request = AppendInternal(P0, LeaderEpoch(epoch), Offset(at), batch)
    manager = group.managers[BrokerId(broker)]
    effects = manager.append_internal(group.now_ms, WALL_MS, request, "token")
    [answer] = [effect for effect in effects if isinstance(effect, InternalAppended)]
    assert answer.token == "token"
    group._post(BrokerId(broker), [effect for effect in effects if effect is not answer])
    return (answer.failure.code if answer.failure else 0), effects


def read(
    group: BrokerGroup, offset: int, max_bytes: int = 1 << 20, *, broker: int = 1, epoch: int = 0
) -> InternalData:
    request = ReadInternal(P0, LeaderEpoch(epoch), Offset(offset), max_bytes)
    effects = group.managers[BrokerId(broker)].read_internal(group.now_ms, request, "token")
    [answer] = [effect for effect in effects if isinstance(effect, InternalRead)]
    return answer.data


def offsets_of(data: InternalData) -> list[int]:
    return [header.base_offset for _, header in iter_headers(data.records)]


def test_a_batch_is_committed_by_its_replicas_and_acknowledged_before(group: BrokerGroup) -> None:
    code, effects = append(group, 0, b"a", b"b")
    assert code == 0
    assert not any(isinstance(effect, HighWatermarkMoved) for effect in effects)
    group.run()
    moved = [e for _, e in group.other_effects if isinstance(e, HighWatermarkMoved)]
    assert [each.offset for each in moved] == [2]
    assert group.stored(1, P0) == group.stored(2, P0)


def test_a_batch_goes_where_it_is_expected_or_nowhere(group: BrokerGroup) -> None:
    assert append(group, 1, b"a")[0] == errors.OffsetOutOfRange.code
    assert append(group, 0, b"a")[0] == 0
    assert append(group, 0, b"a")[0] == errors.OffsetOutOfRange.code
    assert append(group, 1, b"b", epoch=1)[0] == errors.UnknownLeaderEpoch.code
    assert append(group, 0, b"b", broker=2)[0] == errors.NotLeaderOrFollower.code
    assert read(group, 0).end_offset == 1


def test_a_batch_of_an_earlier_epoch_is_fenced(group: BrokerGroup) -> None:
    group.elect(1)
    group.tell()
    assert append(group, 0, b"a", epoch=0)[0] == errors.FencedLeaderEpoch.code
    assert append(group, 0, b"a", epoch=1)[0] == 0


def test_nothing_is_appended_with_too_few_replicas_in_sync(group: BrokerGroup) -> None:
    manager = group.managers[ONE]
    assert manager.internal_refusal(P0) is None
    group.set_isr(1)
    group.tell()
    refusal = manager.internal_refusal(P0)
    assert refusal is not None
    assert refusal.code == errors.NotEnoughReplicas.code
    assert append(group, 0, b"a")[0] == errors.NotEnoughReplicas.code
    assert read(group, 0).end_offset == 0


@pytest.mark.parametrize("codec", ["producer", "gzip"])
def test_a_batch_may_be_larger_than_those_of_producers(tmp_path: Path, codec: str) -> None:
    group = BrokerGroup(tmp_path, 1)
    config = {"max.message.bytes": "100", "compression.type": codec}
    group.create_topic((1,), name=NAME, config=config)
    group.run()
    values = [hashlib.sha256(b"%d" % n).digest() for n in range(100)]  # no codec makes less of it
    assert append(group, 0, *values)[0] == 0
    assert offsets_of(read(group, 0)) == [0]
    assert append(group, 100, b"x" * (1 << 20))[0] == errors.MessageTooLarge.code


def test_a_log_is_read_to_its_end_committed_or_not(group: BrokerGroup) -> None:
    assert read(group, 0) == InternalData(None, b"", Offset(0), Offset(0))
    append(group, 0, b"a", b"b")
    append(group, 2, b"c")
    assert group.state(1, topic=NAME).high_watermark == 0
    first = read(group, 0, max_bytes=1)
    assert (offsets_of(first), first.next_offset, first.end_offset) == ([0], 2, 3)
    rest = read(group, first.next_offset)
    assert (offsets_of(rest), rest.next_offset, rest.end_offset) == ([2], 3, 3)
    assert read(group, 3) == InternalData(None, b"", Offset(3), Offset(3))
    failure = read(group, 4).failure
    assert failure is not None
    assert failure.code == errors.OffsetOutOfRange.code
    failure = read(group, 0, broker=2).failure
    assert failure is not None
    assert failure.code == errors.NotLeaderOrFollower.code


def test_a_read_begins_where_the_log_does(group: BrokerGroup) -> None:
    append(group, 0, b"a")
    append(group, 1, b"b")
    group.run()
    log = group.logs[ONE].get(P0)
    assert log is not None
    log.advance_log_start(Offset(1))
    found = read(group, 0)
    assert (offsets_of(found), found.next_offset) == ([1], 2)


def test_cold_pages_are_read_elsewhere(tmp_path: Path) -> None:
    group = BrokerGroup(tmp_path, 1)
    group.create_topic((1,), name=NAME)
    group.run()
    for at in range(20):
        append(group, at, b"v" * 1_000)
    files, manager = PagedFiles(), group.managers[ONE]
    log = group.logs[ONE].get(P0)
    assert log is not None
    log._reader._files = files  # of the files that the test reads nothing is in memory
    log._tail.clear()
    request = ReadInternal(P0, FIRST, Offset(0), 1 << 20)
    [effect] = manager.read_internal(group.now_ms, request, "token")
    assert isinstance(effect, ColdRead)
    assert files.waited_for == [], "the broker's loop waited for the disk"
    while isinstance(effect, ColdRead):
        assert callable(effect.read)
        effect.read()
        files.waited_for.clear()
        [effect] = manager.on_cold_read(group.now_ms, effect)
        assert files.waited_for == []
    assert isinstance(effect, InternalRead)
    assert offsets_of(effect.data) == [*range(20)]


def test_what_has_rotted_is_stepped_over_by_the_only_replica(tmp_path: Path) -> None:
    group = BrokerGroup(tmp_path, 1)
    group.create_topic((1,), name=NAME)
    group.run()
    for at, value in enumerate((b"a", b"b", b"c")):
        append(group, at, value)
    log = group.logs[ONE].get(P0)
    assert log is not None
    log._tail.clear()
    [segment] = [path for path in tmp_path.rglob("00000000000000000000.log") if NAME in str(path)]
    data = bytearray(segment.read_bytes())
    size = len(data) // 3
    data[2 * size - 1] ^= 0xFF
    segment.write_bytes(data)
    found = read(group, 0, max_bytes=1)
    assert (offsets_of(found), found.next_offset, found.lost) == ([0], 1, None)
    assert read(group, 1) == InternalData(None, b"", Offset(2), Offset(3), lost=Offset(1))
    assert offsets_of(read(group, 2)) == [2]
