"""One log: what is appended, what is read, when it rolls."""

from __future__ import annotations

import pytest

from pylog.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    InvalidTxnState,
    MessageTooLarge,
    OffsetOutOfRange,
    PylogError,
)
from pylog.model import LeaderEpoch, Offset
from pylog.records.batch import read_header
from pylog.records.kernels_pure import RecordsSummary
from pylog_broker.config import TopicConfig
from pylog_broker.storage.log.log import Environment
from pylog_broker.storage.log.validator import Origin
from pylog_broker.storage.segments.segment_reader import PagesCold
from pylog_broker.storage.tail_cache import TailBudget
from tests.fakes.logs import (
    DIRECTORY,
    WALL_MS,
    append,
    bases_of,
    batch_of,
    open_log,
    read_all,
    values_of,
)
from tests.fakes.memory_files import MemoryFiles

SMALL = TopicConfig(segment_bytes=1000)
NO_TAIL = Environment(TailBudget(0), tail_bytes_max=0)


def names(files: MemoryFiles, suffix: str) -> list[str]:
    return [name for name in files.listdir(DIRECTORY) if name.endswith(suffix)]


def test_offsets_are_consecutive_and_only_the_header_changes() -> None:
    log = open_log(MemoryFiles())
    first = batch_of(b"a", b"b")
    second = batch_of(b"c")
    one = log.append_as_leader(first, leader_epoch=LeaderEpoch(4), wall_ms=WALL_MS)
    two = log.append_as_leader(second, leader_epoch=LeaderEpoch(4), wall_ms=WALL_MS)
    assert (one.base_offset, one.last_offset, one.record_count) == (0, 1, 2)
    assert (two.base_offset, two.last_offset, log.log_end_offset) == (2, 2, 3)
    records = read_all(log)
    assert records[len(first) + 16 :] == second[16:]
    header = read_header(records, len(first))
    assert (header.base_offset, header.partition_leader_epoch) == (2, 4)
    assert log.epochs.latest == 4


@pytest.mark.parametrize("environment", [None, NO_TAIL], ids=["tail", "file"])
def test_read_bounds(environment: Environment | None) -> None:
    log = open_log(MemoryFiles(), environment=environment)
    for _ in range(4):
        append(log, b"x", b"y")
    size = log.size // 4

    def bases(offset: int, max_bytes: int, upper: int = 8, *, min_one: bool = True) -> list[int]:
        found = log.read(offset, max_bytes, upper_bound=upper, min_one=min_one)
        assert found.next_offset == ((found.records and bases_of(found.records)[-1] + 2) or offset)
        return bases_of(found.records)

    assert bases(3, size * 2) == [2, 4]
    assert bases(3, size * 2 + 1) == [2, 4]
    assert bases(3, size * 2 - 1) == [2]
    assert bases(3, 1) == [2]
    assert bases(3, 0) == [2]
    assert bases(3, 1, min_one=False) == []
    assert bases(0, size * 9) == [0, 2, 4, 6]
    assert bases(0, size * 9, upper=4) == [0, 2]
    assert bases(0, size * 9, upper=5) == [0, 2]
    assert bases(4, size * 9, upper=4) == []
    assert bases(8, size * 9) == []
    assert log.bytes_between(2, 6) >= size * 2
    for offset in (-1, 9):
        with pytest.raises(OffsetOutOfRange, match=r"\[0, 8\]"):
            log.read(offset, 1, upper_bound=8)


def test_tail_and_file_give_the_same_bytes() -> None:
    files = MemoryFiles()
    log = open_log(files)
    for number in range(100):
        append(log, bytes([number]) * (number * 7 % 300))
    from_tail = read_all(log, max_bytes=2000)
    log.close(clean=True)
    again = open_log(files, environment=NO_TAIL)
    assert read_all(again, max_bytes=2000) == from_tail == read_all(again, max_bytes=1)
    handle = files.open(f"{DIRECTORY}/{0:020d}.log")
    assert files.pread(handle, 1 << 20, 0) == from_tail


