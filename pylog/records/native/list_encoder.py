"""Lists of bytes to one batch by the compiled kernels: measured, then written once, in place."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pylog.records.native import Switch
from pylog.records.native.encode_kernels import measure_lists, put_bytes, write_lists
from pylog.records.native.raw_memory import BYTES_TYPE, NONE, as_bytes, data_address, new_buffer
from pylog.records.plain_bytes import plain_bytes

_NO_TIMESTAMPS: Final = np.empty(0, np.int64)


def encode_lists(
    room: int,
    values: Sequence[bytes | None],
    keys: Sequence[bytes | None] | None,
    header_blobs: Sequence[bytes | None] | None,
    timestamps: Sequence[int] | int,
) -> tuple[bytes, int, int]:
    """(`room` bytes to be written yet and then the records, base timestamp, max timestamp).

    TypeError for a value or key that is not bytes or None.
    """
    if isinstance(timestamps, int):
        each, base = _NO_TIMESTAMPS, timestamps
    else:
        each = _words(timestamps)
        base = int(timestamps[0])
    lists = _Lists(values, keys, header_blobs, each, base)
    size, largest = lists.measure()
    if size < 0:
        lists = _Lists(
            plain_bytes(values, "value"),
            None if keys is None else plain_bytes(keys, "key"),
            header_blobs,
            each,
            base,
        )
        size, largest = lists.measure()
    if size >= 0:
        encoded = new_buffer(room + size)
        if lists.write(data_address(encoded) + room, size) == size:
            return as_bytes(encoded), base, largest
    raise RuntimeError("the lists changed while they were being encoded")


def put_header(encoded: bytes | bytearray, header: bytes) -> bytes:
    """The batch with `header` in the room that was left for it: the same object where that can be.
    The caller is the only one who has seen it.
    """
    if not Switch.on:
        return header + memoryview(encoded)[len(header) :]
    put_bytes(data_address(encoded), data_address(header), len(header))
    return as_bytes(encoded)


class _Lists:
    """The columns as real lists, which the kernels know by address; they live as long as this."""

    def __init__(
        self,
        values: Sequence[bytes | None],
        keys: Sequence[bytes | None] | None,
        header_blobs: Sequence[bytes | None] | None,
        timestamps: NDArray[np.int64],
        base_timestamp: int,
    ) -> None:
        self._values = values if type(values) is list else list(values)
        self._keys = keys if keys is None or type(keys) is list else list(keys)
        blobs = header_blobs
        self._blobs = blobs if blobs is None or type(blobs) is list else list(blobs)
        self._timestamps = timestamps
        self._base_timestamp = base_timestamp

    def measure(self) -> tuple[int, int]:
        return measure_lists(*self._arguments())

    def write(self, address: int, capacity: int) -> int:
        return write_lists(address, capacity, *self._arguments())

    def _arguments(self) -> tuple[int, int, int, Any, int, int, int, int]:
        return (
            id(self._values),
            0 if self._keys is None else id(self._keys),
            0 if self._blobs is None else id(self._blobs),
            self._timestamps,
            self._base_timestamp,
            len(self._values),
            NONE,
            BYTES_TYPE,
        )


def _words(timestamps: Any) -> NDArray[np.int64]:
    """A writable int64 array, as the kernel's signature has it; no copy of `array('q')` or of
    numpy's own.
    """
    if type(timestamps) is array and timestamps.typecode == "q":
        return np.frombuffer(timestamps, np.int64)
    if isinstance(timestamps, np.ndarray):
        words = np.ascontiguousarray(timestamps, np.int64)
        return words if words.flags.writeable else words.copy()
    return np.fromiter(timestamps, np.int64, len(timestamps))
