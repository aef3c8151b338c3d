"""Producers across restarts: Kafka's snapshot file, pylog's companion, expiry, aborted ones."""

from __future__ import annotations

import itertools
import struct

import pytest
from crc32c import crc32c

from pylog.errors import OutOfOrderSequenceNumber, UnknownProducerId
from pylog.model import LeaderEpoch, Offset
from pylog.records.batch import iter_headers
from pylog.records.builder import ControlType, encode_batch, encode_control_batch
from pylog_broker.config import BrokerConfig, TopicConfig
from pylog_broker.storage.cleaner.cleaner import LogCleaner
from pylog_broker.storage.indexes.txn_index import AbortedTransaction, decode_entries, encode_entry
from pylog_broker.storage.log.log import Log
from pylog_broker.storage.log.validator import INTERNAL, Origin
from pylog_broker.storage.producers.producer_entry import pack, unpack
from pylog_broker.storage.producers.producer_snapshot import (
    BadSnapshot,
    SnapshotRow,
    decode_companion,
    decode_snapshot,
    encode_companion,
    encode_snapshot,
    restore,
)
from pylog_broker.storage.producers.producer_state import (
    AppendedBatch,
    ProducerEntry,
    ProducerStates,
)
from pylog_broker.storage.recovery.recovery import LastStop
from tests.fakes.crashing_files import Crash, CrashingFiles
from tests.fakes.logs import DIRECTORY, WALL_MS, batch_of, open_log, read_all
from tests.fakes.memory_files import MemoryFiles

EPOCH = LeaderEpoch(0)
FIVE = tuple(AppendedBatch(n * 2, n * 2 + 1, n * 2, n * 2 + 1, 100 + n) for n in range(5))
ENTRIES = {
    7: ProducerEntry(3, FIVE, -1, 104, -1, 55),
    8: ProducerEntry(0, (), -1, 9, 4, 56),
    9: ProducerEntry(1, (AppendedBatch(2**31 - 1, 0, 40, 41, 200),), 40, 200, -1, 57),
}
PACKED = {pid: pack(entry) for pid, entry in ENTRIES.items()}


def put(log: Log, sequence: int, *, pid: int = 1, count: int = 1) -> bool:
    """Append a batch; whether it was a duplicate."""
    batch = batch_of(*[b"v" * 50] * count, producer=(pid, 0, sequence))
    return log.append_as_leader(batch, leader_epoch=EPOCH, wall_ms=WALL_MS).duplicate


def snapshots(files: MemoryFiles) -> list[int]:
    return [int(name[:20]) for name in files.listdir(DIRECTORY) if name.endswith(".snapshot")]


def test_the_file_is_kafkas() -> None:
    body = struct.pack(">i", 1) + struct.pack(">qhiqiqiq", 7, 3, 9, 9, 1, 104, -1, -1)
    expected = struct.pack(">hI", 1, crc32c(body)) + body
    assert encode_snapshot({7: PACKED[7]}) == expected
    assert encode_snapshot({}) == struct.pack(">hIi", 1, crc32c(bytes(4)), 0)
    assert decode_snapshot(expected) == [SnapshotRow(7, 3, 9, 9, 1, 104, -1, -1)]


def test_snapshot_and_companion_together_keep_everything() -> None:
    snapshot, companion = encode_snapshot(PACKED), encode_companion(PACKED, forgot=False)
    assert restore(snapshot, companion) == (PACKED, False)
    assert {pid: unpack(packed) for pid, packed in PACKED.items()} == ENTRIES
    for damaged in (None, companion[:-1]):
        packed, forgot = restore(snapshot, damaged)
        assert forgot
        assert unpack(packed[7]) == ProducerEntry(3, FIVE[-1:], -1, 104, -1, -1)
        assert unpack(packed[9]).batches == ENTRIES[9].batches  # the first sequence wraps


