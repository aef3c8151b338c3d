"""Replicas that follow: a change of the leader, and what goes wrong on the way."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pylog import errors
from pylog.model import (
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    Offset,
    TopicPartition,
)
from pylog_broker.config import BrokerConfig
from pylog_broker.metadata.image import MetadataDelta
from pylog_broker.metadata.messages import Failure
from pylog_broker.replication.effects import ReplicaFetchDone, SendReplicaFetch
from pylog_broker.replication.manager import ReplicaManager
from pylog_broker.replication.replica_fetch_messages import ReplicaFetched, ReplicaPartitionData
from pylog_broker.replication.settings import ReplicationSettings
from tests.fakes.broker_group import T0, TOPIC_ID, WALL_MS, BrokerGroup

ONE, TWO, THREE = (BrokerId(number) for number in (1, 2, 3))


def test_unacknowledged_records_of_an_old_leader_are_cut(group: BrokerGroup) -> None:
    """B-R2, B-R55, F-R56: the logs are equal again."""
    group.create_topic()
    group.run()
    group.produce(1, b"kept")
    group.run()
    group.cut_links = {(TWO, ONE), (THREE, ONE)}
    lost = group.produce(1, b"lost 1", b"lost 2", b"lost 3")
    group.run()
    group.elect(2, isr=(2, 3))
    group.tell(TWO, THREE)
    group.run()
    kept = group.produce(2, b"new")
    group.run()
    assert group.error(kept) == 0
    group.tell(ONE)
    group.cut_links = set()
    group.advance(100)
    assert group.error(lost) == errors.NotLeaderOrFollower.code
    assert group.stored(1) == group.stored(2) == group.stored(3)
    assert group.marks(1) == (0, 2, 2)
    assert group.record().isr == (TWO, THREE, ONE)


def test_a_restarted_follower_keeps_what_is_above_its_high_watermark(group: BrokerGroup) -> None:
    """B-R1 (KIP-101): it may be the only one left that has it."""
    group.create_topic(replicas=(1, 2))
    group.run()
    acked = group.produce(1, b"acked")
    group.run()
    assert group.error(acked) == 0
    assert group.marks(2)[1] == 0, "it has not heard of the high watermark yet"
    group.cut_links = {(TWO, ONE)}
    group.start(TWO)
    group.elect(2, isr=(2,))
    group.tell(TWO)
    group.run()
    assert group.marks(2) == (0, 1, 1)


def test_leadership_back_and_forth_with_empty_epochs_between(group: BrokerGroup) -> None:
    """B-R4, KIP-279."""
    group.create_topic(replicas=(1, 2))
    group.run()
    group.produce(1, b"a")
    group.run()
    group.cut_links = {(TWO, ONE)}
    group.produce(1, b"only at 1", acks=1)
    group.run()
    for leader in (2, 1, 2, 1, 2):
        group.elect(leader, isr=(leader,))
    group.tell(TWO)
    group.run()
    group.produce(2, b"b", b"c", acks=1)
    group.tell(ONE)
    group.cut_links = set()
    group.advance(1_000)
    assert group.stored(1) == group.stored(2)
    assert group.marks(1) == (0, 3, 3)


def test_alternating_leaders_with_few_writes_end_up_equal(group: BrokerGroup) -> None:
    """B-R5: unclean elections; each round both write alone."""
    group.create_topic(replicas=(1, 2))
    group.run()
    group.cut_links = {(TWO, ONE), (ONE, TWO)}
    leader = 1
    for round_ in range(8):
        for writer in (leader, 3 - leader):
            group.elect(writer, isr=(writer,))
            group.tell(BrokerId(writer))
            for number in range(1 + (round_ * writer) % 3):
                group.produce(writer, b"%d %d %d" % (round_, writer, number), acks=1)
            group.run()
        leader = 3 - leader if round_ % 2 else leader
    group.tell()
    group.cut_links = set()
    group.advance(3_000)
    assert group.stored(1) == group.stored(2)
    assert group.record().isr in ((ONE, TWO), (TWO, ONE))
    assert group.marks(1) == group.marks(2)


def test_a_follower_behind_the_leaders_log_start_begins_there(group: BrokerGroup) -> None:
    """B-R11, B-R12: also when its epoch diverges."""
    group.create_topic(replicas=(1, 2))
    group.run()
    group.cut_links = {(TWO, ONE)}
    group.set_isr(1)
    group.tell()
    for number in range(10):
        group.produce(1, b"%d" % number, acks=1)
    group.run()
    log = group.logs[ONE].get(T0)
    assert log is not None
    log.advance_log_start(Offset(7))
    group.cut_links = set()
    group.advance(2_000)
    assert group.marks(2) == (7, 10, 10)
    assert group.record().isr == (ONE, TWO)


def test_a_log_start_inside_a_batch(group: BrokerGroup) -> None:
    """B-R13."""
    group.create_topic(replicas=(1, 2))
    group.run()
    group.cut_links = {(TWO, ONE)}
    group.set_isr(1)
    group.tell()
    group.produce(1, *[b"x"] * 10, acks=1)
    group.run()
    log = group.logs[ONE].get(T0)
    assert log is not None
    log.advance_log_start(Offset(4))
    group.cut_links = set()
    group.advance(2_000)
    assert group.marks(2) == (4, 10, 10)
    assert group.stored(1) == group.stored(2)


def test_followers_of_a_new_leader_ask_at_once_although_a_fetch_is_parked_there(
    group: BrokerGroup,
) -> None:
    group.create_topic(partitions=2)
    group.append(
        replace(group.record(1), leader=TWO, leader_epoch=LeaderEpoch(1), partition_epoch=1)
    )
    group.tell()
    group.run()  # brokers 1 and 3 have fetches of partition 1 parked at broker 2
    group.elect(2)
    group.tell()
    token = group.produce(2, b"a")
    group.run()
    assert group.error(token) == 0


def test_a_new_leader_that_has_not_heard_yet_is_asked_again_soon(group: BrokerGroup) -> None:
    group.create_topic()
    group.run()
    group.elect(2)
    group.tell(ONE, THREE)
    group.run()
    group.tell(TWO)
    token = group.produce(2, b"a")
    group.advance(60)
    assert group.error(token) == 0


def test_older_metadata_is_ignored(group: BrokerGroup) -> None:
    """B-R31: by partition epoch, whatever order it comes in."""
    group.create_topic()
    group.run()
    old = group.record()
    group.elect(2)
    group.tell()
    for broker in (ONE, TWO, THREE):
        manager = group.managers[broker]
        before = group.state(broker)
        delta = MetadataDelta(partitions=(old,))
        manager.on_metadata(group.now_ms, group.images[broker], delta)
        assert group.state(broker) == before


def test_no_role_before_the_metadata_has_reached_the_own_registration(tmp_path: Path) -> None:
    """A restarted leader must not go on in the epoch of its former life."""
    group = BrokerGroup(tmp_path, brokers=1)
    group.create_topic(replicas=(1,))
    manager = group.managers[ONE]
    fresh = ReplicaManager(ONE, group.logs[ONE], BrokerConfig())
    fresh.on_metadata(0, group.images[ONE], MetadataDelta())
    assert fresh.describe() == []
    fresh.on_registered(0, BrokerEpoch(group.image.offset + 1))
    assert fresh.describe() == []
    late = ReplicaManager(ONE, group.logs[ONE], BrokerConfig())
    late.on_metadata(0, group.images[ONE], MetadataDelta())
    late.on_registered(0, manager._broker_epoch)
    assert [state.leader for state in late.describe()] == [ONE]


def test_a_restart_begins_with_the_checkpointed_high_watermark(group: BrokerGroup) -> None:
    group.create_topic()
    group.run()
    group.produce(1, b"a", b"b")
    group.advance(10)
    group.cut_links = {(TWO, ONE)}
    group.start(TWO)
    assert group.marks(2) == (0, 2, 2)


def test_a_broken_connection_is_tried_again_with_backoff(group: BrokerGroup) -> None:
    group.create_topic(replicas=(1, 2))
    group.run()
    group.cut_links = {(TWO, ONE)}
    group.advance(10_000)
    sent = count_fetches(group, TWO, 10_000)
    assert 8 <= sent <= 12
    group.cut_links = set()
    token = group.produce(1, b"a")
    group.advance(1_001)
    assert group.error(token) == 0


def count_fetches(group: BrokerGroup, follower: BrokerId, ms: int) -> int:
    first = group.managers[follower]._followers._last_request_id
    group.advance(ms)
    return group.managers[follower]._followers._last_request_id - first


def test_one_bad_partition_does_not_stop_the_others(group: BrokerGroup) -> None:
    """B-R38, B-R39: a batch broken on the way is refused, asked for again, and never stored."""
    group.create_topic(replicas=(1, 2), partitions=2)
    group.run()
    other = TopicPartition("t", 1)
    group.cut_links = {(TWO, ONE)}
    group.produce(1, b"a", acks=1)
    group.produce(1, b"b", acks=1, name=other)
    group.advance(1_500)
    follower = group.managers[TWO]
    group.cut_links = set()
    effects = follower.on_time(group.now_ms + 1_000, WALL_MS)
    [sent] = [e for e in effects if isinstance(e, SendReplicaFetch)]
    leader = group.managers[ONE]
    done = next(
        e
        for e in leader.replica_fetch(group.now_ms + 1_000, sent.request, "x")
        if isinstance(e, ReplicaFetchDone)
    )
    good, bad = done.fetched.partitions
    broken = bytearray(bad.records)
    broken[-1] ^= 1
    fetched = ReplicaFetched(None, (good, bad._replace(records=bytes(broken))))
    group.now_ms += 1_000
    group._post(
        TWO, follower.on_replica_fetched(group.now_ms, WALL_MS, ONE, sent.request_id, fetched)
    )
    assert group.marks(2, good.partition)[2] == 1
    assert group.marks(2, bad.partition)[2] == 0
    assert "CRC" in group.state(2, bad.partition).fault
    group.advance(100)
    assert group.marks(2, bad.partition)[2] == 1
    assert group.state(2, bad.partition).fault == ""


def test_an_answer_to_a_superseded_question_is_ignored(group: BrokerGroup) -> None:
    group.create_topic(replicas=(1, 2))
    group.run()
    follower = group.managers[TWO]
    group.elect(1)
    data = ReplicaPartitionData(TOPIC_ID, 0, None, Offset(50), Offset(50), Offset(40))
    fetched = ReplicaFetched(None, (data,))
    last = follower._followers._last_request_id
    group.tell(TWO)
    follower.on_replica_fetched(group.now_ms, WALL_MS, ONE, last, fetched)
    follower.on_replica_fetched(group.now_ms, WALL_MS, ONE, 99, fetched)
    follower.on_replica_fetched(group.now_ms, WALL_MS, THREE, last, fetched)
    assert group.marks(2) == (0, 0, 0)


def test_an_impossible_out_of_range_does_not_empty_a_log(group: BrokerGroup) -> None:
    group.create_topic(replicas=(1, 2))
    group.run()
    group.produce(1, b"a")
    group.advance(10)
    follower = group.managers[TWO]
    data = ReplicaPartitionData(
        TOPIC_ID, 0, Failure(errors.OffsetOutOfRange.code), log_start_offset=Offset(0)
    )
    last = follower._followers._last_request_id
    follower.on_replica_fetched(group.now_ms, WALL_MS, ONE, last, ReplicaFetched(None, (data,)))
    assert group.marks(2) == (0, 1, 1)
    assert "out of range" in group.state(2).fault


def test_more_partitions_of_one_leader_than_a_fetch_may_name_are_followed(tmp_path: Path) -> None:
    group = BrokerGroup(tmp_path, brokers=2, settings=ReplicationSettings(request_partitions_max=2))
    group.create_topic(replicas=(1, 2), partitions=5)
    group.run()
    for number in range(5):
        group.produce(1, b"value", acks=1, name=TopicPartition("t", number))
    group.advance(2 * group.settings.replica_lag_time_max_ms)
    assert [group.state(2, number).log_end_offset for number in range(5)] == [1] * 5
    assert {group.record(number).isr for number in range(5)} == {(ONE, TWO)}
