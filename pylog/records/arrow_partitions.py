"""The partition of every key of an Arrow column, as a Java producer chooses it."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pylog.records import compiled
from pylog.records.arrow_columns import ByteColumn, byte_column
from pylog.records.murmur2 import NO_KEY, partition_for_key


def partitions_for_keys(keys: Any, partitions: int) -> NDArray[np.int32]:
    """The partition of each key (binary or string, Array or ChunkedArray), NO_KEY for a null one.

    The same that a Java producer chooses. TypeError for another type of column.
    """
    if partitions < 1:
        raise ValueError(f"{partitions} partitions; a topic has at least 1")
    column = byte_column(keys, "key")
    result = np.empty(len(column.lengths), np.int32)
    if compiled.is_there():
        from pylog.records.partitioner_kernels import fill_partitions

        fill_partitions(column.address, column.starts, column.lengths, partitions, result)
    else:
        _fill_plainly(column, partitions, result)
    return result


def _fill_plainly(column: ByteColumn, partitions: int, result: NDArray[np.int32]) -> None:
    starts, lengths = column.starts.tolist(), column.lengths.tolist()
    for row, (start, length) in enumerate(zip(starts, lengths, strict=True)):
        if length < 0:
            result[row] = NO_KEY
        else:
            key = ctypes.string_at(column.address + start, length) if length else b""
            result[row] = partition_for_key(key, partitions)


def rows_by_partition(partitions: NDArray[Any]) -> dict[int, NDArray[np.int64]]:
    """The row indices of each partition that occurs, ascending, by ascending partition."""
    order = np.argsort(partitions, kind="stable")
    ordered = partitions[order]
    stops = np.flatnonzero(np.diff(ordered)) + 1
    groups = np.split(order, stops)
    return {int(partitions[rows[0]]): rows for rows in groups if len(rows)}
