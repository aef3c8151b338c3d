"""Read leases asked of the brokers that have a partition."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pylog import errors
from pylog.model import BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from pylog.records.builder import encode_batch
from pylog_broker.metadata.messages import Failure
from pylog_broker.replication.range_messages import LeaseReads, PartitionLease, ReadsLeased
from pylog_broker.storage.read_leases import Keeper, LeasedRange
from tests.fakes.broker_group import T0, TOPIC_ID, WALL_MS, BrokerGroup

ONE, TWO, THREE = (BrokerId(number) for number in (1, 2, 3))
T1 = TopicPartition("t", 1)


@pytest.fixture
def group(tmp_path: Path) -> BrokerGroup:
    group = BrokerGroup(tmp_path)
    group.create_topic(partitions=2)
    group.run()
    group.produce(1, batch=encode_batch([b"v" * 100] * 8, timestamps=WALL_MS))
    group.run()
    return group


def ask(
    group: BrokerGroup,
    *leases: PartitionLease,
    broker: BrokerId = ONE,
    timeout_ms: int = 0,
    renews: bool = False,
) -> ReadsLeased:
    request = LeaseReads("h", "10.0.0.1", leases, timeout_ms, renews)
    return group.managers[broker].lease_reads(group.now_ms, request)


def test_the_leader_and_those_who_follow_it_hold_the_range(group: BrokerGroup) -> None:
    epoch = group.record().leader_epoch
    wanted = PartitionLease(T0, TOPIC_ID, 2, 8, epoch)
    assert ask(group, wanted) == ReadsLeased(300_000)
    assert ask(group, wanted._replace(follows=True), broker=TWO) == ReadsLeased(300_000)
    held = (LeasedRange(T0, TOPIC_ID, 2, 8),)
    assert group.logs[ONE].leases.of("h") == group.logs[TWO].leases.of("h") == held
    assert group.logs[THREE].leases.of("h") == ()


def test_one_that_does_not_lead_refuses_who_takes_it_for_the_leader(group: BrokerGroup) -> None:
    refused = ask(group, PartitionLease(T0, None, 2, 8), broker=TWO).refused
    assert [(at, failure.code) for at, failure in refused] == [
        (T0, errors.NotLeaderOrFollower.code)
    ]
    assert group.logs[TWO].leases.of("h") == ()


def test_each_partition_has_its_own_refusal(group: BrokerGroup) -> None:
    epoch = group.record().leader_epoch
    answer = ask(
        group,
        PartitionLease(T0, TOPIC_ID, 2, 8, LeaderEpoch(epoch + 1)),
        PartitionLease(T1, None, 0, 0, epoch),
        PartitionLease(TopicPartition("other", 0), None, 0, 1),
        PartitionLease(TopicPartition("t", 7), TopicId("y" * 21 + "A"), 0, 1, follows=True),
    )
    assert [(at, failure.code) for at, failure in answer.refused] == [
        (T0, errors.UnknownLeaderEpoch.code),
        (TopicPartition("other", 0), errors.UnknownTopicOrPartition.code),
        (TopicPartition("t", 7), errors.UnknownTopicId.code),
    ]
    assert group.logs[ONE].leases.of("h") == (LeasedRange(T1, TOPIC_ID, 0, 0),)


def test_brokers_say_how_long_a_lease_lasts(group: BrokerGroup) -> None:
    wanted = PartitionLease(T0, None, 2, 8)
    assert ask(group, wanted, timeout_ms=40_000).timeout_ms == 40_000
    assert ask(group, wanted, timeout_ms=400_000).timeout_ms == 300_000
    logs = group.logs[ONE]
    logs.reconfigure(replace(logs.config, read_lease_timeout_ms=0))
    said = "this broker gives no read leases: its read.lease.timeout.ms is 0"
    fault = Failure(errors.PolicyViolation.code, said)
    assert ask(group, wanted) == ReadsLeased(0, ((T0, fault),))


def test_what_leases_refuse_is_told(group: BrokerGroup) -> None:
    leases = group.logs[ONE].leases
    leases.take(0, "h", "10.0.0.1", 9999, [LeasedRange(T0, TOPIC_ID, 2, 8)])
    leases.hold_back((TOPIC_ID, 0), Keeper.RETENTION, [(8, 100)], 0)
    ((at, failure),) = ask(group, PartitionLease(T0, None, 2, 8), renews=True).refused
    assert (at, failure.code) == (T0, errors.PolicyViolation.code)
    assert failure.message.startswith("the read lease on t-0 has ended: leases keep 100 bytes")


def test_a_new_leader_has_what_it_held_as_a_follower(group: BrokerGroup) -> None:
    """Its own retention and the log start that it is told as a follower leave the range."""
    wanted = PartitionLease(T0, TOPIC_ID, 2, 8)
    ask(group, wanted)
    ask(group, wanted._replace(follows=True), broker=TWO)
    group.elect(2)
    group.tell(ONE, TWO, THREE)
    group.run()
    (renewed,) = group.logs[TWO].leases.of("h")
    assert renewed == LeasedRange(T0, TOPIC_ID, 2, 8)
    epoch = group.record().leader_epoch
    again = ask(group, wanted._replace(current_leader_epoch=epoch), broker=TWO, renews=True)
    assert again == ReadsLeased(300_000)
    log = group.logs[TWO].get(T0)
    assert log is not None
    assert log.log_start_offset == Offset(0)
