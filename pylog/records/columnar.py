"""Record batches to Arrow columns: the shape that Spark and `poll_arrow` hand out.

Whole fetches at once, by compiled kernels (`compiled_columns`) or, without numba, in plain Python
(`plain_columns`). The other direction, `encode_from_arrow`, is `arrow_encoder`'s and named here
too.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

import pyarrow as pa

from pylog.errors import PylogError
from pylog.records import compiled
from pylog.records.arrow_encoder import encode_from_arrow
from pylog.records.arrow_schema import RECORD_SCHEMA, RECORD_SCHEMA_WITH_HEADERS, record_schema
from pylog.records.batch import Buffer
from pylog.records.compression import DECOMPRESSED_BYTES_MAX

__all__ = [
    "RECORD_SCHEMA",
    "RECORD_SCHEMA_WITH_HEADERS",
    "decode_to_arrow",
    "encode_from_arrow",
    "record_schema",
]

_ENGINE: Final[Any] = import_module(
    f"pylog.records.{'compiled_columns' if compiled.is_there() else 'plain_columns'}"
)
"""The module that decodes in this process; loaded with this one, which is imported ahead of
need."""
_OFFSET_MAX: Final = 2**63 - 1


def decode_to_arrow(
    buffer: Buffer,
    topic: str,
    partition: int,
    *,
    from_offset: int = 0,
    to_offset: int | None = None,
    include_headers: bool = False,
    check_crcs: bool = True,
    max_decompressed_bytes: int = DECOMPRESSED_BYTES_MAX,
) -> pa.RecordBatch:
    """The records with `from_offset <= offset < to_offset` of the batches in `buffer`.

    A cut last batch and control batches are left out. A record without headers has null there, as
    in Spark's Kafka source. Raises CorruptMessage for a CRC that does not match, InvalidRecord for
    records that break the format, InvalidTimestamp for one beyond microseconds in 64 bits,
    MessageTooLarge when a column would pass 2 GiB, UnsupportedCompressionType; each names topic,
    partition and offset.
    """
    columns, error, _ = decode_readable(
        buffer,
        topic,
        partition,
        from_offset=from_offset,
        to_offset=to_offset,
        include_headers=include_headers,
        check_crcs=check_crcs,
        max_decompressed_bytes=max_decompressed_bytes,
    )
    if error is not None:
        raise error
    return columns


def decode_readable(
    buffer: Buffer,
    topic: str,
    partition: int,
    *,
    from_offset: int = 0,
    to_offset: int | None = None,
    include_headers: bool = False,
    check_crcs: bool = True,
    max_decompressed_bytes: int = DECOMPRESSED_BYTES_MAX,
) -> tuple[pa.RecordBatch, PylogError | None, int]:
    """(columns, error, its offset): as `decode_to_arrow`, but what stands before the first batch
    that cannot be read is given, and what `decode_to_arrow` raises stands beside it.
    """
    decoded: tuple[pa.RecordBatch, PylogError | None, int] = _ENGINE.decode_readable(
        buffer,
        topic,
        partition,
        from_offset=from_offset,
        to_offset=_OFFSET_MAX if to_offset is None else to_offset,
        include_headers=include_headers,
        check_crcs=check_crcs,
        max_decompressed_bytes=max_decompressed_bytes,
    )
    return decoded
