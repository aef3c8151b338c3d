"""Fetch v18 as pylog's brokers send it, straight between bytes and replication's values.

Replication is many small messages, and most of a message's cost is Python. The usual message
between two pylog brokers (no rack, no cluster id, no aborted transactions, no tags but the three
that a follower's fetch and its answer have) is written and read here in one pass. Any other message
goes the long way, through the generated codec and `translate`, which also words the errors. Both
ways give the same bytes and the same values. A message about one partition, as nearly all are that
carry one small record, is one call of `struct`. `pylog/rpc/plain_answers.py` tells why clients'
answers are written elsewhere.

    request    max wait i32, min bytes i32, max bytes i32, isolation i8, session id i32, epoch i32,
               topics [id 16, partitions [partition i32, epoch i32, offset i64, last epoch i32,
               log start i64, max bytes i32, tags: 1 high watermark i64], no tags],
               forgotten [id 16, partitions [i32], no tags], rack "",
               tags: 1 replica id i32, epoch i64
    response   throttle i32, error i16, session id i32,
               topics [id 16, partitions [partition i32, error i16, high watermark i64,
               stable i64, log start i64, aborted [], preferred i32, records,
               tags: 0 diverging epoch i32 end i64, 1 leader id i32 epoch i32], no tags], no tags
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from struct import error as struct_error
from typing import Final

from pylog.model import BrokerEpoch, BrokerId, LeaderEpoch, Offset, TopicId
from pylog.records.batch import Buffer
from pylog_broker.kafka import translate
from pylog_broker.kafka.generated import fetch
from pylog_broker.kafka.translate import (
    UNTOLD,
    failure_of,
    id_from_bytes,
    id_to_bytes,
)
from pylog_broker.kafka_primitives import (
    INLINE_RECORDS_MAX,
    Chunks,
    MalformedMessage,
    read_varint,
    write_varint,
)
from pylog_broker.replication.fetch_messages import EpochEnd
from pylog_broker.replication.replica_fetch_messages import (
    ReplicaFetch,
    ReplicaFetched,
    ReplicaPartitionData,
    ReplicaPartitionFetch,
)

VERSION: Final = 18

_REQUEST: Final = Struct(">iiibii")
_QUESTION: Final = Struct(">iiqiqi")
_TOLD: Final = Struct(">BBBq")
_REPLICA: Final = Struct(">BBBiqB")
_RESPONSE: Final = Struct(">ihi")
_DATA: Final = Struct(">ihqqqBi")
_DIVERGING: Final = Struct(">BBiqB")
_LEADER: Final = Struct(">BBiiB")
_NUMBER: Final = Struct(">i")
_ID: Final = Struct(">16s")

_ONE_ASKED: Final = Struct(">iiibii B16sB iiqiqi 3sq 6s iqB")
"""A whole request for one partition, which tells its high watermark."""
_ONE_TOLD: Final = Struct(">ihi B16sB ihqqqBi")
"""An answer about one partition up to its records ..."""
_ONE_LEADER: Final = Struct(">3sii3s")
"""... and from there to the end, with the leader told."""

_ONE: Final = 2
"""A compact array of one element."""
_MARK_TOLD: Final = b"\1\1\x08"
_NOTHING_BUT_REPLICA: Final = b"\0\1\1\1\1\x0d"
"""No tags of the topic; nothing forgotten; no rack; one tag, number 1, of 13 bytes."""
_LEADER_TOLD: Final = b"\1\1\x09"
_NO_TAGS: Final = bytes(3)
"""The empty tags of the leader, the topic and the message."""

_TOLD_TAG: Final = (1, 1, 8)
"""One tag; number 1; of 8 bytes."""
_REPLICA_TAG: Final = (1, 1, 13)
_UNUSUAL: Final = (struct_error, IndexError, MalformedMessage)
"""Cut or damaged; the long way says how."""
_EMPTY: Final = 1
"""A compact array or string of length 0."""


def encode_request(request: ReplicaFetch) -> Chunks:
    """The body of a follower's fetch."""
    if len(request.partitions) == 1 and not request.forgotten:
        replica_id, replica_epoch, wait_ms, min_bytes, max_bytes, asked, session, epoch, _ = request
        topic_id, number, leader_epoch, at, last_epoch, start, size, mark = asked[0]
        if mark >= 0:
            return [
                _ONE_ASKED.pack(
                    wait_ms, min_bytes, max_bytes, 0, session, epoch,
                    _ONE, id_to_bytes(topic_id), _ONE,
                    number, leader_epoch, at, last_epoch, start, size,
                    _MARK_TOLD, mark, _NOTHING_BUT_REPLICA, replica_id, replica_epoch, 0,
                )
            ]  # fmt: skip
    out = bytearray(
        _REQUEST.pack(
            request.max_wait_ms,
            request.min_bytes,
            request.max_bytes,
            0,
            request.session_id,
            request.session_epoch,
        )
    )
    topics: dict[TopicId, list[ReplicaPartitionFetch]] = {}
    for item in request.partitions:
        topics.setdefault(item.topic_id, []).append(item)
    write_varint(out, len(topics) + 1)
    for topic_id, items in topics.items():
        out += id_to_bytes(topic_id)
        write_varint(out, len(items) + 1)
        for item in items:
            out += _QUESTION.pack(
                item.partition,
                item.current_leader_epoch,
                item.fetch_offset,
                item.last_fetched_epoch,
                item.log_start_offset,
                item.max_bytes,
            )
            if item.high_watermark >= 0:
                out += _TOLD.pack(*_TOLD_TAG, item.high_watermark)
            else:
                out.append(0)
        out.append(0)
    _encode_forgotten(out, request.forgotten)
    out.append(_EMPTY)
    out += _REPLICA.pack(*_REPLICA_TAG, request.replica_id, request.replica_epoch, 0)
    return [out]


