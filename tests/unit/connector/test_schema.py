from __future__ import annotations

import subprocess
import sys

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from pylog_connector.errors import SinkSchema, SourceSchema
from pylog_connector.schema import check_sink_schema, projection, source_schema

HEADERS = source_schema(include_headers=True)["headers"].dataType


def columns(**types: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in types.items()])


def test_the_sources_columns() -> None:
    assert source_schema(include_headers=True).simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,"
        "timestamp:timestamp,timestampType:int,headers:array<struct<key:string,value:binary>>>"
    )
    assert (
        source_schema(include_headers=False).names == source_schema(include_headers=True).names[:7]
    )


def test_a_projection() -> None:
    assert projection(columns(offset=LongType(), key=BinaryType()), include_headers=False) == (
        "offset",
        "key",
    )
    for schema, words in (
        (columns(nope=StringType()), ["no column nope", "it has key, value"]),
        (columns(headers=HEADERS), ["no column headers", "includeHeaders=true"]),
        (columns(value=StringType()), ["value is string", "source's is binary"]),
        (StructType([StructField("key", BinaryType(), False)]), ["key is binary not null"]),
    ):
        with pytest.raises(SourceSchema) as error:
            projection(schema, include_headers=False)
        for word in words:
            assert word in str(error.value)


def test_what_the_sink_writes() -> None:
    everything = columns(
        key=StringType(),
        value=BinaryType(),
        topic=StringType(),
        partition=IntegerType(),
        offset=LongType(),
        timestamp=TimestampType(),
        headers=HEADERS,
    )
    assert check_sink_schema(everything, topic_option=False) == (
        "value", "key", "topic", "partition", "timestamp", "headers",
    )  # fmt: skip
    assert "topic" not in check_sink_schema(everything, topic_option=True)
    small = columns(value=StringType(), partition=ShortType())
    assert check_sink_schema(small, topic_option=True) == ("value", "partition")
    # With the option the column's type does not matter, as with Spark's Kafka sink.
    odd = columns(value=StringType(), topic=LongType())
    assert check_sink_schema(odd, topic_option=True) == ("value",)


@pytest.mark.parametrize(
    ("schema", "topic", "words"),
    [
        (columns(v=StringType()), True, ["value is missing among v"]),
        (columns(Value=StringType()), True, ["value is missing among Value"]),
        (columns(), True, ["among no columns"]),
        (columns(value=StringType()), False, ["neither the option topic nor a column topic"]),
        (columns(value=LongType()), True, ["value is bigint", "string or binary"]),
        (columns(value=StringType(), key=LongType()), True, ["key is bigint"]),
        (columns(value=StringType(), topic=LongType()), False, ["topic is bigint"]),
        (columns(value=StringType(), partition=LongType()), True, ["partition is bigint", "int"]),
        (columns(value=StringType(), timestamp=LongType()), True, ["timestamp is bigint"]),
        (
            columns(value=StringType(), timestamp=TimestampNTZType()),
            True,
            ["timestamp is timestamp_ntz", "cast it", "the session's time zone"],
        ),
        (columns(value=StringType(), headers=StringType()), True, ["headers is string"]),
        (
            columns(value=StringType(), headers=ArrayType(StringType())),
            True,
            ["headers is array<string>", "array<struct<key:string,value:binary>>"],
        ),
        (
            columns(value=StringType(), headers=MapType(StringType(), BinaryType())),
            True,
            ["headers is map"],
        ),
        (
            StructType([StructField("value", StringType()), StructField("value", StringType())]),
            True,
            ["value occurs twice"],
        ),
    ],
)
def test_what_the_sink_refuses(schema: StructType, topic: bool, words: list[str]) -> None:
    with pytest.raises(SinkSchema) as error:
        check_sink_schema(schema, topic_option=topic)
    for word in words:
        assert word in str(error.value)


def test_looking_the_format_up_loads_nothing_heavy() -> None:
    """Spark imports every `pyspark_*` module at look-up and builds writers in short processes."""
    program = (
        "import sys, pyspark_pylog as m\n"
        "from pyspark.sql.types import StructType, StructField, StringType\n"
        "s = StructType([StructField('value', StringType())])\n"
        "o = {'pylog.bootstrap.servers': 'h:1'}\n"
        "m.DefaultSource({**o, 'topic': 'a'}).streamWriter(s, False).commit([], 0)\n"
        "r = m.DefaultSource({**o, 'subscribe': 'a'})\n"
        "r.streamReader(r.schema())\n"
        "print(sorted({'numba', 'grpc', 'pyarrow', 'numpy', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
