"""News of internal partitions to a listener: each beginning and end once, in order."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pylog.errors import KafkaStorageError
from pylog.model import (
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    Offset,
    PartitionEpoch,
    TopicId,
    TopicPartition,
)
from pylog.records.builder import encode_batch
from pylog_broker.metadata.image import MetadataDelta
from pylog_broker.replication.effects import (
    Effect,
    HighWatermarkMoved,
    LeadershipBegan,
    LeadershipEnded,
    ProduceDone,
    ReplicaFailed,
)
from pylog_broker.replication.produce_messages import PartitionBatch, Produce
from pylog_broker.storage.log.log import LogRead
from tests.fakes.broker_group import TOPIC_ID, WALL_MS, BrokerGroup

ONE, TWO, THREE = (BrokerId(number) for number in (1, 2, 3))
NAME = "__consumer_offsets"
P0 = TopicPartition(NAME, 0)
NEW_ID = TopicId("nnnnnnnnnnnnnnnnnnnnnA")


@pytest.fixture
def group(tmp_path: Path) -> BrokerGroup:
    """An internal topic of one partition, led by broker 1."""
    made = BrokerGroup(tmp_path)
    made.create_topic(name=NAME)
    made.run()
    return made


def told(group: BrokerGroup, broker: BrokerId) -> list[Effect]:
    """The effects that the broker's listener has heard since this was asked last."""
    found = [
        effect
        for each, effect in group.other_effects
        if each == broker
        and isinstance(effect, LeadershipBegan | LeadershipEnded | HighWatermarkMoved)
    ]
    group.other_effects = [(b, effect) for b, effect in group.other_effects if b != broker]
    return found


def began(epoch: int, high_watermark: int = 0, topic_id: TopicId = TOPIC_ID) -> LeadershipBegan:
    return LeadershipBegan(P0, LeaderEpoch(epoch), topic_id, Offset(high_watermark))


def ended(epoch: int, topic_id: TopicId = TOPIC_ID) -> LeadershipEnded:
    return LeadershipEnded(P0, LeaderEpoch(epoch), topic_id)


def moved(epoch: int, offset: int) -> HighWatermarkMoved:
    return HighWatermarkMoved(P0, LeaderEpoch(epoch), TOPIC_ID, Offset(offset))


def write(group: BrokerGroup, broker: BrokerId, value: bytes) -> object:
    batch = PartitionBatch(P0, None, encode_batch([value]))
    return group.send(broker, Produce(-1, 10_000, (batch,), internal=True))


def elect(group: BrokerGroup, leader: int, isr: tuple[int, ...] = (1, 2, 3)) -> None:
    group.elect(leader, isr=isr)
    group.tell()
    group.run()


def test_all_that_a_leader_alone_says_of_its_election_and_of_a_write(tmp_path: Path) -> None:
    group = BrokerGroup(tmp_path, brokers=1)
    group.create_topic((1,), name=NAME)
    assert [effect for _, effect in group._mail] == [began(0)]
    leader = group.managers[ONE]
    batch = PartitionBatch(P0, None, encode_batch([b"a"]))
    effects = leader.produce(1_000, WALL_MS, Produce(-1, 10, (batch,), internal=True), "token")
    news, done = effects
    assert news == moved(0, 1)
    assert isinstance(done, ProduceDone)


def test_followers_hear_nothing_and_the_leader_each_move(group: BrokerGroup) -> None:
    assert told(group, ONE) == [began(0)]
    write(group, ONE, b"a")
    group.run()
    write(group, ONE, b"b")
    group.run()
    group.advance(1_000)
    assert told(group, ONE) == [moved(0, 1), moved(0, 2)]
    assert told(group, TWO) == told(group, THREE) == []


def test_of_ordinary_topics_nobody_is_told(tmp_path: Path) -> None:
    group = BrokerGroup(tmp_path)
    group.create_topic()
    group.run()
    group.produce(1, b"a")
    group.run()
    group.elect(2)
    group.tell()
    group.run()
    assert told(group, ONE) == told(group, TWO) == []


def test_a_move_of_the_lead(group: BrokerGroup) -> None:
    write(group, ONE, b"a")
    group.advance(1_000)
    elect(group, 2)
    group.advance(1_000)
    assert told(group, ONE) == [began(0), moved(0, 1), ended(0)]
    assert told(group, TWO) == [began(1, 1)]


def test_nobody_leads(group: BrokerGroup) -> None:
    elect(group, -1, isr=())
    assert told(group, ONE) == [began(0), ended(0)]
    assert told(group, TWO) == []


def test_the_same_leader_in_a_later_epoch_begins_anew(group: BrokerGroup) -> None:
    elect(group, 1)
    assert told(group, ONE) == [began(0), ended(0), began(1)]


def test_an_isr_that_changes_within_an_epoch_is_no_news(group: BrokerGroup) -> None:
    told(group, ONE)
    group.set_isr(1, 2)
    group.tell()
    group.advance(5_000)
    assert told(group, ONE) == []


