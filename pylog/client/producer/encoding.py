"""From users' values to bytes: keys, values, headers, and whole batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from pylog import errors
from pylog.client.arguments import whole_or_none
from pylog.client.producer.producer_settings import Serialize
from pylog.client.sending.producer_batch import (
    BATCH_OVERHEAD,
    RECORD_OVERHEAD,
    Batch,
    HeaderList,
)
from pylog.client.sending.record_times import RecordTimes
from pylog.model import NO_PRODUCER_ID
from pylog.records.batch import with_producer
from pylog.records.builder import encode_batch
from pylog.records.compression import Compression
from pylog.records.reader import iter_records

_HEADER_OVERHEAD: Final = 10
"""Two lengths as varints, at most."""

LOADING_NS: Final = 300_000_000
"""About what loading the kernels from their cache takes of a processor."""


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


def serialized(serialize: Serialize | None, topic: str, data: Any, what: str) -> bytes | None:
    """By the user's serializer, or without one by `to_bytes`."""
    if serialize is None:
        return to_bytes(data, topic, what)
    try:
        return to_bytes(serialize(topic, data), topic, what)
    except errors.PylogError:
        raise
    except Exception as error:
        raise errors.SerializationFailed(
            f"topic {topic}: the serializer failed on the {what}: {error!r}"
        ) from error


def stamp_of(topic: str, timestamp_ms: int) -> int:
    """A timestamp of the user's, as batches keep it: inverted, to be told from the clock's."""
    number = whole_or_none(timestamp_ms, 0)
    if number is None:
        raise errors.InvalidTimestamp(
            f"topic {topic}: timestamp_ms={timestamp_ms!r}; it must be a whole number from 0 to "
            f"2^63-1, in milliseconds since 1970"
        )
    return ~number


def header_list(headers: Iterable[tuple[str, Any]] | Mapping[str, Any], topic: str) -> HeaderList:
    """Checked pairs of (str, bytes or None), in the given order; keys may repeat."""
    pairs: Iterable[Any] = headers.items() if isinstance(headers, Mapping) else headers
    if isinstance(headers, str | bytes) or not isinstance(headers, Iterable):
        raise errors.SerializationFailed(
            f"topic {topic}: headers={headers!r}; give pairs of str and bytes, str or None"
        )
    checked: list[tuple[str, bytes | None]] = []
    for pair in pairs:
        if not isinstance(pair, tuple | list) or len(pair) != 2 or not isinstance(pair[0], str):
            raise errors.SerializationFailed(
                f"topic {topic}: a header must be a pair of str and bytes, str or None, not "
                f"{pair!r}"
            )
        name = pair[0]
        if not name.isascii():
            to_bytes(name, topic, f"header's name {name!a}")
        checked.append((name, to_bytes(pair[1], topic, f"header {name!a}")))
    return checked


def record_size(headers: HeaderList) -> int:
    """An upper bound of what the headers add to a record."""
    return sum(
        len(name) * 4 + (len(value) if value is not None else 0) + _HEADER_OVERHEAD
        for name, value in headers
    )


def compression_of(values: Mapping[str, Any]) -> Compression:
    """The compression of `compression.type` and the level settings, as parsed settings hold them.

    InvalidConfig for gzip's level 0, which is neither a level nor the default; the table's range
    cannot say that.
    """
    if values["compression.gzip.level"] == 0:
        raise errors.InvalidConfig(
            "compression_gzip_level=0: it must be a whole number from 1 to 9, or -1"
        )
    name = values["compression.type"]
    return Compression.of(name, values.get(f"compression.{name}.level"))


class PlainTime:
    """Processor time that went into encoding without compiled kernels: whether they are worth their
    loading, which takes as much. A twentieth of the time that passes is forgiven: a producer that
    sends little never loads them.
    """

    __slots__ = ("_spent_ns", "_until_ms")

    def __init__(self) -> None:
        self._until_ms = 0
        self._spent_ns = 0

    def is_too_long(self, now_ms: int, more_ns: int) -> bool:
        """Whether it is, with `more_ns` of now."""
        forgiven_ns = (now_ms - self._until_ms) * 1_000_000 // 20
        self._spent_ns = max(self._spent_ns - forgiven_ns, 0) + more_ns
        self._until_ms = now_ms
        return self._spent_ns >= LOADING_NS


def batch_bytes(batch: Batch, compression: Compression, *, transactional: bool = False) -> bytes:
    """The batch's bytes; the same for every retry under one producer id. One that came encoded
    tells itself whether it is of a transaction.
    """
    if batch.encoded is None:
        values, keys, headers = batch.columns()
        batch.encoded = encode_batch(
            values,
            keys=keys,
            headers=[pairs or () for pairs in headers] if headers else None,
            timestamps=_timestamps(batch.times, len(values)),
            compression=compression,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            base_sequence=batch.base_sequence,
            transactional=transactional,
        )
        batch.stamped_id = batch.producer_id
        batch.forget_records()
    elif batch.stamped_id != batch.producer_id:
        place = batch.producer_id, batch.producer_epoch, batch.base_sequence
        if batch.stamped_id == NO_PRODUCER_ID:  # came encoded, and was never sent
            from pylog.records.arrow_encoder import stamp_producer  # what encoded it has loaded it

            batch.encoded = stamp_producer(batch.encoded, *place)
        else:
            batch.encoded = with_producer(batch.encoded, *place)
        batch.stamped_id = batch.producer_id
    return batch.encoded


def _timestamps(times: RecordTimes, count: int) -> Sequence[int] | int:
    """The one of all `count` records, or one each; in milliseconds."""
    if times.common is not None:
        return times.common
    return times.of_all(count)


def split_batch(batch: Batch, size_max: int, make_delivery: Callable[[], Any]) -> list[Batch]:
    """The records of an encoded batch in batches of at most `size_max` bytes, uncompressed, where
    no single record is larger; at least two batches.
    """
    assert batch.encoded is not None
    assert batch.count > 1
    topic, partition = batch.topic_partition
    records = list(iter_records(batch.encoded, topic, partition))
    parts: list[Batch] = []
    for index, record in enumerate(records):
        size = RECORD_OVERHEAD + len(record.value or b"") + len(record.key or b"")
        size += record_size(record.headers)
        last = index == len(records) - 1 and len(parts) == 1
        if not parts or parts[-1].room < size or last:
            if parts:
                parts[-1].close()
            limit = max(size_max, size + BATCH_OVERHEAD)
            parts.append(Batch(batch.topic_partition, batch.created_ms, make_delivery(), limit))
        part = parts[-1]
        part.add(record.value, record.key, record.headers, ~record.timestamp_ms, size)
    parts[-1].close()
    return parts
