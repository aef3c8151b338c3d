"""One batch without the records that are not kept, as Kafka's cleaner leaves it.

Offsets, producer and sequences of the batch stay; so do the bytes of the records, unless a delete
horizon is set: then the base timestamp is the horizon, and every delta is counted anew (KIP-534).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pylog.model import TimestampType
from pylog.records.batch import (
    CODEC_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    pack_header,
    seal,
)
from pylog.records.compression import check_codec, compress
from pylog.records.decode_kernels import END, TIMESTAMP_DELTA
from pylog.records.sections import Section
from pylog.records.varint import encode_varint, read_varint, read_varlong


def delete_horizon(header: BatchHeader) -> int | None:
    """When the batch's tombstones or marker may go; None when no pass has said so yet."""
    return header.base_timestamp if header.attributes & DELETE_HORIZON_BIT else None


def empty_batch(header: BatchHeader) -> bytes:
    """The batch without any record: its offsets and its producer's sequences stay known."""
    kept_bits = TIMESTAMP_TYPE_BIT | TRANSACTIONAL_BIT | CONTROL_BIT
    return seal(_header(header, header.attributes & kept_bits, 0, -1, header.max_timestamp), b"")


def filtered_batch(
    section: Section,
    header: BatchHeader,
    fields: NDArray[np.int64],
    kept: NDArray[np.uint8],
    horizon: int | None,
) -> bytes:
    """The batch with the records that `kept` marks, at least one; `horizon`: set this one."""
    ends = fields[END]
    starts = np.concatenate(([section.start], ends[:-1]))
    view = memoryview(section.buffer)
    chosen = np.flatnonzero(kept)
    if horizon is None:
        edges = np.flatnonzero(np.diff(chosen) != 1) + 1
        runs = np.split(chosen, edges) if len(edges) else [chosen]
        body = b"".join(view[int(starts[run[0]]) : int(ends[run[-1]])] for run in runs)
        base, attributes = header.base_timestamp, header.attributes
    else:
        shift = header.base_timestamp - horizon
        body = b"".join(
            _shifted(view, int(starts[index]), int(ends[index]), shift) for index in chosen
        )
        base, attributes = horizon, header.attributes | DELETE_HORIZON_BIT
    newest = header.max_timestamp
    if header.timestamp_type is not TimestampType.LOG_APPEND_TIME:
        newest = header.base_timestamp + int(fields[TIMESTAMP_DELTA][chosen].max())
    new_header = _header(header, attributes, len(chosen), base, newest)
    return seal(new_header, compress(check_codec(header.attributes & CODEC_MASK), body))


def _shifted(view: memoryview, start: int, end: int, shift: int) -> bytes:
    """A record whose timestamp delta is larger by `shift`."""
    _, position = read_varint(view, start, end)
    delta, after = read_varlong(view, position + 1, end)
    body = bytes(view[position : position + 1]) + encode_varint(delta + shift)
    body += bytes(view[after:end])
    return encode_varint(len(body)) + body


def _header(
    header: BatchHeader, attributes: int, count: int, base_timestamp: int, max_timestamp: int
) -> bytearray:
    return pack_header(
        attributes=attributes,
        record_count=count,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        base_offset=header.base_offset,
        leader_epoch=header.partition_leader_epoch,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        last_offset_delta=header.last_offset_delta,
    )
