"""The replica managers of a few brokers, message by message: replication and roles."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from broker.config import BrokerConfig
from broker.metadata.image import MetadataDelta
from broker.metadata.messages import Failure, PartitionsAltered
from broker.replication.manager import ReplicaManager
from broker.replication.messages import (
    DeleteReplicaLater,
    EpochEndQuery,
    PartitionBatch,
    Produce,
    ReplicaEpochEnd,
    ReplicaEpochQuery,
    ReplicaFetch,
    ReplicaFetchDone,
    ReplicaFetched,
    ReplicaPartitionData,
    ReplicaPartitionFetch,
    SendAlterPartition,
    SendReplicaFetch,
)
from broker.replication.replicas import NEW_LOGS_AT_ONCE
from broker.replication.settings import ReplicationSettings
from pylog import errors
from pylog.model import (
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    Offset,
    TopicId,
    TopicPartition,
)
from pylog.records.builder import encode_batch
from tests.fakes.broker_group import T0, TOPIC_ID, WALL_MS, BrokerGroup

ONE, TWO, THREE = (BrokerId(number) for number in (1, 2, 3))


@pytest.fixture
def group(tmp_path: Path) -> BrokerGroup:
    return BrokerGroup(tmp_path)


def fetch_of(
    group: BrokerGroup, follower: int, offset: int, *, last_epoch: int = 0, **more: int
) -> ReplicaFetch:
    """A fetch as broker `follower` would send it for partition 0."""
    broker = BrokerId(follower)
    return ReplicaFetch(
        broker,
        BrokerEpoch(more.get("broker_epoch", group.image.brokers[broker].broker_epoch)),
        more.get("max_wait_ms", 500),
        more.get("min_bytes", 1),
        1 << 20,
        (
            ReplicaPartitionFetch(
                TOPIC_ID,
                0,
                LeaderEpoch(more.get("leader_epoch", group.record().leader_epoch)),
                Offset(offset),
                LeaderEpoch(last_epoch),
                Offset(0),
                1 << 20,
                Offset(more.get("high_watermark", -1)),
            ),
        ),
    )


def ends(group: BrokerGroup, leader: int = 1) -> dict[int, int]:
    return dict(group.state(leader).follower_ends)


# ---- the way of a record ------------------------------------------------------------------------


def test_acks_all_is_answered_once_every_in_sync_replica_has_the_batch(group: BrokerGroup) -> None:
    group.create_topic()
    group.run()
    token = group.produce(1, b"a", b"b", b"c")
    assert token not in group.answers
    group.run()
    assert group.ack(token).failure is None
    assert group.ack(token).base_offset == 0
    assert group.marks(1) == (0, 3, 3)
    assert group.stored(1) == group.stored(2) == group.stored(3)


def test_followers_learn_the_high_watermark_a_little_later_without_data(
    group: BrokerGroup,
) -> None:
    """F-R30: one fetch later."""
    group.create_topic()
    group.run()
    group.produce(1, b"a")
    group.run()
    assert group.marks(2) == (0, 0, 1)
    group.advance(group.settings.high_watermark_linger_ms)
    group.run()
    assert group.marks(2) == group.marks(3) == (0, 1, 1)


def test_data_that_comes_sooner_carries_the_high_watermark(group: BrokerGroup) -> None:
    group.create_topic()
    group.run()
    group.produce(1, b"a")
    group.run()
    group.produce(1, b"b")
    group.run()
    assert group.marks(2) == (0, 1, 2)


def test_idle_followers_poll_at_the_wait_and_stay_in_sync(group: BrokerGroup) -> None:
    """F-R67."""
    group.create_topic(partitions=5)
    group.advance(100_000)
    assert group.record().isr == (ONE, TWO, THREE)
    assert not group.sent_isrs


def test_a_follower_at_the_end_gets_no_answer_until_there_is_news(group: BrokerGroup) -> None:
    group.create_topic()
    group.run()
    leader = group.managers[ONE]
    group.cut_links = {(TWO, ONE), (THREE, ONE)}
    group.produce(1, b"a", acks=1)
    group.run()
    now = group.now_ms
    effects = leader.replica_fetch(now, fetch_of(group, 2, 1), "two")
    assert [e for e in effects if isinstance(e, ReplicaFetchDone)] == []
    effects = leader.replica_fetch(now, fetch_of(group, 3, 1, high_watermark=0), "three")
    assert group.marks(1) == (0, 1, 1)
    assert [e for e in effects if isinstance(e, ReplicaFetchDone)] == []
    effects = leader.on_time(now + group.settings.high_watermark_linger_ms, WALL_MS)
    done = [e for e in effects if isinstance(e, ReplicaFetchDone)]
    assert [e.token for e in done] == ["two", "three"]
    assert [e.fetched.partitions[0].high_watermark for e in done] == [1, 1]


def test_a_second_fetch_of_a_follower_ends_the_parked_first_one(group: BrokerGroup) -> None:
    group.create_topic()
    group.cut_links = {(TWO, ONE), (THREE, ONE)}
    leader = group.managers[ONE]
    assert leader.replica_fetch(group.now_ms, fetch_of(group, 2, 0, last_epoch=-1), "a") == []
    effects = leader.replica_fetch(group.now_ms, fetch_of(group, 2, 0, last_epoch=-1), "b")
    assert effects == [ReplicaFetchDone("a", ReplicaFetched())]
    assert leader.waiting_requests == 1


def test_min_bytes_of_a_follower(group: BrokerGroup) -> None:
    """F-R65."""
    group.create_topic()
    group.cut_links = {(TWO, ONE), (THREE, ONE)}
    leader = group.managers[ONE]
    request = fetch_of(group, 2, 0, last_epoch=-1, min_bytes=150)
    assert leader.replica_fetch(group.now_ms, request, "a") == []
    group.produce(1, b"x" * 20, acks=1)
    assert leader.waiting_requests == 1
    group.produce(1, b"x" * 100, acks=1)
    assert leader.waiting_requests == 0


# ---- what a fetch proves ------------------------------------------------------------------------


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


# ---- ISR ----------------------------------------------------------------------------------------


def test_a_frozen_follower_leaves_and_comes_back(group: BrokerGroup) -> None:
    """F-R12, F-R15, F-R23."""
    group.create_topic()
    group.run()
    group.cut_links = {(THREE, ONE)}
    token = group.produce(1, b"a", timeout_ms=100_000)
    group.advance(group.settings.replica_lag_time_max_ms - 1)
    assert token not in group.answers
    assert group.record().isr == (ONE, TWO, THREE)
    group.advance(group.settings.replica_lag_time_max_ms // 2 + 1_000)
    assert group.record().isr == (ONE, TWO)
    assert group.error(token) == 0
    group.cut_links = set()
    group.advance(2_000)
    assert group.record().isr == (ONE, TWO, THREE)
    assert group.stored(1) == group.stored(3)
    changes = group.managers[ONE].isr_changes
    assert (changes.shrinks, changes.expands) == (1, 1)
    assert group.managers[TWO].isr_changes.shrinks == 0, "only leaders count"


def test_isr_changes_are_asked_for_again_while_the_controller_is_away(group: BrokerGroup) -> None:
    group.create_topic()
    group.set_isr(1, 2)
    group.controller_reachable = False
    group.tell()
    group.advance(1_000)
    sent = len(group.sent_isrs)
    assert 3 <= sent <= 8, "with backoff"
    group.controller_reachable = True
    group.advance(1_000)
    assert group.record().isr == (ONE, TWO, THREE)
    assert len(group.sent_isrs) == sent + 1
    assert group.state(1).isr == (ONE, TWO, THREE)


def test_an_isr_change_that_was_made_for_older_metadata_waits_for_the_newer(
    group: BrokerGroup,
) -> None:
    group.create_topic()
    group.set_isr(1, 2)
    group.tell()
    group.set_isr(1, 2)  # committed, and nobody knows yet
    group.advance(600)
    assert len(group.sent_isrs) == 1
    group.tell()
    group.advance(600)
    assert group.record().isr == (ONE, TWO, THREE)


def test_a_late_answer_of_the_controller_is_ignored(group: BrokerGroup) -> None:
    """B-R19."""
    group.create_topic()
    group.set_isr(1, 2)
    group.tell()
    group.advance(600)
    before = group.state(1)
    leader = group.managers[ONE]
    for request_id in (0, 1, 2):
        assert leader.on_partitions_altered(group.now_ms, request_id, PartitionsAltered()) == []
        assert leader.on_partitions_altered(group.now_ms, request_id, None) == []
    assert group.state(1) == before


def test_one_request_carries_the_proposals_of_all_partitions(group: BrokerGroup) -> None:
    group.create_topic(partitions=20)
    for partition in range(20):
        group.set_isr(1, 2, partition=partition)
    group.tell()
    group.advance(600)
    assert {len(request.partitions) for request in group.sent_isrs} == {20}
    assert len(group.sent_isrs) == 1


def test_a_fenced_follower_is_not_proposed(group: BrokerGroup) -> None:
    """B-R18, B-R22."""
    group.create_topic()
    group.run()
    group.append(replace(group.image.brokers[THREE], in_controlled_shutdown=True))
    group.set_isr(1, 2)
    group.tell()
    group.advance(1_000)
    assert group.sent_isrs == []
    token = group.produce(1, b"a")
    group.cut_links = {(THREE, ONE)}
    group.run()
    assert group.error(token) == 0


# ---- a change of the leader ---------------------------------------------------------------------


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


# ---- following: what goes wrong -----------------------------------------------------------------


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


# ---- epochs -------------------------------------------------------------------------------------


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


# ---- topics come and go -------------------------------------------------------------------------


def test_deleting_a_topic_fails_who_waits_and_frees_the_name(group: BrokerGroup) -> None:
    """B-R32, bad input 10."""
    group.create_topic(topic_id=TOPIC_ID)
    group.run()
    group.cut_links = {(TWO, ONE), (THREE, ONE)}
    token = group.produce(1, b"old")
    group.run()
    group.delete_topic()
    new_id = TopicId("nnnnnnnnnnnnnnnnnnnnnA")
    group.create_topic(topic_id=new_id)
    group.run()
    assert group.error(token) != 0
    removed = [e for _, e in group.other_effects if isinstance(e, DeleteReplicaLater)]
    assert len(removed) == 3
    assert all(Path(e.directory).is_dir() and e.delay_ms == 60_000 for e in removed)
    assert group.marks(1) == (0, 0, 0)
    stale = group.produce(1, b"late", acks=1, topic_id=TOPIC_ID)
    group.run()
    assert group.error(stale) == errors.UnknownTopicId.code
    assert group.marks(1) == (0, 0, 0)


def test_a_topic_deleted_and_made_anew_while_the_broker_was_down(group: BrokerGroup) -> None:
    """B-R32: its old replica goes, nothing of it is left, and nothing of its high watermark."""
    group.create_topic()
    group.run()
    group.produce(1, b"old", b"old")
    group.advance(10)
    new_id = TopicId("nnnnnnnnnnnnnnnnnnnnnA")
    group.delete_topic()
    group.stop(THREE)
    group.create_topic(topic_id=new_id)
    group.start(THREE)
    group.run()
    assert group.marks(3) == (0, 0, 0)
    assert group.state(3).topic_id == new_id
    assert any(
        broker == THREE and isinstance(effect, DeleteReplicaLater)
        for broker, effect in group.other_effects
    )


def test_a_replica_that_moved_away_is_deleted(group: BrokerGroup) -> None:
    group.create_topic()
    group.run()
    group.produce(1, b"a")
    group.run()
    old = group.record()
    group.append(replace(old, replicas=(ONE, TWO), isr=(ONE, TWO), partition_epoch=1))
    group.tell()
    group.run()
    assert group.managers[THREE].describe() == []
    assert group.logs[THREE].get(T0) is None
    token = group.produce(1, b"b")
    group.run()
    assert group.error(token) == 0


def test_a_partition_without_a_leader_is_followed_by_nobody(group: BrokerGroup) -> None:
    group.create_topic()
    group.run()
    group.elect(-1, isr=())
    group.tell()
    group.advance(5_000)
    token = group.produce(1, b"a")
    group.run()
    failure = group.ack(token).failure
    assert failure is not None
    assert "nobody does" in failure.message
    group.elect(3, isr=(3,))
    group.tell()
    group.advance(1_000)
    assert group.record().isr == (THREE, ONE, TWO)


# ---- cost ---------------------------------------------------------------------------------------


def test_idle_with_a_thousand_partitions_costs_a_fetch_per_half_second(tmp_path: Path) -> None:
    settings = ReplicationSettings()
    group = BrokerGroup(tmp_path, brokers=2, settings=settings)
    group.create_topic(replicas=(1, 2), partitions=1_000)
    group.run()
    group.advance(1_000)
    assert count_fetches(group, TWO, 10_000) == 20
    leader = group.managers[ONE]
    assert leader.next_deadline_ms is not None
    assert leader.next_deadline_ms > group.now_ms
    follower = group.managers[TWO]
    active = follower._followers._fetchers[ONE].active
    first = [partition.question() for partition in active]
    assert all(a is p.question() for a, p in zip(first, active, strict=True))


def test_effects_come_in_the_order_of_happening(tmp_path: Path) -> None:
    """A step's whole list of effects: the parked follower is answered, the producer is not yet."""
    group = BrokerGroup(tmp_path, brokers=2)
    group.create_topic(replicas=(1, 2))
    group.run()
    leader = group.managers[ONE]
    token = group.produce(1, b"a")
    mail = [effect for broker, effect in group._mail if broker == ONE]
    [answered] = mail
    assert isinstance(answered, ReplicaFetchDone)
    assert answered.fetched.partitions[0].records == group.stored(1)
    group.run()
    assert group.error(token) == 0
    assert leader.waiting_requests == 1  # the follower's next fetch


