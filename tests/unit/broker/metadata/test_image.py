"""The image: replay, deltas, snapshots. On random logs, a snapshot says what the log said."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pylog.model import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    Offset,
    PartitionEpoch,
    ProducerId,
    TopicId,
)
from pylog_broker.metadata.image import MetadataDelta, MetadataGap, MetadataImage, RemovedTopic
from pylog_broker.metadata.messages import MetadataBatch
from pylog_broker.metadata.records import (
    BrokerChangeRecord,
    ClusterRecord,
    ConfigRecord,
    ConfigResourceType,
    ControllerEpochRecord,
    Endpoint,
    MetadataRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    usual_listeners,
)

T1, T2 = TopicId("T" * 21 + "A"), TopicId("U" * 21 + "A")


def registration(broker: int, epoch: int = 0, *, fenced: bool = True) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=BrokerId(broker),
        broker_epoch=BrokerEpoch(epoch),
        incarnation_id=f"i{broker}-{epoch}",
        host_id=f"h{broker}",
        rack=None,
        listeners=usual_listeners(Endpoint("h", 1), Endpoint("h", 2)),
        directory_id=f"d{broker}",
        boot_id="boot",
        fenced=fenced,
    )


def partition(
    topic: TopicId, number: int, replicas: tuple[int, ...] = (1, 2), *, epoch: int = 0
) -> PartitionRecord:
    brokers = tuple(map(BrokerId, replicas))
    return PartitionRecord(
        topic, number, brokers, brokers, brokers[0], LeaderEpoch(epoch), PartitionEpoch(epoch)
    )


def batch(first: int, *records: MetadataRecord) -> MetadataBatch:
    return MetadataBatch(ControllerEpoch(1), Offset(first), records)


def test_a_batch_says_what_changed_once_each_in_order() -> None:
    image = MetadataImage()
    delta = image.apply(
        batch(
            0,
            ClusterRecord("c"),
            registration(1),
            TopicRecord("a", T1),
            partition(T1, 0),
            partition(T1, 1),
            partition(T1, 0, epoch=1),
            BrokerChangeRecord(BrokerId(1), BrokerEpoch(0), False, False),
            ConfigRecord(ConfigResourceType.TOPIC, "a", "retention.ms", "5"),
        )
    )
    assert delta == MetadataDelta(
        first_offset=Offset(0),
        last_offset=Offset(7),
        partitions=(partition(T1, 0, epoch=1), partition(T1, 1)),
        new_topics=(T1,),
        brokers=(BrokerId(1),),
        configs=((ConfigResourceType.TOPIC, "a"),),
    )
    assert image.is_live(BrokerId(1))
    assert image.topic_configs("a") == {"retention.ms": "5"}
    assert image.partition_count == 2


def test_a_topic_removed_and_created_anew_is_in_both_lists() -> None:
    image = MetadataImage()
    image.apply(batch(0, TopicRecord("a", T1), partition(T1, 0)))
    delta = image.apply(
        batch(2, RemoveTopicRecord(T1), TopicRecord("a", T2), partition(T2, 0, (3,)))
    )
    assert delta.removed_topics == (RemovedTopic(T1, "a", (partition(T1, 0),)),)
    assert delta.new_topics == (T2,)
    assert delta.partitions == (partition(T2, 0, (3,)),)
    assert image.partitions_of(BrokerId(1)) == []
    assert image.topics_by_name["a"].topic_id == T2


def test_what_came_and_went_within_a_batch_is_not_told() -> None:
    image = MetadataImage()
    delta = image.apply(batch(0, TopicRecord("a", T1), partition(T1, 0), RemoveTopicRecord(T1)))
    assert delta.empty
    assert image == MetadataImage(offset=Offset(2))


def test_removal_takes_the_topics_configuration_along() -> None:
    image = MetadataImage()
    image.apply(
        batch(
            0,
            TopicRecord("a", T1),
            ConfigRecord(ConfigResourceType.TOPIC, "a", "retention.ms", "5"),
            RemoveTopicRecord(T1),
            TopicRecord("a", T2),
        )
    )
    assert image.topic_configs("a") == {}


def test_an_older_incarnations_change_is_ignored() -> None:
    image = MetadataImage()
    image.apply(batch(0, registration(1, 0), registration(1, 1)))
    image.replay(BrokerChangeRecord(BrokerId(1), BrokerEpoch(0), False, False), Offset(2))
    assert image.brokers[BrokerId(1)].fenced


def test_a_batch_tells_which_offsets_before_it_are_no_metadata() -> None:
    image = MetadataImage()
    image.apply(batch(0, ClusterRecord("c")))
    records = (ControllerEpochRecord(ControllerEpoch(1)), TopicRecord("a", T1))
    after_control_records = replace(batch(4, *records), previous_offset=Offset(0))
    with pytest.raises(MetadataGap):
        MetadataImage().apply(after_control_records)
    assert image.apply(after_control_records) == MetadataDelta(
        first_offset=Offset(4), last_offset=Offset(5), new_topics=(T1,)
    )
    before = MetadataImage.from_records(image.records(), image.offset)
    assert image.apply(after_control_records).empty
    assert image == before


def test_a_repeated_batch_changes_nothing_and_a_gap_is_refused() -> None:
    image = MetadataImage()
    records = (ClusterRecord("c"), ControllerEpochRecord(ControllerEpoch(1)))
    image.apply(batch(0, *records))
    assert image.apply(batch(0, *records)).empty
    assert image.apply(batch(1, records[1], registration(1))).brokers == (BrokerId(1),)
    with pytest.raises(MetadataGap, match="begins at offset 4, the image ends at 2"):
        image.apply(batch(4, registration(2)))
    assert image.offset == 2


def test_an_older_snapshot_changes_nothing() -> None:
    image = MetadataImage()
    image.apply(batch(0, ClusterRecord("c"), registration(1)))
    old = MetadataBatch(ControllerEpoch(1), Offset(0), (ClusterRecord("c"),), snapshot=True)
    assert image.apply(old).empty
    assert BrokerId(1) in image.brokers


@st.composite
def logs(draw: st.DrawFn) -> list[MetadataRecord]:
    """Logs as a controller might write them: partitions only of topics that exist."""
    records: list[MetadataRecord] = []
    topics: dict[str, TopicId] = {}
    for offset in range(draw(st.integers(0, 40))):
        kind = draw(st.integers(0, 9))
        broker = BrokerId(draw(st.integers(1, 4)))
        name = draw(st.sampled_from("abc"))
        if kind == 0:
            records.append(ClusterRecord("c"))
        elif kind == 1:
            records.append(ControllerEpochRecord(ControllerEpoch(offset)))
        elif kind == 2:
            records.append(registration(broker, offset))
        elif kind == 3:
            flags = draw(st.tuples(st.booleans(), st.booleans()))
            epoch = draw(st.integers(0, offset))
            records.append(BrokerChangeRecord(broker, BrokerEpoch(epoch), *flags))
        elif kind == 4:
            records.append(UnregisterBrokerRecord(broker))
        elif kind == 5 and name not in topics:
            topics[name] = TopicId(f"{offset:022d}")
            records.append(TopicRecord(name, topics[name]))
        elif kind in (6, 7) and name in topics:
            replicas = tuple(draw(st.permutations([1, 2, 3, 4]))[: draw(st.integers(1, 3))])
            number = draw(st.integers(0, 2))
            records.append(partition(topics[name], number, replicas, epoch=offset))
        elif kind == 8 and name in topics:
            records.append(RemoveTopicRecord(topics.pop(name)))
        else:
            value = draw(st.sampled_from([None, "1", "2"]))
            scope = draw(st.sampled_from(ConfigResourceType))
            resource = "" if scope is ConfigResourceType.CLUSTER else name
            if scope is ConfigResourceType.TOPIC and name not in topics:
                records.append(ProducerIdsRecord(broker, BrokerEpoch(1), ProducerId(offset)))
            else:
                records.append(ConfigRecord(scope, resource, "k", value))
    return records


@given(logs())
@settings(max_examples=150)
def test_a_snapshot_says_what_the_log_says(log: list[MetadataRecord]) -> None:
    image = MetadataImage()
    for offset, record in enumerate(log):
        image.replay(record, Offset(offset))
    copy = MetadataImage.from_records(image.records(), image.offset)
    assert copy == image
    assert copy.records() == image.records()
    for broker in map(BrokerId, range(1, 5)):
        held = [p for p in image.partitions() if broker in p.replicas]
        key = lambda p: (p.topic_id, p.partition)  # noqa: E731
        assert sorted(image.partitions_of(broker), key=key) == sorted(held, key=key)
    assert image.partition_count == len(list(image.partitions()))


@given(logs(), st.integers(0, 40))
@settings(max_examples=150)
def test_a_snapshot_changes_what_the_batches_would(log: list[MetadataRecord], cut: int) -> None:
    cut = min(cut, len(log))
    by_batch, by_snapshot, whole = MetadataImage(), MetadataImage(), MetadataImage()
    for image in (by_batch, by_snapshot):
        image.apply(batch(0, *log[:cut]))
    whole.apply(batch(0, *log))
    told = by_batch.apply(batch(cut, *log[cut:]))
    snapshot = MetadataBatch(ControllerEpoch(1), whole.offset, whole.records(), snapshot=True)
    delta = by_snapshot.apply(snapshot)
    assert by_snapshot == by_batch == whole
    # Batches may name things that changed back; a snapshot names exactly what differs.
    key = {(p.topic_id, p.partition) for p in told.partitions}
    assert {(p.topic_id, p.partition) for p in delta.partitions} <= key
    assert set(delta.brokers) <= set(told.brokers)
    assert {t.topic_id for t in delta.removed_topics} == {t.topic_id for t in told.removed_topics}
    assert set(delta.new_topics) == set(told.new_topics)
