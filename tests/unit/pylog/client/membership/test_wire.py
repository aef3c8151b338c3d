"""Requests of members as messages, and their answers as values."""

from __future__ import annotations

from pylog.client.membership.messages import OffsetFetch, OffsetsFetched, PartitionOffset
from pylog.client.membership.wire import GroupWire
from pylog.model import OffsetAndMetadata, TopicPartition
from pylog.rpc.v1 import group_pb2

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_a_committed_offset_is_told_with_its_topic() -> None:
    response = group_pb2.OffsetFetchResponse(
        offsets=[
            group_pb2.CommittedOffset(
                topic="t", partition=0, offset=7, leader_epoch=3, metadata="m", topic_id="A"
            ),
            group_pb2.CommittedOffset(topic="t", partition=1, offset=-1, leader_epoch=-1),
        ]
    )
    asked = OffsetFetch(7, "g", (T0, T1))
    assert GroupWire("me", 2_000).answer(asked, response) == OffsetsFetched(
        (
            PartitionOffset(T0, OffsetAndMetadata(7, "m", 3), topic_id="A"),
            PartitionOffset(T1),
        )
    )
