"""Compiled: Arrow columns split into batches and written there, no Python object per row.

A column of byte strings is (address of its data, starts, lengths), a length of -1 meaning null. The
header columns are those of the flattened list, `header_starts` and `header_counts` pointing into
them. Twins of `kernels_pure.encode_records` and `split_records`.
"""

from __future__ import annotations

from typing import Any, Final

from numba import types

from pylog.records.native.encode_kernels import data_size, varint_size, write_data, write_varint
from pylog.records.native.raw_memory import helper, kernel, store_byte

BATCH_RECORDS_MAX: Final = 2**31 - 1

_i64 = types.int64
_words = types.Array(types.int64, 1, "C", readonly=True)
_output = types.Array(types.int64, 1, "C")


@kernel(types.void(_words, _words, _words, _words, _output), nogil=True)
def measure_header_column(
    header_starts: Any, header_counts: Any, key_lengths: Any, value_lengths: Any, sizes: Any
) -> None:
    """Bytes of each row's encoded headers, their count included."""
    for row in range(len(header_starts)):
        size = varint_size(header_counts[row])
        first = header_starts[row]
        for header in range(first, first + header_counts[row]):
            size += data_size(key_lengths[header]) + data_size(value_lengths[header])
        sizes[row] = size


@helper
def _body_size(
    index: int, timestamp_delta: int, key_length: int, value_length: int, headers_size: int
) -> int:
    return (
        1
        + varint_size(timestamp_delta)
        + varint_size(index)
        + data_size(key_length)
        + data_size(value_length)
        + headers_size
    )


@kernel(_i64(_words, _words, _words, _words, _i64, _output, _output), nogil=True)
def split_columns(
    key_lengths: Any,
    value_lengths: Any,
    header_sizes: Any,
    timestamps: Any,
    limit: int,
    stops: Any,
    sizes: Any,
) -> int:
    """The number of batches: batch i ends before row `stops[i]` and has `sizes[i]` bytes of
    records.

    As many records in each as fit `limit` bytes; a larger record has a batch to itself.
    `key_lengths` and `header_sizes` may be empty: no keys, no headers.
    """
    keyed = len(key_lengths) > 0
    headed = len(header_sizes) > 0
    batches = 0
    size = 0
    first = 0
    for row in range(len(value_lengths)):
        key_length = key_lengths[row] if keyed else -1
        headers_size = header_sizes[row] if headed else 1
        delta = timestamps[row] - timestamps[first]
        body = _body_size(row - first, delta, key_length, value_lengths[row], headers_size)
        record = varint_size(body) + body
        if row > first and (size + record > limit or row - first >= BATCH_RECORDS_MAX):
            stops[batches] = row
            sizes[batches] = size
            batches += 1
            first = row
            body = _body_size(0, 0, key_length, value_lengths[row], headers_size)
            record = varint_size(body) + body
            size = 0
        size += record
    if len(value_lengths) > 0:
        stops[batches] = len(value_lengths)
        sizes[batches] = size
        batches += 1
    return batches


@kernel(
    _i64(
        _words, _words, _words, _i64, _words, _words, _i64, _words, _words, _words,
        _words, _words, _words, _i64, _words, _words, _i64, _words, _words,
    ),
    nogil=True,
)  # fmt: skip
def write_columns(
    addresses: Any,
    stops: Any,
    sizes: Any,
    key_data: int,
    key_starts: Any,
    key_lengths: Any,
    value_data: int,
    value_starts: Any,
    value_lengths: Any,
    timestamps: Any,
    header_sizes: Any,
    header_starts: Any,
    header_counts: Any,
    header_key_data: int,
    header_key_starts: Any,
    header_key_lengths: Any,
    header_value_data: int,
    header_value_starts: Any,
    header_value_lengths: Any,
) -> int:
    """Write every batch's records to its address; how many batches came out at the size that
    `split_columns` found, which is all of them.
    """
    keyed = len(key_lengths) > 0
    headed = len(header_sizes) > 0
    first = 0
    for batch in range(len(addresses)):
        address = addresses[batch]
        end = address + sizes[batch]
        for row in range(first, stops[batch]):
            key_length = key_lengths[row] if keyed else -1
            headers_size = header_sizes[row] if headed else 1
            delta = timestamps[row] - timestamps[first]
            body = _body_size(row - first, delta, key_length, value_lengths[row], headers_size)
            if varint_size(body) + body > end - address:
                return batch
            address = write_varint(address, body)
            store_byte(address, 0)
            address = write_varint(address + 1, delta)
            address = write_varint(address, row - first)
            address = write_data(address, key_data + key_starts[row] if keyed else 0, key_length)
            address = write_data(address, value_data + value_starts[row], value_lengths[row])
            if not headed:
                store_byte(address, 0)
                address += 1
                continue
            address = write_varint(address, header_counts[row])
            start = header_starts[row]
            for header in range(start, start + header_counts[row]):
                address = write_data(
                    address,
                    header_key_data + header_key_starts[header],
                    header_key_lengths[header],
                )
                address = write_data(
                    address,
                    header_value_data + header_value_starts[header],
                    header_value_lengths[header],
                )
        if address != end:
            return batch
        first = stops[batch]
    return len(addresses)
