"""Consumers that name a rack read followers (KIP-392), where the brokers are told to allow it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pylog import errors
from pylog.model import BrokerId, LeaderEpoch, Offset
from pylog_broker.replication.effects import FetchDone
from pylog_broker.replication.fetch_messages import Fetch, PartitionData, PartitionFetch, Standing
from pylog_broker.replication.settings import ReplicationSettings
from tests.fakes.broker_group import T0, BrokerGroup
from tests.fakes.logs import bases_of

ONE, TWO, THREE = (BrokerId(number) for number in (1, 2, 3))
NOBODY = BrokerId(-1)
AWARE = ReplicationSettings(rack_aware_reads=True)


@pytest.fixture
def group(tmp_path: Path) -> BrokerGroup:
    """Broker 1 leads in rack a; 2 and 3 follow, in b and c."""
    return made(tmp_path, AWARE)


def made(root: Path, settings: ReplicationSettings) -> BrokerGroup:
    group = BrokerGroup(root, settings=settings, racks=("a", "b", "c"))
    group.create_topic()
    group.run()
    group.produce(1, b"0", b"1")
    group.produce(1, b"2")
    group.advance(1_001)
    assert [group.state(n).high_watermark for n in (1, 2, 3)] == [3, 3, 3]
    return group


def fetch(
    group: BrokerGroup,
    broker: int,
    offset: int = 0,
    rack: str = "b",
    *,
    epoch: int = 0,
    last: int = -1,
    max_wait_ms: int = 0,
    standing: Standing | None = None,
) -> object:
    item = PartitionFetch(T0, None, Offset(offset), 1 << 20, LeaderEpoch(epoch), LeaderEpoch(last))
    return group.send(broker, Fetch(max_wait_ms, 1, 1 << 20, (item,), False, standing, rack))


def data_of(group: BrokerGroup, token: object) -> PartitionData:
    group.run()
    done = group.answers[token]
    assert isinstance(done, FetchDone)
    return done.partitions[0]


def code_of(data: PartitionData) -> int:
    return data.failure.code if data.failure else 0


def test_the_leader_sends_a_consumer_to_the_follower_in_its_rack(group: BrokerGroup) -> None:
    data = data_of(group, fetch(group, 1, max_wait_ms=60_000))
    assert (data.preferred_replica, data.records, code_of(data)) == (TWO, b"", 0)
    data = data_of(group, fetch(group, 1, 3, "c", max_wait_ms=60_000))
    assert data.preferred_replica == THREE
    for rack in ("a", "z", ""):
        data = data_of(group, fetch(group, 1, rack=rack))
        assert data.preferred_replica == NOBODY
        assert bases_of(data.records) == [0, 2]


def test_only_a_follower_in_sync_that_has_the_records_is_named(group: BrokerGroup) -> None:
    group.cut_links = {(TWO, ONE)}
    group.produce(1, b"3")
    group.set_isr(1, 3)
    group.tell()
    group.advance(100)
    assert data_of(group, fetch(group, 1, 0)).preferred_replica == NOBODY
    assert data_of(group, fetch(group, 1, 0, "c")).preferred_replica == THREE


def test_a_follower_gives_what_is_committed_and_no_more(group: BrokerGroup) -> None:
    """F-R70."""
    token = fetch(group, 2, 3, max_wait_ms=60_000)
    group.run()
    group.cut_links = {(THREE, ONE)}
    group.produce(1, b"3")
    group.advance(50)
    assert group.state(2).log_end_offset == 4
    assert group.state(2).high_watermark == 3
    assert token not in group.answers
    assert bases_of(data_of(group, fetch(group, 2)).records) == [0, 2]
    group.cut_links = set()
    group.advance(1_001)
    data = data_of(group, token)
    assert (bases_of(data.records), data.high_watermark) == ([3], 4)


def test_a_follower_that_is_not_in_sync_sends_its_readers_back(group: BrokerGroup) -> None:
    group.set_isr(1, 3)
    group.tell()
    assert code_of(data_of(group, fetch(group, 2))) == errors.NotLeaderOrFollower.code
    assert bases_of(data_of(group, fetch(group, 3, rack="c")).records) == [0, 2]


def test_a_fetch_may_stand_at_a_follower(group: BrokerGroup) -> None:
    token = fetch(group, 2, max_wait_ms=60_000, standing=Standing(5, 1 << 20))
    group.run()
    (first,) = group.standing[token]
    assert bases_of(first.partitions[0].records) == [0, 2]
    group.produce(1, b"3")
    group.advance(100)
    assert bases_of(group.standing[token][1].partitions[0].records) == [3]


def test_a_standing_fetch_at_the_leader_ends_when_a_follower_can_be_read(
    group: BrokerGroup,
) -> None:
    token = fetch(group, 1, standing=Standing(5, 1 << 20))
    assert data_of(group, token).preferred_replica == TWO
    assert token not in group.standing


def test_offsets_beyond_a_followers_log_are_refused_there(group: BrokerGroup) -> None:
    assert code_of(data_of(group, fetch(group, 2, 4))) == errors.OffsetOutOfRange.code


def test_a_follower_takes_no_reader_of_another_epoch(group: BrokerGroup) -> None:
    for epoch, error in (
        (-1, errors.NotLeaderOrFollower),
        (1, errors.UnknownLeaderEpoch),
    ):
        assert code_of(data_of(group, fetch(group, 2, epoch=epoch))) == error.code
    waiting = fetch(group, 2, 3, max_wait_ms=60_000)
    group.run()
    group.elect(THREE)
    group.tell()
    assert code_of(data_of(group, waiting)) == errors.FencedLeaderEpoch.code
    assert code_of(data_of(group, fetch(group, 2))) == errors.FencedLeaderEpoch.code


def test_a_follower_says_nothing_of_where_logs_part(group: BrokerGroup) -> None:
    """Only a leader can: what a follower has above its high watermark may yet go."""
    data = data_of(group, fetch(group, 2, 1, last=7))
    assert (code_of(data), data.diverging) == (0, None)


def test_a_follower_without_a_leader_is_not_read(group: BrokerGroup) -> None:
    group.elect(NOBODY)
    group.tell()
    assert code_of(data_of(group, fetch(group, 2, epoch=1))) == errors.NotLeaderOrFollower.code


def test_without_the_setting_racks_change_nothing(tmp_path: Path) -> None:
    group = made(tmp_path, ReplicationSettings())
    assert bases_of(data_of(group, fetch(group, 1)).records) == [0, 2]
    assert code_of(data_of(group, fetch(group, 2))) == errors.NotLeaderOrFollower.code
