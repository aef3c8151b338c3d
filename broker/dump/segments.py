"""One row for a segment as a whole: what its log file holds, and how far its indexes go."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pylog_broker.dump.rows import (
    BadFile,
    Row,
    batches,
    index_rows,
    time_index_rows,
    txn_index_rows,
)
from pylog_broker.storage.segments.segment import (
    CUT_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
)


def segment_rows(path: Path) -> Iterator[Row] | None:
    """One row for the segment of a log file, then BadFile if it or an index is damaged; None for a
    file that is no log.

    `max_timestamp_offset` is the last offset of the batch that has it, as in a time index;
    `bytes_since_index_entry` counts from the batch that the last entry leads to.
    """
    return _row(path) if LOG_SUFFIX in path.name and not path.name.endswith(CUT_SUFFIX) else None


def _row(path: Path) -> Iterator[Row]:
    stem, _, ending = path.name.partition(LOG_SUFFIX)
    row: Row = {"kind": "segment", "base_offset": int(stem) if stem.isdigit() else None}
    counts = {"next_offset": row["base_offset"], "batches": 0, "records": 0, "bytes": 0}
    first, largest, largest_at = -1, -1, -1
    damage = ""
    try:
        for position, header in batches(path.read_bytes()):
            counts["next_offset"] = header.last_offset + 1
            counts["batches"] += 1
            counts["records"] += header.record_count
            counts["bytes"] = position + header.size
            if first < 0:
                first = header.max_timestamp
            if header.max_timestamp > largest:
                largest, largest_at = header.max_timestamp, header.last_offset
    except BadFile as error:
        damage = str(error)
    row |= counts | {
        "first_timestamp": first,
        "max_timestamp": largest,
        "max_timestamp_offset": largest_at,
    }
    indexed = 0
    for name, suffix, rows in (
        ("index_entries", INDEX_SUFFIX, index_rows),
        ("time_index_entries", TIME_INDEX_SUFFIX, time_index_rows),
        ("aborted_transactions", TXN_INDEX_SUFFIX, txn_index_rows),
    ):
        row[name] = 0
        beside = path.with_name(f"{stem}{suffix}{ending}")
        try:
            if beside.exists():
                for entry in rows(beside):
                    row[name] += 1
                    indexed = entry.get("position", indexed)
        except BadFile as error:
            damage = damage or f"{beside.name}: {error}"
    row["bytes_since_index_entry"] = row["bytes"] - indexed
    yield row
    if damage:
        raise BadFile(damage)
