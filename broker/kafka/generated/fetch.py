"""Fetch (api key 1), versions 12 to 18.

Generated from broker/kafka/schemas/fetch.txt by tools/kafka_codecs.py: do not edit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from pylog_broker.kafka_primitives import (
    DECODE_FAULTS,
    INLINE_RECORDS_MAX,
    ZERO_UUID,
    Chunks,
    MalformedMessage,
    count_refused,
    null_refused,
    read_varint,
    skip_tag,
    skip_tagged_fields,
    truncated,
    write_varint,
)

KEY: Final = 1
VERSIONS: Final = range(12, 19)
FLEXIBLE_FROM: Final = 12

_U: Final = Struct(">16s")
_i: Final = Struct(">i")
_ihi: Final = Struct(">ihi")
_ihqqq: Final = Struct(">ihqqq")
_ii: Final = Struct(">ii")
_iiibii: Final = Struct(">iiibii")
_iiiibii: Final = Struct(">iiiibii")
_iiqiqi: Final = Struct(">iiqiqi")
_iq: Final = Struct(">iq")
_q: Final = Struct(">q")
_qi: Final = Struct(">qi")
_qq: Final = Struct(">qq")


@dataclass(slots=True)
class ReplicaState:
    """replica_state of FetchRequest."""

    replica_id: int = -1
    replica_epoch: int = -1


@dataclass(slots=True)
class FetchPartition:
    """partitions of FetchTopic."""

    partition: int = 0
    current_leader_epoch: int = -1
    fetch_offset: int = 0
    last_fetched_epoch: int = -1
    log_start_offset: int = -1
    partition_max_bytes: int = 0
    replica_directory_id: bytes = ZERO_UUID
    high_watermark: int = 9223372036854775807


@dataclass(slots=True)
class FetchTopic:
    """topics of FetchRequest."""

    topic: str = ""
    topic_id: bytes = ZERO_UUID
    partitions: list[FetchPartition] = field(default_factory=list)


@dataclass(slots=True)
class ForgottenTopic:
    """forgotten_topics_data of FetchRequest."""

    topic: str = ""
    topic_id: bytes = ZERO_UUID
    partitions: list[int] = field(default_factory=list)


@dataclass(slots=True)
class FetchRequest:
    """The request's body."""

    cluster_id: str | None = None
    replica_id: int = -1
    replica_state: ReplicaState = field(default_factory=ReplicaState)
    max_wait_ms: int = 0
    min_bytes: int = 0
    max_bytes: int = 2147483647
    isolation_level: int = 0
    session_id: int = 0
    session_epoch: int = -1
    topics: list[FetchTopic] = field(default_factory=list)
    forgotten_topics_data: list[ForgottenTopic] = field(default_factory=list)
    rack_id: str = ""


@dataclass(slots=True)
class EpochEndOffset:
    """diverging_epoch of PartitionData."""

    epoch: int = -1
    end_offset: int = -1


@dataclass(slots=True)
class LeaderIdAndEpoch:
    """current_leader of PartitionData."""

    leader_id: int = -1
    leader_epoch: int = -1


@dataclass(slots=True)
class SnapshotId:
    """snapshot_id of PartitionData."""

    end_offset: int = -1
    epoch: int = -1


@dataclass(slots=True)
class AbortedTransaction:
    """aborted_transactions of PartitionData."""

    producer_id: int = 0
    first_offset: int = 0


@dataclass(slots=True)
class PartitionData:
    """partitions of FetchableTopicResponse."""

    partition_index: int = 0
    error_code: int = 0
    high_watermark: int = 0
    last_stable_offset: int = -1
    log_start_offset: int = -1
    diverging_epoch: EpochEndOffset = field(default_factory=EpochEndOffset)
    current_leader: LeaderIdAndEpoch = field(default_factory=LeaderIdAndEpoch)
    snapshot_id: SnapshotId = field(default_factory=SnapshotId)
    aborted_transactions: list[AbortedTransaction] | None = field(default_factory=list)
    preferred_read_replica: int = -1
    records: bytes | None = None


@dataclass(slots=True)
class FetchableTopicResponse:
    """responses of FetchResponse."""

    topic: str = ""
    topic_id: bytes = ZERO_UUID
    partitions: list[PartitionData] = field(default_factory=list)


@dataclass(slots=True)
class NodeEndpoint:
    """node_endpoints of FetchResponse."""

    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None


@dataclass(slots=True)
class FetchResponse:
    """The response's body."""

    throttle_time_ms: int = 0
    error_code: int = 0
    session_id: int = 0
    responses: list[FetchableTopicResponse] = field(default_factory=list)
    node_endpoints: list[NodeEndpoint] = field(default_factory=list)


def _encode_request_v12(message: FetchRequest) -> Chunks:
    chunks: Chunks = []
    out = bytearray()
    out += _iiiibii.pack(message.replica_id, message.max_wait_ms, message.min_bytes, message.max_bytes, message.isolation_level, message.session_id, message.session_epoch)
    value_a = message.topics
    write_varint(out, len(value_a) + 1)
    for a in value_a:
        value_b = a.topic
        text_b = value_b.encode()
        write_varint(out, len(text_b) + 1)
        out += text_b
        value_c = a.partitions
        write_varint(out, len(value_c) + 1)
        for c in value_c:
            out += _iiqiqi.pack(c.partition, c.current_leader_epoch, c.fetch_offset, c.last_fetched_epoch, c.log_start_offset, c.partition_max_bytes)
            out.append(0)
        out.append(0)
    value_d = message.forgotten_topics_data
    write_varint(out, len(value_d) + 1)
    for d in value_d:
        value_e = d.topic
        text_e = value_e.encode()
        write_varint(out, len(text_e) + 1)
        out += text_e
        value_f = d.partitions
        write_varint(out, len(value_f) + 1)
        for f in value_f:
            out += _i.pack(f)
        out.append(0)
    value_g = message.rack_id
    text_g = value_g.encode()
    write_varint(out, len(text_g) + 1)
    out += text_g
    tags_h: list[tuple[int, bytearray]] = []
    if message.cluster_id != None:
        part_h = bytearray()
        value_i = message.cluster_id
        if value_i is None:
            part_h.append(0)
        else:
            text_i = value_i.encode()
            write_varint(part_h, len(text_i) + 1)
            part_h += text_i
        tags_h.append((0, part_h))
    write_varint(out, len(tags_h))
    for tag_h, content_h in tags_h:
        write_varint(out, tag_h)
        write_varint(out, len(content_h))
        out += content_h
    chunks.append(out)
    return chunks


