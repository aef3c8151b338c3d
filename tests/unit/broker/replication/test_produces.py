"""Produce requests to the replica manager, error by error."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pylog import errors
from pylog.model import BrokerId, Offset, PartitionEpoch, TopicId, TopicPartition
from pylog.records.builder import encode_batch
from pylog_broker.metadata.records import ConfigRecord, ConfigResourceType
from pylog_broker.replication.effects import FetchDone, ProduceDone, ReplicaFailed
from pylog_broker.replication.fetch_messages import Fetch, PartitionData, PartitionFetch
from pylog_broker.replication.produce_messages import PartitionAck, PartitionBatch, Produce
from pylog_broker.replication.settings import ReplicationSettings
from tests.fakes import bad_batches
from tests.fakes.broker_group import T0, TOPIC_ID, BrokerGroup

ONE, TWO, THREE = (BrokerId(number) for number in (1, 2, 3))
T1, T99 = TopicPartition("t", 1), TopicPartition("t", 99)


@pytest.fixture
def group(tmp_path: Path) -> BrokerGroup:
    group = BrokerGroup(tmp_path)
    group.create_topic(partitions=2)
    group.run()
    return group


def freeze(group: BrokerGroup, *followers: BrokerId) -> None:
    group.cut_links = {(follower, ONE) for follower in followers or (TWO, THREE)}


def ack_codes(group: BrokerGroup, token: object) -> list[int]:
    done = group.answers[token]
    assert isinstance(done, ProduceDone)
    return [ack.failure.code if ack.failure else 0 for ack in done.acks]


def produce_many(
    group: BrokerGroup, *names: TopicPartition, acks: int = -1, timeout_ms: int = 10_000
) -> object:
    batches = tuple(PartitionBatch(name, None, encode_batch([b"v"])) for name in names)
    return group.send(1, Produce(acks, timeout_ms, batches))


def data_of(group: BrokerGroup, token: object) -> PartitionData:
    done = group.answers[token]
    assert isinstance(done, FetchDone)
    return done.partitions[0]


def code_of(group: BrokerGroup, token: object) -> int:
    failure = data_of(group, token).failure
    return failure.code if failure else 0


@pytest.mark.parametrize("acks", [0, 1])
def test_acks_zero_and_one_are_answered_at_once(group: BrokerGroup, acks: int) -> None:
    """F-R36."""
    freeze(group)
    token = group.produce(1, b"a", b"b", acks=acks)
    group.run()
    assert group.ack(token) == PartitionAck(T0, None, Offset(0), -1, Offset(0))
    assert group.marks(1) == (0, 0, 2)


def test_acks_is_checked_before_anything_else(group: BrokerGroup) -> None:
    """F-R46, bad input 13."""
    token = produce_many(group, T0, T99, acks=7)
    group.run()
    assert ack_codes(group, token) == [errors.InvalidRequiredAcks.code] * 2
    assert group.marks(1) == (0, 0, 0)


def test_a_partition_twice_in_a_request_is_refused(group: BrokerGroup) -> None:
    """Bad input 33."""
    token = produce_many(group, T0, T1, T0)
    group.run()
    assert ack_codes(group, token) == [errors.InvalidRequest.code] * 3
    assert group.marks(1) == (0, 0, 0)


@pytest.mark.parametrize("partition", [-1, 2, 99, 2**31 - 1])
def test_an_unknown_partition_fails_alone(group: BrokerGroup, partition: int) -> None:
    """F-R48, bad input 11."""
    token = produce_many(group, TopicPartition("t", partition), T0)
    group.run()
    assert ack_codes(group, token) == [errors.UnknownTopicOrPartition.code, 0]


def test_an_unknown_topic_and_an_unknown_topic_id(group: BrokerGroup) -> None:
    token = produce_many(group, TopicPartition("nope", 0))
    stale = group.produce(1, b"a", topic_id=TopicId("x" * 22))
    group.run()
    assert ack_codes(group, token) == [errors.UnknownTopicOrPartition.code]
    assert group.error(stale) == errors.UnknownTopicId.code


def test_a_follower_says_who_leads(group: BrokerGroup) -> None:
    """F-R47, bad input 35."""
    token = group.produce(2, b"a")
    group.run()
    ack = group.ack(token)
    assert ack.failure is not None
    assert ack.failure.code == errors.NotLeaderOrFollower.code
    assert (ack.current_leader, ack.current_leader_epoch, ack.base_offset) == (1, 0, -1)
    assert group.marks(2) == (0, 0, 0)


def test_a_broker_without_a_replica_says_who_leads(tmp_path: Path) -> None:
    group = BrokerGroup(tmp_path)
    group.create_topic(replicas=(1, 2))
    token = group.produce(3, b"a")
    group.run()
    ack = group.ack(token)
    assert ack.failure is not None
    assert (ack.failure.code, ack.current_leader) == (errors.NotLeaderOrFollower.code, 1)


def test_min_isr_counts_for_acks_all_only(tmp_path: Path) -> None:
    """F-R49, F-R50, F-R51, B-R14."""
    group = BrokerGroup(tmp_path)
    group.create_topic(min_isr=2)
    group.run()
    freeze(group)
    group.set_isr(1)
    group.tell()
    refused, taken = group.produce(1, b"a"), group.produce(1, b"b", acks=1)
    group.run()
    failure = group.ack(refused).failure
    assert failure is not None
    assert failure.code == errors.NotEnoughReplicas.code
    assert "[1]" in failure.message
    assert "min.insync.replicas=2" in failure.message
    assert group.error(taken) == 0
    assert group.marks(1) == (0, 0, 1), "and the high watermark stands still"


def test_the_isr_shrinks_below_the_minimum_while_a_produce_waits(tmp_path: Path) -> None:
    """B-R14: its batch is committed when the ISR has grown again, not before."""
    group = BrokerGroup(tmp_path)
    group.create_topic(min_isr=2)
    group.run()
    freeze(group)
    token = group.produce(1, b"a", timeout_ms=100_000)
    group.advance(50_000)
    assert group.record().isr == (ONE,)
    assert token not in group.answers
    assert group.marks(1) == (0, 0, 1)
    group.cut_links = set()
    group.advance(2_000)
    assert group.error(token) == 0


def test_a_deposed_leader_does_not_go_by_what_came_behind_its_time(tmp_path: Path) -> None:
    """It hears at once that another one leads and that fewer replicas are enough."""
    group = BrokerGroup(tmp_path)
    group.create_topic(min_isr=3)
    group.run()
    freeze(group, THREE)
    group.produce(1, b"a", acks=1)
    group.advance(50_000)
    assert group.record().isr == (ONE, TWO)
    assert group.marks(1) == group.marks(2) == (0, 0, 1)
    group.elect(2, isr=(2,))
    group.append(ConfigRecord(ConfigResourceType.TOPIC, "t", "min.insync.replicas", "2"))
    group.tell(ONE)
    assert group.state(1).leader == TWO
    assert group.marks(1) == (0, 0, 1)


def test_a_leader_does_not_count_a_smaller_isr_by_the_minimum_of_before(tmp_path: Path) -> None:
    """It hears at once that all three replicas are needed and that one has left the ISR, which may
    be elected all the same: it has all that is committed.
    """
    group = BrokerGroup(tmp_path)
    group.create_topic(min_isr=2)
    group.run()
    freeze(group, THREE)
    group.produce(1, b"a", acks=1)
    group.run()
    assert group.marks(1) == (0, 0, 1)
    record = group.record()
    group.append(
        ConfigRecord(ConfigResourceType.TOPIC, "t", "min.insync.replicas", "3"),
        replace(group.image.brokers[THREE], fenced=True),
        replace(record, isr=(ONE, TWO), partition_epoch=PartitionEpoch(record.partition_epoch + 1)),
    )
    group.tell(ONE)
    assert group.state(1).isr == (ONE, TWO)
    assert group.marks(1) == (0, 0, 1)
    group.append(ConfigRecord(ConfigResourceType.TOPIC, "t", "min.insync.replicas", "2"))
    group.tell(ONE)
    assert group.marks(1) == (0, 1, 1)


def test_committed_but_in_too_small_an_isr(tmp_path: Path) -> None:
    """The minimum is raised while a produce waits, and the last follower's fetch commits it."""
    group = BrokerGroup(tmp_path, brokers=2)
    group.create_topic(replicas=(1, 2), min_isr=1)
    group.run()
    token = group.produce(1, b"a")
    partition = group.managers[ONE]._hosted.by_name[T0]
    assert partition.leading is not None
    partition.high_watermark = Offset(1)  # as if committed just before
    group.set_isr(1)
    group.append(ConfigRecord(ConfigResourceType.TOPIC, "t", "min.insync.replicas", "2"))
    partition.leading.min_isr = 2
    partition.leading.isr = (ONE,)
    group.managers[ONE]._room.high_watermark_moved(partition)
    group._post(ONE, group.managers[ONE]._finish())
    group._mail.rotate(1)
    sender, effect = group._mail[0]
    assert sender == ONE
    assert isinstance(effect, ProduceDone)
    assert effect.token == token
    failure = effect.acks[0].failure
    assert failure is not None
    assert failure.code == errors.NotEnoughReplicasAfterAppend.code
    assert "[1]" in failure.message


