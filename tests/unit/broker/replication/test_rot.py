"""A batch of a leader's log has rotted: another replica leads, or the rest goes on being served."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pylog import errors
from pylog.model import NO_LEADER, BrokerId
from pylog.records.batch import iter_headers
from pylog_broker.replication.effects import FetchDone, ReplicaFailed, ReplicaFetchDone
from pylog_broker.replication.fetch_messages import PartitionData
from pylog_broker.replication.followers import TELL_STUCK_EVERY_MS
from pylog_broker.storage.log.log import Log
from tests.fakes.broker_group import T0, WALL_MS, BrokerGroup
from tests.fakes.replica_fetches import fetch_of

ONE, TWO, THREE = (BrokerId(number) for number in (1, 2, 3))


def log_of(group: BrokerGroup, broker: BrokerId) -> Log:
    log = group.logs[broker].get(T0)
    assert log is not None
    return log


def fill(group: BrokerGroup) -> None:
    """Records 0 to 3, the first three in a segment that is full."""
    for value in (b"a", b"b", b"c"):
        group.produce(1, value)
        group.run()
    log_of(group, ONE).roll(WALL_MS)
    group.produce(1, b"d")
    group.run()


def rot(group: BrokerGroup, broker: BrokerId, offset: int = 1) -> None:
    """Flip a bit of a batch, and have nothing in memory."""
    log = log_of(group, broker)
    log._tail.clear()
    path = Path(log.segments[0].log_path)
    data = bytearray(path.read_bytes())
    (position,) = [at for at, header in iter_headers(data) if header.base_offset == offset]
    data[position + 65] ^= 1
    path.write_bytes(data)


def read(group: BrokerGroup, offset: int, broker: int = 1) -> PartitionData:
    token = group.fetch(broker, offset)
    group.run()
    done = group.answers[token]
    assert isinstance(done, FetchDone)
    return done.partitions[0]


def bases(data: PartitionData) -> list[int]:
    assert data.failure is None
    return [header.base_offset for _, header in iter_headers(data.records)]


def failures(group: BrokerGroup) -> list[BrokerId]:
    return [b for b, e in group.other_effects if isinstance(e, ReplicaFailed)]


@pytest.fixture
def alone(tmp_path: Path) -> BrokerGroup:
    group = BrokerGroup(tmp_path, brokers=1)
    group.create_topic(replicas=(1,))
    group.run()
    fill(group)
    return group


@pytest.fixture
def three(tmp_path: Path) -> BrokerGroup:
    group = BrokerGroup(tmp_path)
    group.create_topic()
    group.run()
    fill(group)
    return group


def test_what_is_whole_is_served_before_and_behind_and_written_to(alone: BrokerGroup) -> None:
    rot(alone, ONE)
    assert bases(read(alone, 0)) == [0]
    lost = read(alone, 1)
    assert lost.failure is not None
    assert lost.failure.code == errors.CorruptMessage.code
    assert "00000000000000000000.log is damaged" in lost.failure.message
    assert "seek to 2 to go on" in lost.failure.message
    assert (lost.damaged_end, lost.high_watermark, lost.log_start_offset) == (2, 4, 0)
    assert bases(read(alone, 2)) == [2]
    assert bases(read(alone, 3)) == [3]
    acked = alone.produce(1, b"e")
    alone.run()
    assert alone.error(acked) == 0
    assert bases(read(alone, 4)) == [4]
    assert failures(alone) == []


def test_a_fetch_that_waits_for_much_is_told_of_it_at_once(alone: BrokerGroup) -> None:
    rot(alone, ONE)
    token = alone.fetch(1, 1, min_bytes=1, max_wait_ms=500)
    alone.run()
    assert token in alone.answers


def test_a_leader_gives_way_to_who_has_the_batch_and_goes_offline(three: BrokerGroup) -> None:
    rot(three, ONE)
    lost = read(three, 1)
    assert lost.failure is not None
    assert lost.failure.code == errors.KafkaStorageError.code
    assert "another replica is to lead soon" in lost.failure.message
    assert (three.record().leader, set(three.record().isr)) == (TWO, {TWO, THREE})
    assert failures(three) == []  # it still is what clients know as the leader
    three.tell()
    three.run()
    assert failures(three) == [ONE]
    assert "offsets 1 to 1" in three.state(1).fault
    assert bases(read(three, 1, broker=2)) == [1, 2, 3]


def test_a_leader_that_nobody_can_replace_goes_on_alone(three: BrokerGroup) -> None:
    rot(three, ONE)
    alone_in_sync(three)
    lost = read(three, 1)
    assert lost.failure is not None
    assert lost.failure.code == errors.CorruptMessage.code
    assert bases(read(three, 2)) == [2]
    assert failures(three) == []


def alone_in_sync(group: BrokerGroup) -> None:
    """The others are away, and lack a record."""
    group.cut_links |= {(TWO, ONE), (THREE, ONE)}
    group.set_isr(1)
    group.tell()
    group.produce(1, b"e")
    group.advance(group.settings.replica_lag_time_max_ms + 1)
    group.run()
    assert group.marks(1) == (0, 5, 5)


def test_a_leader_gives_way_as_soon_as_another_has_come_into_sync(three: BrokerGroup) -> None:
    alone_in_sync(three)
    rot(three, ONE)
    assert read(three, 1).failure is not None
    three.cut_links -= {(TWO, ONE)}
    three.advance(1_000)
    three.run()
    assert (three.record().leader, three.record().isr) == (TWO, (TWO,))
    three.tell()
    three.run()
    assert failures(three) == [ONE]


def test_a_leader_whose_wish_is_refused_asks_again(three: BrokerGroup) -> None:
    rot(three, ONE)
    three.refuse_isr_with = errors.IneligibleReplica.code
    assert read(three, 1).failure is not None
    assert three.record().leader == ONE
    three.refuse_isr_with = None
    for _ in range(40):
        three.advance(1_000)
        three.run()
    assert three.record().leader == TWO


def test_a_copy_stops_at_the_damage_without_haste_and_never_joins(
    three: BrokerGroup, caplog: pytest.LogCaptureFixture
) -> None:
    three.stop(TWO)
    three.stop(THREE)
    alone_in_sync(three)
    three.cut_links.clear()
    shutil.rmtree(three.root / "broker-3" / "t-0")
    rot(three, ONE)
    three.start(THREE)
    sent_before = three.now_ms
    for _ in range(120):
        three.advance(500)
        three.run()
    assert log_of(three, THREE).log_end_offset == 1
    assert three.record().isr == (ONE,)
    told = [r.getMessage() for r in caplog.records if "stays out of sync" in r.getMessage()]
    assert len(told) == 1
    assert "t-0 stays out of sync here, at offset 1: its leader 1 says" in told[0]
    assert three.now_ms - sent_before < TELL_STUCK_EVERY_MS
    acked = three.produce(1, b"f")
    three.run()
    assert three.error(acked) == 0


def test_a_followers_fetch_at_the_damage_is_refused_by_name(three: BrokerGroup) -> None:
    alone_in_sync(three)
    rot(three, ONE)
    done = [
        effect
        for effect in three.managers[ONE].replica_fetch(three.now_ms, fetch_of(three, 2, 1), "x")
        if isinstance(effect, ReplicaFetchDone)
    ]
    failure = done[-1].fetched.partitions[0].failure
    assert failure is not None
    assert failure.code == errors.CorruptMessage.code


def test_a_damaged_log_that_is_to_follow_is_offline(three: BrokerGroup) -> None:
    """Found by the start: another one leads and has what is lost here."""
    three.stop(THREE)
    (path,) = (three.root / "broker-3" / "t-0").glob("*.log")
    data = bytearray(path.read_bytes())
    data[65] ^= 1
    path.write_bytes(data)
    three.start(THREE)
    three.run()
    assert failures(three) == [THREE]
    assert "offsets 0 to 0" in three.state(3).fault


def test_a_damaged_log_whose_leader_is_gone_waits(alone: BrokerGroup) -> None:
    """A broker that stops leads nothing; when it is back it is the only one that can."""
    rot(alone, ONE)
    assert read(alone, 1).failure is not None
    alone.elect(NO_LEADER)
    alone.tell()
    alone.elect(1)
    alone.tell()
    alone.run()
    assert failures(alone) == []
    assert bases(read(alone, 2)) == [2]