def test_a_companion_of_another_moment_tells_only_when_a_producer_was_heard_of() -> None:
    older = {7: pack(ProducerEntry(3, FIVE[:4], seen_ms=54))}
    packed, _ = restore(encode_snapshot(PACKED), encode_companion(older, forgot=False))
    assert unpack(packed[7]) == ProducerEntry(3, FIVE[-1:], -1, 104, -1, 54)
    assert unpack(packed[8]).seen_ms == -1


def test_a_companion_says_what_it_holds() -> None:
    found, forgot = decode_companion(encode_companion(PACKED, forgot=True))
    assert forgot
    assert found == {pid: (entry.seen_ms, entry.batches) for pid, entry in ENTRIES.items()}


@pytest.mark.parametrize("cut", [0, 5, 9, 30, 60])
def test_damaged_files_are_named(cut: int) -> None:
    with pytest.raises(BadSnapshot):
        decode_snapshot(encode_snapshot(PACKED)[:cut])
    with pytest.raises(BadSnapshot):
        decode_companion(encode_companion(PACKED, forgot=True)[:cut])
    rotten = bytearray(encode_snapshot(PACKED))
    rotten[cut] ^= 4
    with pytest.raises(BadSnapshot):
        decode_snapshot(bytes(rotten))


@pytest.mark.parametrize("clean", [True, False])
def test_all_five_batches_are_known_after_a_restart(clean: bool) -> None:
    files = MemoryFiles()
    log = open_log(files, config=TopicConfig(segment_bytes=300))
    for sequence in range(8):
        put(log, sequence)
    log.flush()
    log.close(clean=clean)
    files.kill()
    stop = LastStop.clean({s.base_offset: s.facts for s in log.segments})
    again = open_log(files, last_stop=stop if clean else LastStop(8, 8))
    assert again.recovery.batches <= (0 if clean else 2)
    assert again.log_end_offset == 8
    assert [put(again, sequence) for sequence in range(3, 9)] == [True] * 5 + [False]
    with pytest.raises(OutOfOrderSequenceNumber):
        put(again, 1)


def test_snapshots_are_taken_where_kafka_takes_them() -> None:
    files = MemoryFiles()
    log = open_log(files, config=TopicConfig(segment_bytes=300))
    for sequence in range(6):
        put(log, sequence)
    bases = [segment.base_offset for segment in log.segments]
    assert snapshots(files) == bases[1:]
    log.close(clean=True)
    assert snapshots(files) == [*bases[1:], 6]
    again = open_log(files, last_stop=LastStop.clean())
    again.truncate_to(Offset(bases[1] + 1))
    assert snapshots(files) == [bases[1]]
    entry = again.producers.get(1)
    assert entry is not None
    assert entry.batches[-1].last_sequence == bases[1]
    again.truncate_fully_and_start_at(Offset(90))
    assert snapshots(files) == []
    assert len(again.producers) == 0


@pytest.mark.parametrize("data", [b"", b"\0" * 40, b"\xff" * 10], ids=["empty", "zeros", "noise"])
def test_a_snapshot_that_makes_no_sense_is_passed_over(data: bytes) -> None:
    files = MemoryFiles()
    log = open_log(files, config=TopicConfig(segment_bytes=300))
    for sequence in range(6):
        put(log, sequence)
    log.close(clean=True)
    for name in files.listdir(DIRECTORY):
        if name.endswith((".snapshot", ".producers")):
            files.names[f"{DIRECTORY}/{name}"].data[:] = data
    again = open_log(files, last_stop=LastStop(6, 6))
    assert [put(again, sequence) for sequence in (1, 5, 6)] == [True, True, False]


def test_a_follower_that_rolls_within_one_fetch_takes_true_snapshots() -> None:
    files = MemoryFiles()
    log = open_log(files, config=TopicConfig(segment_bytes=300))
    batches = [batch_of(b"v" * 50, producer=(1, 0, n), base_offset=n, epoch=0) for n in range(6)]
    log.append_as_follower(b"".join(batches))
    for base in snapshots(files):
        rows = decode_snapshot(files.read_all(f"{DIRECTORY}/{base:020d}.snapshot"))
        assert rows[0].last_offset == base - 1


