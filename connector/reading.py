"""What a source's task does: a range of offsets in, Arrow record batches out.

Runs in Spark's Python workers, on any executor; pyarrow, numba and gRPC are loaded here, when a
task runs, and nowhere earlier.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from socket import gethostname
from typing import TYPE_CHECKING, Final

from connector.clients import reader_for
from connector.errors import ConnectorError, DamagedBatch, DataLoss, ReadFailed
from connector.forensics import why_deleted
from connector.options import SourceOptions
from connector.planning import ALLOW
from connector.positions import EARLIEST, LATEST
from connector.ranges import ReadRange
from connector.warming import warm
from pylog.errors import PylogError
from pylog.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from pylog.client.ranges.range_reader import RangeItems, RangeReader
    from pylog.records.batch import Buffer

logger = logging.getLogger("pylog.connector")

ARROW_BYTES_MAX: Final = 2 << 20
"""Of one record batch to Spark, about: its memory stays in the processor's caches, and the next one
uses it again. Spark's own bound counts rows, and is not told to sources."""
COMPRESSED_WEIGHT: Final = 8
"""How much a compressed batch is taken to grow, for `ARROW_BYTES_MAX`; slices mend the rest."""

ASKED_MAX: Final = 4
"""Ranges of one task that are asked for at once: where each holds a few records, their answers are
what takes time. A range holds a few fetches in memory."""


def _load() -> None:
    """Everything that a read needs; also opens the way for connections."""
    import pylog.client.fetching.fetch_answers
    import pylog.client.ranges.range_reader
    import pylog.records.columnar
    import pylog.records.transactions  # noqa: F401


def read_ranges(
    ranges: Sequence[ReadRange], options: SourceOptions, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """The records of one task's ranges, in their order, as Arrow record batches with these columns.

    Raises DataLoss when some are gone and that is not allowed, ReadFailed for everything else; both
    name topic and partition.
    """
    warm(_load)
    reader = reader_for(options)
    asked: deque[tuple[ReadRange, RangeItems]] = deque()
    try:
        for planned in ranges:
            with _named(planned):
                for concrete in _resolved(reader, planned):
                    asked.append((concrete, _ask(reader, concrete)))
                    if len(asked) >= ASKED_MAX:
                        yield from _records(reader, *asked.popleft(), options, columns)
        while asked:
            yield from _records(reader, *asked.popleft(), options, columns)
    finally:
        for _, items in asked:
            items.close()


@contextmanager
def _named(planned: ReadRange) -> Iterator[None]:
    """The cluster's errors as the source's."""
    try:
        yield
    except ConnectorError:
        raise
    except PylogError as error:
        raise ReadFailed(
            f"{planned.topic}-{planned.partition}: {error.name}: {error} (tried from host "
            f"{gethostname()})"
        ) from error


def _ask(reader: RangeReader, wanted: ReadRange) -> RangeItems:
    return reader.read(wanted.topic, wanted.topic_id, wanted.partition, wanted.start, wanted.end)


def _records(
    reader: RangeReader,
    wanted: ReadRange,
    items: RangeItems,
    options: SourceOptions,
    columns: Sequence[str],
) -> Iterator[pa.RecordBatch]:
    try:
        with _named(wanted):
            yield from _read(reader, wanted, items, options, columns)
    finally:
        items.close()


def _resolved(reader: RangeReader, planned: ReadRange) -> Iterator[ReadRange]:
    """The range with its symbolic ends looked up, then those of the others it looks after."""
    if planned.start != EARLIEST and planned.end != LATEST and planned.others is None:
        yield planned
        return
    found = reader.topics([planned.topic]).get(planned.topic)
    if found is None or planned.topic_id not in ("", found.topic_id):
        raise ReadFailed(
            f"topic {planned.topic} was deleted{' and created again' if found else ''} after the "
            "read was planned; load it again"
        )
    count = len(found.partitions)
    wanted = [(planned.partition, planned.start, LATEST, planned.end, planned.end_time)]
    others = planned.others
    if others is not None:
        added = range(others.first, count, others.step) if others.step else ()
        time = LATEST if others.start_time is None else others.start_time
        wanted += [
            (p, EARLIEST if time < 0 else LATEST, time, LATEST, others.end_time)
            for p in (*others.empty, *added)
        ]
    for partition, start, start_time, end, end_time in wanted:
        at = TopicPartition(planned.topic, partition)
        late_start = start == EARLIEST
        if start < 0:
            start = _offset(reader, at, EARLIEST_TIMESTAMP if late_start else start_time)
        if end == LATEST:
            end = _offset(reader, at, LATEST_TIMESTAMP if end_time is None else end_time)
        if start < end:
            yield replace(
                planned,
                topic_id=found.topic_id,
                partition=partition,
                start=start,
                end=end,
                from_earliest=late_start
                or (planned.from_earliest and partition == planned.partition),
                others=None,
            )


def _offset(reader: RangeReader, at: TopicPartition, time_ms: int) -> int:
    """The first offset of a time or later, the end where no record is that late."""
    offset = reader.offsets([at], time_ms)[at].offset
    return offset if offset >= 0 else reader.offsets([at], LATEST_TIMESTAMP)[at].offset


def _read(
    reader: RangeReader,
    wanted: ReadRange,
    items: RangeItems,
    options: SourceOptions,
    columns: Sequence[str],
) -> Iterator[pa.RecordBatch]:
    from pylog.client.ranges.range_reader import Damaged, Skipped, TopicGone

    at = TopicPartition(wanted.topic, wanted.partition)
    where = str(at)
    position = wanted.start
    try:
        for item in items:
            if isinstance(item, Skipped):
                # A start at "earliest" may move between its look-up and the first fetch.
                if not (wanted.from_earliest and item.wanted == wanted.start):
                    _lost(
                        f"{where} was to be read from offset {item.wanted} to {wanted.end}, but "
                        f"its first offset is {item.first} by now: "
                        f"{item.first - item.wanted} records were deleted "
                        f"{why_deleted(options, reader, at)}",
                        options,
                    )
                position = item.first
                continue
            if isinstance(item, Damaged):
                _damaged(
                    f"{where}, offsets {item.wanted} to {item.first - 1}, cannot be read: "
                    f"{item.reason}",
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
        raise DataLoss(f"{what}; {ALLOW}")
    logger.warning("%s", DataLoss(what))


def _damaged(what: str, options: SourceOptions) -> None:
    if options.fail_on_data_loss:
        raise DamagedBatch(
            f"{what}. Restore the file and start its broker again; or step over these records "
            "with failOnDataLoss=false, or with startingOffsets behind them in a new query"
        )
    logger.warning("%s; stepped over", DamagedBatch(what))


def _chunks(data: Buffer) -> Iterator[memoryview]:
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
