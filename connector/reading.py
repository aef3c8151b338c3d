"""The work of a source's task: a range of offsets in, Arrow record batches out.

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
from typing import TYPE_CHECKING, Final, NamedTuple

from pylog.errors import PylogError
from pylog.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition
from pylog_connector.clients import reader_for
from pylog_connector.errors import ConnectorError, DamagedBatch, DataLoss, ReadFailed
from pylog_connector.forensics import why_deleted, why_overwritten
from pylog_connector.leases import kept
from pylog_connector.narrowing import Narrowing
from pylog_connector.option_names import in_options
from pylog_connector.options import SourceOptions
from pylog_connector.planning import ALLOW
from pylog_connector.positions import EARLIEST, LATEST
from pylog_connector.ranges import PlannedLease, ReadRange
from pylog_connector.warming import warm

if TYPE_CHECKING:
    import pyarrow as pa

    from pylog.client.ranges.range_reader import RangeItems, RangeReader
    from pylog.records.batch import Buffer

logger = logging.getLogger("pylog.connector")

ARROW_BYTES_MAX: Final = 2 << 20
"""The most bytes, about, of one record batch to Spark: its memory stays in the processor's caches,
and the next one uses it again. Spark's own bound counts rows, and is not told to sources."""
COMPRESSED_WEIGHT: Final = 8
"""The factor by which a compressed batch is taken to grow, for `ARROW_BYTES_MAX`; slices mend the
rest."""

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
    ranges: Sequence[ReadRange],
    options: SourceOptions,
    columns: Sequence[str],
    lease: PlannedLease | None = None,
) -> Iterator[pa.RecordBatch]:
    """The records of one task's ranges, in their order, as Arrow record batches with these columns.
    The lease of the batch, if it has one, is renewed meanwhile.

    Raises DataLoss when some are gone and that is not allowed, ReadFailed for everything else; both
    name topic and partition.
    """
    warm(_load)
    reader = reader_for(options)
    with kept(lease, ranges, reader, options):
        yield from _read_all(reader, ranges, options, columns)


def _read_all(
    reader: RangeReader,
    ranges: Sequence[ReadRange],
    options: SourceOptions,
    columns: Sequence[str],
) -> Iterator[pa.RecordBatch]:
    asked: deque[tuple[ReadRange, RangeItems]] = deque()
    try:
        for planned in ranges:
            with _named(planned, options):
                for concrete in _resolved(reader, planned, options):
                    asked.append((concrete, _ask(reader, concrete)))
                    if len(asked) >= ASKED_MAX:
                        yield from _records(reader, *asked.popleft(), options, columns)
        while asked:
            yield from _records(reader, *asked.popleft(), options, columns)
    finally:
        for _, items in asked:
            items.close()


