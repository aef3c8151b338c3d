"""The faults of a batch's records: the codes that kernels return and the words that people read."""

from __future__ import annotations

from typing import Final

from pylog.errors import InvalidRecord

NONE: Final = 0
VARINT: Final = 1
LENGTH: Final = 2
KEY: Final = 3
VALUE: Final = 4
HEADERS: Final = 5
UNFILLED: Final = 6
OFFSET: Final = 7
TRAILING: Final = 8
TIMESTAMP: Final = 9

RECORD_SIZE_MIN: Final = 7
"""Length, attributes, two deltas, key length, value length, header count: one byte each. A declared
record count above `bytes / 7` is a lie, found before anything is allocated for it."""

_TEXTS: Final = {
    VARINT: "a varint is cut, too long or out of range",
    LENGTH: "its length does not fit the batch",
    KEY: "its key's length does not fit the record",
    VALUE: "its value's length does not fit the record",
    HEADERS: "its headers do not fit the record, or a header key is null",
    UNFILLED: "its fields do not fill its length",
    OFFSET: "its offset is not the one its place in the batch asks for",
    TIMESTAMP: "its timestamp, in milliseconds, does not fit 64 bits as microseconds",
    TRAILING: "bytes follow the last record that the header counts",
}


def invalid_record(fault: int, index: int) -> InvalidRecord:
    """The error for a kernel's (fault, index)."""
    return InvalidRecord(f"record {index} of the batch: {_TEXTS[fault]}", record_index=index)


def invalid_count(count: int, size: int) -> InvalidRecord:
    """The error for a declared record count that `size` bytes cannot hold."""
    return InvalidRecord(
        f"the batch declares {count} records, but its {size} bytes of records hold "
        f"between 1 and {size // RECORD_SIZE_MIN}"
    )
