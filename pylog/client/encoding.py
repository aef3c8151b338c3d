"""From users' values to bytes: keys, values, headers, and whole batches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Final

from pylog import errors
from pylog.client.accumulator import Batch, HeaderList
from pylog.records import kernels
from pylog.records.batch import with_producer
from pylog.records.builder import encode_batch
from pylog.records.compression import Compression

_HEADER_OVERHEAD: Final = 10
"""Two lengths as varints, at most."""


def to_bytes(data: Any, topic: str, what: str) -> bytes | None:
    """The default serializer: bytes as they are, str as UTF-8, None stays None."""
    if data is None or type(data) is bytes:
        return data
    if isinstance(data, str):
        try:
            return data.encode()
        except UnicodeEncodeError as error:
            raise errors.SerializationFailed(f"topic {topic}: the {what}: {error}") from error
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(data)
    raise errors.SerializationFailed(
        f"topic {topic}: the {what} is {type(data).__name__}; it must be bytes, str or None. For "
        f"other types give Producer(serializer=...)"
    )


def header_list(headers: Iterable[tuple[str, Any]] | Mapping[str, Any], topic: str) -> HeaderList:
    """Checked pairs of (str, bytes or None), in the given order; keys may repeat."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    checked: list[tuple[str, bytes | None]] = []
    for pair in pairs:
        if not isinstance(pair, tuple | list) or len(pair) != 2 or not isinstance(pair[0], str):
            raise errors.SerializationFailed(
                f"topic {topic}: a header must be a pair of str and bytes, str or None, not "
                f"{pair!r}"
            )
        checked.append((pair[0], to_bytes(pair[1], topic, f"header {pair[0]!r}")))
    return checked


def record_size(headers: HeaderList) -> int:
    """An upper bound of what the headers add to a record."""
    return sum(
        len(name) * 4 + (len(value) if value is not None else 0) + _HEADER_OVERHEAD
        for name, value in headers
    )


def compression_of(values: Mapping[str, Any]) -> Compression:
    """What `compression.type` and the level settings ask for, as parsed settings hold them.

    InvalidConfig for gzip's level 0, which is neither a level nor the default; the table's range
    cannot say that.
    """
    if values["compression.gzip.level"] == 0:
        raise errors.InvalidConfig(
            "compression_gzip_level=0: it must be a whole number from 1 to 9, or -1"
        )
    name = values["compression.type"]
    return Compression.of(name, values.get(f"compression.{name}.level"))


@cache
def load_kernels() -> None:
    """Have the compiled encoder ready: a third of a second, once in a process.

    Without this the first batch of many records loads it, on the loop, and everybody waits.
    """
    kernels.warm(columns=False)


def batch_bytes(batch: Batch, compression: Compression) -> bytes:
    """The batch's bytes; the same for every retry under one producer id."""
    if batch.encoded is None:
        batch.encoded = encode_batch(
            batch.values,
            keys=batch.keys,
            headers=[pairs or () for pairs in batch.headers] if batch.headers else None,
            timestamps=batch.timestamps,
            compression=compression,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            base_sequence=batch.base_sequence,
        )
        batch.stamped_id = batch.producer_id
        batch.forget_records()
    elif batch.stamped_id != batch.producer_id:
        batch.encoded = with_producer(
            batch.encoded, batch.producer_id, batch.producer_epoch, batch.base_sequence
        )
        batch.stamped_id = batch.producer_id
    return batch.encoded