def test_a_cold_page_is_named_and_warmed() -> None:
    files = MemoryFiles()
    log = open_log(files, environment=NO_TAIL)
    append(log, b"x")
    files.cold = True
    with pytest.raises(PagesCold) as cold:
        log.read(0, 100, upper_bound=1, nowait=True)
    cold.value.warm()
    assert bases_of(log.read(0, 100, upper_bound=1).records) == [0]
    log.truncate_fully_and_start_at(Offset(7))
    cold.value.warm()  # the file is gone: nothing happens


def test_segments_never_exceed_their_size() -> None:
    files = MemoryFiles()
    log = open_log(files, config=SMALL)
    for _ in range(40):
        append(log, b"v" * 100)
    assert max(segment.size for segment in log.segments) <= 1000
    assert len(log.segments) > 5
    assert len(names(files, ".log")) == len(names(files, ".index")) == len(log.segments)
    assert len(names(files, ".timeindex")) == len(log.segments)
    assert [base for base in bases_of(read_all(log))] == list(range(40))


def test_a_single_large_batch_has_a_segment_of_its_own() -> None:
    log = open_log(MemoryFiles(), config=SMALL)
    append(log, b"small")
    append(log, b"L" * 5000)
    append(log, b"small")
    assert [segment.base_offset for segment in log.segments] == [0, 1, 2]


def test_roll_by_time_is_by_record_times() -> None:
    log = open_log(MemoryFiles(), config=TopicConfig(segment_ms=1000))
    append(log, b"a", timestamps=WALL_MS - 5000)
    append(log, b"b", timestamps=WALL_MS - 4000)
    append(log, b"c", timestamps=WALL_MS - 3999)
    append(log, b"d", timestamps=-1)
    assert [segment.base_offset for segment in log.segments] == [0, 2]
    assert not log.maybe_roll(WALL_MS + 1000)
    assert log.maybe_roll(WALL_MS + 1001)
    assert not log.maybe_roll(WALL_MS + 9999)  # the new one is empty


def test_jitter_shortens_the_time_to_a_roll() -> None:
    environment = Environment(TailBudget(1000), jitter=lambda limit: limit)
    config = TopicConfig(segment_ms=1000, segment_jitter_ms=400)
    log = open_log(MemoryFiles(), config=config, environment=environment)
    append(log, b"a", timestamps=WALL_MS - 5000)
    append(log, b"b", timestamps=WALL_MS - 4400)
    append(log, b"c", timestamps=WALL_MS - 4399)
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_roll_when_an_index_is_full() -> None:
    log = open_log(
        MemoryFiles(), config=TopicConfig(segment_index_bytes=24, index_interval_bytes=0)
    )
    for number in range(8):
        append(log, b"x", timestamps=WALL_MS - 100 + number)
    # one of the two entries that fit is kept for the seal, as in Kafka
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4, 6]


def test_roll_when_an_offset_is_too_far_from_the_base() -> None:
    files = MemoryFiles()
    log = open_log(files)
    log.append_as_follower(batch_of(b"a", base_offset=0, epoch=0))
    far = 2**31 + 5
    log.append_as_follower(batch_of(b"b", base_offset=far, epoch=0))
    log.append_as_follower(batch_of(b"c", base_offset=far + 2**33, epoch=0))
    assert [segment.base_offset for segment in log.segments] == [0, far, far + 2**33]
    assert [offset for offset, _ in values_of(log)] == [0, far, far + 2**33]
    log.close(clean=False)
    assert len(open_log(files).segments) == 3


def test_an_invalid_batch_that_would_roll_makes_no_segment() -> None:
    log = open_log(MemoryFiles(), config=SMALL)
    append(log, b"v" * 900)
    with pytest.raises(CorruptMessage):
        log.append_as_leader(
            batch_of(b"w" * 900)[:-1] + b"!", leader_epoch=LeaderEpoch(0), wall_ms=WALL_MS
        )
    assert len(log.segments) == 1


