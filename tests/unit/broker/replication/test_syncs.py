"""`flush.messages`: acknowledgements wait for the sync, and nothing else does."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from pylog import errors
from pylog.model import BrokerId, TopicPartition
from pylog.records.builder import encode_batch
from pylog_broker.metadata.records import ConfigRecord, ConfigResourceType
from pylog_broker.replication.effects import ProduceDone, ReplicaFailed, SyncLog
from pylog_broker.replication.produce_messages import PartitionBatch, Produce
from tests.fakes.broker_group import T0, BrokerGroup

ONE, TWO, THREE = (BrokerId(number) for number in (1, 2, 3))
T1 = TopicPartition("t", 1)


def group_with(tmp_path: Path, flush_messages: int, brokers: int) -> BrokerGroup:
    group = BrokerGroup(tmp_path, brokers)
    group.create_topic(range(1, brokers + 1), partitions=2)
    group.run()
    topic = ConfigResourceType.TOPIC
    group.append(ConfigRecord(topic, "t", "flush.messages", str(flush_messages)))
    group.tell()
    group.run()
    group.syncs_wait = True
    return group


@pytest.fixture
def alone(tmp_path: Path) -> BrokerGroup:
    """One broker; every record is synced before its acknowledgement."""
    return group_with(tmp_path, 1, 1)


def let_sync(group: BrokerGroup, broker: BrokerId) -> None:
    """Let the broker's oldest sync run."""
    found = next(pair for pair in group.waiting_syncs if pair[0] == broker)
    group.waiting_syncs.remove(found)
    group.sync(*found)
    group.run()


@pytest.mark.parametrize("acks", [1, -1])
def test_an_ack_waits_for_the_sync(alone: BrokerGroup, acks: int) -> None:
    token = alone.produce(1, b"a", acks=acks)
    alone.run()
    assert token not in alone.answers
    assert alone.marks(1) == (0, 0, 1)  # not committed either: a power loss could take it
    let_sync(alone, ONE)
    assert alone.error(token) == 0
    assert alone.marks(1) == (0, 1, 1)


def test_a_repeated_batch_asks_for_the_sync_that_its_ack_waits_for(tmp_path: Path) -> None:
    """As after a start: the batch is in the log, and nobody knows whether it was synced."""
    group = group_with(tmp_path, 1_000, 1)
    batch = encode_batch([b"v"], producer_id=7, producer_epoch=0, base_sequence=0)
    request = Produce(-1, 10_000, (PartitionBatch(T0, None, batch),))
    group.send(1, request)
    group.run()
    group.append(ConfigRecord(ConfigResourceType.TOPIC, "t", "flush.messages", "1"))
    group.tell()
    group.run()
    again = group.send(1, request)
    group.run()
    assert again not in group.answers
    let_sync(group, ONE)
    assert group.error(again) == 0
    assert group.marks(1) == (0, 1, 1)


def test_acks_zero_wait_for_nothing(alone: BrokerGroup) -> None:
    token = alone.produce(1, b"a", acks=0)
    alone.run()
    assert alone.error(token) == 0


def test_one_sync_at_a_time_and_another_one_for_what_came_meanwhile(alone: BrokerGroup) -> None:
    first = alone.produce(1, b"a")
    second = alone.produce(1, b"b")
    alone.run()
    assert len(alone.waiting_syncs) == 1
    let_sync(alone, ONE)
    assert first in alone.answers
    assert second not in alone.answers
    assert alone.marks(1) == (0, 1, 2)
    let_sync(alone, ONE)
    assert alone.error(second) == 0
    assert alone.marks(1) == (0, 2, 2)
    assert alone.waiting_syncs == []


def test_other_partitions_go_on(alone: BrokerGroup) -> None:
    alone.produce(1, b"a")
    alone.run()
    batches = (PartitionBatch(T1, None, encode_batch([b"v"])),)
    other = alone.send(1, Produce(-1, 10_000, batches))
    alone.run()
    assert [sync.topic_partition for _, sync in alone.waiting_syncs] == [T0, T1]
    alone.waiting_syncs.reverse()
    let_sync(alone, ONE)
    done = alone.answers[other]
    assert isinstance(done, ProduceDone)
    assert done.acks[0].failure is None
    assert alone.marks(1) == (0, 0, 1)


def test_fewer_records_than_flush_messages_are_acknowledged_without(tmp_path: Path) -> None:
    group = group_with(tmp_path, 3, 1)
    for _ in range(2):
        token = group.produce(1, b"a", acks=1)
        group.run()
        assert token in group.answers
    third = group.produce(1, b"a", acks=1)
    group.run()
    assert third not in group.answers
    let_sync(group, ONE)
    assert group.error(third) == 0


def test_a_sync_that_fails_takes_the_replica_offline(alone: BrokerGroup) -> None:
    token = alone.produce(1, b"a")
    alone.run()
    [(_, sync)] = alone.waiting_syncs
    sync.task.error = OSError(errno.EIO, "input/output error")
    sync.task.run = lambda: None  # type: ignore[method-assign]
    let_sync(alone, ONE)
    assert alone.error(token) == errors.KafkaStorageError.code
    failed = [effect for _, effect in alone.other_effects if isinstance(effect, ReplicaFailed)]
    assert [effect.topic_partition for effect in failed] == [T0]


