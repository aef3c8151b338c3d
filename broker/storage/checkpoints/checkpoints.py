"""The small text files beside the logs, in Kafka's formats.

Offset checkpoints of a log directory and the epoch checkpoint of a partition:

    0                                   0
    <number of entries>                 <number of entries>
    <topic> <partition> <offset>        <epoch> <start offset>

All are hints for the next start. One that is missing or makes no sense is read as empty (with a
warning), and what it would have told is found in the logs or taken at its safest.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Final

from pylog.model import LeaderEpoch, Offset, TopicPartition
from pylog_broker.storage.checkpoints.leader_epochs import EpochEntry
from pylog_broker.storage.files import Files

EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
HIGH_WATERMARK_CHECKPOINT: Final = "replication-offset-checkpoint"
RECOVERY_POINT_CHECKPOINT: Final = "recovery-point-offset-checkpoint"
CLEANER_CHECKPOINT: Final = "cleaner-offset-checkpoint"
LOG_START_CHECKPOINT: Final = "log-start-offset-checkpoint"

_VERSION: Final = 0

logger = logging.getLogger(__name__)


def read_offsets(files: Files, path: str) -> dict[TopicPartition, Offset]:
    """The offsets of a checkpoint; of two entries for one partition, the smaller."""
    offsets: dict[TopicPartition, Offset] = {}
    for fields in _read(files, path, columns=3):
        key = TopicPartition(fields[0], int(fields[1]))
        offset = Offset(int(fields[2]))
        if key in offsets:
            logger.warning("%s has two entries for %s: taking the smaller", path, key)
            offset = min(offset, offsets[key])
        offsets[key] = offset
    return offsets


def write_offsets(files: Files, path: str, offsets: Mapping[TopicPartition, Offset]) -> None:
    """Replace an offset checkpoint, durably."""
    files.write_atomic(path, encode_offsets(offsets))


def encode_offsets(offsets: Mapping[TopicPartition, Offset]) -> bytes:
    """The content of an offset checkpoint."""
    rows = (f"{key.topic} {key.partition} {offset}" for key, offset in sorted(offsets.items()))
    return _encode(rows)


def read_epochs(files: Files, path: str) -> list[EpochEntry]:
    """The entries of an epoch checkpoint; empty when they are not strictly increasing."""
    entries = [
        EpochEntry(LeaderEpoch(int(epoch)), Offset(int(start)))
        for epoch, start in _read(files, path, columns=2)
    ]
    for before, after in pairwise(entries):
        if after.epoch <= before.epoch or after.start_offset <= before.start_offset:
            logger.warning("%s is not in order: epochs are taken from the log", path)
            return []
    return entries


def write_epochs(files: Files, path: str, entries: Iterable[EpochEntry]) -> None:
    """Replace an epoch checkpoint, durably."""
    files.write_atomic(path, _encode(f"{epoch} {start}" for epoch, start in entries))


def _encode(rows: Iterable[str]) -> bytes:
    lines = list(rows)
    text = "\n".join([str(_VERSION), str(len(lines)), *lines]) + "\n"
    return text.encode("ascii")


def _read(files: Files, path: str, *, columns: int) -> list[list[str]]:
    """The rows, or none when the file is missing or damaged."""
    status = files.stat(path)
    if status is None:
        return []
    try:
        if status.kind != "file":
            raise ValueError("it is no file")
        lines = files.read_all(path).decode("ascii").splitlines()
        if not lines or int(lines[0]) != _VERSION:
            raise ValueError(f"the first line is {lines[0]!r}" if lines else "it is empty")
        rows = [line.split(" ") for line in lines[2:]]
        if int(lines[1]) != len(rows):
            raise ValueError(f"{lines[1]} entries are declared, {len(rows)} are there")
        for row in rows:
            numbers = row[-2:]
            if len(row) != columns or not all(n.isascii() and n.isdigit() for n in numbers):
                raise ValueError(f"the line {' '.join(row)[:100]!r} makes no sense")
    except (ValueError, IndexError) as error:
        logger.warning("ignoring the checkpoint %s: %s", path, error)
        return []
    return rows
