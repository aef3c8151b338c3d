"""The records of the dead-letter topic of a share group (KIP-1191), as bytes. Pure.

A dead letter tells in headers where its record lies, of which group it is, how often it was
delivered and why it is delivered no more. Key and value go along where the group wants that. A
record may get there twice, as a leader that fails has not told its successor what it has written.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from pylog.errors import CorruptMessage, PylogError
from pylog.model import TopicPartition
from pylog.records.batch import HEADER_SIZE, Buffer, iter_headers
from pylog.records.builder import encode_batch
from pylog.records.headers import Header
from pylog.records.reader import iter_chunks
from pylog_broker.share.share_partition import DeadLetters

TOPIC_HEADER: Final = "__dlq.errors.topic"
PARTITION_HEADER: Final = "__dlq.errors.partition"
OFFSET_HEADER: Final = "__dlq.errors.offset"
GROUP_HEADER: Final = "__dlq.errors.group"
DELIVERY_COUNT_HEADER: Final = "__dlq.errors.delivery.count"
MESSAGE_HEADER: Final = "__dlq.errors.message"
"""Kafka's names. All values are text."""

REJECTED: Final = "Offset rejected by client."
DELIVERED_TOO_OFTEN: Final = "Offset delivery count exceeded the threshold."
"""Kafka's words."""

RECORD_OVERHEAD: Final = 48
"""The most bytes of a record in a batch, beside key, value and headers: lengths, offset and
timestamp."""
HEADER_OVERHEAD: Final = 10


class Copied(NamedTuple):
    """The key and value of a record that the log still has."""

    key: bytes | None
    value: bytes | None


def offsets_of(letters: Sequence[DeadLetters]) -> Iterator[tuple[int, DeadLetters]]:
    """Each record, with what is true of it."""
    for each in letters:
        for offset in range(each.first_offset, each.last_offset + 1):
            yield offset, each


class DeadLetterBatch(NamedTuple):
    """`letters`: how many it has. `stripped`: those of them without key and value, as these are too
    large for the topic.
    """

    records: bytes
    letters: int
    stripped: int


def next_batch(
    letters: Sequence[DeadLetters],
    skip: int,
    origin: TopicPartition,
    group_id: str,
    copied: Mapping[int, Copied],
    *,
    until: int,
    most: int,
    wall_ms: int,
    bytes_max: int,
    record_bytes_max: int,
) -> DeadLetterBatch:
    """A batch of the dead letters behind the first `skip`, of offsets before `until`: `most` of
    them, as far as `bytes_max` has room, but at least one. A record that would make a batch of more
    than `record_bytes_max` by itself goes without key and value.
    """
    values: list[bytes | None] = []
    keys: list[bytes | None] = []
    headers: list[list[Header]] = []
    size, stripped = HEADER_SIZE, 0
    for index, (offset, what) in enumerate(offsets_of(letters)):
        if index < skip:
            continue
        if offset >= until or len(values) >= most:
            break
        told = _headers(origin, group_id, offset, what)
        own = RECORD_OVERHEAD + sum(len(name) + len(text or b"") for name, text in told)
        own += HEADER_OVERHEAD * len(told)
        key, value = copied.get(offset, Copied(None, None))
        whole = own + len(key or b"") + len(value or b"")
        too_large = HEADER_SIZE + whole > record_bytes_max and whole > own
        if too_large:
            key = value = None
            whole = own
        if values and size + whole > bytes_max:
            break
        stripped += too_large
        size += whole
        keys.append(key)
        values.append(value)
        headers.append(told)
    records = encode_batch(values, keys=keys, headers=headers, timestamps=wall_ms)
    return DeadLetterBatch(records, len(values), stripped)


def _headers(origin: TopicPartition, group_id: str, offset: int, what: DeadLetters) -> list[Header]:
    texts = {
        TOPIC_HEADER: origin.topic,
        PARTITION_HEADER: str(origin.partition),
        OFFSET_HEADER: str(offset),
        GROUP_HEADER: group_id,
        DELIVERY_COUNT_HEADER: str(what.delivery_count),
        MESSAGE_HEADER: REJECTED if what.is_rejected else DELIVERED_TOO_OFTEN,
    }
    return [(name, text.encode()) for name, text in texts.items()]


def copies(
    records: Buffer,
    name: TopicPartition,
    from_offset: int,
    *,
    bytes_max: int,
    unpacked_bytes_max: int,
) -> tuple[dict[int, Copied], int]:
    """The records of a read of the log from that offset, by offset, and the offset up to which
    those are all that there are: soon after `bytes_max`. A batch that unpacks to more than
    `unpacked_bytes_max` cannot be read.

    A record that cannot be read is left out, as if the log did not have it: its offset is known.
    """
    found: dict[int, Copied] = {}
    size, seen = 0, from_offset
    try:
        chunks = iter_chunks(
            records,
            name.topic,
            name.partition,
            from_offset=from_offset,
            max_decompressed_bytes=unpacked_bytes_max,
        )
        for chunk in chunks:
            for record in chunk.records():
                key, value = _bytes(record.key), _bytes(record.value)
                found[record.offset] = Copied(key, value)
                seen = record.offset + 1
                size += len(key or b"") + len(value or b"")
                if size > bytes_max:
                    return found, seen
    except PylogError:
        return found, next((end for end in _ends(records) if end > seen), seen + 1)
    return found, max(*_ends(records), seen, from_offset + 1)


def _bytes(part: Buffer | None) -> bytes | None:
    return None if part is None else bytes(part)


def _ends(records: Buffer) -> list[int]:
    """The end of each batch, as far as they can be told apart."""
    ends: list[int] = []
    with contextlib.suppress(CorruptMessage):
        ends.extend(header.next_offset for _, header in iter_headers(records))
    return ends
