"""A follower's fetch as the generated message, a twin of `pylog_broker.kafka.follower_fetch`."""

from __future__ import annotations

from pylog.model import TopicId
from pylog_broker.kafka.generated import fetch as wire_fetch
from pylog_broker.kafka.translate import UNTOLD, id_to_bytes
from pylog_broker.replication.replica_fetch_messages import ReplicaFetch


def fetch_to_wire(request: ReplicaFetch) -> wire_fetch.FetchRequest:
    """A follower's fetch as Fetch v18."""
    topics: dict[TopicId, wire_fetch.FetchTopic] = {}
    for item in request.partitions:
        topic = topics.get(item.topic_id)
        if topic is None:
            topic = wire_fetch.FetchTopic(topic_id=id_to_bytes(item.topic_id))
            topics[item.topic_id] = topic
        topic.partitions.append(
            wire_fetch.FetchPartition(
                partition=item.partition,
                current_leader_epoch=item.current_leader_epoch,
                fetch_offset=item.fetch_offset,
                last_fetched_epoch=item.last_fetched_epoch,
                log_start_offset=item.log_start_offset,
                partition_max_bytes=item.max_bytes,
                high_watermark=item.high_watermark if item.high_watermark >= 0 else UNTOLD,
            )
        )
    forgotten: dict[TopicId, list[int]] = {}
    for topic_id, number in request.forgotten:
        forgotten.setdefault(topic_id, []).append(number)
    return wire_fetch.FetchRequest(
        replica_state=wire_fetch.ReplicaState(request.replica_id, request.replica_epoch),
        max_wait_ms=request.max_wait_ms,
        min_bytes=request.min_bytes,
        max_bytes=request.max_bytes,
        session_id=request.session_id,
        session_epoch=request.session_epoch,
        topics=list(topics.values()),
        forgotten_topics_data=[
            wire_fetch.ForgottenTopic(topic_id=id_to_bytes(topic_id), partitions=numbers)
            for topic_id, numbers in forgotten.items()
        ],
    )