def test_requests_of_one_message_reach_the_followers_together(tmp_path: Path) -> None:
    group = BrokerGroup(tmp_path, brokers=2)
    group.create_topic(replicas=(1, 2))
    group.run()
    item = PartitionBatch(T0, None, encode_batch([b"a"]))
    produce = Produce(-1, 10_000, (item,))
    effects = group.managers[ONE].produce_all(
        group.now_ms, WALL_MS, [(produce, "first"), (produce, "second")]
    )
    [answered] = effects
    assert isinstance(answered, ReplicaFetchDone)
    assert answered.fetched.partitions[0].records == group.stored(1)
    group._post(ONE, effects)
    group.run()
    assert [group.ack(token).base_offset for token in ("first", "second")] == [0, 1]


def test_acks_one_with_a_bad_request_sends_nothing(group: BrokerGroup) -> None:
    group.create_topic()
    effects = group.managers[ONE].produce(0, WALL_MS, Produce(1, 0, ()), "x")
    assert [type(e).__name__ for e in effects] == ["ProduceDone"]
    assert not any(isinstance(e, SendAlterPartition) for e in effects)


# ---- many new partitions at once ----------------------------------------------------------------


def hosted(group: BrokerGroup, broker: int = 1) -> int:
    return len(group.managers[BrokerId(broker)].partitions())


