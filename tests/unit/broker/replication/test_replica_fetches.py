"""Fetches of followers: what each proves to the leader, and where leader epochs end."""

from __future__ import annotations

import pytest

from pylog import errors
from pylog.model import (
    BrokerId,
    LeaderEpoch,
    TopicId,
)
from pylog_broker.replication.effects import ReplicaFetchDone
from pylog_broker.replication.replica_fetch_messages import (
    EpochEndQuery,
    ReplicaEpochEnd,
    ReplicaEpochQuery,
)
from tests.fakes.broker_group import TOPIC_ID, BrokerGroup
from tests.fakes.replica_fetches import fetch_of

ONE, TWO, THREE = (BrokerId(number) for number in (1, 2, 3))


def ends(group: BrokerGroup, leader: int = 1) -> dict[int, int]:
    return dict(group.state(leader).follower_ends)


def test_the_offset_of_a_diverging_fetch_does_not_count(group: BrokerGroup) -> None:
    """B-R9."""
    group.create_topic()
    group.run()
    group.produce(1, b"a", b"b")
    group.run()
    group.elect(2)
    group.tell(TWO)
    leader = group.managers[TWO]
    effects = leader.replica_fetch(group.now_ms, fetch_of(group, 1, 9, last_epoch=0), "x")
    [done] = [e for e in effects if isinstance(e, ReplicaFetchDone)]
    [data] = done.fetched.partitions
    assert data.diverging is not None
    assert (data.diverging.epoch, data.diverging.end_offset, data.records) == (0, 2, b"")
    assert data.log_start_offset == 0
    assert ends(group, 2)[1] == -1


def test_a_fetch_of_another_life_is_refused_as_a_whole(group: BrokerGroup) -> None:
    """B-R17."""
    group.create_topic()
    group.run()
    leader = group.managers[ONE]
    epoch = group.image.brokers[TWO].broker_epoch
    for wrong, code in (
        (epoch - 1, errors.StaleBrokerEpoch.code),
        (epoch + 1, errors.BrokerIdNotRegistered.code),
    ):
        before = ends(group)
        request = fetch_of(group, 2, 0, last_epoch=-1, broker_epoch=wrong)
        [done] = leader.replica_fetch(group.now_ms, request, "x")
        assert isinstance(done, ReplicaFetchDone)
        assert done.fetched.failure is not None
        assert done.fetched.failure.code == code
        assert ends(group) == before


@pytest.mark.parametrize(
    ("epoch", "code"),
    [(0, errors.FencedLeaderEpoch.code), (2, errors.UnknownLeaderEpoch.code)],
)
def test_a_fetch_in_another_leader_epoch_is_refused(
    group: BrokerGroup, epoch: int, code: int
) -> None:
    group.create_topic()
    group.elect(1)
    group.tell(ONE)
    leader = group.managers[ONE]
    request = fetch_of(group, 2, 0, last_epoch=-1, leader_epoch=epoch)
    [done] = leader.replica_fetch(group.now_ms, request, "x")
    assert isinstance(done, ReplicaFetchDone)
    failure = done.fetched.partitions[0].failure
    assert failure is not None
    assert failure.code == code


def test_who_is_no_replica_is_refused(group: BrokerGroup) -> None:
    """F-R04."""
    group.create_topic(replicas=(1, 2))
    request = fetch_of(group, 3, 0, last_epoch=-1)
    [done] = group.managers[ONE].replica_fetch(group.now_ms, request, "x")
    assert isinstance(done, ReplicaFetchDone)
    failure = done.fetched.partitions[0].failure
    assert failure is not None
    assert failure.code == errors.NotLeaderOrFollower.code


def test_followers_do_not_serve_followers(group: BrokerGroup) -> None:
    """F-R05."""
    group.create_topic()
    request = fetch_of(group, 3, 0, last_epoch=-1)
    [done] = group.managers[TWO].replica_fetch(group.now_ms, request, "x")
    assert isinstance(done, ReplicaFetchDone)
    data = done.fetched.partitions[0]
    assert data.failure is not None
    assert (data.failure.code, data.current_leader) == (errors.NotLeaderOrFollower.code, ONE)


def test_epoch_ends(group: BrokerGroup) -> None:
    """F-R53."""
    group.create_topic()
    group.run()
    group.produce(1, b"a", b"b")
    group.run()
    group.elect(1)
    group.tell()
    group.produce(1, b"c")
    group.run()

    def end(epoch: int, current: int = 1, broker: BrokerId = ONE) -> tuple[int, int, int]:
        query = ReplicaEpochQuery(TOPIC_ID, 0, LeaderEpoch(current), LeaderEpoch(epoch))
        [found] = group.managers[broker].epoch_ends(EpochEndQuery(TWO, (query,))).ends
        code = found.failure.code if found.failure else 0
        return code, found.leader_epoch, found.end_offset

    assert end(0) == (0, 0, 2)
    assert end(1) == (0, 1, 3)
    assert end(7) == (0, -1, -1)
    assert end(0, current=0) == (errors.FencedLeaderEpoch.code, -1, -1)
    assert end(0, current=2) == (errors.UnknownLeaderEpoch.code, -1, -1)
    assert end(0, broker=TWO) == (errors.NotLeaderOrFollower.code, -1, -1)
    stranger = ReplicaEpochQuery(TopicId("x" * 22), 0, LeaderEpoch(0), LeaderEpoch(0))
    [unknown] = group.managers[ONE].epoch_ends(EpochEndQuery(TWO, (stranger,))).ends
    assert isinstance(unknown, ReplicaEpochEnd)
    assert unknown.failure is not None
    assert unknown.failure.code == errors.UnknownTopicId.code