def test_a_timeout_says_what_it_waited_for(alone: BrokerGroup) -> None:
    token = alone.produce(1, b"a", timeout_ms=50)
    alone.advance(60)
    failure = alone.ack(token).failure
    assert failure is not None
    assert failure.code == errors.RequestTimedOut.code
    assert "flush.messages" in failure.message


def test_a_follower_tells_its_leader_only_what_is_synced(tmp_path: Path) -> None:
    group = group_with(tmp_path, 1, 3)
    token = group.produce(1, b"a")
    group.run()
    assert {broker for broker, _ in group.waiting_syncs} == {ONE, TWO, THREE}
    let_sync(group, ONE)
    let_sync(group, TWO)
    assert token not in group.answers
    assert group.marks(1) == (0, 0, 1)
    let_sync(group, THREE)
    assert group.error(token) == 0
    assert group.marks(1) == (0, 1, 1)
    again = group.produce(1, b"b")
    group.run()
    for broker in (THREE, TWO, ONE):
        let_sync(group, broker)
    assert group.error(again) == 0
    assert group.stored(2) == group.stored(1)


def test_a_follower_that_changes_leaders_waits_all_the_same(tmp_path: Path) -> None:
    group = group_with(tmp_path, 1, 3)
    token = group.produce(1, b"a")
    group.run()
    group.elect(TWO)
    group.tell()
    group.run()
    assert group.error(token) == errors.NotLeaderOrFollower.code
    for broker in (ONE, TWO, THREE):
        let_sync(group, broker)
    assert group.marks(2) == (0, 1, 1)


def test_a_topic_deleted_over_a_sync(alone: BrokerGroup) -> None:
    alone.produce(1, b"a")
    alone.run()
    alone.delete_topic()
    alone.tell()
    alone.run()
    before = len(alone.other_effects)
    let_sync(alone, ONE)
    assert not any(isinstance(e, SyncLog | ReplicaFailed) for _, e in alone.other_effects[before:])


def test_a_follower_elected_over_its_own_sync_commits_only_what_is_synced(tmp_path: Path) -> None:
    group = group_with(tmp_path, 1, 2)
    token = group.produce(1, b"a")
    group.run()
    group.elect(TWO, isr=[TWO])
    group.tell()
    group.run()
    assert group.error(token) == errors.NotLeaderOrFollower.code
    assert group.marks(2) == (0, 0, 1)  # a power loss could take it
    let_sync(group, TWO)
    assert group.marks(2) == (0, 1, 1)


def test_a_leader_elected_anew_over_its_own_sync_commits_only_what_is_synced(
    alone: BrokerGroup,
) -> None:
    token = alone.produce(1, b"a")
    alone.run()
    alone.elect(ONE)
    alone.tell()
    alone.run()
    assert alone.error(token) == errors.NotLeaderOrFollower.code
    assert alone.marks(1) == (0, 0, 1)
    let_sync(alone, ONE)
    assert alone.marks(1) == (0, 1, 1)


def test_a_leader_whose_tail_was_never_due_a_sync_has_it_synced_before_it_counts(
    tmp_path: Path,
) -> None:
    """As after a start, and as after `flush.messages` was lowered."""
    group = group_with(tmp_path, 1_000, 2)
    group.produce(1, b"a", acks=1)
    group.run()
    group.cut_links = {(TWO, ONE)}
    group.produce(1, b"b", acks=1)
    group.run()
    group.append(ConfigRecord(ConfigResourceType.TOPIC, "t", "flush.messages", "1"))
    group.elect(ONE, isr=[ONE])
    group.tell(ONE)
    group.run()
    assert group.marks(1)[1:] == (1, 2)
    let_sync(group, ONE)
    assert group.marks(1)[1:] == (2, 2)


def test_a_sync_that_is_not_believed_commits_nothing(
    alone: BrokerGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that ends while another one of the same log runs, which may have been told of a failure
    in its place.
    """
    token = alone.produce(1, b"a")
    alone.run()
    log = alone.logs[ONE].get(T0)
    assert log is not None
    periodic = log.sync_task()

    def end_within(handle: int) -> None:
        monkeypatch.undo()
        let_sync(alone, ONE)

    monkeypatch.setattr(alone.files[ONE], "fsync", end_within)
    periodic.run()
    assert token not in alone.answers
    assert alone.marks(1) == (0, 0, 1)
    let_sync(alone, ONE)
    assert alone.error(token) == 0
    assert alone.marks(1) == (0, 1, 1)


def test_a_lower_flush_messages_syncs_what_waiting_acks_are_due(tmp_path: Path) -> None:
    group = group_with(tmp_path, 1_000, 2)
    group.cut_links = {(TWO, ONE)}
    token = group.produce(1, b"a")
    group.run()
    group.append(ConfigRecord(ConfigResourceType.TOPIC, "t", "flush.messages", "1"))
    group.tell(ONE)
    group.cut_links = set()
    group.advance(2_000)
    assert group.marks(2) == (0, 0, 1)
    assert token not in group.answers
    let_sync(group, ONE)
    assert group.error(token) == 0
    assert group.marks(1) == (0, 1, 1)