def _encode_forgotten(out: bytearray, forgotten: tuple[tuple[TopicId, int], ...]) -> None:
    topics: dict[TopicId, list[int]] = {}
    for topic_id, number in forgotten:
        topics.setdefault(topic_id, []).append(number)
    write_varint(out, len(topics) + 1)
    for topic_id, numbers in topics.items():
        out += id_to_bytes(topic_id)
        write_varint(out, len(numbers) + 1)
        for number in numbers:
            out += _NUMBER.pack(number)
        out.append(0)


def decode_request(buffer: memoryview, position: int) -> ReplicaFetch:
    """The follower's fetch that fills `buffer` from `position`; MalformedMessage says why not."""
    try:
        usual = None
        if len(buffer) - position == _ONE_ASKED.size:
            usual = _one_asked(buffer, position)
        if usual is None:
            usual = _usual_request(buffer, position)
    except _UNUSUAL:
        usual = None
    if usual is not None:
        return usual
    return translate.fetch_from_wire(fetch.decode_request(buffer, position, VERSION))


def _one_asked(buffer: memoryview, position: int) -> ReplicaFetch | None:
    (
        wait_ms, min_bytes, max_bytes, _, session, epoch, topics, topic_id, count,
        number, leader_epoch, at, last_epoch, start, size,
        tag, mark, rest, replica_id, replica_epoch, end,
    ) = _ONE_ASKED.unpack_from(buffer, position)  # fmt: skip
    if (
        topics != _ONE
        or count != _ONE
        or tag != _MARK_TOLD
        or not 0 <= mark < UNTOLD
        or rest != _NOTHING_BUT_REPLICA
        or end
    ):
        return None
    item = ReplicaPartitionFetch(
        id_from_bytes(topic_id), number, leader_epoch, at, last_epoch, start, size, mark
    )
    return ReplicaFetch(
        replica_id, replica_epoch, wait_ms, min_bytes, max_bytes, (item,), session, epoch
    )