def _decode_request_v12(buffer: memoryview, position: int) -> tuple[FetchRequest, int]:
    length = len(buffer)
    message_replica_id, message_max_wait_ms, message_min_bytes, message_max_bytes, message_isolation_level, message_session_id, message_session_epoch = _iiiibii.unpack_from(buffer, position)
    position += 25
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("topics")
    message_topics: list[FetchTopic]
    if size * 3 > length - position:
        count_refused("topics", size, length - position)
    message_topics = []
    for _ in range(size):
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("topic")
        if size > length - position:
            truncated("topic", size, length - position)
        a_topic = str(buffer[position : position + size], "utf-8")
        position += size
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("partitions")
        a_partitions: list[FetchPartition]
        if size * 33 > length - position:
            count_refused("partitions", size, length - position)
        a_partitions = []
        for _ in range(size):
            b_partition, b_current_leader_epoch, b_fetch_offset, b_last_fetched_epoch, b_log_start_offset, b_partition_max_bytes = _iiqiqi.unpack_from(buffer, position)
            position += 32
            if buffer[position]:
                position = skip_tagged_fields(buffer, position)
            else:
                position += 1
            a_partitions.append(FetchPartition(partition=b_partition, current_leader_epoch=b_current_leader_epoch, fetch_offset=b_fetch_offset, last_fetched_epoch=b_last_fetched_epoch, log_start_offset=b_log_start_offset, partition_max_bytes=b_partition_max_bytes))
        if buffer[position]:
            position = skip_tagged_fields(buffer, position)
        else:
            position += 1
        message_topics.append(FetchTopic(topic=a_topic, partitions=a_partitions))
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("forgotten_topics_data")
    message_forgotten_topics_data: list[ForgottenTopic]
    if size * 3 > length - position:
        count_refused("forgotten_topics_data", size, length - position)
    message_forgotten_topics_data = []
    for _ in range(size):
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("topic")
        if size > length - position:
            truncated("topic", size, length - position)
        c_topic = str(buffer[position : position + size], "utf-8")
        position += size
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("partitions")
        c_partitions: list[int]
        if size * 4 > length - position:
            count_refused("partitions", size, length - position)
        c_partitions = []
        for _ in range(size):
            element_d, = _i.unpack_from(buffer, position)
            position += 4
            c_partitions.append(element_d)
        if buffer[position]:
            position = skip_tagged_fields(buffer, position)
        else:
            position += 1
        message_forgotten_topics_data.append(ForgottenTopic(topic=c_topic, partitions=c_partitions))
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("rack_id")
    if size > length - position:
        truncated("rack_id", size, length - position)
    message_rack_id = str(buffer[position : position + size], "utf-8")
    position += size
    message_cluster_id: str | None = None
    tags_message, position = read_varint(buffer, position)
    for _ in range(tags_message):
        tag_message, position = read_varint(buffer, position)
        if tag_message == 0:
            end_message = skip_tag(buffer, position)
            _, position = read_varint(buffer, position)
            size, position = read_varint(buffer, position)
            size -= 1
            if size < 0:
                message_cluster_id = None
            else:
                if size > length - position:
                    truncated("cluster_id", size, length - position)
                message_cluster_id = str(buffer[position : position + size], "utf-8")
                position += size
            if position != end_message:
                raise MalformedMessage("cluster_id does not fill its tagged field")
        else:
            position = skip_tag(buffer, position)
    assert position <= length
    return FetchRequest(replica_id=message_replica_id, max_wait_ms=message_max_wait_ms, min_bytes=message_min_bytes, max_bytes=message_max_bytes, isolation_level=message_isolation_level, session_id=message_session_id, session_epoch=message_session_epoch, topics=message_topics, forgotten_topics_data=message_forgotten_topics_data, rack_id=message_rack_id, cluster_id=message_cluster_id), position


def _encode_request_v13(message: FetchRequest) -> Chunks:
    chunks: Chunks = []
    out = bytearray()
    out += _iiiibii.pack(message.replica_id, message.max_wait_ms, message.min_bytes, message.max_bytes, message.isolation_level, message.session_id, message.session_epoch)
    value_a = message.topics
    write_varint(out, len(value_a) + 1)
    for a in value_a:
        out += _U.pack(a.topic_id)
        value_b = a.partitions
        write_varint(out, len(value_b) + 1)
        for b in value_b:
            out += _iiqiqi.pack(b.partition, b.current_leader_epoch, b.fetch_offset, b.last_fetched_epoch, b.log_start_offset, b.partition_max_bytes)
            out.append(0)
        out.append(0)
    value_c = message.forgotten_topics_data
    write_varint(out, len(value_c) + 1)
    for c in value_c:
        out += _U.pack(c.topic_id)
        value_d = c.partitions
        write_varint(out, len(value_d) + 1)
        for d in value_d:
            out += _i.pack(d)
        out.append(0)
    value_e = message.rack_id
    text_e = value_e.encode()
    write_varint(out, len(text_e) + 1)
    out += text_e
    tags_f: list[tuple[int, bytearray]] = []
    if message.cluster_id != None:
        part_f = bytearray()
        value_g = message.cluster_id
        if value_g is None:
            part_f.append(0)
        else:
            text_g = value_g.encode()
            write_varint(part_f, len(text_g) + 1)
            part_f += text_g
        tags_f.append((0, part_f))
    write_varint(out, len(tags_f))
    for tag_f, content_f in tags_f:
        write_varint(out, tag_f)
        write_varint(out, len(content_f))
        out += content_f
    chunks.append(out)
    return chunks


def _decode_request_v13(buffer: memoryview, position: int) -> tuple[FetchRequest, int]:
    length = len(buffer)
    message_replica_id, message_max_wait_ms, message_min_bytes, message_max_bytes, message_isolation_level, message_session_id, message_session_epoch = _iiiibii.unpack_from(buffer, position)
    position += 25
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("topics")
    message_topics: list[FetchTopic]
    if size * 18 > length - position:
        count_refused("topics", size, length - position)
    message_topics = []
    for _ in range(size):
        a_topic_id, = _U.unpack_from(buffer, position)
        position += 16
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("partitions")
        a_partitions: list[FetchPartition]
        if size * 33 > length - position:
            count_refused("partitions", size, length - position)
        a_partitions = []
        for _ in range(size):
            b_partition, b_current_leader_epoch, b_fetch_offset, b_last_fetched_epoch, b_log_start_offset, b_partition_max_bytes = _iiqiqi.unpack_from(buffer, position)
            position += 32
            if buffer[position]:
                position = skip_tagged_fields(buffer, position)
            else:
                position += 1
            a_partitions.append(FetchPartition(partition=b_partition, current_leader_epoch=b_current_leader_epoch, fetch_offset=b_fetch_offset, last_fetched_epoch=b_last_fetched_epoch, log_start_offset=b_log_start_offset, partition_max_bytes=b_partition_max_bytes))
        if buffer[position]:
            position = skip_tagged_fields(buffer, position)
        else:
            position += 1
        message_topics.append(FetchTopic(topic_id=a_topic_id, partitions=a_partitions))
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("forgotten_topics_data")
    message_forgotten_topics_data: list[ForgottenTopic]
    if size * 18 > length - position:
        count_refused("forgotten_topics_data", size, length - position)
    message_forgotten_topics_data = []
    for _ in range(size):
        c_topic_id, = _U.unpack_from(buffer, position)
        position += 16
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("partitions")
        c_partitions: list[int]
        if size * 4 > length - position:
            count_refused("partitions", size, length - position)
        c_partitions = []
        for _ in range(size):
            element_d, = _i.unpack_from(buffer, position)
            position += 4
            c_partitions.append(element_d)
        if buffer[position]:
            position = skip_tagged_fields(buffer, position)
        else:
            position += 1
        message_forgotten_topics_data.append(ForgottenTopic(topic_id=c_topic_id, partitions=c_partitions))
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("rack_id")
    if size > length - position:
        truncated("rack_id", size, length - position)
    message_rack_id = str(buffer[position : position + size], "utf-8")
    position += size
    message_cluster_id: str | None = None
    tags_message, position = read_varint(buffer, position)
    for _ in range(tags_message):
        tag_message, position = read_varint(buffer, position)
        if tag_message == 0:
            end_message = skip_tag(buffer, position)
            _, position = read_varint(buffer, position)
            size, position = read_varint(buffer, position)
            size -= 1
            if size < 0:
                message_cluster_id = None
            else:
                if size > length - position:
                    truncated("cluster_id", size, length - position)
                message_cluster_id = str(buffer[position : position + size], "utf-8")
                position += size
            if position != end_message:
                raise MalformedMessage("cluster_id does not fill its tagged field")
        else:
            position = skip_tag(buffer, position)
    assert position <= length
    return FetchRequest(replica_id=message_replica_id, max_wait_ms=message_max_wait_ms, min_bytes=message_min_bytes, max_bytes=message_max_bytes, isolation_level=message_isolation_level, session_id=message_session_id, session_epoch=message_session_epoch, topics=message_topics, forgotten_topics_data=message_forgotten_topics_data, rack_id=message_rack_id, cluster_id=message_cluster_id), position


