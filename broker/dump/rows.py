"""Every kind of file that pylog (or Apache Kafka) keeps in a data directory, as plain rows.

A row is a dict of JSON values in the order to print; `BadFile` says where a file stops making
sense. Nothing here writes, locks or repairs.
"""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Final

from pylog.errors import CorruptMessage, PylogError
from pylog.records import compiled
from pylog.records.batch import BatchHeader, CompressionType, crc_matches, read_header
from pylog.records.builder import read_control
from pylog.records.reader import decode_columns
from pylog.records.record_columns import RecordColumns
from pylog_broker.kafka_primitives import MalformedMessage
from pylog_broker.storage.checkpoints.checkpoints import EPOCH_CHECKPOINT
from pylog_broker.storage.directories.clean_marker import CLEAN_MARKER
from pylog_broker.storage.directories.clock_checkpoint import parse_reading
from pylog_broker.storage.directories.partition_directories import CLOCK_CHECKPOINT
from pylog_broker.storage.directories.roster import ROSTER, Roster
from pylog_broker.storage.errors import InvalidOffset
from pylog_broker.storage.indexes import offset_index, time_index
from pylog_broker.storage.indexes.txn_index import decode_entries
from pylog_broker.storage.producers.producer_snapshot import (
    BadSnapshot,
    decode_companion,
    decode_snapshot,
)
from pylog_broker.storage.segments.segment import (
    CUT_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    PRODUCERS_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
)

Row = dict[str, Any]

_STATES: Final = (".deleted", ".cleaned", ".swap")
METADATA_DIRECTORY: Final = "__cluster_metadata-0"


class BadFile(ValueError):
    """The rest of the file makes no sense; the message says where and why."""


def text_of(data: bytes | None) -> Any:
    """Bytes as UTF-8 text, or `{"base64": ...}` where they are not."""
    if data is None:
        return None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}


def rows_of(path: Path) -> Iterator[Row] | None:
    """The rows of a file; None for a file of no kind that is known here."""
    name = path.name
    for state in _STATES:
        name = name.removesuffix(state)
    decoder = _BY_NAME.get(name)
    if decoder is None and name.endswith("-checkpoint"):
        decoder = offset_rows
    if decoder is None:
        decoder = next((d for suffix, d in _BY_SUFFIX.items() if name.endswith(suffix)), None)
    return None if decoder is None else decoder(path)


# ---- logs ---------------------------------------------------------------------------------------