@pytest.mark.parametrize(
    ("batch", "error"),
    [
        (encode_batch([b"x" * 2_000_000]), errors.MessageTooLarge),
        (encode_batch([b"abc"])[:-1], errors.CorruptMessage),
        (b"", errors.CorruptMessage),
        (encode_batch([b"x"])[:40], errors.CorruptMessage),
    ],
)
def test_what_the_log_refuses_is_named(
    group: BrokerGroup, batch: bytes, error: type[errors.PylogError]
) -> None:
    token = group.produce(1, batch=batch)
    group.run()
    failure = group.ack(token).failure
    assert failure is not None
    assert failure.code in (error.code, errors.InvalidRecord.code)
    assert failure.message
    assert group.marks(1) == (0, 0, 0)
    if error is errors.MessageTooLarge:
        assert "1048588" in failure.message


def test_control_batches_and_internal_topics_are_not_for_clients(tmp_path: Path) -> None:
    """Bad inputs 6 and 21."""
    group = BrokerGroup(tmp_path)
    group.create_topic(name="__offsets")
    group.create_topic(topic_id=TopicId("u" * 22))
    group.run()
    internal = TopicPartition("__offsets", 0)
    refused = group.produce(1, b"a", name=internal)
    control = group.produce(1, batch=bad_batches.sealed(bad_batches.record(b"a"), 0x20))
    spoilt = bytearray(encode_batch([b"a"]))
    spoilt[22] |= 0x20  # on the way: the same bit, but not the CRC of it
    damaged = group.produce(1, batch=bytes(spoilt))
    item = PartitionBatch(internal, None, encode_batch([b"a"]))
    own = group.send(1, Produce(-1, 1_000, (item,), internal=True))
    group.run()
    assert group.error(refused) == errors.InvalidTopic.code
    assert group.error(control) == errors.InvalidRecord.code
    assert group.error(damaged) == errors.CorruptMessage.code
    assert group.error(own) == 0


