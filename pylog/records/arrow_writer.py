"""Arrow columns to record batches by compiled kernels. `plain_arrow_writer` does the same in plain
Python where numba is not installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pylog.model import NO_EPOCH
from pylog.records import arrow_encode_kernels as kernels
from pylog.records.arrow_columns import (
    NO_BYTES,
    NO_WORDS,
    ByteColumn,
    HeaderColumn,
    Words,
    frozen,
)
from pylog.records.batch import (
    HEADER_SIZE,
    TRANSACTIONAL_BIT,
    CompressionType,
    add_to_sequence,
    header_before,
)
from pylog.records.compression import Compression, compress
from pylog.records.native.list_encoder import put_header
from pylog.records.native.raw_memory import data_address, new_buffer

if TYPE_CHECKING:
    from pylog.records.arrow_encoder import BatchSettings

__all__ = ["encode", "header_sizes", "put_header"]


def encode(
    value: ByteColumn,
    key: ByteColumn,
    headers: HeaderColumn | None,
    timestamps: Words,
    settings: BatchSettings,
) -> list[bytes]:
    compression = Compression.of(settings.compression)
    sizes_of_headers = header_sizes(headers)
    count = len(timestamps)
    stops, sizes = np.empty(count, np.int64), np.empty(count, np.int64)
    batches = kernels.split_columns(
        key.lengths,
        value.lengths,
        sizes_of_headers,
        timestamps,
        settings.batch_size - HEADER_SIZE,
        stops,
        sizes,
    )
    stops, sizes = stops[:batches], sizes[:batches]
    # Without a codec the records are written where they stay; else into memory to compress from.
    start = HEADER_SIZE if compression.codec is CompressionType.NONE else 0
    buffers = [new_buffer(start + size) for size in sizes.tolist()]
    addresses = np.array([data_address(buffer) + start for buffer in buffers], np.int64)
    names, contents = (NO_BYTES, NO_BYTES) if headers is None else (headers.keys, headers.values)
    written = kernels.write_columns(
        frozen(addresses),
        frozen(stops),
        frozen(sizes),
        key.address,
        key.starts,
        key.lengths,
        value.address,
        value.starts,
        value.lengths,
        timestamps,
        sizes_of_headers,
        NO_WORDS if headers is None else headers.starts,
        NO_WORDS if headers is None else headers.counts,
        names.address,
        names.starts,
        names.lengths,
        contents.address,
        contents.starts,
        contents.lengths,
    )
    assert written == batches
    return _finish(buffers, start, stops, timestamps, compression, settings)


def header_sizes(headers: HeaderColumn | None) -> Words:
    if headers is None:
        return NO_WORDS
    sizes = np.empty(len(headers.starts), np.int64)
    kernels.measure_header_column(
        headers.starts, headers.counts, headers.keys.lengths, headers.values.lengths, sizes
    )
    return frozen(sizes)


def _finish(
    buffers: list[bytes | bytearray],
    start: int,
    stops: NDArray[np.int64],
    timestamps: Words,
    compression: Compression,
    settings: BatchSettings,
) -> list[bytes]:
    """Headers before the written records."""
    firsts = np.concatenate(([0], stops[:-1]))
    largest = np.maximum.reduceat(timestamps, firsts).tolist()
    base_timestamps = timestamps[firsts].tolist()
    counts = (stops - firsts).tolist()
    sequence = settings.base_sequence
    codec = int(compression.codec)
    attributes = codec | TRANSACTIONAL_BIT if settings.transactional else codec
    finished: list[bytes] = []
    for index, buffer in enumerate(buffers):
        records = memoryview(buffer)[start:] if start else compress(compression, buffer)
        header = header_before(
            records,
            attributes,
            counts[index],
            base_timestamps[index],
            largest[index],
            0,
            NO_EPOCH,
            settings.producer_id,
            settings.producer_epoch,
            sequence,
            checked=not settings.stamped_later,
        )
        if sequence >= 0:
            sequence = add_to_sequence(sequence, counts[index])
        if start:
            finished.append(put_header(buffer, header))
        else:
            finished.append(header + records)
    return finished
