"""Between the wire messages of Fetch and OffsetForLeaderEpoch and the values of replication.

OffsetForLeaderEpoch knows topics only by name in every version, so the names come from metadata; a
topic that either side does not know is left out and so counts as unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final

from pylog import errors
from pylog.model import (
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    Offset,
    TopicId,
    topic_id_from_bytes,
    topic_id_to_bytes,
)
from pylog_broker.kafka.generated import fetch as wire_fetch
from pylog_broker.kafka.generated import offset_for_leader_epoch as wire_epochs
from pylog_broker.metadata.messages import Failure
from pylog_broker.replication.fetch_messages import EpochEnd
from pylog_broker.replication.replica_fetch_messages import (
    EpochEndQuery,
    EpochEnds,
    ReplicaEpochQuery,
    ReplicaFetch,
    ReplicaFetched,
    ReplicaPartitionData,
    ReplicaPartitionFetch,
)

NameOf = Callable[[TopicId], str | None]
IdOf = Callable[[str], TopicId | None]

UNTOLD: Final = 2**63 - 1
"""KIP-1166's value for a follower that does not tell its high watermark; also what a request before
v18 decodes to. In the values of replication that is -1. (-1 on the wire is a follower that knows of
nothing committed.)"""

id_from_bytes = lru_cache(maxsize=4096)(topic_id_from_bytes)
id_to_bytes = lru_cache(maxsize=4096)(topic_id_to_bytes)


def failure_of(code: int) -> Failure | None:
    """None for code 0. The text does not travel in Kafka's messages; the code's own stands in."""
    return Failure(code, str(errors.from_code(code))) if code else None


def fetch_from_wire(message: wire_fetch.FetchRequest) -> ReplicaFetch:
    """Fetch v18 as a follower's fetch."""
    return ReplicaFetch(
        replica_id=BrokerId(message.replica_state.replica_id),
        replica_epoch=BrokerEpoch(message.replica_state.replica_epoch),
        max_wait_ms=message.max_wait_ms,
        min_bytes=message.min_bytes,
        max_bytes=message.max_bytes,
        partitions=tuple(
            ReplicaPartitionFetch(
                topic_id=id_from_bytes(topic.topic_id),
                partition=item.partition,
                current_leader_epoch=LeaderEpoch(item.current_leader_epoch),
                fetch_offset=Offset(item.fetch_offset),
                last_fetched_epoch=LeaderEpoch(item.last_fetched_epoch),
                log_start_offset=Offset(item.log_start_offset),
                max_bytes=item.partition_max_bytes,
                high_watermark=_told(item.high_watermark),
            )
            for topic in message.topics
            for item in topic.partitions
        ),
        session_id=message.session_id,
        session_epoch=message.session_epoch,
        forgotten=tuple(
            (id_from_bytes(topic.topic_id), number)
            for topic in message.forgotten_topics_data
            for number in topic.partitions
        ),
    )


def _told(high_watermark: int) -> Offset:
    return Offset(-1 if high_watermark == UNTOLD else max(0, high_watermark))


def fetched_to_wire(fetched: ReplicaFetched) -> wire_fetch.FetchResponse:
    """A leader's answer as Fetch v18's."""
    topics: dict[TopicId, wire_fetch.FetchableTopicResponse] = {}
    for item in fetched.partitions:
        topic = topics.get(item.topic_id)
        if topic is None:
            topic = wire_fetch.FetchableTopicResponse(topic_id=id_to_bytes(item.topic_id))
            topics[item.topic_id] = topic
        data = wire_fetch.PartitionData(
            partition_index=item.partition,
            error_code=item.failure.code if item.failure else 0,
            high_watermark=item.high_watermark,
            last_stable_offset=item.last_stable_offset,
            log_start_offset=item.log_start_offset,
            current_leader=wire_fetch.LeaderIdAndEpoch(
                item.current_leader, item.current_leader_epoch
            ),
            records=bytes(item.records),
        )
        if item.diverging:
            data.diverging_epoch = wire_fetch.EpochEndOffset(
                item.diverging.epoch, item.diverging.end_offset
            )
        topic.partitions.append(data)
    return wire_fetch.FetchResponse(
        error_code=fetched.failure.code if fetched.failure else 0,
        session_id=fetched.session_id,
        responses=list(topics.values()),
    )


def fetched_from_wire(message: wire_fetch.FetchResponse) -> ReplicaFetched:
    """Fetch v18's answer as a leader's answer."""
    return ReplicaFetched(
        failure=failure_of(message.error_code),
        session_id=message.session_id,
        partitions=tuple(
            ReplicaPartitionData(
                topic_id=id_from_bytes(topic.topic_id),
                partition=item.partition_index,
                failure=failure_of(item.error_code),
                high_watermark=Offset(item.high_watermark),
                last_stable_offset=Offset(item.last_stable_offset),
                log_start_offset=Offset(item.log_start_offset),
                diverging=_diverging(item.diverging_epoch),
                records=item.records or b"",
                current_leader=BrokerId(item.current_leader.leader_id),
                current_leader_epoch=LeaderEpoch(item.current_leader.leader_epoch),
            )
            for topic in message.responses
            for item in topic.partitions
        ),
    )


def _diverging(end: wire_fetch.EpochEndOffset) -> EpochEnd | None:
    # The default (-1, -1) is what an absent tagged field decodes to.
    if end.epoch == -1 and end.end_offset == -1:
        return None
    return EpochEnd(LeaderEpoch(end.epoch), Offset(end.end_offset))


def query_from_wire(message: wire_epochs.OffsetForLeaderEpochRequest, id_of: IdOf) -> EpochEndQuery:
    """OffsetForLeaderEpoch v4 as a follower's query."""
    return EpochEndQuery(
        replica_id=BrokerId(message.replica_id),
        queries=tuple(
            ReplicaEpochQuery(
                topic_id,
                item.partition,
                LeaderEpoch(item.current_leader_epoch),
                LeaderEpoch(item.leader_epoch),
            )
            for topic in message.topics
            if (topic_id := id_of(topic.topic)) is not None
            for item in topic.partitions
        ),
    )


def ends_to_wire(ends: EpochEnds, name_of: NameOf) -> wire_epochs.OffsetForLeaderEpochResponse:
    """A leader's answer as OffsetForLeaderEpoch v4's."""
    topics: dict[str, wire_epochs.OffsetForLeaderTopicResult] = {}
    for item in ends.ends:
        name = name_of(item.topic_id)
        if name is None:
            continue
        topic = topics.setdefault(name, wire_epochs.OffsetForLeaderTopicResult(topic=name))
        topic.partitions.append(
            wire_epochs.EpochEndOffset(
                error_code=item.failure.code if item.failure else 0,
                partition=item.partition,
                leader_epoch=item.leader_epoch,
                end_offset=item.end_offset,
            )
        )
    return wire_epochs.OffsetForLeaderEpochResponse(topics=list(topics.values()))
