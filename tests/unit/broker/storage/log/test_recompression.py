"""`compression.type` of a topic: what is rewritten, what stays, and what comes of it."""

from __future__ import annotations

import itertools

import pytest

from pylog.errors import CorruptMessage, InvalidConfig, InvalidRecord, MessageTooLarge
from pylog.model import LeaderEpoch
from pylog.records.batch import (
    TIMESTAMP_TYPE_BIT,
    CompressionType,
    crc_matches,
    iter_headers,
    pack_header,
    read_header,
    seal,
)
from pylog.records.compression import CODEC_NAMES, Compression
from pylog.records.kernels_pure import RecordsSummary
from pylog.records.reader import iter_records
from pylog_broker.config import TopicConfig
from pylog_broker.storage.log.recompression import (
    Recompressed,
    checked_and_recompressed,
    wanted_compression,
)
from pylog_broker.storage.log.validator import Origin
from tests.fakes.bad_batches import sealed, zstd_zeros
from tests.fakes.logs import WALL_MS, batch_of, open_log, read_all, values_of
from tests.fakes.memory_files import MemoryFiles
from tests.golden.kafka_dump import FOLDER

TYPES = ("uncompressed", "gzip", "snappy", "lz4", "zstd")
VALUES = [b"%d " % number * 50 for number in range(9)]
LIMIT = 1 << 20


def stored(config: TopicConfig, batch: bytes, origin: Origin | None = None) -> bytes:
    log = open_log(MemoryFiles(), config=config)
    log.append_as_leader(
        batch, leader_epoch=LeaderEpoch(0), wall_ms=WALL_MS, origin=origin or Origin()
    )
    return read_all(log)


def test_what_is_wanted() -> None:
    for codec in CompressionType:
        assert wanted_compression(TopicConfig(), codec) is None
    for kept, sent in itertools.product(TYPES, CompressionType):
        wanted = wanted_compression(TopicConfig(compression_type=kept), sent)
        assert (wanted is None) == (TYPES.index(kept) == sent)
        assert wanted is None or wanted.codec == TYPES.index(kept)
    levels = TopicConfig(
        compression_type="zstd", compression_zstd_level=9, compression_gzip_level=2
    )
    assert wanted_compression(levels, 0) == Compression(CompressionType.ZSTD, 9)
    assert wanted_compression(levels, 4) is None  # another level is no other codec


@pytest.mark.parametrize("sent", CODEC_NAMES)
@pytest.mark.parametrize("kept", TYPES)
def test_the_pool_prepares_what_the_log_would_make(sent: str, kept: str) -> None:
    config = TopicConfig(compression_type=kept)
    batch = batch_of(*VALUES, compression=sent, producer=(7, 1, 0), timestamps=WALL_MS - 9)
    wanted = wanted_compression(config, read_header(batch).compression)
    ready = checked_and_recompressed(batch, wanted, max_decompressed_bytes=LIMIT)
    summary = RecordsSummary(WALL_MS - 9, WALL_MS - 9, 0)
    if wanted is None:
        assert ready == summary
    else:
        assert isinstance(ready, Recompressed)
        assert ready[:2] == (summary, wanted)
        assert ready.batch == batch_of(
            *VALUES, compression=CODEC_NAMES[wanted.codec], producer=(7, 1, 0),
            timestamps=WALL_MS - 9,
        )  # fmt: skip
    assert stored(config, batch, Origin(checked=ready)) == stored(config, batch)


def test_the_log_takes_what_the_pool_prepared_only_while_it_fits_the_topic() -> None:
    batch = batch_of(*VALUES)
    ready = checked_and_recompressed(
        batch, Compression(CompressionType.GZIP, 1), max_decompressed_bytes=LIMIT
    )
    assert isinstance(ready, Recompressed)
    same = TopicConfig(compression_type="gzip", compression_gzip_level=1)
    assert stored(same, batch, Origin(checked=ready))[61:] == ready.batch[61:]
    other = TopicConfig(compression_type="lz4")
    header = read_header(stored(other, batch, Origin(checked=ready)))
    assert header.compression == CompressionType.LZ4
    assert stored(TopicConfig(), batch, Origin(checked=ready))[61:] == batch[61:]


