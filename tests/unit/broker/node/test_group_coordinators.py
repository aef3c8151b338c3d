"""The news of topics that a coordinator of groups hears."""

from __future__ import annotations

from dataclasses import replace

from pylog.model import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    Offset,
    PartitionEpoch,
    TopicId,
)
from pylog_broker.coordinator.groups.consumer.topics import SubscribedTopic
from pylog_broker.metadata.image import MetadataImage
from pylog_broker.metadata.messages import MetadataBatch
from pylog_broker.metadata.records import (
    Endpoint,
    MetadataRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    usual_listeners,
)
from pylog_broker.node.group_coordinators import GroupTopics

T1, T2 = TopicId("T" * 21 + "A"), TopicId("U" * 21 + "A")
NOTHING: set[str] = set()


class Metadata:
    """An image that grows, and what is told of it."""

    def __init__(self) -> None:
        self.image = MetadataImage()
        self.topics = GroupTopics(lambda: self.image)

    def commit(self, *records: MetadataRecord) -> tuple[set[str], set[str]]:
        first = Offset(self.image.offset + 1)
        return self.topics.changed(
            self.image.apply(MetadataBatch(ControllerEpoch(1), first, records))
        )


def partition(topic: TopicId, number: int, *replicas: int, epoch: int = 0) -> PartitionRecord:
    brokers = tuple(map(BrokerId, replicas or (1, 2)))
    return PartitionRecord(
        topic, number, brokers, brokers, brokers[0], LeaderEpoch(epoch), PartitionEpoch(epoch)
    )


def broker(number: int, rack: str | None) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=BrokerId(number),
        broker_epoch=BrokerEpoch(number),
        incarnation_id=f"i{number}",
        host_id="h",
        rack=rack,
        listeners=usual_listeners(Endpoint("h", 1), Endpoint("h", 2)),
        directory_id=f"d{number}",
        boot_id="boot",
        fenced=False,
    )


def test_a_topic_is_told_of_when_it_is_new_grows_and_goes() -> None:
    known = Metadata()
    assert known.topics.topic("t") is None
    assert known.commit(TopicRecord("t", T1), partition(T1, 0)) == ({"t"}, NOTHING)
    assert known.topics.topic("t") == SubscribedTopic("t", T1, 1)
    assert known.commit(partition(T1, 1)) == ({"t"}, NOTHING)
    assert known.topics.topic("t") == SubscribedTopic("t", T1, 2)
    assert known.commit(RemoveTopicRecord(T1)) == ({"t"}, {"t"})
    assert known.topics.topic("t") is None


def test_elections_are_no_news() -> None:
    known = Metadata()
    known.commit(TopicRecord("t", T1), partition(T1, 0))
    assert known.topics.topic("t") is not None
    record = partition(T1, 0, epoch=1)
    assert known.commit(replace(record, isr=(BrokerId(1),))) == (NOTHING, NOTHING)


def test_a_topic_that_nobody_looked_at_is_told_of_when_it_is_new_only() -> None:
    known = Metadata()
    assert known.commit(TopicRecord("t", T1), partition(T1, 0)) == ({"t"}, NOTHING)
    assert known.commit(partition(T1, 1)) == (NOTHING, NOTHING)


def test_a_topic_made_anew_under_its_name_is_gone_and_new() -> None:
    known = Metadata()
    known.commit(TopicRecord("t", T1), partition(T1, 0))
    assert known.topics.topic("t") == SubscribedTopic("t", T1, 1)
    again = (RemoveTopicRecord(T1), TopicRecord("t", T2), partition(T2, 0))
    assert known.commit(*again) == ({"t"}, {"t"})
    assert known.topics.topic("t") == SubscribedTopic("t", T2, 1)


def test_racks_of_replicas_are_part_of_a_topic() -> None:
    known = Metadata()
    known.commit(broker(1, "a"), broker(2, "b"), TopicRecord("t", T1), partition(T1, 0, 1, 2))
    assert known.topics.topic("t") == SubscribedTopic("t", T1, 1, (frozenset("ab"),))
    moved = replace(broker(2, "a"), broker_epoch=BrokerEpoch(9))
    assert known.commit(moved) == ({"t"}, NOTHING)
    assert known.topics.topic("t") == SubscribedTopic("t", T1, 1, (frozenset("a"),))
