"""The columns of source and sink as Spark types, and the checks of a user's schema against them.

Nothing here loads pyarrow: Spark builds writers in short-lived processes.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from pylog_connector.errors import SinkSchema, SourceSchema

_HEADERS: Final = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType())])
)
_SOURCE: Final = (
    StructField("key", BinaryType()),
    StructField("value", BinaryType()),
    StructField("topic", StringType()),
    StructField("partition", IntegerType()),
    StructField("offset", LongType()),
    StructField("timestamp", TimestampType()),
    StructField("timestampType", IntegerType()),
)

_BYTES: Final = (BinaryType, StringType)
_SINK: Final[dict[str, tuple[tuple[type[DataType], ...], str]]] = {
    "value": (_BYTES, "string or binary"),
    "key": (_BYTES, "string or binary"),
    "topic": ((StringType,), "string"),
    "partition": ((IntegerType, ShortType, ByteType), "int"),
    "timestamp": ((TimestampType,), "timestamp"),
    "headers": ((ArrayType,), "array<struct<key:string,value:binary>>"),
}


def source_schema(*, include_headers: bool) -> StructType:
    """The columns that the source yields, which are those of Spark's Kafka source."""
    fields = list(_SOURCE)
    if include_headers:
        fields.append(StructField("headers", _HEADERS))
    return StructType(fields)


def projection(schema: StructType, *, include_headers: bool) -> tuple[str, ...]:
    """The columns that a schema given by `.schema(...)` selects, in its order.

    SourceSchema when it is not a selection of the source's columns with their own types.
    """
    known = {field.name: field for field in source_schema(include_headers=include_headers)}
    names: list[str] = []
    for field in schema.fields:
        own = known.get(field.name)
        if own is None:
            hint = (
                "set includeHeaders=true for it"
                if field.name == "headers"
                else f"it has {', '.join(known)}"
            )
            raise SourceSchema(f"the source has no column {field.name}; {hint}")
        if own.dataType != field.dataType or not field.nullable:
            raise SourceSchema(
                f"column {field.name} is {field.dataType.simpleString()}"
                f"{'' if field.nullable else ' not null'} in the given schema, and the source's is "
                f"{own.dataType.simpleString()}; leave .schema() out, and cast afterwards"
            )
        if field.name in names:
            raise SourceSchema(f"column {field.name} is in the given schema twice")
        names.append(field.name)
    return tuple(names)


def check_sink_schema(schema: StructType, *, topic_option: bool) -> tuple[str, ...]:
    """The columns that the sink writes, of those that a DataFrame has; others are left alone.

    Names are case-sensitive, and with the option `topic` the column of that name is not looked at,
    both as in Spark's Kafka sink. SinkSchema names the column, its type and what is allowed.
    """
    written = []
    fields: dict[str, DataType] = {}
    for field in schema.fields:
        if field.name in fields and field.name in _SINK:
            raise SinkSchema(f"the column {field.name} occurs twice; drop or rename one")
        fields[field.name] = field.dataType
    if "value" not in fields:
        raise SinkSchema(
            f"the column value is missing among {', '.join(fields) or 'no columns'}; "
            "select what to write as value (string or binary), for example "
            "to_json(struct('*')) as value"
        )
    if not topic_option and "topic" not in fields:
        raise SinkSchema(
            "there is neither the option topic nor a column topic (string); give one of them"
        )
    for name, (kinds, words) in _SINK.items():
        if name not in fields or (name == "topic" and topic_option):
            continue
        kind = fields[name]
        if not isinstance(kind, kinds) or (name == "headers" and not _is_headers(kind)):
            zoned = (
                ": cast it, which takes it for a time of the session's time zone"
                if isinstance(kind, TimestampNTZType)
                else ""
            )
            raise SinkSchema(
                f"the column {name} is {kind.simpleString()}; it must be {words}{zoned}"
            )
        written.append(name)
    return tuple(written)


def _is_headers(kind: DataType) -> bool:
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    fields = kind.elementType.fields
    return (
        [field.name for field in fields] == ["key", "value"]
        and isinstance(fields[0].dataType, StringType)
        and isinstance(fields[1].dataType, BinaryType)
    )
