"""Blocks out of files: whole, checked, below the bound, and never after the broker's word."""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from pylog.client.ranges import local_files
from pylog.client.ranges.local_files import REPORT, Aborted, LocalRead, OpenFile
from pylog.records.batch import CRC_START, HEADER_SIZE, Buffer, iter_headers
from pylog.records.builder import encode_batch
from pylog.records.reader import iter_records


def batch(offset: int, *values: bytes, producer: int = -1) -> bytes:
    return encode_batch(
        list(values), base_offset=offset, timestamps=7, producer_id=producer,
        producer_epoch=0 if producer >= 0 else -1, base_sequence=0 if producer >= 0 else -1,
        transactional=producer >= 0,
    )  # fmt: skip


def batches(count: int, first: int = 0, size: int = 100) -> list[bytes]:
    """Batches of two records each."""
    return [batch(first + 2 * n, b"%d" % n + b"v" * size, b"w") for n in range(count)]


class Files:
    """Files on disk, and the broker's end of a read of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.number = 0
        self.door, self.connection = socket.socketpair()

    def file(self, *parts: bytes, before: bytes = b"", behind: bytes = b"") -> OpenFile:
        self.number += 1
        path = self.folder / str(self.number)
        data = b"".join(parts)
        path.write_bytes(before + data + behind)
        descriptor = os.open(path, os.O_RDONLY)
        return OpenFile(descriptor, len(before), len(before) + len(data))

    def read(
        self,
        files: Sequence[OpenFile],
        position: int,
        end: int,
        aborted: Sequence[Aborted] = (),
    ) -> LocalRead:
        return LocalRead(self.connection, files, position, end, aborted)


@pytest.fixture
def files(tmp_path: Path) -> Iterator[Files]:
    files = Files(tmp_path)
    yield files
    files.door.close()
    files.connection.close()


def is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def blocks(read: LocalRead) -> list[Buffer]:
    return list(iter(read.next_block, None))


def offsets(data: Buffer, start: int = 0) -> list[int]:
    return [record.offset for record in iter_records(data, "t", 0, from_offset=start)]


def test_a_range_over_several_files(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_files, "BLOCK_BYTES", 700)
    given = [
        files.file(*batches(10), before=b"not for us", behind=b"nor this"),
        files.file(*batches(5, first=24)),  # compaction left a gap
    ]
    read = files.read(given, 5, 40)
    positions, found = [], []
    while (block := read.next_block()) is not None:
        assert len(block) <= 700
        found += offsets(block, 5)
        positions.append(read.position)
    assert found == [*range(5, 20), *range(24, 34)]
    assert positions == sorted(positions)
    assert (read.position, read.fault, read.next_block()) == (40, "", None)
    assert not any(is_open(file.descriptor) for file in given)
    # The batches before the range do not count.
    assert read.report() == REPORT.pack(read.bytes_read, 0)
    assert read.bytes_read == sum(len(each) for each in [*batches(10)[2:], *batches(5, first=24)])


@pytest.mark.parametrize("seed", range(20))
def test_blocks_of_any_size_are_the_same_bytes(
    files: Files, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(local_files, "BLOCK_BYTES", rng.choice([HEADER_SIZE, 100, 333, 5_000]))
    all_batches: list[bytes] = []
    given, offset = [], 0
    for _ in range(rng.randrange(1, 4)):
        here = []
        for _ in range(rng.randrange(1, 9)):
            values = [b"v" * rng.randrange(900) for _ in range(rng.randrange(1, 4))]
            here.append(batch(offset, *values))
            offset += len(values) + rng.choice([0, 0, 3])
        given.append(files.file(*here, behind=rng.randbytes(rng.randrange(99))))
        all_batches += here
    read = files.read(given, 0, offset)
    found = b"".join(bytes(block) for block in blocks(read))
    assert (found, read.fault, read.position) == (b"".join(all_batches), "", offset)


def test_a_batch_that_is_larger_than_a_block(files: Files) -> None:
    large = batch(0, b"v" * (local_files.BLOCK_BYTES + 7))
    read = files.read([files.file(large, *batches(2, first=1))], 0, 5)
    assert [bytes(block) for block in blocks(read)] == [large, b"".join(batches(2, first=1))]


def test_aborted_transactions_are_left_out(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever blocks begin: in the transaction, or behind it."""
    parts = [batch(n, b"v" * 50, producer=n % 2 + 1) for n in range(12)]
    aborted = [Aborted(1, 2, 6), Aborted(2, 9, 11), Aborted(2, 1, 1)]
    expected = [0, 3, 5, 7, 8, 10]
    for size in (HEADER_SIZE, 250, 5_000):
        monkeypatch.setattr(local_files, "BLOCK_BYTES", size)
        # Where it ends is what the markers say; none are in the files, so that ends count alone.
        read = files.read([files.file(*parts)], 0, 12, aborted)
        found = [offset for block in blocks(read) for offset in offsets(block)]
        if size == HEADER_SIZE:  # each batch is a block
            assert found == expected
        assert set(found) <= set(expected)
    read = files.read([files.file(*parts)], 7, 12, aborted)
    monkeypatch.setattr(local_files, "BLOCK_BYTES", HEADER_SIZE)
    assert [o for block in blocks(read) for o in offsets(block)] == [7, 8, 10]