def batches(data: bytes) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of each batch, its CRC checked. BadFile.

    Zeros from the end of a batch to the file's are no fault: `preallocate` puts them there.
    """
    position, end = 0, len(data.rstrip(b"\0"))  # inside the last batch, which may end with zeros
    while position < end:
        try:
            header = read_header(data, position)
        except CorruptMessage as error:
            raise BadFile(f"no batch at position {position}: {error}") from error
        if position + header.size > len(data):
            raise BadFile(
                f"the batch at position {position} takes {header.size} bytes; "
                f"{len(data) - position} are there"
            )
        if not crc_matches(data, position, header):
            raise BadFile(
                f"the batch at position {position} (offset {header.base_offset}) does not match "
                "its CRC"
            )
        yield position, header
        position += header.size


def log_rows(path: Path) -> Iterator[Row]:
    """A row of kind `batch` for each batch, and behind it one for each record."""
    data = path.read_bytes()
    if not compiled.is_small_read(len(data)):
        compiled.load()
    is_metadata = path.parent.name == METADATA_DIRECTORY
    is_coordinators = _is_coordinators_log(path.parent.name)
    for position, header in batches(data):
        yield _batch_row(position, header)
        try:
            columns = decode_columns(data, position, header)
        except PylogError as error:
            raise BadFile(f"the records of the batch at position {position}: {error}") from error
        if header.is_control:
            yield from _control_rows(header, columns)
        elif is_metadata:
            yield from _metadata_rows(columns)
        elif is_coordinators:
            yield from _coordinator_rows(path.parent.name, columns)
        else:
            yield from _record_rows(header, columns)


def _batch_row(position: int, header: BatchHeader) -> Row:
    try:
        codec = CompressionType(header.compression).name.lower()
    except ValueError:
        codec = str(header.compression)
    return {
        "kind": "batch",
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "count": header.record_count,
        "position": position,
        "size": header.size,
        "leader_epoch": header.partition_leader_epoch,
        "timestamp_type": header.timestamp_type.name,
        "max_timestamp": header.max_timestamp,
        "compression": codec,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "transactional": header.is_transactional,
        "control": header.is_control,
        "crc": header.crc,
    }


def _record_rows(header: BatchHeader, columns: RecordColumns) -> Iterator[Row]:
    lines = zip(
        columns.offsets(),
        columns.keys(),
        columns.values(),
        columns.timestamps(),
        columns.headers(),
        strict=True,
    )
    for offset, key, value, timestamp, headers in lines:
        row = {
            "kind": "record",
            "offset": offset,
            "key": text_of(key),
            "value": text_of(value),
            "timestamp": timestamp,
            "headers": [[name, text_of(data)] for name, data in headers],
        }
        if header.producer_id >= 0:
            row["producer_id"] = header.producer_id
            row["sequence"] = header.base_sequence + offset - header.base_offset
        yield row


def _control_rows(header: BatchHeader, columns: RecordColumns) -> Iterator[Row]:
    lines = zip(
        columns.offsets(), columns.keys(), columns.values(), columns.timestamps(), strict=True
    )
    for offset, key, value, timestamp in lines:
        row = {"kind": "record", "offset": offset, "key": None, "value": None}
        row |= {"timestamp": timestamp, "headers": [], "producer_id": header.producer_id}
        try:
            control, coordinator_epoch = read_control(key, value)
            row |= {"control": control.name, "coordinator_epoch": coordinator_epoch}
        except PylogError:
            row |= {"control": "other", "key": text_of(key), "value": text_of(value)}
        yield row


def _metadata_rows(columns: RecordColumns) -> Iterator[Row]:
    from pylog_broker.controller.metadata_batches import part_of
    from pylog_broker.metadata.record_codec import record_from_bytes

    number, count = part_of(columns)
    part = {} if count == 1 else {"part": f"{number}/{count}"}
    lines = zip(columns.offsets(), columns.values(), columns.timestamps(), strict=True)
    for offset, value, timestamp in lines:
        try:
            record = record_from_bytes(value or b"")
        except PylogError as error:
            raise BadFile(f"the metadata record at offset {offset}: {error}") from error
        yield {
            "kind": "record",
            "offset": offset,
            "timestamp": timestamp,
            "type": type(record).__name__.removesuffix("Record"),
            "record": plain(record),
            **part,
        }


def _is_coordinators_log(directory: str) -> bool:
    if not directory.startswith("__"):
        return False
    from pylog_broker.dump.coordinator_records import has_coordinator_records

    return has_coordinator_records(directory)


def _coordinator_rows(directory: str, columns: RecordColumns) -> Iterator[Row]:
    from pylog_broker.dump.coordinator_records import fields_of

    lines = zip(
        columns.offsets(), columns.keys(), columns.values(), columns.timestamps(), strict=True
    )
    for offset, key, value, timestamp in lines:
        try:
            known = fields_of(directory, key, value)
        except MalformedMessage as error:
            raise BadFile(f"the coordinator's record at offset {offset}: {error}") from error
        shown = {"type": "unknown", "key": text_of(key), "value": text_of(value)}
        row = {"kind": "record", "offset": offset, **plain(known or shown)}
        yield row | {"timestamp": timestamp, "headers": []}


def plain(value: object) -> Any:
    """A record's dataclass as JSON values."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple | list | set | frozenset):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, bytes):
        return text_of(value)
    return value if isinstance(value, str | int | float | bool | type(None)) else str(value)


def metadata_snapshot_rows(path: Path) -> Iterator[Row]:
    """The records of a snapshot of the metadata."""
    from pylog_broker.controller.metadata_snapshots import read_snapshot

    try:
        records = read_snapshot(path.read_bytes())
    except (PylogError, ValueError) as error:
        raise BadFile(f"no snapshot of the metadata: {error}") from error
    for record in records:
        kind = type(record).__name__.removesuffix("Record")
        yield {"kind": "metadata", "type": kind, "record": plain(record)}