def _encode_request_v15(message: FetchRequest) -> Chunks:
    chunks: Chunks = []
    out = bytearray()
    out += _iiibii.pack(message.max_wait_ms, message.min_bytes, message.max_bytes, message.isolation_level, message.session_id, message.session_epoch)
    value_a = message.topics
    write_varint(out, len(value_a) + 1)
    for a in value_a:
        out += _U.pack(a.topic_id)
        value_b = a.partitions
        write_varint(out, len(value_b) + 1)
        for b in value_b:
            out += _iiqiqi.pack(b.partition, b.current_leader_epoch, b.fetch_offset, b.last_fetched_epoch, b.log_start_offset, b.partition_max_bytes)
            out.append(0)
        out.append(0)
    value_c = message.forgotten_topics_data
    write_varint(out, len(value_c) + 1)
    for c in value_c:
        out += _U.pack(c.topic_id)
        value_d = c.partitions
        write_varint(out, len(value_d) + 1)
        for d in value_d:
            out += _i.pack(d)
        out.append(0)
    value_e = message.rack_id
    text_e = value_e.encode()
    write_varint(out, len(text_e) + 1)
    out += text_e
    tags_f: list[tuple[int, bytearray]] = []
    if message.cluster_id != None:
        part_f = bytearray()
        value_g = message.cluster_id
        if value_g is None:
            part_f.append(0)
        else:
            text_g = value_g.encode()
            write_varint(part_f, len(text_g) + 1)
            part_f += text_g
        tags_f.append((0, part_f))
    if message.replica_state != ReplicaState():
        part_f = bytearray()
        part_f += _iq.pack(message.replica_state.replica_id, message.replica_state.replica_epoch)
        part_f.append(0)
        tags_f.append((1, part_f))
    write_varint(out, len(tags_f))
    for tag_f, content_f in tags_f:
        write_varint(out, tag_f)
        write_varint(out, len(content_f))
        out += content_f
    chunks.append(out)
    return chunks


def _decode_request_v15(buffer: memoryview, position: int) -> tuple[FetchRequest, int]:
    length = len(buffer)
    message_max_wait_ms, message_min_bytes, message_max_bytes, message_isolation_level, message_session_id, message_session_epoch = _iiibii.unpack_from(buffer, position)
    position += 21
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("topics")
    message_topics: list[FetchTopic]
    if size * 18 > length - position:
        count_refused("topics", size, length - position)
    message_topics = []
    for _ in range(size):
        a_topic_id, = _U.unpack_from(buffer, position)
        position += 16
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("partitions")
        a_partitions: list[FetchPartition]
        if size * 33 > length - position:
            count_refused("partitions", size, length - position)
        a_partitions = []
        for _ in range(size):
            b_partition, b_current_leader_epoch, b_fetch_offset, b_last_fetched_epoch, b_log_start_offset, b_partition_max_bytes = _iiqiqi.unpack_from(buffer, position)
            position += 32
            if buffer[position]:
                position = skip_tagged_fields(buffer, position)
            else:
                position += 1
            a_partitions.append(FetchPartition(partition=b_partition, current_leader_epoch=b_current_leader_epoch, fetch_offset=b_fetch_offset, last_fetched_epoch=b_last_fetched_epoch, log_start_offset=b_log_start_offset, partition_max_bytes=b_partition_max_bytes))
        if buffer[position]:
            position = skip_tagged_fields(buffer, position)
        else:
            position += 1
        message_topics.append(FetchTopic(topic_id=a_topic_id, partitions=a_partitions))
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("forgotten_topics_data")
    message_forgotten_topics_data: list[ForgottenTopic]
    if size * 18 > length - position:
        count_refused("forgotten_topics_data", size, length - position)
    message_forgotten_topics_data = []
    for _ in range(size):
        c_topic_id, = _U.unpack_from(buffer, position)
        position += 16
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("partitions")
        c_partitions: list[int]
        if size * 4 > length - position:
            count_refused("partitions", size, length - position)
        c_partitions = []
        for _ in range(size):
            element_d, = _i.unpack_from(buffer, position)
            position += 4
            c_partitions.append(element_d)
        if buffer[position]:
            position = skip_tagged_fields(buffer, position)
        else:
            position += 1
        message_forgotten_topics_data.append(ForgottenTopic(topic_id=c_topic_id, partitions=c_partitions))
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("rack_id")
    if size > length - position:
        truncated("rack_id", size, length - position)
    message_rack_id = str(buffer[position : position + size], "utf-8")
    position += size
    message_cluster_id: str | None = None
    message_replica_state: ReplicaState = ReplicaState()
    tags_message, position = read_varint(buffer, position)
    for _ in range(tags_message):
        tag_message, position = read_varint(buffer, position)
        if tag_message == 0:
            end_message = skip_tag(buffer, position)
            _, position = read_varint(buffer, position)
            size, position = read_varint(buffer, position)
            size -= 1
            if size < 0:
                message_cluster_id = None
            else:
                if size > length - position:
                    truncated("cluster_id", size, length - position)
                message_cluster_id = str(buffer[position : position + size], "utf-8")
                position += size
            if position != end_message:
                raise MalformedMessage("cluster_id does not fill its tagged field")
        elif tag_message == 1:
            end_message = skip_tag(buffer, position)
            _, position = read_varint(buffer, position)
            e_replica_id, e_replica_epoch = _iq.unpack_from(buffer, position)
            position += 12
            if buffer[position]:
                position = skip_tagged_fields(buffer, position)
            else:
                position += 1
            message_replica_state = ReplicaState(replica_id=e_replica_id, replica_epoch=e_replica_epoch)
            if position != end_message:
                raise MalformedMessage("replica_state does not fill its tagged field")
        else:
            position = skip_tag(buffer, position)
    assert position <= length
    return FetchRequest(max_wait_ms=message_max_wait_ms, min_bytes=message_min_bytes, max_bytes=message_max_bytes, isolation_level=message_isolation_level, session_id=message_session_id, session_epoch=message_session_epoch, topics=message_topics, forgotten_topics_data=message_forgotten_topics_data, rack_id=message_rack_id, cluster_id=message_cluster_id, replica_state=message_replica_state), position


def _encode_request_v17(message: FetchRequest) -> Chunks:
    chunks: Chunks = []
    out = bytearray()
    out += _iiibii.pack(message.max_wait_ms, message.min_bytes, message.max_bytes, message.isolation_level, message.session_id, message.session_epoch)
    value_a = message.topics
    write_varint(out, len(value_a) + 1)
    for a in value_a:
        out += _U.pack(a.topic_id)
        value_b = a.partitions
        write_varint(out, len(value_b) + 1)
        for b in value_b:
            out += _iiqiqi.pack(b.partition, b.current_leader_epoch, b.fetch_offset, b.last_fetched_epoch, b.log_start_offset, b.partition_max_bytes)
            tags_c: list[tuple[int, bytearray]] = []
            if b.replica_directory_id != ZERO_UUID:
                part_c = bytearray()
                part_c += _U.pack(b.replica_directory_id)
                tags_c.append((0, part_c))
            write_varint(out, len(tags_c))
            for tag_c, content_c in tags_c:
                write_varint(out, tag_c)
                write_varint(out, len(content_c))
                out += content_c
        out.append(0)
    value_d = message.forgotten_topics_data
    write_varint(out, len(value_d) + 1)
    for d in value_d:
        out += _U.pack(d.topic_id)
        value_e = d.partitions
        write_varint(out, len(value_e) + 1)
        for e in value_e:
            out += _i.pack(e)
        out.append(0)
    value_f = message.rack_id
    text_f = value_f.encode()
    write_varint(out, len(text_f) + 1)
    out += text_f
    tags_g: list[tuple[int, bytearray]] = []
    if message.cluster_id != None:
        part_g = bytearray()
        value_h = message.cluster_id
        if value_h is None:
            part_g.append(0)
        else:
            text_h = value_h.encode()
            write_varint(part_g, len(text_h) + 1)
            part_g += text_h
        tags_g.append((0, part_g))
    if message.replica_state != ReplicaState():
        part_g = bytearray()
        part_g += _iq.pack(message.replica_state.replica_id, message.replica_state.replica_epoch)
        part_g.append(0)
        tags_g.append((1, part_g))
    write_varint(out, len(tags_g))
    for tag_g, content_g in tags_g:
        write_varint(out, tag_g)
        write_varint(out, len(content_g))
        out += content_g
    chunks.append(out)
    return chunks


