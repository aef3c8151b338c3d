"""Directories of a real Apache Kafka: what pylog makes of the same batches is the same bytes.

Each file is compared; what may differ is said where it is left out.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pylog.model import BrokerId, Offset
from pylog.records.batch import iter_headers
from pylog_broker.config import TopicConfig
from pylog_broker.storage.checkpoints.checkpoints import read_epochs, read_offsets
from pylog_broker.storage.files import OsFiles
from pylog_broker.storage.log.log import Log
from pylog_broker.storage.manager.manager import LogManager
from pylog_broker.storage.recovery.recovery import LastStop
from tests.fakes.logs import open_log
from tests.golden.kafka_dump import FOLDER

SMALL = TopicConfig(segment_bytes=6000, index_interval_bytes=700)
CODEC = TopicConfig(index_interval_bytes=1500)
CONFIGS = {
    "clean/plain-0": SMALL,
    "clean/idempotent-0": SMALL,
    "clean/transactional-0": SMALL,
    "clean/deleted-0": SMALL,
    "clean/gzip-0": CODEC,
    "clean/snappy-0": CODEC,
    "clean/lz4-0": CODEC,
    "clean/zstd-0": CODEC,
    "clean/recompressed-0": TopicConfig(compression_type="zstd"),
    "clean/append-time-0": TopicConfig(message_timestamp_type="LogAppendTime"),
    "recovered/unclean-0": TopicConfig(
        segment_bytes=6000, index_interval_bytes=700, segment_index_bytes=240
    ),
}
"""As `MakeKafkaLogs.java` made the topics."""
OWN = (".producers", ".cut")
DAY_MS = 86_400_000

every_directory = pytest.mark.parametrize("directory", CONFIGS)


def open_at(
    path: Path, config: TopicConfig, last_stop: LastStop | None = None, start: int = 0
) -> Log:
    return open_log(
        OsFiles(), directory=str(path), config=config, last_stop=last_stop, log_start_offset=start
    )


def left_cleanly(log: Log) -> LastStop:
    return LastStop.clean({segment.base_offset: segment.facts for segment in log.segments})


def content(path: Path, *, but: tuple[str, ...] = ()) -> dict[str, bytes]:
    return {
        file.name: file.read_bytes()
        for file in sorted(path.iterdir())
        if file.name not in but and file.suffix not in OWN
    }


@every_directory
def test_the_same_batches_give_the_same_files(directory: str, tmp_path: Path) -> None:
    """Each batch in an append of its own, and a restart where Kafka's broker was restarted.

    Kafka leaves the snapshot of an earlier orderly stop behind, and its producers grow old by their
    records' timestamps, here by when the broker heard of them.
    """
    source, target, config = FOLDER / directory, tmp_path / "t-0", CONFIGS[directory]
    target.mkdir()
    first, *restarts = read_epochs(OsFiles(), str(source / "leader-epoch-checkpoint"))
    batches = [
        (header, data[position : position + header.size])
        for data in (log.read_bytes() for log in sorted(source.glob("*.log")))
        for position, header in iter_headers(data)
    ]
    log = open_at(target, config)
    if batches[0][0].base_offset:
        log.truncate_fully_and_start_at(Offset(batches[0][0].base_offset))
    for header, batch in batches:
        if restarts and header.base_offset == restarts[0].start_offset:
            log = _restarted(log, target, config)
            log.assign_epoch(*restarts.pop(0))
        log.append_as_follower(batch, wall_ms=max(header.max_timestamp, 0))
    for entry in restarts:
        log.assign_epoch(*entry)
    log.advance_log_start(first.start_offset)
    log.close(clean=True)
    stray = {path.name for path in source.glob("*.snapshot")} - {
        path.name for path in target.glob("*.snapshot")
    }
    assert len(stray) <= 1
    but = ("partition.metadata", *stray)
    ours, kafkas = content(target, but=but), content(source, but=but)
    assert set(ours) == set(kafkas)
    assert [name for name in kafkas if ours[name] != kafkas[name]] == []


def _restarted(log: Log, path: Path, config: TopicConfig) -> Log:
    log.close(clean=True)
    again = open_at(path, config, left_cleanly(log))
    again.expire_producers(1_800_000_000_000, DAY_MS)
    return again


@every_directory
def test_a_clean_start_and_stop_change_nothing(directory: str, tmp_path: Path) -> None:
    config, start = CONFIGS[directory], 160 if "deleted" in directory else 0
    looked_at = Path(shutil.copytree(FOLDER / directory, tmp_path / "looked-at"))
    target = Path(shutil.copytree(FOLDER / directory, tmp_path / "t-0"))
    seen = open_at(looked_at, config, LastStop.clean(), start)
    seen.close(clean=False)
    log = open_at(target, config, left_cleanly(seen), start)
    log.close(clean=True)
    before, after = content(FOLDER / directory), content(target)
    assert {name for name in before if after.get(name) != before[name]} <= _stray(before)
    assert set(after) <= set(before)


def _stray(names: dict[str, bytes]) -> set[str]:
    """Snapshots that stand at neither a segment's start nor the log's end, but the latest."""
    snapshots = sorted(name for name in names if name.endswith(".snapshot"))
    return {n for n in snapshots[:-1] if n.replace(".snapshot", ".log") not in names}


@every_directory
def test_what_is_lost_but_the_log_is_made_again(directory: str, tmp_path: Path) -> None:
    target = Path(shutil.copytree(FOLDER / directory, tmp_path / "t-0"))
    for path in target.iterdir():
        if path.suffix in (".index", ".timeindex", ".txnindex"):
            path.unlink()
    log = open_at(target, CONFIGS[directory], LastStop(0, 0))
    log.close(clean=True)
    before, after = content(FOLDER / directory), content(target)
    wrong = {name for name in before if after.get(name) != before[name]}
    # A time index that was built from scratch may have entries that Kafka's restart left out.
    assert not {name for name in wrong if name.endswith((".log", ".txnindex", "metadata"))}


def test_recovery_keeps_what_kafka_s_keeps(tmp_path: Path) -> None:
    target = Path(shutil.copytree(FOLDER / "unclean/unclean-0", tmp_path / "t-0"))
    log = open_at(target, CONFIGS["recovered/unclean-0"], LastStop(0, 0))
    for entry in read_epochs(
        OsFiles(), str(FOLDER / "recovered/unclean-0/leader-epoch-checkpoint")
    ):
        if entry.epoch > log.epochs.latest:
            log.assign_epoch(*entry)
    log.close(clean=True)
    ours, kafkas = content(target), content(FOLDER / "recovered/unclean-0")
    assert ours == kafkas


def test_a_broker_s_directory_that_kafka_closed_is_closed_as_it_was(tmp_path: Path) -> None:
    """All of it, opened by a broker that does not know yet which topics are compacted. Only what
    Kafka's next start would remove goes: snapshots of an earlier stop.
    """
    root = Path(shutil.copytree(FOLDER / "clean", tmp_path / "data"))
    meta = root / "meta.properties"
    meta.write_text(meta.read_text() + "boot.id=boot\n")
    manager = LogManager.open(
        OsFiles(),
        str(root),
        cluster_id="cGdsb2dHb2xkZW5Mb2dzLg",
        broker_id=BrokerId(1),
        boot_id="boot",
        new_directory_id="d",
        wall_ms=1_795_000_000_000,
        topic_config=lambda topic: CONFIGS.get(f"clean/{topic}-0", TopicConfig()),
    )
    assert not manager.failed
    assert len(manager.logs) == 11
    manager.close(clean=True)
    for partition in (path for path in (FOLDER / "clean").iterdir() if path.is_dir()):
        before = content(partition)
        after = content(root / partition.name, but=("gaps-allowed",))
        assert set(after) <= set(before)
        changed = {name for name in before if after.get(name) != before[name]}
        assert changed <= _stray(before), partition.name
    for name in ("recovery-point", "log-start"):
        file = f"{name}-offset-checkpoint"
        kafkas = read_offsets(OsFiles(), f"{FOLDER}/clean/{file}")
        ours = read_offsets(OsFiles(), f"{root}/{file}")
        assert ours
        assert {
            key: offset for key, offset in kafkas.items() if key in ours
        }.items() <= ours.items()
