"""Partitions before and after a pass of Kafka's cleaner: ours makes the same bytes of the same.

Differences that may be are left out where it is said: the compressed bytes of another build of a
codec, and which batches have an index entry. Kafka's cleaner makes one for each of its buffers, at
most one in 256 KiB of its input; ours one each `index.interval.bytes`, as everywhere: a reader of a
compacted log would else walk over thousands of headers for each fetch.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from pylog.model import LeaderEpoch
from pylog.records.batch import CODEC_MASK, BatchHeader, CompressionType, iter_headers
from pylog.records.builder import encode_batch
from pylog.records.compression import DECOMPRESSED_BYTES_MAX
from pylog.records.sections import open_section
from pylog_broker.config import BrokerConfig, TopicConfig
from pylog_broker.storage.checkpoints.checkpoints import read_epochs
from pylog_broker.storage.cleaner.batch_filter import delete_horizon
from pylog_broker.storage.cleaner.cleaner import LogCleaner
from pylog_broker.storage.files import OsFiles
from pylog_broker.storage.indexes.offset_index import OffsetIndex
from pylog_broker.storage.indexes.time_index import TimeIndex
from pylog_broker.storage.log.log import Log
from pylog_broker.storage.recovery.recovery import LastStop
from tests.fakes.logs import DIRECTORY, TOPIC, WALL_MS, open_log
from tests.fakes.memory_files import MemoryFiles
from tests.golden.make_kafka_compacted import FOLDER

USUAL = TopicConfig(
    cleanup_policy=("compact",),
    segment_bytes=4000,
    index_interval_bytes=700,
    min_cleanable_dirty_ratio=0.01,
    delete_retention_ms=86_400_000_000,
)
SHORT = 1
"""`delete.retention.ms` of the topics whose tombstones and markers go with the second pass."""
SAME_BYTES = {CompressionType.NONE, CompressionType.LZ4}
"""The codecs of which Kafka's build and ours always make the same bytes."""
TOPICS = sorted(path.name for path in (FOLDER / "1-before").iterdir() if path.is_dir())
TIMES = json.loads((FOLDER / "times.json").read_text())


def config_of(name: str) -> TopicConfig:
    if name not in ("ended-0", "forgotten-0"):
        return USUAL
    return TopicConfig(
        cleanup_policy=USUAL.cleanup_policy,
        segment_bytes=USUAL.segment_bytes,
        index_interval_bytes=USUAL.index_interval_bytes,
        min_cleanable_dirty_ratio=USUAL.min_cleanable_dirty_ratio,
        delete_retention_ms=SHORT,
    )


def batches(data: bytes) -> Iterator[tuple[BatchHeader, bytes]]:
    for position, header in iter_headers(data):
        yield header, data[position : position + header.size]


def cleaned_at(after: Path, before: Path, retention_ms: int) -> int:
    """The time of the pass of Kafka's cleaner, by the delete horizons that it set."""

    def horizons(path: Path) -> set[int]:
        logs = (log.read_bytes() for log in path.glob("*.log"))
        found = {delete_horizon(header) for data in logs for header, _ in batches(data)}
        return {horizon for horizon in found if horizon is not None}

    new = horizons(after) - horizons(before)
    assert len(new) <= 1
    return new.pop() - retention_ms if new else TIMES[after.parent.name]


def clean(log: Log, folder: Path, wall_ms: int) -> LogCleaner:
    cleaner = LogCleaner(
        OsFiles(),
        str(folder),
        {TOPIC: log},
        BrokerConfig(),
        save_recovery_points=lambda: None,
        random_bytes=bytes,
        remove_later=lambda log, paths: [Path(path).unlink() for path in paths] and None,
    )
    task = cleaner.next_task(wall_ms, {TOPIC: log.log_end_offset})
    assert task is not None
    task.run()
    while cleaner.on_ran(task):
        task.run()
    return cleaner


def comparable(data: bytes) -> list[tuple[BatchHeader, bytes]]:
    """Batches whose codecs may differ in build, by what is in them."""
    found = []
    for header, batch in batches(data):
        if header.attributes & CODEC_MASK in SAME_BYTES:
            found.append((header, batch))
        else:
            section = open_section(batch, 0, header, max_bytes=DECOMPRESSED_BYTES_MAX)
            plain = bytes(memoryview(section.buffer)[section.start : section.end])
            found.append((header._replace(crc=0, batch_length=0), plain))
    return found


def opened(folder: Path, config: TopicConfig, stop: LastStop, clean_to: int = 0) -> Log:
    text = f"0\n1\n{TOPIC.topic} {TOPIC.partition} {clean_to}\n"
    (folder.parent / "cleaner-offset-checkpoint").write_text(text)
    return open_log(OsFiles(), directory=str(folder), config=config, last_stop=stop)