def test_logs_of_many_new_partitions_are_made_in_slices(group: BrokerGroup) -> None:
    group.advance(1)
    group.create_topic(partitions=2 * NEW_LOGS_AT_ONCE + 3)
    assert hosted(group) == NEW_LOGS_AT_ONCE
    assert group.managers[ONE].next_deadline_ms == group.now_ms
    group.advance(1)
    assert hosted(group) == 2 * NEW_LOGS_AT_ONCE
    group.advance(1)
    assert hosted(group) == 2 * NEW_LOGS_AT_ONCE + 3
    assert group.managers[ONE].next_deadline_ms != group.now_ms


def test_a_log_that_is_not_made_yet_follows_the_newest_record(group: BrokerGroup) -> None:
    last = NEW_LOGS_AT_ONCE
    group.create_topic(partitions=last + 1)
    group.elect(2, partition=last)
    group.tell()
    group.advance(1)
    (found,) = (p for p in group.managers[ONE].partitions() if p.topic_partition.partition == last)
    assert (found.leader, found.leader_epoch) == (TWO, 1)


def test_what_is_deleted_before_its_log_was_made_is_never_made(group: BrokerGroup) -> None:
    group.create_topic(partitions=2 * NEW_LOGS_AT_ONCE)
    group.delete_topic()
    group.tell()
    assert hosted(group) == 0
    group.advance(1)
    assert hosted(group) == 0
    assert group.managers[ONE].next_deadline_ms != group.now_ms