def test_idle_producers_are_forgotten_by_when_they_were_heard_of() -> None:
    files = MemoryFiles()
    log = open_log(files)
    old = batch_of(b"v", producer=(1, 0, 0), timestamps=5)
    log.append_as_leader(old, leader_epoch=EPOCH, wall_ms=WALL_MS)
    assert log.expire_producers(WALL_MS + 99, 100) == 0
    assert log.expire_producers(WALL_MS + 100, 100) == 1
    with pytest.raises(UnknownProducerId, match=r"producer\.id\.expiration\.ms"):
        put(log, 77)  # whatever it was: what stood before it cannot be told any more
    log.close(clean=True)
    facts = {segment.base_offset: segment.facts for segment in log.segments}
    again = open_log(files, last_stop=LastStop.clean(facts))
    with pytest.raises(UnknownProducerId):
        put(again, 1)
    assert not put(again, 0)


def test_no_room_for_a_snapshot_is_no_error() -> None:
    files = MemoryFiles()
    log = open_log(files)
    put(log, 0)
    files.fail("open", ".snapshot", 28)
    log.roll(WALL_MS)
    assert snapshots(files) == []
    assert [put(log, 0), put(log, 1)] == [True, False]


# ---- aborted transactions -----------------------------------------------------------------------


def transaction(log: Log, pid: int, sequence: int, end: ControlType | None) -> None:
    batch = batch_of(b"t", producer=(pid, 0, sequence), transactional=True)
    log.append_as_leader(
        batch, leader_epoch=EPOCH, wall_ms=WALL_MS, origin=Origin(transaction_verified=True)
    )
    if end is not None:
        marker = encode_control_batch(
            end, producer_id=pid, producer_epoch=0, coordinator_epoch=6, timestamp_ms=WALL_MS
        )
        log.append_as_leader(marker, leader_epoch=EPOCH, wall_ms=WALL_MS, origin=INTERNAL)


def test_aborted_transactions_are_indexed_and_rebuilt() -> None:
    files = MemoryFiles()
    log = open_log(files)
    transaction(log, 1, 0, None)  # 0, open
    transaction(log, 2, 0, ControlType.ABORT)  # 1, marker 2
    transaction(log, 3, 0, ControlType.COMMIT)  # 3, marker 4
    log.roll(WALL_MS)
    transaction(log, 1, 1, ControlType.ABORT)  # 5, marker 6
    transaction(log, 2, 1, ControlType.ABORT)  # 7, marker 8
    first, second, third = (
        AbortedTransaction(2, 1, 2, 0),
        AbortedTransaction(1, 0, 6, 7),
        AbortedTransaction(2, 7, 8, 9),
    )
    assert log.aborted_transactions(0, 9) == [first, second, third]
    assert log.aborted_transactions(3, 7) == [second]
    entry = log.producers.get(1)
    assert entry is not None
    assert entry.coordinator_epoch == 6
    path = f"{DIRECTORY}/{5:020d}.txnindex"
    assert files.read_all(path) == encode_entry(second) + encode_entry(third)
    assert decode_entries(files.read_all(path), 5) == [second, third]
    log.close(clean=False)
    files.names[path].data[:] = b"garbage"
    again = open_log(files)
    assert again.aborted_transactions(0, 9) == [first, second, third]
    again.truncate_to(Offset(8))
    assert again.aborted_transactions(0, 9) == [first, second]
    assert again.last_stable_offset(Offset(8)) == 7


