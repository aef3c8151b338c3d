"""Arrow columns to record batches: the sink's and `send_arrow`'s way, without Python per row."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pylog.model import NO_TIMESTAMP
from pylog.records import compiled
from pylog.records.arrow_columns import (
    NO_BYTES,
    byte_column,
    frozen,
    header_column,
    timestamp_column,
)
from pylog.records.batch import header_with_producer
from pylog.records.compression import Compression

_ENGINE: Final[Any] = import_module(
    f"pylog.records.{'arrow_writer' if compiled.is_there() else 'plain_arrow_writer'}"
)
"""The module that encodes in this process; loaded with this one, which is imported ahead of
need."""
_RECORD_OVERHEAD: Final = 8
"""Lengths and deltas of a record, mostly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSettings:
    """The settings that all batches of one call share. With a producer id, sequences count on from
    `base_sequence`. With `stamped_later` they come without a CRC: `stamp_producer` is still to be
    called for each.
    """

    batch_size: int
    compression: str | Compression = "none"
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    transactional: bool = False
    stamped_later: bool = False


class ArrowEncoder:
    """The columns of one Arrow table, looked at once, to be encoded by any selection of rows.

    A sink encodes the rows of each partition apart: `encode(rows, settings)` gathers no bytes, only
    positions. `value` and `key` are binary or string of any kind, `headers` a list of
    struct<key, value>, `timestamp` a timestamp or int64 milliseconds; null means none, and
    `default_timestamp_ms` for timestamps. Raises TypeError for another type, ValueError for columns
    of different lengths, InvalidRecord (with the row) for a null header key.
    """

    def __init__(
        self,
        value: Any,
        *,
        key: Any = None,
        headers: Any = None,
        timestamp: Any = None,
        default_timestamp_ms: int = NO_TIMESTAMP,
    ) -> None:
        self.rows = len(value)
        for name, column in (("key", key), ("headers", headers), ("timestamp", timestamp)):
            if column is not None and len(column) != self.rows:
                raise ValueError(f"column {name!r} has {len(column)} rows, 'value' {self.rows}")
        self._value = byte_column(value, "value")
        self._key = NO_BYTES if key is None else byte_column(key, "key")
        self._headers = None if headers is None else header_column(headers)
        self._timestamps = timestamp_column(timestamp, self.rows, default_timestamp_ms)

    def sizes(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """About how many bytes the rows with these indices take in a batch, keys apart."""
        sizes = np.maximum(self._value.lengths[rows], 0) + _RECORD_OVERHEAD
        if self._headers is not None:
            sizes += _ENGINE.header_sizes(self._headers)[rows]
        return sizes

    def encode(self, rows: NDArray[Any] | None, settings: BatchSettings) -> list[bytes]:
        """Batches of the rows with these indices, in this order (None: all).

        Each has at most `batch_size` bytes before compression, unless one record alone takes more.
        """
        value, key, headers, timestamps = self._value, self._key, self._headers, self._timestamps
        if rows is not None:
            chosen = np.asarray(rows, np.int64)
            if len(chosen) and not 0 <= int(chosen.min()) <= int(chosen.max()) < self.rows:
                raise IndexError(f"row indices must lie within 0 and {self.rows - 1}")
            value, timestamps = value.take(chosen), frozen(timestamps[chosen])
            key = key if key is NO_BYTES else key.take(chosen)
            headers = None if headers is None else headers.take(chosen)
        if len(timestamps) == 0:
            return []
        batches: list[bytes] = _ENGINE.encode(value, key, headers, timestamps, settings)
        return batches


def encode_from_arrow(
    value: Any,
    *,
    key: Any = None,
    headers: Any = None,
    timestamp: Any = None,
    default_timestamp_ms: int = NO_TIMESTAMP,
    rows: NDArray[Any] | None = None,
    batch_size: int,
    compression: str | Compression = "none",
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
) -> list[bytes]:
    """`ArrowEncoder` for one use: the columns' rows (or those at the indices `rows`) as batches."""
    encoder = ArrowEncoder(
        value,
        key=key,
        headers=headers,
        timestamp=timestamp,
        default_timestamp_ms=default_timestamp_ms,
    )
    settings = BatchSettings(
        batch_size=batch_size,
        compression=compression,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=transactional,
    )
    return encoder.encode(rows, settings)


def stamp_producer(
    batch: bytes, producer_id: int, producer_epoch: int, base_sequence: int
) -> bytes:
    """The batch with producer and sequence, and the CRC: the same object, which nobody but the
    caller has seen, where `with_producer` would copy it.
    """
    header = header_with_producer(batch, producer_id, producer_epoch, base_sequence)
    stamped: bytes = _ENGINE.put_header(batch, header)
    return stamped
