"""Lists of keys and values to a batch's records with what every Python has: tables of varints and
`bytes.join`, and no step of the interpreter for a record.

For a process whose compiled kernels are not loaded, which takes longer than a hundred batches take
here. A twin of `kernels_pure.encode_records`, for records without headers or nulls; records of one
size take twice as long as in a kernel, others ten times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, groupby
from typing import Final, cast

from pylog.records.kernels_pure import wrap_int64
from pylog.records.varint import encode_varint

_ATTRIBUTES: Final = b"\x00"
_NO_KEY: Final = encode_varint(-1)
_NO_HEADERS: Final = encode_varint(0)


class _OffsetDeltas:
    """The varints of 0 to `count` - 1, and their bytes by column: the first bytes of those of one
    byte, the first and the second ones of those of two, and so on.
    """

    def __init__(self, count: int) -> None:
        self.varints = list(map(encode_varint, range(count)))
        self.sizes: list[int] = []  # the first delta that takes 1 byte, 2 bytes, ...
        self._columns: list[list[bytes]] = []
        for size, equal in groupby(self.varints, len):
            self.sizes.append(sum(map(len, (column[0] for column in self._columns))))
            self._columns.append([bytes(column) for column in zip(*equal, strict=True)])
            assert len(self._columns) == size

    def columns(self, size: int, start: int, stop: int) -> list[bytes]:
        """The bytes of the deltas `start` to `stop` - 1, which take `size` bytes each, by place."""
        first = self.sizes[size - 1]
        return [column[start - first : stop - first] for column in self._columns[size - 1]]


_KEPT_MAX: Final = 1 << 16


class _Kept:
    """The table for batches of up to `_KEPT_MAX` records, as large as they needed so far. Replaced
    as a whole: other threads go on with the one they have.
    """

    deltas = _OffsetDeltas(0)


def _deltas_for(count: int) -> _OffsetDeltas:
    kept = _Kept.deltas
    if count <= len(kept.varints):
        return kept
    if count > _KEPT_MAX:
        return _OffsetDeltas(count)
    grown = _Kept.deltas = _OffsetDeltas(min(max(count, 2 * len(kept.varints)), _KEPT_MAX))
    return grown


def encode_joined(
    values: Sequence[bytes | None],
    keys: Sequence[bytes | None] | None,
    timestamps: Sequence[int] | int,
    base_timestamp: int,
) -> bytes | None:
    """The records section of a batch, uncompressed; None where a key or value is not bytes."""
    for column in (values, keys):
        if column is not None and set(map(type, column)) != {bytes}:
            return None
    given = cast(Sequence[bytes], values), cast(Sequence[bytes] | None, keys)
    deltas = _deltas_for(len(values))
    parts: list[bytes | bytearray] = []
    for start, stop, timestamp in _runs(timestamps, len(values), deltas.sizes[1:]):
        fixed = _ATTRIBUTES + encode_varint(wrap_int64(timestamp - base_timestamp))
        some, their_keys = (column and column[start:stop] for column in given)
        assert some is not None
        sizes = list(map(len, some))
        if their_keys is None and sizes.count(sizes[0]) == len(sizes):
            parts.append(_of_one_size(deltas, start, some, fixed))
        elif their_keys is None:
            parts.append(_without_keys(deltas, start, some, sizes, fixed))
        else:
            parts.append(_with_keys(deltas, start, some, sizes, their_keys, fixed))
    return b"".join(parts)


def _runs(
    timestamps: Sequence[int] | int, count: int, limits: Sequence[int]
) -> Iterator[tuple[int, int, int]]:
    """(first, end, timestamp) of runs with one timestamp and none of the limits within."""
    if isinstance(timestamps, int):
        lengths = [(timestamps, count)]
    else:
        lengths = [(stamp, sum(1 for _ in equal)) for stamp, equal in groupby(timestamps)]
    start = end = 0
    for timestamp, length in lengths:
        end += length
        for limit in (*limits, end):
            if start < min(limit, end):
                yield start, min(limit, end), timestamp
                start = min(limit, end)


def _of_one_size(
    deltas: _OffsetDeltas, start: int, values: Sequence[bytes], fixed: bytes
) -> bytearray:
    """All that stands between two values but the offset delta is the same: values are joined with
    it, and the deltas written into their places.
    """
    delta_size = len(deltas.varints[start])
    value_size = encode_varint(len(values[0]))
    behind = delta_size + len(_NO_KEY) + len(value_size) + len(values[0]) + len(_NO_HEADERS)
    head = encode_varint(len(fixed) + behind) + fixed
    before = head + bytes(delta_size) + _NO_KEY + value_size
    joined = bytearray(_NO_HEADERS + before).join((b"", *values))
    joined += _NO_HEADERS
    del joined[: len(_NO_HEADERS)]
    for place, column in enumerate(deltas.columns(delta_size, start, start + len(values))):
        joined[len(head) + place :: len(head) + behind] = column
    return joined


def _without_keys(
    deltas: _OffsetDeltas, start: int, values: Sequence[bytes], sizes: Sequence[int], fixed: bytes
) -> bytes:
    delta_size = len(deltas.varints[start])
    heads: dict[int, bytes] = {}
    before: dict[int, bytes] = {}
    for size in set(sizes):
        before[size] = _NO_KEY + encode_varint(size)
        body = len(fixed) + delta_size + len(before[size]) + size + len(_NO_HEADERS)
        heads[size] = _NO_HEADERS + encode_varint(body) + fixed
    pieces = zip(
        map(heads.__getitem__, sizes),
        deltas.varints[start : start + len(values)],
        map(before.__getitem__, sizes),
        values,
        strict=True,
    )
    return b"".join((*chain.from_iterable(pieces), _NO_HEADERS))[len(_NO_HEADERS) :]


def _with_keys(
    deltas: _OffsetDeltas,
    start: int,
    values: Sequence[bytes],
    sizes: Sequence[int],
    keys: Sequence[bytes],
    fixed: bytes,
) -> bytes:
    delta_size = len(deltas.varints[start])
    both = list(zip(map(len, keys), sizes, strict=True))
    heads: dict[tuple[int, int], bytes] = {}
    lengths: dict[int, bytes] = {}
    for pair in set(both):
        before = [encode_varint(size) for size in pair]
        lengths.update(zip(pair, before, strict=True))
        body = len(fixed) + delta_size + sum(map(len, before)) + sum(pair) + len(_NO_HEADERS)
        heads[pair] = _NO_HEADERS + encode_varint(body) + fixed
    pieces = zip(
        map(heads.__getitem__, both),
        deltas.varints[start : start + len(values)],
        map(lengths.__getitem__, map(len, keys)),
        keys,
        map(lengths.__getitem__, sizes),
        values,
        strict=True,
    )
    return b"".join((*chain.from_iterable(pieces), _NO_HEADERS))[len(_NO_HEADERS) :]
