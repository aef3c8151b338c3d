"""The Arrow columns of records: those of Spark's Kafka source, by name, order and type."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

HEADER_TYPE: Final = pa.struct([("key", pa.string()), ("value", pa.binary())])
FIELDS: Final = (
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("timestamp", pa.timestamp("us", tz="UTC")),
    pa.field("timestampType", pa.int32()),
)

RECORD_SCHEMA: Final = pa.schema(FIELDS)
"""All nullable, as Spark's are."""
RECORD_SCHEMA_WITH_HEADERS: Final = pa.schema((*FIELDS, pa.field("headers", pa.list_(HEADER_TYPE))))


def record_schema(include_headers: bool) -> pa.Schema:
    """The columns of decoded records."""
    return RECORD_SCHEMA_WITH_HEADERS if include_headers else RECORD_SCHEMA
