"""Record batches to Arrow columns: the shape that Spark and `poll_arrow` hand out.

Whole fetches at once: any number of batches, one pass, every key and value copied once. The other
direction, `encode_from_arrow`, is `arrow_encoder`'s and named here too.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pylog.errors import InvalidTimestamp, MessageTooLarge, PylogError
from pylog.records import arrow_decode_kernels as kernels
from pylog.records import faults
from pylog.records.arrow_encoder import encode_from_arrow
from pylog.records.batch import Buffer
from pylog.records.compression import DECOMPRESSED_BYTES_MAX
from pylog.records.opened import BYTES_MAX, OpenedBatches

__all__ = [
    "RECORD_SCHEMA",
    "RECORD_SCHEMA_WITH_HEADERS",
    "decode_to_arrow",
    "encode_from_arrow",
    "record_schema",
]

_HEADER_TYPE: Final = pa.struct([("key", pa.string()), ("value", pa.binary())])
_FIELDS: Final = (
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("timestamp", pa.timestamp("us", tz="UTC")),
    pa.field("timestampType", pa.int32()),
)

RECORD_SCHEMA: Final = pa.schema(_FIELDS)
"""The columns of Spark's Kafka source, by name, order and type; all nullable, as Spark's are."""
RECORD_SCHEMA_WITH_HEADERS: Final = pa.schema(
    (*_FIELDS, pa.field("headers", pa.list_(_HEADER_TYPE)))
)

_OFFSET_MAX: Final = 2**63 - 1


def record_schema(include_headers: bool) -> pa.Schema:
    """The result of `decode_to_arrow`."""
    return RECORD_SCHEMA_WITH_HEADERS if include_headers else RECORD_SCHEMA


def decode_to_arrow(
    buffer: Buffer,
    topic: str,
    partition: int,
    *,
    from_offset: int = 0,
    to_offset: int | None = None,
    include_headers: bool = False,
    check_crcs: bool = True,
    max_decompressed_bytes: int = DECOMPRESSED_BYTES_MAX,
) -> pa.RecordBatch:
    """The records with `from_offset <= offset < to_offset` of the batches in `buffer`.

    A cut last batch and control batches are left out. A record without headers has null there, as
    in Spark's Kafka source. Raises CorruptMessage for a CRC that does not match, InvalidRecord for
    records that break the format, InvalidTimestamp for one beyond microseconds in 64 bits,
    MessageTooLarge when a column would pass 2 GiB, UnsupportedCompressionType; each names topic,
    partition and offset.
    """
    columns, error, _ = decode_readable(
        buffer,
        topic,
        partition,
        from_offset=from_offset,
        to_offset=to_offset,
        include_headers=include_headers,
        check_crcs=check_crcs,
        max_decompressed_bytes=max_decompressed_bytes,
    )
    if error is not None:
        raise error
    return columns


def decode_readable(
    buffer: Buffer,
    topic: str,
    partition: int,
    *,
    from_offset: int = 0,
    to_offset: int | None = None,
    include_headers: bool = False,
    check_crcs: bool = True,
    max_decompressed_bytes: int = DECOMPRESSED_BYTES_MAX,
) -> tuple[pa.RecordBatch, PylogError | None, int]:
    """(columns, error, its offset): as `decode_to_arrow`, but what stands before the first batch
    that cannot be read is given, and what `decode_to_arrow` raises stands beside it.
    """
    end = _OFFSET_MAX if to_offset is None else to_offset
    opened = OpenedBatches(
        buffer,
        topic,
        partition,
        from_offset=from_offset,
        to_offset=end,
        check_crcs=check_crcs,
        max_bytes=max_decompressed_bytes,
    )
    while True:
        columns = _decoded(opened, topic, partition, from_offset, end, include_headers)
        if columns is not None:
            return columns, opened.error, opened.error_offset


def _decoded(
    opened: OpenedBatches,
    topic: str,
    partition: int,
    from_offset: int,
    to_offset: int,
    include_headers: bool,
) -> pa.RecordBatch | None:
    """The columns; None when a record could not be read, and `opened` was cut before its batch."""
    places = opened.records
    offsets = np.empty(places, np.int64)
    timestamps = np.empty(places, np.int64)
    timestamp_types = np.empty(places, np.int32)
    key, value = _BinaryColumn(places, opened.bytes), _BinaryColumn(places, opened.bytes)
    header_positions = np.empty((3, places if include_headers else 0), np.int64)
    report = np.zeros(kernels.REPORTED, np.int64)
    kernels.decode_columns(
        opened.table,
        from_offset,
        to_offset,
        offsets,
        timestamps,
        timestamp_types,
        key.offsets,
        key.bits,
        key.address,
        value.offsets,
        value.bits,
        value.address,
        header_positions,
        report,
    )
    fault = int(report[kernels.FAULT])
    if fault != faults.NONE:
        error: PylogError = faults.invalid_record(fault, int(report[kernels.FAULTY_RECORD]))
        if fault == faults.TIMESTAMP:
            error = InvalidTimestamp(str(error))
        opened.cut(int(report[kernels.FAULTY_SECTION]), error)
        return None
    rows = int(report[kernels.ROWS])
    columns = [
        key.finish(rows, int(report[kernels.KEY_BYTES]), int(report[kernels.KEY_NULLS])),
        value.finish(rows, int(report[kernels.VALUE_BYTES]), int(report[kernels.VALUE_NULLS])),
        _repeated(topic, rows),
        _plain(pa.int32(), np.full(rows, partition, np.int32), rows),
        _plain(pa.int64(), offsets, rows),
        _plain(_FIELDS[5].type, timestamps, rows),
        _plain(pa.int32(), timestamp_types, rows),
    ]
    if include_headers:
        columns.append(_headers_column(header_positions, rows))
    return pa.RecordBatch.from_arrays(columns, schema=record_schema(include_headers))


class _BinaryColumn:
    """Memory for a nullable binary column of at most `places` rows and `size` bytes.

    `size` is an upper bound, so the memory is asked for but mostly not touched. It is malloc's:
    Arrow's pool gives its pages back to the system, and each batch would fault them in anew.
    """

    def __init__(self, places: int, size: int) -> None:
        self.offsets = np.empty(places + 1, np.int32)
        self.bits = np.zeros((places + 7) // 8, np.uint8)
        self.memory = np.empty(size, np.uint8)
        self.address = int(self.memory.__array_interface__["data"][0])

    def finish(self, rows: int, used: int, nulls: int) -> pa.Array:
        data = self.memory[:used]
        if used * 2 < self.memory.size:
            # Mostly unused: a copy of the small part, so that a kept column costs what it holds.
            data = data.copy()
        bits = pa.py_buffer(self.bits) if nulls else None
        buffers = [bits, pa.py_buffer(self.offsets), pa.py_buffer(data)]
        return pa.Array.from_buffers(pa.binary(), rows, buffers, nulls)


def _plain(kind: pa.DataType, data: NDArray[Any], rows: int) -> pa.Array:
    return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(data)], 0)


def _repeated(text: str, rows: int) -> pa.Array:
    """A string column of one value, by two bulk operations; a dictionary Spark would not take."""
    data = text.encode()
    if len(data) * rows > BYTES_MAX:
        raise MessageTooLarge(f"{rows} rows are too many for one Arrow batch; fetch fewer at once")
    offsets = np.arange(rows + 1, dtype=np.int32) * np.int32(len(data))
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data * rows)]
    return pa.Array.from_buffers(pa.string(), rows, buffers, 0)


def _headers_column(positions: NDArray[np.int64], rows: int) -> pa.Array:
    count, key_bytes, value_bytes = kernels.measure_headers(positions, rows)
    list_offsets = np.empty(rows + 1, np.int32)
    list_bits = np.zeros((rows + 7) // 8, np.uint8)
    key_offsets, value_offsets = np.empty(count + 1, np.int32), np.empty(count + 1, np.int32)
    value_bits = np.zeros((count + 7) // 8, np.uint8)
    key_data, value_data = np.empty(key_bytes, np.uint8), np.empty(value_bytes, np.uint8)
    kernels.fill_headers(
        positions,
        rows,
        list_offsets,
        list_bits,
        key_offsets,
        key_data,
        value_offsets,
        value_bits,
        value_data,
    )
    keys = _strings(count, key_offsets, key_data)
    values = pa.Array.from_buffers(
        pa.binary(), count, [pa.py_buffer(b) for b in (value_bits, value_offsets, value_data)]
    )
    pairs = pa.StructArray.from_arrays([keys, values], fields=list(_HEADER_TYPE))
    return pa.Array.from_buffers(
        pa.list_(_HEADER_TYPE),
        rows,
        [pa.py_buffer(list_bits), pa.py_buffer(list_offsets)],
        children=[pairs],
    )


def _strings(count: int, offsets: NDArray[np.int32], data: NDArray[np.uint8]) -> pa.Array:
    """A string column; what is not UTF-8 gets replacement characters, as in Java's clients."""
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    keys = pa.Array.from_buffers(pa.string(), count, buffers, 0)
    try:
        keys.validate(full=True)
    except pa.ArrowInvalid:
        raw = pa.Array.from_buffers(pa.binary(), count, buffers, 0)
        return pa.array([key.decode("utf-8", "replace") for key in raw.to_pylist()], pa.string())
    return keys
