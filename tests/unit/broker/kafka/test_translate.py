"""Replication's values on the wire and back, and the high watermark of KIP-1166."""

from __future__ import annotations

import pytest
from kafka.protocol.consumer.fetch import FetchRequest

from pylog.model import BrokerEpoch, BrokerId, LeaderEpoch, Offset, TopicId, topic_id_from_bytes
from pylog_broker.kafka.generated import fetch
from pylog_broker.kafka.translate import UNTOLD, fetch_from_wire
from pylog_broker.replication.replica_fetch_messages import ReplicaFetch, ReplicaPartitionFetch
from tests.fakes.follower_fetches import fetch_to_wire

TOPIC = TopicId("abcdefghijklmnopqrstuA")
OTHER = topic_id_from_bytes(bytes(range(16)))


def follower_fetch(*high_watermarks: int) -> ReplicaFetch:
    items = (
        ReplicaPartitionFetch(
            topic_id, number, LeaderEpoch(2), Offset(70 + number), LeaderEpoch(1), Offset(3),
            1_000, Offset(high_watermark),
        )
        for topic_id in (TOPIC, OTHER)
        for number, high_watermark in enumerate(high_watermarks)
    )  # fmt: skip
    return ReplicaFetch(BrokerId(2), BrokerEpoch(9), 500, 1, 1 << 20, tuple(items))


def body(request: ReplicaFetch, version: int) -> bytes:
    return b"".join(fetch.encode_request(fetch_to_wire(request), version))


def read_back(data: bytes, version: int) -> ReplicaFetch:
    return fetch_from_wire(fetch.decode_request(memoryview(data), 0, version))


@pytest.mark.parametrize("high_watermark", [-1, 0, 69, 2**63 - 2])
def test_a_fetch_comes_back_as_it_was(high_watermark: int) -> None:
    request = follower_fetch(high_watermark, 5)
    assert read_back(body(request, 18), 18) == request


def test_before_version_18_the_follower_does_not_tell() -> None:
    heard = read_back(body(follower_fetch(69), 17), 17)
    assert [item.high_watermark for item in heard.partitions] == [-1, -1]


def test_a_follower_that_knows_of_nothing_committed_has_high_watermark_zero() -> None:
    message = fetch_to_wire(follower_fetch(5))
    message.topics[0].partitions[0].high_watermark = -1
    assert fetch_from_wire(message).partitions[0].high_watermark == 0


def test_kafka_python_reads_the_high_watermark_and_writes_the_same_bytes() -> None:
    data = body(follower_fetch(69, -1), 18)
    partner = FetchRequest.decode(data, version=18)
    told = [partition.high_watermark for partition in partner.topics[0].partitions]
    assert told == [69, UNTOLD]
    assert bytes(partner.encode()) == data


def test_the_high_watermark_is_tag_1_of_eight_bytes_and_is_left_out_when_untold() -> None:
    tagged = bytes([1, 1, 8]) + (69).to_bytes(8, "big")
    one = ReplicaFetch(
        BrokerId(2), BrokerEpoch(9), 500, 1, 1 << 20, follower_fetch(69).partitions[:1]
    )
    data = body(one, 18)
    assert data.count(tagged) == 1
    assert data.replace(tagged, b"\0") == body(one, 17)
