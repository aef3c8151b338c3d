"""The answers that nearly all are, to and from bytes without protobuf: one batch that was stored,
or one partition's batches, and nothing else to tell.

The bytes are those of `ProduceResponse` and `FetchResponse` in `log.proto`: any protobuf library
reads them. Reading gives None for every other message, whatever it may be: that is protobuf's.

Three modules write answers to fetches, and stay apart. `fetch_wire` writes any `FetchResponse` by
way of protobuf's objects, which takes 8 to 9 us of CPU for one partition's batches; here it is 4 to
6, and at a thousand small records a second nearly all answers are of this kind. Followers are
answered in Kafka's Fetch (`broker/kafka/follower_fetch.py`): its fields have fixed widths and their
own order, so that a whole answer is one call of `struct` (3 us, and below 1 for the next follower
at the same offset). Of such a writer nothing is in common with these but that the batches
are passed on as they are; a common one would ask of each field in which of two forms it goes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from pylog.model import TopicPartition
from pylog.rpc.varint import SMALL_BYTES, Buffer, Unusual, read_varint, varint

Message = bytes | memoryview

_NAMES_MAX: Final = 4096
_NONE: Final = b"\xff" * 9 + b"\x01"  # -1, as an int32 or int64

# Of PartitionAck: nobody else leads, and no record is to blame.
_NO_FAULT: Final = b"\x38" + _NONE + b"\x40" + _NONE + b"\x48\x01"
_NO_TIME: Final = b"\x28" + _NONE
# Of PartitionData: nobody else leads, and no other replica is better.
_NO_OTHER: Final = b"\x48" + _NONE + b"\x50" + _NONE + b"\x58\x01"
_STANDS: Final = b"\x18\x01"


class Stored(NamedTuple):
    """An acknowledged batch; `log_append_time_ms` is -1 where the records keep their own times."""

    correlation: int
    base_offset: int
    log_append_time_ms: int


class Found(NamedTuple):
    """An answer to a fetch. `stands`: the same request will be answered again."""

    correlation: int
    topic_partition: TopicPartition
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    batches: bytes
    stands: bool


# ---- writing ------------------------------------------------------------------------------------


def encode_stored(
    correlation: int,
    topic_partition: TopicPartition,
    base_offset: int,
    log_append_time_ms: int,
    log_start_offset: int,
) -> bytes:
    """The ProduceResponse; offsets are not negative, and the time is -1 or not."""
    ack = _names(topic_partition)
    if base_offset:
        ack += b"\x20" + varint(base_offset)
    ack += _NO_TIME if log_append_time_ms == -1 else _number(b"\x28", log_append_time_ms)
    if log_start_offset:
        ack += b"\x30" + varint(log_start_offset)
    ack += _NO_FAULT
    head = b"\x08" + varint(correlation) if correlation else b""
    return b"".join((head, b"\x12", varint(len(ack)), ack))


def encode_found(
    correlation: int,
    topic_partition: TopicPartition,
    high_watermark: int,
    last_stable_offset: int,
    log_start_offset: int,
    batches: Buffer,
    stands: bool,
) -> list[Buffer]:
    """The FetchResponse in pieces; no offset is negative. The batches are the same buffer."""
    said = _names(topic_partition)
    if high_watermark:
        said += b"\x20" + varint(high_watermark)
    if last_stable_offset:
        said += b"\x28" + varint(last_stable_offset)
    if log_start_offset:
        said += b"\x30" + varint(log_start_offset)
    said += _NO_OTHER
    size = len(batches)
    if size:
        said += b"\x3a" + varint(size)
    head = b"\x08" + varint(correlation) if correlation else b""
    pieces: list[Buffer] = [b"".join((head, b"\x12", varint(len(said) + size), said))]
    if size:
        pieces.append(batches)
    if stands:
        pieces.append(_STANDS)
    return pieces


@lru_cache(_NAMES_MAX)
def _names(topic_partition: TopicPartition) -> bytes:
    """The first two fields that both have."""
    name, partition = topic_partition[0].encode(), topic_partition[1]
    first = b"\x12" + varint(len(name)) + name if name else b""
    return first + _number(b"\x18", partition)


def _number(tag: bytes, value: int) -> bytes:
    return tag + varint(value & (2**64 - 1)) if value else b""


# ---- reading ------------------------------------------------------------------------------------


def parse_stored(message: Message) -> Stored | None:
    """The answer, if it is one of these as they are written here."""
    size = len(message)
    if size > SMALL_BYTES:
        return None
    try:
        correlation, position = _head(message, size)
        if position < 0:
            return None
        begin, position = position, _end_of_names(message, position)[1]
        _named(bytes(message[begin:position]))
        base_offset = 0
        if message[position] == 0x20:
            base_offset, position = read_varint(message, position + 1)
        time_ms = 0
        if message[position] == 0x28:
            if message[position : position + 11] == _NO_TIME:
                time_ms, position = -1, position + 11
            else:
                time_ms, position = read_varint(message, position + 1)
        if message[position] == 0x30:
            _, position = read_varint(message, position + 1)
    except (IndexError, UnicodeDecodeError, Unusual):
        return None
    if message[position:] != _NO_FAULT or base_offset >= 2**63 or time_ms >= 2**63:
        return None
    return Stored(correlation, base_offset, time_ms)


def parse_found(message: Message) -> Found | None:
    """The answer, if it is one of these as they are written here, and small."""
    size = len(message)
    if size > SMALL_BYTES:
        return None
    try:
        end = size
        stands = message[-2:] == _STANDS
        if stands:
            end -= 2
        correlation, position = _head(message, end)
        if position < 0:
            return None
        begin, position = position, _end_of_names(message, position)[1]
        names = bytes(message[begin:position])
        high_watermark = last_stable_offset = log_start_offset = 0
        if message[position] == 0x20:
            high_watermark, position = read_varint(message, position + 1)
        if message[position] == 0x28:
            last_stable_offset, position = read_varint(message, position + 1)
        if message[position] == 0x30:
            log_start_offset, position = read_varint(message, position + 1)
        begin, position = position, position + len(_NO_OTHER)
        if message[begin:position] != _NO_OTHER:
            return None
        batches = b""
        if position < end:
            if message[position] != 0x3A:
                return None
            length, position = read_varint(message, position + 1)
            if position + length != end:
                return None
            batches = bytes(message[position:end])
        elif position != end:
            return None
        if max(high_watermark, last_stable_offset, log_start_offset) >= 2**63:
            return None
        return Found(
            correlation,
            _named(names),
            high_watermark,
            last_stable_offset,
            log_start_offset,
            batches,
            stands,
        )
    except (IndexError, UnicodeDecodeError, Unusual):
        return None


def _head(message: Message, end: int) -> tuple[int, int]:
    """The correlation, and where the one element begins, which reaches to `end`; there -1 when it
    is something else.
    """
    correlation, position = 0, 0
    if message[0] == 0x08:
        correlation, position = read_varint(message, 1)
    if message[position] != 0x12:
        return correlation, -1
    size, position = read_varint(message, position + 1)
    if position + size != end or correlation >= 2**64:
        return correlation, -1
    return correlation, position


def _end_of_names(message: Message, position: int) -> tuple[int, int]:
    """(the partition, the position behind the topic and it)."""
    if message[position] == 0x12:
        size, position = read_varint(message, position + 1)
        position += size
    partition = 0
    if message[position] == 0x18:
        partition, position = read_varint(message, position + 1)
        if partition >= 2**31:
            raise Unusual
    return partition, position


@lru_cache(_NAMES_MAX)
def _named(names: bytes) -> TopicPartition:
    topic = b""
    if names[:1] == b"\x12":
        size, position = read_varint(names, 1)
        topic = names[position : position + size]
    return TopicPartition(topic.decode(), _end_of_names(names + b"\0", 0)[0])