def _decode_request_v17(buffer: memoryview, position: int) -> tuple[FetchRequest, int]:
    length = len(buffer)
    message_max_wait_ms, message_min_bytes, message_max_bytes, message_isolation_level, message_session_id, message_session_epoch = _iiibii.unpack_from(buffer, position)
    position += 21
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("topics")
    message_topics: list[FetchTopic]
    if size * 18 > length - position:
        count_refused("topics", size, length - position)
    message_topics = []
    for _ in range(size):
        a_topic_id, = _U.unpack_from(buffer, position)
        position += 16
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("partitions")
        a_partitions: list[FetchPartition]
        if size * 33 > length - position:
            count_refused("partitions", size, length - position)
        a_partitions = []
        for _ in range(size):
            b_partition, b_current_leader_epoch, b_fetch_offset, b_last_fetched_epoch, b_log_start_offset, b_partition_max_bytes = _iiqiqi.unpack_from(buffer, position)
            position += 32
            b_replica_directory_id: bytes = ZERO_UUID
            tags_b, position = read_varint(buffer, position)
            for _ in range(tags_b):
                tag_b, position = read_varint(buffer, position)
                if tag_b == 0:
                    end_b = skip_tag(buffer, position)
                    _, position = read_varint(buffer, position)
                    b_replica_directory_id, = _U.unpack_from(buffer, position)
                    position += 16
                    if position != end_b:
                        raise MalformedMessage("replica_directory_id does not fill its tagged field")
                else:
                    position = skip_tag(buffer, position)
            a_partitions.append(FetchPartition(partition=b_partition, current_leader_epoch=b_current_leader_epoch, fetch_offset=b_fetch_offset, last_fetched_epoch=b_last_fetched_epoch, log_start_offset=b_log_start_offset, partition_max_bytes=b_partition_max_bytes, replica_directory_id=b_replica_directory_id))
        if buffer[position]:
            position = skip_tagged_fields(buffer, position)
        else:
            position += 1
        message_topics.append(FetchTopic(topic_id=a_topic_id, partitions=a_partitions))
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("forgotten_topics_data")
    message_forgotten_topics_data: list[ForgottenTopic]
    if size * 18 > length - position:
        count_refused("forgotten_topics_data", size, length - position)
    message_forgotten_topics_data = []
    for _ in range(size):
        c_topic_id, = _U.unpack_from(buffer, position)
        position += 16
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("partitions")
        c_partitions: list[int]
        if size * 4 > length - position:
            count_refused("partitions", size, length - position)
        c_partitions = []
        for _ in range(size):
            element_d, = _i.unpack_from(buffer, position)
            position += 4
            c_partitions.append(element_d)
        if buffer[position]:
            position = skip_tagged_fields(buffer, position)
        else:
            position += 1
        message_forgotten_topics_data.append(ForgottenTopic(topic_id=c_topic_id, partitions=c_partitions))
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("rack_id")
    if size > length - position:
        truncated("rack_id", size, length - position)
    message_rack_id = str(buffer[position : position + size], "utf-8")
    position += size
    message_cluster_id: str | None = None
    message_replica_state: ReplicaState = ReplicaState()
    tags_message, position = read_varint(buffer, position)
    for _ in range(tags_message):
        tag_message, position = read_varint(buffer, position)
        if tag_message == 0:
            end_message = skip_tag(buffer, position)
            _, position = read_varint(buffer, position)
            size, position = read_varint(buffer, position)
            size -= 1
            if size < 0:
                message_cluster_id = None
            else:
                if size > length - position:
                    truncated("cluster_id", size, length - position)
                message_cluster_id = str(buffer[position : position + size], "utf-8")
                position += size
            if position != end_message:
                raise MalformedMessage("cluster_id does not fill its tagged field")
        elif tag_message == 1:
            end_message = skip_tag(buffer, position)
            _, position = read_varint(buffer, position)
            e_replica_id, e_replica_epoch = _iq.unpack_from(buffer, position)
            position += 12
            if buffer[position]:
                position = skip_tagged_fields(buffer, position)
            else:
                position += 1
            message_replica_state = ReplicaState(replica_id=e_replica_id, replica_epoch=e_replica_epoch)
            if position != end_message:
                raise MalformedMessage("replica_state does not fill its tagged field")
        else:
            position = skip_tag(buffer, position)
    assert position <= length
    return FetchRequest(max_wait_ms=message_max_wait_ms, min_bytes=message_min_bytes, max_bytes=message_max_bytes, isolation_level=message_isolation_level, session_id=message_session_id, session_epoch=message_session_epoch, topics=message_topics, forgotten_topics_data=message_forgotten_topics_data, rack_id=message_rack_id, cluster_id=message_cluster_id, replica_state=message_replica_state), position


def _encode_request_v18(message: FetchRequest) -> Chunks:
    chunks: Chunks = []
    out = bytearray()
    out += _iiibii.pack(message.max_wait_ms, message.min_bytes, message.max_bytes, message.isolation_level, message.session_id, message.session_epoch)
    value_a = message.topics
    write_varint(out, len(value_a) + 1)
    for a in value_a:
        out += _U.pack(a.topic_id)
        value_b = a.partitions
        write_varint(out, len(value_b) + 1)
        for b in value_b:
            out += _iiqiqi.pack(b.partition, b.current_leader_epoch, b.fetch_offset, b.last_fetched_epoch, b.log_start_offset, b.partition_max_bytes)
            tags_c: list[tuple[int, bytearray]] = []
            if b.replica_directory_id != ZERO_UUID:
                part_c = bytearray()
                part_c += _U.pack(b.replica_directory_id)
                tags_c.append((0, part_c))
            if b.high_watermark != 9223372036854775807:
                part_c = bytearray()
                part_c += _q.pack(b.high_watermark)
                tags_c.append((1, part_c))
            write_varint(out, len(tags_c))
            for tag_c, content_c in tags_c:
                write_varint(out, tag_c)
                write_varint(out, len(content_c))
                out += content_c
        out.append(0)
    value_d = message.forgotten_topics_data
    write_varint(out, len(value_d) + 1)
    for d in value_d:
        out += _U.pack(d.topic_id)
        value_e = d.partitions
        write_varint(out, len(value_e) + 1)
        for e in value_e:
            out += _i.pack(e)
        out.append(0)
    value_f = message.rack_id
    text_f = value_f.encode()
    write_varint(out, len(text_f) + 1)
    out += text_f
    tags_g: list[tuple[int, bytearray]] = []
    if message.cluster_id != None:
        part_g = bytearray()
        value_h = message.cluster_id
        if value_h is None:
            part_g.append(0)
        else:
            text_h = value_h.encode()
            write_varint(part_g, len(text_h) + 1)
            part_g += text_h
        tags_g.append((0, part_g))
    if message.replica_state != ReplicaState():
        part_g = bytearray()
        part_g += _iq.pack(message.replica_state.replica_id, message.replica_state.replica_epoch)
        part_g.append(0)
        tags_g.append((1, part_g))
    write_varint(out, len(tags_g))
    for tag_g, content_g in tags_g:
        write_varint(out, tag_g)
        write_varint(out, len(content_g))
        out += content_g
    chunks.append(out)
    return chunks


