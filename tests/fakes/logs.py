"""Logs and batches for storage tests."""

from __future__ import annotations

from collections.abc import Sequence

from pylog.model import LeaderEpoch, TopicId, TopicPartition
from pylog.records.batch import iter_headers
from pylog.records.builder import encode_batch
from pylog.records.reader import iter_records
from pylog_broker.config import TopicConfig
from pylog_broker.storage.files import Files
from pylog_broker.storage.log.log import Environment, Log
from pylog_broker.storage.recovery.recovery import LastStop

TOPIC = TopicPartition("t", 0)
TOPIC_ID = TopicId("t" * 21 + "A")
DIRECTORY = "/data/t-0"
WALL_MS = 1_700_000_000_000


def open_log(
    files: Files,
    *,
    directory: str = DIRECTORY,
    config: TopicConfig | None = None,
    last_stop: LastStop | None = None,
    log_start_offset: int = 0,
    environment: Environment | None = None,
) -> Log:
    """A log of topic t, partition 0."""
    return Log.open(
        files,
        directory,
        TOPIC,
        TOPIC_ID,
        config or TopicConfig(),
        wall_ms=WALL_MS,
        last_stop=last_stop,
        log_start_offset=log_start_offset,
        environment=environment,
    )


def batch_of(
    *values: bytes,
    timestamps: Sequence[int] | int = WALL_MS,
    producer: tuple[int, int, int] = (-1, -1, -1),
    base_offset: int = 0,
    epoch: int = -1,
    compression: str = "none",
    transactional: bool = False,
) -> bytes:
    """A batch; `producer` is id, epoch and first sequence."""
    return encode_batch(
        list(values),
        timestamps=timestamps,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
        base_offset=base_offset,
        leader_epoch=epoch,
        compression=compression,
        transactional=transactional,
    )


def append(
    log: Log, *values: bytes, epoch: int | None = None, timestamps: Sequence[int] | int = WALL_MS
) -> int:
    """Append one batch as leader (epoch None: the log's latest); its base offset."""
    batch = batch_of(*values, timestamps=timestamps)
    leader_epoch = LeaderEpoch(max(0, log.epochs.latest) if epoch is None else epoch)
    return log.append_as_leader(batch, leader_epoch=leader_epoch, wall_ms=WALL_MS).base_offset


def read_all(log: Log, *, max_bytes: int = 1 << 20, nowait: bool = False) -> bytes:
    """Every whole batch from the log start on, as bytes."""
    offset, end = int(log.log_start_offset), int(log.log_end_offset)
    parts = []
    while offset < end:
        found = log.read(offset, max_bytes, upper_bound=end, nowait=nowait)
        assert found.next_offset > offset, (offset, found.next_offset, end)
        parts.append(found.records)
        offset = found.next_offset
    return b"".join(parts)


def values_of(log: Log) -> list[tuple[int, bytes | None]]:
    """(offset, value) of every readable record."""
    records = iter_records(read_all(log), "t", 0, from_offset=log.log_start_offset)
    return [(record.offset, record.value) for record in records]


def bases_of(records: bytes) -> list[int]:
    """The base offsets of some batches."""
    return [header.base_offset for _, header in iter_headers(records)]
