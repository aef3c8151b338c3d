"""A Python data source over memory alone, format `memory_rows`, beside which pylog's is
measured.

Imports nothing of pylog: Spark's workers load this module, and collect what it brings.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

CHUNK = 50_000
MICRO_BATCH_ROWS = 1_000
SCHEMA = (
    "key binary, value binary, topic string, partition int, offset long, "
    "timestamp timestamp, timestampType int"
)


@cache
def rows_in_memory(count: int, size: int, partition: int) -> pa.RecordBatch:
    """`count` rows of the source's columns."""
    return pa.record_batch(
        [
            pa.nulls(count, pa.binary()),
            pa.array([b"x" * size] * count, pa.binary()),
            pa.array(["topic"] * count, pa.string()),
            pa.array([partition] * count, pa.int32()),
            pa.array(range(count), pa.int64()),
            pa.array([0] * count, pa.timestamp("us", "UTC")),
            pa.array([0] * count, pa.int32()),
        ],
        names=[part.split()[0] for part in SCHEMA.split(", ")],
    )


class MemoryReader(DataSourceReader):
    """Yields ready-made Arrow batches, as fast as a Python source can."""

    def __init__(self, rows: int, size: int, partitions: int) -> None:
        self._rows, self._size, self._partitions = rows, size, partitions

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(n) for n in range(self._partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        count = min(CHUNK, self._rows // self._partitions)
        batch = rows_in_memory(count, self._size, partition.value)
        for _ in range(self._rows // self._partitions // count):
            yield batch


class MemoryStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Micro-batches of one task that reads from memory: the time is that of Spark's engine
    itself.
    """

    def __init__(self, rows: int, size: int, rows_a_batch: int) -> None:
        self._rows, self._size, self._rows_a_batch = rows, size, rows_a_batch

    def initialOffset(self) -> dict[str, int]:
        return {"row": 0}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        return {"row": min(start["row"] + self._rows_a_batch, self._rows)}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._rows_a_batch)

    def prepareForTriggerAvailableNow(self) -> None:
        pass

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [InputPartition(end["row"] - start["row"])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield rows_in_memory(partition.value, self._size, 0)


class DroppingWriter(DataSourceArrowWriter):
    """Takes Arrow batches and forgets them, as fast as a Python sink can."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()


class MemorySource(DataSource):
    """Format `memory_rows`: reads from memory, drops what is written."""

    @classmethod
    def name(cls) -> str:
        return "memory_rows"

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: Any) -> DataSourceReader:
        options = self.options
        return MemoryReader(int(options["rows"]), int(options["size"]), int(options["partitions"]))

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        options = self.options
        rows_a_batch = int(options.get("rowsABatch", MICRO_BATCH_ROWS))
        return MemoryStreamReader(int(options["rows"]), int(options["size"]), rows_a_batch)

    def writer(self, schema: Any, overwrite: bool) -> DataSourceArrowWriter:
        return DroppingWriter()
