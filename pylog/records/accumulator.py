"""One batch that grows record by record until it is full, then becomes bytes.

For the producer: appending only stores references and adds up a size; the encoding happens at
once, in a kernel, when the batch is sealed. Not thread safe: the owner's lock covers it.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Final

from pylog.records.batch import HEADER_SIZE
from pylog.records.builder import encode_batch
from pylog.records.compression import Compression
from pylog.records.headers import NO_HEADERS, Header, encode_headers

SMALL_RECORD_BYTES: Final = 8000
"""Up to this many bytes of key, value and headers, every length takes a varint of two bytes at
most."""
SMALL_RECORD_OVERHEAD: Final = 2 + 1 + 3 + 3 + 2 + 2
"""Length, attributes, timestamp delta, offset delta, key length, value length of a small record
whose timestamp lies within 17 minutes of the first one's and whose batch holds under a million
records."""
RECORD_OVERHEAD: Final = 5 + 1 + 10 + 5 + 5 + 5
"""The same for any record."""
SMALL_DELTA_MS: Final = 1 << 20
RECORDS_MAX: Final = 1 << 20


def record_size_bound(data_bytes: int, timestamp_delta_ms: int = 0) -> int:
    """At least the bytes that a record takes in a batch, uncompressed; at most 17 more than it.

    `data_bytes` counts key, value and encoded headers (1 byte without any).
    """
    if data_bytes <= SMALL_RECORD_BYTES and -SMALL_DELTA_MS < timestamp_delta_ms < SMALL_DELTA_MS:
        return data_bytes + SMALL_RECORD_OVERHEAD
    return data_bytes + RECORD_OVERHEAD


class BatchBuilder:
    """Collects records for one batch of at most `batch_size` bytes.

    Invariant: `size` is never below the uncompressed size of the batch. Compression is not
    guessed at: a compressed batch comes out smaller than `batch_size`.
    """

    __slots__ = (
        "_first_timestamp",
        "_headers",
        "_keys",
        "batch_size",
        "compression",
        "size",
        "timestamps",
        "values",
    )

    def __init__(self, batch_size: int, compression: str | Compression = "none") -> None:
        self.batch_size = batch_size
        self.compression = compression
        self.size = HEADER_SIZE
        self.values: list[bytes | None] = []
        self.timestamps = array("q")  # read by the kernel as it is
        self._keys: list[bytes | None] | None = None
        self._headers: list[bytes | None] | None = None
        self._first_timestamp = 0

    def __len__(self) -> int:
        return len(self.values)

    def try_append(
        self,
        value: bytes | None,
        key: bytes | None,
        headers: Iterable[Header] | None,
        timestamp_ms: int,
    ) -> int:
        """The record's index in the batch, or -1 when the batch is too full for it.

        An empty batch takes any record: the broker's limit, not `batch_size`, is the measure of one
        record. Raises TypeError for a malformed header.
        """
        values = self.values
        index = len(values)
        blob = encode_headers(headers) if headers else None
        data = len(blob) if blob is not None else len(NO_HEADERS)
        if value is not None:
            data += len(value)
        if key is not None:
            data += len(key)
        if index == 0:
            self._first_timestamp = timestamp_ms
        size = self.size + record_size_bound(data, timestamp_ms - self._first_timestamp)
        if index and (size > self.batch_size or index >= RECORDS_MAX):
            return -1
        self.size = size
        values.append(value)
        self.timestamps.append(timestamp_ms)
        # The two rarer columns exist only from the first record that needs them.
        if self._keys is not None:
            self._keys.append(key)
        elif key is not None:
            self._keys = [None] * index + [key]
        if self._headers is not None:
            self._headers.append(blob)
        elif blob is not None:
            self._headers = [None] * index + [blob]
        return index

    @property
    def is_full(self) -> bool:
        """No record fits any more, however small."""
        return self.size + SMALL_RECORD_OVERHEAD + 1 > self.batch_size

    def seal(
        self,
        *,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        transactional: bool = False,
    ) -> bytes:
        """The batch's bytes. May be called again: a retry under the same ids is byte-identical."""
        return encode_batch(
            self.values,
            keys=self._keys,
            header_blobs=self._headers,
            timestamps=self.timestamps,
            compression=self.compression,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            transactional=transactional,
        )