def test_batches_that_a_cleaner_took_are_still_known_after_a_crash() -> None:
    """B-T16: a start reads what is left in the log, and asks the snapshots for the rest."""
    files = MemoryFiles()
    config = TopicConfig(cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.01)
    log = open_log(files, config=config)
    for sequence in range(3):
        batch = encode_batch([b"v"], keys=[b"same"], producer_id=1, producer_epoch=0,
                             base_sequence=sequence)  # fmt: skip
        log.append_as_leader(batch, leader_epoch=EPOCH, wall_ms=WALL_MS)
    log.roll(WALL_MS)
    batch = encode_batch([b"v"], keys=[b"other"])
    log.append_as_leader(batch, leader_epoch=EPOCH, wall_ms=WALL_MS)
    known = log.producers.get(1)
    cleaner = LogCleaner(
        files, "/data", {log.topic_partition: log}, BrokerConfig(),
        save_recovery_points=lambda: None,
        random_bytes=bytes, remove_later=lambda _log, _paths: None,
    )  # fmt: skip
    task = cleaner.next_task(WALL_MS, {log.topic_partition: log.log_end_offset})
    assert task is not None
    task.run()
    while cleaner.on_ran(task):
        task.run()
    assert [header.base_offset for _, header in iter_headers(read_all(log))] == [2, 3]
    files.kill()
    again = open_log(files, config=config, last_stop=LastStop())
    after = again.producers.get(1)
    assert known is not None
    assert after is not None
    assert after.batches == known.batches


def test_a_snapshot_that_does_not_agree_with_the_log_is_not_believed() -> None:
    mine = ProducerStates({7: ProducerEntry(3, FIVE[3:]), 8: ProducerEntry(0, FIVE[:1])})
    mine.learn(
        ProducerStates(
            {
                7: ProducerEntry(3, FIVE),
                8: ProducerEntry(0, FIVE[:2]),
                9: ProducerEntry(0, FIVE),
            }
        )
    )
    assert mine.unpacked() == {7: ProducerEntry(3, FIVE), 8: ProducerEntry(0, FIVE[:1])}


def test_a_snapshot_that_knows_less_takes_nothing_away() -> None:
    """Kafka's knows one batch of each producer, and so does one with a torn companion."""
    mine = ProducerStates({7: ProducerEntry(3, FIVE, seen_ms=5)})
    mine.learn(ProducerStates({7: ProducerEntry(3, FIVE[4:])}))
    assert mine.unpacked() == {7: ProducerEntry(3, FIVE, seen_ms=5)}


def test_what_only_a_log_and_only_a_snapshot_know_is_put_together() -> None:
    """The log has the first and the last of the newest five, the snapshot those from the second."""
    mine = ProducerStates({7: ProducerEntry(3, (FIVE[0], FIVE[4]))})
    mine.learn(ProducerStates({7: ProducerEntry(3, FIVE[1:], seen_ms=8)}))
    assert mine.unpacked() == {7: ProducerEntry(3, FIVE, seen_ms=8)}


@pytest.mark.parametrize("torn", [False, True], ids=["whole", "torn"])
def test_a_start_that_is_cut_short_anywhere_forgets_no_batch(torn: bool) -> None:
    """Twice, after a crash that left the companions whole or torn."""
    config = TopicConfig(segment_bytes=300)
    for operation in itertools.count():
        files = CrashingFiles()
        log = open_log(files, config=config)
        for sequence in range(8):
            put(log, sequence)
        files.kill()
        for name in files.listdir(DIRECTORY) if torn else ():
            if name.endswith(".producers"):
                del files.names[f"{DIRECTORY}/{name}"].data[20:]
        crashes = 0
        for _ in range(2):
            files.countdown = operation
            try:
                open_log(files, config=config)
            except Crash:
                crashes += 1
            files.kill()
        files.countdown = None
        again = open_log(files, config=config)
        assert [put(again, sequence) for sequence in range(3, 8)] == [True] * 5, operation
        if not crashes:
            break
    assert (operation > 3) is torn  # where all is there nothing is written
