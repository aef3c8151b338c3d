"""A compacted log and its cleaner: what the tests of cleaning share."""

from __future__ import annotations

from pylog.model import LeaderEpoch, Offset
from pylog.records.builder import encode_batch
from pylog.records.reader import iter_records
from pylog.records.record import Record
from pylog_broker.config import BrokerConfig, TopicConfig
from pylog_broker.storage.cleaner.cleaner import LogCleaner
from pylog_broker.storage.files import Files
from pylog_broker.storage.log.log import Log
from pylog_broker.storage.log.validator import Origin
from pylog_broker.storage.recovery.recovery import LastStop
from tests.fakes.logs import DIRECTORY, TOPIC, WALL_MS, open_log, read_all
from tests.fakes.memory_files import MemoryFiles

COMPACT = TopicConfig(
    cleanup_policy=("compact",),
    segment_bytes=1200,
    index_interval_bytes=200,
    min_cleanable_dirty_ratio=0.01,
    delete_retention_ms=1000,
)
BROKER = BrokerConfig()
EPOCH = LeaderEpoch(0)
ALL = 1 << 40


def cleaner_of(files: Files, log: Log, config: BrokerConfig = BROKER) -> LogCleaner:
    removed: list[str] = []

    def remove_later(_log: Log, paths: list[str]) -> None:
        removed.extend(paths)

    return LogCleaner(
        files,
        "/data",
        {TOPIC: log},
        config,
        save_recovery_points=lambda: None,
        random_bytes=lambda count: b"\x07" * count,
        remove_later=remove_later,
    )


def clean(
    cleaner: LogCleaner, log: Log, *, wall_ms: int = WALL_MS, mark: int | None = None
) -> bool:
    """One pass; whether there was one."""
    end = log.log_end_offset if mark is None else Offset(mark)
    task = cleaner.next_task(wall_ms, {TOPIC: end})
    if task is None:
        return False
    task.run()
    while cleaner.on_ran(task):
        task.run()
    assert not [n for n in cleaner._files.listdir(DIRECTORY) if n.endswith((".cleaned", ".swap"))]
    return True


def put(
    log: Log,
    *pairs: tuple[bytes, bytes | None],
    wall_ms: int = WALL_MS,
    producer: tuple[int, int, int] = (-1, -1, -1),
    transactional: bool = False,
    compression: str = "none",
) -> int:
    batch = encode_batch(
        [value for _, value in pairs],
        keys=[key for key, _ in pairs],
        timestamps=wall_ms,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
        transactional=transactional,
        compression=compression,
    )
    origin = Origin(transaction_verified=True)
    return log.append_as_leader(
        batch, leader_epoch=EPOCH, wall_ms=wall_ms, origin=origin
    ).base_offset


def records_of(log: Log) -> list[Record]:
    return list(iter_records(read_all(log), "t", 0, from_offset=log.log_start_offset))


def latest(records: list[Record]) -> dict[bytes | None, bytes | None]:
    return {record.key: record.value for record in records}


def opened(files: Files | None = None, config: TopicConfig = COMPACT) -> tuple[Log, LogCleaner]:
    files = files or MemoryFiles()
    log = open_log(files, config=config, last_stop=LastStop(0, 0))
    return log, cleaner_of(files, log)