def test_the_crc_of_the_batch_as_it_came_counts() -> None:
    batch = bytearray(batch_of(*VALUES))
    batch[-2] ^= 1  # of the last value
    ready = checked_and_recompressed(
        bytes(batch), Compression(CompressionType.ZSTD, 3), max_decompressed_bytes=LIMIT
    )
    with pytest.raises(CorruptMessage, match="CRC"):
        stored(TopicConfig(compression_type="zstd"), bytes(batch), Origin(checked=ready))


def test_a_batch_that_grows_above_the_limit_is_refused_and_leaves_nothing() -> None:
    config = TopicConfig(compression_type="uncompressed", max_message_bytes=1000)
    log = open_log(MemoryFiles(), config=config)
    batch = batch_of(bytes(2000), compression="zstd", producer=(7, 0, 0))
    with pytest.raises(MessageTooLarge, match=r"compression.type=uncompressed .* is 1000"):
        log.append_as_leader(batch, leader_epoch=LeaderEpoch(0), wall_ms=WALL_MS)
    assert log.log_end_offset == 0
    small = batch_of(b"small", compression="zstd", producer=(7, 0, 0))
    log.append_as_leader(small, leader_epoch=LeaderEpoch(0), wall_ms=WALL_MS)
    assert values_of(log) == [(0, b"small")]


def test_with_the_broker_s_time() -> None:
    config = TopicConfig(compression_type="snappy", message_timestamp_type="LogAppendTime")
    data = stored(config, batch_of(*VALUES, timestamps=5, compression="gzip"))
    header = read_header(data)
    assert crc_matches(data, 0, header)
    assert [r.timestamp_ms for r in iter_records(data, "t", 0)] == [WALL_MS] * len(VALUES)


def test_a_bomb_is_not_packed_anew() -> None:
    bomb = sealed(zstd_zeros(1 << 30), CompressionType.ZSTD)
    with pytest.raises(InvalidRecord, match=f"limit of {LIMIT} bytes"):
        checked_and_recompressed(
            bomb, Compression(CompressionType.GZIP, 9), max_decompressed_bytes=LIMIT
        )


def test_gzip_has_no_level_0() -> None:
    with pytest.raises(InvalidConfig, match=r"compression.gzip.level=0: .* or -1"):
        TopicConfig.from_mapping({"compression.gzip.level": "0"})


def test_kafka_rewrites_the_same_fields() -> None:
    """The very batches that Kafka was sent in gzip are in `gzip-0`: it made zstd of them too."""
    sent = (FOLDER / "clean/gzip-0/00000000000000000000.log").read_bytes()
    kafkas = (FOLDER / "clean/recompressed-0/00000000000000000000.log").read_bytes()
    config = TopicConfig(compression_type="zstd")
    log = open_log(MemoryFiles(), config=config)
    for position, header in iter_headers(sent):
        batch = bytearray(sent[position : position + header.size])
        batch[:8] = bytes(8)  # as the producer sent it: no offset yet
        log.append_as_leader(bytes(batch), leader_epoch=LeaderEpoch(0), wall_ms=WALL_MS)
    ours = read_all(log)
    for (_, mine), (_, theirs) in zip(iter_headers(ours), iter_headers(kafkas), strict=True):
        unlike = {"batch_length": 0, "crc": 0, "producer_id": 0}
        assert mine._replace(**unlike) == theirs._replace(**unlike)
    assert list(iter_records(ours, "t", 0)) == list(iter_records(kafkas, "t", 0))


def test_kafka_stamps_the_same_bytes() -> None:
    """The batches in `append-time-0`, stamped by us instead of by Kafka's broker."""
    kafkas = (FOLDER / "clean/append-time-0/00000000000000000000.log").read_bytes()
    log = open_log(MemoryFiles(), config=TopicConfig(message_timestamp_type="LogAppendTime"))
    for position, header in iter_headers(kafkas):
        sent = as_the_producer_sent_it(kafkas[position : position + header.size])
        log.append_as_leader(sent, leader_epoch=LeaderEpoch(0), wall_ms=header.max_timestamp)
    assert read_all(log) == kafkas


def as_the_producer_sent_it(batch: bytes) -> bytes:
    header = read_header(batch)
    own_times = bytearray(batch)
    own_times[22] &= ~TIMESTAMP_TYPE_BIT
    times = [r.timestamp_ms for r in iter_records(own_times, "t", 0, check_crcs=False)]
    new = pack_header(
        attributes=header.attributes & ~TIMESTAMP_TYPE_BIT,
        record_count=header.record_count,
        base_timestamp=header.base_timestamp,
        max_timestamp=max(times),
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
    )
    return seal(new, batch[len(new) :])