# ---- indexes ------------------------------------------------------------------------------------


def _base_of(path: Path) -> int:
    stem = path.name.partition(".")[0]
    if not stem.isdigit():
        raise BadFile(f"{path.name} does not begin with a base offset")
    return int(stem)


def _headers_beside(path: Path) -> dict[int, BatchHeader] | None:
    """The batches of the segment that an index belongs to, by position; None without one."""
    ending = next((state for state in _STATES if path.name.endswith(state)), "")
    log = path.with_name(path.name.partition(".")[0] + LOG_SUFFIX + ending)
    if not log.exists():
        return None
    found: dict[int, BatchHeader] = {}
    with contextlib.suppress(BadFile):  # the log's own dump tells
        found.update(batches(log.read_bytes()))
    return found


def _entries(path: Path, size: int) -> bytes:
    """The entries of an index file, without the zeros that Kafka has set aside behind them."""
    data = path.read_bytes()
    if len(data) % size:
        raise BadFile(f"{len(data)} bytes are no multiple of {size}")
    used = len(data.rstrip(b"\0"))
    return data[: -(-used // size) * size]


def index_rows(path: Path) -> Iterator[Row]:
    """Entries of an offset index, each compared with the batch that it leads to."""
    base = _base_of(path)
    known = _headers_beside(path)
    last = (-1, -1)
    for relative, position in offset_index.ENTRY.iter_unpack(
        _entries(path, offset_index.ENTRY.size)
    ):
        offset = base + relative
        if (offset, position) <= last or position <= last[1]:
            raise BadFile(f"offset {offset} at position {position} does not follow {last}")
        last = (offset, position)
        if known is not None and (position not in known or known[position].last_offset != offset):
            raise BadFile(f"no batch that ends with offset {offset} begins at position {position}")
        yield {"kind": "index", "offset": offset, "position": position}


def time_index_rows(path: Path) -> Iterator[Row]:
    """Entries of a time index, each compared with the batch that brought it."""
    base = _base_of(path)
    known = _headers_beside(path)
    by_offset = {header.last_offset: header for header in (known or {}).values()}
    last = (-1, -1)
    for timestamp, relative in time_index.ENTRY.iter_unpack(_entries(path, time_index.ENTRY.size)):
        offset = base + relative
        if timestamp <= last[0] or offset <= last[1]:
            raise BadFile(f"timestamp {timestamp} at offset {offset} does not follow {last}")
        last = (timestamp, offset)
        header = by_offset.get(offset)
        if known is not None and (header is None or header.max_timestamp != timestamp):
            raise BadFile(f"no batch with timestamp {timestamp} ends with offset {offset}")
        yield {"kind": "timeindex", "timestamp": timestamp, "offset": offset}


def txn_index_rows(path: Path) -> Iterator[Row]:
    """Aborted transactions."""
    try:
        entries = decode_entries(path.read_bytes(), _base_of(path))
    except InvalidOffset as error:
        raise BadFile(str(error)) from error
    for entry in entries:
        yield {"kind": "txnindex", **entry._asdict()}


# ---- producers ----------------------------------------------------------------------------------


def snapshot_rows(path: Path) -> Iterator[Row]:
    """The producers in Kafka's snapshot."""
    try:
        rows = decode_snapshot(path.read_bytes())
    except BadSnapshot as error:
        raise BadFile(str(error)) from error
    for row in rows:
        yield {"kind": "snapshot", **row._asdict()}


def producers_rows(path: Path) -> Iterator[Row]:
    """The producers in the companion of a snapshot, with all their batches."""
    try:
        found, forgot = decode_companion(path.read_bytes())
    except BadSnapshot as error:
        raise BadFile(str(error)) from error
    for producer_id, (seen_ms, kept) in found.items():
        yield {
            "kind": "producers",
            "producer_id": producer_id,
            "seen": seen_ms,
            "some_forgotten": forgot,
            "batches": [batch._asdict() for batch in kept],
        }


# ---- texts --------------------------------------------------------------------------------------


def _table(path: Path, columns: int) -> list[list[str]]:
    try:
        lines = path.read_text("ascii").splitlines()
        rows = [line.split(" ") for line in lines[2:]]
        version, count = int(lines[0]), int(lines[1])
    except (ValueError, IndexError, UnicodeDecodeError) as error:
        raise BadFile(f"no checkpoint: {error}") from error
    if version != 0 or count != len(rows) or any(len(row) != columns for row in rows):
        raise BadFile(f"version {version} with {count} entries declared, {len(rows)} found")
    return rows


def offset_rows(path: Path) -> Iterator[Row]:
    """A checkpoint of offsets by partition."""
    for topic, partition, offset in _table(path, 3):
        yield {
            "kind": "checkpoint",
            "topic": topic,
            "partition": _number(partition),
            "offset": _number(offset),
        }


def epoch_rows(path: Path) -> Iterator[Row]:
    """Leader epochs and where they began."""
    for epoch, start in _table(path, 2):
        yield {"kind": "epoch", "epoch": _number(epoch), "start_offset": _number(start)}


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise BadFile(f"{text!r} is no number") from error


def property_rows(path: Path) -> Iterator[Row]:
    """`meta.properties` or `partition.metadata`."""
    separator = ":" if path.name == "partition.metadata" else "="
    for line in path.read_text("utf-8", errors="replace").splitlines():
        if line.strip() and not line.startswith("#"):
            name, _, value = line.partition(separator)
            yield {"kind": "property", "name": name.strip(), "value": value.strip()}


def marker_rows(path: Path) -> Iterator[Row]:
    """The clean-stop marker: what each log consisted of."""
    try:
        content = json.loads(path.read_text("utf-8"))
        version, logs = content["version"], content.get("logs", {})
    except (ValueError, KeyError, AttributeError) as error:
        raise BadFile(f"no marker of a clean stop: {error}") from error
    yield {"kind": "marker", "version": version, "broker_epoch": content.get("brokerEpoch")}
    for name, log in sorted(logs.items()):
        yield {"kind": "marker", "log": name, **log}


def clock_rows(path: Path) -> Iterator[Row]:
    """A broker's readings of its clocks: milliseconds, the monotonic ones since the boot."""
    try:
        _, boot_id, numbers = path.read_text("ascii").rstrip("\n").split("\n")
        known = parse_reading(numbers)
    except (ValueError, TypeError) as error:
        raise BadFile(f"no checkpoint of the clocks: {error}") from error
    yield {
        "kind": "clock",
        "boot_id": boot_id,
        "now_ms": known.now_ms,
        "wall_ms": known.wall_ms,
        "steps": [step._asdict() for step in known.steps],
    }


def roster_rows(path: Path) -> Iterator[Row]:
    """The log directories that a broker has, as each of them remembers it."""
    try:
        roster = Roster.decode(path.read_bytes())
    except ValueError as error:
        raise BadFile(f"no list of log directories: {error}") from error
    for directory, directory_id in sorted(roster.ids.items()):
        yield {
            "kind": "log_directory",
            "generation": roster.generation,
            "path": directory,
            "directory_id": directory_id,
            "doubtful": directory in roster.doubtful,
        }


_BY_NAME: Final[dict[str, Callable[[Path], Iterator[Row]]]] = {
    EPOCH_CHECKPOINT: epoch_rows,
    CLEAN_MARKER: marker_rows,
    ROSTER: roster_rows,
    CLOCK_CHECKPOINT: clock_rows,
    "meta.properties": property_rows,
    "partition.metadata": property_rows,
}
_BY_SUFFIX: Final[dict[str, Callable[[Path], Iterator[Row]]]] = {
    LOG_SUFFIX: log_rows,
    LOG_SUFFIX + CUT_SUFFIX: log_rows,
    TIME_INDEX_SUFFIX: time_index_rows,
    TXN_INDEX_SUFFIX: txn_index_rows,
    INDEX_SUFFIX: index_rows,
    SNAPSHOT_SUFFIX: snapshot_rows,
    PRODUCERS_SUFFIX: producers_rows,
    ".metadata-snapshot": metadata_snapshot_rows,
    ".checkpoint": metadata_snapshot_rows,
}