def _usual_request(buffer: memoryview, position: int) -> ReplicaFetch | None:
    wait_ms, min_bytes, max_bytes, _, session_id, epoch = _REQUEST.unpack_from(buffer, position)
    topics, position = read_varint(buffer, position + _REQUEST.size)
    items: list[ReplicaPartitionFetch] = []
    for _ in range(topics - 1):
        (topic_id,) = _ID.unpack_from(buffer, position)
        topic_id = id_from_bytes(topic_id)
        count, position = read_varint(buffer, position + _ID.size)
        for _ in range(count - 1):
            number, leader_epoch, at, last_epoch, start, size = _QUESTION.unpack_from(
                buffer, position
            )
            position += _QUESTION.size
            told = -1
            if buffer[position]:
                *tag, told = _TOLD.unpack_from(buffer, position)
                if (*tag,) != _TOLD_TAG or told < 0:
                    return None
                position += _TOLD.size
                told = -1 if told == UNTOLD else told
            else:
                position += 1
            items.append(
                ReplicaPartitionFetch(
                    topic_id, number, leader_epoch, at, last_epoch, start, size, Offset(told)
                )
            )
        if buffer[position]:
            return None
        position += 1
    if buffer[position] != _EMPTY or buffer[position + 1] != _EMPTY:
        return None  # something is forgotten, or there is a rack
    *tag, replica_id, replica_epoch, end = _REPLICA.unpack_from(buffer, position + 2)
    if (*tag,) != _REPLICA_TAG or end or position + 2 + _REPLICA.size != len(buffer) or not topics:
        return None
    return ReplicaFetch(
        BrokerId(replica_id),
        BrokerEpoch(replica_epoch),
        wait_ms,
        min_bytes,
        max_bytes,
        tuple(items),
        session_id,
        epoch,
    )


def encode_response(fetched: ReplicaFetched) -> Chunks:
    """The body of a leader's answer; large records stay buffers of their own."""
    if len(fetched.partitions) == 1 and fetched.failure is None:
        data = fetched.partitions[0]
        if (
            isinstance(data.records, bytes)
            and len(data.records) <= INLINE_RECORDS_MAX
            and data.failure is None
            and data.diverging is None
            and data.current_leader != -1
        ):
            return [_RESPONSE.pack(0, 0, fetched.session_id), _one_told(data)]
    chunks: Chunks = []
    code = fetched.failure.code if fetched.failure else 0
    out = bytearray(_RESPONSE.pack(0, code, fetched.session_id))
    topics: dict[TopicId, list[ReplicaPartitionData]] = {}
    for item in fetched.partitions:
        topics.setdefault(item.topic_id, []).append(item)
    write_varint(out, len(topics) + 1)
    for topic_id, items in topics.items():
        out += id_to_bytes(topic_id)
        write_varint(out, len(items) + 1)
        for item in items:
            out += _DATA.pack(
                item.partition,
                item.failure.code if item.failure else 0,
                item.high_watermark,
                item.last_stable_offset,
                item.log_start_offset,
                _EMPTY,
                -1,
            )
            records = item.records
            write_varint(out, len(records) + 1)
            if len(records) <= INLINE_RECORDS_MAX:
                out += records
            else:
                chunks += (out, records)
                out = bytearray()
            _encode_tags(out, item)
        out.append(0)
    out.append(0)
    chunks.append(out)
    return chunks


@lru_cache(maxsize=1)
def _one_told(data: ReplicaPartitionData) -> bytes:
    """The bytes behind the session id. Followers at one offset get the same, one by one."""
    records = data.records
    size = bytearray()
    write_varint(size, len(records) + 1)
    head = _ONE_TOLD.pack(
        0, 0, 0, _ONE, id_to_bytes(data.topic_id), _ONE, data.partition, 0,
        data.high_watermark, data.last_stable_offset, data.log_start_offset, _EMPTY, -1,
    )  # fmt: skip
    leader = _ONE_LEADER.pack(
        _LEADER_TOLD, data.current_leader, data.current_leader_epoch, _NO_TAGS
    )
    return b"".join((head[_RESPONSE.size :], size, records, leader))


def _encode_tags(out: bytearray, item: ReplicaPartitionData) -> None:
    diverging = item.diverging
    leader, leader_epoch = item.current_leader, item.current_leader_epoch
    has_leader = leader != -1 or leader_epoch != -1
    out.append(has_leader + (diverging is not None))
    if diverging is not None:
        out += _DIVERGING.pack(0, 13, diverging.epoch, diverging.end_offset, 0)
    if has_leader:
        out += _LEADER.pack(1, 9, leader, leader_epoch, 0)