def clean_to(round_: str, name: str) -> int:
    checkpoint = FOLDER / round_ / "cleaner-offset-checkpoint"
    if not checkpoint.exists():
        return 0
    topic = name.removesuffix("-0")
    lines = checkpoint.read_text().splitlines()
    return next(int(line.split()[2]) for line in lines if line.startswith(f"{topic} "))


@pytest.mark.parametrize("rounds", [("1-before", "2-after"), ("3-before", "4-after")])
@pytest.mark.parametrize("name", TOPICS)
def test_a_pass_makes_what_kafka_s_makes(
    name: str, rounds: tuple[str, str], tmp_path: Path
) -> None:
    before, after = (FOLDER / each / name for each in rounds)
    config = config_of(name)
    target = Path(shutil.copytree(before, tmp_path / "t-0"))
    log = opened(target, config, LastStop(0, 0, in_order=True), clean_to(rounds[0], name))
    log.assign_epoch(*read_epochs(OsFiles(), f"{after}/leader-epoch-checkpoint")[-1])
    wall_ms = cleaned_at(after, before, config.delete_retention_ms)
    cleaner = clean(log, tmp_path, wall_ms)
    assert cleaner._clean_to == {TOPIC: clean_to(rounds[1], name)}
    log.close(clean=True)
    ours, kafkas = files(target), files(after)
    assert set(ours) == set(kafkas)
    for each, data in kafkas.items():
        if each.endswith(".log"):
            assert comparable(ours[each]) == comparable(data), each
        elif not each.endswith(("index", ".metadata")) or each.endswith(".txnindex"):
            assert ours[each] == data, each
        elif each.endswith(".timeindex"):
            assert ours[each][-12:] == data[-12:], each
    _check_indexes(log, ours)


def files(path: Path) -> dict[str, bytes]:
    own = (".producers", "gaps-allowed")
    return {p.name: p.read_bytes() for p in path.iterdir() if not p.name.endswith(own)}


def _check_indexes(log: Log, ours: dict[str, bytes]) -> None:
    for segment in log.segments:
        data = ours[f"{segment.base_offset:020d}.log"]
        at = {header.last_offset: (where, header) for where, header in iter_headers(data)}
        raw = ours[f"{segment.base_offset:020d}.index"]
        for offset, position in OffsetIndex.decode(segment.base_offset, raw, len(data)).entries():
            assert at[offset][0] == position
        raw = ours[f"{segment.base_offset:020d}.timeindex"]
        times = TimeIndex.decode(segment.base_offset, raw, segment.end_offset)
        for timestamp, offset in times.entries():
            assert at[offset][1].max_timestamp == timestamp


@pytest.mark.parametrize("round_", ["2-after", "4-after"])
@pytest.mark.parametrize("name", TOPICS)
def test_a_start_and_a_stop_change_nothing(name: str, round_: str, tmp_path: Path) -> None:
    """Also emptied segments and the cleaner's indexes stay as Kafka left them."""
    target = Path(shutil.copytree(FOLDER / round_ / name, tmp_path / "t-0"))
    log = opened(target, config_of(name), LastStop(0, 0, in_order=True))
    start = log.log_start_offset
    log.close(clean=True)
    assert files(target) == files(FOLDER / round_ / name)
    again = opened(target, config_of(name), LastStop(0, 0))
    assert again.log_start_offset == start
    again.close(clean=True)
    crashed, kept = files(target), files(FOLDER / round_ / name)
    for each in {n for n in {*crashed, *kept} if n.endswith((".log", "checkpoint"))}:
        assert crashed[each] == kept[each]


def test_a_segment_that_a_loss_of_power_emptied_is_no_cleaned_one() -> None:
    files = MemoryFiles()
    log = open_log(files, config=USUAL)
    for number in range(2):
        put(log, number)
        log.roll(WALL_MS)
    log.close(clean=False)
    files.names[f"{DIRECTORY}/{0:020d}.log"].data.clear()
    stop = LastStop(0, 0, memory_survived=False)
    again = open_log(files, config=USUAL, last_stop=stop)
    assert (again.log_start_offset, again.log_end_offset) == (0, 0)
    assert put(again, 2) == 0


def put(log: Log, number: int) -> int:
    batch = encode_batch([b"%d" % number], keys=[b"key"], timestamps=WALL_MS)
    return log.append_as_leader(batch, leader_epoch=LeaderEpoch(0), wall_ms=WALL_MS).base_offset