def _decode_request_v18(buffer: memoryview, position: int) -> tuple[FetchRequest, int]:
    length = len(buffer)
    message_max_wait_ms, message_min_bytes, message_max_bytes, message_isolation_level, message_session_id, message_session_epoch = _iiibii.unpack_from(buffer, position)
    position += 21
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("topics")
    message_topics: list[FetchTopic]
    if size * 18 > length - position:
        count_refused("topics", size, length - position)
    message_topics = []
    for _ in range(size):
        a_topic_id, = _U.unpack_from(buffer, position)
        position += 16
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("partitions")
        a_partitions: list[FetchPartition]
        if size * 33 > length - position:
            count_refused("partitions", size, length - position)
        a_partitions = []
        for _ in range(size):
            b_partition, b_current_leader_epoch, b_fetch_offset, b_last_fetched_epoch, b_log_start_offset, b_partition_max_bytes = _iiqiqi.unpack_from(buffer, position)
            position += 32
            b_replica_directory_id: bytes = ZERO_UUID
            b_high_watermark: int = 9223372036854775807
            tags_b, position = read_varint(buffer, position)
            for _ in range(tags_b):
                tag_b, position = read_varint(buffer, position)
                if tag_b == 0:
                    end_b = skip_tag(buffer, position)
                    _, position = read_varint(buffer, position)
                    b_replica_directory_id, = _U.unpack_from(buffer, position)
                    position += 16
                    if position != end_b:
                        raise MalformedMessage("replica_directory_id does not fill its tagged field")
                elif tag_b == 1:
                    end_b = skip_tag(buffer, position)
                    _, position = read_varint(buffer, position)
                    b_high_watermark, = _q.unpack_from(buffer, position)
                    position += 8
                    if position != end_b:
                        raise MalformedMessage("high_watermark does not fill its tagged field")
                else:
                    position = skip_tag(buffer, position)
            a_partitions.append(FetchPartition(partition=b_partition, current_leader_epoch=b_current_leader_epoch, fetch_offset=b_fetch_offset, last_fetched_epoch=b_last_fetched_epoch, log_start_offset=b_log_start_offset, partition_max_bytes=b_partition_max_bytes, replica_directory_id=b_replica_directory_id, high_watermark=b_high_watermark))
        if buffer[position]:
            position = skip_tagged_fields(buffer, position)
        else:
            position += 1
        message_topics.append(FetchTopic(topic_id=a_topic_id, partitions=a_partitions))
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("forgotten_topics_data")
    message_forgotten_topics_data: list[ForgottenTopic]
    if size * 18 > length - position:
        count_refused("forgotten_topics_data", size, length - position)
    message_forgotten_topics_data = []
    for _ in range(size):
        c_topic_id, = _U.unpack_from(buffer, position)
        position += 16
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("partitions")
        c_partitions: list[int]
        if size * 4 > length - position:
            count_refused("partitions", size, length - position)
        c_partitions = []
        for _ in range(size):
            element_d, = _i.unpack_from(buffer, position)
            position += 4
            c_partitions.append(element_d)
        if buffer[position]:
            position = skip_tagged_fields(buffer, position)
        else:
            position += 1
        message_forgotten_topics_data.append(ForgottenTopic(topic_id=c_topic_id, partitions=c_partitions))
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("rack_id")
    if size > length - position:
        truncated("rack_id", size, length - position)
    message_rack_id = str(buffer[position : position + size], "utf-8")
    position += size
    message_cluster_id: str | None = None
    message_replica_state: ReplicaState = ReplicaState()
    tags_message, position = read_varint(buffer, position)
    for _ in range(tags_message):
        tag_message, position = read_varint(buffer, position)
        if tag_message == 0:
            end_message = skip_tag(buffer, position)
            _, position = read_varint(buffer, position)
            size, position = read_varint(buffer, position)
            size -= 1
            if size < 0:
                message_cluster_id = None
            else:
                if size > length - position:
                    truncated("cluster_id", size, length - position)
                message_cluster_id = str(buffer[position : position + size], "utf-8")
                position += size
            if position != end_message:
                raise MalformedMessage("cluster_id does not fill its tagged field")
        elif tag_message == 1:
            end_message = skip_tag(buffer, position)
            _, position = read_varint(buffer, position)
            e_replica_id, e_replica_epoch = _iq.unpack_from(buffer, position)
            position += 12
            if buffer[position]:
                position = skip_tagged_fields(buffer, position)
            else:
                position += 1
            message_replica_state = ReplicaState(replica_id=e_replica_id, replica_epoch=e_replica_epoch)
            if position != end_message:
                raise MalformedMessage("replica_state does not fill its tagged field")
        else:
            position = skip_tag(buffer, position)
    assert position <= length
    return FetchRequest(max_wait_ms=message_max_wait_ms, min_bytes=message_min_bytes, max_bytes=message_max_bytes, isolation_level=message_isolation_level, session_id=message_session_id, session_epoch=message_session_epoch, topics=message_topics, forgotten_topics_data=message_forgotten_topics_data, rack_id=message_rack_id, cluster_id=message_cluster_id, replica_state=message_replica_state), position


_ENCODE_REQUEST: Final = {12: _encode_request_v12, 13: _encode_request_v13, 14: _encode_request_v13, 15: _encode_request_v15, 16: _encode_request_v15, 17: _encode_request_v17, 18: _encode_request_v18}


_DECODE_REQUEST: Final = {12: _decode_request_v12, 13: _decode_request_v13, 14: _decode_request_v13, 15: _decode_request_v15, 16: _decode_request_v15, 17: _decode_request_v17, 18: _decode_request_v18}


def encode_request(message: FetchRequest, version: int) -> Chunks:
    """The body in pieces, in order."""
    return _ENCODE_REQUEST[version](message)


def decode_request(buffer: memoryview, position: int, version: int) -> FetchRequest:
    """The message that fills `buffer` from `position`; MalformedMessage says why not."""
    try:
        message, end = _DECODE_REQUEST[version](buffer, position)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"FetchRequest v{version}: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"FetchRequest v{version}: {len(buffer) - end} bytes too many")
    return message


def _encode_response_v12(message: FetchResponse) -> Chunks:
    chunks: Chunks = []
    out = bytearray()
    out += _ihi.pack(message.throttle_time_ms, message.error_code, message.session_id)
    value_a = message.responses
    write_varint(out, len(value_a) + 1)
    for a in value_a:
        value_b = a.topic
        text_b = value_b.encode()
        write_varint(out, len(text_b) + 1)
        out += text_b
        value_c = a.partitions
        write_varint(out, len(value_c) + 1)
        for c in value_c:
            out += _ihqqq.pack(c.partition_index, c.error_code, c.high_watermark, c.last_stable_offset, c.log_start_offset)
            value_d = c.aborted_transactions
            if value_d is None:
                out.append(0)
            else:
                write_varint(out, len(value_d) + 1)
                for d in value_d:
                    out += _qq.pack(d.producer_id, d.first_offset)
                    out.append(0)
            out += _i.pack(c.preferred_read_replica)
            value_e = c.records
            if value_e is None:
                out.append(0)
            else:
                write_varint(out, len(value_e) + 1)
                if len(value_e) <= INLINE_RECORDS_MAX:
                    out += value_e
                else:
                    chunks.append(out)
                    chunks.append(value_e)
                    out = bytearray()
            tags_f: list[tuple[int, bytearray]] = []
            if c.diverging_epoch != EpochEndOffset():
                part_f = bytearray()
                part_f += _iq.pack(c.diverging_epoch.epoch, c.diverging_epoch.end_offset)
                part_f.append(0)
                tags_f.append((0, part_f))
            if c.current_leader != LeaderIdAndEpoch():
                part_f = bytearray()
                part_f += _ii.pack(c.current_leader.leader_id, c.current_leader.leader_epoch)
                part_f.append(0)
                tags_f.append((1, part_f))
            if c.snapshot_id != SnapshotId():
                part_f = bytearray()
                part_f += _qi.pack(c.snapshot_id.end_offset, c.snapshot_id.epoch)
                part_f.append(0)
                tags_f.append((2, part_f))
            write_varint(out, len(tags_f))
            for tag_f, content_f in tags_f:
                write_varint(out, tag_f)
                write_varint(out, len(content_f))
                out += content_f
        out.append(0)
    out.append(0)
    chunks.append(out)
    return chunks