def test_old_news_and_repeats_tell_nothing(group: BrokerGroup) -> None:
    elect(group, 2)
    told(group, ONE)
    record = group.record()
    old = replace(
        record, leader=ONE, leader_epoch=LeaderEpoch(0), partition_epoch=PartitionEpoch(0)
    )
    for each in (record, old):
        delta = MetadataDelta(partitions=(each,))
        effects = group.managers[ONE].on_metadata(group.now_ms, group.images[ONE], delta)
        assert [e for e in effects if isinstance(e, LeadershipBegan | LeadershipEnded)] == []


def test_a_leader_that_is_registered_anew_leads_until_the_metadata_say_otherwise(
    group: BrokerGroup,
) -> None:
    """As when its session broke, and the same process got another epoch."""
    told(group, ONE)
    manager = group.managers[ONE]
    epoch = BrokerEpoch(len(group.records))
    old = group.image.brokers[ONE]
    group._post(ONE, manager.on_registered(group.now_ms, epoch))
    group.append(replace(old, broker_epoch=epoch, fenced=True))
    group.tell()
    group.run()
    assert told(group, ONE) == []
    elect(group, 2, isr=(2, 3))
    elect(group, 1, isr=(1, 2, 3))
    assert told(group, ONE) == [ended(0), began(2)]


def test_two_elections_that_come_at_once_are_one_change(group: BrokerGroup) -> None:
    group.elect(2)
    group.elect(1)
    group.tell()
    group.run()
    assert told(group, ONE) == [began(0), ended(0), began(2)]
    assert told(group, TWO) == []


def test_a_process_that_starts_again_is_told_of_what_it_leads_then(group: BrokerGroup) -> None:
    write(group, ONE, b"a")
    group.advance(1_000)
    group.stop(ONE)
    group.other_effects.clear()
    group.start(ONE)
    group.run()
    assert told(group, ONE)[0] == began(0, 1)


def test_a_topic_that_is_deleted(group: BrokerGroup) -> None:
    group.delete_topic()
    group.tell()
    group.run()
    assert told(group, ONE) == [began(0), ended(0)]
    group.advance(1_000)
    assert told(group, ONE) == []


@pytest.mark.parametrize("at_once", [True, False])
def test_a_topic_that_is_deleted_and_made_anew(group: BrokerGroup, at_once: bool) -> None:
    group.delete_topic()
    if not at_once:
        group.tell()
    group.create_topic(name=NAME, topic_id=NEW_ID)
    group.run()
    assert told(group, ONE) == [began(0), ended(0), began(0, topic_id=NEW_ID)]


def test_a_replica_that_moves_away(group: BrokerGroup) -> None:
    old = group.record()
    group.append(
        replace(
            old,
            replicas=(TWO, THREE),
            isr=(TWO, THREE),
            leader=TWO,
            leader_epoch=LeaderEpoch(1),
            partition_epoch=PartitionEpoch(1),
        )
    )
    group.tell()
    group.run()
    assert told(group, ONE) == [began(0), ended(0)]
    assert told(group, TWO) == [began(1)]


def test_a_log_that_fails_ends_the_lead_at_once(group: BrokerGroup) -> None:
    log = group.logs[ONE].get(P0)
    assert log is not None
    told(group, ONE)
    log._guard.fail(KafkaStorageError("syncing failed"))
    effects = group.managers[ONE].on_logs_failed(group.now_ms, [log])
    assert [type(effect) for effect in effects[:2]] == [ReplicaFailed, LeadershipEnded]
    group._post(ONE, effects)
    group.run()
    assert told(group, ONE) == [ended(0)]
    elect(group, 2, isr=(2, 3))
    elect(group, 1, isr=(1, 2, 3))
    assert told(group, ONE) == []


def test_a_log_that_has_failed_before_it_is_to_lead(group: BrokerGroup) -> None:
    log = group.logs[TWO].get(P0)
    assert log is not None
    log._guard.fail(KafkaStorageError("syncing failed"))
    elect(group, 2)
    assert told(group, TWO) == []


@pytest.mark.parametrize("batches", [1, 2])
def test_a_log_that_fails_over_what_a_move_wakes_is_told_of_after_the_move(
    tmp_path: Path, batches: int
) -> None:
    """And the moves that are left of the step are none any more."""
    group = BrokerGroup(tmp_path, brokers=1)
    group.create_topic((1,), name=NAME)
    group.run()
    told(group, ONE)
    log = group.logs[ONE].get(P0)
    assert log is not None

    def broken(*_: object, **__: object) -> LogRead:
        raise log._guard.fail(KafkaStorageError("reading failed"))

    waiting = group.fetch(1, 0, max_wait_ms=5_000, name=P0)
    log._reader.read = broken  # type: ignore[method-assign]
    batch = PartitionBatch(P0, None, encode_batch([b"a"]))
    request = Produce(-1, 10_000, (batch,), internal=True)
    requests = [(request, f"write {number}") for number in range(batches)]
    group._post(ONE, group.managers[ONE].produce_all(group.now_ms, WALL_MS, requests))
    group.run()
    assert waiting in group.answers
    assert all(token in group.answers for _, token in requests)
    assert told(group, ONE) == [moved(0, 1), ended(0)]
