"""Lists of bytes to one batch by the compiled kernels: measured, then written once, in place."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pylog.records.batch import HEADER_SIZE, CompressionType, finish_header, seal
from pylog.records.builder import plain_bytes
from pylog.records.compression import compress
from pylog.records.encode_kernels import measure_lists, put_bytes, write_lists
from pylog.records.raw_memory import BYTES_TYPE, NONE, data_address, new_buffer

_NO_TIMESTAMPS: Final = np.empty(0, np.int64)
_NO_TIMESTAMPS.flags.writeable = False


def encode_lists(
    header_of: Callable[..., bytearray],
    codec: CompressionType,
    values: Sequence[bytes | None],
    keys: Sequence[bytes | None] | None,
    header_blobs: Sequence[bytes | None] | None,
    timestamps: Sequence[int] | int,
) -> bytes:
    """The batch; `header_of` completes its header from `base_timestamp` and `max_timestamp`.

    TypeError for a value or key that is not bytes or None.
    """
    if isinstance(timestamps, int):
        each, base, largest = _NO_TIMESTAMPS, timestamps, timestamps
    else:
        each = _words(timestamps)
        base, largest = int(each[0]), int(each.max())
    lists = _Lists(values, keys, header_blobs, each, base)
    size = lists.measure()
    if size < 0:
        lists = _Lists(
            plain_bytes(values, "value"),
            None if keys is None else plain_bytes(keys, "key"),
            header_blobs,
            each,
            base,
        )
        size = lists.measure()
    start = HEADER_SIZE if codec is CompressionType.NONE else 0
    batch = new_buffer(start + size)
    if size < 0 or lists.write(data_address(batch) + start, size) != size:
        raise RuntimeError("the lists changed while they were being encoded")
    header = header_of(base_timestamp=base, max_timestamp=largest)
    if start == 0:
        return seal(header, compress(codec, batch))
    finish_header(header, memoryview(batch)[start:])
    first = bytes(header)
    put_bytes(data_address(batch), data_address(first), HEADER_SIZE)
    return batch


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

    def measure(self) -> int:
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
    """A read-only int64 array; no copy for numpy's int64 and for `array('q')`."""
    if isinstance(timestamps, (np.ndarray, array)):
        words = np.ascontiguousarray(timestamps, np.int64)
    else:
        words = np.fromiter(timestamps, np.int64, len(timestamps))
    view = words.view()
    view.flags.writeable = False
    return view