@contextmanager
def _named(planned: ReadRange, options: SourceOptions) -> Iterator[None]:
    """The cluster's errors as the source's."""
    try:
        yield
    except ConnectorError:
        raise
    except PylogError as error:
        why = in_options(str(error), options.bootstrap_option)
        raise ReadFailed(
            f"{planned.topic}-{planned.partition}: {error.name}: {why} (tried from host "
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
        with _named(wanted, options):
            yield from _read(reader, wanted, items, options, columns)
    finally:
        items.close()


def _resolved(
    reader: RangeReader, planned: ReadRange, options: SourceOptions
) -> Iterator[ReadRange]:
    """The range with its symbolic ends looked up, then those of the others it looks after."""
    late = planned.start == EARLIEST or planned.end == LATEST or planned.others is not None
    if not late and not planned.lenient:
        yield planned
        return
    found = reader.topics([planned.topic]).get(planned.topic)
    if found is None or planned.topic_id not in ("", found.topic_id):
        what = (
            f"topic {planned.topic} was deleted{' and created again' if found else ''} after the "
            "read was planned"
        )
        if not planned.lenient:
            raise ReadFailed(f"{what}; load it again, or {ALLOW}")
        _lost(what, options)
    if found is None:
        return
    for each in _wanted(planned, len(found.partitions)):
        at = TopicPartition(planned.topic, each.partition)
        start, end = each.start, each.end
        if each.partition >= len(found.partitions):
            _lost(f"{at} was to be read, and the topic has no such partition any more", options)
            continue
        if start < 0:
            start = _offset(reader, at, EARLIEST_TIMESTAMP if start == EARLIEST else each.time)
        if end == LATEST:
            end = _offset(reader, at, LATEST_TIMESTAMP if each.end_time is None else each.end_time)
        elif planned.lenient:
            end = _held(reader, at, start, end, options)
        if start < end:
            _check_is_not_overwritten(planned, each, start, options)
            yield replace(
                planned,
                topic_id=found.topic_id,
                partition=each.partition,
                start=start,
                end=end,
                from_earliest=each.start == EARLIEST
                or (planned.from_earliest and each.partition == planned.partition),
                others=None,
            )


def _check_is_not_overwritten(
    planned: ReadRange, wanted: _Wanted, start: int, options: SourceOptions
) -> None:
    """Other tasks may have read what was there before. A partition that had records at planning
    begins behind them then, and one that had none begins with those of the write.
    """
    was_empty = wanted.partition != planned.partition or planned.size == 0
    if wanted.start != EARLIEST or not (was_empty or start > planned.known[0]):
        return
    at = TopicPartition(planned.topic, wanted.partition)
    why = why_overwritten(options, at, start, with_rows=was_empty)
    if why is not None:
        _lost(
            f"{at} was to be read from its start, and what it had when the read was planned is "
            f"gone {why}; load it again",
            options,
        )


class _Wanted(NamedTuple):
    """A partition's range: a start of `LATEST` is the first record of `time`."""

    partition: int
    start: int
    time: int
    end: int
    end_time: int | None


def _wanted(planned: ReadRange, count: int) -> list[_Wanted]:
    """The range's own partition and those that it looks after, of a topic that has `count`."""
    own = _Wanted(planned.partition, planned.start, LATEST, planned.end, planned.end_time)
    others = planned.others
    if others is None:
        return [own]
    added = range(others.first, count, others.step) if others.step else ()
    time = LATEST if others.start_time is None else others.start_time
    start = EARLIEST if time < 0 else LATEST
    return [own] + [
        _Wanted(p, start, time, LATEST, others.end_time) for p in (*others.empty, *added)
    ]


def _held(
    reader: RangeReader, at: TopicPartition, start: int, end: int, options: SourceOptions
) -> int:
    """`end`, or where the log ends before it, readable by now or not."""
    latest = reader.offsets([at], LATEST_TIMESTAMP)[at].offset
    latest = max(latest, reader.high_watermarks([at]).get(at, 0))
    if end > latest:
        _lost(f"{at} was to be read from offset {start} to {end}, but it ends at {latest}", options)
    return min(end, latest)


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
                # A start at "earliest" may move between its look-up and the first fetch; but one
                # that an overwrite moves would leave a part of what was there.
                moved = wanted.from_earliest and item.wanted == wanted.start
                if not moved or why_overwritten(options, at, item.first) is not None:
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
            check_crcs = options.client["check.crcs"] and not item.checked
            for chunk in _chunks(item.data, options.narrowing):
                yield from _decoded(chunk, wanted, position, options, columns, check_crcs)
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


def _chunks(data: Buffer, narrowing: Narrowing) -> Iterator[memoryview]:
    """The batches of a fetch in groups that become at most about `ARROW_BYTES_MAX` each, without
    those that hold nothing of what is wanted.
    """
    from pylog.records.batch import iter_headers

    view = memoryview(data)
    begin, end, weight = 0, 0, 0
    for position, header in iter_headers(data):
        if not narrowing.may_hold(header.max_timestamp):
            if end > begin:
                yield view[begin:end]
            begin = end = position + header.size
            weight = 0
            continue
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
    check_crcs: bool,
) -> Iterator[pa.RecordBatch]:
    from pylog.records.columnar import decode_to_arrow

    batch = decode_to_arrow(
        chunk,
        wanted.topic,
        wanted.partition,
        from_offset=position,
        to_offset=wanted.end,
        include_headers=options.include_headers,
        check_crcs=check_crcs,
    )
    if not batch.num_rows:
        return
    if options.narrowing:
        batch = options.narrowing.of(batch)
        if not batch.num_rows:
            return
    if batch.schema.names != list(columns):
        batch = batch.select(list(columns))
    rows = max(1, batch.num_rows * ARROW_BYTES_MAX // max(batch.nbytes, ARROW_BYTES_MAX))
    for first in range(0, batch.num_rows, rows):
        yield batch if rows >= batch.num_rows else batch.slice(first, rows)
