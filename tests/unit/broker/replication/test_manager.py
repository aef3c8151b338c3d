"""The replica managers of a few brokers, message by message: records, topics, cost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pylog import errors
from pylog.model import (
    BrokerId,
    TopicId,
)
from pylog.records.builder import encode_batch
from pylog_broker.replication.effects import (
    DeleteReplicaLater,
    ReplicaFetchDone,
    SendAlterPartition,
)
from pylog_broker.replication.produce_messages import PartitionBatch, Produce
from pylog_broker.replication.replica_fetch_messages import ReplicaFetched
from pylog_broker.replication.replicas import NEW_LOGS_AT_ONCE
from pylog_broker.replication.settings import ReplicationSettings
from tests.fakes.broker_group import T0, TOPIC_ID, WALL_MS, BrokerGroup
from tests.fakes.replica_fetches import fetch_of

ONE, TWO, THREE = (BrokerId(number) for number in (1, 2, 3))


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


def count_fetches(group: BrokerGroup, follower: BrokerId, ms: int) -> int:
    first = group.managers[follower]._followers._last_request_id
    group.advance(ms)
    return group.managers[follower]._followers._last_request_id - first


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