def test_each_partition_gets_its_own_outcome_at_the_time_out(group: BrokerGroup) -> None:
    """F-R38, F-R39."""
    group.create_topic(replicas=(1,), name="solo", topic_id=TopicId("s" * 22))
    group.run()
    freeze(group)
    token = produce_many(group, T0, TopicPartition("solo", 0), timeout_ms=500)
    group.advance(499)
    assert token not in group.answers
    group.advance(1)
    group.run()
    assert ack_codes(group, token) == [errors.RequestTimedOut.code, 0]
    done = group.answers[token]
    assert isinstance(done, ProduceDone)
    assert [ack.base_offset for ack in done.acks] == [0, 0]  # stored, committed or not
    assert group.managers[ONE].waiting_requests == 0


def test_the_loss_of_leadership_is_told_at_once(group: BrokerGroup) -> None:
    """B-W4."""
    freeze(group)
    produced = group.produce(1, b"a")
    fetched = group.fetch(1, 0, max_wait_ms=60_000)
    group.run()
    group.elect(2)
    group.tell(ONE)
    group.run()
    assert group.error(produced) == errors.NotLeaderOrFollower.code
    assert group.ack(produced).base_offset == 0  # unlike one that a broker turned away
    assert code_of(group, fetched) == errors.NotLeaderOrFollower.code
    assert data_of(group, fetched).current_leader == TWO
    assert group.managers[ONE].waiting_requests == 0


