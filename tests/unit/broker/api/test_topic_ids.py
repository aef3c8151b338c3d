"""Requests that name topics by id alone."""

from __future__ import annotations

from pylog.model import Offset, TopicId, TopicPartition
from pylog_broker.api.topic_ids import fetch_by_name, produce_by_name
from pylog_broker.replication.fetch_messages import Fetch, PartitionFetch
from pylog_broker.replication.produce_messages import PartitionBatch, Produce

KNOWN, GONE = TopicId("K" * 22), TopicId("G" * 22)
T0, NAMELESS = TopicPartition("t", 0), TopicPartition("", 0)
NAMES = {KNOWN: "known"}.get


def test_batches_get_the_names_of_their_topics() -> None:
    by_name = PartitionBatch(T0, None, b"1")
    by_both = PartitionBatch(T0, KNOWN, b"2")
    request = Produce(
        -1,
        5,
        (
            by_name,
            PartitionBatch(NAMELESS, KNOWN, b"3"),
            PartitionBatch(NAMELESS, GONE, b"4"),
            PartitionBatch(NAMELESS, None, b"5"),
            by_both,
        ),
    )
    assert produce_by_name(request, NAMES).batches == (
        by_name,
        PartitionBatch(TopicPartition("known", 0), KNOWN, b"3"),
        PartitionBatch(NAMELESS, GONE, b"4"),
        PartitionBatch(NAMELESS, None, b"5"),
        by_both,
    )


def test_questions_get_the_names_of_their_topics() -> None:
    by_name = PartitionFetch(T0, None, Offset(3), 10)
    by_id = PartitionFetch(NAMELESS, KNOWN, Offset(4), 10)
    request = Fetch(0, 1, 100, (by_name, by_id), read_committed=True)
    assert fetch_by_name(request, NAMES) == request._replace(
        partitions=(by_name, by_id._replace(topic_partition=TopicPartition("known", 0)))
    )


def test_requests_by_name_stay_as_they_are() -> None:
    produce = Produce(-1, 5, (PartitionBatch(T0, KNOWN, b"1"),))
    fetch = Fetch(0, 1, 100, (PartitionFetch(T0, None, Offset(3), 10),))
    assert produce_by_name(produce, NAMES) is produce
    assert fetch_by_name(fetch, NAMES) is fetch