@pytest.mark.parametrize(
    ("batch", "config", "error", "words"),
    [
        (batch_of(b"x" * 200), TopicConfig(max_message_bytes=200), MessageTooLarge, "200"),
        (batch_of(b"x", timestamps=-5), TopicConfig(), InvalidTimestamp, "-5"),
        (batch_of(b"x", timestamps=WALL_MS + 3_600_001), TopicConfig(), InvalidTimestamp, "after"),
        (
            batch_of(b"x", b"y", timestamps=[WALL_MS, WALL_MS - 101]),
            TopicConfig(message_timestamp_before_max_ms=100),
            InvalidTimestamp,
            "before",
        ),
        (batch_of(b"x"), TopicConfig(cleanup_policy=("compact",)), InvalidRecord, "key"),
        (
            batch_of(b"x", producer=(1, 0, 0), transactional=True),
            TopicConfig(),
            InvalidTxnState,
            "transaction",
        ),
    ],
    ids=["size", "negative", "future", "past", "keyless", "transactional"],
)
def test_refused_batches(
    batch: bytes, config: TopicConfig, error: type[PylogError], words: str
) -> None:
    log = open_log(MemoryFiles(), config=config)
    with pytest.raises(error, match=words):
        log.append_as_leader(batch, leader_epoch=LeaderEpoch(0), wall_ms=WALL_MS)
    assert (log.log_end_offset, log.size) == (0, 0)


def test_timestamps_at_the_limit_are_taken() -> None:
    log = open_log(MemoryFiles())
    append(log, b"x", timestamps=WALL_MS + 3_600_000)
    append(log, b"x", timestamps=-1)
    assert log.log_end_offset == 2


def test_log_append_time() -> None:
    log = open_log(MemoryFiles(), config=TopicConfig(message_timestamp_type="LogAppendTime"))
    batch = batch_of(b"a", b"b", timestamps=5)
    info = log.append_as_leader(batch, leader_epoch=LeaderEpoch(0), wall_ms=WALL_MS)
    assert info.log_append_time_ms == WALL_MS
    assert read_header(read_all(log)).max_timestamp == WALL_MS
    found = log.offset_for_timestamp(WALL_MS)
    assert found is not None
    assert (found.offset, found.timestamp_ms) == (0, WALL_MS)
    assert len(values_of(log)) == 2  # the CRC was renewed


@pytest.mark.parametrize("stored", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("sent", ["none", "lz4"])
def test_a_topic_with_a_codec_of_its_own(stored: str, sent: str) -> None:
    log = open_log(MemoryFiles(), config=TopicConfig(compression_type=stored))
    batch = batch_of(b"a" * 500, b"b" * 500, compression=sent, producer=(7, 0, 0))
    log.append_as_leader(batch, leader_epoch=LeaderEpoch(0), wall_ms=WALL_MS)
    header = read_header(read_all(log))
    assert header.compression == ["uncompressed", "gzip", "snappy", "lz4", "zstd"].index(stored)
    assert (header.producer_id, header.record_count) == (7, 2)
    assert values_of(log) == [(0, b"a" * 500), (1, b"b" * 500)]


def test_what_was_heard_of_the_records_before_counts_and_they_are_not_looked_at_again() -> None:
    log = open_log(MemoryFiles(), config=TopicConfig(cleanup_policy=("compact",)))
    batch = batch_of(b"x")
    stamp = read_header(batch).max_timestamp

    def offer(checked: RecordsSummary | PylogError, batch: bytes = batch) -> None:
        origin = Origin(checked=checked)
        log.append_as_leader(batch, leader_epoch=LeaderEpoch(0), wall_ms=WALL_MS, origin=origin)

    with pytest.raises(InvalidRecord, match="record 0 of the batch has no key"):
        offer(RecordsSummary(stamp, stamp, 0))
    with pytest.raises(InvalidTimestamp, match="its records have"):
        offer(RecordsSummary(stamp, stamp + 1, -1))
    with pytest.raises(InvalidRecord, match="as the pool said"):
        offer(InvalidRecord("as the pool said"))
    with pytest.raises(CorruptMessage, match="CRC"):  # what comes first stays first
        offer(InvalidRecord("as the pool said"), batch[:-1] + bytes([batch[-1] ^ 1]))
    offer(RecordsSummary(stamp, stamp, -1))
    assert log.log_end_offset == 1