def test_leader_again_in_a_later_epoch_does_not_confirm_what_it_took_before(
    group: BrokerGroup,
) -> None:
    freeze(group)
    token = group.produce(1, b"a")
    group.elect(2)
    group.elect(1, isr=(1,))
    group.tell(ONE)
    group.run()
    assert group.error(token) == errors.NotLeaderOrFollower.code


def test_a_duplicate_is_answered_when_the_original_is_committed(group: BrokerGroup) -> None:
    """B-T19, bad input 24."""
    freeze(group)
    batch = encode_batch([b"a", b"b"], producer_id=7, producer_epoch=0, base_sequence=0)
    first = group.produce(1, batch=batch)
    again = group.produce(1, batch=batch)
    gap = group.produce(
        1, batch=encode_batch([b"z"], producer_id=7, producer_epoch=0, base_sequence=9)
    )
    group.run()
    assert first not in group.answers
    assert again not in group.answers
    assert group.error(gap) == errors.OutOfOrderSequenceNumber.code
    group.cut_links = set()
    group.advance(1_000)
    assert group.ack(first).base_offset == group.ack(again).base_offset == 0
    assert group.marks(1) == (0, 2, 2)


def test_a_failing_disk_takes_one_replica_offline_and_answers_everyone(
    group: BrokerGroup,
) -> None:
    """F-R40, F-R72."""
    freeze(group)
    waiting = group.produce(1, b"a")
    polling = group.fetch(1, 0, max_wait_ms=60_000)
    log = group.logs[ONE].get(T0)
    assert log is not None

    def broken(*_args: object, **_more: object) -> None:
        raise OSError(5, "Input/output error")

    log.append_as_leader = broken  # type: ignore[method-assign]
    failed = group.produce(1, b"b")
    healthy = group.produce(1, b"c", name=T1, acks=1)
    group.run()
    for token in (waiting, failed):
        assert group.error(token) == errors.KafkaStorageError.code
    assert code_of(group, polling) == errors.KafkaStorageError.code
    assert group.error(healthy) == 0
    told = [e for _, e in group.other_effects if isinstance(e, ReplicaFailed)]
    assert [(e.topic_partition, e.topic_id) for e in told] == [(T0, TOPIC_ID)]
    later = group.produce(1, b"d", acks=1)
    group.run()
    assert group.error(later) == errors.KafkaStorageError.code


def test_a_cancelled_request_leaves_nothing_behind(group: BrokerGroup) -> None:
    """B-W5."""
    freeze(group)
    manager = group.managers[ONE]
    followers = manager.waiting_requests
    assert followers == 2
    for _ in range(2_000):
        token = group.fetch(1, 0, max_wait_ms=300_000)
        manager.cancel(token)
    assert manager.waiting_requests == followers
    produced = group.produce(1, b"a")
    manager.cancel(produced)
    manager.cancel("never heard of")
    assert manager.waiting_requests == 0
    group.cut_links = set()
    group.advance(1_000)
    assert produced not in group.answers
    assert group.marks(1) == (0, 1, 1)


def test_too_many_waiting_requests_are_refused_by_name(tmp_path: Path) -> None:
    group = BrokerGroup(tmp_path, settings=ReplicationSettings(waiting_requests_max=4))
    group.create_topic()
    group.run()
    freeze(group)
    tokens = [group.fetch(1, 0, max_wait_ms=60_000) for _ in range(4)]
    refused = group.fetch(1, 0, max_wait_ms=60_000)
    produced = group.produce(1, b"a")
    group.run()
    assert code_of(group, refused) == errors.ThrottlingQuotaExceeded.code
    assert group.error(produced) == errors.ThrottlingQuotaExceeded.code
    assert group.marks(1) == (0, 0, 0)
    assert any(token not in group.answers for token in tokens)


def test_too_many_partitions_in_a_request(tmp_path: Path) -> None:
    """Bad input 33."""
    group = BrokerGroup(tmp_path, settings=ReplicationSettings(request_partitions_max=2))
    group.create_topic(partitions=3)
    names = [TopicPartition("t", number) for number in range(3)]
    token = produce_many(group, *names)
    items = tuple(PartitionFetch(name, None, Offset(0), 100) for name in names)
    fetched = group.send(1, Fetch(0, 1, 100, items))
    group.run()
    assert ack_codes(group, token) == [errors.InvalidRequest.code] * 3
    assert code_of(group, fetched) == errors.InvalidRequest.code