def _decode_response_v12(buffer: memoryview, position: int) -> tuple[FetchResponse, int]:
    length = len(buffer)
    message_throttle_time_ms, message_error_code, message_session_id = _ihi.unpack_from(buffer, position)
    position += 10
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("responses")
    message_responses: list[FetchableTopicResponse]
    if size * 3 > length - position:
        count_refused("responses", size, length - position)
    message_responses = []
    for _ in range(size):
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("topic")
        if size > length - position:
            truncated("topic", size, length - position)
        a_topic = str(buffer[position : position + size], "utf-8")
        position += size
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("partitions")
        a_partitions: list[PartitionData]
        if size * 37 > length - position:
            count_refused("partitions", size, length - position)
        a_partitions = []
        for _ in range(size):
            b_partition_index, b_error_code, b_high_watermark, b_last_stable_offset, b_log_start_offset = _ihqqq.unpack_from(buffer, position)
            position += 30
            size, position = read_varint(buffer, position)
            size -= 1
            b_aborted_transactions: list[AbortedTransaction] | None
            if size < 0:
                b_aborted_transactions = None
            else:
                if size * 17 > length - position:
                    count_refused("aborted_transactions", size, length - position)
                b_aborted_transactions = []
                for _ in range(size):
                    c_producer_id, c_first_offset = _qq.unpack_from(buffer, position)
                    position += 16
                    if buffer[position]:
                        position = skip_tagged_fields(buffer, position)
                    else:
                        position += 1
                    b_aborted_transactions.append(AbortedTransaction(producer_id=c_producer_id, first_offset=c_first_offset))
            b_preferred_read_replica, = _i.unpack_from(buffer, position)
            position += 4
            size, position = read_varint(buffer, position)
            size -= 1
            if size < 0:
                b_records: bytes | None = None
            else:
                if size > length - position:
                    truncated("records", size, length - position)
                b_records = bytes(buffer[position : position + size])
                position += size
            b_diverging_epoch: EpochEndOffset = EpochEndOffset()
            b_current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch()
            b_snapshot_id: SnapshotId = SnapshotId()
            tags_b, position = read_varint(buffer, position)
            for _ in range(tags_b):
                tag_b, position = read_varint(buffer, position)
                if tag_b == 0:
                    end_b = skip_tag(buffer, position)
                    _, position = read_varint(buffer, position)
                    d_epoch, d_end_offset = _iq.unpack_from(buffer, position)
                    position += 12
                    if buffer[position]:
                        position = skip_tagged_fields(buffer, position)
                    else:
                        position += 1
                    b_diverging_epoch = EpochEndOffset(epoch=d_epoch, end_offset=d_end_offset)
                    if position != end_b:
                        raise MalformedMessage("diverging_epoch does not fill its tagged field")
                elif tag_b == 1:
                    end_b = skip_tag(buffer, position)
                    _, position = read_varint(buffer, position)
                    e_leader_id, e_leader_epoch = _ii.unpack_from(buffer, position)
                    position += 8
                    if buffer[position]:
                        position = skip_tagged_fields(buffer, position)
                    else:
                        position += 1
                    b_current_leader = LeaderIdAndEpoch(leader_id=e_leader_id, leader_epoch=e_leader_epoch)
                    if position != end_b:
                        raise MalformedMessage("current_leader does not fill its tagged field")
                elif tag_b == 2:
                    end_b = skip_tag(buffer, position)
                    _, position = read_varint(buffer, position)
                    f_end_offset, f_epoch = _qi.unpack_from(buffer, position)
                    position += 12
                    if buffer[position]:
                        position = skip_tagged_fields(buffer, position)
                    else:
                        position += 1
                    b_snapshot_id = SnapshotId(end_offset=f_end_offset, epoch=f_epoch)
                    if position != end_b:
                        raise MalformedMessage("snapshot_id does not fill its tagged field")
                else:
                    position = skip_tag(buffer, position)
            a_partitions.append(PartitionData(partition_index=b_partition_index, error_code=b_error_code, high_watermark=b_high_watermark, last_stable_offset=b_last_stable_offset, log_start_offset=b_log_start_offset, aborted_transactions=b_aborted_transactions, preferred_read_replica=b_preferred_read_replica, records=b_records, diverging_epoch=b_diverging_epoch, current_leader=b_current_leader, snapshot_id=b_snapshot_id))
        if buffer[position]:
            position = skip_tagged_fields(buffer, position)
        else:
            position += 1
        message_responses.append(FetchableTopicResponse(topic=a_topic, partitions=a_partitions))
    if buffer[position]:
        position = skip_tagged_fields(buffer, position)
    else:
        position += 1
    assert position <= length
    return FetchResponse(throttle_time_ms=message_throttle_time_ms, error_code=message_error_code, session_id=message_session_id, responses=message_responses), position


def _encode_response_v13(message: FetchResponse) -> Chunks:
    chunks: Chunks = []
    out = bytearray()
    out += _ihi.pack(message.throttle_time_ms, message.error_code, message.session_id)
    value_a = message.responses
    write_varint(out, len(value_a) + 1)
    for a in value_a:
        out += _U.pack(a.topic_id)
        value_b = a.partitions
        write_varint(out, len(value_b) + 1)
        for b in value_b:
            out += _ihqqq.pack(b.partition_index, b.error_code, b.high_watermark, b.last_stable_offset, b.log_start_offset)
            value_c = b.aborted_transactions
            if value_c is None:
                out.append(0)
            else:
                write_varint(out, len(value_c) + 1)
                for c in value_c:
                    out += _qq.pack(c.producer_id, c.first_offset)
                    out.append(0)
            out += _i.pack(b.preferred_read_replica)
            value_d = b.records
            if value_d is None:
                out.append(0)
            else:
                write_varint(out, len(value_d) + 1)
                if len(value_d) <= INLINE_RECORDS_MAX:
                    out += value_d
                else:
                    chunks.append(out)
                    chunks.append(value_d)
                    out = bytearray()
            tags_e: list[tuple[int, bytearray]] = []
            if b.diverging_epoch != EpochEndOffset():
                part_e = bytearray()
                part_e += _iq.pack(b.diverging_epoch.epoch, b.diverging_epoch.end_offset)
                part_e.append(0)
                tags_e.append((0, part_e))
            if b.current_leader != LeaderIdAndEpoch():
                part_e = bytearray()
                part_e += _ii.pack(b.current_leader.leader_id, b.current_leader.leader_epoch)
                part_e.append(0)
                tags_e.append((1, part_e))
            if b.snapshot_id != SnapshotId():
                part_e = bytearray()
                part_e += _qi.pack(b.snapshot_id.end_offset, b.snapshot_id.epoch)
                part_e.append(0)
                tags_e.append((2, part_e))
            write_varint(out, len(tags_e))
            for tag_e, content_e in tags_e:
                write_varint(out, tag_e)
                write_varint(out, len(content_e))
                out += content_e
        out.append(0)
    out.append(0)
    chunks.append(out)
    return chunks


