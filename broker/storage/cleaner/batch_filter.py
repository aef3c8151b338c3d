"""One batch without the records that are not kept, byte for byte as Kafka's cleaner leaves it.

Offsets, producer and sequences of the batch stay. The records are written anew: the base timestamp
is the first one's that stays, or the delete horizon where the batch has one (KIP-534), and the
deltas count from there. Records that bear the broker's time (LogAppendTime) all get that time.
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
from pylog.records.native.decode_kernels import TIMESTAMP_DELTA
from pylog.records.native.raw_memory import (
    as_bytes,
    buffer_address,
    data_address,
    new_buffer,
)
from pylog.records.sections import Section
from pylog_broker.storage.cleaner.kernels import measure_kept, write_kept


def delete_horizon(header: BatchHeader) -> int | None:
    """The time at which the batch's tombstones or marker may go; None when no pass has set it
    yet."""
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
    stamped = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    if stamped:
        times = np.full(fields.shape[1], header.max_timestamp, np.int64)
    else:
        times = fields[TIMESTAMP_DELTA] + header.base_timestamp
    chosen = np.flatnonzero(kept)
    attributes = header.attributes
    if horizon is not None:
        attributes |= DELETE_HORIZON_BIT
    else:
        horizon = delete_horizon(header)
    base = int(times[chosen[0]]) if horizon is None else horizon
    newest = header.max_timestamp if stamped else int(times[chosen].max())
    deltas = times - base
    body = new_buffer(int(measure_kept(fields, deltas, kept)))
    address, _alive = buffer_address(section.buffer)
    write_kept(data_address(body), address, fields, deltas, kept)
    new_header = _header(header, attributes, len(chosen), base, newest)
    return seal(new_header, compress(check_codec(header.attributes & CODEC_MASK), as_bytes(body)))


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
