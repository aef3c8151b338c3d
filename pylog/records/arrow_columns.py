"""Arrow columns of any string, binary, timestamp or header type as the plain arrays that kernels
read. No row becomes a Python object; what is `binary` or `string` already is not copied.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pylog.errors import InvalidRecord

Words = NDArray[np.int64]

_INT32_BYTES_MAX: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class ByteColumn:
    """Byte strings: row i is `lengths[i]` bytes at `address + starts[i]`; length -1 is null.

    `alive` keeps the memory.
    """

    address: int
    starts: Words
    lengths: Words
    alive: Any

    def take(self, rows: Words) -> ByteColumn:
        return ByteColumn(
            self.address, frozen(self.starts[rows]), frozen(self.lengths[rows]), self.alive
        )


@dataclass(frozen=True, slots=True)
class HeaderColumn:
    """Lists of headers: row i has `counts[i]` of them, from `starts[i]` on in `keys`, `values`."""

    starts: Words
    counts: Words
    keys: ByteColumn
    values: ByteColumn

    def take(self, rows: Words) -> HeaderColumn:
        return HeaderColumn(
            frozen(self.starts[rows]), frozen(self.counts[rows]), self.keys, self.values
        )


def frozen(array: NDArray[Any]) -> Words:
    """The same as a read-only contiguous int64 array: the type that kernels are compiled for."""
    words = np.ascontiguousarray(array, np.int64).view()
    words.flags.writeable = False
    return words


NO_WORDS: Final = frozen(np.empty(0, np.int64))
NO_BYTES: Final = ByteColumn(0, NO_WORDS, NO_WORDS, None)


def byte_column(column: Any, name: str) -> ByteColumn:
    """From a binary or string Array or ChunkedArray: plain, large, view, fixed size, dictionary or
    all null. TypeError names the column and its type.
    """
    array = _one_array(column, name)
    kind = array.type
    wide = pa.types.is_large_binary(kind) or pa.types.is_large_string(kind)
    _, offset_buffer, data = array.buffers()
    count = len(array)
    if count == 0 or offset_buffer is None:
        return ByteColumn(0, NO_WORDS, NO_WORDS, array)
    offsets = np.frombuffer(
        offset_buffer, np.int64 if wide else np.int32, count + 1, array.offset * (8 if wide else 4)
    )
    lengths = np.diff(offsets).astype(np.int64)
    if array.null_count:
        lengths[array.is_null().to_numpy(zero_copy_only=False)] = -1
    address = data.address if data is not None else 0
    return ByteColumn(address, frozen(offsets[:-1]), frozen(lengths), array)


def _one_array(column: Any, name: str) -> Any:
    """One plain or large array of byte strings with the column's rows."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = pc.cast(column, kind.value_type)
        kind = column.type
    if isinstance(column, pa.ChunkedArray) and column.num_chunks == 1:
        column = column.chunk(0)
    if kind in (pa.binary_view(), pa.string_view()) or pa.types.is_fixed_size_binary(kind):
        column, kind = column.cast(pa.large_binary()), pa.large_binary()
    elif pa.types.is_null(kind):
        column, kind = column.cast(pa.binary()), pa.binary()
    if kind not in (pa.binary(), pa.string(), pa.large_binary(), pa.large_string()):
        raise TypeError(f"column {name!r} must be binary or string, not {column.type}")
    if isinstance(column, pa.ChunkedArray):
        if column.nbytes > _INT32_BYTES_MAX and kind in (pa.binary(), pa.string()):
            column = column.cast(pa.large_binary())
        column = column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):  # what an older pyarrow gives for no chunks
            column = pa.array([], column.type)
    return column


def timestamp_column(column: Any, rows: int, default_ms: int) -> Words:
    """Milliseconds for each row: from a timestamp or int64 (milliseconds) column, or `default_ms`
    where there is no column or a null. Finer units are cut. TypeError for another type.
    """
    if column is None:
        return frozen(np.full(rows, default_ms, np.int64))
    kind = column.type
    if pa.types.is_timestamp(kind):
        column = pc.cast(column, pa.timestamp("ms", tz=kind.tz), safe=False).cast(pa.int64())
    elif pa.types.is_null(kind):
        column = column.cast(pa.int64())
    elif kind != pa.int64():
        raise TypeError(f"column 'timestamp' must be timestamp or int64 (ms), not {kind}")
    if column.null_count:
        column = pc.fill_null(column, default_ms)
    return frozen(column.to_numpy())


def header_column(column: Any) -> HeaderColumn | None:
    """From a column of list<struct<key: string, value: binary>>, of any list and byte type; None
    when it is all null.

    TypeError for another type, InvalidRecord with the row for a null header or header key.
    """
    if pa.types.is_null(column.type):
        return None
    if not (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)):
        raise TypeError(f"column 'headers' must be list<struct<key, value>>, not {column.type}")
    pair = column.type.value_type
    if not pa.types.is_struct(pair) or {f.name for f in pair.fields} != {"key", "value"}:
        raise TypeError(f"column 'headers' must hold struct<key, value>, not {pair}")
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    offsets = column.offsets.to_numpy()
    counts = np.diff(offsets).astype(np.int64)
    if column.null_count:
        counts[column.is_null().to_numpy(zero_copy_only=False)] = 0
    pairs = column.values
    _refuse_null_keys(pairs, offsets, counts)
    # Field access that ignores the struct's own offset would read other rows: flatten applies it.
    children = dict(zip((f.name for f in pair.fields), pairs.flatten(), strict=True))
    keys = byte_column(children["key"], "headers.key")
    values = byte_column(children["value"], "headers.value")
    return HeaderColumn(frozen(offsets[:-1]), frozen(counts), keys, values)


def _refuse_null_keys(pairs: Any, offsets: NDArray[Any], counts: Words) -> None:
    null_keys = pc.is_null(pc.struct_field(pairs, "key"))
    if not pc.any(null_keys).as_py():
        return
    used = np.zeros(len(pairs), np.bool_)
    for row in np.flatnonzero(counts).tolist():
        used[offsets[row] : offsets[row] + counts[row]] = True
    bad = np.flatnonzero(used & null_keys.to_numpy(zero_copy_only=False))
    if len(bad):
        row = int(np.searchsorted(offsets, bad[0], side="right")) - 1
        raise InvalidRecord(f"row {row}: a header or its key is null", record_index=row)