def test_nothing_is_given_after_the_brokers_word(files: Files) -> None:
    given = [files.file(*batches(3)), files.file(*batches(3, first=6))]
    read = files.read(given, 0, 12)
    assert read.next_block() is not None
    files.door.send(b"\x00")
    assert read.next_block() is None
    assert (read.position, read.fault, read.is_damaged) == (6, "over", False)
    assert not any(is_open(file.descriptor) for file in given)


def test_nothing_is_given_after_the_broker_has_gone(files: Files) -> None:
    read = files.read([files.file(*batches(3))], 0, 6)
    files.door.close()
    assert (read.next_block(), read.fault, read.position) == (None, "over", 0)


def test_a_file_that_was_truncated_meanwhile(files: Files) -> None:
    """The broker's word comes first, so this is damage."""
    parts = batches(5)
    file = files.file(*parts)
    os.truncate(files.folder / "1", len(parts[0]) + 20)
    read = files.read([file], 0, 10)
    assert [offsets(block) for block in blocks(read)] == [[0, 1]]
    assert (read.position, read.is_damaged) == (2, True)
    assert "no whole batch follows offset 2" in read.fault
    assert read.report() == REPORT.pack(len(parts[0]), 1)


@pytest.mark.parametrize(
    ("where", "what"),
    [
        (CRC_START + 60, "damaged"),  # a record
        (16, "damaged"),  # the magic
        (11, "damaged"),  # the length: another CRC then
        (8, "no whole batch"),  # the length: longer than the file
        (7, "damaged"),  # the offset: it does not follow
    ],
)
def test_a_rotten_batch_is_not_given(files: Files, where: int, what: str) -> None:
    parts = [bytearray(each) for each in batches(5, first=10)]
    parts[2][where] ^= 8
    read = files.read([files.file(*map(bytes, parts))], 10, 20)
    found = [offset for block in blocks(read) for offset in offsets(block)]
    # The block with it is not given at all, or what stands before it is.
    assert found in ([], [10, 11, 12, 13])
    assert read.is_damaged
    assert read.position in (10, 14)
    assert what in read.fault or "damaged" in read.fault


def test_every_broken_byte_is_noticed_or_changes_no_record(files: Files) -> None:
    """Offsets and epochs stand outside the CRC; those of a batch must fit to the others."""
    sound = b"".join(batches(3, first=10, size=1))
    rng = random.Random(4)
    for where in range(len(sound)):
        data = bytearray(sound)
        data[where] ^= 1 << rng.randrange(8)
        read = files.read([files.file(bytes(data))], 10, 16)
        got = b"".join(bytes(block) for block in blocks(read))
        at = where - max(p for p, _ in iter_headers(sound) if p <= where)
        if not read.is_damaged and at >= 16:
            raise AssertionError(f"byte {where} is {at} of its batch, and nobody noticed")
        assert len(got) <= len(sound)


def test_the_loop_closes_files_of_a_reader_that_rests(files: Files) -> None:
    given = [files.file(*batches(3))]
    read = files.read(given, 0, 6)
    assert read.stop()
    assert not is_open(given[0].descriptor)
    assert (read.next_block(), read.fault, read.position) == (None, "over", 0)
    busy = files.read([files.file(*batches(3))], 0, 6)
    with busy._lock:
        assert not busy.stop()
    assert busy.next_block() is not None
    busy.close()
    assert busy.next_block() is None
    assert busy.fault == "closed"


def test_a_dropped_read_closes_its_files(files: Files) -> None:
    given = [files.file(*batches(3))]
    read = files.read(given, 0, 6)
    del read
    assert not is_open(given[0].descriptor)
