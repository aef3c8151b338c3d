"""What a source's task does: a range of offsets in, Arrow record batches out.

Runs in Spark's Python workers, on any executor; pyarrow, numba and gRPC are loaded here, when a
task runs, and nowhere earlier.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from connector.clients import reader_for
from connector.errors import DataLoss, ReadFailed
from connector.options import SourceOptions
from connector.planning import ReadRange
from connector.positions import EARLIEST, LATEST
from pylog.errors import PylogError
from pylog.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from pylog.client.range_reader import RangeReader

logger = logging.getLogger("pylog.connector")

ARROW_BYTES_MAX: Final = 16 << 20
"""Of one record batch to Spark. Spark's own bound counts rows, and is not told to sources."""
COMPRESSED_WEIGHT: Final = 8
"""How much a compressed batch is taken to grow, for `ARROW_BYTES_MAX`; slices mend the rest."""
_ALLOW: Final = "set failOnDataLoss=false to go on with what is there"


def read_range(
    planned: ReadRange, options: SourceOptions, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """The records of a planned range as Arrow record batches with these columns.

    Raises DataLoss when some are gone and that is not allowed, ReadFailed for everything else; both
    name topic and partition.
    """
    reader = reader_for(options)
    try:
        for concrete in _resolved(reader, planned):
            yield from _read(
                reader, concrete, options, columns, late_start=planned.start == EARLIEST
            )
    except (DataLoss, ReadFailed):
        raise
    except PylogError as error:
        raise ReadFailed(f"{planned.topic}-{planned.partition}: {error.name}: {error}") from error


def _resolved(reader: RangeReader, planned: ReadRange) -> Iterator[ReadRange]:
    """The range with its symbolic ends looked up, then those of partitions added since."""
    if planned.start != EARLIEST and planned.end != LATEST:
        yield planned
        return
    found = reader.topics([planned.topic]).get(planned.topic)
    if found is None or planned.topic_id not in ("", found.topic_id):
        raise ReadFailed(
            f"topic {planned.topic} was deleted{' and created again' if found else ''} after the "
            "read was planned; load it again"
        )
    step = planned.stride or len(found.partitions)
    for partition in range(planned.partition, len(found.partitions), step):
        at = TopicPartition(planned.topic, partition)
        start, end = planned.start, planned.end
        if start == EARLIEST:
            start = reader.offsets([at], EARLIEST_TIMESTAMP)[at].offset
        if end == LATEST:
            end = reader.offsets([at], LATEST_TIMESTAMP)[at].offset
        if start < end:
            yield replace(
                planned, topic_id=found.topic_id, partition=partition, start=start, end=end
            )


def _read(
    reader: RangeReader,
    wanted: ReadRange,
    options: SourceOptions,
    columns: Sequence[str],
    *,
    late_start: bool,
) -> Iterator[pa.RecordBatch]:
    from pylog.client.range_reader import Skipped, TopicGone

    where = f"{wanted.topic}-{wanted.partition}"
    position = wanted.start
    items = reader.read(wanted.topic, wanted.topic_id, wanted.partition, wanted.start, wanted.end)
    try:
        for item in items:
            if isinstance(item, Skipped):
                # A start at "earliest" may move between its look-up and the first fetch.
                if not (late_start and item.wanted == wanted.start):
                    _lost(
                        f"{where} was to be read from offset {item.wanted} to {wanted.end}, but "
                        f"its first offset is {item.first} by now: "
                        f"{item.first - item.wanted} records were deleted by retention or by "
                        "request",
                        options,
                    )
                position = item.first
                continue
            for chunk in _chunks(item.data):
                yield from _decoded(chunk, wanted, position, options, columns)
    except TopicGone as error:
        _lost(f"{where}, offsets {wanted.start} to {wanted.end}: {error}", options)


def _lost(what: str, options: SourceOptions) -> None:
    if options.fail_on_data_loss:
        raise DataLoss(f"{what}; {_ALLOW}")
    logger.warning("%s", DataLoss(what))


def _chunks(data: bytes) -> Iterator[memoryview]:
    """The batches of a fetch in groups that become at most about `ARROW_BYTES_MAX` each."""
    from pylog.records.batch import iter_headers

    view = memoryview(data)
    begin, end, weight = 0, 0, 0
    for position, header in iter_headers(data):
        heavy = header.size * (COMPRESSED_WEIGHT if header.compression else 1)
        if weight and weight + heavy > ARROW_BYTES_MAX:
            yield view[begin:end]
            begin, weight = position, 0
        end = position + header.size
        weight += heavy
    if end > begin:
        yield view[begin:end]


def _decoded(
    chunk: memoryview,
    wanted: ReadRange,
    position: int,
    options: SourceOptions,
    columns: Sequence[str],
) -> Iterator[pa.RecordBatch]:
    from pylog.records.columnar import decode_to_arrow

    batch = decode_to_arrow(
        chunk,
        wanted.topic,
        wanted.partition,
        from_offset=position,
        to_offset=wanted.end,
        include_headers=options.include_headers,
        check_crcs=options.client["check.crcs"],
    )
    if not batch.num_rows:
        return
    if batch.schema.names != list(columns):
        batch = batch.select(list(columns))
    rows = max(1, batch.num_rows * ARROW_BYTES_MAX // max(batch.nbytes, ARROW_BYTES_MAX))
    for first in range(0, batch.num_rows, rows):
        yield batch if rows >= batch.num_rows else batch.slice(first, rows)