def decode_response(buffer: memoryview, position: int) -> ReplicaFetched:
    """The leader's answer that fills `buffer` from `position`; MalformedMessage says why not."""
    try:
        usual = _one_answered(buffer, position) or _usual_response(buffer, position)
    except _UNUSUAL:
        usual = None
    if usual is not None:
        return usual
    return translate.fetched_from_wire(fetch.decode_response(buffer, position, VERSION))


def _one_answered(buffer: memoryview, position: int) -> ReplicaFetched | None:
    if len(buffer) - position < _ONE_TOLD.size:
        return None
    (
        _, code, session_id, topics, topic_id, count, number, error,
        mark, stable, start, aborted, preferred,
    ) = _ONE_TOLD.unpack_from(buffer, position)  # fmt: skip
    if topics != _ONE or count != _ONE or code or error or aborted != _EMPTY or preferred != -1:
        return None
    size, position = read_varint(buffer, position + _ONE_TOLD.size)
    end = position + size - 1
    if (
        not 0 < size <= INLINE_RECORDS_MAX + 1  # larger ones are not copied
        or len(buffer) - end != _ONE_LEADER.size
    ):
        return None
    tags, leader, leader_epoch, none = _ONE_LEADER.unpack_from(buffer, end)
    if tags != _LEADER_TOLD or none != _NO_TAGS:
        return None
    data = ReplicaPartitionData(
        id_from_bytes(topic_id), number, None, mark, stable, start, None,
        bytes(buffer[position:end]), leader, leader_epoch,
    )  # fmt: skip
    return ReplicaFetched(None, (data,), session_id)


def _usual_response(buffer: memoryview, position: int) -> ReplicaFetched | None:
    _, code, session_id = _RESPONSE.unpack_from(buffer, position)
    topics, position = read_varint(buffer, position + _RESPONSE.size)
    found: list[ReplicaPartitionData] = []
    for _ in range(topics - 1):
        (topic_id,) = _ID.unpack_from(buffer, position)
        topic_id = id_from_bytes(topic_id)
        count, position = read_varint(buffer, position + _ID.size)
        for _ in range(count - 1):
            number, error, mark, stable, start, aborted, preferred = _DATA.unpack_from(
                buffer, position
            )
            size, position = read_varint(buffer, position + _DATA.size)
            end = position + size - 1
            if aborted != _EMPTY or preferred != -1 or size == 0 or end > len(buffer):
                return None
            records: Buffer = buffer[position:end]
            if 2 * len(records) < len(buffer) or len(records) <= INLINE_RECORDS_MAX:
                # A view would keep the whole frame in memory, and for much longer: these bytes
                # stay in the follower's tail.
                records = bytes(records)
            tags, position = buffer[end], end + 1
            leader = leader_epoch = -1
            diverging: EpochEnd | None = None
            if tags and buffer[position] == 0:
                _, size, epoch, offset, last = _DIVERGING.unpack_from(buffer, position)
                if size != 13 or last or (epoch, offset) == (-1, -1):
                    return None
                diverging = EpochEnd(LeaderEpoch(epoch), Offset(offset))
                position, tags = position + _DIVERGING.size, tags - 1
            if tags:
                tag, size, leader, leader_epoch, last = _LEADER.unpack_from(buffer, position)
                if tags != 1 or tag != 1 or size != 9 or last:
                    return None
                position += _LEADER.size
            found.append(
                ReplicaPartitionData(
                    topic_id,
                    number,
                    failure_of(error) if error else None,
                    mark,
                    stable,
                    start,
                    diverging,
                    records,
                    BrokerId(leader),
                    LeaderEpoch(leader_epoch),
                )
            )
        if buffer[position]:
            return None
        position += 1
    if buffer[position] or position + 1 != len(buffer) or not topics:
        return None
    return ReplicaFetched(failure_of(code) if code else None, tuple(found), session_id)