def _decode_response_v13(buffer: memoryview, position: int) -> tuple[FetchResponse, int]:
    length = len(buffer)
    message_throttle_time_ms, message_error_code, message_session_id = _ihi.unpack_from(buffer, position)
    position += 10
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("responses")
    message_responses: list[FetchableTopicResponse]
    if size * 18 > length - position:
        count_refused("responses", size, length - position)
    message_responses = []
    for _ in range(size):
        a_topic_id, = _U.unpack_from(buffer, position)
        position += 16
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("partitions")
        a_partitions: list[PartitionData]
        if size * 37 > length - position:
            count_refused("partitions", size, length - position)
        a_partitions = []
        for _ in range(size):
            b_partition_index, b_error_code, b_high_watermark, b_last_stable_offset, b_log_start_offset = _ihqqq.unpack_from(buffer, position)
            position += 30
            size, position = read_varint(buffer, position)
            size -= 1
            b_aborted_transactions: list[AbortedTransaction] | None
            if size < 0:
                b_aborted_transactions = None
            else:
                if size * 17 > length - position:
                    count_refused("aborted_transactions", size, length - position)
                b_aborted_transactions = []
                for _ in range(size):
                    c_producer_id, c_first_offset = _qq.unpack_from(buffer, position)
                    position += 16
                    if buffer[position]:
                        position = skip_tagged_fields(buffer, position)
                    else:
                        position += 1
                    b_aborted_transactions.append(AbortedTransaction(producer_id=c_producer_id, first_offset=c_first_offset))
            b_preferred_read_replica, = _i.unpack_from(buffer, position)
            position += 4
            size, position = read_varint(buffer, position)
            size -= 1
            if size < 0:
                b_records: bytes | None = None
            else:
                if size > length - position:
                    truncated("records", size, length - position)
                b_records = bytes(buffer[position : position + size])
                position += size
            b_diverging_epoch: EpochEndOffset = EpochEndOffset()
            b_current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch()
            b_snapshot_id: SnapshotId = SnapshotId()
            tags_b, position = read_varint(buffer, position)
            for _ in range(tags_b):
                tag_b, position = read_varint(buffer, position)
                if tag_b == 0:
                    end_b = skip_tag(buffer, position)
                    _, position = read_varint(buffer, position)
                    d_epoch, d_end_offset = _iq.unpack_from(buffer, position)
                    position += 12
                    if buffer[position]:
                        position = skip_tagged_fields(buffer, position)
                    else:
                        position += 1
                    b_diverging_epoch = EpochEndOffset(epoch=d_epoch, end_offset=d_end_offset)
                    if position != end_b:
                        raise MalformedMessage("diverging_epoch does not fill its tagged field")
                elif tag_b == 1:
                    end_b = skip_tag(buffer, position)
                    _, position = read_varint(buffer, position)
                    e_leader_id, e_leader_epoch = _ii.unpack_from(buffer, position)
                    position += 8
                    if buffer[position]:
                        position = skip_tagged_fields(buffer, position)
                    else:
                        position += 1
                    b_current_leader = LeaderIdAndEpoch(leader_id=e_leader_id, leader_epoch=e_leader_epoch)
                    if position != end_b:
                        raise MalformedMessage("current_leader does not fill its tagged field")
                elif tag_b == 2:
                    end_b = skip_tag(buffer, position)
                    _, position = read_varint(buffer, position)
                    f_end_offset, f_epoch = _qi.unpack_from(buffer, position)
                    position += 12
                    if buffer[position]:
                        position = skip_tagged_fields(buffer, position)
                    else:
                        position += 1
                    b_snapshot_id = SnapshotId(end_offset=f_end_offset, epoch=f_epoch)
                    if position != end_b:
                        raise MalformedMessage("snapshot_id does not fill its tagged field")
                else:
                    position = skip_tag(buffer, position)
            a_partitions.append(PartitionData(partition_index=b_partition_index, error_code=b_error_code, high_watermark=b_high_watermark, last_stable_offset=b_last_stable_offset, log_start_offset=b_log_start_offset, aborted_transactions=b_aborted_transactions, preferred_read_replica=b_preferred_read_replica, records=b_records, diverging_epoch=b_diverging_epoch, current_leader=b_current_leader, snapshot_id=b_snapshot_id))
        if buffer[position]:
            position = skip_tagged_fields(buffer, position)
        else:
            position += 1
        message_responses.append(FetchableTopicResponse(topic_id=a_topic_id, partitions=a_partitions))
    if buffer[position]:
        position = skip_tagged_fields(buffer, position)
    else:
        position += 1
    assert position <= length
    return FetchResponse(throttle_time_ms=message_throttle_time_ms, error_code=message_error_code, session_id=message_session_id, responses=message_responses), position


def _encode_response_v16(message: FetchResponse) -> Chunks:
    chunks: Chunks = []
    out = bytearray()
    out += _ihi.pack(message.throttle_time_ms, message.error_code, message.session_id)
    value_a = message.responses
    write_varint(out, len(value_a) + 1)
    for a in value_a:
        out += _U.pack(a.topic_id)
        value_b = a.partitions
        write_varint(out, len(value_b) + 1)
        for b in value_b:
            out += _ihqqq.pack(b.partition_index, b.error_code, b.high_watermark, b.last_stable_offset, b.log_start_offset)
            value_c = b.aborted_transactions
            if value_c is None:
                out.append(0)
            else:
                write_varint(out, len(value_c) + 1)
                for c in value_c:
                    out += _qq.pack(c.producer_id, c.first_offset)
                    out.append(0)
            out += _i.pack(b.preferred_read_replica)
            value_d = b.records
            if value_d is None:
                out.append(0)
            else:
                write_varint(out, len(value_d) + 1)
                if len(value_d) <= INLINE_RECORDS_MAX:
                    out += value_d
                else:
                    chunks.append(out)
                    chunks.append(value_d)
                    out = bytearray()
            tags_e: list[tuple[int, bytearray]] = []
            if b.diverging_epoch != EpochEndOffset():
                part_e = bytearray()
                part_e += _iq.pack(b.diverging_epoch.epoch, b.diverging_epoch.end_offset)
                part_e.append(0)
                tags_e.append((0, part_e))
            if b.current_leader != LeaderIdAndEpoch():
                part_e = bytearray()
                part_e += _ii.pack(b.current_leader.leader_id, b.current_leader.leader_epoch)
                part_e.append(0)
                tags_e.append((1, part_e))
            if b.snapshot_id != SnapshotId():
                part_e = bytearray()
                part_e += _qi.pack(b.snapshot_id.end_offset, b.snapshot_id.epoch)
                part_e.append(0)
                tags_e.append((2, part_e))
            write_varint(out, len(tags_e))
            for tag_e, content_e in tags_e:
                write_varint(out, tag_e)
                write_varint(out, len(content_e))
                out += content_e
        out.append(0)
    tags_f: list[tuple[int, bytearray]] = []
    if message.node_endpoints != []:
        part_f = bytearray()
        value_g = message.node_endpoints
        write_varint(part_f, len(value_g) + 1)
        for g in value_g:
            part_f += _i.pack(g.node_id)
            value_h = g.host
            text_h = value_h.encode()
            write_varint(part_f, len(text_h) + 1)
            part_f += text_h
            part_f += _i.pack(g.port)
            value_i = g.rack
            if value_i is None:
                part_f.append(0)
            else:
                text_i = value_i.encode()
                write_varint(part_f, len(text_i) + 1)
                part_f += text_i
            part_f.append(0)
        tags_f.append((0, part_f))
    write_varint(out, len(tags_f))
    for tag_f, content_f in tags_f:
        write_varint(out, tag_f)
        write_varint(out, len(content_f))
        out += content_f
    chunks.append(out)
    return chunks


