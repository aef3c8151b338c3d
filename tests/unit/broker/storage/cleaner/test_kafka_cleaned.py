"""A partition that Kafka's cleaner has been over: ours keeps the same of the same records."""

from __future__ import annotations

import shutil
from pathlib import Path

from pylog.model import LeaderEpoch, Offset
from pylog.records.batch import BatchHeader, iter_headers
from pylog.records.reader import iter_records
from pylog.records.record import Record
from pylog_broker.config import BrokerConfig, TopicConfig
from pylog_broker.storage.cleaner.batch_filter import delete_horizon
from pylog_broker.storage.cleaner.cleaner import LogCleaner
from pylog_broker.storage.files import OsFiles
from pylog_broker.storage.recovery.recovery import LastStop
from tests.fakes.logs import TOPIC, open_log, read_all
from tests.golden.kafka_dump import FOLDER

CONFIG = TopicConfig(
    cleanup_policy=("compact",),
    segment_bytes=3000,
    index_interval_bytes=700,
    min_cleanable_dirty_ratio=0.01,
    delete_retention_ms=86_400_000_000,
)
DAY_MS = 86_400_000


def log_bytes(directory: str) -> bytes:
    return b"".join(path.read_bytes() for path in sorted((FOLDER / directory).glob("*.log")))


def test_our_cleaner_keeps_what_kafka_s_kept(tmp_path: Path) -> None:
    """Kafka's broker was restarted before it cleaned, so that producers were forgotten whose last
    records are old; then a last batch in a new epoch rolled the segment.
    """
    target = Path(shutil.copytree(FOLDER / "uncleaned/compacted-0", tmp_path / "t-0"))
    kafkas = log_bytes("clean/compacted-0")
    *_, (position, last) = iter_headers(kafkas)
    log = open_log(OsFiles(), directory=str(target), config=CONFIG, last_stop=LastStop(0, 0))
    wall_ms = 1_800_000_000_000
    log.expire_producers(wall_ms, DAY_MS)
    assert last.base_offset == log.log_end_offset
    log.assign_epoch(LeaderEpoch(last.partition_leader_epoch), Offset(last.base_offset))
    log.append_as_follower(kafkas[position:], wall_ms=wall_ms)
    cleaner = LogCleaner(
        OsFiles(),
        str(tmp_path),
        {TOPIC: log},
        BrokerConfig(),
        save_recovery_points=lambda: None,
        random_bytes=bytes,
        remove_later=lambda _log, _paths: None,
    )
    task = cleaner.next_task(wall_ms, {TOPIC: log.log_end_offset})
    assert task is not None
    task.run()
    while cleaner.on_ran(task):
        task.run()
    ours = read_all(log)
    assert len(log_bytes("uncleaned/compacted-0")) > 2 * (len(ours) - last.size)
    assert records_of(ours) == records_of(kafkas)
    assert [facts(h) for h in headers_of(ours)] == [facts(h) for h in headers_of(kafkas)]


def records_of(data: bytes) -> list[Record]:
    return list(iter_records(data, "t", 0, include_control=True))


def headers_of(data: bytes) -> list[BatchHeader]:
    return [header for _, header in iter_headers(data)]


def facts(header: BatchHeader) -> BatchHeader:
    """All but what another build of a codec makes different, and what hangs on when it was cleaned:
    Kafka's took two passes, so there are two delete horizons (`test_kafka_compacted.py` has the
    bytes of single passes).
    """
    horizon = {"base_timestamp": 0} if delete_horizon(header) is not None else {}
    return header._replace(crc=0, batch_length=0, **horizon)