def _decode_response_v16(buffer: memoryview, position: int) -> tuple[FetchResponse, int]:
    length = len(buffer)
    message_throttle_time_ms, message_error_code, message_session_id = _ihi.unpack_from(buffer, position)
    position += 10
    size, position = read_varint(buffer, position)
    size -= 1
    if size < 0:
        null_refused("responses")
    message_responses: list[FetchableTopicResponse]
    if size * 18 > length - position:
        count_refused("responses", size, length - position)
    message_responses = []
    for _ in range(size):
        a_topic_id, = _U.unpack_from(buffer, position)
        position += 16
        size, position = read_varint(buffer, position)
        size -= 1
        if size < 0:
            null_refused("partitions")
        a_partitions: list[PartitionData]
        if size * 37 > length - position:
            count_refused("partitions", size, length - position)
        a_partitions = []
        for _ in range(size):
            b_partition_index, b_error_code, b_high_watermark, b_last_stable_offset, b_log_start_offset = _ihqqq.unpack_from(buffer, position)
            position += 30
            size, position = read_varint(buffer, position)
            size -= 1
            b_aborted_transactions: list[AbortedTransaction] | None
            if size < 0:
                b_aborted_transactions = None
            else:
                if size * 17 > length - position:
                    count_refused("aborted_transactions", size, length - position)
                b_aborted_transactions = []
                for _ in range(size):
                    c_producer_id, c_first_offset = _qq.unpack_from(buffer, position)
                    position += 16
                    if buffer[position]:
                        position = skip_tagged_fields(buffer, position)
                    else:
                        position += 1
                    b_aborted_transactions.append(AbortedTransaction(producer_id=c_producer_id, first_offset=c_first_offset))
            b_preferred_read_replica, = _i.unpack_from(buffer, position)
            position += 4
            size, position = read_varint(buffer, position)
            size -= 1
            if size < 0:
                b_records: bytes | None = None
            else:
                if size > length - position:
                    truncated("records", size, length - position)
                b_records = bytes(buffer[position : position + size])
                position += size
            b_diverging_epoch: EpochEndOffset = EpochEndOffset()
            b_current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch()
            b_snapshot_id: SnapshotId = SnapshotId()
            tags_b, position = read_varint(buffer, position)
            for _ in range(tags_b):
                tag_b, position = read_varint(buffer, position)
                if tag_b == 0:
                    end_b = skip_tag(buffer, position)
                    _, position = read_varint(buffer, position)
                    d_epoch, d_end_offset = _iq.unpack_from(buffer, position)
                    position += 12
                    if buffer[position]:
                        position = skip_tagged_fields(buffer, position)
                    else:
                        position += 1
                    b_diverging_epoch = EpochEndOffset(epoch=d_epoch, end_offset=d_end_offset)
                    if position != end_b:
                        raise MalformedMessage("diverging_epoch does not fill its tagged field")
                elif tag_b == 1:
                    end_b = skip_tag(buffer, position)
                    _, position = read_varint(buffer, position)
                    e_leader_id, e_leader_epoch = _ii.unpack_from(buffer, position)
                    position += 8
                    if buffer[position]:
                        position = skip_tagged_fields(buffer, position)
                    else:
                        position += 1
                    b_current_leader = LeaderIdAndEpoch(leader_id=e_leader_id, leader_epoch=e_leader_epoch)
                    if position != end_b:
                        raise MalformedMessage("current_leader does not fill its tagged field")
                elif tag_b == 2:
                    end_b = skip_tag(buffer, position)
                    _, position = read_varint(buffer, position)
                    f_end_offset, f_epoch = _qi.unpack_from(buffer, position)
                    position += 12
                    if buffer[position]:
                        position = skip_tagged_fields(buffer, position)
                    else:
                        position += 1
                    b_snapshot_id = SnapshotId(end_offset=f_end_offset, epoch=f_epoch)
                    if position != end_b:
                        raise MalformedMessage("snapshot_id does not fill its tagged field")
                else:
                    position = skip_tag(buffer, position)
            a_partitions.append(PartitionData(partition_index=b_partition_index, error_code=b_error_code, high_watermark=b_high_watermark, last_stable_offset=b_last_stable_offset, log_start_offset=b_log_start_offset, aborted_transactions=b_aborted_transactions, preferred_read_replica=b_preferred_read_replica, records=b_records, diverging_epoch=b_diverging_epoch, current_leader=b_current_leader, snapshot_id=b_snapshot_id))
        if buffer[position]:
            position = skip_tagged_fields(buffer, position)
        else:
            position += 1
        message_responses.append(FetchableTopicResponse(topic_id=a_topic_id, partitions=a_partitions))
    message_node_endpoints: list[NodeEndpoint] = []
    tags_message, position = read_varint(buffer, position)
    for _ in range(tags_message):
        tag_message, position = read_varint(buffer, position)
        if tag_message == 0:
            end_message = skip_tag(buffer, position)
            _, position = read_varint(buffer, position)
            size, position = read_varint(buffer, position)
            size -= 1
            if size < 0:
                null_refused("node_endpoints")
            if size * 11 > length - position:
                count_refused("node_endpoints", size, length - position)
            message_node_endpoints = []
            for _ in range(size):
                g_node_id, = _i.unpack_from(buffer, position)
                position += 4
                size, position = read_varint(buffer, position)
                size -= 1
                if size < 0:
                    null_refused("host")
                if size > length - position:
                    truncated("host", size, length - position)
                g_host = str(buffer[position : position + size], "utf-8")
                position += size
                g_port, = _i.unpack_from(buffer, position)
                position += 4
                size, position = read_varint(buffer, position)
                size -= 1
                if size < 0:
                    g_rack: str | None = None
                else:
                    if size > length - position:
                        truncated("rack", size, length - position)
                    g_rack = str(buffer[position : position + size], "utf-8")
                    position += size
                if buffer[position]:
                    position = skip_tagged_fields(buffer, position)
                else:
                    position += 1
                message_node_endpoints.append(NodeEndpoint(node_id=g_node_id, host=g_host, port=g_port, rack=g_rack))
            if position != end_message:
                raise MalformedMessage("node_endpoints does not fill its tagged field")
        else:
            position = skip_tag(buffer, position)
    assert position <= length
    return FetchResponse(throttle_time_ms=message_throttle_time_ms, error_code=message_error_code, session_id=message_session_id, responses=message_responses, node_endpoints=message_node_endpoints), position


_ENCODE_RESPONSE: Final = {12: _encode_response_v12, 13: _encode_response_v13, 14: _encode_response_v13, 15: _encode_response_v13, 16: _encode_response_v16, 17: _encode_response_v16, 18: _encode_response_v16}


_DECODE_RESPONSE: Final = {12: _decode_response_v12, 13: _decode_response_v13, 14: _decode_response_v13, 15: _decode_response_v13, 16: _decode_response_v16, 17: _decode_response_v16, 18: _decode_response_v16}


def encode_response(message: FetchResponse, version: int) -> Chunks:
    """The body in pieces, in order."""
    return _ENCODE_RESPONSE[version](message)


def decode_response(buffer: memoryview, position: int, version: int) -> FetchResponse:
    """The message that fills `buffer` from `position`; MalformedMessage says why not."""
    try:
        message, end = _DECODE_RESPONSE[version](buffer, position)
    except DECODE_FAULTS as error:
        raise MalformedMessage(f"FetchResponse v{version}: {error}") from None
    if end != len(buffer):
        raise MalformedMessage(f"FetchResponse v{version}: {len(buffer) - end} bytes too many")
    return message
